#include "run/journal/run_log.h"
#include "base/memory.h"

#include <string.h>

#define TRACED 400 /* iterations in timeline.json */

enum { PRINTED_MAX = 32 };

struct sl_run_log {
    const sl_run *run;
    sl_clock *clock;
    sl_journal *journal;
    sl_progress *progress;
    sl_time started;               /* 0: not yet */
    sl_time last_begin;            /* of the last iteration */
    sl_iteration pending;          /* the last iteration; without timeline: written */
    char schedule[192];            /* its own: a swap may change the caller's before it is written */
    sl_event printed[PRINTED_MAX]; /* [printed_count] onsets of components that are still slow */
    int printed_count;
};

sl_status sl_run_log_open(const sl_run *run, const char *folder, const char *run_file, int first,
                          sl_clock *clock, sl_run_log **log) {
    double tokens = (double)run->batch.microbatches * run->batch.size * run->model.context;
    sl_journal_layout layout = {.pipeline = run->parallel.pipeline,
                                .data = run->parallel.data,
                                .tensor = run->parallel.tensor,
                                .zero = run->parallel.zero};
    sl_terminal terminal;
    SL_TRY(sl_alloc(log, 1, sizeof **log));
    (*log)->run = run;
    (*log)->clock = clock;
    SL_TRY(sl_journal_open(folder, first, layout, tokens, run->iterations, TRACED, &(*log)->journal));
    if (run_file)
        sl_journal_keep((*log)->journal, run_file);
    sl_terminal_find(&terminal);
    return sl_progress_open(stdout, &terminal, clock, run->iterations, tokens, &(*log)->progress);
}

void sl_run_log_close(sl_run_log *log) {
    if (!log)
        return;
    sl_journal_close(log->journal);
    sl_progress_close(log->progress);
    sl_free(log);
}

void sl_run_log_start(sl_run_log *log) {
    log->started = sl_clock_now(log->clock);
}

sl_time sl_run_log_time(const sl_run_log *log, sl_time at) {
    return log->started ? at - log->started : 0;
}

sl_journal *sl_run_log_journal(sl_run_log *log) {
    return log->journal;
}

sl_progress *sl_run_log_progress(sl_run_log *log) {
    return log->progress;
}

/* ---- events ---- */

sl_status sl_run_log_write(sl_run_log *log, sl_event *event) {
    if (!event->time)
        event->time = sl_run_log_time(log, sl_clock_now(log->clock));
    return sl_journal_event(log->journal, event);
}

static int same_component(const sl_event *a, const sl_event *b) {
    return a->from == b->from && a->to == b->to && a->rank == b->rank && a->has_replica == b->has_replica &&
           a->replica == b->replica;
}

/* Whether the printed lines have this event's component and evidence already: the onset of a component has
 * both, so its suspect and its verdict are in events.jsonl only. */
static int is_printed(sl_run_log *log, const sl_event *event) {
    int i = 0;
    while (i < log->printed_count && !same_component(&log->printed[i], event))
        i++;
    int known = i < log->printed_count;
    if (event->kind == SL_EVENT_ONSET && (event->from >= 0 || event->rank >= 0) && !known && i < PRINTED_MAX)
        log->printed[log->printed_count++] = *event;
    if (event->kind == SL_EVENT_RELIEF && known)
        log->printed[i] = log->printed[--log->printed_count];
    return known && (event->kind == SL_EVENT_SUSPECT || event->kind == SL_EVENT_VERDICT);
}

sl_status sl_run_log_add(sl_run_log *log, sl_event *event, int replica) {
    if (log->run->parallel.data > 1 && replica >= 0) {
        event->has_replica = 1;
        event->replica = replica;
    }
    SL_TRY(sl_run_log_write(log, event));
    if (is_printed(log, event))
        return SL_OK;
    char where[32] = "";
    if (event->has_replica)
        snprintf(where, sizeof where, " (replica %d)", replica);
    sl_progress_say(log->progress, "iteration %4d  %s%s%s%s%s%s%s%s", event->iteration,
                    sl_event_names[event->kind].name, where, event->seen[0] ? ": " : "", event->seen,
                    event->decided[0] && event->seen[0] ? "; "
                    : event->decided[0]                 ? ": "
                                                        : "",
                    event->decided,
                    !event->why[0]      ? ""
                    : event->decided[0] ? ", because "
                                        : "; ",
                    event->why);
    return SL_OK;
}

sl_status sl_run_log_report(sl_run_log *log, sl_event_kind kind, int iteration, const char *seen,
                            const char *decided, const char *why) {
    sl_event event = sl_event_of(kind, 0, iteration);
    sl_event_say(&event, seen, decided, why);
    return sl_run_log_write(log, &event);
}

/* ---- iterations ---- */

void sl_run_log_iteration(sl_run_log *log, const sl_iteration *it, const sl_job *job,
                          const sl_incident_view *incidents, int count) {
    sl_progress_iteration(log->progress,
                          &(sl_progress_view){.iteration = it->iteration,
                                              .loss = it->loss,
                                              .time = it->time,
                                              .predicted = it->predicted,
                                              .schedule = it->schedule,
                                              .job = job,
                                              .incidents = incidents,
                                              .incident_count = count},
                          it->phase != log->pending.phase);
    log->pending = *it;
    snprintf(log->schedule, sizeof log->schedule, "%s", it->schedule);
    log->pending.schedule = log->schedule;
    log->last_begin = log->started + it->begin;
}

sl_run_phase sl_run_log_phase(const sl_run_log *log) {
    return log->pending.phase;
}

void sl_run_log_validation(sl_run_log *log, double loss) {
    log->pending.validation = loss;
}

void sl_run_log_exclude(sl_run_log *log, sl_time pause) {
    log->last_begin += pause;
}

sl_status sl_run_log_flush(sl_run_log *log, sl_time next_begin) {
    if (log->pending.timeline == NULL)
        return SL_OK;
    log->pending.period = next_begin - log->last_begin;
    sl_status status = sl_journal_iteration(log->journal, &log->pending);
    log->pending.timeline = NULL;
    return status;
}
