#include "run/model/stage.h"

/* Weights as the products read them: copies, made once after the weights have changed instead of in each
 * product. */

static const sl_parameter *parameter_of(const sl_model_stage *s, int b, sl_half half, int i) {
    const sl_half_form *f = &s->form->half[half];
    return sl_stage_block(s, b, i == SL_LINEAR_OUT ? f->out.weight : f->in[i].weight);
}

static unsigned char *block_place(const sl_model_stage *s, int b, int half, int i, int op) {
    return s->packed + (size_t)b * s->product.block_packed + s->product.packed_at[half][i][op];
}

const void *sl_stage_weight(const sl_model_stage *s, int b, sl_half half, int i, sl_product_op op) {
    return s->packed ? (const void *)block_place(s, b, (int)half, i, (int)op)
                     : parameter_of(s, b, half, i)->weight;
}

const void *sl_stage_head_weight(const sl_model_stage *s, sl_product_op op) {
    return s->packed ? (const void *)(s->packed + s->product.head_packed_at[op]) : s->head.weight;
}

static sl_status pack_block(const sl_model_stage *s, int b) {
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < SL_LINEARS; i++)
            for (int op = 0; op < SL_PRODUCT_FIRST; op++)
                if (s->product.half[half][i][op])
                    SL_TRY(s->device->matmul_pack(s->device, s->product.half[half][i][op],
                                                  parameter_of(s, b, (sl_half)half, i)->weight,
                                                  block_place(s, b, half, i, op)));
    return SL_OK;
}

sl_status sl_model_weights_changed(sl_model_stage *s) {
    for (int b = 0; b < s->layout.blocks && s->packed; b++)
        SL_TRY(pack_block(s, b));
    for (int op = 0; op < SL_PRODUCT_FIRST && s->packed && s->layout.is_last; op++)
        SL_TRY(s->device->matmul_pack(s->device, s->product.head[op], s->head.weight,
                                      s->packed + s->product.head_packed_at[op]));
    s->stale = 0;
    return SL_OK;
}

sl_status sl_stage_refresh(sl_model_stage *s) {
    return s->stale ? sl_model_weights_changed(s) : SL_OK;
}
