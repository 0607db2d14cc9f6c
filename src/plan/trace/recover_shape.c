/* Shape: the rank of each process, its stages, and the number of microbatches. */
#include "base/memory.h"
#include "plan/trace/recover_inside.h"

#include <stdlib.h>
#include <string.h>

/* ---- ranks ---- */

typedef struct shape_candidate {
    int process, lowest; /* stage; -1: not in the names */
    int rank, file, number;
} shape_candidate;

static int compare_candidates(const void *a, const void *b) {
    const shape_candidate *x = a, *y = b;
    if (x->lowest != y->lowest)
        return x->lowest < y->lowest ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static int is_op(const sl_traced_op *op) {
    return op->op.kind < SL_OP_KINDS;
}

/* PyTorch's files hold one rank each, even with several processes. */
static int same_rank(const sl_traced *t, int a, int b) {
    const sl_traced_process *x = &t->process[a], *y = &t->process[b];
    return a == b || (x->file == y->file && x->rank >= 0 && x->rank == y->rank && x->replica == y->replica);
}

static sl_status find_candidates(sl_recovery *r, shape_candidate **found, int *count) {
    const sl_traced *t = r->traced;
    shape_candidate *c;
    SL_TRY(sl_alloc(&c, t->processes, sizeof *c));
    *found = c;
    *count = 0;
    for (size_t i = 0; i < t->processes; i++) {
        const sl_traced_process *p = &t->process[i];
        if (p->replica > 0)
            r->result->left_out += p->ops;
        if (p->ops == 0 || p->replica > 0)
            continue;
        int twin = -1;
        for (int k = 0; k < *count && twin < 0; k++)
            twin = same_rank(t, c[k].process, (int)i) ? k : -1;
        r->rank_of_process[i] = twin >= 0 ? twin : *count;
        if (twin < 0 && *count == SL_MAX_RANKS)
            return sl_error(SL_EINVAL, "%s: ops of more than %d ranks", sl_traced_file(t, (int)i),
                            SL_MAX_RANKS);
        if (twin < 0)
            c[(*count)++] = (shape_candidate){(int)i, -1, p->rank, p->file, p->number};
    }
    for (size_t i = 0; i < t->ops; i++) {
        int rank = r->rank_of_process[t->op[i].process], stage = t->op[i].op.stage;
        if (rank >= 0 && is_op(&t->op[i]) && stage >= 0 && (c[rank].lowest < 0 || stage < c[rank].lowest))
            c[rank].lowest = stage;
    }
    return SL_OK;
}

/* The same stage on two of them. */
static sl_status refuse_twice(const sl_traced *t, int stage, int a, int b) {
    const char *first = sl_traced_file(t, a), *second = sl_traced_file(t, b);
    if (strcmp(first, second) == 0 && t->process[a].file != t->process[b].file)
        return sl_error(SL_EINVAL, "%s: is given twice", first);
    return sl_error(
        SL_EINVAL,
        "stage %d runs on two ranks, in %s (process %d) and in %s (process %d): give the traces of "
        "one replica's ranks only",
        stage, first, t->process[a].number, second, t->process[b].number);
}

/* Ranks without stages in their names are in the order of their numbers, which all must have then, or
 * none. */
static sl_status refuse_numbers(const sl_traced *t, const shape_candidate *a, const shape_candidate *b) {
    const char *first = sl_traced_file(t, a->process), *second = sl_traced_file(t, b->process);
    if (a->file == b->file)
        return SL_OK;
    if (strcmp(first, second) == 0)
        return sl_error(SL_EINVAL, "%s: is given twice", first);
    if ((a->rank < 0) != (b->rank < 0))
        return sl_error(SL_EINVAL,
                        "%s: has no rank (distributedInfo.rank), but %s has one, and no name "
                        "has a stage",
                        a->rank < 0 ? first : second, a->rank < 0 ? second : first);
    if (a->rank >= 0 && a->rank == b->rank)
        return sl_error(SL_EINVAL, "%s: is of rank %d, like %s, and no name has a stage", second, a->rank,
                        first);
    return SL_OK;
}

static sl_status refuse_mixture(const sl_traced *t, const shape_candidate *c, int count) {
    for (int i = 1; i < count; i++) {
        if ((c[i].lowest < 0) != (c[0].lowest < 0)) /* those without come first */
            return sl_error(SL_EINVAL, "%s: ops have no stage; those of %s do",
                            sl_traced_file(t, c[0].process), sl_traced_file(t, c[i].process));
        if (c[i].lowest >= 0 && c[i].lowest == c[i - 1].lowest)
            return refuse_twice(t, c[i].lowest, c[i - 1].process, c[i].process);
        if (c[i].lowest < 0)
            SL_TRY(refuse_numbers(t, &c[i - 1], &c[i]));
    }
    return SL_OK;
}

static sl_status find_ranks(sl_recovery *r) {
    shape_candidate *c = NULL;
    int count = 0;
    sl_status status;
    SL_TRY_GOTO(done, status, find_candidates(r, &c, &count));
    qsort(c, (size_t)count, sizeof *c, compare_candidates);
    SL_TRY_GOTO(done, status, refuse_mixture(r->traced, c, count));
    SL_TRY_GOTO(done, status, sl_alloc(&r->result->process, (size_t)count, sizeof(int)));
    for (size_t i = 0; i < r->traced->processes; i++)
        r->rank_of_process[i] = -1;
    for (int rank = 0; rank < count; rank++) {
        r->result->process[rank] = c[rank].process;
        for (size_t i = 0; i < r->traced->processes; i++)
            if (same_rank(r->traced, c[rank].process, (int)i))
                r->rank_of_process[i] = rank;
    }
done:
    r->ranks = count;
    sl_free(c);
    return status;
}

/* ---- ops of the ranks ---- */

static int compare_ops(const void *a, const void *b) {
    const sl_rank_op *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank - y->rank;
    if (x->of.start != y->of.start)
        return x->of.start < y->of.start ? -1 : 1;
    if (x->of.end != y->of.end)
        return x->of.end > y->of.end ? -1 : 1;
    return x->of.op.kind - y->of.op.kind;
}

/* Two labels of exactly the same time, F of one op and B of another: a pair. */
static int are_pair(const sl_traced_op *f, const sl_traced_op *b) {
    return f->op.kind == SL_F && b->op.kind == SL_B && f->start == b->start && f->end == b->end &&
           f->end > f->start &&
           (f->op.stage != b->op.stage || f->op.microbatch != b->op.microbatch || f->op.stage < 0);
}

/* Labels inside labels repeat the same op. */
static int is_inside(const sl_rank_op *inner, const sl_rank_op *outer) {
    return inner->rank == outer->rank && inner->of.start < outer->of.end && inner->of.end <= outer->of.end &&
           !are_pair(&outer->of, &inner->of);
}

static sl_status collect_ops(sl_recovery *r) {
    const sl_traced *t = r->traced;
    SL_TRY(sl_alloc(&r->op, t->ops, sizeof *r->op));
    for (size_t i = 0; i < t->ops; i++)
        if (is_op(&t->op[i]) && r->rank_of_process[t->op[i].process] >= 0)
            r->op[r->ops++] = (sl_rank_op){.rank = r->rank_of_process[t->op[i].process], .of = t->op[i]};
    qsort(r->op, r->ops, sizeof *r->op, compare_ops);
    size_t kept = 0;
    for (size_t i = 0; i < r->ops; i++) {
        sl_rank_op *op = &r->op[i], *last = kept ? &r->op[kept - 1] : NULL;
        if (last && is_inside(op, last))
            continue;
        if (last && last->rank == op->rank && are_pair(&last->of, &op->of))
            last->of.op.paired = 1;
        r->op[kept++] = *op;
        if (op->of.op.stage < 0)
            r->op[kept - 1].of.op.stage = op->rank;
    }
    r->ops = kept;
    return SL_OK;
}

/* ---- microbatches that names do not number ---- */

/* An iteration ends when all forwards of the first rank have come back: its pipeline is empty. */
static sl_status count_microbatches(const sl_recovery *r, int *count) {
    int forwards = 0, open = 0;
    *count = r->options->microbatches;
    for (size_t i = 0; *count == 0 && i < r->ops && r->op[i].rank == 0; i++) {
        int kind = r->op[i].of.op.kind;
        forwards += kind == SL_F;
        open += (kind == SL_F) - (kind == SL_B || kind == SL_I);
        if (forwards > 0 && open == 0)
            *count = forwards;
    }
    if (*count == 0)
        return sl_error(SL_EINVAL,
                        "%s: names do not number the microbatches, and on the first rank %d forwards have no "
                        "backward: give the microbatches per iteration with --microbatches N",
                        sl_traced_file(r->traced, r->result->process[0]), open);
    return SL_OK;
}

static sl_status number_microbatches(sl_recovery *r) {
    int *next = NULL, count = 0, numbered = 0, without = 0; /* next[kind] on the current rank and stage */
    int lacking = 0;                                        /* a process whose ops have no number */
    for (size_t i = 0; i < r->ops; i++) {
        numbered |= r->op[i].of.op.microbatch >= 0;
        without |= r->op[i].of.op.microbatch < 0;
        lacking = r->op[i].of.op.microbatch < 0 ? r->op[i].of.process : lacking;
    }
    if (!without)
        return SL_OK;
    if (numbered)
        return sl_error(SL_EINVAL, "%s: ops have no microbatch, but others do",
                        sl_traced_file(r->traced, lacking));
    SL_TRY(count_microbatches(r, &count));
    int most = 0;
    for (size_t i = 0; i < r->ops; i++)
        most = r->op[i].of.op.stage > most ? r->op[i].of.op.stage : most;
    if (most >= SL_MAX_STAGES)
        return sl_error(SL_EINVAL, "stage %d; at most %d stages", most, SL_MAX_STAGES);
    SL_TRY(sl_alloc(&next, (size_t)(most + 1) * SL_OP_KINDS, sizeof *next));
    for (size_t i = 0; i < r->ops; i++) {
        sl_op *op = &r->op[i].of.op;
        int begins = i == 0 || r->op[i].rank != r->op[i - 1].rank || r->op[i].of.mark != r->op[i - 1].of.mark;
        if (begins)
            memset(next, 0, (size_t)(most + 1) * SL_OP_KINDS * sizeof *next);
        int *n = &next[op->stage * SL_OP_KINDS + op->kind];
        op->microbatch = (*n)++ % count;
    }
    sl_free(next);
    return SL_OK;
}

/* ---- stages ---- */

static sl_status count_shape(sl_recovery *r) {
    const sl_traced *t = r->traced;
    char sources[SL_SOURCES];
    int of_stage = 0, of_microbatch = 0; /* processes with the highest numbers */
    for (size_t i = 0; i < r->ops; i++) {
        const sl_op *op = &r->op[i].of.op;
        of_stage = op->stage >= r->stages ? r->op[i].of.process : of_stage;
        of_microbatch = op->microbatch >= r->microbatches ? r->op[i].of.process : of_microbatch;
        r->stages = op->stage >= r->stages ? op->stage + 1 : r->stages;
        r->microbatches = op->microbatch >= r->microbatches ? op->microbatch + 1 : r->microbatches;
    }
    if (r->stages > SL_MAX_STAGES || r->microbatches > SL_MAX_MICROBATCHES ||
        (double)r->stages * r->microbatches * 3 > SL_MAX_OPS)
        return sl_error(SL_EINVAL, "%s: %d stages and %d microbatches: more than a problem may have",
                        sl_traced_file(t, r->microbatches > SL_MAX_MICROBATCHES ? of_microbatch : of_stage),
                        r->stages, r->microbatches);
    SL_TRY(sl_alloc(&r->rank_of_stage, (size_t)r->stages, sizeof(int)));
    for (int stage = 0; stage < r->stages; stage++)
        r->rank_of_stage[stage] = -1;
    for (size_t i = 0; i < r->ops; i++) {
        int *rank = &r->rank_of_stage[r->op[i].of.op.stage];
        if (*rank >= 0 && *rank != r->op[i].rank)
            return refuse_twice(t, r->op[i].of.op.stage, r->result->process[*rank], r->op[i].of.process);
        *rank = r->op[i].rank;
    }
    for (int stage = 0; stage < r->stages; stage++)
        if (r->rank_of_stage[stage] < 0)
            return sl_error(
                SL_EINVAL,
                "%s: no op of stage %d was traced, of %d stages on %d ranks: is the trace of a rank "
                "missing?",
                sl_traced_sources(t, sources), stage, r->stages, r->ranks);
    return SL_OK;
}

/* With two pipelines, every stage runs half of the microbatches. */
static int runs_everything(const sl_recovery *r) {
    for (size_t i = 0; i < r->ops; i++)
        if (r->op[i].of.op.stage == 0 && r->op[i].of.op.microbatch == 1)
            return 1;
    return r->microbatches < 2;
}

static int fits(const sl_recovery *r, sl_placement placement) {
    sl_problem p = {.ranks = r->ranks, .stages = r->stages, .placement = placement};
    if (placement == SL_LINEAR && r->stages != r->ranks)
        return 0;
    if (placement == SL_BIDIRECTIONAL && (r->stages != 2 * r->ranks || runs_everything(r)))
        return 0;
    if (r->stages % r->ranks != 0)
        return 0;
    for (int stage = 0; stage < r->stages; stage++)
        if (sl_problem_rank(&p, stage) != r->rank_of_stage[stage])
            return 0;
    return 1;
}

static sl_status find_placement(sl_recovery *r, sl_placement *placement) {
    static const sl_placement tried[] = {SL_LINEAR, SL_BIDIRECTIONAL, SL_LOOP, SL_WAVE};
    for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++)
        if (fits(r, tried[i])) {
            *placement = tried[i];
            return SL_OK;
        }
    char sources[SL_SOURCES];
    return sl_error(SL_EINVAL,
                    "%s: %d stages on %d ranks, stage %d on rank %d: that matches none of the placements "
                    "linear, loop, wave or "
                    "bidirectional",
                    sl_traced_sources(r->traced, sources), r->stages, r->ranks, r->stages - 1,
                    r->rank_of_stage[r->stages - 1]);
}

