/* The gradient norm over all ranks and its clip factor: each rank takes the sums of squares of its blocks as
 * soon as a stage's gradients are complete, and the world combines them. */
#include "base/memory.h"
#include "run/binding/binding_inside.h"

#include <math.h>
#include <string.h>

/* Blocks of parameter i in share `holder`: [*from, returned). */
static size_t share_of(const sl_shares *cut, int i, int holder, size_t *from) {
    size_t begin = sl_shares_begin(cut, holder), end = sl_shares_begin(cut, holder + 1);
    *from = cut->first[i] > begin ? cut->first[i] : begin;
    end = cut->first[i + 1] < end ? cut->first[i + 1] : end;
    return end > *from ? end : *from;
}

static const sl_plot *plot_of(const sl_binding *b, const sl_held *h) {
    return &b->plot[h->stage * b->run->parallel.tensor + b->groups->position.tensor];
}

/* Number of blocks of a held stage whose squares this rank takes. */
static size_t count_squares(const sl_binding *b, const sl_held *h) {
    const sl_plot *plot = plot_of(b, h);
    size_t all = 0, from;
    for (int i = 0; i < h->parameters; i++)
        if (plot->position[i] != SL_NO_POSITION)
            all += share_of(&plot->cut, i, b->holder, &from) - from;
    return all;
}

sl_status sl_binding_open_clip(sl_binding *b) {
    for (int h = 0; h < b->helds; h++) {
        b->held[h].squares = b->own_squares;
        if (!sl_binding_is_second(&b->held[h]))
            b->own_squares += count_squares(b, &b->held[h]);
    }
    SL_TRY(sl_alloc(&b->squares, b->all_blocks, sizeof *b->squares));
    SL_TRY(sl_alloc(&b->gathered, b->all_blocks, sizeof *b->gathered));
    return sl_alloc(&b->all_squares, b->all_blocks, sizeof *b->all_squares);
}

void sl_binding_close_clip(sl_binding *b) {
    SL_FREE(b->squares, b->gathered, b->all_squares);
}

/* Of `count` elements of a gradient, through the stage's scratch; blocks are whole but for the last. */
static void take_piece(sl_binding *b, const sl_held *h, int threads, const float *gradient, size_t count,
                       double *out) {
    size_t bytes;
    double *room = sl_model_scratch(h->model, &bytes);
    const size_t most = bytes / sizeof *room * SL_NORM_BLOCK;
    for (size_t at = 0; at < count; at += most) {
        const size_t n = count - at < most ? count - at : most;
        b->device->squares(b->device, threads, n, gradient + at, room);
        b->device->read(b->device, out + at / SL_NORM_BLOCK, room, sl_norm_blocks(n) * sizeof *room);
    }
}

/* Of parameters [first, end) of a held stage. */
static sl_status take(sl_binding *b, const sl_held *h, int first, int end, int threads) {
    const sl_plot *plot = plot_of(b, h);
    double *out = b->squares + h->squares;
    for (int i = 0; i < end; i++) {
        size_t from, blocks = share_of(&plot->cut, i, b->holder, &from) - from, at, position;
        size_t piece = sl_shares_piece(&plot->cut, i, from, from + blocks, &at, &position);
        if (plot->position[i] == SL_NO_POSITION)
            continue;
        if (i >= first)
            take_piece(b, h, threads, h->list[i].gradient + at, piece, out);
        out += blocks;
    }
    return b->device->finish(b->device);
}

/* A tied embedding's gradient is complete only after the head's accumulator has been added. */
static int joined_later(const sl_binding *b, const sl_held *h) {
    return b->config.tied && h->stage == 0;
}

sl_status sl_binding_take_squares(sl_binding *b, sl_held *h, int threads) {
    if (!h->squared && !sl_binding_is_second(h))
        SL_TRY(take(b, h, joined_later(b, h), h->parameters, threads));
    h->squared = 1;
    return SL_OK;
}

/* Sorts a rank's data, stage by stage, to the positions of its blocks. */
static const double *sort_rank(sl_binding *b, sl_run_position position, const double *from) {
    for (int stage = 0; stage < b->stages; stage++) {
        const sl_plot *plot = &b->plot[stage * b->run->parallel.tensor + position.tensor];
        if (!sl_binding_holds(b, position.pipeline, stage))
            continue;
        for (int i = 0; i < plot->cut.parameters; i++) {
            size_t first, end = share_of(&plot->cut, i, sl_run_holder(b->run, position), &first);
            if (plot->position[i] == SL_NO_POSITION)
                continue;
            memcpy(b->all_squares + plot->position[i] + first - plot->cut.first[i], from,
                   (end - first) * sizeof *from);
            from += end - first;
        }
    }
    return from;
}

static void sort_squares(sl_binding *b) {
    const double *from = b->gathered;
    for (int rank = 0; rank < sl_run_ranks(b->run); rank++)
        from = sort_rank(b, sl_run_position_of(b->run, rank), from);
}

static sl_status global_norm(sl_binding *b, double *norm) {
    const sl_held *first = sl_binding_held_of(b, 0);
    if (first && joined_later(b, first))
        SL_TRY(take(b, first, 0, 1, 0));
    SL_TRY(sl_group_gather_all(b->groups->world, b->squares, b->own_squares * sizeof(double), b->gathered,
                               b->all_blocks * sizeof(double), NULL));
    sort_squares(b);
    *norm = sl_norm_total(b->all_squares, b->all_blocks);
    return SL_OK;
}

sl_status sl_binding_clip(sl_binding *b) {
    double norm;
    SL_TRY(global_norm(b, &norm));
    if (!isfinite(norm))
        return sl_error(SL_ENONE,
                        "iteration %d: the gradient norm is not finite; a smaller optimizer.lr may help",
                        b->iteration);
    b->due_iteration = b->iteration;
    b->factor = sl_norm_clip(norm, b->run->optimizer.clip);
    b->copy_due = b->passes && (sl_binding_held_of(b, 0) || sl_binding_held_of(b, b->stages - 1));
    for (int h = 0; h < b->helds; h++)
        b->held[h].due = 1;
    return SL_OK;
}
