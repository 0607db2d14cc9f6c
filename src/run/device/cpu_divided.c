#include "run/device/cpu.h"
#include "run/device/threads.h"

/* The kernels of one thread, divided among those of the device: by rows, by elements, or, where rows are
 * summed, by columns, so that each number is made by one thread in the order in which one thread alone would
 * make it. */

#define LEAST ((size_t)16384) /* elements that pay for waking the others */
#define UNIT 16               /* columns and elements go in whole vectors */
#define MOST_ROWS 512         /* losses that are added up at a time */

/* What a kernel is given; each uses some of it. */
typedef struct call {
    int rows, width, context, heads, size, stride, first, count, backward;
    size_t elements;
    float number;
    const uint16_t *token;
    const float *in[5];
    float *out[3];
    double *loss;
} call;

typedef void share_of(void *call, int thread, int threads);

static void divide(const sl_device *device, share_of *share, size_t elements, call *c) {
    sl_threads_run(elements < LEAST ? 1 : device->threads, share, c);
}

static size_t area(int rows, int width) {
    return (size_t)rows * (size_t)width;
}

/* A thread's rows [*first, *first + *rows), or columns. */
static void rows_of(const call *c, int thread, int threads, size_t *first, int *rows) {
    size_t end;
    sl_threads_share((size_t)c->rows, 1, thread, threads, first, &end);
    *rows = (int)(end - *first);
}

static void columns_of(const call *c, int thread, int threads, size_t *first, int *columns) {
    size_t end;
    sl_threads_share((size_t)c->width, UNIT, thread, threads, first, &end);
    *columns = (int)(end - *first);
}

/* ---- normalisations ---- */

static void layernorm_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t r;
    int rows;
    rows_of(c, thread, threads, &r, &rows);
    const size_t at = r * (size_t)c->width;
    sl_cpu_layernorm(rows, c->width, c->in[0] + at, c->in[1], c->in[2], c->out[0] + at, c->out[1] + r,
                     c->out[2] + at);
}

static void layernorm(sl_device *d, int rows, int width, const float *x, const float *gain, const float *bias,
                      float *normal, float *scale, float *y) {
    call c = {.rows = rows, .width = width, .in = {x, gain, bias}, .out = {normal, scale, y}};
    divide(d, layernorm_share, area(rows, width), &c);
}

static void layernorm_apply_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t r;
    int rows;
    rows_of(c, thread, threads, &r, &rows);
    const size_t at = r * (size_t)c->width;
    sl_cpu_layernorm_apply(rows, c->width, c->in[0] + at, c->in[1], c->in[2], c->out[0] + at);
}

static void layernorm_apply(sl_device *d, int rows, int width, const float *normal, const float *gain,
                            const float *bias, float *y) {
    call c = {.rows = rows, .width = width, .in = {normal, gain, bias}, .out = {y}};
    divide(d, layernorm_apply_share, area(rows, width), &c);
}

static const float *moved(const float *x, size_t by) {
    return x ? x + by : NULL;
}

static void layernorm_input_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t r;
    int rows;
    rows_of(c, thread, threads, &r, &rows);
    const size_t at = r * (size_t)c->width;
    sl_cpu_layernorm_input_grad(rows, c->width, c->in[0] + at, c->in[1], c->in[2] + at, c->in[4] + r,
                                moved(c->in[3], at), c->out[0] + at);
}

static void layernorm_input_grad(sl_device *d, int rows, int width, const float *dy, const float *gain,
                                 const float *normal, const float *scale, const float *residual, float *dx) {
    call c = {.rows = rows, .width = width, .in = {dy, gain, normal, residual, scale}, .out = {dx}};
    divide(d, layernorm_input_share, area(rows, width), &c);
}

