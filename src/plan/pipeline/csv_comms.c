/* Communication cells of the compute_comms form, compared with the ops. */
#include "base/memory.h"
#include "plan/pipeline/csv_read.h"

#include <stdio.h>

int sl_csv_comm_maker(const sl_problem *p, const sl_csv_comm *c) {
    return !c->receive   ? c->stage
           : c->backward ? sl_problem_next(p, c->stage)
                         : sl_problem_previous(p, c->stage);
}

/* Tables by stage and microbatch. */
typedef struct tables {
    int *at[2];                /* [backward] position + 1 of F, or of I or B, on its rank */
    unsigned char *seen[2][2]; /* [receive][backward] */
    unsigned char *paired;     /* [from * ranks + to] already compared */
} tables;

static size_t index_of(const sl_problem *p, int stage, int microbatch) {
    return (size_t)stage * (size_t)p->microbatches + (size_t)microbatch;
}

static sl_status refuse_comm(const sl_csv_reader *r, const sl_csv_comm *c, const char *why) {
    char text[64];
    snprintf(text, sizeof text, "%d%s%d", c->stage, sl_csv_comm_name(c->receive, c->backward), c->microbatch);
    sl_csv_cell cell = {.file = r->file, .line = c->line, .column = c->column, .text = text};
    return sl_csv_refuse(&cell, why);
}

/* ---- each cell: once, after the op that makes the message or before the one that needs it ---- */

static sl_status check_comm(const sl_csv_reader *r, const tables *t, const sl_csv_comm *c) {
    size_t cell = index_of(r->problem, c->stage, c->microbatch);
    int position = t->at[c->backward][cell] - 1;
    unsigned char *seen = &t->seen[c->receive][c->backward][cell];
    if (*seen)
        return refuse_comm(r, c, "is duplicated");
    *seen = 1;
    if (c->receive && position < c->before)
        return refuse_comm(r, c, "follows the op that needs it");
    if (!c->receive && position >= c->before)
        return refuse_comm(r, c, "precedes the op that makes it");
    return SL_OK;
}

static sl_status check_comms(const sl_csv_reader *r, const tables *t) {
    for (int rank = 0; rank < r->problem->ranks; rank++) {
        for (int i = 0; i < r->order->count[rank]; i++) {
            const sl_op *op = &r->order->ops[rank][i];
            if (op->kind != SL_W)
                t->at[op->kind != SL_F][index_of(r->problem, op->stage, op->microbatch)] = i + 1;
        }
        for (size_t i = 0; i < r->row[rank].comms; i++)
            SL_TRY(check_comm(r, t, &r->row[rank].comm[i]));
    }
    return SL_OK;
}

/* ---- each pair of ranks: PyTorch gives all messages one tag, so only their order distinguishes them ---- */

static const sl_csv_comm *next_between(const sl_csv_row *row, int peer, int receive, size_t *at) {
    while (*at < row->comms) {
        const sl_csv_comm *c = &row->comm[(*at)++];
        if (c->receive == receive && c->peer == peer)
            return c;
    }
    return NULL;
}

/* Same stage boundary, direction and microbatch? */
static int same_message(const sl_problem *p, const sl_csv_comm *sent, const sl_csv_comm *got) {
    int to = sent->backward ? sl_problem_previous(p, sent->stage) : sl_problem_next(p, sent->stage);
    return sent->microbatch == got->microbatch && sent->backward == got->backward && to == got->stage;
}

static sl_status check_pair(const sl_csv_reader *r, int from, int to) {
    size_t i = 0, j = 0;
    for (int count = 0;; count++) {
        const sl_csv_comm *sent = next_between(&r->row[from], to, 0, &i),
                          *got = next_between(&r->row[to], from, 1, &j);
        if (!sent && !got)
            return SL_OK;
        const sl_csv_comm *where = sent ? sent : got;
        if (!sent || !got)
            return sl_error(
                SL_EINVAL, "%s:%d: column %d: %d%s%d, microbatch %d from rank %d to rank %d, is %s", r->file,
                where->line, where->column, where->stage, sl_csv_comm_name(where->receive, where->backward),
                where->microbatch, where->microbatch, from, to, sent ? "never received" : "never sent");
        if (!same_message(r->problem, sent, got))
            return sl_error(SL_EINVAL,
                            "%s:%d: column %d: message %d from rank %d to rank %d is sent as microbatch %d, "
                            "but received as %d in line %d, column %d (%d%s%d, %d%s%d)",
                            r->file, sent->line, sent->column, count, from, to, sent->microbatch,
                            got->microbatch, got->line, got->column, sent->stage,
                            sl_csv_comm_name(0, sent->backward), sent->microbatch, got->stage,
                            sl_csv_comm_name(1, got->backward), got->microbatch);
    }
}

