/* Which components are slow: the levels of some rows against what is healthy, everything with itself, by one
 * set of thresholds. So uneven stages and shares of the batch are no fault, and a rank that waits is none: an
 * op begins when its input is there, and counts alone.
 *
 *   device  its ops take over 1.1 times as long, one of each kind together, and longer than they usually
 * vary. What all devices of the job have in common is load, and taken off first. link    its messages are
 * later by over a tenth of a typical op, which is the least that can cost a pipeline a tenth of its time, and
 * by more than clocks may be apart, and over 1.1 times their time sum     of a stage over the replicas:
 * likewise; from when its last replica has come stage   is no fault: its ops have more work than they had,
 * against those of other ranks, and take as long as that says */
#ifndef SL_ADAPT_COMPARE_H
#define SL_ADAPT_COMPARE_H

#include "adapt/orchestrator/history.h"

#define SL_SLOW_LEAST 1.1
#define SL_STILL_SLOW                                                                                        \
    0.6 /* of a threshold: what is an incident already is slow as long as it exceeds so much of it */
#define SL_ITERATION_LEAST 0.10 /* iterations are slow from so much on */

typedef enum sl_slow_kind { SL_SLOW_DEVICE, SL_SLOW_LINK, SL_SLOW_SUM, SL_SLOW_STAGE } sl_slow_kind;

typedef struct sl_slow {
    sl_slow_kind kind;
    int replica;         /* sum: -1 */
    int rank;            /* device, stage */
    int from, to;        /* link, one direction */
    int stage;           /* sum */
    double now, healthy; /* ns of one op of each kind, of a message, of a sum; of usual work */
    double excess;       /* ns of all its ops or messages of an iteration */
} sl_slow;

typedef struct sl_comparison {
    sl_slow *slow; /* devices, then links, then sums, then stages; each by replica and number */
    size_t count, room;
    int devices, slow_devices, links, slow_links; /* of those that could be compared */
    double common;                                /* times as long as all devices take; 1: not all do */
    double load; /* the same by known work alone, which `common` does not count; 0: no work is known */
    double op;   /* a typical op, ns */
} sl_comparison;

/** Rows `rows[count]`. `lately`: of each component so many of the latest rows in which it was measured, and
 * what is half as long again or shorter in two of the last three is believed before the median is; 0: all
 * rows. Fills *comparison, whose array is used again. SL_ENOMEM. */
sl_status sl_compare(sl_history *series, const int *rows, int count, int lately, sl_comparison *comparison);
void sl_comparison_free(sl_comparison *comparison);

const sl_slow *sl_comparison_device(const sl_comparison *comparison, int replica, int rank);
const sl_slow *sl_comparison_link(const sl_comparison *comparison, int replica, int from, int to);

#endif
