/* One operation of a pipeline: F, I, W or B of one stage for one microbatch (design.md, Words). */
#pragma once

#include <stdint.h>

typedef enum sl_op_kind {
    SL_F,
    SL_I,
    SL_W,
    SL_B,
    SL_OP_KINDS,
    /* also shown in timelines: collectives of a stage over its replicas */
    SL_GATHER = SL_OP_KINDS,
    SL_REDUCE,
    /* and moves of a microbatch's activations: to host memory and back (plan/lower/offload.h) */
    SL_OFFLOAD,
    SL_FETCH,
    SL_SPAN_KINDS
} sl_op_kind;

typedef struct sl_op {
    int32_t stage;
    int32_t microbatch;
    int32_t kind;   /* sl_op_kind */
    int16_t part;   /* of problem->parts, in ascending order; 0 if ops are whole */
    int16_t paired; /* F: it and the B after it run as one overlapped block (DualPipe); else 0 */
} sl_op;

/** "F", "I", "W", "B", "gather", "reduce", "offload", "fetch". */
const char *sl_op_name(int kind);
