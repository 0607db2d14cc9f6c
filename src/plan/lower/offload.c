#include "plan/lower/offload.h"
#include "base/memory.h"

#define LOOK_AHEAD 64 /* fetches considered in the decision whether one must start */

/* One of the two idle times of an activation: from F to I or B, and from I to W. */
typedef struct stay {
    int32_t from;  /* step with the last part of the previous op */
    int32_t until; /* step with the first part of the next op */
    sl_time begin; /* expected end of the previous op */
    int32_t fetch; /* its move; -1: none so far */
} stay;

struct sl_offload {
    int32_t *row;         /* [stages] index of a stage among the rank's stages */
    stay *stay;           /* [rows][microbatches][from F, from I] */
    sl_time *start;       /* [steps + 1] start times without any waiting */
    double *coming;       /* [steps + 1] maximum that this step or a later one takes */
    sl_time *end;         /* [moves] expected */
    int32_t *held, *away; /* stays that have begun: on the device, never moved; on the host. By `until`,
                             ascending */
};

typedef struct offload_pass {
    const sl_problem *problem;
    sl_rank_program *mine;
    struct sl_offload *state;
    double limit, used; /* of the device, after all steps and moves so far */
    int host_limit, hosted;
    int held, away;
    double pinned;   /* fetched before their op: these stay */
    int32_t last;    /* the latest step for which one of them was fetched */
    int32_t settled; /* moves up to this one have certainly ended */
    sl_time now;     /* expected start of the current block */
    sl_time lag;     /* time that the rank has waited for moves so far */
    sl_time copied;  /* time at which the copy engine is idle again */
    int fits;
} offload_pass;

/* ---- lists by end ---- */

static stay *at(const offload_pass *p, int32_t index) {
    return &p->state->stay[index];
}

static void insert(const offload_pass *p, int32_t *list, int *count, int32_t index) {
    int i = (*count)++;
    for (; i > 0 && at(p, list[i - 1])->until > at(p, index)->until; i--)
        list[i] = list[i - 1];
    list[i] = index;
}

static void take_out(int32_t *list, int *count, int at) {
    --*count;
    for (int i = at; i < *count; i++)
        list[i] = list[i + 1];
}

/* The stay before (`after` 0) or after an op; -1: none. */
static int32_t index_of(const offload_pass *p, const sl_op *op, int after) {
    int32_t first = 2 * (p->state->row[op->stage] * p->problem->microbatches + op->microbatch);
    if (op->part != (after ? p->problem->parts - 1 : 0))
        return -1;
    switch (op->kind) {
    case SL_F:
        return after ? first : -1;
    case SL_I:
        return first + after;
    case SL_W:
        return after ? -1 : first + 1;
    default:
        return after ? -1 : first;
    }
}

static int stage_of(const offload_pass *p, int32_t index) {
    return p->mine->step[at(p, index)->from].op.stage;
}

static double size_of(const offload_pass *p, int32_t index) {
    return sl_problem_kept(p->problem, stage_of(p, index), index % 2);
}

static sl_time time_of(const offload_pass *p, int32_t index) {
    return p->problem->offload[stage_of(p, index)];
}

/* ---- moves ---- */

static void add_move(offload_pass *p, int32_t index, int kind, int32_t after, int32_t before,
                     sl_time earliest) {
    const sl_op *op = &p->mine->step[at(p, index)->from].op;
    int32_t m = p->mine->moves++;
    p->mine->move[m] = (sl_move){.stage = op->stage,
                                 .microbatch = op->microbatch,
                                 .kind = kind,
                                 .half = index % 2,
                                 .after = after,
                                 .before = before};
    p->copied = p->state->end[m] = sl_later(p->copied, earliest) + p->problem->offload[op->stage];
    p->used += kind == SL_FETCH ? size_of(p, index) : -size_of(p, index);
    p->hosted += kind == SL_OFFLOAD;
    p->hosted -= kind == SL_FETCH;
}

/* Moves out the most suitable activation among those needed after step `bound`. Returns 0 if there is none,
 * or no room on the host. */
static int make_room(offload_pass *p, int32_t bound) {
    int best = -1;
    sl_time least = SL_TIME_NEVER;
    if (p->hosted >= p->host_limit)
        return 0;
    for (int i = p->held - 1; i >= 0 && least > 0 && at(p, p->state->held[i])->until > bound; i--) {
        int32_t index = p->state->held[i];
        sl_time end = sl_later(p->copied, at(p, index)->begin) + time_of(p, index),
                late = sl_later(end - p->now, 0);
        if (size_of(p, index) > 0 && late < least) {
            best = i;
            least = late;
        }
    }
    if (best < 0)
        return 0;
    int32_t index = p->state->held[best];
    add_move(p, index, SL_OFFLOAD, at(p, index)->from, -1, at(p, index)->begin);
    take_out(p->state->held, &p->held, best);
    insert(p, p->state->away, &p->away, index);
    return 1;
}

