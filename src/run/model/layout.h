/* Where things lie: what is kept of a microbatch and what is scratch, as offsets in floats, each 64-byte
 * aligned. */
#ifndef SL_RUN_MODEL_LAYOUT_H
#define SL_RUN_MODEL_LAYOUT_H

#include "run/model/model.h"

/* Of one block, relative to its begin. n = batch * context rows, w = width. */
typedef struct sl_block_layout {
    /* kept by F; qkv and hidden change their meaning in I */
    size_t normal1, scale1; /* ln_1: normalised [n][w], 1 / deviation [n] */
    size_t qkv;             /* F: [3][batch][heads][context][size]; I: gradient of c_attn's output [n][3w] */
    size_t heads;           /* attention's output [n][w] */
    size_t normal2, scale2;
    size_t hidden;  /* F: c_fc's output [n][4w]; I: gelu of it */
    size_t forward; /* all of that */
    /* added by I: gradients of outputs */
    size_t out;         /* of the block, and so of mlp.c_proj [n][w] */
    size_t hidden_grad; /* of mlp.c_fc [n][4w] */
    size_t norm2;       /* of ln_2 [n][w] */
    size_t middle;      /* of attn.c_proj [n][w] */
    size_t norm1;       /* of ln_1 [n][w] */
    size_t backward;
} sl_block_layout;

typedef struct sl_layout {
    int rows, blocks, is_first, is_last;
    sl_block_layout block;
    /* kept by F behind the blocks */
    size_t tokens;        /* first stage: [n] bytes */
    size_t normal, scale; /* last stage: ln_f */
    size_t logits;        /* their gradient [n][vocabulary] */
    size_t forward;       /* floats kept by F */
    /* added by I behind the blocks */
    size_t embedded; /* first stage: gradient of the embeddings' sum [n][w] */
    size_t norm;     /* last stage: of ln_f [n][w] */
    size_t backward;
    /* scratch */
    size_t x, h;          /* [n][w]: residual stream; output of a normalisation */
    size_t wide;          /* [n][4w] */
    size_t split;         /* [n][w] by heads */
    size_t scores, mixed; /* [context][context] twice, [context][size] */
    size_t sums;          /* [4w] column sums */
    size_t scratch;
} sl_layout;

/** The layout of a stage; the config has been checked. */
void sl_layout_make(const sl_model_config *config, int stage, int stages, sl_layout *layout);

#endif
