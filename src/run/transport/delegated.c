/* The compute side on the delegated path: message n of a link is in queue n % count, at position n / count.
 * The payload is copied only into its slot and out of it in this process. */
#include "run/transport/network.h"
#include "run/transport/peer.h"

#include <stdio.h>
#include <string.h>

/* Why a queue is given up, or NULL. Data of another process are read with a bound. */
static const char *lost_for(sl_delegate_stream *stream) {
    const sl_queue *queue = stream->queue.queue;
    if (!atomic_load(&queue->lost))
        return NULL;
    snprintf(stream->reason, sizeof stream->reason, "%.*s", SL_QUEUE_REASON - 1, queue->reason);
    return stream->reason;
}

/* Reads the times of the messages that the delegate has finished, before their slots are reused. */
static void harvest(sl_peer *peer, sl_delegate_stream *stream) {
    sl_queue_view *view = &stream->queue;
    uint64_t put = atomic_load_explicit(&view->queue->put, memory_order_relaxed); /* own count */
    uint64_t done = atomic_load_explicit(&view->queue->done, memory_order_acquire);
    for (; stream->harvested != done && stream->harvested != put; stream->harvested++) {
        sl_outgoing *record = &peer->outgoing[stream->record[stream->harvested % view->slots]];
        record->sent.arrive = sl_queue_slot(view, stream->harvested)->arrived;
        atomic_store_explicit(&record->state, SL_OUTGOING_DONE, memory_order_relaxed);
    }
}

sl_status sl_delegated_send(sl_transport *t, sl_peer *peer, sl_outgoing *record, sl_time ready) {
    sl_delegate_stream *stream = sl_delegates_stream(t->delegates, peer->rank, 1, peer->delegated_out);
    sl_queue_view *view = &stream->queue;
    const char *reason = lost_for(stream);
    if (reason)
        return sl_error(SL_EPEER, "link %d -> %d: %s", t->rank, peer->rank, reason);
    harvest(peer, stream);
    /* `slots` messages may be under way and each queue has as many slots, so this is a delegate's fault */
    if (!sl_queue_has_room(view))
        return sl_error(SL_EPEER, "link %d -> %d: the queue's counts contradict each other", t->rank,
                        peer->rank);
    uint64_t position = atomic_load_explicit(&view->queue->put, memory_order_relaxed);
    sl_slot_header *header = sl_queue_slot(view, position);
    *header = (sl_slot_header){.iteration = record->iteration,
                               .index = record->index,
                               .bytes = record->bytes,
                               .ready = ready,
                               .start = record->sent.start,
                               .end = record->sent.end,
                               .due = record->sent.due};
    memcpy(sl_queue_payload(view, position), record->data, record->bytes);
    stream->record[position % view->slots] = (int32_t)(record - peer->outgoing);
    record->number = peer->delegated_out++;
    atomic_store_explicit(&record->state, SL_OUTGOING_HANDED, memory_order_relaxed);
    sl_queue_put(view);
    sl_delegates_ring(t->delegates, stream);
    return SL_OK;
}

const char *sl_delegated_look(sl_transport *t, sl_peer *peer, const sl_outgoing *record) {
    sl_delegate_stream *stream = sl_delegates_stream(t->delegates, peer->rank, 1, record->number);
    const char *reason = lost_for(stream); /* before the counts: what came just before counts */
    harvest(peer, stream);
    return reason;
}

/* Gives back the slots up to the first that is still in use. */
static void give_back(sl_transport *t, sl_delegate_stream *stream) {
    sl_queue_view *view = &stream->queue;
    uint64_t done = atomic_load_explicit(&view->queue->done, memory_order_relaxed); /* own count */
    uint64_t put = atomic_load_explicit(&view->queue->put, memory_order_acquire), first = done;
    for (; done != put && sl_queue_slot(view, done)->taken; done++) {
        sl_queue_slot(view, done)->taken = 0;
        sl_queue_done(view);
    }
    if (done != first)
        sl_delegates_ring(t->delegates, stream);
}

