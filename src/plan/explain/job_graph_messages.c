/* Transfers between the positions of a pipeline. */
#include "base/memory.h"
#include "base/numbers.h"
#include "plan/explain/job_graph_inside.h"
#include "plan/explain/job_link.h"

/* Whether an op has a successor that it sends to (towards = 1), or a predecessor (-1). */
static int has_peer(const sl_hybrid_builder *b, int position, const sl_hybrid_op *op, int towards) {
    int along = op->kind == SL_KIND_FORWARD ? towards : -towards;
    int chunk = sl_hybrid_global_chunk(b, position, op->slot) + along;
    return chunk >= 0 && chunk < b->chunks;
}

static sl_time bound_of(const sl_hybrid_builder *b, int position, int kind, int ends) {
    sl_time bound = ends ? SL_TIME_NEVER : -SL_TIME_NEVER;
    for (size_t i = b->first_op[position]; i < b->first_op[position + 1]; i++) {
        const sl_hybrid_event *e = &b->trace->event[b->op[i].event];
        if (b->op[i].kind == kind)
            bound = ends ? sl_sooner(bound, e->open ? e->start : e->end) : sl_later(bound, e->start);
    }
    return bound;
}

/* The events of a position that send (or receive) activations, or gradients. Returns their number. */
static int list_messages(const sl_hybrid_builder *b, int position, int kind, int sends, int32_t *list) {
    int count = 0, bit = kind == SL_KIND_FORWARD ? 1 : 2;
    sl_time bound = bound_of(b, position, kind, sends);
    for (size_t i = b->first[position]; i < b->end[position]; i++) {
        const sl_hybrid_event *e = &b->trace->event[i];
        const sl_traced_kind *of = &sl_traced_kinds[e->kind];
        if ((sends ? of->sends : of->receives) & bit &&
            !(sends ? sl_hybrid_is_idle_send(e, bound) : sl_hybrid_is_idle_receive(e, bound)))
            list[count++] = (int32_t)i;
    }
    return count;
}

/* Assigns the messages of a position to its ops, in order: one per op with a peer, or one per op. Those of
 * ops without a peer then have no effect, and the first receive may be missing. */
static void match(sl_hybrid_builder *b, int position, int kind, int sends, const int32_t *list, int count) {
    int all = 0, peers = 0;
    for (size_t i = b->first_op[position]; i < b->first_op[position + 1]; i++)
        if (b->op[i].kind == kind) {
            all++;
            peers += has_peer(b, position, &b->op[i], sends ? 1 : -1);
        }
    int each = count == all || (!sends && count + 1 == all && count != peers);
    int at = each && count != all ? -1 : 0;
    if (!each && count != peers)
        return;
    for (size_t i = b->first_op[position]; i < b->first_op[position + 1]; i++) {
        sl_hybrid_op *op = &b->op[i];
        if (op->kind != kind)
            continue;
        int peer = has_peer(b, position, op, sends ? 1 : -1);
        if (peer && at >= 0)
            *(sends ? &op->sent : &op->received) = list[at];
        at += each || peer;
    }
}

/* Whether a position issues the receive of an op after the previous op of its kind. */
static int follows(const sl_hybrid_builder *b, int position, int kind) {
    const sl_hybrid_op *before = NULL;
    int count = 0, yes = 0;
    for (size_t i = b->first_op[position]; i < b->first_op[position + 1]; i++) {
        const sl_hybrid_op *op = &b->op[i];
        if (op->kind != kind)
            continue;
        if (before && op->received >= 0) {
            count++;
            yes +=
                b->trace->event[op->received].start >= b->trace->event[before->event].end - SL_HYBRID_EPSILON;
        }
        before = op;
    }
    return 10 * yes >= 9 * count;
}

