/* The kernels of rotary positions, RMSNorm, SwiGLU, slices of a vocabulary and their loss: each against its
 * formula in f64, and against itself compiled for the plainest machine: the same bits. */
#include "kernels.h"

/* The kernels once more, without clones. */
#define SL_VECTORISED
#define sl_cpu_rmsnorm plain_rmsnorm
#define sl_cpu_rmsnorm_apply plain_rmsnorm_apply
#define sl_cpu_rmsnorm_input_grad plain_rmsnorm_input_grad
#define sl_cpu_rmsnorm_weight_grad plain_rmsnorm_weight_grad
#define sl_cpu_rope_table plain_rope_table
#define sl_cpu_rope plain_rope
#define sl_cpu_swiglu plain_swiglu
#define sl_cpu_swiglu_input_grad plain_swiglu_input_grad
#define sl_cpu_cross_entropy plain_cross_entropy
#define sl_cpu_entropy_top plain_entropy_top
#define sl_cpu_entropy_sums plain_entropy_sums
#define sl_cpu_entropy_grad plain_entropy_grad
#include "run/device/cpu_entropy.c"
#include "run/device/cpu_rmsnorm.c"
#include "run/device/cpu_rope.c"
#include "run/device/cpu_swiglu.c"

static void rmsnorm_follows_its_formula(void **state) {
    (void)state;
    static float x[SIZE], n[2][SIZE], y[3][SIZE], s[2][ROWS], gain[WIDTH];
    const float epsilon = 1e-2f;
    fill(x, SIZE, 0.3f);
    fill(gain, WIDTH, 1);
    device->rmsnorm(device, ROWS, WIDTH, epsilon, x, gain, n[0], s[0], y[0]);
    plain_rmsnorm(ROWS, WIDTH, epsilon, x, gain, n[1], s[1], y[1]);
    device->rmsnorm_apply(device, ROWS, WIDTH, n[0], gain, y[2]);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_memory_equal(y[0], y[2], sizeof y[0]);
    assert_memory_equal(n[0], n[1], sizeof n[0]);
    for (int r = 0; r < ROWS; r++) {
        double square = 0;
        for (int i = 0; i < WIDTH; i++)
            square += (double)x[r * WIDTH + i] * (double)x[r * WIDTH + i] / WIDTH;
        double scale = 1 / sqrt(square + 1e-2);
        near(s[0][r], scale, 1e-6 * scale, "scale");
        for (int i = 0; i < WIDTH; i++)
            near(y[0][r * WIDTH + i], (double)x[r * WIDTH + i] * scale * (double)gain[i], 2e-6, "rmsnorm");
    }
}

static void rmsnorm_gradients_follow_their_formula(void **state) {
    (void)state;
    static float x[SIZE], n[SIZE], y[SIZE], s[ROWS], gain[WIDTH], dy[SIZE], add[SIZE], dx[4][SIZE];
    static float scratch[WIDTH], dg[2][WIDTH];
    fill(x, SIZE, 2);
    fill(gain, WIDTH, 1);
    fill(dy, SIZE, 1);
    fill(add, SIZE, 1);
    fill(dg[0], WIDTH, 1);
    memcpy(dg[1], dg[0], sizeof dg[0]);
    float before = dg[0][3];
    device->rmsnorm(device, ROWS, WIDTH, 1e-5f, x, gain, n, s, y);
    device->rmsnorm_input_grad(device, ROWS, WIDTH, dy, gain, n, s, add, dx[0]);
    plain_rmsnorm_input_grad(ROWS, WIDTH, dy, gain, n, s, add, dx[1]);
    memcpy(dx[2], add, sizeof add);
    device->rmsnorm_input_grad(device, ROWS, WIDTH, dy, gain, n, s, dx[2], dx[2]); /* in place */
    device->rmsnorm_input_grad(device, ROWS, WIDTH, dy, gain, n, s, NULL, dx[3]);
    assert_memory_equal(dx[0], dx[1], sizeof dx[0]);
    assert_memory_equal(dx[0], dx[2], sizeof dx[0]);
    for (int r = 0; r < ROWS; r++) {
        double slope = 0;
        for (int i = 0; i < WIDTH; i++)
            slope += (double)dy[r * WIDTH + i] * (double)gain[i] * (double)n[r * WIDTH + i] / WIDTH;
        for (int i = 0; i < WIDTH; i++) {
            int at = r * WIDTH + i;
            double exact = (double)s[r] * ((double)dy[at] * (double)gain[i] - (double)n[at] * slope);
            near(dx[0][at], (double)add[at] + exact, 2e-6, "rmsnorm_input_grad");
            near(dx[3][at], exact, 2e-6, "rmsnorm_input_grad");
        }
    }
    device->rmsnorm_weight_grad(device, ROWS, WIDTH, dy, n, scratch, dg[0]);
    plain_rmsnorm_weight_grad(ROWS, WIDTH, WIDTH, dy, n, scratch, dg[1]);
    assert_memory_equal(dg[0], dg[1], sizeof dg[0]);
    double exact = (double)before;
    for (int r = 0; r < ROWS; r++)
        exact += (double)dy[r * WIDTH + 3] * (double)n[r * WIDTH + 3];
    near(dg[0][3], exact, 1e-5, "rmsnorm_weight_grad");
}

