/* Normalizations. A row belongs to one warp or, if it is wide, to one block; its threads take four columns
 * each in turn and keep them in registers, so that a row is read once. How a row is divided depends on its
 * width alone. */
#include "run/device/cuda/cuda_rows.cuh"

#define EPSILON 1e-5f /* of the layer normalization */
#define LOOP(at) for (int i = 0, at = 4 * (int)threadIdx.x; i < QUADS; i++, at += 4 * THREADS)

struct norm_call {
    int rows, width;
    float epsilon;
    const float *x, *gain, *bias, *dy, *residual, *kept, *kept_scale;
    float *normal, *scale, *y, *dx;
};

/* x minus its mean (CENTRED), by its root mean square. Columns beyond the width are 0 also after the mean is
 * subtracted. */
template <int THREADS, int QUADS, bool WHOLE, bool CENTRED>
SL_KERNEL __launch_bounds__(THREADS == 32 ? 128 : THREADS) normalize(norm_call n) {
    __shared__ float shared[32];
    const int row = (int)(blockIdx.x * blockDim.y + threadIdx.y);
    if (row >= n.rows)
        return;
    const size_t from = (size_t)row * (size_t)n.width, width = (size_t)n.width;
    const float share = 1.0f / (float)n.width;
    float4 v[QUADS];
    float sum = 0;
    LOOP(at) {
        v[i] = at < n.width ? sl_load<WHOLE>(n.x + from, (size_t)at, width) : make_float4(0, 0, 0, 0);
        sum += sl_added(v[i]);
    }
    if (CENTRED) {
        const float mean = sl_combine<THREADS>(sum, shared, sl_plus()) * share;
        LOOP(at) {
            v[i] = v[i] - mean;
            v[i].x = at < n.width ? v[i].x : 0;
            v[i].y = at + 1 < n.width ? v[i].y : 0;
            v[i].z = at + 2 < n.width ? v[i].z : 0;
            v[i].w = at + 3 < n.width ? v[i].w : 0;
        }
    }
    float squares = 0;
    LOOP(at)
    squares += sl_added(v[i] * v[i]);
    const float scale = 1.0f / sqrtf(sl_combine<THREADS>(squares, shared, sl_plus()) * share + n.epsilon);
    if (threadIdx.x == 0)
        n.scale[row] = scale;
    LOOP(at)
    if (at < n.width) {
        v[i] = v[i] * scale;
        sl_store<WHOLE>(n.normal + from, (size_t)at, width, v[i]);
        float4 y = v[i] * sl_load<WHOLE>(n.gain, (size_t)at, width);
        if (CENTRED)
            y = y + sl_load<WHOLE>(n.bias, (size_t)at, width);
        sl_store<WHOLE>(n.y + from, (size_t)at, width, y);
    }
}

/* With g = dy * gain: dx = residual + scale * (g - mean(g) - normal * mean(g * normal)); mean(g) only if
 * CENTRED. */
template <int THREADS, int QUADS, bool WHOLE, bool CENTRED>
SL_KERNEL __launch_bounds__(THREADS == 32 ? 128 : THREADS) input_grad(norm_call n) {
    __shared__ float shared[32];
    const int row = (int)(blockIdx.x * blockDim.y + threadIdx.y);
    if (row >= n.rows)
        return;
    const size_t from = (size_t)row * (size_t)n.width, width = (size_t)n.width;
    const float share = 1.0f / (float)n.width, scale = n.kept_scale[row];
    float4 g[QUADS], v[QUADS];
    float sum = 0, product = 0, mean = 0;
    LOOP(at) {
        g[i] = v[i] = make_float4(0, 0, 0, 0);
        if (at < n.width) {
            g[i] = sl_load<WHOLE>(n.dy + from, (size_t)at, width) * sl_load<WHOLE>(n.gain, (size_t)at, width);
            v[i] = sl_load<WHOLE>(n.kept + from, (size_t)at, width);
        }
        sum += sl_added(g[i]);
        product += sl_added(g[i] * v[i]);
    }
    if (CENTRED)
        mean = sl_combine<THREADS>(sum, shared, sl_plus()) * share;
    const float slope = sl_combine<THREADS>(product, shared, sl_plus()) * share;
    LOOP(at)
    if (at < n.width) {
        if (CENTRED)
            g[i] = g[i] - mean;
        float4 dx = (g[i] + v[i] * -slope) * scale;
        if (n.residual)
            dx = sl_load<WHOLE>(n.residual + from, (size_t)at, width) + dx;
        sl_store<WHOLE>(n.dx + from, (size_t)at, width, dx);
    }
}

template <bool WHOLE> SL_KERNEL apply(norm_call n) {
    const int row = (int)(blockIdx.x * blockDim.y + threadIdx.y);
    if (row >= n.rows)
        return;
    const size_t from = (size_t)row * (size_t)n.width, width = (size_t)n.width;
    for (size_t at = 4 * threadIdx.x; at < width; at += 4 * blockDim.x) {
        float4 y = sl_load<WHOLE>(n.kept + from, at, width) * sl_load<WHOLE>(n.gain, at, width);
        if (n.bias)
            y = y + sl_load<WHOLE>(n.bias, at, width);
        sl_store<WHOLE>(n.y + from, at, width, y);
    }
}

