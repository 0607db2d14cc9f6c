/* labels: long */
/* Matrix products: right in every form, a row's bits free of the other rows and of addresses, the threads as
 * configured. */
#include "check.h"

#include "run/device/cpu_bf16.h"
#include <math.h>
#include <pthread.h>

extern int omp_get_max_threads(void);

static uint32_t state_of_random = 99;

static float any(void) {
    state_of_random = state_of_random * 1664525u + 1013904223u;
    return (float)(state_of_random >> 8) * 0x1p-23f - 1.0f;
}

/* 64-byte aligned, then `skew` floats on. */
static float *numbers(size_t count, size_t skew) {
    float *x = aligned_alloc(64, (count + skew + 15) / 16 * 64);
    for (size_t i = 0; i < count; i++)
        x[i + skew] = any();
    return x + skew;
}

static void *scratch_of(size_t bytes) {
    return aligned_alloc(64, bytes / 64 * 64 + 64);
}

static void run(sl_device *d, const sl_matmul_shape *s, const float *a, const float *b, const float *bias,
                float *c) {
    sl_matmul *product;
    size_t bytes;
    assert_ok(d->matmul_prepare(d, s, &product, &bytes));
    void *scratch = scratch_of(bytes), *packed = NULL;
    if (s->packed) {
        packed = scratch_of(d->matmul_packed_bytes(product));
        assert_ok(d->matmul_pack(d, product, b, packed));
    }
    assert_ok(d->matmul(d, product, a, packed ? packed : b, bias, c, scratch));
    free(packed);
    free(scratch);
}

/* What a product of that type multiplies. */
static double operand(float x, int type) {
    if (type == SL_F32)
        return x;
    const uint32_t bits = sl_bf16(x) << 16;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static int skip_type(const sl_device *d, int type) {
    if (type == SL_F32 || d->has_bf16)
        return 0;
    print_message("bf16 is left out: this processor has only %s\n", d->isa);
    return 1;
}

/* |error| <= inner * 2^-24 * sum |a||b| and one rounding each for bias and c. */
static void check_form(sl_device *d, const sl_matmul_shape *s) {
    const size_t m = (size_t)s->rows, n = (size_t)s->columns, k = (size_t)s->inner;
    float *a = numbers((size_t)s->a_stride * (s->transpose_a ? k : m), 0);
    float *b = numbers((size_t)s->b_stride * (s->transpose_b ? n : k), 0);
    float *bias = numbers(n, 0), *c = numbers((size_t)s->c_stride * m, 0),
          *old = numbers((size_t)s->c_stride * m, 0);
    memcpy(old, c, (size_t)s->c_stride * m * sizeof *c);
    run(d, s, a, b, s->bias ? bias : NULL, c);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double exact = 0, size = 2;
            for (size_t l = 0; l < k; l++) {
                double x = s->transpose_a ? a[l * (size_t)s->a_stride + i] : a[i * (size_t)s->a_stride + l];
                double y = s->transpose_b ? b[j * (size_t)s->b_stride + l] : b[l * (size_t)s->b_stride + j];
                exact += operand((float)x, s->type) * operand((float)y, s->type);
                size += fabs(x * y);
            }
            exact +=
                (s->bias ? (double)bias[j] : 0) + (s->add ? (double)old[i * (size_t)s->c_stride + j] : 0);
            double ours = c[i * (size_t)s->c_stride + j];
            if (!(fabs(ours - exact) <= (double)(k + 2) * 0x1p-24 * size))
                fail_msg("%zu x %zu x %zu, type %d, packed %d, at %zu, %zu: %.9g, exactly %.9g", m, k, n,
                         s->type, s->packed, i, j, ours, exact);
        }
    free(a);
    free(b);
    free(bias);
    free(c);
    free(old);
}

