#include "adapt/orchestrator/history.h"
#include "base/median.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

#define USUAL 0.85 /* share of the healthy rows that stay below what is usual */
#define DRIFT 1.05 /* healthy ops are at most so many times what they took at first */
#define FALLEN 0.8 /* of what was taken for healthy: then something was slow when it was learnt */
#define FALLEN_LEAST (0.3 * SL_MS)
#define FAR_OFF 0.1    /* of the median, beside what rows vary by */
#define TOLD_WORK 1e-4 /* least relative variance of work that says how time follows it */

sl_status sl_history_open(int replicas, int ranks, int hold, sl_history *s) {
    *s = (sl_history){.replicas = replicas, .ranks = ranks, .hold = hold};
    SL_TRY(sl_alloc(&s->suspected, (size_t)replicas * (size_t)ranks, sizeof *s->suspected));
    SL_TRY(sl_alloc(&s->room, 2 * SL_ROWS, sizeof *s->room));
    SL_TRY(sl_alloc(&s->healthy, (size_t)replicas, sizeof *s->healthy));
    for (int r = 0; r < replicas; r++)
        s->healthy[r].as = r;
    for (int i = 0; i < SL_ROWS; i++)
        SL_TRY(sl_alloc(&s->row[i].replica, (size_t)replicas, sizeof(sl_measured *)));
    return SL_OK;
}

static void clear_baseline(sl_baseline *b) {
    sl_measured_drop(b->same);
    sl_problem_free(&b->problem);
    sl_free(b->op);
    sl_free(b->link);
    sl_free(b->sum);
    *b = (sl_baseline){.as = b->as};
}

void sl_history_close(sl_history *s) {
    for (int i = 0; i < SL_ROWS; i++) {
        for (int r = 0; s->row[i].replica && r < s->replicas; r++)
            sl_measured_drop(s->row[i].replica[r]);
        sl_free(s->row[i].replica);
    }
    for (int r = 0; s->healthy && r < s->replicas; r++)
        clear_baseline(&s->healthy[r]);
    sl_free(s->healthy);
    sl_free(s->suspected);
    sl_free(s->room);
    *s = (sl_history){0};
}

/* What a replica's ops had to do, all together; 0: not known of each. */
static double work_of(const sl_measured *m) {
    double sum = 0;
    for (int at = 0; m && at < SL_OP_KINDS * m->problem.stages; at++) {
        if (m->op[at].worked != m->op[at].count)
            return 0;
        sum += m->op[at].work * m->op[at].worked;
    }
    return sum;
}

/* Where nobody says what an iteration's work was, the replica's with most. */
static double most_work(const sl_orchestrator_iteration *it, int replicas) {
    double most = 0;
    for (int r = 0; it->replica && r < replicas; r++)
        if (it->replica[r])
            most = fmax(most, work_of(it->replica[r]));
    return most;
}

sl_status sl_history_add(sl_history *s, const sl_orchestrator_iteration *it) {
    sl_row *row = sl_history_row(s, s->rows);
    row->iteration = it->iteration;
    row->slow = 0;
    row->time = it->time;
    row->clock_error = it->clock_error;
    row->work = it->work > 0 ? it->work : most_work(it, s->replicas);
    for (int r = 0; r < s->replicas; r++) {
        sl_measured *next = it->replica ? sl_measured_keep(it->replica[r]) : NULL;
        sl_measured_drop(row->replica[r]);
        row->replica[r] = next;
    }
    s->rows++;
    return SL_OK;
}

int sl_history_collect(const sl_history *s, int first, int last, int most, int healthy, int *rows) {
    int n = 0, oldest = sl_history_oldest(s);
    first = first > oldest ? first : oldest;
    for (int i = last - 1; i >= first && n < most; i--)
        if (!healthy || !s->row[i % SL_ROWS].slow)
            rows[n++] = i;
    for (int i = 0; i < n / 2; i++) {
        int swap = rows[i];
        rows[i] = rows[n - 1 - i];
        rows[n - 1 - i] = swap;
    }
    return n;
}

void sl_history_moved(sl_history *s) {
    s->since = s->quiet = s->rows;
}

