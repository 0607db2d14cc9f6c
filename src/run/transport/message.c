/* The compute side: posting, handing over, waiting. */
#include "run/transport/network.h"

#include <stdio.h>
#include <string.h>

/* NULL: no such peer; sets the error text. */
static sl_peer *find_peer(sl_transport *t, int rank) {
    if (rank >= 0 && rank < t->ranks && t->peer[rank].talks)
        return &t->peer[rank];
    sl_error(SL_EINVAL, "rank %d has no link with rank %d", t->rank, rank);
    return NULL;
}

static sl_status complain_of(sl_status status, const sl_full_name *m, const char *what) {
    return sl_error(status, "link %d -> %d: message (iteration %u, index %u) %s", m->from, m->to,
                    m->iteration, m->index, what);
}

void sl_transport_emulate(sl_transport *t, int rank, sl_link_emulation emulation) {
    sl_peer *peer = find_peer(t, rank);
    if (peer)
        peer->emulation = emulation;
}

int sl_transport_shares_wire(const sl_transport *t, int rank) {
    return rank >= 0 && rank < t->ranks && (t->peer[rank].emulator.wire || t->peer[rank].emulation.wires > 0);
}

sl_status sl_transport_receive(sl_transport *t, int rank, uint32_t iteration, uint32_t index, void *buffer,
                               size_t bytes) {
    sl_full_name name = {rank, t->rank, iteration, index};
    sl_posted *slot = NULL;
    sl_peer *peer = find_peer(t, rank);
    if (!peer)
        return SL_EINVAL;
    for (int i = 0; i < t->slots; i++) {
        sl_posted *p = &peer->posted[i];
        if (p->open && p->iteration == iteration && p->index == index)
            return complain_of(SL_EINVAL, &name, "is posted already");
        if (!p->open && !slot)
            slot = p;
    }
    if (!slot)
        return complain_of(SL_EINVAL, &name, "is one receive more than the transport has slots for");
    *slot = (sl_posted){.open = 1, .iteration = iteration, .index = index, .buffer = buffer, .bytes = bytes};
    if (t->path == SL_PATH_DELEGATED)
        slot->number = peer->delegated_in++;
    return SL_OK;
}

void sl_transport_poke(sl_transport *t) {
    _Atomic uint32_t *bell = atomic_load(&t->waiting);
    if (!bell)
        return;
    atomic_fetch_add(bell, 1);
    sl_clock_wake(t->clock, bell);
}

void sl_transport_abort(sl_transport *t) {
    atomic_store(&t->aborted, 1);
    sl_transport_poke(t);
}

sl_status sl_message_interrupted(sl_transport *t, const char *reason, sl_time deadline,
                                 const sl_full_name *m) {
    if (atomic_load(&t->aborted))
        return complain_of(SL_EPEER, m, "will not come: the run is aborted");
    if (reason)
        return sl_error(SL_EPEER, "link %d -> %d: %s", m->from, m->to, reason);
    if (sl_clock_stuck(t->clock))
        return complain_of(SL_EPEER, m, "will not come: all ranks wait (deadlock)");
    if (deadline != SL_TIME_NEVER && sl_clock_now(t->clock) >= deadline)
        return complain_of(SL_EPEER, m, "did not come before the deadline");
    return SL_OK;
}

static void ring_sender(sl_transport *t, sl_peer *peer) {
    atomic_fetch_add(&peer->region->doorbell, 1);
    sl_clock_wake(t->clock, &peer->region->doorbell);
}

/* Copies the arrived message into its posted buffer and gives the slot back. The peer's data are read once,
 * and not trusted before they fit. */
static sl_status take(sl_transport *t, sl_peer *peer, int position, const sl_posted *posted,
                      const sl_full_name *m, sl_time *arrived) {
    sl_slot *slot = sl_lane_slot(&peer->in, peer->in.waiting[position]);
    uint64_t bytes = slot->bytes;
    if (bytes != posted->bytes || bytes > peer->in.message_bytes)
        return sl_error(
            SL_EPEER, "link %d -> %d: message (iteration %u, index %u) has %llu bytes, the posted buffer %zu",
            m->from, m->to, m->iteration, m->index, (unsigned long long)bytes, posted->bytes);
    memcpy(posted->buffer, sl_slot_payload(slot), posted->bytes);
    if (arrived)
        *arrived = slot->published;
    if (sl_lane_free(&peer->in, position))
        ring_sender(t, peer);
    return SL_OK;
}

