/* Unreported load: extra time that all devices share, so none of them is named. */
#include "adapt/orchestrator/compare_inside.h"
#include "adapt/orchestrator/pair_load.h"
#include "base/numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NO_LESS 0.95 /* of healthy: a smaller common decrease is noise */
#define NO_LOAD 1.2  /* times the known work: time need not follow work in proportion */

static double known_of(const sl_comparing *c, int at) {
    return c->s->suspected[at] > 1 ? (double)c->s->suspected[at] : 1;
}

static double middle_of(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, sl_ascending_numbers);
    return values[(count - 1) / 2];
}

/* Load affects every device: there is no more of it than the one that shows least has; none if that runs at
 * its healthy speed. */
static double most_common(const sl_comparing *c, const double *value, int devices, int first) {
    double least = INFINITY;
    for (int i = 0; i < devices && c->s->settled && c->ranks > 2; i++)
        if (value[i] > NO_LESS && known_of(c, first + i) <= 1)
            least = fmin(least, value[i]);
    return least < 1 / NO_LESS ? 1 : least / NO_LESS;
}

/* Load taken for healthy has ended: at least two devices are not known to be slow; all of these take less. */
static int can_be_less(const sl_comparing *c, const double *value, int devices, int first) {
    int well = 0;
    for (int i = 0; i < devices; i++) {
        int counts = value[i] > 0 && known_of(c, first + i) <= 1;
        if (counts && value[i] > NO_LESS)
            return 0;
        well += counts;
    }
    return c->s->settled && well > 1;
}

/* The common slowdown of all devices in a row, beyond what is known of each: unreported load. Within a
 * replica, all of whose devices process every microbatch, half of them must show it; for replicas of one
 * rank, all. A row may precede or follow a device's slowdown: it is divided out if that brings the value
 * nearer to the others. 1: none; 0: too few were measured. value[devices] of one row; 0: not measured. */
static double common_of(const sl_comparing *c, const double *value, int devices, int first, double *room) {
    int count = 0, well = 0;
    for (int i = 0; i < devices; i++) {
        count += value[i] > 0;
        if (value[i] > 0 && known_of(c, first + i) <= 1)
            room[well++] = value[i];
    }
    if (count < 2)
        return devices < 2 ? 1 : 0;
    double most = most_common(c, value, devices, first);
    if (most <= 1)
        return 1;
    for (int i = 0, all = !well; i < devices && all; i++)
        if (value[i] > 0)
            room[well++] = value[i] / known_of(c, first + i);
    double others = middle_of(room, well);
    count = 0;
    for (int i = 0; i < devices; i++)
        if (value[i] > 0) {
            double less = value[i] / known_of(c, first + i);
            room[count++] = fabs(log(less / others)) <= fabs(log(value[i] / others)) ? less : value[i];
        }
    double common = fmin(most, middle_of(room, count));
    return c->ranks == 1                           ? fmax(1, room[0])
           : can_be_less(c, value, devices, first) ? common
                                                   : fmax(1, common);
}

/* The work of all ops of a replica in a row, over their usual work; 0: not known of each. */
static double work_of(const sl_comparing *c, int replica, int row) {
    const sl_baseline *b = sl_history_baseline(c->s, replica);
    const sl_measured *m = sl_history_row(c->s, row)->replica[replica];
    double work = 0, usual = 0;
    for (int at = 0; m && b->op && at < SL_OP_KINDS * m->problem.stages; at++) {
        const sl_usual *n = &b->op[at];
        if (!m->op[at].count || n->rows < sl_comparing_rows_needed(c))
            continue;
        if (m->op[at].worked < m->op[at].count || !(n->work > 0))
            return 0;
        work += m->op[at].work;
        usual += n->work;
    }
    return usual > 0 ? work / usual : 0;
}

static int has_work(const sl_comparing *c, int replica, int row) {
    const sl_measured *m = sl_history_row(c->s, row)->replica[replica];
    int found = 0;
    for (int at = 0; m && at < SL_OP_KINDS * m->problem.stages; at++)
        found |= m->op[at].worked > 0;
    return found;
}

