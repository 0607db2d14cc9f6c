/* GPT-2 over bytes, cut into stages: its shape, and one stage with its three computations.
 *
 *   x = wte[token] + wpe[position]
 *   each block:  x += c_proj(attention(c_attn(ln_1(x))));  x += c_proj(gelu(c_fc(ln_2(x))))
 *   logits = ln_f(x) * transposed(wte);  loss = mean over tokens of -log softmax(logits)[next byte]
 *
 * Blocks are cut contiguously; the first stage has the embeddings, the last one ln_f, the head and the loss.
 * The head is tied to wte: it has its own gradient accumulator everywhere, and where it is not on the first
 * stage its own copy of the weight (design.md, "Rules that keep every bit", 4).
 *
 * F keeps what I and W need; I computes gradients of activations and keeps those that W needs; W adds to the
 * weights' gradients and frees the microbatch. B is I and then W. The attention weights are not kept but
 * computed again by the same kernels, so that memory grows with the context and not with its square. Every
 * number is a function of the weights and the microbatch: stages, order of ops and addresses change no bit.
 */
#ifndef SL_RUN_MODEL_MODEL_H
#define SL_RUN_MODEL_MODEL_H

#include "run/device/arena.h"
#include "run/device/device.h"
#include "run/model/parameter.h"

typedef struct sl_model_config {
    int layers, width, heads, context;
    int vocabulary; /* 1..256: tokens are bytes */
    int batch;      /* sequences in a microbatch */
} sl_model_config;

/** SL_EINVAL when the shape is impossible or has fewer layers than stages; the text names the key. */
sl_status sl_model_check(const sl_model_config *config, int stages);

/** Blocks [*first, *end) of a stage: as even as can be, stage s begins at layers * s / stages. */
void sl_model_cut(const sl_model_config *config, int stage, int stages, int *first, int *end);

/** All scalar weights of the model, the tied one counted once. */
size_t sl_model_count(const sl_model_config *config);

/* Device memory of one stage in bytes, as the arena counts it. */
typedef struct sl_model_bytes {
    size_t fixed;    /* weights, gradients, AdamW moments, scratch */
    size_t forward;  /* what F keeps of a microbatch */
    size_t backward; /* what I adds; W frees both */
    size_t message;  /* an activation between stages: batch * context * width floats */
} sl_model_bytes;

/** An arena of fixed + n * (forward + backward) is enough for n microbatches between F and W; validation
 * between iterations needs n >= 1. SL_EINVAL, SL_ESYS, SL_ENOMEM. */
sl_status sl_model_measure(const sl_model_config *config, sl_device *device, int stage, int stages,
                           sl_model_bytes *bytes);

/** Names and shapes of a stage's parameters in canonical order, pointers NULL; returns how many. list NULL:
 * only counts. */
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

/** Starts an iteration of that many microbatches: gradients become +0, losses are forgotten, and what an
 * iteration cut short may have kept is freed. The loss is the mean over all tokens of all `microbatches`,
 * which scales the gradients. */
sl_status sl_model_begin(sl_model_stage *stage, int microbatches);

/** As sl_model_begin for one replica or rank whose microbatches are part of a larger batch of `total` of
 * equal size. */
sl_status sl_model_begin_part(sl_model_stage *stage, int microbatches, int total);

/* Ops may run in parts: F and I by halves of blocks (attention, MLP), W by the parameters of the same halves,
 * each parameter in one part, from the last block to the first; never by tokens. Activations between parts
 * stay inside. A part may be empty (more parts than halves). The parts of an op come in ascending order; a
 * part of W needs that part of I. All ops of a microbatch are cut alike; whole ops are part 0 of 1. */
typedef struct sl_part {
    int index, count;
} sl_part;

/** F of a microbatch, 0 <= microbatch < microbatches, once an iteration. tokens[batch][context]: read on the
 * first stage only; targets, the same one byte later: on the last only; else NULL. input and output
 * [batch][context][width]: NULL on the first and the last stage. Nothing passed is needed after the call.
 *  SL_EINVAL: out of turn, or a token outside the vocabulary; SL_ENOMEM: over the arena's limit. */
sl_status sl_model_forward(sl_model_stage *stage, int microbatch, const uint8_t *tokens,
                           const uint8_t *targets, const float *input, float *output);

/** I: gradient of the stage's output in (NULL on the last: it starts from the loss), of its input out (NULL
 * on the first). */
sl_status sl_model_input_grad(sl_model_stage *stage, int microbatch, const float *output_grad,
                              float *input_grad);

/** W: microbatches in ascending order, or SL_EINVAL. */
sl_status sl_model_weight_grad(sl_model_stage *stage, int microbatch);

/** A part of them, 1 <= count <= SL_MAX_PARTS: what comes in (tokens, input; output_grad) is needed in the
 * first part, what goes out and `targets` in the last; W in ascending microbatches part by part. */
sl_status sl_model_forward_part(sl_model_stage *stage, int microbatch, sl_part part, const uint8_t *tokens,
                                const uint8_t *targets, const float *input, float *output);
sl_status sl_model_input_grad_part(sl_model_stage *stage, int microbatch, sl_part part,
                                   const float *output_grad, float *input_grad);
sl_status sl_model_weight_grad_part(sl_model_stage *stage, int microbatch, sl_part part);

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
sl_status sl_model_evaluate(sl_model_stage *stage, const uint8_t *tokens, const uint8_t *targets,
                            const float *input, float *output, double *loss);

/** Mean loss of a microbatch over its tokens, nats; on the last stage after its F, else NaN. */
double sl_model_loss(const sl_model_stage *stage, int microbatch);

/** The stage's parameters in canonical order, without the head's copy. Owned by the stage. The canonical list
 * of the model is that of stage 0, then 1, ... */
sl_parameter *sl_model_parameters(sl_model_stage *stage, int *count);

/** The tied head on the last stage: `gradient` is its own accumulator, `weight` its copy (or wte's own
 * weight, if this stage is also the first). NULL on other stages. */
sl_parameter *sl_model_head(sl_model_stage *stage);

/** The token embedding on the first stage, else NULL. */
sl_parameter *sl_model_embedding(sl_model_stage *stage);

/** On the first stage: embedding gradient += head gradient [vocabulary * width]. Once an iteration, after all
 * W. */
sl_status sl_model_add_head(sl_model_stage *stage, const float *head_gradient);

#endif
