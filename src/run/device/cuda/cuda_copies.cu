/* Copies of a product's matrices (cuda_matmul.c): of another type, or with rows that begin at 16 bytes. */
#include "run/device/cuda/cuda_rows.cuh"

static __device__ __forceinline__ uint32_t pair_of(float low, float high) {
    return sl_bf16(low) | sl_bf16(high) << 16;
}

/* Rows that begin at 16 bytes, in units of eight numbers. */
SL_KERNEL round_whole(int rows, int columns, int stride, const float *x, int out_rows, int out_stride,
                      uint16_t *out) {
    const int row = (int)(blockIdx.x * blockDim.y + threadIdx.y);
    if (row >= out_rows)
        return;
    const size_t from = (size_t)row * (size_t)stride, width = row < rows ? (size_t)columns : 0;
    for (size_t at = 8 * threadIdx.x; at < (size_t)out_stride; at += 8 * blockDim.x) {
        const float4 zero = make_float4(0, 0, 0, 0),
                     a = at < width ? sl_load<true>(x + from, at, width) : zero,
                     b = at + 4 < width ? sl_load<true>(x + from, at + 4, width) : zero;
        *(uint4 *)(out + (size_t)row * (size_t)out_stride + at) =
            make_uint4(pair_of(a.x, a.y), pair_of(a.z, a.w), pair_of(b.x, b.y), pair_of(b.z, b.w));
    }
}

/* Any rows, in pairs. */
template <bool BF16>
SL_KERNEL pad(int rows, int columns, int stride, const float *x, int out_rows, int out_stride, void *out) {
    const int row = (int)(blockIdx.x * blockDim.y + threadIdx.y), width = row < rows ? columns : 0;
    if (row >= out_rows)
        return;
    const size_t to = (size_t)row * (size_t)out_stride;
    x += (size_t)row * (size_t)stride;
#pragma unroll 4
    for (int at = 2 * (int)threadIdx.x; at < out_stride; at += 2 * (int)blockDim.x) {
        const float low = at < width ? x[at] : 0.0f, high = at + 1 < width ? x[at + 1] : 0.0f;
        if (BF16)
            *(uint32_t *)((uint16_t *)out + to + (size_t)at) = pair_of(low, high);
        else
            *(float2 *)((float *)out + to + (size_t)at) = make_float2(low, high);
    }
}

extern "C" void sl_cuda_pad(sl_cuda *cuda, int type, int rows, int columns, int stride, const float *x,
                            int out_rows, int out_stride, void *out) {
    const dim3 grid = sl_row_grid(out_rows), block = sl_row_block();
    if (type == SL_BF16 && stride % 4 == 0 && sl_whole((size_t)columns, x))
        SL_CUDA_LAUNCH(cuda, round_whole, grid, block, 0, rows, columns, stride, x, out_rows, out_stride,
                       (uint16_t *)out);
    else if (type == SL_BF16)
        SL_CUDA_LAUNCH(cuda, pad<true>, grid, block, 0, rows, columns, stride, x, out_rows, out_stride, out);
    else
        SL_CUDA_LAUNCH(cuda, pad<false>, grid, block, 0, rows, columns, stride, x, out_rows, out_stride, out);
}

/* Tiles of 32 x 32 in shared memory, so that rows are read and rows are written. */
template <bool BF16>
SL_KERNEL pad_turned(int rows, int columns, int stride, const float *x, int out_rows, int out_stride,
                     void *out) {
    __shared__ float tile[32][33];
    const int row = (int)(blockIdx.x * 32), column = (int)(blockIdx.y * 32), i = (int)threadIdx.x;
    for (int j = (int)threadIdx.y; j < 32; j += (int)blockDim.y)
        tile[j][i] = row + j < rows && column + i < columns
                         ? x[(size_t)(row + j) * (size_t)stride + (size_t)(column + i)]
                         : 0.0f;
    __syncthreads();
    for (int j = (int)threadIdx.y; j < 32; j += (int)blockDim.y)
        if (column + j < out_rows && row + i < out_stride) {
            const size_t at = (size_t)(column + j) * (size_t)out_stride + (size_t)(row + i);
            if (BF16)
                ((uint16_t *)out)[at] = (uint16_t)sl_bf16(tile[i][j]);
            else
                ((float *)out)[at] = tile[i][j];
        }
}

extern "C" void sl_cuda_pad_turned(sl_cuda *cuda, int type, int rows, int columns, int stride, const float *x,
                                   int out_rows, int out_stride, void *out) {
    const dim3 grid((unsigned)(out_stride + 31) / 32, (unsigned)(out_rows + 31) / 32), block(32, 8);
    if (type == SL_BF16)
        SL_CUDA_LAUNCH(cuda, pad_turned<true>, grid, block, 0, rows, columns, stride, x, out_rows, out_stride,
                       out);
    else
        SL_CUDA_LAUNCH(cuda, pad_turned<false>, grid, block, 0, rows, columns, stride, x, out_rows,
                       out_stride, out);
}

SL_KERNEL take_product(int rows, int columns, int stride, const float *x, int c_stride, float *c) {
    const int row = (int)(blockIdx.x * blockDim.y + threadIdx.y);
    if (row >= rows)
        return;
    x += (size_t)row * (size_t)stride;
    c += (size_t)row * (size_t)c_stride;
#pragma unroll 8
    for (int at = (int)threadIdx.x; at < columns; at += (int)blockDim.x)
        c[at] = x[at];
}

extern "C" void sl_cuda_take_product(sl_cuda *cuda, int rows, int columns, int stride, const float *x,
                                     int c_stride, float *c) {
    SL_CUDA_LAUNCH(cuda, take_product, sl_row_grid(rows), sl_row_block(), 0, rows, columns, stride, x,
                   c_stride, c);
}
