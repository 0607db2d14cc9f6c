#include "notice/watch/advice.h"
#include "base/memory.h"
#include "base/text.h"
#include "notice/watch/advice_inside.h"
#include "notice/watch/words.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SETTLE_ITERATIONS 20
#define SETTLE_TIME (3 * SL_SECOND)
#define TOLD 0.02 /* a loss that has moved by less is not told to the ladder again */

int sl_advice_strategy(const sl_advice *a, int index) {
    return index >= 0 && index < a->strategies ? a->strategy_of[index] : -1;
}

const sl_foreign *sl_advice_foreign(const sl_advice *a) {
    return &a->foreign;
}

/* ---- the model, as the ladder asks it ---- */

static double remaining(void *user, const sl_incident *incident) {
    const sl_advice_bound *b = user;
    const sl_advice_incident *i = &b->advice->incident[incident->id];
    double loss = i->slot >= 0 ? sl_foreign_loss(&b->advice->foreign, i->slot) : 0;
    if (loss <= 0)
        return incident->loss;
    /* what the ladder believes of the incident may be newer than the model's last view */
    return incident->loss / loss * sl_foreign_remaining(&b->advice->foreign, b->strategy, i->slot);
}

static double keeping(void *user, const sl_incident *incident) {
    const sl_advice_bound *b = user;
    (void)incident;
    return sl_foreign_keeping(&b->advice->foreign, b->strategy);
}

/* ---- opening ---- */

static sl_status open_ladder(sl_advice *a) {
    static const unsigned causes[SL_FOREIGN_STRATEGIES] = {[SL_FOREIGN_BALANCE] =
                                                               SL_CAUSE_DEVICE | SL_CAUSE_HOST,
                                                           [SL_FOREIGN_TOPOLOGY] = SL_CAUSES_ANY,
                                                           [SL_FOREIGN_RESTART] = SL_CAUSES_ANY};
    sl_strategy strategy[SL_FOREIGN_STRATEGIES];
    sl_ladder_config config = sl_ladder_defaults();
    config.profile_every = 0; /* the controller profiles when it needs to */
    for (int s = 0; s < SL_FOREIGN_STRATEGIES; s++) {
        double cost = a->config.foreign.cost_s[s];
        a->bound[s] = (sl_advice_bound){.advice = a, .strategy = s};
        if (!(cost >= 0))
            continue;
        a->strategy_of[a->strategies] = s;
        strategy[a->strategies++] = (sl_strategy){.name = sl_foreign_words(s),
                                                  .causes = causes[s],
                                                  .cost = (sl_time)llround(cost * 1e9),
                                                  .undo_cost = (sl_time)llround(cost * 1e9),
                                                  .replaces = s == SL_FOREIGN_RESTART,
                                                  .remaining = remaining,
                                                  .keeping = keeping,
                                                  .user = &a->bound[s]};
    }
    return sl_ladder_open(&config, strategy, a->strategies, &a->ladder);
}

sl_status sl_advice_open(const sl_advice_config *config, sl_advice **advice) {
    sl_advice *a;
    for (int s = 0; s < SL_FOREIGN_STRATEGIES; s++)
        if (!(config->foreign.cost_s[s] < 9e8))
            return sl_error(SL_EINVAL, "%s costs %g s; at most 9e8", sl_foreign_name(s),
                            config->foreign.cost_s[s]);
    if (config->foreign.microbatches < 1)
        return sl_error(SL_EINVAL, "a rank has %d microbatches", config->foreign.microbatches);
    SL_TRY(sl_alloc(&a, 1, sizeof *a));
    a->config = *config;
    a->foreign.config = config->foreign;
    a->iteration = -1;
    sl_status status = open_ladder(a);
    if (status == SL_OK)
        *advice = a;
    else
        sl_advice_close(a);
    return status;
}

void sl_advice_close(sl_advice *a) {
    if (!a)
        return;
    sl_ladder_close(a->ladder);
    sl_free(a);
}

