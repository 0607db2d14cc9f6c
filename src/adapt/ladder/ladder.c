#include "adapt/ladder/ladder_inside.h"
#include "base/memory.h"

#include <math.h>

sl_ladder_config sl_ladder_defaults(void) {
    return (sl_ladder_config){.at_once = 100 * SL_MS,
                              .least_gain = 0.05,
                              .changed = 0.1,
                              .calm = 10 * SL_SECOND,
                              .profile_every = 600 * SL_SECOND};
}

sl_status sl_ladder_open(const sl_ladder_config *config, const sl_strategy *strategies, int count,
                         sl_ladder **ladder) {
    sl_ladder *l;
    if (count < 0 || count > SL_STRATEGIES_MAX)
        return sl_error(SL_EINVAL, "a ladder of %d strategies; at most %d", count, SL_STRATEGIES_MAX);
    for (int s = 0; s < count; s++) {
        if (!strategies[s].name || !strategies[s].remaining)
            return sl_error(SL_EINVAL, "strategy %d has no name or no estimate of what would remain", s);
        if (strategies[s].cost < 0 || strategies[s].undo_cost < 0)
            return sl_error(SL_EINVAL, "strategy '%s' has a negative cost", strategies[s].name);
    }
    SL_TRY(sl_alloc(&l, 1, sizeof *l));
    l->config = *config;
    l->rungs = count;
    for (int s = 0; s < count; s++)
        l->rung[s].strategy = strategies[s];
    *ladder = l;
    return SL_OK;
}

void sl_ladder_close(sl_ladder *l) {
    if (!l)
        return;
    SL_FREE(l->cases, l->ids, l->log, l);
}

sl_time sl_ladder_cost(const sl_ladder *l, int strategy) {
    return l->rung[strategy].strategy.cost;
}

sl_status sl_ladder_estimate(sl_ladder *l, int strategy, sl_time cost) {
    if (strategy < 0 || strategy >= l->rungs || cost < 0)
        return sl_error(SL_EINVAL, "strategy %d of %d is estimated to cost %.3f ms", strategy, l->rungs,
                        sl_to_ms(cost));
    l->rung[strategy].strategy.cost = cost;
    return SL_OK;
}

int sl_ladder_in_effect(const sl_ladder *l, int strategy) {
    for (size_t i = 0; i < l->case_count; i++)
        if (l->cases[i].pair[strategy].in_effect)
            return 1;
    return 0;
}

/* ---- time ---- */

/* No other loss counts while the job is stopped for an action: sl_ladder_ended counts the rest. */
static sl_status advance(sl_ladder *l, sl_time now) {
    if (now < l->now)
        return sl_error(SL_EINVAL, "the ladder's time goes back by %.3f ms", sl_to_ms(l->now - now));
    SL_TRY(sl_ladder_reserve(l));
    if (l->under_way == SL_ACTION_NONE)
        sl_ladder_pass(l, (double)(now - l->now));
    l->now = now;
    return SL_OK;
}

/* ---- incidents ---- */

static sl_ladder_case *find(sl_ladder *l, int id) {
    for (size_t i = 0; i < l->case_count; i++)
        if (l->cases[i].incident.id == id)
            return &l->cases[i];
    return NULL;
}

/* A relieved incident with nothing in effect and nothing remembered. */
static int is_past(const sl_ladder *l, const sl_ladder_case *c) {
    if (c->active)
        return 0;
    for (int s = 0; s < l->rungs; s++)
        if (c->pair[s].in_effect || c->pair[s].lost > 0)
            return 0;
    return !sl_ladder_may_recur(l, c);
}

/* The slot for a new incident: a past one's, or one more. */
static sl_status make_case(sl_ladder *l, sl_ladder_case **slot) {
    for (size_t i = 0; i < l->case_count; i++)
        if (is_past(l, &l->cases[i])) {
            *slot = &l->cases[i];
            return SL_OK;
        }
    SL_TRY(sl_grow(&l->ids, &l->id_capacity, l->case_count + 1, sizeof *l->ids));
    SL_TRY(sl_grow(&l->cases, &l->case_capacity, l->case_count + 1, sizeof *l->cases));
    *slot = &l->cases[l->case_count++];
    return SL_OK;
}

