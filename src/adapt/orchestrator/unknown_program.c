#include "adapt/orchestrator/unknown_program.h"
#include "adapt/ladder/ladder.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEWS 0.02 /* a loss that has moved by less is not told to the ladder again */

typedef struct incident {
    sl_incident_view view; /* its loss: as the ladder was told */
    double claimed;        /* loss that was reported; negative: the model says it */
    int lasts;
    int named;    /* reported, and not over */
    int place;    /* among the parts of the model; -1: not there */
    int strategy; /* the last that was carried out while it lasts; -1 */
} incident;

typedef struct asked {
    sl_unknown *unknown;
    sl_strategy_kind kind;
} asked;

struct sl_unknown {
    sl_unknown_job job;
    sl_unknown_view view; /* of job and part */
    sl_ladder *ladder;
    asked ask[SL_STRATEGY_KINDS]; /* what each strategy of the ladder is */
    int rungs;                    /* of it */
    incident *incident;
    size_t count, capacity;
    sl_unknown_part *part; /* what was slow when the program was last; room as for incidents */
    sl_incident_view *list;
    size_t part_room, list_room;
    int iteration;
    sl_time now;

    sl_orchestrator_action action; /* under way; id 0: none */
    int actions;
    int *ids; /* of its incidents */
    size_t id_room;
    unsigned advised;                       /* bits of strategies that were last carried out by nobody */
    int applied_iteration, applied_changes; /* when something was carried out last */
    sl_time applied_at;

    char *text; /* decisions */
    size_t used, room;
    int read;         /* they were given to the caller */
    sl_status failed; /* of a call that cannot say so */
};

/* ---- opening ---- */

static incident *find(const sl_unknown *u, int id) {
    for (size_t i = 0; i < u->count; i++)
        if (u->incident[i].view.id == id)
            return &u->incident[i];
    return NULL;
}

static double remaining(void *user, const sl_incident *told) {
    const asked *ask = user;
    const sl_unknown_view *view = &ask->unknown->view;
    const incident *i = find(ask->unknown, told->id);
    double loss = i && i->place >= 0 ? sl_unknown_loss(view, i->place) : 0;
    if (loss <= 0)
        return told->loss;
    /* what the ladder believes of the incident may be newer than what was reported last */
    return told->loss / loss * sl_unknown_remaining(view, ask->kind, i->place);
}

static double keeping(void *user, const sl_incident *told) {
    const asked *ask = user;
    (void)told;
    return sl_unknown_keeping(&ask->unknown->view, ask->kind);
}

static sl_status open_ladder(sl_unknown *u, const sl_orchestrator_config *c) {
    sl_ladder_config config = sl_ladder_defaults();
    sl_strategy strategy[SL_STRATEGY_KINDS];
    for (int s = SL_STRATEGY_BALANCE; s < SL_STRATEGY_KINDS; s++) {
        if (!(c->can & (1u << s)))
            continue;
        u->ask[u->rungs] = (asked){.unknown = u, .kind = (sl_strategy_kind)s};
        strategy[u->rungs] = (sl_strategy){
            .name = sl_strategy_words[s],
            .causes = s == SL_STRATEGY_BALANCE ? SL_CAUSE_DEVICE | SL_CAUSE_HOST : SL_CAUSES_ANY,
            .cost = c->cost[s],
            .undo_cost = c->undo[s],
            .replaces = s == SL_STRATEGY_RESTART,
            .remaining = remaining,
            .keeping = keeping,
            .user = &u->ask[u->rungs]};
        u->rungs++;
    }
    config.at_once = c->at_once > 0 ? c->at_once : config.at_once;
    config.calm = c->calm < 0 ? 0 : c->calm > 0 ? c->calm : config.calm;
    config.news = c->news > 0 ? c->news : config.news;
    config.least_gain = c->least_gain > 0 ? c->least_gain : config.least_gain;
    config.profile_every = 0; /* whoever reports measures when it has to */
    return sl_ladder_open(&config, strategy, u->rungs, &u->ladder);
}

sl_status sl_unknown_open(const sl_orchestrator_config *config, sl_unknown **unknown) {
    sl_unknown *u;
    SL_TRY(sl_alloc(&u, 1, sizeof *u));
    u->job = *config->unknown;
    u->view.job = &u->job;
    sl_status status = open_ladder(u, config);
    if (status == SL_OK)
        *unknown = u;
    else
        sl_unknown_close(u);
    return status;
}

