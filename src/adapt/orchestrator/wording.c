/* Text for users: events, and decisions in sentences. */
#include "adapt/orchestrator/orchestrator_inside.h"
#include "base/memory.h"
#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define EVENTS 64      /* from one call, and from the calls that answer it */
#define SENTENCES 8192 /* bytes */

sl_status sl_events_reserve(sl_orchestrator *o) {
    sl_run_data_text *d = &o->log.decisions;
    SL_TRY(sl_grow(&o->log.events, &o->log.event_room, o->log.event_count + EVENTS, sizeof *o->log.events));
    SL_TRY(sl_grow(&d->text, &d->room, d->used + SENTENCES, 1));
    return o->ladder ? sl_ladder_reserve(o->ladder) : SL_OK;
}

sl_event *sl_events_add(sl_orchestrator *o, sl_event_kind kind) {
    if (o->log.event_first == o->log.event_count)
        o->log.event_first = o->log.event_count = 0;
    sl_status status =
        sl_grow(&o->log.events, &o->log.event_room, o->log.event_count + 1, sizeof *o->log.events);
    if (status != SL_OK) {
        o->failed = status;
        return NULL;
    }
    sl_event *e = &o->log.events[o->log.event_count++];
    *e =
        (sl_event){.kind = kind, .time = o->now, .iteration = o->iteration, .from = -1, .to = -1, .rank = -1};
    return e;
}

static void name_replica(const sl_orchestrator *o, sl_event *e, int replica) {
    if (o->config.job.replicas > 1 && replica >= 0) {
        e->has_replica = 1;
        e->replica = replica;
    }
}

/* Named by the initial positions of its processes, as the device, cable or host at fault belongs to them. */
/* For programs: the incident, and its share of the time. */
static void add_incident(sl_event *e, int id, double loss) {
    sl_event_fact(e, "incident", json_integer(id));
    sl_event_fact(e, "loss", json_real(loss));
}

static void name_component(const sl_orchestrator *o, sl_event *e, const sl_case *c) {
    const sl_job *job = &o->config.job;
    const sl_slow_part *part = &c->view.part;
    if (part->a < 0)
        return;
    int replica = sl_job_replica(job, part->a), a = sl_job_rank(job, part->a);
    if (part->kind == SL_PART_LINK) {
        int b = sl_job_rank(job, part->b);
        if (sl_job_replica(job, part->b) != replica)
            return;
        int there = part->latency[0] > 0 || part->pace[0] > 0,
            back = part->latency[1] > 0 || part->pace[1] > 0;
        int turned = there && back ? a > b : back; /* the direction, if only one is slow */
        e->both = there && back;
        e->from = turned ? b : a;
        e->to = turned ? a : b;
    } else {
        e->rank = a;
    }
    name_replica(o, e, replica);
}

/* Who is meant by a position: of a slow device, the one of its tensor ranks that its incident names. */
static int process_at(const sl_orchestrator *o, const sl_suspect *s, int rank, int replica) {
    for (int i = 0; i < o->case_count && s->component == SL_COMPONENT_DEVICE; i++) {
        const sl_case *c = &o->cases[i];
        if (c->seen && c->cause == SL_CAUSE_DEVICE && c->rank == rank && c->replica == replica &&
            c->view.part.kind == SL_PART_DEVICE)
            return c->view.part.a;
    }
    return sl_cases_process(o, rank, replica);
}

/* Converts present positions to initial ones; a link whose ends were in two replicas keeps its name. */
static void go_home(const sl_orchestrator *o, int *replica, sl_suspect *s) {
    const sl_job *job = &o->config.job;
    int *const rank[] = {&s->rank, &s->from, &s->to};
    int home[3] = {-1, -1, -1}, common = -1;
    for (int i = 0; i < 3 && *replica >= 0; i++)
        if (*rank[i] >= 0) {
            home[i] = process_at(o, s, *rank[i], *replica);
            if (common >= 0 && sl_job_replica(job, home[i]) != common)
                return;
            common = sl_job_replica(job, home[i]);
        }
    for (int i = 0; i < 3; i++)
        if (home[i] >= 0)
            *rank[i] = sl_job_rank(job, home[i]);
    *replica = common >= 0 ? common : *replica;
}

