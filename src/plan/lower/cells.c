#include "plan/lower/cells.h"
#include "base/memory.h"

/* Stages of a rank whose weights are gathered at the same time, as in PyTorch: one forward, one backward, one
 * being fetched. */
#define MAX_ACTIVE 3

static sl_status add(sl_cell_row *r, sl_cell_kind kind, int32_t at) {
    SL_TRY(sl_grow(&r->cell, &r->capacity, r->cells + 1, sizeof *r->cell));
    r->cell[r->cells++] = (sl_cell){.kind = (int32_t)kind, .at = at};
    return SL_OK;
}

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
static sl_status shard(sharding *s, int i, sl_cell_row *r) {
    int32_t next[MAX_ACTIVE + 1];
    int found = next_stages(s, i, next), stay = 0;
    for (int n = 0; n < found; n++)
        stay += s->active[next[n]];
    for (int32_t stage = 0; stage < s->stages && s->actives > stay; stage++)
        if (s->active[stage] && !s->wanted[stage]) {
            s->active[stage] = 0;
            s->actives--;
            SL_TRY(add(r, SL_CELL_RESHARD, stage));
        }
    for (int n = 0; n < found; n++) {
        s->wanted[next[n]] = 0;
        if (s->active[next[n]])
            continue;
        s->active[next[n]] = 1;
        s->actives++;
        SL_TRY(add(r, SL_CELL_UNSHARD, next[n]));
    }
    return SL_OK;
}

static void pass(sharding *s, const sl_op *op) {
    s->sums[op->stage] -= op->kind == SL_W || op->kind == SL_B;
    s->to_come -= --s->left[op->stage] == 0;
}

static sl_status reduce(const sharding *s, const sl_op *op, sl_cell_row *r) {
    return (op->kind == SL_W || op->kind == SL_B) && s->sums[op->stage] == 0
               ? add(r, SL_CELL_REDUCE_GRAD, op->stage)
               : SL_OK;
}

static sl_status fill_row(sharding *s, sl_cell_row *r) {
    const sl_step *step = s->rank->step;
    for (int32_t i = 0; i < s->rank->steps; i += 1 + step[i].op.paired) {
        int last = i + step[i].op.paired;
        SL_TRY(shard(s, i, r));
        SL_TRY(add(r, SL_CELL_STEP, i));
        for (int j = i; j <= last; j++)
            pass(s, &step[j].op);
        for (int j = i; j <= last; j++)
            SL_TRY(reduce(s, &step[j].op, r));
    }
    for (int32_t stage = 0; stage < s->stages; stage++)
        if (s->active[stage])
            SL_TRY(add(r, SL_CELL_RESHARD, stage));
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

sl_status sl_row_make(int stages, const sl_rank_program *rank, sl_cell_row *r) {
    sharding s = {.rank = rank, .stages = stages};
    r->cells = 0;
    sl_status status = prepare(&s);
    SL_THEN(status, fill_row(&s, r));
    SL_FREE(s.left, s.sums, s.active, s.wanted, s.change);
    return status;
}
