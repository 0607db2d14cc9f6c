/* How a job stands, for those who look on: what the last iteration of each rank took, the job's iterations
 * from its beginning, and who sends to whom. Of the iterations a bounded number is kept: when there are too
 * many, of each four of the older half the shortest and the longest stay that were not held. */
#pragma once

#include "notice/control/nodes.h"
#include "notice/control/traffic.h"

enum { SL_STANDING_POINTS = 2048 };

typedef struct sl_standing_point {
    int64_t iteration;
    double ms; /* of the slowest rank */
    int held;  /* its time says nothing about the program, which was held then, or tested beside */
} sl_standing_point;

typedef struct sl_standing_rank {
    float ms;      /* of an iteration; NaN: not known */
    int node, pid; /* its last place: an index into the nodes; -1: it has not come yet */
    int gone;      /* no living node has it now */
} sl_standing_rank;

typedef struct sl_standing {
    sl_standing_rank *rank;
    size_t ranks, room;
    sl_standing_point *point; /* [SL_STANDING_POINTS] */
    int points;
    sl_traffic traffic;
} sl_standing;

/** All zero is empty. */
void sl_standing_close(sl_standing *standing);

/** Iterations of a rank. SL_ENOMEM. */
sl_status sl_standing_block(sl_standing *standing, const sl_message_block *block);

/** Where the ranks are now. SL_ENOMEM. */
sl_status sl_standing_places(sl_standing *standing, const sl_nodes *nodes);

/** An iteration of the job is over; in their order (iteration_samples.h). SL_ENOMEM. */
sl_status sl_standing_iteration(sl_standing *standing, int64_t iteration, double ms, int held);
