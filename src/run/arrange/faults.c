#include "run/arrange/faults.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/arrange/departure.h"
#include "run/arrange/rank_state.h"
#include "run/file/roster.h"

#include <signal.h>
#include <unistd.h>

/* Whether `home` matches a fault that is limited to replicas or tensor ranks. */
static int matches(const sl_fault *f, sl_run_position home) {
    return (f->replica < 0 || f->replica == home.replica) && (f->tensor < 0 || f->tensor == home.tensor);
}

/* ---- links ---- */

static int is_between(const sl_fault *f, sl_run_position from, sl_run_position to) {
    if (f->from < 0 || f->from != from.pipeline || f->to != to.pipeline || from.tensor != to.tensor)
        return 0;
    if (f->from_replica >= 0)
        return f->from_replica == from.replica && f->to_replica == to.replica &&
               (f->tensor < 0 || f->tensor == from.tensor);
    return from.replica == to.replica && matches(f, from);
}

static int is_on(const sl_fault *f, const sl_run *run, const sl_trainer *t, sl_run_position home) {
    return t && sl_departure_is_on(t, sl_run_world_rank(run, home), f->host);
}

/* A link that is slow at a host's end is normal between other hosts. */
static int is_at_host(const sl_fault *f, const sl_run *run, const sl_trainer *t, sl_run_position from,
                      sl_run_position to) {
    return !f->host || is_on(f, run, t, from) || is_on(f, run, t, to);
}

/* ---- network cards ---- */

/* Words of a card, sent and received: of each process by initial position, then of the host that this fault
 * is the first to name. */
static size_t wires_of(const sl_run *run, int card) {
    return 2 * (size_t)(sl_run_ranks(run) + card);
}

static size_t host_wires(const sl_run *run, const sl_fault *f) {
    int first = 0;
    while (!run->fault[first].nic || !run->fault[first].host ||
           !sl_roster_same(run->fault[first].host, f->host))
        first++;
    return wires_of(run, first);
}

static int has_wires(const sl_run *run) {
    for (int i = 0; i < run->faults; i++)
        if (run->fault[i].nic && run->fault[i].bandwidth_gbps > 0)
            return 1;
    return 0;
}

sl_status sl_faults_open(sl_trainer *t) {
    sl_fault_effects *e;
    const size_t stages = (size_t)t->run->parallel.stages;
    SL_TRY(sl_alloc(&t->state->effects, 1, sizeof *e));
    e = t->state->effects;
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        SL_TRY(sl_alloc(&e->paced[kind], stages, sizeof *e->paced[kind]));
    SL_TRY(sl_alloc(&e->saved, stages, sizeof *e->saved));
    return has_wires(t->run)
               ? sl_wires_open(t->site->temporary, "cards", wires_of(t->run, t->run->faults), &e->cards)
               : SL_OK;
}

void sl_faults_close(sl_trainer *t) {
    sl_fault_effects *e = t->state->effects;
    if (!e)
        return;
    sl_wires_close(&e->cards);
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        sl_free(e->paced[kind]);
    SL_FREE(e->saved, e);
}

/* The message passes a card, whose wire in that direction is `word`. */
static void pass(const sl_fault *f, const sl_trainer *t, size_t word, sl_link_emulation *link) {
    _Atomic int64_t *free_at;
    int i = 0;
    link->latency += sl_from_ms(f->latency_ms);
    if (f->bandwidth_gbps <= 0 || !t)
        return;
    free_at = &t->state->effects->cards.free_at[word];
    while (i < link->wires && link->wire[i].free_at != free_at)
        i++;
    link->wire[i] = (sl_link_wire){.free_at = free_at, .bytes_per_second = f->bandwidth_gbps * 1e9 / 8};
    link->wires += i == link->wires;
}

/* Messages between two processes of one host do not pass the host's card. */
static void pass_card(const sl_fault *f, const sl_run *run, const sl_trainer *t, sl_run_position from,
                      sl_run_position to, sl_link_emulation *link) {
    const sl_run_position end[2] = {from, to};
    if (f->host && is_on(f, run, t, from) == is_on(f, run, t, to))
        return;
    for (int in = 0; in < 2; in++)
        if (f->host ? is_on(f, run, t, end[in]) : f->rank == end[in].pipeline && matches(f, end[in])) {
            size_t word = f->host ? host_wires(run, f) : 2 * (size_t)sl_run_world_rank(run, end[in]);
            pass(f, t, word + (size_t)in, link);
        }
}

/* ---- what is between two ---- */

sl_link_emulation sl_faults_between(const sl_run *run, const sl_trainer *t, int iteration,
                                    sl_run_position from, sl_run_position to) {
    sl_link_emulation link = {0};
    for (int i = 0; i < run->faults; i++) {
        const sl_fault *f = &run->fault[i];
        if (!sl_fault_is_active(f, iteration))
            continue;
        if (f->nic)
            pass_card(f, run, t, from, to, &link);
        if (!is_between(f, from, to) || !is_at_host(f, run, t, from, to))
            continue;
        link.latency += sl_from_ms(f->latency_ms);
        if (f->bandwidth_gbps > 0)
            link.bytes_per_second = f->bandwidth_gbps * 1e9 / 8;
        link.per_queue |= f->per_queue;
    }
    return link;
}

