/* A transformer cut into stages: its shape, and one stage with its three computations.
 *
 *   x = embedding[token] (+ position table)
 *   each block:  x += out(attention(in(norm(x))));  x += out(mlp(in(norm(x))))
 *   logits = norm(x) * transposed(head);  loss = mean over tokens of -log softmax(logits)[next token]
 *
 * The architecture (architecture.h) defines norm, attention and mlp: GPT-2 has learned positions, LayerNorm
 * and GELU, Llama has rotary positions, RMSNorm, SwiGLU and grouped queries.
 *
 * Blocks are cut contiguously; the first stage has the embeddings, the last one the final norm, the head and
 * the loss. A head that is tied to the embedding always has its own gradient accumulator, and if it is not on
 * the first stage also its own copy of the weight (design.md, "Rules that keep every bit", 4).
 *
 * F keeps the data that I and W need; I computes gradients of activations and keeps those that W needs; W
 * adds to the weights' gradients and frees the microbatch. B is I and then W. The attention weights are not
 * kept but recomputed by the same kernels, so that memory grows with the context and not with its square. A
 * stage that recomputes keeps only the input of each block; its I first runs F of the block again. Every
 * number is a function of the weights and the microbatch: stages, order of ops, recomputation and addresses
 * change no bit.
 *
 * All of a stage's arrays are in its device's memory (device.h). Tokens, targets, inputs, outputs and losses
 * are the host's. Functions may return when their work is only queued: its results are there, and the host's
 * arrays may be used again, after the device's `finish`; those that wait say so.
 *
 * Tensor ranks share every stage as in Megatron: heads, the inner width of the MLP and the vocabulary are
 * divided among them, the residual stream is whole on each. F sums once after the attention and once after
 * the MLP, I once before each; the embedding (F), the head (I) and the loss (F: two numbers per row) sum too.
 * W sums nothing. */
#pragma once

#include "run/device/arena.h"
#include "run/device/device.h"
#include "run/model/model_config.h"

/* Device memory of one stage in bytes, as the arena counts it. */
typedef struct sl_model_bytes {
    size_t fixed;    /* weights, gradients, AdamW moments (unless without), packed weights, scratch */
    size_t forward;  /* kept by F, per microbatch */
    size_t backward; /* added by I; W frees both */
    size_t message;  /* an activation between stages: batch * context * width floats */
} sl_model_bytes;

/** An arena of fixed + n * (forward + backward) is enough for n microbatches between F and W; validation
 * between iterations needs n >= 1. SL_EINVAL, SL_ESYS, SL_ENOMEM. */
sl_status sl_model_measure(const sl_model_config *config, sl_device *device, int stage, int stages,
                           sl_model_bytes *bytes);

/** Names and shapes of a stage's parameters in canonical order, the slices of config->tensor.rank, pointers
 * NULL; returns how many. list NULL: only counts. */
int sl_model_list(const sl_model_config *config, int stage, int stages, sl_parameter *list);

typedef struct sl_model_stage sl_model_stage;

/** A stage with its initial weights, a function of `seed` and the parameters' names; moments and gradients 0.
 * Takes its fixed memory from `arena`; both `device` and `arena` must outlive it. SL_EINVAL, SL_ENOMEM,
 * SL_ESYS. */
sl_status sl_model_stage_open(const sl_model_config *config, sl_device *device, sl_arena *arena, int stage,
                              int stages, uint64_t seed, sl_model_stage **out);
void sl_model_stage_close(sl_model_stage *stage);

/** Pads a stage: stages of different size that share an arena take blocks of the largest size, so that those
 * of one fill the gaps of another (arena.h): bytes kept by F and added by I, at least the stage's own.
 * Before the first F. */
void sl_model_stage_pad(sl_model_stage *stage, size_t forward_bytes, size_t backward_bytes);

/** Starts an iteration of that many microbatches: clears losses, and frees data kept by an interrupted
 * iteration. Gradients are this iteration's after the W of microbatch 0. The loss is the mean over all
 * tokens of all `microbatches`, which scales the gradients. */
sl_status sl_model_begin(sl_model_stage *stage, int microbatches);

/** Like sl_model_begin, for one replica or rank whose microbatches are part of a larger batch of `total` of
 * equal size. */
sl_status sl_model_begin_part(sl_model_stage *stage, int microbatches, int total);

/* Ops may run in parts: F and I by halves of blocks (attention, MLP), W by the parameters of the same halves,
 * each parameter in one part, from the last block to the first; never by tokens. Activations between parts
 * stay inside. A part may be empty (more parts than halves). The parts of an op come in ascending order; a
 * part of W needs the same part of I. All ops of a microbatch are cut alike; whole ops are part 0 of 1. */
typedef struct sl_op_part {
    int index, count;
} sl_op_part;

