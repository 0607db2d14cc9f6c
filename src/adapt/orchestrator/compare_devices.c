/* Devices by all kinds of their ops, and stages by the work of their devices. */
#include "adapt/orchestrator/compare_inside.h"

#include <math.h>
#include <string.h>

/* All ops of each rank in a row, relative to healthy ones and raw; 0: not measured. All three [ranks];
 * `healthy` is scratch. */
static void read_row(const sl_comparing *c, int replica, int row, double *value, double *raw,
                     double *healthy) {
    const sl_baseline *b = sl_history_baseline(c->s, replica);
    const sl_measured *m = sl_history_row(c->s, row)->replica[replica];
    for (int rank = 0; rank < c->ranks; rank++)
        value[rank] = raw[rank] = healthy[rank] = 0;
    for (int stage = 0; m && stage < m->problem.stages; stage++)
        for (int kind = 0, rank = sl_problem_rank(&m->problem, stage); kind < SL_OP_KINDS; kind++) {
            int at = kind * m->problem.stages + stage;
            sl_usual n = sl_comparing_norm(b->op ? &b->op[at] : NULL, b, b->same ? &b->same->op[at] : NULL);
            if (!m->op[at].count || n.rows < sl_comparing_rows_needed(c) || !(n.time > 0))
                continue;
            value[rank] += sl_usual_time(&n, m->op[at].time, m->op[at].work);
            raw[rank] += m->op[at].time;
            healthy[rank] += n.time;
        }
    for (int rank = 0; rank < c->ranks; rank++) {
        raw[rank] = healthy[rank] > 0 ? raw[rank] / healthy[rank] : 0;
        value[rank] = healthy[rank] > 0 ? value[rank] / healthy[rank] : 0;
    }
}

/* ns of all ops of a rank in an iteration if nothing is slow. */
static double all_ops(const sl_problem *p, int rank) {
    double sum = 0;
    for (int stage = 0; stage < p->stages; stage++)
        if (sl_problem_rank(p, stage) == rank)
            sum += (double)(p->time[SL_F][stage] + p->time[SL_B][stage]);
    return sum * p->microbatches / (p->placement == SL_BIDIRECTIONAL ? 2 : 1);
}

/* The usual time of its ops, and their number per iteration, from the last row in which each was seen.
 * Unmeasured ops of a slow device are assumed to be equally slow. */
static void describe_device(const sl_comparing *c, int replica, int rank, int values, double *sum, int *kinds,
                            sl_compared_device *d) {
    const sl_baseline *b = sl_history_baseline(c->s, replica);
    const sl_problem *shape = sl_history_healthy(c->s, replica);
    double usual = 0, variance = 0, ops = 0;
    for (int stage = 0; stage < shape->stages; stage++)
        for (int kind = 0; kind < SL_OP_KINDS && sl_problem_rank(shape, stage) == rank; kind++) {
            int at = kind * shape->stages + stage, seen = 0;
            sl_usual n = sl_comparing_norm(b->op ? &b->op[at] : NULL, b, b->same ? &b->same->op[at] : NULL);
            for (int i = c->count - 1; i >= 0 && !seen; i--) {
                const sl_measured *m = sl_history_row(c->s, c->rows[i])->replica[replica];
                seen = m ? m->op[at].count : 0;
            }
            if (!seen || n.rows < sl_comparing_rows_needed(c))
                continue;
            d->healthy += n.time;
            usual += n.usual;
            variance += sl_usual_variance(&n, values);
            ops += seen * n.time;
            *sum += n.time;
            ++*kinds;
        }
    d->usual = d->healthy > 0 ? usual / d->healthy : 1;
    d->variance = d->healthy > 0 ? variance / d->healthy / d->healthy : 0;
    d->excess = fmax(ops, all_ops(shape, rank)) * (d->now - 1);
}

static int exceeds(const sl_compared_device *d, double now, double share) {
    double growth = now - 1;
    return growth > share * (SL_SLOW_MIN - 1) && growth * d->healthy > share * SL_OPS_MIN;
}

static int is_slow(const sl_comparing *c, const sl_compared_device *d, int suspected) {
    double share = suspected ? SL_STILL_SLOW : 1;
    return d->known &&
           sl_comparing_both_show(c, suspected, exceeds(d, d->now, share), exceeds(d, d->last, share)) &&
           (suspected || (d->now > d->usual && sl_beyond_noise(d->now - 1, d->variance)));
}

