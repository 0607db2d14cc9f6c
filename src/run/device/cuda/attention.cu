/* Attention's entry: scratch, operands in the form that the kernels take, and what backward knows before it
 * starts. */
#include "run/device/cuda/cuda_attention.h"

#include "run/device/cuda/attention_inside.cuh"

#define THREADS 256

/* ---- kernels of one row each; a thread has 8 elements of it ---- */

/** Elements [column, column + 8) of a row of `size`; zeros beyond. `whole`: they can be read by 16 bytes. */
template <typename T> SL_DEVICE void read8(const T *row, int column, int size, bool whole, float x[8]) {
    if (whole && column + 8 <= size) {
        constexpr int EACH = 16 / sizeof(T);
        alignas(16) T part[8];
#pragma unroll
        for (int i = 0; i < 8; i += EACH)
            *(uint4 *)(part + i) = *(const uint4 *)(row + column + i);
#pragma unroll
        for (int i = 0; i < 8; i++)
            x[i] = to_float(part[i]);
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        x[i] = column + i < size ? to_float(row[column + i]) : 0.0f;
}

SL_DEVICE void write8(bf16 *at, const float x[8]) {
    *(uint4 *)at = make_uint4(pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]), pack_bf16(x[4], x[5]),
                              pack_bf16(x[6], x[7]));
}

/** Whether read8 may read 16 bytes at once from every head. */
template <typename T> static bool whole_fit(const rows<T> &x) {
    return (uintptr_t)x.data % 16 == 0 && x.row * sizeof(T) % 16 == 0 && x.head * sizeof(T) % 16 == 0;
}

/** Rows as bf16, WIDTH elements each, zeros beyond their size. */
template <int WIDTH, typename T>
__global__ void __launch_bounds__(THREADS)
    round_rows(int batch, int heads, int context, int size, rows<const T> from, bool whole, rows<bf16> to) {
    constexpr int EACH = WIDTH / 8;
    const size_t at = (size_t)blockIdx.x * (THREADS / EACH) + threadIdx.x / EACH;
    const int column = threadIdx.x % EACH * 8;
    if (at >= (size_t)batch * heads * context)
        return;
    const int h = (int)(at % heads), r = (int)(at / heads % context), b = (int)(at / heads / context);
    float x[8];
    read8(from.at(b, h, r), column, size, whole, x);
    write8(to.at(b, h, r) + column, x);
}

/** Before algorithm 2: D = sum of dO * O of each row, L in base 2, dO as bf16 if `to` has data, and no turns
 * taken. */
template <int WIDTH, typename T>
__global__ void __launch_bounds__(THREADS)
    prepare(sizes z, int step, rows<const T> out, rows<const T> dout, bool whole, const float *lse,
            backward_room room, rows<bf16> to) {
    constexpr int EACH = WIDTH / 8;
    const size_t padded = (size_t)room.steps * step,
                 at = (size_t)blockIdx.x * (THREADS / EACH) + threadIdx.x / EACH;
    const int column = threadIdx.x % EACH * 8;
    const bool real = at < padded * z.batch * z.heads;
    const int r = (int)(at % padded), h = (int)(at / padded % z.heads), b = (int)(at / padded / z.heads);
    float sum = 0.0f;
    if (real && r < z.context) {
        float x[8], y[8];
        read8(dout.at(b, h, r), column, z.size, whole, x);
        read8(out.at(b, h, r), column, z.size, whole, y);
#pragma unroll
        for (int i = 0; i < 8; i++)
            sum = fmaf(x[i], y[i], sum);
        if (to.data)
            write8(to.at(b, h, r) + column, x);
    }
#pragma unroll
    for (int i = EACH / 2; i; i /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, i);
    if (!real || column)
        return;
    room.dot[at] = sum;
    room.top[at] = r < z.context ? lse[((size_t)b * z.heads + h) * z.context + r] * LOG2E : INFINITY;
    if (r % step == 0)
        for (int i = 0; i < WARPS; i++)
            room.turn[at / step * WARPS + i] = 0;
    if (at == 0)
        *room.ticket = 0;
}

/* ---- scratch ---- */

static sizes sizes_of(const sl_attention_shape *s) {
    return {s->batch, s->context, s->heads, s->kv_heads, s->size, 1.0f / sqrtf((float)s->size)};
}

static enum kernels choose(const sl_attention_shape *s, int capability) {
    if (s->type != SL_BF16 || s->size > 128)
        return ON_CUDA_CORES;
    return capability == 9 ? ON_WARPGROUPS : ON_TENSOR_CORES;
}

