/* Parameters by their Hugging Face names (GPT2LMHeadModel without the "transformer." prefix), shapes and
 * order: the one canonical list that hash, norm and checkpoints use. Linear weights are Conv1D's,
 * [inputs][outputs]. */
#ifndef SL_RUN_MODEL_PARAMETER_H
#define SL_RUN_MODEL_PARAMETER_H

#include <stddef.h>
#include <stdint.h>

typedef enum sl_parameter_kind {
    SL_PARAMETER_ONES,     /* LayerNorm gains */
    SL_PARAMETER_ZEROS,    /* biases */
    SL_PARAMETER_NORMAL,   /* N(0, 0.02) */
    SL_PARAMETER_RESIDUAL, /* N(0, 0.02 / sqrt(2 layers)): what is added onto the residual stream */
} sl_parameter_kind;

typedef struct sl_parameter {
    char name[32];
    sl_parameter_kind kind;
    int rows, columns; /* rows 0: a vector of `columns` */
    size_t count;
    float *weight, *gradient;
    float *moment1, *moment2; /* AdamW's; NULL for the head's copy */
} sl_parameter;

/* The parameters of a block, in order. */
enum {
    SL_LN_1_WEIGHT,
    SL_LN_1_BIAS,
    SL_ATTN_WEIGHT,
    SL_ATTN_BIAS,
    SL_ATTN_PROJ_WEIGHT,
    SL_ATTN_PROJ_BIAS,
    SL_LN_2_WEIGHT,
    SL_LN_2_BIAS,
    SL_FC_WEIGHT,
    SL_FC_BIAS,
    SL_FC_PROJ_WEIGHT,
    SL_FC_PROJ_BIAS,
    SL_BLOCK_PARAMETERS
};

/** Names and shapes; pointers are left NULL. */
void sl_parameter_embedding(int vocabulary, int width, sl_parameter *out);
void sl_parameter_position(int context, int width, sl_parameter *out);
void sl_parameter_block(int layer, int index, int width, sl_parameter *out);
void sl_parameter_final(int index, int width, sl_parameter *out); /* 0: ln_f.weight, 1: ln_f.bias */

/** Initial weights: element i is a pure function of (seed, name, i), so it does not depend on who holds it.
 */
void sl_parameter_initialise(const sl_parameter *parameter, uint64_t seed, int layers);

#endif