/* A transfer by itself: from the time at which both sides had issued it, and the one before it had come. */
static sl_hybrid_node transfer(const sl_hybrid_builder *b, int position, const sl_hybrid_op *from,
                               const sl_hybrid_op *to, sl_time free) {
    const sl_hybrid_event *event = b->trace->event, *send = from->sent >= 0 ? &event[from->sent] : NULL,
                          *receive = to->received >= 0 ? &event[to->received] : NULL;
    int forward = to->kind == SL_KIND_FORWARD;
    sl_time start = sl_later(free, send ? send->start : event[from->event].end);
    if (receive)
        start = sl_later(start, receive->start);
    int known = (receive && !receive->open) || (send && !send->open);
    sl_time end = receive && !receive->open ? receive->end : send && !send->open ? send->end : start;
    end = sl_later(start, end);
    return (sl_hybrid_node){.time = known ? end - start : -1,
                            .start = start,
                            .end = end,
                            .limit = SL_TIME_NEVER,
                            .stream = position * SL_HYBRID_STREAMS +
                                      (forward ? SL_HYBRID_FORWARD_IN : SL_HYBRID_BACKWARD_IN),
                            .microbatch = to->microbatch,
                            .slot = (int16_t)to->slot,
                            .kind = forward ? SL_KIND_FORWARD_TRANSFER : SL_KIND_BACKWARD_TRANSFER};
}

static sl_status add_transfers(sl_hybrid_builder *b, int position, int kind) {
    const sl_hybrid_op *before = NULL;
    sl_time free = -SL_TIME_NEVER;
    int after = follows(b, position, kind);
    for (size_t i = b->first_op[position]; i < b->first_op[position + 1]; i++) {
        const sl_hybrid_op *to = &b->op[i];
        if (to->kind != kind)
            continue;
        if (has_peer(b, position, to, -1)) {
            int chunk = sl_hybrid_global_chunk(b, position, to->slot) + (kind == SL_KIND_FORWARD ? -1 : 1);
            const sl_hybrid_op *from =
                &b->op[*sl_hybrid_op_of(b, kind, position % b->layout->data, chunk, to->microbatch)];
            int32_t node = (int32_t)b->graph->nodes;
            SL_TRY(sl_hybrid_add_node(b->graph, transfer(b, position, from, to, free)));
            free = b->graph->node[node].end;
            b->graph->unknown += b->graph->node[node].time < 0;
            SL_TRY(sl_hybrid_add_edge(b->graph, from->node, node));
            if (before && after)
                SL_TRY(sl_hybrid_add_edge(b->graph, before->node, node));
            SL_TRY(sl_hybrid_add_edge(b->graph, node, to->node));
        }
        before = to;
    }
    return SL_OK;
}

/* An op has ended when it sends its result. */
static void limit_unknown(sl_hybrid_builder *b) {
    for (size_t i = 0; i < b->first_op[b->positions]; i++) {
        sl_hybrid_node *n = &b->graph->node[b->op[i].node];
        if (n->time < 0 && b->op[i].sent >= 0)
            n->limit = sl_later(b->trace->event[b->op[i].sent].start - n->start, 0);
    }
}

sl_status sl_hybrid_add_messages(sl_hybrid_builder *b) {
    int32_t *list;
    size_t room = 1;
    for (int q = 0; q < b->positions; q++)
        room = sl_larger_size(room, b->end[q] - b->first[q]);
    SL_TRY(sl_alloc(&list, room, sizeof *list));
    for (int q = 0; q < b->positions; q++)
        for (int kind = SL_KIND_FORWARD; kind <= SL_KIND_BACKWARD; kind++)
            for (int sends = 0; sends < 2; sends++)
                match(b, q, kind, sends, list, list_messages(b, q, kind, sends, list));
    sl_free(list);
    limit_unknown(b);
    for (int q = 0; q < b->positions; q++)
        for (int kind = SL_KIND_FORWARD; kind <= SL_KIND_BACKWARD; kind++)
            SL_TRY(add_transfers(b, q, kind));
    return SL_OK;
}
