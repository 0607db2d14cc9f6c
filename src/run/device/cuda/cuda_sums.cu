/* Sums over rows. The rows of a column are dealt to 128 lanes, row r to lane r % 128, which adds its rows in
 * ascending order; then eight lanes of a block are added in order, and then the 16 blocks, by the one of them
 * that ends last, in order too. So only the number of rows decides how a sum is formed. */
#include "run/device/cuda/cuda_rows.cuh"

enum {
    TILE = 128,
    LANES = 8,
    AHEAD = 8
}; /* columns of a block, its lanes, rows that are read before added */

struct sums {
    int rows, width;
    const float *dy, *normal;
    float *part, *product_grad, *plain_grad; /* NULL: not wanted */
    unsigned *counted;
};

static __device__ float4 in_order(const float4 *lane) {
    float4 sum = lane[0];
    for (int i = 1; i < LANES; i++)
        sum = sum + lane[i * 32];
    return sum;
}

/* The blocks' parts, which other processors of the card have written: past the cache of this one. */
static __device__ float4 of_blocks(const float4 *part) {
    float4 sum = __ldcg(part);
#pragma unroll
    for (int i = 1; i < SL_CUDA_PARTS; i++)
        sum = sum + __ldcg(part + i * 64);
    return sum;
}

template <bool WHOLE> static __device__ void finish(float4 sum, float *grad, size_t at, size_t width) {
    sl_store<WHOLE>(grad, at, width, sl_load<WHOLE>(grad, at, width) + sum);
}

template <bool WHOLE, bool PRODUCT, bool PLAIN> SL_KERNEL sum_rows(sums s) {
    __shared__ float4 product_lane[LANES * 32], plain_lane[LANES * 32];
    __shared__ bool is_last;
    const int mine = (int)(threadIdx.y * 32 + threadIdx.x), lanes = LANES * SL_CUDA_PARTS;
    const size_t at = blockIdx.x * TILE + threadIdx.x * 4, width = (size_t)s.width;
    float4 product = make_float4(0, 0, 0, 0), plain = product;
    if (at < width)
        for (int first = (int)(blockIdx.y * LANES + threadIdx.y); first < s.rows; first += AHEAD * lanes) {
            float4 d[AHEAD], n[AHEAD];
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (first + i * lanes < s.rows) {
                    const size_t row = (size_t)(first + i * lanes) * width;
                    d[i] = sl_load<WHOLE>(s.dy + row, at, width);
                    if (PRODUCT)
                        n[i] = sl_load<WHOLE>(s.normal + row, at, width);
                }
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (first + i * lanes < s.rows) {
                    if (PRODUCT)
                        product = product + d[i] * n[i];
                    if (PLAIN)
                        plain = plain + d[i];
                }
        }
    product_lane[mine] = product;
    plain_lane[mine] = plain;
    __syncthreads();
    float4 *part = (float4 *)s.part + (blockIdx.x * SL_CUDA_PARTS + blockIdx.y) * 64 + threadIdx.x;
    if (threadIdx.y == 0) {
        if (PRODUCT)
            part[0] = in_order(product_lane + threadIdx.x);
        if (PLAIN)
            part[32] = in_order(plain_lane + threadIdx.x);
        __threadfence();
        __syncwarp();
        if (threadIdx.x == 0)
            is_last = atomicAdd(&s.counted[blockIdx.x], 1u) == SL_CUDA_PARTS - 1;
    }
    __syncthreads();
    if (!is_last || threadIdx.y)
        return;
    __threadfence();
    part = (float4 *)s.part + blockIdx.x * SL_CUDA_PARTS * 64 + threadIdx.x;
    if (PRODUCT && at < width)
        finish<WHOLE>(of_blocks(part), s.product_grad, at, width);
    if (PLAIN && at < width)
        finish<WHOLE>(of_blocks(part + 32), s.plain_grad, at, width);
    if (threadIdx.x == 0)
        s.counted[blockIdx.x] = 0;
}

template <bool PRODUCT, bool PLAIN> static void run(sl_device *d, sums s) {
    sl_cuda *cuda = (sl_cuda *)d;
    const dim3 grid((unsigned)(s.width + TILE - 1) / TILE, SL_CUDA_PARTS), block(32, LANES);
    if (!sl_cuda_expect(cuda, s.width <= SL_CUDA_COLUMNS, "a sum over rows of more than 65536 columns"))
        return;
    s.part = cuda->sums;
    s.counted = cuda->counted;
    if (sl_whole((size_t)s.width, s.dy, s.normal, s.product_grad, s.plain_grad))
        SL_CUDA_LAUNCH(cuda, (sum_rows<true, PRODUCT, PLAIN>), grid, block, 0, s);
    else
        SL_CUDA_LAUNCH(cuda, (sum_rows<false, PRODUCT, PLAIN>), grid, block, 0, s);
}

static void layernorm_weight_grad(sl_device *d, int rows, int width, const float *dy, const float *normal,
                                  float *scratch, float *gain_grad, float *bias_grad) {
    (void)scratch;
    run<true, true>(d, {rows, width, dy, normal, NULL, gain_grad, bias_grad});
}

static void rmsnorm_weight_grad(sl_device *d, int rows, int width, const float *dy, const float *normal,
                                float *scratch, float *gain_grad) {
    (void)scratch;
    run<true, false>(d, {rows, width, dy, normal, NULL, gain_grad});
}

static void bias_grad(sl_device *d, int rows, int width, const float *dy, float *scratch, float *grad) {
    (void)scratch;
    run<false, true>(d, {rows, width, dy, NULL, NULL, NULL, grad});
}

extern "C" void sl_cuda_fill_sums(sl_device *d) {
    d->layernorm_weight_grad = layernorm_weight_grad;
    d->rmsnorm_weight_grad = rmsnorm_weight_grad;
    d->bias_grad = bias_grad;
}