void sl_unknown_close(sl_unknown *u) {
    if (!u)
        return;
    sl_ladder_close(u->ladder);
    sl_free(u->incident);
    sl_free(u->part);
    sl_free(u->list);
    sl_free(u->ids);
    sl_free(u->text);
    sl_free(u);
}

/* ---- decisions ---- */

static sl_status write_decision(sl_unknown *u, sl_time time, const char *text, const char *why) {
    char line[512];
    int length = snprintf(line, sizeof line, "%10.3f s  %s%s%s%s\n", (double)time / 1e9, text,
                          why[0] ? " (" : "", why, why[0] ? ")" : "");
    u->used = u->read ? 0 : u->used;
    u->read = 0;
    SL_TRY(sl_grow(&u->text, &u->room, u->used + (size_t)length + 1, 1));
    memcpy(u->text + u->used, line, (size_t)length + 1);
    u->used += (size_t)length;
    return SL_OK;
}

static void why_of(const sl_unknown *u, int id, sl_strategy_kind kind, char *text, size_t size) {
    const incident *i = find(u, id);
    text[0] = 0;
    if (i && i->place >= 0)
        sl_unknown_why(&u->view, kind, i->place, text, size);
}

/* What the ladder has written since. */
static sl_status read_log(sl_unknown *u) {
    size_t count;
    const sl_ladder_entry *log = sl_ladder_log(u->ladder, &count);
    for (size_t k = 0; k < count; k++) {
        const sl_ladder_entry *e = &log[k];
        char text[384], why[96] = "";
        sl_strategy_kind kind = e->strategy >= 0 ? u->ask[e->strategy].kind : SL_STRATEGY_KINDS;
        int advised = e->strategy >= 0 && (u->advised & (1u << kind));
        sl_ladder_entry_text(u->ladder, e, text, sizeof text);
        if (e->kind == SL_LADDER_CONSIDERED &&
            (e->reason == SL_REASON_CANNOT_HELP || e->reason == SL_REASON_OTHER_CAUSE))
            why_of(u, e->id, kind, why, sizeof why);
        if (advised && e->kind == SL_LADDER_FAILED)
            snprintf(text, sizeof text, "%s: nobody carries it out", sl_strategy_words[kind]);
        else if (advised && e->kind == SL_LADDER_CONSIDERED && e->reason == SL_REASON_FAILED)
            snprintf(text, sizeof text, "  %s: advised three times", sl_strategy_words[kind]);
        SL_TRY(write_decision(u, e->time, text, why));
    }
    sl_ladder_clear_log(u->ladder);
    return SL_OK;
}

const char *sl_unknown_decisions(sl_unknown *u) {
    const char *text = u->used && !u->read ? u->text : NULL;
    u->read = 1;
    return text;
}

/* ---- reports ---- */

static int is_past(const sl_unknown *u, const incident *i) {
    sl_strategy_view view;
    int used = i->lasts || i->named;
    for (int s = 0; s < SL_STRATEGY_KINDS; s++)
        used |= sl_unknown_considered(u, i->view.id, (sl_strategy_kind)s, &view) && view.in_effect;
    return !used;
}

/* The place of one that is over and that nothing is in effect for, or one more. */
static sl_status make_place(sl_unknown *u, incident **place) {
    for (size_t i = 0; i < u->count; i++)
        if (is_past(u, &u->incident[i])) {
            *place = &u->incident[i];
            return SL_OK;
        }
    SL_TRY(sl_grow(&u->part, &u->part_room, u->count + 1, sizeof *u->part));
    u->view.part = u->part;
    SL_TRY(sl_grow(&u->list, &u->list_room, u->count + 1, sizeof *u->list));
    SL_TRY(sl_grow(&u->incident, &u->capacity, u->count + 1, sizeof *u->incident));
    *place = &u->incident[u->count++];
    return SL_OK;
}

sl_status sl_unknown_report(sl_unknown *u, const sl_orchestrator_report *report) {
    incident *i = find(u, report->id);
    if (report->id < 0)
        return sl_error(SL_EINVAL, "the id %d of what is slow is negative", report->id);
    if (i)
        i->named = !report->over;
    if (report->over)
        return SL_OK;
    if (!i) {
        SL_TRY(make_place(u, &i));
        *i = (incident){.place = -1, .strategy = -1, .named = 1};
    }
    i->claimed = report->loss;
    i->view.id = report->id;
    i->view.verdict = 1;
    i->view.part = report->part;
    i->view.host = report->host;
    i->view.stage = -1;
    i->view.growth = report->part.slowdown;
    memcpy(i->view.seen, report->seen, sizeof i->view.seen);
    return SL_OK;
}

