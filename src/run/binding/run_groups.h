/* The groups of a rank (run.h, The world):
 *
 *   world     all ranks, in world order; the leader plans, measures, decides and writes
 *   pipeline  the ranks of this (replica, tensor) pair, by pipeline rank
 *   data      the ranks that hold the same stages and shards, by their number as holders (sl_run_holder):
 *             replicas, and with bidirectional placement also the two directions
 *   tensor    the ranks that share this one's layers, by tensor rank
 *
 * Data is used by a separate thread during the ops (reducer.h), tensor inside the ops. */
#pragma once

#include "run/collective/group.h"
#include "run/file/run.h"

typedef struct sl_groups {
    sl_run_position position; /* of this rank */
    int leader;               /* the leader's world rank */
    sl_group *world;          /* the caller's */
    sl_group *pipeline, *data, *tensor;
} sl_groups;

/** Collective over `world`, which stays the caller's and must outlive them. Close with sl_groups_close, also
 * on error. SL_EPEER, SL_ENOMEM. */
sl_status sl_groups_open(const sl_run *run, sl_group *world, int leader, sl_groups *groups);
/** Local, without communication: after a failure, or at the end. */
void sl_groups_close(sl_groups *groups);
/** Collective: for a run that continues with other groups. SL_EPEER. */
sl_status sl_groups_end(sl_groups *groups);

static inline int sl_groups_lead(const sl_groups *groups) {
    return sl_group_rank(groups->world) == groups->leader;
}
