#include "plan/family/static_families.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "plan/family/list.h"

#include <stdlib.h>

/* GPipe (Huang et al., 2019), and with several stages per rank the breadth-first order of Lamy-Poirier
 * (2022): all microbatches through a stage before the next stage of the rank. PyTorch's ScheduleLoopedBFS
 * runs each stage's backwards from the last microbatch to the first; here they ascend, so that sums of
 * gradients are bit-identical to those of every other schedule. */

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

static void append(sl_order *order, int rank, int kind, int microbatch) {
    order->ops[rank][order->count[rank]++] = (sl_op){.stage = rank, .microbatch = microbatch, .kind = kind};
}

/* Some forwards, then one backward and one forward in turn, then the remaining backwards. */
sl_status sl_family_1f1b(const sl_problem *p, sl_order *order) {
    int n = p->microbatches;
    SL_TRY(sl_order_make(p->ranks, 2 * n, order));
    for (int rank = 0; rank < p->ranks; rank++) {
        int warmup = sl_smaller(p->ranks - rank, n);
        for (int m = 0; m < warmup; m++)
            append(order, rank, SL_F, m);
        for (int m = 0; m < n; m++) {
            append(order, rank, SL_B, m);
            if (warmup + m < n)
                append(order, rank, SL_F, warmup + m);
        }
    }
    return SL_OK;
}

/* Zero Bubble's handcrafted schedules (its section 2): H1 keeps 1F1B's warm-up p - s and memory p on every
 * rank, and W fills its idle time; H2 (`deep`) warms up with 2(p - s) - 1 and needs memory 2p - 1. Built for
 * F = I = W on free links, regardless of the problem's times. */
static sl_status zero_bubble(const sl_problem *p, int deep, sl_order *order) {
    sl_problem unit;
    int *x, ranks = p->ranks;
    SL_TRY(sl_problem_make(ranks, ranks, p->microbatches, &unit));
    sl_status status = sl_alloc(&x, 2 * (size_t)ranks, sizeof *x);
    if (status == SL_OK) {
        for (int rank = 0; rank < ranks; rank++) {
            unit.time[SL_F][rank] = unit.time[SL_I][rank] = unit.time[SL_W][rank] = 1;
            x[rank] = sl_smaller(deep ? 2 * (ranks - rank) - 1 : ranks - rank, p->microbatches);
            x[ranks + rank] = deep ? 2 * ranks - 1 : ranks;
        }
        sl_list_rule rule = {.warmup = x, .ahead = x, .flight = x + ranks, .forward_first = 1};
        status = sl_list_schedule(&unit, &rule, order);
        sl_free(x);
    }
    sl_problem_free(&unit);
    return status;
}

sl_status sl_family_zb_h1(const sl_problem *p, sl_order *order) {
    return zero_bubble(p, 0, order);
}

sl_status sl_family_zb_h2(const sl_problem *p, sl_order *order) {
    return zero_bubble(p, 1, order);
}

/* Interleaved 1F1B, Megatron-LM's order (core/pipeline_parallel/schedules.py): microbatches pass through the
 * stages of a rank in groups, a whole group through one stage before it reaches the next. A rank first runs
 * (stages per rank - 1) * group + 2 * (ranks - 1 - rank) forwards, or all if there are fewer, then one
 * forward and one backward in turn, then the remaining backwards.
 *
 * Megatron's groups have as many microbatches as there are ranks. It must refuse a smaller last group: the
 * first rank would wait for a forward of the last rank that comes after a backward which waits for the first
 * rank. So, as in PyTorch's ScheduleInterleaved1F1B, there are microbatches / ranks groups (at least one),
 * and the remainder is distributed among them. PyTorch requires an even division; here the first groups are
 * larger by one otherwise. The orders are Megatron's if ranks divides the microbatches, and PyTorch's
 * whenever it has one; the two have the same warm-up. (Megatron once ran all forwards first if there was just
 * one group; it no longer does.) */

typedef struct turn {
    int ranks, chunks, microbatches;
    int groups;
} turn;

/* Microbatches of group 0 .. i - 1. */
static int group_start(const turn *t, int i) {
    int small = t->microbatches / t->groups, larger = t->microbatches % t->groups;
    return small * i + (i < larger ? i : larger);
}

/* Forward k or backward k of every rank: all of a group through one chunk, then through the next. Backwards
 * go through the chunks from the last to the first. */
static sl_op op_at(const turn *t, int rank, int kind, int k) {
    int small = t->microbatches / t->groups, larger = t->microbatches % t->groups;
    int of_larger = larger * (small + 1) * t->chunks;
    int group =
        k < of_larger ? k / ((small + 1) * t->chunks) : larger + (k - of_larger) / (small * t->chunks);
    int start = group_start(t, group), size = group_start(t, group + 1) - start;
    int inside = k - start * t->chunks, chunk = inside / size;
    if (kind == SL_B)
        chunk = t->chunks - 1 - chunk;
    return (sl_op){.stage = chunk * t->ranks + rank, .microbatch = start + inside % size, .kind = kind};
}

static int warmup(const turn *t, int rank) {
    int largest = group_start(t, 1), all = t->microbatches * t->chunks;
    int wanted = (t->chunks - 1) * largest + 2 * (t->ranks - 1 - rank);
    return wanted < all ? wanted : all;
}

sl_status sl_family_interleaved(const sl_problem *p, sl_order *order) {
    turn t = {.ranks = p->ranks, .chunks = p->stages / p->ranks, .microbatches = p->microbatches};
    t.groups = p->microbatches < p->ranks ? 1 : p->microbatches / p->ranks;
    int all = t.microbatches * t.chunks;
    SL_TRY(sl_order_make(p->ranks, 2 * all, order));
    for (int rank = 0; rank < p->ranks; rank++) {
        int ahead = warmup(&t, rank);
        for (int k = 0; k < all + ahead; k++) {
            if (k < all)
                order->ops[rank][order->count[rank]++] = op_at(&t, rank, SL_F, k);
            if (k >= ahead)
                order->ops[rank][order->count[rank]++] = op_at(&t, rank, SL_B, k - ahead);
        }
    }
    return SL_OK;
}

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
