/* The live view on standard error: on a terminal one line that is redrawn in place (iteration, time against
 * the healthy level, state, suspects), and lines for events, which stay; elsewhere only those lines. The
 * program may write to the same terminal at any time: the cursor waits at the beginning of the line, so that
 * its output covers the line. */
#pragma once

#include "base/event.h"
#include "base/terminal.h"
#include "base/time.h"
#include "notice/control/job_status.h"

typedef struct sl_view {
    FILE *out;
    sl_terminal terminal;
    int drawn;        /* the line is on the terminal */
    sl_time next;     /* no drawing before this time */
    char advice[128]; /* the advice in a few words; "" */
    char last[1024];
} sl_view;

/** Checks whether `out` is a terminal. */
void sl_view_open(sl_view *view, FILE *out);

/** The current state; drawn at most four times per second, except if `now` is SL_TIME_NEVER. */
void sl_view_show(sl_view *view, const sl_status_view *status, sl_time now);

/** The advice to show from the next drawing ("": none). */
void sl_view_advise(sl_view *view, const char *advice);

/** The line in at most `width` characters; escapes only with color. For tests and sl_view_show. Returns its
 * length without escapes. */
int sl_view_line(const sl_status_view *status, const char *advice, int width, int colour, char *text,
                 size_t size);

/** An event as a line that stays. */
void sl_view_event(sl_view *view, const sl_event *event);
/** "slackline: ..." */
void sl_view_say(sl_view *view, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Removes the line. */
void sl_view_close(sl_view *view);