/* Two heads of 6 in rows of 14, positions 0..4 twice. Turning is a rotation in the plane of elements i and
 * i + 3, so the gradient turns back; the first position stays, and what lies between rows is not touched. */
static void rope_turns_by_the_position_and_back(void **state) {
    (void)state;
    enum { CONTEXT = 5, HEADS = 2, HEAD = 6, STRIDE = 14, N = 10 };
    float table[CONTEXT * HEAD], x[3][N * STRIDE];
    device->rope_table(CONTEXT, HEAD, 100.0, table);
    fill(x[0], N * STRIDE, 1);
    memcpy(x[1], x[0], sizeof x[0]);
    memcpy(x[2], x[0], sizeof x[0]);
    device->rope(device, N, CONTEXT, HEADS, HEAD, STRIDE, 0, table, x[1]);
    plain_rope(N, 0, CONTEXT, HEADS, HEAD, STRIDE, 0, table, x[2]);
    assert_memory_equal(x[1], x[2], sizeof x[1]);
    for (int row = 0; row < N; row++)
        for (int h = 0; h < HEADS; h++)
            for (int i = 0; i < HEAD / 2; i++) {
                double angle = row % CONTEXT / pow(100, 2.0 * i / HEAD);
                int at = row * STRIDE + h * HEAD + i;
                double low = (double)x[0][at], high = (double)x[0][at + 3];
                near(x[1][at], low * cos(angle) - high * sin(angle), 3e-7, "rope");
                near(x[1][at + 3], high * cos(angle) + low * sin(angle), 3e-7, "rope");
            }
    assert_memory_equal(x[0], x[1], 12 * sizeof(float));
    assert_true(x[1][3 * STRIDE + 12] == x[0][3 * STRIDE + 12]);
    device->rope(device, N, CONTEXT, HEADS, HEAD, STRIDE, 1, table, x[1]);
    for (int i = 0; i < N * STRIDE; i++)
        near(x[1][i], (double)x[0][i], 5e-7, "rope back");
}

static void swiglu_and_its_gradient_follow_the_formula(void **state) {
    (void)state;
    static float gate[3][SIZE], up[3][SIZE], d[3][SIZE], y[2][SIZE];
    fill(gate[0], SIZE, 12);
    fill(up[0], SIZE, 2);
    fill(d[0], SIZE, 2);
    gate[0][7] = 200.0f; /* no overflow */
    gate[0][8] = -200.0f;
    for (int i = 1; i < 3; i++) {
        memcpy(gate[i], gate[0], sizeof gate[0]);
        memcpy(up[i], up[0], sizeof up[0]);
        memcpy(d[i], d[0], sizeof d[0]);
    }
    device->swiglu(device, SIZE, gate[0], up[0], y[0]);
    plain_swiglu(SIZE, gate[0], up[0], y[1]);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    device->swiglu_input_grad(device, SIZE, gate[1], up[1], d[1]);
    plain_swiglu_input_grad(SIZE, gate[2], up[2], d[2]);
    assert_memory_equal(gate[1], gate[2], sizeof gate[1]);
    assert_memory_equal(up[1], up[2], sizeof up[1]);
    assert_memory_equal(d[1], y[0], sizeof y[0]); /* dy has become y */
    for (int i = 0; i < SIZE; i++) {
        double g = (double)gate[0][i], u = (double)up[0][i], dy = (double)d[0][i], s = 1 / (1 + exp(-g));
        near(y[0][i], g * s * u, 1e-6 * fabs(g * s * u) + 1e-30, "swiglu");
        near(up[1][i], dy * g * s, 1e-6 * fabs(dy * g * s) + 1e-30, "gradient of up");
        near(gate[1][i], dy * u * s * (1 + g * (1 - s)), 5e-6 * fabs(dy * u), "gradient of gate");
    }
}

