#include "run/model/transformer.h"
#include "base/memory.h"
#include "run/model/model_stage.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the shape ---- */

sl_model_config sl_model_complete(const sl_model_config *config) {
    sl_model_config c = *config;
    if (!c.kv_heads)
        c.kv_heads = c.heads;
    if (!c.hidden) /* Llama's: two thirds of four widths, so that three matrices are as large as two */
        c.hidden = (int)(c.kind == SL_MODEL_LLAMA ? (8 * (int64_t)c.width / 3 + 63) / 64 * 64
                                                  : 4 * (int64_t)c.width);
    if (c.kind == SL_MODEL_GPT2)
        c.tied = 1;
    if (c.rope_base <= 0)
        c.rope_base = 10000;
    if (c.norm_epsilon <= 0)
        c.norm_epsilon = 1e-5;
    if (c.tensor.size < 1) {
        c.tensor.rank = 0;
        c.tensor.size = 1;
    }
    return c;
}

int sl_model_extent(const sl_model_config *config, sl_extent extent) {
    const sl_model_config c = sl_model_complete(config);
    const int key = c.heads > 0 ? c.kv_heads * (c.width / c.heads) : 0;
    const int sizes[SL_EXTENTS] = {[SL_ONE] = 1,
                                   [SL_WIDTH] = c.width,
                                   [SL_QUERY] = c.width,
                                   [SL_KEY] = key,
                                   [SL_QKV] = c.width + 2 * key,
                                   [SL_HIDDEN] = c.hidden,
                                   [SL_VOCABULARY] = c.vocabulary,
                                   [SL_CONTEXT] = c.context};
    return sizes[extent];
}

static sl_status at_least_1(const char *key, int value) {
    return value >= 1 ? SL_OK : sl_error(SL_EINVAL, "'%s' must be >= 1, got %d", key, value);
}

static sl_status check_heads(const sl_model_config *c) {
    if (c->width % c->heads)
        return sl_error(SL_EINVAL, "'model.width' (%d) must be a multiple of 'model.heads' (%d)", c->width,
                        c->heads);
    if (c->heads % c->kv_heads)
        return sl_error(SL_EINVAL, "'model.heads' (%d) must be a multiple of 'model.kv_heads' (%d)", c->heads,
                        c->kv_heads);
    if (c->kind == SL_MODEL_GPT2 && c->kv_heads != c->heads)
        return sl_error(SL_EINVAL, "'model.kv_heads' (%d) must be 'model.heads' (%d) with kind gpt2",
                        c->kv_heads, c->heads);
    if (c->kind == SL_MODEL_LLAMA && c->width / c->heads % 2)
        return sl_error(SL_EINVAL,
                        "rotary positions need heads of even size, 'model.width' / 'model.heads' is %d",
                        c->width / c->heads);
    return SL_OK;
}

static sl_status divides(const sl_model_config *c, const char *key, int value) {
    if (value < c->tensor.size)
        return sl_error(SL_EINVAL, "'%s' of %d cannot be divided over %d tensor ranks", key, value,
                        c->tensor.size);
    if (value % c->tensor.size)
        return sl_error(SL_EINVAL, "'%s' of %d is not a multiple of %d tensor ranks", key, value,
                        c->tensor.size);
    return SL_OK;
}

static sl_status check_tensor(const sl_model_config *c) {
    if (c->tensor.size == 1)
        return SL_OK;
    if (c->tensor.rank < 0 || c->tensor.rank >= c->tensor.size)
        return sl_error(SL_EINVAL, "tensor rank %d of %d", c->tensor.rank, c->tensor.size);
    SL_TRY(divides(c, "model.heads", c->heads));
    SL_TRY(divides(c, "model.kv_heads", c->kv_heads));
    SL_TRY(divides(c, "model.hidden", c->hidden));
    if (c->vocabulary < c->tensor.size) /* slices of a vocabulary may differ by one */
        return sl_error(SL_EINVAL, "'model.vocabulary' of %d cannot be divided over %d tensor ranks",
                        c->vocabulary, c->tensor.size);
    return SL_OK;
}

