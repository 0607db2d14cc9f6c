#include "adapt/orchestrator/compare.h"
#include "base/median.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OP_SHARE 0.1            /* of a typical op: the least delay of a link that counts */
#define LEAST (0.2 * SL_MS)     /* what threads that wake late add to a message */
#define OPS_LEAST (0.3 * SL_MS) /* and to the ops of a microbatch */
#define NO_LOAD 1.2             /* times what known work explains: time need not follow work in proportion */
#define ERRORS 4.0              /* standard errors of the difference that a growth must exceed */

/* Of one entry: over the rows at hand, and when healthy. */
typedef struct pair {
    int known;
    double now, healthy, usual, variance; /* of usual work; variance of the difference */
    double count;                         /* of the last row */
} pair;

typedef struct comparing {
    sl_history *s;
    const int *rows;
    int count, lately, most, ranks; /* most: values of a component, the latest */
    sl_comparison *out;
    double clock_error;
    int *kind;  /* [replicas] which of the replicas that differ from what is healthy it is like; -1: it does
                   not differ */
    int *first; /* [kinds] the first replica of each */
    int kinds;
    double *common; /* [kinds * count] what all devices of a replica take longer in each row; 0: nobody can
                       tell */
} comparing;

void sl_comparison_free(sl_comparison *c) {
    sl_free(c->slow);
    *c = (sl_comparison){0};
}

static sl_norm norm_of(const sl_norm *norm, const sl_baseline *b, const sl_level *same) {
    if (!b->same)
        return *norm;
    return (sl_norm){.rows = same->count ? SL_HEALTHY_ROWS : 0,
                     .time = same->time,
                     .usual = same->time,
                     .work = same->work,
                     .slope = -1};
}

/* The level over `values`, in the order of rows: the median, or what lately it has become; of few rows the
 * least, for one may be a spike. */
static double level_of(const comparing *c, double *values, int count, double noise) {
    double recent[3], sorted[SL_ROWS];
    memcpy(sorted, values, (size_t)count * sizeof *values);
    double usual = sl_median_of_numbers(sorted, count);
    if (!c->lately)
        return count <= SL_ROWS_HEALTHY_LEAST ? sorted[0] : usual;
    if (count <= 3)
        return usual;
    memcpy(recent, values + count - 3, sizeof recent);
    double now = sl_median_of_numbers(recent, 3), low = fmin(usual, now), high = fmax(usual, now);
    return high - low > noise && high - low > low / 2 ? now : usual;
}

/* Rows that make what is healthy. */
static int rows_needed(const comparing *c) {
    return c->s->hold < SL_ROWS_HEALTHY_LEAST ? 1 : SL_ROWS_HEALTHY_LEAST;
}

/* Rows that say what it is lately. */
static int rows_wanted(const comparing *c) {
    int few = c->s->hold < SL_ROWS_HEALTHY_LEAST ? c->s->hold : SL_ROWS_HEALTHY_LEAST;
    return c->lately ? few : c->count < 2 ? 1 : 2;
}

/* Of the difference of the medians of so many rows and of healthy ones. */
static double variance_of(const sl_norm *n, int count) {
    return 1.57 * n->spread * n->spread * (1.0 / count + 1.0 / n->rows);
}

/* Values of the latest rows, at most `most`, in the order of rows. */
typedef struct latest {
    int most, count;
    double value[SL_ROWS], raw[SL_ROWS];
} latest;

/* Rows come the last one first. 0: these are enough. */
static int take(latest *l, double value, double raw) {
    l->value[SL_ROWS - ++l->count] = value;
    l->raw[SL_ROWS - l->count] = raw;
    return l->count < l->most;
}

static pair finish(const comparing *c, const sl_norm *n, latest *l, double last) {
    if (l->count < rows_wanted(c) || n->rows < rows_needed(c))
        return (pair){0};
    return (pair){.known = 1,
                  .now = level_of(c, l->value + SL_ROWS - l->count, l->count, OPS_LEAST),
                  .healthy = n->time,
                  .usual = n->usual,
                  .variance = variance_of(n, l->count),
                  .count = last};
}