/* Three slices of a vocabulary: what they add up to is the loss and the gradient of the whole. */
static void slices_of_the_loss_make_the_whole(void **state) {
    (void)state;
    enum { V = 101, SLICES = 3 };
    const int first[SLICES + 1] = {0, 33, 67, V};
    static float whole[ROWS * V], part[SLICES][ROWS * V], top[SLICES][ROWS], sums[SLICES][2 * ROWS],
        kept[ROWS * V];
    uint16_t target[ROWS];
    fill(whole, ROWS * V, 8);
    whole[5 * V + 40] = 1000.0f; /* no overflow */
    memcpy(kept, whole, sizeof whole);
    for (int r = 0; r < ROWS; r++)
        target[r] = (uint16_t)(r * 100 / 36);
    double exact;
    device->cross_entropy(device, ROWS, V, whole, target, 0.125f, &exact);
    for (int s = 0; s < SLICES; s++) {
        int columns = first[s + 1] - first[s];
        for (int r = 0; r < ROWS; r++)
            memcpy(part[s] + r * columns, kept + r * V + first[s], (size_t)columns * sizeof(float));
        device->entropy_top(device, ROWS, columns, part[s], top[s]);
    }
    for (int r = 0; r < ROWS; r++)
        top[0][r] = fmaxf(top[0][r], fmaxf(top[1][r], top[2][r]));
    for (int s = 0; s < SLICES; s++)
        device->entropy_sums(device, ROWS, first[s + 1] - first[s], first[s], part[s], target, top[0],
                             sums[s]);
    for (int i = 0; i < 2 * ROWS; i++)
        sums[0][i] += sums[1][i] + sums[2][i];
    for (int s = 0; s < SLICES; s++) {
        int columns = first[s + 1] - first[s];
        double loss;
        device->entropy_grad(device, ROWS, columns, first[s], part[s], target, sums[0], 0.125f, &loss);
        near(loss, exact, 1e-6 * exact, "loss");
        for (int r = 0; r < ROWS; r++)
            for (int i = 0; i < columns; i++)
                near(part[s][r * columns + i], (double)whole[r * V + first[s] + i], 1e-7, "gradient");
    }
}

/* Tokens 0..2 lie elsewhere: rows of zeros, and no gradient. */
static void a_slice_of_the_vocabulary_embeds_its_tokens_only(void **state) {
    (void)state;
    const uint16_t token[4] = {4, 1, 3, 4};
    const float table[2][2] = {{30, 31}, {40, 41}}, dx[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    const float expected[8] = {40, 41, 0, 0, 30, 31, 40, 41}, gradient[4] = {16, 32, 65, 130};
    float x[8], grad[4] = {0}, bias[2] = {1, 2};
    device->embed(device, 4, 2, 3, 2, token, table[0], x);
    assert_memory_equal(x, expected, sizeof x);
    device->embed_weight_grad(device, 4, 2, 3, 2, token, dx, grad);
    assert_memory_equal(grad, gradient, sizeof grad);
    device->add_rows(device, 4, 2, dx, bias, x);
    assert_true(x[0] == 42 && x[1] == 45 && x[2] == 5 && x[7] == 41 + 128 + 2);
    device->add_rows(device, 4, 2, dx, NULL, x);
    assert_true(x[0] == 43 && x[3] == 18);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rmsnorm_follows_its_formula),
        cmocka_unit_test(rmsnorm_gradients_follow_their_formula),
        cmocka_unit_test(rope_turns_by_the_position_and_back),
        cmocka_unit_test(swiglu_and_its_gradient_follow_the_formula),
        cmocka_unit_test(slices_of_the_loss_make_the_whole),
        cmocka_unit_test(a_slice_of_the_vocabulary_embeds_its_tokens_only),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