void sl_events_onset(sl_orchestrator *o, const sl_case *c) {
    sl_event *e = sl_events_add(o, SL_EVENT_ONSET);
    if (!e)
        return;
    name_component(o, e, c);
    add_incident(e, c->view.id, c->view.loss);
    sl_text_format(e->seen, sizeof e->seen, "%s; %.1f%% of the time is lost", c->view.seen,
                   100 * c->view.loss);
}

void sl_events_relief(sl_orchestrator *o, const sl_case *c) {
    char name[80];
    sl_event *e = sl_events_add(o, SL_EVENT_RELIEF);
    if (!e)
        return;
    name_component(o, e, c);
    sl_event_fact(e, "incident", json_integer(c->view.id));
    sl_incident_name(o, c, name, sizeof name);
    sl_text_format(e->seen, sizeof e->seen, "%s is back at its healthy level",
                   c->reported ? c->view.seen : name);
}

static void say_times(sl_event *e, const sl_naming_result *r) {
    sl_text_format(e->seen, sizeof e->seen, "iterations take %.1f ms since iteration %d", r->after, r->first);
    if (r->before > 0) /* known */
        sl_text_format(e->seen, sizeof e->seen, "%s, %.1f ms when healthy", e->seen, r->before);
}

static void add_named(sl_event *e, const sl_naming_result *r, const sl_suspect *s) {
    sl_event_fact(e, "component", json_string(sl_component_name(s->component)));
    if (s->component == SL_COMPONENT_GROUP)
        sl_event_fact(e, "stage", json_integer((int)s->group));
    if (s->component != SL_COMPONENT_UNKNOWN && s->expected > 0 && s->measured > 0)
        sl_event_fact(e, "slowdown", json_real(s->measured / s->expected));
    sl_event_fact(e, "since", json_integer(r->first));
    sl_event_fact(e, "iteration_ms", json_real(r->after));
    if (r->before > 0)
        sl_event_fact(e, "healthy_ms", json_real(r->before));
}

static void say_named(sl_orchestrator *o, const sl_naming_result *r, const sl_named *named) {
    sl_suspect home = named->suspect;
    int replica = named->replica;
    const sl_suspect *s = &home;
    go_home(o, &replica, &home);
    sl_event *e = sl_events_add(o, r->kind == SL_NAMING_SUSPECT ? SL_EVENT_SUSPECT : SL_EVENT_VERDICT);
    if (!e)
        return;
    sl_suspect name = *s;
    name.why[0] = 0;
    name_replica(o, e, replica);
    e->from = s->component == SL_COMPONENT_LINK ? s->from : -1;
    e->to = s->component == SL_COMPONENT_LINK ? s->to : -1;
    e->both = s->both;
    e->rank = s->rank;
    if (s->component == SL_COMPONENT_GROUP)
        sl_text_format(e->decided, sizeof e->decided, "replicas of stage %d x %.2f", (int)s->group,
                       s->measured / s->expected);
    else
        sl_suspect_text(&name, e->decided, sizeof e->decided);
    say_times(e, r);
    add_named(e, r, s);
    sl_text_format(e->why, sizeof e->why, "%s%s", s->why,
                   s->component == SL_COMPONENT_DEVICE && o->config.job.tensor > 1
                       ? "; its tensor ranks wait for each other, so it may be any of them"
                       : "");
}

/* A verdict on a component applies to its incident. */
static void mark_verdict(sl_orchestrator *o, const sl_named *named) {
    const sl_suspect *s = &named->suspect;
    for (int i = 0; i < o->case_count; i++) {
        sl_case *c = &o->cases[i];
        int device = s->component == SL_COMPONENT_DEVICE && c->cause == SL_CAUSE_DEVICE && c->rank == s->rank,
            host = s->component == SL_COMPONENT_HOST && c->cause == SL_CAUSE_HOST && c->rank == s->rank,
            link = s->component == SL_COMPONENT_LINK && c->cause == SL_CAUSE_LINK &&
                   (c->from == s->from || c->from == s->to) && (c->to == s->to || c->to == s->from),
            sum = s->component == SL_COMPONENT_GROUP && c->cause == SL_CAUSE_REPLICA_LINK;
        if (sum || ((device || host || link) && c->replica == named->replica))
            c->view.verdict = 1;
    }
}

