/* What each change of a run brought: the iterations before it beside those behind it, as long as nothing else
 * changed.
 */
#pragma once

#include "plan/draw/style.h"
#include "report/read_back.h"

#define SL_GAIN_MAX 9 /* iterations that a median is of, at most */

typedef struct sl_gain {
    size_t event; /* the first of them */
    int since;    /* the first iteration of those that it is compared with */
    int first;    /* the first iteration with it */
    int until;    /* the first one with something else again: a change, a fault, trouble or relief */
    int before_count, after_count, whole; /* iterations: of the medians; behind it until `until` */
    int is_mixed;         /* at that iteration a fault came or went, or trouble or relief was seen */
    double before, after; /* ms, medians; NaN: no such iteration */
    double gained;        /* ms in all `whole` iterations, against `before`; negative: lost */
} sl_gain;

/** Whether an event is a change that a run makes to adapt: a swap, a return, other seats or shares,
 * delegates. */
int sl_gain_is_change(const sl_told_event *event);
/** The first iteration with a change. Its event says when it was decided; what ran says when it began. */
int sl_gain_first(const sl_told *told, const sl_told_event *event);

/** An entry for each iteration at which something was changed, in order. SL_ENOMEM. Free with sl_free. */
sl_status sl_gain_make(const sl_told *told, sl_gain **gain, size_t *count);

/** A chart of them: the iterations before each change beside those behind it. Nothing is written where there
 * is none. SL_ENOMEM, SL_ESYS. */
sl_status sl_course_gains(const sl_told *told, const sl_gain *gain, size_t count, const sl_draw_style *style,
                          FILE *out);
