/* labels: gpu */
/* Every op of the table on a CUDA card: near the cpu device, whose own tests compare it with formulas, or
 * equal to it bit by bit where each step is the same; the same bits for any number of rows, at any address
 * and in every run. Results are full of NaN before they are written. */
#include "numbers.h"

#include "run/device/device.h"
#include <math.h>
#include <pthread.h>

static sl_device *card;

/* What is wrong is printed, and the test fails at its end: a card is lent for a short time. */
static int wrong;
#define WRONG(...)                                                                                           \
    do {                                                                                                     \
        if (wrong++ < 20)                                                                                    \
            print_error(__VA_ARGS__);                                                                        \
    } while (0)

/* SL_BRIEF: small shapes, for tools that slow programs down; "ops": and no products. */
static const char *brief;

static int start(void **state) {
    (void)state;
    wrong = 0;
    return 0;
}

/* A device and the memory taken for a test on it; `skew`: floats by which arrays miss their alignment. */
typedef struct side {
    sl_device *device;
    int skew;
    void *block[128];
    int blocks;
} side;

static void *take(side *s, size_t bytes) {
    void *block;
    assert_ok(s->device->memory_open(s->device, bytes + 64 + (size_t)s->skew * sizeof(float), &block));
    s->block[s->blocks++] = block;
    return block;
}

static void fetch(const side *s, void *to, const void *from, size_t bytes) {
    s->device->read(s->device, to, from, bytes);
    assert_ok(s->device->finish(s->device));
}

static void put(const side *s, void *to, const void *from, size_t bytes) {
    s->device->write(s->device, to, from, bytes);
    assert_ok(s->device->finish(s->device));
}

static void give_all(side *s) {
    while (s->blocks)
        s->device->memory_close(s->device, s->block[--s->blocks]);
}

static float *floats(side *s, const float *from, size_t count) {
    float *x = (float *)take(s, count * sizeof *x) + s->skew;
    put(s, x, from, count * sizeof *x);
    return x;
}

static float *poisoned(side *s, size_t count) {
    float *poison = malloc(count * sizeof *poison);
    memset(poison, 0xff, count * sizeof *poison);
    float *x = floats(s, poison, count);
    free(poison);
    return x;
}

/* ---- everything but products, of one shape ---- */

enum { BITS = 0, MAX_RESULTS = 48 };

/* What an op has written. `of_rows`: each row is a result by itself. `bound`: allowed roundings of the
 * largest number, or BITS. */
typedef struct result {
    const char *name;
    float *x;
    size_t count;
    int of_rows;
    double bound;
} result;

typedef struct results {
    result list[MAX_RESULTS];
    int count;
} results;

typedef struct shape {
    int rows, width, context, heads;
} shape;

static void keep(const side *s, results *all, const char *name, const float *x, size_t count, int of_rows,
                 double bound) {
    result *r = &all->list[all->count++];
    *r = (result){name, malloc(count * sizeof *x), count, of_rows, bound};
    fetch(s, r->x, x, count * sizeof *x);
}

/* Numbers in f64: all of their bits, or rounded. */
static void keep_doubles(const side *s, results *all, const char *name, const double *x, size_t count,
                         double bound) {
    const size_t floats_each = bound == BITS ? 2 : 1;
    double *host = malloc(count * sizeof *host);
    result *r = &all->list[all->count++];
    *r = (result){name, malloc(count * sizeof *host), count * floats_each, 0, bound};
    fetch(s, host, x, count * sizeof *host);
    if (bound == BITS)
        memcpy(r->x, host, count * sizeof *host);
    for (size_t i = 0; i < count && bound != BITS; i++)
        r->x[i] = (float)host[i];
    free(host);
}

/* Inputs of the largest shape; a run with fewer rows uses their beginning. */
typedef struct inputs {
    float *x, *y, *z, *gain, *bias;
    uint16_t *token;
} inputs;

