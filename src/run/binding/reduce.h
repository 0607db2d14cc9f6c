/* Sums of gradients over the replicas, and the weights that come back: reduce-scatter and gather over the
 * data group, in chunks, so that memory stays small for any stage size. A chunk takes a piece of every
 * replica's share (below), so that all of them add at the same time. Each element is added in ascending
 * replica, independent of the chunks.
 *
 * Chunks are processed one after the other while each half of one returns quickly, because then the data are
 * in the processor's caches. If a half takes longer than SL_REDUCE_SOON, further chunks are started, up to
 * SL_REDUCE_SLOTS, so that they do not wait for each other's latency: a sum of n chunks over a link with
 * latency L takes about 2 L (1 + n / SL_REDUCE_SLOTS), instead of 2 n L one by one, or the transfer time of
 * its bytes if that is longer. Each replica decides this by itself. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "run/collective/group.h"
#include "run/device/device.h"
#include "run/model/parameter.h"

#include <stddef.h>

/* Shares of a stage's parameters, for reductions and ZeRO: the blocks of 1,024 elements (gradient_norm.h) of
 * all parameters of a stage, concatenated in canonical order, are cut into as many runs of blocks as there
 * are replicas. Cuts are at block boundaries, so no share splits the sum of squares of a block
 * (docs/design.md, rules that keep every bit, 6).
 *
 * A position counts elements in that sequence, and each parameter begins at a block: positions after a
 * parameter's last element, up to the next block, are empty. */

struct sl_parameter;

typedef struct sl_shares {
    size_t *first; /* [parameters + 1] the block at which each begins; the last: all blocks */
    size_t *count; /* [parameters] elements */
    int parameters, shares;
} sl_shares;

/** Cuts `list[parameters]`; uses only its counts. Free with sl_shares_free. SL_ENOMEM. */
sl_status sl_shares_make(const struct sl_parameter *list, int parameters, int shares, sl_shares *cut);
void sl_shares_free(sl_shares *cut);

/** Share `share` is blocks [begin(share), begin(share + 1)). */
size_t sl_shares_begin(const sl_shares *cut, int share);
/** Elements of a share, without empty positions; and of its parameters before `i`. */
size_t sl_shares_elements(const sl_shares *cut, int share);
size_t sl_shares_before(const sl_shares *cut, int i, size_t begin, size_t end);
/** Blocks of the largest share. */
size_t sl_shares_longest(const sl_shares *cut);

/** The part of parameter `i` in blocks [begin, end): elements *at .. *at + count. Returns the count (0:
 * none); *position: its start, counted from block `begin`. */
size_t sl_shares_piece(const sl_shares *cut, int i, size_t begin, size_t end, size_t *at, size_t *position);

#define SL_REDUCE_SOON (4 * SL_MS) /* healthy halves of a chunk take a fraction */
#define SL_REDUCE_SLOTS 8

/* A chunk under way. */
typedef struct sl_reduce_slot {
    sl_group_flight *flight;
    float *all;      /* [replicas][chunk], of the host, like the next */
    float *versions; /* [replicas][chunk] */
    sl_time started; /* the half under way */
} sl_reduce_slot;

typedef struct sl_reduce {
    sl_device *device;                    /* the caller's, which holds the parameters */
    sl_group *data;                       /* the caller's */
    sl_reduce_slot slot[SL_REDUCE_SLOTS]; /* allocated when a reduction first needs them */
} sl_reduce;

/** For the group's reductions. Close with sl_reduce_close, also on error, before the group. SL_ENOMEM. */
sl_status sl_reduce_open(sl_device *device, sl_group *data, sl_reduce *reduce);
void sl_reduce_close(sl_reduce *reduce);

/** Replaces the gradients of list[cut->parameters] by their sums over the replicas: all of them on every
 * replica, or (`whole` 0) only those of this replica's share; the others are unchanged. Collective over the
 * group. SL_EPEER, SL_ENOMEM. */
sl_status sl_reduce_gradients(sl_reduce *reduce, const sl_shares *cut, const sl_parameter *list, int whole);
/** Every replica gets the weights of the others' shares. Collective. SL_EPEER, SL_ENOMEM. */
sl_status sl_reduce_weights(sl_reduce *reduce, const sl_shares *cut, const sl_parameter *list);

/** Bytes that this rank sends for sl_reduce_gradients of all, for a first estimate of its time. */
double sl_reduce_bytes(size_t elements, int replicas);
