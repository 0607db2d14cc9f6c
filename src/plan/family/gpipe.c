/* GPipe (Huang et al., 2019), and with several stages per rank the breadth-first order of Lamy-Poirier
 * (2022): all microbatches through a stage before the next stage of the rank. PyTorch's ScheduleLoopedBFS
 * runs each stage's backwards from the last microbatch to the first; here they ascend, so that sums of
 * gradients are bit-identical to those of every other schedule. */
#include "plan/family/static_families.h"

static void append_stage(const sl_problem *p, int stage, int kind, sl_order *order) {
    int rank = sl_problem_rank(p, stage);
    for (int m = 0; m < p->microbatches; m++)
        order->ops[rank][order->count[rank]++] = (sl_op){.stage = stage, .microbatch = m, .kind = kind};
}

sl_status sl_family_gpipe(const sl_problem *p, sl_order *order) {
    SL_TRY(sl_order_make(p->ranks, 2 * p->microbatches * (p->stages / p->ranks), order));
    for (int stage = 0; stage < p->stages; stage++)
        append_stage(p, stage, SL_F, order);
    for (int stage = p->stages - 1; stage >= 0; stage--)
        append_stage(p, stage, SL_B, order);
    return SL_OK;
}
