/* The update of the weights by the clip factor: each rank makes a stage's update right before the stage's
 * first F of the next iteration, which others may already have begun. Stages go in ascending order on every
 * rank, since the first F of one feeds that of a later one. So all ranks enter the collectives in here,
 * ZeRO's gather over the holders and the tied head's copy of the embedding, in the same order, and one of a
 * stage waits only for those of earlier stages. */
#include "run/binding/binding_inside.h"

static sl_status step_stage(sl_binding *b, const sl_held *h) {
    size_t begin, end, at, position, done = 0;
    sl_binding_updated(b, h->stage, &begin, &end);
    for (int i = 0; i < h->parameters; i++) {
        const sl_parameter *p = &h->list[i];
        size_t piece = sl_shares_piece(sl_binding_cut(b, h->stage), i, begin, end, &at, &position);
        float *moment1 = h->moment[0] ? h->moment[0] + done : p->moment1 + at;
        float *moment2 = h->moment[1] ? h->moment[1] + done : p->moment2 + at;
        done += piece;
        if (piece)
            sl_optimizer_step(&b->optimizer, b->device, b->due_iteration, b->factor, p->rows > 0, piece,
                              p->gradient + at, p->weight + at, moment1, moment2);
        if (!b->run->parallel.zero && !b->leaving) /* with ZeRO the rest of it is still to come */
            SL_TRY(sl_model_weight_changed(h->model, i));
    }
    return SL_OK;
}

/* ZeRO: each holder has updated its share; gathers the weights of the others. */
static sl_status gather_weights(sl_binding *b, const sl_held *h) {
    return b->run->parallel.zero && b->holders > 1
               ? sl_reduce_weights(&b->reduce, sl_binding_cut(b, h->stage), h->list)
               : SL_OK;
}

/* Passes the embedding's new weight to the head's copy on another rank. The first rank sends it during its
 * ops if it can. The last one receives it before its first op of any stage: if it waited for the stage's
 * turn, a first rank that cannot send during its ops would wait for it, and it for that rank's messages. */
static sl_status pass_copy(sl_binding *b) {
    const sl_held *first = sl_binding_held_of(b, 0), *last = sl_binding_held_of(b, b->stages - 1);
    int from = sl_binding_rank_of(b, 0), to = sl_binding_rank_of(b, b->stages - 1);
    const sl_parameter *mine = first ? &first->list[0] : last->tied;
    const size_t bytes = mine->count * sizeof(float);
    sl_group *pipeline = b->groups->pipeline;
    float *host = b->device->host_memory ? mine->weight : b->head;
    b->copy_due = 0;
    SL_TRY(sl_passing_finish(&b->passing)); /* the buffer is free */
    if (first)
        SL_TRY(sl_binding_to_host(b, mine->weight, mine->count, &host));
    if (first && sl_group_threads(pipeline))
        return sl_passing_start(&b->passing, pipeline, from, to, host, bytes);
    SL_TRY(sl_group_pass(pipeline, from, to, host, bytes));
    if (first || host == mine->weight)
        return SL_OK;
    b->device->write(b->device, mine->weight, host, bytes);
    return b->device->finish(b->device);
}

/* The same if both are on this rank. */
static void copy_here(const sl_binding *b, const sl_held *h) {
    const sl_held *first = sl_binding_held_of(b, 0);
    if (h->tied && first && h->tied->weight != first->list[0].weight)
        b->device->copy(b->device, h->tied->weight, first->list[0].weight, h->tied->count * sizeof(float));
}

/* The second of two copies on this rank. */
static sl_status take_over(const sl_held *h) {
    const sl_device *device = h->binding->device;
    SL_TRY(sl_binding_update_stage(h->twin));
    for (int i = 0; i < h->parameters; i++)
        device->copy(h->binding->device, h->list[i].weight, h->twin->list[i].weight,
                     h->list[i].count * sizeof(float));
    return sl_model_weights_changed(h->model);
}

sl_status sl_binding_update_stage(sl_held *h) {
    sl_binding *b = h->binding;
    if (!h->due)
        return SL_OK;
    h->due = 0;
    if (sl_binding_is_second(h))
        return take_over(h);
    SL_TRY(step_stage(b, h));
    SL_TRY(gather_weights(b, h));
    if (b->copy_due)
        SL_TRY(pass_copy(b));
    copy_here(b, h);
    return b->leaving ? SL_OK : sl_model_weights_changed(h->model);
}

sl_status sl_binding_settle(sl_binding *b) {
    for (int h = 0; h < b->helds; h++)
        SL_TRY(sl_binding_update_stage(&b->held[h]));
    SL_TRY(b->device->finish(b->device));
    return sl_passing_finish(&b->passing); /* its group is free for others */
}

sl_status sl_binding_settle_last(sl_binding *b) {
    b->leaving = 1;
    return sl_binding_settle(b);
}