static int exceeds_work(double common, double work) {
    return work > 0 && common > NO_LOAD * fmax(1, work);
}

/* Time need not follow work along a line (attention): whether the latest rows that exceed their known work do
 * so by more than healthy rows. */
static int is_beyond_line(const sl_comparing *c, int kind) {
    sl_sums before = {0}, since = {0};
    int replica = c->first[kind], lately = c->rows[sl_comparing_latest(c)];
    for (int i = sl_history_oldest(c->s); i < c->s->rows; i++) {
        const sl_row *row = sl_history_row(c->s, i);
        double common = row->common[replica];
        if (common > 0 && (i < lately ? !row->slow : exceeds_work(common, work_of(c, replica, i))))
            sl_sums_add(i < lately ? &before : &since, log(common));
    }
    return !(before.count > 0) || sl_sums_errors(&before, &since) > SL_LOADS_ERRORS;
}

/* If work is known, a common slowdown is load only as far as work has grown; the rest is slow devices. If op
 * times were given but no work, there is no load. */
static void limit_common(const sl_comparing *c) {
    for (int k = 0; k < c->kinds; k++)
        for (int i = 0, known = 0, beyond = 0; i < c->count; i++) {
            double *common = &c->common[k * c->count + i];
            double work = *common > 1 ? work_of(c, c->first[k], c->rows[i]) : 0;
            if (c->s->assumed && *common > 1 && !has_work(c, c->first[k], c->rows[i]))
                *common = 1;
            if (!exceeds_work(*common, work))
                continue;
            beyond = known ? beyond : is_beyond_line(c, k);
            known = 1;
            *common = beyond ? 1 : *common;
        }
}

/* Replicas of one rank, by row. */
static void find_common_of_all(const sl_comparing *c, const double *value, double *room) {
    double *all = room + c->s->replicas;
    for (int i = 0; i < c->count; i++) {
        for (int r = 0; r < c->s->replicas; r++)
            all[r] = c->kind[r] >= 0                              ? value[c->kind[r] * c->count + i]
                     : sl_history_baseline(c->s, r)->same != NULL ? 1
                                                                  : 0;
        double common = common_of(c, all, c->s->replicas, 0, room);
        for (int k = 0; k < c->kinds; k++)
            c->common[k * c->count + i] = common;
    }
}

static double last_common(const sl_history *s, int before, int replica) {
    double common = 0;
    for (int i = before - 1; i >= sl_history_oldest(s) && common <= 0; i--)
        common = s->row[i % SL_ROWS].common[replica];
    return common;
}

/* Each one's own slowdown in the two previous rows: the smaller one, since the other may be a spike. */
static void own_times(const sl_comparing *c, const double *value, int kind, const int *before, double *own) {
    for (int d = 0; d < 2; d++) {
        own[d] = INFINITY;
        for (int k = 0; k < 2 && before[k] >= 0; k++)
            own[d] = fmin(own[d], value[2 * (kind * c->count + before[k]) + d] /
                                      c->common[kind * c->count + before[k]]);
    }
}

/* Pipelines of two ranks: each row is compared with earlier ones in which both were measured. */
static void find_common_of_pair(const sl_comparing *c, const double *value, int kind, double *room) {
    int replica = c->first[kind], before[2] = {-1, -1};
    for (int i = 0; i < c->count; i++) {
        const double *now = value + 2 * (kind * c->count + i);
        double *common = &sl_history_row(c->s, c->rows[i])->common[replica], own[2];
        double last = last_common(c->s, before[0] < 0 ? c->rows[i] : c->rows[before[0]] + 1, replica);
        c->common[kind * c->count + i] = 0;
        if (!(now[0] > 0 && now[1] > 0)) {
            *common = *common > 0 ? *common : -last;
            continue;
        }
        own_times(c, value, kind, before, own);
        int announced =
            work_of(c, replica, c->rows[i]) > 0; /* then load is no reason to track it from row to row */
        if (*common <= 0 && announced)
            *common = fmax(1, common_of(c, now, 2, 2 * replica, room));
        else if (*common <= 0 && before[0] >= 0)
            *common = sl_pair_load(last, (double[]){own[0] * last, own[1] * last}, now);
        else if (*common <= 0) /* the earlier value is of other devices, or of other positions */
            *common =
                fmax(last > 0 ? sl_pair_load(last, now, now) : 1, common_of(c, now, 2, 2 * replica, room));
        *common = c->s->settled ? *common : fmax(1, *common);
        c->common[kind * c->count + i] = *common;
        before[1] = before[0];
        before[0] = i;
    }
}

