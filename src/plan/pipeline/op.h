/* One operation of a pipeline: F, I, W or B of one stage for one microbatch (design.md, Words). */
#ifndef SL_PLAN_PIPELINE_OP_H
#define SL_PLAN_PIPELINE_OP_H

#include <stdint.h>

typedef enum sl_op_kind { SL_F, SL_I, SL_W, SL_B, SL_OP_KINDS } sl_op_kind;

typedef struct sl_op {
    int32_t stage;
    int32_t microbatch;
    int32_t kind; /* sl_op_kind */
} sl_op;

/** "F", "I", "W", "B". */
const char *sl_op_name(int kind);

#endif
