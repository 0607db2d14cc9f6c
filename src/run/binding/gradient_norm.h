/* The global gradient norm, bit-identical on every layout: each parameter is cut into blocks of 1,024
 * elements in index order, the holder of a block sums its squares in f64, and the block sums, gathered in
 * canonical order of parameters, are added one after the other. ZeRO may cut parameters at block boundaries
 * only. */
#pragma once

#include "run/device/device.h"

#define SL_NORM_BLOCK SL_SQUARES_BLOCK

/** Blocks of a parameter of `count` elements. */
size_t sl_norm_blocks(size_t count);

/** The norm: square root of the block sums of all parameters in order. */
double sl_norm_total(const double *squares, size_t blocks);

/** The factor for gradients that makes their norm at most `limit` (0: no limit): 1 if it already is. */
float sl_norm_clip(double norm, double limit);
