/* Shares of a stage's parameters, for reductions and ZeRO: the blocks of 1,024 elements (norm.h) of all
 * parameters of a stage, end to end in canonical order, are cut into as many runs of blocks as there are
 * replicas. Cuts lie at block boundaries, so the sums of squares of blocks are whole wherever a share ends
 * (docs/design.md, rules that keep every bit, 6).
 *
 * A position counts elements in that sequence, each parameter beginning at a block: positions behind a
 * parameter's last element, up to the next block, hold nothing. */
#ifndef SL_RUN_BINDING_SHARE_H
#define SL_RUN_BINDING_SHARE_H

#include "base/status.h"
#include <stddef.h>

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

#endif