/** The next `bytes` of scratch, from 64-byte boundary to 64-byte boundary. `at` NULL: counts only. */
static void *take(char *at, size_t *used, size_t bytes) {
    void *mine = at ? at + *used : NULL;
    *used += (bytes + 63) / 64 * 64;
    return mine;
}

static rows<bf16> take_rows(const sizes &z, int heads, char *at, size_t *used) {
    const size_t row = (size_t)width_of(z.size), head = row * (size_t)z.context, batch = head * (size_t)heads;
    return {(bf16 *)take(at, used, sizeof(bf16) * batch * (size_t)z.batch), batch, row, head};
}

static backward_room take_backward(const sizes &z, enum kernels which, char *at, size_t *used) {
    const size_t step = (size_t)step_of(z.size, which), steps = ((size_t)z.context + step - 1) / step,
                 all = (size_t)z.batch * (size_t)z.heads * steps;
    backward_room room;
    room.top = (float *)take(at, used, sizeof(float) * all * step);
    room.dot = (float *)take(at, used, sizeof(float) * all * step);
    room.dq = (float *)take(at, used, sizeof(float) * all * step * (size_t)width_of(z.size));
    room.turn = (int *)take(at, used, sizeof(int) * all * WARPS);
    room.ticket = (int *)take(at, used, sizeof(int));
    room.steps = (int)steps;
    return room;
}

/* Operands as rounded copies; unused if memory has them already. */
struct copies {
    rows<bf16> q, k, v, dout;
};

static copies take_copies(const sizes &z, char *at, size_t *used) {
    copies c;
    c.q = take_rows(z, z.heads, at, used);
    c.k = take_rows(z, z.kv_heads, at, used);
    c.v = take_rows(z, z.kv_heads, at, used);
    c.dout = take_rows(z, z.heads, at, used);
    return c;
}

extern "C" size_t sl_cuda_attention_floats(const sl_attention_shape *shape, int capability) {
    const sizes z = sizes_of(shape);
    size_t used = 0;
    take_backward(z, choose(shape, capability), NULL, &used);
    if (choose(shape, capability) != ON_CUDA_CORES)
        take_copies(z, NULL, &used);
    return used / sizeof(float);
}

/* ---- operands ---- */

/** Rows that the kernels for tensor cores can take where they are: bf16, whole chunks of 16 bytes, none
 * padded. */
static bool fits(const sizes &z, const rows<const bf16> &x) {
    return z.size == width_of(z.size) && whole_fit(x);
}

static bool fits(const sizes &z, const rows<const float> &x) {
    (void)z;
    (void)x;
    return false;
}

static rows<const bf16> as_bf16(const rows<const bf16> &x) {
    return x;
}

static rows<const bf16> as_bf16(const rows<const float> &x) {
    (void)x;
    return {};
}

static rows<const bf16> constant(const rows<bf16> &x) {
    return {x.data, x.batch, x.row, x.head};
}

/** *x for the kernels: `from` itself, or its copy in `to`, which is then put on the stream. */
template <typename T>
static cudaError_t operand(const sizes &z, int heads, const rows<const T> &from, const rows<bf16> &to,
                           rows<const bf16> *x, cudaStream_t stream) {
    if (fits(z, from)) {
        *x = as_bf16(from);
        return cudaSuccess;
    }
    *x = constant(to);
    const size_t all = (size_t)z.batch * (size_t)heads * (size_t)z.context, each = THREADS / to.row * 8;
    return launch(to.row == 64 ? round_rows<64, T> : round_rows<128, T>, (unsigned)((all + each - 1) / each),
                  THREADS, 0, stream, z.batch, heads, z.context, z.size, from, whole_fit(from), to);
}

/* ---- the passes ---- */

#define TRY(call)                                                                                            \
    do {                                                                                                     \
        const cudaError_t error_ = (call);                                                                   \
        if (error_ != cudaSuccess)                                                                           \
            return error_;                                                                                   \
    } while (0)

template <typename T>
static cudaError_t forward(const sl_attention_shape *s, enum kernels which, const T *q, const T *k,
                           const T *v, T *out, float *lse, float *scratch, cudaStream_t stream) {
    const sizes z = sizes_of(s);
    const rows<const T> from_q = rows_of(s, q, s->q_stride), from_k = rows_of(s, k, s->kv_stride),
                        from_v = rows_of(s, v, s->kv_stride);
    const rows<T> to = rows_of(s, out, s->out_stride);
    if (which == ON_CUDA_CORES)
        return forward_f32<T>(z, from_q, from_k, from_v, to, lse, stream);
    size_t used = 0;
    const copies copy = take_copies(z, (char *)scratch, &used);
    rows<const bf16> x_q, x_k, x_v;
    TRY(operand<T>(z, z.heads, from_q, copy.q, &x_q, stream));
    TRY(operand<T>(z, z.kv_heads, from_k, copy.k, &x_k, stream));
    TRY(operand<T>(z, z.kv_heads, from_v, copy.v, &x_v, stream));
    return which == ON_WARPGROUPS ? forward_hopper<T>(z, x_q, x_k, x_v, to, lse, stream)
                                  : forward_bf16<T>(z, x_q, x_k, x_v, to, lse, stream);
}

