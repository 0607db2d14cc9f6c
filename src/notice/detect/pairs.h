/* Pairs of ranks, by what is slow between them, and which pair explains which wait.
 *
 * A call that waits for several messages is as long as the slowest of them, so all of them seem slow
 * (awaited.h). The slow links are the fewest that explain all slow waits: the pair whose messages took part
 * in most of the unexplained waiting is kept, its waits are explained, and so on (the greedy set cover). A
 * pair whose waits are all explained by others is their shadow. Two pairs that explain the same waits cannot
 * be distinguished. If no single link explains nearly all waits, but the links of exactly one rank do, that
 * rank's host is slow. Internal to the files of call_verdict.h. */
#pragma once

#include "notice/detect/call_measure.h"

/* An undirected pair of ranks, by its messages and its collectives of two. */
typedef struct sl_call_pair {
    int a, b;
    double there, back; /* excess from a to b, from b to a */
    sl_call_measure worst;
    int measured[2], slow[2]; /* there, back */
    int taken;                /* explained by something else */
    int rival;                /* the pair that would explain the same waits; -1: none */
    long first;               /* of its groups; -1: none */
} sl_call_pair;

typedef struct sl_call_pairs {
    sl_call_pair *at;
    size_t count;
    long *next; /* [groups] of the same pair; -1: none */
} sl_call_pairs;

/** Every pair that can be measured. Free with sl_call_pairs_free, also on error. SL_ENOMEM. */
sl_status sl_call_pairs_find(const sl_call_comparison *comparison, sl_call_pairs *pairs);

void sl_call_pairs_free(sl_call_pairs *pairs);

/** Sets `taken` of shadows and `rival`. Pairs that are taken already (a slow device's) explain their waits
 * first. SL_ENOMEM. */
sl_status sl_call_pairs_cover(const sl_call_comparison *comparison, sl_call_pairs *pairs);

int sl_call_pair_is_slow(const sl_call_pair *pair);
double sl_call_pair_excess(const sl_call_pair *pair);