void sl_history_forget(sl_history *s, int keep) {
    s->learnt = 0;
    for (int i = sl_history_oldest(s); i < s->rows; i++)
        s->row[i % SL_ROWS].slow = i < s->rows - keep;
    for (int r = 0; r < s->replicas; r++) {
        clear_baseline(&s->healthy[r]);
        s->healthy[r].as = r;
    }
    s->iteration = (sl_norm){0};
}

/* ---- times and work ---- */

static double clamp(double value, double a, double b) {
    return fmin(fmax(value, fmin(a, b)), fmax(a, b));
}

/* Where nobody knows how time follows work, anything between not at all and in proportion is as it should be.
 */
double sl_norm_time(const sl_norm *n, double time, double work) {
    if (!(n->work > 0) || !(work > 0) || !(n->time > 0))
        return time;
    double expected = n->slope >= 0 ? n->time + n->slope * (work - n->work)
                                    : clamp(time, n->time, n->time * work / n->work);
    expected = fmax(expected, 0.01 * n->time);
    return time * n->time / expected;
}

/* Sums for a line through the levels of several rows, which may be lines of ops themselves. */
typedef struct line {
    double count, work, time, span, slope;
} line;

static void line_add(line *l, double count, double work, double time, double span, double slope) {
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
static double line_slope(const line *l) {
    if (!(l->work > 0) || l->span / l->count < TOLD_WORK * l->work * l->work)
        return -1;
    return clamp(l->slope / l->span, 0, l->time / l->work);
}

/* ---- learning ---- */

static double median_of(double *values, int count) {
    return count ? sl_median_of_numbers(values, count) : 0;
}

/* From values[count] in terms of usual work. */
static void settle(sl_norm *n, double *values, int count, const sl_norm *before) {
    n->rows = count;
    n->time = median_of(values, count);
    n->usual = values[(int)(USUAL * (count - 1))];
    for (int i = 0; i < count; i++)
        values[i] = fabs(values[i] - n->time);
    n->spread = 1.4826 * median_of(values, count);
    n->first = before->first > 0 ? before->first : n->time;
    n->first_work = before->first > 0 ? before->first_work : n->work;
}

/* One entry of several rows; `take` gives the level, or NULL where there was none. */
typedef const sl_level *(*level_of)(const sl_row *row, int replica, int at, sl_level *room);

static const sl_level *op_at(const sl_row *row, int replica, int at, sl_level *room) {
    (void)room;
    const sl_measured *m = row->replica[replica];
    return m && m->op[at].count ? &m->op[at] : NULL;
}

static const sl_level *link_at(const sl_row *row, int replica, int at, sl_level *room) {
    (void)room;
    const sl_measured *m = row->replica[replica];
    return m && m->link[at].count ? &m->link[at] : NULL;
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

/* The line through rows, without those that `value`, in terms of usual work, shows far from the median: what
 * a fault or an interruption took is no measure of work. NULL: through all. */
static line fit(sl_history *s, const int *rows, int count, int replica, int at, level_of level,
                const double *value) {
    line l = {0};
    int found = 0;
    double middle = 0, off = INFINITY, sorted[SL_ROWS];
    sl_level room;
    for (int i = 0; i < count && value; i++)
        found += level(sl_history_row(s, rows[i]), replica, at, &room) != NULL;
    if (value) {
        memcpy(sorted, value, (size_t)found * sizeof *sorted);
        middle = median_of(sorted, found);
        for (int i = 0; i < found; i++)
            sorted[i] = fabs(value[i] - middle);
        off = FAR_OFF * middle + 5 * 1.4826 * median_of(sorted, found);
    }
    found = 0;
    for (int i = 0; i < count; i++) {
        const sl_level *v = level(sl_history_row(s, rows[i]), replica, at, &room);
        if (!v || (value && fabs(value[found++] - middle) > off))
            continue;
        if (v->worked)
            line_add(&l, v->worked, v->work, v->time, v->span, v->slope);
    }
    return l;
}

static void learn_norm(sl_history *s, const int *rows, int count, int replica, int at, level_of level,
                       sl_norm *n) {
    int found = 0, worked = 0;
    sl_level room;
    const sl_norm before = *n;
    double *value = s->room, *work = s->room + SL_ROWS, plain[SL_ROWS];
    for (int i = 0; i < count; i++) {
        const sl_level *v = level(sl_history_row(s, rows[i]), replica, at, &room);
        if (!v)
            continue;
        value[found] = v->time;
        work[found++] = v->work;
        worked += v->work > 0;
    }
    if (found < SL_ROWS_HEALTHY_LEAST && found < before.rows) /* rows grow old while something is slow */
        return;
    *n = (sl_norm){.slope = -1, .first = before.first, .first_work = before.first_work};
    if (!found)
        return;
    for (int pass = 0; pass < 2 && worked == found; pass++) {
        line l = fit(s, rows, count, replica, at, level, pass ? plain : NULL);
        sl_norm reference = {.time = l.time, .work = l.work, .slope = line_slope(&l)};
        n->work = l.work;
        n->slope = reference.slope;
        for (int i = 0; i < found; i++)
            plain[i] = sl_norm_time(&reference, value[i], work[i]);
    }
    settle(n, worked == found ? plain : value, found, &before);
}

/* Whether all rows have the same measurement of a replica. */
static sl_measured *the_same(const sl_history *s, const int *rows, int count, int replica) {
    sl_measured *same = count ? s->row[rows[0] % SL_ROWS].replica[replica] : NULL;
    for (int i = 1; i < count && same; i++)
        if (s->row[rows[i] % SL_ROWS].replica[replica] != same)
            return NULL;
    return same;
}

void sl_history_clear(sl_history *s, int replica, int as) {
    clear_baseline(&s->healthy[replica]);
    s->healthy[replica].as = as;
}

sl_status sl_baseline_make_room(const sl_problem *shape, sl_baseline *b) {
    size_t stages = (size_t)shape->stages, ranks = (size_t)shape->ranks;
    SL_TRY(sl_alloc(&b->op, SL_OP_KINDS * stages, sizeof *b->op));
    SL_TRY(sl_alloc(&b->link, ranks * ranks, sizeof *b->link));
    return sl_alloc(&b->sum, stages, sizeof *b->sum);
}

static sl_status make_room(const sl_measured *shape, sl_baseline *b) {
    if (b->op)
        return SL_OK;
    clear_baseline(b);
    SL_TRY(sl_baseline_make_room(&shape->problem, b));
    return sl_problem_copy(&shape->problem, &b->problem);
}

static sl_time median_time(double *values, int count) {
    return (sl_time)llround(median_of(values, count));
}

/* Every time of the problem as the median over the rows in which the replica was measured. */
static void median_problem(sl_history *s, const int *rows, int count, int replica, sl_problem *p) {
    double *value = s->room;
#define MEDIAN_OF(field)                                                                                     \
    do {                                                                                                     \
        int found = 0;                                                                                       \
        for (int i = 0; i < count; i++) {                                                                    \
            const sl_measured *m = sl_history_row(s, rows[i])->replica[replica];                             \
            if (m)                                                                                           \
                value[found++] = (double)m->problem.field;                                                   \
        }                                                                                                    \
        if (found)                                                                                           \
            p->field = median_time(value, found);                                                            \
    } while (0)
    for (int stage = 0; stage < p->stages; stage++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            MEDIAN_OF(time[kind][stage]);
        MEDIAN_OF(saved[stage]);
        MEDIAN_OF(reduce[stage]);
        MEDIAN_OF(gather[stage]);
    }
    for (int link = 0; link < p->ranks * p->ranks; link++) {
        MEDIAN_OF(link[link].latency);
        MEDIAN_OF(link[link].transfer);
    }
#undef MEDIAN_OF
}

/* What it took at first, in terms of the work that is usual now. */
static double first_time(const sl_norm *n) {
    if (!(n->work > 0) || !(n->first_work > 0))
        return n->first;
    double more = n->work - n->first_work;
    return n->slope >= 0 ? n->first + n->slope * more : n->first * fmax(1, n->work / n->first_work);
}

/* What slowly becomes slow is slow. */
static void limit_drift(sl_baseline *b, int replica_rows) {
    for (int kind = 0; kind < SL_OP_KINDS && replica_rows; kind++)
        for (int stage = 0; stage < b->problem.stages; stage++) {
            sl_norm *n = &b->op[kind * b->problem.stages + stage];
            double most = DRIFT * first_time(n);
            if (!(n->time > most) || !(n->first > 0))
                continue;
            b->problem.time[kind][stage] = (sl_time)((double)b->problem.time[kind][stage] * most / n->time);
            n->usual *= most / n->time;
            n->time = most;
        }
}

int sl_history_alike(const sl_history *s, const int *rows, int count, int replica, int other) {
    for (int i = 0; i < count; i++) {
        sl_measured *const *row = s->row[rows[i] % SL_ROWS].replica;
        if (row[replica] != row[other] || !row[replica])
            return 0;
    }
    return count > 0;
}

static sl_status learn_replica(sl_history *s, const int *rows, int count, int replica) {
    sl_baseline *b = &s->healthy[replica];
    if (replica > 0 && sl_history_alike(s, rows, count, replica, replica - 1)) {
        clear_baseline(b);
        b->as = s->healthy[replica - 1].as;
        return SL_OK;
    }
    b->as = replica;
    sl_measured *same = the_same(s, rows, count, replica), *shape = NULL;
    if (same) {
        sl_measured_keep(same);
        clear_baseline(b);
        b->same = same;
        return SL_OK;
    }
    for (int i = 0; i < count && !shape; i++)
        shape = sl_history_row(s, rows[i])->replica[replica];
    if (!shape)
        return SL_OK;
    SL_TRY(make_room(shape, b));
    int stages = shape->problem.stages, ranks = shape->problem.ranks;
    median_problem(s, rows, count, replica, &b->problem);
    for (int at = 0; at < SL_OP_KINDS * stages; at++)
        learn_norm(s, rows, count, replica, at, op_at, &b->op[at]);
    for (int at = 0; at < ranks * ranks; at++)
        learn_norm(s, rows, count, replica, at, link_at, &b->link[at]);
    for (int at = 0; at < stages; at++)
        learn_norm(s, rows, count, replica, at, sum_at, &b->sum[at]);
    limit_drift(b, count);
    return SL_OK;
}

sl_status sl_history_learn(sl_history *s) {
    int rows[SL_ROWS], count = sl_history_collect(s, 0, s->rows, SL_HEALTHY_ROWS, 1, rows);
    if (count < s->hold || count == 0)
        return SL_OK;
    int cold = rows[0] == 0 && count > s->hold; /* the first iteration of all is no measure */
    learn_norm(s, rows + cold, count - cold, 0, 0, time_at, &s->iteration);
    for (int r = 0; r < s->replicas; r++)
        SL_TRY(learn_replica(s, rows + cold, count - cold, r));
    s->learnt = 1;
    s->learns++;
    return SL_OK;
}

sl_status sl_history_assume(sl_history *s, const sl_problem *const *healthy) {
    for (int r = 0; r < s->replicas; r++) {
        sl_baseline *b = &s->healthy[r];
        clear_baseline(b);
        b->as = r > 0 && healthy[r] == healthy[r - 1] ? s->healthy[r - 1].as : r;
        if (b->as == r)
            SL_TRY(sl_measured_of_problem(healthy[r], &b->same));
    }
    s->learnt = 1;
    return SL_OK;
}

/* ---- what was slow from the beginning ---- */

/* What lately is, where that is well below what was taken for healthy; 0: it is not. */
static double fallen_to(sl_history *s, const int *rows, int count, int replica, int at, level_of level,
                        double least, const sl_norm *n) {
    sl_level room;
    int found = 0;
    for (int i = 0; i < count; i++) {
        const sl_level *v = level(sl_history_row(s, rows[i]), replica, at, &room);
        if (!v)
            continue;
        double time = sl_norm_time(n, v->time, v->work);
        if (time > FALLEN * n->time || n->time - time < least)
            return 0;
        s->room[found++] = time;
    }
    return found >= SL_ROWS_HEALTHY_LEAST ? median_of(s->room, found) : 0;
}

static double lower(sl_norm *n, double time) {
    double share = time / n->time;
    n->time = time;
    n->usual *= share;
    n->spread *= share;
    n->first *= share;
    n->slope *= n->slope > 0 ? share : 1;
    return share;
}

static void scale(sl_time *time, double share) {
    *time = (sl_time)((double)*time * share);
}

static int lower_replica(sl_history *s, const int *rows, int count, int replica, double clocks) {
    sl_baseline *b = &s->healthy[replica];
    int lowered = 0, stages = b->problem.stages, ranks = b->problem.ranks;
    double now;
    for (int at = 0; at < SL_OP_KINDS * stages; at++)
        if ((now = fallen_to(s, rows, count, replica, at, op_at, FALLEN_LEAST, &b->op[at])) > 0) {
            scale(&b->problem.time[at / stages][at % stages], lower(&b->op[at], now));
            lowered = 1;
        }
    for (int at = 0; at < ranks * ranks; at++)
        if ((now = fallen_to(s, rows, count, replica, at, link_at, FALLEN_LEAST + clocks, &b->link[at])) >
            0) {
            double share = lower(&b->link[at], now);
            scale(&b->problem.link[at].latency, share);
            scale(&b->problem.link[at].transfer, share);
            lowered = 1;
        }
    for (int at = 0; at < stages; at++)
        if ((now = fallen_to(s, rows, count, replica, at, sum_at, FALLEN_LEAST, &b->sum[at])) > 0) {
            scale(&b->problem.reduce[at], lower(&b->sum[at], now));
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

/* ---- questions ---- */

const sl_problem *sl_history_healthy(const sl_history *s, int replica) {
    const sl_baseline *b = sl_history_baseline(s, replica);
    return !s->learnt ? NULL : b->same ? &b->same->problem : b->op ? &b->problem : NULL;
}

static int collect_measured(const sl_history *s, int replica, int most, int *rows) {
    int n = 0, first = sl_history_oldest(s);
    first = first > s->since ? first : s->since;
    for (int i = s->rows - 1; i >= first && n < most; i--)
        if (s->row[i % SL_ROWS].replica[replica])
            rows[n++] = i;
    return n;
}

int sl_history_measured(const sl_history *s, int replica, int most) {
    int rows[SL_ROWS];
    return collect_measured(s, replica, most < SL_ROWS ? most : SL_ROWS, rows);
}

sl_status sl_history_typical(sl_history *s, int replica, int count, sl_problem *problem) {
    int rows[SL_ROWS], found = collect_measured(s, replica, count < SL_ROWS ? count : SL_ROWS, rows);
    if (!found)
        return sl_error(SL_ENONE, "replica %d has not been measured yet", replica);
    const sl_measured *last = sl_history_row(s, rows[0])->replica[replica];
    SL_TRY(sl_problem_copy(&last->problem, problem));
    if (!the_same(s, rows, found, replica))
        median_problem(s, rows, found, replica, problem);
    return SL_OK;
}

static double median_iteration(sl_history *s, const int *rows, int count) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        const sl_row *row = sl_history_row(s, rows[i]);
        if (row->time > 0)
            s->room[found++] = sl_norm_time(&s->iteration, (double)row->time, row->work);
    }
    return median_of(s->room, found);
}

double sl_history_time(sl_history *s) {
    int rows[SL_ROWS], least = s->hold < 3 ? s->hold : 3;
    int count = sl_history_collect(s, s->quiet, s->rows, s->hold, 0, rows);
    if (count < least)
        return 0;
    double usual = median_iteration(s, rows, count);
    double recent = count > 3 ? median_iteration(s, rows + count - 3, 3) : usual;
    double low = fmin(usual, recent), high = fmax(usual, recent);
    return high - low > low / 2 ? recent : usual;
}

double sl_history_recent_time(sl_history *s) {
    int rows[SL_ROWS], count = sl_history_collect(s, s->quiet, s->rows, 3, 0, rows);
    return count == 3 ? median_iteration(s, rows, count) : 0;
}
