/* Chimera (Li and Hoefler, SC 2021): one pipeline runs down the ranks and one up, each in 1F1B, and each
 * fills the bubbles of the other. In slots of one F or one B, stage s of a pipeline over R ranks runs F of
 * its microbatch k in slot s + 2k and B in slot 2R - 1 - s + 2k; on every rank, for even R, F of one pipeline
 * and B of the other use the odd slots, the other two the even ones. A unit of R microbatches, half of them
 * in each pipeline, fills 2R slots of every rank, so the next unit begins 2R slots later, in the bubbles at
 * the end of the first ("direct concatenation"). A rank runs its ops in the order of their slots. If B is
 * longer than F, the units fit less tightly and each further one adds bubbles; the paper's remedies change
 * the work (doubled forwards, halved backwards) and are not implemented.
 *
 * An odd number of ranks uses the slots of one more rank, whose ops do not exist: the pipeline that runs up
 * begins on it. Slots increase along every dependency, so no order that follows them deadlocks. */
#include "base/memory.h"
#include "plan/family/static_families.h"

#include <stdlib.h>

typedef struct slotted {
    int64_t slot;
    sl_op op;
} slotted;

static int compare_slots(const void *a, const void *b) {
    int64_t x = ((const slotted *)a)->slot, y = ((const slotted *)b)->slot;
    return x < y ? -1 : x > y;
}

static int64_t slot_of(const sl_problem *p, const sl_op *op) {
    int64_t ranks = p->ranks + p->ranks % 2; /* even; the last one may not exist */
    int64_t stage = op->stage < p->ranks ? op->stage : op->stage - p->ranks + p->ranks % 2;
    int64_t k = op->microbatch / 2, unit = k / (ranks / 2), inside = k % (ranks / 2);
    return 2 * ranks * unit + (op->kind == SL_F ? stage : 2 * ranks - 1 - stage) + 2 * inside;
}

/* The ops of a rank, one pipeline's microbatches after the other's. */
static void collect(const sl_problem *p, int rank, slotted *all) {
    for (int m = 0; m < p->microbatches; m++)
        for (int kind = SL_F; kind <= SL_B; kind += SL_B - SL_F) {
            int stage = m % 2 ? 2 * p->ranks - 1 - rank : rank;
            all->op = (sl_op){.stage = stage, .microbatch = m, .kind = kind};
            all->slot = slot_of(p, &all->op);
            all++;
        }
}

sl_status sl_family_chimera(const sl_problem *p, sl_order *order) {
    size_t count = 2 * (size_t)p->microbatches;
    slotted *all;
    SL_TRY(sl_alloc(&all, count, sizeof *all));
    sl_status status = sl_order_make(p->ranks, (int)count, order);
    for (int rank = 0; rank < p->ranks && status == SL_OK; rank++) {
        collect(p, rank, all);
        qsort(all, count, sizeof *all, compare_slots);
        for (size_t i = 0; i < count; i++)
            order->ops[rank][i] = all[i].op;
        order->count[rank] = (int)count;
    }
    sl_free(all);
    return status;
}
