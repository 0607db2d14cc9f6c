/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: a schedule of a problem, its timing, and a bound that no schedule can beat. A planner makes them, or
 * a given order is checked and timed. An invalid index, rank or link gives zeros, and -1 for a stage, rank or
 * kind. */
#ifndef SLACKLINE_PLAN_H
#define SLACKLINE_PLAN_H

#include <slackline/problem.h>

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- planning ---- */

typedef struct slackline_planner slackline_planner;
typedef struct slackline_plan slackline_plan;

/** The name of schedule `index` (0: auto, 1: optimal, then the families); NULL after the last. */
const char *slackline_schedule_name(int index);

/** A planner for auto: at most one second of search, all processors, the exact solver if OR-tools is found.
 */
slackline_status slackline_planner_make(slackline_planner **planner);
void slackline_planner_free(slackline_planner *planner);
slackline_status slackline_planner_set_schedule(slackline_planner *planner, const char *name);
/** Seconds of search for auto and optimal, 0 to 1e6; it ends earlier if the plan is proven optimal. */
slackline_status slackline_planner_set_time_limit(slackline_planner *planner, double seconds);
/** The same seed gives the same rounds of search; their number depends on the time. */
void slackline_planner_set_seed(slackline_planner *planner, uint64_t seed);
/** 0: one per processor, at most 8. */
slackline_status slackline_planner_set_threads(slackline_planner *planner, int threads);
/** Whether to ask OR-tools CP-SAT (in a child process, slackline-solver). */
void slackline_planner_set_exact(slackline_planner *planner, int wanted);

/** From another thread or a signal handler: a running search ends as if its time limit were reached, with the
 * best plan so far. Later searches of this planner end at once. */
void slackline_planner_stop(slackline_planner *planner);

/** Makes a plan. The plan keeps a copy of what it needs of the problem. With layers it chooses the cut, too.
 * Free with slackline_plan_free. */
slackline_status slackline_planner_plan(const slackline_planner *planner, const slackline_problem *problem,
                                        slackline_plan **plan);

/* ---- given orders ---- */

typedef struct slackline_op {
    int32_t stage, microbatch;
    int32_t kind;   /* slackline_kind */
    int32_t part;   /* of the problem's parts; 0 if ops are whole */
    int32_t paired; /* F: overlapped with the B after it */
} slackline_op;

/** Checks and times an order: ops[rank][0 .. count[rank] - 1]. Exceeding the memory limit is not an error:
 * see memory_ok. */
slackline_status slackline_simulate(const slackline_problem *problem, const slackline_op *const *ops,
                                    const int *count, slackline_plan **plan);
/** The same for an order in a CSV file of PyTorch's pipelining, compute_only or compute_comms. */
slackline_status slackline_simulate_csv(const slackline_problem *problem, const char *file,
                                        slackline_plan **plan);
/** The same from `size` bytes; `name` replaces the file in errors. */
slackline_status slackline_simulate_csv_text(const slackline_problem *problem, const char *name,
                                             const char *csv, size_t size, slackline_plan **plan);

/* ---- plans ---- */

typedef struct slackline_summary {
    const char *schedule, *why; /* owned by the plan */
    int64_t makespan_ns;        /* from the first F to the last op or reduction */
    int64_t span_ns;            /* largest over ranks of last end - first start */
    int64_t ideal_ns;           /* work of the busiest rank */
    int64_t bound_ns;           /* proven: no schedule of the problem has a smaller value */
    double gap;                 /* (value - bound) / bound; 0: optimal */
    double bubble;              /* 1 - work / (ranks * makespan) */
    int64_t dependency_loss_ns; /* waiting for messages, in the decoupled regime */
    int64_t blocking_loss_ns;   /* additional loss in the problem's own regime */
    int memory_ok;
    int64_t solve_ns; /* time spent planning */
} slackline_summary;

typedef struct slackline_span {
    int32_t rank;
    slackline_op op; /* collectives have microbatch -1 */
    int64_t start_ns, end_ns;
} slackline_span;

typedef struct slackline_transfer {
    int32_t from, to; /* ranks */
    slackline_op op;  /* that produced the message */
    int64_t start_ns, end_ns, arrive_ns;
} slackline_transfer;

void slackline_plan_free(slackline_plan *plan);
void slackline_plan_summary(const slackline_plan *plan, slackline_summary *summary);
/** What the problem's plans minimize, "makespan", "span" or "period", and its value in ns: bound_ns and gap
 * are of it. */
