/* A device: memory, and the arithmetic of the model in it, as one table of functions, f32 throughout,
 * row-major. The cpu device uses oneDNN for matrix products and the kernels of cpu_*.c for the rest; another
 * device fills the same table.
 *
 * Every implementation guarantees (design.md, rules 1 and 2): the result of a row never depends on the number
 * of rows or their alignment; the threads are those configured, for any caller; sums run in one fixed order.
 *
 * Where and when. Arrays are in the device's memory, which the host may be unable to reach, except those that
 * are called the host's. A function may return when its work is only queued: queued work runs in the order of
 * the calls, and its results, in either memory, are there after `finish`. Until then an array of the host
 * must be neither changed nor freed. Functions that wait for the queued work themselves say so. Whatever the
 * shape structs and numbers hold is copied.
 *
 * Only one thread at a time calls a device, except that the functions of memory, and `squares`, may be called
 * by several at the same time, also during calls of the others. */
#pragma once

#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

/* The operands of a product: f32, or bf16 copies of both; sums are f32 either way. */
typedef enum sl_type { SL_F32, SL_BF16 } sl_type;

/* c[rows][columns] = op(a)[rows][inner] * op(b)[inner][columns]  (+ bias[columns])  (+ c).
 * Strides are the distance in floats between rows of the matrix as stored, before it is transposed. */
typedef struct sl_matmul_shape {
    int rows, columns, inner;
    int transpose_a, transpose_b;
    int a_stride, b_stride, c_stride;
    int bias;   /* 1: a bias is added to each row */
    int add;    /* 1: adds to c */
    int type;   /* sl_type; a, b and c are f32 in memory in any case */
    int packed; /* 1: b is packed by matmul_pack, of this type */
} sl_matmul_shape;

/* Causal attention of several heads. Rows are [batch][context]; a row of q has `heads` heads of `size` floats
 * one after the other, one of k and v `kv_heads`, each shared by heads / kv_heads of q in order (grouped
 * queries). Strides are floats between rows, so that q, k and v may be side by side. */
typedef struct sl_attention_shape {
    int batch, context;
    int heads, kv_heads, size; /* heads a multiple of kv_heads */
    int q_stride, kv_stride, out_stride;
    int type; /* sl_type of the operands of its products, which a device without bf16 ignores; sums are f32 */
} sl_attention_shape;

/* The numbers of an AdamW step, each rounded to f32 once (run/binding/optimizer.h computes them):
 *   g = gradient * factor;  m = beta1 * m + rest1 * g;  v = beta2 * v + rest2 * (g * g)
 *   weight = weight * keep - size * (m / (sqrt(v) * root + epsilon))
 * Every operation is rounded by itself; square root and division correctly, so that devices agree. */
typedef struct sl_adamw_step {
    float factor, beta1, rest1, beta2, rest2, keep, epsilon, size, root;
} sl_adamw_step;

#define SL_SQUARES_BLOCK ((size_t)1024)

#define SL_DEVICE_MARKS 2

typedef struct sl_matmul sl_matmul;
typedef struct sl_device sl_device;

struct sl_device {
    const char *kind; /* "cpu" */
    const char *isa;  /* instruction set, for logs and to refuse mixed hosts */
    int threads;
    int has_bf16; /* whether products of SL_BF16 run; if not, they are rejected */
    /* 1: its memory is the host's: the host may also use it directly, and calls have done their work when
     * they return. What holds for 0 holds for 1, too: this only saves copies (host_view.h). */
    int host_memory;

    /* ---- memory: any thread ---- */

    /** Allocates memory, of any content. An arena (arena.h) does this once. Waits. SL_ENOMEM. */
    sl_status (*memory_open)(sl_device *device, size_t bytes, void *memory /* address of any pointer */);
    void (*memory_close)(sl_device *device, void *memory);
    /** Makes copies to and from this range of the host's memory fast and able to run during other work; they
     * work without it, too. Waits. SL_ESYS. */
    sl_status (*pin)(sl_device *device, void *host, size_t bytes);
    void (*unpin)(sl_device *device, void *host);
    /** From the host's memory to the device's, the reverse, and within the device. */
    void (*write)(sl_device *device, void *to, const void *host, size_t bytes);
    void (*read)(sl_device *device, void *host, const void *from, size_t bytes);
    void (*copy)(sl_device *device, void *to, const void *from, size_t bytes);
    void (*zero)(sl_device *device, void *memory, size_t bytes);
    /** Marks the work queued so far, by any thread, with one of SL_DEVICE_MARKS numbers; and waits until what
     * was last marked with it is done, while later work goes on: like `finish` for that work. One thread. */
    void (*mark)(sl_device *device, int number);
    sl_status (*wait)(sl_device *device, int number);
    /** Waits until all work queued so far, by any thread, is done. Returns the first error of any call since
     * the device was opened: SL_ESYS names it. */
    sl_status (*finish)(sl_device *device);