/* For rows with one device each: the devices are measured in turn and each keeps its last value. If only one
 * is, load comes from the known work of iterations. `row`, `one`: strides of value; common [count]. */
static void find_common_in_turn(const sl_comparing *c, const double *value, int row, int one, int devices,
                                int replica, double *common, double *last, double *room) {
    int measured = 0;
    for (int i = 0; i < c->count; i++)
        if (common[i] > 0)
            return;
    for (int d = 0; d < devices; d++) {
        last[d] = 0;
        for (int i = 0; i < c->count && last[d] <= 0; i++)
            last[d] = value[i * row + d * one];
        measured += last[d] > 0;
    }
    for (int i = 0; i < c->count && measured; i++) {
        const sl_row *r = sl_history_row(c->s, c->rows[i]);
        double usual = c->s->iteration.work;
        for (int d = 0; d < devices; d++)
            if (value[i * row + d * one] > 0)
                last[d] = value[i * row + d * one];
        if (measured > 1)
            common[i] = common_of(c, last, devices, replica * c->ranks, room);
        else if (c->ranks > 1 && r->common[replica] != 0) /* as when others were measured, too */
            common[i] = fabs(r->common[replica]);
        else
            common[i] = work_of(c, replica, c->rows[i]) > 0 || !(usual > 0) ? 1 : fmax(1, r->work / usual);
    }
}

/* If no row shows two devices. */
static void find_other_common(const sl_comparing *c, const double *value, double *room) {
    double *last = room + 2 * c->s->replicas + c->ranks;
    for (int k = 0; k < c->kinds && c->ranks > 1; k++)
        find_common_in_turn(c, value + k * c->count * c->ranks, c->ranks, 1, c->ranks, c->first[k],
                            c->common + k * c->count, last, room);
    if (c->ranks > 1 || c->kinds == 0)
        return;
    find_common_in_turn(c, value, 1, c->count, c->kinds, c->first[0], c->common, last, room);
    for (int k = 1; k < c->kinds; k++)
        memcpy(c->common + k * c->count, c->common, (size_t)c->count * sizeof *c->common);
}

void sl_comparing_common(const sl_comparing *c, const double *value, double *room) {
    int ranks = c->ranks;
    for (int i = 0; i < c->kinds * c->count && ranks > 2; i++) {
        int row = c->rows[i % c->count], replica = c->first[i / c->count];
        c->common[i] = common_of(c, value + i * ranks, ranks, replica * ranks, room);
        sl_history_row(c->s, row)->common[replica] =
            c->common[i] > 0 ? c->common[i] : -last_common(c->s, row, replica);
    }
    for (int kind = 0; kind < c->kinds && ranks == 2; kind++)
        find_common_of_pair(c, value, kind, room);
    if (ranks == 1)
        find_common_of_all(c, value, room);
    find_other_common(c, value, room);
    limit_common(c);
}

double sl_comparing_common_of_job(const sl_comparing *c) {
    double values[SL_ROWS];
    int found = 0;
    if (c->well)
        return 1;
    for (int i = sl_comparing_latest(c); i < c->count; i++) {
        double least = INFINITY;
        for (int k = 0; k < c->kinds; k++)
            if (c->common[k * c->count + i] > 0)
                least = fmin(least, c->common[k * c->count + i]);
        if (isfinite(least))
            values[found++] = least;
    }
    return found ? sl_median_of_numbers(values, found) : 1;
}
