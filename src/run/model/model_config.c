#include "run/model/model_config.h"
#include "base/status.h"
#include "plan/pipeline/problem.h"

#include <limits.h>

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

/* ---- whether it is possible ---- */

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

static sl_status check_cut(const sl_model_config *c, int stages) {
    int sum = 0;
    for (int s = 0; s < stages && c->cut; s++) {
        if (c->cut[s] < 1)
            return sl_error(SL_EINVAL, "'parallel.cut' gives stage %d %d blocks; each has at least 1", s,
                            c->cut[s]);
        sum += c->cut[s];
    }
    if (c->cut && sum != c->layers)
        return sl_error(SL_EINVAL, "'parallel.cut' has %d blocks, 'model.layers' is %d", sum, c->layers);
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
    SL_TRY(check_cut(&c, stages));
    SL_TRY(check_tensor(&c));
    return check_sizes(&c);
}

/* ---- its size ---- */

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

/* ---- the cut ---- */

/* The cut of blocks into stages. Blocks cost the same, so giving each next block to the currently cheapest
 * stage minimizes the largest stage: a cheaper cut would have to give one block more to some stage below the
 * maximum, and then that stage would be the maximum. */

static int64_t linear_weights(const sl_model_config *c) {
    const sl_architecture *a = sl_architecture_of(c->kind);
    int64_t sum = 0;
    for (int i = 0; i < a->block_parameters; i++)
        if (a->block[i].rows != SL_ONE)
            sum += (int64_t)sl_model_extent(c, a->block[i].rows) * sl_model_extent(c, a->block[i].columns);
    return sum;
}

/* A weight is one multiplication and one addition; a row attends to half of the context on average, once for
 * the scores and once for the mix. */
int64_t sl_model_block_cost(const sl_model_config *config) {
    const sl_model_config c = sl_model_complete(config);
    return 2 * linear_weights(&c) + 2 * (int64_t)c.context * sl_model_extent(&c, SL_QUERY);
}

int64_t sl_model_head_cost(const sl_model_config *c) {
    return 2 * (int64_t)c->vocabulary * c->width;
}

/* A lookup: a copy, and with a position table one addition. */
int64_t sl_model_embedding_cost(const sl_model_config *c) {
    return c->width;
}

/* If costs are equal, later stages get the odd block, as before counting the head. */
static void cut_by_cost(const sl_model_config *c, int stages, int *blocks) {
    int64_t block = sl_model_block_cost(c), cost[SL_MAX_STAGES];
    for (int s = 0; s < stages; s++) {
        blocks[s] = 1;
        cost[s] =
            block + (s == 0 ? sl_model_embedding_cost(c) : 0) + (s == stages - 1 ? sl_model_head_cost(c) : 0);
    }
    for (int left = c->layers - stages; left > 0; left--) {
        int least = stages - 1;
        for (int s = stages - 2; s >= 0; s--)
            least = cost[s] < cost[least] ? s : least;
        blocks[least]++;
        cost[least] += block;
    }
}

void sl_model_cut(const sl_model_config *c, int stage, int stages, int *first, int *end) {
    int by_cost[SL_MAX_STAGES];
    const int *blocks = c->cut ? c->cut : by_cost;
    if (!c->cut)
        cut_by_cost(c, stages, by_cost);
    *first = 0;
    for (int s = 0; s < stage; s++)
        *first += blocks[s];
    *end = *first + blocks[stage];
}