static int may_swap(const offload_pass *p, int32_t bound) {
    return p->host_limit > 0 && p->held > 0 && at(p, p->state->held[p->held - 1])->until > bound;
}

/* Fetches the first activation on the host before step `i`, which needs `need` itself. If the host is full,
 * the fetch comes first and the step's own room is made after it. */
static int bring(offload_pass *p, int32_t i, double need, int forced) {
    int32_t index = p->state->away[0], until = at(p, index)->until;
    double size = size_of(p, index);
    if (!forced && p->pinned + size + p->state->coming[i] > p->limit)
        return 0; /* there would be no room for the steps until then */
    while (p->used + need + size > p->limit && make_room(p, until))
        continue;
    if (p->used + need + size > p->limit && !forced && (p->used + size > p->limit || !may_swap(p, until)))
        return 0;
    p->fits &= p->used + size <= p->limit;
    at(p, index)->fetch = p->mine->moves;
    p->pinned += size;
    p->last = until > p->last ? until : p->last;
    add_move(p, index, SL_FETCH, i - 1, until, p->now);
    take_out(p->state->away, &p->away, 0);
    return 1;
}

/* Whether the first fetch, or those after it, would be late if it waited for the end of this block. */
static int is_urgent(const offload_pass *p, double need, sl_time block_end) {
    int32_t first = p->state->away[0];
    sl_time before = 0, latest = SL_TIME_NEVER;
    if (p->used + need + size_of(p, first) > p->limit) /* something must move out first */
        before = time_of(p, first);
    for (int k = 0; k < p->away && k < LOOK_AHEAD; k++) {
        int32_t index = p->state->away[k];
        before += time_of(p, index);
        sl_time start = p->state->start[at(p, index)->until] + p->lag - before;
        latest = start < latest ? start : latest;
    }
    return latest < block_end;
}

/* The first move that the block must wait for: after it, the device has room for the block, regardless of the
 * copy engine's progress. */
static int32_t awaited(const offload_pass *p, double need) {
    double used = p->used + need;
    int32_t m = p->mine->moves - 1;
    for (; m > p->settled; m--) {
        const sl_move *move = &p->mine->move[m];
        double size = sl_problem_kept(p->problem, move->stage, move->half);
        used += move->kind == SL_OFFLOAD ? size : -size; /* before that move */
        if (used > p->limit)
            return m;
    }
    return m;
}

/* ---- blocks ---- */

/* The maximum that the ops of a block take, and their net change. */
static void memory_of(const offload_pass *p, int32_t i, int steps, double *need, double *net) {
    *need = *net = 0;
    for (int k = 0; k < steps; k++) {
        double start = sl_problem_start_memory(p->problem, &p->mine->step[i + k].op),
               change = sl_problem_end_memory(p->problem, &p->mine->step[i + k].op);
        *need += start + (change > 0 ? change : 0);
        *net += start + change;
    }
}

static void wait_for(offload_pass *p, int32_t i, int32_t move) {
    if (move <= p->settled)
        return;
    p->mine->awaited[i] = p->settled = move;
    if (p->mine->move[move].kind == SL_OFFLOAD)
        p->mine->move[move].before = i;
    sl_time late = sl_later(p->state->end[move] - p->now, 0);
    p->lag += late;
    p->now += late;
}

static void run_block(offload_pass *p, int32_t i, int steps) {
    double need, net;
    p->now = p->state->start[i] + p->lag;
    memory_of(p, i, steps, &need, &net);
    sl_time length = p->state->start[i + steps] - p->state->start[i];
    while (p->away > 0) {
        int forced = at(p, p->state->away[0])->until < i + steps;
        if ((!forced && !is_urgent(p, need, p->now + length)) || !bring(p, i, need, forced))
            break;
    }
    int32_t block = i + steps - 1, later = p->last > block ? p->last : block;
    while (need > 0 && p->used + need > p->limit && (make_room(p, later) || make_room(p, block)))
        continue;
    p->fits &= need <= 0 || p->used + need <= p->limit;
    for (int k = 0; k < steps; k++) {
        int32_t index = index_of(p, &p->mine->step[i + k].op, 0);
        if (index < 0 || at(p, index)->fetch < 0)
            continue;
        wait_for(p, i, at(p, index)->fetch);
        p->pinned -= size_of(p, index);
    }
    if (need > 0)
        wait_for(p, i, awaited(p, need));
    p->used += net;
}

