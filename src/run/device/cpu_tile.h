/* Products of blocks that lie in the cache, the inner loops of attention: strips of 4 rows by up to 4 vectors
 * of 16 columns, held in registers. Each element is one sum in ascending order of the inner index, starting
 * from 0 or from what is there, so its bits depend on nothing but its row and its column. */
#ifndef SL_RUN_DEVICE_CPU_TILE_H
#define SL_RUN_DEVICE_CPU_TILE_H

#include "run/device/cpu_lanes.h"

#define SL_TILE 64      /* queries and keys of a block */
#define SL_TILE_STRIP 4 /* rows of a strip */

SL_INLINE size_t sl_tile_round(size_t n, size_t unit) {
    return (n + unit - 1) / unit * unit;
}

/** 4 rows of c[.][columns] (+)= a * b; `columns` a multiple of 16. a of row r and inner index i lies at
 * a[r * a_row + i * a_inner]; b has rows of b_stride, c of c_stride. */
void sl_tile_strip(int columns, int inner, const float *a, size_t a_row, size_t a_inner, const float *b,
                   size_t b_stride, int onto, float *c, size_t c_stride);

/** Rows [0, rows) of x times `factor`, dense with `width` columns; 0 beyond `size` columns, and for rows up
 * to `padded`. */
SL_INLINE void sl_tile_pack(size_t rows, size_t padded, size_t size, size_t width, const float *x,
                            size_t stride, float factor, float *restrict out) {
    for (size_t r = 0; r < rows; r++) {
        const float *restrict from = x + r * stride;
        for (size_t i = 0; i < size; i++)
            out[r * width + i] = factor * from[i];
        for (size_t i = size; i < width; i++)
            out[r * width + i] = 0.0f;
    }
    memset(out + rows * width, 0, (padded - rows) * width * sizeof *out);
}

/** Blocks of SL_TILE rows of a dense x[padded][width], each turned into [size][SL_TILE]. */
void sl_tile_turn(size_t padded, size_t size, size_t width, const float *x, float *out);

#endif
