/* Embeddings. In the gradient every row of the table belongs to the block of the first row of data that has
 * its token; that block lists the others in order and adds them, so no two blocks write to the same row. */
#include "run/device/cuda/cuda_rows.cuh"

/* A block looks at 2,048 tokens at a time, each thread at eight in a row, and has 1,024 columns; AHEAD rows
 * are read before they are added. */
enum { THREADS = 256, EACH = 8, AHEAD = 16 };

template <bool WHOLE>
SL_KERNEL take_rows(int rows, int columns, int first, int count, const uint16_t *token, const float *table,
                    float *x) {
    const int row = (int)(blockIdx.x * blockDim.y + threadIdx.y);
    if (row >= rows)
        return;
    const int entry = (int)token[row] - first;
    const bool here = entry >= 0 && entry < count;
    const size_t width = (size_t)columns;
    for (size_t at = 4 * threadIdx.x; at < width; at += 4 * blockDim.x)
        sl_store<WHOLE>(x + (size_t)row * width, at, width,
                        here ? sl_load<WHOLE>(table + (size_t)entry * width, at, width)
                             : make_float4(0, 0, 0, 0));
}

static void embed(sl_device *d, int rows, int width, int first, int count, const uint16_t *token,
                  const float *table, float *x) {
    if (!rows)
        return;
    if (sl_whole((size_t)width, table, x))
        SL_CUDA_LAUNCH((sl_cuda *)d, take_rows<true>, sl_row_grid(rows), sl_row_block(), 0, rows, width,
                       first, count, token, table, x);
    else
        SL_CUDA_LAUNCH((sl_cuda *)d, take_rows<false>, sl_row_grid(rows), sl_row_block(), 0, rows, width,
                       first, count, token, table, x);
}

/* The sum of `n` over the threads before this one; *all: over all. */
static __device__ int before(int n, int *shared, int *all) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int up_to = n;
    for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(~0u, up_to, (unsigned)step);
        up_to += lane >= step ? other : 0;
    }
    if (lane == 31)
        shared[warp] = up_to;
    __syncthreads();
    int sum = up_to - n;
    *all = 0;
    for (int w = 0; w < THREADS / 32; w++) {
        sum += w < warp ? shared[w] : 0;
        *all += shared[w];
    }
    return sum;
}

/* The rows of [from, rows) with this token, of the next 2,048, in order; their number. */
static __device__ int list_rows(int from, int rows, uint16_t wanted, const uint16_t *token, int *list,
                                int *shared) {
    const int start = from + (int)threadIdx.x * EACH;
    unsigned hits = 0;
    int all;
#pragma unroll
    for (int i = 0; i < EACH; i++)
        if (start + i < rows && token[start + i] == wanted)
            hits |= 1u << i;
    int at = before(__popc(hits), shared, &all);
    for (int i = 0; i < EACH; i++)
        if (hits >> i & 1u)
            list[at++] = start + i;
    __syncthreads();
    return all;
}

template <bool WHOLE>
SL_KERNEL add_by_token(int rows, int columns, int first, int count, const uint16_t *token, const float *dx,
                       float *grad) {
    __shared__ int list[THREADS * EACH], shared[THREADS / 32];
    const int row = (int)blockIdx.x, entry = (int)token[row] - first;
    const uint16_t wanted = token[row];
    const size_t width = (size_t)columns, at = 4 * ((size_t)blockIdx.y * THREADS + threadIdx.x);
    bool earlier = entry < 0 || entry >= count;
    for (int r = (int)threadIdx.x; r < row; r += THREADS)
        earlier |= token[r] == wanted;
    if (__syncthreads_or(earlier))
        return;
    float *sum = grad + (size_t)entry * width;
    for (int from = row; from < rows; from += THREADS * EACH) {
        const int listed = list_rows(from, rows, wanted, token, list, shared);
        if (at < width && listed) {
            float4 v = sl_load<WHOLE>(sum, at, width);
            for (int i = 0; i < listed; i += AHEAD) {
                float4 d[AHEAD];
#pragma unroll
                for (int k = 0; k < AHEAD; k++)
                    if (i + k < listed)
                        d[k] = sl_load<WHOLE>(dx + (size_t)list[i + k] * width, at, width);
#pragma unroll
                for (int k = 0; k < AHEAD; k++)
                    if (i + k < listed)
                        v = v + d[k];
            }
            sl_store<WHOLE>(sum, at, width, v);
        }
        __syncthreads(); /* before the list is written again */
    }
}

