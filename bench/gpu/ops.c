/* What the ops of a CUDA card reach: bytes a second beside those of a copy on the card, products beside a
 * large one, and what it costs the host to queue each. bench_gpu_ops [ROWS [WIDTH]]     defaults: 16384 rows
 * of 1600, which no cache of a card holds */
#include "base/clock.h"
#include "run/device/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMES = 20, CALLS = 2000, QUEUED = 500, VOCABULARY = 50257, CONTEXT = 1024 };

static sl_device *d;

static void must(sl_status status) {
    if (status == SL_OK)
        return;
    fprintf(stderr, "%s\n", sl_error_text());
    exit(1);
}

static void *take(size_t bytes) {
    void *memory;
    must(d->memory_open(d, bytes, &memory));
    d->zero(d, memory, bytes);
    return memory;
}

/* Fills it with numbers of -1 to 1, the same again and again: products of zeros would spare power. */
static void fill(float *x, size_t count) {
    enum { PIECE = 1 << 22 };
    float *piece = malloc(PIECE * sizeof *piece);
    uint32_t state = 1;
    for (size_t i = 0; i < PIECE; i++) {
        state = state * 1664525u + 1013904223u;
        piece[i] = (float)(state >> 8) * 0x1p-23f - 1.0f;
    }
    d->write(d, x, piece, PIECE * sizeof *piece);
    must(d->finish(d));
    for (size_t at = PIECE; at < count; at += PIECE)
        d->copy(d, x + at, x, (count - at < PIECE ? count - at : PIECE) * sizeof *x);
    free(piece);
}

/* The arrays of all ops, each as large as the largest. */
typedef struct arrays {
    int rows, width;
    size_t area;
    float *x, *y, *z, *u, *v, *scale, *gain, *logits;
    uint16_t *token;
    double *sums;
} arrays;

typedef void op_of(const arrays *a);

/* clang-format off */
static void copy(const arrays *a) { d->copy(d, a->y, a->x, a->area * 4); }
static void zero(const arrays *a) { d->zero(d, a->y, a->area * 4); }
static void layernorm(const arrays *a) { d->layernorm(d, a->rows, a->width, a->x, a->gain, a->gain, a->y, a->scale, a->z); }
static void layernorm_apply(const arrays *a) { d->layernorm_apply(d, a->rows, a->width, a->x, a->gain, a->gain, a->y); }
static void layernorm_input_grad(const arrays *a) { d->layernorm_input_grad(d, a->rows, a->width, a->x, a->gain, a->y, a->scale, a->z, a->z); }
static void layernorm_weight_grad(const arrays *a) { d->layernorm_weight_grad(d, a->rows, a->width, a->x, a->y, a->scale, a->gain, a->gain); }
static void rmsnorm(const arrays *a) { d->rmsnorm(d, a->rows, a->width, 1e-5f, a->x, a->gain, a->y, a->scale, a->z); }
static void bias_grad(const arrays *a) { d->bias_grad(d, a->rows, a->width, a->x, a->scale, a->gain); }
static void gelu(const arrays *a) { d->gelu(d, a->area, a->x, a->y); }
static void gelu_input_grad(const arrays *a) { d->gelu_input_grad(d, a->area, a->x, a->y); }
static void swiglu(const arrays *a) { d->swiglu(d, a->area, a->x, a->y, a->z); }
static void swiglu_input_grad(const arrays *a) { d->swiglu_input_grad(d, a->area, a->x, a->y, a->z); }
static void rope(const arrays *a) { d->rope(d, a->rows, CONTEXT, a->width / 64, 64, a->width, 0, a->u, a->x); }
static void add_rows(const arrays *a) { d->add_rows(d, a->rows, a->width, a->x, a->gain, a->y); }
static void embed(const arrays *a) { d->embed(d, a->rows, a->width, 0, VOCABULARY, a->token, a->logits, a->x); }
static void add_positions(const arrays *a) { d->add_positions(d, a->rows, a->width, CONTEXT, a->y, a->x); }
static void embed_weight_grad(const arrays *a) { d->embed_weight_grad(d, a->rows, a->width, 0, VOCABULARY, a->token, a->x, a->logits); }
static void positions_weight_grad(const arrays *a) { d->positions_weight_grad(d, a->rows, a->width, CONTEXT, a->x, a->y); }
static void cross_entropy(const arrays *a) { d->cross_entropy(d, a->rows / 4, VOCABULARY, a->logits, a->token, 1, a->sums); }
static void squares(const arrays *a) { d->squares(d, 0, a->area, a->x, a->sums); }
static void add(const arrays *a) { d->add(d, a->area, a->x, a->y); }
static void adamw(const arrays *a) { d->adamw(d, &(sl_adamw_step){.keep = 1, .epsilon = 1}, a->area, a->x, a->y, a->z, a->v); }

