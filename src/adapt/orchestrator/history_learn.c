/* Learns what is healthy: from rows in which nothing was slow, again after load has changed, and lower if
 * something was slow from the beginning. */
#include "adapt/orchestrator/history_inside.h"
#include "base/memory.h"
#include "base/numbers.h"

#include <string.h>

#define USUAL 0.85 /* share of the healthy rows below the usual time */
#define DRIFT 1.05 /* healthy ops take at most this many times their first time */
#define FALLEN 0.8 /* of what was taken for healthy: then something was slow when it was learned */
#define FALLEN_MIN (0.3 * SL_MS)
#define FAR_OFF 0.1      /* of the median, in addition to the spread of rows */
#define ALIKE 4.0        /* standard errors by which the work of two replicas may differ */
#define WORK_VARIES 1e-4 /* minimum relative variance of work that shows how time follows it */

/* ---- norms ---- */

/* Sums for a line through the levels of several rows, which may be lines of ops themselves. */
typedef struct fitted_line {
    double count, work, time, span, slope;
} fitted_line;

static void line_add(fitted_line *l, double count, double work, double time, double span, double slope) {
    double whole = l->count + count, apart = work - l->work, later = time - l->time;
    if (!(count > 0))
        return;
    l->span += span + apart * apart * l->count * count / whole;
    l->slope += slope + apart * later * l->count * count / whole;
    l->work += apart * count / whole;
    l->time += later * count / whole;
    l->count = whole;
}

/* Slope, not steeper than in proportion to work and not falling; -1: work hardly varied. */
static double line_slope(const fitted_line *l) {
    if (!(l->work > 0) || l->span / l->count < WORK_VARIES * l->work * l->work)
        return -1;
    return sl_history_clamp(l->slope / l->span, 0, l->time / l->work);
}

/* From values[count] for usual work. */
static void settle(sl_usual *n, double *values, int count, const sl_usual *before) {
    n->rows = count;
    n->time = sl_history_median(values, count);
    n->usual = values[(int)(USUAL * (count - 1))];
    for (int i = 0; i < count; i++)
        values[i] = fabs(values[i] - n->time);
    n->spread = 1.4826 * sl_history_median(values, count);
    n->first = before->first > 0 ? before->first : n->time;
    n->first_work = before->first > 0 ? before->first_work : n->work;
}

static const sl_level *sum_at(const sl_row *row, int replica, int at, sl_level *room) {
    const sl_measured *m = row->replica[replica];
    *room = (sl_level){.count = 1, .time = m ? (double)m->problem.reduce[at] : 0};
    return m && m->summed[at] ? room : NULL;
}

static const sl_level *time_at(const sl_row *row, int replica, int at, sl_level *room) {
    (void)replica, (void)at;
    *room = (sl_level){.count = 1, .worked = row->work > 0, .time = (double)row->time, .work = row->work};
    return row->time > 0 ? room : NULL;
}

static double leverage(const sl_level *v, double work) {
    return v->span + v->worked * (v->work - work) * (v->work - work);
}

/* No row weighs more in the fit of time to work than three usual ones: a very long microbatch takes longer
 * than a line predicts. INFINITY: work hardly varies in most rows. */
static double max_leverage(sl_history *s, const int *rows, int count, int replica, int at,
                           sl_history_level level, double *work) {
    int found = 0;
    double value[SL_ROWS];
    sl_level room;
    for (int pass = 0; pass < 2; pass++) {
        found = 0;
        for (int i = 0; i < count; i++) {
            const sl_level *v = level(sl_history_row(s, rows[i]), replica, at, &room);
            if (v && v->worked)
                value[found++] = pass ? leverage(v, *work) / v->worked : v->work;
        }
        *work = pass ? *work : sl_history_median(value, found);
    }
    double usual = sl_history_median(value, found);
    return usual > WORK_VARIES * *work * *work ? 3 * usual : INFINITY;
}

/* The line through rows, except those whose `value`, for usual work, is far from the median: time lost to a
 * fault or an interruption does not measure work. NULL: through all. */
static fitted_line fit(sl_history *s, const int *rows, int count, int replica, int at, sl_history_level level,
                       const double *value) {
    fitted_line l = {0};
    int found = 0;
    double middle = 0, off = INFINITY, sorted[SL_ROWS], work = 0;
    double most = max_leverage(s, rows, count, replica, at, level, &work);
    sl_level room;
    for (int i = 0; i < count && value; i++)
        found += level(sl_history_row(s, rows[i]), replica, at, &room) != NULL;
    if (value) {
        memcpy(sorted, value, (size_t)found * sizeof *sorted);
        middle = sl_history_median(sorted, found);
        for (int i = 0; i < found; i++)
            sorted[i] = fabs(value[i] - middle);
        off = FAR_OFF * middle + 5 * 1.4826 * sl_history_median(sorted, found);
    }
    found = 0;
    for (int i = 0; i < count; i++) {
        const sl_level *v = level(sl_history_row(s, rows[i]), replica, at, &room);
        if (!v || (value && fabs(value[found++] - middle) > off))
            continue;
        if (!v->worked)
            continue;
        double share = fmin(1, most * v->worked / fmax(leverage(v, work), 1e-9));
        line_add(&l, share * v->worked, v->work, v->time, share * v->span, share * v->slope);
    }
    return l;
}

