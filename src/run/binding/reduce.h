/* Sums of gradients over the replicas, and the weights that come back: reduce-scatter and gather over the
 * data group, chunk by chunk, so that memory stays small however large a stage is. A chunk takes a piece of
 * every replica's share (share.h), so that all of them add at the same time. Each element is added in
 * ascending replica, whatever the chunks.
 *
 * Chunk follows chunk while each half of one comes back soon, for then what is worked on lies in the
 * processor's caches. Where a half has not come after SL_REDUCE_SOON, further chunks are started, up to
 * SL_REDUCE_SLOTS of them, so that they do not wait for each other's latency: a sum of n chunks over a link
 * with latency L takes about 2 L (1 + n / SL_REDUCE_SLOTS), where one by one they would take 2 n L, and its
 * bytes' time where that is longer. Each replica decides that for itself. */
#ifndef SL_RUN_BINDING_REDUCE_H
#define SL_RUN_BINDING_REDUCE_H

#include "base/time.h"
#include "run/binding/share.h"
#include "run/collective/group.h"
#include "run/model/parameter.h"

#define SL_REDUCE_SOON (4 * SL_MS) /* healthy halves of a chunk take a fraction */
#define SL_REDUCE_SLOTS 8

/* A chunk under way. */
typedef struct sl_reduce_slot {
    sl_group_flight *flight;
    float *all;      /* [replicas][chunk] */
    float *versions; /* [replicas][chunk] */
    sl_time started; /* the half under way */
} sl_reduce_slot;

typedef struct sl_reduce {
    sl_group *data;                       /* the caller's */
    sl_reduce_slot slot[SL_REDUCE_SLOTS]; /* made when a reduction first needs so many */
} sl_reduce;

/** For the group's reductions. Close with sl_reduce_close, also on error, before the group. SL_ENOMEM. */
sl_status sl_reduce_open(sl_group *data, sl_reduce *reduce);
void sl_reduce_close(sl_reduce *reduce);

/** Gradients of list[cut->parameters] become their sums over the replicas: all of them on every replica, or
 * (`whole` 0) those of this replica's share only; the others keep what was there. Collective over the group.
 * SL_EPEER, SL_ENOMEM. */
sl_status sl_reduce_gradients(sl_reduce *reduce, const sl_shares *cut, const sl_parameter *list, int whole);
/** Every replica gets the weights of the others' shares. Collective. SL_EPEER,
 * SL_ENOMEM. */
sl_status sl_reduce_weights(sl_reduce *reduce, const sl_shares *cut, const sl_parameter *list);

/** Bytes that this rank hands over for sl_reduce_gradients of all, for a first estimate of its time. */
double sl_reduce_bytes(size_t elements, int replicas);

#endif
