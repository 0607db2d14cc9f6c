/* Sums of gradients over the replicas, and the weights that come back: reduce-scatter and gather over the
 * data group, chunk by chunk, so that memory stays small however large a stage is. A chunk takes a piece of
 * every replica's share (share.h), so that all of them add at the same time. Each element is added in
 * ascending replica, whatever the chunks. */
#ifndef SL_RUN_BINDING_REDUCE_H
#define SL_RUN_BINDING_REDUCE_H

#include "run/binding/share.h"
#include "run/collective/group.h"
#include "run/model/parameter.h"

typedef struct sl_reduce {
    sl_group *data;  /* the caller's */
    float *all;      /* [replicas][chunk] */
    float *versions; /* [replicas][chunk] */
    float *mine;     /* [chunk] */
} sl_reduce;

/** Buffers for the group's reductions. Free with sl_reduce_close, also on error. SL_ENOMEM. */
sl_status sl_reduce_open(sl_group *data, sl_reduce *reduce);
void sl_reduce_close(sl_reduce *reduce);

/** Gradients of list[cut->parameters] become their sums over the replicas: all of them on every replica, or
 * (`whole` 0) those of this replica's share only; the others keep what was there. Collective over the group.
 * SL_EPEER. */
sl_status sl_reduce_gradients(sl_reduce *reduce, const sl_shares *cut, const sl_parameter *list, int whole);
/** Every replica gets the weights of the others' shares. Collective. SL_EPEER. */
sl_status sl_reduce_weights(sl_reduce *reduce, const sl_shares *cut, const sl_parameter *list);

/** Bytes that this rank hands over for sl_reduce_gradients of all, for a first estimate of its time. */
double sl_reduce_bytes(size_t elements, int replicas);

#endif
