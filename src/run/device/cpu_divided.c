#include "run/device/cpu_kernels.h"
#include "run/device/threads.h"

/* Divides the single-threaded kernels among the device's threads: by rows, by elements or, if rows are
 * summed, by columns, so that each number is computed by one thread in the same order as by a single
 * thread. */

#define MIN ((size_t)16384) /* elements that justify waking the others */
#define UNIT 16             /* columns and elements go in whole vectors */
#define MAX_ROWS 512        /* losses that are added up at a time */

/* Rows, columns or elements [first, first + count) of a kernel's data. */
typedef struct call call;
typedef void part_of(const call *c, size_t first, size_t count);

/* A kernel's arguments, of which each uses some; and how it is divided. */
struct call {
    int rows, width, context, heads, size, stride, first, count, backward;
    float number;
    const uint16_t *token;
    const float *in[5];
    float *out[3];
    double *loss;
    part_of *part;
    size_t items, unit;
};

static void share(void *object, int thread, int threads) {
    const call *c = object;
    size_t first, end;
    sl_threads_share(c->items, c->unit, thread, threads, &first, &end);
    c->part(c, first, end - first);
}

static void divide(const sl_device *device, part_of *part, size_t items, size_t unit, size_t elements,
                   call *c) {
    c->part = part;
    c->items = items;
    c->unit = unit;
    sl_threads_run(elements < MIN ? 1 : device->threads, share, c);
}

static void by_rows(const sl_device *device, part_of *part, call *c) {
    divide(device, part, (size_t)c->rows, 1, (size_t)c->rows * (size_t)c->width, c);
}

static void by_columns(const sl_device *device, part_of *part, call *c) {
    divide(device, part, (size_t)c->width, UNIT, (size_t)c->rows * (size_t)c->width, c);
}

static void by_elements(const sl_device *device, part_of *part, size_t elements, call *c) {
    divide(device, part, elements, UNIT, elements, c);
}

/* ---- normalizations ---- */

static void layernorm_part(const call *c, size_t r, size_t rows) {
    const size_t at = r * (size_t)c->width;
    sl_cpu_layernorm((int)rows, c->width, c->in[0] + at, c->in[1], c->in[2], c->out[0] + at, c->out[1] + r,
                     c->out[2] + at);
}

static void layernorm(sl_device *d, int rows, int width, const float *x, const float *gain, const float *bias,
                      float *normal, float *scale, float *y) {
    call c = {.rows = rows, .width = width, .in = {x, gain, bias}, .out = {normal, scale, y}};
    by_rows(d, layernorm_part, &c);
}

static void layernorm_apply_part(const call *c, size_t r, size_t rows) {
    const size_t at = r * (size_t)c->width;
    sl_cpu_layernorm_apply((int)rows, c->width, c->in[0] + at, c->in[1], c->in[2], c->out[0] + at);
}

static void layernorm_apply(sl_device *d, int rows, int width, const float *normal, const float *gain,
                            const float *bias, float *y) {
    call c = {.rows = rows, .width = width, .in = {normal, gain, bias}, .out = {y}};
    by_rows(d, layernorm_apply_part, &c);
}

static const float *moved(const float *x, size_t by) {
    return x ? x + by : NULL;
}

static void layernorm_input_part(const call *c, size_t r, size_t rows) {
    const size_t at = r * (size_t)c->width;
    sl_cpu_layernorm_input_grad((int)rows, c->width, c->in[0] + at, c->in[1], c->in[2] + at, c->in[4] + r,
                                moved(c->in[3], at), c->out[0] + at);
}

static void layernorm_input_grad(sl_device *d, int rows, int width, const float *dy, const float *gain,
                                 const float *normal, const float *scale, const float *residual, float *dx) {
    call c = {.rows = rows, .width = width, .in = {dy, gain, normal, residual, scale}, .out = {dx}};
    by_rows(d, layernorm_input_part, &c);
}

static void layernorm_weight_part(const call *c, size_t at, size_t columns) {
    sl_cpu_layernorm_weight_grad(c->rows, (int)columns, c->width, c->in[0] + at, c->in[1] + at,
                                 c->out[0] + at, c->out[0] + c->width + at, c->out[1] + at, c->out[2] + at);
}

