/* The sizes of a transformer, from a model file, as the layers of a model. */
#include "base/memory.h"
#include "choose/model/model_work_inside.h"

#include <stddef.h>
#include <stdio.h>

#define OF(field) offsetof(sl_transformer, field)
#define BLOCK(field) (offsetof(sl_transformer, block) + offsetof(sl_layer_sizes, field))
#define WIDEST 1e7
/* clang-format off */
const sl_key sl_transformer_keys[] = {
    {.name = "layers", .type = SL_KEY_INT, .required = 1, .offset = OF(layers), .minimum = 1, .maximum = SL_MAX_MODEL_LAYERS, .help = "blocks; embedding and head are layers of their own"},
    {.name = "width", .type = SL_KEY_INT, .required = 1, .offset = BLOCK(width), .minimum = 1, .maximum = WIDEST, .help = "hidden size h"},
    {.name = "heads", .type = SL_KEY_INT, .required = 1, .offset = BLOCK(heads), .minimum = 1, .maximum = WIDEST, .help = "attention heads"},
    {.name = "kv_heads", .type = SL_KEY_INT, .standard = "0", .offset = BLOCK(kv_heads), .minimum = 0, .maximum = WIDEST, .help = "heads of keys and values; 0: as many as heads"},
    {.name = "head_width", .type = SL_KEY_INT, .standard = "0", .offset = BLOCK(head_width), .minimum = 0, .maximum = WIDEST, .help = "0: width / heads. With kv_rank, without the part for positions"},
    {.name = "hidden", .type = SL_KEY_INT, .standard = "0", .offset = BLOCK(hidden), .minimum = 0, .maximum = WIDEST, .help = "width of the MLP; 0: 4 * width"},
    {.name = "gated", .type = SL_KEY_BOOL, .standard = "false", .offset = BLOCK(gated), .help = "a gated MLP of three products, and RMS norms without biases; false: two products, biases everywhere, as in GPT"},
    {.name = "vocabulary", .type = SL_KEY_INT, .required = 1, .offset = BLOCK(vocabulary), .minimum = 1, .maximum = 1e9, .help = "entries"},
    {.name = "tied", .type = SL_KEY_BOOL, .standard = "false", .offset = OF(tied), .help = "the head uses the embedding's weights"},
    {.name = "positions", .type = SL_KEY_INT, .standard = "0", .offset = OF(positions), .minimum = 0, .maximum = 1e9, .help = "rows of a learned table of positions, in the embedding"},
    {.name = "context", .type = SL_KEY_INT, .required = 1, .offset = OF(context), .minimum = 1, .maximum = 1e8, .help = "tokens of a sequence"},
    {.name = "experts", .type = SL_KEY_INT, .standard = "0", .offset = BLOCK(experts), .minimum = 0, .maximum = 1e6, .help = "experts of a layer; 0: dense"},
    {.name = "experts_per_token", .type = SL_KEY_INT, .standard = "0", .offset = BLOCK(experts_per_token), .minimum = 0, .maximum = 1e6, .help = "required with experts"},
    {.name = "expert_hidden", .type = SL_KEY_INT, .standard = "0", .offset = BLOCK(expert_hidden), .minimum = 0, .maximum = WIDEST, .help = "width of an expert's MLP; 0: hidden"},
    {.name = "shared_experts", .type = SL_KEY_INT, .standard = "0", .offset = BLOCK(shared_experts), .minimum = 0, .maximum = 1e6, .help = "experts that every token passes, in addition"},
    {.name = "dense_layers", .type = SL_KEY_INT, .standard = "0", .offset = OF(dense_layers), .minimum = 0, .maximum = SL_MAX_MODEL_LAYERS, .help = "first layers without experts"},
    {.name = "query_rank", .type = SL_KEY_INT, .standard = "0", .offset = BLOCK(query_rank), .minimum = 0, .maximum = WIDEST, .help = "latent attention (DeepSeek-V2): queries pass through this width; 0: they do not"},
    {.name = "kv_rank", .type = SL_KEY_INT, .standard = "0", .offset = BLOCK(kv_rank), .minimum = 0, .maximum = WIDEST, .help = "keys and values pass through this width; 0: no latent attention"},
    {.name = "rope_width", .type = SL_KEY_INT, .standard = "0", .offset = BLOCK(rope_width), .minimum = 0, .maximum = WIDEST, .help = "with kv_rank: the part of a head for positions"},
    {.name = "value_width", .type = SL_KEY_INT, .standard = "0", .offset = BLOCK(value_width), .minimum = 0, .maximum = WIDEST, .help = "with kv_rank: width of a head's values; 0: head_width"},
    {.name = "dropout", .type = SL_KEY_BOOL, .standard = "false", .offset = BLOCK(dropout), .help = "masks of dropout are kept for the backward"},
    {0}};
/* clang-format on */

