/* From slow ranks and groups to suspects. A rank that computes longer explains its own slow transfers
 * (whatever takes its processor away does so inside calls as well). The rest must have one link, one rank or
 * one group in common, or is listed separately. */
#include "base/memory.h"
#include "base/numbers.h"
#include "notice/detect/pairs.h"

#include <stdio.h>
#include <string.h>

/* Chosen, not derived from measured noise: what noise could explain has been dropped before (call_measure.c).
 * They bound shadows, whose size depends on the program: a rank that shares a core with a slow one, or links
 * of one call. A rank that lost no processor time casts none (is_its_own). */
#define COMPARABLE 0.35 /* of the worst: anything less may be its shadow, and is not named */
#define EXPLAINS 0.25   /* of the missing time: whatever costs less is not why iterations take longer */
#define ENOUGH 0.75     /* of the missing time: nothing else is needed to explain it */
#define BLURRED 0.05    /* of the window: with more blurred gaps, a rank's losses are not known */
#define MS 1e6

typedef struct verdict {
    sl_suspect *suspect; /* [ranks + pairs + groups] */
    double *excess;      /* of each */
    size_t count, capacity, excess_capacity;
} verdict;

static sl_status say(verdict *v, sl_suspect s, double excess) {
    SL_TRY(sl_grow(&v->suspect, &v->capacity, v->count + 1, sizeof *v->suspect));
    SL_TRY(sl_grow(&v->excess, &v->excess_capacity, v->count + 1, sizeof *v->excess));
    v->suspect[v->count] = s;
    v->excess[v->count++] = excess;
    return SL_OK;
}

/* Of no link; `m` NULL: nothing was measured. */
static sl_suspect suspect_of(sl_component component, int rank, const sl_call_measure *m) {
    return (sl_suspect){.component = component,
                        .rank = rank,
                        .from = -1,
                        .to = -1,
                        .measured = m ? m->now / MS : 0,
                        .expected = m ? m->expected / MS : 0};
}

static sl_suspect unknown(const char *why) {
    sl_suspect s = suspect_of(SL_COMPONENT_UNKNOWN, -1, NULL);
    snprintf(s.why, sizeof s.why, "%s", why);
    return s;
}

/* The slow transfers that a rank takes part in, and those that it does not, in larger groups and pairs. */
static void around(const sl_call_comparison *c, int rank, double *with, double *without, int *healthy) {
    *with = *without = 0;
    *healthy = 0;
    for (size_t g = 0; g < c->now->groups; g++) {
        const sl_call_measure *m = &c->group[g];
        int mine = sl_call_group_has(&c->now->group[g], rank);
        if (m->slow && mine)
            *with += m->excess;
        else if (m->slow)
            *without += m->excess;
        else if (m->known && mine && c->now->group[g].size == 2)
            ++*healthy; /* a link of this rank that is unchanged */
    }
}

static double worst_rank(const sl_call_comparison *c, int *slow, int *known) {
    double worst = 0;
    *slow = *known = 0;
    for (int r = 0; r < c->now->ranks; r++) {
        *known += c->rank[r].known;
        *slow += c->rank[r].slow;
        if (c->rank[r].slow && c->rank[r].excess > worst)
            worst = c->rank[r].excess;
    }
    return worst;
}

/* The share of a rank's collectives to which it came last; -1: it has none. */
static double last_share(const sl_call_profile *p, int rank) {
    double all = 0, last = 0;
    for (size_t g = 0; g < p->groups; g++)
        for (int i = 0; i < p->group[g].size && !p->group[g].message; i++)
            if (p->group[g].member[i] == rank) {
                all += (double)(p->group[g].transfer.count + p->group[g].exposed.count);
                last += p->group[g].last[i];
            }
    return all > 0 ? last / all : -1;
}

/* What is usual among the others, with which a rank is compared if it was not seen healthy. */
static double others_starved(const sl_call_profile *now, int rank) {
    double *share, usual = 0;
    int count = 0;
    if (sl_alloc(&share, (size_t)now->ranks, sizeof *share) != SL_OK)
        return 1; /* nothing was taken from it, as far as is known */
    for (int r = 0; r < now->ranks; r++)
        if (r != rank && now->rank[r].starved >= 0)
            share[count++] = now->rank[r].starved;
    usual = count ? sl_median_of_numbers(share, count) : 0;
    sl_free(share);
    return usual;
}

