#include "run/device/cpu_bf16.h"
#include "run/device/cpu_lanes.h"
#include "run/device/threads.h"

SL_VECTORISED
void sl_cpu_to_bf16(size_t first, size_t end, size_t columns, size_t stride, const float *x, uint16_t *out) {
    for (size_t row = first; row < end; row++) {
        const float *restrict from = x + row * stride;
        uint16_t *restrict to = out + row * columns;
        for (size_t i = 0; i < columns; i++)
            to[i] = (uint16_t)sl_bf16(from[i]);
    }
}

typedef uint32_t words __attribute__((vector_size(SL_LANES * sizeof(uint32_t))));

/* sl_bf16 of 16 numbers. */
SL_INLINE void round_lanes(const sl_lanes *x, words *out) {
    words bits;
    memcpy(&bits, x, sizeof bits);
    const words rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16, quiet = bits >> 16 | 0x40u;
    const words nan = (words)((bits & 0x7fffffffu) > 0x7f800000u);
    *out = (nan & quiet) | (~nan & rounded);
}

/* Rows of two inner indices become words; 16 such vectors, transposed, are 32 inner indices of 16 rows of the
 * result. */
SL_INLINE void turn_block(size_t column, size_t at, size_t inner, size_t stride, const float *restrict x,
                          uint16_t *restrict out) {
    sl_lanes row[SL_LANES];
    for (size_t r = 0; r < SL_LANES; r++) {
        const float *from = x + (at + 2 * r) * stride + column;
        sl_lanes even, odd;
        words w, v;
        memcpy(&even, from, sizeof even);
        memcpy(&odd, from + stride, sizeof odd);
        round_lanes(&even, &w);
        round_lanes(&odd, &v);
        w |= v << 16;
        memcpy(&row[r], &w, sizeof w);
    }
    sl_lanes_turn(row);
    for (size_t r = 0; r < SL_LANES; r++)
        memcpy(out + (column + r) * inner + at, &row[r], sizeof row[r]);
}

SL_VECTORISED
void sl_cpu_to_bf16_turned(size_t first, size_t end, size_t inner, size_t stride, const float *x,
                           uint16_t *out) {
    const size_t whole = inner / (2 * SL_LANES) * (2 * SL_LANES);
    size_t column = first;
    for (; column + SL_LANES <= end; column += SL_LANES) {
        for (size_t at = 0; at < whole; at += 2 * SL_LANES)
            turn_block(column, at, inner, stride, x, out);
        for (size_t at = whole; at < inner; at++)
            for (size_t r = column; r < column + SL_LANES; r++)
                out[r * inner + at] = (uint16_t)sl_bf16(x[at * stride + r]);
    }
    for (; column < end; column++)
        for (size_t at = 0; at < inner; at++)
            out[column * inner + at] = (uint16_t)sl_bf16(x[at * stride + column]);
}

static size_t blocks(size_t n, size_t unit) {
    return (n + unit - 1) / unit;
}

/* Steps of 16 inner indices in a panel. */
static size_t steps_of(const sl_packing *p) {
    return p->bf16 ? 2 * blocks(p->inner, 2 * SL_PACK_INNER) : blocks(p->inner, SL_PACK_INNER);
}

size_t sl_packing_bytes(const sl_packing *p) {
    return steps_of(p) * SL_PACK_INNER * blocks(p->columns, SL_PACK_COLUMNS) * SL_PACK_COLUMNS *
           (p->bf16 ? sizeof(uint16_t) : sizeof(float));
}

/* 16 x 64 elements of b, 0 beyond its ends. */
typedef float square[SL_PACK_INNER][SL_PACK_COLUMNS];

SL_INLINE void gather(const sl_packing *p, const float *restrict b, size_t inner, size_t column, size_t high,
                      size_t wide, square out) {
    if (high < SL_PACK_INNER || wide < SL_PACK_COLUMNS)
        memset(out, 0, sizeof(square));
    if (!p->transpose)
        for (size_t i = 0; i < high; i++)
            memcpy(out[i], b + (inner + i) * p->stride + column, wide * sizeof(float));
    else if (high == SL_PACK_INNER && wide == SL_PACK_COLUMNS)
        for (size_t c = 0; c < SL_PACK_COLUMNS; c += SL_LANES) {
            sl_lanes row[SL_LANES];
            for (size_t r = 0; r < SL_LANES; r++)
                memcpy(&row[r], b + (column + c + r) * p->stride + inner, sizeof row[r]);
            sl_lanes_turn(row);
            for (size_t i = 0; i < SL_LANES; i++)
                memcpy(&out[i][c], &row[i], sizeof row[i]);
        }
    else
        for (size_t c = 0; c < wide; c++)
            for (size_t i = 0; i < high; i++)
                out[i][c] = b[(column + c) * p->stride + inner + i];
}