const char *slackline_plan_objective(const slackline_plan *plan);
int64_t slackline_plan_value(const slackline_plan *plan);
/** Ops, then collectives; ops by rank in the rank's order. */
size_t slackline_plan_spans(const slackline_plan *plan);
slackline_span slackline_plan_span(const slackline_plan *plan, size_t index);
/** The indices of all spans by start time, then by rank: index[slackline_plan_spans()]. */
slackline_status slackline_plan_start_order(const slackline_plan *plan, size_t *index);
size_t slackline_plan_transfers(const slackline_plan *plan);
slackline_transfer slackline_plan_transfer(const slackline_plan *plan, size_t index);
/** The number of a rank's ops, and the op at a position of its order. */
int slackline_plan_ops(const slackline_plan *plan, int rank);
slackline_op slackline_plan_op(const slackline_plan *plan, int rank, int position);
/** Forwards before the first backward. */
int slackline_plan_warmup(const slackline_plan *plan, int rank);
double slackline_plan_peak_memory(const slackline_plan *plan, int rank);
/** Warm-up of rank `link` minus that of rank `link` + 1. */
int slackline_plan_slack(const slackline_plan *plan, int link);
/** Largest one-way delay that the link between ranks `link` and `link` + 1 absorbs, linear placement, ns. */
int64_t slackline_plan_tolerance(const slackline_plan *plan, int link);

/* ---- measurements ---- */

/** A copy of `problem` with measured values: the median time per stage and kind in `spans` (kinds that did
 * not run keep their time), the median latency and transfer time per link in `transfers`. Times may have any
 * origin. Free with slackline_problem_free. */
slackline_status slackline_measure(const slackline_problem *problem, const slackline_span *spans,
                                   size_t span_count, const slackline_transfer *transfers,
                                   size_t transfer_count, slackline_problem **measured);

/** The overhead (overhead_ms in docs/formats.md) of the program that ran these ops, those of a rank in its
 * order, and messages of one iteration: from the times between two ops of which the second waited for
 * nothing. 0: no such times. */
slackline_status slackline_measure_overhead(const slackline_problem *problem, const slackline_span *spans,
                                            size_t span_count, const slackline_transfer *transfers,
                                            size_t transfer_count, int64_t *op_ns, int64_t *message_ns);

/* ---- analyses of a plan; their results also appear in its JSON ---- */

typedef struct slackline_jitter {
    int draws;
    double mean_ns;
    int64_t least_ns, p10_ns, p50_ns, p90_ns, p99_ns, most_ns;
} slackline_jitter;

/** The distribution of the makespan with jittering delays, over 1 to 10,000,000 draws. */
slackline_status slackline_plan_jitter(slackline_plan *plan, int draws, uint64_t seed,
                                       slackline_jitter *jitter);

typedef struct slackline_losses {
    int64_t work_ns;        /* of a rank, on average; all of these sum to the makespan */
    int64_t imbalance_ns;   /* additional work of the busiest rank */
    int64_t fill_ns;        /* idle because of the order, even on free links */
    int64_t collectives_ns; /* gathers and reductions not overlapped */
    int64_t dependency_ns;  /* waiting for delayed messages */
    int64_t blocking_ns;    /* ranks blocked by their messages */
    int links, ops;         /* numbers of costs, see below */
} slackline_losses;

/** A breakdown of the makespan; O((links + stages) * ops). */
slackline_status slackline_plan_explain(slackline_plan *plan, slackline_losses *losses);
/** After slackline_plan_explain: makespan cost of an extra millisecond on link `index`, in ms. */
double slackline_plan_link_cost(const slackline_plan *plan, int index, int *from, int *to);
/** After slackline_plan_explain: makespan cost of an extra millisecond per op of a stage and kind, in ms. */
double slackline_plan_op_cost(const slackline_plan *plan, int index, int *stage, slackline_kind *kind);

/** The plan as text: "text" (a chart of 100 columns), "json", "csv", "csv-comms", "svg", "html" or "trace"
 * (docs/formats.md). *text is ended by 0 and *size (may be NULL) counts the rest; free it with
 * slackline_free. */
slackline_status slackline_plan_write(const slackline_plan *plan, const char *format, char **text,
                                      size_t *size);
/** The same to an open file, which is flushed. */
slackline_status slackline_plan_write_to(const slackline_plan *plan, const char *format, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