/* From this process to the one that now has `position`. */
static sl_link_emulation way_to(const sl_trainer *t, int iteration, sl_run_position position) {
    int peer = sl_run_world_rank(t->run, position);
    return sl_faults_between(t->run, t, iteration, sl_trainer_home(t, t->world_rank),
                             sl_trainer_home(t, peer));
}

void sl_faults_emulate(sl_trainer *t, int iteration) {
    const sl_run_position mine = t->groups.position;
    for (int rank = 0; rank < t->ranks; rank++)
        if (sl_run_has_link(t->run, mine.pipeline, rank))
            sl_transport_emulate(t->state->transport, rank,
                                 way_to(t, iteration, (sl_run_position){rank, mine.replica, mine.tensor}));
    const int first = sl_run_first_rank(t->run, mine.pipeline);
    for (int w = 0; w < t->world; w++) {
        const sl_run_position other = sl_run_position_of(t->run, w);
        if (w != t->world_rank && other.tensor == mine.tensor &&
            sl_run_first_rank(t->run, other.pipeline) == first)
            sl_group_emulate(t->groups.data, sl_run_holder(t->run, other), way_to(t, iteration, other));
    }
}

/* ---- devices ---- */

static void set_pace(sl_trainer *t, double slowdown) {
    const sl_problem *p = &t->state->problem;
    sl_fault_effects *e = t->state->effects;
    sl_pace pace = {.saved = e->saved, .offload = p->offload};
    for (int stage = 0; stage < p->stages; stage++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            e->paced[kind][stage] = (sl_time)((double)p->time[kind][stage] * slowdown);
        e->saved[stage] = (sl_time)((double)p->saved[stage] * slowdown);
    }
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        pace.time[kind] = e->paced[kind];
    sl_engine_pace(t->state->engine, &pace);
}

void sl_faults_apply(sl_trainer *t, int iteration) {
    const sl_run_position home = sl_trainer_home(t, t->world_rank);
    double slowdown = 1;
    sl_faults_emulate(t, iteration);
    for (int i = 0; i < t->run->faults; i++) {
        const sl_fault *f = &t->run->fault[i];
        if (!sl_fault_is_active(f, iteration) || !matches(f, home))
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
        sl_engine_pace(t->state->engine, &(sl_pace){.offload = t->state->problem.offload});
}

/* ---- events ---- */

static int has_ranks(const sl_trainer *t, const char *host) {
    for (int home = 0; home < t->world; home++)
        if (sl_departure_is_on(t, home, host))
            return 1;
    return 0;
}

/* Names the component of a fault if there are several replicas or tensor ranks. */
static void name_component(const sl_trainer *t, const sl_fault *f, sl_event *event) {
    int at = 0;
    const int size = sizeof event->seen;
    event->has_replica = t->run->parallel.data > 1 && f->replica >= 0;
    event->replica = f->replica;
    if (f->from_replica >= 0)
        at =
            snprintf(event->seen, (size_t)size, "between replicas: %d -> %d", f->from_replica, f->to_replica);
    if (f->nic)
        at = snprintf(event->seen, (size_t)size, "network card");
    if (f->host)
        at += snprintf(event->seen + at, (size_t)(size - at), "%shost %.200s%s", at ? ", " : "", f->host,
                       has_ranks(t, f->host) ? "" : ", where no rank is");
    if (t->run->parallel.tensor > 1 && f->tensor >= 0)
        snprintf(event->seen + at, (size_t)(size - at), "%stensor rank %d", at ? ", " : "", f->tensor);
}

static void describe_link(const sl_fault *f, char *text, size_t size) {
    char bandwidth[48] = "";
    text[0] = 0;
    if (f->latency_ms > 0)
        sl_text_format(text, size, "latency +%g ms", f->latency_ms);
    if (f->bandwidth_gbps > 0)
        snprintf(bandwidth, sizeof bandwidth, "bandwidth %g Gbit/s", f->bandwidth_gbps);
    sl_text_add(text, size, ", ", bandwidth);
}

sl_status sl_faults_write(sl_trainer *t, int iteration) {
    for (int i = 0; i < t->run->faults; i++) {
        const sl_fault *f = &t->run->fault[i];
        const int is_active = sl_fault_is_active(f, iteration);
        if (is_active == (iteration > 0 && sl_fault_is_active(f, iteration - 1)))
            continue;
        const int pipeline = f->from >= 0 && f->from_replica < 0;
        sl_event event = {.kind = SL_EVENT_FAULT,
                          .iteration = iteration,
                          .from = pipeline ? f->from : -1,
                          .to = pipeline ? f->to : -1,
                          .rank = f->rank >= 0   ? f->rank
                                  : f->kill >= 0 ? f->kill
                                  : pipeline     ? -1
                                                 : f->from};
        sl_text_format(event.decided, sizeof event.decided, "%s", is_active ? "injected" : "removed");
        if (f->from >= 0 || f->nic)
            describe_link(f, event.why, sizeof event.why);
        else if (f->rank >= 0 || f->host)
            sl_text_format(event.why, sizeof event.why, "ops take %g times their pace", f->slowdown);
        name_component(t, f, &event);
        SL_TRY(sl_run_log_write(t->log, &event));
        if (f->kill >= 0) /* the next attempt reads it, so that no rank is killed twice */
            sl_journal_flush(sl_run_log_journal(t->log));
    }
    return SL_OK;
}