double sl_call_profile_starved(const sl_call_profile *now, const sl_call_profile *healthy, int rank) {
    if (rank < 0 || rank >= now->ranks || now->rank[rank].starved < 0)
        return -1;
    double before =
        healthy && rank < healthy->ranks ? healthy->rank[rank].starved : others_starved(now, rank);
    double more = now->rank[rank].starved - (before > 0 ? before : 0);
    return more > 0 ? more : 0;
}

/* What others took from a rank's computing: at most what it starved more, and what it computes longer. */
static double lost_by(const sl_call_comparison *c, int rank) {
    const sl_call_measure *m = &c->rank[rank];
    double starved = sl_call_profile_starved(c->now, c->healthy, rank), span = c->now->rank[rank].span;
    double longer = m->excess > 0 && span > 0 ? m->excess / span : 0;
    if (starved < 0 || !m->known || c->now->rank[rank].blurred > BLURRED * span)
        return -1;
    return starved < longer ? starved : longer;
}

/* A rank that computes longer although nothing takes its processor does so by itself, and is no shadow of a
 * slower one. */
static int is_its_own(const sl_call_comparison *c, int rank) {
    const double lost = lost_by(c, rank);
    return lost >= 0 && lost * c->now->rank[rank].span < 0.5 * c->rank[rank].excess;
}

static sl_status say_device(const sl_call_comparison *c, int r, verdict *v) {
    double last = last_share(c->now, r);
    const sl_call_measure *m = &c->rank[r];
    sl_suspect s = suspect_of(SL_COMPONENT_DEVICE, r, m);
    int used = snprintf(s.why, sizeof s.why, "computes %.2f times as long between its calls as %s", m->ratio,
                        c->healthy ? "when healthy" : "those that do the same work");
    if (last >= 0.5)
        snprintf(s.why + used, sizeof s.why - (size_t)used,
                 ", and is the last to arrive at %.0f%% of its collectives", 100 * last);
    return say(v, s, m->excess);
}

/* A slow rank's own links and groups are slow with it, unless only some are: then those links are worse. */
static sl_status find_devices(const sl_call_comparison *c, sl_call_pairs *all, int *explained, verdict *v) {
    int slow, known;
    double worst = worst_rank(c, &slow, &known);
    for (int r = 0; r < c->now->ranks && slow > 0; r++) {
        double with, without;
        int healthy;
        const sl_call_measure *m = &c->rank[r];
        if (!m->slow || m->excess < (is_its_own(c, r) ? EXPLAINS : COMPARABLE) * worst)
            continue;
        around(c, r, &with, &without, &healthy);
        if (with > 4 * m->excess && healthy > 0)
            continue; /* one of its links is slow, and costs the rank some computing */
        SL_TRY(say_device(c, r, v));
        for (size_t g = 0; g < c->now->groups; g++)
            explained[g] |= sl_call_group_has(&c->now->group[g], r) &&
                            (healthy == 0 || c->group[g].excess < 2 * m->excess);
        for (size_t i = 0; i < all->count; i++)
            if (all->at[i].a == r || all->at[i].b == r)
                all->at[i].taken |= healthy == 0 || sl_call_pair_excess(&all->at[i]) < 2 * m->excess;
    }
    return SL_OK;
}

/* The excess below which something else is a shadow of what was found: of the worst so far, and `worst`.
 * Ranks that compute longer come first, because what waits for them is late too. */
static double named_from(const verdict *v, double worst) {
    for (size_t i = 0; i < v->count; i++)
        worst = v->excess[i] > worst ? v->excess[i] : worst;
    return COMPARABLE * worst;
}

static sl_status say_link(const sl_call_pair *p, verdict *v) {
    int there = p->slow[0] && (!p->slow[1] || p->there >= p->back);
    int both = p->slow[0] && p->slow[1];
    sl_suspect s = {.component = SL_COMPONENT_LINK,
                    .rank = -1,
                    .from = there ? p->a : p->b,
                    .to = there ? p->b : p->a,
                    .both = both,
                    .measured = p->worst.now / MS,
                    .expected = p->worst.expected / MS};
    snprintf(s.why, sizeof s.why, "a transfer takes %.3g ms, expected %.3g ms%s", s.measured, s.expected,
             both                         ? ", in both directions"
             : p->measured[there ? 1 : 0] ? "; the other direction is unchanged"
                                          : "; nothing was sent the other way");
    return say(v, s, sl_call_pair_excess(p));
}

