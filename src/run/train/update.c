/* Between the last W and the next iteration: gradients are summed over the replicas, the tied embedding's two
 * accumulators meet, the norm is taken over all ranks, and each rank updates what it holds. */
#include "base/memory.h"
#include "run/train/binding_inside.h"

#include <math.h>
#include <string.h>

/* ---- opening ---- */

/* Shares of every stage of the model: each parameter begins a new block. */
static sl_status cut_stages(sl_binding *b) {
    SL_TRY(sl_alloc(&b->blocks, (size_t)b->stages, sizeof *b->blocks));
    for (int stage = 0; stage < b->stages; stage++) {
        sl_parameter *list;
        int count = sl_model_list(&b->config, stage, b->stages, NULL);
        SL_TRY(sl_alloc(&list, (size_t)count, sizeof *list));
        sl_model_list(&b->config, stage, b->stages, list);
        sl_status status = sl_shares_make(list, count, b->run->parallel.data, &b->blocks[stage]);
        sl_free(list);
        SL_TRY(status);
        b->all_blocks += b->blocks[stage].first[count];
    }
    return SL_OK;
}

static sl_status open_reducer(sl_binding *b) {
    sl_model_stage *last = sl_binding_model_of(b, b->stages - 1);
    sl_group *data = b->groups->data;
    if (b->run->parallel.data == 1)
        return SL_OK;
    for (int h = 0; h < b->helds; h++)
        if (b->config.tied && b->held[h].model == last)
            SL_TRY(sl_shares_make(sl_model_head(last), 1, b->run->parallel.data, &b->held[h].head));
    SL_TRY(sl_reduce_open(data, &b->reduce));
    return sl_reducer_open(b->helds, sl_group_threads(data), sl_binding_sum_stage, b, &b->reducer);
}

sl_status sl_binding_open_update(sl_binding *b) {
    sl_model_stage *first = sl_binding_model_of(b, 0);
    SL_TRY(cut_stages(b));
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
    for (int stage = 0; b->blocks && stage < b->stages; stage++)
        sl_shares_free(&b->blocks[stage]);
    sl_reduce_close(&b->reduce);
    sl_free(b->blocks);
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
    int count;
    const sl_parameter *list = sl_model_parameters(h->model, &count);
    if (h->head.parameters > 0)
        SL_TRY(sl_reduce_gradients(&b->reduce, &h->head, sl_model_head(h->model), 1));
    return sl_reduce_gradients(&b->reduce, &b->blocks[h->stage], list, 1);
}

int sl_binding_stage_at(const sl_binding *b, int index) {
    return index < b->helds ? b->held[index].stage : -1;
}

sl_status sl_binding_reduce(sl_binding *b, sl_reduction *times) {
    if (b->reducer)
        return sl_reducer_finish(b->reducer, times);
    memset(times, 0, (size_t)b->helds * sizeof *times);
    return SL_OK;
}

/* ---- the tied embedding ---- */

/* The head's accumulator meets the embedding's on the first stage, always as one addition (docs/design.md,
 * rule 4). */
static sl_status join_head(sl_binding *b) {
    if (!b->config.tied)
        return SL_OK;
    int from = sl_binding_rank_of(b, b->stages - 1), to = sl_binding_rank_of(b, 0);
    sl_model_stage *first = sl_binding_model_of(b, 0), *last = sl_binding_model_of(b, b->stages - 1);
    float *gradient = last ? sl_model_head(last)->gradient : b->head;
    if (from != to && (first || last)) {
        const sl_parameter *mine = first ? sl_model_embedding(first) : sl_model_head(last);
        SL_TRY(sl_group_pass(b->groups->pipeline, from, to, gradient, mine->count * sizeof(float)));
    }
    return first ? sl_model_add_head(first, gradient) : SL_OK;
}

