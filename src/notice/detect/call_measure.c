#include "notice/detect/call_measure.h"
#include "base/memory.h"
#include "base/numbers.h"

#include <math.h>

#define RELEVANT 0.02 /* of the window */
#define CERTAIN 2.0   /* standard errors */
enum { FEW = 3 };     /* this many occurrences, or groups of a kind, show nothing */

static int stands_out(const sl_call_measure *m, double error2, double span) {
    return m->ratio > SL_SUSPECT_MIN && m->excess > RELEVANT * span && m->excess > CERTAIN * sqrt(error2);
}

/* ---- computing ---- */

/* The gap's healthy time at these bytes: linear between the bytes seen, in proportion beyond them. Returns
 * its squared standard error, -1 if that gap was never seen. */
static double expected_gap(const sl_call_rank *healthy, const sl_call_gap *gap, double *expected) {
    const sl_call_gap *below = NULL, *above = NULL;
    size_t low = 0, high = healthy->gaps;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const sl_call_gap *g = &healthy->gap[middle];
        int before = g->before != gap->before ? g->before < gap->before
                     : g->after != gap->after ? g->after < gap->after
                                              : g->blurred < gap->blurred;
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    for (size_t i = low; i < healthy->gaps; i++) {
        const sl_call_gap *g = &healthy->gap[i];
        if (g->before != gap->before || g->after != gap->after || g->blurred != gap->blurred)
            break;
        if (g->bytes <= gap->bytes)
            below = g;
        if (g->bytes >= gap->bytes && !above)
            above = g;
    }
    if (!below && !above)
        return -1;
    double x = (double)gap->bytes, share = 0;
    const sl_call_gap *near = below ? below : above;
    *expected = sl_spread_mean(&near->time);
    if (below && above && above->bytes > below->bytes) {
        share = (x - (double)below->bytes) / ((double)above->bytes - (double)below->bytes);
        *expected += share * (sl_spread_mean(&above->time) - *expected);
    } else if (!above && below->bytes > 0) {
        *expected *= x / (double)below->bytes;
    }
    return sl_spread_error2(&near->time);
}

/* How much more the calls of a rank carry than when healthy; at least 1. */
static double growth(const sl_call_rank *now, const sl_call_rank *healthy) {
    double most = 1;
    for (size_t i = 0, j = 0; i < now->volumes && j < healthy->volumes;) {
        const sl_call_volume *x = &now->volume[i], *y = &healthy->volume[j];
        if (x->call == y->call) {
            double ratio = x->bytes / x->count / (y->bytes / y->count);
            most = ratio > most ? ratio : most;
        }
        i += x->call <= y->call;
        j += y->call <= x->call;
    }
    return most;
}

static sl_call_measure compare_rank(const sl_call_comparison *c, int r, int blurred) {
    const sl_call_rank *now = &c->now->rank[r], *healthy = &c->healthy->rank[r];
    sl_call_measure measure = {0}, *m = &measure;
    double error2 = 0, same = 1;
    for (size_t i = 0; i < now->gaps; i++) {
        const sl_call_gap *gap = &now->gap[i];
        double expected, n = (double)gap->time.count;
        double healthy_error2 = expected_gap(healthy, gap, &expected);
        if (healthy_error2 < 0 || gap->time.count < FEW || (gap->blurred && !blurred))
            continue;
        m->known = 1;
        m->now += n * sl_spread_mean(&gap->time);
        m->expected += n * expected;
        error2 += n * n * (sl_spread_error2(&gap->time) + healthy_error2);
    }
    same = growth(now, healthy);
    m->expected *= same > 1.05 ? same : 1;
    m->excess = m->now - m->expected;
    m->ratio = m->expected > 0 ? m->now / m->expected : m->now > 0 ? INFINITY : 1;
    m->slow = stands_out(m, error2, c->span);
    return measure;
}

