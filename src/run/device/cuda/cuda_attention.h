/* Causal attention on CUDA without a matrix of context x context (Dao, FlashAttention-2, arXiv 2307.08691).
 *
 * shape->type is the arithmetic: SL_F32 on CUDA cores, or SL_BF16, which rounds operands to bf16 and sums in
 * f32 on tensor cores (heads of more than 128 elements: f32 in any case). `memory` is the type of q, k, v,
 * out and their gradients in memory; lse and scratch are f32. Heads of 64 and 128 elements are fastest; of at
 * most 256 correct. `capability` is the major number of the card's
 * compute capability: on 9 (built for 90a), other kernels compute SL_BF16 than on other cards, with other
 * roundings.
 *
 * Every sum runs in one fixed order, which for a row depends on its position only: results are bit-identical
 * from run to run, and for a sequence alone or among others. */
#pragma once

#include "run/device/device.h"
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Floats of scratch for either pass, 64-byte aligned. Grows with the context, not with its square. */
size_t sl_cuda_attention_floats(const sl_attention_shape *shape, int capability);

/** The passes of device.h, put on `stream`. The first error of CUDA; cudaErrorInvalidValue for heads of more
 * than 256. */
cudaError_t sl_cuda_attention_forward(const sl_attention_shape *shape, int capability, sl_type memory,
                                      const void *q, const void *k, const void *v, void *out, float *lse,
                                      float *scratch, cudaStream_t stream);
cudaError_t sl_cuda_attention_backward(const sl_attention_shape *shape, int capability, sl_type memory,
                                       const void *q, const void *k, const void *v, const void *out,
                                       const float *lse, const void *dout, void *dq, void *dk, void *dv,
                                       float *scratch, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