/* Pairs of the inner index become a word each. */
SL_INLINE void pack_pairs(square from, uint32_t *restrict to) {
    for (size_t i = 0; i < SL_PACK_INNER; i += 2, to += SL_PACK_COLUMNS)
        for (size_t c = 0; c < SL_PACK_COLUMNS; c++)
            to[c] = sl_bf16(from[i][c]) | sl_bf16(from[i + 1][c]) << 16;
}

/* A panel whose columns are stored rows: two steps at a time, so that a row's 32 numbers are 16 words. 16
 * such rows are transposed at a time, and followed to their end, because processors prefetch that many
 * streams but not 64. */
SL_INLINE void pack_pairs_across(const sl_packing *p, const float *restrict b, size_t column, size_t pairs,
                                 uint32_t *restrict to) {
    for (size_t c = 0; c < SL_PACK_COLUMNS; c += SL_LANES)
        for (size_t pair = 0; pair < pairs; pair++) {
            sl_lanes row[SL_LANES];
            uint32_t *out = to + pair * SL_LANES * SL_PACK_COLUMNS + c;
            for (size_t r = 0; r < SL_LANES; r++) {
                const float *at = b + (column + c + r) * p->stride + pair * 2 * SL_PACK_INNER;
                sl_lanes low, high, even, odd;
                words w, v;
                memcpy(&low, at, sizeof low);
                memcpy(&high, at + SL_LANES, sizeof high);
                even = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26,
                                               28, 30);
                odd = __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27,
                                              29, 31);
                round_lanes(&even, &w);
                round_lanes(&odd, &v);
                w |= v << 16;
                memcpy(&row[r], &w, sizeof w);
            }
            sl_lanes_turn(row);
            for (size_t i = 0; i < SL_LANES; i++)
                memcpy(out + i * SL_PACK_COLUMNS, &row[i], sizeof row[i]);
        }
}

/* Where inner indices are stored rows. */
SL_INLINE void pack_pairs_along(const sl_packing *p, const float *restrict b, size_t inner, size_t column,
                                uint32_t *restrict to) {
    for (size_t i = 0; i < SL_PACK_INNER; i += 2, to += SL_PACK_COLUMNS) {
        const float *restrict even = b + (inner + i) * p->stride + column, *restrict odd = even + p->stride;
        for (size_t c = 0; c < SL_PACK_COLUMNS; c++)
            to[c] = sl_bf16(even[c]) | sl_bf16(odd[c]) << 16;
    }
}

SL_INLINE void pack_block(const sl_packing *p, const float *b, size_t inner, size_t column, void *to) {
    const size_t left = inner < p->inner ? p->inner - inner : 0,
                 high = left < SL_PACK_INNER ? left : SL_PACK_INNER;

    const size_t wide = p->columns - column < SL_PACK_COLUMNS ? p->columns - column : SL_PACK_COLUMNS;
    if (p->bf16 && !p->transpose && high == SL_PACK_INNER && wide == SL_PACK_COLUMNS) {
        pack_pairs_along(p, b, inner, column, to);
        return;
    }
    square part;
    gather(p, b, inner, column, high, wide, p->bf16 ? part : to);
    if (p->bf16)
        pack_pairs(part, to);
}

/* The source is read along its rows: by steps of the inner index if those are rows, by panels if columns
 * are. */
SL_VECTORISED
void sl_cpu_pack(const sl_packing *p, int thread, int threads, const float *b, void *packed) {
    const size_t steps = steps_of(p), panels = blocks(p->columns, SL_PACK_COLUMNS);
    const size_t bytes = SL_PACK_INNER * SL_PACK_COLUMNS * (p->bf16 ? sizeof(uint16_t) : sizeof(float));
    size_t first, end;
    sl_threads_share(p->transpose ? panels : steps, 1, thread, threads, &first, &end);
    for (size_t outer = first; outer < end; outer++) {
        size_t other = 0;
        if (p->bf16 && p->transpose && (outer + 1) * SL_PACK_COLUMNS <= p->columns) {
            const size_t pairs = p->inner / (2 * SL_PACK_INNER);
            pack_pairs_across(p, b, outer * SL_PACK_COLUMNS, pairs,
                              (uint32_t *)packed + outer * steps * bytes / 4);
            other = 2 * pairs;
        }
        for (; other < (p->transpose ? steps : panels); other++) {
            const size_t step = p->transpose ? other : outer, panel = p->transpose ? outer : other;
            pack_block(p, b, step * SL_PACK_INNER, panel * SL_PACK_COLUMNS,
                       (char *)packed + (panel * steps + step) * bytes);
        }
    }
}
