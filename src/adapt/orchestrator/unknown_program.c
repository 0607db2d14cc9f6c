/* The orchestrator of a program with an unknown pipeline: reports become incidents of the ladder
 * (adapt/ladder), with the losses of unknown.h, and the ladder's choices become actions. orchestrator.c
 * and steps.c call these functions if sl_orchestrator_config has `unknown`.
 *
 * Reports are stored, and incidents begin, change and end at the next sl_unknown_observe, because the loss is
 * divided among all slow parts. The body says with each iteration whether iterations are slow. If it gives
 * only their times, these are watched here (naming.h), and a report lasts until its relief.
 *
 * The effect of a strategy is the level after it has settled (sl_unknown_settled). If iterations become
 * healthy before that, the cause is the balance, not the end of the incident, unless reports last: the
 * incident continues without loss, because recovery of the device is not visible from outside. The incident
 * also continues if a mitigated part is no longer reported while the program is still slow. */
#include "adapt/orchestrator/orchestrator_inside.h"
#include "base/memory.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NEWS 0.02 /* a loss that has moved by less is not reported to the ladder again */

typedef struct incident {
    sl_incident_view view; /* its loss: as last reported to the ladder */
    double claimed;        /* reported loss; negative: taken from the model */
    int lasts;
    int named;    /* reported, and not over */
    int part;     /* index among the parts of the model; -1: not there */
    int strategy; /* the last one carried out and still in effect; -1 */
} incident;

typedef struct program_question {
    const sl_orchestrator *o;
    sl_strategy_kind kind;
} program_question;

struct sl_unknown {
    sl_unknown_job job;
    sl_unknown_view view; /* of job and part */
    program_question ask[SL_STRATEGY_KINDS];
    incident *incident;
    size_t count, capacity;
    sl_unknown_part *part; /* the slow parts when the program last was slow; room as for incidents */
    size_t part_room, view_room;
    int watches; /* iteration times are monitored here */
    int *ids;    /* of the action's incidents */
    size_t id_room;
    int *split, ranks;                      /* [ranks] the split for a balance; known from the start, or 0 */
    unsigned advised;                       /* bits of strategies whose last action was only advised */
    int applied_iteration, applied_changes; /* of the last action carried out */
    sl_time applied_at;
};

static incident *find(const sl_unknown *u, int id) {
    for (size_t i = 0; i < u->count; i++)
        if (u->incident[i].view.id == id)
            return &u->incident[i];
    return NULL;
}

/* ---- opening ---- */

/* The host that a restart would leave out for it; NULL: unknown, or it must stay. */
static const char *host_of(const sl_orchestrator *o, const incident *i) {
    const char *host =
        i && o->host && i->view.part.a >= 0 && i->view.part.a < o->processes ? o->host[i->view.part.a] : NULL;
    return host && sl_orchestrator_can_leave(o, host) ? host : NULL;
}

static double remaining(void *user, const sl_incident *announced) {
    const program_question *ask = user;
    const sl_unknown_view *view = &ask->o->unknown->view;
    const incident *i = find(ask->o->unknown, announced->id);
    double loss = i && i->part >= 0 ? sl_unknown_loss(view, i->part) : 0;
    if (loss <= 0 || (ask->kind == SL_STRATEGY_RESTART && ask->o->host && !host_of(ask->o, i)))
        return announced->loss;
    /* the ladder's loss for the incident may be newer than the last reported one */
    return announced->loss / loss * sl_unknown_remaining(view, ask->kind, i->part);
}

static double keeping(void *user, const sl_incident *announced) {
    const program_question *ask = user;
    (void)announced;
    return sl_unknown_keeping(&ask->o->unknown->view, ask->kind);
}