static sl_status check_pairs(const sl_csv_reader *r, const tables *t) {
    const sl_problem *p = r->problem;
    for (int stage = 0; stage < p->stages; stage++) {
        if (sl_problem_next(p, stage) < 0)
            continue;
        int a = sl_problem_rank(p, stage), b = sl_problem_rank(p, sl_problem_next(p, stage));
        unsigned char *done = &t->paired[(size_t)a * (size_t)p->ranks + (size_t)b];
        if (a == b || *done)
            continue;
        *done = t->paired[(size_t)b * (size_t)p->ranks + (size_t)a] = 1;
        SL_TRY(check_pair(r, a, b));
        SL_TRY(check_pair(r, b, a));
    }
    return SL_OK;
}

/* ---- each op: its message exists ---- */

/* The rank to which an op's result goes; -1: it stays. */
static int goes_to(const sl_problem *p, const sl_op *op, int rank) {
    if (op->kind == SL_W)
        return -1;
    int stage = op->kind == SL_F ? sl_problem_next(p, op->stage) : sl_problem_previous(p, op->stage);
    int to = stage < 0 ? rank : sl_problem_rank(p, stage);
    return to == rank ? -1 : to;
}

static sl_status refuse_missing(const sl_csv_reader *r, int rank, int position, int to) {
    const sl_op *op = &r->order->ops[rank][position];
    int sent = 0, needed = 0, backward = op->kind != SL_F;
    for (size_t i = 0; i < r->row[rank].comms; i++)
        sent += !r->row[rank].comm[i].receive && r->row[rank].comm[i].peer == to;
    for (int i = 0; i < r->order->count[rank]; i++)
        needed += goes_to(r->problem, &r->order->ops[rank][i], rank) == to;
    return sl_error(
        SL_EINVAL,
        "%s:%d: column %d, '%d%s%d': %d messages from rank %d to rank %d, but %d microbatches need "
        "%d; %d%s%d is missing",
        r->file, r->row[rank].line, r->row[rank].column[position], op->stage, sl_op_name(op->kind),
        op->microbatch, sent, rank, to, r->problem->microbatches, needed, op->stage,
        sl_csv_comm_name(0, backward), op->microbatch);
}

static sl_status check_sends(const sl_csv_reader *r, const tables *t) {
    const sl_problem *p = r->problem;
    for (int rank = 0; rank < p->ranks; rank++)
        for (int i = 0; i < r->order->count[rank]; i++) {
            const sl_op *op = &r->order->ops[rank][i];
            int to = goes_to(p, op, rank);
            if (to >= 0 && !t->seen[0][op->kind != SL_F][index_of(p, op->stage, op->microbatch)])
                return refuse_missing(r, rank, i, to);
        }
    return SL_OK;
}

static sl_status make_tables(const sl_problem *p, tables *t) {
    size_t cells = (size_t)p->stages * (size_t)p->microbatches;
    for (int backward = 0; backward < 2; backward++) {
        SL_TRY(sl_alloc(&t->at[backward], cells, sizeof(int)));
        SL_TRY(sl_alloc(&t->seen[0][backward], cells, 1));
        SL_TRY(sl_alloc(&t->seen[1][backward], cells, 1));
    }
    return sl_alloc(&t->paired, (size_t)p->ranks * (size_t)p->ranks, 1);
}

/* Only the compute_comms form has comms. */
sl_status sl_csv_check_comms(const sl_csv_reader *r) {
    tables t = {0};
    if (r->comms == 0)
        return SL_OK;
    sl_status status = make_tables(r->problem, &t);
    SL_THEN(status, check_comms(r, &t));
    SL_THEN(status, check_pairs(r, &t));
    SL_THEN(status, check_sends(r, &t));
    for (int backward = 0; backward < 2; backward++) {
        SL_FREE(t.at[backward], t.seen[0][backward], t.seen[1][backward]);
    }
    sl_free(t.paired);
    return status;
}
