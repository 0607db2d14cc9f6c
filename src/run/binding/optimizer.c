#include "run/binding/optimizer.h"
#include "run/device/cpu_kernels.h"
#include "run/device/threads.h"

#include <math.h>

sl_optimizer sl_optimizer_standard(double lr, int iterations) {
    return (sl_optimizer){.lr = lr,
                          .floor = 0.1,
                          .warmup = iterations / 20,
                          .iterations = iterations,
                          .beta1 = 0.9,
                          .beta2 = 0.95,
                          .epsilon = 1e-8,
                          .decay = 0.1};
}

sl_status sl_optimizer_check(const sl_optimizer *o) {
    if (!(o->lr > 0 && isfinite(o->lr)))
        return sl_error(SL_EINVAL, "optimizer: lr must be > 0, got %g", o->lr);
    if (!(o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1))
        return sl_error(SL_EINVAL, "optimizer: betas must be in [0, 1), got %g and %g", o->beta1, o->beta2);
    if (!(o->epsilon > 0) || !(o->decay >= 0) || !(o->floor >= 0 && o->floor <= 1))
        return sl_error(SL_EINVAL, "optimizer: epsilon %g, decay %g or floor %g is out of range", o->epsilon,
                        o->decay, o->floor);
    if (o->warmup < 0 || o->iterations < 1)
        return sl_error(SL_EINVAL, "optimizer: %d iterations with a warm-up of %d", o->iterations, o->warmup);
    return SL_OK;
}

double sl_optimizer_rate(const sl_optimizer *o, int iteration) {
    const double pi = 3.14159265358979323846;
    if (iteration < o->warmup)
        return o->lr * (double)(iteration + 1) / (double)o->warmup;
    if (iteration >= o->iterations)
        return o->lr * o->floor;
    double progress = (double)(iteration - o->warmup) / (double)(o->iterations - o->warmup);
    return o->lr * (o->floor + (1.0 - o->floor) * 0.5 * (1.0 + cos(pi * progress)));
}

#define MIN ((size_t)65536) /* elements that pay for waking other threads */
#define UNIT ((size_t)1024) /* a thread's elements are a multiple of it */

/* Scalars are rounded to f32 once; square root and division are correctly rounded, so vector and scalar code
 * agree. */
typedef struct update_step {
    float factor, beta1, rest1, beta2, rest2, keep, epsilon, size, root;
    size_t count;
    const float *gradient;
    float *weight, *moment1, *moment2;
} update_step;

SL_VECTORISED
static void step_range(const update_step *s, size_t first, size_t end) {
    const float *restrict gradient = s->gradient;
    float *restrict weight = s->weight, *restrict moment1 = s->moment1, *restrict moment2 = s->moment2;
    const float factor = s->factor, beta1 = s->beta1, rest1 = s->rest1, beta2 = s->beta2, rest2 = s->rest2;
    const float keep = s->keep, epsilon = s->epsilon, size = s->size, root = s->root;
    for (size_t i = first; i < end; i++) {
        const float g = gradient[i] * factor;
        const float m = beta1 * moment1[i] + rest1 * g, v = beta2 * moment2[i] + rest2 * (g * g);
        moment1[i] = m;
        moment2[i] = v;
        weight[i] = weight[i] * keep - size * (m / (sqrtf(v) * root + epsilon));
    }
}

static void step_share(void *object, int thread, int threads) {
    const update_step *s = object;
    size_t first, end;
    sl_threads_share(s->count, UNIT, thread, threads, &first, &end);
    step_range(s, first, end);
}

void sl_optimizer_step(const sl_optimizer *o, int iteration, float factor, int matrix, size_t count,
                       const float *gradient, float *weight, float *moment1, float *moment2) {
    const double rate = sl_optimizer_rate(o, iteration), done = iteration + 1.0;
    update_step s = {.factor = factor,
                     .beta1 = (float)o->beta1,
                     .rest1 = (float)(1.0 - o->beta1),
                     .beta2 = (float)o->beta2,
                     .rest2 = (float)(1.0 - o->beta2),
                     .keep = matrix ? (float)(1.0 - rate * o->decay) : 1.0f,
                     .epsilon = (float)o->epsilon,
                     .size = (float)(rate / (1.0 - pow(o->beta1, done))),
                     .root = (float)(1.0 / sqrt(1.0 - pow(o->beta2, done))),
                     .count = count,
                     .gradient = gradient,
                     .weight = weight,
                     .moment1 = moment1,
                     .moment2 = moment2};
    sl_threads_run(o->threads > 1 && count >= MIN ? o->threads : 1, step_share, &s);
}