/* Products take int sizes. */
static sl_status check_sizes(const sl_model_config *c) {
    if ((int64_t)c->batch * c->context > INT_MAX || 4 * (int64_t)c->width > INT_MAX)
        return sl_error(SL_EINVAL, "a microbatch of %d sequences of %d tokens, width %d, is too large",
                        c->batch, c->context, c->width);
    return SL_OK;
}

sl_status sl_model_check(const sl_model_config *config, int stages) {
    const sl_model_config c = sl_model_complete(config);
    SL_TRY(at_least_1("model.layers", c.layers));
    SL_TRY(at_least_1("model.width", c.width));
    SL_TRY(at_least_1("model.heads", c.heads));
    SL_TRY(at_least_1("model.kv_heads", c.kv_heads));
    SL_TRY(at_least_1("model.hidden", c.hidden));
    SL_TRY(at_least_1("model.context", c.context));
    SL_TRY(at_least_1("batch.size", c.batch));
    SL_TRY(at_least_1("pipeline stages", stages));
    if (c.vocabulary < 1 || c.vocabulary > SL_MAX_VOCABULARY)
        return sl_error(SL_EINVAL, "'model.vocabulary' must be 1 to %d, got %d", SL_MAX_VOCABULARY,
                        c.vocabulary);
    SL_TRY(check_heads(&c));
    if (stages > c.layers || stages > SL_MAX_STAGES)
        return sl_error(SL_EINVAL, "%d pipeline stages need at least as many layers, 'model.layers' is %d",
                        stages, c.layers);
    SL_TRY(sl_stage_check_cut(&c, stages));
    SL_TRY(check_tensor(&c));
    return check_sizes(&c);
}

/* ---- parameters of a stage ---- */

static void describe(const sl_model_config *c, const sl_form *form, int layer, sl_parameter *out) {
    const sl_architecture *a = sl_architecture_of(c->kind);
    sl_parameter p = {.kind = form->kind,
                      .axis = form->axis,
                      .pieces = form->pieces,
                      .full_rows = form->rows == SL_ONE ? 0 : sl_model_extent(c, form->rows),
                      .full_columns = sl_model_extent(c, form->columns)};
    char prefix[32] = "";
    if (layer >= 0)
        snprintf(prefix, sizeof prefix, "%s.%d.", a->block_list, layer);
    snprintf(p.name, sizeof p.name, "%s%s", prefix, form->name);
    *out = sl_parameter_slice(&p, c->tensor.rank, c->tensor.size);
}

static void list_one(const sl_model_config *c, const sl_form *form, int layer, sl_parameter *list,
                     int *count) {
    if (form->name && list)
        describe(c, form, layer, &list[*count]);
    *count += form->name != NULL;
}

int sl_model_list(const sl_model_config *config, int stage, int stages, sl_parameter *list) {
    const sl_model_config c = sl_model_complete(config);
    const sl_architecture *a = sl_architecture_of(c.kind);
    int first, end, count = 0, last = stage == stages - 1;
    sl_model_cut(&c, stage, stages, &first, &end);
    if (stage == 0) {
        list_one(&c, &a->embedding, -1, list, &count);
        list_one(&c, &a->position, -1, list, &count);
    }
    for (int layer = first; layer < end; layer++)
        for (int i = 0; i < a->block_parameters; i++)
            list_one(&c, &a->block[i], layer, list, &count);
    for (int i = 0; i < 2 && last; i++)
        list_one(&c, &a->final[i], -1, list, &count);
    if (last && !c.tied)
        list_one(&c, &a->head, -1, list, &count);
    return count;
}

static size_t size_of(const sl_model_config *c, const sl_form *form) {
    return form->name ? (size_t)sl_model_extent(c, form->rows) * (size_t)sl_model_extent(c, form->columns)
                      : 0;
}

