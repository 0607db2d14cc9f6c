/* Matrix products: right in every form, a row's bits free of the other rows and of addresses, the threads as
 * configured. */
#include "check.h"

#include "run/device/device.h"
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
    void *scratch = scratch_of(bytes);
    assert_ok(d->matmul(d, product, a, b, bias, c, scratch));
    free(scratch);
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
                exact += x * y;
                size += fabs(x * y);
            }
            exact +=
                (s->bias ? (double)bias[j] : 0) + (s->add ? (double)old[i * (size_t)s->c_stride + j] : 0);
            double ours = c[i * (size_t)s->c_stride + j];
            if (!(fabs(ours - exact) <= (double)(k + 2) * 0x1p-24 * size))
                fail_msg("%zu x %zu x %zu at %zu, %zu: %.9g, exactly %.9g", m, k, n, i, j, ours, exact);
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
    for (int form = 0; form < 16; form++) {
        int ta = form & 1, tb = form >> 1 & 1, m = 37, n = 50, k = 70;
        sl_matmul_shape s = {.rows = m,
                             .columns = n,
                             .inner = k,
                             .transpose_a = ta,
                             .transpose_b = tb,
                             .a_stride = (ta ? m : k) + 3,
                             .b_stride = (tb ? k : n) + 5,
                             .c_stride = n + 2,
                             .bias = form >> 2 & 1,
                             .add = form >> 3 & 1};
        check_form(d, &s);
    }
    sl_matmul *product;
    size_t bytes;
    sl_matmul_shape none = {.rows = 0, .columns = 1, .inner = 1};
    assert_fails(d->matmul_prepare(d, &none, &product, &bytes), SL_EINVAL, "0 x 1 x 1");
    d->close(d);
}

/* The last `rows` rows of a product of 192 rows, computed alone and from an odd address. */
static void check_rows(sl_device *d, int columns, int inner, int transpose_b, int bias, int add) {
    enum { MOST = 192 };
    sl_matmul_shape s = {.rows = MOST,
                         .columns = columns,
                         .inner = inner,
                         .transpose_b = transpose_b,
                         .a_stride = inner,
                         .b_stride = transpose_b ? inner : columns,
                         .c_stride = columns,
                         .bias = bias,
                         .add = add};
    const size_t width = (size_t)columns;
    float *a = numbers((size_t)MOST * (size_t)inner, 0), *b = numbers((size_t)inner * width, 0),
          *v = numbers(width, 0);
    float *all = numbers(MOST * width, 0), *some = numbers(MOST * width, 1),
          *start = numbers(MOST * width, 0);
    memcpy(all, start, MOST * width * sizeof *all);
    run(d, &s, a, b, bias ? v : NULL, all);
    for (s.rows = 1; s.rows < MOST; s.rows += s.rows < 20 ? 1 : 19) {
        size_t first = (size_t)(MOST - s.rows), count = (size_t)s.rows * width;
        float *odd = numbers((size_t)s.rows * (size_t)inner, 3);
        memcpy(odd, a + first * (size_t)inner, (size_t)s.rows * (size_t)inner * sizeof *odd);
        memcpy(some, start + first * width, count * sizeof *some);
        run(d, &s, odd, b, bias ? v : NULL, some);
        if (memcmp(some, all + first * width, count * sizeof *some) != 0)
            fail_msg("%d rows of %d x %d differ from the same rows among %d", s.rows, inner, columns, MOST);
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
    check_rows(d, 384, 128, 0, 1, 0);
    check_rows(d, 128, 512, 0, 1, 1);
    check_rows(d, 128, 384, 1, 0, 0);
    check_rows(d, 2304, 768, 0, 1, 0);
    check_rows(d, 768, 3072, 0, 1, 1);
    check_rows(d, 768, 2304, 1, 0, 0);
    check_rows(d, 256, 768, 1, 0, 0);
    check_rows(d, 192, 64, 1, 0, 0); /* scores of a head */
    check_rows(d, 64, 192, 0, 0, 0); /* its mix */
    d->close(d);
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

/* A new thread inherits the environment's number of threads; the product made and run there must not. */
static void *multiply_elsewhere(void *device) {
    sl_matmul_shape s = {
        .rows = 8, .columns = 16, .inner = 16, .a_stride = 16, .b_stride = 16, .c_stride = 16};
    float *a = numbers(128, 0), *b = numbers(256, 0), *c = numbers(128, 0);
    run(device, &s, a, b, NULL, c);
    free(a);
    free(b);
    free(c);
    return omp_get_max_threads() == ((sl_device *)device)->threads ? device : NULL;
}

static void threads_are_those_configured_in_every_thread(void **state) {
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
        cmocka_unit_test(threads_are_those_configured_in_every_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
