/* A relaxation of a problem, for proofs of bounds and as a guide of searches.
 *
 * Microbatches are equal, so in every schedule the k-th F of a stage can be called F_k, and the same for I
 * and W: the constraints of a schedule become counts. Full backwards and pairs are covered by the smaller of
 * their times and memory (I' and W' together are never longer than the ops of any schedule). Regimes other
 * than decoupled add waiting, some of which counts as work: in the batched regime a send holds its rank until
 * it has arrived; inorder with one slot and in most of fifo, a link carries one message at a time until it
 * has arrived. The memory limit implies edges: before F_k starts, a number of I and W of its stage must have
 * ended. */
#pragma once

#include "plan/pipeline/problem.h"

/* Ops of stage s are nodes first[s] + kind * count[s] + k, for kinds F, I, W. */
typedef struct sl_relaxation {
    const sl_problem *problem;
    int nodes;
    int *first, *count;     /* [stages] */
    unsigned char *held;    /* [ranks * 2] batched: the sends of a rank's F (I) count as their time */
    sl_link *link;          /* [ranks * ranks] in this regime */
    sl_time excess;         /* maximum by which heads and tails are too long: the last send of a rank */
    sl_time *time[3];       /* [F I W][stage] */
    int *needs_i, *needs_w; /* by first[s] / 3 + k: ops of the stage that must have ended before F_k */
    int *frees_i, *frees_w; /* the smallest k whose F needs the j-th I (W) to have ended; count: none */
    sl_time *head, *tail; /* [nodes] earliest start; minimum from its end to the end of all; below 0: none is
                             known, in a window */
    int deep;             /* heads and tails are */
    int window;           /* the rank whose first op is time 0 and whose last op is the end; -1: all ranks */
    sl_time *begin, *end; /* [stages] of heads and tails: the least of any op of a stage */
    int impossible;       /* no schedule fits into the limit: the minimum needed, and its rank */
    int impossible_rank;
    double impossible_memory;
} sl_relaxation;

/** Computes heads and tails; `problem` must outlive it. O(nodes); `deep` also counts the ops that must run on
 * the same rank before and after each op, O(nodes * microbatches), skipped beyond 10^8. SL_ENOMEM. Free with
 * sl_relaxation_free. */
sl_status sl_relaxation_make(const sl_problem *problem, int deep, sl_relaxation *relaxation);

/** The same for the window of a rank: heads count from its first op, tails to its last one. Ops that no chain
 * of dependencies from the first op leads to, or that none leads to the last op from, have heads or tails
 * below 0. Collectives are left out. */
sl_status sl_relaxation_make_window(const sl_problem *problem, int rank, int deep, sl_relaxation *relaxation);
/** The same for ranks that need not end together: `relaxation` gets tails as if a rank that can start later
 * than others could also end later by the same time. Only a guide for searches. */
sl_status sl_relaxation_make_skewed(const sl_problem *problem, int deep, sl_relaxation *relaxation);
void sl_relaxation_free(sl_relaxation *relaxation);

/* Minimum memory of a microbatch on a stage: sums after F, I' and W'. */
typedef struct sl_stage_memory {
    double forward, input,
        backward; /* of F; maximum release by I' (<= 0); release by I' and W' together (<= 0) */
} sl_stage_memory;
sl_stage_memory sl_relaxation_memory(const sl_problem *problem, int stage);

/** The link for messages of a kind from one stage to another, without the part in their op's time; zero
 * between stages of one rank. */
sl_link sl_relaxation_link(const sl_relaxation *relaxation, int from, int to, int kind);

/** Node of the k-th op of a kind (SL_F, SL_I, SL_W) of a stage. */
static inline int sl_relaxation_node(const sl_relaxation *r, int stage, int kind, int k) {
    return r->first[stage] + kind * r->count[stage] + k;
}
