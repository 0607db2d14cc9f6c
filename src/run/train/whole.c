/* What concerns the whole model: validation by forward passes, the hash of all weights, both handed from rank
 * to rank within replica 0. */
#include "base/memory.h"
#include "run/train/binding_inside.h"
#include "run/train/hash.h"

#include <math.h>

#define MOST_VALIDATED 32 /* microbatches of held-out text in a validation loss */

/* Stage by stage; the activation that a stage gives lies where the next one of the same rank takes it. */
static sl_status evaluate(sl_binding *b, int index, double *loss) {
    size_t bytes =
        (size_t)b->config.batch * (size_t)b->config.context * (size_t)b->config.width * sizeof(float);
    sl_data_validation_batch(b->data, index, b->tokens, b->targets);
    for (int stage = 0; stage < b->stages; stage++) {
        int first = stage == 0, last = stage == b->stages - 1, rank = sl_binding_rank_of(b, stage);
        float *in = b->activation[stage % 2], *out = b->activation[(stage + 1) % 2];
        sl_model_stage *model = sl_binding_model_of(b, stage);
        if (model)
            SL_TRY(sl_model_evaluate(model, first ? b->tokens : NULL, last ? b->targets : NULL,
                                     first ? NULL : in, last ? NULL : out, loss));
        if (!last && sl_binding_rank_of(b, stage + 1) != rank)
            SL_TRY(sl_group_pass(b->groups->pipeline, rank, sl_binding_rank_of(b, stage + 1), out, bytes));
    }
    return SL_OK;
}

sl_status sl_binding_validate(sl_binding *b, double *loss) {
    int batches = sl_data_validation_batches(b->data), last = sl_binding_rank_of(b, b->stages - 1);
    double sum = 0;
    *loss = (double)NAN;
    if (b->groups->seat.replica > 0)
        return SL_OK;
    batches = batches < MOST_VALIDATED ? batches : MOST_VALIDATED;
    for (int h = 0; h < b->helds; h++)
        SL_TRY(sl_model_begin(b->held[h].model, 1));
    for (int i = 0; i < batches; i++) {
        double one = 0;
        SL_TRY(evaluate(b, i, &one));
        sum += one;
    }
    if (last != 0)
        SL_TRY(sl_group_pass(b->groups->pipeline, last, 0, &sum, sizeof sum));
    if (b->rank == 0)
        *loss = sum / batches;
    return SL_OK;
}

/* A stage's parameters, from the rank that holds it; on rank 0 into the hash. */
static sl_status hash_stage(sl_binding *b, int stage, float *received, sl_hash *hash) {
    int count = sl_model_list(&b->config, stage, b->stages, NULL), from = sl_binding_rank_of(b, stage);
    sl_model_stage *model = sl_binding_model_of(b, stage);
    sl_parameter *list;
    SL_TRY(sl_alloc(&list, (size_t)count, sizeof *list));
    sl_model_list(&b->config, stage, b->stages, list);
    sl_status status = SL_OK;
    for (int i = 0; i < count && status == SL_OK; i++) {
        float *weight = model ? sl_model_parameters(model, &count)[i].weight : received;
        if (from != 0)
            status = sl_group_pass(b->groups->pipeline, from, 0, weight, list[i].count * sizeof(float));
        if (status == SL_OK && b->rank == 0)
            sl_hash_add(hash, weight, list[i].count);
    }
    sl_free(list);
    return status;
}

sl_status sl_binding_hash(sl_binding *b, uint64_t *hash) {
    sl_hash *h = NULL;
    float *received = NULL;
    if (b->groups->seat.replica > 0)
        return SL_OK;
    SL_TRY(sl_alloc(&received, sl_model_count(&b->config), sizeof *received));
    sl_status status = sl_hash_open(&h);
    for (int stage = 0; stage < b->stages && status == SL_OK; stage++)
        status = hash_stage(b, stage, received, h);
    if (status == SL_OK)
        *hash = sl_hash_value(h);
    sl_hash_close(h);
    sl_free(received);
    return status;
}
