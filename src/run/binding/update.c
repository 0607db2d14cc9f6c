/* Between the last W and the next iteration: gradients are summed over the replicas, the tied embedding's two
 * accumulators meet, the norm is taken over all ranks, and each rank updates what it holds. */
#include "base/memory.h"
#include "run/binding/binding_inside.h"

#include <math.h>
#include <string.h>

/* ---- opening ---- */

static sl_status open_reducer(sl_binding *b) {
    sl_group *data = b->groups->data;
    if (b->run->parallel.data == 1)
        return SL_OK;
    for (int h = 0; h < b->helds; h++)
        if (b->held[h].tied)
            SL_TRY(sl_shares_make(b->held[h].tied, 1, b->run->parallel.data, &b->held[h].head));
    SL_TRY(sl_reduce_open(data, &b->reduce));
    return sl_reducer_open(b->helds, sl_group_threads(data), sl_binding_sum_stage, b, &b->reducer);
}

sl_status sl_binding_open_update(sl_binding *b) {
    sl_model_stage *first = sl_binding_model_of(b, 0);
    SL_TRY(sl_alloc(&b->squares, b->all_blocks, sizeof *b->squares));
    SL_TRY(sl_alloc(&b->gathered, b->all_blocks, sizeof *b->gathered));
    SL_TRY(sl_alloc(&b->all_squares, b->all_blocks, sizeof *b->all_squares));
    if (b->config.tied && first && !sl_binding_model_of(b, b->stages - 1))
        SL_TRY(sl_alloc(&b->head, sl_model_embedding(first)->count, sizeof(float)));
    return open_reducer(b);
}

void sl_binding_close_update(sl_binding *b) {
    for (int h = 0; h < b->helds; h++)
        sl_shares_free(&b->held[h].head);
    for (int i = 0; b->plot && i < b->stages * b->run->parallel.tensor; i++) {
        sl_shares_free(&b->plot[i].cut);
        sl_free(b->plot[i].place);
    }
    sl_reduce_close(&b->reduce);
    sl_free(b->plot);
    sl_free(b->squares);
    sl_free(b->gathered);
    sl_free(b->all_squares);
    sl_free(b->head);
}

/* ---- sums over replicas ---- */

/* The head's accumulator is summed apart: it meets the embedding's on the first stage, as sums of all
 * replicas (docs/design.md, rule 4). */
sl_status sl_binding_sum_stage(void *binding, int index) {
    sl_binding *b = binding;
    const sl_held *h = &b->held[index];
    if (h->tied)
        SL_TRY(sl_reduce_gradients(&b->reduce, &h->head, h->tied, 1));
    return sl_reduce_gradients(&b->reduce, sl_binding_cut(b, h->stage), h->list, !b->run->parallel.zero);
}

int sl_binding_stage_at(const sl_binding *b, int index) {
    return index < b->helds ? b->held[index].stage : -1;
}

sl_status sl_binding_reduce(sl_binding *b, sl_reduction *times) {
    memset(times, 0, (size_t)b->helds * sizeof *times);
    return b->reducer ? sl_reducer_finish(b->reducer, times) : SL_OK;
}

/* ---- the tied embedding ---- */

/* The head's accumulator meets the embedding's on the first stage, always as one addition (docs/design.md,
 * rule 4). */
static sl_status join_head(sl_binding *b) {
    int from = sl_binding_rank_of(b, b->stages - 1), to = sl_binding_rank_of(b, 0);
    const sl_held *first = sl_binding_held_of(b, 0), *last = sl_binding_held_of(b, b->stages - 1);
    if (b->stages == 1 && b->run->parallel.data == 1)
        return sl_model_add_own_head(first->model);
    float *gradient = last ? last->tied->gradient : b->head;
    if (from != to && (first || last)) {
        const sl_parameter *mine = first ? &first->list[0] : last->tied;
        SL_TRY(sl_group_pass(b->groups->pipeline, from, to, gradient, mine->count * sizeof(float)));
    }
    return first ? sl_model_add_head(first->model, gradient) : SL_OK;
}

sl_status sl_binding_join(sl_binding *b) {
    return b->config.tied ? join_head(b) : SL_OK;
}

/* The new weight of the embedding to the head's copy. */
static sl_status copy_to_head(sl_binding *b) {
    if (!b->config.tied)
        return SL_OK;
    int from = sl_binding_rank_of(b, 0), to = sl_binding_rank_of(b, b->stages - 1);
    const sl_held *first = sl_binding_held_of(b, 0), *last = sl_binding_held_of(b, b->stages - 1);
    if (!first && !last)
        return SL_OK;
    const sl_parameter *source = first ? &first->list[0] : NULL, *copy = last ? last->tied : NULL;
    if (from != to)
        return sl_group_pass(b->groups->pipeline, from, to, copy ? copy->weight : source->weight,
                             (copy ? copy : source)->count * sizeof(float));
    if (copy->weight != source->weight)
        memcpy(copy->weight, source->weight, source->count * sizeof(float));
    return SL_OK;
}