static pair compare_link(const comparing *c, int replica, int at) {
    const sl_baseline *b = sl_history_baseline(c->s, replica);
    sl_norm n = norm_of(b->link ? &b->link[at] : NULL, b, b->same ? &b->same->link[at] : NULL);
    latest l = {.most = c->most};
    double last = 0;
    for (int i = c->count - 1, more = 1; i >= 0 && more; i--) {
        const sl_measured *m = sl_history_row(c->s, c->rows[i])->replica[replica];
        if (!m || !m->link[at].count)
            continue;
        double common = c->common[c->kind[replica] * c->count + i]; /* longer microbatches, longer messages */
        last = last > 0 ? last : m->link[at].count;
        more = take(&l, sl_norm_time(&n, m->link[at].time, m->link[at].work) / (common > 1 ? common : 1),
                    m->link[at].time);
    }
    return finish(c, &n, &l, last);
}

/* There and back in the same row: clocks that differ do not change it. */
static pair compare_round(const comparing *c, int replica, int there, int back) {
    const sl_baseline *b = sl_history_baseline(c->s, replica);
    const int ways[2] = {there, back};
    sl_norm n[2], round = {.rows = SL_HEALTHY_ROWS};
    latest l = {.most = c->most};
    for (int way = 0; way < 2; way++) {
        n[way] = norm_of(b->link ? &b->link[ways[way]] : NULL, b, b->same ? &b->same->link[ways[way]] : NULL);
        round.rows = n[way].rows < round.rows ? n[way].rows : round.rows;
        round.time += n[way].time;
        round.usual += n[way].usual;
        round.spread += n[way].spread;
    }
    for (int i = c->count - 1, more = 1; i >= 0 && more; i--) {
        const sl_measured *m = sl_history_row(c->s, c->rows[i])->replica[replica];
        double common = c->common[c->kind[replica] * c->count + i], sum = 0;
        if (!m || !(m->link[there].time > 0) || !(m->link[back].time > 0))
            continue; /* nor is it known of a message that seems to arrive before it was sent */
        for (int way = 0; way < 2; way++)
            sum += sl_norm_time(&n[way], m->link[ways[way]].time, m->link[ways[way]].work);
        more = take(&l, sum / (common > 1 ? common : 1), 0);
    }
    return finish(c, &round, &l, 0);
}

static pair compare_sum(const comparing *c, int replica, int stage) {
    const sl_baseline *b = sl_history_baseline(c->s, replica);
    sl_level same = {.count = b->same ? b->same->summed[stage] : 0,
                     .time = b->same ? (double)b->same->problem.reduce[stage] : 0};
    sl_norm n = norm_of(b->sum ? &b->sum[stage] : NULL, b, &same);
    latest l = {.most = c->most};
    for (int i = c->count - 1, more = 1; i >= 0 && more; i--) {
        const sl_measured *m = sl_history_row(c->s, c->rows[i])->replica[replica];
        if (m && m->summed[stage])
            more = take(&l, (double)m->problem.reduce[stage], (double)m->problem.reduce[stage]);
    }
    return finish(c, &n, &l, 1);
}

/* ---- what is slow ---- */

static int beyond_noise(double growth, double variance) {
    return growth > 0 && growth * growth > ERRORS * ERRORS * variance;
}

static sl_status add(const comparing *c, sl_slow slow) {
    sl_comparison *out = c->out;
    SL_TRY(sl_grow(&out->slow, &out->room, out->count + 1, sizeof *out->slow));
    out->slow[out->count++] = slow;
    return SL_OK;
}

/* A device: its ops of each row against what they take when healthy. */
typedef struct device {
    int known;
    double now, raw, usual, variance; /* times what is healthy */
    double healthy, excess;           /* ns */
} device;

/* All its ops of a row in terms of healthy ones, and as they were; 0: none was measured. */
static double row_of(const comparing *c, int replica, int rank, int row, double *raw) {
    const sl_baseline *b = sl_history_baseline(c->s, replica);
    const sl_measured *m = sl_history_row(c->s, row)->replica[replica];
    double now = 0, healthy = 0, as_it_was = 0;
    for (int stage = 0; m && stage < m->problem.stages; stage++)
        for (int kind = 0; kind < SL_OP_KINDS && sl_problem_rank(&m->problem, stage) == rank; kind++) {
            int at = kind * m->problem.stages + stage;
            sl_norm n = norm_of(b->op ? &b->op[at] : NULL, b, b->same ? &b->same->op[at] : NULL);
            if (!m->op[at].count || n.rows < rows_needed(c) || !(n.time > 0))
                continue;
            now += sl_norm_time(&n, m->op[at].time, m->op[at].work);
            as_it_was += m->op[at].time;
            healthy += n.time;
        }
    *raw = healthy > 0 ? as_it_was / healthy : 0;
    return healthy > 0 ? now / healthy : 0;
}