/* ---- what is told ---- */

static void tell(const sl_advice *a, sl_event *event, sl_time told) {
    event->time = told;
    event->iteration = (int)(a->iteration > 0 ? a->iteration : 0);
    if (a->config.tell)
        a->config.tell(a->config.context, event);
}

/* Entries that the ladder has written since: what it says of each strategy is kept for the views. */
static unsigned read_log(sl_advice *a) {
    size_t count;
    unsigned considered = 0;
    const sl_ladder_entry *log = sl_ladder_log(a->ladder, &count);
    for (; a->read < count; a->read++) {
        const sl_ladder_entry *e = &log[a->read];
        int s = sl_advice_strategy(a, e->strategy);
        if (e->kind != SL_LADDER_CONSIDERED || s < 0 || e->id < 0 || e->id >= SL_ADVICE_INCIDENTS)
            continue;
        sl_advice_incident *c = &a->incident[e->id];
        c->rung[s] = (sl_advice_rung){
            .reason = e->reason, .expected = e->expected, .cost = e->cost, .trigger = e->trigger};
        if (c->slot >= 0)
            sl_foreign_why(&a->foreign, s, c->slot, c->rung[s].why, sizeof c->rung[s].why);
        considered |= 1u << e->id;
    }
    return considered;
}

/* ---- incidents ---- */

static int id_of(const sl_advice *a, const sl_suspect *slow) {
    for (int i = 0; i < SL_ADVICE_INCIDENTS; i++)
        if (a->incident[i].used && sl_words_same(&a->incident[i].slow, slow))
            return i;
    return -1;
}

/* A component keeps its id for good; where there are too many, those that are over give theirs away. */
static int place_for(sl_advice *a, const sl_suspect *slow) {
    int id = id_of(a, slow), free = -1, over = -1;
    if (id >= 0)
        return id;
    for (int i = SL_ADVICE_INCIDENTS - 1; i >= 0; i--)
        if (!a->incident[i].used)
            free = i;
        else if (!a->incident[i].active)
            over = i;
    id = free >= 0 ? free : over;
    if (id >= 0)
        a->incident[id] = (sl_advice_incident){.slow = *slow, .used = 1, .slot = -1, .strategy = -1};
    return id;
}

static int has_settled(const sl_advice *a, sl_time now) {
    return a->iteration >= a->applied_at + SETTLE_ITERATIONS && now >= a->applied_time + SETTLE_TIME;
}

static sl_status begin(sl_advice *a, sl_time now, int id, double loss) {
    sl_advice_incident *i = &a->incident[id];
    sl_incident told = {.id = id, .cause = (sl_cause)sl_foreign_cause(&i->slow), .loss = loss};
    char name[64], text[512];
    sl_suspect_name(&i->slow, name, sizeof name);
    sl_suspect_text(&i->slow, text, sizeof text);
    sl_text_fit(told.seen, sizeof told.seen, strlen(text) < sizeof told.seen ? text : name);
    i->active = 1;
    i->pending = 0;
    i->strategy = -1;
    i->since = now;
    i->loss = loss;
    return sl_ladder_begins(a->ladder, now, &told);
}

static sl_status change(sl_advice *a, sl_time now, int id, double loss) {
    sl_advice_incident *i = &a->incident[id];
    if (!i->pending && fabs(loss - i->loss) <= TOLD * fmax(loss, i->loss))
        return SL_OK;
    i->pending = 0;
    i->loss = loss;
    return sl_ladder_changes(a->ladder, now, id, loss);
}

static sl_status relieve(sl_advice *a, sl_time now, int id) {
    a->incident[id].active = 0;
    a->incident[id].pending = 0;
    return sl_ladder_relieved(a->ladder, now, id);
}

/* The verdicts of a slow phase. What was applied a moment ago is not judged yet, unless times have changed.
 */
