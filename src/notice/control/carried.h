/* Compares what healthy calls carried between two nodes with what tests measure there now. Pure.
 *
 * With only two nodes, tests alone cannot show that the link between them is slow: there is no other link to
 * compare with. But a sum over ranks of both nodes cannot end before each node has heard from the other:
 * between the arrival of the last rank and the end of the last rank, all its bytes went each way and one
 * latency passed. So the reference profile gives a lower bound of the link's bandwidth and an upper bound of
 * its latency, whatever algorithm the library uses. A direction that now does worse has become slow, unless
 * calls of the slow iterations still do better than the tests: then calls take another path than the tests
 * (other cards, RDMA). */
#pragma once

#include "notice/detect/call_profile.h"

/* One direction of a link as tested; 0: unknown. */
typedef struct sl_tested_direction {
    int from, to;
    double latency_ms; /* half of the shortest round trip, the same in both directions */
    double gb_per_s, cv;
} sl_tested_direction;

/** Nonzero: *found is the direction (or both) between two nodes that falls furthest short of what calls of
 * `healthy` carried and calls of `slow` do not: by 10% beyond twice its variation, or by 0.1 ms and 10% of
 * latency. `clock_error`: bound, ns, of the difference of any two ranks' clocks. node_of[ranks]: index of
 * each rank's node. Never fails. */
int sl_carried_compare(const sl_call_profile *healthy, const sl_call_profile *slow, int64_t clock_error,
                       const sl_tested_direction *tested, int count, const int *node_of, int ranks,
                       sl_suspect *found);
