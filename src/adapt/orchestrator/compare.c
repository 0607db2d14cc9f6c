#include "adapt/orchestrator/compare.h"
#include "base/median.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OP_SHARE 0.1             /* of a typical op: the least delay of a link that counts */
#define LEAST (0.2 * SL_MS)      /* what threads that wake late add to a message */
#define OPS_LEAST (0.3 * SL_MS)  /* and to the ops of a microbatch */
#define ERRORS 4.0               /* standard errors of the difference that a growth must exceed */

/* Of one entry: over the rows at hand, and when healthy. */
typedef struct pair {
    int known;
    double now, raw, healthy, usual, variance; /* of usual work; as it was; variance of the difference */
    double count;                         /* of the last row */
} pair;

typedef struct comparing {
    sl_history *s;
    const int *rows;
    int count, lately;
    sl_comparison *out;
    double clock_error;
    double *common; /* [replicas] what all devices of each take longer; then room for [replicas * ranks] */
    int ranks;
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

/* The level over `values`, in the order of rows: the median, or what lately it has become; of few rows the least, for one
 * may be a spike. */
static double level_of(const comparing *c, double *values, int count) {
    double recent[3], sorted[SL_ROWS];
    memcpy(sorted, values, (size_t)count * sizeof *values);
    double usual = sl_median_of_numbers(sorted, count);
    if (!c->lately)
        return count <= SL_ROWS_HEALTHY_LEAST ? sorted[0] : usual;
    if (count <= 3)
        return usual;
    memcpy(recent, values + count - 3, sizeof recent);
    double now = sl_median_of_numbers(recent, 3), low = fmin(usual, now), high = fmax(usual, now);
    return high - low > OPS_LEAST && high - low > low / 2 ? now : usual;
}

static pair finish(const comparing *c, const sl_norm *n, double *values, double *raw, int count, double last) {
    int few = c->s->hold < SL_ROWS_HEALTHY_LEAST ? c->s->hold : SL_ROWS_HEALTHY_LEAST;
    if (!count || (c->lately && count < few) || n->rows < (few < SL_ROWS_HEALTHY_LEAST ? 1 : few))
        return (pair){0};
    return (pair){.known = 1,
                  .now = level_of(c, values, count),
                  .raw = level_of(c, raw, count),
                  .healthy = n->time,
                  .usual = n->usual,
                  .variance = 1.57 * n->spread * n->spread * (1.0 / count + 1.0 / n->rows),
                  .count = last};
}

static pair compare_op(const comparing *c, int replica, int at) {
    const sl_baseline *b = sl_history_baseline(c->s, replica);
    sl_norm n = norm_of(b->op ? &b->op[at] : NULL, b, b->same ? &b->same->op[at] : NULL);
    double values[SL_ROWS], raw[SL_ROWS], last = 0;
    int found = 0;
    for (int i = 0; i < c->count; i++) {
        const sl_measured *m = sl_history_row(c->s, c->rows[i])->replica[replica];
        if (!m || !m->op[at].count)
            continue;
        raw[found] = m->op[at].time;
        values[found++] = sl_norm_time(&n, m->op[at].time, m->op[at].work);
        last = m->op[at].count;
    }
    return finish(c, &n, values, raw, found, last);
}

static pair compare_link(const comparing *c, int replica, int at) {
    const sl_baseline *b = sl_history_baseline(c->s, replica);
    sl_norm n = norm_of(b->link ? &b->link[at] : NULL, b, b->same ? &b->same->link[at] : NULL);
    double values[SL_ROWS], raw[SL_ROWS], last = 0;
    int found = 0;
    for (int i = 0; i < c->count; i++) {
        const sl_measured *m = sl_history_row(c->s, c->rows[i])->replica[replica];
        if (!m || !m->link[at].count)
            continue;
        raw[found] = m->link[at].time;
        values[found++] = sl_norm_time(&n, m->link[at].time, m->link[at].work);
        last = m->link[at].count;
    }
    return finish(c, &n, values, raw, found, last);
}

static pair compare_sum(const comparing *c, int replica, int stage) {
    const sl_baseline *b = sl_history_baseline(c->s, replica);
    sl_level same = {.count = b->same ? b->same->summed[stage] : 0,
                     .time = b->same ? (double)b->same->problem.reduce[stage] : 0};
    sl_norm n = norm_of(b->sum ? &b->sum[stage] : NULL, b, &same);
    double values[SL_ROWS];
    int found = 0;
    for (int i = 0; i < c->count; i++) {
        const sl_measured *m = sl_history_row(c->s, c->rows[i])->replica[replica];
        if (m && m->summed[stage])
            values[found++] = (double)m->problem.reduce[stage];
    }
    return finish(c, &n, values, values, found, 1);
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

/* A device: one op of each kind that ran in both, together. */
typedef struct device {
    int known;
    double now, raw, healthy, usual, variance, excess;
} device;

static device measure_device(const comparing *c, const sl_problem *p, int replica, int rank, double *sum, int *kinds) {
    device d = {0};
    for (int stage = 0; stage < p->stages; stage++)
        for (int kind = 0; kind < SL_OP_KINDS && sl_problem_rank(p, stage) == rank; kind++) {
            pair op = compare_op(c, replica, kind * p->stages + stage);
            if (!op.known)
                continue;
            d.known = 1;
            d.now += op.now;
            d.raw += op.raw;
            d.healthy += op.healthy;
            d.usual += op.usual;
            d.variance += op.variance;
            d.excess += op.count * (op.now - op.healthy);
            *sum += op.healthy;
            ++*kinds;
        }
    return d;
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

static int is_slow(const device *d, double common, int suspected) {
    double now = d->now / common, share = suspected ? SL_STILL_SLOW : 1, growth = now - d->healthy;
    return d->known && growth > share * (SL_SLOW_LEAST - 1) * d->healthy && growth > share * OPS_LEAST &&
           (suspected || (now > d->usual && beyond_noise(growth, d->variance)));
}

static int is_suspected(const sl_history *s, int replica, int from, int to) {
    for (int i = 0; i < s->suspected_links; i++)
        if (s->suspected_link[i].replica == replica && s->suspected_link[i].from == from && s->suspected_link[i].to == to)
            return 1;
    return 0;
}

/* By how much known work says that its ops take longer than usual; 1: as usual, or nobody knows. */
static double load_of_device(const device *d) {
    return d->known && d->now > 0 ? d->raw / d->now : 1;
}

/* Which stages have got more work than the others; all together that is load. */
static sl_status find_stages(comparing *c, int ranks, const device *devices) {
    double least = INFINITY, most = 0;
    for (int i = 0; i < c->s->replicas * ranks; i++)
        if (devices[i].known) {
            least = fmin(least, load_of_device(&devices[i]));
            most = fmax(most, load_of_device(&devices[i]));
        }
    if (!isfinite(least) || (least == 1 && most == 1))
        return SL_OK;
    c->out->load = least;
    for (int i = 0; i < c->s->replicas * ranks; i++) {
        const device *d = &devices[i];
        double grown = d->raw / fmax(1, least) - d->healthy;
        if (d->known && load_of_device(d) > SL_SLOW_LEAST * fmax(1, least) && grown > OPS_LEAST)
            SL_TRY(add(c, (sl_slow){.kind = SL_SLOW_STAGE,
                                    .replica = i / ranks,
                                    .rank = i % ranks,
                                    .from = -1,
                                    .to = -1,
                                    .stage = -1,
                                    .now = d->raw,
                                    .healthy = d->healthy,
                                    .excess = grown}));
    }
    return SL_OK;
}

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

/* What devices have in common, beyond what is known of each: load that nobody has told of. Within a replica, which all
 * microbatches of it pass through, what half of them show; of replicas of one rank what all show. 1: nothing. */
static double common_of(const comparing *c, const device *devices, int first, int end, double *room) {
    int count = 0;
    for (int i = first; i < end; i++)
        if (devices[i].known && devices[i].healthy > 0) {
            double known = c->s->suspected[i] > 1 ? (double)c->s->suspected[i] : 1;
            room[count++] = devices[i].now / devices[i].healthy / known;
        }
    if (count < 2)
        return 1;
    qsort(room, (size_t)count, sizeof *room, ascending);
    return fmax(1, c->ranks > 1 ? room[(count - 1) / 2] : room[0]);
}

/* `devices` [replicas * ranks]. */
static sl_status find_devices(comparing *c, int ranks, device *devices) {
    sl_comparison *out = c->out;
    double sum = 0, *room = c->common + c->s->replicas;
    int kinds = 0, replicas = c->s->replicas;
    for (int r = 0; r < replicas; r++) {
        const sl_problem *p = what_differs(c, r);
        if (!p && sl_history_baseline(c->s, r)->same) {
            out->devices += ranks;
            for (int rank = 0; rank < ranks; rank++)
                devices[r * ranks + rank] = (device){.known = 1, .now = 1, .raw = 1, .healthy = 1, .usual = 1};
        }
        int again = is_as_before(c, r);
        for (int rank = 0; p && rank < p->ranks; rank++) {
            device *d = &devices[r * ranks + rank];
            *d = again ? devices[(r - 1) * ranks + rank] : measure_device(c, p, r, rank, &sum, &kinds);
            out->devices += d->known;
        }
    }
    out->op = kinds ? sum / kinds : 0;
    out->common = common_of(c, devices, 0, replicas * ranks, room);
    for (int i = 0; i < replicas * ranks; i++) {
        const device *d = &devices[i];
        double common = ranks > 1 ? common_of(c, devices, i - i % ranks, i - i % ranks + ranks, room) : out->common;
        if (i % ranks == 0)
            c->common[i / ranks] = common;
        if (!is_slow(d, common, c->s->suspected[i] > 0))
            continue;
        out->slow_devices++;
        SL_TRY(add(c, (sl_slow){.kind = SL_SLOW_DEVICE,
                                .replica = i / ranks,
                                .rank = i % ranks,
                                .from = -1,
                                .to = -1,
                                .stage = -1,
                                .now = d->now / common,
                                .healthy = d->healthy,
                                .excess = d->excess}));
    }
    return SL_OK;
}

static double least_delay(const comparing *c) {
    return fmax(fmax(OP_SHARE * c->out->op, LEAST), 2 * c->clock_error);
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
            l.now /= c->common[r]; /* longer microbatches, longer messages */
            double growth = l.now - l.healthy;
            out->links += l.known;
            if (!l.known || growth <= SL_STILL_SLOW * least_delay(c) ||
                growth <= SL_STILL_SLOW * (SL_SLOW_LEAST - 1) * l.healthy)
                continue;
            int surely = growth > least_delay(c) && l.now > SL_SLOW_LEAST * l.healthy && l.now > l.usual &&
                         beyond_noise(growth, l.variance);
            if (!surely && !is_suspected(c->s, r, at / p->ranks, at % p->ranks))
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
                                    .excess = l.count * growth}));
        }
        known += out->links;
        slow += out->slow_links;
    }
    if (out->links > 3 && out->slow_links == out->links) /* what they share, or longer messages; no link */
        out->count -= (size_t)out->slow_links;
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
    for (int i = 0; i < c->count; i++) {
        const sl_row *row = sl_history_row(c->s, c->rows[i]);
        if (row->work > 0 && n->work > 0)
            values[found++] = row->work / n->work;
    }
    return found ? sl_median_of_numbers(values, found) : 0;
}