static sl_status follow(sl_advice *a, sl_time now, int changed) {
    int named[SL_ADVICE_INCIDENTS] = {0};
    int judge = changed || has_settled(a, now);
    for (int i = 0; i < SL_ADVICE_INCIDENTS; i++)
        a->incident[i].slot = -1;
    for (int k = 0; k < a->foreign.count; k++) {
        int id = place_for(a, &a->foreign.slow[k]);
        if (id < 0 || named[id])
            continue;
        named[id] = 1;
        a->incident[id].slow = a->foreign.slow[k];
        a->incident[id].slot = k;
        if (!a->incident[id].active)
            SL_TRY(begin(a, now, id, sl_foreign_loss(&a->foreign, k)));
        else if (!a->incident[id].pending || judge)
            SL_TRY(change(a, now, id, sl_foreign_loss(&a->foreign, k)));
    }
    for (int i = 0; i < SL_ADVICE_INCIDENTS; i++)
        if (a->incident[i].active && !named[i] && a->incident[i].strategy < 0)
            SL_TRY(relieve(a, now, i));
    return SL_OK;
}

/* Iterations are healthy again. */
static sl_status healthy(sl_advice *a, sl_time now) {
    for (int i = 0; i < SL_ADVICE_INCIDENTS; i++) {
        sl_advice_incident *c = &a->incident[i];
        c->planned = c->called = 0; /* what comes again is told again */
        if (!c->active)
            continue;
        int treated = c->strategy == SL_FOREIGN_BALANCE && (c->pending || c->loss <= 0);
        SL_TRY(treated ? change(a, now, i, 0) : relieve(a, now, i));
    }
    return SL_OK;
}

/* An action under way may bring iterations back before it says that it has ended. */
static int is_acted_on(const sl_advice *a) {
    return a->number != 0 && !a->undo;
}

sl_status sl_advice_view(sl_advice *a, sl_time now, sl_time told, const sl_status_view *view) {
    int changed = view->onsets != a->onsets || view->reliefs != a->reliefs;
    if (view->phase == SL_PHASE_ENDED)
        return SL_OK;
    a->iteration = view->iteration;
    if (is_acted_on(a)) /* what is seen now is neither before nor after it */
        return SL_OK;
    if (view->slow && view->verdicts > 0) {
        sl_foreign_take(&a->foreign, view);
        SL_TRY(follow(a, now, changed));
        a->onsets = view->onsets;
        a->reliefs = view->reliefs;
    } else if (!view->slow) {
        if (a->slow)
            SL_TRY(healthy(a, now));
        a->onsets = view->onsets;
        a->reliefs = view->reliefs;
    }
    a->slow = view->slow;
    return sl_advice_step(a, now, told);
}

/* ---- actions ---- */

/* Sums over the incidents of an action, as the ladder wrote them down a moment ago. */
static const sl_ladder_entry *entry_of(const sl_advice *a, sl_action_kind kind) {
    size_t count;
    const sl_ladder_entry *log = sl_ladder_log(a->ladder, &count);
    sl_ladder_entry_kind wanted = kind == SL_ACTION_APPLY ? SL_LADDER_APPLY : SL_LADDER_UNDO;
    while (count > 0)
        if (log[--count].kind == wanted)
            return &log[count];
    return NULL;
}

static void remember(sl_advice *a, const sl_action *action) {
    a->number = ++a->numbers;
    a->undo = action->kind == SL_ACTION_UNDO;
    a->strategy = sl_advice_strategy(a, action->strategy);
    a->count = action->count < SL_ADVICE_INCIDENTS ? action->count : SL_ADVICE_INCIDENTS;
    memcpy(a->ids, action->incidents, (size_t)a->count * sizeof *a->ids);
}

/* Nobody carries it out: it stays what it is, an advice. */
static sl_status pass_over(sl_advice *a, sl_time now) {
    a->number = 0;
    return sl_ladder_ended(a->ladder, now, 0, 0);
}

/* Whether any of its incidents has not been told of it. */
static int is_news(sl_advice *a) {
    int news = 0;
    for (int i = 0; i < a->count; i++) {
        sl_advice_incident *c = &a->incident[a->ids[i]];
        news |= c->called != a->strategy + 1;
        c->called = a->strategy + 1;
    }
    return news;
}

