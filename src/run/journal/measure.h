/* From the records that the ranks wrote during one iteration to a measured timeline and to statistics of
 * arrivals. */
#pragma once

#include "adapt/orchestrator/measured.h"
#include "notice/record/offset.h"
#include "notice/record/record.h"
#include "plan/pipeline/problem.h"
#include "plan/timing/timeline.h"

/** The timeline of `iteration` from the records of all ranks, relative to `begin` on rank 0's clock; records
 * of other iterations are skipped; those of a rank lie in the order in which it wrote them. `clock[ranks]`:
 * each rank's clock against rank 0's. Updates (as gathers: what a
 * stage's first F waits for), reductions and moves become collectives. Spans by rank, then in the
 * rank's order. SL_EPEER when the records do not hold every op of the problem exactly once. Free with
 * sl_timeline_free. */
sl_status sl_measure_timeline(const sl_problem *problem, const sl_record *records, int count, int iteration,
                              sl_time begin, const sl_offset *clock, sl_timeline *timeline);

/** Into base[count], what the first of several tensor ranks wrote of an iteration, goes what another wrote of
 * the same ops, transfers, moves, updates and reductions, both in one clock: of each the latest start, end
 * and arrival. So an op begins when all have begun it and lasts until the last has ended it, and ops of a
 * rank never overlap. SL_ENOMEM; SL_EPEER when `other` holds what `base` does not. */
sl_status sl_measure_merge(sl_record *base, int count, const sl_record *other, int others);

/** The time that each stage's reduction takes, from the timelines of all replicas into problem.reduce[stage]
 * of each measurement: from when the last replica has come to when the last one is done, so that waiting for
 * a slow replica does not count. */
void sl_measure_reductions(const sl_timeline *timeline, int replicas, sl_measured *const *measured);

/** The two directions of links between different clocks become equal in `measured` where the evidence does
 * not tell them apart. */
void sl_measure_level_directions(const sl_offset *clock, sl_problem *measured);

/* How late messages arrived against what the emulated link asked for. */
typedef struct sl_arrivals {
    float *error_us; /* of every arrival of the run, in order */
    size_t count, capacity;
} sl_arrivals;

/** Adds the arrivals among the records; *worst: the latest of them. */
sl_status sl_arrivals_add(sl_arrivals *arrivals, const sl_record *records, int count, int iteration,
                          sl_time *worst);
/** The error in us that a share of the arrivals (0.5, 0.99) does not exceed; 0 without arrivals. Sorts. */
double sl_arrivals_percentile(sl_arrivals *arrivals, double share);
void sl_arrivals_free(sl_arrivals *arrivals);
