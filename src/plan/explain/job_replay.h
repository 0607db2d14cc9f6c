/* A traced iteration as a program of the one timing model (plan/timing/replay.h), which replays it with any
 * times of its nodes.
 *
 * Each stream of a position becomes a rank of the program, each node a step. An edge between two streams is a
 * message that takes no time. A step sends and receives at most one message, so further ones have steps of
 * their own, without time, before and after it. */
#pragma once

#include "plan/explain/job_graph.h"

typedef struct sl_hybrid_replay sl_hybrid_replay;

/** SL_ENONE: deadlock, the ops waited for each other in a circle. The graph must outlive it. Close with
 * sl_hybrid_replay_close. */
sl_status sl_hybrid_replay_open(const sl_hybrid_graph *graph, sl_hybrid_replay **replay);

/** The time of the iteration if node i takes time[i]. */
sl_time sl_hybrid_replay_run(sl_hybrid_replay *replay, const sl_time *time);

/** Steps of the program: the work of a run. */
size_t sl_hybrid_replay_steps(const sl_hybrid_replay *replay);
void sl_hybrid_replay_close(sl_hybrid_replay *replay);
