/* The communication thread: publishes due messages to the peers that share memory and sleeps in between. */
#include "base/signals.h"
#include "run/transport/peer.h"
#include "run/transport/scheduling.h"

#include <signal.h>
#include <string.h>

sl_outgoing *sl_peer_head(sl_peer *peer, int slots) {
    if (atomic_load_explicit(&peer->handed, memory_order_acquire) == peer->published)
        return NULL;
    return &peer->outgoing[peer->handover[peer->published % (uint64_t)slots]];
}

void sl_peer_done(sl_transport *t, sl_outgoing *record) {
    /* The word changes after DONE, so a thread that read it before the state is woken. */
    atomic_store_explicit(&record->state, SL_OUTGOING_DONE, memory_order_release);
    sl_transport_change(t);
}

static void ring(sl_clock *clock, _Atomic uint32_t *word) {
    atomic_fetch_add(word, 1);
    sl_clock_wake(clock, word);
}

void sl_transport_change(sl_transport *t) {
    ring(t->clock, t->changed);
}

static int32_t fill_late(sl_peer *peer, const sl_outgoing *record) {
    int32_t number = sl_lane_claim_or_want(&peer->out);
    if (number < 0)
        return -1;
    sl_slot *slot = sl_lane_slot(&peer->out, (uint32_t)number);
    slot->iteration = record->iteration;
    slot->index = record->index;
    slot->bytes = record->bytes;
    memcpy(sl_slot_payload(slot), record->data, record->bytes);
    return number;
}

/* Publishes everything due on one link. Returns when the next message is due; NEVER: none, or no slot is
 * free, in which case the receiver rings the doorbell. */
static sl_time serve(sl_transport *t, sl_peer *peer) {
    for (sl_outgoing *record; (record = sl_peer_head(peer, t->slots)) != NULL;) {
        if (record->sent.due > sl_clock_now(t->clock))
            return record->sent.due;
        int32_t slot = record->slot >= 0 ? record->slot : fill_late(peer, record);
        if (slot < 0)
            return SL_TIME_NEVER;
        sl_time now = sl_clock_now(t->clock);
        sl_lane_publish(&peer->out, slot, now);
        sl_clock_wake(t->clock, &peer->out.lane->bell);
        ring(t->clock, &peer->region->changed);
        record->sent.arrive = now;
        peer->published++;
        sl_peer_done(t, record);
    }
    return SL_TIME_NEVER;
}

static void *communicate(void *object) {
    sl_transport *t = object;
    /* lateness does not exist on a virtual clock, and a real-time class would only disturb the machine */
    t->obtained = sl_scheduling_obtain(sl_clock_is_virtual(t->clock) ? SL_CLASS_NORMAL : t->scheduling);
    sem_post(&t->started);
    while (!atomic_load(&t->closing) && !sl_clock_stuck(t->clock)) {
        uint32_t bell = atomic_load(&t->region->doorbell);
        sl_time next = SL_TIME_NEVER;
        for (int r = 0; r < t->ranks; r++)
            if (t->peer[r].talks && !t->peer[r].remote) {
                sl_time due = serve(t, &t->peer[r]);
                next = due < next ? due : next;
            }
        if (!atomic_load(&t->closing))
            sl_clock_wait(t->clock, &t->region->doorbell, bell, next);
    }
    sl_clock_leave(t->clock);
    return NULL;
}

sl_status sl_communication_start(sl_transport *t) {
    sl_clock_join(t->clock);
    int error = sl_thread_start(&t->thread, communicate, t);
    if (error) {
        sl_clock_leave(t->clock);
        return sl_error(SL_ESYS, "rank %d: no communication thread: %s", t->rank, strerror(error));
    }
    t->running = 1;
    while (sem_wait(&t->started) != 0) {
    }
    return SL_OK;
}

void sl_communication_end(sl_transport *t) {
    if (!t->running)
        return;
    atomic_fetch_add(&t->region->doorbell, 1);
    sl_clock_wake(t->clock, &t->region->doorbell);
    pthread_join(t->thread, NULL);
    t->running = 0;
}