static sl_compared_device measure_device(const sl_comparing *c, const double *value, const double *raw,
                                         int kind, int rank, double *sum, int *kinds) {
    sl_latest l = {.most = c->most};
    sl_compared_device d = {0};
    for (int i = c->count - 1, more = 1; i >= 0 && more; i--) {
        int at = (kind * c->count + i) * c->ranks + rank;
        double common = c->common[kind * c->count + i];
        if (value[at] > 0 && common > 0)
            more = sl_latest_take(&l, i == c->count - 1, value[at] / common, raw[at] / common);
    }
    if (l.count < sl_comparing_rows_wanted(c))
        return d;
    d.known = 1;
    d.last = c->lately ? l.last : l.value[SL_ROWS - 1];
    d.now = sl_comparing_level(c, l.value + SL_ROWS - l.count, l.count, 0);
    d.raw = sl_comparing_level(c, l.raw + SL_ROWS - l.count, l.count, 0);
    describe_device(c, c->first[kind], rank, l.count, sum, kinds, &d);
    return d;
}

static int is_same_version(const sl_comparing *c, int row, int other) {
    return sl_history_row(c->s, c->rows[row])->version == sl_history_row(c->s, c->rows[other])->version;
}

sl_status sl_comparing_devices(sl_comparing *c, sl_compared_device *devices, double *value, double *raw,
                               double *room) {
    sl_slowness *out = c->out;
    double sum = 0;
    int ops = 0, ranks = c->ranks;
    for (int i = 0; i < c->kinds * c->count; i++) {
        int row = i % c->count, at = i * ranks;
        size_t size = (size_t)ranks * sizeof *value;
        if (row > 0 && is_same_version(c, row, row - 1)) {
            memcpy(value + at, value + at - ranks, size);
            memcpy(raw + at, raw + at - ranks, size);
        } else {
            read_row(c, c->first[i / c->count], c->rows[row], value + at, raw + at, room);
        }
    }
    sl_comparing_common(c, value, room);
    for (int i = 0; i < c->kinds * ranks; i++)
        devices[i] = measure_device(c, value, raw, i / ranks, i % ranks, &sum, &ops);
    for (int i = 0; i < c->differing * ranks; i++) {
        int replica = c->like[i / ranks], rank = i % ranks, at = replica * ranks + rank;
        const sl_compared_device *d = &devices[c->kind[replica] * ranks + rank];
        out->devices += d->known;
        out->known[at] = (unsigned char)d->known;
        if (!is_slow(c, d, c->s->suspected[at] > 0))
            continue;
        out->slow_devices++;
        SL_TRY(sl_comparing_add(c, (sl_slow){.kind = SL_SLOW_DEVICE,
                                             .replica = replica,
                                             .rank = rank,
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

/* ---- stages ---- */

/* The extra time of its ops that known work explains, as a factor; 1: none, or unknown. */
static double load_of_device(const sl_compared_device *d) {
    return d->known && d->now > 0 ? d->raw / d->now : 1;
}

/* Whether a rank's work has grown relative to another's in the same rows, by more than it varies. */
static int is_sure_of_load(const sl_comparing *c, const double *value, const double *raw, int rank,
                           int other) {
    sl_sums more = {0};
    for (int i = 0; i < c->count * c->ranks; i += c->ranks) {
        if (value[i + rank] > 0 && value[i + other] > 0)
            sl_sums_add(&more, log(raw[i + rank] / value[i + rank] * value[i + other] / raw[i + other]));
    }
    double freedom = more.count - 1;
    return more.count >= SL_LOADS_MIN &&
           sl_errors_of_student(more.mean / sqrt(more.squares / freedom / more.count), freedom) >
               SL_LOADS_ERRORS;
}

sl_status sl_comparing_stages(sl_comparing *c, int kind, const sl_compared_device *devices,
                              const double *value, const double *raw) {
    double slowest = 0;
    int least = -1;
    for (int r = 0; r < c->ranks; r++) {
        slowest = fmax(slowest, devices[r].healthy);
        if (devices[r].known && (least < 0 || load_of_device(&devices[r]) < load_of_device(&devices[least])))
            least = r;
    }
    for (int r = 0; r < c->ranks && least >= 0; r++) {
        const sl_compared_device *d = &devices[r];
        double load = load_of_device(d) / load_of_device(&devices[least]);
        if (!d->known || load <= SL_SLOW_MIN || (load - 1) * d->healthy <= SL_OPS_MIN ||
            load * d->healthy <= SL_SLOW_MIN * slowest ||
            (!c->lately && !is_sure_of_load(c, value, raw, r, least)))
            continue;
        SL_TRY(sl_comparing_add(c, (sl_slow){.kind = SL_SLOW_STAGE,
                                             .replica = c->first[kind],
                                             .rank = r,
                                             .from = -1,
                                             .to = -1,
                                             .stage = -1,
                                             .now = load * d->healthy,
                                             .healthy = d->healthy,
                                             .excess = (load - 1) * d->healthy}));
    }
    return SL_OK;
}
