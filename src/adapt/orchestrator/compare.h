/* Finds slow components: compares the levels of some rows with the healthy levels, each component with
 * itself, by one set of thresholds. Uneven stages and shares of the batch are therefore not faults. Neither
 * is a waiting rank: an op begins when its input has arrived, and only its own time counts.
 *
 * - device: its ops take over 1.1 times as long, one of each kind together, and exceed their usual variation.
 *   Load, the common slowdown of all devices of the job, is removed first. For a device that is measured
 *   alone, load is what the known work of iterations explains.
 *
 * - link: its messages are later by more than a tenth of a typical op (the minimum that can cost a pipeline a
 *   tenth of its time), more than the clock error, and more than a tenth of their own time.
 *
 * - sum of a stage over the replicas: the same, from the arrival of its last replica.
 *
 * - stage: not a fault. Its ops have more work than before, relative to other ranks, and take as long as that
 *   work explains. */
#pragma once

#include "adapt/orchestrator/history.h"

#define SL_SLOW_MIN 1.1
#define SL_STILL_SLOW 0.6     /* an existing incident stays slow while it exceeds this share of a threshold */
#define SL_AS_LATE 0.75       /* of the longest: delays above may have one cause, a card */
#define SL_ITERATION_MIN 0.10 /* iterations are slow from so much on */

typedef enum sl_slow_kind { SL_SLOW_DEVICE, SL_SLOW_LINK, SL_SLOW_SUM, SL_SLOW_STAGE } sl_slow_kind;

typedef struct sl_slow {
    sl_slow_kind kind;
    int replica;         /* sum: -1 */
    int rank;            /* device, stage */
    int from, to;        /* link, one direction */
    int stage;           /* sum */
    double now, healthy; /* ns of one op of each kind, a message, or a sum; for usual work */
    double excess;       /* ns of all its ops or messages per iteration */
} sl_slow;

typedef struct sl_slowness {
    sl_slow *slow; /* devices, then links, then sums, then stages; each by replica and number */
    size_t count, room;
    unsigned char *known; /* [replicas * ranks] devices with enough measurements for a comparison */
    size_t known_room;
    int devices, slow_devices, links, slow_links; /* of the comparable ones */
    double common;                                /* common factor of all devices; 1: none */
    double op;                                    /* a typical op, ns */
} sl_slowness;

/** Compares rows[count]. `lately`: use only this many of the latest rows with measurements per component, and
 * trust a change by half in two of the last three before the median; 0: all rows. Fills *comparison, whose
 * array is reused. SL_ENOMEM. */
sl_status sl_compare(sl_history *series, const int *rows, int count, int lately, sl_slowness *comparison);
void sl_slowness_free(sl_slowness *comparison);

const sl_slow *sl_comparison_device(const sl_slowness *comparison, int replica, int rank);
