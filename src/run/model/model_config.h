/* The shape of a model, what it costs, and how it is cut into stages. */
#pragma once

#include "run/device/device.h"
#include "run/model/architecture.h"

#define SL_MAX_VOCABULARY 65536 /* a token is an uint16 */

/* The tensor ranks that share a stage. Either function leaves identical bits on all of them, added or
 * compared in the order of ranks, in `values`, which are the device's; all must call it alike. size 0 or 1:
 * neither is called. */
typedef struct sl_tensor_ranks {
    int rank, size;
    void *object;
    sl_status (*sum)(void *object, float *values, size_t count);
    sl_status (*max)(void *object, float *values, size_t count);
} sl_tensor_ranks;

/* Fields that are 0 get their default from sl_model_complete. Pointers must outlive everything made from
 * it. */
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
    int unpacked;         /* 1: products read weights in place; 0: packed copies, made after a change */
    const int *cut;       /* [stages] blocks of each stage; NULL: by cost */
    const int *recompute; /* [stages] 1: keeps only the input of each block; NULL: none */
    sl_tensor_ranks tensor;
    int without_moments; /* 1: the owner of the update holds AdamW's moments; the parameters' stay NULL */
    int without_weights; /* 1: weights and moments are undefined until set (sl_model_state) */
} sl_model_config;

/** The config with its defaults. */
sl_model_config sl_model_complete(const sl_model_config *config);

/** Size of an extent of the full model. */
int sl_model_extent(const sl_model_config *config, sl_extent extent);

/** SL_EINVAL if the shape is impossible, has fewer layers than stages, a cut that does not fit or more tensor
 * ranks than divisible units; the text names the key. */
sl_status sl_model_check(const sl_model_config *config, int stages);

/** Blocks [*first, *end) of a stage: the config's cut, or the one with the cheapest largest stage; embedding
 * and head count as layers by their arithmetic (CrossPipe 6.1), and each stage has at least one block. */
void sl_model_cut(const sl_model_config *config, int stage, int stages, int *first, int *end);

/** Arithmetic of a forward pass, operations per token: of one block, of the head, of the embedding. */
int64_t sl_model_block_cost(const sl_model_config *config);
int64_t sl_model_head_cost(const sl_model_config *config);
int64_t sl_model_embedding_cost(const sl_model_config *config);

/** All scalar weights of the full model, a tied one counted once. */
size_t sl_model_count(const sl_model_config *config);
