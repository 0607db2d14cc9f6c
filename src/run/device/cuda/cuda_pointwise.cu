/* Element by element. Every step is the cpu device's, so that the bits are too. */
#include "run/device/cuda/cuda_rows.cuh"

/* gelu(x) = x / (1 + e) with e = exp(-2u), u = sqrt(2/pi) (x + 0.044715 x^3): see cpu_pointwise.c. */
#define SLOPE 0.7978845608028654f
#define CUBIC 0.044715f

static __device__ __forceinline__ float gelu_exponential(float v) {
    return sl_exp(-2.0f * (SLOPE * (v + CUBIC * (v * v * v))));
}

struct gelu_forward {
    enum { IN = 1, OUT = 1 };
    static __device__ __forceinline__ void at(float *v) {
        v[0] = v[0] * (1.0f / (1.0f + gelu_exponential(v[0])));
    }
};

/* x, dy -> y, dx */
struct gelu_backward {
    enum { IN = 2, OUT = 2 };
    static __device__ __forceinline__ void at(float *v) {
        const float x = v[0], e = gelu_exponential(x), s = 1.0f / (1.0f + e),
                    slope = 2.0f * SLOPE * (1.0f + 3.0f * CUBIC * (x * x));
        v[0] = x * s;
        v[1] = v[1] * (s + x * s * (e * s) * slope);
    }
};

/* gate, up -> y */
struct swiglu_forward {
    enum { IN = 2, OUT = 1 };
    static __device__ __forceinline__ void at(float *v) {
        const float s = 1.0f / (1.0f + sl_exp(-v[0]));
        v[0] = (v[0] * s) * v[1];
    }
};

/* gate, up, dy -> their gradients, y */
struct swiglu_backward {
    enum { IN = 3, OUT = 3 };
    static __device__ __forceinline__ void at(float *v) {
        const float g = v[0], u = v[1], dy = v[2], e = sl_exp(-g), s = 1.0f / (1.0f + e), silu = g * s;
        v[0] = (dy * u) * (s * (1.0f + g * (e * s)));
        v[1] = dy * silu;
        v[2] = silu * u;
    }
};

struct arrays {
    const float *in[3];
    float *out[3];
};

template <typename OP, bool WHOLE> SL_KERNEL each(size_t count, arrays a) {
    const size_t at = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (at >= count)
        return;
    float4 in[OP::IN];
    float v[4][3];
#pragma unroll
    for (int i = 0; i < OP::IN; i++) {
        in[i] = sl_load<WHOLE>(a.in[i], at, count);
        v[0][i] = in[i].x;
        v[1][i] = in[i].y;
        v[2][i] = in[i].z;
        v[3][i] = in[i].w;
    }
#pragma unroll
    for (int l = 0; l < 4; l++)
        OP::at(v[l]);
#pragma unroll
    for (int i = 0; i < OP::OUT; i++)
        sl_store<WHOLE>(a.out[i], at, count, make_float4(v[0][i], v[1][i], v[2][i], v[3][i]));
}

template <typename OP> static void run(sl_device *d, size_t count, const arrays &a) {
    if (!count)
        return;
    const dim3 grid((unsigned)((count + 1023) / 1024)), block(256);
    if (sl_whole(count, a.in[0], a.in[1], a.in[2], a.out[0], a.out[1], a.out[2]))
        SL_CUDA_LAUNCH((sl_cuda *)d, (each<OP, true>), grid, block, 0, count, a);
    else
        SL_CUDA_LAUNCH((sl_cuda *)d, (each<OP, false>), grid, block, 0, count, a);
}

static void gelu(sl_device *d, size_t count, const float *x, float *y) {
    run<gelu_forward>(d, count, {{x}, {y}});
}

static void gelu_input_grad(sl_device *d, size_t count, float *x, float *dy) {
    run<gelu_backward>(d, count, {{x, dy}, {x, dy}});
}

