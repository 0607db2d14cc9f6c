/* Processor time that a rank wanted and did not get: what others, or a quota, took from its computing. */
#include "base/memory.h"
#include "base/numbers.h"
#include "notice/detect/call_verdict.h"

#define BLURRED 0.05 /* of the window: with more blurred gaps, a rank's losses are not known */
#define MS 1e6

/* The share in which a rank starved, or in which quotas stopped it; -1: unknown. */
static double share(const sl_call_rank *r, int quotas) {
    return quotas && r->starved >= 0 && r->stopped > r->starved ? r->starved
           : quotas                                             ? r->stopped
                                                                : r->starved;
}

/* What is usual among the others, with which a rank is compared if it was not seen healthy. */
static double usual(const sl_call_profile *now, int rank, int quotas) {
    double *of, median = 0;
    int count = 0;
    if (sl_alloc(&of, (size_t)now->ranks, sizeof *of) != SL_OK)
        return 1; /* nothing was taken from it, as far as is known */
    for (int r = 0; r < now->ranks; r++)
        if (r != rank && share(&now->rank[r], quotas) >= 0)
            of[count++] = share(&now->rank[r], quotas);
    median = count ? sl_median_of_numbers(of, count) : 0;
    sl_free(of);
    return median;
}

static double more_than_healthy(const sl_call_profile *now, const sl_call_profile *healthy, int rank,
                                int quotas) {
    if (rank < 0 || rank >= now->ranks || share(&now->rank[rank], quotas) < 0)
        return -1;
    double before =
        healthy && rank < healthy->ranks ? share(&healthy->rank[rank], quotas) : usual(now, rank, quotas);
    double more = share(&now->rank[rank], quotas) - (before > 0 ? before : 0);
    return more > 0 ? more : 0;
}

double sl_call_profile_starved(const sl_call_profile *now, const sl_call_profile *healthy, int rank) {
    return more_than_healthy(now, healthy, rank, 0);
}

double sl_call_profile_stopped(const sl_call_profile *now, const sl_call_profile *healthy, int rank) {
    return more_than_healthy(now, healthy, rank, 1);
}

double sl_call_lost(const sl_call_comparison *c, int rank) {
    const sl_call_measure *m = &c->rank[rank];
    double starved = sl_call_profile_starved(c->now, c->healthy, rank), span = c->now->rank[rank].span;
    double longer = m->excess > 0 && span > 0 ? m->excess / span : 0;
    if (starved < 0 || !m->known || c->now->rank[rank].blurred > BLURRED * span)
        return -1;
    return starved < longer ? starved : longer;
}

sl_status sl_call_profile_weigh(const sl_call_profile *now, const sl_call_profile *healthy,
                                int64_t clock_error, double *lost, int *transfers) {
    sl_call_comparison c = {
        .now = now, .healthy = healthy, .clock_error = (double)clock_error, .blurred = -1, .unmatched = -1};
    sl_status status = sl_call_measure_all(&c);
    *transfers = -1;
    for (int r = 0; status == SL_OK && r < now->ranks; r++)
        lost[r] = sl_call_lost(&c, r);
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
