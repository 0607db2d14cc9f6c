/* A plan: a schedule for a problem with its timing and a proof of how good it is. `plan`, `simulate`, the
 * trainer and the adaptation all make plans here. */
#pragma once

#include "plan/lower/program.h"
#include "plan/timing/timeline.h"
#include <stdatomic.h>
#include <stdio.h>

struct sl_attribution;
struct sl_jitter;

typedef struct sl_plan {
    char schedule[32]; /* family's name, or "file" */
    char why[240];     /* auto: what else was tried; else empty */
    sl_order order;
    sl_program program;
    sl_timeline timeline;
    sl_time makespan, span, ideal, bound;
    sl_time dependency_loss, blocking_loss; /* JSON "lost" */
    double *peak_memory;                    /* [ranks] with what lies there all the time */
    int *peak_host;                         /* [ranks] activations in host memory */
    int memory_ok;
    int *warmup;                        /* [ranks] */
    sl_time solve;                      /* time spent planning */
    struct sl_jitter *jitter;           /* NULL unless asked for: sl_plan_add_jitter */
    struct sl_attribution *attribution; /* the same: sl_plan_add_attribution */
} sl_plan;

/** Plans with a family's name, "optimal" (a second of search on this thread) or "auto" (best of all families
 * within the memory limit: shortest makespan, then least peak memory, then table order). SL_EINVAL: unknown
 * name (with the known ones); SL_ENONE: no schedule within the memory limit. Free with sl_plan_free, also on
 * error. */
sl_status sl_plan_make(const sl_problem *problem, const char *schedule, sl_plan *plan);
/** The makespan alone of a family's plan, or auto's: in half of the time. Errors as sl_plan_make. */
sl_status sl_plan_time(const sl_problem *problem, const char *schedule, sl_time *time);

typedef struct sl_plan_options {
    const char *schedule;   /* a family's name, "auto" or "optimal" (search, whatever the families say) */
    double time_limit;      /* s for the search; 0: families only. It ends earlier when the plan is proven */
    uint64_t seed;          /* same seed, same rounds of search */
    int threads;            /* 0: as many as processors, at most 8 */
    int exact;              /* ask CP-SAT where it is present */
    const atomic_int *stop; /* nonzero: the search ends as if its time were over. NULL: nobody says so */
} sl_plan_options;

/** Plans with a search: families first, then local search from the best of them, then the exact solver. The
 * plan's bound is the best that any of them proved. Errors as sl_plan_make. */
sl_status sl_plan_search(const sl_problem *problem, const sl_plan_options *options, sl_plan *plan);

/** All of it: where stages are cut from layers, `problem` first gets its cut, in half of the time; then
 * sl_plan_search, and the best bound that the project can prove. Errors as sl_plan_make. */
sl_status sl_plan_problem(sl_problem *problem, const sl_plan_options *options, sl_plan *plan);

/** The plan of a given order, which is checked; over the memory limit only sets memory_ok to 0. */
sl_status sl_plan_of_order(const sl_problem *problem, const sl_order *order, const char *name, sl_plan *plan);
void sl_plan_free(sl_plan *plan);

/** Raises the plan's bound by all that the project can prove on its own (deep, plan/bound/bound.h). */
sl_status sl_plan_prove(const sl_problem *problem, sl_plan *plan);

/** (makespan - bound) / bound: 0 is proven optimal. 0 where the bound is 0. Never fails. */
double sl_plan_gap(const sl_plan *plan);

/** sl_slack_tolerance of the link between ranks `link` and `link` + 1 under this plan, in ns; tB stands for
 * tI where the plan runs full backwards. Never fails. */
sl_time sl_plan_tolerance(const sl_problem *problem, const sl_plan *plan, int link);

/** Adds the distribution of the makespan over `draws` draws of the links' jitter (plan/timing/jitter.h). */
sl_status sl_plan_add_jitter(const sl_problem *problem, sl_plan *plan, int draws, uint64_t seed);
/** Adds where the time goes and what it costs (plan/search/attribute.h). */
sl_status sl_plan_add_attribution(const sl_problem *problem, sl_plan *plan);

/** One JSON object, format slackline-plan-1 (design.md, Plan), with what was added. */
sl_status sl_plan_write_json(const sl_problem *problem, const sl_plan *plan, FILE *out);
