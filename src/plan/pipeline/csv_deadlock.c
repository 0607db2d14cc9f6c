/* Whether the rows of a file can run to their end together. Lowering considers only ops
 * (plan/lower/program.h); a file can also hold a message back, and its reader needs line and column. */
#include "base/memory.h"
#include "plan/pipeline/csv_read.h"

#include <stdio.h>

typedef struct sweep {
    const sl_csv_reader *reader;
    int *next;               /* [ranks] op that comes next */
    size_t *comm;            /* [ranks] communication cell that comes next */
    unsigned char *there[2]; /* [backward][stage, microbatch] the result was made, or sent */
    int *stack;              /* ranks that may be able to continue */
    unsigned char *on_stack;
    int depth;
} sweep;

static size_t index_of(const sl_problem *p, int stage, int microbatch) {
    return (size_t)stage * (size_t)p->microbatches + (size_t)microbatch;
}

static void push(sweep *s, int rank) {
    if (!s->on_stack[rank]) {
        s->on_stack[rank] = 1;
        s->stack[s->depth++] = rank;
    }
}

/* The stage whose result an op needs; -1: none. */
static int needed_stage(const sl_problem *p, const sl_op *op) {
    return op->kind == SL_F   ? sl_problem_previous(p, op->stage)
           : op->kind == SL_W ? -1
                              : sl_problem_next(p, op->stage);
}

static int ready(const sweep *s, const sl_op *op) {
    const sl_problem *p = s->reader->problem;
    int stage = needed_stage(p, op);
    return stage < 0 || s->there[op->kind != SL_F][index_of(p, stage, op->microbatch)];
}

/* Delivers a result; a rank that waits for it may continue. */
static void give(sweep *s, int backward, int stage, int microbatch) {
    const sl_problem *p = s->reader->problem;
    int to = backward ? sl_problem_previous(p, stage) : sl_problem_next(p, stage);
    s->there[backward][index_of(p, stage, microbatch)] = 1;
    if (to >= 0)
        push(s, sl_problem_rank(p, to));
}

/* Does the result of an op leave with its own SEND cell? */
static int has_send(const sweep *s, const sl_op *op, int rank) {
    const sl_problem *p = s->reader->problem;
    int to = op->kind == SL_F ? sl_problem_next(p, op->stage) : sl_problem_previous(p, op->stage);
    return s->reader->comms > 0 && to >= 0 && sl_problem_rank(p, to) != rank;
}

static void pass_sends(sweep *s, int rank) {
    const sl_csv_row *row = &s->reader->row[rank];
    for (; s->comm[rank] < row->comms && row->comm[s->comm[rank]].before <= s->next[rank]; s->comm[rank]++) {
        const sl_csv_comm *c = &row->comm[s->comm[rank]];
        if (!c->receive)
            give(s, c->backward, c->stage, c->microbatch);
    }
}

static void pass_op(sweep *s, int rank) {
    const sl_op *op = &s->reader->order->ops[rank][s->next[rank]++];
    if (op->kind != SL_W && !has_send(s, op, rank))
        give(s, op->kind != SL_F, op->stage, op->microbatch);
}

/* The op at which a rank waits: the next one, or the one paired with it; NULL: it does not wait. */
static const sl_op *waiting(const sweep *s, int rank) {
    const sl_op *op = &s->reader->order->ops[rank][s->next[rank]];
    return !ready(s, op) ? op : op->paired && !ready(s, op + 1) ? op + 1 : NULL;
}

static void run(sweep *s) {
    const sl_order *order = s->reader->order;
    for (int rank = 0; rank < order->ranks; rank++)
        push(s, rank);
    while (s->depth > 0) {
        int rank = s->stack[--s->depth];
        s->on_stack[rank] = 0;
        for (pass_sends(s, rank); s->next[rank] < order->count[rank] && !waiting(s, rank);
             pass_sends(s, rank)) {
            int paired = order->ops[rank][s->next[rank]].paired;
            pass_op(s, rank);
            if (paired)
                pass_op(s, rank);
        }
    }
}

/* The rank whose result `rank` waits for. */
static int awaited(const sweep *s, int rank) {
    const sl_problem *p = s->reader->problem;
    return sl_problem_rank(p, needed_stage(p, waiting(s, rank)));
}

/* Names the cells of a cycle: each waits for a result of the next one's rank. */
static sl_status refuse_cycle(const sweep *s, int first) {
    const sl_csv_reader *r = s->reader;
    char text[800];
    int length = 0, rank = first;
    do {
        const sl_op *op = waiting(s, rank);
        length += snprintf(
            text + length, sizeof text - (size_t)length,
            "%s%d%s%d in line %d, column %d waits for the %s of stage %d, microbatch %d from rank %d",
            length ? ", " : "", op->stage, sl_op_name(op->kind), op->microbatch, r->row[rank].line,
            r->row[rank].column[s->next[rank]], op->kind == SL_F ? "activation" : "gradient",
            needed_stage(r->problem, op), op->microbatch, awaited(s, rank));
        rank = awaited(s, rank);
    } while (rank != first && length < (int)sizeof text - 200); /* one step is at most 130 bytes */
    return sl_error(SL_EINVAL, "%s:%d: column %d: deadlock: %s%s", r->file, r->row[first].line,
                    r->row[first].column[s->next[first]], text, rank == first ? "" : ", and so on");
}

/* A rank that did not reach its end waits for another one that did not either: following them for as many
 * steps as there are ranks leads to a cycle. */
static sl_status check_ends(const sweep *s) {
    const sl_order *order = s->reader->order;
    int rank = 0;
    while (rank < order->ranks && s->next[rank] >= order->count[rank])
        rank++;
    if (rank == order->ranks)
        return SL_OK;
    for (int i = 0; i < order->ranks; i++)
        rank = awaited(s, rank);
    return refuse_cycle(s, rank);
}

static sl_status make_sweep(const sl_problem *p, sweep *s) {
    size_t ranks = (size_t)p->ranks, cells = (size_t)p->stages * (size_t)p->microbatches;
    SL_TRY(sl_alloc(&s->next, ranks, sizeof *s->next));
    SL_TRY(sl_alloc(&s->comm, ranks, sizeof *s->comm));
    SL_TRY(sl_alloc(&s->there[0], cells, 1));
    SL_TRY(sl_alloc(&s->there[1], cells, 1));
    SL_TRY(sl_alloc(&s->stack, ranks, sizeof *s->stack));
    return sl_alloc(&s->on_stack, ranks, 1);
}

sl_status sl_csv_check_deadlock(const sl_csv_reader *r) {
    sweep s = {.reader = r};
    sl_status status = make_sweep(r->problem, &s);
    if (status == SL_OK) {
        run(&s);
        status = check_ends(&s);
    }
    SL_FREE(s.next, s.comm, s.there[0], s.there[1], s.stack, s.on_stack);
    return status;
}
