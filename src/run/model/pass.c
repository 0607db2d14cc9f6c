#include "base/memory.h"
#include "run/model/stage.h"

#include <math.h>
#include <string.h>

/* An iteration of a stage: F, I and W of its microbatches, and whose turn it is. */

void sl_stage_drop(sl_model_stage *s, sl_kept *k) {
    sl_arena_give(s->arena, k->forward);
    sl_arena_give(s->arena, k->backward);
    k->forward = k->backward = NULL;
}

sl_status sl_model_begin_part(sl_model_stage *s, int microbatches, int total) {
    if (microbatches < 1 || total < microbatches)
        return sl_error(SL_EINVAL, "an iteration of %d microbatches out of %d", microbatches, total);
    SL_TRY(sl_grow(&s->kept, &s->kept_capacity, (size_t)microbatches, sizeof *s->kept));
    for (int m = 0; m < s->microbatches; m++)
        sl_stage_drop(s, &s->kept[m]);
    for (int m = 0; m < microbatches; m++)
        s->kept[m] = (sl_kept){.progress = SL_PROGRESS_NONE, .loss = NAN};
    memset(s->gradient, 0, s->gradients * sizeof *s->gradient);
    s->microbatches = microbatches;
    s->next_weight = 0;
    s->loss_scale = (float)(1.0 / ((double)total * (double)s->layout.rows));
    return SL_OK;
}

sl_status sl_model_begin(sl_model_stage *s, int microbatches) {
    return sl_model_begin_part(s, microbatches, microbatches);
}

static sl_status in_turn(const sl_model_stage *s, int microbatch, sl_progress wanted, const char *op) {
    if (microbatch < 0 || microbatch >= s->microbatches)
        return sl_error(SL_EINVAL, "%s of microbatch %d: the iteration has %d", op, microbatch,
                        s->microbatches);
    if (s->kept[microbatch].progress != wanted)
        return sl_error(SL_EINVAL, "%s of microbatch %d is out of turn", op, microbatch);
    return SL_OK;
}

static sl_status check_bytes(const sl_model_config *c, const uint8_t *byte, const char *what) {
    const size_t count = (size_t)c->batch * (size_t)c->context;
    for (size_t i = 0; i < count && c->vocabulary < 256; i++)
        if (byte[i] >= c->vocabulary)
            return sl_error(SL_EINVAL, "%s %d is outside the vocabulary of %d", what, byte[i], c->vocabulary);
    return SL_OK;
}

/* ln_f, head and loss, from the residual stream; the logits become their gradient. */
static sl_status forward_loss(sl_model_stage *s, const uint8_t *targets, float *kept, double *loss) {
    const sl_layout *l = &s->layout;
    const sl_parameter *gain = &s->parameter[s->parameters - 2], *bias = &s->parameter[s->parameters - 1];
    float *h = s->scratch + l->h;
    SL_TRY(check_bytes(&s->config, targets, "target"));
    s->device->layernorm(l->rows, s->config.width, s->scratch + l->x, gain->weight, bias->weight,
                         kept + l->normal, kept + l->scale, h);
    SL_TRY(sl_stage_multiply(s, SL_PRODUCT_HEAD, h, s->head.weight, NULL, kept + l->logits));
    double sum =
        s->device->cross_entropy(l->rows, s->config.vocabulary, kept + l->logits, targets, s->loss_scale);
    *loss = sum / (double)l->rows;
    return SL_OK;
}

static sl_status pass(sl_model_stage *s, const uint8_t *tokens, const uint8_t *targets, const float *input,
                      float *output, float *kept, double *loss) {
    const sl_layout *l = &s->layout;
    const size_t count = (size_t)l->rows * (size_t)s->config.width;
    float *x = s->scratch + l->x;
    if (l->is_first) {
        SL_TRY(check_bytes(&s->config, tokens, "token"));
        memcpy(kept + l->tokens, tokens, (size_t)l->rows);
        s->device->embed(l->rows, s->config.width, s->config.context, tokens, s->parameter[0].weight,
                         s->parameter[1].weight, x);
    } else {
        memcpy(x, input, count * sizeof *x);
    }
    for (int b = 0; b < l->blocks; b++)
        SL_TRY(sl_block_forward(s, b, kept + (size_t)b * l->block.forward));
    if (l->is_last)
        return forward_loss(s, targets, kept, loss);
    memcpy(output, x, count * sizeof *x);
    return SL_OK;
}

static sl_status check_pointers(const sl_model_stage *s, const void *first, const void *last,
                                const void *before, const void *after, const char *op) {
    const sl_layout *l = &s->layout;
    if ((l->is_first ? first : before) && (l->is_last ? last : after))
        return SL_OK;
    return sl_error(SL_EINVAL, "%s: a buffer is missing", op);
}