size_t sl_model_count(const sl_model_config *config) {
    const sl_model_config c = sl_model_complete(config);
    const sl_architecture *a = sl_architecture_of(c.kind);
    size_t block = 0;
    for (int i = 0; i < a->block_parameters; i++)
        block += size_of(&c, &a->block[i]);
    return size_of(&c, &a->embedding) + size_of(&c, &a->position) + (size_t)c.layers * block +
           size_of(&c, &a->final[0]) + size_of(&c, &a->final[1]) + (c.tied ? 0 : size_of(&c, &a->head));
}

static size_t padded(size_t count) {
    return sl_arena_round(count * sizeof(float)) / sizeof(float);
}

/* Floats of the fixed memory: gradients (the tied head's last), weights (likewise), both moments. */
typedef struct fixed_size {
    size_t own, head, head_weight, moments;
} fixed_size;

static fixed_size size_fixed(const sl_model_config *c, const sl_parameter *list, int count, int stage,
                             int stages) {
    fixed_size f = {0};
    for (int i = 0; i < count; i++)
        f.own += padded(list[i].count);
    f.moments = c->without_moments ? 0 : 2 * f.own;
    if (stage == stages - 1 && c->tied) {
        f.head = padded((size_t)sl_layout_extent(c, SL_VOCABULARY) * (size_t)c->width);
        f.head_weight = stage == 0 ? 0 : f.head;
    }
    return f;
}

static size_t fixed_floats(fixed_size f) {
    return 2 * f.own + f.moments + f.head + f.head_weight;
}

static void make_layout(const sl_model_config *c, const sl_device *device, int stage, int stages,
                        sl_layout *layout) {
    const sl_attention_shape shape = sl_layout_attention(c);
    sl_layout_make(c, stage, stages, device->attention_scratch(device, &shape), layout);
}

sl_status sl_model_measure(const sl_model_config *config, sl_device *device, int stage, int stages,
                           sl_model_bytes *bytes) {
    sl_layout layout;
    sl_parameter *list;
    sl_products products;
    SL_TRY(sl_model_check(config, stages));
    const sl_model_config c = sl_model_complete(config);
    make_layout(&c, device, stage, stages, &layout);
    SL_TRY(sl_products_prepare(&c, device, layout.blocks, layout.is_last, &products));
    SL_TRY(sl_alloc(&list, (size_t)sl_model_list(&c, stage, stages, NULL), sizeof *list));
    int count = sl_model_list(&c, stage, stages, list);
    size_t fixed = fixed_floats(size_fixed(&c, list, count, stage, stages));
    sl_free(list);
    bytes->fixed = sl_arena_round(fixed * sizeof(float)) + sl_arena_round(layout.scratch * sizeof(float)) +
                   sl_arena_round(products.scratch_bytes) +
                   (c.unpacked ? 0 : sl_arena_round(products.packed_bytes));
    bytes->forward = sl_arena_round(layout.forward * sizeof(float));
    bytes->backward = sl_arena_round(layout.backward * sizeof(float));
    bytes->message = (size_t)layout.rows * (size_t)c.width * sizeof(float);
    return SL_OK;
}

sl_status sl_model_state_floats(const sl_model_config *config, int stage, int stages, size_t *floats) {
    sl_parameter *list;
    const sl_model_config c = sl_model_complete(config);
    SL_TRY(sl_alloc(&list, (size_t)sl_model_list(&c, stage, stages, NULL), sizeof *list));
    const fixed_size f = size_fixed(&c, list, sl_model_list(&c, stage, stages, list), stage, stages);
    *floats = f.own + f.moments + f.head_weight;
    sl_free(list);
    return SL_OK;
}

/* ---- opening and closing ---- */

static float *advance(float **at, size_t count) {
    float *here = *at;
    *at += count;
    return here;
}

