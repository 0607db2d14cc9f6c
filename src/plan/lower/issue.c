#include "plan/lower/issue.h"
#include "base/memory.h"
#include "plan/lower/cells.h"

#include <string.h>

struct sl_issuer {
    const sl_program *program;
    sl_cell_row *row;         /* [ranks] */
    sl_message_issue **issue; /* [ranks][messages of the rank] */
    int *count;               /* [ranks] */
    size_t *next;             /* [ranks] cell of the row */
    int32_t *step;            /* [ranks] steps taken */
    unsigned char *sent;      /* [messages] */
};

int sl_communicator(const sl_problem *problem, const sl_program *program, const sl_message *message,
                    int receive) {
    int next = (sl_message_send_queue(program, message) == SL_SEND_NEXT) != receive;
    switch (problem->communicators) {
    case SL_OF_PIPELINE:
        return 0;
    case SL_OF_PAIR:
        return next;
    case SL_OF_DIRECTION:
        return 2 * next + receive;
    default:
        return 4 * next + 2 * receive + (message->op.kind == SL_F);
    }
}

int sl_message_is_eager(const sl_problem *problem, const sl_message *message) {
    double bytes = problem->link ? problem->link[message->from * problem->ranks + message->to].bytes : 0;
    return problem->eager > 0 && bytes <= problem->eager;
}

sl_status sl_issuer_open(const sl_program *program, sl_issuer **issuer) {
    size_t ranks = (size_t)program->ranks;
    sl_issuer *s;
    sl_status status;
    SL_TRY(sl_alloc(issuer, 1, sizeof **issuer));
    s = *issuer;
    s->program = program;
    SL_TRY_GOTO(err_close, status, sl_alloc(&s->row, ranks, sizeof *s->row));
    SL_TRY_GOTO(err_close, status, sl_alloc(&s->issue, ranks, sizeof *s->issue));
    SL_TRY_GOTO(err_close, status, sl_alloc(&s->count, ranks, sizeof *s->count));
    SL_TRY_GOTO(err_close, status, sl_alloc(&s->next, ranks, sizeof *s->next));
    SL_TRY_GOTO(err_close, status, sl_alloc(&s->step, ranks, sizeof *s->step));
    SL_TRY_GOTO(err_close, status, sl_alloc(&s->sent, (size_t)program->messages, 1));
    for (size_t rank = 0; rank < ranks; rank++) {
        size_t messages = 0;
        for (int q = 0; q < SL_QUEUES; q++)
            messages += (size_t)program->rank[rank].queued[q];
        SL_TRY_GOTO(err_close, status, sl_alloc(&s->issue[rank], messages, sizeof **s->issue));
    }
    return SL_OK;
err_close:
    sl_issuer_close(s);
    *issuer = NULL;
    return status;
}

void sl_issuer_close(sl_issuer *s) {
    if (!s)
        return;
    for (int rank = 0; rank < s->program->ranks; rank++) {
        if (s->row)
            sl_free(s->row[rank].cell);
        if (s->issue)
            sl_free(s->issue[rank]);
    }
    SL_FREE(s->row, s->issue, s->count, s->next, s->step, s->sent);
    sl_free(s);
}

const sl_message_issue *sl_issues_of(const sl_issuer *s, int rank, int *count) {
    *count = s->count[rank];
    return s->issue[rank];
}

void sl_issuer_give(sl_issuer *s, int rank, const sl_message_issue *issue, int count) {
    memcpy(s->issue[rank], issue, (size_t)count * sizeof *issue);
    s->count[rank] = count;
}

static int arrived(const sl_issuer *s, const sl_step *step) {
    return step->receive < 0 || s->sent[step->receive];
}

static void add(sl_issuer *s, int rank, int32_t message, int receive) {
    s->issue[rank][s->count[rank]++] = (sl_message_issue){
        .message = message, .receive = receive, .step = s->step[rank], .cell = (int32_t)s->next[rank]};
}

static void send(sl_issuer *s, int rank, int32_t message) {
    if (message < 0)
        return;
    s->sent[message] = 1;
    add(s, rank, message, 0);
    add(s, s->program->message[message].to, message, 1);
}

/* Takes the rank's next cell; returns 0 if there is none, or if it must wait. */
static int take_turn(sl_issuer *s, int rank) {
    const sl_cell_row *row = &s->row[rank];
    if (s->next[rank] == row->cells)
        return 0;
    const sl_cell *c = &row->cell[s->next[rank]];
    const sl_step *step = c->kind == SL_CELL_STEP ? &s->program->rank[rank].step[c->at] : NULL;
    int paired = step && step->op.paired;
    if (step && (!arrived(s, step) || (paired && !arrived(s, step + 1))))
        return 0;
    s->next[rank]++;
    if (step) {
        s->step[rank] += 1 + paired;
        send(s, rank, step->send);
    }
    if (paired)
        send(s, rank, step[1].send);
    return 1;
}

/* The program's own. An issue comes right after the cell of the step before it. */
static void take_own(sl_issuer *s, int rank) {
    const sl_rank_program *mine = &s->program->rank[rank];
    const sl_cell_row *row = &s->row[rank];
    int32_t cell = 0;
    size_t next = 0; /* the first cell that is not before the issue */
    sl_issuer_give(s, rank, mine->issue, mine->issues);
    for (int i = 0; i < mine->issues; i++) {
        for (; next < row->cells; next++) {
            const sl_cell *c = &row->cell[next];
            if (c->kind != SL_CELL_STEP)
                continue;
            if (c->at >= mine->issue[i].step)
                break;
            cell = (int32_t)next + 1;
        }
        s->issue[rank][i].cell = cell;
    }
}

/* Lowering has proved that the sequences can run to their end, so every round makes progress. */
sl_status sl_issuer_run(sl_issuer *s) {
    size_t ranks = (size_t)s->program->ranks;
    memset(s->count, 0, ranks * sizeof *s->count);
    memset(s->next, 0, ranks * sizeof *s->next);
    memset(s->step, 0, ranks * sizeof *s->step);
    memset(s->sent, 0, (size_t)s->program->messages);
    for (int rank = 0; rank < s->program->ranks; rank++)
        SL_TRY(sl_row_make(s->program->stages, &s->program->rank[rank], &s->row[rank]));
    for (int rank = 0; s->program->own_issues && rank < s->program->ranks; rank++)
        take_own(s, rank);
    for (int moved = !s->program->own_issues; moved;) {
        moved = 0;
        for (int rank = 0; rank < s->program->ranks; rank++)
            moved |= take_turn(s, rank);
    }
    return SL_OK;
}
