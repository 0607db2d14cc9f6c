/* A transformer cut into stages: its shape, and one stage with its three computations.
 *
 *   x = embedding[token] (+ position table)
 *   each block:  x += out(attention(in(norm(x))));  x += out(mlp(in(norm(x))))
 *   logits = norm(x) * transposed(head);  loss = mean over tokens of -log softmax(logits)[next token]
 *
 * What norm, attention and mlp are is the architecture's (architecture.h): GPT-2 with learned positions,
 * LayerNorm and GELU, Llama with rotary positions, RMSNorm, SwiGLU and grouped queries.
 *
 * Blocks are cut contiguously; the first stage has the embeddings, the last one the final norm, the head and
 * the loss. A head that is tied to the embedding has its own gradient accumulator everywhere, and where it is
 * not on the first stage its own copy of the weight (design.md, "Rules that keep every bit", 4).
 *
 * F keeps what I and W need; I computes gradients of activations and keeps those that W needs; W adds to the
 * weights' gradients and frees the microbatch. B is I and then W. The attention weights are not kept but
 * computed again by the same kernels, so that memory grows with the context and not with its square. A stage
 * that recomputes keeps only the input of each block; its I first runs F of the block again. Every number is
 * a function of the weights and the microbatch: stages, order of ops, recomputation and addresses change no
 * bit.
 *
 * Tensor ranks share every stage as Megatron does: heads, the inner width of the MLP and the vocabulary are
 * divided among them, the residual stream is whole on each. F sums once behind the attention and once behind
 * the MLP, I once before each; the embedding (F), the head (I) and the loss (F: two numbers a row) sum too.
 * W sums nothing.
 */
#pragma once

#include "run/device/arena.h"
#include "run/device/device.h"
#include "run/model/architecture.h"

#define SL_MAX_VOCABULARY 65536 /* a token is an uint16 */

/* The tensor ranks that share a stage. Either function leaves the same bits on all of them, added or compared
 * in the order of ranks; all call it alike. size 0 or 1: neither is called. */
typedef struct sl_tensor_ranks {
    int rank, size;
    void *object;
    sl_status (*sum)(void *object, float *values, size_t count);
    sl_status (*max)(void *object, float *values, size_t count);
} sl_tensor_ranks;

/* What is 0 has the default that sl_model_complete fills in. Pointers must outlive all that is made of it. */
typedef struct sl_model_config {
    sl_model_kind kind;
    int layers, width, heads, context;
    int kv_heads;   /* heads of k and v, each shared by heads / kv_heads of q; 0: heads */
    int hidden;     /* inner width of the MLP; 0: 4 * width, llama 8/3 * width up to a multiple of 64 */
    int vocabulary; /* 1 to SL_MAX_VOCABULARY */
    int tied;       /* the head is the embedding; gpt2: always */
    double rope_base, norm_epsilon; /* 0: 10000, 1e-5 */
    int batch;                      /* sequences in a microbatch */
    sl_type type;                   /* of matrix products: f32, or bf16 copies of f32 operands */
    int unpacked;         /* 1: products read weights where they lie; 0: packed copies, made when weights have
                             changed */
    const int *cut;       /* [stages] blocks of each stage; NULL: by cost */
    const int *recompute; /* [stages] 1: keeps only the input of each block; NULL: none does */
    sl_tensor_ranks tensor;
    int without_moments; /* 1: who updates the weights holds AdamW's moments; the parameters' stay NULL */
    int without_weights; /* 1: weights and moments have no value until somebody brings them (sl_model_state)
                          */
} sl_model_config;

/** The config with its defaults. */
sl_model_config sl_model_complete(const sl_model_config *config);

/** Size of an extent of the full model. */
int sl_model_extent(const sl_model_config *config, sl_extent extent);

/** SL_EINVAL when the shape is impossible, has fewer layers than stages, a cut that does not fit or more
 * tensor ranks than there is to divide; the text names the key. */
sl_status sl_model_check(const sl_model_config *config, int stages);

/** Blocks [*first, *end) of a stage: the config's cut, or the one whose largest stage costs least, with
 * embedding and head counted as layers by their arithmetic (CrossPipe 6.1) and at least one block a stage. */
void sl_model_cut(const sl_model_config *config, int stage, int stages, int *first, int *end);

/** Arithmetic of a forward pass, operations a token: of one block, of the head, of the embedding. */
int64_t sl_model_block_cost(const sl_model_config *config);
int64_t sl_model_head_cost(const sl_model_config *config);
int64_t sl_model_embedding_cost(const sl_model_config *config);

/** All scalar weights of the full model, a tied one counted once. */
size_t sl_model_count(const sl_model_config *config);

