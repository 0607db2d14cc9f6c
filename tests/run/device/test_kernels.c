/* Every kernel against the formula in f64, and against itself compiled for the plainest machine: the same
 * bits. */
#include "kernels.h"

/* The kernels once more, without clones. */
#define SL_VECTORISED
#define sl_cpu_layernorm plain_layernorm
#define sl_cpu_layernorm_apply plain_layernorm_apply
#define sl_cpu_layernorm_input_grad plain_layernorm_input_grad
#define sl_cpu_layernorm_weight_grad plain_layernorm_weight_grad
#define sl_cpu_bias_grad plain_bias_grad
#define sl_cpu_gelu plain_gelu
#define sl_cpu_gelu_input_grad plain_gelu_input_grad
#define sl_cpu_cross_entropy plain_cross_entropy
#define sl_cpu_entropy_top plain_entropy_top
#define sl_cpu_entropy_sums plain_entropy_sums
#define sl_cpu_entropy_grad plain_entropy_grad
#include "run/device/cpu_entropy.c"
#include "run/device/cpu_layernorm.c"
#include "run/device/cpu_pointwise.c"

static void exp_is_within_two_roundings(void **state) {
    (void)state;
    double worst = 0;
    for (int i = 0; i <= 2000000; i++) {
        float x = -87.0f + 175.0f * (float)i / 2e6f;
        double exact = exp((double)x), error = fabs((double)sl_exp(x) - exact) / exact;
        worst = error > worst ? error : worst;
    }
    print_message("largest relative error %.2e\n", worst);
    assert_true(worst < 2e-7);
    assert_true(sl_exp(0.0f) == 1.0f);
    assert_true(sl_exp(-1e30f) == sl_exp(-87.0f) && sl_exp(1e30f) == sl_exp(88.0f));
    assert_true(isnan(sl_exp(NAN)));
}

static void layernorm_follows_its_formula(void **state) {
    (void)state;
    static float x[SIZE], n[2][SIZE], y[3][SIZE], s[2][ROWS], gain[WIDTH], bias[WIDTH];
    fill(x, SIZE, 3);
    fill(gain, WIDTH, 1);
    fill(bias, WIDTH, 1);
    device->layernorm(device, ROWS, WIDTH, x, gain, bias, n[0], s[0], y[0]);
    plain_layernorm(ROWS, WIDTH, x, gain, bias, n[1], s[1], y[1]);
    device->layernorm_apply(device, ROWS, WIDTH, n[0], gain, bias, y[2]);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_memory_equal(y[0], y[2], sizeof y[0]);
    assert_memory_equal(n[0], n[1], sizeof n[0]);
    for (int r = 0; r < ROWS; r++) {
        double mean = 0, square = 0;
        for (int i = 0; i < WIDTH; i++)
            mean += (double)x[r * WIDTH + i] / WIDTH;
        for (int i = 0; i < WIDTH; i++)
            square += ((double)x[r * WIDTH + i] - mean) * ((double)x[r * WIDTH + i] - mean) / WIDTH;
        double scale = 1 / sqrt(square + 1e-5);
        near(s[0][r], scale, 1e-6 * scale, "scale");
        for (int i = 0; i < WIDTH; i++)
            near(y[0][r * WIDTH + i],
                 ((double)x[r * WIDTH + i] - mean) * scale * (double)gain[i] + (double)bias[i], 3e-6,
                 "layernorm");
    }
}

