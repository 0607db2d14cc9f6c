#include "run/model/transformer_inside.h"

/* The two ends of the model. Tensor ranks hold slices of the vocabulary: a token of another slice is a row of
 * zeros here, and the loss combines all slices' results for a row. */

static sl_status check_tokens(const sl_model_stage *s, const uint16_t *token, const char *what) {
    for (int i = 0; i < s->layout.rows && s->config.vocabulary < SL_MAX_VOCABULARY; i++)
        if (token[i] >= s->config.vocabulary)
            return sl_error(SL_EINVAL, "%s %d is outside the vocabulary of %d", what, token[i],
                            s->config.vocabulary);
    return SL_OK;
}

/* Rows of the embedding's accumulator that W of this microbatch will add to. */
static void touch_rows(sl_model_stage *s, const uint16_t *tokens) {
    const sl_layout *l = &s->layout;
    for (int i = 0; i < l->rows && s->touched; i++)
        if (tokens[i] >= l->first_token && tokens[i] < l->first_token + l->vocabulary)
            s->touched[tokens[i] - l->first_token] = 1;
}

sl_status sl_stage_embed(sl_model_stage *s, const uint16_t *tokens, float *kept) {
    const sl_layout *l = &s->layout;
    const int n = l->rows, w = s->config.width;
    float *x = s->scratch + l->x;
    void *held = kept + l->tokens;
    SL_TRY(check_tokens(s, tokens, "token"));
    touch_rows(s, tokens);
    s->device->write(s->device, held, tokens, (size_t)n * sizeof *tokens);
    s->device->embed(s->device, n, w, l->first_token, l->vocabulary, held, s->parameter[0].weight, x);
    SL_TRY(sl_stage_sum(s, x, (size_t)n * (size_t)w));
    if (s->form->position.name)
        s->device->add_positions(s->device, n, w, s->config.context, s->parameter[1].weight, x);
    return SL_OK;
}

void sl_stage_embed_weight_grad(sl_model_stage *s, const float *kept, const float *added) {
    const sl_layout *l = &s->layout;
    const uint16_t *tokens = (const uint16_t *)(kept + l->tokens);
    s->device->embed_weight_grad(s->device, l->rows, s->config.width, l->first_token, l->vocabulary, tokens,
                                 added + l->embedded, s->parameter[0].gradient);
    if (s->form->position.name)
        s->device->positions_weight_grad(s->device, l->rows, s->config.width, s->config.context,
                                         added + l->embedded, s->parameter[1].gradient);
}

/* Sum of the rows' losses, to scratch. */
static sl_status cross_entropy(sl_model_stage *s, float *logits) {
    const sl_layout *l = &s->layout;
    void *targets = s->scratch + l->targets, *sum = s->scratch + l->loss;
    const sl_tensor_ranks *t = &s->config.tensor;
    const int n = l->rows, v = l->vocabulary, first = l->first_token;
    float *top = s->scratch + l->top, *sums = s->scratch + l->sums;
    if (t->size == 1) {
        s->device->cross_entropy(s->device, n, v, logits, targets, s->loss_scale, sum);
        return SL_OK;
    }
    s->device->entropy_top(s->device, n, v, logits, top);
    SL_TRY(t->max(t->object, top, (size_t)n));
    s->device->entropy_sums(s->device, n, v, first, logits, targets, top, sums);
    SL_TRY(sl_stage_sum(s, sums, 2 * (size_t)n));
    s->device->entropy_grad(s->device, n, v, first, logits, targets, sums, s->loss_scale, sum);
    return SL_OK;
}

sl_status sl_stage_loss(sl_model_stage *s, const uint16_t *targets, float *kept, double *sum) {
    const sl_layout *l = &s->layout;
    float *h = s->scratch + l->h;
    SL_TRY(check_tokens(s, targets, "target"));
    s->device->write(s->device, s->scratch + l->targets, targets, (size_t)l->rows * sizeof *targets);
    sl_stage_norm(s, sl_stage_final(s, 0), sl_stage_final(s, 1), s->scratch + l->x, kept + l->normal,
                  kept + l->scale, h);
    SL_TRY(sl_stage_multiply(s, s->product.head[SL_PRODUCT_FORWARD], h,
                             sl_stage_head_weight(s, SL_PRODUCT_FORWARD), NULL, kept + l->logits));
    SL_TRY(cross_entropy(s, kept + l->logits));
    s->device->read(s->device, sum, s->scratch + l->loss, sizeof *sum);
    return SL_OK;
}

sl_status sl_stage_loss_input_grad(sl_model_stage *s, const float *kept, float *added, float *out) {
    const sl_layout *l = &s->layout;
    SL_TRY(sl_stage_multiply(s, s->product.head[SL_PRODUCT_INPUT], kept + l->logits,
                             sl_stage_head_weight(s, SL_PRODUCT_INPUT), NULL, added + l->norm));
    SL_TRY(sl_stage_sum(s, added + l->norm, (size_t)l->rows * (size_t)s->config.width));
    sl_stage_norm_input_grad(s, sl_stage_final(s, 0), added + l->norm, kept + l->normal, kept + l->scale,
                             NULL, out);
    return SL_OK;
}

sl_status sl_stage_loss_weight_grad(sl_model_stage *s, int first, const float *kept, const float *added) {
    const sl_layout *l = &s->layout;
    float *h = s->scratch + l->h;
    sl_stage_norm_apply(s, sl_stage_final(s, 0), sl_stage_final(s, 1), kept + l->normal, h);
    SL_TRY(sl_stage_multiply(s, s->product.head[first ? SL_PRODUCT_FIRST : SL_PRODUCT_WEIGHT],
                             kept + l->logits, h, NULL, s->head.gradient));
    sl_stage_norm_weight_grad(s, sl_stage_final(s, 0), sl_stage_final(s, 1), added + l->norm,
                              kept + l->normal);
    return SL_OK;
}
