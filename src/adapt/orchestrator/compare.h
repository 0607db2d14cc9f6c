/* Which components are slow: the levels of some rows against what is healthy, each component against itself,
 * by one set of thresholds. Uneven stages and shares of the batch are therefore no fault. A rank that waits
 * is none either: an op begins when its input is there, and counts alone.
 *
 * - device: its ops take over 1.1 times as long, one of each kind together, and exceed their usual variation.
 *   Load is taken off first: what all devices of the job have in common. For a device that is measured alone
 *   it is what the known work of iterations explains.
 *
 * - link: its messages are later by over a tenth of a typical op, which is the least that can cost a pipeline
 *   a tenth of its time, by more than clocks may differ, and by over a tenth of their own time.
 *
 * - sum of a stage over the replicas: likewise, from the moment at which its last replica arrives.
 *
 * - stage: no fault. Its ops have more work than they had, against those of other ranks, and take as long as
 *   that work explains. */
#pragma once

#include "adapt/orchestrator/history.h"

#define SL_SLOW_MIN 1.1
#define SL_STILL_SLOW                                                                                        \
    0.6 /* of a threshold: what is an incident already is slow as long as it exceeds so much of it */
#define SL_AS_LATE 0.75         /* of the longest: delays above may have one cause, a card */
#define SL_ITERATION_MIN 0.10   /* iterations are slow from so much on */

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

typedef struct sl_slowness {
    sl_slow *slow; /* devices, then links, then sums, then stages; each by replica and number */
    size_t count, room;
    unsigned char *known; /* [replicas * ranks] of devices: enough was measured to compare them */
    size_t known_room;
    int devices, slow_devices, links, slow_links; /* of those that could be compared */
    double common;                                /* times as long as all devices take; 1: not all do */
    double op;                                    /* a typical op, ns */
} sl_slowness;

/** Rows `rows[count]`. `lately`: of each component so many of the latest rows in which it was measured, and
 * what is half as long again or shorter in two of the last three is believed before the median is; 0: all
 * rows. Fills *comparison, whose array is used again. SL_ENOMEM. */
sl_status sl_compare(sl_history *series, const int *rows, int count, int lately, sl_slowness *comparison);
void sl_comparison_free(sl_slowness *comparison);

const sl_slow *sl_comparison_device(const sl_slowness *comparison, int replica, int rank);
