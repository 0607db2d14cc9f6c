#include "run/model/layout.h"

/* Reserves `count` floats at *end. */
static size_t place(size_t *end, size_t count) {
    size_t at = *end;
    *end += sl_arena_round(count * sizeof(float)) / sizeof(float);
    return at;
}

static void lay_block(size_t n, size_t w, sl_block_layout *b) {
    size_t end = 0;
    b->normal1 = place(&end, n * w);
    b->scale1 = place(&end, n);
    b->qkv = place(&end, 3 * n * w);
    b->heads = place(&end, n * w);
    b->normal2 = place(&end, n * w);
    b->scale2 = place(&end, n);
    b->hidden = place(&end, 4 * n * w);
    b->forward = end;
    end = 0;
    b->out = place(&end, n * w);
    b->hidden_grad = place(&end, 4 * n * w);
    b->norm2 = place(&end, n * w);
    b->middle = place(&end, n * w);
    b->norm1 = place(&end, n * w);
    b->backward = end;
}

static void lay_scratch(const sl_model_config *c, size_t n, size_t w, sl_layout *l) {
    const size_t context = (size_t)c->context;
    size_t end = 0;
    l->x = place(&end, n * w);
    l->h = place(&end, n * w);
    l->wide = place(&end, 4 * n * w);
    l->split = place(&end, n * w);
    l->scores = place(&end, 2 * context * context);
    l->mixed = place(&end, context * (w / (size_t)c->heads));
    l->sums = place(&end, 4 * w);
    l->scratch = end;
}

void sl_layout_make(const sl_model_config *c, int stage, int stages, sl_layout *l) {
    int first, end;
    sl_model_cut(c, stage, stages, &first, &end);
    const size_t n = (size_t)c->batch * (size_t)c->context, w = (size_t)c->width;
    *l = (sl_layout){.rows = c->batch * c->context,
                     .blocks = end - first,
                     .is_first = stage == 0,
                     .is_last = stage == stages - 1};
    lay_block(n, w, &l->block);
    l->forward = (size_t)l->blocks * l->block.forward;
    l->backward = (size_t)l->blocks * l->block.backward;
    if (l->is_first) {
        l->tokens = place(&l->forward, (n + sizeof(float) - 1) / sizeof(float));
        l->embedded = place(&l->backward, n * w);
    }
    if (l->is_last) {
        l->normal = place(&l->forward, n * w);
        l->scale = place(&l->forward, n);
        l->logits = place(&l->forward, n * (size_t)c->vocabulary);
        l->norm = place(&l->backward, n * w);
    }
    lay_scratch(c, n, w, l);
}
