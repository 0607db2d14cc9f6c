/* What the kernels share. Numbers are read and written four at a time (16 bytes) where rows allow that; the
 * arithmetic is the same where they do not. */
#pragma once

#include "run/device/cuda/cuda_kernels.h"
#include "run/device/same_bits.h"

#define SL_KERNEL static __global__ void

/* Whether rows of `width` numbers that begin at these addresses are all at multiples of 16 bytes. */
template <typename... pointers> static bool sl_whole(size_t width, pointers... x) {
    const uintptr_t all = ((uintptr_t)x | ...);
    return width % 4 == 0 && all % 16 == 0;
}

/* x[i..i + 3] of a row of `width`, 0 beyond its end. */
template <bool WHOLE>
static __device__ __forceinline__ float4 sl_load(const float *x, size_t i, size_t width) {
    if (WHOLE)
        return *(const float4 *)(x + i);
    return make_float4(x[i], i + 1 < width ? x[i + 1] : 0.0f, i + 2 < width ? x[i + 2] : 0.0f,
                       i + 3 < width ? x[i + 3] : 0.0f);
}

template <bool WHOLE>
static __device__ __forceinline__ void sl_store(float *x, size_t i, size_t width, float4 v) {
    if (WHOLE) {
        *(float4 *)(x + i) = v;
        return;
    }
    x[i] = v.x;
    if (i + 1 < width)
        x[i + 1] = v.y;
    if (i + 2 < width)
        x[i + 2] = v.z;
    if (i + 3 < width)
        x[i + 3] = v.w;
}

static __device__ __forceinline__ float4 operator+(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

static __device__ __forceinline__ float4 operator*(float4 a, float4 b) {
    return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}

static __device__ __forceinline__ float4 operator*(float4 a, float b) {
    return make_float4(a.x * b, a.y * b, a.z * b, a.w * b);
}

static __device__ __forceinline__ float4 operator-(float4 a, float b) {
    return make_float4(a.x - b, a.y - b, a.z - b, a.w - b);
}

static __device__ __forceinline__ float sl_added(float4 v) {
    return ((v.x + v.y) + v.z) + v.w;
}

struct sl_plus {
    template <typename T> __device__ T operator()(T a, T b) const {
        return a + b;
    }
};

struct sl_larger {
    __device__ float operator()(float a, float b) const {
        return a < b ? b : a;
    }
};

/* The lanes' values combined: by pairs in a warp, then warp by warp. Each thread has the result. `shared` has
 * room for one value a warp. */
template <int THREADS, typename T, typename OP>
static __device__ __forceinline__ T sl_combine(T v, T *shared, OP op) {
    for (int other = 16; other; other /= 2)
        v = op(v, __shfl_xor_sync(~0u, v, other));
    if (THREADS == 32)
        return v;
    __syncthreads(); /* the former use of `shared` is over */
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = v;
    __syncthreads();
    v = shared[0];
    for (int warp = 1; warp < THREADS / 32; warp++)
        v = op(v, shared[warp]);
    return v;
}

/* Kernels whose rows are independent: four rows a block, 64 threads a row. */
static inline dim3 sl_row_grid(int rows) {
    return dim3((unsigned)(rows + 3) / 4);
}

static inline dim3 sl_row_block(void) {
    return dim3(64, 4);
}
