#include "base/memory.h"
#include "run/model/transformer_inside.h"

#include <math.h>
#include <string.h>

/* An iteration of a stage: F, I and W of its microbatches, and their order. */

void sl_stage_drop(sl_model_stage *s, sl_kept *k) {
    sl_arena *arena = k->away ? s->host : s->arena;
    sl_arena_give(arena, k->forward);
    sl_arena_give(arena, k->backward);
    k->forward = k->backward = NULL;
    k->away = 0;
}

/* W of the first microbatch writes the gradients of linear layers and of the head; all others are sums that
 * start from 0: vectors, embeddings, positions. */
static void clear_sums(sl_model_stage *s) {
    const int clean = s->joined; /* the embedding's accumulator, after it is back at its own address */
    if (s->joined)
        sl_stage_swap_accumulators(s);
    if (s->touched)
        memset(s->touched, 0, (size_t)s->layout.vocabulary);
    for (int i = clean ? 1 : 0; i < s->parameters; i++) {
        const sl_parameter *p = &s->parameter[i];
        if (p->rows == 0 || i < s->block_base)
            s->device->zero(s->device, p->gradient, p->count * sizeof *p->gradient);
    }
}

sl_status sl_model_begin_part(sl_model_stage *s, int microbatches, int total) {
    if (microbatches < 1 || total < microbatches)
        return sl_error(SL_EINVAL, "an iteration of %d microbatches out of %d", microbatches, total);
    SL_TRY(sl_stage_refresh(s));
    SL_TRY(sl_grow(&s->kept, &s->kept_capacity, (size_t)microbatches, sizeof *s->kept));
    for (int m = 0; m < s->microbatches; m++)
        sl_stage_drop(s, &s->kept[m]);
    for (int m = 0; m < microbatches; m++)
        s->kept[m] = (sl_kept){.loss = NAN};
    clear_sums(s);
    memset(s->next_weight, 0, sizeof s->next_weight);
    s->microbatches = microbatches;
    s->loss_scale = (float)(1.0 / ((double)total * (double)s->layout.rows));
    return SL_OK;
}

sl_status sl_model_begin(sl_model_stage *s, int microbatches) {
    return sl_model_begin_part(s, microbatches, microbatches);
}

/* ---- parts ---- */

static const sl_op_part whole_op = {.index = 0, .count = 1};

/* The units of work of an op are the halves of its blocks; a part has the units [*first, *end), as even as
 * possible. The last part always has the last unit. */
static void units_of(const sl_model_stage *s, const sl_op_part *part, int *first, int *end) {
    *first = 2 * s->layout.blocks * part->index / part->count;
    *end = 2 * s->layout.blocks * (part->index + 1) / part->count;
}

static int is_last_part(const sl_op_part *part) {
    return part->index == part->count - 1;
}

static sl_status in_turn(const sl_model_stage *s, int microbatch, const sl_op_part *part, int kind) {
    static const char *const names[] = {"F", "I", "W"};
    if (microbatch < 0 || microbatch >= s->microbatches)
        return sl_error(SL_EINVAL, "%s of microbatch %d: the iteration has %d", names[kind], microbatch,
                        s->microbatches);
    if (part->count < 1 || part->count > SL_MAX_PARTS || part->index < 0 || part->index >= part->count)
        return sl_error(SL_EINVAL, "%s of microbatch %d: part %d of %d", names[kind], microbatch, part->index,
                        part->count);
    const sl_kept *k = &s->kept[microbatch];
    /* a part of W needs that part of I, and I all of F */
    int ready = kind == SL_F   ? part->index == 0 || part->count == k->parts
                : kind == SL_I ? k->done[SL_F] == k->parts && part->count == k->parts
                               : k->done[SL_I] > part->index && part->count == k->parts;
    if (!ready || k->done[kind] != part->index)
        return sl_error(SL_EINVAL, "%s of microbatch %d is out of turn", names[kind], microbatch);
    if (k->away)
        return sl_error(SL_EINVAL, "%s of microbatch %d, which is in host memory", names[kind], microbatch);
    return SL_OK;
}

/* F's kept data of block b, for I and W: the original, or recomputed by I. */
static float *block_kept(const sl_model_stage *s, const sl_kept *k, int b) {
    const sl_layout *l = &s->layout;
    float *from = l->recompute ? k->backward + l->again : k->forward + l->block_kept;
    return from + (size_t)b * l->block_forward;
}