static sl_status open_ladder(sl_orchestrator *o, const sl_orchestrator_config *c) {
    sl_ladder_config config = sl_ladder_defaults();
    sl_strategy strategy[SL_STRATEGY_KINDS];
    for (int s = 0; s < SL_STRATEGY_KINDS; s++) {
        o->strategies.rung[s] = -1;
        if (s < SL_STRATEGY_BALANCE || !(c->can & (1u << s)))
            continue;
        program_question *ask = &o->unknown->ask[s];
        *ask = (program_question){.o = o, .kind = (sl_strategy_kind)s};
        strategy[o->strategies.rungs] = (sl_strategy){
            .name = sl_strategy_words[s],
            .causes = s == SL_STRATEGY_BALANCE ? SL_CAUSE_DEVICE | SL_CAUSE_HOST : SL_CAUSES_ANY,
            .cost = c->cost[s],
            .undo_cost = c->undo[s],
            .replaces = s == SL_STRATEGY_RESTART,
            .remaining = remaining,
            .keeping = keeping,
            .user = ask};
        o->strategies.rung[s] = o->strategies.rungs;
        o->strategies.kind[o->strategies.rungs++] = s;
    }
    config.at_once = c->at_once > 0 ? c->at_once : config.at_once;
    config.calm = c->calm < 0 ? 0 : c->calm > 0 ? c->calm : config.calm;
    config.changed = c->changed > 0 ? c->changed : config.changed;
    config.least_gain = c->least_gain > 0 ? c->least_gain : config.least_gain;
    config.profile_every = 0; /* the reporter decides when to measure */
    return sl_ladder_open(&config, strategy, o->strategies.rungs, &o->ladder);
}

sl_status sl_unknown_open(sl_orchestrator *o, const sl_orchestrator_config *config) {
    SL_TRY(sl_alloc(&o->unknown, 1, sizeof *o->unknown));
    o->unknown->job = *config->unknown;
    o->unknown->view.job = &o->unknown->job;
    o->unknown->view.failed = &o->failed;
    o->unknown->ranks = config->unknown->ranks;
    SL_TRY(sl_alloc(&o->unknown->split, (size_t)o->unknown->ranks, sizeof(int)));
    SL_TRY(sl_history_open(0, 0, config->hold, &o->series));
    SL_TRY(sl_naming_open(&o->naming));
    return open_ladder(o, config);
}

void sl_unknown_close(sl_unknown *u) {
    if (u)
        SL_FREE(u->incident, u->part, u->ids, u->split, u);
}

/* ---- decisions ---- */

int sl_unknown_why_not(const sl_orchestrator *o, int id, sl_strategy_kind kind, char *text, size_t size) {
    const incident *i = find(o->unknown, id);
    text[0] = 0;
    if (i && i->part >= 0)
        sl_unknown_why(&o->unknown->view, kind, i->part, text, size);
    return i != NULL;
}

/* Reads the ladder's new entries. */
static void read_log(sl_orchestrator *o) {
    size_t count;
    const sl_ladder_entry *log = sl_ladder_log(o->ladder, &count);
    for (size_t k = 0; k < count; k++) {
        const sl_ladder_entry *e = &log[k];
        char text[384], why[96] = "", line[512];
        sl_strategy_kind kind =
            e->strategy >= 0 ? (sl_strategy_kind)o->strategies.kind[e->strategy] : SL_STRATEGY_KINDS;
        int advised = e->strategy >= 0 && (o->unknown->advised & (1u << kind));
        sl_ladder_entry_text(o->ladder, e, text, sizeof text);
        if (e->kind == SL_LADDER_CONSIDERED &&
            (e->reason == SL_REASON_CANNOT_HELP || e->reason == SL_REASON_OTHER_CAUSE))
            sl_unknown_why_not(o, e->id, kind, why, sizeof why);
        if (advised && e->kind == SL_LADDER_FAILED)
            snprintf(text, sizeof text, "%s: no program carries it out", sl_strategy_words[kind]);
        else if (advised && e->kind == SL_LADDER_CONSIDERED && e->reason == SL_REASON_FAILED)
            snprintf(text, sizeof text, "  %s: advised three times", sl_strategy_words[kind]);
        snprintf(line, sizeof line, "%10.3f s  %s%s%s\n", (double)e->time / 1e9, text, why[0] ? ": " : "",
                 why);
        sl_events_write(o, line);
        sl_events_decided(o, e, advised, text);
    }
    sl_ladder_clear_log(o->ladder);
}

/* ---- reports ---- */

static int is_past(const sl_orchestrator *o, const incident *i) {
    sl_strategy_view view;
    int used = i->lasts || i->named;
    for (int s = 0; s < SL_STRATEGY_KINDS; s++)
        used |= sl_orchestrator_considered(o, i->view.id, (sl_strategy_kind)s, &view) && view.in_effect;
    return !used;
}

