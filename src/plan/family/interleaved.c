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
#include "plan/family/static_families.h"

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