static float *numbers(size_t count, float scale) {
    float *x = malloc(count * sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = scale * any();
    return x;
}

static inputs draw(const shape *s) {
    const size_t rows = (size_t)s->rows, width = (size_t)s->width, area = rows * width;
    inputs in = {numbers(area, 2),  numbers(area, 2),  numbers(area, 1),
                 numbers(width, 1), numbers(width, 1), malloc(rows * sizeof *in.token)};
    for (size_t i = 0; i < rows; i++) /* many of the same, as in a text */
        in.token[i] = (uint16_t)((float)s->width * fabsf(any() * any() * any()));
    return in;
}

static void drop(inputs *in) {
    free(in->x);
    free(in->y);
    free(in->z);
    free(in->gain);
    free(in->bias);
    free(in->token);
}

static void run_norms(side *s, const shape *sh, const inputs *in, results *all) {
    sl_device *d = s->device;
    const int rows = sh->rows, width = sh->width;
    const size_t w = (size_t)width, area = (size_t)rows * w;
    const double sums = 16 + 4 * sqrt(rows);
    float *x = floats(s, in->x, area), *y = floats(s, in->y, area), *z = floats(s, in->z, area),
          *gain = floats(s, in->gain, w), *bias = floats(s, in->bias, w), *scratch = poisoned(s, 2 * w),
          *normal = poisoned(s, area), *scale = poisoned(s, (size_t)rows), *out = poisoned(s, area),
          *again = poisoned(s, area), *dx = poisoned(s, area), *gain_grad = floats(s, in->bias, w),
          *bias_grad = floats(s, in->gain, w);
    d->layernorm(d, rows, width, x, gain, bias, normal, scale, out);
    keep(s, all, "layernorm, normal", normal, area, 1, 16);
    keep(s, all, "layernorm, scale", scale, (size_t)rows, 1, 16);
    keep(s, all, "layernorm, y", out, area, 1, 16);
    d->layernorm_apply(d, rows, width, normal, gain, bias, again);
    keep(s, all, "layernorm_apply", again, area, 1, 16);
    assert_memory_equal(all->list[all->count - 1].x, all->list[all->count - 2].x, area * sizeof *x);
    d->layernorm_input_grad(d, rows, width, y, gain, normal, scale, z, dx);
    keep(s, all, "layernorm_input_grad", dx, area, 1, 32);
    d->layernorm_input_grad(d, rows, width, y, gain, normal, scale, NULL, dx);
    keep(s, all, "layernorm_input_grad without residual", dx, area, 1, 32);
    put(s, again, z, area * sizeof *z);
    d->layernorm_input_grad(d, rows, width, y, gain, normal, scale, again, again);
    keep(s, all, "layernorm_input_grad onto the residual", again, area, 1, 32);
    assert_memory_equal(all->list[all->count - 1].x, all->list[all->count - 3].x, area * sizeof *x);
    d->layernorm_weight_grad(d, rows, width, y, normal, scratch, gain_grad, bias_grad);
    keep(s, all, "layernorm_weight_grad, gain", gain_grad, w, 0, sums);
    keep(s, all, "layernorm_weight_grad, bias", bias_grad, w, 0, sums);
    d->bias_grad(d, rows, width, y, scratch, bias_grad);
    keep(s, all, "bias_grad", bias_grad, w, 0, sums);
    d->rmsnorm(d, rows, width, 1e-5f, x, gain, normal, scale, out);
    keep(s, all, "rmsnorm, normal", normal, area, 1, 16);
    keep(s, all, "rmsnorm, scale", scale, (size_t)rows, 1, 16);
    keep(s, all, "rmsnorm, y", out, area, 1, 16);
    d->rmsnorm_apply(d, rows, width, normal, gain, again);
    keep(s, all, "rmsnorm_apply", again, area, 1, 16);
    assert_memory_equal(all->list[all->count - 1].x, all->list[all->count - 2].x, area * sizeof *x);
    d->rmsnorm_input_grad(d, rows, width, y, gain, normal, scale, z, dx);
    keep(s, all, "rmsnorm_input_grad", dx, area, 1, 32);
    d->rmsnorm_weight_grad(d, rows, width, y, normal, scratch, gain_grad);
    keep(s, all, "rmsnorm_weight_grad", gain_grad, w, 0, sums);
}

static void run_pointwise(side *s, const shape *sh, const inputs *in, results *all) {
    sl_device *d = s->device;
    const int rows = sh->rows, width = sh->width, size = width / sh->heads / 2 * 2;
    const size_t w = (size_t)width, area = (size_t)rows * w, table_size = (size_t)(sh->context * size);
    float *x = floats(s, in->x, area), *y = floats(s, in->y, area), *z = floats(s, in->z, area),
          *bias = floats(s, in->bias, w), *out = poisoned(s, area),
          *host_table = malloc((table_size + 1) * sizeof *x);
    d->gelu(d, area, x, out);
    keep(s, all, "gelu", out, area, 1, BITS);
    d->gelu_input_grad(d, area, x, y);
    keep(s, all, "gelu_input_grad, y", x, area, 1, BITS);
    assert_memory_equal(all->list[all->count - 1].x, all->list[all->count - 2].x, area * sizeof *x);
    keep(s, all, "gelu_input_grad, dx", y, area, 1, BITS);
    put(s, x, in->x, area * sizeof *x);
    put(s, y, in->y, area * sizeof *y);
    d->swiglu(d, area, x, y, out);
    keep(s, all, "swiglu", out, area, 1, BITS);
    d->swiglu_input_grad(d, area, x, y, z);
    keep(s, all, "swiglu_input_grad, y", z, area, 1, BITS);
    assert_memory_equal(all->list[all->count - 1].x, all->list[all->count - 2].x, area * sizeof *x);
    keep(s, all, "swiglu_input_grad, gate", x, area, 1, BITS);
    keep(s, all, "swiglu_input_grad, up", y, area, 1, BITS);
    put(s, x, in->x, area * sizeof *x);
    put(s, y, in->y, area * sizeof *y);
    d->add_rows(d, rows, width, y, bias, x);
    keep(s, all, "add_rows", x, area, 1, BITS);
    d->add_rows(d, rows, width, y, NULL, x);
    keep(s, all, "add_rows without bias", x, area, 1, BITS);
    d->rope_table(sh->context, size, 10000, host_table);
    float *table = floats(s, host_table, table_size);
    for (int backward = 0; backward < 2 && size; backward++) {
        d->rope(d, rows, sh->context, sh->heads, size, width, backward, table, y);
        keep(s, all, backward ? "rope backward" : "rope", y, area, 1, BITS);
    }
    free(host_table);
}

static void run_ends(side *s, const shape *sh, const inputs *in, results *all) {
    sl_device *d = s->device;
    const int rows = sh->rows, width = sh->width, first = width / 7, count = (width + 1) / 2;
    const size_t w = (size_t)width, area = (size_t)rows * w, part = (size_t)count * w;
    float *own = numbers(2 * part + (size_t)sh->context * w, 1), *table = floats(s, own, part),
          *grad = floats(s, own + part, part), *places = floats(s, own + 2 * part, (size_t)sh->context * w),
          *dx = floats(s, in->y, area), *x = poisoned(s, area), *top = poisoned(s, (size_t)rows),
          *sums = poisoned(s, 2 * (size_t)rows);
    uint16_t *token = take(s, (size_t)rows * sizeof *token + 2);
    token += s->skew;
    put(s, token, in->token, (size_t)rows * sizeof *token);
    d->embed(d, rows, width, first, count, token, table, x);
    keep(s, all, "embed", x, area, 1, BITS);
    d->add_positions(d, rows, width, sh->context, places, x);
    keep(s, all, "add_positions", x, area, 1, BITS);
    d->embed_weight_grad(d, rows, width, first, count, token, dx, grad);
    keep(s, all, "embed_weight_grad", grad, part, 0, BITS);
    d->positions_weight_grad(d, rows, width, sh->context, dx, places);
    keep(s, all, "positions_weight_grad", places, (size_t)sh->context * w, 0, BITS);
    put(s, x, in->x, area * sizeof *x);
    double *loss = take(s, 2 * sizeof *loss);
    d->cross_entropy(d, rows, width, x, token, 0.5f, &loss[0]);
    keep(s, all, "cross_entropy", x, area, 1, 32);
    put(s, x, in->x, area * sizeof *x);
    d->entropy_top(d, rows, width, x, top);
    keep(s, all, "entropy_top", top, (size_t)rows, 1, BITS);
    d->entropy_sums(d, rows, width, first, x, token, top, sums);
    keep(s, all, "entropy_sums, exponentials", x, area, 1, BITS);
    keep(s, all, "entropy_sums, sums", sums, (size_t)rows, 1, 32);
    keep(s, all, "entropy_sums, targets", sums + rows, (size_t)rows, 1, BITS);
    d->entropy_grad(d, rows, width, first, x, token, sums, 0.5f, &loss[1]);
    keep(s, all, "entropy_grad", x, area, 1, 32);
    keep_doubles(s, all, "losses", loss, 2, 16);
    free(own);
}

/* What the optimizer does; elements that other ranks have marked. */
static void run_update(side *s, const shape *sh, const inputs *in, results *all) {
    const sl_adamw_step step = {0.7f, 0.9f, 0.1f, 0.95f, 0.05f, 0.999f, 1e-8f, 3e-4f, 1.5f};
    sl_device *d = s->device;
    const size_t rows = (size_t)sh->rows, w = (size_t)sh->width, area = rows * w,
                 blocks = (area + SL_SQUARES_BLOCK - 1) / SL_SQUARES_BLOCK;
    float *x = floats(s, in->x, area), *y = floats(s, in->y, area), *z = floats(s, in->z, area),
          *moment2 = poisoned(s, area);
    double *squares = take(s, blocks * sizeof *squares);
    unsigned char *marked = take(s, rows + 1), *mark = malloc(rows);
    d->squares(d, 0, area, x, squares);
    keep_doubles(s, all, "squares", squares, blocks, BITS);
    for (size_t i = 0; i < rows; i++)
        mark[i] = in->token[i] % 3 == 1;
    marked += s->skew;
    put(s, marked, mark, rows);
    d->add_marked(d, sh->rows, sh->width, marked, x, y);
    keep(s, all, "add_marked, from", x, area, 1, BITS);
    keep(s, all, "add_marked, to", y, area, 1, BITS);
    d->add(d, area, x, y);
    keep(s, all, "add", y, area, 1, BITS);
    d->zero(d, moment2, area * sizeof *moment2);
    put(s, x, in->x, area * sizeof *x);
    for (int i = 0; i < 3; i++)
        d->adamw(d, &step, area, x, y, z, moment2);
    keep(s, all, "adamw, weight", y, area, 1, BITS);
    keep(s, all, "adamw, first moment", z, area, 1, BITS);
    keep(s, all, "adamw, second moment", moment2, area, 1, BITS);
    free(mark);
}

static results run_all(sl_device *d, int skew, const shape *sh, const inputs *in) {
    static side s;
    results all = {.count = 0};
    s = (side){.device = d, .skew = skew};
    state_of_random = 5; /* for what is drawn inside */
    run_norms(&s, sh, in, &all);
    run_pointwise(&s, sh, in, &all);
    run_ends(&s, sh, in, &all);
    run_update(&s, sh, in, &all);
    give_all(&s);
    return all;
}

static void free_results(results *all) {
    for (int i = 0; i < all->count; i++)
        free(all->list[i].x);
}

static void check_near(const results *ours, const results *wanted, const shape *sh) {
    assert_int_equal(ours->count, wanted->count);
    for (int i = 0; i < ours->count; i++) {
        const result *r = &ours->list[i], *w = &wanted->list[i];
        double largest = 1, worst = 0;
        for (size_t j = 0; j < r->count; j++)
            largest = fmax(largest, fabs((double)w->x[j]));
        for (size_t j = 0; j < r->count; j++) {
            const double off = fabs((double)r->x[j] - (double)w->x[j]);
            worst = off <= worst ? worst : off; /* also if it is not a number */
        }
        if (r->bound == BITS ? memcmp(r->x, w->x, r->count * sizeof *r->x) != 0
                             : !(worst <= r->bound * 0x1p-24 * largest))
            WRONG("%s, %d x %d: off by %g, allowed %g roundings of %g\n", r->name, sh->rows, sh->width, worst,
                  r->bound, largest);
    }
}

static void check_same(const results *ours, const results *wanted, const shape *sh, const char *why) {
    for (int i = 0; i < ours->count; i++) {
        const result *r = &ours->list[i];
        if (memcmp(r->x, wanted->list[i].x, r->count * sizeof *r->x) != 0)
            WRONG("%s, %d x %d: other bits %s\n", r->name, sh->rows, sh->width, why);
    }
}

static const shape shapes[] = {{1, 1, 1, 1},      {37, 75, 9, 3},      {5, 768, 4, 12},  {3000, 52, 100, 3},
                               {3, 1600, 2, 25},  {130, 1024, 64, 16}, {2, 5120, 1, 40}, {7, 4099, 3, 1},
                               {600, 33, 50, 4},  {1000, 96, 250, 2},  {9, 9001, 4, 11}, {4, 16384, 2, 16},
                               {257, 516, 64, 4}, {64, 3072, 16, 3}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static int shapes_to_try(void) {
    return !brief ? SHAPES : strcmp(brief, "ops") == 0 ? 3 : 5;
}

static void every_op_is_the_cpus(void **state) {
    (void)state;
    sl_device *cpu;
    assert_ok(sl_device_open_cpu(2, &cpu));
    for (int i = 0; i < shapes_to_try(); i++) {
        inputs in = draw(&shapes[i]);
        results ours = run_all(card, 0, &shapes[i], &in), wanted = run_all(cpu, 0, &shapes[i], &in);
        check_near(&ours, &wanted, &shapes[i]);
        free_results(&ours);
        free_results(&wanted);
        drop(&in);
    }
    cpu->close(cpu);
    assert_int_equal(wrong, 0);
}

/* Again, at odd addresses, and with fewer rows. */
static void nothing_but_a_row_decides_its_bits(void **state) {
    (void)state;
    for (int i = 0; i < shapes_to_try(); i++) {
        shape sh = shapes[i];
        inputs in = draw(&sh);
        results once = run_all(card, 0, &sh, &in), again = run_all(card, 0, &sh, &in),
                askew = run_all(card, 1, &sh, &in);
        check_same(&again, &once, &sh, "in a second run");
        check_same(&askew, &once, &sh, "at odd addresses");
        sh.rows = (sh.rows + 2) / 3;
        results few = run_all(card, 0, &sh, &in);
        for (int j = 0; j < few.count; j++) /* sums over fewer rows are others */
            if (!few.list[j].of_rows)
                few.list[j].count = 0;
        check_same(&few, &once, &sh, "among other rows");
        free_results(&few);
        free_results(&askew);
        free_results(&again);
        free_results(&once);
        drop(&in);
    }
    assert_int_equal(wrong, 0);
}

/* ---- products ---- */

static void multiply(side *s, const sl_matmul_shape *m, const float *a, const float *b, const float *bias,
                     float *c) {
    const size_t rows = (size_t)m->rows, columns = (size_t)m->columns, inner = (size_t)m->inner;
    sl_device *d = s->device;
    sl_matmul *product;
    size_t bytes;
    const sl_status status = d->matmul_prepare(d, m, &product, &bytes);
    if (status != SL_OK) {
        WRONG("%d x %d x %d, transposed %d %d, type %d: %s\n", m->rows, m->inner, m->columns, m->transpose_a,
              m->transpose_b, m->type, sl_error_text());
        return;
    }
    /* as aligned as it must be, and no more; packed weights begin where it ends */
    const size_t packed_bytes = d->matmul_packed_bytes(product);
    char *scratch = (char *)take(s, bytes + packed_bytes + 128) + 64,
         *packed = scratch + (bytes + 63) / 64 * 64;
    float *at_a = floats(s, a, (size_t)m->a_stride * (m->transpose_a ? inner : rows)),
          *at_b = floats(s, b, (size_t)m->b_stride * (m->transpose_b ? columns : inner)),
          *at_bias = m->bias ? floats(s, bias, columns) : NULL,
          *at_c = floats(s, c, (size_t)m->c_stride * rows);
    if (m->packed) {
        assert_ok(d->matmul_pack(d, product, at_b, packed));
        at_b = (float *)(void *)packed;
    }
    assert_ok(d->matmul(d, product, at_a, at_b, at_bias, at_c, scratch));
    fetch(s, c, at_c, (size_t)m->c_stride * rows * sizeof *c);
    give_all(s);
}

static float as_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* |error| <= inner * 2^-24 * sum |a||b|, and one rounding each for bias and c. */
static void check_form(const sl_matmul_shape *m) {
    const size_t rows = (size_t)m->rows, columns = (size_t)m->columns, inner = (size_t)m->inner,
                 a_stride = (size_t)m->a_stride, b_stride = (size_t)m->b_stride,
                 c_stride = (size_t)m->c_stride;
    float *a = numbers(a_stride * (m->transpose_a ? inner : rows), 1),
          *b = numbers(b_stride * (m->transpose_b ? columns : inner), 1), *bias = numbers(columns, 1),
          *c = numbers(c_stride * rows, 1), *old = malloc(c_stride * rows * sizeof *c);
    memcpy(old, c, c_stride * rows * sizeof *c);
    side s = {.device = card};
    multiply(&s, m, a, b, bias, c);
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            double exact = (m->bias ? bias[j] : 0) + (m->add ? (double)old[i * c_stride + j] : 0), size = 2;
            for (size_t l = 0; l < inner; l++) {
                float x = a[m->transpose_a ? l * a_stride + i : i * a_stride + l],
                      y = b[m->transpose_b ? j * b_stride + l : l * b_stride + j];
                if (m->type == SL_BF16)
                    x = as_bf16(x), y = as_bf16(y);
                exact += (double)x * (double)y;
                size += fabs((double)x * (double)y);
            }
            const double ours = c[i * c_stride + j];
            if (!(fabs(ours - exact) <= (double)(inner + 2) * 0x1p-24 * size))
                WRONG(
                    "%d x %d x %d, transposed %d %d, bias %d, add %d, type %d, packed %d, at %zu, %zu: %.9g, "
                    "exactly %.9g\n",
                    m->rows, m->inner, m->columns, m->transpose_a, m->transpose_b, m->bias, m->add, m->type,
                    m->packed, i, j, ours, exact);
        }
        for (size_t j = columns; j < c_stride; j++)
            assert_true(c[i * c_stride + j] == old[i * c_stride + j]);
    }
    free(a);
    free(b);
    free(bias);
    free(c);
    free(old);
}

