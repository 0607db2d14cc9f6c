#include "plan/lower/comms_csv.h"
#include "base/memory.h"
#include "plan/pipeline/csv.h"

/* Stages of a rank whose weights are gathered at the same time, as in PyTorch: one forward, one backward, one
 * being fetched. */
#define MAX_ACTIVE 3

typedef enum cell_kind { STEP, SEND, RECEIVE, UNSHARD, RESHARD, REDUCE_GRAD } cell_kind;

typedef struct csv_cell {
    int32_t kind;
    int32_t at; /* STEP: step; SEND, RECEIVE: message; else stage */
} csv_cell;

typedef struct csv_row {
    csv_cell *cell;
    size_t cells, capacity;
} csv_row;

static sl_status add(csv_row *r, cell_kind kind, int32_t at) {
    SL_TRY(sl_grow(&r->cell, &r->capacity, r->cells + 1, sizeof *r->cell));
    r->cell[r->cells++] = (csv_cell){.kind = (int32_t)kind, .at = at};
    return SL_OK;
}

/* ---- the cells of a rank without communication ---- */

typedef struct sharding {
    const sl_rank_program *rank;
    int stages;
    int *left;             /* [stages] remaining steps of this rank */
    int *sums;             /* [stages] remaining W and B */
    unsigned char *active; /* [stages] */
    unsigned char *wanted; /* [stages] among the next ones */
    int32_t *change;       /* [steps] first later step of another stage */
    int to_come;           /* stages with steps left */
    int actives;           /* active stages */
} sharding;

/* The next stages from step `i` on, into s->wanted and next[MAX_ACTIVE + 1], in order of use; a pair counts
 * as a whole and may add one more. */
static int next_stages(sharding *s, int i, int32_t *next) {
    int found = 0;
    while (i < s->rank->steps && found < MAX_ACTIVE && found < s->to_come) {
        int last = i + s->rank->step[i].op.paired;
        for (; i <= last; i++) {
            int32_t stage = s->rank->step[i].op.stage;
            if (!s->wanted[stage])
                next[found++] = stage;
            s->wanted[stage] = 1;
        }
        i = s->change[i - 1];
    }
    return found;
}

/* Drops the stages that are not among the next ones and fetches those that are. */
static sl_status shard(sharding *s, int i, csv_row *r) {
    int32_t next[MAX_ACTIVE + 1];
    int found = next_stages(s, i, next), stay = 0;
    for (int n = 0; n < found; n++)
        stay += s->active[next[n]];
    for (int32_t stage = 0; stage < s->stages && s->actives > stay; stage++)
        if (s->active[stage] && !s->wanted[stage]) {
            s->active[stage] = 0;
            s->actives--;
            SL_TRY(add(r, RESHARD, stage));
        }
    for (int n = 0; n < found; n++) {
        s->wanted[next[n]] = 0;
        if (s->active[next[n]])
            continue;
        s->active[next[n]] = 1;
        s->actives++;
        SL_TRY(add(r, UNSHARD, next[n]));
    }
    return SL_OK;
}

static void pass(sharding *s, const sl_op *op) {
    s->sums[op->stage] -= op->kind == SL_W || op->kind == SL_B;
    s->to_come -= --s->left[op->stage] == 0;
}

static sl_status reduce(const sharding *s, const sl_op *op, csv_row *r) {
    return (op->kind == SL_W || op->kind == SL_B) && s->sums[op->stage] == 0 ? add(r, REDUCE_GRAD, op->stage)
                                                                             : SL_OK;
}

static sl_status fill_row(sharding *s, csv_row *r) {
    const sl_step *step = s->rank->step;
    for (int32_t i = 0; i < s->rank->steps; i += 1 + step[i].op.paired) {
        int last = i + step[i].op.paired;
        SL_TRY(shard(s, i, r));
        SL_TRY(add(r, STEP, i));
        for (int j = i; j <= last; j++)
            pass(s, &step[j].op);
        for (int j = i; j <= last; j++)
            SL_TRY(reduce(s, &step[j].op, r));
    }
    for (int32_t stage = 0; stage < s->stages; stage++)
        if (s->active[stage])
            SL_TRY(add(r, RESHARD, stage));
    return SL_OK;
}

static sl_status prepare(sharding *s) {
    SL_TRY(sl_alloc(&s->left, (size_t)s->stages, sizeof *s->left));
    SL_TRY(sl_alloc(&s->sums, (size_t)s->stages, sizeof *s->sums));
    SL_TRY(sl_alloc(&s->active, (size_t)s->stages, 1));
    SL_TRY(sl_alloc(&s->wanted, (size_t)s->stages, 1));
    SL_TRY(sl_alloc(&s->change, (size_t)s->rank->steps, sizeof *s->change));
    for (int i = s->rank->steps - 1; i >= 0; i--) {
        const sl_op *op = &s->rank->step[i].op;
        int same = i + 1 < s->rank->steps && op[0].stage == s->rank->step[i + 1].op.stage;
        s->change[i] = same ? s->change[i + 1] : i + 1;
        s->to_come += s->left[op->stage]++ == 0;
        s->sums[op->stage] += op->kind == SL_W || op->kind == SL_B;
    }
    return SL_OK;
}