/* Onset or relief that shows in iteration times only. */
static void say_iterations(sl_orchestrator *o, const sl_naming_result *r, sl_event_kind kind) {
    sl_event *e = sl_events_add(o, kind);
    if (e && kind == SL_EVENT_RELIEF)
        sl_text_format(e->seen, sizeof e->seen, "iterations take %.1f ms again", r->over);
    else if (e)
        say_times(e, r);
}

void sl_events_naming(sl_orchestrator *o, const sl_naming_result *r) {
    if (r->begins)
        say_iterations(o, r, SL_EVENT_ONSET);
    for (int i = 0; i < r->count && r->kind != SL_NAMING_NOTHING; i++)
        say_named(o, r, &r->named[i]);
    for (int i = 0; i < o->naming.announced.count; i++) /* its incident may start later */
        mark_verdict(o, &o->naming.announced.named[i]);
    if (r->over > 0)
        say_iterations(o, r, SL_EVENT_RELIEF);
}

static void explain(sl_event *e, const sl_side *side) {
    char predicted[32], best[32];
    snprintf(predicted, sizeof predicted, "%.2f ms", sl_to_ms(side->predicted));
    snprintf(best, sizeof best, "%.2f ms", sl_to_ms(side->best));
    if (strcmp(predicted, best) == 0) {
        sl_text_format(e->why, sizeof e->why,
                       "both schedules are predicted to take %s per iteration; a swap costs %.2f ms once",
                       best, sl_to_ms(side->cost));
        return;
    }
    sl_text_format(e->why, sizeof e->why,
                   "the running schedule is predicted to take %s per iteration and the new one %s; "
                   "a swap costs %.2f ms once",
                   predicted, best, sl_to_ms(side->cost));
}

/* Names the costliest component of a replica in the event. */
static void name_costliest(const sl_orchestrator *o, sl_event *e, int replica) {
    const sl_case *worst = NULL;
    for (int i = 0; i < o->case_count; i++)
        if (o->cases[i].seen && (o->cases[i].replica == replica || o->cases[i].replica < 0) &&
            (!worst || o->cases[i].excess > worst->excess))
            worst = &o->cases[i];
    if (!worst)
        return;
    name_component(o, e, worst);
    sl_text_format(e->seen, sizeof e->seen, "%s", worst->view.seen);
}

void sl_events_swap(sl_orchestrator *o, int replica, int undo) {
    const sl_side *side = &o->side[replica < 0 ? 0 : replica];
    sl_event *e = sl_events_add(o, undo ? SL_EVENT_RETURN : SL_EVENT_SWAP);
    if (!e)
        return;
    if (!undo)
        name_costliest(o, e, replica);
    name_replica(o, e, replica);
    if (undo)
        sl_text_format(e->decided, sizeof e->decided, "back to the first schedule");
    else
        sl_text_format(e->decided, sizeof e->decided, "swap to %s", side->wanted->plan.schedule);
    if (side->refits)
        sl_text_format(e->seen, sizeof e->seen,
                       o->improve ? "nothing is slow, but another schedule is better"
                                  : "nothing is slow, but ops or links take longer or shorter than planned");
    explain(e, side);
    char whose[32] = "";
    if (o->config.job.replicas > 1 && replica >= 0)
        snprintf(whose, sizeof whose, " of replica %d", replica);
    else if (replica < 0)
        snprintf(whose, sizeof whose, " of all replicas");
    sl_events_decision(o, "the schedule%s: %s%s%s; %s", whose, e->decided, e->seen[0] ? ", for " : "",
                       e->seen, e->why);
}

/* The reason for doing nothing, once per incident, after it has lasted. */
void sl_events_keep(sl_orchestrator *o, const sl_case *c) {
    int replica = c->replica < 0 ? 0 : c->replica;
    const sl_side *side = &o->side[replica];
    if (side->wanted || o->doing.action.id || side->running != side->first)
        return;
    sl_event *e = sl_events_add(o, SL_EVENT_KEEP);
    if (!e)
        return;
    name_component(o, e, c);
    sl_text_format(e->seen, sizeof e->seen, "%s", c->view.seen);
    int left = o->config.dwell - (o->iteration - side->last_swap);
    sl_text_format(e->decided, sizeof e->decided,
                   o->config.frozen ? "keep the schedule: adapt is off" : "keep the schedule");
    if (!(o->config.can & 1u << SL_STRATEGY_SCHEDULE))
        sl_text_format(e->why, sizeof e->why, "the job cannot run another one");
    else if (left > 0)
        sl_text_format(e->why, sizeof e->why, "the last swap was %d iterations ago; the minimum is %d",
                       o->iteration - side->last_swap, o->config.dwell);
    else
        explain(e, side);
}

