/* Attention and its gradient against the formula in f64 with the whole matrix; the same bits on every
 * instruction set, for any number of threads, and for a sequence alone or among others. */
#include "attention_formula.h"

/* The kernels once more, without clones. */
#define SL_VECTORISED
#define sl_cpu_attention_scratch plain_attention_scratch
#define sl_cpu_attention plain_attention
#define sl_cpu_attention_grad plain_attention_grad
#include "run/device/cpu_attention.c"

static int seed(void **state) {
    (void)state;
    start_numbers(4711);
    return 0;
}

static results run(sl_device *d, trial *t) {
    results r = room(t);
    float *scratch = numbers(d->attention_scratch(d, &t->shape), NAN);
    d->attention(d, &t->shape, t->queries, t->keys, t->values, r.out, r.lse, scratch);
    d->attention_grad(d, &t->shape, t->queries, t->keys, t->values, r.out, r.lse, t->dout, r.dq, r.dk, r.dv,
                      scratch);
    free(scratch);
    return r;
}

static results run_plain(trial *t) {
    sl_device one = {.threads = 1};
    results r = room(t);
    float *scratch = numbers(plain_attention_scratch(&one, &t->shape), NAN);
    plain_attention(&one, &t->shape, t->queries, t->keys, t->values, r.out, r.lse, scratch);
    plain_attention_grad(&one, &t->shape, t->queries, t->keys, t->values, r.out, r.lse, t->dout, r.dq, r.dk,
                         r.dv, scratch);
    free(scratch);
    return r;
}

static const int shapes[][6] = {
    /* batch, context, heads, kv_heads, size, gap */
    {1, 1, 1, 1, 1, 0},     {2, 5, 2, 1, 3, 1},     {1, 64, 2, 2, 64, 0}, {2, 65, 2, 2, 16, 5},
    {1, 130, 4, 2, 20, 16}, {1, 200, 6, 2, 64, 0},  {1, 67, 3, 1, 80, 2}, {3, 63, 4, 4, 33, 0},
    {1, 257, 2, 1, 48, 7},  {1, 128, 1, 1, 128, 0},
};

static void attention_and_its_gradients_follow_the_formula(void **state) {
    (void)state;
    sl_device *d;
    assert_ok(sl_device_open_cpu(1, &d));
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int *x = shapes[i];
        trial t = make(x[0], x[1], x[2], x[3], x[4], x[5], 1.5f);
        const sl_attention_shape *s = &t.shape;
        results r = run(d, &t), plain = run_plain(&t);
        exact e = follow_formula(&t);
        same(&t, &r, &plain);
        compare(r.out, e.out, s, s->heads, s->out_stride, 4e-6, "out");
        compare(r.dq, e.dq, s, s->heads, s->q_stride, 1e-5, "dq");
        compare(r.dk, e.dk, s, s->kv_heads, s->kv_stride, 3e-5, "dk");
        compare(r.dv, e.dv, s, s->kv_heads, s->kv_stride, 3e-5, "dv");
        for (size_t k = 0; k < t.l; k++)
            near(r.lse[k], e.lse[k], 4e-6 * (1 + fabs(e.lse[k])), "lse");
        free_exact(&e);
        free_results(&plain);
        free_results(&r);
        free_trial(&t);
    }
    d->close(d);
}

/* Scores far beyond exp's range: the softmax is taken relative to the largest one, also when that comes in a
 * later block. */
static void large_scores_do_not_overflow(void **state) {
    (void)state;
    sl_device *d;
    assert_ok(sl_device_open_cpu(1, &d));
    trial t = make(1, 150, 1, 1, 16, 0, 1);
    for (int c = 0; c < 150; c++) /* query 149 wants key 140, and nothing else */
        for (int i = 0; i < 16; i++) {
            t.queries[c * 16 + i] = 30;
            t.keys[c * 16 + i] = c == 140 ? 30.0f : (float)(c % 7);
        }
    results r = run(d, &t);
    for (int i = 0; i < 16; i++)
        near(r.out[149 * 16 + i], t.values[140 * 16 + i], 1e-6, "the value of the key that is wanted");
    near(r.lse[149], 3600, 1e-3, "lse");
    for (size_t i = 0; i < t.q; i++)
        assert_true(isfinite(r.dq[i]) && isfinite(r.dk[i]) && isfinite(r.dv[i]));
    free_results(&r);
    free_trial(&t);
    d->close(d);
}

