/* After a stage's last W: sums its gradients over its holders, and joins the tied embedding's two
 * accumulators. Both run during the ops if MPI allows several threads. */
#include "base/memory.h"
#include "run/binding/binding_inside.h"

#include <string.h>

/* ---- the head's accumulator on its way to the first stage ---- */

static int passes_along(const sl_binding *b) {
    return b->passes && sl_group_threads(b->groups->pipeline);
}

sl_status sl_binding_to_host(sl_binding *b, float *values, size_t count, float **host) {
    *host = values;
    if (b->device->host_memory)
        return SL_OK;
    *host = b->head;
    b->device->read(b->device, b->head, values, count * sizeof *values);
    return b->device->finish(b->device);
}

/* Of the whole batch at its sender; a buffer at its receiver. */
static sl_status head_gradient(sl_binding *b, float **host) {
    const sl_held *last = sl_binding_held_of(b, b->stages - 1);
    *host = b->head;
    return last ? sl_binding_to_host(b, last->tied->gradient, last->tied->count, host) : SL_OK;
}

static size_t head_bytes(const sl_binding *b) {
    const sl_held *first = sl_binding_held_of(b, 0), *last = sl_binding_held_of(b, b->stages - 1);
    return (first ? &first->list[0] : last->tied)->count * sizeof(float);
}

static sl_status start_head(sl_binding *b) {
    float *host;
    SL_TRY(sl_passing_finish(&b->passing)); /* the buffer is free */
    SL_TRY(head_gradient(b, &host));
    return sl_passing_start(&b->passing, b->groups->pipeline, sl_binding_rank_of(b, b->stages - 1),
                            sl_binding_rank_of(b, 0), host, head_bytes(b));
}

/* Of two copies on this rank: the later one adds the second's gradients to the first's. */
static sl_status twin_added(const sl_held *h, sl_time end) {
    const sl_binding *b = h->binding;
    const sl_held *second = sl_binding_is_second(h) ? h : h->twin, *first = second->twin;
    if (h == second)
        sl_reducer_ready(b->reducer, second->index, end);
    if (h->twin->left > 0)
        return SL_OK;
    for (int i = 0; i < first->parameters; i++)
        b->device->add(b->device, first->list[i].count, second->list[i].gradient, first->list[i].gradient);
    SL_TRY(b->device->finish(b->device)); /* another thread sums them next */
    sl_reducer_ready(b->reducer, first->index, end);
    return SL_OK;
}

/* The sender starts when the accumulator is complete. The receiver, whose thread polls for the message,
 * starts when it has one microbatch left: by then the last stage has long finished. */
sl_status sl_binding_weights_added(sl_held *h, sl_time end) {
    sl_binding *b = h->binding;
    if (h->left == 0 && h->twin)
        return twin_added(h, end);
    if (h->left == 0 && b->reducer)
        sl_reducer_ready(b->reducer, h->index, end);
    if (h->left == 0 && h->stage == b->stages - 1 && b->holders == 1 && passes_along(b))
        return start_head(b);
    int early = b->shape.microbatches > 1 ? b->shape.parts : 0; /* parts that are left then */
    if (h->left == early && h->stage == 0 && passes_along(b))
        return start_head(b);
    return SL_OK;
}

/* The head's accumulator is summed separately: it is added to the embedding's on the first stage, after both
 * are summed over all holders (docs/design.md, rule 4). */
static sl_status sum_holders(sl_binding *b, const sl_held *h) {
    if (h->tied) {
        SL_TRY(sl_reduce_gradients(&b->reduce, &h->head, h->tied, 1));
        if (passes_along(b))
            SL_TRY(start_head(b));
    }
    return sl_reduce_gradients(&b->reduce, sl_binding_cut(b, h->stage), h->list, !b->run->parallel.zero);
}

/* Of a held stage, for the reducer. */
static sl_status sum_stage(void *binding, int index) {
    sl_binding *b = binding;
    sl_held *h = &b->held[index];
    if (b->holders > 1 && !sl_binding_is_second(h))
        SL_TRY(sum_holders(b, h));
    if (index > 0) /* the rank takes those of the last one: it waits for it and has more threads */
        SL_TRY(sl_binding_take_squares(b, h, 1));
    return SL_OK;
}

sl_status sl_binding_open_sums(sl_binding *b) {
    sl_group *data = b->groups->data;
    const sl_held *first = sl_binding_held_of(b, 0), *last = sl_binding_held_of(b, b->stages - 1);
    b->passes = b->config.tied && sl_binding_rank_of(b, 0) != sl_binding_rank_of(b, b->stages - 1);
    if (b->passes && (first || (last && !b->device->host_memory)))
        SL_TRY(sl_alloc(&b->head, head_bytes(b) / sizeof(float), sizeof(float)));
    for (int h = 0; h < b->helds && b->holders > 1; h++)
        if (b->held[h].tied)
            SL_TRY(sl_shares_make(b->held[h].tied, 1, b->holders, &b->held[h].head));
    SL_TRY(sl_reduce_open(b->device, data, &b->reduce));
    if (b->holders == 1 && b->helds == 1)
        return SL_OK; /* there is nothing to do during the ops */
    int threaded = b->holders == 1 || sl_group_threads(data);
    return sl_reducer_open(b->helds, threaded, sum_stage, b, &b->reducer);
}

void sl_binding_close_sums(sl_binding *b) {
    for (int h = 0; h < b->helds; h++)
        sl_shares_free(&b->held[h].head);
    sl_reduce_close(&b->reduce);
    sl_free(b->head);
}

sl_status sl_binding_reduce(sl_binding *b, sl_reduction *times) {
    memset(times, 0, (size_t)b->helds * sizeof *times);
    if (b->reducer)
        SL_TRY(sl_reducer_finish(b->reducer, times));
    if (b->holders == 1)
        memset(times, 0, (size_t)b->helds * sizeof *times); /* nothing was summed */
    for (int h = 0; h < b->helds; h++)
        SL_TRY(sl_binding_take_squares(b, &b->held[h], 0));
    return SL_OK;
}

/* Always as one addition on the first stage (docs/design.md, rule 4). */
static sl_status join_head(sl_binding *b) {
    const sl_held *first = sl_binding_held_of(b, 0), *last = sl_binding_held_of(b, b->stages - 1);
    if (b->stages == 1 && b->holders == 1)
        return sl_model_add_own_head(first->model);
    if (passes_along(b))
        SL_TRY(sl_passing_finish(&b->passing));
    else if (b->passes && (first || last)) {
        float *host;
        SL_TRY(head_gradient(b, &host));
        SL_TRY(sl_group_pass(b->groups->pipeline, sl_binding_rank_of(b, b->stages - 1),
                             sl_binding_rank_of(b, 0), host, head_bytes(b)));
    }
    if (!first)
        return SL_OK;
    return last ? sl_model_add_head(first->model, last->tied->gradient, 0)
                : sl_model_add_head(first->model, b->head, 1);
}

sl_status sl_binding_join(sl_binding *b) {
    return b->config.tied ? join_head(b) : SL_OK;
}
