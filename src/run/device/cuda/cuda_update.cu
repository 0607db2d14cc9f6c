/* Arithmetic over all weights or gradients of a stage; every step is the cpu device's (cpu_update.c), so that
 * the bits are too. */
#include "run/device/cuda/cuda_rows.cuh"

enum { THREADS = 256, LANES = 32 };

/* A block of elements is a warp's: element i is lane i % 32's, and lanes are added in order. */
SL_KERNEL squares_of_blocks(size_t count, const float *x, double *out) {
    const size_t block = (size_t)blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES,
                 first = block * SL_SQUARES_BLOCK + threadIdx.x % LANES;
    double lane = 0, total = 0;
    if (block * SL_SQUARES_BLOCK >= count)
        return;
    float v[SL_SQUARES_BLOCK / LANES];
#pragma unroll
    for (size_t i = 0; i < SL_SQUARES_BLOCK / LANES; i++)
        v[i] = first + i * LANES < count ? x[first + i * LANES] : 0.0f;
#pragma unroll
    for (size_t i = 0; i < SL_SQUARES_BLOCK / LANES; i++)
        lane += (double)v[i] * (double)v[i];
    for (int l = 0; l < LANES; l++)
        total += __shfl_sync(~0u, lane, l);
    if (threadIdx.x % LANES == 0)
        out[block] = total;
}

static void squares(sl_device *d, int threads, size_t count, const float *x, double *out) {
    const size_t each = SL_SQUARES_BLOCK * (THREADS / LANES);
    (void)threads;
    if (count)
        SL_CUDA_LAUNCH((sl_cuda *)d, squares_of_blocks, dim3((unsigned)((count + each - 1) / each)),
                       dim3(THREADS), 0, count, x, out);
}

static __device__ __forceinline__ float adamw_of(const sl_adamw_step &s, float gradient, float weight,
                                                 float *m, float *v) {
    const float g = gradient * s.factor;
    *m = s.beta1 * *m + s.rest1 * g;
    *v = s.beta2 * *v + s.rest2 * (g * g);
    return weight * s.keep - s.size * (*m / (sqrtf(*v) * s.root + s.epsilon));
}

template <bool WHOLE>
SL_KERNEL adamw_of_each(sl_adamw_step s, size_t count, const float *gradient, float *weight, float *moment1,
                        float *moment2) {
    const size_t at = ((size_t)blockIdx.x * THREADS + threadIdx.x) * 4;
    if (at >= count)
        return;
    const float4 g = sl_load<WHOLE>(gradient, at, count);
    float4 w = sl_load<WHOLE>(weight, at, count), m = sl_load<WHOLE>(moment1, at, count),
           v = sl_load<WHOLE>(moment2, at, count);
    w.x = adamw_of(s, g.x, w.x, &m.x, &v.x);
    w.y = adamw_of(s, g.y, w.y, &m.y, &v.y);
    w.z = adamw_of(s, g.z, w.z, &m.z, &v.z);
    w.w = adamw_of(s, g.w, w.w, &m.w, &v.w);
    sl_store<WHOLE>(weight, at, count, w);
    sl_store<WHOLE>(moment1, at, count, m);
    sl_store<WHOLE>(moment2, at, count, v);
}

template <bool WHOLE> SL_KERNEL add_each(size_t count, const float *x, float *y) {
    const size_t at = ((size_t)blockIdx.x * THREADS + threadIdx.x) * 4;
    if (at < count)
        sl_store<WHOLE>(y, at, count, sl_load<WHOLE>(y, at, count) + sl_load<WHOLE>(x, at, count));
}

static dim3 grid_of(size_t count) {
    return dim3((unsigned)((count + 4 * THREADS - 1) / (4 * THREADS)));
}

static void adamw(sl_device *d, const sl_adamw_step *step, size_t count, const float *gradient, float *weight,
                  float *moment1, float *moment2) {
    if (!count)
        return;
    if (sl_whole(count, gradient, weight, moment1, moment2))
        SL_CUDA_LAUNCH((sl_cuda *)d, adamw_of_each<true>, grid_of(count), dim3(THREADS), 0, *step, count,
                       gradient, weight, moment1, moment2);
    else
        SL_CUDA_LAUNCH((sl_cuda *)d, adamw_of_each<false>, grid_of(count), dim3(THREADS), 0, *step, count,
                       gradient, weight, moment1, moment2);
}

static void add(sl_device *d, size_t count, const float *x, float *y) {
    if (!count)
        return;
    if (sl_whole(count, x, y))
        SL_CUDA_LAUNCH((sl_cuda *)d, add_each<true>, grid_of(count), dim3(THREADS), 0, count, x, y);
    else
        SL_CUDA_LAUNCH((sl_cuda *)d, add_each<false>, grid_of(count), dim3(THREADS), 0, count, x, y);
}

template <bool WHOLE>
SL_KERNEL add_if_marked(int rows, int columns, const unsigned char *marked, float *from, float *to) {
    const int row = (int)(blockIdx.x * blockDim.y + threadIdx.y);
    const size_t width = (size_t)columns;
    if (row >= rows || !marked[row])
        return;
    from += (size_t)row * width;
    to += (size_t)row * width;
    for (size_t at = 4 * threadIdx.x; at < width; at += 4 * blockDim.x) {
        sl_store<WHOLE>(to, at, width, sl_load<WHOLE>(to, at, width) + sl_load<WHOLE>(from, at, width));
        sl_store<WHOLE>(from, at, width, make_float4(0, 0, 0, 0));
    }
}

static void add_marked(sl_device *d, int rows, int width, const unsigned char *marked, float *from,
                       float *to) {
    if (!rows)
        return;
    if (sl_whole((size_t)width, from, to))
        SL_CUDA_LAUNCH((sl_cuda *)d, add_if_marked<true>, sl_row_grid(rows), sl_row_block(), 0, rows, width,
                       marked, from, to);
    else
        SL_CUDA_LAUNCH((sl_cuda *)d, add_if_marked<false>, sl_row_grid(rows), sl_row_block(), 0, rows, width,
                       marked, from, to);
}

extern "C" cudaError_t sl_cuda_find_code(void) {
    struct cudaFuncAttributes found;
    return cudaFuncGetAttributes(&found, squares_of_blocks);
}

extern "C" void sl_cuda_fill_update(sl_device *d) {
    d->squares = squares;
    d->adamw = adamw;
    d->add = add;
    d->add_marked = add_marked;
}
