/* Matrix products by oneDNN: its matmul primitive, one per shape, made once. (Not dnnl_sgemm: that changes
 * the values of a row with the number of rows.) f32 strictly, scratch from the caller. */
#ifndef SL_RUN_DEVICE_CPU_MATMUL_H
#define SL_RUN_DEVICE_CPU_MATMUL_H

#include "run/device/cpu.h"
#include <oneapi/dnnl/dnnl.h>

struct sl_cpu {
    sl_device device; /* first: a device is cast to this */
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    sl_matmul *products; /* a list; a model has some twenty */
};

/** Frees the products, the stream and the engine. */
void sl_cpu_matmul_close(sl_cpu *cpu);

#endif
