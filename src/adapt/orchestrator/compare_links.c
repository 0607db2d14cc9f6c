/* Links by the time of their messages, and sums over replicas by their own. */
#include "adapt/orchestrator/compare_inside.h"

#include <math.h>

#define OP_SHARE 0.1      /* of a typical op: the smallest delay that counts for a link */
#define MIN (0.2 * SL_MS) /* added to a message by threads that wake late */

/* Of one entry: over the given rows, and when healthy. */
typedef struct link_pair {
    int known;
    double now, healthy, usual, variance; /* for usual work; variance of the difference */
    double count;                         /* of the last row in which it was measured */
    double last;                          /* of the last row of all; 0: not measured there */
} link_pair;

static int is_suspected(const sl_history *s, int replica, int from, int to) {
    for (int i = 0; i < s->suspected_links; i++)
        if (s->suspected_link[i].replica == replica && s->suspected_link[i].from == from &&
            s->suspected_link[i].to == to)
            return 1;
    return 0;
}

static sl_usual norm_of(const sl_comparing *c, int replica, int at) {
    const sl_baseline *b = sl_history_baseline(c->s, replica);
    return sl_comparing_norm(b->link ? &b->link[at] : NULL, b, b->same ? &b->same->link[at] : NULL);
}

/* By how much load stretches messages in a row if their work is unknown: as ops, unless all pairs of ranks
 * without a suspicion show less, there and back together, which clocks do not change. */
static double stretch_of(const sl_comparing *c, int replica, int i) {
    double common = c->common[c->kind[replica] * c->count + i], most = 0;
    const sl_measured *m = sl_history_row(c->s, c->rows[i])->replica[replica];
    for (int at = 0; m && common > 1 && at < c->ranks * c->ranks; at++) {
        int from = at / c->ranks, to = at % c->ranks, back = to * c->ranks + from;
        if (from >= to || !m->link[at].count || !m->link[back].count ||
            is_suspected(c->s, replica, from, to) || is_suspected(c->s, replica, to, from))
            continue;
        sl_usual n[2] = {norm_of(c, replica, at), norm_of(c, replica, back)};
        int needed = sl_comparing_rows_needed(c);
        if (n[0].rows >= needed && n[1].rows >= needed && n[0].time + n[1].time > 0)
            most = fmax(most, (m->link[at].time + m->link[back].time) / (n[0].time + n[1].time));
    }
    return common > 1 && most > 0 ? fmin(common, fmax(1, most)) : fmax(1, common);
}

/* A message's time in a row, for usual work. */
static double message_time(const sl_comparing *c, const sl_usual *n, const sl_level *message, int i) {
    if (n->work > 0 && message->work > 0)
        return sl_usual_time(n, message->time, message->work);
    return message->time / c->stretch[i];
}

static link_pair finish(const sl_comparing *c, const sl_usual *n, sl_latest *l, double last) {
    if (l->count < sl_comparing_rows_wanted(c) || n->rows < sl_comparing_rows_needed(c))
        return (link_pair){0};
    return (link_pair){.known = 1,
                       .now = sl_comparing_level(c, l->value + SL_ROWS - l->count, l->count, SL_OPS_MIN),
                       .healthy = n->time,
                       .usual = n->usual,
                       .variance = sl_usual_variance(n, l->count),
                       .count = last,
                       .last = c->lately ? l->last : l->value[SL_ROWS - 1]};
}

static link_pair compare_link(const sl_comparing *c, int replica, int at) {
    sl_usual n = norm_of(c, replica, at);
    sl_latest l = {.most = c->most};
    double last = 0;
    for (int i = c->count - 1, more = 1; i >= 0 && more; i--) {
        const sl_measured *m = sl_history_row(c->s, c->rows[i])->replica[replica];
        if (!m || !m->link[at].count)
            continue;
        last = last > 0 ? last : m->link[at].count;
        more = sl_latest_take(&l, i == c->count - 1, message_time(c, &n, &m->link[at], i), m->link[at].time);
    }
    return finish(c, &n, &l, last);
}

/* There and back in the same row: a clock difference cancels out. */
static link_pair compare_round(const sl_comparing *c, int replica, int there, int back) {
    const int ways[2] = {there, back};
    sl_usual n[2], round = {.rows = SL_HEALTHY_ROWS};
    sl_latest l = {.most = c->most};
    for (int way = 0; way < 2; way++) {
        n[way] = norm_of(c, replica, ways[way]);
        round.rows = n[way].rows < round.rows ? n[way].rows : round.rows;
        round.time += n[way].time;
        round.usual += n[way].usual;
        round.spread += n[way].spread;
    }
    for (int i = c->count - 1, more = 1; i >= 0 && more; i--) {
        const sl_measured *m = sl_history_row(c->s, c->rows[i])->replica[replica];
        double sum = 0;
        if (!m || !(m->link[there].time > 0) || !(m->link[back].time > 0))
            continue; /* a message that seems to arrive before it was sent proves nothing */
        for (int way = 0; way < 2; way++)
            sum += message_time(c, &n[way], &m->link[ways[way]], i);
        more = sl_latest_take(&l, i == c->count - 1, sum, 0);
    }
    return finish(c, &round, &l, 0);
}

