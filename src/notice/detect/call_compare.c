/* From slow ranks and groups to suspects. A rank that computes longer explains its own slow transfers
 * (whatever takes its processor away does so inside calls as well). The rest must have one link, one rank or
 * one group in common, or is listed separately. */
#include "base/memory.h"
#include "base/text.h"
#include "notice/detect/call_verdict.h"

#include <stdio.h>

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

/* A rank that computes longer although nothing takes its processor does so by itself, and is no shadow of a
 * slower one. */
static int is_its_own(const sl_call_comparison *c, int rank) {
    const double lost = sl_call_lost(c, rank);
    return lost >= 0 && lost * c->now->rank[rank].span < 0.5 * c->rank[rank].excess;
}

/* The share of the time in which quotas stopped a rank. */
static double stopped_share(const sl_call_rank *rank) {
    return rank->starved >= 0 && rank->starved < rank->stopped ? rank->starved : rank->stopped;
}

static void say_quota(const sl_call_comparison *c, int r, sl_suspect *s) {
    snprintf(s->cause, sizeof s->cause, "cgroup quota");
    sl_text_format(s->why, sizeof s->why,
                   "%s%sits cgroup's CPU quota throttled it for %.0f ms of each second", s->why,
                   s->why[0] ? "; " : "", 1000 * stopped_share(&c->now->rank[r]));
}

/* How much longer than when healthy quotas stopped a rank, ns; 0: not, or unknown. */
static double stopped_longer(const sl_call_comparison *c, int r) {
    const double more = sl_call_profile_stopped(c->now, c->healthy, r);
    return more > 0 ? more * c->now->rank[r].span : 0;
}

static sl_status say_device(const sl_call_comparison *c, int r, sl_call_verdict *v) {
    double last = last_share(c->now, r);
    const sl_call_measure *m = &c->rank[r];
    sl_suspect s = sl_call_suspect(SL_COMPONENT_DEVICE, r, m);
    int used = snprintf(s.why, sizeof s.why, "computes %.2f times as long between its calls as %s", m->ratio,
                        c->healthy ? "when healthy" : "those that do the same work");
    if (last >= 0.5)
        snprintf(s.why + used, sizeof s.why - (size_t)used,
                 ", and is the last to arrive at %.0f%% of its collectives", 100 * last);
    if (stopped_longer(c, r) > SL_CALL_CAUSE * m->excess)
        say_quota(c, r, &s);
    return sl_call_verdict_add(v, s, m->excess);
}

/* What takes `excess` from a rank makes its links and groups slow, unless `healthy` of them are unchanged:
 * then only those that are not much slower. */
static void explain_by(const sl_call_comparison *c, int r, double excess, int healthy, sl_call_pairs *all,
                       int *explained) {
    for (size_t g = 0; g < c->now->groups; g++)
        explained[g] |=
            sl_call_group_has(&c->now->group[g], r) && (healthy == 0 || c->group[g].excess < 2 * excess);
    for (size_t i = 0; i < all->count; i++)
        if (all->at[i].a == r || all->at[i].b == r)
            all->at[i].taken |= healthy == 0 || sl_call_pair_excess(&all->at[i]) < 2 * excess;
}

/* A slow rank's own links and groups are slow with it, unless only some are: then those links are worse. */
static sl_status find_devices(const sl_call_comparison *c, sl_call_pairs *all, int *explained,
                              sl_call_verdict *v) {
    int slow, known;
    double worst = worst_rank(c, &slow, &known);
    for (int r = 0; r < c->now->ranks && slow > 0; r++) {
        double with, without;
        int healthy;
        const sl_call_measure *m = &c->rank[r];
        if (!m->slow || m->excess < (is_its_own(c, r) ? SL_CALL_EXPLAINS : SL_CALL_COMPARABLE) * worst)
            continue;
        around(c, r, &with, &without, &healthy);
        if (with > 4 * m->excess && healthy > 0)
            continue; /* one of its links is slow, and costs the rank some computing */
        SL_TRY(say_device(c, r, v));
        explain_by(c, r, m->excess, healthy, all, explained);
    }
    return SL_OK;
}

