/* Collectives: their meetings, their own time, and the ranges of those that run next to computation. */
#include "base/memory.h"
#include "base/numbers.h"
#include "plan/explain/job_graph_inside.h"

#include <stdlib.h>

static int group_of(const sl_hybrid_builder *b, const sl_hybrid_part *part) {
    switch (sl_traced_kinds[part->kind].role) {
    case SL_ROLE_REPLICAS:
        return part->position / b->layout->data;
    case SL_ROLE_ENDS:
        return part->position % b->layout->data;
    default:
        return 0;
    }
}

/* ---- meetings ---- */

typedef struct collective_key {
    int kind, group, occurrence, self;
    size_t part;
} collective_key;

static int by_collective(const void *one, const void *other) {
    const collective_key *a = one, *b = other;
    int order = sl_ascending_ints(&a->kind, &b->kind);
    order = order ? order : sl_ascending_ints(&a->group, &b->group);
    order = order ? order : sl_ascending_ints(&a->occurrence, &b->occurrence);
    return order ? order : sl_ascending_ints(&a->self, &b->self);
}

/* The time by itself of each member: from the last one's start. An end that is not known is the others'. */
static void set_times(sl_hybrid_builder *b, const collective_key *key, int count) {
    sl_time start = -SL_TIME_NEVER, end = -SL_TIME_NEVER;
    for (int i = 0; i < count; i++) {
        const sl_hybrid_event *e = &b->trace->event[b->part[key[i].part].event];
        start = sl_later(start, e->start);
        end = e->open ? end : sl_later(end, e->end);
    }
    for (int i = 0; i < count; i++) {
        const sl_hybrid_part *part = &b->part[key[i].part];
        const sl_hybrid_event *e = &b->trace->event[part->event];
        sl_time its = e->open ? end : e->end;
        sl_hybrid_node *node = &b->graph->node[part->node];
        node->time = its == -SL_TIME_NEVER ? -1 : sl_later(its - start, 0);
        node->end = its == -SL_TIME_NEVER ? node->end : sl_later(its, node->start);
        b->graph->unknown += node->time < 0;
    }
}

/* Members hear of each other; nothing waits for a member whose trace lacks the collective. */
static sl_status meet(sl_hybrid_builder *b, const collective_key *key, int count) {
    int self, members = sl_hybrid_members(b->layout, key->kind, b->part[key->part].position, &self),
              round = 0;
    set_times(b, key, count);
    if (count < members)
        return SL_OK;
    for (int heard = 1; heard < members; heard *= 2, round++)
        for (int i = 0; i < members; i++)
            SL_TRY(sl_hybrid_add_edge(b->graph, b->part[key[i].part].first + round,
                                      b->part[key[(i + heard) % members].part].first + round + 1));
    return SL_OK;
}

static sl_status meet_all(sl_hybrid_builder *b) {
    collective_key *key;
    SL_TRY(sl_alloc(&key, b->parts, sizeof *key));
    for (size_t i = 0; i < b->parts; i++) {
        const sl_hybrid_part *part = &b->part[i];
        key[i] = (collective_key){part->kind, group_of(b, part), part->occurrence, 0, i};
        sl_hybrid_members(b->layout, part->kind, part->position, &key[i].self);
    }
    qsort(key, b->parts, sizeof *key, by_collective);
    sl_status status = SL_OK;
    for (size_t i = 0, next; status == SL_OK && i < b->parts; i = next) {
        for (next = i; next < b->parts && key[next].kind == key[i].kind && key[next].group == key[i].group &&
                       key[next].occurrence == key[i].occurrence;
             next++)
            continue;
        status = meet(b, key + i, (int)(next - i));
    }
    sl_free(key);
    return status;
}

/* ---- next to computation ---- */

static const sl_hybrid_event *event_of(const sl_hybrid_builder *b, const sl_hybrid_op *op) {
    return &b->trace->event[op->event];
}

/* The last backward of the collective's chunk, if it had ended by then; else the last op that had. */
static const sl_hybrid_op *before(const sl_hybrid_builder *b, const sl_hybrid_part *part) {
    const sl_hybrid_event *e = &b->trace->event[part->event];
    const sl_hybrid_op *last = NULL, *ended = NULL;
    for (size_t i = b->first_op[part->position]; i < b->first_op[part->position + 1]; i++) {
        const sl_hybrid_op *op = &b->op[i];
        if (op->kind == SL_KIND_BACKWARD && (e->chunk < 0 || op->slot == e->chunk))
            last = op;
        if (event_of(b, op)->end <= e->start + SL_HYBRID_EPSILON)
            ended = op;
    }
    return last && event_of(b, last)->end <= e->start + SL_HYBRID_EPSILON ? last : ended;
}

/* The first forward of the collective's chunk (of any chunk after it, if unknown), if it waited. */
static const sl_hybrid_op *after(const sl_hybrid_builder *b, const sl_hybrid_part *part) {
    const sl_hybrid_event *e = &b->trace->event[part->event];
    for (size_t i = b->first_op[part->position]; i < b->first_op[part->position + 1]; i++) {
        const sl_hybrid_op *op = &b->op[i];
        int waited = event_of(b, op)->start >= e->end - SL_HYBRID_EPSILON;
        if (op->kind == SL_KIND_FORWARD && (e->chunk >= 0 ? op->slot == e->chunk : waited))
            return waited ? op : NULL;
    }
    return NULL;
}

/* The first node of the position's main stream, other than ops, that begins after a side collective. */
static int32_t first_after(const sl_hybrid_builder *b, const sl_hybrid_part *part) {
    const sl_hybrid_graph *g = b->graph;
    sl_time end = b->trace->event[part->event].end;
    int32_t node =
        b->op[b->first_op[part->position + 1] - 1].node; /* the last op: what follows is its tail */
    for (size_t i = (size_t)node + 1; i < g->nodes && g->node[i].stream == g->node[node].stream; i++)
        if (g->node[i].start >= end - SL_HYBRID_EPSILON)
            return (int32_t)i;
    return -1;
}

/* The last collective of the main stream that had ended when a gather on the side began. */
static int32_t last_before(const sl_hybrid_builder *b, const sl_hybrid_part *part) {
    int32_t node = -1;
    for (size_t i = 0; i < b->parts; i++)
        if (b->part[i].position == part->position && !b->part[i].side &&
            b->trace->event[b->part[i].event].end <= b->trace->event[part->event].start + SL_HYBRID_EPSILON)
            node = b->part[i].node;
    return node;
}

static sl_status attach(sl_hybrid_builder *b, const sl_hybrid_part *part) {
    if (sl_traced_kinds[part->kind].is_gather) {
        const sl_hybrid_op *user = after(b, part);
        int32_t first = last_before(b, part);
        if (first >= 0)
            SL_TRY(sl_hybrid_add_edge(b->graph, first, part->first));
        return user ? sl_hybrid_add_edge(b->graph, part->node, user->node) : SL_OK;
    }
    const sl_hybrid_op *producer = before(b, part);
    int32_t next = first_after(b, part);
    if (producer)
        SL_TRY(sl_hybrid_add_edge(b->graph, producer->node, part->first));
    return next >= 0 ? sl_hybrid_add_edge(b->graph, part->node, next) : SL_OK;
}

sl_status sl_hybrid_join_collectives(sl_hybrid_builder *b) {
    SL_TRY(meet_all(b));
    for (size_t i = 0; i < b->parts; i++)
        if (b->part[i].side)
            SL_TRY(attach(b, &b->part[i]));
    return SL_OK;
}