sl_status sl_compare(sl_history *s, const int *rows, int count, int lately, sl_comparison *out) {
    comparing c = {.s = s, .rows = rows, .count = count, .lately = lately, .out = out};
    const sl_problem *shape = NULL;
    device *devices;
    sl_slow *slow = out->slow;
    size_t room = out->room;
    *out = (sl_comparison){.slow = slow, .room = room, .common = 1};
    for (int r = 0; r < s->replicas && !shape; r++)
        shape = sl_history_healthy(s, r);
    if (!shape || !count)
        return SL_OK;
    for (int i = 0; i < count; i++)
        c.clock_error = fmax(c.clock_error, (double)sl_history_row(s, rows[i])->clock_error);
    out->load = load_of(&c);
    SL_TRY(sl_alloc(&devices, (size_t)s->replicas * (size_t)shape->ranks, sizeof *devices));
    sl_status status = sl_alloc(&c.common, (size_t)s->replicas * (1 + (size_t)shape->ranks), sizeof *c.common);
    c.ranks = shape->ranks;
    if (status == SL_OK)
        status = find_devices(&c, shape->ranks, devices);
    if (status == SL_OK)
        status = find_links(&c);
    if (status == SL_OK && s->replicas > 1)
        status = find_sums(&c, shape->stages);
    if (status == SL_OK)
        status = find_stages(&c, shape->ranks, devices);
    sl_free(devices);
    sl_free(c.common);
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