static void embed_weight_grad(sl_device *d, int rows, int width, int first, int count, const uint16_t *token,
                              const float *dx, float *grad) {
    const dim3 grid((unsigned)rows, (unsigned)(width + 4 * THREADS - 1) / (4 * THREADS)), block(THREADS);
    if (!rows)
        return;
    if (sl_whole((size_t)width, dx, grad))
        SL_CUDA_LAUNCH((sl_cuda *)d, add_by_token<true>, grid, block, 0, rows, width, first, count, token, dx,
                       grad);
    else
        SL_CUDA_LAUNCH((sl_cuda *)d, add_by_token<false>, grid, block, 0, rows, width, first, count, token,
                       dx, grad);
}

template <bool WHOLE>
SL_KERNEL add_position(int rows, int columns, int context, const float *table, float *x) {
    const int row = (int)(blockIdx.x * blockDim.y + threadIdx.y);
    if (row >= rows)
        return;
    const size_t width = (size_t)columns;
    x += (size_t)row * width;
    table += (size_t)(row % context) * width;
    for (size_t at = 4 * threadIdx.x; at < width; at += 4 * blockDim.x)
        sl_store<WHOLE>(x, at, width, sl_load<WHOLE>(x, at, width) + sl_load<WHOLE>(table, at, width));
}

static void add_positions(sl_device *d, int rows, int width, int context, const float *table, float *x) {
    if (!rows)
        return;
    if (sl_whole((size_t)width, table, x))
        SL_CUDA_LAUNCH((sl_cuda *)d, add_position<true>, sl_row_grid(rows), sl_row_block(), 0, rows, width,
                       context, table, x);
    else
        SL_CUDA_LAUNCH((sl_cuda *)d, add_position<false>, sl_row_grid(rows), sl_row_block(), 0, rows, width,
                       context, table, x);
}

template <bool WHOLE>
SL_KERNEL add_by_position(int rows, int columns, int context, const float *dx, float *grad) {
    const int position = (int)(blockIdx.x * blockDim.y + threadIdx.y);
    const size_t width = (size_t)columns;
    if (position >= context)
        return;
    for (size_t at = 4 * threadIdx.x; at < width; at += 4 * blockDim.x) {
        float *sum = grad + (size_t)position * width;
        float4 v = sl_load<WHOLE>(sum, at, width);
#pragma unroll 4
        for (int row = position; row < rows; row += context)
            v = v + sl_load<WHOLE>(dx + (size_t)row * width, at, width);
        sl_store<WHOLE>(sum, at, width, v);
    }
}

static void positions_weight_grad(sl_device *d, int rows, int width, int context, const float *dx,
                                  float *grad) {
    const int positions = rows < context ? rows : context;
    if (!rows)
        return;
    if (sl_whole((size_t)width, dx, grad))
        SL_CUDA_LAUNCH((sl_cuda *)d, add_by_position<true>, sl_row_grid(positions), sl_row_block(), 0, rows,
                       width, context, dx, grad);
    else
        SL_CUDA_LAUNCH((sl_cuda *)d, add_by_position<false>, sl_row_grid(positions), sl_row_block(), 0, rows,
                       width, context, dx, grad);
}

extern "C" void sl_cuda_fill_embed(sl_device *d) {
    d->embed = embed;
    d->embed_weight_grad = embed_weight_grad;
    d->add_positions = add_positions;
    d->positions_weight_grad = positions_weight_grad;
}