static void layernorm_weight_grad(sl_device *d, int rows, int width, const float *dy, const float *normal,
                                  float *scratch, float *gain_grad, float *bias_grad) {
    call c = {.rows = rows, .width = width, .in = {dy, normal}, .out = {scratch, gain_grad, bias_grad}};
    by_columns(d, layernorm_weight_part, &c);
}

static void rmsnorm_part(const call *c, size_t r, size_t rows) {
    const size_t at = r * (size_t)c->width;
    sl_cpu_rmsnorm((int)rows, c->width, c->number, c->in[0] + at, c->in[1], c->out[0] + at, c->out[1] + r,
                   c->out[2] + at);
}

static void rmsnorm(sl_device *d, int rows, int width, float epsilon, const float *x, const float *gain,
                    float *normal, float *scale, float *y) {
    call c = {.rows = rows, .width = width, .number = epsilon, .in = {x, gain}, .out = {normal, scale, y}};
    by_rows(d, rmsnorm_part, &c);
}

static void rmsnorm_apply_part(const call *c, size_t r, size_t rows) {
    const size_t at = r * (size_t)c->width;
    sl_cpu_rmsnorm_apply((int)rows, c->width, c->in[0] + at, c->in[1], c->out[0] + at);
}

static void rmsnorm_apply(sl_device *d, int rows, int width, const float *normal, const float *gain,
                          float *y) {
    call c = {.rows = rows, .width = width, .in = {normal, gain}, .out = {y}};
    by_rows(d, rmsnorm_apply_part, &c);
}

static void rmsnorm_input_part(const call *c, size_t r, size_t rows) {
    const size_t at = r * (size_t)c->width;
    sl_cpu_rmsnorm_input_grad((int)rows, c->width, c->in[0] + at, c->in[1], c->in[2] + at, c->in[4] + r,
                              moved(c->in[3], at), c->out[0] + at);
}

static void rmsnorm_input_grad(sl_device *d, int rows, int width, const float *dy, const float *gain,
                               const float *normal, const float *scale, const float *residual, float *dx) {
    call c = {.rows = rows, .width = width, .in = {dy, gain, normal, residual, scale}, .out = {dx}};
    by_rows(d, rmsnorm_input_part, &c);
}

static void rmsnorm_weight_part(const call *c, size_t at, size_t columns) {
    sl_cpu_rmsnorm_weight_grad(c->rows, (int)columns, c->width, c->in[0] + at, c->in[1] + at, c->out[0] + at,
                               c->out[1] + at);
}

static void rmsnorm_weight_grad(sl_device *d, int rows, int width, const float *dy, const float *normal,
                                float *scratch, float *gain_grad) {
    call c = {.rows = rows, .width = width, .in = {dy, normal}, .out = {scratch, gain_grad}};
    by_columns(d, rmsnorm_weight_part, &c);
}

/* ---- element by element ---- */

static void bias_part(const call *c, size_t at, size_t columns) {
    sl_cpu_bias_grad(c->rows, (int)columns, c->width, c->in[0] + at, c->out[0] + at, c->out[1] + at);
}

static void bias_grad(sl_device *d, int rows, int width, const float *dy, float *scratch, float *grad) {
    call c = {.rows = rows, .width = width, .in = {dy}, .out = {scratch, grad}};
    by_columns(d, bias_part, &c);
}

static void gelu_part(const call *c, size_t at, size_t count) {
    sl_cpu_gelu(count, c->in[0] + at, c->out[0] + at);
}

static void gelu(sl_device *d, size_t count, const float *x, float *y) {
    call c = {.in = {x}, .out = {y}};
    by_elements(d, gelu_part, count, &c);
}

static void gelu_input_part(const call *c, size_t at, size_t count) {
    sl_cpu_gelu_input_grad(count, c->out[0] + at, c->out[1] + at);
}

static void gelu_input_grad(sl_device *d, size_t count, float *x, float *dy) {
    call c = {.out = {x, dy}};
    by_elements(d, gelu_input_part, count, &c);
}

