/* One traced iteration as a graph for the timing model: what ran on which stream, for how long by itself, and
 * what it waited for. The rules are those of the what-if analysis of stragglers (OSDI 2025, section 3):
 *
 * - Computation of a position (pipeline rank of a replica) runs in its traced order and lasts as it did.
 * - A transfer starts when both sides have issued it and the one before it has come, and lasts from then to
 * the receive's end: waiting is no part of it. Activations are sent after their forward; a receive is issued
 * after the previous op of its kind (unless the trace shows receives issued earlier); the transfers that a
 * position receives in one direction follow each other. An op waits for its input.
 * - A collective starts when all members have entered it. Those next to computation (gradients of one chunk
 *   while another computes) run on a stream of their own, after the last backward of their chunk, or before
 *   its first forward; the others are in sequence with computation.
 *
 * Gaps in which nothing is recorded (the host is late) are no part of the graph; they are added up. */
#pragma once

#include "plan/explain/job_layout.h"

enum { SL_HYBRID_MAIN, SL_HYBRID_FORWARD_IN, SL_HYBRID_BACKWARD_IN, SL_HYBRID_SIDE, SL_HYBRID_STREAMS };

typedef struct sl_hybrid_node {
    sl_time time;       /* by itself; -1: unknown until sl_usual_make */
    sl_time start, end; /* as traced */
    sl_time limit;      /* of an unknown time; SL_TIME_NEVER: none */
    int32_t stream;     /* position * SL_HYBRID_STREAMS + SL_HYBRID_MAIN, ... */
    int32_t microbatch; /* -1: none */
    int16_t slot;       /* chunk, or the how manieth of its kind */
    int16_t kind;       /* index into sl_traced_kinds; -1: one of the meetings before a collective */
} sl_hybrid_node;

typedef struct sl_hybrid_edge {
    int32_t from, to; /* nodes of different streams */
} sl_hybrid_edge;

typedef struct sl_hybrid_graph {
    int64_t step;
    sl_time traced;       /* from the first event's start to the last one's end */
    int microbatches;     /* the most of a replica */
    sl_hybrid_node *node; /* each stream's in order */
    size_t nodes, node_room;
    sl_hybrid_edge *edge;
    size_t edges, edge_room;
    sl_time *gap; /* [positions] */
    int left_out; /* events that overlap computation and are neither messages nor collectives */
    int unknown;  /* transfers and collectives of unknown time */
} sl_hybrid_graph;

static inline int sl_hybrid_node_position(const sl_hybrid_node *node) {
    return node->stream / SL_HYBRID_STREAMS;
}

/** The number of events apart from forwards, backwards and messages that each position usually has in a step:
 * usual[positions]. SL_ENOMEM. */
sl_status sl_hybrid_usual_events(const sl_hybrid_trace *trace, const sl_hybrid_layout *layout,
                                 const int64_t *step, int steps, int *usual);

/** The graph of a step. SL_ENONE: it is not complete; the error text says where. Free with
 * sl_hybrid_graph_free, also on error. */
sl_status sl_hybrid_graph_make(const sl_hybrid_trace *trace, const sl_hybrid_layout *layout, int64_t step,
                               const int *usual, sl_hybrid_graph *graph);
void sl_hybrid_graph_free(sl_hybrid_graph *graph);
