/* What healthy calls have carried between two nodes, against what tests find there now. Pure.
 *
 * Of two nodes, tests alone cannot say that the way between them is slow: there is no other to compare with.
 * But a sum over ranks of both nodes cannot end before each node has heard from the other: all its bytes went
 * each way, and one latency passed, between the moment at which the last rank came and the last one's end. So
 * the reference profile bounds from below what the way was able to carry, and from above its latency,
 * whatever the library's algorithm is. A direction that now does worse than that has become slow, unless
 * calls of the slow iterations still do better than the tests: then they go another way than tests do (other
 * cards, RDMA). */
#pragma once

#include "notice/detect/call_profile.h"

/* One direction of a link as it was tested; 0: not known. */
typedef struct sl_tested_direction {
    int from, to;
    double latency_ms; /* half of the shortest round trip, the same in both directions */
    double gb_per_s, cv;
} sl_tested_direction;

/** Nonzero: *found is the direction (or both) between two nodes that is furthest behind what calls of
 * `healthy` have carried there and those of `slow` do not, by 10 % beyond twice its variation, or 0.1 ms and
 * 10 % of latency. `clock_error`: bound, ns, of the difference of any two ranks' clocks. node_of[ranks]:
 * index of each rank's node. Never fails. */
int sl_carried_compare(const sl_call_profile *healthy, const sl_call_profile *slow, int64_t clock_error,
                       const sl_tested_direction *tested, int count, const int *node_of, int ranks,
                       sl_suspect *found);
