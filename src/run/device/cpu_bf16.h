/* Rows of f32 copied as bf16, and weights packed in the format of oneDNN's products. */
#pragma once

#include "run/device/cpu_kernels.h"

/** Rows [first, end) of x[.][columns] with `stride` floats between rows, as bf16 without gaps. */
void sl_cpu_to_bf16(size_t first, size_t end, size_t columns, size_t stride, const float *x, uint16_t *out);

/** Columns [first, end) of x[inner][.], `stride` floats between rows, as rows of out[.][inner]. */
void sl_cpu_to_bf16_turned(size_t first, size_t end, size_t inner, size_t stride, const float *x,
                           uint16_t *out);

/* A packed b[inner][columns]: panels of 64 columns; in a panel the inner index ascends, with bf16 in adjacent
 * pairs. A panel has a multiple of 16 inner indices (bf16: 32); 0 beyond either end. */
#define SL_PACK_COLUMNS ((size_t)64)
#define SL_PACK_INNER ((size_t)16)

typedef struct sl_packing {
    size_t inner, columns, stride; /* of b as stored, before it is transposed */
    int transpose, bf16;
} sl_packing;

/** Bytes of that form. */
size_t sl_packing_bytes(const sl_packing *packing);

/** The share of a thread. */
void sl_cpu_pack(const sl_packing *packing, int thread, int threads, const float *b, void *packed);