    /* ---- arithmetic ---- */

    /** Finds or creates the product of this shape; creating takes milliseconds. Owned by the device.
     * *scratch_bytes: memory for a run of it. SL_EINVAL, SL_ESYS, SL_ENOMEM. */
    sl_status (*matmul_prepare)(sl_device *device, const sl_matmul_shape *shape, sl_matmul **product,
                                size_t *scratch_bytes);
    /** Bytes of the packed b of a product with shape.packed, else 0: in the processor's preferred format.
     * Depends only on inner and columns, so that products of different rows may share it. */
    size_t (*matmul_packed_bytes)(const sl_matmul *product);
    /** Packs b (stored as the shape says) to that many bytes, 64-byte aligned. SL_EINVAL, SL_ESYS. */
    sl_status (*matmul_pack)(sl_device *device, sl_matmul *product, const float *b, void *packed);
    /** Runs it. b: floats, or packed. `bias` NULL unless shape.bias; `scratch` of that size, 64-byte aligned.
     *  SL_ESYS. */
    sl_status (*matmul)(sl_device *device, sl_matmul *product, const float *a, const void *b,
                        const float *bias, float *c, void *scratch);

    /** Layer normalization, eps 1e-5: normal[rows][width] = (x - mean) * scale[row], y = normal * gain +
     * bias. */
    void (*layernorm)(sl_device *device, int rows, int width, const float *x, const float *gain,
                      const float *bias, float *normal, float *scale, float *y);
    /** Repeats its last step: y = normal * gain + bias, same bits as above. */
    void (*layernorm_apply)(sl_device *device, int rows, int width, const float *normal, const float *gain,
                            const float *bias, float *y);
    /** dx = residual + gradient through the normalization of dy; `residual` NULL: none. dx may be
     * residual. */
    void (*layernorm_input_grad)(sl_device *device, int rows, int width, const float *dy, const float *gain,
                                 const float *normal, const float *scale, const float *residual, float *dx);
    /** gain_grad += sum over rows of dy * normal, bias_grad += sum over rows of dy; scratch[2 * width]. */
    void (*layernorm_weight_grad)(sl_device *device, int rows, int width, const float *dy,
                                  const float *normal, float *scratch, float *gain_grad, float *bias_grad);

    /** grad += sum over rows of dy, summed separately and then added; scratch[width]. */
    void (*bias_grad)(sl_device *device, int rows, int width, const float *dy, float *scratch, float *grad);

    /** y = gelu(x), the tanh form of GPT-2. */
    void (*gelu)(sl_device *device, size_t count, const float *x, float *y);
    /** In place: dy becomes dx, and x becomes gelu(x) with the bits of `gelu`. */
    void (*gelu_input_grad)(sl_device *device, size_t count, float *x_then_y, float *dy_then_dx);

    /** Floats of scratch that either of the next two needs, 64-byte aligned. Grows with the context, not with
     *  its square. */
    size_t (*attention_scratch)(const sl_device *device, const sl_attention_shape *shape);
    /** out = softmax(q k' / sqrt(size)) v, each row over itself and the rows before it in its sequence;
     * lse[batch][heads][context] = log of the sum of exponentials, which attention_grad needs. `out` has as
     * many heads as q. out must not be one of the others. */
    void (*attention)(sl_device *device, const sl_attention_shape *shape, const float *q, const float *k,
                      const float *v, float *out, float *lse, float *scratch);
    /** dq, dk, dv (strides of q, k, v) from dout (stride of out); each may overwrite the array it is the
     * gradient of. */
    void (*attention_grad)(sl_device *device, const sl_attention_shape *shape, const float *q, const float *k,
                           const float *v, const float *out, const float *lse, const float *dout, float *dq,
                           float *dk, float *dv, float *scratch);

    /** x[row] = table[token[row] - first], a row of zeros if that is outside [0, count): the table may be a
     * slice of the vocabulary. */
    void (*embed)(sl_device *device, int rows, int width, int first, int count, const uint16_t *token,
                  const float *table, float *x);
    /** grad[token[row] - first] += dx[row], row by row in ascending order; other tokens are skipped. */
    void (*embed_weight_grad)(sl_device *device, int rows, int width, int first, int count,
                              const uint16_t *token, const float *dx, float *grad);
    /** x[row] += table[row % context], and the sums of that, row by row in ascending order. */
    void (*add_positions)(sl_device *device, int rows, int width, int context, const float *table, float *x);
    void (*positions_weight_grad)(sl_device *device, int rows, int width, int context, const float *dx,
                                  float *grad);
    /** x[row] += y[row] + bias; `bias` NULL: none. */
    void (*add_rows)(sl_device *device, int rows, int width, const float *y, const float *bias, float *x);