static sl_matmul_shape of_form(int form, int rows, int columns, int inner, int odd) {
    const int ta = form & 1, tb = form >> 1 & 1;
    return (sl_matmul_shape){.rows = rows,
                             .columns = columns,
                             .inner = inner,
                             .transpose_a = ta,
                             .transpose_b = tb,
                             .a_stride = (ta ? rows : inner) + 3 * odd,
                             .b_stride = (tb ? inner : columns) + 5 * odd,
                             .c_stride = columns + 2 * odd,
                             .bias = form >> 2 & 1,
                             .add = form >> 3 & 1,
                             .type = form >> 4 & 1,
                             .packed = form >> 5 & 1};
}

static void every_form_of_a_product_is_right(void **state) {
    (void)state;
    sl_matmul *product;
    size_t bytes;
    for (int form = 0; form < (brief && !strcmp(brief, "ops") ? 0 : 64); form++) {
        sl_matmul_shape odd = of_form(form, 37, 150, 70, 1), even = of_form(form, 40, 136, 72, 0),
                        one = of_form(form, 1, 1, 1, 0);
        check_form(&odd);
        check_form(&even);
        check_form(&one);
    }
    sl_matmul_shape none = {.rows = 0, .columns = 1, .inner = 1};
    assert_fails(card->matmul_prepare(card, &none, &product, &bytes), SL_EINVAL, "0 x 1 x 1");
    assert_int_equal(wrong, 0);
}

