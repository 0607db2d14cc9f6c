/* Shared by job_graph.c (streams of a position), job_graph_messages.c and job_graph_collectives.c. */
#pragma once

#include "plan/explain/job_graph.h"

#define SL_HYBRID_EPSILON ((sl_time)50000) /* ns by which events of one worker may overlap */

/* An op of a position: a forward or a backward. */
typedef struct sl_hybrid_op {
    size_t event;
    int32_t kind, slot, microbatch, node;
    int32_t sent, received; /* events of its messages; -1: none */
} sl_hybrid_op;

/* A collective that a position took part in. */
typedef struct sl_hybrid_part {
    size_t event;
    int32_t kind, position, occurrence;
    int32_t first, node; /* its first meeting (or itself), itself */
    int side;
} sl_hybrid_part;

typedef struct sl_hybrid_builder {
    const sl_hybrid_trace *trace;
    const sl_hybrid_layout *layout;
    sl_hybrid_graph *graph;
    int positions, chunks; /* chunks: global, chunks * pipeline ranks */
    size_t *first, *end;   /* [positions] events */
    sl_hybrid_op *op;      /* by position, in order */
    size_t *first_op;      /* [positions + 1] */
    int *microbatches;     /* [replicas] */
    sl_hybrid_part *part;  /* by position, in order */
    size_t parts, part_room;
    int32_t *of_op; /* [2][replicas][chunks][most microbatches] op; -1 */
    int most;
} sl_hybrid_builder;

static inline int sl_hybrid_global_chunk(const sl_hybrid_builder *b, int position, int slot) {
    return slot * b->layout->pipeline + position / b->layout->data;
}
static inline int32_t *sl_hybrid_op_of(const sl_hybrid_builder *b, int kind, int replica, int chunk,
                                       int microbatch) {
    size_t row =
        ((size_t)kind * (size_t)b->layout->data + (size_t)replica) * (size_t)b->chunks + (size_t)chunk;
    return &b->of_op[row * (size_t)b->most + (size_t)microbatch];
}

sl_status sl_hybrid_add_node(sl_hybrid_graph *graph, sl_hybrid_node node);
sl_status sl_hybrid_add_edge(sl_hybrid_graph *graph, int32_t from, int32_t to);

/** The members of a collective that a position takes part in, and its own number among them. */
int sl_hybrid_members(const sl_hybrid_layout *layout, int kind, int position, int *self);

/** Transfers, after all ops have nodes. */
sl_status sl_hybrid_add_messages(sl_hybrid_builder *b);
/** Collectives on a stream of their own, and the meetings of all. */
sl_status sl_hybrid_join_collectives(sl_hybrid_builder *b);