static sl_status say_rivals(const sl_call_pairs *all, const sl_call_pair *p, verdict *v) {
    const sl_call_pair *rival = &all->at[p->rival];
    sl_suspect s = unknown("");
    s.from = p->a;
    s.to = p->b;
    snprintf(s.why, sizeof s.why,
             "link %d-%d or %d-%d: each call that waits for one also waits for the other", p->a, p->b,
             rival->a, rival->b);
    return say(v, s, sl_call_pair_excess(p));
}

static sl_status say_host(int rank, const sl_call_pairs *all, int links, verdict *v) {
    const sl_call_pair *worst = NULL;
    double excess = 0;
    for (size_t i = 0; i < all->count; i++) {
        const sl_call_pair *p = &all->at[i];
        if (!sl_call_pair_is_slow(p) || (p->a != rank && p->b != rank))
            continue;
        excess += sl_call_pair_excess(p);
        worst = !worst || sl_call_pair_excess(p) > sl_call_pair_excess(worst) ? p : worst;
    }
    if (excess < named_from(v, excess))
        return SL_OK;
    sl_suspect s = suspect_of(SL_COMPONENT_HOST, rank, &worst->worst);
    snprintf(s.why, sizeof s.why,
             "%s of this rank are slow, and nothing without it is: its host or its network card",
             links == 1 ? "the link and the groups" : "all links");
    return say(v, s, excess);
}

static double worst_link(const sl_call_pairs *all) {
    double worst = 0;
    for (size_t i = 0; i < all->count; i++)
        if (sl_call_pair_is_slow(&all->at[i]) && sl_call_pair_excess(&all->at[i]) > worst)
            worst = sl_call_pair_excess(&all->at[i]);
    return worst;
}

/* Whether all links of a rank are comparably slow, nothing without that rank is, and there is more than one
 * piece of evidence: two links, or a link and a larger group. */
static int is_common(const sl_call_comparison *c, const sl_call_pairs *all, const int *explained, int rank,
                     int *links) {
    int mine = 0, slow = 0, others = 0, groups = 0;
    const double least = COMPARABLE * worst_link(all);
    for (size_t i = 0; i < all->count; i++) {
        const sl_call_pair *p = &all->at[i];
        int has = p->a == rank || p->b == rank;
        mine += has;
        slow += has && sl_call_pair_is_slow(p) && sl_call_pair_excess(p) >= least;
        others += !has && sl_call_pair_is_slow(p);
    }
    for (size_t g = 0; g < c->now->groups; g++) {
        int counts = c->group[g].slow && c->now->group[g].size > 2 && !explained[g];
        int has = sl_call_group_has(&c->now->group[g], rank);
        groups += counts && has;
        others += counts && !has;
    }
    *links = mine;
    return mine >= 1 && slow == mine && others == 0 && mine + (groups > 0) >= 2;
}

/* The one rank of which that is true; -1: none, or two, between which the link is. */
static int common_rank(const sl_call_comparison *c, const sl_call_pairs *all, const int *explained,
                       int *links) {
    int found = -1, mine;
    for (int r = 0; r < c->now->ranks; r++) {
        if (!is_common(c, all, explained, r, &mine))
            continue;
        if (found >= 0)
            return -1;
        found = r;
        *links = mine;
    }
    return found;
}

/* What iterations take longer than when healthy, over the window, ns; 0: not known. */
static double missing_of(const sl_call_comparison *c) {
    return c->healthy ? c->now->missing * c->span : 0;
}

/* Links that would each explain all of the missing time: a single one leaves nothing for others to explain;
 * of several, all but one may have waited for another, in ways that calls do not show, and tests decide.
 * *said: there is one. */