/* What is usual of its ops, and how many there are in an iteration: by the last row in which each was seen.
 */
static void describe_device(const comparing *c, int replica, int rank, int values, double *sum, int *kinds,
                            device *d) {
    const sl_baseline *b = sl_history_baseline(c->s, replica);
    const sl_problem *shape = sl_history_healthy(c->s, replica);
    double usual = 0, variance = 0, ops = 0;
    for (int stage = 0; stage < shape->stages; stage++)
        for (int kind = 0; kind < SL_OP_KINDS && sl_problem_rank(shape, stage) == rank; kind++) {
            int at = kind * shape->stages + stage, seen = 0;
            sl_norm n = norm_of(b->op ? &b->op[at] : NULL, b, b->same ? &b->same->op[at] : NULL);
            for (int i = c->count - 1; i >= 0 && !seen; i--) {
                const sl_measured *m = sl_history_row(c->s, c->rows[i])->replica[replica];
                seen = m ? m->op[at].count : 0;
            }
            if (!seen || n.rows < rows_needed(c))
                continue;
            d->healthy += n.time;
            usual += n.usual;
            variance += variance_of(&n, values);
            ops += seen * n.time;
            *sum += n.time;
            ++*kinds;
        }
    d->usual = d->healthy > 0 ? usual / d->healthy : 1;
    d->variance = d->healthy > 0 ? variance / d->healthy / d->healthy : 0;
    d->excess = ops * (d->now - 1);
}

/* What was given of a replica in the rows at hand; NULL: always what is healthy, or nothing. */
static const sl_problem *what_differs(const comparing *c, int replica) {
    const sl_baseline *b = sl_history_baseline(c->s, replica);
    const sl_problem *shape = NULL;
    int differs = 0;
    for (int i = 0; i < c->count; i++) {
        const sl_measured *m = sl_history_row(c->s, c->rows[i])->replica[replica];
        if (!m)
            continue;
        differs |= m != b->same;
        shape = &m->problem;
    }
    return differs && (b->same || b->op) ? shape : NULL;
}

/* Replicas of a simulation that are alike are looked at once. */
static int is_as_before(const comparing *c, int replica) {
    return replica > 0 && sl_history_baseline(c->s, replica) == sl_history_baseline(c->s, replica - 1) &&
           sl_history_alike(c->s, c->rows, c->count, replica, replica - 1);
}

static int is_slow(const device *d, int suspected) {
    double share = suspected ? SL_STILL_SLOW : 1, growth = d->now - 1;
    return d->known && growth > share * (SL_SLOW_LEAST - 1) && growth * d->healthy > share * OPS_LEAST &&
           (suspected || (d->now > d->usual && beyond_noise(growth, d->variance)));
}

static int is_suspected(const sl_history *s, int replica, int from, int to) {
    for (int i = 0; i < s->suspected_links; i++)
        if (s->suspected_link[i].replica == replica && s->suspected_link[i].from == from &&
            s->suspected_link[i].to == to)
            return 1;
    return 0;
}

/* By how much known work says that its ops take longer than usual; 1: as usual, or nobody knows. */
static double load_of_device(const device *d) {
    return d->known && d->now > 0 ? d->raw / d->now : 1;
}

/* Which stages have got more work than the others; all together that is load. */
static sl_status find_stages(comparing *c, const device *devices) {
    double least = INFINITY, most = 0;
    for (int i = 0; i < c->kinds * c->ranks; i++)
        if (devices[i].known) {
            least = fmin(least, load_of_device(&devices[i]));
            most = fmax(most, load_of_device(&devices[i]));
        }
    if (!isfinite(least) || (least == 1 && most == 1))
        return SL_OK;
    c->out->load = least;
    for (int i = 0; i < c->kinds * c->ranks; i++) {
        const device *d = &devices[i];
        double grown = (load_of_device(d) / fmax(1, least) - 1) * d->healthy;
        if (d->known && load_of_device(d) > SL_SLOW_LEAST * fmax(1, least) && grown > OPS_LEAST)
            SL_TRY(add(c, (sl_slow){.kind = SL_SLOW_STAGE,
                                    .replica = c->first[i / c->ranks],
                                    .rank = i % c->ranks,
                                    .from = -1,
                                    .to = -1,
                                    .stage = -1,
                                    .now = d->healthy + grown,
                                    .healthy = d->healthy,
                                    .excess = grown}));
    }
    return SL_OK;
}

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static double known_of(const comparing *c, int at) {
    return c->s->suspected[at] > 1 ? (double)c->s->suspected[at] : 1;
}