static void layernorm_weight_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t at;
    int columns;
    columns_of(c, thread, threads, &at, &columns);
    sl_cpu_layernorm_weight_grad(c->rows, columns, c->width, c->in[0] + at, c->in[1] + at, c->out[0] + at,
                                 c->out[0] + c->width + at, c->out[1] + at, c->out[2] + at);
}

static void layernorm_weight_grad(sl_device *d, int rows, int width, const float *dy, const float *normal,
                                  float *scratch, float *gain_grad, float *bias_grad) {
    call c = {.rows = rows, .width = width, .in = {dy, normal}, .out = {scratch, gain_grad, bias_grad}};
    divide(d, layernorm_weight_share, area(rows, width), &c);
}

static void rmsnorm_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t r;
    int rows;
    rows_of(c, thread, threads, &r, &rows);
    const size_t at = r * (size_t)c->width;
    sl_cpu_rmsnorm(rows, c->width, c->number, c->in[0] + at, c->in[1], c->out[0] + at, c->out[1] + r,
                   c->out[2] + at);
}

static void rmsnorm(sl_device *d, int rows, int width, float epsilon, const float *x, const float *gain,
                    float *normal, float *scale, float *y) {
    call c = {.rows = rows, .width = width, .number = epsilon, .in = {x, gain}, .out = {normal, scale, y}};
    divide(d, rmsnorm_share, area(rows, width), &c);
}

static void rmsnorm_apply_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t r;
    int rows;
    rows_of(c, thread, threads, &r, &rows);
    const size_t at = r * (size_t)c->width;
    sl_cpu_rmsnorm_apply(rows, c->width, c->in[0] + at, c->in[1], c->out[0] + at);
}

static void rmsnorm_apply(sl_device *d, int rows, int width, const float *normal, const float *gain,
                          float *y) {
    call c = {.rows = rows, .width = width, .in = {normal, gain}, .out = {y}};
    divide(d, rmsnorm_apply_share, area(rows, width), &c);
}

static void rmsnorm_input_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t r;
    int rows;
    rows_of(c, thread, threads, &r, &rows);
    const size_t at = r * (size_t)c->width;
    sl_cpu_rmsnorm_input_grad(rows, c->width, c->in[0] + at, c->in[1], c->in[2] + at, c->in[4] + r,
                              moved(c->in[3], at), c->out[0] + at);
}

static void rmsnorm_input_grad(sl_device *d, int rows, int width, const float *dy, const float *gain,
                               const float *normal, const float *scale, const float *residual, float *dx) {
    call c = {.rows = rows, .width = width, .in = {dy, gain, normal, residual, scale}, .out = {dx}};
    divide(d, rmsnorm_input_share, area(rows, width), &c);
}

static void rmsnorm_weight_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t at;
    int columns;
    columns_of(c, thread, threads, &at, &columns);
    sl_cpu_rmsnorm_weight_grad(c->rows, columns, c->width, c->in[0] + at, c->in[1] + at, c->out[0] + at,
                               c->out[1] + at);
}

static void rmsnorm_weight_grad(sl_device *d, int rows, int width, const float *dy, const float *normal,
                                float *scratch, float *gain_grad) {
    call c = {.rows = rows, .width = width, .in = {dy, normal}, .out = {scratch, gain_grad}};
    divide(d, rmsnorm_weight_share, area(rows, width), &c);
}

/* ---- element by element ---- */

static void bias_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t at;
    int columns;
    columns_of(c, thread, threads, &at, &columns);
    sl_cpu_bias_grad(c->rows, columns, c->width, c->in[0] + at, c->out[0] + at, c->out[1] + at);
}

static void bias_grad(sl_device *d, int rows, int width, const float *dy, float *scratch, float *grad) {
    call c = {.rows = rows, .width = width, .in = {dy}, .out = {scratch, grad}};
    divide(d, bias_share, area(rows, width), &c);
}

static void elements_of(const call *c, int thread, int threads, size_t *first, size_t *count) {
    size_t end;
    sl_threads_share(c->elements, UNIT, thread, threads, first, &end);
    *count = end - *first;
}