static void layernorm_gradients_follow_their_formula(void **state) {
    (void)state;
    static float x[SIZE], n[SIZE], y[SIZE], s[ROWS], gain[WIDTH], bias[WIDTH], dy[SIZE], add[SIZE],
        dx[3][SIZE];
    static float scratch[2 * WIDTH], dg[2][WIDTH], db[2][WIDTH];
    fill(x, SIZE, 2);
    fill(gain, WIDTH, 1);
    fill(dy, SIZE, 1);
    fill(add, SIZE, 1);
    fill(dg[0], WIDTH, 1);
    fill(db[0], WIDTH, 1);
    memcpy(dg[1], dg[0], sizeof dg[0]);
    memcpy(db[1], db[0], sizeof db[0]);
    float first[2] = {dg[0][3], db[0][3]};
    device->layernorm(device, ROWS, WIDTH, x, gain, bias, n, s, y);
    device->layernorm_input_grad(device, ROWS, WIDTH, dy, gain, n, s, add, dx[0]);
    plain_layernorm_input_grad(ROWS, WIDTH, dy, gain, n, s, add, dx[1]);
    assert_memory_equal(dx[0], dx[1], sizeof dx[0]);
    memcpy(dx[2], add, sizeof add);
    device->layernorm_input_grad(device, ROWS, WIDTH, dy, gain, n, s, dx[2],
                                 dx[2]); /* in place, as the header allows */
    assert_memory_equal(dx[0], dx[2], sizeof dx[0]);
    for (int r = 0; r < ROWS; r++) {
        double mean = 0, slope = 0;
        for (int i = 0; i < WIDTH; i++) {
            mean += (double)dy[r * WIDTH + i] * (double)gain[i] / WIDTH;
            slope += (double)dy[r * WIDTH + i] * (double)gain[i] * (double)n[r * WIDTH + i] / WIDTH;
        }
        for (int i = 0; i < WIDTH; i++) {
            int at = r * WIDTH + i;
            near(dx[0][at],
                 (double)add[at] +
                     (double)s[r] * ((double)dy[at] * (double)gain[i] - mean - (double)n[at] * slope),
                 3e-6, "layernorm_input_grad");
        }
    }
    device->layernorm_weight_grad(device, ROWS, WIDTH, dy, n, scratch, dg[0], db[0]);
    plain_layernorm_weight_grad(ROWS, WIDTH, WIDTH, dy, n, scratch, scratch + WIDTH, dg[1], db[1]);
    assert_memory_equal(dg[0], dg[1], sizeof dg[0]);
    assert_memory_equal(db[0], db[1], sizeof db[0]);
    double g = first[0], b = first[1];
    for (int r = 0; r < ROWS; r++) {
        g += (double)dy[r * WIDTH + 3] * (double)n[r * WIDTH + 3];
        b += (double)dy[r * WIDTH + 3];
    }
    near(dg[0][3], g, 2e-5, "gain_grad");
    near(db[0][3], b, 2e-5, "bias_grad");
    float alone[WIDTH] = {0}, onto[WIDTH];
    device->bias_grad(device, ROWS, WIDTH, dy, scratch, alone);
    fill(onto, WIDTH, 1);
    float before = onto[9];
    device->bias_grad(device, ROWS, WIDTH, dy, scratch, onto);
    assert_true(onto[9] == before + alone[9]); /* summed apart, then added */
    near(alone[3], b - (double)first[1], 2e-5, "bias_grad");
}

/* The relative error holds in the left tail, too, where 1 + tanh cancels. */
static void gelu_and_its_gradient_follow_the_formula(void **state) {
    (void)state;
    static float x[SIZE], y[2][SIZE], a[2][SIZE], d[2][SIZE];
    for (int i = 0; i < SIZE; i++)
        x[i] = -9.0f + 18.0f * (float)i / SIZE;
    x[0] = -1e4f;
    x[1] = 1e4f;
    x[2] = 0.0f;
    device->gelu(device, SIZE, x, y[0]);
    plain_gelu(SIZE, x, y[1]);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    for (int k = 0; k < 2; k++) {
        memcpy(a[k], x, sizeof x);
        for (int i = 0; i < SIZE; i++)
            d[k][i] = 1.0f;
    }
    device->gelu_input_grad(device, SIZE, a[0], d[0]);
    plain_gelu_input_grad(SIZE, a[1], d[1]);
    assert_memory_equal(d[0], d[1], sizeof d[0]);
    assert_memory_equal(a[0], y[0], sizeof y[0]);
    for (int i = 0; i < SIZE; i++) {
        double v = x[i], u = 0.79788456080286535588 * (v + 0.044715 * v * v * v),
               share = 1 / (1 + exp(-2 * u));
        double slope = 0.79788456080286535588 * (1 + 3 * 0.044715 * v * v);
        near(y[0][i], v * share, 2e-6 * fabs(v * share) * (1 + fabs(u)) + 1e-30, "gelu");
        if (fabs(v) < 100)
            near(d[0][i], share + v * share * (1 - share) * 2 * slope, 2e-6, "gelu_input_grad");
    }
    assert_true(fabsf(d[0][0]) < 1e-20f && d[0][1] == 1.0f && y[0][2] == 0.0f && d[0][2] == 0.5f);
}

