#include "run/model/transformer_inside.h"

#include <string.h>

/* Weights in the products' format: copies, made once after the weights have changed instead of in each
 * product. */

static const sl_parameter *parameter_of(const sl_model_stage *s, int b, sl_half half, int i) {
    const sl_half_form *f = &s->form->half[half];
    return sl_stage_block(s, b, i == SL_LINEAR_OUT ? f->out.weight : f->in[i].weight);
}

static unsigned char *packed_block(const sl_model_stage *s, int b, int half, int i, int op) {
    return s->packed + (size_t)b * s->product.block_packed + s->product.packed_at[half][i][op];
}

const void *sl_stage_weight(const sl_model_stage *s, int b, sl_half half, int i, sl_product_op op) {
    return s->packed ? (const void *)packed_block(s, b, (int)half, i, (int)op)
                     : parameter_of(s, b, half, i)->weight;
}

const void *sl_stage_head_weight(const sl_model_stage *s, sl_product_op op) {
    return s->packed ? (const void *)(s->packed + s->product.head_packed_at[op]) : s->head.weight;
}

/* Both products of a linear layer, one after the other while the weight is in cache. */
static sl_status pack_linear(const sl_model_stage *s, int b, int half, int i) {
    for (int op = 0; op < SL_PRODUCT_FIRST; op++)
        SL_TRY(s->device->matmul_pack(s->device, s->product.half[half][i][op],
                                      parameter_of(s, b, (sl_half)half, i)->weight,
                                      packed_block(s, b, half, i, op)));
    return SL_OK;
}

static sl_status pack_head(const sl_model_stage *s) {
    for (int op = 0; op < SL_PRODUCT_FIRST; op++)
        SL_TRY(s->device->matmul_pack(s->device, s->product.head[op], s->head.weight,
                                      s->packed + s->product.head_packed_at[op]));
    return SL_OK;
}

/* The packed weights of a parameter, if any. */
static sl_status pack(const sl_model_stage *s, const sl_parameter *p) {
    const int index = (int)(p - s->parameter) - s->block_base, each = s->form->block_parameters;
    if (s->layout.is_last && p->weight == s->head.weight)
        return pack_head(s);
    if (index < 0 || index >= s->layout.blocks * each)
        return SL_OK;
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < SL_LINEARS; i++)
            if (s->product.half[half][i][0] && parameter_of(s, index / each, (sl_half)half, i) == p)
                SL_TRY(pack_linear(s, index / each, half, i));
    return SL_OK;
}

sl_status sl_model_weight_changed(sl_model_stage *s, int parameter) {
    s->packed_early[parameter] = 1;
    return s->packed ? pack(s, &s->parameter[parameter]) : SL_OK;
}

sl_status sl_model_weights_changed(sl_model_stage *s) {
    int head = s->layout.is_last; /* a copy of the head's own is no parameter of this stage */
    for (int i = 0; i < s->parameters && s->packed; i++) {
        if (!s->packed_early[i])
            SL_TRY(pack(s, &s->parameter[i]));
        head = head && s->parameter[i].weight != s->head.weight;
    }
    if (head && s->packed)
        SL_TRY(pack_head(s));
    memset(s->packed_early, 0, (size_t)s->parameters);
    s->stale = 0;
    return SL_OK;
}

sl_status sl_stage_refresh(sl_model_stage *s) {
    return s->stale ? sl_model_weights_changed(s) : SL_OK;
}
