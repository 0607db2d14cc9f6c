/* What the tests of kernels share: a device, inputs of no convenient size, results near a formula's in f64.
 */
#ifndef SL_TESTS_KERNELS_H
#define SL_TESTS_KERNELS_H

#include "numbers.h"

#include "run/device/device.h"
#include <math.h>

enum { ROWS = 37, WIDTH = 75, SIZE = ROWS * WIDTH }; /* no multiple of any vector */

static sl_device *device;

static inline float *fill(float *x, size_t count, float scale) {
    for (size_t i = 0; i < count; i++)
        x[i] = scale * any();
    return x;
}

static inline int open_device(void **state) {
    (void)state;
    start_numbers(12345);
    return sl_device_open_cpu(1, &device) == SL_OK ? 0 : -1;
}

static inline int close_device(void **state) {
    (void)state;
    device->close(device);
    return 0;
}

static inline void near(double ours, double exact, double allowed, const char *what) {
    if (!(fabs(ours - exact) <= allowed))
        fail_msg("%s: %.9g, exactly %.9g, allowed %.2g", what, ours, exact, allowed);
}

#endif
