#include "run/device/cpu_lanes.h"

/* Embeddings: rows of a table chosen by the token, which may be a slice of the vocabulary, and rows of a
 * table chosen by the position. */

SL_VECTORISED
void sl_cpu_embed(int rows, int width, int first, int count, const uint16_t *token, const float *table,
                  float *x) {
    for (int row = 0; row < rows; row++) {
        const int at = (int)token[row] - first;
        float *out = x + (size_t)row * (size_t)width;
        if (at >= 0 && at < count)
            memcpy(out, table + (size_t)at * (size_t)width, (size_t)width * sizeof *out);
        else
            memset(out, 0, (size_t)width * sizeof *out);
    }
}

SL_VECTORISED
void sl_cpu_embed_weight_grad(int rows, int columns, int width, int first, int count, const uint16_t *token,
                              const float *restrict dx, float *restrict grad) {
    for (int row = 0; row < rows; row++) {
        const int at = (int)token[row] - first;
        const float *d = dx + (size_t)row * (size_t)width;
        if (at < 0 || at >= count)
            continue;
        float *t = grad + (size_t)at * (size_t)width;
        for (int i = 0; i < columns; i++)
            t[i] += d[i];
    }
}

SL_VECTORISED
void sl_cpu_add_positions(int rows, int first, int width, int context, const float *restrict table,
                          float *restrict x) {
    for (int row = 0; row < rows; row++) {
        const float *p = table + (size_t)((first + row) % context) * (size_t)width;
        float *out = x + (size_t)row * (size_t)width;
        for (int i = 0; i < width; i++)
            out[i] = out[i] + p[i];
    }
}

SL_VECTORISED
void sl_cpu_positions_weight_grad(int rows, int columns, int width, int context, const float *restrict dx,
                                  float *restrict grad) {
    for (int row = 0; row < rows; row++) {
        float *p = grad + (size_t)(row % context) * (size_t)width;
        const float *d = dx + (size_t)row * (size_t)width;
        for (int i = 0; i < columns; i++)
            p[i] += d[i];
    }
}

SL_VECTORISED
void sl_cpu_add_rows(int rows, int width, const float *restrict y, const float *restrict bias,
                     float *restrict x) {
    for (int row = 0; row < rows; row++) {
        const float *in = y + (size_t)row * (size_t)width;
        float *out = x + (size_t)row * (size_t)width;
        if (bias)
            for (int i = 0; i < width; i++)
                out[i] = out[i] + (in[i] + bias[i]);
        else
            for (int i = 0; i < width; i++)
                out[i] = out[i] + in[i];
    }
}
