#include "run/device/cpu_lanes.h"

#include <math.h>

/* Rotary positions as in Hugging Face's rotate_half: element i of the first half of a head and element i of
 * its second half are rotated together by the angle position * base^(-2 i / size). */

void sl_cpu_rope_table(int context, int size, double base, float *table) {
    const int half = size / 2;
    for (int at = 0; at < context; at++)
        for (int i = 0; i < half; i++) {
            double angle = (double)at * pow(base, -2.0 * (double)i / (double)size);
            table[(size_t)at * (size_t)size + (size_t)i] = (float)cos(angle);
            table[(size_t)at * (size_t)size + (size_t)(half + i)] = (float)sin(angle);
        }
}

/* One head: the gradient turns the other way, `sign` -1. */
SL_INLINE void turn(int half, float sign, const float *restrict table, float *restrict x) {
    for (int i = 0; i < half; i++) {
        const float c = table[i], s = sign * table[half + i], low = x[i], high = x[half + i];
        x[i] = low * c - high * s;
        x[half + i] = high * c + low * s;
    }
}

SL_VECTORISED
void sl_cpu_rope(int rows, int first, int context, int heads, int size, int stride, int backward,
                 const float *table, float *x) {
    for (int row = 0; row < rows; row++)
        for (int head = 0; head < heads; head++)
            turn(size / 2, backward ? -1.0f : 1.0f, table + (size_t)((first + row) % context) * (size_t)size,
                 x + (size_t)row * (size_t)stride + (size_t)head * (size_t)size);
}
