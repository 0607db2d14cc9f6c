/* The effect of each change of a run: iterations before it against those after it, up to the next event. */
#pragma once

#include "plan/draw/style.h"
#include "report/read_back.h"

#define SL_GAIN_MAX 9 /* maximum of iterations in a median */

typedef struct sl_gain {
    size_t event;                         /* the first of its events */
    int since;                            /* the first iteration of the comparison before it */
    int first;                            /* the first iteration with it */
    int until;                            /* the first one with the next change, fault, onset or relief */
    int before_count, after_count, whole; /* iterations: of the medians; from `first` to `until` */
    int is_mixed;                         /* a fault, its end, an onset or a relief at the same iteration */
    double before, after;                 /* ms, medians; NaN: no such iteration */
    double gained; /* ms over all `whole` iterations, against `before`; negative: a loss */
} sl_gain;

/** Whether an event is a change that a run makes to adapt: a swap, a return, other positions or shares,
 * delegates. */
int sl_gain_is_change(const sl_run_data_event *event);
/** The first iteration with a change; its event has the decision's. The metrics show its start. */
int sl_gain_first(const sl_run_data *data, const sl_run_data_event *event);

/** One entry per iteration with changes, in order. SL_ENOMEM. Free with sl_free. */
sl_status sl_gain_make(const sl_run_data *data, sl_gain **gain, size_t *count);

/** Their chart: iterations before each change next to those after it; nothing without changes. SL_ENOMEM,
 * SL_ESYS. */
sl_status sl_course_gains(const sl_run_data *data, const sl_gain *gain, size_t count,
                          const sl_draw_style *style, FILE *out);
