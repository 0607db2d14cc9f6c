/* Causal attention on CUDA: what its files share. Names of the paper (Dao, FlashAttention-2, arXiv
 * 2307.08691): S = factor * Q K', P = softmax(S), O = P V; L is the logarithm of a row's sum of exponentials,
 * D (here `dot`) the row sums of dO * O. */
#pragma once

#include "run/device/cuda/warp.cuh"
#include "run/device/device.h"

#define LOG2E 1.4426950408889634f

/* Rows of heads: element i of head h of row r of sequence b is data[b * batch + r * row + h * head + i]. */
template <typename T> struct rows {
    T *data;
    size_t batch, row, head;
    __device__ T *at(int b, int h, int r) const {
        return data + (size_t)b * batch + (size_t)h * head + (size_t)r * row;
    }
};

/** Rows as a caller has them. */
template <typename T> static rows<T> rows_of(const sl_attention_shape *s, T *data, int stride) {
    return {data, (size_t)s->context * (size_t)stride, (size_t)stride, (size_t)s->size};
}

/* What a kernel needs of the shape. */
struct sizes {
    int batch, context, heads, kv_heads, size;
    float factor; /* 1 / sqrt(size) */
};

constexpr int WARPS = 8; /* at most, of a thread block that adds to dQ */

/* Backward's scratch. Queries are taken in blocks of `step`, and `steps` of them cover the context. */
struct backward_room {
    float *top;  /* [batch][heads][steps * step]: L log2(e); +inf beyond the context, so that P is 0 there */
    float *dot;  /* the same rows: D */
    float *dq;   /* [batch][heads][steps][step * padded size]: dQ / factor so far, each thread's numbers
                    together */
    int *turn;   /* [batch][heads][steps][WARPS]: key blocks that have added to dq, by warp */
    int *ticket; /* blocks that have started */
    int steps;
};

SL_DEVICE float to_float(float x) {
    return x;
}

SL_DEVICE float to_float(bf16 x) {
    return __bfloat162float(x);
}

SL_DEVICE void put(float *at, float x) {
    *at = x;
}

SL_DEVICE void put(bf16 *at, float x) {
    *at = __float2bfloat16_rn(x);
}

SL_DEVICE void put2(float *at, float x, float y) {
    *(float2 *)at = make_float2(x, y);
}

SL_DEVICE void put2(bf16 *at, float x, float y) {
    *(uint32_t *)at = pack_bf16(x, y);
}

/** Columns `column` (even) and the next of a row; those from `size` on are dropped. `paired`: see pairs_fit.
 */
template <typename T> SL_DEVICE void put_pair(T *row, int column, int size, bool paired, float x, float y) {
    if (paired) {
        if (column < size)
            put2(row + column, x, y);
        return;
    }
    if (column < size)
        put(row + column, x);
    if (column + 1 < size)
        put(row + column + 1, y);
}

/** Whether every even column of every head is where two elements can be written at once. */
template <typename T> static bool pairs_fit(const rows<T> &x) {
    return (uintptr_t)x.data % (2 * sizeof(T)) == 0 && x.row % 2 == 0 && x.head % 2 == 0;
}

/* ---- dQ in a fixed order ---- */

/* dQ of a block of queries is a sum over blocks of keys, which are taken by different thread blocks: from the
 * diagonal down to key 0. Each waits for its turn. All the thread blocks go through the queries in ascending
 * order, so that the one before has just finished when it is waited for. Thread blocks take their work by
 * ticket, in an order in which none waits for a later one; so those waited for always run. */

/** This block's number in the order of starts. All its threads call it. */
SL_DEVICE int take_ticket(int *ticket) {
    int *drawn = (int *)shared_memory();
    if (threadIdx.x == 0)
        *drawn = atomicAdd(ticket, 1);
    __syncthreads();
    const int mine = *drawn;
    __syncthreads();
    return mine;
}

/* A warp adds to the same numbers of a step as the same warp of other thread blocks, so that each warp has
 * turns of its own. `before`: key blocks that add earlier. */

SL_DEVICE void wait_turn(const int *turn, int before, int lane) {
    if (lane == 0)
        while (acquire_flag(turn) != before)
            ;
    __syncwarp();
}

SL_DEVICE void end_turn(int *turn, int before, int lane) {
    __syncwarp();
    if (lane == 0)
        release_flag(turn, before + 1);
}

/* ---- the passes in either arithmetic; memory of type T ---- */

/** The padded size of a head for one of the kernels: 64, 128 or 256. */
static inline int width_of(int size) {
    return size <= 64 ? 64 : size <= 128 ? 128 : 256;
}

/* Which kernels compute. */
enum kernels { ON_CUDA_CORES, ON_TENSOR_CORES, ON_WARPGROUPS };

/** Queries of a step of the backward pass, for which its scratch is laid out. */
static inline int step_of(int size, enum kernels which) {
    return which == ON_WARPGROUPS && size <= 64 ? 128 : size <= 128 ? 64 : 32;
}

template <typename T>
cudaError_t forward_f32(const sizes &z, rows<const T> q, rows<const T> k, rows<const T> v, rows<T> out,
                        float *lse, cudaStream_t stream);
template <typename T>
cudaError_t backward_f32(const sizes &z, rows<const T> q, rows<const T> k, rows<const T> v,
                         rows<const T> dout, const backward_room &room, rows<T> dq, rows<T> dk, rows<T> dv,
                         cudaStream_t stream);

/* Heads of 64 or 128 elements, 16-byte aligned, whatever z.size is; results have z.size. */
template <typename T>
cudaError_t forward_bf16(const sizes &z, rows<const bf16> q, rows<const bf16> k, rows<const bf16> v,
                         rows<T> out, float *lse, cudaStream_t stream);
template <typename T>
cudaError_t backward_bf16(const sizes &z, rows<const bf16> q, rows<const bf16> k, rows<const bf16> v,
                          rows<const bf16> dout, const backward_room &room, rows<T> dq, rows<T> dk,
                          rows<T> dv, cudaStream_t stream);
template <typename T>
cudaError_t forward_hopper(const sizes &z, rows<const bf16> q, rows<const bf16> k, rows<const bf16> v,
                           rows<T> out, float *lse, cudaStream_t stream);
template <typename T>
cudaError_t backward_hopper(const sizes &z, rows<const bf16> q, rows<const bf16> k, rows<const bf16> v,
                            rows<const bf16> dout, const backward_room &room, rows<T> dq, rows<T> dk,
                            rows<T> dv, cudaStream_t stream);