static void end_block(offload_pass *p, int32_t i, int steps) {
    for (int k = 0; k < steps; k++) {
        const sl_op *op = &p->mine->step[i + k].op;
        int32_t before = index_of(p, op, 0), after = index_of(p, op, 1);
        for (int j = 0; before >= 0 && j < p->held && at(p, p->state->held[j])->until <= i + k; j++)
            if (p->state->held[j] == before) {
                take_out(p->state->held, &p->held, j);
                break;
            }
        if (after >= 0) {
            at(p, after)->begin = p->now + p->state->start[i + steps] - p->state->start[i];
            insert(p, p->state->held, &p->held, after);
        }
    }
}

/* Finds the begin and end of activations, and the start of steps without any waiting. */
static void look_through(const offload_pass *p) {
    sl_time now = 0;
    for (int32_t i = 0; i < p->mine->steps; i++) {
        sl_step *step = &p->mine->step[i];
        int32_t before = index_of(p, &step->op, 0), after = index_of(p, &step->op, 1);
        p->mine->awaited[i] = -1;
        if (after >= 0)
            *at(p, after) = (stay){.from = i, .fetch = -1};
        if (before >= 0)
            at(p, before)->until = i;
        p->state->start[i] = now;
        if (step->op.paired)
            continue;
        int second = i > 0 && step[-1].op.paired;
        now += second ? sl_problem_pair_time(p->problem, step[-1].op.stage, step->op.stage)
                      : sl_problem_op_time(p->problem, &step->op);
    }
    p->state->start[p->mine->steps] = now;
    p->state->coming[p->mine->steps] = 0;
    for (int32_t i = p->mine->steps - 1; i >= 0; i--) {
        int first = i == 0 || !p->mine->step[i - 1].op.paired;
        double need = 0, net;
        if (first)
            memory_of(p, i, p->mine->step[i].op.paired ? 2 : 1, &need, &net);
        p->state->coming[i] = need > p->state->coming[i + 1] ? need : p->state->coming[i + 1];
    }
}

int sl_offload_rank(const sl_problem *problem, sl_program *program, int rank) {
    sl_rank_program *mine = &program->rank[rank];
    offload_pass p = {.problem = problem,
                      .mine = mine,
                      .state = mine->offload,
                      .limit = problem->limit[rank] * (1 + 1e-9),
                      .host_limit = problem->host_limit[rank],
                      .settled = -1,
                      .fits = 1};
    mine->moves = 0;
    look_through(&p);
    for (int32_t i = 0, steps; i < mine->steps; i += steps) {
        steps = mine->step[i].op.paired ? 2 : 1;
        run_block(&p, i, steps);
        end_block(&p, i, steps);
    }
    return p.fits;
}

static sl_status make_state(const sl_problem *p, int rank, sl_rank_program *mine) {
    size_t most = (size_t)mine->lifetimes;
    int32_t rows = 0;
    SL_TRY(sl_alloc(&mine->offload, 1, sizeof *mine->offload));
    struct sl_offload *state = mine->offload;
    SL_TRY(sl_alloc(&mine->move, 4 * most + 1, sizeof *mine->move));
    SL_TRY(sl_alloc(&mine->awaited, (size_t)mine->steps, sizeof *mine->awaited));
    SL_TRY(sl_alloc(&state->row, (size_t)p->stages, sizeof *state->row));
    for (int stage = 0; stage < p->stages; stage++)
        state->row[stage] = sl_problem_rank(p, stage) == rank ? rows++ : 0;
    SL_TRY(sl_alloc(&state->stay, 2 * (size_t)rows * (size_t)p->microbatches, sizeof *state->stay));
    SL_TRY(sl_alloc(&state->start, (size_t)mine->steps + 1, sizeof *state->start));
    SL_TRY(sl_alloc(&state->coming, (size_t)mine->steps + 1, sizeof *state->coming));
    SL_TRY(sl_alloc(&state->end, 4 * most + 1, sizeof *state->end));
    SL_TRY(sl_alloc(&state->held, 2 * most + 1, sizeof *state->held));
    return sl_alloc(&state->away, 2 * most + 1, sizeof *state->away);
}

sl_status sl_offload_make(const sl_problem *problem, sl_program *program) {
    for (int rank = 0; rank < program->ranks && sl_problem_offloads(problem); rank++) {
        SL_TRY(make_state(problem, rank, &program->rank[rank]));
        sl_offload_rank(problem, program, rank);
    }
    return SL_OK;
}

void sl_offload_free(sl_rank_program *mine) {
    struct sl_offload *state = mine->offload;
    SL_FREE(mine->move, mine->awaited);
    mine->move = NULL;
    mine->awaited = NULL;
    if (!state)
        return;
    SL_FREE(state->row, state->stay, state->start, state->end, state->coming, state->held, state->away,
            state);
    mine->offload = NULL;
}
