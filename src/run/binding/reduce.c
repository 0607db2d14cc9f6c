#include "run/binding/reduce.h"
#include "base/memory.h"
#include "run/binding/norm.h"

#include <string.h>

#define CHUNK_BLOCKS ((size_t)256) /* of each share at a time: 1 MiB, the fastest of 64 KiB to 4 MiB */

sl_status sl_reduce_open(sl_group *data, sl_reduce *r) {
    const size_t chunk = CHUNK_BLOCKS * SL_NORM_BLOCK, size = (size_t)sl_group_size(data);
    *r = (sl_reduce){.data = data};
    if (size == 1)
        return SL_OK;
    SL_TRY(sl_alloc(&r->all, size * chunk, sizeof *r->all));
    SL_TRY(sl_alloc(&r->versions, size * chunk, sizeof *r->versions));
    return sl_alloc(&r->mine, chunk, sizeof *r->mine);
}

void sl_reduce_close(sl_reduce *r) {
    sl_free(r->all);
    sl_free(r->versions);
    sl_free(r->mine);
    *r = (sl_reduce){0};
}

typedef enum what { GRADIENT, WEIGHT } what;

static float *values_of(const sl_parameter *p, what side) {
    return side == GRADIENT ? p->gradient : p->weight;
}

/* Blocks of a share that lie in the chunk which begins `offset` blocks into every share. */
static void span_of(const sl_shares *cut, int share, size_t offset, size_t *begin, size_t *end) {
    *begin = sl_shares_begin(cut, share) + offset;
    *end = sl_shares_begin(cut, share + 1);
    *begin = *begin < *end ? *begin : *end;
    *end = *begin + CHUNK_BLOCKS < *end ? *begin + CHUNK_BLOCKS : *end;
}

static void pack(const sl_shares *cut, const sl_parameter *list, what side, int share, size_t offset,
                 size_t length, float *out) {
    size_t begin, end, at, position;
    span_of(cut, share, offset, &begin, &end);
    memset(out, 0, length * sizeof *out); /* what lies behind a parameter's or a share's end */
    for (int i = 0; i < cut->parameters; i++) {
        size_t count = sl_shares_piece(cut, i, begin, end, &at, &position);
        if (count)
            memcpy(out + position, values_of(&list[i], side) + at, count * sizeof *out);
    }
}

static void unpack(const sl_shares *cut, const sl_parameter *list, what side, int share, size_t offset,
                   const float *in) {
    size_t begin, end, at, position;
    span_of(cut, share, offset, &begin, &end);
    for (int i = 0; i < cut->parameters; i++) {
        size_t count = sl_shares_piece(cut, i, begin, end, &at, &position);
        if (count)
            memcpy(values_of(&list[i], side) + at, in + position, count * sizeof *in);
    }
}

/* Floats of a chunk of every share: as many as the longest has left. */
static size_t length_of(size_t longest, size_t offset) {
    return (longest - offset < CHUNK_BLOCKS ? longest - offset : CHUNK_BLOCKS) * SL_NORM_BLOCK;
}

sl_status sl_reduce_gradients(sl_reduce *r, const sl_shares *cut, const sl_parameter *list, int whole) {
    int size = sl_group_size(r->data), me = sl_group_rank(r->data);
    size_t longest = sl_shares_longest(cut);
    for (size_t offset = 0; offset < longest && size > 1; offset += CHUNK_BLOCKS) {
        size_t length = length_of(longest, offset);
        for (int share = 0; share < size; share++)
            pack(cut, list, GRADIENT, share, offset, length, r->all + (size_t)share * length);
        SL_TRY(sl_group_sum_shares(r->data, r->all, length, r->mine, r->versions));
        if (whole)
            SL_TRY(sl_group_gather_shares(r->data, r->mine, length, r->all));
        for (int share = 0; share < size; share++)
            if (whole)
                unpack(cut, list, GRADIENT, share, offset, r->all + (size_t)share * length);
            else if (share == me)
                unpack(cut, list, GRADIENT, share, offset, r->mine);
    }
    return SL_OK;
}

sl_status sl_reduce_weights(sl_reduce *r, const sl_shares *cut, const sl_parameter *list) {
    int size = sl_group_size(r->data), me = sl_group_rank(r->data);
    size_t longest = sl_shares_longest(cut);
    for (size_t offset = 0; offset < longest && size > 1; offset += CHUNK_BLOCKS) {
        size_t length = length_of(longest, offset);
        pack(cut, list, WEIGHT, me, offset, length, r->mine);
        SL_TRY(sl_group_gather_shares(r->data, r->mine, length, r->all));
        for (int share = 0; share < size; share++)
            if (share != me)
                unpack(cut, list, WEIGHT, share, offset, r->all + (size_t)share * length);
    }
    return SL_OK;
}

double sl_reduce_bytes(size_t elements, int replicas) {
    return 2.0 * (replicas - 1) / replicas * (double)elements * sizeof(float);
}
