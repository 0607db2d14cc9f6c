#include "run/arrange/path.h"
#include "adapt/orchestrator/queues.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/arrange/rank_state.h"

_Static_assert(SL_QUEUES_MAX <= SL_DELEGATES_MAX, "what is decided can be started");

#define START_PATIENCE (30 * SL_SECOND)
#define EVENTS_MAX 32 /* of a rank between two iterations; the rest waits for the next */

static sl_status stop(sl_trainer *t) {
    SL_TRY(sl_transport_use(t->state->transport, SL_PATH_DIRECT));
    return sl_transport_stop_delegates(t->state->transport);
}

static sl_status start(sl_trainer *t, int delegates) {
    sl_transport *transport = t->state->transport;
    size_t bytes = sl_transport_block_bytes(transport);
    char *blocks;
    SL_TRY(sl_alloc(&blocks, (size_t)t->ranks + 1, bytes));
    char *mine = blocks + (size_t)t->ranks * bytes;
    sl_status status;
    SL_TRY_GOTO(out, status, sl_transport_prepare_delegates(transport, delegates, mine));
    SL_TRY_GOTO(out, status,
                sl_group_gather_all(t->groups.pipeline, mine, bytes, blocks, (size_t)t->ranks * bytes, NULL));
    SL_TRY_GOTO(out, status, sl_transport_start_delegates(transport, blocks, START_PATIENCE));
    status = sl_transport_use(transport, SL_PATH_DELEGATED);
out:
    sl_free(blocks);
    return status;
}

int sl_path_delegates(const sl_trainer *t) {
    return t->state->delegates;
}

sl_time sl_path_cost(const sl_trainer *t) {
    return t->state->path_settled > 0 ? t->state->path_cost : -1;
}

sl_status sl_path_change(sl_trainer *t, int delegates) {
    sl_rank_state *s = t->state;
    if (delegates == 0 || !t->state->transport)
        return SL_OK;
    sl_time before = sl_clock_now(t->clock);
    SL_TRY(sl_group_barrier(t->groups.world)); /* a peer may still be reading what we sent */
    SL_TRY(stop(t));
    if (delegates > 0)
        SL_TRY(start(t, delegates));
    s->delegates = delegates > 0 ? delegates : 0;
    sl_engine_arrange(t->state->engine, s->delegates ? SL_DECOUPLED : s->problem.communication,
                      s->problem.queue);
    SL_TRY(sl_group_barrier(t->groups.world));
    s->path_settled = sl_clock_now(t->clock);
    s->path_cost = s->path_settled - before;
    return SL_OK;
}

/* ---- events ---- */

static sl_event_kind kind_of(sl_transport_event_kind kind) {
    if (kind == SL_TRANSPORT_STRANGER)
        return SL_EVENT_STRANGER;
    return kind == SL_TRANSPORT_REPLACED ? SL_EVENT_REPLACED : SL_EVENT_RAIL;
}

/* Routine events of starting and stopping are dropped: the change of path is one event already. */
static int is_routine(const sl_transport_event *happened, const sl_trainer *t) {
    return happened->kind == SL_TRANSPORT_GOODBYE ||
           (happened->kind == SL_TRANSPORT_RAIL_UP && happened->time < t->state->path_settled);
}

static sl_status write_news(sl_trainer *t, int iteration, int replica, const sl_transport_event *happened) {
    sl_event event = {.kind = kind_of(happened->kind),
                      .time = sl_run_log_time(t->log, happened->time),
                      .iteration = iteration,
                      .from = happened->from,
                      .to = happened->to,
                      .rank = happened->from < 0 ? happened->to : -1,
                      .has_replica = t->run->parallel.data > 1,
                      .replica = replica};
    char who[32] = "the trainer"; /* on the direct path */
    if (happened->number >= 0)
        snprintf(who, sizeof who, "delegate %d", happened->number);
    if (event.kind == SL_EVENT_RAIL && happened->kind == SL_TRANSPORT_LOST)
        sl_text_format(event.seen, sizeof event.seen, "%s", happened->text);
    else if (event.kind == SL_EVENT_RAIL)
        sl_text_format(event.seen, sizeof event.seen, "rail %d of %s %s%s%s", happened->rail, who,
                       happened->kind == SL_TRANSPORT_RAIL_UP ? "carries messages again" : "lost",
                       happened->text[0] ? ": " : "", happened->text);
    else
        sl_text_format(event.seen, sizeof event.seen, "%s: %s", who, happened->text);
    return sl_run_log_write(t->log, &event);
}

static int has_several_hosts(const sl_trainer *t) {
    for (int r = 0; r < t->world; r++)
        if (t->state->remote[r])
            return 1;
    return 0;
}

sl_status sl_path_event(sl_trainer *t, int iteration) {
    sl_transport_event mine[EVENTS_MAX], *all = NULL;
    size_t count = 0, sum = 0, *sizes = NULL;
    sl_status status;
    if (!t->state->transport || (!t->state->delegates && !has_several_hosts(t)))
        return SL_OK; /* on all ranks alike */
    while (count < EVENTS_MAX && sl_transport_next_event(t->state->transport, &mine[count]))
        count += !is_routine(&mine[count], t);
    if (sl_trainer_leads(t)) {
        SL_TRY_GOTO(out, status, sl_alloc(&all, (size_t)t->world * EVENTS_MAX, sizeof *all));
        SL_TRY_GOTO(out, status, sl_alloc(&sizes, (size_t)t->world, sizeof *sizes));
    }
    SL_TRY_GOTO(out, status,
                sl_group_gather(t->groups.world, t->leader, mine, count * sizeof *mine, all,
                                (size_t)t->world * EVENTS_MAX * sizeof *all, sizes));
    for (int r = 0; sl_trainer_leads(t) && r < t->world; r++)
        for (size_t i = 0; i < sizes[r] / sizeof *all; i++, sum++) {
            all[sum].time -= t->clocks[r].offset;
            SL_TRY_GOTO(out, status,
                        write_news(t, iteration, sl_run_position_of(t->run, r).replica, &all[sum]));
        }
out:
    SL_FREE(all, sizes);
    return status;
}
