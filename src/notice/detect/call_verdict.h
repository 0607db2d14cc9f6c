/* What is suspected, with what it costs; and the bounds below which nothing is named. Internal to the files
 * that compare profiles (call_compare.c, call_links.c, call_groups.c). */
#pragma once

#include "notice/detect/pairs.h"

/* Chosen, not derived from measured noise: what noise could explain has been dropped before (call_measure.c).
 * They bound shadows, whose size depends on the program: a rank that shares a core with a slow one, or links
 * of one call. A rank that lost no processor time casts none. */
#define SL_CALL_COMPARABLE 0.35 /* of the worst: anything less may be its shadow, and is not named */
#define SL_CALL_EXPLAINS                                                                                     \
    0.25                    /* of the missing time: whatever costs less is not why iterations take longer    \
                             */
#define SL_CALL_CAUSE 0.5   /* of what a rank computes longer: what took that much of it is the cause */
#define SL_CALL_ENOUGH 0.75 /* of the missing time: nothing else is needed to explain it */

typedef struct sl_call_verdict {
    sl_suspect *suspect; /* [ranks + pairs + groups] */
    double *excess;      /* of each */
    size_t count, capacity, excess_capacity;
} sl_call_verdict;

/** SL_ENOMEM. The caller frees both arrays. */
sl_status sl_call_verdict_add(sl_call_verdict *verdict, sl_suspect suspect, double excess);

/** The costliest first. */
void sl_call_verdict_sort(sl_call_verdict *verdict);

/** Drops what explains too little; returns the most that one of them explains of the missing time. */
double sl_call_verdict_keep(sl_call_verdict *verdict, double missing);

/** Of no link; `measure` NULL: nothing was measured. */
sl_suspect sl_call_suspect(sl_component component, int rank, const sl_call_measure *measure);
sl_suspect sl_call_unknown(const char *why);

/** The excess below which something else is a shadow of what was found: of the worst so far, and `worst`.
 * Ranks that compute longer come first, because what waits for them is late too. */
double sl_call_named_from(const sl_call_verdict *verdict, double worst);

/** What iterations take longer than when healthy, over the window, ns; 0: not known. */
double sl_call_missing(const sl_call_comparison *comparison);

/** What others took from a rank's computing, as a share of the window: at most what it starved more, and what
 * it computes longer. -1: unknown. */
double sl_call_lost(const sl_call_comparison *comparison, int rank);

/** Adds the links, or the host of all links, that are slow by themselves (call_links.c). `explained`: of each
 * group, by a slow device. SL_ENOMEM. */
sl_status sl_call_verdict_links(const sl_call_comparison *comparison, sl_call_pairs *pairs,
                                const int *explained, sl_call_verdict *verdict);

/** Adds the larger groups that no suspect explains yet: the part common to differing ones, else the groups
 * (call_groups.c). SL_ENOMEM. */
sl_status sl_call_verdict_groups(const sl_call_comparison *comparison, const int *explained,
                                 sl_call_verdict *verdict);
