#include "adapt/ladder/ladder_inside.h"

#include <math.h>

/* Counters are sums of many small times: a value within rounding of the goal counts as reached. */
static const double rounding = 1e-12;
enum { RECURS_WITHIN = 4 }; /* times the longest that an incident has lasted or stayed away */

/* A pair remembers at most what the strategy needs: a long wait for a strategy that was then not wanted gives
 * no further claim. */
static double remembered(const sl_ladder *l, const sl_ladder_pair *pair, int strategy) {
    return isfinite(pair->trigger) ? pair->trigger : sl_ladder_price(l, strategy);
}

/* ns per ns at which a strategy's `kept` changes: up by keeping, down by its savings. */
static double keeping_rate(const sl_ladder *l, int strategy) {
    double rate = 0;
    for (size_t i = 0; i < l->case_count; i++) {
        const sl_ladder_pair *pair = &l->cases[i].pair[strategy];
        if (pair->in_effect)
            rate += l->cases[i].active ? -pair->saves : pair->keeping;
    }
    return rate;
}

/* A loss that a strategy could not have saved is no reason to apply it. */
static int helps(const sl_ladder_pair *pair) {
    return pair->reason == SL_REASON_WAITS || pair->reason == SL_REASON_AT_ONCE ||
           pair->reason == SL_REASON_SKIPPED;
}

void sl_ladder_pass(sl_ladder *l, double duration) {
    for (int s = 0; s < l->rungs; s++)
        l->rung[s].kept = fmax(0, l->rung[s].kept + duration * keeping_rate(l, s));
    for (size_t i = 0; i < l->case_count; i++) {
        sl_ladder_case *c = &l->cases[i];
        double rate = c->active ? c->incident.loss : 0;
        c->lost += duration * rate;
        for (int s = 0; s < l->rungs; s++) {
            sl_ladder_pair *pair = &c->pair[s];
            if (!c->active && !pair->in_effect)
                pair->lost = fmax(0, pair->lost - duration * pair->keeping);
            else if (c->active && helps(pair))
                pair->lost = fmin(remembered(l, pair, s), pair->lost + duration * rate);
        }
    }
}

/* Waiting incidents: their progress, and its rate per ns. */
static double progress(const sl_ladder *l, int strategy, double *rate) {
    double reached = 0;
    *rate = 0;
    for (size_t i = 0; i < l->case_count; i++) {
        const sl_ladder_case *c = &l->cases[i];
        const sl_ladder_pair *pair = &c->pair[strategy];
        if (!c->active)
            continue;
        if (pair->reason == SL_REASON_AT_ONCE)
            return 1;
        if (pair->reason == SL_REASON_WAITS) {
            reached += pair->trigger > 0 ? pair->lost / pair->trigger : 1;
            *rate += pair->trigger > 0 ? c->incident.loss / pair->trigger : 0;
        }
    }
    return reached >= 1 - rounding ? 1 : reached;
}

double sl_ladder_reached(const sl_ladder *l, int strategy) {
    double rate;
    return progress(l, strategy, &rate);
}

/* The most that keeping may lose: the cost of applying the strategy again, or of its undo if higher; for
 * incidents that recur, also what its late application loses. */
static double allowance(const sl_ladder *l, int strategy) {
    const sl_strategy *s = &l->rung[strategy].strategy;
    double most = (double)(s->undo_cost > s->cost ? s->undo_cost : s->cost);
    for (size_t i = 0; i < l->case_count; i++)
        if (l->cases[i].pair[strategy].in_effect)
            most += l->cases[i].pair[strategy].late;
    return most;
}

/* An incident that has not come back for so long does not recur, even if keeping its strategy loses nothing.
 */
static sl_time patience(const sl_ladder *l, const sl_ladder_case *c) {
    return RECURS_WITHIN * (c->lasted > l->config.calm ? c->lasted : l->config.calm);
}

int sl_ladder_may_recur(const sl_ladder *l, const sl_ladder_case *c) {
    double gone = (double)(l->now - c->relieved_at);
    if (c->active || l->now - c->relieved_at > patience(l, c))
        return 0;
    for (int s = 0; s < l->rungs; s++) {
        const sl_strategy *of = &l->rung[s].strategy;
        const sl_ladder_pair *pair = &c->pair[s];
        if (pair->late > 0 && gone * pair->keeping < pair->late + (double)of->cost)
            return 1;
    }
    return 0;
}

/* How long after the last relief a strategy that returns is kept at most; 0: no incident of it recurs. */
static sl_time recurring(const sl_ladder *l, int strategy) {
    sl_time most = 0;
    for (size_t i = 0; i < l->case_count; i++) {
        const sl_ladder_case *c = &l->cases[i];
        if (c->pair[strategy].in_effect && c->recurs && patience(l, c) > most)
            most = patience(l, c);
    }
    return most;
}

/* None of its incidents lasts, nor one that began while it was in effect already, and that it may mitigate,
 * too: a return would make that one worse. *since: the last relief. */
static int is_over(const sl_ladder *l, int strategy, sl_time *since) {
    const sl_strategy *s = &l->rung[strategy].strategy;
    int any = 0;
    *since = 0;
    for (size_t i = 0; i < l->case_count; i++) {
        const sl_ladder_case *c = &l->cases[i];
        if (c->active && s->returns && (s->causes & c->incident.cause))
            return 0;
        if (!c->pair[strategy].in_effect)
            continue;
        if (c->active)
            return 0;
        *since = !any || c->relieved_at > *since ? c->relieved_at : *since;
        any = 1;
    }
    return any;
}

int sl_ladder_is_to_be_undone(const sl_ladder *l, int strategy) {
    sl_time since;
    if (!is_over(l, strategy, &since) || l->now - since < l->config.calm)
        return 0;
    if (l->rung[strategy].strategy.returns && l->now - since >= recurring(l, strategy))
        return 1;
    return keeping_rate(l, strategy) > 0 && l->rung[strategy].kept >= allowance(l, strategy) * (1 - rounding);
}

static sl_time after(sl_time now, double wait) {
    if (!(wait > 0))
        return now;
    return wait < 9.2e18 - (double)now ? now + (sl_time)ceil(wait) : SL_TIME_NEVER;
}

static sl_time undo_due(const sl_ladder *l, int strategy) {
    sl_time since;
    double rate = keeping_rate(l, strategy);
    if (!is_over(l, strategy, &since))
        return SL_TIME_NEVER;
    sl_time due =
        rate > 0 ? after(l->now, (allowance(l, strategy) * (1 - rounding) - l->rung[strategy].kept) / rate)
                 : SL_TIME_NEVER;
    if (l->rung[strategy].strategy.returns && since + recurring(l, strategy) < due)
        due = since + recurring(l, strategy);
    return due > since + l->config.calm ? due : since + l->config.calm;
}

sl_time sl_ladder_due(const sl_ladder *l) {
    sl_time due = SL_TIME_NEVER;
    if (l->under_way != SL_ACTION_NONE)
        return due;
    if (l->config.profile_every > 0)
        due = l->profiled_at + l->config.profile_every;
    for (int s = 0; s < l->rungs; s++) {
        double rate, reached = progress(l, s, &rate);
        sl_time when = reached >= 1 ? l->now
                       : rate > 0   ? after(l->now, (1 - rounding / 2 - reached) / rate)
                                    : SL_TIME_NEVER;
        sl_time undo = undo_due(l, s);
        when = undo < when ? undo : when;
        due = when < due ? when : due;
    }
    return due < l->now ? l->now : due;
}