static void swiglu_part(const call *c, size_t at, size_t count) {
    sl_cpu_swiglu(count, c->in[0] + at, c->in[1] + at, c->out[0] + at);
}

static void swiglu(sl_device *d, size_t count, const float *gate, const float *up, float *y) {
    call c = {.in = {gate, up}, .out = {y}};
    by_elements(d, swiglu_part, count, &c);
}

static void swiglu_input_part(const call *c, size_t at, size_t count) {
    sl_cpu_swiglu_input_grad(count, c->out[0] + at, c->out[1] + at, c->out[2] + at);
}

static void swiglu_input_grad(sl_device *d, size_t count, float *gate, float *up, float *dy) {
    call c = {.out = {gate, up, dy}};
    by_elements(d, swiglu_input_part, count, &c);
}

static void rope_part(const call *c, size_t r, size_t rows) {
    sl_cpu_rope((int)rows, (int)r, c->context, c->heads, c->size, c->stride, c->backward, c->in[0],
                c->out[0] + r * (size_t)c->stride);
}

static void rope(sl_device *d, int rows, int context, int heads, int size, int stride, int backward,
                 const float *table, float *x) {
    call c = {.rows = rows,
              .width = heads * size,
              .context = context,
              .heads = heads,
              .size = size,
              .stride = stride,
              .backward = backward,
              .in = {table},
              .out = {x}};
    by_rows(d, rope_part, &c);
}

/* ---- embeddings ---- */

static void embed_part(const call *c, size_t r, size_t rows) {
    sl_cpu_embed((int)rows, c->width, c->first, c->count, c->token + r, c->in[0],
                 c->out[0] + r * (size_t)c->width);
}

static void embed(sl_device *d, int rows, int width, int first, int count, const uint16_t *token,
                  const float *table, float *x) {
    call c = {.rows = rows,
              .width = width,
              .first = first,
              .count = count,
              .token = token,
              .in = {table},
              .out = {x}};
    by_rows(d, embed_part, &c);
}

static void embed_weight_part(const call *c, size_t at, size_t columns) {
    sl_cpu_embed_weight_grad(c->rows, (int)columns, c->width, c->first, c->count, c->token, c->in[0] + at,
                             c->out[0] + at);
}

static void embed_weight_grad(sl_device *d, int rows, int width, int first, int count, const uint16_t *token,
                              const float *dx, float *grad) {
    call c = {.rows = rows,
              .width = width,
              .first = first,
              .count = count,
              .token = token,
              .in = {dx},
              .out = {grad}};
    by_columns(d, embed_weight_part, &c);
}

static void positions_part(const call *c, size_t r, size_t rows) {
    sl_cpu_add_positions((int)rows, (int)r, c->width, c->context, c->in[0], c->out[0] + r * (size_t)c->width);
}

static void add_positions(sl_device *d, int rows, int width, int context, const float *table, float *x) {
    call c = {.rows = rows, .width = width, .context = context, .in = {table}, .out = {x}};
    by_rows(d, positions_part, &c);
}

static void positions_weight_part(const call *c, size_t at, size_t columns) {
    sl_cpu_positions_weight_grad(c->rows, (int)columns, c->width, c->context, c->in[0] + at, c->out[0] + at);
}

static void positions_weight_grad(sl_device *d, int rows, int width, int context, const float *dx,
                                  float *grad) {
    call c = {.rows = rows, .width = width, .context = context, .in = {dx}, .out = {grad}};
    by_columns(d, positions_weight_part, &c);
}

static void add_rows_part(const call *c, size_t r, size_t rows) {
    const size_t at = r * (size_t)c->width;
    sl_cpu_add_rows((int)rows, c->width, c->in[0] + at, c->in[1], c->out[0] + at);
}

static void add_rows(sl_device *d, int rows, int width, const float *y, const float *bias, float *x) {
    call c = {.rows = rows, .width = width, .in = {y, bias}, .out = {x}};
    by_rows(d, add_rows_part, &c);
}

/* ---- the loss: rows are computed by any thread and added up by one, in ascending order ---- */

