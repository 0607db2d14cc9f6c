#include "run/device/cpu_kernels.h"
#include "run/device/threads.h"

#include <math.h>
#include <string.h>

/* Arithmetic over all weights or gradients of a stage, once an iteration. */

#define MIN ((size_t)65536) /* elements that pay for waking other threads */
#define LANES 32

/* What a thread has its share of. */
typedef struct update {
    size_t count;
    const float *in;
    float *out, *moment1, *moment2;
    double *sums;
    const sl_adamw_step *step;
} update;

static void divide(int threads, size_t count, void (*work)(void *object, int thread, int threads),
                   update *u) {
    sl_threads_run(count >= MIN ? threads : 1, work, u);
}

/* ---- sums of squares: element i goes to lane i % 32, lanes are added in order: fixed, and wide enough for
 * any vector unit ---- */

SL_INLINE double block_squares(const float *x, size_t count) {
    double lane[LANES] = {0}, total = 0;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += (double)x[i + l] * (double)x[i + l];
    for (size_t l = 0; i + l < count; l++)
        lane[l] += (double)x[i + l] * (double)x[i + l];
    for (size_t l = 0; l < LANES; l++)
        total += lane[l];
    return total;
}

SL_VECTORISED
static void squares_range(const float *x, size_t count, double *out) {
    for (size_t at = 0; at < count; at += SL_SQUARES_BLOCK)
        out[at / SL_SQUARES_BLOCK] =
            block_squares(x + at, count - at < SL_SQUARES_BLOCK ? count - at : SL_SQUARES_BLOCK);
}

static void squares_share(void *object, int thread, int threads) {
    const update *u = object;
    size_t first, end;
    sl_threads_share(u->count, SL_SQUARES_BLOCK, thread, threads, &first, &end);
    if (end > first)
        squares_range(u->in + first, end - first, u->sums + first / SL_SQUARES_BLOCK);
}

static void squares(sl_device *device, int threads, size_t count, const float *x, double *out) {
    update u = {.count = count, .in = x, .sums = out};
    divide(threads > 0 ? threads : device->threads, count, squares_share, &u);
}

/* ---- AdamW: square root and division are correctly rounded, so vector and scalar code agree ---- */

#define UNIT ((size_t)1024) /* a thread's elements are a multiple of it */

SL_VECTORISED
static void adamw_range(const update *u, size_t first, size_t end) {
    const sl_adamw_step s = *u->step;
    const float *restrict gradient = u->in;
    float *restrict weight = u->out, *restrict moment1 = u->moment1, *restrict moment2 = u->moment2;
    for (size_t i = first; i < end; i++) {
        const float g = gradient[i] * s.factor;
        const float m = s.beta1 * moment1[i] + s.rest1 * g, v = s.beta2 * moment2[i] + s.rest2 * (g * g);
        moment1[i] = m;
        moment2[i] = v;
        weight[i] = weight[i] * s.keep - s.size * (m / (sqrtf(v) * s.root + s.epsilon));
    }
}

static void adamw_share(void *object, int thread, int threads) {
    const update *u = object;
    size_t first, end;
    sl_threads_share(u->count, UNIT, thread, threads, &first, &end);
    adamw_range(u, first, end);
}

static void adamw(sl_device *device, const sl_adamw_step *step, size_t count, const float *gradient,
                  float *weight, float *moment1, float *moment2) {
    update u = {
        .count = count, .in = gradient, .out = weight, .moment1 = moment1, .moment2 = moment2, .step = step};
    divide(device->threads, count, adamw_share, &u);
}

/* ---- the tied embedding's two accumulators ---- */

SL_VECTORISED
static void add(sl_device *device, size_t count, const float *x, float *y) {
    (void)device;
    for (size_t i = 0; i < count; i++)
        y[i] += x[i];
}

static void add_marked(sl_device *device, int rows, int width, const unsigned char *marked, float *from,
                       float *to) {
    const size_t w = (size_t)width;
    for (size_t row = 0; row < (size_t)rows; row++)
        if (marked[row]) {
            add(device, w, from + row * w, to + row * w);
            memset(from + row * w, 0, w * sizeof *from);
        }
}

void sl_cpu_fill_update(sl_device *device) {
    device->squares = squares;
    device->adamw = adamw;
    device->add = add;
    device->add_marked = add_marked;
}
