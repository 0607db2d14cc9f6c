/* Medians over rows, for usual work: of a replica's problem, and of iterations. */
#include "adapt/orchestrator/history_inside.h"
#include "base/memory.h"
#include "base/numbers.h"

#define MEDIAN_VARIANCE 1.57 /* of a median, over that of a mean */

/* If it is unknown how time follows work, anything from not at all to in proportion is normal. */
double sl_usual_time(const sl_usual *n, double time, double work) {
    if (!(n->work > 0) || !(work > 0) || !(n->time > 0))
        return time;
    double expected = n->slope >= 0 ? n->time + n->slope * (work - n->work)
                                    : sl_history_clamp(time, n->time, n->time * work / n->work);
    expected = fmax(expected,
                    n->time * sl_history_clamp(work / n->work, 0.01, 1)); /* at least the proportional time */
    return time * n->time / expected;
}

double sl_history_median(double *values, int count) {
    return count ? sl_median_of_numbers(values, count) : 0;
}

const sl_level *sl_history_op_at(const sl_row *row, int replica, int at, sl_level *room) {
    const sl_measured *m = row->replica[replica];
    if (!m || !m->op[at].count)
        return NULL;
    *room = m->op[at];
    room->time /= room->worked < room->count && row->common[replica] != 0 ? fabs(row->common[replica]) : 1;
    return room;
}

const sl_level *sl_history_link_at(const sl_row *row, int replica, int at, sl_level *room) {
    (void)room;
    const sl_measured *m = row->replica[replica];
    return m && m->link[at].count ? &m->link[at] : NULL;
}

static sl_time median_time(double *values, int count) {
    return (sl_time)llround(sl_history_median(values, count));
}

void sl_history_medians(sl_history *s, const int *rows, int count, int replica, sl_problem *p) {
    double *value = s->room;
#define MEDIAN_OF(field, seen)                                                                               \
    for (int all = 0, found = 0; all < 2 && !found; all++) {                                                 \
        for (int i = 0; i < count; i++) {                                                                    \
            const sl_measured *m = sl_history_row(s, rows[i])->replica[replica];                             \
            if (m && (all || (seen)))                                                                        \
                value[found++] = (double)m->problem.field;                                                   \
        }                                                                                                    \
        if (found)                                                                                           \
            p->field = median_time(value, found);                                                            \
    }
    for (int stage = 0; stage < p->stages; stage++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            MEDIAN_OF(time[kind][stage], sl_measured_saw(m, kind, stage))
        MEDIAN_OF(saved[stage], 1)
        MEDIAN_OF(reduce[stage], m->summed[stage])
        MEDIAN_OF(gather[stage], 1)
    }
    for (int link = 0; link < p->ranks * p->ranks; link++) {
        MEDIAN_OF(link[link].latency, m->link[link].count)
        MEDIAN_OF(link[link].transfer, m->link[link].count)
        for (int i = 0; i < count && p->link[link].transfer > 0; i++) { /* what it is the occupancy of */
            const sl_measured *m = sl_history_row(s, rows[i])->replica[replica];
            if (m && m->link[link].count && m->problem.link[link].transfer > 0)
                p->link[link].lanes = m->problem.link[link].lanes;
        }
    }
#undef MEDIAN_OF
}

/* The median over the rows for usual work; 0: unknown. */
static double usual_time(sl_history *s, const int *rows, int count, int replica, int at,
                         sl_history_level level, const sl_usual *n) {
    sl_level room;
    int found = 0;
    for (int i = 0; i < count && n->work > 0; i++) {
        const sl_level *v = level(sl_history_row(s, rows[i]), replica, at, &room);
        if (v)
            s->room[found++] = sl_usual_time(n, v->time, v->work);
    }
    return sl_history_median(s->room, found);
}

/* If the work of ops is known, medians are converted to usual work. B follows I and W if it was not measured
 * itself, and they follow it. */
static void ops_in_usual_work(sl_history *s, const int *rows, int count, int replica, const sl_usual *op,
                              sl_problem *p) {
    for (int stage = 0; stage < p->stages; stage++) {
        double share[SL_OP_KINDS] = {0};
        for (int kind = 0; kind < SL_OP_KINDS; kind++) {
            int at = kind * p->stages + stage;
            double time = usual_time(s, rows, count, replica, at, sl_history_op_at, &op[at]);
            if (!(time > 0) || p->time[kind][stage] <= 0)
                continue;
            share[kind] = time / (double)p->time[kind][stage];
            p->time[kind][stage] = (sl_time)llround(time);
        }
        if (share[SL_B] > 0 && !(share[SL_I] > 0)) {
            sl_time_scale(&p->time[SL_I][stage], share[SL_B]);
            sl_time_scale(&p->time[SL_W][stage], share[SL_B]);
        } else if (share[SL_I] > 0 && !(share[SL_B] > 0))
            p->time[SL_B][stage] = p->time[SL_I][stage] + sl_problem_own_time(p, SL_W, stage);
    }
}

void sl_history_usual_work(sl_history *s, const int *rows, int count, int replica, sl_problem *p) {
    const sl_baseline *b = sl_history_baseline(s, replica);
    if (!b->op)
        return;
    ops_in_usual_work(s, rows, count, replica, b->op, p);
    for (int at = 0; at < p->ranks * p->ranks; at++) {
        double time = usual_time(s, rows, count, replica, at, sl_history_link_at, &b->link[at]),
               was = (double)(p->link[at].latency + p->link[at].transfer);
        if (time > 0 && was > 0) {
            sl_time_scale(&p->link[at].latency, time / was);
            sl_time_scale(&p->link[at].transfer, time / was);
        }
    }
}

sl_status sl_history_typical(sl_history *s, int replica, int count, sl_problem *problem) {
    int rows[SL_ROWS], found = sl_history_rows_of(s, replica, count < SL_ROWS ? count : SL_ROWS, rows);
    if (!found)
        return sl_error(SL_ENONE, "replica %d has not been measured yet", replica);
    const sl_measured *last = sl_history_row(s, rows[0])->replica[replica];
    SL_TRY(sl_problem_copy(&last->problem, problem));
    if (!sl_history_same(s, rows, found, replica)) {
        sl_history_medians(s, rows, found, replica, problem);
        sl_history_usual_work(s, rows, found, replica, problem);
    }
    return SL_OK;
}

static double median_iteration(sl_history *s, const int *rows, int count) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        const sl_row *row = sl_history_row(s, rows[i]);
        if (row->time > 0)
            s->room[found++] = sl_usual_time(&s->iteration, (double)row->time, row->work);
    }
    return sl_history_median(s->room, found);
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

double sl_history_time_error(sl_history *s) {
    int rows[SL_ROWS], count = sl_history_collect(s, s->quiet, s->rows, s->hold, 0, rows);
    const sl_usual *n = &s->iteration;
    return count && n->rows ? n->spread * sqrt(MEDIAN_VARIANCE * (1.0 / count + 1.0 / n->rows)) : 0;
}

double sl_history_recent_time(sl_history *s) {
    int rows[SL_ROWS], count = sl_history_collect(s, s->quiet, s->rows, 3, 0, rows);
    return count == 3 ? median_iteration(s, rows, count) : 0;
}
