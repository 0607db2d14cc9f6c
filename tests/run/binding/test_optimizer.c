#include "check.h"
#include "run/binding/cpu_group.h"

#include "run/binding/optimizer.h"
#include <math.h>

static sl_optimizer constant(double decay) {
    return (sl_optimizer){.lr = 0.01,
                          .floor = 1,
                          .warmup = 0,
                          .iterations = 100,
                          .beta1 = 0.9,
                          .beta2 = 0.95,
                          .epsilon = 1e-8,
                          .decay = decay};
}

/* By hand: in the first step both corrected moments are g and g^2, so each weight moves by lr * sign(g),
 * after it has shrunk by lr * decay: 0.5 * 0.999 - 0.01. Steps 2 and 3 are PyTorch 2.13's AdamW (asked again
 * by test_pytorch.py). */
static void three_steps_are_those_of_pytorch(void **state) {
    (void)state;
    const double expected[3][3] = {{0.5 * 0.999 - 0.01, -1.25 * 0.999 + 0.01, 2.0 * 0.999 - 0.01},
                                   {0.479430646, -1.22793138, 1.97643244},
                                   {0.469506115, -1.21725833, 1.965011}};
    float w[3] = {0.5f, -1.25f, 2.0f}, m[3] = {0}, v[3] = {0};
    sl_optimizer o = constant(0.1);
    for (int step = 0; step < 3; step++) {
        float n = (float)(step + 1), g[3] = {0.1f * n, -2.0f * n, 1e-3f * n};
        sl_optimizer_step(&o, device, step, 1.0f, 1, 3, g, w, m, v);
        for (int i = 0; i < 3; i++)
            assert_near((double)w[i], expected[step][i], 3e-7);
    }
}

static void vectors_do_not_decay(void **state) {
    (void)state;
    float w = 2.0f, m = 0, v = 0, g = 1e-3f;
    sl_optimizer o = constant(0.1);
    sl_optimizer_step(&o, device, 0, 1.0f, 0, 1, &g, &w, &m, &v);
    assert_near((double)w, 2.0 - 0.01, 3e-7);
}

static void clipping_scales_the_gradient(void **state) {
    (void)state;
    float w[2] = {1, 1}, m[2] = {0}, v[2] = {0}, g[2] = {3.0f, 1.5f};
    sl_optimizer o = constant(0.1);
    sl_optimizer_step(&o, device, 0, 0.5f, 1, 1, g, w, m, v);
    sl_optimizer_step(&o, device, 0, 1.0f, 1, 1, g + 1, w + 1, m + 1, v + 1);
    assert_true(w[0] == w[1] && m[0] == m[1] && v[0] == v[1]);
    assert_near((double)m[0], 0.15, 1e-7);
    assert_near((double)v[0], 0.1125, 1e-7);
}

/* Elements pass through the same operations in a vector, in its remainder and alone. */
static void cutting_changes_no_bit(void **state) {
    (void)state;
    enum { N = 133 };
    float w[2][N], m[2][N], v[2][N], g[N];
    unsigned s = 7;
    for (int i = 0; i < N; i++) {
        s = s * 1664525u + 1013904223u;
        w[0][i] = w[1][i] = (float)s / 4e9f;
        g[i] = (float)(s >> 7) / 4e7f - 0.4f;
        m[0][i] = m[1][i] = 0.01f * g[i];
        v[0][i] = v[1][i] = 0.02f * g[i] * g[i];
    }
    sl_optimizer o = constant(0.1);
    sl_optimizer_step(&o, device, 5, 0.7f, 1, N, g, w[0], m[0], v[0]);
    for (int i = 0, n = 1; i < N; i += n, n = n % 23 + 1) {
        int size = i + n > N ? N - i : n;
        sl_optimizer_step(&o, device, 5, 0.7f, 1, (size_t)size, g + i, w[1] + i, m[1] + i, v[1] + i);
    }
    assert_memory_equal(w[0], w[1], sizeof w[0]);
    assert_memory_equal(m[0], m[1], sizeof m[0]);
    assert_memory_equal(v[0], v[1], sizeof v[0]);
}

static void threads_change_no_bit(void **state) {
    (void)state;
    enum { N = 200001 };
    static float w[2][N], m[2][N], v[2][N], g[N];
    for (int threads = 2; threads <= 5; threads++) {
        for (int i = 0; i < N; i++) {
            g[i] = (float)(i % 1009) / 1e3f - 0.5f;
            w[0][i] = w[1][i] = (float)(i % 97) / 50.0f - 1.0f;
            m[0][i] = m[1][i] = 0.1f * g[i];
            v[0][i] = v[1][i] = 0.1f * g[i] * g[i];
        }
        sl_optimizer o = constant(0.1);
        sl_optimizer_step(&o, device, 5, 0.7f, 1, N, g, w[0], m[0], v[0]);
        sl_device *divided;
        assert_ok(sl_device_open_cpu(threads, &divided));
        sl_optimizer_step(&o, divided, 5, 0.7f, 1, N, g, w[1], m[1], v[1]);
        divided->close(divided);
        assert_memory_equal(w[0], w[1], sizeof w[0]);
        assert_memory_equal(m[0], m[1], sizeof m[0]);
        assert_memory_equal(v[0], v[1], sizeof v[0]);
    }
}

/* By hand: warm-up 4 of 20: a quarter, half, ... ; then a cosine over 16 iterations whose middle is (1 + 0.1)
 * / 2. */
static void the_rate_warms_up_and_follows_a_cosine(void **state) {
    (void)state;
    sl_optimizer o = sl_optimizer_standard(0.4, 20);
    o.warmup = 4;
    assert_near(sl_optimizer_rate(&o, 0), 0.1, 1e-15);
    assert_near(sl_optimizer_rate(&o, 1), 0.2, 1e-15);
    assert_near(sl_optimizer_rate(&o, 3), 0.4, 1e-15);
    assert_near(sl_optimizer_rate(&o, 4), 0.4, 1e-15);
    assert_near(sl_optimizer_rate(&o, 12), 0.4 * 0.55, 1e-15);
    assert_near(sl_optimizer_rate(&o, 20), 0.04, 1e-15);
    assert_near(sl_optimizer_rate(&o, 25), 0.04, 1e-15);
    o.warmup = 20; /* no cosine left */
    assert_near(sl_optimizer_rate(&o, 19), 0.4, 1e-15);
}

static void impossible_numbers_are_refused(void **state) {
    (void)state;
    sl_optimizer o = constant(0.1);
    assert_ok(sl_optimizer_check(&o));
    o.lr = NAN;
    assert_fails(sl_optimizer_check(&o), SL_EINVAL, "lr");
    o = constant(-1);
    assert_fails(sl_optimizer_check(&o), SL_EINVAL, "decay");
    o = constant(0);
    o.beta2 = 1;
    assert_fails(sl_optimizer_check(&o), SL_EINVAL, "betas");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_steps_are_those_of_pytorch),
        cmocka_unit_test(vectors_do_not_decay),
        cmocka_unit_test(clipping_scales_the_gradient),
        cmocka_unit_test(cutting_changes_no_bit),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(the_rate_warms_up_and_follows_a_cosine),
        cmocka_unit_test(impossible_numbers_are_refused),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
