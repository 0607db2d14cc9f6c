/* What is usual for the nodes of all iterations: the times that a cause is replaced by, and those of nodes
 * whose own is unknown. Computation without one takes what its worker usually does, times the length of its
 * microbatch, or until it sends or something follows, if that is about as long or earlier. Transfers and
 * collectives take the median of their kind. */
#pragma once

#include "plan/explain/job_graph.h"

/* Ops are of one group if kind, pipeline rank and slot are the same. */
typedef struct sl_hybrid_usual {
    const sl_hybrid_layout *layout;
    const sl_hybrid_graph *graph;
    int graphs;
    int slots;          /* of each kind */
    sl_time *of_worker; /* [group * replicas + replica] median; -1: there are none */
    sl_time *of_group;  /* [group] median over replicas (of two in the middle the smaller); -1 */
    sl_time *of_slot;   /* [kind * slots + slot] median of all */
    sl_time *of_kind;   /* [kind] median of all */
    double *mean;       /* [kind] */
    double *of_stage;   /* [kind * pipeline + rank] sum of its groups */
    int *kind_count;    /* [kind] */
    double **length;    /* [graphs][replica * microbatches + microbatch] 1: as usual */
    double mean_length;
    double together, variation;
} sl_hybrid_usual;

/** Graphs that are complete; fills in unknown times of their nodes. SL_ENOMEM. Free with sl_usual_free, also
 * on error. */
sl_status sl_usual_make(const sl_hybrid_layout *layout, sl_hybrid_graph *graph, int graphs,
                        sl_hybrid_usual *usual);
void sl_usual_free(sl_hybrid_usual *usual);

static inline size_t sl_usual_group(const sl_hybrid_usual *u, const sl_hybrid_node *n) {
    int rank = sl_hybrid_node_position(n) / u->layout->data;
    return ((size_t)n->kind * (size_t)u->layout->pipeline + (size_t)rank) * (size_t)u->slots +
           (size_t)n->slot;
}
static inline size_t sl_usual_worker(const sl_hybrid_usual *u, const sl_hybrid_node *n) {
    return sl_usual_group(u, n) * (size_t)u->layout->data +
           (size_t)(sl_hybrid_node_position(n) % u->layout->data);
}
/** The length of an op's microbatch; 1 for other ops, and where lengths are not believed. */
double sl_usual_length(const sl_hybrid_usual *u, int graph, const sl_hybrid_node *n);

#define SL_TOGETHER 0.6 /* correlation from which lengths are believed */
