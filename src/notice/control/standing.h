/* The state of a job for views and reports: the last iteration time of each rank, the job's iterations from
 * its start, which rank sends to which, and the calls of an iteration. The number of iterations kept is bounded: when there are too
 * many, of each four of the older half that were not held, only the shortest and the longest stay. */
#pragma once

#include "notice/control/call_excerpt.h"
#include "notice/control/nodes.h"
#include "notice/control/traffic.h"

enum { SL_STANDING_POINTS = 2048 };

typedef struct sl_standing_point {
    int64_t iteration;
    double ms; /* of the slowest rank */
    int held;  /* its time is no evidence about the program, which was held, or tests ran at the same time */
} sl_standing_point;

typedef struct sl_standing_rank {
    float ms;      /* per iteration; NaN: unknown */
    int node, pid; /* its last position: an index into the nodes; -1: not seen yet */
    int gone;      /* no living node has it now */
} sl_standing_rank;

typedef struct sl_standing {
    sl_standing_rank *rank;
    size_t ranks, room;
    sl_standing_point *point; /* [SL_STANDING_POINTS] */
    int points;
    sl_traffic traffic;
    sl_call_excerpt excerpt;
} sl_standing;

/** All zero is empty. */
void sl_standing_close(sl_standing *standing);

/** Adds iterations of a rank. SL_ENOMEM. */
sl_status sl_standing_block(sl_standing *standing, const sl_message_block *block);

/** Updates the nodes of the ranks. SL_ENOMEM. */
sl_status sl_standing_positions(sl_standing *standing, const sl_nodes *nodes);

/** Adds a finished iteration of the job; in order (iteration_samples.h). SL_ENOMEM. */
sl_status sl_standing_iteration(sl_standing *standing, int64_t iteration, double ms, int held);