static sl_status place_parameters(sl_model_stage *s, int stage, int stages) {
    const fixed_size f = size_fixed(&s->config, s->parameter, s->parameters, stage, stages);
    SL_TRY(sl_arena_take(s->arena, fixed_floats(f) * sizeof(float), SL_ARENA_LOW,
                         "weights and optimizer state", &s->memory));
    const size_t cleared = s->config.without_weights ? f.own + f.head : fixed_floats(f);
    memset(s->memory, 0, cleared * sizeof(float));
    float *at = s->memory;
    for (int i = 0; i < s->parameters; i++)
        s->parameter[i].gradient = advance(&at, padded(s->parameter[i].count));
    float *head_gradient = advance(&at, f.head);
    for (int i = 0; i < s->parameters; i++) {
        s->parameter[i].weight = advance(&at, padded(s->parameter[i].count));
        if (s->config.without_moments)
            continue;
        s->parameter[i].moment1 = advance(&at, padded(s->parameter[i].count));
        s->parameter[i].moment2 = advance(&at, padded(s->parameter[i].count));
    }
    if (!s->layout.is_last)
        return SL_OK;
    if (s->config.tied && s->layout.is_first)
        SL_TRY(sl_alloc(&s->touched, (size_t)s->layout.vocabulary, 1));
    if (s->config.tied) {
        describe(&s->config, &s->form->embedding, -1, &s->head);
        s->head.gradient = head_gradient;
        s->head.weight = s->layout.is_first ? s->parameter[0].weight : advance(&at, f.head_weight);
    } else {
        s->head = s->parameter[s->parameters - 1];
    }
    return SL_OK;
}

static sl_status open_memory(sl_model_stage *s, int stage, int stages) {
    SL_TRY(sl_products_prepare(&s->config, s->device, s->layout.blocks, s->layout.is_last, &s->product));
    SL_TRY(sl_alloc(&s->parameter, (size_t)sl_model_list(&s->config, stage, stages, NULL),
                    sizeof *s->parameter));
    s->parameters = sl_model_list(&s->config, stage, stages, s->parameter);
    SL_TRY(sl_alloc(&s->packed_early, (size_t)s->parameters, 1));
    SL_TRY(place_parameters(s, stage, stages));
    SL_TRY(sl_arena_take(s->arena, s->layout.scratch * sizeof(float), SL_ARENA_LOW, "scratch", &s->scratch));
    if (!s->config.unpacked)
        SL_TRY(sl_arena_take(s->arena, s->product.packed_bytes, SL_ARENA_LOW, "packed weights", &s->packed));
    if (s->form->rotary)
        s->device->rope_table(s->config.context, s->attention.size, s->config.rope_base,
                              s->scratch + s->layout.rope);
    return sl_arena_take(s->arena, s->product.scratch_bytes, SL_ARENA_LOW, "scratch of matrix products",
                         &s->product_scratch);
}

sl_status sl_model_stage_open(const sl_model_config *config, sl_device *device, sl_arena *arena, int stage,
                              int stages, uint64_t seed, sl_model_stage **out) {
    sl_model_stage *s;
    int end;
    SL_TRY(sl_model_check(config, stages));
    if (stage < 0 || stage >= stages)
        return sl_error(SL_EINVAL, "stage %d of %d", stage, stages);
    SL_TRY(sl_alloc(&s, 1, sizeof *s));
    s->config = sl_model_complete(config);
    s->form = sl_architecture_of(s->config.kind);
    s->device = device;
    s->arena = arena;
    s->block_base = stage == 0 ? 1 + (s->form->position.name != NULL) : 0;
    s->attention = sl_layout_attention(&s->config);
    sl_model_cut(&s->config, stage, stages, &s->first, &end);
    make_layout(&s->config, device, stage, stages, &s->layout);
    s->forward_bytes = s->layout.forward * sizeof(float);
    s->backward_bytes = s->layout.backward * sizeof(float);
    sl_status status = open_memory(s, stage, stages);
    if (status != SL_OK) {
        sl_model_stage_close(s);
        return status;
    }
    const int made = config->without_weights ? 0 : s->parameters;
    for (int i = 0; i < made; i++)
        sl_parameter_initialise(&s->parameter[i], seed, config->layers);
    if (s->layout.is_last && made)
        sl_parameter_initialise(&s->head, seed, config->layers); /* by its name: the embedding's values */
    s->stale = 1;
    *out = s;
    return SL_OK;
}