static link_pair compare_sum(const sl_comparing *c, int replica, int stage) {
    const sl_baseline *b = sl_history_baseline(c->s, replica);
    sl_level same = {.count = b->same ? b->same->summed[stage] : 0,
                     .time = b->same ? (double)b->same->problem.reduce[stage] : 0};
    sl_usual n = sl_comparing_norm(b->sum ? &b->sum[stage] : NULL, b, &same);
    sl_latest l = {.most = c->most};
    for (int i = c->count - 1, more = 1; i >= 0 && more; i--) {
        const sl_measured *m = sl_history_row(c->s, c->rows[i])->replica[replica];
        if (m && m->summed[stage])
            more = sl_latest_take(&l, i == c->count - 1, (double)m->problem.reduce[stage],
                                  (double)m->problem.reduce[stage]);
    }
    return finish(c, &n, &l, 1);
}

/* The smallest delay that counts, whatever the clocks show. */
static double min_noticed(const sl_comparing *c) {
    return fmax(OP_SHARE * c->out->op, MIN);
}

static double min_delay(const sl_comparing *c) {
    return fmax(min_noticed(c), 2 * c->clock_error);
}

/* By its current time and the least growth that counts. */
static int is_later(double now, double healthy, double least, double share) {
    double growth = now - healthy;
    return growth > least && growth > share * (SL_SLOW_MIN - 1) * healthy;
}

static int shows_delay(const sl_comparing *c, const link_pair *l, int suspected, double least) {
    double share = suspected ? SL_STILL_SLOW : 1;
    return sl_comparing_both_show(c, suspected, is_later(l->now, l->healthy, least, share),
                                  is_later(l->last, l->healthy, least, share)) &&
           (suspected || (l->now > l->usual && sl_beyond_noise(l->now - l->healthy, l->variance)));
}

/* A direction is slow by itself; if clocks may differ by more than it grew, there and back together. */
static int is_link_slow(const sl_comparing *c, int replica, int ranks, int at, const link_pair *l) {
    int from = at / ranks, to = at % ranks, suspected = is_suspected(c->s, replica, from, to);
    double share = suspected ? SL_STILL_SLOW : 1, growth = l->now - l->healthy;
    if (!l->known)
        return 0;
    int slow = shows_delay(c, l, suspected, share * min_delay(c));
    if (growth > 2 * c->clock_error || !(c->clock_error > 0))
        return slow;
    link_pair round = compare_round(c, replica, at, to * ranks + from);
    double least = 2 * min_noticed(c);
    if (!round.known)
        return slow;
    return growth >= 0.5 * (round.now - round.healthy) && shows_delay(c, &round, suspected, share * least);
}

static int carries_messages(const sl_comparing *c, int replica, int at) {
    for (int i = 0; i < c->versions; i++) {
        const sl_measured *m = sl_history_row(c->s, c->distinct[i])->replica[replica];
        if (m && m->link[at].count)
            return 1;
    }
    return 0;
}

static sl_status find_links_of(sl_comparing *c, int replica) {
    sl_slowness *out = c->out;
    const sl_problem *p = sl_comparing_shape(c, replica);
    int ranks = c->ranks;
    for (int i = 0; i < c->count; i++)
        c->stretch[i] = stretch_of(c, replica, i);
    for (int at = 0; at < ranks * ranks; at++) {
        if (!carries_messages(c, replica, at))
            continue;
        link_pair l = compare_link(c, replica, at);
        out->links += l.known;
        if (!is_link_slow(c, replica, ranks, at, &l))
            continue;
        out->slow_links++;
        SL_TRY(
            sl_comparing_add(c, (sl_slow){.kind = SL_SLOW_LINK,
                                          .replica = replica,
                                          .rank = -1,
                                          .from = at / ranks,
                                          .to = at % ranks,
                                          .stage = -1,
                                          .now = l.now,
                                          .healthy = l.healthy,
                                          .excess = fmax(l.count, p->microbatches) * (l.now - l.healthy)}));
    }
    return SL_OK;
}

/* Of identical replicas without slow links, one is examined. */
sl_status sl_comparing_links(sl_comparing *c) {
    sl_slowness *out = c->out;
    int known = 0, slow = 0;
    out->links = c->well * 2 * (c->ranks - 1);
    for (int i = 0; i < c->differing; i++) {
        int replica = c->like[i];
        if (!slow && replica > c->first[c->kind[replica]]) {
            out->links += known;
            continue;
        }
        known = -out->links;
        slow = -out->slow_links;
        SL_TRY(find_links_of(c, replica));
        known += out->links;
        slow += out->slow_links;
    }
    return SL_OK;
}

/* All replicas of a sum wait for the same pair; the one that shows the most growth counts. */
sl_status sl_comparing_sums(sl_comparing *c, int stages) {
    for (int stage = 0; stage < stages; stage++) {
        link_pair worst = {0};
        for (int k = 0; k < c->kinds; k++) {
            link_pair sum = compare_sum(c, c->first[k], stage);
            if (sum.known && (!worst.known || sum.now - sum.healthy > worst.now - worst.healthy))
                worst = sum;
        }
        double growth = worst.now - worst.healthy;
        if (!worst.known || growth <= min_delay(c) || worst.now <= SL_SLOW_MIN * worst.healthy ||
            worst.now <= worst.usual || !sl_beyond_noise(growth, worst.variance))
            continue;
        SL_TRY(sl_comparing_add(c, (sl_slow){.kind = SL_SLOW_SUM,
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
