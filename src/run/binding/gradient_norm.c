#include "run/binding/gradient_norm.h"
#include "run/device/cpu_kernels.h"
#include "run/device/threads.h"

#include <math.h>

#define LANES 32
#define MIN ((size_t)65536) /* elements that pay for waking other threads */

size_t sl_norm_blocks(size_t count) {
    return (count + SL_NORM_BLOCK - 1) / SL_NORM_BLOCK;
}

/* Element i goes to lane i % 32, lanes are added in order: fixed, and wide enough for any vector unit. */
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
void sl_norm_squares(const float *gradient, size_t count, double *out) {
    for (size_t at = 0; at < count; at += SL_NORM_BLOCK)
        out[at / SL_NORM_BLOCK] =
            block_squares(gradient + at, count - at < SL_NORM_BLOCK ? count - at : SL_NORM_BLOCK);
}

typedef struct squares_work {
    const float *gradient;
    size_t count;
    double *out;
} squares_work;

static void squares_share(void *object, int thread, int threads) {
    const squares_work *s = object;
    size_t first, end;
    sl_threads_share(s->count, SL_NORM_BLOCK, thread, threads, &first, &end);
    if (end > first)
        sl_norm_squares(s->gradient + first, end - first, s->out + first / SL_NORM_BLOCK);
}

void sl_norm_squares_divided(int threads, const float *gradient, size_t count, double *out) {
    squares_work s = {gradient, count, out};
    sl_threads_run(count >= MIN ? threads : 1, squares_share, &s);
}

double sl_norm_total(const double *squares, size_t blocks) {
    double total = 0;
    for (size_t i = 0; i < blocks; i++)
        total += squares[i];
    return sqrt(total);
}

float sl_norm_clip(double norm, double limit) {
    return limit > 0 && norm > limit ? (float)(limit / norm) : 1.0f;
}