static sl_posted *find_posted(sl_transport *t, sl_peer *peer, uint32_t iteration, uint32_t index) {
    for (int i = 0; i < t->slots; i++) {
        sl_posted *p = &peer->posted[i];
        if (p->open && p->iteration == iteration && p->index == index)
            return p;
    }
    return NULL;
}

/* Takes the message if it is here; SL_ENONE: not yet. */
static sl_status look(sl_transport *t, sl_peer *peer, const sl_posted *posted, const sl_full_name *name,
                      sl_time *arrived) {
    if (peer->remote)
        return sl_network_take(t, peer, posted, arrived);
    if (sl_lane_drain(&peer->in) != SL_OK) {
        char what[128]; /* of the shared lane, which the lane does not name */
        snprintf(what, sizeof what, "cannot be read: %s", sl_error_text());
        return complain_of(SL_EPEER, name, what);
    }
    int position = sl_lane_find(&peer->in, name->iteration, name->index);
    return position >= 0 ? take(t, peer, position, posted, name, arrived) : SL_ENONE;
}

static _Atomic uint32_t *arrival_bell(sl_peer *peer) {
    return peer->remote ? sl_network_bell(peer) : &peer->in.lane->bell;
}

static sl_status wait_and_take(sl_transport *t, sl_peer *peer, const sl_posted *posted, sl_time deadline,
                               const sl_full_name *name, sl_time *arrived) {
    _Atomic uint32_t *bell = arrival_bell(peer);
    for (;;) {
        uint32_t seen = atomic_load(bell);
        const char *reason = atomic_load(&peer->lost) ? peer->reason : NULL;
        sl_status status = look(t, peer, posted, name, arrived);
        if (status != SL_ENONE)
            return status;
        SL_TRY(sl_message_interrupted(t, reason, deadline, name));
        sl_clock_wait(t->clock, bell, seen, deadline);
    }
}

/* Of a message that is awaited. */
static sl_status find_awaited(sl_transport *t, const sl_full_name *name, sl_peer **peer, sl_posted **posted) {
    *peer = find_peer(t, name->from);
    if (!*peer)
        return SL_EINVAL;
    *posted = find_posted(t, *peer, name->iteration, name->index);
    return *posted ? SL_OK : complain_of(SL_EINVAL, name, "is awaited but was not posted");
}

sl_status sl_transport_wait(sl_transport *t, int rank, uint32_t iteration, uint32_t index, sl_time deadline,
                            sl_time *arrived) {
    sl_full_name name = {rank, t->rank, iteration, index};
    sl_peer *peer;
    sl_posted *posted;
    SL_TRY(find_awaited(t, &name, &peer, &posted));
    sl_status status;
    if (t->path == SL_PATH_DELEGATED)
        status = sl_delegated_wait(t, peer, posted, deadline, &name, arrived);
    else {
        atomic_store(&t->waiting, arrival_bell(peer));
        status = wait_and_take(t, peer, posted, deadline, &name, arrived);
    }
    atomic_store(&t->waiting, NULL);
    if (status == SL_OK)
        posted->open = 0;
    return status;
}

/* ---- rendezvous ---- */

sl_status sl_transport_take(sl_transport *t, int rank, uint32_t iteration, uint32_t index, sl_time *arrived) {
    sl_full_name name = {rank, t->rank, iteration, index};
    sl_peer *peer;
    sl_posted *posted;
    SL_TRY(find_awaited(t, &name, &peer, &posted));
    sl_status status = look(t, peer, posted, &name, arrived);
    if (status == SL_OK)
        posted->open = 0;
    return status;
}

sl_status sl_transport_clear(sl_transport *t, int rank, uint32_t iteration, uint32_t index, sl_time reached) {
    sl_clearance clearance = {.iteration = iteration, .index = index, .reached = reached};
    sl_peer *peer = find_peer(t, rank);
    if (!peer)
        return SL_EINVAL;
    if (peer->remote)
        return sl_network_clear(t, peer, &clearance);
    sl_lane_clear(&peer->out, &clearance);
    atomic_fetch_add(&peer->region->changed, 1);
    sl_clock_wake(t->clock, &peer->region->changed);
    return SL_OK;
}