static void every_form_is_right(void **state) {
    (void)state;
    sl_device *d;
    assert_ok(sl_device_open_cpu(1, &d));
    for (int form = 0; form < 64; form++) {
        int ta = form & 1, tb = form >> 1 & 1, m = 37, n = 150, k = 70, type = form >> 4 & 1;
        if (type == SL_BF16 && !d->has_bf16)
            continue;
        sl_matmul_shape s = {.rows = m,
                             .columns = n,
                             .inner = k,
                             .transpose_a = ta,
                             .transpose_b = tb,
                             .a_stride = (ta ? m : k) + 3,
                             .b_stride = (tb ? k : n) + 5,
                             .c_stride = n + 2,
                             .bias = form >> 2 & 1,
                             .add = form >> 3 & 1,
                             .type = type,
                             .packed = form >> 5 & 1};
        check_form(d, &s);
    }
    sl_matmul *product;
    size_t bytes;
    sl_matmul_shape none = {.rows = 0, .columns = 1, .inner = 1};
    assert_fails(d->matmul_prepare(d, &none, &product, &bytes), SL_EINVAL, "0 x 1 x 1");
    d->close(d);
}

/* The last `rows` rows of a product of 192 rows, computed alone and from an odd address. */
static void check_rows(sl_device *d, int type, int packed, int columns, int inner, int transpose_b, int bias,
                       int add) {
    enum { MAX = 192 };
    sl_matmul_shape s = {.rows = MAX,
                         .columns = columns,
                         .inner = inner,
                         .transpose_b = transpose_b,
                         .a_stride = inner,
                         .b_stride = transpose_b ? inner : columns,
                         .c_stride = columns,
                         .bias = bias,
                         .add = add,
                         .type = type,
                         .packed = packed};
    const size_t width = (size_t)columns;
    float *a = numbers((size_t)MAX * (size_t)inner, 0), *b = numbers((size_t)inner * width, 0),
          *v = numbers(width, 0);
    float *all = numbers(MAX * width, 0), *some = numbers(MAX * width, 1), *start = numbers(MAX * width, 0);
    memcpy(all, start, MAX * width * sizeof *all);
    run(d, &s, a, b, bias ? v : NULL, all);
    for (s.rows = 1; s.rows < MAX; s.rows += s.rows < 20 ? 1 : 19) {
        size_t first = (size_t)(MAX - s.rows), count = (size_t)s.rows * width;
        float *odd = numbers((size_t)s.rows * (size_t)inner, 3);
        memcpy(odd, a + first * (size_t)inner, (size_t)s.rows * (size_t)inner * sizeof *odd);
        memcpy(some, start + first * width, count * sizeof *some);
        run(d, &s, odd, b, bias ? v : NULL, some);
        if (memcmp(some, all + first * width, count * sizeof *some) != 0)
            fail_msg("%d rows of %d x %d differ from the same rows among %d", s.rows, inner, columns, MAX);
        free(odd - 3);
    }
    free(a);
    free(b);
    free(v);
    free(all);
    free(some - 1);
    free(start);
}

static void a_row_never_depends_on_the_other_rows(void **state) {
    (void)state;
    sl_device *d;
    assert_ok(sl_device_open_cpu(1, &d));
    for (int form = 0; form < 4; form++) {
        const int type = form & 1, packed = form >> 1;
        if (skip_type(d, type))
            continue;
        check_rows(d, type, packed, 384, 128, 0, 1, 0);
        check_rows(d, type, packed, 128, 512, 0, 1, 1);
        check_rows(d, type, packed, 128, 384, 1, 0, 0);
        check_rows(d, type, packed, 2304, 768, 0, 1, 0);
        check_rows(d, type, packed, 768, 3072, 0, 1, 1);
        check_rows(d, type, packed, 768, 2304, 1, 0, 0);
        check_rows(d, type, packed, 256, 768, 1, 0, 0);
    }
    d->close(d);
}

/* A product as a model has it, on one thread and on several: forward, gradients of inputs, and gradients of
 * weights, whose a is stored transposed. */