sl_status sl_model_forward(sl_model_stage *s, int microbatch, const uint8_t *tokens, const uint8_t *targets,
                           const float *input, float *output) {
    SL_TRY(in_turn(s, microbatch, SL_PROGRESS_NONE, "F"));
    SL_TRY(check_pointers(s, tokens, targets, input, output, "F"));
    sl_kept *k = &s->kept[microbatch];
    SL_TRY(sl_arena_take(s->arena, s->layout.forward * sizeof(float), SL_ARENA_LOW, "F of a microbatch",
                         &k->forward));
    k->progress = SL_PROGRESS_F;
    return pass(s, tokens, targets, input, output, k->forward, &k->loss);
}

sl_status sl_model_evaluate(sl_model_stage *s, const uint8_t *tokens, const uint8_t *targets,
                            const float *input, float *output, double *loss) {
    float *kept;
    double ignored;
    SL_TRY(check_pointers(s, tokens, targets, input, output, "validation"));
    SL_TRY(
        sl_arena_take(s->arena, s->layout.forward * sizeof(float), SL_ARENA_LOW, "a validation pass", &kept));
    sl_status status = pass(s, tokens, targets, input, output, kept, loss ? loss : &ignored);
    sl_arena_give(s->arena, kept);
    return status;
}

/* Gradient of ln_f's output and input: the head, from the gradient of the logits that F left. */
static sl_status loss_input_grad(sl_model_stage *s, const float *kept, float *added, float *out) {
    const sl_layout *l = &s->layout;
    SL_TRY(
        sl_stage_multiply(s, SL_PRODUCT_HEAD_GRAD, kept + l->logits, s->head.weight, NULL, added + l->norm));
    s->device->layernorm_input_grad(l->rows, s->config.width, added + l->norm,
                                    s->parameter[s->parameters - 2].weight, kept + l->normal, kept + l->scale,
                                    NULL, out);
    return SL_OK;
}

sl_status sl_model_input_grad(sl_model_stage *s, int microbatch, const float *output_grad,
                              float *input_grad) {
    const sl_layout *l = &s->layout;
    const size_t bytes = (size_t)l->rows * (size_t)s->config.width * sizeof(float);
    SL_TRY(in_turn(s, microbatch, SL_PROGRESS_F, "I"));
    SL_TRY(check_pointers(s, s, s, input_grad, output_grad, "I"));
    sl_kept *k = &s->kept[microbatch];
    SL_TRY(sl_arena_take(s->arena, l->backward * sizeof(float), SL_ARENA_HIGH, "I of a microbatch",
                         &k->backward));
    k->progress = SL_PROGRESS_I;
    float *last_out = k->backward + (size_t)(l->blocks - 1) * l->block.backward + l->block.out;
    if (l->is_last)
        SL_TRY(loss_input_grad(s, k->forward, k->backward, last_out));
    else
        memcpy(last_out, output_grad, bytes);
    for (int b = l->blocks - 1; b >= 0; b--) {
        float *added = k->backward + (size_t)b * l->block.backward;
        float *down = b > 0         ? added - l->block.backward + l->block.out
                      : l->is_first ? k->backward + l->embedded
                                    : input_grad;
        SL_TRY(sl_block_input_grad(s, b, k->forward + (size_t)b * l->block.forward, added, down));
    }
    return SL_OK;
}

static sl_status loss_weight_grad(sl_model_stage *s, const float *kept, const float *added) {
    const sl_layout *l = &s->layout;
    const sl_parameter *gain = &s->parameter[s->parameters - 2], *bias = &s->parameter[s->parameters - 1];
    float *h = s->scratch + l->h;
    s->device->layernorm_apply(l->rows, s->config.width, kept + l->normal, gain->weight, bias->weight, h);
    SL_TRY(sl_stage_multiply(s, SL_PRODUCT_HEAD_WEIGHT, kept + l->logits, h, NULL, s->head.gradient));
    s->device->layernorm_weight_grad(l->rows, s->config.width, added + l->norm, kept + l->normal,
                                     s->scratch + l->sums, gain->gradient, bias->gradient);
    return SL_OK;
}

sl_status sl_model_weight_grad(sl_model_stage *s, int microbatch) {
    const sl_layout *l = &s->layout;
    SL_TRY(in_turn(s, microbatch, SL_PROGRESS_I, "W"));
    if (microbatch != s->next_weight)
        return sl_error(SL_EINVAL, "W of microbatch %d before that of %d: sums would change", microbatch,
                        s->next_weight);
    sl_kept *k = &s->kept[microbatch];
    if (l->is_last)
        SL_TRY(loss_weight_grad(s, k->forward, k->backward));
    for (int b = l->blocks - 1; b >= 0; b--)
        SL_TRY(sl_block_weight_grad(s, b, k->forward + (size_t)b * l->block.forward,
                                    k->backward + (size_t)b * l->block.backward));
    if (l->is_first)
        s->device->embed_weight_grad(l->rows, s->config.width, s->config.context,
                                     (const uint8_t *)(k->forward + l->tokens), k->backward + l->embedded,
                                     s->parameter[0].gradient, s->parameter[1].gradient);
    sl_stage_drop(s, k);
    k->progress = SL_PROGRESS_W;
    s->next_weight++;
    return SL_OK;
}
