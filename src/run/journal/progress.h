/* The progress output of a run. On a terminal one line is redrawn in place: iteration, loss, tokens/s, time
 * and prediction, schedule, health of links and ranks, time left; all other output scrolls above it.
 * Otherwise (a pipe, a file) there are plain lines: at every tenth iteration, and when the run's phase
 * changes.
 *
 * Written by rank 0, whose standard output is a pipe to mpirun even if a terminal is at its end; the command
 * that started the run passed the terminal's properties on (base/terminal.h). The line is cut to the
 * terminal's width, which is queried each time: less important parts are dropped first. */
#pragma once

#include "adapt/orchestrator/orchestrator.h"
#include "base/clock.h"
#include "base/terminal.h"

#include <stdarg.h>

/* The health of links and ranks, in a few words for one line: the ongoing incidents. */

/** "links ok; ranks ok"; "links 1-2 +58 ms; ranks ok"; of several the costliest first, in at most `width`
 * characters: "links 17-18 +58 ms, 4 more slow; rank 3 x1.5". `incidents[count]`, the costliest first; ranks
 * are those of pipelines. Returns whether something is slow. */
int sl_health_words(const sl_job *job, const sl_incident_view *incidents, int count, int width, char *text,
                    size_t size);

/* The contents of a line. */
typedef struct sl_progress_view {
    int iteration, iterations;
    double loss;
    double tokens_per_s; /* 0: unknown */
    sl_time time;
    sl_time predicted; /* -1: unknown */
    const char *schedule;
    const char *health;                /* NULL: none */
    int troubled;                      /* `health` reports a slowdown */
    const sl_job *job;                 /* NULL: links and ranks are unknown */
    const sl_incident_view *incidents; /* ongoing, the costliest first */
    int incident_count;
    sl_time left; /* -1: unknown */
} sl_progress_view;

/** The line in at most `width` characters, not counting escapes, without newline; colour 0: no escapes.
 * text[size], size >= 512. Returns its number of characters without escapes. */
int sl_progress_line(const sl_progress_view *view, int width, int colour, char *text, size_t size);

typedef struct sl_progress sl_progress;

/** `tokens`: of one iteration. `terminal` NULL or with columns 0: plain lines. */
sl_status sl_progress_open(FILE *out, const sl_terminal *terminal, sl_clock *clock, int iterations,
                           double tokens, sl_progress **progress);

/** After an iteration. `view` has iteration, loss, time, predicted, schedule, and job with incidents; the
 * rest is filled in here. `changed`: its phase differs from the previous one. */
void sl_progress_iteration(sl_progress *progress, const sl_progress_view *view, int changed);

/** Prints a separate line, which stays: the text without newline. */
void sl_progress_say(sl_progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Makes the live line permanent; from now on others may write to `out`. */
void sl_progress_end(sl_progress *progress);
void sl_progress_close(sl_progress *progress);
