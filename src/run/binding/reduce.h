/* Sums of gradients over the replicas, and the weights that come back: reduce-scatter and gather over the
 * data group, chunk by chunk, so that memory stays small however large a stage is. A chunk takes a piece of
 * every replica's share (below), so that all of them add at the same time. Each element is added in
 * ascending replica, whatever the chunks.
 *
 * Chunk follows chunk while each half of one comes back soon, for then what is worked on lies in the
 * processor's caches. Where a half has not come after SL_REDUCE_SOON, further chunks are started, up to
 * SL_REDUCE_SLOTS of them, so that they do not wait for each other's latency: a sum of n chunks over a link
 * with latency L takes about 2 L (1 + n / SL_REDUCE_SLOTS), where one by one they would take 2 n L, and its
 * bytes' time where that is longer. Each replica decides that for itself. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "run/collective/group.h"
#include "run/model/parameter.h"

#include <stddef.h>

/* Shares of a stage's parameters, for reductions and ZeRO: the blocks of 1,024 elements (gradient_norm.h) of
 * all parameters of a stage, end to end in canonical order, are cut into as many runs of blocks as there are
 * replicas. Cuts lie at block boundaries, so the sums of squares of blocks are whole wherever a share ends
 * (docs/design.md, rules that keep every bit, 6).
 *
 * A position counts elements in that sequence, each parameter beginning at a block: positions behind a
 * parameter's last element, up to the next block, hold nothing. */

struct sl_parameter;

typedef struct sl_shares {
    size_t *first; /* [parameters + 1] the block at which each begins; the last: all blocks */
    size_t *count; /* [parameters] elements */
    int parameters, shares;
} sl_shares;

/** Cuts `list[parameters]`, of which only the counts are used. Free with sl_shares_free. SL_ENOMEM. */
sl_status sl_shares_make(const struct sl_parameter *list, int parameters, int shares, sl_shares *cut);
void sl_shares_free(sl_shares *cut);

/** Share `share` is blocks [begin(share), begin(share + 1)). */
size_t sl_shares_begin(const sl_shares *cut, int share);
/** Elements of a share, those of positions that hold nothing not counted; and of its parameters before `i`.
 */
size_t sl_shares_elements(const sl_shares *cut, int share);
size_t sl_shares_before(const sl_shares *cut, int i, size_t begin, size_t end);
/** Blocks of the largest share. */
size_t sl_shares_longest(const sl_shares *cut);

/** What parameter `i` has in blocks [begin, end): elements *at .. *at + count, returned count (0: none);
 * *position: where they begin, counted from block `begin`. */
size_t sl_shares_piece(const sl_shares *cut, int i, size_t begin, size_t end, size_t *at, size_t *position);

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
