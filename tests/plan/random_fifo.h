/* Random problems of regime fifo, with all kinds of communicators. */
#ifndef SL_TESTS_PLAN_RANDOM_FIFO_H
#define SL_TESTS_PLAN_RANDOM_FIFO_H

#include "check.h"
#include "plan/drawn.h"

#include "plan/pipeline/problem.h"

/* Times of their own for everything, up to some thousand times `unit`, so that no two things that race for a
 * wire are ready together. */
static inline void random_fifo_problem(int ranks_max, int microbatches, int unit, sl_problem *p) {
    static const sl_placement placements[] = {SL_LINEAR, SL_LINEAR, SL_LOOP, SL_WAVE};
    sl_placement placement = placements[draw(4)];
    int ranks = 2 + draw(ranks_max - 1), stages = placement == SL_LINEAR ? ranks : 2 * ranks;
    assert_ok(sl_problem_make(ranks, stages, 1 + draw(microbatches), p));
    p->placement = placement;
    for (int s = 0; s < stages; s++)
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            p->time[kind][s] = 100 + draw(900 * unit);
    for (int i = 0; i < ranks * ranks; i++)
        p->link[i] = (sl_link){.latency = draw(3) ? draw(2000 * unit) : 0,
                               .transfer = draw(3) ? 1 + draw(700 * unit) : 0,
                               .bytes = draw(2) ? 1000 : 4000};
    static const double eager[] = {0, 2000, 4000};
    p->communication = SL_FIFO;
    p->communicators = (sl_communicators)draw(4);
    p->eager = eager[draw(3)];
}

#endif
