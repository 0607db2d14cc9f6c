/* The architectures as data. A model is an embedding, blocks and a head; a block is two halves of one form:
 *
 *   x += out(core(in(norm(x))))
 *
 * with one to three incoming linear layers, a core (attention, GELU, SwiGLU) and one outgoing layer. One
 * table per architecture describes its halves and the names, shapes and tensor-rank cuts of its weights; the
 * arithmetic (model_block.c) is generic. */
#pragma once

#include "run/model/parameter.h"

typedef enum sl_model_kind { SL_MODEL_GPT2, SL_MODEL_LLAMA } sl_model_kind;

/* Sizes of weights. */
typedef enum sl_extent {
    SL_ONE,    /* rows of a vector */
    SL_WIDTH,  /* residual stream */
    SL_QUERY,  /* all heads of q */
    SL_KEY,    /* all heads of k or v */
    SL_QKV,    /* q, k and v side by side */
    SL_HIDDEN, /* inner width of the MLP */
    SL_VOCABULARY,
    SL_CONTEXT,
    SL_EXTENTS
} sl_extent;

typedef enum sl_core { SL_CORE_ATTENTION, SL_CORE_GELU, SL_CORE_SWIGLU } sl_core;
typedef enum sl_normalization { SL_NORM_LAYER, SL_NORM_RMS } sl_normalization;

/* One parameter. */
typedef struct sl_form {
    const char *name;
    sl_parameter_kind kind;
    sl_extent rows, columns;
    sl_shard_axis axis; /* cut over tensor ranks */
    int pieces;         /* of that axis, each cut separately; 0: 1 */
} sl_form;

/* Indices into the block's parameters; -1: none. */
typedef struct sl_linear {
    int weight, bias;
} sl_linear;

#define SL_MAX_IN 3     /* incoming layers of a half */
#define SL_MAX_BLOCK 12 /* parameters of a block */

typedef struct sl_half_form {
    sl_core core;
    int gain, bias; /* of the normalization */
    int ins;
    sl_linear in[SL_MAX_IN], out;
} sl_half_form;

typedef struct sl_architecture {
    const char *name;
    sl_normalization norm;
    int outputs_first;      /* weights are [outputs][inputs] (Linear), else [inputs][outputs] (Conv1D) */
    int rotary;             /* positions by rotating q and k, else by a table */
    const char *block_list; /* name of the list of blocks */
    sl_form block[SL_MAX_BLOCK];
    int block_parameters;
    sl_half_form half[2];
    sl_form embedding, position; /* position.name NULL: no table */
    sl_form final[2];            /* gain, bias; bias.name NULL: none */
    sl_form head;                /* if it is not tied to the embedding */
} sl_architecture;

const sl_architecture *sl_architecture_of(sl_model_kind kind);