/* Reuses the slot of an ended incident with nothing in effect, or adds one. */
static sl_status make_incident(sl_orchestrator *o, incident **slot) {
    sl_unknown *u = o->unknown;
    for (size_t i = 0; i < u->count; i++)
        if (is_past(o, &u->incident[i])) {
            *slot = &u->incident[i];
            return SL_OK;
        }
    SL_TRY(sl_grow(&u->part, &u->part_room, u->count + 1, sizeof *u->part));
    u->view.part = u->part;
    SL_TRY(sl_grow(&o->view, &u->view_room, u->count + 1, sizeof *o->view));
    SL_TRY(sl_grow(&u->incident, &u->capacity, u->count + 1, sizeof *u->incident));
    *slot = &u->incident[u->count++];
    return SL_OK;
}

sl_status sl_unknown_report(sl_orchestrator *o, const sl_orchestrator_report *report) {
    incident *i = find(o->unknown, report->id);
    if (report->id < 0)
        return sl_error(SL_EINVAL, "the id of a slow component must not be negative, got %d", report->id);
    if (i)
        i->named = !report->over;
    if (report->over)
        return SL_OK;
    if (!i) {
        SL_TRY(make_incident(o, &i));
        *i = (incident){.part = -1, .strategy = -1, .named = 1};
    }
    i->claimed = report->loss;
    i->view.id = report->id;
    i->view.verdict = 1;
    i->view.stage = -1;
    sl_incidents_note(report, &i->view);
    return SL_OK;
}

/* ---- incidents ---- */

static sl_unknown_part part_of(const incident *i) {
    return (sl_unknown_part){.part = i->view.part, .host = i->view.host};
}

static double loss_of(const sl_unknown *u, const incident *i) {
    return i->claimed >= 0 ? i->claimed : sl_unknown_loss(&u->view, i->part);
}

static void report(sl_orchestrator *o, const incident *i, sl_event_kind kind) {
    sl_event *e = sl_events_add(o, kind);
    if (!e)
        return;
    if (i->view.part.kind == SL_PART_LINK) {
        e->from = i->view.part.a;
        e->to = i->view.part.b;
    } else {
        e->rank = i->view.part.a;
    }
    sl_text_format(e->seen, sizeof e->seen, "%s", i->view.seen);
    sl_event_fact(e, "incident", json_integer(i->view.id));
    if (kind == SL_EVENT_ONSET)
        sl_text_format(e->why, sizeof e->why, "%.1f%% of the time is lost", 100 * i->view.loss);
}

static sl_status begin(sl_orchestrator *o, incident *i, double loss) {
    sl_unknown_part part = part_of(i);
    sl_incident announced = {.id = i->view.id, .cause = (sl_cause)sl_unknown_cause(&part), .loss = loss};
    memcpy(announced.seen, i->view.seen, sizeof announced.seen);
    SL_TRY(sl_ladder_begins(o->ladder, o->now, &announced));
    i->lasts = 1;
    i->strategy = -1;
    i->view.awaited = 0;
    i->view.since = o->iteration;
    i->view.loss = loss;
    report(o, i, SL_EVENT_ONSET);
    return SL_OK;
}

static sl_status change(sl_orchestrator *o, incident *i, double loss) {
    if (!i->view.awaited && fabs(loss - i->view.loss) <= NEWS * fmax(loss, i->view.loss))
        return SL_OK;
    SL_TRY(sl_ladder_changes(o->ladder, o->now, i->view.id, loss));
    i->view.awaited = 0;
    i->view.loss = loss;
    return SL_OK;
}

static sl_status relieve(sl_orchestrator *o, incident *i) {
    SL_TRY(sl_ladder_relieved(o->ladder, o->now, i->view.id));
    i->lasts = i->view.awaited = 0;
    report(o, i, SL_EVENT_RELIEF);
    return SL_OK;
}

