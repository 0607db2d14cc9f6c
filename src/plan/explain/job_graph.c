#include "plan/explain/job_graph.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "plan/explain/job_graph_inside.h"

#include <stdlib.h>
#include <string.h>

sl_status sl_hybrid_add_node(sl_hybrid_graph *g, sl_hybrid_node node) {
    SL_TRY(sl_grow(&g->node, &g->node_room, g->nodes + 1, sizeof *g->node));
    g->node[g->nodes++] = node;
    return SL_OK;
}

sl_status sl_hybrid_add_edge(sl_hybrid_graph *g, int32_t from, int32_t to) {
    SL_TRY(sl_grow(&g->edge, &g->edge_room, g->edges + 1, sizeof *g->edge));
    g->edge[g->edges++] = (sl_hybrid_edge){from, to};
    return SL_OK;
}

void sl_hybrid_graph_free(sl_hybrid_graph *g) {
    SL_FREE(g->node, g->edge, g->gap);
    *g = (sl_hybrid_graph){0};
}

int sl_hybrid_members(const sl_hybrid_layout *l, int kind, int position, int *self) {
    switch (sl_traced_kinds[kind].role) {
    case SL_ROLE_REPLICAS:
        *self = position % l->data;
        return l->data;
    case SL_ROLE_ENDS:
        *self = position / l->data > 0;
        return l->pipeline > 1 ? 2 : 1;
    default:
        *self = position;
        return l->data * l->pipeline;
    }
}

static const char *name_of(const sl_hybrid_builder *b, int position) {
    return b->trace->worker[b->layout->worker[position]].name;
}

/* ---- ops ---- */

typedef struct op_id {
    int32_t id;
    int32_t op;
} op_id;

static int by_id(const void *one, const void *other) {
    return sl_ascending_ints(&((const op_id *)one)->id, &((const op_id *)other)->id);
}

/* Microbatches of a position's ops of one kind and chunk: by their numbers if all differ, else in order. */
static int number_ops(sl_hybrid_builder *b, int position, int kind, int slot, op_id *scratch) {
    int count = 0, distinct = 1;
    for (size_t i = b->first_op[position]; i < b->first_op[position + 1]; i++)
        if (b->op[i].kind == kind && b->op[i].slot == slot) {
            scratch[count] = (op_id){b->trace->event[b->op[i].event].microbatch, (int32_t)i};
            b->op[i].microbatch = count++;
        }
    qsort(scratch, (size_t)count, sizeof *scratch, by_id);
    for (int i = 0; i < count; i++)
        distinct &= scratch[i].id >= 0 && (i == 0 || scratch[i].id != scratch[i - 1].id);
    for (int i = 0; i < count && distinct; i++)
        b->op[scratch[i].op].microbatch = i;
    return count;
}

/* Chunks that the trace does not name: the usual interleaved order, in groups of as many microbatches as
 * there are pipeline ranks. */
static void set_slots(sl_hybrid_builder *b, int position) {
    int count[2] = {0, 0}, chunks = b->layout->chunks, ranks = b->layout->pipeline;
    for (size_t i = b->first_op[position]; i < b->first_op[position + 1]; i++) {
        sl_hybrid_op *op = &b->op[i];
        int chunk = b->trace->event[op->event].chunk, k = count[op->kind]++ / ranks % chunks;
        op->slot = chunks == 1                   ? 0
                   : chunk >= 0                  ? (chunk < chunks ? chunk : chunk / ranks % chunks)
                   : op->kind == SL_KIND_FORWARD ? k
                                                 : chunks - 1 - k;
    }
}

static sl_status read_ops(sl_hybrid_builder *b) {
    size_t room = 0, ops = 0;
    for (int q = 0; q < b->positions; q++)
        room += b->end[q] - b->first[q];
    SL_TRY(sl_alloc(&b->op, room, sizeof *b->op));
    SL_TRY(sl_alloc(&b->first_op, (size_t)b->positions + 1, sizeof *b->first_op));
    for (int q = 0; q < b->positions; q++) {
        for (size_t i = b->first[q]; i < b->end[q]; i++)
            if (b->trace->event[i].kind <= SL_KIND_BACKWARD)
                b->op[ops++] = (sl_hybrid_op){i, b->trace->event[i].kind, 0, 0, -1, -1, -1};
        b->first_op[q + 1] = ops;
        set_slots(b, q);
    }
    return SL_OK;
}