void sl_events_keep_first(sl_orchestrator *o, int replica) {
    sl_event *e = sl_events_add(o, SL_EVENT_KEEP);
    if (!e)
        return;
    name_replica(o, e, replica);
    sl_text_format(e->seen, sizeof e->seen, "nothing is slow, but another schedule is better");
    sl_text_format(e->decided, sizeof e->decided, "keep the schedule: adapt is off");
    explain(e, &o->side[replica]);
}

void sl_events_path(sl_orchestrator *o, int delegates) {
    sl_event *e = sl_events_add(o, delegates ? SL_EVENT_DELEGATE : SL_EVENT_DIRECT);
    if (!e)
        return;
    if (!delegates) {
        sl_text_format(e->decided, sizeof e->decided, "the ranks carry their messages themselves");
        sl_text_format(e->why, sizeof e->why, "links and ops have been healthy for %d iterations",
                       o->config.hold);
    } else {
        for (int i = 0; i < o->case_count && !e->seen[0];
             i++) /* the cause: a slow link or card of a pipeline */
            if (o->cases[i].seen && o->cases[i].replica >= 0 && o->cases[i].cause != SL_CAUSE_DEVICE) {
                name_component(o, e, &o->cases[i]);
                sl_text_format(e->seen, sizeof e->seen, "%s", o->cases[i].view.seen);
            }
        if (delegates == 1)
            sl_text_format(e->decided, sizeof e->decided,
                           "a delegate carries the messages of each link and direction");
        else
            sl_text_format(e->decided, sizeof e->decided,
                           "%d delegates carry the messages of each link and direction", delegates);
        sl_text_format(e->why, sizeof e->why,
                       "the link has been beyond the tolerance of the running schedule for %d iterations",
                       o->config.hold);
    }
    sl_events_decision(o, "the path of messages: %s; %s", e->decided, e->why);
}

/* ---- decisions ---- */

void sl_events_write(sl_orchestrator *o, const char *text) {
    sl_run_data_text *d = &o->log.decisions;
    size_t length = strlen(text);
    sl_status status = sl_grow(&d->text, &d->room, d->used + length + 1, 1);
    if (status != SL_OK) {
        o->failed = status;
        return;
    }
    memcpy(d->text + d->used, text, length + 1);
    d->used += length;
}

void sl_events_decision(sl_orchestrator *o, const char *format, ...) {
    char text[640], line[720];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(line, sizeof line, "%9.3f s  iteration %4d  %s\n", sl_to_ms(o->now) / 1e3, o->iteration, text);
    sl_events_write(o, line);
}

/* One line for the strategies considered for an incident: each that could help, and what others lack. */
typedef struct considered {
    int id, any;
    double loss;
    char text[560];
} considered;

static void consider(sl_orchestrator *o, considered *c, const sl_ladder_entry *e) {
    static const char *const no[] = {[SL_REASON_OTHER_CAUSE] = "not for this cause",
                                     [SL_REASON_CANNOT_HELP] = "no gain predicted",
                                     [SL_REASON_SKIPPED] = "another is better",
                                     [SL_REASON_IN_EFFECT] = "in effect",
                                     [SL_REASON_FAILED] = "failed too often"};
    char piece[120];
    const char *name = sl_strategy_words[o->strategies.kind[e->strategy]];
    if (e->reason == SL_REASON_WAITS || e->reason == SL_REASON_AT_ONCE)
        snprintf(piece, sizeof piece, "%s: %s, predicted time lost %.1f%%, cost %.3g s", name,
                 e->reason == SL_REASON_AT_ONCE ? "now" : "later", 100 * e->expected, (double)e->cost / 1e9);
    else
        snprintf(piece, sizeof piece, "%s: %s", name, no[e->reason] ? no[e->reason] : "");
    if (e->reason == SL_REASON_WAITS) {
        char when[48];
        snprintf(when, sizeof when, ", after %.3g s of lost time", (double)e->trigger / 1e9);
        sl_text_add(piece, sizeof piece, "", when);
    }
    sl_text_add(c->text, sizeof c->text, "; ", piece);
    c->any |=
        e->reason == SL_REASON_WAITS || e->reason == SL_REASON_AT_ONCE || e->reason == SL_REASON_SKIPPED;
    c->id = e->id;
    c->loss = e->loss;
}