void sl_model_stage_pad(sl_model_stage *s, size_t forward_bytes, size_t backward_bytes) {
    s->forward_bytes = forward_bytes > s->forward_bytes ? forward_bytes : s->forward_bytes;
    s->backward_bytes = backward_bytes > s->backward_bytes ? backward_bytes : s->backward_bytes;
}

void sl_model_stage_close(sl_model_stage *s) {
    if (!s)
        return;
    for (int m = 0; m < s->microbatches; m++)
        sl_stage_drop(s, &s->kept[m]);
    sl_arena_give(s->arena, s->product_scratch);
    sl_arena_give(s->arena, s->packed);
    sl_arena_give(s->arena, s->scratch);
    sl_arena_give(s->arena, s->memory);
    SL_FREE(s->packed_early, s->touched, s->kept, s->parameter, s);
}

/* ---- what others see ---- */

double sl_model_loss(const sl_model_stage *s, int microbatch) {
    return microbatch >= 0 && microbatch < s->microbatches ? s->kept[microbatch].loss : NAN;
}

sl_parameter *sl_model_parameters(sl_model_stage *s, int *count) {
    s->stale = 1;
    *count = s->parameters;
    return s->parameter;
}

/* They follow the gradients (place_parameters). */
float *sl_model_state(sl_model_stage *s, size_t *floats) {
    const int stage = s->layout.is_first ? 0 : 1, stages = s->layout.is_last ? stage + 1 : stage + 2;
    const fixed_size f = size_fixed(&s->config, s->parameter, s->parameters, stage, stages);
    *floats = f.own + f.moments + f.head_weight;
    return s->parameter[0].weight;
}

void sl_model_set_tensor(sl_model_stage *s, const sl_tensor_ranks *tensor) {
    s->config.tensor = *tensor;
}

sl_parameter *sl_model_head(sl_model_stage *s) {
    s->stale = 1;
    return s->layout.is_last && s->config.tied ? &s->head : NULL;
}

sl_parameter *sl_model_embedding(sl_model_stage *s) {
    s->stale = 1;
    return s->layout.is_first ? &s->parameter[0] : NULL;
}

void sl_stage_swap_accumulators(sl_model_stage *s) {
    float *embedding = s->parameter[0].gradient;
    s->parameter[0].gradient = s->head.gradient;
    s->head.gradient = embedding;
    s->joined = !s->joined;
}

/* A microbatch contains few of the tokens, so few rows of the embedding's accumulator are not 0: they are
 * added to the head's, which becomes the gradient, and cleared. */
sl_status sl_model_add_own_head(sl_model_stage *s) {
    const size_t width = (size_t)s->config.width;
    if (!s->touched || s->joined)
        return sl_error(SL_EINVAL,
                        "the tied head's gradient is added once, on a stage that has head and embedding");
    for (size_t token = 0; token < (size_t)s->layout.vocabulary; token++) {
        float *row = s->parameter[0].gradient + token * width, *sum = s->head.gradient + token * width;
        if (!s->touched[token])
            continue;
        for (size_t i = 0; i < width; i++)
            sum[i] = row[i] + sum[i];
        memset(row, 0, width * sizeof *row);
    }
    sl_stage_swap_accumulators(s);
    return SL_OK;
}

sl_status sl_model_add_head(sl_model_stage *s, const float *head_gradient) {
    if (!s->layout.is_first || !s->config.tied)
        return sl_error(SL_EINVAL, "a tied head's gradient is added on the first stage");
    sl_parameter *p = &s->parameter[0];
    for (size_t i = 0; i < p->count; i++)
        p->gradient[i] += head_gradient[i];
    return SL_OK;
}
