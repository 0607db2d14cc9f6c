/* Positions of the blocks of all stages: shares over the holders, slices over the tensor ranks, and the
 * canonical order in which the norm adds their squares. */
#include "base/memory.h"
#include "run/binding/binding_inside.h"

#include <string.h>

static sl_status list_stage(const sl_model_config *config, int stage, int stages, sl_parameter **list,
                            int *count) {
    *count = sl_model_list(config, stage, stages, NULL);
    SL_TRY(sl_alloc(list, (size_t)*count, sizeof **list));
    sl_model_list(config, stage, stages, *list);
    return SL_OK;
}

sl_status sl_binding_cut_stage(const sl_model_config *config, int stage, int stages, int holders,
                               sl_shares *cut) {
    sl_parameter *list;
    int count;
    SL_TRY(list_stage(config, stage, stages, &list, &count));
    sl_status status = sl_shares_make(list, count, holders, cut);
    sl_free(list);
    return status;
}

/* The blocks of one parameter of a stage, tensor rank after tensor rank. */
static void position_blocks(sl_binding *b, sl_plot *plots, int i, int is_cut) {
    for (int tensor = 0; tensor < b->run->parallel.tensor; tensor++) {
        const sl_shares *cut = &plots[tensor].cut;
        plots[tensor].position[i] = SL_NO_POSITION;
        if (tensor > 0 && !is_cut)
            continue;
        plots[tensor].position[i] = b->all_blocks;
        b->all_blocks += cut->first[i + 1] - cut->first[i];
    }
}

static sl_status plot_stage(sl_binding *b, int stage) {
    int tensors = b->run->parallel.tensor, count;
    const int holders = sl_run_holders(b->run, sl_binding_rank_of(b, stage));
    sl_plot *plots = &b->plot[stage * tensors];
    sl_parameter *list;
    for (int tensor = 0; tensor < tensors; tensor++) {
        sl_model_config config = b->config;
        config.tensor.rank = tensor;
        SL_TRY(sl_binding_cut_stage(&config, stage, b->stages, holders, &plots[tensor].cut));
        SL_TRY(sl_alloc(&plots[tensor].position, (size_t)plots[tensor].cut.parameters,
                        sizeof *plots[tensor].position));
    }
    SL_TRY(list_stage(&b->config, stage, b->stages, &list, &count));
    for (int i = 0; i < count; i++)
        position_blocks(b, plots, i, list[i].axis != SL_AXIS_NONE);
    sl_free(list);
    return SL_OK;
}

sl_status sl_binding_plot(sl_binding *b) {
    SL_TRY(sl_alloc(&b->plot, (size_t)b->stages * (size_t)b->run->parallel.tensor, sizeof *b->plot));
    for (int stage = 0; stage < b->stages; stage++)
        SL_TRY(plot_stage(b, stage));
    return SL_OK;
}

void sl_binding_close_plot(sl_binding *b) {
    for (int i = 0; b->plot && i < b->stages * b->run->parallel.tensor; i++) {
        sl_shares_free(&b->plot[i].cut);
        sl_free(b->plot[i].position);
    }
    sl_free(b->plot);
}

const sl_shares *sl_binding_cut(const sl_binding *b, int stage) {
    return &b->plot[stage * b->run->parallel.tensor + b->groups->position.tensor].cut;
}

void sl_binding_updated(const sl_binding *b, int stage, size_t *begin, size_t *end) {
    const sl_shares *cut = sl_binding_cut(b, stage);
    *begin = b->run->parallel.zero ? sl_shares_begin(cut, b->holder) : 0;
    *end = b->run->parallel.zero ? sl_shares_begin(cut, b->holder + 1) : cut->first[cut->parameters];
}

sl_status sl_binding_open_moments(sl_binding *b, sl_held *held) {
    if (!b->run->parallel.zero)
        return SL_OK;
    size_t bytes = sl_shares_elements(sl_binding_cut(b, held->stage), b->holder) * sizeof(float);
    for (int m = 0; m < 2; m++) {
        SL_TRY(sl_arena_take(b->arena, bytes, SL_ARENA_LOW, "optimizer state", &held->moment[m]));
        b->device->zero(b->device, held->moment[m], bytes);
    }
    return SL_OK;
}