/* The new weight of the embedding to the head's copy. */
static sl_status copy_to_head(sl_binding *b) {
    if (!b->config.tied)
        return SL_OK;
    int from = sl_binding_rank_of(b, 0), to = sl_binding_rank_of(b, b->stages - 1);
    sl_model_stage *first = sl_binding_model_of(b, 0), *last = sl_binding_model_of(b, b->stages - 1);
    if (!first && !last)
        return SL_OK;
    sl_parameter *source = first ? sl_model_embedding(first) : NULL,
                 *copy = last ? sl_model_head(last) : NULL;
    if (from != to)
        return sl_group_pass(b->groups->pipeline, from, to, copy ? copy->weight : source->weight,
                             (copy ? copy : source)->count * sizeof(float));
    if (copy->weight != source->weight)
        memcpy(copy->weight, source->weight, source->count * sizeof(float));
    return SL_OK;
}

/* ---- norm and step ---- */

/* This rank's share of blocks of a stage. */
static void own_share(const sl_binding *b, int stage, size_t *begin, size_t *end) {
    *begin = sl_shares_begin(&b->blocks[stage], b->groups->seat.replica);
    *end = sl_shares_begin(&b->blocks[stage], b->groups->seat.replica + 1);
}

/* Sums of squares of the blocks of this rank's shares, stage by stage, one parameter after the other. */
static size_t own_squares(sl_binding *b) {
    size_t done = 0;
    for (int h = 0; h < b->helds; h++) {
        size_t begin, end, at, position;
        int count;
        const sl_parameter *parameter = sl_model_parameters(b->held[h].model, &count);
        own_share(b, b->held[h].stage, &begin, &end);
        for (int i = 0; i < count; i++) {
            size_t piece = sl_shares_piece(&b->blocks[b->held[h].stage], i, begin, end, &at, &position);
            sl_norm_squares(parameter[i].gradient + at, piece, b->squares + done);
            done += sl_norm_blocks(piece);
        }
    }
    return done;
}

/* From world rank by world rank, each its stages ascending, to stage by stage, share by share. */
static void sort_squares(sl_binding *b) {
    const double *from = b->gathered;
    int world = sl_run_ranks(b->run);
    for (int rank = 0; rank < world; rank++) {
        sl_seat seat = sl_run_seat(b->run, rank);
        double *stage_at = b->all_squares;
        for (int stage = 0; stage < b->stages; stage++) {
            const sl_shares *cut = &b->blocks[stage];
            size_t begin = sl_shares_begin(cut, seat.replica), end = sl_shares_begin(cut, seat.replica + 1);
            if (sl_binding_rank_of(b, stage) == seat.pipeline) {
                memcpy(stage_at + begin, from, (end - begin) * sizeof *from);
                from += end - begin;
            }
            stage_at += cut->first[cut->parameters];
        }
    }
}

static sl_status global_norm(sl_binding *b, double *norm) {
    size_t own = own_squares(b);
    SL_TRY(sl_group_gather_all(b->groups->world, b->squares, own * sizeof(double), b->gathered,
                               b->all_blocks * sizeof(double), NULL));
    sort_squares(b);
    *norm = sl_norm_total(b->all_squares, b->all_blocks);
    return SL_OK;
}

static void step_stage(sl_binding *b, sl_model_stage *model, int iteration, float factor) {
    int count;
    const sl_parameter *parameter = sl_model_parameters(model, &count);
    for (int i = 0; i < count; i++)
        sl_optimizer_step(&b->optimizer, iteration, factor, parameter[i].rows > 0, parameter[i].count,
                          parameter[i].gradient, parameter[i].weight, parameter[i].moment1,
                          parameter[i].moment2);
}

sl_status sl_binding_update(sl_binding *b, int iteration) {
    double norm;
    SL_TRY(join_head(b));
    SL_TRY(global_norm(b, &norm));
    if (!isfinite(norm))
        return sl_error(SL_ENONE,
                        "iteration %d: the gradient norm is not finite; a smaller optimizer.lr may help",
                        iteration);
    float factor = sl_norm_clip(norm, b->run->optimizer.clip);
    for (int h = 0; h < b->helds; h++)
        step_stage(b, b->held[h].model, iteration, factor);
    return copy_to_head(b);
}