static void gelu_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t at, count;
    elements_of(c, thread, threads, &at, &count);
    sl_cpu_gelu(count, c->in[0] + at, c->out[0] + at);
}

static void gelu(sl_device *d, size_t count, const float *x, float *y) {
    call c = {.elements = count, .in = {x}, .out = {y}};
    divide(d, gelu_share, count, &c);
}

static void gelu_input_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t at, count;
    elements_of(c, thread, threads, &at, &count);
    sl_cpu_gelu_input_grad(count, c->out[0] + at, c->out[1] + at);
}

static void gelu_input_grad(sl_device *d, size_t count, float *x, float *dy) {
    call c = {.elements = count, .out = {x, dy}};
    divide(d, gelu_input_share, count, &c);
}

static void swiglu_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t at, count;
    elements_of(c, thread, threads, &at, &count);
    sl_cpu_swiglu(count, c->in[0] + at, c->in[1] + at, c->out[0] + at);
}

static void swiglu(sl_device *d, size_t count, const float *gate, const float *up, float *y) {
    call c = {.elements = count, .in = {gate, up}, .out = {y}};
    divide(d, swiglu_share, count, &c);
}

static void swiglu_input_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t at, count;
    elements_of(c, thread, threads, &at, &count);
    sl_cpu_swiglu_input_grad(count, c->out[0] + at, c->out[1] + at, c->out[2] + at);
}

static void swiglu_input_grad(sl_device *d, size_t count, float *gate, float *up, float *dy) {
    call c = {.elements = count, .out = {gate, up, dy}};
    divide(d, swiglu_input_share, count, &c);
}

static void rope_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t r;
    int rows;
    rows_of(c, thread, threads, &r, &rows);
    sl_cpu_rope(rows, (int)r, c->context, c->heads, c->size, c->stride, c->backward, c->in[0],
                c->out[0] + r * (size_t)c->stride);
}

static void rope(sl_device *d, int rows, int context, int heads, int size, int stride, int backward,
                 const float *table, float *x) {
    call c = {.rows = rows,
              .context = context,
              .heads = heads,
              .size = size,
              .stride = stride,
              .backward = backward,
              .in = {table},
              .out = {x}};
    divide(d, rope_share, area(rows, heads * size), &c);
}

/* ---- embeddings ---- */

static void embed_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t r;
    int rows;
    rows_of(c, thread, threads, &r, &rows);
    sl_cpu_embed(rows, c->width, c->first, c->count, c->token + r, c->in[0],
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
    divide(d, embed_share, area(rows, width), &c);
}

static void embed_weight_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t at;
    int columns;
    columns_of(c, thread, threads, &at, &columns);
    sl_cpu_embed_weight_grad(c->rows, columns, c->width, c->first, c->count, c->token, c->in[0] + at,
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
    divide(d, embed_weight_share, area(rows, width), &c);
}

static void positions_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t r;
    int rows;
    rows_of(c, thread, threads, &r, &rows);
    sl_cpu_add_positions(rows, (int)r, c->width, c->context, c->in[0], c->out[0] + r * (size_t)c->width);
}

static void add_positions(sl_device *d, int rows, int width, int context, const float *table, float *x) {
    call c = {.rows = rows, .width = width, .context = context, .in = {table}, .out = {x}};
    divide(d, positions_share, area(rows, width), &c);
}

static void positions_weight_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t at;
    int columns;
    columns_of(c, thread, threads, &at, &columns);
    sl_cpu_positions_weight_grad(c->rows, columns, c->width, c->context, c->in[0] + at, c->out[0] + at);
}

static void positions_weight_grad(sl_device *d, int rows, int width, int context, const float *dx,
                                  float *grad) {
    call c = {.rows = rows, .width = width, .context = context, .in = {dx}, .out = {grad}};
    divide(d, positions_weight_share, area(rows, width), &c);
}

