/* A relaxation of a problem, from which bounds are proven and which searches use as their guide.
 *
 * Microbatches are alike, so in every schedule the k-th F of a stage can be called F_k, likewise I and W:
 * what a schedule must obey can be counted. Full backwards and pairs are covered by taking the smaller of
 * their times and memory (I' and W' together are never longer than what a schedule runs instead). Regimes
 * other than decoupled add waiting, some of which counts as work: in the batched one a rank is held by what
 * it sends until that has arrived; with one place in order, a link carries one message at a time until it has
 * arrived. What the limit of memory implies is an edge: before F_k starts, so
 * many I and W of its stage must have ended. */
#pragma once

#include "plan/pipeline/problem.h"

/* Ops of stage s are nodes first[s] + kind * count[s] + k, for kinds F, I, W. */
typedef struct sl_relaxation {
    const sl_problem *problem;
    int nodes;
    int *first, *count;  /* [stages] */
    unsigned char *held; /* [ranks * 2] batched: what the F's (I's) of a rank send is counted as their time */
    sl_link *link;       /* [ranks * ranks] as the regime makes them */
    sl_time excess;      /* what heads and tails may be too long by: the last send of a rank */
    sl_time *time[3];    /* [F I W][stage] */
    int *needs_i, *needs_w; /* by first[s] / 3 + k: ops of the stage that must have ended before F_k */
    int *frees_i, *frees_w; /* the smallest k whose F needs the j-th I (W) to have ended; count: none */
    sl_time *head, *tail;   /* [nodes] no start before; from its end to the end of everything */
    int impossible;         /* no schedule keeps the limit: what it needs at least, and where */
    int impossible_rank;
    double impossible_memory;
} sl_relaxation;

/** Computes heads and tails; `problem` must outlive it. O(nodes); `deep` also counts what must run on the
 * same rank before and after each op, O(nodes * microbatches) and left out where that is beyond 10^8.
 * SL_ENOMEM. Free with sl_relaxation_free. */
sl_status sl_relaxation_make(const sl_problem *problem, int deep, sl_relaxation *relaxation);
void sl_relaxation_free(sl_relaxation *relaxation);

/** The link that messages of a kind take from one stage to another, as far as it is not in their op's time;
 * without any between stages of one rank. */
sl_link sl_relaxation_link(const sl_relaxation *relaxation, int from, int to, int kind);

/** Node of the k-th op of a kind (SL_F, SL_I, SL_W) of a stage. */
static inline int sl_relaxation_node(const sl_relaxation *r, int stage, int kind, int k) {
    return r->first[stage] + kind * r->count[stage] + k;
}