static void cross_entropy_follows_its_formula(void **state) {
    (void)state;
    enum { V = 250 };
    static float l[ROWS * V], g[2][ROWS * V];
    uint16_t target[ROWS];
    double exact = 0;
    fill(l, ROWS * V, 8);
    l[5 * V + 7] = 1000.0f; /* no overflow */
    for (int r = 0; r < ROWS; r++)
        target[r] = (uint16_t)(r * 6);
    for (int k = 0; k < 2; k++)
        memcpy(g[k], l, sizeof l);
    double loss;
    device->cross_entropy(device, ROWS, V, g[0], target, 0.125f, &loss);
    double row_loss[ROWS], all = 0;
    plain_cross_entropy(ROWS, V, g[1], target, 0.125f, row_loss);
    for (int r = 0; r < ROWS; r++)
        all += row_loss[r];
    assert_true(loss == all);
    assert_memory_equal(g[0], g[1], sizeof g[0]);
    for (int r = 0; r < ROWS; r++) {
        double sum = 0, top = r == 5 ? 1000 : 0;
        for (int i = 0; i < V; i++)
            sum += exp((double)l[r * V + i] - top);
        exact += log(sum) + top - (double)l[r * V + target[r]];
        for (int i = 0; i < V; i++)
            near(g[0][r * V + i], 0.125 * (exp((double)l[r * V + i] - top) / sum - (i == target[r])), 1e-7,
                 "logits");
    }
    near(loss, exact, 1e-6 * exact, "loss");
}

static void embedding_adds_and_scatters(void **state) {
    (void)state;
    enum { T = 3, N = 6, W = 5 };
    const uint16_t token[N] = {2, 0, 2, 1, 2, 0};
    float wte[3 * W], wpe[T * W], x[N * W], dte[3 * W] = {0}, dpe[T * W] = {0};
    for (int i = 0; i < 3 * W; i++) {
        wte[i] = (float)i;
        wpe[i] = (float)(100 * i);
    }
    device->embed(device, N, W, 0, 3, token, wte, x);
    device->add_positions(device, N, W, T, wpe, x);
    for (int r = 0; r < N; r++)
        for (int i = 0; i < W; i++)
            assert_true((int)x[r * W + i] == token[r] * W + i + 100 * (r % T * W + i));
    for (int i = 0; i < N * W; i++)
        x[i] = (float)(1 << (i / W)); /* row r carries 2^r */
    device->embed_weight_grad(device, N, W, 0, 3, token, x, dte);
    device->positions_weight_grad(device, N, W, T, x, dpe);
    assert_float_equal(dte[2 * W], 1 + 4 + 16, 0);
    assert_float_equal(dte[0], 2 + 32, 0);
    assert_float_equal(dte[1 * W + 4], 8, 0);
    assert_float_equal(dpe[0], 1 + 8, 0);
    assert_float_equal(dpe[2 * W + 1], 4 + 32, 0);
}

/* All that the table divides, at a size that is divided, unevenly. Results lie one after the other. */
enum { MANY = 601, WIDE = 83, AREA = MANY * WIDE, ALL = 24 * AREA };