/* Everything reported is slow. */
static sl_status follow_slow(sl_orchestrator *o) {
    sl_unknown *u = o->unknown;
    int settled = u->watches ? o->series.rows - o->series.quiet >= o->config.hold
                             : sl_unknown_settled(o->iteration - u->applied_iteration, o->now - u->applied_at,
                                                  u->job.changes != u->applied_changes);
    u->view.parts = 0;
    for (size_t k = 0; k < u->count; k++) {
        incident *i = &u->incident[k];
        i->part = i->named ? u->view.parts : -1;
        if (i->named)
            u->part[u->view.parts++] = part_of(i);
    }
    for (size_t k = 0; k < u->count && o->doing.asks_again; k++)
        if (u->incident[k].lasts)
            SL_TRY(sl_ladder_reconsider(o->ladder, o->now, u->incident[k].view.id));
    o->doing.asks_again = 0;
    for (size_t k = 0; k < u->count; k++) {
        incident *i = &u->incident[k];
        if (i->named && !i->lasts)
            SL_TRY(begin(o, i, loss_of(u, i)));
        else if (i->named && (!i->view.awaited || settled))
            SL_TRY(change(o, i, loss_of(u, i)));
    }
    for (size_t k = 0; k < u->count; k++) {
        incident *i = &u->incident[k];
        if (i->lasts && !i->named && (i->strategy < 0 || u->watches))
            SL_TRY(relieve(o, i));
    }
    return SL_OK;
}

/* Iterations are healthy again. */
static sl_status follow_healthy(sl_orchestrator *o) {
    for (size_t k = 0; k < o->unknown->count; k++) {
        incident *i = &o->unknown->incident[k];
        int treated = i->strategy == SL_STRATEGY_BALANCE && (i->view.awaited || i->view.loss <= 0) &&
                      !o->unknown->watches;
        i->named = 0;
        if (i->lasts)
            SL_TRY(treated ? change(o, i, 0) : relieve(o, i));
    }
    return SL_OK;
}

/* Observations during an application count neither as before nor as after it. */
static sl_status follow(sl_orchestrator *o, const sl_unknown_job *job) {
    sl_unknown *u = o->unknown;
    double healthy = u->job.healthy, level = u->job.level;
    int was_slow = u->job.slow;
    if (!job || (o->doing.action.id && !o->doing.action.undo))
        return SL_OK;
    u->job = *job;
    if (job->slow)
        return follow_slow(o);
    u->job.healthy = healthy;
    u->job.level = level;
    return was_slow ? follow_healthy(o) : SL_OK;
}

/* The program's state, from its iteration times. */
static sl_status watch(sl_orchestrator *o, const sl_orchestrator_iteration *it, sl_unknown_job *job) {
    sl_unknown *u = o->unknown;
    sl_naming_result result;
    int reported = 0;
    u->watches = 1;
    o->naming.altered = 0;
    for (int s = 0; s < o->strategies.rungs; s++)
        o->naming.altered |= sl_ladder_in_effect(o->ladder, s);
    for (size_t k = 0; k < u->count; k++)
        reported |= u->incident[k].named;
    int trouble = reported || o->naming.altered;
    SL_TRY(sl_history_add(&o->series, it));
    SL_TRY(sl_naming_step(&o->naming, &o->series, trouble, 0, 0, &result));
    sl_events_naming(o, &result);
    sl_row *row = sl_history_row(&o->series, o->series.rows - 1);
    row->named = reported;
    row->slow = trouble || sl_naming_is_slow(&o->naming);
    SL_TRY(sl_history_learn(&o->series));
    *job = u->job;
    job->slow = reported || sl_naming_is_slow(&o->naming);
    job->healthy = o->series.iteration.time;
    double level = sl_history_time(&o->series);
    job->level = level > 0 ? fmax(job->healthy, level) : u->job.level;
    return SL_OK;
}

sl_status sl_unknown_observe(sl_orchestrator *o, const sl_orchestrator_iteration *it) {
    const sl_unknown_job *job = it->unknown;
    sl_unknown_job watched;
    int again = o->observed && it->iteration == o->iteration;
    sl_status failed = o->failed;
    o->failed = SL_OK;
    o->iteration = it->iteration;
    o->now = it->now;
    o->observed = 1;
    SL_TRY(failed);
    if (!job && it->time > 0 && !again) {
        SL_TRY(watch(o, it, &watched));
        job = &watched;
    }
    sl_status status = follow(o, job);
    read_log(o);
    return sl_steps_result(o, status);
}

/* ---- actions ---- */