static sl_status check(int id, double loss) {
    if (id < 0 || !(loss >= 0 && loss < 1e6))
        return sl_error(SL_EINVAL, "the loss per second of incident %d must be from 0 to 1e6, got %g", id,
                        loss);
    return SL_OK;
}

/* Failures count while their incidents last. */
static void forget_failures(sl_ladder *l) {
    for (size_t i = 0; i < l->case_count; i++)
        if (l->cases[i].active)
            return;
    for (int s = 0; s < l->rungs; s++)
        l->rung[s].failures = 0;
}

static void ask_keeping(const sl_ladder *l, sl_ladder_case *c, int strategy) {
    const sl_strategy *s = &l->rung[strategy].strategy;
    c->pair[strategy].keeping = s->keeping ? fmax(0, s->keeping(s->user, &c->incident)) : 0;
}

/* Another incident may be what makes keeping a strategy free after relief, so strategies in effect are asked
 * again when an incident begins or ends. */
static void ask_all_keeping(const sl_ladder *l) {
    for (size_t i = 0; i < l->case_count; i++) {
        sl_ladder_case *c = &l->cases[i];
        for (int s = 0; s < l->rungs && !c->active; s++)
            if (c->pair[s].in_effect)
                ask_keeping(l, c, s);
    }
}

sl_status sl_ladder_begins(sl_ladder *l, sl_time now, const sl_incident *incident) {
    sl_ladder_entry *entry;
    SL_TRY(check(incident->id, incident->loss));
    SL_TRY(advance(l, now));
    sl_ladder_case *c = find(l, incident->id);
    int returned = c && !is_past(l, c);
    if (c && c->active)
        return sl_error(SL_EINVAL, "incident %d begins, but it has not been relieved", incident->id);
    if (!c)
        SL_TRY(make_case(l, &c));
    if (!returned)
        *c = (sl_ladder_case){0};
    c->recurs = returned && sl_ladder_may_recur(l, c);
    if (c->recurs && now - c->relieved_at > c->lasted)
        c->lasted = now - c->relieved_at;
    c->incident = *incident;
    c->active = 1;
    c->returned = returned;
    c->since = now;
    c->brought = -1;
    ask_all_keeping(l);
    SL_TRY(sl_ladder_note(l, SL_LADDER_BEGAN, c, -1, &entry));
    return sl_ladder_plan(l, c, 1);
}

sl_status sl_ladder_changes(sl_ladder *l, sl_time now, int id, double loss) {
    sl_ladder_entry *entry;
    SL_TRY(check(id, loss));
    SL_TRY(advance(l, now));
    sl_ladder_case *c = find(l, id);
    if (!c || !c->active)
        return sl_error(SL_EINVAL, "incident %d changes, but it has not begun", id);
    double was = c->believed;
    int outcome = c->brought;
    c->incident.loss = loss;
    if (outcome >= 0) {
        SL_TRY(sl_ladder_note(l, SL_LADDER_BROUGHT, c, outcome, &entry));
        entry->expected = was;
        c->pair[outcome].saves = fmax(0, c->pair[outcome].saves + was - loss);
        c->brought = -1;
    }
    if (fabs(loss - was) <= l->config.changed * fmax(loss, was))
        return SL_OK;
    if (outcome < 0) {
        SL_TRY(sl_ladder_note(l, SL_LADDER_CHANGED, c, -1, &entry));
        entry->expected = was;
    }
    /* an application's effect, even if unexpected, is no reason to apply it again */
    return sl_ladder_plan(l, c, outcome < 0);
}

sl_status sl_ladder_reconsider(sl_ladder *l, sl_time now, int id) {
    SL_TRY(advance(l, now));
    sl_ladder_case *c = find(l, id);
    return c && c->active ? sl_ladder_plan(l, c, 1) : SL_OK;
}

sl_status sl_ladder_relieved(sl_ladder *l, sl_time now, int id) {
    sl_ladder_entry *entry;
    SL_TRY(advance(l, now));
    sl_ladder_case *c = find(l, id);
    if (!c || !c->active)
        return sl_error(SL_EINVAL, "incident %d is relieved, but it has not begun", id);
    SL_TRY(sl_ladder_note(l, SL_LADDER_RELIEVED, c, -1, &entry));
    c->active = 0;
    c->relieved_at = now;
    c->lasted = now - c->since + c->incident.age > c->lasted ? now - c->since + c->incident.age : c->lasted;
    c->brought = -1;
    ask_all_keeping(l);
    for (int s = 0; s < l->rungs; s++) {
        if (!c->pair[s].in_effect)
            ask_keeping(l, c, s);
        c->pair[s].reason = c->pair[s].in_effect ? SL_REASON_IN_EFFECT : SL_REASON_NONE;
    }
    forget_failures(l);
    return SL_OK;
}

