#include "run/device/cpu_tile.h"

/* a of row r and inner index i lies at a[r * a_row + i * a_inner]; b has rows of b_stride, c of c_stride. */
SL_INLINE void sl_tile_part(int vectors, int inner, const float *restrict a, size_t a_row, size_t a_inner,
                            const float *restrict b, size_t b_stride, int onto, float *restrict c,
                            size_t c_stride) {
    sl_lanes sum[SL_TILE_STRIP][4], x[4];
#pragma GCC unroll 4
    for (int r = 0; r < SL_TILE_STRIP; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            sum[r][v] = (sl_lanes){0};
            if (onto)
                memcpy(&sum[r][v], c + (size_t)r * c_stride + (size_t)(v * SL_LANES), sizeof sum[r][v]);
        }
    for (int i = 0; i < inner; i++) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            memcpy(&x[v], b + (size_t)i * b_stride + (size_t)(v * SL_LANES), sizeof x[v]);
#pragma GCC unroll 4
        for (int r = 0; r < SL_TILE_STRIP; r++) {
            const float s = a[(size_t)r * a_row + (size_t)i * a_inner];
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                sum[r][v] += s * x[v];
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < SL_TILE_STRIP; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            memcpy(c + (size_t)r * c_stride + (size_t)(v * SL_LANES), &sum[r][v], sizeof sum[r][v]);
}

SL_VECTORISED
void sl_tile_strip(int columns, int inner, const float *a, size_t a_row, size_t a_inner, const float *b,
                   size_t b_stride, int onto, float *c, size_t c_stride) {
    for (; columns >= 4 * SL_LANES; columns -= 4 * SL_LANES, b += 4 * SL_LANES, c += 4 * SL_LANES)
        sl_tile_part(4, inner, a, a_row, a_inner, b, b_stride, onto, c, c_stride);
    if (columns == 3 * SL_LANES)
        sl_tile_part(3, inner, a, a_row, a_inner, b, b_stride, onto, c, c_stride);
    else if (columns == 2 * SL_LANES)
        sl_tile_part(2, inner, a, a_row, a_inner, b, b_stride, onto, c, c_stride);
    else if (columns == SL_LANES)
        sl_tile_part(1, inner, a, a_row, a_inner, b, b_stride, onto, c, c_stride);
}

SL_VECTORISED
void sl_tile_turn(size_t padded, size_t size, size_t width, const float *restrict x, float *restrict out) {
    for (size_t block = 0; block < padded; block += SL_TILE, out += size * SL_TILE)
        for (size_t r = 0; r < SL_TILE; r += SL_LANES)
            for (size_t i = 0; i < size; i += SL_LANES) {
                sl_lanes row[SL_LANES];
                for (size_t l = 0; l < SL_LANES; l++)
                    memcpy(&row[l], x + (block + r + l) * width + i, sizeof row[l]);
                sl_lanes_turn(row);
                for (size_t l = 0; l < SL_LANES && i + l < size; l++)
                    memcpy(out + (i + l) * SL_TILE + r, &row[l], sizeof row[l]);
            }
}