/* Passes: how many arrays of rows x width are read and written. */
static const struct { const char *name; op_of *run; double passes; } ops[] = {
    {"copy", copy, 2}, {"zero", zero, 1},
    {"layernorm", layernorm, 3}, {"layernorm_apply", layernorm_apply, 2}, {"layernorm_input_grad", layernorm_input_grad, 4},
    {"layernorm_weight_grad", layernorm_weight_grad, 2}, {"rmsnorm", rmsnorm, 3}, {"bias_grad", bias_grad, 1},
    {"gelu", gelu, 2}, {"gelu_input_grad", gelu_input_grad, 4}, {"swiglu", swiglu, 3}, {"swiglu_input_grad", swiglu_input_grad, 6},
    {"rope", rope, 2}, {"add_rows", add_rows, 3}, {"embed", embed, 2}, {"add_positions", add_positions, 2},
    {"embed_weight_grad", embed_weight_grad, 1}, {"positions_weight_grad", positions_weight_grad, 1},
    {"cross_entropy", cross_entropy, 0}, {"squares", squares, 1}, {"add", add, 3}, {"adamw", adamw, 7},
};
/* clang-format on */

static double microseconds(op_of *run, const arrays *a) {
    double best = 1e30;
    for (int i = 0; i < 3; i++) {
        must(d->finish(d));
        const sl_time start = sl_now();
        for (int t = 0; t < TIMES; t++)
            run(a);
        must(d->finish(d));
        const double each = (double)(sl_now() - start) / 1e3 / TIMES;
        best = each < best ? each : best;
    }
    return best;
}

/* What the host needs to queue an op, and the card for a small one after the other. */
static double queueing(op_of *run, const arrays *a, double *small) {
    double queued = 0;
    must(d->finish(d));
    const sl_time start = sl_now();
    for (int i = 0; i < CALLS; i++) {
        const sl_time from = sl_now();
        run(a);
        const double took = (double)(sl_now() - from) / 1e3;
        queued += i < QUEUED ? took / QUEUED : 0; /* later calls wait for room in the queue */
    }
    must(d->finish(d));
    *small = (double)(sl_now() - start) / 1e3 / CALLS;
    return queued;
}

static void show_ops(const arrays *a) {
    arrays small = *a;
    double copied = 0;
    small.rows = 32;
    small.width = 256;
    small.area = 32 * 256;
    printf("%d rows of %d, f32; vocabulary %d, %d rows\n%-24s %10s %10s %8s %12s %12s\n", a->rows, a->width,
           VOCABULARY, a->rows / 4, "op", "us", "GB/s", "of copy", "queueing, us", "small, us");
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        const double passes = ops[i].run == cross_entropy ? 2.0 * (a->rows / 4) * VOCABULARY / (double)a->area
                                                          : ops[i].passes,
                     us = microseconds(ops[i].run, a), rate = passes * (double)a->area * 4 / us / 1e3;
        copied = i ? copied : rate;
        double each, queued = queueing(ops[i].run, &small, &each);
        printf("%-24s %10.1f %10.0f %7.0f%% %12.2f %12.2f\n", ops[i].name, us, rate, 100 * rate / copied,
               queued, each);
    }
}

/* ---- products ---- */

static double product_us(const sl_matmul_shape *m, const arrays *a, int times) {
    sl_matmul *product;
    size_t bytes;
    double best = 1e30;
    must(d->matmul_prepare(d, m, &product, &bytes));
    void *scratch = take(bytes), *packed = m->packed ? take(d->matmul_packed_bytes(product)) : NULL;
    for (int i = 0; i < 3; i++) {
        must(d->finish(d));
        const sl_time start = sl_now();
        for (int t = 0; t < times; t++)
            must(d->matmul(d, product, a->x, packed ? packed : a->y, m->bias ? a->gain : NULL, a->logits,
                           scratch));
        must(d->finish(d));
        const double each = (double)(sl_now() - start) / 1e3 / times;
        best = each < best ? each : best;
    }
    d->memory_close(d, scratch);
    if (packed)
        d->memory_close(d, packed);
    return best;
}

static double show_product(const char *name, sl_matmul_shape m, const arrays *a, double large) {
    m.a_stride = m.transpose_a ? m.rows : m.inner;
    m.b_stride = m.transpose_b ? m.inner : m.columns;
    m.c_stride = m.columns;
    const double us = product_us(&m, a, 10), rate = 2.0 * m.rows * m.inner * m.columns / us / 1e6;
    printf("%-16s %6d x %6d x %6d %10.1f %10.1f %7.0f%%\n", name, m.rows, m.inner, m.columns, us, rate,
           large > 0 ? 100 * rate / large : 100.0);
    return rate;
}