/* The work that all times refer to: the first one, and the same for all replicas unless theirs differs by
 * more than chance explains. */
static double reference_work(const fitted_line *l, const sl_usual *before, const sl_usual *like) {
    if (before->first_work > 0)
        return before->first_work;
    double apart = like ? like->first_work - l->work : 0, variance = 2 * l->span / (l->count * l->count);
    return like && like->first_work > 0 && apart * apart < ALIKE * ALIKE * variance ? like->first_work
                                                                                    : l->work;
}

/* `like`: the same of another replica; may be NULL. */
static void learn_norm(sl_history *s, const int *rows, int count, int replica, int at, sl_history_level level,
                       const sl_usual *like, sl_usual *n) {
    int found = 0, worked = 0;
    sl_level room;
    const sl_usual before = *n;
    double *value = s->room, *work = s->room + SL_ROWS, plain[SL_ROWS];
    for (int i = 0; i < count; i++) {
        const sl_level *v = level(sl_history_row(s, rows[i]), replica, at, &room);
        if (!v)
            continue;
        value[found] = v->time;
        work[found++] = v->work;
        worked += v->work > 0;
    }
    if (found < SL_ROWS_HEALTHY_MIN && found < before.rows) /* healthy rows expire while something is slow */
        return;
    *n = (sl_usual){.slope = -1, .first = before.first, .first_work = before.first_work};
    if (!found)
        return;
    for (int pass = 0; pass < 2 && worked == found; pass++) {
        fitted_line l = fit(s, rows, count, replica, at, level, pass ? plain : NULL);
        sl_usual reference = {.time = l.time, .work = l.work, .slope = line_slope(&l)};
        if (reference.slope < 0 && before.slope > 0) /* work varied before */
            reference.slope = before.slope;
        if (reference.slope >= 0) {
            reference.work = reference_work(&l, &before, like);
            reference.time += reference.slope * (reference.work - l.work);
        }
        n->work = reference.work;
        n->slope = reference.slope;
        for (int i = 0; i < found; i++)
            plain[i] = sl_usual_time(&reference, value[i], work[i]);
    }
    settle(n, worked == found ? plain : value, found, &before);
}

/* ---- learning ---- */

static void forget_common(sl_history *s, int replica) {
    for (int i = 0; i < SL_ROWS; i++)
        s->row[i].common[replica] = 0;
}

void sl_history_clear(sl_history *s, int replica, int as) {
    sl_baseline_clear(&s->healthy[replica]);
    s->healthy[replica].as = as;
}

sl_status sl_baseline_make_room(const sl_problem *shape, sl_baseline *b) {
    size_t stages = (size_t)shape->stages, ranks = (size_t)shape->ranks;
    SL_TRY(sl_alloc(&b->op, SL_OP_KINDS * stages, sizeof *b->op));
    SL_TRY(sl_alloc(&b->link, ranks * ranks, sizeof *b->link));
    return sl_alloc(&b->sum, stages, sizeof *b->sum);
}

static sl_status make_room(const sl_measured *shape, sl_baseline *b) {
    sl_baseline made = {.as = b->as};
    if (b->op)
        return SL_OK;
    sl_status status = sl_baseline_make_room(&shape->problem, &made);
    SL_THEN(status, sl_problem_copy(&shape->problem, &made.problem));
    sl_baseline_clear(status == SL_OK ? b : &made);
    if (status == SL_OK)
        *b = made;
    return status;
}

/* Its first time, for the work that is usual now. */
static double first_time(const sl_usual *n) {
    if (!(n->work > 0) || !(n->first_work > 0))
        return n->first;
    double more = n->work - n->first_work;
    return n->slope >= 0 ? n->first + n->slope * more : n->first * fmax(1, n->work / n->first_work);
}

/* Gradual slowing is slowness too. */
static void limit_drift(sl_baseline *b, int replica_rows) {
    for (int kind = 0; kind < SL_OP_KINDS && replica_rows; kind++)
        for (int stage = 0; stage < b->problem.stages; stage++) {
            sl_usual *n = &b->op[kind * b->problem.stages + stage];
            double most = DRIFT * first_time(n);
            if (!(n->time > most) || !(n->first > 0))
                continue;
            b->problem.time[kind][stage] = (sl_time)((double)b->problem.time[kind][stage] * most / n->time);
            n->usual *= most / n->time;
            n->time = most;
        }
}