/* The first rows of a product of many, computed alone. */
static void check_rows(int form, int many, int columns, int inner) {
    static const int counts[] = {1, 2, 5, 13, 31, 64, 129, 256, 500, 1024, 1500, 2048, 6000};
    sl_matmul_shape m = of_form(form, many, columns, inner, 0);
    const size_t width = (size_t)columns;
    float *a = numbers((size_t)many * (size_t)inner, 1),
          *some = malloc((size_t)many * (size_t)inner * sizeof *a), *b = numbers((size_t)inner * width, 1),
          *bias = numbers(width, 1), *old = numbers((size_t)many * width, 1),
          *all = malloc((size_t)many * width * sizeof *all), *c = malloc((size_t)many * width * sizeof *c);
    side s = {.device = card};
    memcpy(all, old, (size_t)many * width * sizeof *all);
    multiply(&s, &m, a, b, bias, all);
    for (size_t i = 0; i < sizeof counts / sizeof *counts && counts[i] < many; i++) {
        m = of_form(form, counts[i], columns, inner, 0);
        const size_t from = i % 2 ? (size_t)(many - m.rows) : 0;
        memcpy(c, old + from * width, (size_t)m.rows * width * sizeof *c);
        for (size_t l = 0; l < (size_t)inner && m.transpose_a; l++)
            memcpy(some + l * (size_t)m.rows, a + l * (size_t)many + from, (size_t)m.rows * sizeof *a);
        multiply(&s, &m, m.transpose_a ? some : a + from * (size_t)inner, b, bias, c);
        if (memcmp(c, all + from * width, (size_t)m.rows * width * sizeof *c) != 0)
            WRONG("%d rows of %d x %d, form %d, differ from the same rows among %d\n", m.rows, inner, columns,
                  form, many);
    }
    free(a);
    free(some);
    free(b);
    free(bias);
    free(old);
    free(all);
    free(c);
}