/* A repeated line is not written again. */
static void end_considering(sl_orchestrator *o, considered *c) {
    if (c->text[0] && (c->any || !o->log.said[0]) &&
        strncmp(c->text, o->log.said, sizeof o->log.said - 1) != 0) {
        sl_events_decision(o, "  %s", c->text);
        snprintf(o->log.said, sizeof o->log.said, "%s", c->text);
    }
    c->text[0] = 0;
}

/* The start and end of a swap or change of path have events of their own. */
static int is_reported_otherwise(const sl_orchestrator *o, const sl_ladder_entry *e) {
    int at_once = e->strategy >= 0 && o->strategies.kind[e->strategy] <= SL_STRATEGY_DELEGATE;
    return at_once && e->kind != SL_LADDER_BROUGHT && e->kind != SL_LADDER_FAILED;
}

static int is_event(sl_ladder_entry_kind kind) {
    return kind == SL_LADDER_APPLY || kind == SL_LADDER_UNDO || kind == SL_LADDER_BROUGHT ||
           kind == SL_LADDER_FAILED;
}

static void add_decision(const sl_orchestrator *o, const sl_ladder_entry *e, int advised, sl_event *event) {
    static const char *const steps[] = {[SL_LADDER_APPLY] = "apply",
                                        [SL_LADDER_UNDO] = "undo",
                                        [SL_LADDER_BROUGHT] = "result",
                                        [SL_LADDER_FAILED] = "failed"};
    sl_event_fact(event, "step",
                  json_string(advised && e->kind == SL_LADDER_FAILED ? "advised" : steps[e->kind]));
    if (e->strategy >= 0)
        sl_event_fact(event, "strategy", json_string(sl_strategy_keys[o->strategies.kind[e->strategy]]));
    if (e->id >= 0)
        sl_event_fact(event, "incident", json_integer(e->id));
    if (e->kind != SL_LADDER_APPLY && e->kind != SL_LADDER_BROUGHT)
        return;
    sl_event_fact(event, "loss", json_real(e->loss));
    sl_event_fact(event, "expected_loss", json_real(e->expected));
}

/* Of an incident as it is now, if it still is one: the ladder keeps what was seen at its begin. */
static const char *seen_now(const sl_orchestrator *o, const sl_ladder_entry *e) {
    for (int i = 0; i < o->case_count; i++)
        if (o->cases[i].view.id == e->id && o->cases[i].seen && o->cases[i].view.seen[0])
            return o->cases[i].view.seen;
    return e->seen;
}

void sl_events_decided(sl_orchestrator *o, const sl_ladder_entry *e, int advised, const char *text) {
    sl_event *event = is_event(e->kind) ? sl_events_add(o, SL_EVENT_DECISION) : NULL;
    if (!event)
        return;
    sl_text_format(event->seen, sizeof event->seen, "%s", seen_now(o, e));
    sl_text_fit(event->decided, sizeof event->decided, text);
    add_decision(o, e, advised, event);
    sl_text_format(event->why, sizeof event->why, "%s", strlen(text) >= sizeof event->decided ? text : "");
}

void sl_events_ladder(sl_orchestrator *o) {
    size_t count;
    considered so_far = {0};
    if (!o->ladder)
        return;
    const sl_ladder_entry *entry = sl_ladder_log(o->ladder, &count);
    for (size_t i = 0; i < count; i++) {
        char text[256];
        const sl_ladder_entry *e = &entry[i];
        if (e->kind == SL_LADDER_CONSIDERED) {
            consider(o, &so_far, e);
            continue;
        }
        end_considering(o, &so_far);
        if (is_reported_otherwise(o, e))
            continue;
        if (e->kind == SL_LADDER_BEGAN)
            o->log.said[0] = 0;
        sl_ladder_entry_text(o->ladder, e, text, sizeof text);
        sl_events_decision(o, "%s", text);
        sl_events_decided(o, e, 0, text);
    }
    end_considering(o, &so_far);
    sl_ladder_clear_log(o->ladder);
}
