/* Causal attention in blocks of 64 queries by 64 keys, never a matrix of context x context (Dao et al.,
 * FlashAttention, arXiv 2205.14135; the softmax on the way is Milakov and Gimelshein's, 1805.02867): what is
 * kept of a row of scores is the logarithm of its sum of exponentials, from which the backward pass makes any
 * block of weights again. A thread takes a sequence and a head of keys with all heads of queries that share
 * it, so that no sum crosses threads. */
#ifndef SL_RUN_DEVICE_CPU_ATTENTION_H
#define SL_RUN_DEVICE_CPU_ATTENTION_H

#include "run/device/cpu_tile.h"

/* All that both passes are given. */
typedef struct sl_attention_work {
    const sl_attention_shape *shape;
    const float *q, *k, *v, *dout;
    const float *kept_out, *kept_lse; /* backward: what forward gave */
    float *out, *lse;                 /* forward's results */
    float *dq, *dk, *dv;
    float *scratch;
    size_t each; /* floats of scratch of a thread */
} sl_attention_work;

/* Sizes that follow from the shape. */
typedef struct sl_attention_sizes {
    size_t context, padded; /* rows; rounded up to whole blocks */
    size_t size, width;     /* of a head; rounded up to whole vectors */
    size_t blocks;
    float factor; /* 1 / sqrt(size) */
} sl_attention_sizes;

sl_attention_sizes sl_attention_size(const sl_attention_shape *shape);

/** One sequence and head of keys; `scratch` is the thread's. */
void sl_cpu_attention_group(const sl_attention_work *work, int sequence, int group, float *scratch);
void sl_cpu_attention_grad_group(const sl_attention_work *work, int sequence, int group, float *scratch);

/** Floats of scratch that each of them needs, a multiple of 16. */
size_t sl_attention_forward_scratch(const sl_attention_sizes *sizes);
size_t sl_attention_backward_scratch(const sl_attention_sizes *sizes);

#endif
