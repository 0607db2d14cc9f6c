/* Slow links, and hosts all of whose links are slow. */
#include "notice/detect/call_verdict.h"

#include <stdio.h>
#include <string.h>

#define MS 1e6

static sl_status say_link(const sl_call_pair *p, sl_call_verdict *v) {
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
    return sl_call_verdict_add(v, s, sl_call_pair_excess(p));
}

static sl_status say_rivals(const sl_call_pairs *all, const sl_call_pair *p, sl_call_verdict *v) {
    const sl_call_pair *rival = &all->at[p->rival];
    sl_suspect s = sl_call_unknown("");
    s.from = p->a;
    s.to = p->b;
    snprintf(s.why, sizeof s.why,
             "link %d-%d or %d-%d: each call that waits for one also waits for the other", p->a, p->b,
             rival->a, rival->b);
    return sl_call_verdict_add(v, s, sl_call_pair_excess(p));
}

static sl_status say_host(int rank, const sl_call_pairs *all, int links, sl_call_verdict *v) {
    const sl_call_pair *worst = NULL;
    double excess = 0;
    for (size_t i = 0; i < all->count; i++) {
        const sl_call_pair *p = &all->at[i];
        if (!sl_call_pair_is_slow(p) || (p->a != rank && p->b != rank))
            continue;
        excess += sl_call_pair_excess(p);
        worst = !worst || sl_call_pair_excess(p) > sl_call_pair_excess(worst) ? p : worst;
    }
    if (excess < sl_call_named_from(v, excess))
        return SL_OK;
    sl_suspect s = sl_call_suspect(SL_COMPONENT_HOST, rank, &worst->worst);
    snprintf(s.why, sizeof s.why,
             "%s of this rank are slow, and nothing without it is: its host or its network card",
             links == 1 ? "the link and the groups" : "all links");
    return sl_call_verdict_add(v, s, excess);
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
    const double least = SL_CALL_COMPARABLE * worst_link(all);
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

/* Links that would each explain all of the missing time: a single one leaves nothing for others to explain;
 * of several, all but one may have waited for another, in ways that calls do not show, and tests decide.
 * *said: there is one. */
static sl_status say_enough(const sl_call_comparison *c, const sl_call_pairs *all, sl_call_verdict *v,
                            int *said) {
    const double enough = SL_CALL_ENOUGH * sl_call_missing(c);
    const sl_call_pair *worst = NULL;
    sl_suspect s = sl_call_unknown("one of the links");
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
    return sl_call_verdict_add(v, s, sl_call_pair_excess(worst));
}

sl_status sl_call_verdict_links(const sl_call_comparison *c, sl_call_pairs *all, const int *explained,
                                sl_call_verdict *v) {
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
    const double least = sl_call_named_from(v, worst_link(all));
    for (size_t i = 0; i < all->count; i++)
        if (sl_call_pair_is_slow(&all->at[i]) && sl_call_pair_excess(&all->at[i]) >= least)
            SL_TRY(all->at[i].rival < 0 ? say_link(&all->at[i], v) : say_rivals(all, &all->at[i], v));
    return SL_OK;
}