sl_status sl_transport_next_cleared(sl_transport *t, uint32_t iteration, sl_message_name *name,
                                    sl_time *reached) {
    for (int rank = 0; rank < t->ranks; rank++) {
        sl_peer *peer = &t->peer[rank];
        sl_clearance clearance;
        if (!peer->talks)
            continue;
        sl_status status = peer->remote ? sl_network_next_cleared(t, peer, iteration, &clearance)
                                        : sl_lane_next_cleared(&peer->in, iteration, &clearance);
        if (status == SL_EPEER)
            return sl_error(SL_EPEER, "link %d -> %d: %s", rank, t->rank, sl_error_text());
        if (status != SL_OK)
            continue;
        *name = (sl_message_name){.peer = rank, .iteration = iteration, .index = clearance.index};
        *reached = clearance.reached;
        return SL_OK;
    }
    return SL_ENONE;
}

uint32_t sl_transport_changes(const sl_transport *t) {
    return atomic_load(t->changed);
}

void sl_transport_await_change(sl_transport *t, uint32_t seen, sl_time deadline) {
    atomic_store(&t->waiting, t->changed);
    if (!atomic_load(&t->aborted))
        sl_clock_wait(t->clock, t->changed, seen, deadline);
    atomic_store(&t->waiting, NULL);
}

sl_status sl_transport_check(sl_transport *t, int from, int to, uint32_t iteration, uint32_t index,
                             sl_time deadline) {
    sl_full_name name = {from, to, iteration, index};
    sl_peer *peer = find_peer(t, from == t->rank ? to : from);
    if (!peer)
        return SL_EINVAL;
    return sl_message_interrupted(t, atomic_load(&peer->lost) ? peer->reason : NULL, deadline, &name);
}

static void copy_ahead(sl_peer *peer, sl_outgoing *record) {
    record->slot = peer->remote ? -1 : sl_lane_claim(&peer->out);
    if (record->slot < 0)
        return;
    sl_slot *slot = sl_lane_slot(&peer->out, (uint32_t)record->slot);
    slot->iteration = record->iteration;
    slot->index = record->index;
    slot->bytes = record->bytes;
    memcpy(sl_slot_payload(slot), record->data, record->bytes);
}

static void hand_over(sl_transport *t, sl_peer *peer, sl_outgoing *record) {
    uint64_t handed = atomic_load_explicit(&peer->handed, memory_order_relaxed); /* own counter */
    atomic_store_explicit(&record->state, SL_OUTGOING_HANDED, memory_order_release);
    peer->handover[handed % (uint64_t)t->slots] = (int32_t)(record - peer->outgoing);
    atomic_store_explicit(&peer->handed, handed + 1, memory_order_release);
    if (peer->remote) {
        sl_network_ring(t->network);
        return;
    }
    atomic_fetch_add(&t->region->doorbell, 1);
    sl_clock_wake(t->clock, &t->region->doorbell);
}

static sl_outgoing *find_outgoing(const sl_transport *t, sl_peer *peer, uint32_t iteration, uint32_t index,
                                  sl_outgoing **unused) {
    for (int i = 0; i < t->slots; i++) {
        sl_outgoing *record = &peer->outgoing[i];
        if (atomic_load_explicit(&record->state, memory_order_relaxed) ==
            SL_OUTGOING_FREE) { /* only we leave FREE */
            if (unused && !*unused)
                *unused = record;
        } else if (record->iteration == iteration && record->index == index)
            return record;
    }
    return NULL;
}

/* Changing between the two while messages are under way would let them occupy both; so emulation changes only
 * between iterations. */
static sl_link_emulator *emulator_of(const sl_transport *t, sl_peer *peer) {
    if (!peer->emulation.per_queue || t->path != SL_PATH_DELEGATED)
        return &peer->emulator;
    return &peer->queue_emulator[peer->delegated_out % (uint64_t)sl_delegates_count(t->delegates)];
}

sl_status sl_transport_send(sl_transport *t, int rank, uint32_t iteration, uint32_t index, const void *data,
                            size_t bytes, sl_time ready) {
    sl_full_name name = {t->rank, rank, iteration, index};
    sl_outgoing *record = NULL;
    sl_peer *peer = find_peer(t, rank);
    if (!peer)
        return SL_EINVAL;
    if (bytes > t->message_bytes)
        return sl_error(SL_EINVAL, "link %d -> %d: a message of %zu bytes; the largest is %zu", t->rank, rank,
                        bytes, t->message_bytes);
    if (t->path == SL_PATH_DIRECT && atomic_load(&peer->lost))
        return sl_error(SL_EPEER, "link %d -> %d: %s", t->rank, rank, peer->reason);
    if (find_outgoing(t, peer, iteration, index, &record))
        return complain_of(SL_EINVAL, &name, "is under way already");
    if (!record)
        return complain_of(SL_EINVAL, &name, "is one more than the transport has slots for");
    record->iteration = iteration;
    record->index = index;
    record->data = data;
    record->bytes = bytes;
    sl_link_emulator_enter(emulator_of(t, peer), ready, bytes, peer->emulation, &record->sent);
    if (t->path == SL_PATH_DELEGATED)
        return sl_delegated_send(t, peer, record, ready);
    copy_ahead(peer, record);
    hand_over(t, peer, record);
    return SL_OK;
}

