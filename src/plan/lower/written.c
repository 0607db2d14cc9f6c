#include "plan/lower/written.h"
#include "base/memory.h"

/* Messages by direction, stage that makes them, and microbatch. */
static int32_t *slot_of(const sl_problem *p, int32_t *table, int backward, int stage, int microbatch) {
    return &table[((size_t)backward * (size_t)p->stages + (size_t)stage) * (size_t)p->microbatches +
                  (size_t)microbatch];
}

static int32_t message_of(const sl_problem *p, int32_t *table, const sl_csv_comm *c) {
    int maker = !c->receive   ? c->stage
                : c->backward ? sl_problem_next(p, c->stage)
                              : sl_problem_previous(p, c->stage);
    return *slot_of(p, table, c->backward, maker, c->microbatch);
}

/* The reader has compared the cells with the ops: every message has both. */
static void give_cells(sl_written *w, int rank, int32_t *table, sl_message_issue *issue) {
    const sl_csv_row *row = &w->reader.row[rank];
    for (size_t i = 0; i < row->comms; i++)
        issue[i] = (sl_message_issue){.message = message_of(w->problem, table, &row->comm[i]),
                                      .receive = row->comm[i].receive,
                                      .step = row->comm[i].before};
    sl_issuer_give(w->issuer, rank, issue, (int)row->comms);
}

static sl_status give_all(sl_written *w) {
    const sl_problem *p = w->problem;
    int32_t *table = NULL;
    sl_message_issue *issue = NULL;
    sl_status status;
    SL_TRY_GOTO(done, status,
                sl_alloc(&table, 2 * (size_t)p->stages * (size_t)p->microbatches, sizeof *table));
    SL_TRY_GOTO(done, status, sl_alloc(&issue, 2 * (size_t)w->program.messages, sizeof *issue));
    for (int32_t m = 0; m < w->program.messages; m++) {
        const sl_op *op = &w->program.message[m].op;
        *slot_of(p, table, op->kind != SL_F, op->stage, op->microbatch) = m;
    }
    for (int rank = 0; rank < p->ranks; rank++)
        give_cells(w, rank, table, issue);
done:
    SL_FREE(table, issue);
    return status;
}

/* Whether every rank has issued both ends of all its messages. */
static int is_complete(const sl_written *w) {
    int count, ends = 0;
    for (int rank = 0; rank < w->program.ranks; rank++) {
        sl_issues_of(w->issuer, rank, &count);
        ends += count;
    }
    return ends == 2 * w->program.messages;
}

sl_status sl_written_open(const char *file, const sl_problem *problem, sl_written *w) {
    *w = (sl_written){.problem = problem};
    SL_TRY(sl_csv_open(file, problem, &w->order, &w->reader));
    SL_TRY(sl_lower_any(problem, &w->order, &w->program));
    SL_TRY(sl_issuer_open(&w->program, &w->issuer));
    if (w->reader.comms > 0)
        return give_all(w);
    SL_TRY(sl_issuer_run(w->issuer));
    if (!is_complete(w)) {
        sl_issuer_close(w->issuer);
        w->issuer = NULL;
    }
    return SL_OK;
}

void sl_written_close(sl_written *w) {
    sl_issuer_close(w->issuer);
    sl_program_free(&w->program);
    sl_csv_close(&w->reader);
    sl_order_free(&w->order);
    *w = (sl_written){0};
}