/* ---- incidents ---- */

static sl_unknown_part part_of(const incident *i) {
    return (sl_unknown_part){.part = i->view.part, .host = i->view.host};
}

static double loss_of(const sl_unknown *u, const incident *i) {
    return i->claimed >= 0 ? i->claimed : sl_unknown_loss(&u->view, i->place);
}

static sl_status begin(sl_unknown *u, incident *i, double loss) {
    sl_unknown_part part = part_of(i);
    sl_incident told = {.id = i->view.id, .cause = (sl_cause)sl_unknown_cause(&part), .loss = loss};
    memcpy(told.seen, i->view.seen, sizeof told.seen);
    i->lasts = 1;
    i->strategy = -1;
    i->view.awaited = 0;
    i->view.since = u->iteration;
    i->view.loss = loss;
    return sl_ladder_begins(u->ladder, u->now, &told);
}

static sl_status change(sl_unknown *u, incident *i, double loss) {
    if (!i->view.awaited && fabs(loss - i->view.loss) <= NEWS * fmax(loss, i->view.loss))
        return SL_OK;
    i->view.awaited = 0;
    i->view.loss = loss;
    return sl_ladder_changes(u->ladder, u->now, i->view.id, loss);
}

static sl_status relieve(sl_unknown *u, incident *i) {
    i->lasts = i->view.awaited = 0;
    return sl_ladder_relieved(u->ladder, u->now, i->view.id);
}

/* All that is reported is slow. */
static sl_status follow_slow(sl_unknown *u) {
    int settled = sl_unknown_settled(u->iteration - u->applied_iteration, u->now - u->applied_at,
                                     u->job.changes != u->applied_changes);
    u->view.parts = 0;
    for (size_t k = 0; k < u->count; k++) {
        incident *i = &u->incident[k];
        i->place = i->named ? u->view.parts : -1;
        if (i->named)
            u->part[u->view.parts++] = part_of(i);
    }
    for (size_t k = 0; k < u->count; k++) {
        incident *i = &u->incident[k];
        if (i->named && !i->lasts)
            SL_TRY(begin(u, i, loss_of(u, i)));
        else if (i->named && (!i->view.awaited || settled))
            SL_TRY(change(u, i, loss_of(u, i)));
    }
    for (size_t k = 0; k < u->count; k++) {
        incident *i = &u->incident[k];
        if (i->lasts && !i->named && i->strategy < 0)
            SL_TRY(relieve(u, i));
    }
    return SL_OK;
}

/* Iterations are healthy again. */
static sl_status follow_healthy(sl_unknown *u) {
    for (size_t k = 0; k < u->count; k++) {
        incident *i = &u->incident[k];
        int treated = i->strategy == SL_STRATEGY_BALANCE && (i->view.awaited || i->view.loss <= 0);
        i->named = 0;
        if (i->lasts)
            SL_TRY(treated ? change(u, i, 0) : relieve(u, i));
    }
    return SL_OK;
}

/* While an application is under way, what is seen is neither before nor after it. */
static sl_status follow(sl_unknown *u, const sl_unknown_job *job) {
    double healthy = u->job.healthy, level = u->job.level;
    int was_slow = u->job.slow;
    if (!job || (u->action.id && !u->action.undo))
        return SL_OK;
    u->job = *job;
    if (job->slow)
        return follow_slow(u);
    u->job.healthy = healthy;
    u->job.level = level;
    return was_slow ? follow_healthy(u) : SL_OK;
}

sl_status sl_unknown_observe(sl_unknown *u, const sl_orchestrator_iteration *it) {
    if (it->now < u->now || it->iteration < u->iteration)
        return sl_error(SL_EINVAL, "iteration %d at %.3f ms comes after iteration %d at %.3f ms",
                        it->iteration, sl_to_ms(it->now), u->iteration, sl_to_ms(u->now));
    u->iteration = it->iteration;
    u->now = it->now;
    sl_status failed = u->failed;
    u->failed = SL_OK;
    SL_TRY(failed);
    SL_TRY(follow(u, it->unknown));
    return read_log(u);
}

/* ---- actions ---- */

/* Sums over the incidents of an action, as the ladder wrote them down a moment ago. */
static const sl_ladder_entry *entry_of(const sl_unknown *u) {
    size_t count;
    const sl_ladder_entry *log = sl_ladder_log(u->ladder, &count);
    return &log[count - 1];
}