static sl_status make_row(int stages, const sl_rank_program *rank, csv_row *r) {
    sharding s = {.rank = rank, .stages = stages};
    sl_status status = prepare(&s);
    SL_THEN(status, fill_row(&s, r));
    SL_FREE(s.left, s.sums, s.active, s.wanted, s.change);
    return status;
}

/* ---- all rows in turns, with communication ---- */

typedef struct turns {
    const sl_program *program;
    csv_row *own, *full; /* [ranks] without and with communication */
    size_t *next;        /* [ranks] in own */
    unsigned char *sent; /* [messages] */
} turns;

static int arrived(const turns *t, const sl_step *step) {
    return step->receive < 0 || t->sent[step->receive];
}

static sl_status send(turns *t, int rank, int32_t message) {
    if (message < 0)
        return SL_OK;
    t->sent[message] = 1;
    SL_TRY(add(&t->full[rank], SEND, message));
    return add(&t->full[t->program->message[message].to], RECEIVE, message);
}

/* Takes the rank's next cell if there is one and it can run. */
static sl_status take_turn(turns *t, int rank, int *moved) {
    if (t->next[rank] == t->own[rank].cells)
        return SL_OK;
    const csv_cell *c = &t->own[rank].cell[t->next[rank]];
    const sl_step *step = c->kind == STEP ? &t->program->rank[rank].step[c->at] : NULL;
    int paired = step && step->op.paired;
    if (step && (!arrived(t, step) || (paired && !arrived(t, step + 1))))
        return SL_OK;
    *moved = 1;
    t->next[rank]++;
    SL_TRY(add(&t->full[rank], (cell_kind)c->kind, c->at));
    if (step)
        SL_TRY(send(t, rank, step->send));
    return paired ? send(t, rank, step[1].send) : SL_OK;
}

/* Lowering has proved that the sequences can run to their end, so every round makes progress. */
static sl_status take_turns(turns *t, int stages) {
    int moved = 1;
    for (int rank = 0; rank < t->program->ranks; rank++)
        SL_TRY(make_row(stages, &t->program->rank[rank], &t->own[rank]));
    while (moved) {
        moved = 0;
        for (int rank = 0; rank < t->program->ranks; rank++)
            SL_TRY(take_turn(t, rank, &moved));
    }
    return SL_OK;
}

/* ---- writing ---- */

static void write_cell(const sl_problem *p, const sl_program *program, int rank, const csv_cell *c,
                       FILE *out) {
    static const char *const names[] = {
        [UNSHARD] = "UNSHARD", [RESHARD] = "RESHARD", [REDUCE_GRAD] = "REDUCE_GRAD"};
    if (c->kind == STEP) {
        const sl_step *step = &program->rank[rank].step[c->at];
        sl_op pair[2] = {step->op, step->op.paired ? step[1].op : step->op};
        sl_op_write_csv(pair, out);
    } else if (c->kind == SEND || c->kind == RECEIVE) {
        const sl_op *op = &program->message[c->at].op;
        int stage = c->kind == SEND    ? op->stage
                    : op->kind == SL_F ? sl_problem_next(p, op->stage)
                                       : sl_problem_previous(p, op->stage);
        fprintf(out, "%d%s_%s%d", stage, c->kind == SEND ? "SEND" : "RECV", op->kind == SL_F ? "F" : "B",
                op->microbatch);
    } else {
        fprintf(out, "%d%s", c->at, names[c->kind]);
    }
}

static sl_status write_rows(const sl_problem *p, const turns *t, FILE *out) {
    for (int rank = 0; rank < t->program->ranks; rank++) {
        for (size_t i = 0; i < t->full[rank].cells; i++) {
            if (i > 0)
                fputc(',', out);
            write_cell(p, t->program, rank, &t->full[rank].cell[i], out);
        }
        fputc('\n', out);
    }
    return fflush(out) != 0 || ferror(out) ? sl_error_errno(SL_ESYS, "the order cannot be written") : SL_OK;
}

static sl_status make_turns(turns *t) {
    size_t ranks = (size_t)t->program->ranks;
    SL_TRY(sl_alloc(&t->own, ranks, sizeof *t->own));
    SL_TRY(sl_alloc(&t->full, ranks, sizeof *t->full));
    SL_TRY(sl_alloc(&t->next, ranks, sizeof *t->next));
    return sl_alloc(&t->sent, (size_t)t->program->messages, 1);
}

sl_status sl_program_write_csv(const sl_problem *problem, const sl_order *order, const sl_program *program,
                               FILE *out) {
    turns t = {.program = program};
    SL_TRY(sl_order_check_csv(problem, order));
    sl_status status = make_turns(&t);
    SL_THEN(status, take_turns(&t, problem->stages));
    SL_THEN(status, write_rows(problem, &t, out));
    for (int rank = 0; rank < program->ranks; rank++) {
        if (t.own)
            sl_free(t.own[rank].cell);
        if (t.full)
            sl_free(t.full[rank].cell);
    }
    SL_FREE(t.own, t.full, t.next, t.sent);
    return status;
}
