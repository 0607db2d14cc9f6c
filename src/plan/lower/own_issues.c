#include "plan/lower/own_issues.h"
#include "base/memory.h"

typedef struct message_table {
    const sl_problem *problem;
    int32_t *number;     /* [backward][stage][microbatch] message + 1 of the op that makes it; 0: none */
    unsigned char *seen; /* [2 * messages] by end */
} message_table;

static int32_t *number_of(const message_table *t, int backward, int stage, int microbatch) {
    size_t row = (size_t)backward * (size_t)t->problem->stages + (size_t)stage;
    return &t->number[row * (size_t)t->problem->microbatches + (size_t)microbatch];
}

static sl_status refuse(int rank, int at, const sl_order_issue *issue, const char *why) {
    return sl_error(SL_EINVAL,
                    "rank %d, message %d: the %s of the %s that stage %d makes for microbatch %d %s", rank,
                    at, issue->receive ? "receive" : "send", issue->backward ? "gradient" : "activation",
                    issue->stage, issue->microbatch, why);
}

static const char *wrong_end(const message_table *t, const sl_program *program, int rank, int32_t before,
                             const sl_order_issue *issue, int32_t *index) {
    const sl_problem *p = t->problem;
    if (issue->stage < 0 || issue->stage >= p->stages || issue->microbatch < 0 ||
        issue->microbatch >= p->microbatches || issue->backward < 0 || issue->backward > 1)
        return "is not of this problem";
    *index = *number_of(t, issue->backward, issue->stage, issue->microbatch) - 1;
    if (*index < 0)
        return "is not of this problem";
    const sl_message *m = &program->message[*index];
    if (rank != (issue->receive ? m->to : m->from))
        return "is on the wrong rank";
    if (t->seen[2 * *index + (issue->receive != 0)])
        return "is duplicated";
    t->seen[2 * *index + (issue->receive != 0)] = 1;
    if (issue->step < before || issue->step > program->rank[rank].steps)
        return "is out of sequence";
    if (issue->receive && issue->step > m->consumer)
        return "follows the op that needs it";
    return !issue->receive && issue->step <= m->producer ? "precedes the op that makes it" : NULL;
}

static sl_status take_rank(const message_table *t, const sl_order *order, int rank, sl_program *program) {
    sl_rank_program *mine = &program->rank[rank];
    const sl_order_issue *issue = order->issue[rank];
    SL_TRY(sl_alloc(&mine->issue, (size_t)order->issues[rank], sizeof *mine->issue));
    for (int i = 0; i < order->issues[rank]; i++) {
        int32_t index;
        const char *wrong = wrong_end(t, program, rank, i > 0 ? issue[i - 1].step : 0, &issue[i], &index);
        if (wrong)
            return refuse(rank, i, &issue[i], wrong);
        mine->issue[mine->issues++] =
            (sl_message_issue){.message = index, .receive = issue[i].receive, .step = issue[i].step};
    }
    return SL_OK;
}

static sl_status check_complete(const message_table *t, const sl_program *program) {
    for (int32_t end = 0; end < 2 * program->messages; end++) {
        const sl_message *m = &program->message[end / 2];
        if (!t->seen[end])
            return sl_error(SL_EINVAL, "rank %d: the %s of the message of %d%s%d is missing",
                            end % 2 ? m->to : m->from, end % 2 ? "receive" : "send", m->op.stage,
                            sl_op_name(m->op.kind), m->op.microbatch);
    }
    return SL_OK;
}

sl_status sl_program_own_issues(const sl_problem *p, const sl_order *order, sl_program *program) {
    message_table t = {.problem = p};
    sl_status status;
    SL_TRY_GOTO(done, status,
                sl_alloc(&t.number, 2 * (size_t)p->stages * (size_t)p->microbatches, sizeof *t.number));
    SL_TRY_GOTO(done, status, sl_alloc(&t.seen, 2 * (size_t)program->messages, 1));
    for (int32_t m = 0; m < program->messages; m++) {
        const sl_op *op = &program->message[m].op;
        *number_of(&t, op->kind != SL_F, op->stage, op->microbatch) = m + 1;
    }
    for (int rank = 0; rank < p->ranks; rank++)
        SL_TRY_GOTO(done, status, take_rank(&t, order, rank, program));
    program->own_issues = 1;
    status = check_complete(&t, program);
done:
    SL_FREE(t.number, t.seen);
    return status;
}

sl_status sl_order_take_issues(const sl_program *program, const sl_message_issue *const *issue,
                               const int *count, sl_order *order) {
    SL_TRY(sl_order_make_issues(order, count));
    for (int rank = 0; rank < order->ranks; rank++)
        for (int i = 0; i < count[rank]; i++) {
            const sl_message_issue *from = &issue[rank][i];
            const sl_op *op = &program->message[from->message].op;
            order->issue[rank][order->issues[rank]++] = (sl_order_issue){.stage = op->stage,
                                                                         .microbatch = op->microbatch,
                                                                         .backward = op->kind != SL_F,
                                                                         .receive = from->receive != 0,
                                                                         .step = from->step};
        }
    return SL_OK;
}
