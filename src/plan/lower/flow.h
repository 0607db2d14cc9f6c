/* Flow: the buffers for the results of a rank's steps, and their lifetimes.
 *
 * A step reads its input and writes its output in a buffer; the parts of an op share theirs. Three kinds:
 *   received  from the step before which the message's receive is posted until the last part that reads it
 *   local     between two stages of this rank (the turning point of a wave, a loop of one rank): from the
 *             first part that writes it until the last part that reads it
 *   sent      from the first part that writes it until the message has arrived, known only at run time
 * Received and local ones are numbered here, and free numbers are reused; there are as many as are open at
 * once, and no step ever waits for one. */
#pragma once

#include "plan/lower/program.h"

typedef enum sl_flow_kind { SL_FLOW_NONE, SL_FLOW_RECEIVED, SL_FLOW_LOCAL, SL_FLOW_SENT } sl_flow_kind;

/* The input or output of a step. */
typedef struct sl_flow_end {
    int32_t kind;    /* sl_flow_kind */
    int32_t buffer;  /* received and local: its number; sent: -1 */
    int32_t message; /* received and sent; else -1 */
    int32_t last;    /* 1: last read or write of the buffer */
} sl_flow_end;

typedef struct sl_post {
    int32_t step; /* posted right before this step */
    int32_t message;
    int32_t buffer;
} sl_post;

typedef struct sl_flow {
    int steps, posts;
    sl_flow_end *in, *out; /* [steps] */
    sl_post *post;         /* by step; within a step by link, in the order of the peer's sends */
    int receive_buffers, local_buffers;
} sl_flow;

/** The flow of one rank of a lowered program. `post[program->messages]` as of sl_program_post; NULL: all
 * receives before the first step. SL_ENOMEM. Free with sl_flow_free, also on error. */
sl_status sl_flow_make(const sl_program *program, int rank, const int32_t *post, sl_flow *flow);
void sl_flow_free(sl_flow *flow);
