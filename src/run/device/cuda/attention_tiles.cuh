/* What both files of tensor cores share: a product's sums are spread over a warp in the same way (see
 * multiply in warp.cuh). */
#pragma once

#include "run/device/cuda/attention_inside.cuh"

/* The 4 lanes of a row combine their values; all get the same bits. */
SL_DEVICE float row_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

SL_DEVICE float row_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* Work in order of start: sections of heads whose keys and values fit into the cache; in each, the longest
 * first. */
struct section {
    int head, block; /* head: of batch x heads */
};

SL_DEVICE section find_section(int index, int lanes, int blocks, int at_once) {
    const int each = at_once * blocks, nth = index / each, left = lanes - nth * at_once,
              wide = left < at_once ? left : at_once, inside = index - nth * each;
    return {nth * at_once + inside % wide, blocks - 1 - inside / wide};
}

/** Heads of queries whose keys and values fill half of the cache of an H100. */
static inline int heads_at_once(const sizes &z, int width) {
    const size_t each = (size_t)z.context * (size_t)width * 2 * sizeof(bf16) / (size_t)(z.heads / z.kv_heads),
                 fit = ((size_t)24 << 20) / (each ? each : 1), all = (size_t)z.batch * (size_t)z.heads;
    return fit < 1 ? 1 : fit < all ? (int)fit : (int)all;
}

/** Continues the softmax of a row's scores (online softmax): they become exp(factor s - new maximum). Returns
 * the factor for what was summed relative to the old one. */
template <int N> SL_DEVICE float go_on(float s[N][4], int half, float scale, float *top, float *sum) {
    float now = *top, share = 0.0f;
#pragma unroll
    for (int n = 0; n < N; n++)
        now = fmaxf(now, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
    now = row_max(now);
#pragma unroll
    for (int n = 0; n < N; n++) {
        s[n][2 * half] = exp2_fast(fmaf(s[n][2 * half], scale, -now * scale));
        s[n][2 * half + 1] = exp2_fast(fmaf(s[n][2 * half + 1], scale, -now * scale));
        share += s[n][2 * half] + s[n][2 * half + 1];
    }
    const float shrink = exp2_fast((*top - now) * scale);
    *sum = *sum * shrink + share;
    *top = now;
    return shrink;
}

/** Scores of keys that come after the query become -inf. `ahead`: query minus key of the lane's first
 * element. */
template <int N> SL_DEVICE void hide_later(float s[N][4], int ahead) {
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (ahead + i / 2 * 8 - 8 * n - i % 2 < 0)
                s[n][i] = -INFINITY;
}

/** A product's sums, rounded, as the left operand of the next one. */
template <int N> SL_DEVICE void round_sums(const float s[N][4], uint32_t p[N][2]) {
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            p[n][half] = pack_bf16(s[n][2 * half], s[n][2 * half + 1]);
}

/** Scores, keys by queries, become P'. `top`: L in base 2 of the queries; `ahead`: query minus key of the
 * lane's first element. */
template <int N>
SL_DEVICE void weigh(float s[N][4], const float *top, float scale, bool diagonal, int ahead, int lane) {
#pragma unroll
    for (int n = 0; n < N; n++) {
        const float2 t = *(const float2 *)(top + 8 * n + lane % 4 * 2);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[n][i] = exp2_fast(fmaf(s[n][i], scale, i % 2 ? -t.y : -t.x));
            if (diagonal && ahead + 8 * n + i % 2 - i / 2 * 8 < 0)
                s[n][i] = 0.0f;
        }
    }
}

/** dP' becomes dS' = P' * (dP' - D). */
template <int N> SL_DEVICE void slope(float dp[N][4], const float p[N][4], const float *dot, int lane) {
#pragma unroll
    for (int n = 0; n < N; n++) {
        const float2 d = *(const float2 *)(dot + 8 * n + lane % 4 * 2);
#pragma unroll
        for (int i = 0; i < 4; i++)
            dp[n][i] = p[n][i] * (dp[n][i] - (i % 2 ? d.y : d.x));
    }
}

/** 16 rows of sums, times a factor for each of the lane's two rows. `first`: the first row. */
template <int N, typename T>
SL_DEVICE void write_rows(const rows<T> &to, bool paired, int batch, int head, int first, int column,
                          const sizes &z, const float sum[N][4], float factor, float factor8, int lane) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = first + 8 * half + lane / 4;
        if (row >= z.context)
            continue;
        T *at = to.at(batch, head, row);
#pragma unroll
        for (int n = 0; n < N; n++)
            put_pair(at, column + 8 * n + lane % 4 * 2, z.size, paired,
                     (half ? factor8 : factor) * sum[n][2 * half],
                     (half ? factor8 : factor) * sum[n][2 * half + 1]);
    }
}

/** The end of algorithm 1 for 16 rows: `top` and `sum` are of the lane's two rows, the latter of its own
 * columns. */
template <int N, typename T>
SL_DEVICE void finish_rows(const rows<T> &out, bool paired, float *lse, int batch, int head, int first,
                           const sizes &z, const float o[N][4], const float top[2], const float sum[2],
                           int lane) {
    const float all[2] = {row_sum(sum[0]), row_sum(sum[1])};
    write_rows<N>(out, paired, batch, head, first, 0, z, o, 1.0f / all[0], 1.0f / all[1], lane);
    const int half = lane % 4, row = first + 8 * half + lane / 4;
    if (half < 2 && row < z.context)
        lse[((size_t)batch * z.heads + head) * z.context + row] =
            (half ? top[1] : top[0]) * z.factor + logf(half ? all[1] : all[0]);
}

/** Adds 16 rows of dQ to what the keys from the diagonal down gave. `mine`: where this lane keeps its
 * numbers, 32 lanes apart. The first to add writes them, and the last gets their sum. AT_MEMORY: others let
 * memory add; that order is fixed, too, since it is this warp's turn. */
template <int N, bool AT_MEMORY>
SL_DEVICE void add_sums(float sum[N][4], float4 *mine, bool first, bool last) {
#pragma unroll
    for (int n = 0; n < N; n++) {
        if (AT_MEMORY && !first && !last) {
            add_at_memory(mine + n * 32, make_float4(sum[n][0], sum[n][1], sum[n][2], sum[n][3]));
            continue;
        }
        if (!first) {
            const float4 old = __ldcg(mine + n * 32);
            sum[n][0] += old.x;
            sum[n][1] += old.y;
            sum[n][2] += old.z;
            sum[n][3] += old.w;
        }
        if (!last)
            __stcg(mine + n * 32, make_float4(sum[n][0], sum[n][1], sum[n][2], sum[n][3]));
    }
}
