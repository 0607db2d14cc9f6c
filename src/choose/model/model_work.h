/* What a model costs: layer by layer, on one device, in any division over tensor, context and expert ranks.
 *
 * A model comes from a file (model_work_read.c): the sizes of a transformer, the config.json of a Hugging
 * Face model, or layers with measured times. sl_layer_work gives a layer's arithmetic, memory and traffic in
 * a division, by the formulas of docs/choosing.md; sl_layer_time turns them into times of F, I and W on a
 * device with given rates and links. Both are pure.
 *
 * Bytes are those of one device and one microbatch. A group is the ranks that share an op: tensor, context or
 * expert ranks. */
#pragma once

#include "base/config.h"
#include "plan/pipeline/op.h"

/* The ranks that exchange data within an op. */
typedef enum sl_work_group { SL_WORK_TENSOR, SL_WORK_CONTEXT, SL_WORK_EXPERT, SL_WORK_GROUPS } sl_work_group;

/* How activations are kept for the backward: all of them; only a stage's or layer's input, and F runs again;
 * all but the attention's inner values, which take little time to compute again (Korthikanti et al. 2022). */
typedef enum sl_recompute {
    SL_KEEP_ALL,
    SL_RECOMPUTE_ATTENTION,
    SL_RECOMPUTE_ALL,
    SL_RECOMPUTES
} sl_recompute;

/* The division of a layer over devices. */
typedef struct sl_division {
    int tensor, context, expert; /* ranks of each group; expert ranks are also replicas of the dense part */
    int sequence_parallel;       /* the parts between products are divided over tensor ranks, too */
    int size;                    /* sequences of a microbatch */
    sl_recompute recompute;
} sl_division;

/* Messages of a device in one group for one op: `steps` latencies in a row, and `bytes` sent in all. A ring's
 * allreduce of V bytes over n ranks has 2 (n - 1) steps and 2 (n - 1) / n V bytes. */
typedef struct sl_work_traffic {
    double steps, bytes;
} sl_work_traffic;

typedef struct sl_layer_work {
    double flops[3];   /* F, I, W; recomputation not included */
    double moved[3];   /* bytes read and written in device memory */
    double seconds[3]; /* measured instead, at speed 1; 0: computed from the two above */
    sl_work_traffic traffic[SL_WORK_GROUPS][3]; /* [group][F, I, W]; I includes that of recomputation */
    double attention_flops[3]; /* of flops: what hides the traffic of context ranks (not in the interface's
                                  first form; sl_layer_time needs it) */
    double again;              /* share of F that I and B repeat: 0, that of attention, 1 */
    double kept;               /* bytes kept from F until I ends */
    double kept_for_w; /* bytes kept from the end of I until W ends: inputs of products and the gradients of
                          their outputs. With SL_RECOMPUTE_ALL, this is more than `kept` */
    double gradients;  /* bytes that I or B takes while it runs: recomputed activations and their gradients */
    double input;      /* bytes of its input: what is kept of it under SL_RECOMPUTE_ALL */
    double output;     /* bytes of its output: the message to the next stage, per direction */
    double parameters; /* of one device, without those of experts; a tied head has its copy of the
                          embedding's, which a device with both layers holds once */
    double expert_parameters; /* of one device: replicated data/expert times */
} sl_layer_work;

/* A layer of the file. Equal layers are one `kind`. */
typedef struct sl_model_layer {
    char *name; /* of the module, for exports: model.layers.7 */
    int kind;
} sl_model_layer;

/* A kind of layer: a part of a transformer, or measured. */
typedef enum sl_layer_kind {
    SL_LAYER_EMBEDDING,
    SL_LAYER_BLOCK,
    SL_LAYER_HEAD,
    SL_LAYER_MEASURED
} sl_layer_kind;

typedef struct sl_layer_sizes {
    sl_layer_kind kind;
    /* a transformer's */
    int width, heads, kv_heads, head_width, hidden, gated, vocabulary;
    int experts, experts_per_token, expert_hidden, shared_experts; /* 0: a dense MLP */
    int tied;                                                      /* head: its weights are the embedding's */
    /* Also a transformer's, without which published models cannot be counted: latent attention (DeepSeek-V2;
     * head_width is then the part of queries and keys without positions), positions, norms and biases, masks.
     */
    int query_rank, kv_rank, rope_width, value_width; /* 0: queries from the input; 0: no latent attention */
    int positions;                                    /* rows of a table of positions, in the embedding */
    int dropout;                                      /* its masks are kept */
    double vectors; /* parameters of norms and biases: on every tensor rank */
    /* measured on `tensor` tensor ranks with microbatches of `size` */
    int tensor, size;
    double seconds[3], kept, kept_for_w, input, output, parameters;
} sl_layer_sizes;

typedef struct sl_model_work {
    char *name;
    int context;           /* tokens of a sequence */
    long long sequences;   /* of an iteration, over all replicas */
    sl_model_layer *layer; /* [layers] */
    int layers;
    sl_layer_sizes *kind; /* [kinds] */
    int kinds;
    double activation_bytes; /* of a number: 2 for bf16 */
    double weight_bytes, gradient_bytes,
        optimizer_bytes; /* of a parameter: 2, 4, 12 for bf16 with f32 masters and AdamW */
    int flash;           /* attention without a matrix of context x context */
    int scales;          /* measured layers divide over any number of tensor ranks (`scaling: ideal`) */
} sl_model_work;

/** Reads a model file (docs/formats.md), or a Hugging Face config.json by its content. `path` is where the
 * document came from; a config named in it is relative to it. SL_EINVAL names file, line and key. Free with
 * sl_model_work_free, also on error. */
sl_status sl_model_work_read(const sl_document *document, const char *path, sl_model_work *model);
void sl_model_work_free(sl_model_work *model);
/** Visits the keys of a model file. */
void sl_model_work_visit_keys(sl_key_visit visit, void *context);

/** Whether the division is possible: heads divide by tensor, tokens by context, experts by expert, and so on.
 * SL_EINVAL with the reason; measured layers can be divided over tensor ranks only as they were measured,
 * unless their file says how they scale. */
sl_status sl_division_check(const sl_model_work *model, const sl_division *division);

/** Parameters of the model, each once. Never fails. */
double sl_model_work_parameters(const sl_model_work *model);

/** The work of a layer in a division that sl_division_check accepts. Never fails. */
void sl_layer_work_of(const sl_model_work *model, int layer, const sl_division *division,
                      sl_layer_work *work);

/* A device's rates, and the links of its groups. */
typedef struct sl_work_rates {
    double flops_per_s; /* that products reach: peak times efficiency */
    double bytes_per_s; /* of its memory */
    double overhead_s;  /* of one layer's op, for starting its kernels */
    double speed;       /* 1; 0.5: everything computed takes twice as long */
    double latency_s[SL_WORK_GROUPS], s_per_byte[SL_WORK_GROUPS]; /* the slowest link of each group */
} sl_work_rates;

/* Times of one layer and microbatch, s: [F, I, W]; B = I + W. */
typedef struct sl_layer_seconds {
    double computed[3];             /* by the device, recomputation included in I */
    double sent[SL_WORK_GROUPS][3]; /* in each group, in addition (what overlaps with computation is not) */
} sl_layer_seconds;

/** Never fails. */
void sl_layer_time(const sl_layer_work *work, const sl_work_rates *rates, sl_layer_seconds *seconds);
