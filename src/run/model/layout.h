/* The layout of a microbatch's kept data and of scratch, as offsets in floats, each 64-byte aligned. n =
 * batch * context rows, w = width; widths of heads, MLP and vocabulary are this tensor rank's slices. */
#pragma once

#include "run/model/model_config.h"

/* Of one half of a block. */
typedef struct sl_half_layout {
    /* kept by F, relative to the block's part of that */
    size_t normal, scale; /* normalized [n][w], 1 / deviation [n] */
    size_t in[SL_MAX_IN]; /* outputs of the incoming layers, dense; I overwrites them (model_block.c) */
    size_t heads, lse;    /* attention: its output [n][query]; [batch][heads][context] */
    /* added by I, relative to the block's part of that: gradients */
    size_t out;   /* of the half's output [n][w] */
    size_t inner; /* MLP: of the core's output [n][hidden] */
    size_t norm;  /* of the normalization's output [n][w] */
} sl_half_layout;

typedef struct sl_layout {
    int rows, blocks, is_first, is_last, recompute;
    int query, key, hidden, vocabulary, first_token; /* this tensor rank's widths; its first token */
    sl_half_layout half[2];
    size_t block_forward, block_backward; /* floats of a block */
    /* kept by F */
    size_t block_kept;    /* the blocks' parts, unless recomputing */
    size_t inputs, rest;  /* recomputing: [blocks] inputs of blocks [n][w]; between parts of F [n][w] */
    size_t tokens;        /* first stage: [n] ids */
    size_t normal, scale; /* last stage: final norm */
    size_t logits;        /* their gradient [n][vocabulary] */
    size_t forward;       /* floats kept by F */
    /* added by I */
    size_t block_added; /* the blocks' parts */
    size_t again;       /* recomputing: the blocks' data that F would have kept */
    size_t embedded;    /* first stage: gradient of the embeddings' sum [n][w] */
    size_t norm;        /* last stage: of the final norm [n][w] */
    size_t backward;
    /* scratch */
    size_t x, h;      /* [n][w]: residual stream; output of a normalization, or of a part of a sum */
    size_t wide;      /* [n][hidden] */
    size_t attention; /* of the device's attention */
    size_t sums;      /* column sums; [2][n] of the loss */
    size_t top;       /* [n] */
    size_t targets;   /* last stage: [n] ids */
    size_t loss;      /* last stage: one f64 */
    size_t marked;    /* first and last stage, tied: [vocabulary] bytes */
    size_t once;      /* recomputing: F's data of the current block */
    size_t rope;      /* [context][size], filled once */
    size_t scratch;
} sl_layout;

/** Shape of the attention of this tensor rank. */
sl_attention_shape sl_layout_attention(const sl_model_config *config);

/** The layout of a stage; the config is complete and has been checked. attention_floats: scratch of the
 * device's attention. */
void sl_layout_make(const sl_model_config *config, int stage, int stages, size_t attention_floats,
                    sl_layout *layout);

/** This tensor rank's part of an extent. */
int sl_layout_extent(const sl_model_config *config, sl_extent extent);
