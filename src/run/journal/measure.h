/* Turns the records that the ranks wrote during one iteration into a measured timeline and statistics of
 * arrivals. */
#pragma once

#include "adapt/orchestrator/measured.h"
#include "notice/record/offset.h"
#include "notice/record/record.h"
#include "plan/pipeline/problem.h"
#include "plan/timing/timeline.h"

/** The timeline of `iteration` from the records of all ranks, relative to `begin` on rank 0's clock. Records
 * of other iterations are skipped; those of a rank are in the order in which it wrote them. `clock[ranks]`:
 * each rank's clock relative to rank 0's. Updates (as gathers: a stage's first F waits for them), reductions
 * and moves become collectives. Spans by rank, then in the rank's order. SL_EPEER if the records do not hold
 * every op of the problem exactly once. Free with sl_timeline_free. */
sl_status sl_measure_timeline(const sl_problem *problem, const sl_record *records, int count, int iteration,
                              sl_time begin, const sl_offset *clock, sl_timeline *timeline);

/** Merges the records `other` of a tensor rank into base[count], those of the first one, of the same
 * iteration: of the same ops, transfers, moves, updates and reductions, both in one clock, the latest start,
 * end and arrival. So an op begins when all ranks have begun it and lasts until the last has ended it, and
 * ops of a rank never overlap. SL_ENOMEM; SL_EPEER if `other` holds a record that `base` does not. */
sl_status sl_measure_merge(sl_record *base, int count, const sl_record *other, int others);

/** The time of each stage's reduction, from the timelines of all replicas, into problem.reduce[stage] of each
 * measurement: from the arrival of the last replica to the end of the last one, which excludes waiting for a
 * slow replica. */
void sl_measure_reductions(const sl_timeline *timeline, int replicas, sl_measured *const *measured);

/** Makes the two directions of links between different clocks equal in `measured` if the evidence does not
 * distinguish them. */
void sl_measure_level_directions(const sl_offset *clock, sl_problem *measured);

/* How late messages arrived, relative to the emulated link's due time. */
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
