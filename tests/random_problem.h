/* Random problems of every placement, regime, with and without parts and pairs, and plans for them. */
#ifndef SL_TESTS_RANDOM_PROBLEM_H
#define SL_TESTS_RANDOM_PROBLEM_H

#include "check.h"

#include "base/random.h"
#include "plan/family/family.h"
#include "plan/search/plan.h"

/* Printed, so that a failure can be run again with SL_SEED. */
static inline uint64_t seed_of(uint64_t otherwise) {
    const char *given = getenv("SL_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : otherwise;
    printf("SL_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static inline int draw(uint64_t *state, int below) {
    return (int)(sl_random_mix(*state += SL_RANDOM_STEP) % (uint64_t)below);
}

static inline int draw_chunks(uint64_t *state, sl_placement placement) {
    if (placement == SL_LINEAR)
        return 1;
    if (placement == SL_BIDIRECTIONAL || draw(state, 3) > 0)
        return 2;
    return placement == SL_WAVE ? 4 : 3;
}

/* At most 6 ranks, 24 stages, 8 microbatches, 4 parts; no memory limit. `transfers` 0: no link takes time. */
static inline void draw_problem(uint64_t *state, sl_placement placement, int transfers, sl_problem *p) {
    int ranks = 1 + draw(state, 6), microbatches = 1 + draw(state, 8), both = placement == SL_BIDIRECTIONAL;
    ranks = both && ranks == 1 ? 2 : ranks;
    microbatches += both ? microbatches % 2 : 0;
    assert_ok(sl_problem_make(ranks, ranks * draw_chunks(state, placement), microbatches, p));
    p->placement = placement;
    p->communication = (sl_regime)draw(state, 3);
    p->queue = 1 + draw(state, 3);
    p->parts = draw(state, 3) == 0 ? 2 + draw(state, 3) : 1;
    for (int stage = 0; stage < p->stages; stage++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            p->time[kind][stage] = draw(state, 20) == 0 ? 0 : 1 + draw(state, 20000000);
        p->time[SL_B][stage] = p->time[SL_I][stage] + p->time[SL_W][stage];
        p->saved[stage] = draw(state, 2) ? draw(state, 4000000) : 0;
    }
    for (int i = 0; i < ranks * ranks; i++) { /* each direction for itself */
        p->link[i].latency = draw(state, 3) == 0 ? draw(state, 60) * SL_MS : draw(state, 2) * 12345;
        p->link[i].transfer = transfers && draw(state, 3) == 0 ? (1 + draw(state, 25)) * SL_MS : 0;
    }
}

/* One of the families that fit, whose W ascend, as a plan; 0: none does. */
static inline int draw_plan(uint64_t *state, const sl_problem *p, sl_plan *plan, int *family) {
    int families = 0;
    while (sl_families[families].name)
        families++;
    *family = draw(state, families);
    for (int tries = 0; tries < families; tries++) {
        *family = (*family + 1) % families;
        if (!sl_family_fits(&sl_families[*family], p))
            continue;
        if (sl_plan_make(p, sl_families[*family].name, plan) == SL_OK &&
            sl_order_check_ascending(&plan->order) == SL_OK)
            return 1;
        sl_plan_free(plan);
    }
    return 0;
}

#endif
