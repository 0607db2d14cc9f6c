/* The inside of the cpu device: its kernels by file, and how they are compiled.
 *
 * SL_VECTORISED makes the compiler emit a kernel for several instruction sets and choose at load time. All of
 * them give the same bits: contraction is off, each element goes through the same operations, and a sum over
 * a row is kept in 16 lanes that are added in one fixed tree, independent of the width of the machine's
 * registers. */
#pragma once

#include "run/device/device.h"
#include "run/device/same_bits.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SL_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SL_SANITIZED 1
#endif
#endif

/* The loader picks a clone before a sanitizer is set up, so sanitized builds have one version only. */
#ifndef SL_VECTORISED
#if defined(__x86_64__) && !defined(SL_SANITIZED)
#define SL_VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SL_VECTORISED
#endif
#endif

typedef struct sl_cpu sl_cpu;

sl_status sl_cpu_matmul_prepare(sl_device *device, const sl_matmul_shape *shape, sl_matmul **product,
                                size_t *scratch_bytes);
size_t sl_cpu_matmul_packed_bytes(const sl_matmul *product);
sl_status sl_cpu_matmul_pack(sl_device *device, sl_matmul *product, const float *b, void *packed);
sl_status sl_cpu_matmul(sl_device *device, sl_matmul *product, const float *a, const void *b,
                        const float *bias, float *c, void *scratch);
size_t sl_cpu_attention_scratch(const sl_device *device, const sl_attention_shape *shape);
void sl_cpu_attention(sl_device *device, const sl_attention_shape *shape, const float *q, const float *k,
                      const float *v, float *out, float *lse, float *scratch);
void sl_cpu_attention_grad(sl_device *device, const sl_attention_shape *shape, const float *q, const float *k,
                           const float *v, const float *out, const float *lse, const float *dout, float *dq,
                           float *dk, float *dv, float *scratch);

/** Memory, which is the host's (cpu_memory.c). */
void sl_cpu_fill_memory(sl_device *device);
/** Arithmetic over all weights, once an iteration (cpu_update.c). */
void sl_cpu_fill_update(sl_device *device);
/** The rest of the table: each divides its rows or columns among the device's threads (cpu_divided.c). */
void sl_cpu_fill_divided(sl_device *device);

/* ---- kernels of one thread; `columns` of a sum over rows are those that it owns of `width` ---- */

void sl_cpu_layernorm(int rows, int width, const float *x, const float *gain, const float *bias,
                      float *normal, float *scale, float *y);
void sl_cpu_layernorm_apply(int rows, int width, const float *normal, const float *gain, const float *bias,
                            float *y);
void sl_cpu_layernorm_input_grad(int rows, int width, const float *dy, const float *gain, const float *normal,
                                 const float *scale, const float *residual, float *dx);
void sl_cpu_layernorm_weight_grad(int rows, int columns, int width, const float *dy, const float *normal,
                                  float *gain_sum, float *bias_sum, float *gain_grad, float *bias_grad);
void sl_cpu_bias_grad(int rows, int columns, int width, const float *dy, float *scratch, float *grad);
void sl_cpu_gelu(size_t count, const float *x, float *y);
void sl_cpu_gelu_input_grad(size_t count, float *x_then_y, float *dy_then_dx);
void sl_cpu_embed(int rows, int width, int first, int count, const uint16_t *token, const float *table,
                  float *x);
void sl_cpu_embed_weight_grad(int rows, int columns, int width, int first, int count, const uint16_t *token,
                              const float *dx, float *grad);
void sl_cpu_add_positions(int rows, int first, int width, int context, const float *table, float *x);
void sl_cpu_positions_weight_grad(int rows, int columns, int width, int context, const float *dx,
                                  float *grad);
void sl_cpu_add_rows(int rows, int width, const float *y, const float *bias, float *x);
void sl_cpu_cross_entropy(int rows, int vocabulary, float *logits, const uint16_t *target, float grad_scale,
                          double *loss);
void sl_cpu_entropy_top(int rows, int columns, const float *logits, float *top);
void sl_cpu_entropy_sums(int rows, int columns, int first, float *logits, const uint16_t *target,
                         const float *top, float *sums, float *right);
void sl_cpu_entropy_grad(int rows, int columns, int first, float *logits, const uint16_t *target,
                         const float *sums, const float *right, float grad_scale, double *loss);
void sl_cpu_rmsnorm(int rows, int width, float epsilon, const float *x, const float *gain, float *normal,
                    float *scale, float *y);
void sl_cpu_rmsnorm_apply(int rows, int width, const float *normal, const float *gain, float *y);
void sl_cpu_rmsnorm_input_grad(int rows, int width, const float *dy, const float *gain, const float *normal,
                               const float *scale, const float *residual, float *dx);
void sl_cpu_rmsnorm_weight_grad(int rows, int columns, int width, const float *dy, const float *normal,
                                float *scratch, float *gain_grad);
void sl_cpu_rope_table(int context, int size, double base, float *table);
void sl_cpu_rope(int rows, int first, int context, int heads, int size, int stride, int backward,
                 const float *table, float *x);
void sl_cpu_swiglu(size_t count, const float *gate, const float *up, float *y);
void sl_cpu_swiglu_input_grad(size_t count, float *gate_then_grad, float *up_then_grad, float *dy_then_y);