static sl_status say_enough(const sl_call_comparison *c, const sl_call_pairs *all, verdict *v, int *said) {
    const double enough = ENOUGH * missing_of(c);
    const sl_call_pair *worst = NULL;
    sl_suspect s = unknown("one of the links");
    size_t used = strlen(s.why), count = 0;
    for (size_t i = 0; i < all->count && enough > 0; i++) {
        const sl_call_pair *p = &all->at[i];
        if (!sl_call_pair_is_slow(p) || sl_call_pair_excess(p) < enough)
            continue;
        worst = !worst || sl_call_pair_excess(p) > sl_call_pair_excess(worst) ? p : worst;
        if (used < sizeof s.why - 64)
            used +=
                (size_t)snprintf(s.why + used, sizeof s.why - used, "%s %d-%d", count ? "," : "", p->a, p->b);
        count++;
    }
    *said = count > 0;
    if (count < 2)
        return !worst ? SL_OK : worst->rival < 0 ? say_link(worst, v) : say_rivals(all, worst, v);
    s.from = worst->a;
    s.to = worst->b;
    snprintf(s.why + used, sizeof s.why - used, ": each would explain all of the missing time");
    return say(v, s, sl_call_pair_excess(worst));
}

static sl_status find_links(const sl_call_comparison *c, sl_call_pairs *all, const int *explained,
                            verdict *v) {
    int links, slow = 0, rank, said;
    for (size_t i = 0; i < all->count; i++)
        slow += sl_call_pair_is_slow(&all->at[i]);
    if (slow == 0)
        return SL_OK;
    if ((rank = common_rank(c, all, explained, &links)) >= 0)
        return say_host(rank, all, links, v);
    SL_TRY(say_enough(c, all, v, &said));
    if (said)
        return SL_OK;
    const double least = named_from(v, worst_link(all));
    for (size_t i = 0; i < all->count; i++)
        if (sl_call_pair_is_slow(&all->at[i]) && sl_call_pair_excess(&all->at[i]) >= least)
            SL_TRY(all->at[i].rival < 0 ? say_link(&all->at[i], v) : say_rivals(all, &all->at[i], v));
    return SL_OK;
}

/* Whether a larger group is slow because of an existing suspect. */
static int holds_suspect(const sl_call_group *g, const verdict *v) {
    for (size_t i = 0; i < v->count; i++) {
        const sl_suspect *s = &v->suspect[i];
        if (s->component == SL_COMPONENT_LINK && sl_call_group_has(g, s->from) && sl_call_group_has(g, s->to))
            return 1;
        if (s->rank >= 0 && sl_call_group_has(g, s->rank))
            return 1;
    }
    return 0;
}

static sl_status say_group(const sl_call_comparison *c, size_t at, verdict *v) {
    const sl_call_group *g = &c->now->group[at];
    const sl_call_measure *m = &c->group[at];
    sl_suspect s = suspect_of(SL_COMPONENT_GROUP, -1, m);
    s.group = g->communicator;
    size_t used = (size_t)snprintf(s.why, sizeof s.why, "%s of %.3g ms takes %.3g ms among ranks",
                                   sl_call_name(g->call), s.expected, s.measured);
    for (int i = 0; i < g->size && i < 16 && used < sizeof s.why; i++)
        used += (size_t)snprintf(s.why + used, sizeof s.why - used, " %d", g->member[i]);
    return say(v, s, m->excess);
}

/* The members that all slow groups have in common; how many. */
static int in_common(const sl_call_comparison *c, const int *left, int *members) {
    int count = 0;
    for (int r = 0; r < c->now->ranks; r++) {
        int in = 1;
        for (size_t g = 0; g < c->now->groups; g++)
            in &= !left[g] || sl_call_group_has(&c->now->group[g], r);
        if (in)
            members[count++] = r;
    }
    return count;
}

static int same_members(const sl_call_group *a, const sl_call_group *b) {
    return a->size == b->size && memcmp(a->member, b->member, (size_t)a->size * sizeof *a->member) == 0;
}