/* Norms, and biases where the MLP is not gated. */
static void set_vectors(sl_transformer *t) {
    const sl_layer_sizes *b = &t->block;
    double h = b->width, queries = (double)b->heads * b->head_width,
           keys = (double)b->kv_heads * b->head_width;
    double norms = b->gated ? 2 * h : 4 * h, biases = b->gated ? 0 : queries + 2 * keys + h;
    if (b->kv_rank > 0) {
        norms += b->query_rank + b->kv_rank;
        biases = 0;
    }
    t->dense_vectors = norms + biases + (b->gated ? 0 : b->hidden + h);
    t->expert_vectors = norms + biases;
    t->head_vectors = b->gated ? h : 2 * h;
}

static void set_defaults(sl_transformer *t) {
    sl_layer_sizes *b = &t->block;
    b->kv_heads = b->kv_heads > 0 ? b->kv_heads : b->heads;
    if (b->head_width == 0 && b->width % b->heads == 0)
        b->head_width = b->width / b->heads;
    b->hidden = b->hidden > 0 ? b->hidden : 4 * b->width;
    if (b->expert_hidden == 0 && b->experts > 0)
        b->expert_hidden = b->hidden;
    if (b->kv_rank > 0 && b->value_width == 0)
        b->value_width = b->head_width;
}

sl_status sl_transformer_check(const sl_yaml *where, const sl_transformer *t) {
    const sl_layer_sizes *b = &t->block;
    if (b->head_width == 0)
        return sl_yaml_error(where,
                             "has a width of %d, which does not divide by %d heads; give the width of a head",
                             b->width, b->heads);
    if (b->heads % b->kv_heads != 0)
        return sl_yaml_error(where, "has %d heads, which do not divide by %d heads of keys and values",
                             b->heads, b->kv_heads);
    if (b->experts > 0 && (b->experts_per_token < 1 || b->experts_per_token > b->experts))
        return sl_yaml_error(where, "has %d experts per token of %d experts; 1 to %d", b->experts_per_token,
                             b->experts, b->experts);
    if (b->experts == 0 && (b->experts_per_token > 0 || b->shared_experts > 0 || t->dense_layers > 0))
        return sl_yaml_error(where, "has experts per token, shared experts or dense layers, but no experts");
    if (t->dense_layers > t->layers)
        return sl_yaml_error(where, "has %d dense layers of %d layers", t->dense_layers, t->layers);
    if (b->kv_rank == 0 && (b->query_rank > 0 || b->rope_width > 0 || b->value_width > 0))
        return sl_yaml_error(where,
                             "has sizes of latent attention, but not the width of its keys and values");
    return SL_OK;
}

sl_status sl_transformer_read(const sl_yaml *map, sl_transformer *t) {
    *t = (sl_transformer){0};
    SL_TRY(sl_config_read(map, "model", sl_transformer_keys, t));
    set_defaults(t);
    SL_TRY(sl_transformer_check(map, t));
    set_vectors(t);
    return SL_OK;
}

/* ---- as layers ---- */

static sl_status add_layer(sl_model_work *model, int kind, const char *format, int number) {
    char name[64];
    snprintf(name, sizeof name, "%s", format);
    if (number >= 0)
        snprintf(name, sizeof name, "%.40s.%d", format, number);
    SL_TRY(sl_copy_text(&model->layer[model->layers].name, name));
    model->layer[model->layers++].kind = kind;
    return SL_OK;
}

static int add_kind(sl_model_work *model, const sl_layer_sizes *sizes, sl_layer_kind kind, double vectors) {
    sl_layer_sizes *added = &model->kind[model->kinds];
    *added = *sizes;
    added->kind = kind;
    added->vectors = vectors;
    return model->kinds++;
}

sl_status sl_transformer_layers(const sl_transformer *t, sl_model_work *model) {
    sl_layer_sizes dense = t->block, end = t->block;
    int has_dense = t->block.experts == 0 || t->dense_layers > 0, block = 0, dense_block = 0;
    dense.experts = dense.experts_per_token = dense.expert_hidden = dense.shared_experts = 0;
    end.positions = t->positions;
    end.tied = t->tied;
    SL_TRY(sl_alloc(&model->layer, (size_t)t->layers + 2, sizeof *model->layer));
    SL_TRY(sl_alloc(&model->kind, 4, sizeof *model->kind));
    model->context = t->context;
    int embedding = add_kind(model, &end, SL_LAYER_EMBEDDING, 0);
    if (has_dense)
        dense_block = add_kind(model, &dense, SL_LAYER_BLOCK, t->dense_vectors);
    if (t->block.experts > 0)
        block = add_kind(model, &t->block, SL_LAYER_BLOCK, t->expert_vectors);
    end.positions = 0;
    int head = add_kind(model, &end, SL_LAYER_HEAD, t->head_vectors);
    SL_TRY(add_layer(model, embedding, t->gpt2_names ? "transformer.wte" : "model.embed_tokens", -1));
    for (int i = 0; i < t->layers; i++)
        SL_TRY(add_layer(model, t->block.experts == 0 || i < t->dense_layers ? dense_block : block,
                         t->gpt2_names ? "transformer.h" : "model.layers", i));
    return add_layer(model, head, "lm_head", -1);
}