static void check_threads(sl_device *const device[4], int type, int packed, int rows, int columns, int inner,
                          int ta, int tb, int add) {
    sl_matmul_shape s = {.rows = rows,
                         .columns = columns,
                         .inner = inner,
                         .transpose_a = ta,
                         .transpose_b = tb,
                         .a_stride = ta ? rows : inner,
                         .b_stride = tb ? inner : columns,
                         .c_stride = columns,
                         .add = add,
                         .type = type,
                         .packed = packed};
    const size_t count = (size_t)rows * (size_t)columns;
    float *a = numbers((size_t)rows * (size_t)inner, 0), *b = numbers((size_t)inner * (size_t)columns, 0);
    float *start = numbers(count, 0), *one = numbers(count, 0), *several = numbers(count, 0);
    memcpy(one, start, count * sizeof *one);
    run(device[0], &s, a, b, NULL, one);
    for (int t = 1; t < 4; t++) {
        memcpy(several, start, count * sizeof *one);
        run(device[t], &s, a, b, NULL, several);
        if (memcmp(one, several, count * sizeof *one) != 0)
            fail_msg("%d x %d x %d, type %d, packed %d: %d threads give other bits than one", rows, inner,
                     columns, type, packed, t + 1);
    }
    free(a);
    free(b);
    free(start);
    free(one);
    free(several);
}

static void threads_change_no_bit_at_real_sizes(void **state) {
    (void)state;
    sl_device *device[4];
    for (int t = 0; t < 4; t++)
        assert_ok(sl_device_open_cpu(t + 1, &device[t]));
    for (int form = 0; form < 4; form++) {
        const int type = form & 1, packed = form >> 1;
        if (skip_type(device[0], type))
            continue;
        check_threads(device, type, packed, 200, 2304, 768, 0, 0, 0);
        check_threads(device, type, packed, 256, 768, 3072, 0, 0, 1);
        check_threads(device, type, packed, 100, 3072, 768, 0, 1, 0);
        check_threads(device, type, packed, 40, 50257, 768, 0, 1, 0);
        check_threads(device, type, packed, 40, 768, 50257, 0, 0, 0);
    }
    for (int type = 0; type < 2; type++) {
        if (skip_type(device[0], type))
            continue;
        for (int add = 0; add < 2; add++) {
            check_threads(device, type, 0, 768, 2304, 256, 1, 0, add);
            check_threads(device, type, 0, 3072, 768, 200, 1, 0, add);
            check_threads(device, type, 0, 50257, 768, 40, 1, 0, add);
            check_threads(device, type, 0, 5, 768, 64, 1, 0, add);
        }
    }
    for (int t = 0; t < 4; t++)
        device[t]->close(device[t]);
}

/* A packed operand is a matter of speed. What depends on inner and columns alone serves any number of rows.
 */
static void packed_weights_serve_any_number_of_rows(void **state) {
    (void)state;
    sl_device *d;
    assert_ok(sl_device_open_cpu(2, &d));
    for (int type = 0; type < 2; type++) {
        if (skip_type(d, type))
            continue;
        sl_matmul_shape s = {.rows = 300,
                             .columns = 200,
                             .inner = 90,
                             .a_stride = 90,
                             .b_stride = 200,
                             .c_stride = 200,
                             .type = type,
                             .packed = 1};
        float *a = numbers(300 * 90, 0), *b = numbers(90 * 200, 0), *all = numbers(300 * 200, 0),
              *some = numbers(300 * 200, 0);
        sl_matmul *many, *few;
        size_t bytes, fewer;
        assert_ok(d->matmul_prepare(d, &s, &many, &bytes));
        s.rows = 7;
        assert_ok(d->matmul_prepare(d, &s, &few, &fewer));
        assert_int_equal(d->matmul_packed_bytes(many), d->matmul_packed_bytes(few));
        void *packed = scratch_of(d->matmul_packed_bytes(many)),
             *scratch = scratch_of(bytes > fewer ? bytes : fewer);
        assert_ok(d->matmul_pack(d, many, b, packed));
        assert_ok(d->matmul(d, many, a, packed, NULL, all, scratch));
        assert_ok(d->matmul(d, few, a, packed, NULL, some, scratch));
        assert_memory_equal(all, some, 7 * 200 * sizeof(float));
        s.packed = 0;
        assert_ok(d->matmul_prepare(d, &s, &few, &fewer));
        memset(some, 0, 7 * 200 * sizeof(float));
        run(d, &s, a, b, NULL, some); /* packing itself changes no bit */
        assert_memory_equal(all, some, 7 * 200 * sizeof(float));
        assert_fails(d->matmul_pack(d, few, b, packed), SL_EINVAL, "not packed");
        free(a);
        free(b);
        free(all);
        free(some);
        free(packed);
        free(scratch);
    }
    d->close(d);
}

