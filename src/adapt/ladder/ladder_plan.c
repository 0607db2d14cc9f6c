#include "adapt/ladder/chain.h"
#include "adapt/ladder/ladder_inside.h"

#include <math.h>

double sl_ladder_price(const sl_ladder *l, int strategy) {
    const sl_ladder_rung *rung = &l->rung[strategy];
    double cost = (double)rung->strategy.cost;
    return rung->failures ? ldexp(fmax(cost, (double)SL_MS), rung->failures) : cost;
}

/* Asks the model about each strategy; returns whether one that is applied immediately helps. */
static int ask(sl_ladder *l, sl_ladder_case *c, int changed) {
    int any = 0;
    for (int s = 0; s < l->rungs; s++) {
        const sl_ladder_rung *rung = &l->rung[s];
        sl_ladder_pair *pair = &c->pair[s];
        pair->trigger = INFINITY;
        pair->expected = c->incident.loss;
        if (!(rung->strategy.causes & (unsigned)c->incident.cause)) {
            pair->reason = SL_REASON_OTHER_CAUSE;
            continue;
        }
        if (rung->failures >= 3) {
            pair->reason = SL_REASON_FAILED;
            continue;
        }
        if (pair->in_effect && !changed) {
            pair->reason = SL_REASON_IN_EFFECT;
            continue;
        }
        pair->expected = fmax(0, rung->strategy.remaining(rung->strategy.user, &c->incident));
        int helps = pair->expected < c->incident.loss * (1 - l->config.least_gain);
        pair->reason = helps             ? SL_REASON_SKIPPED
                       : pair->in_effect ? SL_REASON_IN_EFFECT
                                         : SL_REASON_CANNOT_HELP;
        if (helps && !rung->failures && rung->strategy.cost <= l->config.at_once) {
            pair->reason = SL_REASON_AT_ONCE;
            any = 1;
        }
    }
    return any;
}

/* No strategy of the chain does at least as well, both during the incident and after it. */
static int keeps_better(const sl_ladder_case *c, const int *of, const sl_chain *chain, int strategy) {
    const sl_ladder_pair *mine = &c->pair[strategy];
    for (int i = 0; i < chain->count; i++) {
        const sl_ladder_pair *other = &c->pair[of[chain->rung[i]]];
        if (other->keeping <= mine->keeping && other->expected <= mine->expected)
            return 0;
    }
    return 1;
}

/* The chain over the strategies that help and cost something. Strategies applied immediately come first, and
 * the chain is chosen after them, since they change the gain of the others. */
static void choose(sl_ladder *l, sl_ladder_case *c) {
    sl_rung rungs[SL_STRATEGIES_MAX];
    int of[SL_STRATEGIES_MAX], count = 0;
    sl_chain chain;
    for (int s = 0; s < l->rungs; s++)
        if (c->pair[s].reason == SL_REASON_SKIPPED) {
            rungs[count] = (sl_rung){.cost = sl_ladder_price(l, s), .loss = c->pair[s].expected};
            of[count++] = s;
        }
    if (!count)
        return;
    sl_chain_choose(c->incident.loss, rungs, count, &chain);
    for (int i = 0; i < chain.count; i++) {
        sl_ladder_pair *pair = &c->pair[of[chain.rung[i]]];
        pair->reason = SL_REASON_WAITS;
        pair->trigger = chain.trigger[i];
    }
    /* the chain considers only durations: for a recurring incident it may skip the best one to keep */
    for (int i = 0; i < count; i++) {
        sl_ladder_pair *pair = &c->pair[of[i]];
        if (pair->reason == SL_REASON_SKIPPED && c->returned && keeps_better(c, of, &chain, of[i])) {
            pair->reason = SL_REASON_WAITS;
            pair->trigger = rungs[i].cost;
        }
    }
}

sl_status sl_ladder_plan(sl_ladder *l, sl_ladder_case *c, int changed) {
    c->believed = c->incident.loss;
    if (!ask(l, c, changed))
        choose(l, c);
    for (int s = 0; s < l->rungs; s++) {
        sl_ladder_entry *entry;
        SL_TRY(sl_ladder_note(l, SL_LADDER_CONSIDERED, c, s, &entry));
        entry->reason = c->pair[s].reason;
        entry->cost = (sl_time)sl_ladder_price(l, s);
        entry->expected = c->pair[s].expected;
        entry->trigger = isfinite(c->pair[s].trigger) ? (sl_time)c->pair[s].trigger : -1;
    }
    return SL_OK;
}