static double middle_of(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    return values[(count - 1) / 2];
}

/* What devices have in common in a row, beyond what is known of each: load that nobody has told of. Within a
 * replica, which all microbatches of it pass through, what half of them show; of replicas of one rank what
 * all show. A row may be from before a device became slow or after: what is known of it counts where that is
 * nearer to the others. 1: nothing; 0: too few were measured. Values of one row, by device: 0 where it was
 * not. */
static double common_of(const comparing *c, const double *value, int devices, int first, double *room) {
    int count = 0, well = 0;
    for (int i = 0; i < devices; i++) {
        count += value[i] > 0;
        if (value[i] > 0 && known_of(c, first + i) <= 1)
            room[well++] = value[i];
    }
    if (count < 2)
        return devices < 2 ? 1 : 0;
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
    double common = middle_of(room, count);
    return fmax(1, c->ranks > 1 ? common : room[0]);
}

/* Replicas of a simulation that are alike are looked at once. */
static void find_kinds(comparing *c) {
    for (int r = 0; r < c->s->replicas; r++) {
        c->kind[r] = -1;
        if (what_differs(c, r) && is_as_before(c, r)) {
            c->kind[r] = c->kind[r - 1];
        } else if (what_differs(c, r)) {
            c->first[c->kinds] = r;
            c->kind[r] = c->kinds++;
        }
    }
}

/* How many times its usual work all ops of a replica had in a row; 0: not known of each. */
static double work_of(const comparing *c, int replica, int row) {
    const sl_baseline *b = sl_history_baseline(c->s, replica);
    const sl_measured *m = sl_history_row(c->s, row)->replica[replica];
    double work = 0, usual = 0;
    for (int at = 0; m && b->op && at < SL_OP_KINDS * m->problem.stages; at++) {
        const sl_norm *n = &b->op[at];
        if (!m->op[at].count || n->rows < rows_needed(c))
            continue;
        if (m->op[at].worked < m->op[at].count || !(n->work > 0))
            return 0;
        work += m->op[at].work;
        usual += n->work;
    }
    return usual > 0 ? work / usual : 0;
}

/* Where work is known, what all devices take longer is load only as far as work has grown; beyond, they are
 * slow. */
static void limit_common(const comparing *c) {
    for (int i = 0; i < c->kinds * c->count; i++) {
        double work = c->common[i] > 1 ? work_of(c, c->first[i / c->count], c->rows[i % c->count]) : 0;
        if (work > 0 && c->common[i] > NO_LOAD * fmax(1, work))
            c->common[i] = 1;
    }
}

