#include "run/arrange/run_events.h"

#include <string.h>

sl_status sl_run_events_add(sl_trainer *t, sl_event *event, int replica) {
    if (!event->time)
        event->time = sl_clock_now(t->clock) - t->started;
    if (t->run->parallel.data > 1 && replica >= 0) {
        event->has_replica = 1;
        event->replica = replica;
    }
    SL_TRY(sl_journal_event(t->journal, event));
    char where[32] = "";
    if (event->has_replica)
        snprintf(where, sizeof where, " (replica %d)", replica);
    sl_progress_say(t->progress, "iteration %4d  %s%s%s%s%s%s%s%s", event->iteration,
                    sl_event_names[event->kind].name, where, event->seen[0] ? ": " : "", event->seen,
                    event->decided[0] ? "; " : "", event->decided, event->why[0] ? ", because " : "",
                    event->why);
    return SL_OK;
}

/* An iteration's line is written when the next begin gives its period. */
sl_status sl_run_events_flush(sl_trainer *t, sl_time next_begin) {
    if (t->pending.timeline == NULL)
        return SL_OK;
    t->pending.period = next_begin - t->last_begin;
    sl_status status = sl_journal_iteration(t->journal, &t->pending);
    t->pending.timeline = NULL;
    return status;
}

void sl_run_events_name_schedule(sl_trainer *t) {
    size_t at = 0;
    int same = 1;
    for (int r = 1; r < t->run->parallel.data; r++)
        same &= strcmp(t->replica[r].schedule, t->replica[0].schedule) == 0;
    for (int r = 0; r < (same ? 1 : t->run->parallel.data) && at < sizeof t->schedule; r++) {
        int written = snprintf(t->schedule + at, sizeof t->schedule - at, "%s%s", r ? " | " : "",
                               t->replica[r].schedule);
        at += (size_t)written;
    }
}