/* By hand: bf16 keeps 8 bits of the significand; ties go to even. */
static void bf16_rounds_to_nearest_even(void **state) {
    (void)state;
    assert_int_equal(sl_bf16(1.0f), 0x3f80);
    assert_int_equal(sl_bf16(1.0f + 0x1p-8f), 0x3f80);            /* a tie, down to even */
    assert_int_equal(sl_bf16(1.0f + 0x3p-8f), 0x3f82);            /* a tie, up to even */
    assert_int_equal(sl_bf16(1.0f + 0x1p-8f + 0x1p-20f), 0x3f81); /* above the tie */
    assert_int_equal(sl_bf16(-2.5f), 0xc020);
    assert_int_equal(sl_bf16(-0.0f), 0x8000);
    assert_int_equal(sl_bf16(3.4e38f), 0x7f80); /* beyond the largest: infinity */
    assert_int_equal(sl_bf16(INFINITY), 0x7f80);
    assert_true((sl_bf16(NAN) & 0x7fff) > 0x7f80);
}

/* A sum of microbatches: what is added onto an accumulator is the product as it is alone. */
static void adding_onto_is_the_product_apart_then_added(void **state) {
    (void)state;
    sl_device *d;
    assert_ok(sl_device_open_cpu(1, &d));
    const int sizes[][3] = {{128, 64, 384}, {768, 64, 768}, {256, 60, 96}};
    for (size_t i = 0; i < 3; i++) {
        sl_matmul_shape s = {.rows = sizes[i][0],
                             .columns = sizes[i][2],
                             .inner = sizes[i][1],
                             .transpose_a = 1,
                             .a_stride = sizes[i][0],
                             .b_stride = sizes[i][2],
                             .c_stride = sizes[i][2]};
        size_t count = (size_t)s.rows * (size_t)s.columns;
        float *a = numbers((size_t)s.inner * (size_t)s.rows, 0),
              *b = numbers((size_t)s.inner * (size_t)s.columns, 0);
        float *apart = numbers(count, 0), *sum = numbers(count, 0);
        run(d, &s, a, b, NULL, apart);
        for (size_t e = 0; e < count; e++)
            apart[e] = sum[e] + apart[e];
        s.add = 1;
        run(d, &s, a, b, NULL, sum);
        assert_memory_equal(apart, sum, count * sizeof *sum);
        free(a);
        free(b);
        free(apart);
        free(sum);
    }
    d->close(d);
}

/* A new thread inherits the environment's number of threads; a product made and run there must not start any.
 */
static void *multiply_elsewhere(void *device) {
    sl_matmul_shape s = {
        .rows = 800, .columns = 160, .inner = 160, .a_stride = 160, .b_stride = 160, .c_stride = 160};
    float *a = numbers(128000, 0), *b = numbers(25600, 0), *c = numbers(128000, 0),
          *again = numbers(128000, 0);
    run(device, &s, a, b, NULL, c);
    s.rows--; /* another product, made with what the first left behind */
    run(device, &s, a, b, NULL, again);
    int same = memcmp(c, again, 799 * 160 * sizeof *c) == 0;
    free(a);
    free(b);
    free(c);
    free(again);
    return same && omp_get_max_threads() == 1 ? device : NULL;
}

static void onednn_starts_no_threads_of_its_own(void **state) {
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        sl_device *d;
        pthread_t thread;
        void *result;
        assert_ok(sl_device_open_cpu(threads, &d));
        assert_int_equal(pthread_create(&thread, NULL, multiply_elsewhere, d), 0);
        pthread_join(thread, &result);
        assert_ptr_equal(result, d);
        d->close(d);
    }
    sl_device *d;
    assert_fails(sl_device_open_cpu(0, &d), SL_EINVAL, "threads");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_right),
        cmocka_unit_test(a_row_never_depends_on_the_other_rows),
        cmocka_unit_test(adding_onto_is_the_product_apart_then_added),
        cmocka_unit_test(threads_change_no_bit_at_real_sizes),
        cmocka_unit_test(packed_weights_serve_any_number_of_rows),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(onednn_starts_no_threads_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
