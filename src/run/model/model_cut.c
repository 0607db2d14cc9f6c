#include "run/model/model_stage.h"

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

sl_status sl_stage_check_cut(const sl_model_config *c, int stages) {
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
