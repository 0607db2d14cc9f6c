#include "run/model/transformer.h"
#include "base/memory.h"
#include "run/device/host_view.h"
#include "run/model/transformer_inside.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

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

static sl_status open_parameters(sl_model_stage *s, int stage, int stages) {
    const fixed_size f = size_fixed(&s->config, s->parameter, s->parameters, stage, stages);
    SL_TRY(sl_arena_take(s->arena, fixed_floats(f) * sizeof(float), SL_ARENA_LOW,
                         "weights and optimizer state", &s->memory));
    const size_t cleared = s->config.without_weights ? f.own + f.head : fixed_floats(f);
    s->device->zero(s->device, s->memory, cleared * sizeof(float));
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

static sl_status fill_rope(sl_model_stage *s) {
    const size_t floats = (size_t)s->config.context * (size_t)s->attention.size;
    sl_host_view view;
    SL_TRY(sl_host_view_open(s->device, s->scratch + s->layout.rope, floats * sizeof(float), SL_VIEW_WRITE,
                             &view));
    s->device->rope_table(s->config.context, s->attention.size, s->config.rope_base, view.host);
    return sl_host_view_close(&view, SL_OK);
}

static sl_status initialise(const sl_model_stage *s, const sl_parameter *p, uint64_t seed) {
    sl_parameter seen = *p;
    sl_host_view view;
    SL_TRY(sl_host_view_open(s->device, p->weight, p->count * sizeof(float), SL_VIEW_WRITE, &view));
    seen.weight = view.host;
    sl_parameter_initialise(&seen, seed, s->config.layers);
    return sl_host_view_close(&view, SL_OK);
}

static sl_status initialise_all(const sl_model_stage *s, uint64_t seed) {
    for (int i = 0; i < s->parameters; i++)
        SL_TRY(initialise(s, &s->parameter[i], seed));
    /* the head by its name: the embedding's values */
    return s->layout.is_last ? initialise(s, &s->head, seed) : SL_OK;
}

static sl_status open_memory(sl_model_stage *s, int stage, int stages) {
    SL_TRY(sl_products_prepare(&s->config, s->device, s->layout.blocks, s->layout.is_last, &s->product));
    SL_TRY(sl_alloc(&s->parameter, (size_t)sl_model_list(&s->config, stage, stages, NULL),
                    sizeof *s->parameter));
    s->parameters = sl_model_list(&s->config, stage, stages, s->parameter);
    SL_TRY(sl_alloc(&s->packed_early, (size_t)s->parameters, 1));
    SL_TRY(open_parameters(s, stage, stages));
    SL_TRY(sl_arena_take(s->arena, s->layout.scratch * sizeof(float), SL_ARENA_LOW, "scratch", &s->scratch));
    if (!s->config.unpacked)
        SL_TRY(sl_arena_take(s->arena, s->product.packed_bytes, SL_ARENA_LOW, "packed weights", &s->packed));
    if (s->form->rotary)
        SL_TRY(fill_rope(s));
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
    if (!config->without_weights)
        SL_THEN(status, initialise_all(s, seed));
    if (status != SL_OK) {
        sl_model_stage_close(s);
        return status;
    }
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
    return microbatch >= 0 && microbatch < s->microbatches ? s->kept[microbatch].loss / (double)s->layout.rows
                                                           : NAN;
}

sl_parameter *sl_model_parameters(sl_model_stage *s, int *count) {
    s->stale = 1;
    *count = s->parameters;
    return s->parameter;
}

/* They follow the gradients (open_parameters). */
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
    void *marked = s->scratch + s->layout.marked;
    if (!s->touched || s->joined)
        return sl_error(SL_EINVAL,
                        "the tied head's gradient is added once, on a stage that has head and embedding");
    s->device->write(s->device, marked, s->touched, (size_t)s->layout.vocabulary);
    s->device->add_marked(s->device, s->layout.vocabulary, s->config.width, marked, s->parameter[0].gradient,
                          s->head.gradient);
    sl_stage_swap_accumulators(s);
    return SL_OK;
}

/* Through scratch, piece by piece. */
static sl_status add_from_host(sl_model_stage *s, const float *gradient) {
    const sl_parameter *p = &s->parameter[0];
    const size_t most = (size_t)s->layout.rows * (size_t)s->config.width;
    float *x = s->scratch + s->layout.x;
    for (size_t at = 0; at < p->count; at += most) {
        const size_t count = p->count - at < most ? p->count - at : most;
        s->device->write(s->device, x, gradient + at, count * sizeof *x);
        s->device->add(s->device, count, x, p->gradient + at);
    }
    return s->device->finish(s->device);
}

sl_status sl_model_add_head(sl_model_stage *s, const float *head_gradient, int on_host) {
    if (!s->layout.is_first || !s->config.tied)
        return sl_error(SL_EINVAL, "a tied head's gradient is added on the first stage");
    if (on_host && !s->device->host_memory)
        return add_from_host(s, head_gradient);
    s->device->add(s->device, s->parameter[0].count, head_gradient, s->parameter[0].gradient);
    return SL_OK;
}

void *sl_model_scratch(sl_model_stage *s, size_t *bytes) {
    *bytes = (size_t)s->layout.rows * (size_t)s->config.width * sizeof(float);
    return s->scratch + s->layout.x;
}
