#include "run/model/architecture.h"

/* Names, order and orientation of weights are Hugging Face's: GPT2LMHeadModel without "transformer.", and
 * LlamaForCausalLM. One parameter per line. */
/* clang-format off */

enum { LN_1_WEIGHT, LN_1_BIAS, ATTN_WEIGHT, ATTN_BIAS, ATTN_PROJ_WEIGHT, ATTN_PROJ_BIAS,
       LN_2_WEIGHT, LN_2_BIAS, FC_WEIGHT, FC_BIAS, FC_PROJ_WEIGHT, FC_PROJ_BIAS, GPT2_BLOCK };

static const sl_architecture gpt2 = {
    .name = "gpt2",
    .norm = SL_NORM_LAYER,
    .block_list = "h",
    .block = {
        [LN_1_WEIGHT] = {"ln_1.weight", SL_PARAMETER_ONES, SL_ONE, SL_WIDTH, SL_AXIS_NONE, 1},
        [LN_1_BIAS] = {"ln_1.bias", SL_PARAMETER_ZEROS, SL_ONE, SL_WIDTH, SL_AXIS_NONE, 1},
        [ATTN_WEIGHT] = {"attn.c_attn.weight", SL_PARAMETER_NORMAL, SL_WIDTH, SL_QKV, SL_AXIS_COLUMNS, 3},
        [ATTN_BIAS] = {"attn.c_attn.bias", SL_PARAMETER_ZEROS, SL_ONE, SL_QKV, SL_AXIS_COLUMNS, 3},
        [ATTN_PROJ_WEIGHT] = {"attn.c_proj.weight", SL_PARAMETER_RESIDUAL, SL_QUERY, SL_WIDTH, SL_AXIS_ROWS, 1},
        [ATTN_PROJ_BIAS] = {"attn.c_proj.bias", SL_PARAMETER_ZEROS, SL_ONE, SL_WIDTH, SL_AXIS_NONE, 1},
        [LN_2_WEIGHT] = {"ln_2.weight", SL_PARAMETER_ONES, SL_ONE, SL_WIDTH, SL_AXIS_NONE, 1},
        [LN_2_BIAS] = {"ln_2.bias", SL_PARAMETER_ZEROS, SL_ONE, SL_WIDTH, SL_AXIS_NONE, 1},
        [FC_WEIGHT] = {"mlp.c_fc.weight", SL_PARAMETER_NORMAL, SL_WIDTH, SL_HIDDEN, SL_AXIS_COLUMNS, 1},
        [FC_BIAS] = {"mlp.c_fc.bias", SL_PARAMETER_ZEROS, SL_ONE, SL_HIDDEN, SL_AXIS_COLUMNS, 1},
        [FC_PROJ_WEIGHT] = {"mlp.c_proj.weight", SL_PARAMETER_RESIDUAL, SL_HIDDEN, SL_WIDTH, SL_AXIS_ROWS, 1},
        [FC_PROJ_BIAS] = {"mlp.c_proj.bias", SL_PARAMETER_ZEROS, SL_ONE, SL_WIDTH, SL_AXIS_NONE, 1},
    },
    .block_parameters = GPT2_BLOCK,
    .half = {
        {.core = SL_CORE_ATTENTION, .gain = LN_1_WEIGHT, .bias = LN_1_BIAS, .ins = 1,
         .in = {{ATTN_WEIGHT, ATTN_BIAS}}, .out = {ATTN_PROJ_WEIGHT, ATTN_PROJ_BIAS}},
        {.core = SL_CORE_GELU, .gain = LN_2_WEIGHT, .bias = LN_2_BIAS, .ins = 1,
         .in = {{FC_WEIGHT, FC_BIAS}}, .out = {FC_PROJ_WEIGHT, FC_PROJ_BIAS}},
    },
    .embedding = {"wte.weight", SL_PARAMETER_NORMAL, SL_VOCABULARY, SL_WIDTH, SL_AXIS_ROWS, 1},
    .position = {"wpe.weight", SL_PARAMETER_NORMAL, SL_CONTEXT, SL_WIDTH, SL_AXIS_NONE, 1},
    .final = {{"ln_f.weight", SL_PARAMETER_ONES, SL_ONE, SL_WIDTH, SL_AXIS_NONE, 1},
              {"ln_f.bias", SL_PARAMETER_ZEROS, SL_ONE, SL_WIDTH, SL_AXIS_NONE, 1}},
};

