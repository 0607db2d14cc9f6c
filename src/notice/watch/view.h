/* The live view on standard error: on a terminal one line that is drawn again in its place (iteration, time
 * against the healthy level, state, suspects), and lines for what happens, which stay; elsewhere those lines
 * alone. The program writes to the same terminal whenever it likes: the cursor waits at the line's begin, so
 * that what it writes covers the line. */
#pragma once

#include "base/event.h"
#include "base/terminal.h"
#include "base/time.h"
#include "notice/control/job_status.h"

typedef struct sl_view {
    FILE *out;
    sl_terminal terminal;
    int drawn;        /* the line stands there */
    sl_time next;     /* not drawn before */
    char advice[128]; /* what would be done, in a few words; "" */
    char last[1024];
} sl_view;

/** `out` is watched for being a terminal. */
void sl_view_open(sl_view *view, FILE *out);

/** What is known now; drawn at most four times a second, except when `now` is SL_TIME_NEVER. */
void sl_view_show(sl_view *view, const sl_status_view *status, sl_time now);

/** What is said of it from the next drawing on ("": nothing). */
void sl_view_advise(sl_view *view, const char *advice);

/** The line in at most `width` characters; escapes only with colour. For tests and sl_view_show. Returns its
 * characters without escapes. */
int sl_view_line(const sl_status_view *status, const char *advice, int width, int colour, char *text,
                 size_t size);

/** An event as a line that stays. */
void sl_view_event(sl_view *view, const sl_event *event);
/** "slackline: ..." */
void sl_view_say(sl_view *view, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Takes the line away. */
void sl_view_close(sl_view *view);
