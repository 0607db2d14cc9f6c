/* What the leader writes while it trains: the journal and the progress line, on the run's clock. The line of
 * an iteration in metrics.jsonl waits for the begin of the next one, which gives its period. Other ranks have
 * no log. */
#pragma once

#include "base/clock.h"
#include "run/file/run.h"
#include "run/journal/journal.h"
#include "run/journal/progress.h"

typedef struct sl_run_log sl_run_log;

/** Creates the journal in `folder` (`first`: as sl_journal_open), which keeps `run_file` (NULL: none), and
 * the progress line. `run` must stay. Close with sl_run_log_close, also on error. SL_EINVAL, SL_ENOMEM. */
sl_status sl_run_log_open(const sl_run *run, const char *folder, const char *run_file, int first,
                          sl_clock *clock, sl_run_log **log);
void sl_run_log_close(sl_run_log *log);

/** The run's time begins now. */
void sl_run_log_start(sl_run_log *log);
/** The run's time at `at`; 0 before it began. */
sl_time sl_run_log_time(const sl_run_log *log, sl_time at);

/** For what is written at the start and at the end of a run. */
sl_journal *sl_run_log_journal(sl_run_log *log);
sl_progress *sl_run_log_progress(sl_run_log *log);

/** Writes an event; its time defaults to now. */
sl_status sl_run_log_write(sl_run_log *log, sl_event *event);
/** Writes and prints an event, of a replica if there are several (-1: of none). */
sl_status sl_run_log_add(sl_run_log *log, sl_event *event, int replica);
/** Writes an event of no link or rank, given by its texts. */
sl_status sl_run_log_report(sl_run_log *log, sl_event_kind kind, int iteration, const char *seen,
                            const char *decided, const char *why);

/** Prints an iteration with its `incidents[count]`, and keeps it, with its timelines and measurements, until
 * the next sl_run_log_flush. */
void sl_run_log_iteration(sl_run_log *log, const sl_iteration *iteration, const sl_job *job,
                          const sl_incident_view *incidents, int count);
/** The phase of the last iteration. */
sl_run_phase sl_run_log_phase(const sl_run_log *log);
/** Adds its validation loss. */
void sl_run_log_validation(sl_run_log *log, double loss);
/** `pause` after it is no part of its period. */
void sl_run_log_exclude(sl_run_log *log, sl_time pause);
/** Writes its line, if that is still to be done; its period ends at `next_begin`. */
sl_status sl_run_log_flush(sl_run_log *log, sl_time next_begin);