static sl_status take_action(sl_unknown *u, const sl_action *said) {
    static const sl_do does[SL_STRATEGY_KINDS] = {[SL_STRATEGY_BALANCE] = SL_DO_LAYOUT,
                                                  [SL_STRATEGY_TOPOLOGY] = SL_DO_LAYOUT,
                                                  [SL_STRATEGY_RESTART] = SL_DO_LEAVE};
    const sl_ladder_entry *entry = entry_of(u);
    int undo = said->kind == SL_ACTION_UNDO;
    sl_strategy_kind kind = u->ask[said->strategy].kind;
    SL_TRY(sl_grow(&u->ids, &u->id_room, (size_t)said->count, sizeof *u->ids));
    memcpy(u->ids, said->incidents, (size_t)said->count * sizeof *u->ids);
    u->action = (sl_orchestrator_action){.id = ++u->actions,
                                         .what = does[kind],
                                         .undo = undo,
                                         .strategy = kind,
                                         .replica = -1,
                                         .cost = entry->cost,
                                         .loss = undo ? 0 : entry->loss,
                                         .expected = undo ? 0 : entry->expected,
                                         .lost = entry->lost,
                                         .incidents = u->ids,
                                         .count = said->count};
    return read_log(u);
}

int sl_unknown_next(sl_unknown *u, sl_orchestrator_action *action) {
    sl_action said;
    if (u->action.id)
        return 0;
    u->failed = sl_ladder_next(u->ladder, u->now, &said);
    if (u->failed != SL_OK || (said.kind != SL_ACTION_APPLY && said.kind != SL_ACTION_UNDO))
        return 0;
    u->failed = take_action(u, &said);
    if (u->failed != SL_OK) { /* it was not handed out */
        u->action.id = 0;
        (void)sl_ladder_ended(u->ladder, u->now, 0, 0);
        return 0;
    }
    *action = u->action;
    return 1;
}

static void take_effect(sl_unknown *u) {
    for (int k = 0; k < u->action.count; k++) {
        incident *i = find(u, u->ids[k]);
        if (!i)
            continue;
        i->strategy = u->action.undo ? -1 : (int)u->action.strategy;
        i->view.awaited = !u->action.undo && i->lasts;
    }
    u->applied_iteration = u->iteration;
    u->applied_at = u->now;
    u->applied_changes = u->job.changes;
}

sl_status sl_unknown_carried_out(sl_unknown *u, int id, sl_time now, sl_outcome outcome, sl_time took) {
    unsigned bit = 1u << u->action.strategy;
    if (id == 0 || id != u->action.id)
        return SL_OK;
    u->action.id = 0;
    u->now = now > u->now ? now : u->now;
    u->view.refused |= outcome == SL_OUTCOME_REFUSED ? bit : 0;
    u->advised = outcome == SL_OUTCOME_ADVISED ? u->advised | bit : u->advised & ~bit;
    SL_TRY(sl_ladder_ended(u->ladder, u->now, took, outcome == SL_OUTCOME_DONE));
    SL_TRY(read_log(u));
    if (outcome == SL_OUTCOME_DONE)
        take_effect(u);
    return SL_OK;
}

/* ---- what may be asked ---- */

const sl_unknown_view *sl_unknown_seen(const sl_unknown *u) {
    return &u->view;
}

int sl_unknown_considered(const sl_unknown *u, int id, sl_strategy_kind strategy, sl_strategy_view *view) {
    sl_ladder_entry e;
    int rung = 0;
    *view = (sl_strategy_view){.reason = SL_REASON_NONE};
    while (rung < u->rungs && u->ask[rung].kind != strategy)
        rung++;
    if (rung == u->rungs || !sl_ladder_considered(u->ladder, id, rung, &e, &view->in_effect))
        return find(u, id) != NULL;
    view->reason = e.reason;
    view->expected = e.expected;
    view->cost = e.cost;
    view->trigger = e.trigger;
    why_of(u, id, strategy, view->why, sizeof view->why);
    return 1;
}

static int costliest_first(const void *left, const void *right) {
    const sl_incident_view *a = left, *b = right;
    return a->loss != b->loss ? (a->loss < b->loss ? 1 : -1) : (a->id > b->id) - (a->id < b->id);
}

const sl_incident_view *sl_unknown_incidents(const sl_unknown *u, int *count) {
    *count = 0;
    for (size_t k = 0; k < u->count; k++)
        if (u->incident[k].lasts)
            u->list[(*count)++] = u->incident[k].view;
    if (*count > 1)
        qsort(u->list, (size_t)*count, sizeof *u->list, costliest_first);
    return u->list;
}
