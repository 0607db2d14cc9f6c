#include "run/device/cpu_lanes.h"

/* swiglu(gate, up) = silu(gate) * up with silu(x) = x / (1 + exp(-x)). */

SL_VECTORISED
void sl_cpu_swiglu(size_t count, const float *restrict gate, const float *restrict up, float *restrict y) {
    for (size_t i = 0; i < count; i++) {
        const float s = 1.0f / (1.0f + sl_exp(-gate[i]));
        y[i] = (gate[i] * s) * up[i];
    }
}

/* With s = 1 / (1 + e), e = exp(-gate): d silu = s (1 + gate (1 - s)), and 1 - s = e s. */
SL_VECTORISED
void sl_cpu_swiglu_input_grad(size_t count, float *restrict gate, float *restrict up, float *restrict d) {
    for (size_t i = 0; i < count; i++) {
        const float g = gate[i], u = up[i], dy = d[i], e = sl_exp(-g), s = 1.0f / (1.0f + e);
        const float silu = g * s;
        gate[i] = (dy * u) * (s * (1.0f + g * (e * s)));
        up[i] = dy * silu;
        d[i] = silu * u;
    }
}