/* What a copy of an operand costs: 4 bytes in, 2 or 4 out. */
static void show_packing(const arrays *a, int type) {
    sl_matmul_shape m = {.rows = 8192,
                         .columns = 8192,
                         .inner = 8192,
                         .a_stride = 8192,
                         .b_stride = 8192,
                         .c_stride = 8192,
                         .type = type,
                         .packed = 1};
    sl_matmul *product;
    size_t bytes;
    must(d->matmul_prepare(d, &m, &product, &bytes));
    void *packed = take(d->matmul_packed_bytes(product));
    must(d->finish(d));
    const sl_time start = sl_now();
    for (int i = 0; i < TIMES; i++)
        must(d->matmul_pack(d, product, a->x, packed));
    must(d->finish(d));
    const double us = (double)(sl_now() - start) / 1e3 / TIMES;
    printf("packing 8192 x 8192 %10.1f us %10.0f GB/s\n", us, 8192.0 * 8192 * (type ? 6 : 8) / us / 1e3);
    d->memory_close(d, packed);
}

static void show_products(const arrays *a, int type) {
    static const int widths[] = {768, 1600};
    show_packing(a, type);
    const double large =
        show_product("large", (sl_matmul_shape){8192, 8192, 8192, .type = type, .packed = 1}, a, 0);
    for (int i = 0; i < 2; i++) {
        const int w = widths[i], n = 8192;
        show_product("F, attention in", (sl_matmul_shape){n, 3 * w, w, .bias = 1, .type = type, .packed = 1},
                     a, large);
        show_product("F, mlp out",
                     (sl_matmul_shape){n, w, 4 * w, .bias = 1, .add = 1, .type = type, .packed = 1}, a,
                     large);
        show_product("I, mlp in", (sl_matmul_shape){n, w, 4 * w, 0, 1, .type = type, .packed = 1}, a, large);
        show_product("W, mlp in", (sl_matmul_shape){w, 4 * w, n, 1, 0, .add = 1, .type = type}, a, large);
        show_product("W, attention out", (sl_matmul_shape){w, w, n, 1, 0, .add = 1, .type = type}, a, large);
        show_product("F, head", (sl_matmul_shape){n / 2, VOCABULARY, w, 0, 1, .type = type, .packed = 1}, a,
                     large);
        show_product("I, head", (sl_matmul_shape){n / 2, w, VOCABULARY, .type = type, .packed = 1}, a, large);
        show_product("W, head", (sl_matmul_shape){VOCABULARY, w, n / 2, 1, 0, .add = 1, .type = type}, a,
                     large);
    }
}

int main(int argc, char **argv) {
    arrays a = {.rows = argc > 1 ? atoi(argv[1]) : 16384, .width = argc > 2 ? atoi(argv[2]) : 1600};
    must(sl_device_open_cuda(0, &d));
    printf("%s\n", d->isa);
    a.area = (size_t)a.rows * (size_t)a.width;
    const size_t most = (size_t)16384 * VOCABULARY, area = a.area > most ? a.area : most;
    float **each[] = {&a.x, &a.y, &a.z, &a.u, &a.v, &a.logits};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        fill(*each[i] = take(area * sizeof(float)), area);
    a.scale = take(((size_t)a.rows + 2 * (size_t)a.width) * sizeof(float));
    a.gain = take(((size_t)a.width + VOCABULARY) * sizeof(float));
    a.token = take((size_t)a.rows * sizeof *a.token);
    a.sums = take((size_t)a.rows * (size_t)a.width / 64 * sizeof *a.sums);
    uint16_t *token = malloc((size_t)a.rows * sizeof *token);
    for (int i = 0; i < a.rows; i++) /* the n-th token as often as 1 / n, as in a text */
        token[i] =
            (uint16_t)(pow(VOCABULARY, (double)((unsigned)i * 7919u % (unsigned)a.rows) / a.rows) - 0.999);
    d->write(d, a.token, token, (size_t)a.rows * sizeof *token);
    show_ops(&a);
    for (int type = 1; type >= 0; type--) {
        printf("%-16s %24s %13s %10s %8s\n", type ? "bf16" : "f32", "rows x inner x columns", "us", "TFLOP/s",
               "of large");
        show_products(&a, type);
    }
    must(d->finish(d));
    free(token);
    d->close(d);
    return 0;
}