static void swiglu(sl_device *d, size_t count, const float *gate, const float *up, float *y) {
    run<swiglu_forward>(d, count, {{gate, up}, {y}});
}

static void swiglu_input_grad(sl_device *d, size_t count, float *gate, float *up, float *dy) {
    run<swiglu_backward>(d, count, {{gate, up, dy}, {gate, up, dy}});
}

/* x[row] += y[row] + bias */
template <bool WHOLE>
SL_KERNEL add_to_rows(int rows, int columns, const float *y, const float *bias, float *x) {
    const int row = (int)(blockIdx.x * blockDim.y + threadIdx.y);
    const size_t width = (size_t)columns, from = (size_t)row * width;
    if (row >= rows)
        return;
    for (size_t at = 4 * threadIdx.x; at < width; at += 4 * blockDim.x) {
        float4 v = sl_load<WHOLE>(y + from, at, width);
        if (bias)
            v = v + sl_load<WHOLE>(bias, at, width);
        sl_store<WHOLE>(x + from, at, width, sl_load<WHOLE>(x + from, at, width) + v);
    }
}

static void add_rows(sl_device *d, int rows, int width, const float *y, const float *bias, float *x) {
    if (!rows)
        return;
    if (sl_whole((size_t)width, y, bias, x))
        SL_CUDA_LAUNCH((sl_cuda *)d, add_to_rows<true>, sl_row_grid(rows), sl_row_block(), 0, rows, width, y,
                       bias, x);
    else
        SL_CUDA_LAUNCH((sl_cuda *)d, add_to_rows<false>, sl_row_grid(rows), sl_row_block(), 0, rows, width, y,
                       bias, x);
}

/* Each thread turns four pairs of a head, or one: `half` counts them. */
template <bool WHOLE>
SL_KERNEL turn(int rows, int context, int heads, int half, int stride, float sign, const float *table,
               float *x) {
    const int row = (int)(blockIdx.x * blockDim.y + threadIdx.y), each = WHOLE ? 4 : 1, units = half / each;
    if (row >= rows)
        return;
    const float *cosines = table + (size_t)(row % context) * (size_t)(2 * half);
    for (int unit = (int)threadIdx.x; unit < heads * units; unit += (int)blockDim.x) {
        const int i = unit % units * each;
        float *low = x + (size_t)row * (size_t)stride + (size_t)(unit / units * 2 * half + i),
              *high = low + half;
        if (WHOLE) {
            const float4 c = *(const float4 *)(cosines + i), s = *(const float4 *)(cosines + half + i) * sign,
                         l = *(float4 *)low, h = *(float4 *)high;
            *(float4 *)low = l * c + h * s * -1.0f;
            *(float4 *)high = h * c + l * s;
        } else {
            const float c = cosines[i], s = sign * cosines[half + i], l = *low, h = *high;
            *low = l * c - h * s;
            *high = h * c + l * s;
        }
    }
}

static void rope(sl_device *d, int rows, int context, int heads, int size, int stride, int backward,
                 const float *table, float *x) {
    const float sign = backward ? -1.0f : 1.0f;
    if (!rows)
        return;
    if (stride % 4 == 0 && sl_whole((size_t)size / 2, table, x))
        SL_CUDA_LAUNCH((sl_cuda *)d, turn<true>, sl_row_grid(rows), sl_row_block(), 0, rows, context, heads,
                       size / 2, stride, sign, table, x);
    else
        SL_CUDA_LAUNCH((sl_cuda *)d, turn<false>, sl_row_grid(rows), sl_row_block(), 0, rows, context, heads,
                       size / 2, stride, sign, table, x);
}

extern "C" void sl_cuda_fill_pointwise(sl_device *d) {
    d->gelu = gelu;
    d->gelu_input_grad = gelu_input_grad;
    d->swiglu = swiglu;
    d->swiglu_input_grad = swiglu_input_grad;
    d->add_rows = add_rows;
    d->rope = rope;
}
