/* `overhead_ms:`: what a runtime adds to each op and message. It is part of the times of ops: a rank is busy
 * with an op for the op's own time, `op`, and `message` for each message that the op waits for or makes. */
#include "plan/pipeline/problem_read.h"

#include <stddef.h>

typedef struct overhead_request {
    double op, message;
} overhead_request;

#define AT(field) offsetof(overhead_request, field)
/* clang-format off */
const sl_key sl_overhead_keys[] = {
    {.name = "op", .type = SL_KEY_REAL, .standard = "0", .offset = AT(op), .minimum = 0, .maximum = SL_MAX_OP_MS, .help = "for which its rank is busy in addition to the op's time"},
    {.name = "message", .type = SL_KEY_REAL, .standard = "0", .offset = AT(message), .minimum = 0, .maximum = SL_MAX_OP_MS, .help = "for which a rank is busy with a message that it sends or receives"},
    {0}};
/* clang-format on */

sl_status sl_read_overhead(const sl_yaml *node, sl_problem *p) {
    overhead_request r = {0};
    SL_TRY(sl_config_read(node, "overhead_ms", sl_overhead_keys, &r));
    p->overhead_op = sl_from_ms(r.op);
    p->overhead_message = sl_from_ms(r.message);
    return SL_OK;
}

sl_time sl_problem_overhead(const sl_problem *p, int kind, int stage) {
    int rank = sl_problem_rank(p, stage), messages = 0;
    const int neighbor[] = {sl_problem_previous(p, stage), sl_problem_next(p, stage)};
    for (int side = 0; side < 2 && kind != SL_W; side++)
        messages += neighbor[side] >= 0 && sl_problem_rank(p, neighbor[side]) != rank;
    return p->overhead_op + messages * p->overhead_message;
}

void sl_problem_add_overhead(sl_problem *p, int stage, int times) {
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        p->time[kind][stage] =
            sl_later(0, p->time[kind][stage] + times * sl_problem_overhead(p, kind, stage));
}
