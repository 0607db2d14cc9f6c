/* Functions on the whole model: validation by forward passes, and the hash of all weights, both passed from
 * rank to rank within replica 0, and from there to the leader. */
#include "base/memory.h"
#include "run/binding/binding_inside.h"
#include "run/binding/hash.h"

#include <math.h>
#include <string.h>

#define MAX_VALIDATED 32 /* microbatches of held-out text in a validation loss */

/* Stage by stage; a stage's output is in the input buffer of the next one of the same rank. */
static sl_status evaluate(sl_binding *b, int index, double *loss) {
    size_t bytes =
        (size_t)b->config.batch * (size_t)b->config.context * (size_t)b->config.width * sizeof(float);
    sl_data_validation_batch(b->data, index, b->tokens[0], b->targets[0]);
    for (int stage = 0; stage < b->stages; stage++) {
        int first = stage == 0, last = stage == b->stages - 1, rank = sl_binding_rank_of(b, stage);
        float *in = b->activation[stage % 2], *out = b->activation[(stage + 1) % 2];
        if (rank == b->rank)
            SL_TRY(sl_model_evaluate(sl_binding_model_of(b, stage), first ? b->tokens[0] : NULL,
                                     last ? b->targets[0] : NULL, first ? NULL : in, last ? NULL : out,
                                     loss));
        if (!last && sl_binding_rank_of(b, stage + 1) != rank)
            SL_TRY(sl_group_pass(b->groups->pipeline, rank, sl_binding_rank_of(b, stage + 1), out, bytes));
    }
    return SL_OK;
}

/* Within replica 0; *loss on its first rank. */
static sl_status validate(sl_binding *b, double *loss) {
    int batches = sl_data_validation_batches(b->data), last = sl_binding_rank_of(b, b->stages - 1);
    double sum = 0;
    batches = batches < MAX_VALIDATED ? batches : MAX_VALIDATED;
    for (int h = 0; h < b->helds; h++)
        SL_TRY(sl_model_begin(b->held[h].model, 1));
    for (int i = 0; i < batches; i++) {
        double one = 0;
        SL_TRY(evaluate(b, i, &one));
        sum += one;
    }
    if (last != 0)
        SL_TRY(sl_group_pass(b->groups->pipeline, last, 0, &sum, sizeof sum));
    *loss = sum / batches;
    return SL_OK;
}

sl_status sl_binding_validate(sl_binding *b, double *loss) {
    double mean = 0;
    *loss = (double)NAN;
    SL_TRY(sl_binding_settle(b));
    if (b->groups->position.replica == 0)
        SL_TRY(validate(b, &mean));
    SL_TRY(sl_group_pass(b->groups->world, 0, b->groups->leader, &mean, sizeof mean));
    if (sl_groups_lead(b->groups))
        *loss = mean;
    return SL_OK;
}

/* ---- full tensors ---- */

/* This rank's part of a parameter's slice: all of it, or with ZeRO the share that it updates (every holder
 * has all of the weights). */
static float *value_of(const sl_binding *b, const sl_held *h, int index, sl_binding_value value, size_t *at,
                       size_t *piece) {
    const sl_parameter *p = &h->list[index];
    size_t begin, end, position;
    *at = 0;
    *piece = p->count;
    if (value == SL_VALUE_WEIGHT)
        return p->weight;
    sl_binding_updated(b, h->stage, &begin, &end);
    *piece = sl_shares_piece(sl_binding_cut(b, h->stage), index, begin, end, at, &position);
    if (value == SL_VALUE_GRADIENT)
        return p->gradient + *at;
    if (h->moment[0])
        return h->moment[value - SL_VALUE_MOMENT1] +
               sl_shares_before(sl_binding_cut(b, h->stage), index, begin, end);
    return value == SL_VALUE_MOMENT1 ? p->moment1 : p->moment2;
}

/* The slice at holder 0, into slice[count]. */
static sl_status collect_slice(sl_binding *b, const sl_held *h, int index, sl_binding_value value,
                               float *slice) {
    size_t at, piece, position;
    const sl_shares *cut = sl_binding_cut(b, h->stage);
    float *mine = value_of(b, h, index, value, &at, &piece);
    int shared = b->run->parallel.zero && value != SL_VALUE_WEIGHT;
    b->device->read(b->device, slice + at, mine, piece * sizeof *slice);
    SL_TRY(b->device->finish(b->device));
    for (int r = 1; r < b->holders && shared; r++) {
        piece =
            sl_shares_piece(cut, index, sl_shares_begin(cut, r), sl_shares_begin(cut, r + 1), &at, &position);
        SL_TRY(sl_group_pass(b->groups->data, r, 0, slice + at, piece * sizeof *slice));
    }
    return SL_OK;
}

/* slice: of this rank, at holder 0; `other` has room for any tensor rank's. */
static sl_status join_slices(sl_binding *b, const sl_parameter *mine, float *slice, float *other,
                             float *full) {
    int me = b->groups->position.tensor, ranks = b->run->parallel.tensor;
    if (mine->axis == SL_AXIS_NONE || ranks == 1) {
        if (me == 0)
            memcpy(full, slice, mine->count * sizeof *full);
        return SL_OK;
    }
    for (int r = 0; r < ranks; r++) {
        const sl_parameter theirs = sl_parameter_slice(mine, r, ranks);
        float *values = me == r ? slice : other;
        SL_TRY(sl_group_pass(b->groups->tensor, r, 0, values, theirs.count * sizeof *values));
        if (me == 0)
            sl_parameter_paste(&theirs, values, full);
    }
    return SL_OK;
}

