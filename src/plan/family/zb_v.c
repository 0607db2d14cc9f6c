/* ZB-V (Zero Bubble, section 6): two stages a rank, down the ranks and up again, so that the rank with the
 * first stage has the last one too and its backwards begin early. It starts backwards as 1F1B does and puts
 * off W only at the end, where it fills what would be idle; memory is that of 1F1B on every rank. The recipe
 * is that of PyTorch's ScheduleZBVZeroBubble, and I and W stay apart as in the paper even where one follows
 * the other: a gradient leaves after I. */
#include "plan/family/static_families.h"

typedef struct builder {
    sl_op *ops;
    int *count;
    int stage[2];             /* on the way down, on the way up */
    int microbatches;         /* those of a higher number are surplus */
    int next[SL_OP_KINDS][2]; /* microbatch that comes next, by kind and stage */
} builder;

static void add(builder *b, int kind, int side) {
    int m = b->next[kind][side]++;
    if (m < b->microbatches)
        b->ops[(*b->count)++] = (sl_op){.stage = b->stage[side], .microbatch = m, .kind = kind};
}

static void warm_up(builder *b, int ranks, int rank) {
    for (int i = 0; i < 2 * (ranks - rank) - 1; i++)
        add(b, SL_F, 0);
    for (int i = 0; i < rank; i++) {
        add(b, SL_F, 1);
        add(b, SL_F, 0);
    }
    for (int i = 0; i < ranks - rank; i++) {
        add(b, SL_F, 1);
        add(b, SL_I, 1);
        add(b, SL_W, 1);
    }
}

static void run_steadily(builder *b, int microbatches) {
    while (b->next[SL_F][1] < microbatches) {
        if (b->next[SL_F][0] < microbatches)
            add(b, SL_F, 0);
        add(b, SL_I, 0);
        add(b, SL_W, 0);
        add(b, SL_F, 1);
        add(b, SL_I, 1);
        add(b, SL_W, 1);
    }
}

static void cool_down(builder *b, int ranks, int rank) {
    for (int i = 0; i < rank; i++) {
        add(b, SL_I, 0);
        add(b, SL_I, 1);
    }
    for (int i = 0; i < ranks - rank; i++) {
        add(b, SL_I, 0);
        add(b, SL_W, 0);
    }
    for (int side = 1; side >= 0; side--)
        while (b->next[SL_W][side] < b->next[SL_I][side])
            add(b, SL_W, side);
}

sl_status sl_family_zb_v(const sl_problem *p, sl_order *order) {
    int n = p->microbatches, least = 2 * p->ranks - 1; /* what fills the warm-up */
    SL_TRY(sl_order_make(p->ranks, 6 * n, order));
    for (int rank = 0; rank < p->ranks; rank++) {
        builder b = {.ops = order->ops[rank],
                     .count = &order->count[rank],
                     .stage = {rank, p->stages - 1 - rank},
                     .microbatches = n};
        warm_up(&b, p->ranks, rank);
        run_steadily(&b, n > least ? n : least);
        cool_down(&b, p->ranks, rank);
    }
    return SL_OK;
}
