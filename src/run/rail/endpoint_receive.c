/* From the rails to the queue. */
#include "run/rail/endpoint_inside.h"

#include <string.h>
#include <sys/random.h>

static uint64_t put_of(const sl_endpoint *c) {
    return atomic_load_explicit(&c->queue->queue->put, memory_order_relaxed); /* ours */
}

static uint64_t window_end(const sl_endpoint *c) {
    return atomic_load_explicit(&c->queue->queue->done, memory_order_acquire) + c->queue->slots;
}

sl_status sl_endpoint_receive_open(sl_endpoint *c) {
    sl_receiver_config config = {.window = c->queue->slots,
                                 .chunk_bytes = c->config.chunk_bytes,
                                 .total_max = c->queue->payload_bytes,
                                 .first = put_of(c)};
    if (getrandom(&c->epoch, sizeof c->epoch, 0) != sizeof c->epoch)
        return sl_error_errno(SL_ESYS, "no random numbers for an endpoint");
    SL_TRY(sl_receiver_open(&config, &c->receiver));
    sl_receiver_allow(c->receiver, window_end(c));
    return SL_OK;
}

const char *sl_endpoint_answer(void *object, const sl_hello *said, sl_hello *own) {
    sl_endpoint *c = object;
    uint64_t put = put_of(c);
    if (c->lost)
        return "the conduit that it names has been given up";
    if (said->rail < 0 || said->rail >= c->config.rails)
        return "it names a rail that is not there";
    if (said->chunk_bytes != c->config.chunk_bytes)
        return "it cuts messages differently";
    if (said->proves != c->config.proves)
        return SL_HANDSHAKE_AUTH_DIFFERS;
    /* What it does not know yet must still be in our slots. */
    if (said->state.published > put || put - said->state.published > c->queue->slots)
        return "its queue is not the other end of this one";
    *own = (sl_hello){.from = c->config.from,
                      .to = c->config.to,
                      .number = c->config.number,
                      .rail = said->rail,
                      .chunk_bytes = c->config.chunk_bytes,
                      .proves = c->config.proves,
                      .slots = c->queue->slots,
                      .state = sl_receiver_state(c->receiver, c->epoch)};
    memcpy(own->boot, c->boot, sizeof own->boot);
    return NULL;
}

/* A chunk arrives a second time while another rail is still reading it. If it comes sooner than a sender
 * resends because of slowness, the sender knows that the other rail is down, and we will soon. Otherwise the
 * other rail may merely be slow: the second copy counts only if that rail is not alive. */
static void prefer_the_live_rail(sl_endpoint *c, int rail) {
    const sl_wire *head = &c->rail[rail].stream.head;
    for (int r = 0; r < c->config.rails; r++) {
        sl_endpoint_stream *other = &c->rail[r].stream;
        if (r == rail || other->socket < 0 || !other->in_payload || !other->destination ||
            other->head.chunk.message != head->chunk.message || other->head.chunk.index != head->chunk.index)
            continue;
        sl_time now = sl_endpoint_now();
        if (now - other->taken_since < SL_RESEND_AFTER || now - other->heard > c->config.beat) {
            sl_receiver_rail_down(c->receiver, r);
            other->destination = NULL; /* what still comes of it is thrown away */
            other->verdict = SL_CHUNK_IGNORE;
        }
    }
}

const char *sl_endpoint_begin_chunk(sl_endpoint *c, int rail) {
    sl_endpoint_stream *s = &c->rail[rail].stream;
    prefer_the_live_rail(c, rail);
    if (sl_receiver_begin(c->receiver, rail, &s->head.chunk, &s->verdict) != SL_OK)
        return sl_error_text();
    s->destination = NULL;
    if (s->verdict != SL_CHUNK_TAKE)
        return NULL;
    sl_slot_header *slot = sl_queue_slot(c->queue, s->head.chunk.message);
    slot->iteration = s->head.iteration;
    slot->index = s->head.name;
    slot->due = s->head.flags & SL_WIRE_DUE ? s->head.due : 0;
    s->destination = (char *)sl_queue_payload(c->queue, s->head.chunk.message) + s->head.chunk.offset;
    s->taken_since = sl_endpoint_now();
    return NULL;
}

static const char *check_payload(const sl_endpoint_stream *s) {
    size_t bytes = s->head.chunk.bytes;
    if (sl_frame_checksum(s->destination, bytes) != s->head.payload_checksum)
        return "the checksum of a chunk is wrong";
    if (s->proofs && !sl_payload_is_proven(s->proofs, s->destination, bytes, s->proof))
        return "a payload that the other end has not proven";
    return NULL;
}

const char *sl_endpoint_end_chunk(sl_endpoint *c, int rail) {
    sl_endpoint_stream *s = &c->rail[rail].stream;
    sl_wire ack = {.kind = SL_WIRE_ACK, .epoch = c->epoch, .chunk = s->head.chunk};
    if (s->verdict == SL_CHUNK_IGNORE)
        return NULL;
    /* The rest of a chunk that is already complete may by now belong to another message in its sender's
     * slot. */
    if (s->verdict == SL_CHUNK_TAKE) {
        const char *wrong = check_payload(s);
        if (wrong) {
            sl_receiver_rail_down(c->receiver, rail);
            return wrong;
        }
        sl_receiver_finish(c->receiver, rail);
        c->breaches = 0;
        s->destination = NULL;
    }
    if (!sl_endpoint_say(s, &ack))
        return "it does not read its acknowledgements";
    sl_endpoint_publish(c, sl_endpoint_now());
    return NULL;
}

void sl_endpoint_publish(sl_endpoint *c, sl_time now) {
    uint64_t total;
    int published = 0;
    c->publish_at = SL_TIME_NEVER;
    while (sl_receiver_complete(c->receiver, &total)) {
        sl_slot_header *slot = sl_queue_slot(c->queue, put_of(c));
        if (slot->due > now) {
            c->publish_at = slot->due;
            break;
        }
        slot->bytes = total;
        slot->taken = 0;
        slot->arrived = sl_endpoint_now();
        sl_queue_put(c->queue);
        sl_receiver_published(c->receiver);
        published = c->moved = 1;
    }
    if (!published)
        return;
    sl_receiver_allow(c->receiver, window_end(c));
    for (int r = 0; r < c->config.rails; r++)
        if (c->rail[r].stream.socket >= 0)
            sl_endpoint_say_state(c, r);
}

void sl_endpoint_allow(sl_endpoint *c) {
    uint64_t limit = sl_receiver_state(c->receiver, c->epoch).limit, now_there = window_end(c);
    if (now_there <= limit)
        return;
    sl_receiver_allow(c->receiver, now_there);
    for (int r = 0; r < c->config.rails; r++)
        if (c->rail[r].stream.socket >= 0)
            sl_endpoint_say_state(c, r);
}

/* Without room, the rest is sent with the next state: after one beat at most. */
int sl_endpoint_say_state(sl_endpoint *c, int rail) {
    sl_endpoint_stream *s = &c->rail[rail].stream;
    uint64_t put = put_of(c);
    do {
        sl_wire frame = {
            .kind = SL_WIRE_STATE, .state = sl_receiver_state(c->receiver, c->epoch), .first = s->reported};
        while (frame.count < SL_WIRE_TIMES && frame.first + frame.count < put) {
            frame.times[frame.count] = sl_queue_slot(c->queue, frame.first + frame.count)->arrived;
            frame.count++;
        }
        if (frame.count == 0)
            frame.first = 0;
        if (!sl_endpoint_say(s, &frame))
            return 0;
        s->reported += frame.count;
    } while (s->reported < put);
    return 1;
}
