#include "run/arrange/faults.h"
#include "base/text.h"
#include "run/arrange/departure.h"

#include <signal.h>
#include <unistd.h>

static int is_active(const sl_fault *f, int iteration) {
    return iteration >= f->first && iteration < f->end;
}

/* Of a fault that is narrowed down to replicas or tensor ranks. */
static int is_place(const sl_fault *f, sl_seat home) {
    return (f->replica < 0 || f->replica == home.replica) && (f->tensor < 0 || f->tensor == home.tensor);
}

/* ---- links ---- */

static int is_between(const sl_fault *f, sl_seat from, sl_seat to) {
    if (f->from < 0 || f->from != from.pipeline || f->to != to.pipeline || from.tensor != to.tensor)
        return 0;
    if (f->from_replica >= 0)
        return f->from_replica == from.replica && f->to_replica == to.replica &&
               (f->tensor < 0 || f->tensor == from.tensor);
    return from.replica == to.replica && is_place(f, from);
}

/* A link that is slow at a host's end is as it should be between others. */
static int is_at_host(const sl_fault *f, const sl_run *run, const sl_trainer *t, sl_seat from, sl_seat to) {
    return !f->host || (t && (sl_departure_is_on(t, sl_run_world_rank(run, from), f->host) ||
                              sl_departure_is_on(t, sl_run_world_rank(run, to), f->host)));
}

sl_link_emulation sl_faults_between(const sl_run *run, const sl_trainer *t, int iteration, sl_seat from,
                                    sl_seat to) {
    sl_link_emulation link = {0};
    for (int i = 0; i < run->faults; i++) {
        const sl_fault *f = &run->fault[i];
        if (!is_active(f, iteration) || !is_between(f, from, to) || !is_at_host(f, run, t, from, to))
            continue;
        link.latency += sl_from_ms(f->latency_ms);
        if (f->bandwidth_gbps > 0)
            link.bytes_per_second = f->bandwidth_gbps * 1e9 / 8;
        link.per_queue |= f->per_queue;
    }
    return link;
}

/* From this process to the one that now has `seat`. */
static sl_link_emulation way_to(const sl_trainer *t, int iteration, sl_seat seat) {
    int peer = sl_run_world_rank(t->run, seat);
    return sl_faults_between(t->run, t, iteration, sl_trainer_home(t, t->world_rank),
                             sl_trainer_home(t, peer));
}

void sl_faults_emulate(sl_trainer *t, int iteration) {
    const sl_seat mine = t->groups.seat;
    for (int rank = 0; rank < t->ranks; rank++)
        if (sl_run_has_link(t->run, mine.pipeline, rank))
            sl_transport_emulate(t->transport, rank,
                                 way_to(t, iteration, (sl_seat){rank, mine.replica, mine.tensor}));
    for (int replica = 0; replica < t->run->parallel.data; replica++)
        if (replica != mine.replica)
            sl_group_emulate(t->groups.data, replica,
                             way_to(t, iteration, (sl_seat){mine.pipeline, replica, mine.tensor}));
}

/* ---- devices ---- */

static void set_pace(sl_trainer *t, double slowdown) {
    sl_pace pace = {.saved = t->saved, .offload = t->problem.offload};
    for (int stage = 0; stage < t->problem.stages; stage++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            t->paced[kind][stage] = (sl_time)((double)t->problem.time[kind][stage] * slowdown);
        t->saved[stage] = (sl_time)((double)t->problem.saved[stage] * slowdown);
    }
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        pace.time[kind] = t->paced[kind];
    sl_engine_pace(t->engine, &pace);
}

void sl_faults_apply(sl_trainer *t, int iteration) {
    const sl_seat home = sl_trainer_home(t, t->world_rank);
    double slowdown = 1;
    sl_faults_emulate(t, iteration);
    for (int i = 0; i < t->run->faults; i++) {
        const sl_fault *f = &t->run->fault[i];
        if (!is_active(f, iteration) || !is_place(f, home))
            continue;
        if (f->kill == home.pipeline)
            kill(getpid(), SIGKILL);
        if (f->rank == home.pipeline ||
            (f->host && f->from < 0 && sl_departure_is_on(t, t->home[t->world_rank], f->host)))
            slowdown *= f->slowdown;
    }
    if (t->run->device.pace_ms[SL_F])
        set_pace(t, slowdown);
    else
        sl_engine_pace(t->engine, &(sl_pace){.offload = t->problem.offload});
}

/* ---- what is told ---- */

/* Where a fault happens, of several replicas or tensor ranks. */
static void name_place(const sl_trainer *t, const sl_fault *f, sl_event *event) {
    int at = 0;
    const int size = sizeof event->seen;
    event->has_replica = t->run->parallel.data > 1 && f->replica >= 0;
    event->replica = f->replica;
    if (f->from_replica >= 0)
        at =
            snprintf(event->seen, (size_t)size, "between replicas: %d to %d", f->from_replica, f->to_replica);
    if (f->host)
        at += snprintf(event->seen + at, (size_t)(size - at), "%shost %.200s", at ? ", " : "", f->host);
    if (t->run->parallel.tensor > 1 && f->tensor >= 0)
        snprintf(event->seen + at, (size_t)(size - at), "%stensor rank %d", at ? ", " : "", f->tensor);
}

sl_status sl_faults_write(sl_trainer *t, int iteration) {
    for (int i = 0; i < t->run->faults; i++) {
        const sl_fault *f = &t->run->fault[i];
        if (iteration != f->first && iteration != f->end)
            continue;
        const int pipeline = f->from >= 0 && f->from_replica < 0;
        sl_event event = {.kind = SL_EVENT_FAULT,
                          .time = sl_clock_now(t->clock) - t->started,
                          .iteration = iteration,
                          .from = pipeline ? f->from : -1,
                          .to = pipeline ? f->to : -1,
                          .rank = f->rank >= 0   ? f->rank
                                  : f->kill >= 0 ? f->kill
                                  : pipeline     ? -1
                                                 : f->from};
        sl_text_format(event.decided, sizeof event.decided, "%s",
                       iteration == f->first ? "injected" : "removed");
        if (f->from >= 0)
            sl_text_format(event.why, sizeof event.why, "latency %g ms, bandwidth %g Gbit/s (0: unchanged)",
                           f->latency_ms, f->bandwidth_gbps);
        else if (f->rank >= 0 || f->host)
            sl_text_format(event.why, sizeof event.why, "ops take %g times their pace", f->slowdown);
        name_place(t, f, &event);
        SL_TRY(sl_journal_event(t->journal, &event));
        if (f->kill >= 0) /* the next attempt reads it, so that nobody is killed twice */
            sl_journal_flush(t->journal);
    }
    return SL_OK;
}