/* All positions of a replica have the same microbatches, forward and backward. */
static sl_status check_ops(sl_hybrid_builder *b, op_id *scratch) {
    const sl_hybrid_layout *l = b->layout;
    for (int q = 0; q < b->positions; q++)
        for (int slot = 0; slot < l->chunks; slot++) {
            int forwards = number_ops(b, q, SL_KIND_FORWARD, slot, scratch),
                backwards = number_ops(b, q, SL_KIND_BACKWARD, slot, scratch),
                *expected = &b->microbatches[q % l->data];
            if (q < l->data && slot == 0)
                *expected = forwards;
            if (forwards != backwards || forwards != *expected || forwards == 0)
                return sl_error(SL_ENONE, "%s has %d forwards and %d backwards%s", name_of(b, q), forwards,
                                backwards,
                                forwards == backwards ? ", other workers of its pipeline others" : "");
            b->most = sl_larger(b->most, forwards);
        }
    return SL_OK;
}

static sl_status index_ops(sl_hybrid_builder *b) {
    size_t cells = 2 * (size_t)b->layout->data * (size_t)b->chunks * (size_t)b->most;
    SL_TRY(sl_alloc(&b->of_op, cells, sizeof *b->of_op));
    for (size_t i = 0; i < cells; i++)
        b->of_op[i] = -1;
    for (int q = 0; q < b->positions; q++)
        for (size_t i = b->first_op[q]; i < b->first_op[q + 1]; i++)
            *sl_hybrid_op_of(b, b->op[i].kind, q % b->layout->data,
                             sl_hybrid_global_chunk(b, q, b->op[i].slot), b->op[i].microbatch) = (int32_t)i;
    return SL_OK;
}

/* ---- the main stream ---- */

static sl_status add_part(sl_hybrid_builder *b, int position, size_t event, int side) {
    int kind = b->trace->event[event].kind, occurrence = 0;
    for (size_t i = b->parts; i-- > 0 && b->part[i].position == position;)
        if (b->part[i].kind == kind) {
            occurrence = b->part[i].occurrence + 1;
            break;
        }
    SL_TRY(sl_grow(&b->part, &b->part_room, b->parts + 1, sizeof *b->part));
    b->part[b->parts++] = (sl_hybrid_part){event, kind, position, occurrence, -1, -1, side};
    return SL_OK;
}

/* A collective as its meetings, in each of which a member hears of twice as many others, and itself: after
 * them it has heard that all have come (a dissemination barrier). */
static sl_status add_collective(sl_hybrid_builder *b, sl_hybrid_part *part, int stream) {
    int self, members = sl_hybrid_members(b->layout, part->kind, part->position, &self);
    const sl_hybrid_event *e = &b->trace->event[part->event];
    sl_hybrid_node node = {.start = e->start,
                           .end = e->end,
                           .limit = SL_TIME_NEVER,
                           .stream = part->position * SL_HYBRID_STREAMS + stream,
                           .microbatch = -1,
                           .kind = -1};
    part->first = (int32_t)b->graph->nodes;
    for (int heard = 1; heard < members; heard *= 2)
        SL_TRY(sl_hybrid_add_node(b->graph, node));
    part->node = (int32_t)b->graph->nodes;
    node.kind = (int16_t)part->kind;
    node.slot = (int16_t)sl_smaller(part->occurrence, 255);
    return sl_hybrid_add_node(b->graph, node);
}

static sl_status add_local(sl_hybrid_builder *b, int position, const sl_hybrid_event *e, int slot,
                           int microbatch) {
    return sl_hybrid_add_node(b->graph,
                              (sl_hybrid_node){.time = e->open ? -1 : e->end - e->start,
                                               .start = e->start,
                                               .end = e->end,
                                               .limit = SL_TIME_NEVER,
                                               .stream = position * SL_HYBRID_STREAMS + SL_HYBRID_MAIN,
                                               .microbatch = microbatch,
                                               .slot = (int16_t)slot,
                                               .kind = e->kind});
}