/* NULL: not known for each rank. */
static int *split_for(sl_unknown *u, int undo) {
    int known = u->ranks > 0 && u->job.ranks == u->ranks && u->job.replicas == u->ranks;
    for (int r = 0; r < u->ranks && undo; r++)
        u->split[r] = u->job.microbatches;
    return known && (undo || sl_unknown_split(&u->view, u->split) == SL_OK) ? u->split : NULL;
}

static sl_status take_action(sl_orchestrator *o, const sl_action *said) {
    sl_unknown *u = o->unknown;
    SL_TRY(sl_grow(&u->ids, &u->id_room, (size_t)said->count, sizeof *u->ids));
    memcpy(u->ids, said->incidents, (size_t)said->count * sizeof *u->ids);
    sl_orchestrator_action *a = &o->doing.action;
    *a = sl_strategies_action(o, said);
    a->what = a->strategy == SL_STRATEGY_RESTART ? SL_DO_LEAVE : SL_DO_LAYOUT;
    a->incidents = u->ids;
    for (int k = 0; k < a->count && a->what == SL_DO_LEAVE && !a->host; k++)
        a->host = host_of(o, find(u, u->ids[k]));
    if (a->strategy == SL_STRATEGY_BALANCE)
        a->layout.split = split_for(u, a->undo);
    read_log(o);
    return SL_OK;
}

int sl_unknown_next(sl_orchestrator *o, sl_orchestrator_action *action) {
    sl_action said;
    if (o->doing.action.id)
        return 0;
    o->failed = sl_ladder_next(o->ladder, o->now, &said);
    if (o->failed != SL_OK || (said.kind != SL_ACTION_APPLY && said.kind != SL_ACTION_UNDO))
        return 0;
    o->failed = take_action(o, &said);
    if (o->failed != SL_OK) { /* it was not handed out */
        o->doing.action.id = 0;
        (void)sl_ladder_ended(o->ladder, o->now, 0, 0);
        return 0;
    }
    *action = o->doing.action;
    return 1;
}

static void take_effect(sl_orchestrator *o) {
    sl_unknown *u = o->unknown;
    for (int k = 0; k < o->doing.action.count; k++) {
        incident *i = find(u, u->ids[k]);
        if (!i)
            continue;
        i->strategy = o->doing.action.undo ? -1 : (int)o->doing.action.strategy;
        i->view.awaited = !o->doing.action.undo && i->lasts;
    }
    if (o->doing.action.layout.split && u->ranks == o->config.job.replicas)
        memcpy(o->layout.split, u->split, (size_t)u->ranks * sizeof *u->split);
    u->applied_iteration = o->iteration;
    u->applied_at = o->now;
    u->applied_changes = u->job.changes;
    o->series.quiet = o->series.rows;
    sl_naming_changed(&o->naming, &o->series);
}

sl_status sl_unknown_carried_out(sl_orchestrator *o, int id, sl_time now, sl_outcome outcome, sl_time took) {
    sl_unknown *u = o->unknown;
    unsigned bit = 1u << o->doing.action.strategy;
    if (id == 0 || id != o->doing.action.id)
        return SL_OK;
    o->doing.action.id = 0;
    o->now = now > o->now ? now : o->now;
    u->view.refused |= outcome == SL_OUTCOME_REFUSED ? bit : 0;
    u->advised = outcome == SL_OUTCOME_ADVISED ? u->advised | bit : u->advised & ~bit;
    SL_TRY(sl_ladder_ended(o->ladder, o->now, took, outcome == SL_OUTCOME_DONE));
    read_log(o);
    if (outcome == SL_OUTCOME_DONE)
        take_effect(o);
    (void)sl_steps_result(o, SL_OK);
    return SL_OK;
}

/* ---- queries ---- */

const sl_unknown_view *sl_unknown_seen(const sl_unknown *u) {
    return &u->view;
}

const sl_incident_view *sl_unknown_incidents(const sl_orchestrator *o, int *count) {
    *count = 0;
    for (size_t k = 0; k < o->unknown->count; k++)
        if (o->unknown->incident[k].lasts)
            o->view[(*count)++] = o->unknown->incident[k].view;
    sl_incidents_sort(o->view, *count);
    return o->view;
}