/* Replicas of one rank, by row. */
static void find_common_of_all(const comparing *c, const double *value, double *room) {
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

static device measure_device(const comparing *c, const double *value, const double *raw, int kind, int rank,
                             double *sum, int *kinds) {
    latest l = {.most = c->most};
    device d = {0};
    for (int i = c->count - 1, more = 1; i >= 0 && more; i--) {
        int at = (kind * c->count + i) * c->ranks + rank;
        double common = c->common[kind * c->count + i];
        if (value[at] > 0 && common > 0)
            more = take(&l, value[at] / common, raw[at] / common);
    }
    if (l.count < rows_wanted(c))
        return d;
    d.known = 1;
    d.now = level_of(c, l.value + SL_ROWS - l.count, l.count, 0);
    d.raw = level_of(c, l.raw + SL_ROWS - l.count, l.count, 0);
    describe_device(c, c->first[kind], rank, l.count, sum, kinds, &d);
    return d;
}

/* devices [kinds * ranks]; value, raw [kinds * count * ranks]; room [2 * replicas + ranks]. */
static sl_status find_devices(comparing *c, device *devices, double *value, double *raw, double *room) {
    sl_comparison *out = c->out;
    double sum = 0;
    int ops = 0, ranks = c->ranks;
    for (int i = 0; i < c->kinds * c->count * ranks; i++)
        value[i] =
            row_of(c, c->first[i / ranks / c->count], i % ranks, c->rows[i / ranks % c->count], &raw[i]);
    for (int i = 0; i < c->kinds * c->count && ranks > 1; i++)
        c->common[i] = common_of(c, value + i * ranks, ranks, c->first[i / c->count] * ranks, room);
    if (ranks == 1)
        find_common_of_all(c, value, room);
    limit_common(c);
    for (int i = 0; i < c->kinds * ranks; i++)
        devices[i] = measure_device(c, value, raw, i / ranks, i % ranks, &sum, &ops);
    for (int i = 0; i < c->s->replicas * ranks; i++) {
        int kind = c->kind[i / ranks];
        if (kind < 0) {
            out->devices += sl_history_baseline(c->s, i / ranks)->same != NULL;
            continue;
        }
        const device *d = &devices[kind * ranks + i % ranks];
        out->devices += d->known;
        if (!is_slow(d, c->s->suspected[i] > 0))
            continue;
        out->slow_devices++;
        SL_TRY(add(c, (sl_slow){.kind = SL_SLOW_DEVICE,
                                .replica = i / ranks,
                                .rank = i % ranks,
                                .from = -1,
                                .to = -1,
                                .stage = -1,
                                .now = d->now * d->healthy,
                                .healthy = d->healthy,
                                .excess = d->excess}));
    }
    out->op = ops ? sum / ops : 0;
    return SL_OK;
}

static int latest_of(const comparing *c) {
    return c->count > c->most ? c->count - c->most : 0;
}

/* What all devices of the job have in common, the median over the rows. */
static double common_of_job(const comparing *c) {
    double values[SL_ROWS];
    int found = 0;
    for (int r = 0; r < c->s->replicas; r++)
        if (c->kind[r] < 0 && sl_history_baseline(c->s, r)->same)
            return 1;
    for (int i = latest_of(c); i < c->count; i++) {
        double least = INFINITY;
        for (int k = 0; k < c->kinds; k++)
            if (c->common[k * c->count + i] > 0)
                least = fmin(least, c->common[k * c->count + i]);
        if (isfinite(least))
            values[found++] = least;
    }
    return found ? sl_median_of_numbers(values, found) : 1;
}

/* The least delay that counts, whatever clocks say. */
static double least_noticed(const comparing *c) {
    return fmax(OP_SHARE * c->out->op, LEAST);
}

static double least_delay(const comparing *c) {
    return fmax(least_noticed(c), 2 * c->clock_error);
}

/* A direction is slow by itself; or clocks may differ by more than it grew, and there and back together are.
 */
static int is_link_slow(const comparing *c, int replica, int ranks, int at, const pair *l) {
    int from = at / ranks, to = at % ranks, suspected = is_suspected(c->s, replica, from, to);
    double share = suspected ? SL_STILL_SLOW : 1, growth = l->now - l->healthy;
    if (!l->known)
        return 0;
    int slow = growth > share * least_delay(c) && growth > share * (SL_SLOW_LEAST - 1) * l->healthy &&
               (suspected || (l->now > l->usual && beyond_noise(growth, l->variance)));
    if (growth > 2 * c->clock_error || !(c->clock_error > 0))
        return slow;
    pair round = compare_round(c, replica, at, to * ranks + from);
    double more = round.now - round.healthy, least = 2 * least_noticed(c);
    if (!round.known)
        return slow;
    return growth >= 0.5 * more && more > (suspected ? share * least : fmax(least, least_delay(c))) &&
           more > share * (SL_SLOW_LEAST - 1) * round.healthy &&
           (suspected || (round.now > round.usual && beyond_noise(more, round.variance)));
}

static sl_status find_links(comparing *c) {
    sl_comparison *out = c->out;
    int known = 0, slow = 0;
    for (int r = 0; r < c->s->replicas; r++) {
        const sl_problem *p = what_differs(c, r);
        const sl_measured *same = sl_history_baseline(c->s, r)->same;
        if (!p && same)
            out->links += 2 * (same->problem.ranks - 1);
        if (p && !slow && is_as_before(c, r)) {
            out->links += known;
            continue;
        }
        known = -out->links;
        slow = -out->slow_links;
        for (int at = 0; p && at < p->ranks * p->ranks; at++) {
            pair l = compare_link(c, r, at);
            out->links += l.known;
            if (!is_link_slow(c, r, p->ranks, at, &l))
                continue;
            out->slow_links++;
            SL_TRY(add(c, (sl_slow){.kind = SL_SLOW_LINK,
                                    .replica = r,
                                    .rank = -1,
                                    .from = at / p->ranks,
                                    .to = at % p->ranks,
                                    .stage = -1,
                                    .now = l.now,
                                    .healthy = l.healthy,
                                    .excess = l.count * (l.now - l.healthy)}));
        }
        known += out->links;
        slow += out->slow_links;
    }
    return SL_OK;
}

/* All replicas of a sum wait for the same; the one that shows most of it tells. */
static sl_status find_sums(comparing *c, int stages) {
    for (int stage = 0; stage < stages; stage++) {
        pair worst = {0};
        for (int r = 0; r < c->s->replicas; r++) {
            pair sum = what_differs(c, r) && !is_as_before(c, r) ? compare_sum(c, r, stage) : (pair){0};
            if (sum.known && (!worst.known || sum.now - sum.healthy > worst.now - worst.healthy))
                worst = sum;
        }
        double growth = worst.now - worst.healthy;
        if (!worst.known || growth <= least_delay(c) || worst.now <= SL_SLOW_LEAST * worst.healthy ||
            worst.now <= worst.usual || !beyond_noise(growth, worst.variance))
            continue;
        SL_TRY(add(c, (sl_slow){.kind = SL_SLOW_SUM,
                                .replica = -1,
                                .rank = -1,
                                .from = -1,
                                .to = -1,
                                .stage = stage,
                                .now = worst.now,
                                .healthy = worst.healthy,
                                .excess = growth}));
    }
    return SL_OK;
}

/* What an iteration's known work asks for more than usual, the median over the rows. */
static double load_of(const comparing *c) {
    const sl_norm *n = &c->s->iteration;
    double values[SL_ROWS];
    int found = 0;
    for (int i = latest_of(c); i < c->count; i++) {
        const sl_row *row = sl_history_row(c->s, c->rows[i]);
        if (row->work > 0 && n->work > 0)
            values[found++] = row->work / n->work;
    }
    return found ? sl_median_of_numbers(values, found) : 0;
}

static sl_status compare_kinds(comparing *c, int stages) {
    size_t kinds = (size_t)c->kinds, ranks = (size_t)c->ranks, count = (size_t)c->count,
           cells = kinds * count * ranks;
    device *devices;
    double *numbers = NULL;
    SL_TRY(sl_alloc(&devices, kinds * ranks, sizeof *devices));
    sl_status status =
        sl_alloc(&numbers, 2 * cells + kinds * count + 2 * (size_t)c->s->replicas + ranks, sizeof *numbers);
    if (status == SL_OK) {
        c->common = numbers + 2 * cells;
        status = find_devices(c, devices, numbers, numbers + cells, c->common + kinds * count);
    }
    if (status == SL_OK) {
        c->out->common = common_of_job(c);
        status = find_links(c);
    }
    if (status == SL_OK && c->s->replicas > 1)
        status = find_sums(c, stages);
    if (status == SL_OK)
        status = find_stages(c, devices);
    sl_free(numbers);
    sl_free(devices);
    return status;
}

sl_status sl_compare(sl_history *s, const int *rows, int count, int lately, sl_comparison *out) {
    comparing c = {
        .s = s, .rows = rows, .count = count, .lately = lately, .most = lately ? lately : count, .out = out};
    const sl_problem *shape = NULL;
    sl_slow *slow = out->slow;
    size_t room = out->room, replicas = (size_t)s->replicas;
    *out = (sl_comparison){.slow = slow, .room = room, .common = 1};
    for (int r = 0; r < s->replicas && !shape; r++)
        shape = sl_history_healthy(s, r);
    if (!shape || !count)
        return SL_OK;
    for (int i = 0; i < count; i++)
        c.clock_error = fmax(c.clock_error, (double)sl_history_row(s, rows[i])->clock_error);
    out->load = load_of(&c);
    c.ranks = shape->ranks;
    SL_TRY(sl_alloc(&c.kind, 2 * replicas, sizeof *c.kind));
    c.first = c.kind + replicas;
    find_kinds(&c);
    sl_status status = compare_kinds(&c, shape->stages);
    sl_free(c.kind);
    return status;
}

const sl_slow *sl_comparison_device(const sl_comparison *c, int replica, int rank) {
    for (size_t i = 0; i < c->count; i++)
        if (c->slow[i].kind == SL_SLOW_DEVICE && c->slow[i].replica == replica && c->slow[i].rank == rank)
            return &c->slow[i];
    return NULL;
}

const sl_slow *sl_comparison_link(const sl_comparison *c, int replica, int from, int to) {
    for (size_t i = 0; i < c->count; i++)
        if (c->slow[i].kind == SL_SLOW_LINK && c->slow[i].replica == replica && c->slow[i].from == from &&
            c->slow[i].to == to)
            return &c->slow[i];
    return NULL;
}
