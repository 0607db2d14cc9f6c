/* DualPipeV (github.com/deepseek-ai/DualPipe, the steps of its README and of PyTorch's ScheduleDualPipeV):
 * stages lie as in ZB-V, and in the main step a forward of one stage and a full backward of the other run as
 * one overlapped block, so that the messages of one hide behind the work of the other. Zero-bubble halves I
 * and W stand only where the pipeline fills and drains. */
#include "base/memory.h"
#include "plan/family/static_families.h"

typedef struct builder {
    sl_op *ops;
    int *count;
    int stage[2];             /* on the way down, on the way up */
    int microbatches;         /* those of a higher number are surplus */
    int forward[2], input[2]; /* microbatch that comes next, by stage; a full backward counts as input */
    sl_op *waiting;           /* W whose I has been, first come first served */
    int first, last;
} builder;

static int append(builder *b, sl_op op) {
    if (op.microbatch >= b->microbatches)
        return 0;
    b->ops[(*b->count)++] = op;
    return 1;
}

static int add_forward(builder *b, int side) {
    return append(b, (sl_op){.stage = b->stage[side], .microbatch = b->forward[side]++, .kind = SL_F});
}

static int add_full(builder *b, int side) {
    return append(b, (sl_op){.stage = b->stage[side], .microbatch = b->input[side]++, .kind = SL_B});
}

static void add_input(builder *b, int side) {
    sl_op op = {.stage = b->stage[side], .microbatch = b->input[side]++, .kind = SL_I};
    append(b, op);
    op.kind = SL_W;
    b->waiting[b->last++] = op;
}

static void add_backward(builder *b, int side, int halved) {
    if (halved)
        add_input(b, side);
    else
        add_full(b, side);
}

static void add_weight(builder *b) {
    if (b->first < b->last)
        append(b, b->waiting[b->first++]);
}

/* Forward of one side, overlapped with a full backward of the other; what is surplus leaves the other alone.
 */
static void add_pair(builder *b, int forward_side) {
    int at = *b->count;
    if (add_forward(b, forward_side) && add_full(b, 1 - forward_side))
        b->ops[at].paired = 1;
    else if (*b->count == at)
        add_full(b, 1 - forward_side);
}

static void fill(builder *b, int ranks, int rank) {
    for (int i = 0; i < 2 * (ranks - rank - 1); i++)
        add_forward(b, 0);
    for (int i = 0; i < rank + 1; i++) {
        add_forward(b, 0);
        add_forward(b, 1);
    }
    for (int i = 0; i < ranks - rank - 1; i++) {
        add_input(b, 1);
        add_weight(b);
        add_forward(b, 1);
    }
}

/* On the last rank the first two are not overlapped: its neighbour gets the gradient earlier. */
static void run_steadily(builder *b, int ranks, int rank, int microbatches) {
    for (int i = 0; i < microbatches - 2 * ranks + rank + 1; i++) {
        if (i == 0 && rank == ranks - 1) {
            add_forward(b, 0);
            add_full(b, 1);
        } else {
            add_pair(b, 0);
        }
        add_pair(b, 1);
    }
    for (int i = 0; i < ranks - rank - 1; i++) {
        add_full(b, 1);
        add_pair(b, 1);
    }
}

/* The second half of the last backwards is halved, so that W is left for the end. */
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
        builder b = {.ops = order->ops[rank],
                     .count = &order->count[rank],
                     .stage = {rank, p->stages - 1 - rank},
                     .microbatches = n,
                     .waiting = waiting};
        fill(&b, p->ranks, rank);
        run_steadily(&b, p->ranks, rank, planned);
        drain(&b, p->ranks, rank);
    }
    sl_free(waiting);
    return status;
}
