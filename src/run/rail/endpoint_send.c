/* From the queue to the rails. */
#include "base/memory.h"
#include "run/rail/endpoint_inside.h"

#define RAIL_BYTES ((size_t)4 << 20) /* unacknowledged on one rail: this is resent when it dies */

sl_status sl_endpoint_send_open(sl_endpoint *c) {
    uint32_t slots = c->queue->slots;
    c->offered = c->released = atomic_load(&c->queue->queue->done);
    SL_TRY(sl_alloc(&c->held, slots, 1));
    sl_sender_config config = {.window = slots,
                               .chunk_bytes = c->config.chunk_bytes,
                               .rail_bytes =
                                   RAIL_BYTES > c->config.chunk_bytes ? RAIL_BYTES : c->config.chunk_bytes,
                               .resend_after = SL_RESEND_AFTER,
                               .first = c->offered};
    return sl_sender_open(&config, &c->sender);
}

/* Nothing is offered before the first rail is up: only then do we know whether the receiver can publish by
 * our clock, and how many slots it has. */
void sl_endpoint_offer(sl_endpoint *c) {
    uint64_t put = atomic_load_explicit(&c->queue->queue->put, memory_order_acquire);
    uint64_t done = atomic_load_explicit(&c->queue->queue->done, memory_order_relaxed); /* ours */
    while (c->offered < put && c->offered - done < c->window) {
        const sl_slot_header *slot = sl_queue_slot(c->queue, c->offered);
        int held = !c->shares_clock && slot->due > sl_endpoint_now();
        uint64_t number;
        if (slot->bytes > c->queue->payload_bytes ||
            sl_sender_offer(c->sender, slot->bytes, held, &number) != SL_OK)
            return;
        c->held[c->offered % c->queue->slots] = (char)held;
        c->offered++;
    }
}

/* In the order of the numbers: none is published before its predecessors anyway. */
void sl_endpoint_release(sl_endpoint *c, sl_time now) {
    for (; c->released < c->offered; c->released++) {
        char *held = &c->held[c->released % c->queue->slots];
        if (*held && sl_queue_slot(c->queue, c->released)->due > now)
            return;
        if (*held)
            sl_sender_release(c->sender, c->released);
        *held = 0;
    }
}

sl_time sl_endpoint_send_at(const sl_endpoint *c, sl_time now) {
    sl_time first = sl_sender_deadline(c->sender);
    if (first <= now) /* it was tried just now: room to write or an acknowledgement comes first */
        first = SL_TIME_NEVER;
    if (c->released < c->offered) { /* sl_endpoint_release stopped at a held one */
        sl_time due = sl_queue_slot(c->queue, c->released)->due;
        first = due < first ? due : first;
    }
    return first;
}

int sl_endpoint_next_chunk(sl_endpoint *c, int rail) {
    sl_endpoint_stream *s = &c->rail[rail].stream;
    sl_wire frame = {.kind = SL_WIRE_CHUNK};
    if (!sl_sender_next(c->sender, rail, sl_endpoint_now(), &frame.chunk))
        return 0;
    const sl_slot_header *slot = sl_queue_slot(c->queue, frame.chunk.message);
    s->chunk = (const char *)sl_queue_payload(c->queue, frame.chunk.message) + frame.chunk.offset;
    frame.iteration = slot->iteration;
    frame.name = slot->index;
    if (c->shares_clock && slot->due > 0) {
        frame.flags = SL_WIRE_DUE;
        frame.due = slot->due;
    } else if (slot->due > 0) {
        frame.flags = SL_WIRE_HELD;
    }
    frame.payload_checksum = sl_frame_checksum(s->chunk, frame.chunk.bytes);
    if (!sl_endpoint_encode(s, &frame, s->chunk, s->chunk_head)) {
        sl_endpoint_rail_down(c, rail, "%s", sl_error_text());
        return 0;
    }
    s->chunk_bytes = s->head_bytes + (size_t)frame.chunk.bytes;
    s->chunk_done = 0;
    return 1;
}

/* Times come in message order on each rail, starting from the count that this end had reported. */
static const char *take_times(sl_endpoint *c, const sl_wire *frame) {
    uint64_t done = atomic_load_explicit(&c->queue->queue->done, memory_order_relaxed);
    for (uint32_t i = 0; i < frame->count; i++) {
        if (frame->first + i < done)
            continue; /* another rail was faster */
        if (frame->first + i > done || done >= c->offered)
            return "it sent the time of a message out of order";
        sl_queue_slot(c->queue, done++)->arrived = frame->times[i];
        sl_queue_done(c->queue);
        c->moved = 1;
    }
    if (c->released < done)
        c->released = done;
    return NULL;
}

const char *sl_endpoint_hear_receiver(sl_endpoint *c, const sl_wire *frame) {
    if (frame->kind == SL_WIRE_ACK) {
        sl_sender_acknowledge(c->sender, frame->epoch, frame->chunk.message, frame->chunk.index);
        c->breaches = 0;
        return NULL;
    }
    if (sl_sender_state(c->sender, &frame->state) != SL_OK)
        return sl_error_text();
    const char *wrong = take_times(c, frame);
    if (!wrong)
        sl_endpoint_offer(c);
    return wrong;
}