static sl_status learn_replica(sl_history *s, const int *rows, int count, int replica, int as_before) {
    sl_baseline *b = &s->healthy[replica];
    if (as_before) {
        sl_baseline_clear(b);
        b->as = s->healthy[replica - 1].as;
        return SL_OK;
    }
    b->as = replica;
    sl_measured *same = sl_history_same(s, rows, count, replica), *shape = NULL;
    if (same) {
        sl_measured_keep(same);
        sl_baseline_clear(b);
        b->same = same;
        return SL_OK;
    }
    for (int i = 0; i < count && !shape; i++)
        shape = sl_history_row(s, rows[i])->replica[replica];
    if (!shape)
        return SL_OK;
    SL_TRY(make_room(shape, b));
    int stages = shape->problem.stages, ranks = shape->problem.ranks;
    sl_history_medians(s, rows, count, replica, &b->problem);
    const sl_baseline *like = &s->healthy[0];
    like = replica > 0 && like->op && like->problem.stages == stages ? like : NULL;
    for (int at = 0; at < SL_OP_KINDS * stages; at++)
        learn_norm(s, rows, count, replica, at, sl_history_op_at, like ? &like->op[at] : NULL, &b->op[at]);
    for (int at = 0; at < ranks * ranks; at++)
        learn_norm(s, rows, count, replica, at, sl_history_link_at, like ? &like->link[at] : NULL,
                   &b->link[at]);
    for (int at = 0; at < stages; at++)
        learn_norm(s, rows, count, replica, at, sum_at, NULL, &b->sum[at]);
    sl_history_usual_work(s, rows, count, replica, &b->problem);
    limit_drift(b, count);
    return SL_OK;
}

sl_status sl_history_learn(sl_history *s) {
    int rows[SL_ROWS], count = sl_history_collect(s, 0, s->rows, SL_HEALTHY_ROWS, 1, rows);
    if (count < s->hold || count == 0)
        return SL_OK;
    s->settled |= count > 2 * s->hold;
    for (int r = 0; r < s->replicas && !s->settled; r++) /* it is relative to too few rows */
        forget_common(s, r);
    int cold = rows[0] == 0 && count > s->hold; /* the very first iteration is not representative */
    learn_norm(s, rows + cold, count - cold, 0, 0, time_at, NULL, &s->iteration);
    int distinct[SL_ROWS], versions = sl_history_distinct(s, rows + cold, count - cold, distinct);
    for (int r = 0; r < s->replicas; r++)
        SL_TRY(learn_replica(s, rows + cold, count - cold, r,
                             r > 0 && sl_history_alike(s, distinct, versions, r, r - 1)));
    s->learnt = 1;
    s->learns++;
    return SL_OK;
}

sl_status sl_history_assume(sl_history *s, const sl_problem *const *healthy) {
    for (int r = 0; r < s->replicas; r++) {
        sl_baseline *b = &s->healthy[r];
        sl_baseline_clear(b);
        b->as = r > 0 && healthy[r] == healthy[r - 1] ? s->healthy[r - 1].as : r;
        if (b->as == r)
            SL_TRY(sl_measured_of_problem(healthy[r], &b->same));
    }
    s->learnt = s->assumed = 1;
    return SL_OK;
}

/* ---- other load ---- */

/* Over the given rows, if known in at least three; 0: it is not. */
static double common_of(sl_history *s, const int *rows, int count, int replica, double *most) {
    int found = 0;
    *most = 0;
    for (int i = 0; i < count; i++) {
        double common = sl_history_row(s, rows[i])->common[replica];
        if (common > 0)
            s->room[found++] = common;
        *most = fmax(*most, common);
    }
    return found < SL_ROWS_HEALTHY_MIN || !s->settled ? 0 : sl_median_of_numbers(s->room, found);
}

/* The healthy time has grown by this factor: common slowdowns are relative to it. */
static void divide_common(sl_history *s, int replica, double share) {
    for (int i = 0; i < SL_ROWS && share > 0; i++)
        s->row[i].common[replica] /= share;
}

static sl_usual slope_alone(const sl_usual *n) {
    return (sl_usual){.slope = n->rows ? n->slope : -1};
}

/* Keeps only how time follows work. */
static void forget_replica(sl_baseline *b) {
    if (!b->op)
        sl_baseline_clear(b);
    for (int at = 0; b->op && at < SL_OP_KINDS * b->problem.stages; at++)
        b->op[at] = slope_alone(&b->op[at]);
    for (int at = 0; b->op && at < b->problem.ranks * b->problem.ranks; at++)
        b->link[at] = slope_alone(&b->link[at]);
    for (int at = 0; b->op && at < b->problem.stages; at++)
        b->sum[at] = slope_alone(&b->sum[at]);
}

