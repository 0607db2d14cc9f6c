#include "run/model/products.h"

/* c[rows][columns] = a[rows][inner] * b[inner][columns] of dense matrices, either of them stored transposed.
 */
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

static sl_matmul_shape forward(int rows, int inner, int columns, int add) {
    sl_matmul_shape s = dense(rows, inner, columns, 0, 0);
    s.bias = 1;
    s.add = add;
    return s;
}

static sl_matmul_shape weight_grad(int rows, int inputs, int outputs) {
    sl_matmul_shape s = dense(inputs, rows, outputs, 1, 0);
    s.add = 1;
    return s;
}

sl_matmul_shape sl_product_shape(const sl_model_config *c, sl_product product) {
    const int n = c->batch * c->context, t = c->context, w = c->width, d = c->width / c->heads,
              v = c->vocabulary;
    switch (product) {
    case SL_PRODUCT_ATTN:
        return forward(n, w, 3 * w, 0);
    case SL_PRODUCT_ATTN_PROJ:
        return forward(n, w, w, 1);
    case SL_PRODUCT_FC:
        return forward(n, w, 4 * w, 0);
    case SL_PRODUCT_FC_PROJ:
        return forward(n, 4 * w, w, 1);
    case SL_PRODUCT_SCORES:
        return dense(t, d, t, 0, 1);
    case SL_PRODUCT_MIX:
        return dense(t, t, d, 0, 0);
    case SL_PRODUCT_ATTN_GRAD:
        return dense(n, 3 * w, w, 0, 1);
    case SL_PRODUCT_ATTN_PROJ_GRAD:
        return dense(n, w, w, 0, 1);
    case SL_PRODUCT_FC_GRAD:
        return dense(n, 4 * w, w, 0, 1);
    case SL_PRODUCT_FC_PROJ_GRAD:
        return dense(n, w, 4 * w, 0, 1);
    case SL_PRODUCT_MIX_TRANSPOSED:
        return dense(t, t, d, 1, 0);
    case SL_PRODUCT_ATTN_WEIGHT:
        return weight_grad(n, w, 3 * w);
    case SL_PRODUCT_ATTN_PROJ_WEIGHT:
        return weight_grad(n, w, w);
    case SL_PRODUCT_FC_WEIGHT:
        return weight_grad(n, w, 4 * w);
    case SL_PRODUCT_FC_PROJ_WEIGHT:
        return weight_grad(n, 4 * w, w);
    case SL_PRODUCT_HEAD:
        return dense(n, w, v, 0, 1);
    case SL_PRODUCT_HEAD_GRAD:
        return dense(n, v, w, 0, 0);
    case SL_PRODUCT_HEAD_WEIGHT:
        return weight_grad(n, v, w);
    case SL_PRODUCTS:
        break;
    }
    return (sl_matmul_shape){0};
}