sl_status sl_transport_times(const sl_transport *t, int rank, uint32_t iteration, uint32_t index,
                             sl_sent *sent) {
    const sl_full_name name = {t->rank, rank, iteration, index};
    const sl_outgoing *record = find_outgoing(t, &t->peer[rank], iteration, index, NULL);
    if (!record)
        return complain_of(SL_EINVAL, &name, "was not handed over");
    *sent = (sl_sent){.start = record->sent.start, .end = record->sent.end, .due = record->sent.due};
    return SL_OK;
}

static int is_done(const sl_outgoing *record) {
    return atomic_load_explicit(&record->state, memory_order_acquire) == SL_OUTGOING_DONE;
}

/* Why a handed-over record may never be done, or NULL. */
static const char *lost_because(sl_transport *t, int rank, const sl_outgoing *record) {
    sl_peer *peer = &t->peer[rank];
    if (t->path == SL_PATH_DELEGATED)
        return sl_delegated_look(t, peer, record);
    return atomic_load(&peer->lost) ? peer->reason : NULL;
}

/* The word that moves after a record is done. */
static _Atomic uint32_t *settled_word(sl_transport *t) {
    return t->path == SL_PATH_DELEGATED ? sl_delegates_settled(t->delegates) : t->changed;
}

/* Finds a done record among `count`; -1: none with the deadline 0, which asks without waiting. */
static sl_status wait_done(sl_transport *t, sl_outgoing *const *record, const sl_full_name *name, int count,
                           sl_time deadline, int *which) {
    _Atomic uint32_t *settled = settled_word(t);
    for (;;) {
        uint32_t seen = atomic_load(settled);
        const char *lost[SL_ANY_SENT];
        for (int i = 0; i < count; i++)
            lost[i] = lost_because(t, name[i].to, record[i]);
        for (*which = 0; *which < count; ++*which)
            if (is_done(record[*which]))
                return SL_OK;
        *which = -1;
        if (deadline == 0)
            return SL_OK;
        for (int i = 0; i < count; i++)
            SL_TRY(sl_message_interrupted(t, lost[i], deadline, &name[i]));
        sl_clock_wait(t->clock, settled, seen, deadline);
    }
}

sl_status sl_transport_wait_any_sent(sl_transport *t, const sl_message_name *names, int count,
                                     sl_time deadline, int *which, sl_sent *sent) {
    sl_full_name name[SL_ANY_SENT];
    sl_outgoing *record[SL_ANY_SENT];
    *which = -1;
    if (count < 1 || count > SL_ANY_SENT)
        return sl_error(SL_EINVAL, "a wait for any of %d messages; at most %d", count, SL_ANY_SENT);
    for (int i = 0; i < count; i++) {
        name[i] = (sl_full_name){t->rank, names[i].peer, names[i].iteration, names[i].index};
        sl_peer *peer = find_peer(t, names[i].peer);
        if (!peer)
            return SL_EINVAL;
        record[i] = find_outgoing(t, peer, names[i].iteration, names[i].index, NULL);
        if (!record[i])
            return complain_of(SL_EINVAL, &name[i], "was not handed over");
    }
    atomic_store(&t->waiting, settled_word(t));
    sl_status status = wait_done(t, record, name, count, deadline, which);
    atomic_store(&t->waiting, NULL);
    if (status != SL_OK || *which < 0)
        return status;
    if (sent)
        *sent = record[*which]->sent;
    atomic_store_explicit(&record[*which]->state, SL_OUTGOING_FREE, memory_order_relaxed);
    return SL_OK;
}

sl_status sl_transport_wait_sent(sl_transport *t, int rank, uint32_t iteration, uint32_t index,
                                 sl_time deadline, sl_sent *sent) {
    sl_message_name name = {.peer = rank, .iteration = iteration, .index = index};
    int which;
    return sl_transport_wait_any_sent(t, &name, 1, deadline > 0 ? deadline : 1, &which, sent);
}