/* A message from or to a stage without a neighbor there: the neighbor was not traced. Only for labels with a
 * stage, because Megatron's first and last ranks call the message functions, too. */
static sl_status check_ends(const sl_recovery *r) {
    const sl_problem *p = &r->result->problem;
    for (size_t i = 0; i < r->traced->messages; i++) {
        const sl_traced_message *m = &r->traced->message[i];
        const int stage = m->op.stage, forward = (m->op.kind == SL_F) != m->receive;
        if (r->rank_of_process[m->process] < 0 || m->whole || stage < 0 || stage >= r->stages)
            continue;
        if ((forward ? sl_problem_next(p, stage) : sl_problem_previous(p, stage)) < 0)
            return sl_error(
                SL_EINVAL,
                "%s: stage %d %s a rank %s it, of which nothing was traced: is the trace of a rank "
                "missing?",
                sl_traced_file(r->traced, m->process), stage, m->receive ? "receives from" : "sends to",
                forward ? "after" : "before");
    }
    return SL_OK;
}

sl_status sl_recover_shape(sl_recovery *r) {
    sl_placement placement = SL_LINEAR;
    SL_TRY(find_ranks(r));
    SL_TRY(collect_ops(r));
    SL_TRY(number_microbatches(r));
    SL_TRY(count_shape(r));
    SL_TRY(find_placement(r, &placement));
    SL_TRY(sl_problem_make(r->ranks, r->stages, r->microbatches, &r->result->problem));
    r->result->problem.placement = placement;
    return check_ends(r);
}