/* Whether an event runs while the position computes: then it is on another stream. */
static int overlaps(const sl_hybrid_builder *b, int position, const sl_hybrid_event *e) {
    for (size_t i = b->first_op[position]; i < b->first_op[position + 1]; i++) {
        const sl_hybrid_event *op = &b->trace->event[b->op[i].event];
        if (e->start < op->end - SL_HYBRID_EPSILON && op->start < e->end - SL_HYBRID_EPSILON)
            return 1;
    }
    return 0;
}

/* Whether a collective is before all ops of the position, or after them. */
static int is_apart(const sl_hybrid_builder *b, int position, const sl_hybrid_event *e) {
    sl_time first = SL_TIME_NEVER, last = -SL_TIME_NEVER;
    for (size_t i = b->first_op[position]; i < b->first_op[position + 1]; i++) {
        const sl_hybrid_event *op = &b->trace->event[b->op[i].event];
        first = sl_sooner(first, op->start);
        last = sl_later(last, op->end);
    }
    return e->end <= first + SL_HYBRID_EPSILON || e->start >= last - SL_HYBRID_EPSILON;
}

static sl_status add_position(sl_hybrid_builder *b, int q) {
    size_t op = b->first_op[q], first_part = b->parts;
    int occurrences[64] = {0};
    for (size_t i = b->first[q]; i < b->end[q]; i++) {
        const sl_hybrid_event *e = &b->trace->event[i];
        if (e->kind <= SL_KIND_BACKWARD) {
            b->op[op].node = (int32_t)b->graph->nodes;
            SL_TRY(add_local(b, q, e, b->op[op].slot, b->op[op].microbatch));
            op++;
        } else if (sl_traced_kind_is_collective(e->kind)) {
            int side = !is_apart(b, q, e);
            SL_TRY(add_part(b, q, i, side));
            if (!side)
                SL_TRY(add_collective(b, &b->part[b->parts - 1], SL_HYBRID_MAIN));
        } else if (sl_traced_kinds[e->kind].role == SL_ROLE_LOCAL) {
            if (overlaps(b, q, e))
                b->graph->left_out++;
            else
                SL_TRY(add_local(b, q, e, sl_smaller(occurrences[e->kind]++, 255), -1));
        }
    }
    for (size_t i = first_part; i < b->parts; i++)
        if (b->part[i].side)
            SL_TRY(add_collective(b, &b->part[i], SL_HYBRID_SIDE));
    return SL_OK;
}

/* ---- gaps ---- */

/* Time of each position in which its main stream could have gone on. */
static sl_status add_gaps(sl_hybrid_builder *b, sl_time begin) {
    sl_hybrid_graph *g = b->graph;
    sl_time *ready, *last;
    SL_TRY(sl_alloc(&g->gap, (size_t)b->positions, sizeof *g->gap));
    SL_TRY(sl_alloc(&ready, g->nodes + (size_t)b->positions, sizeof *ready));
    last = ready + g->nodes;
    for (size_t i = 0; i < g->nodes + (size_t)b->positions; i++)
        ready[i] = begin;
    for (size_t i = 0; i < g->edges; i++)
        if (g->node[g->edge[i].from].kind >= 0)
            ready[g->edge[i].to] = sl_later(ready[g->edge[i].to], g->node[g->edge[i].from].end);
    for (size_t i = 0; i < g->nodes; i++) {
        const sl_hybrid_node *n = &g->node[i];
        int q = sl_hybrid_node_position(n);
        if (n->stream % SL_HYBRID_STREAMS != SL_HYBRID_MAIN || n->kind < 0)
            continue;
        sl_time since = sl_later(ready[i], last[q]);
        if (!sl_traced_kind_is_collective(n->kind))
            g->gap[q] += n->start > since ? n->start - since : 0;
        last[q] = n->end;
    }
    sl_free(ready);
    return SL_OK;
}

/* ---- a step ---- */