    /** *loss = sum over rows (in f64) of -log softmax(logits[row])[target[row]], in nats; the logits
     * become grad_scale * (softmax - one_hot(target)). */
    void (*cross_entropy)(sl_device *device, int rows, int vocabulary, float *logits, const uint16_t *target,
                          float grad_scale, double *loss);
    /** The same if this device has only the columns [first, first + columns) of the vocabulary, in three
     * steps. top[row] = largest logit here; the caller takes the maximum over all slices. */
    void (*entropy_top)(sl_device *device, int rows, int columns, const float *logits, float *top);
    /** Logits become exp(logit - top); sums[row] = their sum, sums[rows + row] = the target's logit - top, 0
     * if it is not here; the caller adds the sums of all slices. */
    void (*entropy_sums)(sl_device *device, int rows, int columns, int first, float *logits,
                         const uint16_t *target, const float *top, float *sums);
    /** *loss as above, from all slices' sums; the output of entropy_sums becomes the gradient. */
    void (*entropy_grad)(sl_device *device, int rows, int columns, int first, float *logits,
                         const uint16_t *target, const float *sums, float grad_scale, double *loss);

    /** Root-mean-square normalization: normal = x * scale[row], scale = 1 / sqrt(mean(x^2) + epsilon), y =
     * normal * gain; the rest as for layernorm. */
    void (*rmsnorm)(sl_device *device, int rows, int width, float epsilon, const float *x, const float *gain,
                    float *normal, float *scale, float *y);
    void (*rmsnorm_apply)(sl_device *device, int rows, int width, const float *normal, const float *gain,
                          float *y);
    void (*rmsnorm_input_grad)(sl_device *device, int rows, int width, const float *dy, const float *gain,
                               const float *normal, const float *scale, const float *residual, float *dx);
    void (*rmsnorm_weight_grad)(sl_device *device, int rows, int width, const float *dy, const float *normal,
                                float *scratch /* [width] */, float *gain_grad);

    /** Rotary positions: table[context][size] of cosines, then sines, of position * base^(-2 i / size), in
     * the host's memory; `size` is even. The same on every device. */
    void (*rope_table)(int context, int size, double base, float *table);
    /** In place, rotates each of `heads` heads of a row by its position row % context; `stride`: floats
     * between rows. backward 1: the gradient, rotated back. */
    void (*rope)(sl_device *device, int rows, int context, int heads, int size, int stride, int backward,
                 const float *table, float *x);

    /** y = silu(gate) * up. */
    void (*swiglu)(sl_device *device, size_t count, const float *gate, const float *up, float *y);
    /** In place: gate and up become their gradients, dy becomes y with the bits of `swiglu`. */
    void (*swiglu_input_grad)(sl_device *device, size_t count, float *gate_then_grad, float *up_then_grad,
                              float *dy_then_y);

    /** y += x. */
    void (*add)(sl_device *device, size_t count, const float *x, float *y);
    /** For each row with marked[row] != 0: to[row] += from[row], from[row] = 0. */
    void (*add_marked)(sl_device *device, int rows, int width, const unsigned char *marked, float *from,
                       float *to);
    /** out[i] = sum of the squares of the i-th SL_SQUARES_BLOCK elements, the last block may be shorter, in
     * f64 and a fixed order; a NaN or infinity stays one. On the cpu by at most that many threads (0: all).
     */
    void (*squares)(sl_device *device, int threads, size_t count, const float *x, double *out);
    /** One AdamW step in place, each element by itself. */
    void (*adamw)(sl_device *device, const sl_adamw_step *step, size_t count, const float *gradient,
                  float *weight, float *moment1, float *moment2);

    /** Waits. */
    void (*close)(sl_device *device);
};

/** The CUDA card of that number; its pointers are to memory of the card, with arrays at 16 bytes where their
 * rows are. SL_EINVAL: no such card, or built without CUDA; SL_ESYS: also a missing cuBLASLt. */
sl_status sl_device_open_cuda(int ordinal, sl_device **device);
/** Number of CUDA cards, at least 1. SL_EINVAL: none, or built without CUDA. */
sl_status sl_device_cuda_cards(int *cards);

/** The cpu with that many threads (>= 1). Frees everything in device->close. SL_EINVAL,
 * SL_ESYS. */
sl_status sl_device_open_cpu(int threads, sl_device **device);
