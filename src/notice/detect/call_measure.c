#include "notice/detect/call_measure.h"
#include "base/memory.h"
#include "base/numbers.h"

#include <math.h>
#include <stdlib.h>

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
    m->error = sqrt(error2);
    m->slow = stands_out(m, error2, c->span);
    return measure;
}

/* With whom a rank can be compared. */
typedef struct peers {
    size_t *first, *group; /* the groups of rank r: group[first[r]] to group[first[r + 1]] */
    struct sharer {
        double share; /* of its window, in which it computes */
        int rank;
    } * by_share; /* [sharers] ascending; ranks without a window are not among them */
    int sharers;
    int *together,
        *met; /* [ranks] of the rank last looked at: shares a collective of some ranks; any group */
} peers;

static int order_sharers(const void *a, const void *b) {
    const struct sharer *x = a, *y = b;
    return x->share != y->share ? (x->share < y->share ? -1 : 1) : x->rank - y->rank;
}

static void close_peers(peers *all) {
    SL_FREE(all->first, all->group, all->by_share, all->together, all->met);
}

static sl_status list_groups(const sl_call_profile *p, peers *all) {
    size_t ranks = (size_t)p->ranks;
    SL_TRY(sl_alloc(&all->first, ranks + 2, sizeof *all->first));
    for (size_t g = 0; g < p->groups; g++)
        for (int i = 0; i < p->group[g].size; i++)
            all->first[p->group[g].member[i] + 2]++;
    for (size_t r = 2; r < ranks + 2; r++)
        all->first[r] += all->first[r - 1];
    SL_TRY(sl_alloc(&all->group, all->first[ranks + 1], sizeof *all->group));
    for (size_t g = 0; g < p->groups; g++)
        for (int i = 0; i < p->group[g].size; i++)
            all->group[all->first[p->group[g].member[i] + 1]++] = g;
    return SL_OK;
}

static sl_status open_peers(const sl_call_profile *p, int blurred, peers *all) {
    SL_TRY(list_groups(p, all));
    SL_TRY(sl_alloc(&all->by_share, (size_t)p->ranks, sizeof *all->by_share));
    SL_TRY(sl_alloc(&all->together, (size_t)p->ranks, sizeof *all->together));
    SL_TRY(sl_alloc(&all->met, (size_t)p->ranks, sizeof *all->met));
    for (int r = 0; r < p->ranks; r++) {
        const sl_call_rank *rank = &p->rank[r];
        if (rank->span > 0)
            all->by_share[all->sharers++] = (struct sharer){
                .share = (rank->computing + (blurred ? rank->blurred : 0)) / rank->span, .rank = r};
    }
    qsort(all->by_share, (size_t)all->sharers, sizeof *all->by_share, order_sharers);
    return SL_OK;
}

static void look_around(const sl_call_profile *p, int r, peers *all) {
    for (size_t i = all->first[r]; i < all->first[r + 1]; i++) {
        const sl_call_group *g = &p->group[all->group[i]];
        for (int m = 0; m < g->size; m++) {
            all->met[g->member[m]] = r + 1;
            if (!g->message && g->size < p->ranks)
                all->together[g->member[m]] = r + 1;
        }
    }
}

/* Whether a rank does the same work as the one last looked at: the same calls with the same bytes, a
 * collective together, and no message of the program that could make one the stage after the other. */
static int same_work(const sl_call_profile *p, const peers *all, int a, int b) {
    if (p->rank[a].kind != p->rank[b].kind)
        return 0;
    int messages = p->rank[a].messages || p->rank[b].messages;
    return (messages ? all->together : all->met)[b] == a + 1;
}

