/* What a run says while it goes on. On a terminal one line is drawn again and again in its place: iteration,
 * loss, tokens/s, time against prediction, schedule, health of links and ranks, time left; everything else
 * that the run says scrolls above it. Elsewhere (a pipe, a file) there are plain lines: every tenth
 * iteration, and where the run's phase changes.
 *
 * Written by rank 0, whose standard output is a pipe to mpirun even where a terminal is at its end; the
 * command that started the run has told of it (base/terminal.h). The line is cut to the terminal's width,
 * asked each time: what matters less goes first. */
#pragma once

#include "adapt/orchestrator/orchestrator.h"
#include "base/clock.h"
#include "base/terminal.h"

#include <stdarg.h>

/* How links and ranks are, in a few words for one line: the incidents that last. */

/** "links ok; ranks ok"; "links 1-2 +58 ms; ranks ok"; of several the costliest first, in at most `width`
 * characters: "links 17-18 +58 ms, 4 more slow; rank 3 x1.5". `incidents[count]`, the costliest first; ranks
 * are those of pipelines. Returns whether something is slow. */
int sl_health_words(const sl_job *job, const sl_incident_view *incidents, int count, int width, char *text,
                    size_t size);

/* What a line tells. */
typedef struct sl_progress_view {
    int iteration, iterations;
    double loss;
    double tokens_per_s; /* 0: not known yet */
    sl_time time;
    sl_time predicted; /* -1: nothing was known */
    const char *schedule;
    const char *health;                /* NULL: none */
    int troubled;                      /* what `health` says is bad */
    const sl_job *job;                 /* NULL: nothing is known of links and ranks */
    const sl_incident_view *incidents; /* that last, the costliest first */
    int incident_count;
    sl_time left; /* -1: not known yet */
} sl_progress_view;

/** The line in at most `width` characters, escapes not counted, without the end of a line; colour 0: no
 * escapes. text[size], size >= 512. Returns its characters without escapes. */
int sl_progress_line(const sl_progress_view *view, int width, int colour, char *text, size_t size);

typedef struct sl_progress sl_progress;

/** `tokens` of one iteration. `terminal` NULL or with columns 0:
 * plain lines. */
sl_status sl_progress_open(FILE *out, const sl_terminal *terminal, sl_clock *clock, int iterations,
                           double tokens, sl_progress **progress);

/** An iteration has ended. `view` has iteration, loss, time, predicted, schedule, and job with incidents; the
 * rest is filled in here. `changed`: its phase is another than before. */
void sl_progress_iteration(sl_progress *progress, const sl_progress_view *view, int changed);

/** A line of its own, which stays: the text without the end of the line. */
void sl_progress_say(sl_progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The live line becomes a line that stays; from now on others may write to `out`. */
void sl_progress_end(sl_progress *progress);
void sl_progress_close(sl_progress *progress);