/* Device memory of one stage in bytes, as the arena counts it. */
typedef struct sl_model_bytes {
    size_t fixed;    /* weights, gradients, AdamW moments (unless without), packed weights, scratch */
    size_t forward;  /* what F keeps of a microbatch */
    size_t backward; /* what I adds; W frees both */
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

/** Stages of different size that share an arena take blocks of the same, largest size, so that those of one
 * fill the gaps of another (arena.h): bytes of what F keeps and of what I adds, at least the stage's own.
 * Before the first F. */
void sl_model_stage_pad(sl_model_stage *stage, size_t forward_bytes, size_t backward_bytes);

/** Starts an iteration of that many microbatches: losses are forgotten, and what an iteration cut short may
 * have kept is freed. Gradients are this iteration's when microbatch 0 has had its W. The loss is the mean
 * over all tokens of all `microbatches`, which scales the gradients. */
sl_status sl_model_begin(sl_model_stage *stage, int microbatches);

/** As sl_model_begin for one replica or rank whose microbatches are part of a larger batch of `total` of
 * equal size. */
sl_status sl_model_begin_part(sl_model_stage *stage, int microbatches, int total);

/* Ops may run in parts: F and I by halves of blocks (attention, MLP), W by the parameters of the same halves,
 * each parameter in one part, from the last block to the first; never by tokens. Activations between parts
 * stay inside. A part may be empty (more parts than halves). The parts of an op come in ascending order; a
 * part of W needs that part of I. All ops of a microbatch are cut alike; whole ops are part 0 of 1. */
typedef struct sl_op_part {
    int index, count;
} sl_op_part;

/** F of a microbatch, 0 <= microbatch < microbatches, once an iteration, or a part of it, 1 <= part.count <=
 * SL_MAX_PARTS. tokens[batch][context]: read on the first stage only, by the first part; targets, the same
 * one byte later: on the last only, by the last part; else NULL. input (first part) and output (last part)
 * [batch][context][width]: NULL on the first and the last stage. Nothing passed is needed after the call.
 *  SL_EINVAL: out of turn, or a token outside the vocabulary; SL_ENOMEM: over the arena's limit. */
sl_status sl_model_forward_part(sl_model_stage *stage, int microbatch, sl_op_part part,
                                const uint16_t *tokens, const uint16_t *targets, const float *input,
                                float *output);

/** I: gradient of the stage's output in (NULL on the last: it starts from the loss), for the first part, of
 * its input out (NULL on the first), by the last part. */
sl_status sl_model_input_grad_part(sl_model_stage *stage, int microbatch, sl_op_part part,
                                   const float *output_grad, float *input_grad);

/** W: microbatches in ascending order, part by part, or SL_EINVAL. */
sl_status sl_model_weight_grad_part(sl_model_stage *stage, int microbatch, sl_op_part part);

/** Where sl_model_offload moves things: `host` (the caller's, must outlive the stage) is host memory with a
 * limit of its own. */
void sl_model_set_host(sl_model_stage *stage, sl_arena *host);

/** Between F and I, or I and W, of a microbatch: moves all that is kept of it from the device's arena to the
 * host's, or back. Bits stay as they are. May run beside ops of other microbatches. SL_EINVAL: out of turn;
 * SL_ENOMEM: over the limit of where it goes to. */
sl_status sl_model_offload(sl_model_stage *stage, int microbatch);
sl_status sl_model_fetch(sl_model_stage *stage, int microbatch);

/** F without I and W to follow: keeps nothing, and *loss (last stage; may be NULL elsewhere) is the mean over
 * its tokens. */
sl_status sl_model_evaluate(sl_model_stage *stage, const uint16_t *tokens, const uint16_t *targets,
                            const float *input, float *output, double *loss);

/** Mean loss of a microbatch over its tokens, nats; on the last stage after its F, else NaN. */
double sl_model_loss(const sl_model_stage *stage, int microbatch);

/** After weights have changed (an update, a checkpoint read): packs them anew for the products. Whoever asked
 * for parameters, head or embedding below may have changed weights: the next sl_model_begin or
 * sl_model_evaluate packs too, unless this was called since. SL_ESYS. */
sl_status sl_model_weights_changed(sl_model_stage *stage);
/** Packs one of the stage's parameters at once, while it is still in the caches; it must not change any more
 * before sl_model_weights_changed, which is still to be called and leaves it out. SL_ESYS. */
sl_status sl_model_weight_changed(sl_model_stage *stage, int parameter);

/** The stage's parameters in canonical order, without the head's copy. Owned by the stage. The canonical list
 * of the model is that of stage 0, then 1, ... */
sl_parameter *sl_model_parameters(sl_model_stage *stage, int *count);

/** All that a stage keeps from iteration to iteration, in one piece of memory: weights, moments (unless
 * without) and the tied head's copy, the same layout and so the same number of floats on every rank that
 * holds this stage and slice. Whoever changes it calls sl_model_weights_changed. */
float *sl_model_state(sl_model_stage *stage, size_t *floats);
/** How many floats that are, without a stage. SL_ENOMEM. */
sl_status sl_model_state_floats(const sl_model_config *config, int stage, int stages, size_t *floats);

/** Other functions for its tensor ranks, of which it is still the same: where who calls it has moved. */
void sl_model_set_tensor(sl_model_stage *stage, const sl_tensor_ranks *tensor);

/** The tied head on the last stage: `gradient` is its own accumulator, `weight` its copy (or the embedding's
 * own weight, if this stage is also the first). NULL on other stages, and where the head is a parameter. */
sl_parameter *sl_model_head(sl_model_stage *stage);

/** The token embedding on the first stage, else NULL. */
sl_parameter *sl_model_embedding(sl_model_stage *stage);

/** On the first stage: embedding gradient += tied head's gradient [count of the embedding]. Once an
 * iteration, after all W. */
sl_status sl_model_add_head(sl_model_stage *stage, const float *head_gradient);

/** The same on a stage that is first and last and whose accumulators nobody else has added to (no replicas):
 * touches only the rows of tokens that came. From here to the next sl_model_begin the embedding's gradient
 * lies where the head's accumulator was, and the other way round. SL_EINVAL. */
sl_status sl_model_add_own_head(sl_model_stage *stage);