sl_status sl_binding_collect(sl_binding *b, int stage, int index, sl_binding_value value, float *full) {
    const sl_held *h = sl_binding_held_of(b, stage);
    if (!h || (b->holder > 0 && (!b->run->parallel.zero || value == SL_VALUE_WEIGHT)))
        return SL_OK;
    const sl_parameter *p = &h->list[index];
    int shared = b->run->parallel.zero && value != SL_VALUE_WEIGHT;
    if (!shared && b->run->parallel.tensor == 1) { /* the whole tensor is here */
        size_t at, piece;
        const float *mine = value_of(b, h, index, value, &at, &piece);
        b->device->read(b->device, full, mine, p->count * sizeof *full);
        return b->device->finish(b->device);
    }
    size_t room = sl_parameter_full_count(p); /* no slice is larger */
    float *slice;
    SL_TRY(sl_alloc(&slice, 2 * room, sizeof *slice));
    sl_status status = collect_slice(b, h, index, value, slice);
    if (status == SL_OK && b->holder == 0)
        status = join_slices(b, p, slice, slice + room, full);
    sl_free(slice);
    return status;
}

/* The slice of this rank; *made is to be freed (NULL: it is the full tensor itself). */
static sl_status cut_slice(const sl_parameter *p, const float *full, const float **slice, float **made) {
    *slice = full;
    *made = NULL;
    if (p->axis == SL_AXIS_NONE || p->tensor_ranks <= 1)
        return SL_OK;
    SL_TRY(sl_alloc(made, p->count, sizeof **made));
    sl_parameter_cut(p, full, *made);
    *slice = *made;
    return SL_OK;
}

sl_status sl_binding_put(sl_binding *b, int stage, int index, sl_binding_value value, const float *full) {
    const sl_held *h = sl_binding_held_of(b, stage);
    size_t at, piece;
    if (!h)
        return SL_OK;
    const float *slice;
    float *made, *mine = value_of(b, h, index, value, &at, &piece);
    SL_TRY(cut_slice(&h->list[index], full, &slice, &made));
    b->device->write(b->device, mine, slice + at, piece * sizeof *mine);
    sl_status status = b->device->finish(b->device);
    sl_free(made);
    int count;
    sl_model_parameters(h->model, &count); /* so that the next iteration repacks the weights */
    return status;
}

sl_status sl_binding_put_head(sl_binding *b, const float *full) {
    const sl_held *last = sl_binding_held_of(b, b->stages - 1);
    const sl_parameter *head = last ? last->tied : NULL;
    const float *slice;
    float *made;
    if (!head)
        return SL_OK;
    SL_TRY(cut_slice(head, full, &slice, &made));
    b->device->write(b->device, head->weight, slice, head->count * sizeof *slice);
    sl_status status = b->device->finish(b->device);
    sl_free(made);
    sl_model_head(last->model); /* as above */
    return status;
}

/* ---- every tensor in canonical order, at the rank that leads ---- */

/* Tensor `index` of a stage goes to the leader, which visits it. */
static sl_status visit_one(sl_binding *b, int stage, int index, const sl_parameter *tensor,
                           sl_binding_value value,
                           sl_status (*visit)(void *object, const sl_parameter *tensor, const float *full),
                           void *object) {
    int from = sl_run_world_rank(b->run, (sl_run_position){.pipeline = sl_binding_rank_of(b, stage)});
    float *full;
    sl_status status;
    SL_TRY(sl_alloc(&full, tensor->count, sizeof *full));
    SL_TRY_GOTO(out, status, sl_binding_collect(b, stage, index, value, full));
    SL_TRY_GOTO(out, status,
                sl_group_pass(b->groups->world, from, b->groups->leader, full, tensor->count * sizeof *full));
    if (sl_groups_lead(b->groups))
        status = visit(object, tensor, full);
out:
    sl_free(full);
    return status;
}

sl_status sl_binding_each(sl_binding *b, sl_binding_value value,
                          sl_status (*visit)(void *object, const sl_parameter *tensor, const float *full),
                          void *object) {
    sl_model_config whole = b->config;
    whole.tensor = (sl_tensor_ranks){0};
    SL_TRY(sl_binding_settle(b));
    for (int stage = 0; stage < b->stages; stage++) {
        int count = sl_model_list(&whole, stage, b->stages, NULL);
        sl_parameter *list;
        sl_status status = SL_OK;
        SL_TRY(sl_alloc(&list, (size_t)count, sizeof *list));
        sl_model_list(&whole, stage, b->stages, list);
        for (int i = 0; i < count && status == SL_OK; i++)
            status = visit_one(b, stage, i, &list[i], value, visit, object);
        sl_free(list);
        SL_TRY(status);
    }
    return SL_OK;
}

static sl_status add_to_hash(void *hash, const sl_parameter *tensor, const float *full) {
    sl_hash_add(hash, full, tensor->count);
    return SL_OK;
}

sl_status sl_binding_hash(sl_binding *b, uint64_t *hash) {
    sl_hash *h = NULL;
    SL_TRY(sl_hash_open(&h));
    sl_status status = sl_binding_each(b, SL_VALUE_WEIGHT, add_to_hash, h);
    *hash = sl_hash_value(h);
    sl_hash_close(h);
    return status;
}