/* A quota may stop a rank inside its calls, as when they poll: then it does not compute longer, and its
 * transfers seem slow. It is the finding if it took most of the time that is missing, and no rank computes
 * longer. Several ranks share a group's quota if it stopped more than half of all: then none is. */
static sl_status find_stopped(const sl_call_comparison *c, sl_call_pairs *all, int *explained,
                              sl_call_verdict *v, char *reason, size_t size) {
    const double least = SL_CALL_CAUSE * sl_call_missing(c);
    double most = 0;
    int count = 0;
    for (int r = 0; r < c->now->ranks && least > 0; r++)
        if (stopped_longer(c, r) >= least) {
            count++;
            most = stopped_share(&c->now->rank[r]) > most ? stopped_share(&c->now->rank[r]) : most;
        }
    if (2 * count > c->now->ranks) {
        snprintf(reason, size,
                 "the CPU quotas of their cgroups throttled %d of %d ranks, for up to %.0f ms of each second",
                 count, c->now->ranks, 1000 * most);
        return sl_call_verdict_add(v, sl_call_unknown(reason), sl_call_missing(c));
    }
    for (int r = 0; r < c->now->ranks && count > 0; r++) {
        const double excess = stopped_longer(c, r), span = c->now->rank[r].span;
        double with, without;
        int healthy;
        if (excess < least)
            continue;
        const sl_call_measure measure = {.now = span, .expected = span - excess};
        sl_suspect s = sl_call_suspect(SL_COMPONENT_DEVICE, r, &measure);
        say_quota(c, r, &s);
        SL_TRY(sl_call_verdict_add(v, s, excess));
        around(c, r, &with, &without, &healthy);
        explain_by(c, r, excess, healthy, all, explained);
    }
    return SL_OK;
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

/* A rank's computing is measured; what is slow between ranks is inferred. So ranks that compute longer by all
 * of the missing time leave nothing to infer: transfers that seem slow waited for them, in ways that calls do
 * not show. */
static int devices_are_enough(const sl_call_comparison *c, const sl_call_verdict *v) {
    double sum = 0;
    for (size_t i = 0; i < v->count; i++)
        sum += v->excess[i];
    return sl_call_missing(c) > 0 && sum >= SL_CALL_ENOUGH * sl_call_missing(c);
}

static sl_status find_suspects(sl_call_comparison *c, sl_call_verdict *v, char *reason, size_t size) {
    int *explained = NULL;
    sl_call_pairs all = {0};
    if (all_alike(c, reason, size))
        return sl_call_verdict_add(v, sl_call_unknown(reason), 0);
    SL_TRY(sl_alloc(&explained, c->now->groups, sizeof *explained));
    sl_status status;
    SL_TRY_GOTO(done, status, sl_call_pairs_find(c, &all));
    SL_TRY_GOTO(done, status, find_devices(c, &all, explained, v));
    if (v->count == 0)
        SL_TRY_GOTO(done, status, find_stopped(c, &all, explained, v, reason, size));
    if (devices_are_enough(c, v))
        goto done;
    SL_TRY_GOTO(done, status, sl_call_pairs_cover(c, &all));
    SL_TRY_GOTO(done, status, sl_call_verdict_links(c, &all, explained, v));
    SL_TRY_GOTO(done, status, sl_call_verdict_groups(c, explained, v));
done:
    sl_call_pairs_free(&all);
    sl_free(explained);
    SL_TRY(status);
    size_t found = v->count;
    double most = sl_call_verdict_keep(v, sl_call_missing(c));
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
        return sl_call_verdict_add(v, sl_call_unknown(reason), 0);
    sl_call_verdict_sort(v);
    return SL_OK;
}

sl_status sl_call_profile_compare(const sl_call_profile *now, const sl_call_profile *healthy,
                                  int64_t clock_error, sl_suspect *suspect, size_t most, size_t *count,
                                  char *reason, size_t reason_size) {
    sl_call_comparison c = {
        .now = now, .healthy = healthy, .clock_error = (double)clock_error, .blurred = -1, .unmatched = -1};
    sl_call_verdict v = {0};
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
