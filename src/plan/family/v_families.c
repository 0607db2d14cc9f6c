/* Two stages per rank, down the ranks and up again. */
#include "base/memory.h"
#include "plan/family/static_families.h"

typedef struct builder {
    sl_op *ops;
    int *count;
    int stage[2];             /* on the way down, on the way up */
    int microbatches;         /* those of a higher number are surplus */
    int next[SL_OP_KINDS][2]; /* next microbatch, by kind and stage; a full backward counts as I */
    sl_op *waiting;           /* DualPipeV: W whose I has run, first come, first served */
    int first, last;
} builder;

static builder begin(const sl_problem *p, int rank, sl_order *order) {
    return (builder){.ops = order->ops[rank],
                     .count = &order->count[rank],
                     .stage = {rank, p->stages - 1 - rank},
                     .microbatches = p->microbatches};
}

static int append(builder *b, sl_op op) {
    if (op.microbatch >= b->microbatches)
        return 0;
    b->ops[(*b->count)++] = op;
    return 1;
}

/* 0: it is surplus. */
static int add(builder *b, int kind, int side) {
    int m = b->next[kind == SL_B ? SL_I : kind][side]++;
    return append(b, (sl_op){.stage = b->stage[side], .microbatch = m, .kind = kind});
}

/* ZB-V (Zero Bubble, section 6): two stages per rank, down the ranks and up again, so that the rank with the
 * first stage also has the last one and its backwards begin early. It starts backwards as 1F1B does and
 * delays W only at the end, where it fills idle time; memory is that of 1F1B on every rank. The recipe is
 * that of PyTorch's ScheduleZBVZeroBubble, and I and W stay separate as in the paper even if one follows the
 * other: a gradient leaves after I. */
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

static void zb_v_steadily(builder *b, int microbatches) {
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
    int n = p->microbatches, least = 2 * p->ranks - 1; /* microbatches that fill the warm-up */
    SL_TRY(sl_order_make(p->ranks, 6 * n, order));
    for (int rank = 0; rank < p->ranks; rank++) {
        builder b = begin(p, rank, order);
        warm_up(&b, p->ranks, rank);
        zb_v_steadily(&b, n > least ? n : least);
        cool_down(&b, p->ranks, rank);
    }
    return SL_OK;
}

/* DualPipeV (github.com/deepseek-ai/DualPipe, the steps of its README and of PyTorch's ScheduleDualPipeV):
 * stages are placed as in ZB-V, and in the main step a forward of one stage and a full backward of the other
 * run as one overlapped block, so that the messages of one are hidden by the work of the other. Zero-bubble
 * halves I and W are used only while the pipeline fills and drains. */
static void add_input(builder *b, int side) {
    sl_op weight = {.stage = b->stage[side], .microbatch = b->next[SL_I][side], .kind = SL_W};
    add(b, SL_I, side);
    b->waiting[b->last++] = weight;
}

static void add_backward(builder *b, int side, int halved) {
    if (halved)
        add_input(b, side);
    else
        add(b, SL_B, side);
}

static void add_weight(builder *b) {
    if (b->first < b->last)
        append(b, b->waiting[b->first++]);
}

/* Forward of one side, overlapped with a full backward of the other; if one is surplus, the other runs
 * alone. */
static void add_pair(builder *b, int forward_side) {
    int at = *b->count;
    if (add(b, SL_F, forward_side) && add(b, SL_B, 1 - forward_side))
        b->ops[at].paired = 1;
    else if (*b->count == at)
        add(b, SL_B, 1 - forward_side);
}

static void fill(builder *b, int ranks, int rank) {
    for (int i = 0; i < 2 * (ranks - rank - 1); i++)
        add(b, SL_F, 0);
    for (int i = 0; i < rank + 1; i++) {
        add(b, SL_F, 0);
        add(b, SL_F, 1);
    }
    for (int i = 0; i < ranks - rank - 1; i++) {
        add_input(b, 1);
        add_weight(b);
        add(b, SL_F, 1);
    }
}

/* On the last rank the first two are not overlapped, so its neighbor gets the gradient earlier. */
static void dualpipe_v_steadily(builder *b, int ranks, int rank, int microbatches) {
    for (int i = 0; i < microbatches - 2 * ranks + rank + 1; i++) {
        if (i == 0 && rank == ranks - 1) {
            add(b, SL_F, 0);
            add(b, SL_B, 1);
        } else {
            add_pair(b, 0);
        }
        add_pair(b, 1);
    }
    for (int i = 0; i < ranks - rank - 1; i++) {
        add(b, SL_B, 1);
        add_pair(b, 1);
    }
}

/* The second half of the last backwards is split, so that W remains for the end. */
static void drain(builder *b, int ranks, int rank) {
    int halved = 0, middle = (rank + 1) / 2;
    for (int i = 0; i < rank + 1; i++) {
        halved |= i == middle && rank % 2 == 1;
        add_backward(b, 1, halved);
        halved |= i == middle && rank % 2 == 0;
        add_backward(b, 0, halved);
    }
    for (int i = 0; i < ranks - rank - 1; i++) {
        add_weight(b);
        add_backward(b, 0, halved);
    }
    while (b->first < b->last)
        add_weight(b);
}

sl_status sl_family_dualpipe_v(const sl_problem *p, sl_order *order) {
    int n = p->microbatches, planned = n > p->stages ? n : p->stages;
    sl_op *waiting;
    SL_TRY(sl_alloc(&waiting, 2 * (size_t)planned, sizeof *waiting));
    sl_status status = sl_order_make(p->ranks, 6 * n, order);
    for (int rank = 0; rank < p->ranks && status == SL_OK; rank++) {
        builder b = begin(p, rank, order);
        b.waiting = waiting;
        fill(&b, p->ranks, rank);
        dualpipe_v_steadily(&b, p->ranks, rank, planned);
        drain(&b, p->ranks, rank);
    }
    sl_free(waiting);
    return status;
}