/* Larger groups that no suspect explains yet: the part common to differing ones, else the groups. */
static sl_status find_groups(const sl_call_comparison *c, int *explained, verdict *v) {
    size_t worst = 0, many = 0;
    int *left, *members = NULL, different = 0;
    SL_TRY(sl_alloc(&left, c->now->groups, sizeof *left));
    sl_status status;
    SL_TRY_GOTO(done, status, sl_alloc(&members, (size_t)c->now->ranks, sizeof *members));
    for (size_t g = 0; g < c->now->groups; g++) {
        const sl_call_group *group = &c->now->group[g];
        left[g] = c->group[g].slow && group->size > 2 && !explained[g] && !holds_suspect(group, v);
        if (!left[g])
            continue;
        different |= many > 0 && !same_members(group, &c->now->group[worst]);
        worst = many++ == 0 || c->group[g].excess > c->group[worst].excess ? g : worst;
    }
    const double excess = many ? c->group[worst].excess : 0, least = named_from(v, excess);
    int common = many && different ? in_common(c, left, members) : 0;
    if (excess < least) {
        status = SL_OK; /* a shadow of what was found */
    } else if (common == 1) {
        sl_suspect s = suspect_of(SL_COMPONENT_HOST, members[0], &c->group[worst]);
        snprintf(s.why, sizeof s.why, "it is common to %zu slow groups, and computes as before", many);
        status = say(v, s, excess);
    } else if (common == 2) {
        sl_suspect s = {.component = SL_COMPONENT_LINK,
                        .rank = -1,
                        .from = members[0],
                        .to = members[1],
                        .both = 1,
                        .measured = c->group[worst].now / MS,
                        .expected = c->group[worst].expected / MS};
        snprintf(s.why, sizeof s.why, "it is common to %zu slow groups", many);
        status = say(v, s, excess);
    } else {
        for (size_t g = 0; g < c->now->groups && status == SL_OK; g++) {
            int again = 0; /* the same members, slow in another call that costs more */
            for (size_t h = 0; h < c->now->groups && left[g]; h++)
                again |= h != g && left[h] && same_members(&c->now->group[g], &c->now->group[h]) &&
                         (c->group[h].excess > c->group[g].excess ||
                          (c->group[h].excess == c->group[g].excess && h < g));
            if (left[g] && !again && c->group[g].excess >= least)
                status = say_group(c, g, v);
        }
    }
done:
    SL_FREE(left, members);
    return status;
}

/* ---- the answer ---- */

/* How many ranks take part in every slow transfer. */
static int slow_in_common(const sl_call_comparison *c) {
    int common = 0;
    for (int r = 0; r < c->now->ranks; r++) {
        int in = 1;
        for (size_t g = 0; g < c->now->groups; g++)
            in &= !c->group[g].slow || sl_call_group_has(&c->now->group[g], r);
        common += in;
    }
    return common;
}

static int all_alike(const sl_call_comparison *c, char *reason, size_t size) {
    int slow, known, transfers = 0, slow_transfers = 0;
    worst_rank(c, &slow, &known);
    for (size_t g = 0; g < c->now->groups; g++) {
        transfers += c->group[g].known;
        slow_transfers += c->group[g].slow;
    }
    if (known > 1 && slow > 1 && 2 * slow > known) {
        snprintf(reason, size, "%d of %d ranks compute longer: the work grew, or the cause is shared", slow,
                 known);
        return 1;
    }
    if (slow == 0 && slow_transfers > 1 && slow_transfers == transfers && slow_in_common(c) == 0) {
        snprintf(reason, size, "all %d transfers that can be compared became slow: the cause is shared",
                 transfers);
        return 1;
    }
    return 0;
}

static int order_suspects(const verdict *v, size_t a, size_t b) {
    return v->excess[a] > v->excess[b];
}

static void sort_verdict(verdict *v) {
    for (size_t i = 1; i < v->count; i++)
        for (size_t j = i; j > 0 && order_suspects(v, j, j - 1); j--) {
            sl_suspect s = v->suspect[j];
            double e = v->excess[j];
            v->suspect[j] = v->suspect[j - 1];
            v->excess[j] = v->excess[j - 1];
            v->suspect[j - 1] = s;
            v->excess[j - 1] = e;
        }
}

/* Drops what explains too little; the most that one of them explains of the missing time. */
static double keep_what_explains(verdict *v, double missing) {
    double most = 0;
    size_t kept = 0;
    for (size_t i = 0; i < v->count; i++) {
        most = v->excess[i] > most ? v->excess[i] : most;
        if (v->excess[i] < EXPLAINS * missing)
            continue;
        v->suspect[kept] = v->suspect[i];
        v->excess[kept++] = v->excess[i];
    }
    v->count = kept;
    return missing > 0 ? most / missing : 0;
}

/* A rank's computing is measured; what is slow between ranks is inferred. So ranks that compute longer by all
 * of the missing time leave nothing to infer: transfers that seem slow waited for them, in ways that calls do
 * not show. */
static int devices_are_enough(const sl_call_comparison *c, const verdict *v) {
    double sum = 0;
    for (size_t i = 0; i < v->count; i++)
        sum += v->excess[i];
    return missing_of(c) > 0 && sum >= ENOUGH * missing_of(c);
}