static sl_status act(sl_advice *a, sl_time now, sl_time told, const sl_action *action) {
    sl_event event;
    const sl_ladder_entry *entry = entry_of(a, action->kind);
    remember(a, action);
    sl_advice_action asked = {.number = a->number,
                              .undo = a->undo,
                              .strategy = a->strategy,
                              .incidents = a->ids,
                              .count = a->count,
                              .loss = entry && !a->undo ? entry->loss : 0,
                              .expected = entry && !a->undo ? entry->expected : 0,
                              .cost = entry ? entry->cost : 0,
                              .lost = entry ? entry->lost : 0,
                              .event = &event};
    int carried = a->config.carried && a->config.act;
    sl_advice_action_event(a, &asked, &event);
    if (carried || is_news(a))
        tell(a, &event, told);
    if (!carried)
        return pass_over(a, now);
    a->config.act(a->config.context, &asked);
    return SL_OK;
}

/* Once, and again when another strategy is to come next; other numbers alone are no news. */
static void tell_plan(sl_advice *a, sl_time told, int id) {
    sl_advice_incident *c = &a->incident[id];
    sl_event event;
    int plan = sl_advice_next(c) + 2;
    if (!c->active || c->pending || c->loss <= 0 || plan == c->planned)
        return;
    c->planned = plan;
    c->called = 0;
    sl_advice_plan_event(a, id, &event);
    tell(a, &event, told);
}

sl_status sl_advice_step(sl_advice *a, sl_time now, sl_time told) {
    for (int turn = 0; turn < 2 * SL_FOREIGN_STRATEGIES; turn++) {
        sl_action action;
        unsigned considered = read_log(a);
        for (int i = 0; i < SL_ADVICE_INCIDENTS; i++)
            if (considered >> i & 1)
                tell_plan(a, told, i);
        SL_TRY(sl_ladder_next(a->ladder, now, &action));
        if (action.kind != SL_ACTION_APPLY && action.kind != SL_ACTION_UNDO)
            return SL_OK;
        SL_TRY(act(a, now, told, &action));
    }
    return SL_OK;
}

/* Where a strategy takes effect, and what is in effect of those that it replaces no longer is. */
static void take_effect(sl_advice *a, sl_time now) {
    for (int i = 0; i < a->count; i++) {
        sl_advice_incident *c = &a->incident[a->ids[i]];
        c->strategy = a->undo ? -1 : a->strategy;
        c->pending = !a->undo && c->active;
        if (!a->undo)
            c->rung[a->strategy].reason = SL_REASON_IN_EFFECT;
    }
    a->applied_at = a->iteration;
    a->applied_time = now;
}

sl_status sl_advice_ended(sl_advice *a, sl_time now, sl_time told, int64_t number, sl_advice_outcome outcome,
                          sl_time took, const char *said) {
    sl_event event = {.kind = SL_EVENT_HOOK, .from = -1, .to = -1, .rank = -1};
    int done = outcome == SL_ADVICE_DONE;
    if (number == 0 || number != a->number)
        return SL_OK;
    a->number = 0;
    if (outcome == SL_ADVICE_REFUSED)
        a->foreign.refused |= 1u << a->strategy;
    SL_TRY(sl_ladder_ended(a->ladder, now, took, done));
    if (done)
        take_effect(a, now);
    sl_text_format(event.seen, sizeof event.seen, "%s%s: %s", a->undo ? "undo " : "",
                   sl_foreign_name(a->strategy), said);
    sl_text_format(event.decided, sizeof event.decided, "%s",
                   !done && outcome == SL_ADVICE_REFUSED ? "not asked for again"
                   : !done                               ? "not carried out"
                   : a->undo                             ? "undone"
                                                         : "carried out");
    tell(a, &event, told);
    return sl_advice_step(a, now, told);
}
