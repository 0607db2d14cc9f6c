#include "run/model/products.h"
#include "run/device/arena.h"

/* c[rows][columns] = a[rows][inner] * b[inner][columns] of dense matrices, either of them stored
 * transposed. */
static sl_matmul_shape dense(int rows, int inner, int columns, int transpose_a, int transpose_b) {
    return (sl_matmul_shape){.rows = rows,
                             .columns = columns,
                             .inner = inner,
                             .transpose_a = transpose_a,
                             .transpose_b = transpose_b,
                             .a_stride = transpose_a ? rows : inner,
                             .b_stride = transpose_b ? inner : columns,
                             .c_stride = columns};
}

/* A linear layer of n rows; outputs_first: the weight is [outputs][inputs]. */
static sl_matmul_shape linear(sl_product_op op, int n, int inputs, int outputs, int outputs_first) {
    switch (op) {
    case SL_PRODUCT_FORWARD:
        return dense(n, inputs, outputs, 0, outputs_first);
    case SL_PRODUCT_INPUT:
        return dense(n, outputs, inputs, 0, !outputs_first);
    default: {
        sl_matmul_shape s = outputs_first ? dense(outputs, n, inputs, 1, 0) : dense(inputs, n, outputs, 1, 0);
        s.add = op == SL_PRODUCT_WEIGHT;
        return s;
    }
    }
}

/* Weights are operands of F and I; W multiplies activations with gradients. */
static sl_status prepare(const sl_model_config *c, sl_device *device, sl_matmul_shape shape, int op,
                         sl_matmul **product, size_t *packed, sl_products *all) {
    size_t bytes;
    shape.type = (int)c->type;
    shape.packed = op < SL_PRODUCT_FIRST && !c->unpacked;
    SL_TRY(device->matmul_prepare(device, &shape, product, &bytes));
    all->scratch_bytes = bytes > all->scratch_bytes ? bytes : all->scratch_bytes;
    *packed = shape.packed ? sl_arena_round(device->matmul_packed_bytes(*product)) : 0;
    return SL_OK;
}

/* The outgoing layer adds to the residual stream, unless its result must first be summed over tensor ranks;
 * the gradients of incoming layers are accumulated. */
static sl_matmul_shape half_shape(const sl_model_config *c, const sl_half_form *f, int index,
                                  sl_product_op op) {
    const sl_architecture *a = sl_architecture_of(c->kind);
    const sl_linear *l = index == SL_LINEAR_OUT ? &f->out : &f->in[index];
    int rows = sl_layout_extent(c, a->block[l->weight].rows),
        columns = sl_layout_extent(c, a->block[l->weight].columns);
    sl_matmul_shape s = linear(op, c->batch * c->context, a->outputs_first ? columns : rows,
                               a->outputs_first ? rows : columns, a->outputs_first);
    if (op == SL_PRODUCT_FORWARD) {
        int whole = index != SL_LINEAR_OUT || c->tensor.size == 1;
        s.bias = whole && l->bias >= 0;
        s.add = whole && index == SL_LINEAR_OUT;
    }
    if (op == SL_PRODUCT_INPUT && index != SL_LINEAR_OUT)
        s.add = index > 0;
    return s;
}

static sl_status prepare_half(const sl_model_config *c, sl_device *device, int half, sl_products *p) {
    const sl_half_form *f = &sl_architecture_of(c->kind)->half[half];
    size_t packed;
    for (int i = 0; i < SL_LINEARS; i++)
        for (int op = 0; op < SL_PRODUCT_OPS && (i < f->ins || i == SL_LINEAR_OUT); op++) {
            SL_TRY(prepare(c, device, half_shape(c, f, i, (sl_product_op)op), op, &p->half[half][i][op],
                           &packed, p));
            if (op >= SL_PRODUCT_FIRST)
                continue;
            p->packed_at[half][i][op] = p->block_packed;
            p->block_packed += packed;
        }
    return SL_OK;
}

sl_status sl_products_prepare(const sl_model_config *c, sl_device *device, int blocks, int is_last,
                              sl_products *p) {
    size_t packed;
    *p = (sl_products){0};
    for (int half = 0; half < 2; half++)
        SL_TRY(prepare_half(c, device, half, p));
    p->packed_bytes = (size_t)blocks * p->block_packed;
    for (int op = 0; op < SL_PRODUCT_OPS && is_last; op++) {
        const sl_matmul_shape s =
            linear((sl_product_op)op, c->batch * c->context, c->width, sl_layout_extent(c, SL_VOCABULARY), 1);
        SL_TRY(prepare(c, device, s, op, &p->head[op], &packed, p));
        if (op >= SL_PRODUCT_FIRST)
            continue;
        p->head_packed_at[op] = p->packed_bytes;
        p->packed_bytes += packed;
    }
    return SL_OK;
}