static void threads_change_no_bit(void **state) {
    (void)state;
    sl_device *one;
    assert_ok(sl_device_open_cpu(1, &one));
    trial t = make(3, 150, 6, 3, 24, 4, 1);
    results alone = run(one, &t);
    for (int threads = 2; threads <= 4; threads++) {
        sl_device *d;
        assert_ok(sl_device_open_cpu(threads, &d));
        results r = run(d, &t);
        same(&t, &alone, &r);
        free_results(&r);
        d->close(d);
    }
    free_results(&alone);
    free_trial(&t);
    one->close(one);
}

/* The last sequence of three, and its first rows only: what comes after a row never reaches it. */
static void a_row_depends_on_itself_and_those_before(void **state) {
    (void)state;
    sl_device *d;
    assert_ok(sl_device_open_cpu(1, &d));
    trial t = make(3, 100, 2, 2, 24, 0, 1);
    results all = run(d, &t);
    const size_t at = 2 * 100 * 48;
    trial last = t;
    last.shape.batch = 1;
    last.queries += at;
    last.keys += at;
    last.values += at;
    last.dout += at;
    last.rows = 100;
    last.q = last.kv = last.o = 100 * 48;
    last.l = 200;
    results alone = run(d, &last);
    assert_memory_equal(alone.out, all.out + at, last.o * sizeof(float));
    assert_memory_equal(alone.dq, all.dq + at, last.q * sizeof(float));
    assert_memory_equal(alone.dk, all.dk + at, last.kv * sizeof(float));
    assert_memory_equal(alone.dv, all.dv + at, last.kv * sizeof(float));
    last.shape.context = 71;
    last.o = last.q = last.kv = 71 * 48;
    last.l = 142;
    results begin = run(d, &last);
    assert_memory_equal(begin.out, all.out + at, last.o * sizeof(float));
    free_results(&begin);
    free_results(&alone);
    free_results(&all);
    free_trial(&t);
    d->close(d);
}

/* As a model does it: q, k and v side by side, and each gradient where its operand was. */
static void gradients_may_replace_their_operands(void **state) {
    (void)state;
    sl_device *d;
    assert_ok(sl_device_open_cpu(2, &d));
    trial t = make(2, 90, 2, 2, 16, 64, 1); /* 32 floats of q; the gap holds k and v */
    const size_t rows = t.rows, stride = (size_t)t.shape.q_stride;
    t.shape.kv_stride = t.shape.q_stride;
    float *joined = numbers(rows * stride, 1), *scratch = numbers(d->attention_scratch(d, &t.shape), NAN);
    results r = {numbers(t.o, 0), numbers(t.l, 0), numbers(rows * stride, 0), numbers(rows * stride, 0),
                 numbers(rows * stride, 0)};
    float *q = joined, *k = joined + 32, *v = joined + 64;
    d->attention(d, &t.shape, q, k, v, r.out, r.lse, scratch);
    d->attention_grad(d, &t.shape, q, k, v, r.out, r.lse, t.dout, r.dq, r.dk, r.dv, scratch);
    d->attention_grad(d, &t.shape, q, k, v, r.out, r.lse, t.dout, q, k, v, scratch);
    for (size_t row = 0; row < rows; row++) {
        assert_memory_equal(q + row * stride, r.dq + row * stride, 32 * sizeof(float));
        assert_memory_equal(k + row * stride, r.dk + row * stride, 32 * sizeof(float));
        assert_memory_equal(v + row * stride, r.dv + row * stride, 32 * sizeof(float));
    }
    free(joined);
    free(scratch);
    free_results(&r);
    free_trial(&t);
    d->close(d);
}

/* 16 times the context needs 16 times the memory, not 256 times. */
static void scratch_grows_with_the_context(void **state) {
    (void)state;
    sl_device *d;
    assert_ok(sl_device_open_cpu(2, &d));
    sl_attention_shape s = {.batch = 1, .context = 1024, .heads = 12, .kv_heads = 12, .size = 64};
    const size_t small = d->attention_scratch(d, &s);
    s.context = 16384;
    assert_true(d->attention_scratch(d, &s) <= 16 * small);
    d->close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_and_its_gradients_follow_the_formula),
        cmocka_unit_test(large_scores_do_not_overflow),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(a_row_depends_on_itself_and_those_before),
        cmocka_unit_test(gradients_may_replace_their_operands),
        cmocka_unit_test(scratch_grows_with_the_context),
    };
    return cmocka_run_group_tests(tests, seed, NULL);
}