/* Whether two ranks do the same work: the same calls with the same bytes, a collective together, and no
 * message of the program that could make one the stage after the other. */
static int same_work(const sl_call_profile *p, int a, int b) {
    if (p->rank[a].kind != p->rank[b].kind)
        return 0;
    int together = 0;
    for (size_t g = 0; g < p->groups; g++)
        together |= !p->group[g].message && p->group[g].size < p->ranks &&
                    sl_call_group_has(&p->group[g], a) && sl_call_group_has(&p->group[g], b);
    if (p->rank[a].messages || p->rank[b].messages)
        return together;
    for (size_t g = 0; g < p->groups && !together; g++)
        together = sl_call_group_has(&p->group[g], a) && sl_call_group_has(&p->group[g], b);
    return together;
}

/* Of all computing in the window: its standard error squared. Who has more to do now and then varies. */
static double computing_error2(const sl_call_rank *r, int blurred) {
    double error2 = 0;
    for (size_t i = 0; i < r->gaps; i++)
        if (blurred || !r->gap[i].blurred)
            error2 +=
                (double)(r->gap[i].time.count * r->gap[i].time.count) * sl_spread_error2(&r->gap[i].time);
    return error2;
}

/* The shares of the window in which other ranks compute: of those that do the same work, or of all. */
static int shares_of_others(const sl_call_profile *p, int r, int all, int blurred, double *share) {
    int count = 0;
    for (int o = 0; o < p->ranks; o++)
        if (o != r && p->rank[o].span > 0 && (all || same_work(p, r, o)))
            share[count++] = (p->rank[o].computing + (blurred ? p->rank[o].blurred : 0)) / p->rank[o].span;
    return count;
}

/* Without a healthy profile: compares with ranks that do the same work. A rank that always comes last but has
 * no such rank may simply have more to do. */
static sl_call_measure compare_peers(sl_call_comparison *c, int r, int blurred, double *share) {
    const sl_call_rank *mine = &c->now->rank[r];
    sl_call_measure measure = {0}, *m = &measure;
    int peers = shares_of_others(c->now, r, 0, blurred, share);
    if (mine->span <= 0)
        return measure;
    m->known = peers > 0;
    m->now = mine->computing + (blurred ? mine->blurred : 0);
    if (peers == 0) /* against all: only to report that it cannot be assessed */
        peers = shares_of_others(c->now, r, 1, blurred, share);
    m->expected = peers ? sl_median_of_numbers(share, peers) * mine->span : m->now;
    m->excess = m->now - m->expected;
    m->ratio = m->expected > 0 ? m->now / m->expected : 1;
    m->slow = stands_out(m, 2 * computing_error2(mine, blurred), c->span);
    if (m->slow && (!m->known || peers < 2)) { /* of two that differ, neither is the sl_call_measure */
        if (!blurred && (c->unmatched < 0 || m->excess > c->rank[c->unmatched].excess))
            c->unmatched = r;
        m->slow = 0;
    }
    return measure;
}

/* What is slow only if blurred gaps are counted may have waited in them. */
static sl_status compare_ranks(sl_call_comparison *c) {
    double *share;
    SL_TRY(sl_alloc(&share, (size_t)c->now->ranks, sizeof *share));
    for (int r = 0; r < c->now->ranks; r++) {
        c->rank[r] = c->healthy ? compare_rank(c, r, 0) : compare_peers(c, r, 0, share);
        sl_call_measure all = c->healthy ? compare_rank(c, r, 1) : compare_peers(c, r, 1, share);
        if (all.slow && !c->rank[r].slow)
            c->blurred = r;
    }
    sl_free(share);
    return SL_OK;
}

/* ---- transfers ---- */

static int same_kind(const sl_call_group *a, const sl_call_group *b) {
    return a->call == b->call && a->bytes == b->bytes && a->size == b->size;
}