sl_status sl_history_renew(sl_history *s, int keep) {
    int rows[SL_ROWS], count = sl_history_unnamed(s, keep, rows);
    double most;
    if (count < s->hold)
        return SL_OK;
    for (int i = 0; i < count; i++)
        sl_history_row(s, rows[i])->slow = 0;
    SL_TRY(sl_history_learn(s)); /* old and new rows together show how time follows work */
    s->learnt = 0;
    s->renewed = 1;
    s->loads.since = s->rows - keep;
    for (int i = sl_history_oldest(s); i < s->rows; i++)
        s->row[i % SL_ROWS].slow = i < s->rows - keep || s->row[i % SL_ROWS].named;
    for (int r = 0; r < s->replicas; r++) {
        divide_common(s, r, common_of(s, rows, count, r, &most));
        forget_replica(&s->healthy[r]);
        s->healthy[r].as = r;
    }
    s->iteration = slope_alone(&s->iteration);
    return sl_history_learn(s);
}

/* ---- slow from the beginning ---- */

/* The recent time, if it is well below what was taken for healthy; 0: it is not. */
static double fallen_to(sl_history *s, const int *rows, int count, int replica, int at,
                        sl_history_level level, double least, const sl_usual *n) {
    sl_level room;
    int found = 0;
    for (int i = 0; i < count; i++) {
        const sl_level *v = level(sl_history_row(s, rows[i]), replica, at, &room);
        if (!v)
            continue;
        double time = sl_usual_time(n, v->time, v->work);
        if (time > FALLEN * n->time || n->time - time < least)
            return 0;
        s->room[found++] = time;
    }
    return found >= SL_ROWS_HEALTHY_MIN ? sl_history_median(s->room, found) : 0;
}

static double lower(sl_usual *n, double time) {
    double share = n->time > 0 ? time / n->time : 1;
    n->time = time;
    n->usual *= share;
    n->spread *= share;
    n->first *= share;
    n->slope *= n->slope > 0 ? share : 1;
    return share;
}

/* A decrease that all share was the end of load. */
static int lower_common(sl_history *s, const int *rows, int count, int replica) {
    sl_baseline *b = &s->healthy[replica];
    double most, share = common_of(s, rows, count, replica, &most);
    if (!(share > 0) || most > FALLEN)
        return 0;
    for (int at = 0, stages = b->problem.stages; at < SL_OP_KINDS * stages; at++)
        sl_time_scale(&b->problem.time[at / stages][at % stages], lower(&b->op[at], share * b->op[at].time));
    divide_common(s, replica, share);
    return 1;
}

static int lower_replica(sl_history *s, const int *rows, int count, int replica, double clocks) {
    sl_baseline *b = &s->healthy[replica];
    int lowered = lower_common(s, rows, count, replica), stages = b->problem.stages, ranks = b->problem.ranks;
    double now;
    for (int at = 0; at < SL_OP_KINDS * stages; at++)
        if ((now = fallen_to(s, rows, count, replica, at, sl_history_op_at, FALLEN_MIN, &b->op[at])) > 0) {
            sl_time_scale(&b->problem.time[at / stages][at % stages], lower(&b->op[at], now));
            lowered = 1;
        }
    for (int at = 0; at < ranks * ranks; at++)
        if ((now = fallen_to(s, rows, count, replica, at, sl_history_link_at, FALLEN_MIN + clocks,
                             &b->link[at])) > 0) {
            double share = lower(&b->link[at], now);
            sl_time_scale(&b->problem.link[at].latency, share);
            sl_time_scale(&b->problem.link[at].transfer, share);
            lowered = 1;
        }
    for (int at = 0; at < stages; at++)
        if ((now = fallen_to(s, rows, count, replica, at, sum_at, FALLEN_MIN, &b->sum[at])) > 0) {
            sl_time_scale(&b->problem.reduce[at], lower(&b->sum[at], now));
            lowered = 1;
        }
    return lowered;
}

int sl_history_lower(sl_history *s) {
    int rows[SL_ROWS], lowered = 0;
    int count = sl_history_collect(s, s->since, s->rows, s->hold, 0, rows);
    double clocks = 0;
    if (!s->learnt || count < s->hold)
        return 0;
    for (int i = 0; i < count; i++)
        clocks = fmax(clocks, 2 * (double)sl_history_row(s, rows[i])->clock_error);
    for (int r = 0; r < s->replicas; r++)
        if (s->healthy[r].op)
            lowered |= lower_replica(s, rows, count, r, clocks);
    for (int i = sl_history_oldest(s); lowered && i < rows[0]; i++)
        s->row[i % SL_ROWS].slow = 1;
    s->learns += lowered;
    return lowered;
}
