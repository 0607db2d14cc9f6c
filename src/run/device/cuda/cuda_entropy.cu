/* The loss. A row of logits belongs to one block; rows begin anywhere, so its threads take single numbers,
 * side by side, AHEAD of them before they compute. */
#include "run/device/cuda/cuda_rows.cuh"

#include <float.h>

enum { THREADS = 1024, AHEAD = 8 };

struct entropy {
    int rows, columns, first;
    float *logits;
    const uint16_t *target;
    const float *top, *sums;
    float *found; /* tops, or sums */
    float grad_scale;
    double *loss; /* of each row */
};

/* exp(x) for x <= 0, with a relative error below 4e-7, from the card's own 2^x: a third of sl_exp's steps,
 * which would take longer than the row's memory. 0 below -87. */
static __device__ __forceinline__ float quick_exp(float x) {
    const float shift = 12582912.0f, z = fmaf(x, 1.44269504f, shift), whole = z - shift,
                rest = fmaf(x, 1.92596299e-8f, fmaf(x, 1.44269504f, -whole));
    const float power = __int_as_float((__float_as_int(z) + 127) << 23);
    return x < -87.0f ? 0.0f : exp2f(rest) * power;
}

/* Calls use(value, column) for each number of the row that is this thread's. */
template <typename USE> static __device__ __forceinline__ void for_row(const float *l, int columns, USE use) {
    int at = (int)threadIdx.x;
    for (; at + (AHEAD - 1) * THREADS < columns; at += AHEAD * THREADS) {
        float v[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            v[i] = l[at + i * THREADS];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            use(v[i], at + i * THREADS);
    }
    for (; at < columns; at += THREADS)
        use(l[at], at);
}

/* The row is read twice: once for its largest number and the sum of exponentials, which is scaled again
 * whenever a larger number is met; and once, from shared memory if that holds it (KEPT), to be overwritten.
 */
template <bool KEPT> SL_KERNEL __launch_bounds__(THREADS) whole_loss(entropy e) {
    __shared__ float shared[THREADS / 32];
    extern __shared__ float kept[];
    float *l = e.logits + (size_t)blockIdx.x * (size_t)e.columns, top = -FLT_MAX, sum = 0;
    const int target = e.target[blockIdx.x];
    const float right = l[target];
    for_row(l, e.columns, [&](float v, int at) {
        if (KEPT)
            kept[at] = v;
        if (v > top) {
            sum = sum * quick_exp(top - v);
            top = v;
        }
        sum = sum + quick_exp(v - top);
    });
    const float all_top = sl_combine<THREADS>(top, shared, sl_larger()),
                all = sl_combine<THREADS>(sum * quick_exp(top - all_top), shared, sl_plus()),
                share = e.grad_scale / all;
    if (threadIdx.x == 0)
        e.loss[blockIdx.x] = log((double)all) - ((double)right - (double)all_top);
    for_row(KEPT ? kept : l, e.columns, [&](float v, int at) {
        const float p = quick_exp(v - all_top) * share;
        l[at] = at == target ? p - e.grad_scale : p;
    });
}

SL_KERNEL __launch_bounds__(THREADS) tops(entropy e) {
    __shared__ float shared[THREADS / 32];
    float top = -FLT_MAX;
    for_row(e.logits + (size_t)blockIdx.x * (size_t)e.columns, e.columns,
            [&](float v, int) { top = v > top ? v : top; });
    top = sl_combine<THREADS>(top, shared, sl_larger());
    if (threadIdx.x == 0)
        e.found[blockIdx.x] = top;
}

SL_KERNEL __launch_bounds__(THREADS) sums_of_slice(entropy e) {
    __shared__ float shared[THREADS / 32];
    float *l = e.logits + (size_t)blockIdx.x * (size_t)e.columns, sum = 0;
    const float top = e.top[blockIdx.x];
    const int target = (int)e.target[blockIdx.x] - e.first;
    if (threadIdx.x == 0)
        e.found[(unsigned)e.rows + blockIdx.x] = target >= 0 && target < e.columns ? l[target] - top : 0.0f;
    __syncthreads(); /* before the target's logit is overwritten */
    for_row(l, e.columns, [&](float v, int at) {
        l[at] = v = sl_exp(v - top);
        sum = sum + v;
    });
    sum = sl_combine<THREADS>(sum, shared, sl_plus());
    if (threadIdx.x == 0)
        e.found[blockIdx.x] = sum;
}

SL_KERNEL __launch_bounds__(THREADS) grad_of_slice(entropy e) {
    float *l = e.logits + (size_t)blockIdx.x * (size_t)e.columns;
    const float sum = e.sums[blockIdx.x], right = e.sums[(unsigned)e.rows + blockIdx.x],
                share = e.grad_scale / sum;
    const int target = (int)e.target[blockIdx.x] - e.first;
    if (threadIdx.x == 0)
        e.loss[blockIdx.x] = log((double)sum) - (double)right;
    for_row(l, e.columns, [&](float v, int at) {
        const float p = v * share;
        l[at] = at == target ? p - e.grad_scale : p;
    });
}

/* One block: row r is thread r % THREADS's, which adds its rows in ascending order. */
SL_KERNEL __launch_bounds__(THREADS) add_losses(int rows, const double *row_loss, double *loss) {
    __shared__ double shared[THREADS / 32];
    double sum = 0;
    for (int row = (int)threadIdx.x; row < rows; row += THREADS)
        sum += row_loss[row];
    sum = sl_combine<THREADS>(sum, shared, sl_plus());
    if (threadIdx.x == 0)
        *loss = sum;
}

typedef void kernel_of(entropy);

static void launch(sl_cuda *cuda, kernel_of *kernel, size_t shared, const entropy &e) {
    if (e.rows)
        SL_CUDA_LAUNCH(cuda, kernel, dim3((unsigned)e.rows), dim3(THREADS), shared, e);
}

/* The losses of rows, then their sum. */
static void loss_of(sl_device *d, kernel_of *kernel, size_t shared, entropy e, double *loss) {
    sl_cuda *cuda = (sl_cuda *)d;
    if (!sl_cuda_expect(cuda, e.rows <= SL_CUDA_SUMS / 2, "a loss of more than a million rows"))
        return;
    e.loss = (double *)cuda->sums;
    launch(cuda, kernel, shared, e);
    SL_CUDA_LAUNCH(cuda, add_losses, dim3(1), dim3(THREADS), 0, e.rows, e.loss, loss);
}

static void cross_entropy(sl_device *d, int rows, int vocabulary, float *logits, const uint16_t *target,
                          float grad_scale, double *loss) {
    sl_cuda *cuda = (sl_cuda *)d;
    const entropy e = {rows, vocabulary, 0, logits, target, NULL, NULL, NULL, grad_scale, NULL};
    const size_t row = (size_t)vocabulary * sizeof(float);
    if (row + 1024 > cuda->shared_bytes) {
        loss_of(d, whole_loss<false>, 0, e, loss);
        return;
    }
    sl_cuda_enter(cuda);
    sl_cuda_keep(cuda,
                 cudaFuncSetAttribute((const void *)whole_loss<true>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      (int)cuda->shared_bytes - 1024),
                 "shared memory for a row of logits");
    loss_of(d, whole_loss<true>, row, e, loss);
}

static void entropy_top(sl_device *d, int rows, int columns, const float *logits, float *top) {
    launch((sl_cuda *)d, tops, 0, {rows, columns, 0, (float *)logits, NULL, NULL, NULL, top, 0, NULL});
}

static void entropy_sums(sl_device *d, int rows, int columns, int first, float *logits,
                         const uint16_t *target, const float *top, float *sums) {
    launch((sl_cuda *)d, sums_of_slice, 0, {rows, columns, first, logits, target, top, NULL, sums, 0, NULL});
}

static void entropy_grad(sl_device *d, int rows, int columns, int first, float *logits,
                         const uint16_t *target, const float *sums, float grad_scale, double *loss) {
    loss_of(d, grad_of_slice, 0, {rows, columns, first, logits, target, NULL, sums, NULL, grad_scale, NULL},
            loss);
}

extern "C" void sl_cuda_fill_entropy(sl_device *d) {
    d->cross_entropy = cross_entropy;
    d->entropy_top = entropy_top;
    d->entropy_sums = entropy_sums;
    d->entropy_grad = entropy_grad;
}