static void run_all(sl_device *d, float *r) {
    static float x[AREA], y[AREA], z[AREA], gain[WIDE], bias[WIDE], scratch[2 * WIDE], table[7 * (WIDE - 1)];
    static uint16_t token[MANY];
    state_of_random = 8;
    fill(x, AREA, 2);
    fill(y, AREA, 2);
    fill(z, AREA, 1);
    fill(gain, WIDE, 1);
    fill(bias, WIDE, 1);
    for (int i = 0; i < MANY; i++)
        token[i] = (uint16_t)(i * 31 % WIDE);
    float *normal = r, *out = r + AREA, *scale = r + 2 * AREA;
    d->layernorm(d, MANY, WIDE, x, gain, bias, normal, scale, out);
    d->layernorm_apply(d, MANY, WIDE, normal, gain, bias, r += 3 * AREA);
    d->layernorm_input_grad(d, MANY, WIDE, y, gain, normal, scale, z, r += AREA);
    r += AREA;
    d->layernorm_weight_grad(d, MANY, WIDE, y, normal, scratch, r, r + WIDE);
    d->bias_grad(d, MANY, WIDE, y, scratch, r + 2 * WIDE);
    normal = r += AREA;
    d->rmsnorm(d, MANY, WIDE, 1e-5f, x, gain, normal, scale, r += AREA);
    d->rmsnorm_apply(d, MANY, WIDE, normal, gain, r += AREA);
    d->rmsnorm_input_grad(d, MANY, WIDE, y, gain, normal, scale, NULL, r += AREA);
    d->rmsnorm_weight_grad(d, MANY, WIDE, y, normal, scratch, r += AREA);
    d->gelu(d, AREA, x, r += AREA);
    memcpy(r += AREA, x, sizeof x);
    memcpy(r + AREA, y, sizeof y);
    d->gelu_input_grad(d, AREA, r, r + AREA);
    d->swiglu(d, AREA, x, y, r += 2 * AREA);
    memcpy(r += AREA, x, sizeof x);
    memcpy(r + AREA, y, sizeof y);
    memcpy(r + 2 * AREA, z, sizeof z);
    d->swiglu_input_grad(d, AREA, r, r + AREA, r + 2 * AREA);
    d->rope_table(7, WIDE - 1, 10000, table);
    memcpy(r += 3 * AREA, x, sizeof x);
    d->rope(d, MANY, 7, 1, WIDE - 1, WIDE, 1, table, r);
    d->embed(d, MANY, WIDE, 3, WIDE / 2, token, x, r += AREA);
    d->embed_weight_grad(d, MANY, WIDE, 3, WIDE / 2, token, y, r += AREA);
    d->add_positions(d, MANY, WIDE, 50, y, out);
    d->positions_weight_grad(d, MANY, WIDE, 50, y, r += AREA);
    d->add_rows(d, MANY, WIDE, x, bias, out);
    memcpy(r += AREA, x, sizeof x);
    double loss;
    d->cross_entropy(d, MANY, WIDE, r, token, 0.5f, &loss);
    memcpy(scale + MANY, &loss, sizeof loss);
    memcpy(r += AREA, x, sizeof x);
    d->entropy_top(d, MANY, WIDE, r, scale + 2 * MANY);
    d->entropy_sums(d, MANY, WIDE, 7, r, token, scale + 2 * MANY, scale + 3 * MANY);
    d->entropy_grad(d, MANY, WIDE, 7, r, token, scale + 3 * MANY, 0.5f, &loss);
    memcpy(scale + 5 * MANY + 1, &loss, sizeof loss);
}

static void threads_change_no_bit(void **state) {
    (void)state;
    float *one = calloc(ALL, sizeof *one), *several = calloc(ALL, sizeof *several);
    run_all(device, one);
    for (int threads = 2; threads <= 5; threads++) {
        sl_device *d;
        assert_ok(sl_device_open_cpu(threads, &d));
        memset(several, 0, ALL * sizeof *several);
        run_all(d, several);
        assert_memory_equal(one, several, ALL * sizeof *one);
        d->close(d);
    }
    free(one);
    free(several);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_two_roundings),
        cmocka_unit_test(layernorm_follows_its_formula),
        cmocka_unit_test(layernorm_gradients_follow_their_formula),
        cmocka_unit_test(gelu_and_its_gradient_follow_the_formula),
        cmocka_unit_test(cross_entropy_follows_its_formula),
        cmocka_unit_test(embedding_adds_and_scatters),
        cmocka_unit_test(threads_change_no_bit),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
