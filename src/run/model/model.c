#include "run/model/model.h"
#include "base/memory.h"
#include "run/model/stage.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static sl_status at_least_1(const char *key, int value) {
    return value >= 1 ? SL_OK : sl_error(SL_EINVAL, "'%s' must be >= 1, got %d", key, value);
}

sl_status sl_model_check(const sl_model_config *c, int stages) {
    SL_TRY(at_least_1("model.layers", c->layers));
    SL_TRY(at_least_1("model.width", c->width));
    SL_TRY(at_least_1("model.heads", c->heads));
    SL_TRY(at_least_1("model.context", c->context));
    SL_TRY(at_least_1("batch.size", c->batch));
    SL_TRY(at_least_1("pipeline stages", stages));
    if (c->vocabulary < 1 || c->vocabulary > 256)
        return sl_error(SL_EINVAL, "a vocabulary of bytes has 1 to 256 entries, got %d", c->vocabulary);
    if (c->width % c->heads)
        return sl_error(SL_EINVAL, "'model.width' (%d) must be a multiple of 'model.heads' (%d)", c->width,
                        c->heads);
    if (stages > c->layers)
        return sl_error(SL_EINVAL, "%d pipeline stages need at least as many layers, 'model.layers' is %d",
                        stages, c->layers);
    /* products take int sizes */
    if ((int64_t)c->batch * c->context > INT_MAX || 4 * (int64_t)c->width > INT_MAX)
        return sl_error(SL_EINVAL, "a microbatch of %d sequences of %d tokens, width %d, is too large",
                        c->batch, c->context, c->width);
    return SL_OK;
}

void sl_model_cut(const sl_model_config *c, int stage, int stages, int *first, int *end) {
    *first = (int)((int64_t)c->layers * stage / stages);
    *end = (int)((int64_t)c->layers * (stage + 1) / stages);
}

size_t sl_model_count(const sl_model_config *c) {
    const size_t w = (size_t)c->width, block = 12 * w * w + 13 * w;
    return ((size_t)c->vocabulary + (size_t)c->context) * w + (size_t)c->layers * block + 2 * w;
}

/* ---- parameters of a stage ---- */

int sl_model_list(const sl_model_config *c, int stage, int stages, sl_parameter *list) {
    int first, end, count = 0;
    sl_parameter ignored;
    sl_model_cut(c, stage, stages, &first, &end);
    if (stage == 0) {
        sl_parameter_embedding(c->vocabulary, c->width, list ? &list[count] : &ignored);
        count++;
        sl_parameter_position(c->context, c->width, list ? &list[count] : &ignored);
        count++;
    }
    for (int layer = first; layer < end; layer++)
        for (int i = 0; i < SL_BLOCK_PARAMETERS; i++, count++)
            sl_parameter_block(layer, i, c->width, list ? &list[count] : &ignored);
    for (int i = 0; i < 2 && stage == stages - 1; i++, count++)
        sl_parameter_final(i, c->width, list ? &list[count] : &ignored);
    return count;
}

static size_t padded(size_t count) {
    return sl_arena_round(count * sizeof(float)) / sizeof(float);
}

/* Floats of the fixed memory: gradients (the head's last), weights (likewise), both moments. */
typedef struct fixed_size {
    size_t own, head, head_weight;
} fixed_size;

static fixed_size size_fixed(const sl_model_config *c, const sl_parameter *list, int count, int stage,
                             int stages) {
    fixed_size f = {0};
    for (int i = 0; i < count; i++)
        f.own += padded(list[i].count);
    if (stage == stages - 1) {
        f.head = padded((size_t)c->vocabulary * (size_t)c->width);
        f.head_weight = stage == 0 ? 0 : f.head;
    }
    return f;
}

static size_t fixed_floats(fixed_size f) {
    return 4 * f.own + f.head + f.head_weight;
}

static sl_status prepare_products(const sl_model_config *c, sl_device *device, int is_last,
                                  sl_matmul **product, size_t *scratch) {
    *scratch = 0;
    for (int p = 0; p < (is_last ? SL_PRODUCTS : SL_PRODUCT_HEAD); p++) {
        const sl_matmul_shape shape = sl_product_shape(c, (sl_product)p);
        size_t bytes;
        SL_TRY(device->matmul_prepare(device, &shape, &product[p], &bytes));
        *scratch = bytes > *scratch ? bytes : *scratch;
    }
    return SL_OK;
}

sl_status sl_model_measure(const sl_model_config *c, sl_device *device, int stage, int stages,
                           sl_model_bytes *bytes) {
    sl_layout layout;
    sl_parameter *list;
    sl_matmul *product[SL_PRODUCTS];
    size_t scratch;
    SL_TRY(sl_model_check(c, stages));
    sl_layout_make(c, stage, stages, &layout);
    SL_TRY(prepare_products(c, device, layout.is_last, product, &scratch));
    SL_TRY(sl_alloc(&list, (size_t)sl_model_list(c, stage, stages, NULL), sizeof *list));
    int count = sl_model_list(c, stage, stages, list);
    size_t fixed = fixed_floats(size_fixed(c, list, count, stage, stages));
    sl_free(list);
    bytes->fixed = sl_arena_round(fixed * sizeof(float)) + sl_arena_round(layout.scratch * sizeof(float)) +
                   sl_arena_round(scratch);
    bytes->forward = sl_arena_round(layout.forward * sizeof(float));
    bytes->backward = sl_arena_round(layout.backward * sizeof(float));
    bytes->message = (size_t)layout.rows * (size_t)c->width * sizeof(float);
    return SL_OK;
}