static size_t residual_floats(const sl_model_stage *s) {
    return (size_t)s->layout.rows * (size_t)s->config.width;
}

static void copy_residual(const sl_model_stage *s, float *to, const float *from) {
    s->device->copy(s->device, to, from, residual_floats(s) * sizeof *to);
}

/* From the message that the host received, and to the one that it will send. */
static void take_in(const sl_model_stage *s, float *to, const float *message) {
    s->device->write(s->device, to, message, residual_floats(s) * sizeof *to);
}

static void give_out(const sl_model_stage *s, float *message, const float *from) {
    s->device->read(s->device, message, from, residual_floats(s) * sizeof *message);
}

static float *input_of_block(const sl_model_stage *s, float *kept, int b) {
    return kept + s->layout.inputs + (size_t)b * residual_floats(s);
}

static sl_status enter(sl_model_stage *s, const uint16_t *tokens, const float *input, float *kept) {
    float *x = s->scratch + s->layout.x;
    if (s->layout.is_first)
        return sl_stage_embed(s, tokens, kept);
    take_in(s, x, input);
    return SL_OK;
}

/* Buffer of the residual stream between two parts of F: the space for the next unit's normalized input, which
 * has that size and is not used yet. */
static float *kept_activation(const sl_model_stage *s, int unit, float *kept) {
    const sl_layout *l = &s->layout;
    if (l->recompute)
        return unit % 2 ? kept + l->rest : input_of_block(s, kept, unit / 2);
    return kept + l->block_kept + (size_t)(unit / 2) * l->block_forward + l->half[unit % 2].normal;
}

/* A unit of F: the block's kept data are dropped immediately if they will be recomputed. */
static sl_status forward_unit(sl_model_stage *s, int unit, float *kept) {
    const sl_layout *l = &s->layout;
    const float *x = s->scratch + l->x;
    int b = unit / 2;
    sl_half half = unit % 2 ? SL_HALF_MLP : SL_HALF_ATTENTION;
    if (!l->recompute)
        return sl_block_forward(s, b, half, kept + l->block_kept + (size_t)b * l->block_forward);
    if (half == SL_HALF_ATTENTION)
        copy_residual(s, input_of_block(s, kept, b), x);
    return sl_block_forward(s, b, half, s->scratch + l->once);
}

static sl_status pass(sl_model_stage *s, const sl_op_part *part, const uint16_t *tokens,
                      const uint16_t *targets, const float *input, float *output, float *kept, double *sum) {
    float *x = s->scratch + s->layout.x;
    int first, end;
    units_of(s, part, &first, &end);
    if (part->index == 0)
        SL_TRY(enter(s, tokens, input, kept));
    else
        copy_residual(s, x, kept_activation(s, first, kept));
    for (int unit = first; unit < end; unit++)
        SL_TRY(forward_unit(s, unit, kept));
    if (!is_last_part(part))
        copy_residual(s, kept_activation(s, end, kept), x);
    else if (s->layout.is_last)
        return sl_stage_loss(s, targets, kept, sum);
    else
        give_out(s, output, x);
    return SL_OK;
}

static sl_status check_pointers(const sl_model_stage *s, const sl_op_part *part, const void *first,
                                const void *last, const void *before, const void *after, const char *op) {
    const sl_layout *l = &s->layout;
    if ((part->index > 0 || (l->is_first ? first : before)) &&
        (!is_last_part(part) || (l->is_last ? last : after)))
        return SL_OK;
    return sl_error(SL_EINVAL, "%s: a buffer is missing", op);
}

sl_status sl_model_forward_part(sl_model_stage *s, int microbatch, sl_op_part part, const uint16_t *tokens,
                                const uint16_t *targets, const float *input, float *output) {
    SL_TRY(in_turn(s, microbatch, &part, SL_F));
    SL_TRY(check_pointers(s, &part, tokens, targets, input, output, "F"));
    sl_kept *k = &s->kept[microbatch];
    if (part.index == 0)
        SL_TRY(sl_arena_take(s->arena, s->forward_bytes, SL_ARENA_LOW, "F of a microbatch", &k->forward));
    k->parts = part.count;
    k->done[SL_F]++;
    return pass(s, &part, tokens, targets, input, output, k->forward, &k->loss);
}

