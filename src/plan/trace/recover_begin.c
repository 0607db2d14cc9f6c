/* The begin of iterations in traces without marks: a trace that begins in the middle of an iteration has its
 * rest at its head, and another rank's may begin an iteration earlier or later. */
#include "base/memory.h"
#include "plan/trace/recover_inside.h"

#include <stdlib.h>

/* ---- the head of a rank ---- */

static int is_before(const sl_op *a, const sl_op *b) {
    return a->stage != b->stage ? a->stage < b->stage : a->microbatch < b->microbatch;
}

static int is_same(const sl_op *a, const sl_op *b) {
    return a->kind == b->kind && a->stage == b->stage && a->microbatch == b->microbatch;
}

/* A rank's first op: F of its lowest stage and microbatch, on which all its others depend (except in two
 * pipelines of opposite directions). */
static const sl_op *find_first(const sl_recovery *r, size_t first, size_t end) {
    const sl_op *found = NULL;
    for (size_t i = first; i < end; i++) {
        const sl_op *op = &r->op[i].of.op;
        if (op->kind == SL_F && (!found || is_before(op, found)))
            found = op;
    }
    return found;
}

static size_t next_same(const sl_recovery *r, size_t from, size_t end, const sl_op *op) {
    while (from < end && !is_same(&r->op[from].of.op, op))
        from++;
    return from;
}

static int32_t *cell_of(const sl_recovery *r, const sl_op *op, int32_t *cells) {
    return &cells[((size_t)op->kind * (size_t)r->stages + (size_t)op->stage) * (size_t)r->microbatches +
                  (size_t)op->microbatch];
}

/* Whether every forward of these ops has its backward among them, as at the end of an iteration; `cells`
 * marks the ops. */
static int is_drained(const sl_recovery *r, size_t first, size_t end, int32_t *cells) {
    for (size_t i = first; i < end; i++) {
        sl_op op = r->op[i].of.op;
        if (op.kind != SL_F)
            continue;
        op.kind = SL_B;
        const int full = *cell_of(r, &op, cells);
        op.kind = SL_I;
        if (!full && !*cell_of(r, &op, cells))
            return 0;
    }
    return 1;
}

/* The ops before that first op are a rest if their forwards have come back and it comes again; else they
 * belong to another pipeline, which began before. */
size_t sl_recover_head(const sl_recovery *r, size_t first, size_t end, int32_t *cells) {
    const sl_op *begin = find_first(r, first, end);
    const size_t once = begin ? next_same(r, first, end, begin) : first;
    const size_t twice = begin ? next_same(r, once + 1, end, begin) : first;
    int comes_again = 0;
    for (size_t i = first; i < once; i++)
        *cell_of(r, &r->op[i].of.op, cells) = 1;
    for (size_t i = once; i < twice && i < end; i++)
        comes_again |= *cell_of(r, &r->op[i].of.op, cells);
    const int is_rest = comes_again && is_drained(r, first, once, cells);
    for (size_t i = first; i < once; i++)
        *cell_of(r, &r->op[i].of.op, cells) = 0;
    return is_rest ? once - first : 0;
}

/* ---- ranks compared ---- */

typedef struct stretch {
    sl_time start, end;
} stretch;

typedef struct stretches {
    stretch *of;   /* of all ranks, one after the other */
    size_t *begin; /* [ranks] index of a rank's first */
    int *count;    /* [ranks] */
} stretches;

static void stretches_free(stretches *all) {
    SL_FREE(all->of, all->begin, all->count);
}

static sl_status find_stretches(const sl_recovery *r, stretches *all) {
    size_t used = 0;
    SL_TRY(sl_alloc(&all->of, r->ops, sizeof *all->of));
    SL_TRY(sl_alloc(&all->begin, (size_t)r->ranks, sizeof *all->begin));
    SL_TRY(sl_alloc(&all->count, (size_t)r->ranks, sizeof *all->count));
    for (size_t i = 0; i < r->ops; i++) { /* by rank, then iteration, without gaps */
        const sl_rank_op *op = &r->op[i];
        if (op->iteration >= all->count[op->rank]) {
            if (all->count[op->rank]++ == 0)
                all->begin[op->rank] = used;
            all->of[used++] = (stretch){op->of.start, op->of.end};
        }
        all->of[used - 1].end = op->of.end > all->of[used - 1].end ? op->of.end : all->of[used - 1].end;
    }
    return SL_OK;
}

/* The time during which iterations of a rank and of rank 0 overlap, with those of the rank shifted by
 * `shift`. */
static double common_time(const stretches *all, int rank, int shift) {
    double common = 0;
    for (int i = shift < 0 ? -shift : 0; i < all->count[rank] && i + shift < all->count[0]; i++) {
        const stretch *a = &all->of[all->begin[0] + (size_t)(i + shift)],
                      *b = &all->of[all->begin[rank] + (size_t)i];
        const sl_time start = a->start > b->start ? a->start : b->start;
        const sl_time end = a->end < b->end ? a->end : b->end;
        common += end > start ? (double)(end - start) : 0;
    }
    return common;
}

enum { FURTHEST = 64, FURTHEST_OF_ALL = 1000 }; /* largest shift tried, beyond the difference in number */

static int best_shift(const stretches *all, int rank) {
    const int differ = abs(all->count[0] - all->count[rank]) + FURTHEST;
    const int most = differ < FURTHEST_OF_ALL ? differ : FURTHEST_OF_ALL;
    double best = common_time(all, rank, 0);
    int shift = 0;
    for (int by = 1; by <= most; by++)
        for (int sign = -1; sign <= 1; sign += 2) {
            const double common = common_time(all, rank, sign * by);
            if (common > best) {
                best = common;
                shift = sign * by;
            }
        }
    return shift;
}

/* Ranks with unknown clocks and equally many iterations are not changed. */
static int may_differ(const sl_recovery *r, const stretches *all) {
    if (r->options->shared_clock || sl_recover_share_a_clock(r))
        return 1;
    for (int rank = 1; rank < r->ranks; rank++)
        if (all->count[rank] != all->count[0])
            return 1;
    return 0;
}

static void shift_all(sl_recovery *r, const stretches *all, int *shift, int *most) {
    int least = 0;
    for (int rank = 1; rank < r->ranks; rank++) {
        shift[rank] = best_shift(all, rank);
        least = shift[rank] < least ? shift[rank] : least;
    }
    *most = 0;
    for (size_t i = 0; i < r->ops; i++) {
        r->op[i].iteration += shift[r->op[i].rank] - least;
        *most = r->op[i].iteration >= *most ? r->op[i].iteration + 1 : *most;
    }
}

sl_status sl_recover_meet(sl_recovery *r, int *most) {
    stretches all = {0};
    int *shift = NULL;
    sl_status status = find_stretches(r, &all);
    SL_THEN(status, sl_alloc(&shift, (size_t)r->ranks, sizeof *shift));
    if (status == SL_OK && may_differ(r, &all))
        shift_all(r, &all, shift, most);
    stretches_free(&all);
    sl_free(shift);
    return status;
}