/* ---- norm and step ---- */

/* Blocks of parameter i in share `replica`: [*from, returned). */
static size_t share_of(const sl_shares *cut, int i, int replica, size_t *from) {
    size_t begin = sl_shares_begin(cut, replica), end = sl_shares_begin(cut, replica + 1);
    *from = cut->first[i] > begin ? cut->first[i] : begin;
    end = cut->first[i + 1] < end ? cut->first[i + 1] : end;
    return end > *from ? end : *from;
}

/* Sums of squares of the blocks of this rank's shares, stage by stage, one parameter after the other. */
static size_t own_squares(sl_binding *b) {
    size_t done = 0;
    const sl_seat *seat = &b->groups->seat;
    for (int h = 0; h < b->helds; h++) {
        const sl_plot *plot = &b->plot[b->held[h].stage * b->run->parallel.tensor + seat->tensor];
        const sl_parameter *parameter = b->held[h].list;
        for (int i = 0; i < b->held[h].parameters; i++) {
            size_t from, end = share_of(&plot->cut, i, seat->replica, &from), at, position;
            size_t piece = sl_shares_piece(&plot->cut, i, from, end, &at, &position);
            if (plot->place[i] == SL_NO_PLACE)
                continue;
            sl_norm_squares_divided(b->device->threads, parameter[i].gradient + at, piece, b->squares + done);
            done += end - from;
        }
    }
    return done;
}

/* What a rank gave, stage by stage, to where its blocks belong. */
static const double *sort_rank(sl_binding *b, sl_seat seat, const double *from) {
    for (int stage = 0; stage < b->stages; stage++) {
        const sl_plot *plot = &b->plot[stage * b->run->parallel.tensor + seat.tensor];
        if (sl_binding_rank_of(b, stage) != seat.pipeline)
            continue;
        for (int i = 0; i < plot->cut.parameters; i++) {
            size_t first, end = share_of(&plot->cut, i, seat.replica, &first);
            if (plot->place[i] == SL_NO_PLACE)
                continue;
            memcpy(b->all_squares + plot->place[i] + first - plot->cut.first[i], from,
                   (end - first) * sizeof *from);
            from += end - first;
        }
    }
    return from;
}

static void sort_squares(sl_binding *b) {
    const double *from = b->gathered;
    for (int rank = 0; rank < sl_run_ranks(b->run); rank++)
        from = sort_rank(b, sl_run_seat(b->run, rank), from);
}

static sl_status global_norm(sl_binding *b, double *norm) {
    size_t own = own_squares(b);
    SL_TRY(sl_group_gather_all(b->groups->world, b->squares, own * sizeof(double), b->gathered,
                               b->all_blocks * sizeof(double), NULL));
    sort_squares(b);
    *norm = sl_norm_total(b->all_squares, b->all_blocks);
    return SL_OK;
}

static sl_status step_stage(sl_binding *b, const sl_held *h, int iteration, float factor) {
    size_t begin, end, at, position, done = 0;
    sl_binding_updated(b, h->stage, &begin, &end);
    for (int i = 0; i < h->parameters; i++) {
        const sl_parameter *p = &h->list[i];
        size_t piece = sl_shares_piece(sl_binding_cut(b, h->stage), i, begin, end, &at, &position);
        float *moment1 = h->moment[0] ? h->moment[0] + done : p->moment1 + at;
        float *moment2 = h->moment[1] ? h->moment[1] + done : p->moment2 + at;
        done += piece;
        if (piece)
            sl_optimizer_step(&b->optimizer, iteration, factor, p->rows > 0, piece, p->gradient + at,
                              p->weight + at, moment1, moment2);
        if (!b->run->parallel.zero) /* else the rest of it is still to come */
            SL_TRY(sl_model_weight_changed(h->model, i));
    }
    return SL_OK;
}

/* ZeRO: each replica has updated its share; the weights of the others come back. */
static sl_status gather_weights(sl_binding *b, const sl_held *h) {
    return b->run->parallel.zero && b->reducer
               ? sl_reduce_weights(&b->reduce, sl_binding_cut(b, h->stage), h->list)
               : SL_OK;
}

sl_status sl_binding_update(sl_binding *b, int iteration) {
    double norm;
    SL_TRY(global_norm(b, &norm));
    if (!isfinite(norm))
        return sl_error(SL_ENONE,
                        "iteration %d: the gradient norm is not finite; a smaller optimizer.lr may help",
                        iteration);
    float factor = sl_norm_clip(norm, b->run->optimizer.clip);
    for (int h = 0; h < b->helds; h++)
        SL_TRY(step_stage(b, &b->held[h], iteration, factor));
    for (int h = 0; h < b->helds; h++)
        SL_TRY(gather_weights(b, &b->held[h]));
    SL_TRY(copy_to_head(b));
    for (int h = 0; h < b->helds; h++)
        SL_TRY(sl_model_weights_changed(b->held[h].model));
    return SL_OK;
}