/* The median share of the other ranks that do the same work, or of all others; how many there are. */
static int share_of_others(const sl_call_profile *p, const peers *all, int r, int any, double *middle) {
    int count = 0, seen = 0;
    for (int i = 0; i < all->sharers; i++) {
        int o = all->by_share[i].rank;
        count += o != r && (any || same_work(p, all, r, o));
    }
    *middle = 0;
    for (int i = 0; i < all->sharers && seen <= count / 2; i++) {
        int o = all->by_share[i].rank;
        if (o == r || !(any || same_work(p, all, r, o)))
            continue;
        if (seen == count / 2)
            *middle += all->by_share[i].share / (count % 2 ? 1 : 2);
        else if (count % 2 == 0 && seen == count / 2 - 1)
            *middle = all->by_share[i].share / 2;
        seen++;
    }
    return count;
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

/* Without a healthy profile: compares with ranks that do the same work. A rank that always comes last but has
 * no such rank may simply have more to do. */
static sl_call_measure compare_peers(sl_call_comparison *c, peers *all, int r, int blurred) {
    const sl_call_rank *mine = &c->now->rank[r];
    sl_call_measure measure = {0}, *m = &measure;
    double share;
    if (mine->span <= 0)
        return measure;
    look_around(c->now, r, all);
    int others = share_of_others(c->now, all, r, 0, &share);
    m->known = others > 0;
    m->now = mine->computing + (blurred ? mine->blurred : 0);
    if (others == 0) /* against all: only to report that it cannot be assessed */
        others = share_of_others(c->now, all, r, 1, &share);
    m->expected = others ? share * mine->span : m->now;
    m->excess = m->now - m->expected;
    m->ratio = m->expected > 0 ? m->now / m->expected : 1;
    m->slow = stands_out(m, 2 * computing_error2(mine, blurred), c->span);
    if (m->slow && (!m->known || others < 2)) { /* of two that differ, neither is the sl_call_measure */
        if (!blurred && (c->unmatched < 0 || m->excess > c->rank[c->unmatched].excess))
            c->unmatched = r;
        m->slow = 0;
    }
    return measure;
}

/* What is slow only if blurred gaps are counted may have waited in them. */
static sl_status compare_ranks(sl_call_comparison *c) {
    peers plain = {0}, with_blurred = {0};
    sl_status status = SL_OK;
    if (!c->healthy) {
        SL_TRY_GOTO(done, status, open_peers(c->now, 0, &plain));
        SL_TRY_GOTO(done, status, open_peers(c->now, 1, &with_blurred));
    }
    for (int r = 0; r < c->now->ranks; r++) {
        c->rank[r] = c->healthy ? compare_rank(c, r, 0) : compare_peers(c, &plain, r, 0);
        sl_call_measure all = c->healthy ? compare_rank(c, r, 1) : compare_peers(c, &with_blurred, r, 1);
        if (all.slow && !c->rank[r].slow)
            c->blurred = r;
    }
done:
    close_peers(&plain);
    close_peers(&with_blurred);
    return status;
}

/* ---- transfers ---- */

static int same_kind(const sl_call_group *a, const sl_call_group *b) {
    return a->call == b->call && a->bytes == b->bytes && a->size == b->size;
}

/* The transfers of the kind that was asked for last: the groups of a kind are adjacent except for their
 * roots. */
typedef struct kind {
    const sl_call_profile *in;
    sl_call_group like;
    double middle;
    int count;
} kind;

static sl_status find_kind(const sl_call_profile *p, const sl_call_group *of, kind *known) {
    double *value;
    if (known->in == p && same_kind(&known->like, of))
        return SL_OK;
    SL_TRY(sl_alloc(&value, p->groups, sizeof *value));
    *known = (kind){.in = p, .like = *of};
    for (size_t g = 0; g < p->groups; g++)
        if (same_kind(&p->group[g], of) && p->group[g].transfer.count >= FEW)
            value[known->count++] = sl_spread_mean(&p->group[g].transfer);
    known->middle = known->count ? sl_median_of_numbers(value, known->count) : 0;
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
 * healthy wait and longer than others of its kind. A collective that is new in a partial profile says nothing:
 * two of its members, seen alone, would be taken for a link. */
static sl_status expect_transfer(const sl_call_comparison *c, size_t at, kind *like, double *expected,
                                 double *error2, int *known) {
    const sl_call_group *g = &c->now->group[at];
    const sl_call_group *before = c->healthy ? sl_call_group_find(c->healthy, g) : NULL;
    *error2 = 0;
    *known = 1;
    if (before && before->transfer.count >= FEW) {
        *expected = sl_spread_mean(&before->transfer);
        *error2 = sl_spread_error2(&before->transfer);
        return SL_OK;
    }
    SL_TRY(find_kind(before ? c->healthy : c->now, g, like));
    *expected = like->middle;
    if (before && before->exposed.count >= FEW) {
        double exposed = max_exposed(&before->exposed);
        *expected = like->count >= FEW && *expected > exposed ? *expected : exposed;
    } else {
        *known = like->count >= (c->healthy ? FEW : 2);
    }
    *known &= before || g->message || !c->partial;
    return SL_OK;
}

static sl_status compare_group(sl_call_comparison *c, size_t at, kind *like) {
    const sl_call_group *g = &c->now->group[at];
    sl_call_measure *m = &c->group[at];
    int whole = g->transfer.count >= FEW;
    const sl_spread *now = whole ? &g->transfer : &g->exposed;
    double n = (double)now->count, error2;
    if (now->count < FEW || g->size < 2)
        return SL_OK;
    m->now = sl_spread_mean(now);
    SL_TRY(expect_transfer(c, at, like, &m->expected, &error2, &m->known));
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
    for (int r = 0; r < c->now->ranks; r++) {
        c->span = c->now->rank[r].span > c->span ? c->now->rank[r].span : c->span;
        c->partial |= c->now->rank[r].kind == 0;
    }
    SL_TRY(compare_ranks(c));
    kind like = {0};
    for (size_t g = 0; g < c->now->groups; g++)
        SL_TRY(compare_group(c, g, &like));
    return SL_OK;
}
