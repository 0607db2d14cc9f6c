/* Sends under way: their buffers, and their handling by the regimes. */
#include "run/engine/engine_inside.h"

static const sl_message *message_at(const sl_engine *e, int32_t index) {
    return &e->program->message[index];
}

static sl_way *way_of(sl_engine *e, int32_t index) {
    return &e->way[sl_message_send_queue(e->program, message_at(e, index))];
}

sl_status sl_sends_buffer(sl_engine *e, int32_t i, void **buffer) {
    int32_t index = e->flow->out[i].message;
    if (e->mine->step[i].op.part == 0)
        SL_TRY(sl_pool_take(&e->sent, e->bytes, &e->sending[index]));
    *buffer = e->sent.buffer[e->sending[index]];
    return SL_OK;
}

size_t sl_message_bytes(const sl_engine *e, const sl_message *message) {
    int here = message->from == e->config.rank; /* the stages at its two ends agree */
    const sl_op *op = here ? &message->op : &e->mine->step[message->consumer].op;
    const sl_stage *stage = &e->config.stage[op->stage];
    return (op->kind == SL_F) == here ? stage->output_bytes : stage->input_bytes;
}

sl_status sl_sends_hand_over(sl_engine *e, int32_t index, sl_time ready) {
    const sl_message *message = message_at(e, index);
    sl_way *way = way_of(e, index);
    if (sl_transport_shares_wire(e->config.transport, message->to))
        sl_clock_sleep_until(e->config.clock, ready);
    way->message[way->first + way->count++] = index;
    return sl_transport_send(e->config.transport, message->to, e->iteration, (uint32_t)index,
                             e->sent.buffer[e->sending[index]], sl_message_bytes(e, message), ready);
}

void sl_sends_note(sl_engine *e, int32_t index, const sl_sent *sent) {
    const sl_message *message = message_at(e, index);
    sl_pool_give(&e->sent, e->sending[index]);
    sl_record record = {.kind = SL_RECORD_TRANSFER,
                        .op = (uint8_t)message->op.kind,
                        .part = (uint8_t)message->op.part,
                        .paired = (uint8_t)message->op.paired,
                        .iteration = (int32_t)e->iteration,
                        .rank = message->from,
                        .peer = message->to,
                        .stage = message->op.stage,
                        .microbatch = message->op.microbatch,
                        .start = sent->start,
                        .end = sent->end,
                        .arrive = sent->arrive,
                        .due = sent->due};
    sl_record_write(e->config.ring, e->config.ring->capacity, &record);
}

static int32_t remove_oldest(sl_way *way) {
    way->count--;
    return way->message[way->first++];
}

/* The oldest send of a neighbor has arrived: its slot and its buffer are free. */
static void arrived(sl_engine *e, sl_way *way, const sl_sent *sent) {
    sl_sends_note(e, remove_oldest(way), sent);
}

static sl_message_name oldest(const sl_engine *e, const sl_way *way) {
    int32_t index = way->message[way->first];
    return (sl_message_name){
        .peer = message_at(e, index)->to, .iteration = e->iteration, .index = (uint32_t)index};
}

sl_status sl_sends_next_published(sl_engine *e, int w, int32_t *index, sl_sent *sent) {
    sl_way *way = &e->way[w];
    int which;
    *index = -1;
    if (way->count == 0)
        return SL_OK;
    sl_message_name name = oldest(e, way);
    SL_TRY(sl_transport_wait_any_sent(e->config.transport, &name, 1, 0, &which, sent));
    if (which == 0)
        *index = remove_oldest(way);
    return SL_OK;
}

sl_status sl_sends_reap(sl_engine *e) {
    if (e->config.regime == SL_FIFO)
        return sl_messenger_reap(e);
    for (int w = 0; w < 2; w++)
        for (;;) {
            sl_sent sent;
            int32_t index;
            SL_TRY(sl_sends_next_published(e, w, &index, &sent));
            if (index < 0)
                break;
            sl_sends_note(e, index, &sent);
        }
    return SL_OK;
}

static sl_status finish_way(sl_engine *e, sl_way *way, sl_time *last) {
    while (way->count > 0) {
        sl_message_name name = oldest(e, way);
        sl_sent sent;
        SL_TRY(sl_transport_wait_sent(e->config.transport, name.peer, name.iteration, name.index,
                                      sl_clock_now(e->config.clock) + e->config.patience, &sent));
        arrived(e, way, &sent);
        *last = sent.arrive > *last ? sent.arrive : *last;
    }
    return SL_OK;
}

sl_status sl_sends_finish(sl_engine *e) {
    sl_time last = 0;
    if (e->config.regime == SL_FIFO)
        return sl_messenger_finish(e, sl_clock_now(e->config.clock) + e->config.patience);
    SL_TRY(finish_way(e, &e->way[0], &last));
    return finish_way(e, &e->way[1], &last);
}

/* ---- inorder ---- */

typedef struct pending_send {
    int32_t message; /* -1: none, or handed over */
    sl_time ready;   /* when a slot was free */
} pending_send;

/* Hands over the sends that have a slot. The second of two in one direction comes after the first. */
static sl_status hand_over_ready(sl_engine *e, pending_send *p, int count) {
    for (int k = 0; k < count; k++) {
        if (p[k].message < 0)
            continue;
        sl_way *way = way_of(e, p[k].message);
        if (way->count >= e->config.queue || (k == 1 && p[0].message >= 0 && way_of(e, p[0].message) == way))
            continue;
        SL_TRY(sl_sends_hand_over(e, p[k].message, p[k].ready));
        e->free_at = p[k].ready > e->free_at ? p[k].ready : e->free_at;
        p[k].message = -1;
    }
    return SL_OK;
}

/* Each send waits for a slot of its own peer; if both of a pair wait, for the one that is free first. */
static sl_status issue_in_order(sl_engine *e, pending_send *p, int count) {
    for (;;) {
        SL_TRY(hand_over_ready(e, p, count));
        sl_message_name name[2];
        sl_way *way[2];
        int of[2], waits = 0, which;
        sl_sent sent;
        for (int k = 0; k < count; k++) {
            if (p[k].message < 0 || (waits == 1 && way[0] == way_of(e, p[k].message)))
                continue;
            way[waits] = way_of(e, p[k].message);
            name[waits] = oldest(e, way[waits]);
            of[waits++] = k;
        }
        if (waits == 0)
            return SL_OK;
        SL_TRY(sl_transport_wait_any_sent(e->config.transport, name, waits,
                                          sl_clock_now(e->config.clock) + e->config.patience, &which, &sent));
        arrived(e, way[which], &sent);
        pending_send *released = &p[of[which]];
        released->ready = sent.arrive > released->ready ? sent.arrive : released->ready;
    }
}

sl_status sl_sends_issue(sl_engine *e, int32_t i, int steps, sl_time end) {
    pending_send p[2];
    e->free_at = end;
    if (e->config.regime == SL_FIFO) {
        sl_messenger_step(e, i + steps, end);
        return SL_OK;
    }
    for (int k = 0; k < steps; k++)
        p[k] = (pending_send){.message = e->mine->step[i + k].send, .ready = end};
    if (e->config.regime == SL_INORDER)
        return issue_in_order(e, p, steps);
    for (int k = 0; k < steps; k++)
        if (p[k].message >= 0)
            SL_TRY(sl_sends_hand_over(e, p[k].message, end));
    if (e->config.regime != SL_BATCHED)
        return SL_OK;
    SL_TRY(finish_way(e, &e->way[0], &e->free_at));
    return finish_way(e, &e->way[1], &e->free_at);
}