template <typename T>
static cudaError_t backward(const sl_attention_shape *s, enum kernels which, const T *q, const T *k,
                            const T *v, const T *out, const float *lse, const T *dout, T *dq, T *dk, T *dv,
                            float *scratch, cudaStream_t stream) {
    const sizes z = sizes_of(s);
    const rows<const T> from_q = rows_of(s, q, s->q_stride), from_k = rows_of(s, k, s->kv_stride),
                        from_v = rows_of(s, v, s->kv_stride), from_out = rows_of(s, out, s->out_stride),
                        from_dout = rows_of(s, dout, s->out_stride);
    const rows<T> to_q = rows_of(s, dq, s->q_stride), to_k = rows_of(s, dk, s->kv_stride),
                  to_v = rows_of(s, dv, s->kv_stride);
    const int step = step_of(z.size, which), width = width_of(z.size);
    size_t used = 0;
    const backward_room room = take_backward(z, which, (char *)scratch, &used);
    copies copy = {};
    rows<const bf16> x_q, x_k, x_v, x_dout = as_bf16(from_dout);
    if (which != ON_CUDA_CORES) {
        copy = take_copies(z, (char *)scratch, &used);
        TRY(operand<T>(z, z.heads, from_q, copy.q, &x_q, stream));
        TRY(operand<T>(z, z.kv_heads, from_k, copy.k, &x_k, stream));
        TRY(operand<T>(z, z.kv_heads, from_v, copy.v, &x_v, stream));
        if (fits(z, from_dout))
            copy.dout.data = NULL;
        else
            x_dout = constant(copy.dout);
    }
    const size_t all = (size_t)z.batch * (size_t)z.heads * (size_t)room.steps * (size_t)step,
                 each = (size_t)(THREADS / width * 8);
    TRY(launch(width == 64    ? prepare<64, T>
               : width == 128 ? prepare<128, T>
                              : prepare<256, T>,
               (unsigned)((all + each - 1) / each), THREADS, 0, stream, z, step, from_out, from_dout,
               whole_fit(from_out) && whole_fit(from_dout), lse, room, copy.dout));
    if (which == ON_WARPGROUPS)
        return backward_hopper<T>(z, x_q, x_k, x_v, x_dout, room, to_q, to_k, to_v, stream);
    if (which == ON_TENSOR_CORES)
        return backward_bf16<T>(z, x_q, x_k, x_v, x_dout, room, to_q, to_k, to_v, stream);
    return backward_f32<T>(z, from_q, from_k, from_v, from_dout, room, to_q, to_k, to_v, stream);
}

extern "C" cudaError_t sl_cuda_attention_forward(const sl_attention_shape *shape, int capability,
                                                 sl_type memory, const void *q, const void *k, const void *v,
                                                 void *out, float *lse, float *scratch, cudaStream_t stream) {
    const enum kernels which = choose(shape, capability);
    if (shape->size > 256)
        return cudaErrorInvalidValue;
    if (memory == SL_BF16)
        return forward(shape, which, (const bf16 *)q, (const bf16 *)k, (const bf16 *)v, (bf16 *)out, lse,
                       scratch, stream);
    return forward(shape, which, (const float *)q, (const float *)k, (const float *)v, (float *)out, lse,
                   scratch, stream);
}

extern "C" cudaError_t sl_cuda_attention_backward(const sl_attention_shape *shape, int capability,
                                                  sl_type memory, const void *q, const void *k, const void *v,
                                                  const void *out, const float *lse, const void *dout,
                                                  void *dq, void *dk, void *dv, float *scratch,
                                                  cudaStream_t stream) {
    const enum kernels which = choose(shape, capability);
    if (shape->size > 256)
        return cudaErrorInvalidValue;
    if (memory == SL_BF16)
        return backward(shape, which, (const bf16 *)q, (const bf16 *)k, (const bf16 *)v, (const bf16 *)out,
                        lse, (const bf16 *)dout, (bf16 *)dq, (bf16 *)dk, (bf16 *)dv, scratch, stream);
    return backward(shape, which, (const float *)q, (const float *)k, (const float *)v, (const float *)out,
                    lse, (const float *)dout, (float *)dq, (float *)dk, (float *)dv, scratch, stream);
}
