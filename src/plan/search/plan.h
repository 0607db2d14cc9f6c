/* A plan: a schedule for a problem, with its timing and a proven bound. `plan`, `simulate`, the trainer and
 * the adaptation all make plans here. */
#pragma once

#include "plan/lower/program.h"
#include "plan/timing/timeline.h"
#include <stdatomic.h>
#include <stdio.h>

struct sl_jitter;

/* ---- the breakdown of its time (plan/search/attribute.h) ---- */

typedef struct sl_link_cost {
    int from, to;
    double cost; /* ms of makespan per ms of latency */
} sl_link_cost;

typedef struct sl_op_cost {
    int stage, kind;
    double cost; /* ms of makespan per ms of each such op (all its parts together) */
} sl_op_cost;

typedef struct sl_attribution {
    sl_time work;        /* mean over ranks */
    sl_time imbalance;   /* work of the busiest rank, minus that */
    sl_time fill;        /* the order on free links without collectives, minus the work of the busiest rank */
    sl_time collectives; /* gathers and reductions, on free links */
    sl_time dependency, blocking; /* sl_plan.dependency_loss, blocking_loss */
    int links, ops;
    sl_link_cost *link; /* directed links that carry messages, by from, then to */
    sl_op_cost *op;     /* stages and kinds of the order, by stage, then kind */
} sl_attribution;

/* ---- the plan ---- */

typedef struct sl_plan {
    char schedule[32]; /* family's name, or "file" */
    char why[240];     /* auto: the others tried; else empty */
    sl_order order;
    sl_program program;
    sl_timeline timeline;
    sl_objective objective; /* of the problem */
    sl_time value, bound;   /* its value, and a proven minimum for it */
    sl_time makespan, span, ideal;
    sl_time period;                         /* -1: only known if it is the objective */
    sl_time dependency_loss, blocking_loss; /* JSON "lost" */
    double *peak_memory;                    /* [ranks] including permanent use */
    int *peak_host;                         /* [ranks] activations in host memory */
    int memory_ok;
    int *warmup;                 /* [ranks] */
    sl_time solve;               /* time spent planning */
    struct sl_jitter *jitter;    /* NULL unless requested: sl_plan_add_jitter */
    sl_attribution *attribution; /* the same: sl_plan_add_attribution */
} sl_plan;

/** Plans with a family's name, "optimal" (a second of search on this thread) or "auto" (best of all families
 * within the memory limit: smallest value, then least peak memory, then table order). SL_EINVAL: unknown
 * name (with the known ones); SL_ENONE: no schedule within the memory limit. Free with sl_plan_free, also on
 * error. */
sl_status sl_plan_make(const sl_problem *problem, const char *schedule, sl_plan *plan);
/** Only the value of a family's plan, or auto's: in half of the time. Errors as sl_plan_make. */
sl_status sl_plan_time(const sl_problem *problem, const char *schedule, sl_time *time);

typedef struct sl_plan_options {
    const char *schedule;   /* a family's name, "auto" or "optimal" (search in any case) */
    double time_limit;      /* s for the search; 0: families only. It ends earlier if proven optimal */
    uint64_t seed;          /* the same seed gives the same rounds of search */
    int threads;            /* 0: one per processor, at most 8 */
    int exact;              /* use CP-SAT if present */
    const atomic_int *stop; /* nonzero: the search ends as if its time limit were reached; or NULL */
} sl_plan_options;

/** Plans with a search: families first, then local search from the best of them, then the exact solver. The
 * plan's bound is the best that any of them proved. Errors as sl_plan_make. */
sl_status sl_plan_search(const sl_problem *problem, const sl_plan_options *options, sl_plan *plan);

/** The full sequence: the cut of a `problem` with layers, in half of the time; then sl_plan_search, and the
 * best bound that the project can prove. Errors as sl_plan_make. */
sl_status sl_plan_problem(sl_problem *problem, const sl_plan_options *options, sl_plan *plan);

/** The plan of a given order, which is checked; exceeding the memory limit only sets memory_ok to 0. */
sl_status sl_plan_of_order(const sl_problem *problem, const sl_order *order, const char *name, sl_plan *plan);
void sl_plan_free(sl_plan *plan);

/** Raises the plan's bound as far as the project can prove by itself (deep, plan/bound/bound.h). */
sl_status sl_plan_prove(const sl_problem *problem, sl_plan *plan);

/** (value - bound) / bound: 0 is proven optimal. 0 if the bound is 0. Never fails. */
double sl_plan_gap(const sl_plan *plan);

/** sl_slack_tolerance of the link between ranks `link` and `link` + 1 under this plan, in ns; tB replaces tI
 * if the plan runs full backwards. Never fails. */
sl_time sl_plan_tolerance(const sl_problem *problem, const sl_plan *plan, int link);

/** Adds the distribution of the makespan over `draws` draws of the links' jitter (plan/timing/jitter.h). */
sl_status sl_plan_add_jitter(const sl_problem *problem, sl_plan *plan, int draws, uint64_t seed);

/** One JSON object, format slackline-plan-1 (design.md, Plan), with the added analyses. */
sl_status sl_plan_write_json(const sl_problem *problem, const sl_plan *plan, FILE *out);