template <int THREADS, int QUADS, bool WHOLE, bool CENTRED>
static void launch(sl_cuda *cuda, const norm_call &n) {
    const int each = THREADS == 32 ? 4 : 1; /* rows of a block */
    const dim3 grid((unsigned)(n.rows + each - 1) / each), block(THREADS, each);
    if (n.dx)
        SL_CUDA_LAUNCH(cuda, (input_grad<THREADS, QUADS, WHOLE, CENTRED>), grid, block, 0, n);
    else
        SL_CUDA_LAUNCH(cuda, (normalize<THREADS, QUADS, WHOLE, CENTRED>), grid, block, 0, n);
}

template <bool WHOLE, bool CENTRED> static void by_width(sl_cuda *cuda, const norm_call &n) {
    if (!n.rows ||
        !sl_cuda_expect(cuda, n.width <= 4 * 512 * 8, "a normalization of more than 16384 columns"))
        return;
    if (n.width <= 4 * 32 * 4)
        launch<32, 4, WHOLE, CENTRED>(cuda, n);
    else if (n.width <= 4 * 32 * 8)
        launch<32, 8, WHOLE, CENTRED>(cuda, n);
    else if (n.width <= 4 * 128 * 4)
        launch<128, 4, WHOLE, CENTRED>(cuda, n);
    else if (n.width <= 4 * 256 * 8)
        launch<256, 8, WHOLE, CENTRED>(cuda, n);
    else
        launch<512, 8, WHOLE, CENTRED>(cuda, n);
}

template <bool CENTRED> static void run(sl_device *d, const norm_call &n) {
    if (sl_whole((size_t)n.width, n.x, n.gain, n.bias, n.dy, n.residual, n.kept, n.normal, n.y, n.dx))
        by_width<true, CENTRED>((sl_cuda *)d, n);
    else
        by_width<false, CENTRED>((sl_cuda *)d, n);
}

static void run_apply(sl_device *d, const norm_call &n) {
    if (!n.rows)
        return;
    if (sl_whole((size_t)n.width, n.gain, n.bias, n.kept, n.y))
        SL_CUDA_LAUNCH((sl_cuda *)d, apply<true>, sl_row_grid(n.rows), sl_row_block(), 0, n);
    else
        SL_CUDA_LAUNCH((sl_cuda *)d, apply<false>, sl_row_grid(n.rows), sl_row_block(), 0, n);
}

static void layernorm(sl_device *d, int rows, int width, const float *x, const float *gain, const float *bias,
                      float *normal, float *scale, float *y) {
    norm_call n = {rows, width, EPSILON, x, gain, bias};
    n.normal = normal;
    n.scale = scale;
    n.y = y;
    run<true>(d, n);
}

static void rmsnorm(sl_device *d, int rows, int width, float epsilon, const float *x, const float *gain,
                    float *normal, float *scale, float *y) {
    norm_call n = {rows, width, epsilon, x, gain};
    n.normal = normal;
    n.scale = scale;
    n.y = y;
    run<false>(d, n);
}

static void layernorm_apply(sl_device *d, int rows, int width, const float *normal, const float *gain,
                            const float *bias, float *y) {
    norm_call n = {rows, width, 0, NULL, gain, bias};
    n.kept = normal;
    n.y = y;
    run_apply(d, n);
}

static void rmsnorm_apply(sl_device *d, int rows, int width, const float *normal, const float *gain,
                          float *y) {
    layernorm_apply(d, rows, width, normal, gain, NULL, y);
}

static norm_call of_grad(int rows, int width, const float *dy, const float *gain, const float *normal,
                         const float *scale, const float *residual, float *dx) {
    norm_call n = {rows, width, 0, NULL, gain, NULL, dy, residual, normal, scale};
    n.dx = dx;
    return n;
}

static void layernorm_input_grad(sl_device *d, int rows, int width, const float *dy, const float *gain,
                                 const float *normal, const float *scale, const float *residual, float *dx) {
    run<true>(d, of_grad(rows, width, dy, gain, normal, scale, residual, dx));
}

static void rmsnorm_input_grad(sl_device *d, int rows, int width, const float *dy, const float *gain,
                               const float *normal, const float *scale, const float *residual, float *dx) {
    run<false>(d, of_grad(rows, width, dy, gain, normal, scale, residual, dx));
}

extern "C" void sl_cuda_fill_norms(sl_device *d) {
    d->layernorm = layernorm;
    d->layernorm_apply = layernorm_apply;
    d->layernorm_input_grad = layernorm_input_grad;
    d->rmsnorm = rmsnorm;
    d->rmsnorm_apply = rmsnorm_apply;
    d->rmsnorm_input_grad = rmsnorm_input_grad;
}
