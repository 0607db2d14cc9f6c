#include "adapt/schedule/findings.h"
#include "adapt/schedule/decision_inside.h"

#include <stdlib.h>
#include <string.h>

const sl_problem *sl_adaptation_healthy(const sl_adaptation *a) {
    return a->learnt ? &a->healthy : NULL;
}

sl_status sl_adaptation_assume(sl_adaptation *a, const sl_problem *healthy) {
    sl_problem copy;
    if (healthy->ranks != a->healthy.ranks || healthy->stages != a->healthy.stages ||
        healthy->placement != a->healthy.placement)
        return sl_error(SL_EINVAL, "a healthy level of %d ranks and %d stages for a pipeline of %d and %d",
                        healthy->ranks, healthy->stages, a->healthy.ranks, a->healthy.stages);
    SL_TRY(sl_problem_copy(healthy, &copy));
    copy.microbatches = a->healthy.microbatches;
    sl_problem_free(&a->healthy);
    a->healthy = copy;
    a->learnt = 1;
    return SL_OK;
}

sl_status sl_adaptation_typical(const sl_adaptation *a, sl_problem *problem) {
    if (!a->learnt || a->filled == 0)
        return sl_error(SL_ENONE, "too few iterations have been measured");
    return sl_decision_lately(a, problem);
}

sl_status sl_adaptation_takes(const sl_adaptation *a, const sl_problem *problem, sl_time *makespan) {
    return sl_decision_makespan_on(problem, a->running, makespan);
}

/* ---- piece by piece ---- */

static sl_time work_of(const sl_problem *p, int rank) {
    sl_time sum = 0;
    for (int stage = 0; stage < p->stages; stage++)
        for (int kind = SL_F; kind <= SL_W && sl_problem_rank(p, stage) == rank; kind++)
            sum += p->time[kind][stage];
    return sum;
}

typedef struct list {
    sl_finding *finding;
    int most, count;
} list;

static void add(list *l, sl_finding finding) {
    if (l->count < l->most)
        l->finding[l->count++] = finding;
}

static void find_devices(const sl_adaptation *a, const sl_problem *usual, list *found) {
    for (int rank = 0; rank < usual->ranks; rank++) {
        sl_time before = work_of(&a->healthy, rank), now = work_of(usual, rank);
        if (before > 0 && now - before > SL_DECISION_NOISE && (double)now > 1.1 * (double)before)
            add(found, (sl_finding){SL_FINDING_DEVICE, rank, -1, -1, -1, before, now});
    }
}

static void find_links(const sl_adaptation *a, const sl_problem *usual, list *found) {
    for (int from = 0; from < usual->ranks; from++)
        for (int to = 0; to < usual->ranks; to++) {
            sl_time before = sl_decision_link_delay(&a->healthy, from, to),
                    now = sl_decision_link_delay(usual, from, to);
            if (now - before > sl_decision_threshold(a, from, to))
                add(found, (sl_finding){SL_FINDING_LINK, -1, from, to, -1, before, now});
        }
}

static void find_reductions(const sl_adaptation *a, const sl_problem *usual, list *found) {
    for (int stage = 0; stage < usual->stages; stage++) {
        sl_time before = a->healthy.reduce[stage], now = usual->reduce[stage], part = a->first.makespan / 200;
        sl_time least = before / 2 > part ? before / 2 : part;
        if (now - before > (least > SL_DECISION_NOISE ? least : SL_DECISION_NOISE))
            add(found, (sl_finding){SL_FINDING_REDUCTION, -1, -1, -1, stage, before, now});
    }
}

static int worst_first(const void *left, const void *right) {
    const sl_finding *a = left, *b = right;
    sl_time x = a->now - a->healthy, y = b->now - b->healthy;
    return a->kind != b->kind ? (a->kind > b->kind) - (a->kind < b->kind) : (x < y) - (x > y);
}

int sl_adaptation_ready(const sl_adaptation *a) {
    return a->learnt && a->filled >= (a->config.hold < 3 ? a->config.hold : 3);
}

sl_status sl_adaptation_findings(const sl_adaptation *a, sl_finding *findings, int most, int *count) {
    list found = {.finding = findings, .most = most};
    sl_problem usual;
    *count = 0;
    if (!sl_adaptation_ready(a))
        return SL_OK;
    SL_TRY(sl_decision_lately(a, &usual));
    find_devices(a, &usual, &found);
    find_links(a, &usual, &found);
    find_reductions(a, &usual, &found);
    sl_problem_free(&usual);
    if (found.count > 1)
        qsort(findings, (size_t)found.count, sizeof *findings, worst_first);
    *count = found.count;
    return SL_OK;
}
