/* Passes: sets of links that are tested at the same time. In a pass every member is in at most one link, so a
 * link's test meets no other test at either end; the number of passes determines the time of a validation. A
 * ring takes 2 passes (an even number of members) or 3, a binary tree 4, for any number of members (Falcon,
 * section 4.3, figure 9). Given links take few passes: a greedy edge coloring that flips an alternating path
 * of two colors before it takes a new one. If the links join two camps (a bipartite graph), it needs as many
 * as the busiest member has links; otherwise seldom more than one more. Pure. */
#pragma once

#include "base/status.h"

/* An undirected link of two members; a < b. */
typedef struct sl_member_pair {
    int a, b, pass;
} sl_member_pair;

typedef struct sl_passes {
    sl_member_pair *pair; /* in ascending order of a, then b */
    int count;
    int passes; /* pair[i].pass is in [0, passes); none is empty */
} sl_passes;

/** Members 0, 1, ..., members - 1 and back to 0; two members have one link, one has none. SL_ENOMEM. Free
 * with sl_passes_free, as the others. */
sl_status sl_passes_ring(int members, sl_passes *passes);

/** The binary tree in which (i - 1) / 2 is the parent of member i > 0. SL_ENOMEM. */
sl_status sl_passes_tree(int members, sl_passes *passes);

/** Every pair of members. SL_ENOMEM. */
sl_status sl_passes_all(int members, sl_passes *passes);

/** `pair[count]` (their `pass` is not read; in any order, repeated and turned ones count once). SL_EINVAL: a
 * member outside [0, members), or a link from a member to itself. SL_ENOMEM. */
sl_status sl_passes_given(int members, const sl_member_pair *pair, int count, sl_passes *passes);

void sl_passes_free(sl_passes *passes);
