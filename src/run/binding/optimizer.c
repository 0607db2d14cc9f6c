#include "run/binding/optimizer.h"

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

void sl_optimizer_step(const sl_optimizer *o, sl_device *device, int iteration, float factor, int matrix,
                       size_t count, const float *gradient, float *weight, float *moment1, float *moment2) {
    const double rate = sl_optimizer_rate(o, iteration), done = iteration + 1.0;
    const sl_adamw_step step = {.factor = factor,
                                .beta1 = (float)o->beta1,
                                .rest1 = (float)(1.0 - o->beta1),
                                .beta2 = (float)o->beta2,
                                .rest2 = (float)(1.0 - o->beta2),
                                .keep = matrix ? (float)(1.0 - rate * o->decay) : 1.0f,
                                .epsilon = (float)o->epsilon,
                                .size = (float)(rate / (1.0 - pow(o->beta1, done))),
                                .root = (float)(1.0 / sqrt(1.0 - pow(o->beta2, done)))};
    device->adamw(device, &step, count, gradient, weight, moment1, moment2);
}
