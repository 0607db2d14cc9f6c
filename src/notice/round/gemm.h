/* The test of a device: products of f32 matrices of 512 x 512 through run/device, as many as fit into a time
 * window. The window is longer than the period of a control group's quota and than a scheduler's slice, so
 * that the rate is a rank's share, not the processor's momentary speed. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "notice/validate/verdict.h" /* SL_GEMM_SIZE */

typedef struct sl_gemm sl_gemm;

/** On the cpu with `threads` threads. SL_EINVAL, SL_ESYS, SL_ENOMEM. */
sl_status sl_gemm_open(int threads, sl_gemm **gemm);
void sl_gemm_close(sl_gemm *gemm);

/** Two uncounted products, then products for at least `window`; *gflops is their rate. SL_ESYS: also if a
 * product is wrong. */
sl_status sl_gemm_warm(sl_gemm *gemm);
sl_status sl_gemm_run(sl_gemm *gemm, sl_time window, double *gflops);
