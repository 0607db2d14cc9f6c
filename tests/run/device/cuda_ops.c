/* The CUDA device for test_cuda_pytorch.py: each function is the op of device.h of that name, on the one card
 * that `ops_open` opens; what it returns is given to every other. */
#include "run/device/device.h"

#define OP(name, parameters, ...)                                                                            \
    void ops_##name parameters {                                                                             \
        d->name(d, __VA_ARGS__);                                                                             \
    }

sl_device *ops_open(void) {
    sl_device *d;
    return sl_device_open_cuda(0, &d) == SL_OK ? d : NULL;
}

const char *ops_error(void) {
    return sl_error_text();
}

int ops_finish(sl_device *d) {
    return (int)d->finish(d);
}

/* Dense matrices. Packs b if asked to. */
int ops_product(sl_device *d, int rows, int inner, int columns, int transpose_a, int transpose_b, int add,
                int type, int packed, const float *a, const float *b, const float *bias, float *c) {
    const sl_matmul_shape shape = {.rows = rows,
                                   .columns = columns,
                                   .inner = inner,
                                   .transpose_a = transpose_a,
                                   .transpose_b = transpose_b,
                                   .a_stride = transpose_a ? rows : inner,
                                   .b_stride = transpose_b ? inner : columns,
                                   .c_stride = columns,
                                   .bias = bias ? 1 : 0,
                                   .add = add,
                                   .type = type,
                                   .packed = packed};
    sl_matmul *product;
    size_t bytes;
    void *scratch, *weights;
    SL_TRY(d->matmul_prepare(d, &shape, &product, &bytes));
    SL_TRY(d->memory_open(d, bytes, &scratch));
    SL_TRY(d->memory_open(d, d->matmul_packed_bytes(product), &weights));
    if (packed)
        SL_TRY(d->matmul_pack(d, product, b, weights));
    SL_TRY(d->matmul(d, product, a, packed ? weights : (const void *)b, bias, c, scratch));
    SL_TRY(d->finish(d));
    d->memory_close(d, weights);
    d->memory_close(d, scratch);
    return SL_OK;
}

/* clang-format off */
OP(layernorm, (sl_device *d, int rows, int width, const float *x, const float *gain, const float *bias, float *normal, float *scale, float *y), rows, width, x, gain, bias, normal, scale, y)
OP(layernorm_input_grad, (sl_device *d, int rows, int width, const float *dy, const float *gain, const float *normal, const float *scale, const float *residual, float *dx), rows, width, dy, gain, normal, scale, residual, dx)
OP(layernorm_weight_grad, (sl_device *d, int rows, int width, const float *dy, const float *normal, float *scratch, float *gain_grad, float *bias_grad), rows, width, dy, normal, scratch, gain_grad, bias_grad)
OP(rmsnorm, (sl_device *d, int rows, int width, float epsilon, const float *x, const float *gain, float *normal, float *scale, float *y), rows, width, epsilon, x, gain, normal, scale, y)
OP(rmsnorm_input_grad, (sl_device *d, int rows, int width, const float *dy, const float *gain, const float *normal, const float *scale, const float *residual, float *dx), rows, width, dy, gain, normal, scale, residual, dx)
OP(rmsnorm_weight_grad, (sl_device *d, int rows, int width, const float *dy, const float *normal, float *scratch, float *gain_grad), rows, width, dy, normal, scratch, gain_grad)
OP(bias_grad, (sl_device *d, int rows, int width, const float *dy, float *scratch, float *grad), rows, width, dy, scratch, grad)
OP(gelu, (sl_device *d, size_t count, const float *x, float *y), count, x, y)
OP(gelu_input_grad, (sl_device *d, size_t count, float *x, float *dy), count, x, dy)
OP(swiglu, (sl_device *d, size_t count, const float *gate, const float *up, float *y), count, gate, up, y)
OP(swiglu_input_grad, (sl_device *d, size_t count, float *gate, float *up, float *dy), count, gate, up, dy)
OP(embed, (sl_device *d, int rows, int width, int first, int count, const uint16_t *token, const float *table, float *x), rows, width, first, count, token, table, x)
OP(embed_weight_grad, (sl_device *d, int rows, int width, int first, int count, const uint16_t *token, const float *dx, float *grad), rows, width, first, count, token, dx, grad)
OP(cross_entropy, (sl_device *d, int rows, int vocabulary, float *logits, const uint16_t *target, float scale, double *loss), rows, vocabulary, logits, target, scale, loss)
OP(adamw, (sl_device *d, const sl_adamw_step *step, size_t count, const float *gradient, float *weight, float *m, float *v), step, count, gradient, weight, m, v)
OP(rope, (sl_device *d, int rows, int context, int heads, int size, int stride, int backward, const float *table, float *x), rows, context, heads, size, stride, backward, table, x)
/* clang-format on */
