/* The value that plans of a problem minimize. Makespan: from the first forward of an iteration to its last op
 * or reduction. Span: the longest time of a rank from its first op to its last one (Zero Bubble's cost):
 * iterations follow each other so on ranks that wait for nobody in between. Period: the time from iteration
 * to iteration when the order repeats under the problem's synchronization (plan/timing/steady_period.h). */
#pragma once

#include "plan/pipeline/order.h"
#include "plan/timing/rerun.h"

/** Of a replayed program, in ns. SL_EINVAL: it has no period; SL_ENOMEM. */
sl_status sl_objective_value(const sl_problem *problem, const sl_program *program,
                             const sl_timeline *timeline, sl_time *value);
/** Of an order, lowered and replayed in the problem's own regime. Errors as both. */
sl_status sl_objective_of_order(const sl_problem *problem, const sl_order *order, sl_time *value);

/* Values of a program that a search changes in place, one after the other: only what a change can affect is
 * timed again if that is possible (rerun.h). A period is estimated, never too short: by two iterations from
 * the instants at which the last kept program repeats. */
typedef struct sl_evaluator {
    const sl_problem *problem;
    sl_replayer *replayer;
    sl_rerun *rerun; /* NULL: every run is a replay in full */
    int64_t cost;
    sl_time *instant, *middle, *now; /* period: [sl_replayer_instants] of the kept program; after the first
                                        and second iteration of the last run */
} sl_evaluator;

/* Of a run. */
typedef struct sl_evaluation {
    sl_time value;               /* SL_TIME_NEVER: deadlock */
    const sl_timeline *timeline; /* the replayer's; NULL after a deadlock */
    int rank;                    /* whose last op ends what the value counts; -1: that of the last op */
    const sl_time *begin; /* [ranks] when they were free, if another iteration comes before; else NULL */
} sl_evaluation;

/** The replayer must outlive it. SL_ENOMEM. Free with sl_evaluator_close, also on error. */
sl_status sl_evaluator_open(const sl_problem *problem, sl_replayer *replayer, sl_evaluator *evaluator);
/** In full. It must be kept, if it has a value. */
void sl_evaluator_run(sl_evaluator *evaluator, sl_evaluation *evaluation);
/** After a kept run: steps `first` to `last` of the rank now come in another order. Once for each rank before
 * the next rerun. */
void sl_evaluator_change(sl_evaluator *evaluator, int rank, int first, int last);
/** Of the changed program. A value above `limit` may be given as SL_TIME_NEVER. */
void sl_evaluator_rerun(sl_evaluator *evaluator, sl_time limit, sl_evaluation *evaluation);
/** Keeps the program of the last run. */
void sl_evaluator_keep(sl_evaluator *evaluator);
/** The caller takes its changes back, whether there was a rerun or not. */
void sl_evaluator_undo(sl_evaluator *evaluator);
/** Replayed ops since the last call. */
int64_t sl_evaluator_cost(sl_evaluator *evaluator);
void sl_evaluator_close(sl_evaluator *evaluator);
