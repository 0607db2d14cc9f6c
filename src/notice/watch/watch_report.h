/* The findings of the whole run, at its end: report.txt for users, report.json for programs. Healthy and slow
 * phases come from the events onset and relief; suspects and verdicts are those known in a phase; open
 * questions are listed too. */
#pragma once

#include "notice/watch/findings.h"

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
