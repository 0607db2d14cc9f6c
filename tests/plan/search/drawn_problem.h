/* Random problems with everything that a problem may have, and what holds for every plan of them. */
#ifndef SL_TESTS_PLAN_SEARCH_DRAWN_PROBLEM_H
#define SL_TESTS_PLAN_SEARCH_DRAWN_PROBLEM_H

#include "check.h"
#include "plan/drawn.h"

#include "plan/search/plan.h"
#include "plan/timing/replay.h"

static inline void random_links(sl_problem *p) {
    int links = p->ranks * p->ranks;
    for (int i = 0; i < links; i++)
        if (i / p->ranks != i % p->ranks && draw(4) == 0)
            p->link[i] = (sl_link){.latency = draw(40) * SL_MS, .transfer = draw(3) * draw(10) * SL_MS};
    if (draw(4) || p->ranks < 3)
        return;
    p->wire = calloc((size_t)links, sizeof *p->wire);
    for (int i = 0; i < links; i++)
        p->wire[i] = i / p->ranks < i % p->ranks ? links : links + 1; /* one wire a direction */
}

/* Everything that a problem may have but layers and host memory. */
static inline void random_problem(sl_problem *p) {
    sl_placement placement = (sl_placement)draw(SL_PLACEMENTS);
    int ranks = 1 + draw(6), n = 1 + draw(12),
        stages = placement == SL_LINEAR          ? ranks
                 : placement == SL_BIDIRECTIONAL ? 2 * ranks
                                                 : ranks * (1 + draw(3));
    assert_ok(sl_problem_make(ranks, stages, n, p));
    p->placement = placement;
    p->parts = draw(5) == 0 ? 2 : 1;
    p->communication = (sl_regime)(draw(2) ? SL_DECOUPLED : draw(3));
    p->queue = 1 + draw(2);
    for (int s = 0; s < stages; s++) {
        for (int kind = SL_F; kind <= SL_W; kind++)
            p->time[kind][s] = draw(20) * SL_MS;
        p->time[SL_B][s] = p->time[SL_I][s] + p->time[SL_W][s] * (2 + draw(2)) / 3;
        p->saved[s] = draw(6) ? 0 : p->time[SL_F][s] / 3;
        p->reduce[s] = draw(5) ? 0 : draw(30) * SL_MS;
        p->gather[s] = draw(5) ? 0 : draw(30) * SL_MS;
        if (draw(6) == 0) {
            p->early[s] = 0.75;
            p->delta[SL_F][s] = 0.25;
        }
    }
    random_links(p);
    if (draw(3) == 0)
        return;
    p->limit = calloc((size_t)ranks, sizeof *p->limit);
    for (int rank = 0; rank < ranks; rank++)
        p->limit[rank] = (double)stages / ranks * (1 + draw(2 * ranks)) - draw(2) * 0.5;
}

static inline double limit_of(const sl_problem *p, int rank) {
    return p->limit ? p->limit[rank] * (1 + 1e-9) : 1e300;
}

/* A plan's own claims, from scratch. */
static inline void check_plan(const sl_problem *p, const sl_plan *plan) {
    sl_program program;
    sl_timeline timeline;
    double peak[8];
    assert_ok(sl_lower(p, &plan->order, &program));
    assert_ok(sl_replay(p, &program, p->communication, p->queue, &timeline));
    assert_ok(sl_peak_memory(p, &timeline, peak));
    assert_int_equal(sl_timeline_makespan(&timeline), plan->makespan);
    assert_true(plan->makespan >= plan->bound);
    for (int rank = 0; rank < p->ranks; rank++)
        assert_true(peak[rank] <= limit_of(p, rank));
    sl_timeline_free(&timeline);
    sl_program_free(&program);
}

#endif