static sl_status take(sl_transport *t, sl_delegate_stream *stream, uint64_t position, const sl_posted *posted,
                      const sl_full_name *m, sl_time *arrived) {
    sl_slot_header *shared = sl_queue_slot(&stream->queue, position);
    sl_slot_header header = *shared; /* read once, then checked */
    if (header.iteration != m->iteration || header.index != m->index)
        return sl_error(SL_EPEER,
                        "link %d -> %d: message (iteration %u, index %u) came where (iteration %u, index %u) "
                        "was posted; receives are posted in the order of sending",
                        m->from, m->to, header.iteration, header.index, m->iteration, m->index);
    if (header.bytes != posted->bytes || header.bytes > stream->queue.payload_bytes)
        return sl_error(
            SL_EPEER, "link %d -> %d: message (iteration %u, index %u) has %llu bytes, the posted buffer %zu",
            m->from, m->to, m->iteration, m->index, (unsigned long long)header.bytes, posted->bytes);
    memcpy(posted->buffer, sl_queue_payload(&stream->queue, position), posted->bytes);
    if (arrived)
        *arrived = header.arrived;
    shared->taken = 1;
    give_back(t, stream);
    return SL_OK;
}

sl_status sl_delegated_wait(sl_transport *t, sl_peer *peer, const sl_posted *posted, sl_time deadline,
                            const sl_full_name *m, sl_time *arrived) {
    sl_delegate_stream *stream = sl_delegates_stream(t->delegates, peer->rank, 0, posted->number);
    uint64_t position = sl_delegates_position(t->delegates, posted->number);
    sl_queue *queue = stream->queue.queue;
    atomic_store(&t->waiting, &queue->put_bell);
    for (;;) {
        uint32_t seen = atomic_load(&queue->put_bell);
        const char *reason = lost_for(stream);
        if (atomic_load_explicit(&queue->put, memory_order_acquire) > position)
            return take(t, stream, position, posted, m, arrived);
        SL_TRY(sl_message_interrupted(t, reason, deadline, m));
        sl_clock_wait(t->clock, &queue->put_bell, seen, deadline);
    }
}

/* ---- the path ---- */

size_t sl_transport_block_bytes(const sl_transport *t) {
    return sl_delegates_block_bytes(t->ranks);
}

sl_status sl_transport_prepare_delegates(sl_transport *t, int count, void *block) {
    if (t->delegates)
        return sl_error(SL_EINVAL, "rank %d: delegates are prepared already", t->rank);
    for (int r = 0; r < t->ranks; r++)
        t->peer[r].delegated_in = t->peer[r].delegated_out = 0;
    return sl_delegates_prepare(&t->delegation, count, block, &t->delegates);
}

sl_status sl_transport_start_delegates(sl_transport *t, const void *blocks, sl_time timeout) {
    if (!t->delegates)
        return sl_error(SL_EINVAL, "rank %d: no delegates are prepared", t->rank);
    sl_status status = sl_delegates_start(t->delegates, blocks, timeout);
    if (status != SL_OK) {
        sl_delegates_close(t->delegates);
        t->delegates = NULL;
    }
    return status;
}

static int is_busy(const sl_transport *t, const sl_peer *peer) {
    for (int i = 0; peer->talks && i < t->slots; i++)
        if (peer->posted[i].open ||
            atomic_load_explicit(&peer->outgoing[i].state, memory_order_relaxed) != SL_OUTGOING_FREE)
            return 1;
    return 0;
}

sl_status sl_transport_use(sl_transport *t, sl_transport_path path) {
    if (path == SL_PATH_DELEGATED && !t->delegates)
        return sl_error(SL_EINVAL, "rank %d: there are no delegates to use", t->rank);
    for (int r = 0; r < t->ranks; r++)
        if (is_busy(t, &t->peer[r]))
            return sl_error(SL_EINVAL, "link %d -> %d: the path changes only when nothing is under way",
                            t->rank, r);
    t->path = path;
    return SL_OK;
}

sl_status sl_transport_stop_delegates(sl_transport *t) {
    if (t->path == SL_PATH_DELEGATED)
        return sl_error(SL_EINVAL, "rank %d: the delegates are in use", t->rank);
    sl_delegates_close(t->delegates);
    t->delegates = NULL;
    return SL_OK;
}

int sl_transport_next_event(sl_transport *t, sl_transport_event *happened) {
    if (t->network && sl_network_next_event(t->network, happened))
        return 1;
    return t->delegates ? sl_delegates_next_event(t->delegates, happened) : 0;
}
