#include "run/model/layout.h"
#include "base/numbers.h"
#include "run/device/arena.h"

/* Reserves `count` floats at *end. */
static size_t reserve(size_t *end, size_t count) {
    size_t at = *end;
    *end += sl_arena_round(count * sizeof(float)) / sizeof(float);
    return at;
}

static size_t floats_for(size_t bytes) {
    return (bytes + sizeof(float) - 1) / sizeof(float);
}

int sl_layout_extent(const sl_model_config *c, sl_extent extent) {
    int first, end, full = sl_model_extent(c, extent);
    if (extent == SL_ONE || extent == SL_WIDTH || extent == SL_CONTEXT)
        return full;
    sl_slice_range(full, c->tensor.rank, c->tensor.size, &first, &end);
    return end - first;
}

sl_attention_shape sl_layout_attention(const sl_model_config *c) {
    const sl_half_form *f = &sl_architecture_of(c->kind)->half[0];
    int query = sl_layout_extent(c, SL_QUERY), key = sl_layout_extent(c, SL_KEY);
    int together = f->ins == 1 ? query + 2 * key : 0; /* q, k and v side by side in a row */
    return (sl_attention_shape){.batch = c->batch,
                                .context = c->context,
                                .heads = c->heads / c->tensor.size,
                                .kv_heads = c->kv_heads / c->tensor.size,
                                .size = c->width / c->heads,
                                .q_stride = together ? together : query,
                                .kv_stride = together ? together : key,
                                .out_stride = query};
}

/* Both halves of a block, after their forms. */
static void lay_block(const sl_model_config *c, sl_layout *l) {
    const sl_architecture *a = sl_architecture_of(c->kind);
    const size_t n = (size_t)l->rows, w = (size_t)c->width;
    size_t forward = 0, backward = 0;
    for (int half = 0; half < 2; half++) {
        const sl_half_form *f = &a->half[half];
        sl_half_layout *h = &l->half[half];
        h->normal = reserve(&forward, n * w);
        h->scale = reserve(&forward, n);
        for (int i = 0; i < f->ins; i++)
            h->in[i] = reserve(&forward, n * (size_t)sl_layout_extent(
                                                 c, a->outputs_first ? a->block[f->in[i].weight].rows
                                                                     : a->block[f->in[i].weight].columns));
        h->out = reserve(&backward, n * w);
        h->norm = reserve(&backward, n * w);
        if (f->core == SL_CORE_ATTENTION) {
            h->heads = reserve(&forward, n * (size_t)l->query);
            h->lse = reserve(&forward, n * (size_t)(c->heads / c->tensor.size));
        } else {
            h->inner = reserve(&backward, n * (size_t)l->hidden);
        }
    }
    l->block_forward = forward;
    l->block_backward = backward;
}

static void lay_kept(const sl_model_config *c, sl_layout *l) {
    const size_t n = (size_t)l->rows, w = (size_t)c->width, blocks = (size_t)l->blocks;
    size_t *f = &l->forward, *b = &l->backward;
    l->block_added = reserve(b, blocks * l->block_backward);
    if (l->recompute) {
        l->inputs = reserve(f, blocks * n * w);
        l->rest = reserve(f, n * w);
        l->again = reserve(b, blocks * l->block_forward);
    } else {
        l->block_kept = reserve(f, blocks * l->block_forward);
    }
    if (l->is_first) {
        l->tokens = reserve(f, floats_for(n * sizeof(uint16_t)));
        l->embedded = reserve(b, n * w);
    }
    if (l->is_last) {
        l->normal = reserve(f, n * w);
        l->scale = reserve(f, n);
        l->logits = reserve(f, n * (size_t)l->vocabulary);
        l->norm = reserve(b, n * w);
    }
}

static void lay_scratch(const sl_model_config *c, size_t attention_floats, sl_layout *l) {
    const size_t n = (size_t)l->rows, w = (size_t)c->width;
    const sl_architecture *a = sl_architecture_of(c->kind);
    size_t columns =
        sl_larger_size(2 * w, sl_larger_size((size_t)l->hidden, (size_t)(l->query + 2 * l->key)));
    size_t *end = &l->scratch;
    l->x = reserve(end, n * w);
    l->h = reserve(end, n * w);
    l->wide = reserve(end, n * (size_t)l->hidden);
    l->attention = reserve(end, attention_floats);
    l->sums = reserve(end, sl_larger_size(columns, c->tensor.size > 1 && l->is_last ? 2 * n : 0));
    if (c->tensor.size > 1 && l->is_last)
        l->top = reserve(end, n);
    if (l->is_last) {
        l->targets = reserve(end, floats_for(n * sizeof(uint16_t)));
        l->loss = reserve(end, floats_for(sizeof(double)));
    }
    if (l->is_first && l->is_last && c->tied)
        l->marked = reserve(end, floats_for((size_t)l->vocabulary));
    if (l->recompute)
        l->once = reserve(end, l->block_forward);
    if (a->rotary)
        l->rope = reserve(end, (size_t)c->context * (size_t)(c->width / c->heads));
}

void sl_layout_make(const sl_model_config *c, int stage, int stages, size_t attention_floats, sl_layout *l) {
    int first, end, last_token;
    sl_model_cut(c, stage, stages, &first, &end);
    *l = (sl_layout){.rows = c->batch * c->context,
                     .blocks = end - first,
                     .is_first = stage == 0,
                     .is_last = stage == stages - 1,
                     .recompute = c->recompute && c->recompute[stage],
                     .query = sl_layout_extent(c, SL_QUERY),
                     .key = sl_layout_extent(c, SL_KEY),
                     .hidden = sl_layout_extent(c, SL_HIDDEN),
                     .vocabulary = sl_layout_extent(c, SL_VOCABULARY)};
    sl_slice_range(c->vocabulary, c->tensor.rank, c->tensor.size, &l->first_token, &last_token);
    lay_block(c, l);
    lay_kept(c, l);
    lay_scratch(c, attention_floats, l);
}