/** F of a microbatch, 0 <= microbatch < microbatches, once per iteration, or a part of it, 1 <= part.count <=
 * SL_MAX_PARTS. tokens[batch][context]: read only on the first stage, by the first part; targets, the tokens
 * one position later: only on the last, by the last part; else NULL. input (first part) and output (last
 * part) [batch][context][width]: NULL on the first and the last stage.
 * SL_EINVAL: out of turn, or a token outside the vocabulary; SL_ENOMEM: over the arena's limit. */
sl_status sl_model_forward_part(sl_model_stage *stage, int microbatch, sl_op_part part,
                                const uint16_t *tokens, const uint16_t *targets, const float *input,
                                float *output);

/** I: takes the gradient of the stage's output (NULL on the last: it starts from the loss) in the first part,
 * and returns that of its input (NULL on the first) in the last part. */
sl_status sl_model_input_grad_part(sl_model_stage *stage, int microbatch, sl_op_part part,
                                   const float *output_grad, float *input_grad);

/** W: microbatches in ascending order, part by part, or SL_EINVAL. */
sl_status sl_model_weight_grad_part(sl_model_stage *stage, int microbatch, sl_op_part part);

/** Sets the destination of sl_model_offload: `host` (the caller's, must outlive the stage) is host memory
 * with its own limit. */
void sl_model_set_host(sl_model_stage *stage, sl_arena *host);

/** Between F and I, or I and W, of a microbatch: moves all its kept data from the device's arena to the
 * host's, or back; waits. Bits are unchanged. May run during ops of other microbatches. SL_EINVAL: out of
 * turn; SL_ENOMEM: over the limit of the destination. */
sl_status sl_model_offload(sl_model_stage *stage, int microbatch);
sl_status sl_model_fetch(sl_model_stage *stage, int microbatch);

/** F without a following I and W; waits. Keeps nothing, and *loss (last stage; may be NULL elsewhere) is the
 * mean over its tokens. */
sl_status sl_model_evaluate(sl_model_stage *stage, const uint16_t *tokens, const uint16_t *targets,
                            const float *input, float *output, double *loss);

/** Mean loss of a microbatch over its tokens, nats; on the last stage after its F has finished, else NaN. */
double sl_model_loss(const sl_model_stage *stage, int microbatch);

/** After weights have changed (an update, a checkpoint read): repacks them for the products. Requesting
 * parameters, head or embedding below may mean a change of weights, so the next sl_model_begin or
 * sl_model_evaluate packs too, unless this was called since. SL_ESYS. */
sl_status sl_model_weights_changed(sl_model_stage *stage);
/** Packs one of the stage's parameters immediately, while it is still in the caches. It must not change
 * before sl_model_weights_changed, which must still be called and skips it. SL_ESYS. */
sl_status sl_model_weight_changed(sl_model_stage *stage, int parameter);

/** The stage's parameters in canonical order, without the head's copy. Owned by the stage. The canonical list
 * of the model is that of stage 0, then 1, ... */
sl_parameter *sl_model_parameters(sl_model_stage *stage, int *count);

/** All state that a stage keeps between iterations, in one piece of memory: weights, moments (unless without)
 * and the tied head's copy, with the same layout and number of floats on every rank that holds this stage
 * and slice. After a change, call sl_model_weights_changed. */
float *sl_model_state(sl_model_stage *stage, size_t *floats);
/** Its number of floats, without a stage. SL_ENOMEM. */
sl_status sl_model_state_floats(const sl_model_config *config, int stage, int stages, size_t *floats);

/** Replaces the functions of its tensor ranks, with the same rank and size: for a caller that has moved. */
void sl_model_set_tensor(sl_model_stage *stage, const sl_tensor_ranks *tensor);

/** The tied head on the last stage: `gradient` is its own accumulator, `weight` its copy (or the embedding's
 * own weight, if this stage is also the first). NULL on other stages, and if the head is a parameter. */
sl_parameter *sl_model_head(sl_model_stage *stage);

/** The token embedding on the first stage, else NULL. */
sl_parameter *sl_model_embedding(sl_model_stage *stage);

/** On the first stage: embedding gradient += tied head's gradient [count of the embedding], which is the
 * device's or (`on_host`) the host's array. Once per iteration, after all W. Waits if it is the host's. */
sl_status sl_model_add_head(sl_model_stage *stage, const float *head_gradient, int on_host);

/** Memory of the device for work of the caller between two ops of the stage; *bytes >= 64. */
void *sl_model_scratch(sl_model_stage *stage, size_t *bytes);

/** The same on a stage that is first and last and whose accumulators were not changed by others (no
 * replicas): touches only the rows of tokens that occurred. From here to the next sl_model_begin the
 * embedding's gradient is in the place of the head's accumulator, and vice versa. SL_EINVAL. */
sl_status sl_model_add_own_head(sl_model_stage *stage);
