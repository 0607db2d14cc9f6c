/* A run as text screens: progress, the latest events, the time of each iteration, and one op by op; then what
 * adapting brought. slackline demo shows them while it trains, and a recording (plan/draw/cast.h) of a
 * finished run has them.
 */
#pragma once

#include "report/adaptation.h"

typedef struct sl_screens {
    const char *title; /* the first line; NULL: none */
    const char *end;   /* of each line */
    int columns, colour;
    int iterations; /* of the whole run */
    int is_tight;   /* no blank lines between the charts of the result */
    sl_time widest; /* the time that is as wide as the screen: the length of rows compares */
} sl_screens;

/** Whether a screen shows it: faults, what was noticed, and changes of the schedule. */
int sl_screens_has_event(const sl_run_data_event *e);

/** One line, cut at the width of the screen. */
void sl_screens_event(const sl_screens *s, const sl_run_data_event *e, FILE *out);

/** The longest recorded iteration after the first, which is cold. SL_ENOMEM. */
sl_status sl_screens_widest(const sl_recorded *recorded, sl_time *widest);

/** The screen when row `row` of the metrics was written; recorded iteration `index` op by op, -1: none.
 * SL_ENOMEM. */
sl_status sl_screens_iteration(const sl_screens *s, const sl_run_data *data, const sl_recorded *recorded,
                               size_t row, long index, FILE *out);

/** Iterations before, during and after, and the answer. SL_ENOMEM. */
sl_status sl_screens_result(const sl_screens *s, const sl_run_data *data, const sl_recorded *recorded,
                            const sl_adaptation *adaptation, FILE *out);

/** All of it as a recording, faster than it ran; nothing if fewer than two iterations were recorded, or more
 * ranks than a screen holds. SL_ENOMEM, SL_ESYS. */
sl_status sl_screens_record(const sl_run_data *data, const sl_recorded *recorded,
                            const sl_adaptation *adaptation, FILE *out);