/* ---- actions ---- */

static int wants(const sl_ladder_case *c, int strategy) {
    const sl_ladder_pair *pair = &c->pair[strategy];
    return c->active && (pair->reason == SL_REASON_WAITS || pair->reason == SL_REASON_AT_ONCE ||
                         pair->reason == SL_REASON_SKIPPED);
}

/* The cheapest of those that are due; -1: none. */
static int cheapest(const sl_ladder *l) {
    int best = -1;
    for (int s = 0; s < l->rungs; s++)
        if (sl_ladder_reached(l, s) >= 1 && (best < 0 || sl_ladder_price(l, s) < sl_ladder_price(l, best)))
            best = s;
    return best;
}

static sl_status begin_apply(sl_ladder *l, int strategy) {
    sl_ladder_entry sum = {.trigger = -1}, *entry;
    l->id_count = 0;
    const sl_ladder_case *first = NULL;
    for (size_t i = 0; i < l->case_count; i++) {
        const sl_ladder_case *c = &l->cases[i];
        if (!wants(c, strategy))
            continue;
        first = first ? first : c;
        l->ids[l->id_count++] = c->incident.id;
        sum.loss += c->incident.loss;
        sum.expected += c->pair[strategy].expected;
        sum.lost += (sl_time)llround(c->pair[strategy].lost);
        if (isfinite(c->pair[strategy].trigger))
            sum.trigger = (sl_time)llround(c->pair[strategy].trigger);
    }
    SL_TRY(sl_ladder_note(l, SL_LADDER_APPLY, first, strategy, &entry));
    entry->count = l->id_count;
    entry->loss = sum.loss;
    entry->expected = sum.expected;
    entry->lost = sum.lost;
    entry->trigger = sum.trigger;
    entry->reason = first->pair[strategy].reason;
    entry->cost = (sl_time)sl_ladder_price(l, strategy);
    return SL_OK;
}

static sl_status begin_undo(sl_ladder *l, int strategy) {
    sl_ladder_entry *entry;
    const sl_ladder_case *first = NULL;
    l->id_count = 0;
    for (size_t i = 0; i < l->case_count; i++)
        if (l->cases[i].pair[strategy].in_effect) {
            first = first ? first : &l->cases[i];
            l->ids[l->id_count++] = l->cases[i].incident.id;
        }
    SL_TRY(sl_ladder_note(l, SL_LADDER_UNDO, first, strategy, &entry));
    entry->count = l->id_count;
    entry->lost = (sl_time)llround(l->rung[strategy].kept);
    entry->cost = l->rung[strategy].strategy.cost;
    return SL_OK;
}

sl_status sl_ladder_next(sl_ladder *l, sl_time now, sl_action *action) {
    sl_ladder_entry *entry;
    *action = (sl_action){.kind = SL_ACTION_NONE, .strategy = -1};
    SL_TRY(advance(l, now));
    if (l->under_way != SL_ACTION_NONE)
        return SL_OK;
    int strategy = cheapest(l);
    if (strategy >= 0) {
        SL_TRY(begin_apply(l, strategy));
        action->kind = SL_ACTION_APPLY;
    }
    for (int s = 0; s < l->rungs && action->kind == SL_ACTION_NONE; s++)
        if (sl_ladder_is_to_be_undone(l, s)) {
            strategy = s;
            SL_TRY(begin_undo(l, strategy));
            action->kind = SL_ACTION_UNDO;
        }
    if (action->kind != SL_ACTION_NONE) {
        action->strategy = strategy;
        action->incidents = l->ids;
        action->count = l->id_count;
        l->under_way = action->kind;
        l->under_way_strategy = strategy;
        l->begun_at = now;
    } else if (l->config.profile_every > 0 && now - l->profiled_at >= l->config.profile_every) {
        SL_TRY(sl_ladder_note(l, SL_LADDER_PROFILE, NULL, -1, &entry));
        l->profiled_at = now;
        action->kind = SL_ACTION_PROFILE;
    }
    return SL_OK;
}