static void add_rows_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t r;
    int rows;
    rows_of(c, thread, threads, &r, &rows);
    const size_t at = r * (size_t)c->width;
    sl_cpu_add_rows(rows, c->width, c->in[0] + at, c->in[1], c->out[0] + at);
}

static void add_rows(sl_device *d, int rows, int width, const float *y, const float *bias, float *x) {
    call c = {.rows = rows, .width = width, .in = {y, bias}, .out = {x}};
    divide(d, add_rows_share, area(rows, width), &c);
}

/* ---- the loss: rows are computed by any thread and added up by one, in ascending order ---- */

static double divide_losses(const sl_device *d, share_of *share, const call *all) {
    double loss[MOST_ROWS], sum = 0;
    for (int row = 0; row < all->rows; row += MOST_ROWS) {
        const size_t r = (size_t)row;
        call c = *all;
        c.loss = loss;
        c.rows = all->rows - row < MOST_ROWS ? all->rows - row : MOST_ROWS;
        c.token = all->token + r;
        c.out[0] = all->out[0] + r * (size_t)all->width;
        for (int i = 0; i < 2; i++)
            c.in[i] = moved(all->in[i], r);
        divide(d, share, area(c.rows, c.width), &c);
        for (int i = 0; i < c.rows; i++)
            sum += loss[i];
    }
    return sum;
}

static void cross_entropy_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t r;
    int rows;
    rows_of(c, thread, threads, &r, &rows);
    sl_cpu_cross_entropy(rows, c->width, c->out[0] + r * (size_t)c->width, c->token + r, c->number,
                         c->loss + r);
}

static double cross_entropy(sl_device *d, int rows, int vocabulary, float *logits, const uint16_t *target,
                            float grad_scale) {
    call c = {.rows = rows, .width = vocabulary, .token = target, .number = grad_scale, .out = {logits}};
    return divide_losses(d, cross_entropy_share, &c);
}

static void entropy_top_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t r;
    int rows;
    rows_of(c, thread, threads, &r, &rows);
    sl_cpu_entropy_top(rows, c->width, c->in[0] + r * (size_t)c->width, c->out[0] + r);
}

static void entropy_top(sl_device *d, int rows, int columns, const float *logits, float *top) {
    call c = {.rows = rows, .width = columns, .in = {logits}, .out = {top}};
    divide(d, entropy_top_share, area(rows, columns), &c);
}

static void entropy_sums_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t r;
    int rows;
    rows_of(c, thread, threads, &r, &rows);
    sl_cpu_entropy_sums(rows, c->width, c->first, c->out[0] + r * (size_t)c->width, c->token + r,
                        c->in[0] + r, c->out[1] + r, c->out[1] + c->rows + r);
}

static void entropy_sums(sl_device *d, int rows, int columns, int first, float *logits,
                         const uint16_t *target, const float *top, float *sums) {
    call c = {
        .rows = rows, .width = columns, .first = first, .token = target, .in = {top}, .out = {logits, sums}};
    divide(d, entropy_sums_share, area(rows, columns), &c);
}

static void entropy_grad_share(void *object, int thread, int threads) {
    const call *c = object;
    size_t r;
    int rows;
    rows_of(c, thread, threads, &r, &rows);
    sl_cpu_entropy_grad(rows, c->width, c->first, c->out[0] + r * (size_t)c->width, c->token + r,
                        c->in[0] + r, c->in[1] + r, c->number, c->loss + r);
}

static double entropy_grad(sl_device *d, int rows, int columns, int first, float *logits,
                           const uint16_t *target, const float *sums, float grad_scale) {
    call c = {.rows = rows,
              .width = columns,
              .first = first,
              .token = target,
              .number = grad_scale,
              .in = {sums, sums + rows},
              .out = {logits}};
    return divide_losses(d, entropy_grad_share, &c);
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