/* The first and the last rows, of products as models have them. */
static void a_row_never_depends_on_the_other_rows(void **state) {
    (void)state;
    static const int sizes[][2] = {{2304, 768}, {768, 3072}, {257, 96}, {1600, 1600}, {5003, 768}},
                     forms[] = {0, 2, 13}; /* as it is; b transposed; a transposed, bias, added */
    for (int type = 0; type < 2 && !brief; type++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (size_t form = 0; form < sizeof forms / sizeof *forms; form++)
                check_rows(forms[form] | type << 4, i || !type ? 2100 : 8192, sizes[i][0], sizes[i][1]);
    assert_int_equal(wrong, 0);
}

/* A sum of microbatches: what is added onto an accumulator is the product as it is alone. */
static void adding_onto_is_the_product_apart_then_added(void **state) {
    (void)state;
    static const int sizes[][3] = {
        {128, 384, 64}, {768, 768, 8192}, {256, 96, 60}, {768, 3072, 4096}, {1024, 4096, 2048}};
    for (int type = 0; type < 2 && !brief; type++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            sl_matmul_shape m = of_form(1 | type << 4, sizes[i][0], sizes[i][1], sizes[i][2], 0);
            const size_t count = (size_t)m.rows * (size_t)m.columns;
            float *a = numbers((size_t)m.rows * (size_t)m.inner, 1),
                  *b = numbers((size_t)m.inner * (size_t)m.columns, 1), *apart = numbers(count, 1),
                  *onto = numbers(count, 1);
            side s = {.device = card};
            multiply(&s, &m, a, b, NULL, apart);
            for (size_t j = 0; j < count; j++)
                apart[j] = onto[j] + apart[j];
            m.add = 1;
            multiply(&s, &m, a, b, NULL, onto);
            if (memcmp(apart, onto, count * sizeof *onto) != 0)
                WRONG("%d x %d x %d, type %d: added onto is not apart and added\n", m.rows, m.inner,
                      m.columns, type);
            free(a);
            free(b);
            free(apart);
            free(onto);
        }
    assert_int_equal(wrong, 0);
}

static void what_is_missing_is_named(void **state) {
    (void)state;
    const char *set = getenv("SLACKLINE_CUBLASLT");
    char *kept = set ? strdup(set) : NULL;
    sl_device *none;
    assert_fails(sl_device_open_cuda(4096, &none), SL_EINVAL, "no CUDA card 4096");
    setenv("SLACKLINE_CUBLASLT", "/nowhere/libcublasLt.so", 1);
    assert_fails(sl_device_open_cuda(0, &none), SL_ESYS, "SLACKLINE_CUBLASLT");
    if (kept)
        setenv("SLACKLINE_CUBLASLT", kept, 1);
    else
        unsetenv("SLACKLINE_CUBLASLT");
    free(kept);
}

/* A failure of queued work is there when it is waited for, and stays. */
static void an_error_is_kept_for_finish(void **state) {
    (void)state;
    sl_device *other;
    assert_ok(sl_device_open_cuda(0, &other));
    assert_ok(other->finish(other));
    other->rmsnorm(other, 1, 20000, 1e-5f, NULL, NULL, NULL, NULL, NULL);
    other->zero(other, NULL, 0);
    for (int i = 0; i < 2; i++)
        assert_fails(other->finish(other), SL_ESYS, "16384 columns");
    void *memory;
    assert_fails(other->memory_open(other, (size_t)1 << 50, &memory), SL_ENOMEM, "1125899906842624 bytes");
    other->close(other);
}

/* Memory that is pinned, and memory that is not; the parts of one copy. */
static void copies_bring_what_was_written(void **state) {
    (void)state;
    enum { COUNT = 100003 };
    float *there = numbers(COUNT, 1), *back = calloc(COUNT, sizeof *back), *memory, *other;
    assert_ok(card->memory_open(card, COUNT * sizeof *memory, &memory));
    assert_ok(card->memory_open(card, COUNT * sizeof *other, &other));
    for (int pinned = 0; pinned < 2; pinned++) {
        if (pinned)
            assert_ok(card->pin(card, back, COUNT * sizeof *back));
        card->write(card, memory, there, COUNT * sizeof *memory);
        card->copy(card, other, memory, COUNT * sizeof *memory);
        card->zero(card, memory, COUNT * sizeof *memory);
        card->read(card, back, other, 1000 * sizeof *back);
        card->read(card, back + 1000, other + 1000, (COUNT - 1000) * sizeof *back);
        assert_ok(card->finish(card));
        assert_memory_equal(there, back, COUNT * sizeof *back);
        card->read(card, back, memory, COUNT * sizeof *back);
        assert_ok(card->finish(card));
        for (int i = 0; i < COUNT; i++)
            assert_true(back[i] == 0);
        if (pinned)
            card->unpin(card, back);
    }
    card->memory_close(card, memory);
    card->memory_close(card, other);
    free(there);
    free(back);
}

/* Of the functions that any thread may call, while another computes. */
static void *copy_and_square(void *object) {
    enum { COUNT = 5000, TIMES = 200 };
    const float number = (float)(size_t)object;
    float *host = malloc(COUNT * sizeof *host), *memory;
    double *squares, sum[5];
    size_t right = card->memory_open(card, COUNT * sizeof *memory, &memory) == SL_OK &&
                   card->memory_open(card, sizeof sum, &squares) == SL_OK;
    for (int i = 0; i < COUNT; i++)
        host[i] = number;
    for (int i = 0; i < TIMES && right; i++) {
        card->zero(card, memory, COUNT * sizeof *memory);
        card->write(card, memory, host, COUNT * sizeof *host);
        card->squares(card, 0, COUNT, memory, squares);
        card->read(card, sum, squares, sizeof sum);
        right = card->finish(card) == SL_OK && sum[0] == 1024.0 * (double)number * (double)number &&
                sum[4] == 904.0 * (double)number * (double)number;
    }
    card->memory_close(card, memory);
    card->memory_close(card, squares);
    free(host);
    return (void *)right;
}

static void threads_may_copy_while_another_computes(void **state) {
    (void)state;
    enum { COUNT = 1000000 };
    side s = {.device = card};
    pthread_t thread[4];
    float *x = numbers(COUNT, 1), *at = floats(&s, x, COUNT), *out = poisoned(&s, COUNT);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, copy_and_square, (void *)(i + 1)), 0);
    for (int i = 0; i < 500; i++)
        card->gelu(card, COUNT, at, out);
    for (int i = 0; i < 4; i++) {
        void *right;
        pthread_join(thread[i], &right);
        assert_non_null(right);
    }
    assert_ok(card->finish(card));
    give_all(&s);
    free(x);
}

