/* The test of a GPU: what it computes and copies per second, and whether the results are right. Products of
 * bf16 and of f32 run on all multiprocessors for a window (kernels.cu), then copies within its memory and
 * from and to the host's. Each rate is the median of chunks timed by events of the GPU, after a warm-up that
 * raises the clocks. It takes about 0.3 GB of the GPU's memory and less where less is free, besides the
 * context. */
#pragma once

#include "base/status.h"
#include "base/time.h"

#include <stdint.h>

enum {
    SL_GPU_BF16,   /* products, TFLOP/s */
    SL_GPU_F32,    /* products, TFLOP/s */
    SL_GPU_MEMORY, /* copies within its memory, GB/s read and written */
    SL_GPU_TO,     /* copies from pinned memory of the host, GB/s */
    SL_GPU_FROM,   /* and to it */
    SL_GPU_RATES
};

/* Sent between processes as is. */
typedef struct sl_gpu_rates {
    double rate[SL_GPU_RATES]; /* 0: not measured */
    uint32_t wrong;            /* threads whose product was wrong */
    int32_t multiprocessor;    /* of one of them; -1: none */
    uint32_t corrupt;          /* words that came back otherwise than they were sent */
    char why[124];             /* why something was not measured; "": all was */
} sl_gpu_rates;

/** Tests the GPU at this PCI address ("0000:1b:00.0"). `loaded` is called while the products run, when its
 * clocks are those of work; may be NULL. SL_ENONE: no driver. SL_ESYS: the GPU or its driver fails.
 * SL_ENOMEM. */
sl_status sl_gpu_measure(const char *pci, sl_time window, void (*loaded)(void *), void *context,
                         sl_gpu_rates *rates);
