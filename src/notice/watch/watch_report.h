/* The findings of the whole run, at its end: report.txt for users, report.json for programs. Healthy and slow
 * phases come from the events onset and relief; suspects and verdicts are those known in a phase; open
 * questions are listed too. */
#pragma once

#include "base/event.h"
#include "notice/control/job_status.h"
#include "notice/watch/unseen.h"

typedef struct sl_report_phase {
    int slow;
    int64_t from, to;   /* iterations; to -1: until the end */
    sl_time begin, end; /* since the start */
    double level_ms;
    char seen[256]; /* of its first event */
    int suspects, verdicts;
    sl_suspect suspect[SL_STATUS_SUSPECTS], verdict[SL_STATUS_SUSPECTS];
} sl_report_phase;

typedef struct sl_watch_report {
    char *const *command;
    char job[80];
    double began; /* seconds of the epoch */
    sl_report_phase *phase;
    size_t phases, room;
    int64_t left_out; /* phases */
    sl_event *advice; /* advice, and its results */
    size_t advices, advice_room;
    sl_status_view view; /* the last */
    int ranks, nodes;    /* the maximum */
    int has_view, events;
    sl_unseen unseen; /* reports of the program's own layers about calls that cannot be seen */
} sl_watch_report;

/** `command` must outlive it. SL_ENOMEM. */
sl_status sl_watch_report_open(sl_watch_report *report, char *const *command, const char *job);
void sl_watch_report_close(sl_watch_report *report);

sl_status sl_watch_report_event(sl_watch_report *report, const sl_event *event);
void sl_watch_report_view(sl_watch_report *report, const sl_status_view *view);

/** Whether a watch of job `job` left its report in `directory`. */
int sl_watch_report_is_of(const char *directory, const char *job);

/** Both files as texts, to be freed with free(). `lasted`: the whole run; `obstacle`: the obstacle to the
 * probe, or "". SL_ENOMEM. */
sl_status sl_watch_report_texts(sl_watch_report *report, int exit_code, sl_time lasted, const char *obstacle,
                                char **text, char **json);