static int others_in(const sl_hybrid_trace *t, size_t first, size_t end) {
    int count = 0;
    for (size_t i = first; i < end; i++)
        count +=
            t->event[i].kind >= SL_KIND_OTHERS && sl_traced_kinds[t->event[i].kind].role != SL_ROLE_MESSAGE;
    return count;
}

sl_status sl_hybrid_usual_events(const sl_hybrid_trace *t, const sl_hybrid_layout *l, const int64_t *step,
                                 int steps, int *usual) {
    sl_time *counts;
    size_t first, end;
    SL_TRY(sl_alloc(&counts, (size_t)steps, sizeof *counts));
    for (int q = 0; q < l->pipeline * l->data; q++) {
        int seen = 0;
        for (int i = 0; i < steps; i++) {
            sl_hybrid_step(t, l->worker[q], step[i], &first, &end);
            if (first < end)
                counts[seen++] = others_in(t, first, end);
        }
        usual[q] = (int)sl_median(counts, seen);
    }
    sl_free(counts);
    return SL_OK;
}

static sl_status find_events(sl_hybrid_builder *b, int64_t step, const int *usual, sl_time *begin) {
    sl_time last = -SL_TIME_NEVER;
    *begin = SL_TIME_NEVER;
    for (int q = 0; q < b->positions; q++) {
        sl_hybrid_step(b->trace, b->layout->worker[q], step, &b->first[q], &b->end[q]);
        if (b->first[q] == b->end[q])
            return sl_error(SL_ENONE, "%s has no events", name_of(b, q));
        int others = others_in(b->trace, b->first[q], b->end[q]);
        if (10 * others < 9 * usual[q])
            return sl_error(SL_ENONE, "%s has %d of its usual %d events apart from computation and messages",
                            name_of(b, q), others, usual[q]);
        for (size_t i = b->first[q]; i < b->end[q]; i++) {
            const sl_hybrid_event *e = &b->trace->event[i];
            int guessed = e->open && !sl_traced_kind_is_compute(e->kind); /* waiting varies */
            *begin = sl_sooner(*begin, e->start);
            last = sl_later(last, guessed ? e->start : e->end);
        }
    }
    b->graph->traced = last - *begin;
    return SL_OK;
}

static sl_status build(sl_hybrid_builder *b, int64_t step, const int *usual) {
    sl_time begin;
    size_t room = 1;
    op_id *scratch = NULL;
    SL_TRY(sl_alloc(&b->first, (size_t)b->positions, sizeof *b->first));
    SL_TRY(sl_alloc(&b->end, (size_t)b->positions, sizeof *b->end));
    SL_TRY(sl_alloc(&b->microbatches, (size_t)b->layout->data, sizeof *b->microbatches));
    SL_TRY(find_events(b, step, usual, &begin));
    for (int q = 0; q < b->positions; q++)
        room = sl_larger_size(room, b->end[q] - b->first[q]);
    SL_TRY(read_ops(b));
    SL_TRY(sl_alloc(&scratch, room, sizeof *scratch));
    sl_status status = check_ops(b, scratch);
    sl_free(scratch);
    SL_TRY(status);
    b->graph->microbatches = b->most;
    SL_TRY(index_ops(b));
    for (int q = 0; q < b->positions; q++)
        SL_TRY(add_position(b, q));
    SL_TRY(sl_hybrid_join_collectives(b));
    SL_TRY(sl_hybrid_add_messages(b));
    return add_gaps(b, begin);
}

sl_status sl_hybrid_graph_make(const sl_hybrid_trace *t, const sl_hybrid_layout *l, int64_t step,
                               const int *usual, sl_hybrid_graph *graph) {
    *graph = (sl_hybrid_graph){.step = step};
    sl_hybrid_builder b = {.trace = t,
                           .layout = l,
                           .graph = graph,
                           .positions = l->pipeline * l->data,
                           .chunks = l->pipeline * l->chunks};
    sl_status status = build(&b, step, usual);
    SL_FREE(b.first, b.end, b.op, b.first_op, b.microbatches, b.part, b.of_op);
    return status;
}