enum { Q_PROJ, K_PROJ, V_PROJ, O_PROJ, GATE_PROJ, UP_PROJ, DOWN_PROJ, INPUT_NORM, POST_NORM, LLAMA_BLOCK };

static const sl_architecture llama = {
    .name = "llama",
    .norm = SL_NORM_RMS,
    .outputs_first = 1,
    .rotary = 1,
    .block_list = "model.layers",
    .block = {
        [Q_PROJ] = {"self_attn.q_proj.weight", SL_PARAMETER_NORMAL, SL_QUERY, SL_WIDTH, SL_AXIS_ROWS, 1},
        [K_PROJ] = {"self_attn.k_proj.weight", SL_PARAMETER_NORMAL, SL_KEY, SL_WIDTH, SL_AXIS_ROWS, 1},
        [V_PROJ] = {"self_attn.v_proj.weight", SL_PARAMETER_NORMAL, SL_KEY, SL_WIDTH, SL_AXIS_ROWS, 1},
        [O_PROJ] = {"self_attn.o_proj.weight", SL_PARAMETER_RESIDUAL, SL_WIDTH, SL_QUERY, SL_AXIS_COLUMNS, 1},
        [GATE_PROJ] = {"mlp.gate_proj.weight", SL_PARAMETER_NORMAL, SL_HIDDEN, SL_WIDTH, SL_AXIS_ROWS, 1},
        [UP_PROJ] = {"mlp.up_proj.weight", SL_PARAMETER_NORMAL, SL_HIDDEN, SL_WIDTH, SL_AXIS_ROWS, 1},
        [DOWN_PROJ] = {"mlp.down_proj.weight", SL_PARAMETER_RESIDUAL, SL_WIDTH, SL_HIDDEN, SL_AXIS_COLUMNS, 1},
        [INPUT_NORM] = {"input_layernorm.weight", SL_PARAMETER_ONES, SL_ONE, SL_WIDTH, SL_AXIS_NONE, 1},
        [POST_NORM] = {"post_attention_layernorm.weight", SL_PARAMETER_ONES, SL_ONE, SL_WIDTH, SL_AXIS_NONE, 1},
    },
    .block_parameters = LLAMA_BLOCK,
    .half = {
        {.core = SL_CORE_ATTENTION, .gain = INPUT_NORM, .bias = -1, .ins = 3,
         .in = {{Q_PROJ, -1}, {K_PROJ, -1}, {V_PROJ, -1}}, .out = {O_PROJ, -1}},
        {.core = SL_CORE_SWIGLU, .gain = POST_NORM, .bias = -1, .ins = 2,
         .in = {{GATE_PROJ, -1}, {UP_PROJ, -1}}, .out = {DOWN_PROJ, -1}},
    },
    .embedding = {"model.embed_tokens.weight", SL_PARAMETER_NORMAL, SL_VOCABULARY, SL_WIDTH, SL_AXIS_ROWS, 1},
    .final = {{"model.norm.weight", SL_PARAMETER_ONES, SL_ONE, SL_WIDTH, SL_AXIS_NONE, 1}},
    .head = {"lm_head.weight", SL_PARAMETER_NORMAL, SL_VOCABULARY, SL_WIDTH, SL_AXIS_ROWS, 1},
};

/* clang-format on */

_Static_assert(GPT2_BLOCK <= SL_MAX_BLOCK && LLAMA_BLOCK <= SL_MAX_BLOCK, "a block's parameters fit");

const sl_architecture *sl_architecture_of(sl_model_kind kind) {
    return kind == SL_MODEL_LLAMA ? &llama : &gpt2;
}
