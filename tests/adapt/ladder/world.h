/* A simulated world for the ladder: one incident that an adversary turns on and off, strategies whose effect
 * is as their numbers say, and what it all costs, beside the best that anybody could have done who knew it
 * all before (a shortest path over what is in effect, switching wherever it likes). An application takes no
 * time of the incident's, only of the job's. */
#ifndef SL_TESTS_ADAPT_WORLD_H
#define SL_TESTS_ADAPT_WORLD_H

#include "adapt/ladder/ladder.h"

#include <math.h>

typedef struct world_strategy {
    double cost, undo_cost; /* s */
    double left, keeping;   /* lost a second with it while the trouble lasts; and when it does not */
} world_strategy;

typedef struct world {
    const world_strategy *strategy;
    int strategies;
    double loss; /* a second, with nothing in effect */
    sl_ladder *ladder;
    sl_time now;
    int on, begun;
    int in_effect[SL_STRATEGIES_MAX];
    double paid, lost;                  /* ours: for actions, and else; s */
    double best[SL_STRATEGIES_MAX + 1]; /* the least that it costs to be here: nothing in effect, then each */
    int applied, undone, applications[SL_STRATEGIES_MAX], reversals[SL_STRATEGIES_MAX];
} world;

typedef struct world_answer {
    const world *world;
    int strategy;
} world_answer;

static inline double world_rate(const world *w) {
    double rate = w->on ? w->loss : 0;
    for (int s = 0; s < w->strategies; s++) {
        if (!w->in_effect[s])
            continue;
        rate = w->on ? fmin(rate, w->strategy[s].left) : rate + w->strategy[s].keeping;
    }
    return rate;
}

static inline double world_remaining(void *user, const sl_incident *incident) {
    const world_answer *a = user;
    return fmin(incident->loss, a->world->strategy[a->strategy].left);
}

static inline double world_keeping(void *user, const sl_incident *incident) {
    const world_answer *a = user;
    (void)incident;
    return a->world->strategy[a->strategy].keeping;
}

/* `answers[strategies]` is the caller's. */
static inline sl_status world_open(world *w, const sl_ladder_config *config, double loss,
                                   const world_strategy *strategy, int strategies, world_answer *answers) {
    sl_strategy list[SL_STRATEGIES_MAX];
    *w = (world){.strategy = strategy, .strategies = strategies, .loss = loss};
    for (int s = 0; s < strategies; s++) {
        answers[s] = (world_answer){w, s};
        list[s] = (sl_strategy){.name = "s",
                                .causes = SL_CAUSES_ANY,
                                .cost = (sl_time)llround(strategy[s].cost * 1e9),
                                .undo_cost = (sl_time)llround(strategy[s].undo_cost * 1e9),
                                .remaining = world_remaining,
                                .keeping = world_keeping,
                                .user = &answers[s]};
        w->best[s + 1] = strategy[s].cost;
    }
    return sl_ladder_open(config, list, strategies, &w->ladder);
}

/* From each state to each other, at once. */
static inline void world_relax(world *w) {
    for (int s = 0; s < w->strategies; s++)
        w->best[0] = fmin(w->best[0], w->best[s + 1] + w->strategy[s].undo_cost);
    for (int from = 0; from <= w->strategies; from++)
        for (int s = 0; s < w->strategies; s++)
            w->best[s + 1] = fmin(w->best[s + 1], w->best[from] + w->strategy[s].cost);
}

static inline double world_best(const world *w) {
    double best = w->best[0];
    for (int s = 0; s < w->strategies; s++)
        best = fmin(best, w->best[s + 1]);
    return best;
}

static inline void world_pass(world *w, sl_time until) {
    double seconds = (double)(until - w->now) / 1e9;
    w->lost += seconds * world_rate(w);
    w->best[0] += w->on ? seconds * w->loss : 0;
    for (int s = 0; s < w->strategies; s++)
        w->best[s + 1] += seconds * (w->on ? w->strategy[s].left : w->strategy[s].keeping);
    world_relax(w);
    w->now = until;
}

/* Does what the ladder says until `until`; stops after the first action when asked to. */
static inline sl_status world_run(world *w, sl_time until, int stop, int *acted) {
    *acted = 0;
    for (;;) {
        sl_action action;
        sl_time due = sl_ladder_due(w->ladder);
        world_pass(w, due < until ? due : until);
        SL_TRY(sl_ladder_next(w->ladder, w->now, &action));
        if (action.kind == SL_ACTION_APPLY || action.kind == SL_ACTION_UNDO) {
            const world_strategy *s = &w->strategy[action.strategy];
            double took = action.kind == SL_ACTION_APPLY ? s->cost : s->undo_cost;
            w->in_effect[action.strategy] = action.kind == SL_ACTION_APPLY;
            w->paid += took;
            *(action.kind == SL_ACTION_APPLY ? &w->applied : &w->undone) += 1;
            (action.kind == SL_ACTION_APPLY ? w->applications : w->reversals)[action.strategy]++;
            SL_TRY(sl_ladder_ended(w->ladder, w->now, (sl_time)llround(took * 1e9), 1));
            *acted = 1;
            if (stop)
                return SL_OK;
        } else if (w->now >= until) {
            return SL_OK;
        }
    }
}

static inline sl_status world_turn(world *w, int on) {
    if (w->on == on)
        return SL_OK;
    w->on = on;
    if (!on)
        return sl_ladder_relieved(w->ladder, w->now, 0);
    sl_incident incident = {.id = 0, .cause = SL_CAUSE_LINK, .loss = world_rate(w)};
    return sl_ladder_begins(w->ladder, w->now, &incident);
}

#endif