/* ---- opening and closing ---- */

static float *advance(float **at, size_t count) {
    float *here = *at;
    *at += count;
    return here;
}

/* Gradients come first and in one piece, so that clearing them is one pass. */
static sl_status place_parameters(sl_model_stage *s, int stage, int stages) {
    const fixed_size f = size_fixed(&s->config, s->parameter, s->parameters, stage, stages);
    SL_TRY(sl_arena_take(s->arena, fixed_floats(f) * sizeof(float), SL_ARENA_LOW,
                         "weights and optimizer state", &s->memory));
    memset(s->memory, 0, fixed_floats(f) * sizeof(float));
    float *at = s->memory;
    s->gradient = at;
    s->gradients = f.own + f.head;
    for (int i = 0; i < s->parameters; i++)
        s->parameter[i].gradient = advance(&at, padded(s->parameter[i].count));
    float *head_gradient = advance(&at, f.head);
    for (int i = 0; i < s->parameters; i++) {
        s->parameter[i].weight = advance(&at, padded(s->parameter[i].count));
        s->parameter[i].moment1 = advance(&at, padded(s->parameter[i].count));
        s->parameter[i].moment2 = advance(&at, padded(s->parameter[i].count));
    }
    if (s->layout.is_last) {
        sl_parameter_embedding(s->config.vocabulary, s->config.width, &s->head);
        s->head.gradient = head_gradient;
        s->head.weight = s->layout.is_first ? s->parameter[0].weight : advance(&at, f.head_weight);
    }
    return SL_OK;
}

static sl_status open_memory(sl_model_stage *s, int stage, int stages) {
    size_t scratch;
    SL_TRY(prepare_products(&s->config, s->device, s->layout.is_last, s->product, &scratch));
    SL_TRY(sl_alloc(&s->parameter, (size_t)sl_model_list(&s->config, stage, stages, NULL),
                    sizeof *s->parameter));
    s->parameters = sl_model_list(&s->config, stage, stages, s->parameter);
    SL_TRY(place_parameters(s, stage, stages));
    SL_TRY(sl_arena_take(s->arena, s->layout.scratch * sizeof(float), SL_ARENA_LOW, "scratch", &s->scratch));
    return sl_arena_take(s->arena, scratch, SL_ARENA_LOW, "scratch of matrix products", &s->product_scratch);
}

sl_status sl_model_stage_open(const sl_model_config *config, sl_device *device, sl_arena *arena, int stage,
                              int stages, uint64_t seed, sl_model_stage **out) {
    sl_model_stage *s;
    int end;
    SL_TRY(sl_model_check(config, stages));
    if (stage < 0 || stage >= stages)
        return sl_error(SL_EINVAL, "stage %d of %d", stage, stages);
    SL_TRY(sl_alloc(&s, 1, sizeof *s));
    s->config = *config;
    s->device = device;
    s->arena = arena;
    s->block_base = stage == 0 ? 2 : 0;
    sl_model_cut(config, stage, stages, &s->first, &end);
    sl_layout_make(config, stage, stages, &s->layout);
    s->forward_bytes = s->layout.forward * sizeof(float);
    s->backward_bytes = s->layout.backward * sizeof(float);
    sl_status status = open_memory(s, stage, stages);
    if (status != SL_OK) {
        sl_model_stage_close(s);
        return status;
    }
    for (int i = 0; i < s->parameters; i++)
        sl_parameter_initialise(&s->parameter[i], seed, config->layers);
    if (s->layout.is_last)
        sl_parameter_initialise(&s->head, seed, config->layers); /* wte's name: the same values */
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
    sl_arena_give(s->arena, s->scratch);
    sl_arena_give(s->arena, s->memory);
    sl_free(s->kept);
    sl_free(s->parameter);
    sl_free(s);
}

/* ---- what others see ---- */

double sl_model_loss(const sl_model_stage *s, int microbatch) {
    return microbatch >= 0 && microbatch < s->microbatches ? s->kept[microbatch].loss : NAN;
}

sl_parameter *sl_model_parameters(sl_model_stage *s, int *count) {
    *count = s->parameters;
    return s->parameter;
}

sl_parameter *sl_model_head(sl_model_stage *s) {
    return s->layout.is_last ? &s->head : NULL;
}

sl_parameter *sl_model_embedding(sl_model_stage *s) {
    return s->layout.is_first ? &s->parameter[0] : NULL;
}

sl_status sl_model_add_head(sl_model_stage *s, const float *head_gradient) {
    if (!s->layout.is_first)
        return sl_error(SL_EINVAL, "the head's gradient is added on the first stage");
    sl_parameter *p = &s->parameter[0];
    for (size_t i = 0; i < p->count; i++)
        p->gradient[i] += head_gradient[i];
    return SL_OK;
}
