/* Matrix products by oneDNN: its matmul primitive, created once per shape. (Not dnnl_sgemm: there the values
 * of a row change with the number of rows.) A product is divided by rows of its result; each thread runs a
 * single-threaded primitive on its rows, so that no bit depends on the number of threads. Where that
 * primitive calls oneDNN's gemm (AVX2), a product runs in tiles of equal size, for the same reason. Strictly
 * f32, or bf16 copies of both operands summed in f32. Scratch from the caller. */
#pragma once

#include "run/device/cpu_kernels.h"
#include <oneapi/dnnl/dnnl.h>

struct sl_cpu {
    sl_device device; /* first: a device is cast to this */
    dnnl_engine_t engine;
    sl_matmul *products; /* a list; a model has some thirty */
};

/** Frees the products and the engine. */
void sl_cpu_matmul_close(sl_cpu *cpu);