/* The groups of a kind are adjacent except for their roots. */
static sl_status kind_median(const sl_call_profile *p, const sl_call_group *of, double *middle, int *count) {
    double *value;
    SL_TRY(sl_alloc(&value, p->groups, sizeof *value));
    *count = 0;
    for (size_t g = 0; g < p->groups; g++)
        if (same_kind(&p->group[g], of) && p->group[g].transfer.count >= FEW)
            value[(*count)++] = sl_spread_mean(&p->group[g].transfer);
    *middle = *count ? sl_median_of_numbers(value, *count) : 0;
    sl_free(value);
    return SL_OK;
}

/* Transfers of which not all may have been seen: most of them took no longer when healthy. */
static double max_exposed(const sl_spread *s) {
    double n = (double)s->count, mean = n > 0 ? s->sum / n : 0,
           variance = n > 0 ? s->squares / n - mean * mean : 0;
    return mean + 2 * sqrt(variance > 0 ? variance : 0);
}

/* The expected time of a transfer, and its squared standard error; nonzero if known. Complete transfers are
 * compared with complete ones: the rest of the others depends on arrival times. If there are none any more,
 * the minimum wait is compared. If there never were any, a transfer is late when it takes longer than the
 * healthy wait and longer than others of its kind. */
static sl_status expect_transfer(const sl_call_comparison *c, size_t at, double *expected, double *error2,
                                 int *known) {
    const sl_call_group *g = &c->now->group[at];
    const sl_call_group *before = c->healthy ? sl_call_group_find(c->healthy, g) : NULL;
    int kind;
    *error2 = 0;
    *known = 1;
    if (before && before->transfer.count >= FEW) {
        *expected = sl_spread_mean(&before->transfer);
        *error2 = sl_spread_error2(&before->transfer);
        return SL_OK;
    }
    SL_TRY(kind_median(before ? c->healthy : c->now, g, expected, &kind));
    if (before && before->exposed.count >= FEW) {
        double exposed = max_exposed(&before->exposed);
        *expected = kind >= FEW && *expected > exposed ? *expected : exposed;
    } else {
        *known = kind >= (c->healthy ? FEW : 2);
    }
    return SL_OK;
}

static sl_status compare_group(sl_call_comparison *c, size_t at) {
    const sl_call_group *g = &c->now->group[at];
    sl_call_measure *m = &c->group[at];
    int whole = g->transfer.count >= FEW;
    const sl_spread *now = whole ? &g->transfer : &g->exposed;
    double n = (double)now->count, error2;
    if (now->count < FEW || g->size < 2)
        return SL_OK;
    m->now = sl_spread_mean(now);
    SL_TRY(expect_transfer(c, at, &m->expected, &error2, &m->known));
    error2 = n * n * (error2 + sl_spread_error2(now));
    double rest = sl_spread_mean(&g->exposed), late = (double)g->exposed.count;
    if (whole && rest > m->expected) { /* these took at least that long */
        m->now = (n * m->now + late * rest) / (n + late);
        n += late;
    }
    m->excess = n * (m->now - m->expected);
    m->ratio = m->expected > 0 ? m->now / m->expected : m->now > 0 ? INFINITY : 1;
    m->slow = m->known && m->now - m->expected > 2 * c->clock_error && stands_out(m, error2, c->span);
    return SL_OK;
}

sl_status sl_call_measure_all(sl_call_comparison *c) {
    SL_TRY(sl_alloc(&c->rank, (size_t)c->now->ranks, sizeof *c->rank));
    SL_TRY(sl_alloc(&c->group, c->now->groups, sizeof *c->group));
    for (int r = 0; r < c->now->ranks; r++)
        c->span = c->now->rank[r].span > c->span ? c->now->rank[r].span : c->span;
    SL_TRY(compare_ranks(c));
    for (size_t g = 0; g < c->now->groups; g++)
        SL_TRY(compare_group(c, g));
    return SL_OK;
}