sl_status sl_model_evaluate(sl_model_stage *s, const uint16_t *tokens, const uint16_t *targets,
                            const float *input, float *output, double *loss) {
    float *kept;
    double sum = 0;
    SL_TRY(check_pointers(s, &whole_op, tokens, targets, input, output, "validation"));
    SL_TRY(sl_stage_refresh(s));
    SL_TRY(sl_arena_take(s->arena, s->forward_bytes, SL_ARENA_LOW, "a validation pass", &kept));
    sl_status status = pass(s, &whole_op, tokens, targets, input, output, kept, &sum);
    SL_THEN(status, s->device->finish(s->device));
    sl_arena_give(s->arena, kept);
    if (loss && s->layout.is_last)
        *loss = sum / (double)s->layout.rows;
    return status;
}

/* I begins: the gradient of the last block's output. */
static sl_status enter_backward(sl_model_stage *s, sl_kept *k, const float *output_grad) {
    const sl_layout *l = &s->layout;
    SL_TRY(sl_arena_take(s->arena, s->backward_bytes, SL_ARENA_HIGH, "I of a microbatch", &k->backward));
    float *last_out =
        k->backward + l->block_added + (size_t)(l->blocks - 1) * l->block_backward + l->half[SL_HALF_MLP].out;
    if (l->is_last)
        return sl_stage_loss_input_grad(s, k->forward, k->backward, last_out);
    take_in(s, last_out, output_grad);
    return SL_OK;
}

static sl_status make_again(sl_model_stage *s, const sl_kept *k, int b) {
    float *x = s->scratch + s->layout.x;
    copy_residual(s, x, input_of_block(s, k->forward, b));
    return sl_block_again(s, b, block_kept(s, k, b));
}

sl_status sl_model_input_grad_part(sl_model_stage *s, int microbatch, sl_op_part part,
                                   const float *output_grad, float *input_grad) {
    const sl_layout *l = &s->layout;
    int first, end;
    SL_TRY(in_turn(s, microbatch, &part, SL_I));
    /* the gradient of the output comes first, that of the input last */
    if ((part.index == 0 && !l->is_last && !output_grad) ||
        (is_last_part(&part) && !l->is_first && !input_grad))
        return sl_error(SL_EINVAL, "I: a buffer is missing");
    sl_kept *k = &s->kept[microbatch];
    if (part.index == 0)
        SL_TRY(enter_backward(s, k, output_grad));
    k->done[SL_I]++;
    units_of(s, &part, &first, &end);
    for (int unit = first; unit < end; unit++) {
        int b = l->blocks - 1 - unit / 2;
        float *added = k->backward + l->block_added + (size_t)b * l->block_backward;
        float *down = b > 0         ? added - l->block_backward + l->half[SL_HALF_MLP].out
                      : l->is_first ? k->backward + l->embedded
                                    : s->scratch + l->x;
        if (l->recompute && unit % 2 == 0)
            SL_TRY(make_again(s, k, b));
        SL_TRY(sl_block_input_grad(s, b, unit % 2 ? SL_HALF_ATTENTION : SL_HALF_MLP, block_kept(s, k, b),
                                   added, down));
    }
    if (is_last_part(&part) && !l->is_first)
        give_out(s, input_grad, s->scratch + l->x);
    return SL_OK;
}

sl_status sl_model_weight_grad_part(sl_model_stage *s, int microbatch, sl_op_part part) {
    const sl_layout *l = &s->layout;
    int first, end;
    SL_TRY(in_turn(s, microbatch, &part, SL_W));
    if (microbatch != s->next_weight[part.index])
        return sl_error(SL_EINVAL, "W of microbatch %d before that of %d: sums would change", microbatch,
                        s->next_weight[part.index]);
    sl_kept *k = &s->kept[microbatch];
    if (l->is_last && part.index == 0)
        SL_TRY(sl_stage_loss_weight_grad(s, microbatch == 0, k->forward, k->backward));
    units_of(s, &part, &first, &end);
    for (int unit = first; unit < end; unit++) {
        int b = l->blocks - 1 - unit / 2;
        SL_TRY(sl_block_weight_grad(s, b, unit % 2 ? SL_HALF_ATTENTION : SL_HALF_MLP, microbatch == 0,
                                    block_kept(s, k, b),
                                    k->backward + l->block_added + (size_t)b * l->block_backward));
    }
    s->next_weight[part.index]++;
    k->done[SL_W]++;
    if (!is_last_part(&part))
        return SL_OK;
    if (l->is_first)
        sl_stage_embed_weight_grad(s, k->forward, k->backward);
    sl_stage_drop(s, k);
    return SL_OK;
}