static void divide_losses(const sl_device *d, part_of *part, const call *all, double *total) {
    double loss[MAX_ROWS], sum = 0;
    for (int row = 0; row < all->rows; row += MAX_ROWS) {
        const size_t r = (size_t)row;
        call c = *all;
        c.loss = loss;
        c.rows = all->rows - row < MAX_ROWS ? all->rows - row : MAX_ROWS;
        c.token = all->token + r;
        c.out[0] = all->out[0] + r * (size_t)all->width;
        for (int i = 0; i < 2; i++)
            c.in[i] = moved(all->in[i], r);
        by_rows(d, part, &c);
        for (int i = 0; i < c.rows; i++)
            sum += loss[i];
    }
    *total = sum;
}

static void cross_entropy_part(const call *c, size_t r, size_t rows) {
    sl_cpu_cross_entropy((int)rows, c->width, c->out[0] + r * (size_t)c->width, c->token + r, c->number,
                         c->loss + r);
}

static void cross_entropy(sl_device *d, int rows, int vocabulary, float *logits, const uint16_t *target,
                          float grad_scale, double *loss) {
    call c = {.rows = rows, .width = vocabulary, .token = target, .number = grad_scale, .out = {logits}};
    divide_losses(d, cross_entropy_part, &c, loss);
}

static void entropy_top_part(const call *c, size_t r, size_t rows) {
    sl_cpu_entropy_top((int)rows, c->width, c->in[0] + r * (size_t)c->width, c->out[0] + r);
}

static void entropy_top(sl_device *d, int rows, int columns, const float *logits, float *top) {
    call c = {.rows = rows, .width = columns, .in = {logits}, .out = {top}};
    by_rows(d, entropy_top_part, &c);
}

static void entropy_sums_part(const call *c, size_t r, size_t rows) {
    sl_cpu_entropy_sums((int)rows, c->width, c->first, c->out[0] + r * (size_t)c->width, c->token + r,
                        c->in[0] + r, c->out[1] + r, c->out[1] + c->rows + r);
}

static void entropy_sums(sl_device *d, int rows, int columns, int first, float *logits,
                         const uint16_t *target, const float *top, float *sums) {
    call c = {
        .rows = rows, .width = columns, .first = first, .token = target, .in = {top}, .out = {logits, sums}};
    by_rows(d, entropy_sums_part, &c);
}

static void entropy_grad_part(const call *c, size_t r, size_t rows) {
    sl_cpu_entropy_grad((int)rows, c->width, c->first, c->out[0] + r * (size_t)c->width, c->token + r,
                        c->in[0] + r, c->in[1] + r, c->number, c->loss + r);
}

static void entropy_grad(sl_device *d, int rows, int columns, int first, float *logits,
                         const uint16_t *target, const float *sums, float grad_scale, double *loss) {
    call c = {.rows = rows,
              .width = columns,
              .first = first,
              .token = target,
              .number = grad_scale,
              .in = {sums, sums + rows},
              .out = {logits}};
    divide_losses(d, entropy_grad_part, &c, loss);
}

void sl_cpu_fill_divided(sl_device *d) {
    d->layernorm = layernorm;
    d->layernorm_apply = layernorm_apply;
    d->layernorm_input_grad = layernorm_input_grad;
    d->layernorm_weight_grad = layernorm_weight_grad;
    d->rmsnorm = rmsnorm;
    d->rmsnorm_apply = rmsnorm_apply;
    d->rmsnorm_input_grad = rmsnorm_input_grad;
    d->rmsnorm_weight_grad = rmsnorm_weight_grad;
    d->bias_grad = bias_grad;
    d->gelu = gelu;
    d->gelu_input_grad = gelu_input_grad;
    d->swiglu = swiglu;
    d->swiglu_input_grad = swiglu_input_grad;
    d->rope = rope;
    d->embed = embed;
    d->embed_weight_grad = embed_weight_grad;
    d->add_positions = add_positions;
    d->positions_weight_grad = positions_weight_grad;
    d->add_rows = add_rows;
    d->cross_entropy = cross_entropy;
    d->entropy_top = entropy_top;
    d->entropy_sums = entropy_sums;
    d->entropy_grad = entropy_grad;
}