/* ---- ends ---- */

/* The model's value is used until something is measured. */
static sl_status take_effect(sl_ladder *l, sl_ladder_case *c, int strategy) {
    sl_ladder_pair *pair = &c->pair[strategy];
    int at_once = pair->reason == SL_REASON_AT_ONCE;
    for (int s = 0; s < l->rungs; s++) {
        c->pair[s].saves = 0; /* the savings of those below in addition to this one are unknown */
        if (l->rung[strategy].strategy.replaces)
            c->pair[s].in_effect = 0;
    }
    pair->in_effect = 1;
    pair->lost = 0;
    pair->saves = fmax(0, c->incident.loss - pair->expected);
    pair->reason = SL_REASON_IN_EFFECT;
    pair->trigger = INFINITY;
    if (l->rung[strategy].strategy.returns) {
        sl_time until = c->active ? l->now : c->relieved_at;
        pair->late = fmax(pair->late, pair->saves * (double)(until - c->since + c->incident.age));
    }
    if (!c->active) /* relieved while it was being applied */
        return SL_OK;
    c->incident.loss = c->believed = pair->expected;
    c->brought = strategy;
    for (int s = 0; s < l->rungs; s++)
        if (c->pair[s].reason == SL_REASON_WAITS &&
            c->pair[s].expected >= c->incident.loss * (1 - l->config.least_gain))
            c->pair[s].reason = SL_REASON_CANNOT_HELP;
    /* earlier answers of the others are outdated: a strategy applied immediately changes their gain */
    return at_once ? sl_ladder_plan(l, c, 0) : SL_OK;
}

static sl_status applied(sl_ladder *l, sl_time took, int done) {
    int strategy = l->under_way_strategy;
    sl_ladder_rung *rung = &l->rung[strategy];
    sl_ladder_entry *entry;
    SL_TRY(sl_ladder_note(l, done ? SL_LADDER_APPLIED : SL_LADDER_FAILED, NULL, strategy, &entry));
    entry->cost = took;
    entry->count = l->id_count;
    rung->failures = done ? 0 : rung->failures + 1;
    if (done) {
        rung->strategy.cost = took;
        rung->kept = 0;
    }
    for (int i = 0; i < l->id_count; i++) {
        sl_ladder_case *c = find(l, l->ids[i]);
        if (c && done)
            SL_TRY(take_effect(l, c, strategy));
        else if (c && c->active)
            SL_TRY(sl_ladder_plan(l, c, 0));
    }
    return SL_OK;
}

static sl_status undone(sl_ladder *l, sl_time took, int done) {
    sl_ladder_entry *entry;
    int strategy = l->under_way_strategy;
    SL_TRY(sl_ladder_note(l, done ? SL_LADDER_UNDONE : SL_LADDER_FAILED, NULL, strategy, &entry));
    entry->cost = took;
    entry->count = l->id_count;
    l->rung[strategy].kept = 0; /* a failed one is retried after the same loss again */
    if (!done)
        return SL_OK;
    l->rung[strategy].strategy.undo_cost = took;
    for (int i = 0; i < l->id_count; i++) {
        sl_ladder_case *c = find(l, l->ids[i]);
        if (!c)
            continue;
        c->pair[strategy].in_effect = 0;
        c->pair[strategy].lost = 0;
        if (c->active) /* it recurred during the undo */
            SL_TRY(sl_ladder_plan(l, c, 0));
    }
    return SL_OK;
}

sl_status sl_ladder_ended(sl_ladder *l, sl_time now, sl_time took, int done) {
    if (l->under_way == SL_ACTION_NONE)
        return sl_error(SL_EINVAL, "nothing was under way that could have ended");
    if (took < 0)
        return sl_error(SL_EINVAL, "%s took %.3f ms", l->rung[l->under_way_strategy].strategy.name,
                        sl_to_ms(took));
    SL_TRY(advance(l, now));
    sl_action_kind kind = l->under_way;
    l->under_way = SL_ACTION_NONE;
    if (now - l->begun_at > took)
        sl_ladder_pass(l, (double)(now - l->begun_at - took));
    return kind == SL_ACTION_APPLY ? applied(l, took, done) : undone(l, took, done);
}