/* Also of another device of the card: ranks that share one. */
static void devices_of_a_card_agree(void **state) {
    (void)state;
    sl_device *other;
    assert_ok(sl_device_open_cuda(0, &other));
    assert_string_equal(card->isa, other->isa);
    for (int form = 0; form < 32 && !brief; form += 5) {
        const sl_matmul_shape m = of_form(form, 300, 520, 260, 0);
        float *a = numbers(300 * 260, 1), *b = numbers(260 * 520, 1), *bias = numbers(520, 1),
              *c = numbers(300 * 520, 1), *again = malloc(300 * 520 * sizeof *again);
        side one = {.device = card}, two = {.device = other};
        memcpy(again, c, 300 * 520 * sizeof *c);
        multiply(&one, &m, a, b, bias, c);
        multiply(&two, &m, a, b, bias, again);
        assert_memory_equal(c, again, 300 * 520 * sizeof *c);
        free(a);
        free(b);
        free(bias);
        free(c);
        free(again);
    }
    other->close(other);
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_op_is_the_cpus, start),
        cmocka_unit_test_setup(nothing_but_a_row_decides_its_bits, start),
        cmocka_unit_test_setup(every_form_of_a_product_is_right, start),
        cmocka_unit_test_setup(a_row_never_depends_on_the_other_rows, start),
        cmocka_unit_test_setup(adding_onto_is_the_product_apart_then_added, start),
        cmocka_unit_test_setup(what_is_missing_is_named, start),
        cmocka_unit_test_setup(copies_bring_what_was_written, start),
        cmocka_unit_test_setup(threads_may_copy_while_another_computes, start),
        cmocka_unit_test_setup(devices_of_a_card_agree, start),
        cmocka_unit_test_setup(an_error_is_kept_for_finish, start),
    };
    brief = getenv("SL_BRIEF");
    const sl_status status = sl_device_open_cuda(0, &card);
    if (status != SL_OK) {
        printf("%s%s\n", status == SL_EINVAL ? "skipped: " : "", sl_error_text());
        return status == SL_EINVAL ? 77 : 1;
    }
    start_numbers(12345);
    printf("%s\n", card->isa);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    card->close(card);
    return failed;
}