static sl_status find_suspects(sl_call_comparison *c, verdict *v, char *reason, size_t size) {
    int *explained = NULL;
    sl_call_pairs all = {0};
    if (all_alike(c, reason, size))
        return say(v, unknown(reason), 0);
    SL_TRY(sl_alloc(&explained, c->now->groups, sizeof *explained));
    sl_status status;
    SL_TRY_GOTO(done, status, sl_call_pairs_find(c, &all));
    SL_TRY_GOTO(done, status, find_devices(c, &all, explained, v));
    if (devices_are_enough(c, v))
        goto done;
    SL_TRY_GOTO(done, status, sl_call_pairs_cover(c, &all));
    SL_TRY_GOTO(done, status, find_links(c, &all, explained, v));
    SL_TRY_GOTO(done, status, find_groups(c, explained, v));
done:
    sl_call_pairs_free(&all);
    sl_free(explained);
    SL_TRY(status);
    size_t found = v->count;
    double most = keep_what_explains(v, missing_of(c));
    if (found > 0 && v->count == 0)
        snprintf(reason, size, "nothing that became slow explains more than %.0f%% of the missing time",
                 100 * most);
    if (v->count == 0 && c->blurred >= 0)
        snprintf(
            reason, size,
            "rank %d takes longer between its calls, but calls MPI_Test in between: computing and waiting "
            "cannot be distinguished",
            c->blurred);
    else if (v->count == 0 && c->unmatched >= 0)
        snprintf(reason, size,
                 "rank %d computes %.2f times as long as others, but without a healthy profile more work "
                 "cannot be distinguished from a slow device",
                 c->unmatched, c->rank[c->unmatched].ratio);
    if (v->count == 0 && reason[0])
        return say(v, unknown(reason), 0);
    sort_verdict(v);
    return SL_OK;
}

sl_status sl_call_profile_weigh(const sl_call_profile *now, const sl_call_profile *healthy,
                                int64_t clock_error, double *lost, int *transfers) {
    sl_call_comparison c = {
        .now = now, .healthy = healthy, .clock_error = (double)clock_error, .blurred = -1, .unmatched = -1};
    sl_status status = sl_call_measure_all(&c);
    *transfers = -1;
    for (int r = 0; status == SL_OK && r < now->ranks; r++)
        lost[r] = lost_by(&c, r);
    for (size_t g = 0; status == SL_OK && healthy && g < now->groups; g++)
        if (c.group[g].known && *transfers < 1)
            *transfers = c.group[g].slow;
    SL_FREE(c.rank, c.group);
    return status;
}

double sl_call_profile_taken(const sl_call_profile *now, const sl_call_profile *healthy,
                             const sl_suspect *s) {
    double longer = (s->measured - s->expected) * MS;
    double starved =
        s->component == SL_COMPONENT_DEVICE ? sl_call_profile_starved(now, healthy, s->rank) : -1;
    return starved < 0 || longer <= 0 ? -1 : starved * now->rank[s->rank].span / longer;
}

sl_status sl_call_profile_compare(const sl_call_profile *now, const sl_call_profile *healthy,
                                  int64_t clock_error, sl_suspect *suspect, size_t most, size_t *count,
                                  char *reason, size_t reason_size) {
    sl_call_comparison c = {
        .now = now, .healthy = healthy, .clock_error = (double)clock_error, .blurred = -1, .unmatched = -1};
    verdict v = {0};
    char text[256] = "";
    *count = 0;
    if (healthy && healthy->ranks != now->ranks)
        return sl_error(SL_EINVAL, "a profile of %d ranks is compared with one of %d", now->ranks,
                        healthy->ranks);
    sl_status status;
    SL_TRY_GOTO(done, status, sl_call_measure_all(&c));
    SL_TRY_GOTO(done, status, find_suspects(&c, &v, text, sizeof text));
    for (; *count < v.count && *count < most; ++*count)
        suspect[*count] = v.suspect[*count];
    if (v.count == 0)
        snprintf(text, sizeof text, "no rank computes and no transfer takes more than %.1f times what is %s",
                 SL_SUSPECT_MIN, healthy ? "healthy" : "usual of its kind");
    else if (text[0] == 0)
        sl_suspect_text(&v.suspect[0], text, sizeof text);
done:
    snprintf(reason, reason_size, "%s", text);
    SL_FREE(c.rank, c.group, v.suspect, v.excess);
    return status;
}
