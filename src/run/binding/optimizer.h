/* AdamW with decoupled weight decay (arXiv 1711.05101, algorithm 2; the arithmetic of PyTorch's AdamW) and a
 * cosine learning rate with linear warm-up. The state is only the two moments of each element; the rest
 * follows from the iteration. Each element goes through the same f32 operations wherever it is, so cutting a
 * parameter changes no bit. */
#pragma once

#include "run/device/device.h"

typedef struct sl_optimizer {
    double lr;      /* highest learning rate */
    double floor;   /* last learning rate as a share of lr */
    int warmup;     /* iterations of linear warm-up */
    int iterations; /* of the whole run: end of the cosine */
    double beta1, beta2, epsilon;
    double decay; /* of matrices; vectors (biases, LayerNorm) have none */
} sl_optimizer;

/** lr as given, the rest as for GPT: floor 0.1, beta 0.9 and 0.95, epsilon 1e-8, decay 0.1; warm-up a
 * twentieth. */
sl_optimizer sl_optimizer_standard(double lr, int iterations);

/** SL_EINVAL if a number is out of its range. */
sl_status sl_optimizer_check(const sl_optimizer *optimizer);

/** Learning rate of an iteration (from 0): lr * (i + 1) / warmup, then the cosine from lr down to floor * lr,
 * which it reaches at `iterations`. */
double sl_optimizer_rate(const sl_optimizer *optimizer, int iteration);

/** One step of `count` elements in the device's memory, in place: first multiplies the gradient by `factor`
 * (clipping); `matrix`: whether the weights decay. */
void sl_optimizer_step(const sl_optimizer *optimizer, sl_device *device, int iteration, float factor,
                       int matrix, size_t count, const float *gradient, float *weight, float *moment1,
                       float *moment2);
