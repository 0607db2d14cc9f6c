/* Change points of a series of iteration times: where fail-slows begin (onset) and end (relief).
 *
 * bocd-v runs online: logarithms of samples, relative to the level and in units of a robust running scale, go
 * through the recursion of run_length.h, with single samples clipped so that none counts alone. When the most
 * probable run collapses to a recent start, the medians before and after it are compared: a change counts
 * from 10% (Falcon, section 4.2), once enough samples support it. A level that returns within three samples,
 * as after a checkpoint, an evaluation or a restart, is not a change; nor is the settling after a start.
 *
 * bocd is the published batch algorithm without that check: series centered and scaled by its standard
 * deviation, Student-t with prior (0, 1, 1, 1), hazard 1/100, best segmentation (the default configuration of
 * van den Burg and Williams 2020). window is Falcon's baseline: the median of the last samples against the
 * median of the level. */
#pragma once

#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef enum sl_change_kind { SL_CHANGE_ONSET, SL_CHANGE_RELIEF, SL_CHANGE_ANY } sl_change_kind;
typedef enum sl_change_algorithm {
    SL_CHANGE_BOCD_V,
    SL_CHANGE_WINDOW,
    SL_CHANGE_BOCD /* batch only */
} sl_change_algorithm;

typedef struct sl_change {
    int64_t index; /* 0-based: the first sample of the new level */
    int64_t seen;  /* the sample at which it was detected */
    sl_change_kind kind;
    double before, after; /* the levels, in the samples' unit: medians; means of the segments for bocd */
} sl_change;

/** A smaller relative difference is jitter. */
#define SL_CHANGE_MIN 0.10

typedef struct sl_detector sl_detector;

/** An online detector (bocd-v or window). Its memory does not grow. SL_ENOMEM. */
sl_status sl_detector_open(sl_change_algorithm algorithm, sl_detector **detector);
void sl_detector_close(sl_detector *detector);

/** Adds one sample, finite and not negative. Returns 1 when it reveals a change, described in *change. Never
 * fails. */
int sl_detector_add(sl_detector *detector, double sample, sl_change *change);

/** The current level; 0 before the first samples. */
double sl_detector_level(const sl_detector *detector);

/** bocd over the whole series: the changes in order, *changes of them, free with sl_free. Exact up to 5,000
 * samples; above that run lengths are exact to 1/64. SL_ENOMEM. */
sl_status sl_change_bocd(const double *sample, size_t samples, sl_change **change, size_t *changes);
