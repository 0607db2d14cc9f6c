#include "run/collective/group_inside.h"

#include <string.h>

typedef void (*joiner)(float *restrict into, const float *restrict other, size_t count);

static void add(float *restrict into, const float *restrict other, size_t count) {
    for (size_t i = 0; i < count; i++)
        into[i] += other[i];
}

static void take_larger(float *restrict into, const float *restrict other, size_t count) {
    for (size_t i = 0; i < count; i++)
        into[i] = into[i] > other[i] || into[i] != into[i] ? into[i] : other[i]; /* a NaN stays one */
}

/* ---- halves ---- */

/* Each rank starts with its successor, so that not all address the same one at the same time. */
static int other(const sl_group *group, int n) {
    return (group->rank + n) % group->size;
}

sl_status sl_group_start_sum(sl_group_flight *f, const float *values, size_t count, float *scratch) {
    f->values = values;
    f->scratch = scratch;
    f->count = count;
    for (int n = 1, peer; n < f->group->size; n++) {
        peer = other(f->group, f->group->size - n);
        SL_TRY(sl_flight_receive(f, scratch + (size_t)peer * count, count, peer, SL_TAG_SUM));
    }
    for (int n = 1, peer; n < f->group->size; n++) {
        peer = other(f->group, n);
        SL_TRY(sl_flight_send(f, values + (size_t)peer * count, count, peer, SL_TAG_SUM));
    }
    return SL_OK;
}

/* All ranks' versions of this rank's part, joined in ascending rank into the first. */
static sl_status finish_joined(sl_group_flight *f, float *out, joiner join) {
    SL_TRY(sl_flight_finish(f));
    for (int r = 0; r < f->group->size; r++) {
        const float *version = (r == f->group->rank ? f->values : f->scratch) + (size_t)r * f->count;
        if (r == 0)
            memcpy(out, version, f->count * sizeof *out);
        else
            join(out, version, f->count);
    }
    return SL_OK;
}

sl_status sl_group_finish_sum(sl_group_flight *f, float *out) {
    return finish_joined(f, out, add);
}

sl_status sl_group_start_gather(sl_group_flight *f, const float *part, size_t count, float *all) {
    float *mine = all + (size_t)f->group->rank * count;
    if (mine != part)
        memcpy(mine, part, count * sizeof *mine);
    for (int n = 1, peer; n < f->group->size; n++) {
        peer = other(f->group, f->group->size - n);
        SL_TRY(sl_flight_receive(f, all + (size_t)peer * count, count, peer, SL_TAG_GATHER));
    }
    for (int n = 1; n < f->group->size; n++)
        SL_TRY(sl_flight_send(f, mine, count, other(f->group, n), SL_TAG_GATHER));
    return SL_OK;
}

sl_status sl_group_finish_gather(sl_group_flight *f) {
    return sl_flight_finish(f);
}

sl_status sl_group_gather_shares(sl_group *group, const float *part, size_t count, float *all) {
    SL_TRY(sl_group_start_gather(group->own, part, count, all));
    return sl_group_finish_gather(group->own);
}

/* ---- whole sums and maxima ---- */

/* Two ranks swap all their data: one exchange, and a + b equals b + a. */
static sl_status join_two(sl_group *group, float *values, size_t count, float *scratch, joiner join) {
    int peer = 1 - group->rank;
    SL_TRY(sl_flight_receive(group->own, scratch, count, peer, SL_TAG_SUM));
    SL_TRY(sl_flight_send(group->own, values, count, peer, SL_TAG_SUM));
    SL_TRY(sl_flight_finish(group->own));
    join(values, scratch, count);
    return SL_OK;
}

/* scratch: the values padded to size * share, then all ranks' versions of this rank's share */
static sl_status join_piece(sl_group *group, float *values, size_t count, float *scratch, joiner join) {
    size_t size = (size_t)group->size, share = (count + size - 1) / size;
    if (group->size == 2)
        return join_two(group, values, count, scratch, join);
    float *padded = values, *versions = scratch;
    if (share * size != count) {
        padded = scratch;
        versions = scratch + share * size;
        memcpy(padded, values, count * sizeof *values);
        memset(padded + count, 0, (share * size - count) * sizeof *values);
    }
    float *mine = versions + (size_t)group->rank * share;
    SL_TRY(sl_group_start_sum(group->own, padded, share, versions));
    SL_TRY(finish_joined(group->own, mine, join));
    SL_TRY(sl_group_gather_shares(group, mine, share, padded));
    if (padded != values)
        memcpy(values, padded, count * sizeof *values);
    return SL_OK;
}

static sl_status join_all(sl_group *group, float *values, size_t count, float *scratch, joiner join) {
    for (size_t at = 0; at < count && group->size > 1; at += SL_GROUP_PIECE) {
        size_t piece = count - at < SL_GROUP_PIECE ? count - at : SL_GROUP_PIECE;
        SL_TRY(join_piece(group, values + at, piece, scratch, join));
    }
    return SL_OK;
}

size_t sl_group_scratch(const sl_group *group, size_t count) {
    size_t piece = count < SL_GROUP_PIECE ? count : SL_GROUP_PIECE;
    return group->size == 1 ? 0 : 2 * (piece + (size_t)group->size);
}

sl_status sl_group_sum(sl_group *group, float *values, size_t count, float *scratch) {
    return join_all(group, values, count, scratch, add);
}

sl_status sl_group_max(sl_group *group, float *values, size_t count, float *scratch) {
    return join_all(group, values, count, scratch, take_larger);
}
