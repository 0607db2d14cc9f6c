/* The body of a simulated job: it observes, reads, carries out; and the judge of what it reads. */
#include "drive.h"

#include "base/memory.h"
#include "plan/timing/replay.h"

#include <math.h>
#include <stdarg.h>

const char *const promise_words[PROMISES] = {
    "memory", "valid",  "dwell", "flapping", "same", "culprit", "named",
    "quiet",  "relief", "kept",  "actions",  "idle", "resume",
};

typedef struct watch { /* of a fault */
    int measured;      /* iterations in which its component was measured since it has cost enough */
    int began;         /* iteration of the first of them; -1: none */
    int judged;        /* it counts, and was named or not */
    int open;          /* an incident of it lasts */
    int named;
    int unsure; /* meanwhile it was said that nobody can tell */
    int costs;
} watch;

typedef struct driver {
    job j; /* a copy whose faults may end early, when a host is left */
    const drive_options *options;
    tally *sum;
    sl_orchestrator *o;
    job_noise noise;
    FILE *log;
    int iteration;
    sl_time now, healthy; /* what an iteration takes by the first plans without faults */
    sl_time quick;        /* actions that cost no more come at once */
    double lost, paid[SL_STRATEGY_KINDS];
    int last_swap[JOB_REPLICAS], last_quick[SL_DO_NETWORK + 1], last_undo[SL_DO_NETWORK + 1];
    unsigned refused;
    int failed;         /* actions that did not come about */
    unsigned char *met; /* [processes * processes] sat at the same rank and replica at some time */
    int home[JOB_PROCESSES], before[JOB_PROCESSES]; /* layouts in the beginning, before the last change */
    sl_order running[JOB_REPLICAS];
    int split[JOB_REPLICAS];
    watch watch[JOB_FAULTS];
    int changed;      /* plans or layout, in the last iteration */
    int moved;        /* the layout is another than in the beginning */
    int broken;       /* plans cannot be replayed: the job ends */
    int pending, due; /* an action is under way */
    int said[PROMISES];
    int accused[64], accusations; /* wrong incidents that were reported, by id */
    int idle;                     /* up to this iteration nothing is to come */
    sl_orchestrator_action action;
} driver;

static void violate(driver *d, promise what, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void violate(driver *d, promise what, const char *format, ...) {
    va_list list;
    if (d->sum->broken[what]++ >= 1000 || d->said[what]++ >= 3)
        return;
    va_start(list, format);
    printf("BROKEN %s: SL_SEED=%llu iteration %d: ", promise_words[what], (unsigned long long)d->j.seed,
           d->iteration);
    vprintf(format, list);
    printf("\n");
    va_end(list);
}

drive_options drive_defaults(void) {
    return (drive_options){.cost = 0.1, .lasts = 20, .within = 12};
}

/* ---- who may be named ---- */

static int processes(const driver *d) {
    return sl_job_processes(&d->j.config.job);
}

/* A fault counts as present for a while after its end: as long as medians remember it. */
static int recent(const driver *d, const job_fault *f) {
    return f->first <= d->iteration && d->iteration < f->until + d->j.config.hold + 8;
}

static int met(const driver *d, int a, int b) {
    return d->met[a * processes(d) + b];
}

static void meet(driver *d) {
    const sl_job *shape = &d->j.config.job;
    const sl_job_layout *layout = sl_orchestrator_layout(d->o);
    for (int at = 0; at < processes(d); at++)
        for (int t = 0; t < shape->tensor; t++)
            d->met[layout->process[at] * processes(d) +
                   layout->process[at / shape->tensor * shape->tensor + t]] = 1;
}

static int slows_devices(const job_fault *f) {
    return f->slowdown > 1;
}
static int slows_links(const job_fault *f) {
    return f->latency[0] > 0 || f->latency[1] > 0 || f->pace[0] > 0 || f->pace[1] > 0;
}

/* Whether the device of a process, or of one that shares its place (tensor ranks run side by side and are
 * measured as one), is slowed by the fault. */
static int explains_device(const driver *d, const job_fault *f, int process) {
    for (int p = 0; p < processes(d); p++)
        if (met(d, process, p) && slows_devices(f) &&
            ((f->kind == JOB_DEVICE && f->a == p) || (f->kind == JOB_HOST && job_same_host(&d->j, f->a, p))))
            return 1;
    return 0;
}

static int touches(const driver *d, const job_fault *f, int a, int b) {
    if (!slows_links(f))
        return 0;
    if (f->kind == JOB_LINK)
        return (met(d, f->a, a) && met(d, f->b, b)) || (met(d, f->a, b) && met(d, f->b, a));
    if (f->kind == JOB_CARD)
        return met(d, f->a, a) || met(d, f->a, b);
    for (int p = 0; p < processes(d) && f->kind == JOB_HOST; p++)
        if (job_same_host(&d->j, f->a, p) && (met(d, p, a) || met(d, p, b)))
            return 1;
    return 0;
}

/* A card is named rightly for a fault of card or host, or for one of a link when it has no other. */
static int explains_card(const driver *d, const job_fault *f, int process) {
    const sl_job *shape = &d->j.config.job;
    if (!slows_links(f))
        return 0;
    if (f->kind == JOB_LINK)
        return shape->ranks * shape->replicas == 2 && touches(d, f, process, f->a == process ? f->b : f->a);
    for (int p = 0; p < processes(d); p++)
        if (met(d, process, p) && (f->a == p || (f->kind == JOB_HOST && job_same_host(&d->j, f->a, p))))
            return 1;
    return 0;
}

/* Any pair of processes that hold the rank in two replicas. */
static int explains_sum(const driver *d, const job_fault *f, const int *process, int rank) {
    const sl_job *shape = &d->j.config.job;
    for (int t = 0; t < shape->tensor; t++)
        for (int a = 0; a < shape->replicas; a++)
            for (int b = 0; b < shape->replicas; b++)
                if (a != b && touches(d, f, process[sl_job_position(shape, rank, a, t)],
                                      process[sl_job_position(shape, rank, b, t)]))
                    return 1;
    return 0;
}

/* Or when all links that the process has to its neighbours are slow, each by some fault. */
static int all_links_slow(const driver *d, int process) {
    const sl_job *shape = &d->j.config.job;
    const sl_job_layout *layout = sl_orchestrator_layout(d->o);
    int links = 0, slow = 0;
    for (int p = 0; p < processes(d); p++) {
        int found = 0;
        if (met(d, p, process) || !sl_job_layout_talk(shape, layout, d->j.problem[0], process, p))
            continue;
        for (int f = 0; f < d->j.faults; f++)
            found |= recent(d, &d->j.fault[f]) && touches(d, &d->j.fault[f], process, p);
        links++;
        slow += found;
    }
    return links > 1 && slow == links;
}

/* Who sits there now. */
static int place_of(const driver *d, int rank, int replica) {
    return sl_orchestrator_layout(d->o)->process[sl_job_position(&d->j.config.job, rank, replica, 0)];
}

static int explains_incident(const driver *d, const job_fault *f, const sl_incident_view *v) {
    const int *now = sl_orchestrator_layout(d->o)->process;
    if (v->stage >= 0) {
        int rank = sl_problem_rank(d->j.problem[0], v->stage);
        return explains_sum(d, f, now, rank) || explains_sum(d, f, d->before, rank);
    }
    if (v->part.kind == SL_PART_DEVICE)
        return explains_device(d, f, v->part.a) && (!v->host || f->kind == JOB_HOST || d->j.faults > 1);
    if (v->part.kind == SL_PART_CARD)
        return explains_card(d, f, v->part.a);
    return v->part.b >= 0 && touches(d, f, v->part.a, v->part.b);
}

/* An event's component at a place of one replica, as processes sit or sat. */
static int explains_place(const driver *d, const job_fault *f, const sl_event *e, const int *process,
                          int replica) {
    const sl_job *shape = &d->j.config.job;
    if (e->from >= 0 && e->to >= 0)
        return touches(d, f, process[sl_job_position(shape, e->from, replica, 0)],
                       process[sl_job_position(shape, e->to, replica, 0)]);
    int at = process[sl_job_position(shape, e->rank, replica, 0)];
    if (strstr(e->seen, "sum"))
        return explains_sum(d, f, process, e->rank);
    if (strstr(e->seen, "ops") || strstr(e->seen, "device"))
        return explains_device(d, f, at);
    return explains_device(d, f, at) || explains_card(d, f, at);
}

/* A place may be meant as processes sit now, sat before the last change, or in the beginning. */
static int explains_event(const driver *d, const job_fault *f, const sl_event *e) {
    const int *now = sl_orchestrator_layout(d->o)->process;
    for (int r = 0; r < d->j.config.job.replicas; r++)
        if ((!e->has_replica || e->replica == r) &&
            (explains_place(d, f, e, now, r) || explains_place(d, f, e, d->before, r) ||
             explains_place(d, f, e, d->home, r)))
            return 1;
    return 0;
}

/* Or in each of these senses. */
static int explains_surely(const driver *d, const job_fault *f, const sl_event *e) {
    int replica = e->has_replica ? e->replica : 0;
    return explains_place(d, f, e, sl_orchestrator_layout(d->o)->process, replica) &&
           explains_place(d, f, e, d->before, replica) && explains_place(d, f, e, d->home, replica);
}

/* Longer microbatches of one stage are told by its rank, and are no slow component. */
static int tells_of_work(const driver *d, const sl_event *e) {
    int grown = 0;
    for (int i = 0; i < d->j.loads; i++)
        grown |=
            d->j.load[i].first <= d->iteration && d->iteration < d->j.load[i].until + d->j.config.hold + 8;
    return grown && (strstr(e->seen, "work") || strstr(e->decided, "work") || strstr(e->why, "work"));
}

static int names(const sl_event *e) {
    return (e->kind == SL_EVENT_VERDICT || e->kind == SL_EVENT_SUSPECT || e->kind == SL_EVENT_ONSET);
}

static void note_named(driver *d, int fault) {
    d->watch[fault].named = 1;
}

static int in_range(const driver *d, const sl_event *e) {
    const sl_job *shape = &d->j.config.job;
    return e->from < shape->ranks && e->to < shape->ranks && e->rank < shape->ranks &&
           (!e->has_replica || (e->replica >= 0 && e->replica < shape->replicas));
}

static void judge_event(driver *d, const sl_event *e) {
    int explained = 0;
    if (!in_range(d, e)) {
        violate(d, PROMISE_CULPRIT, "an event names what the job has not: '%s'", e->seen);
        return;
    }
    if (d->j.faults == 0 && d->j.loads == 0 && e->kind != SL_EVENT_PROFILE && e->kind != SL_EVENT_PROFILED)
        violate(d, PROMISE_QUIET, "event %s: '%s' '%s'", sl_event_names[e->kind].name, e->seen, e->why);
    for (int i = 0; i < d->j.faults && e->kind == SL_EVENT_RELIEF && (e->rank >= 0 || e->from >= 0); i++)
        if (d->watch[i].costs && d->j.fault[i].first <= d->iteration && d->iteration < d->j.fault[i].until &&
            explains_surely(d, &d->j.fault[i], e))
            violate(d, PROMISE_KEPT, "fault %d lasts until %d, and '%s'", i, d->j.fault[i].until, e->seen);
    if (!names(e))
        return;
    if (e->rank < 0 && e->from < 0) {
        for (int i = 0; i < d->j.faults; i++)
            d->watch[i].unsure |= recent(d, &d->j.fault[i]);
        return;
    }
    for (int i = 0; i < d->j.faults; i++)
        if (recent(d, &d->j.fault[i]) && explains_event(d, &d->j.fault[i], e)) {
            explained = 1;
            note_named(d, i);
        }
    for (int r = 0; e->rank >= 0 && strstr(e->seen, "card") && r < d->j.config.job.replicas; r++)
        if (!e->has_replica || e->replica == r)
            explained |= all_links_slow(d, place_of(d, e->rank, r));
    if (!explained && !tells_of_work(d, e))
        violate(d, PROMISE_CULPRIT, "event %s names rank %d, link %d-%d of replica %d: '%s'",
                sl_event_names[e->kind].name, e->rank, e->from, e->to, e->has_replica ? e->replica : -1,
                e->seen);
}

static void judge_idle(driver *d, const char *what) {
    if (d->iteration <= d->idle)
        violate(d, PROMISE_IDLE, "%s, and nothing was to come up to iteration %d", what, d->idle);
}

static void read_events(driver *d) {
    sl_event e;
    while (sl_orchestrator_event(d->o, &e)) {
        judge_idle(d, sl_event_names[e.kind].name);
        char *line;
        assert_ok(sl_event_line(&e, &line));
        fputs(line, d->log);
        free(line);
        d->sum->events++;
        if (e.time > d->now)
            violate(d, PROMISE_ACTIONS, "an event of %.3f s at %.3f s", sl_to_ms(e.time) / 1e3,
                    sl_to_ms(d->now) / 1e3);
        judge_event(d, &e);
    }
    const char *decisions = sl_orchestrator_decisions(d->o);
    if (decisions)
        fputs(decisions, d->log);
}

/* ---- incidents ---- */

/* A card that is named because all its links are slow stands for each of them. */
static int covers(const driver *d, const job_fault *f, const sl_incident_view *v) {
    return v->part.kind == SL_PART_CARD && f->kind == JOB_LINK &&
           (met(d, f->a, v->part.a) || met(d, f->b, v->part.a)) && all_links_slow(d, v->part.a);
}

static int first_accusation(driver *d, int id) {
    for (int i = 0; i < d->accusations; i++)
        if (d->accused[i] == id)
            return 0;
    if (d->accusations < 64)
        d->accused[d->accusations++] = id;
    return 1;
}

static void judge_incidents(driver *d) {
    int count;
    unsigned explained_faults = 0;
    const sl_incident_view *view = sl_orchestrator_incidents(d->o, &count);
    for (int i = 0; i < count; i++) {
        const sl_incident_view *v = &view[i];
        int explained = 0;
        for (int f = 0; f < d->j.faults; f++)
            if (recent(d, &d->j.fault[f]) &&
                (explains_incident(d, &d->j.fault[f], v) || covers(d, &d->j.fault[f], v))) {
                explained = 1;
                explained_faults |= 1u << f;
                note_named(d, f);
            }
        if (!explained && !(v->part.kind == SL_PART_CARD && all_links_slow(d, v->part.a)) &&
            first_accusation(d, v->id))
            violate(d, PROMISE_CULPRIT, "incident %d (%s, kind %d, process %d, %d, stage %d, since %d): '%s'",
                    v->id, v->verdict ? "verdict" : "suspect", v->part.kind, v->part.a, v->part.b, v->stage,
                    v->since, v->seen);
        if (v->since > d->iteration || (i > 0 && v->loss > view[i - 1].loss))
            violate(d, PROMISE_ACTIONS, "incident %d: since %d, loss %g after %g", v->id, v->since, v->loss,
                    i ? view[i - 1].loss : 0);
        fprintf(d->log, "%d: incident %d %d %d %d %.17g %s\n", d->iteration, v->id, v->verdict, v->part.a,
                v->part.b, v->loss, v->seen);
    }
    for (int f = 0; f < d->j.faults; f++) {
        const job_fault *fault = &d->j.fault[f];
        watch *w = &d->watch[f];
        int open = (int)(explained_faults >> f) & 1,
            active = fault->first <= d->iteration && d->iteration < fault->until;
        if (w->open && !open && w->costs && active)
            violate(d, PROMISE_KEPT, "fault %d lasts until %d, its incident is gone", f, fault->until);
        w->open = open;
    }
}

/* ---- plans ---- */

static void judge_plans(driver *d) {
    const sl_job_layout *layout = sl_orchestrator_layout(d->o);
    for (int r = 0; r < d->j.config.job.replicas && !d->broken; r++) {
        const sl_plan *plan = sl_orchestrator_plan(d->o, r);
        sl_problem p;
        sl_plan again;
        if (!plan) {
            violate(d, PROMISE_VALID, "replica %d has no plan", r);
            d->broken = 1;
            return;
        }
        if (d->running[r].ranks && d->split[r] == layout->split[r] &&
            sl_order_equal(&d->running[r], &plan->order))
            continue;
        d->changed = 1;
        assert_ok(sl_problem_copy(d->j.problem[r], &p));
        p.microbatches = d->split[r] = layout->split[r];
        if (sl_plan_of_order(&p, &plan->order, plan->schedule, &again) != SL_OK) {
            violate(d, PROMISE_VALID, "replica %d, %d microbatches: %s", r, p.microbatches, sl_error_text());
            d->broken = 1;
        } else {
            if (!again.memory_ok)
                violate(d, PROMISE_MEMORY, "replica %d runs '%s' over its memory", r, plan->schedule);
            if (sl_order_check_ascending(&plan->order) != SL_OK)
                violate(d, PROMISE_VALID, "replica %d: %s", r, sl_error_text());
            sl_plan_free(&again);
        }
        sl_problem_free(&p);
        sl_order_free(&d->running[r]);
        assert_ok(sl_order_copy(&plan->order, &d->running[r]));
    }
}

/* No plan changes but by an action. */
static void judge_unchanged(driver *d, const char *when) {
    for (int r = 0; r < d->j.config.job.replicas; r++)
        if (!sl_order_equal(&d->running[r], &sl_orchestrator_plan(d->o, r)->order))
            violate(d, PROMISE_ACTIONS, "the plan of replica %d changed %s", r, when);
}

/* ---- actions ---- */

static void judge_action(driver *d, const sl_orchestrator_action *a) {
    const sl_orchestrator_config *c = &d->j.config;
    judge_idle(d, "an action");
    fprintf(d->log, "%d: action %d %d undo %d strategy %d replica %d cost %lld loss %.17g expected %.17g\n",
            d->iteration, a->id, a->what, a->undo, a->strategy, a->replica, (long long)a->cost, a->loss,
            a->expected);
    if (a->what == SL_DO_NETWORK) {
        d->sum->networks++;
        if (!c->looks)
            violate(d, PROMISE_ACTIONS, "asked to measure the network, which this body cannot");
        return;
    }
    if (a->what <= SL_DO_NOTHING || a->what > SL_DO_NETWORK || a->strategy >= SL_STRATEGY_KINDS) {
        violate(d, PROMISE_ACTIONS, "action %d of strategy %d is none", a->what, a->strategy);
        return;
    }
    d->sum->actions[a->strategy]++;
    if (!((c->can >> a->strategy) & 1) || c->frozen)
        violate(d, PROMISE_ACTIONS, "strategy %d was asked for and cannot be carried out", a->strategy);
    if (((d->refused >> a->strategy) & 1) && !a->undo)
        violate(d, PROMISE_ACTIONS, "strategy %d was asked for after it was refused", a->strategy);
    if (d->j.faults == 0)
        violate(d, PROMISE_QUIET, "action %d of strategy %d", a->what, a->strategy);
    if (!a->undo && !(a->loss > a->expected && a->expected >= 0))
        violate(d, PROMISE_ACTIONS, "strategy %d would bring a loss of %g to %g", a->strategy, a->loss,
                a->expected);
    if (a->count == 0 && !a->undo)
        violate(d, PROMISE_ACTIONS, "strategy %d for no incident", a->strategy);
    if (a->what == SL_DO_LAYOUT) {
        int total = 0, all = 0, seen[JOB_PROCESSES] = {0}, twice = 0;
        for (int r = 0; r < c->job.replicas; r++) {
            total += a->layout.split[r];
            all += d->j.problem[r]->microbatches;
        }
        for (int p = 0; p < processes(d); p++)
            twice |= seen[a->layout.process[p]]++;
        if (total != all || twice)
            violate(d, PROMISE_ACTIONS, "a layout of %d microbatches instead of %d, processes twice %d",
                    total, all, twice);
    }
    if (a->cost > d->quick && !a->undo) {
        d->paid[a->strategy] += (double)a->cost;
        if (d->paid[a->strategy] > 1.25 * d->lost + 2 * (double)d->healthy)
            violate(d, PROMISE_FLAPPING, "strategy %d: %.3f s paid with this, %.3f s lost", a->strategy,
                    d->paid[a->strategy] / 1e9, d->lost / 1e9);
    }
}

static void done_with(driver *d, const sl_orchestrator_action *a) {
    if (a->what == SL_DO_PLAN) {
        if (d->iteration - d->last_swap[a->replica] < d->j.config.dwell)
            violate(d, PROMISE_DWELL, "replica %d swaps %d iterations after the last time, dwell %d",
                    a->replica, d->iteration - d->last_swap[a->replica], d->j.config.dwell);
        d->last_swap[a->replica] = d->iteration;
    } else if (a->what != SL_DO_NETWORK) {
        int least = a->undo ? d->j.config.hold : d->j.config.hold < 3 ? d->j.config.hold : 3;
        if (a->undo != d->last_undo[a->what] && d->iteration - d->last_quick[a->what] < least)
            violate(d, PROMISE_FLAPPING, "action %d, undo %d, %d iterations after the other way, hold %d",
                    a->what, a->undo, d->iteration - d->last_quick[a->what], d->j.config.hold);
        d->last_quick[a->what] = d->iteration;
        d->last_undo[a->what] = a->undo;
    }
    for (int i = 0; a->what == SL_DO_LEAVE && i < d->j.faults; i++) {
        job_fault *f = &d->j.fault[i];
        int there = strcmp(d->j.host[f->a], a->host) == 0 || strcmp(d->j.host[f->b], a->host) == 0;
        if (there && f->until > d->iteration)
            f->until =
                f->first > d->iteration ? f->first : d->iteration + 1; /* another host has taken its place */
    }
}

static void answer(driver *d) {
    sl_orchestrator_action *a = &d->action;
    double chance = sl_random_unit(sl_random_mix(d->noise.seed += SL_RANDOM_STEP));
    sl_outcome outcome = chance < d->j.refuses                ? SL_OUTCOME_REFUSED
                         : chance < d->j.refuses + d->j.fails ? SL_OUTCOME_FAILED
                                                              : SL_OUTCOME_DONE;
    sl_time took = (sl_time)((double)a->cost * (0.5 + chance));
    sl_order wanted = {0};
    int layout[JOB_PROCESSES];
    const sl_job_layout *now = sl_orchestrator_layout(d->o);
    memcpy(layout, now->process, (size_t)processes(d) * sizeof *layout);
    if (a->what == SL_DO_PLAN)
        assert_ok(sl_order_copy(&a->plan->order, &wanted));
    judge_unchanged(d, "before its action was carried out");
    if (a->what == SL_DO_NETWORK) {
        sl_network_measure *measure;
        outcome = SL_OUTCOME_DONE;
        assert_ok(sl_alloc(&measure, JOB_PROCESSES * JOB_PROCESSES, sizeof *measure));
        int count = job_network(&d->j, now, &d->noise, d->iteration, measure);
        assert_ok(sl_orchestrator_network(d->o, d->now, measure, count));
        sl_free(measure);
    }
    if (outcome == SL_OUTCOME_REFUSED) {
        d->refused |= 1u << a->strategy;
        d->paid[a->strategy] -= a->cost > d->quick && !a->undo ? (double)a->cost : 0;
        took = 0;
    }
    d->failed += outcome != SL_OUTCOME_DONE;
    d->now += took;
    d->pending = 0;
    if (outcome == SL_OUTCOME_DONE)
        done_with(d, a);
    int id = a->id, replica = a->replica, plans = a->what == SL_DO_PLAN, layouts = a->what == SL_DO_LAYOUT;
    fprintf(d->log, "%d: action %d outcome %d took %lld\n", d->iteration, id, outcome, (long long)took);
    assert_ok(sl_orchestrator_carried_out(d->o, id, d->now, outcome, took));
    if (outcome != SL_OUTCOME_DONE)
        judge_unchanged(d, "by an action that was not carried out");
    else if (plans && !sl_order_equal(&wanted, &sl_orchestrator_plan(d->o, replica)->order))
        violate(d, PROMISE_ACTIONS, "replica %d does not run the plan that was carried out", replica);
    if (outcome == SL_OUTCOME_DONE && layouts) {
        memcpy(d->before, layout, sizeof layout);
        meet(d);
        d->changed = d->moved = 1;
    }
    sl_order_free(&wanted);
    judge_plans(d);
}

static void act(driver *d) {
    for (int i = 0; i < 40 && !d->broken; i++) {
        if (d->pending && d->iteration < d->due)
            return;
        if (d->pending)
            answer(d);
        read_events(d);
        if (d->broken || !sl_orchestrator_next(d->o, &d->action))
            return;
        judge_action(d, &d->action);
        d->pending = 1;
        d->due = d->iteration;
        if (d->j.slow_hands)
            d->due += (int)(sl_random_mix(d->noise.seed += SL_RANDOM_STEP) % (uint64_t)(d->j.slow_hands + 1));
        if (d->due == d->iteration)
            continue;
        sl_orchestrator_action more;
        if (sl_orchestrator_next(d->o, &more))
            violate(d, PROMISE_ACTIONS, "action %d while action %d is under way", more.id, d->action.id);
        return;
    }
    if (!d->broken)
        violate(d, PROMISE_FLAPPING, "40 actions between two iterations");
}

/* ---- faults that must be named ---- */

/* Whether this iteration's measurements show the fault's component at all. */
static int shows(const driver *d, const job_fault *f, const job_iteration *m) {
    const sl_job *shape = &d->j.config.job;
    const sl_job_layout *layout = sl_orchestrator_layout(d->o);
    int a = sl_job_layout_position(shape, layout, f->a), b = sl_job_layout_position(shape, layout, f->b),
        seen = 0;
    if (m->absent)
        return 0;
    if (f->kind == JOB_LINK && sl_job_replica(shape, a) != sl_job_replica(shape, b))
        return m->seen_sums;
    if (f->kind == JOB_LINK)
        return m->seen_links[sl_job_replica(shape, a)];
    for (int at = 0; at < processes(d); at++) {
        int replica = sl_job_replica(shape, at), rank = sl_job_rank(shape, at);
        if (f->a != layout->process[at] &&
            !(f->kind == JOB_HOST && job_same_host(&d->j, f->a, layout->process[at])))
            continue;
        seen |= slows_devices(f) ? m->seen_ops[replica * shape->ranks + rank]
                                 : m->seen_links[replica] || m->seen_sums;
    }
    return seen;
}

static double share_of(driver *d, int fault) {
    const sl_plan *plan[JOB_REPLICAS];
    const sl_job_layout *layout = sl_orchestrator_layout(d->o);
    for (int r = 0; r < d->j.config.job.replicas; r++)
        plan[r] = sl_orchestrator_plan(d->o, r);
    sl_time with = job_time(&d->j, layout, plan, d->iteration, -1),
            without = job_time(&d->j, layout, plan, d->iteration, fault);
    return (double)(with - without) / (double)without;
}

/* When every device is slow, and how much work ops had is not told, nobody can tell that from more work. */
static int looks_like_work(const driver *d, const job_fault *f) {
    for (int p = 0; p < processes(d) && slows_devices(f) && !d->j.tells_ops; p++) {
        int slow = 0;
        for (int q = 0; q < processes(d); q++)
            slow |= met(d, p, q) && job_slowness(&d->j, q, d->iteration, -1) > 1.1;
        if (!slow)
            return 0;
    }
    return slows_devices(f) && !d->j.tells_ops;
}

/* Faults that begin before anybody can know what is healthy cannot be told. */
static void judge_faults(driver *d, const job_iteration *m) {
    for (int i = 0; i < d->j.faults; i++) {
        const job_fault *f = &d->j.fault[i];
        watch *w = &d->watch[i];
        int learnt = d->j.config.hold * (d->j.gaps > 0 ? 2 : 1) + 4 + d->j.warm_up;
        if (f->first < learnt || d->iteration < f->first || d->iteration >= f->until)
            continue;
        if (d->iteration == f->first || d->changed || d->iteration % 10 == 0)
            w->costs = share_of(d, i) >= d->options->cost;
        if (looks_like_work(d, f))
            w->costs = 0;
        if (!w->costs || w->judged || f->until - f->first < d->options->lasts)
            continue;
        if (w->began < 0)
            w->began = d->iteration;
        w->measured += shows(d, f, m);
        if (!w->named && w->measured < d->options->within)
            continue;
        w->judged = 1;
        d->sum->faults++;
        d->sum->named += w->named;
        d->sum->waited += w->named ? d->iteration - w->began : 0;
        d->sum->cannot_tell += !w->named && w->unsure;
        if (!w->named && !w->unsure)
            violate(d, PROMISE_NAMED,
                    "fault %d (kind %d, processes %d, %d, %.2f times, +%.2f %.2f ms, +%.2g %.2g ns/B) since "
                    "%d costs %.0f%%",
                    i, f->kind, f->a, f->b, f->slowdown, f->latency[0] / 1e6, f->latency[1] / 1e6, f->pace[0],
                    f->pace[1], f->first, 100 * share_of(d, i));
    }
}

/* ---- an iteration ---- */

static void account(driver *d, sl_time took) {
    double healthy = (double)d->healthy;
    for (int i = 0; i < d->j.loads && d->j.tells_ops;
         i++) /* who is not told of work takes it for time lost */
        healthy *= job_length(&d->j, d->j.load[i].replica, d->j.load[i].stage, d->iteration) > 1
                       ? d->j.load[i].factor
                       : 1;
    d->lost += fmax(0, (double)took - healthy);
}

/* Whether iterations are alike from this one to the next. */
static int changes(const driver *d) {
    int next = d->iteration + 1;
    for (int i = 0; i < d->j.faults; i++)
        if (d->j.fault[i].first == next || d->j.fault[i].until == next)
            return 1;
    for (int i = 0; i < d->j.loads; i++)
        if (d->j.load[i].first == next || d->j.load[i].until == next)
            return 1;
    return 0;
}

/* Where there is no noise, what was said to be idle is believed until something changes. */
static void ask_idle(driver *d, sl_time each) {
    if (!d->j.still || d->pending || changes(d)) {
        d->idle = -1;
        return;
    }
    int idle = sl_orchestrator_idle(d->o, each);
    if (idle < 0)
        violate(d, PROMISE_IDLE, "%d idle iterations", idle);
    else if (d->idle < d->iteration + idle)
        d->idle = idle > d->j.iterations ? d->j.iterations : d->iteration + idle;
}

static void step(driver *d) {
    job_iteration m;
    const sl_plan *plan[JOB_REPLICAS];
    for (int r = 0; r < d->j.config.job.replicas; r++)
        plan[r] = sl_orchestrator_plan(d->o, r);
    d->changed = 0;
    job_measure(&d->j, &d->noise, sl_orchestrator_layout(d->o), plan, d->iteration, d->now, &m);
    if (m.slow > 1)
        fprintf(d->log, "%d: rank %d of replica %d is slow once, %.2f times\n", d->iteration, m.slow_rank,
                m.slow_replica, m.slow);
    account(d, m.given.now - d->now);
    sl_time took = m.given.now - d->now;
    d->now = m.given.now;
    if (!m.absent)
        assert_ok(sl_orchestrator_observe(d->o, &m.given));
    judge_unchanged(d, "by an observation");
    read_events(d);
    judge_incidents(d);
    judge_faults(d, &m);
    job_iteration_free(&d->j, &m);
    act(d);
    if (!d->broken)
        ask_idle(d, took);
}

/* The job goes on in a new process, which begins with the first plans and what was saved. */
static void resume(driver *d) {
    int count, again;
    sl_incident_view before[64];
    char *text;
    const sl_incident_view *view = sl_orchestrator_incidents(d->o, &count);
    count = count < 64 ? count : 64;
    memcpy(before, view, (size_t)count * sizeof *before);
    assert_ok(sl_orchestrator_save(d->o, &text));
    sl_orchestrator_close(d->o);
    assert_ok(sl_orchestrator_open(&d->j.config, &d->o));
    if (sl_orchestrator_load(d->o, text) != SL_OK)
        violate(d, PROMISE_RESUME, "%s", sl_error_text());
    free(text);
    view = sl_orchestrator_incidents(d->o, &again);
    if (again != count)
        violate(d, PROMISE_RESUME, "%d incidents were saved, %d loaded", count, again);
    for (int i = 0; i < count && i < again; i++)
        if (view[i].part.kind != before[i].part.kind || view[i].part.a != before[i].part.a ||
            view[i].part.b != before[i].part.b || view[i].stage != before[i].stage ||
            view[i].since != before[i].since || view[i].verdict != before[i].verdict)
            violate(d, PROMISE_RESUME, "incident %d '%s' became %d '%s'", before[i].id, before[i].seen,
                    view[i].id, view[i].seen);
    for (int r = 0; r < JOB_REPLICAS; r++)
        d->last_swap[r] = -10000;
    for (int i = 0; i <= SL_DO_NETWORK; i++)
        d->last_quick[i] = -10000;
    memset(d->paid, 0, sizeof d->paid);
    d->refused = 0;
    d->idle = -1;
    judge_plans(d);
}

static void judge_end(driver *d) {
    int count;
    sl_orchestrator_incidents(d->o, &count);
    for (int i = 0; i < d->j.faults; i++)
        if (d->j.fault[i].until > d->j.iterations - d->j.quiet)
            return;
    if (d->j.quiet == 0)
        return;
    if (count > 0 || sl_orchestrator_troubled(d->o))
        violate(d, PROMISE_RELIEF, "%d incidents, troubled %d, after %d iterations without a fault", count,
                sl_orchestrator_troubled(d->o), d->j.quiet);
    for (int r = 0; r < d->j.config.job.replicas; r++)
        if (sl_orchestrator_adapted(d->o, r) && d->failed == 0 && !d->pending)
            violate(d, PROMISE_RELIEF, "replica %d still runs '%s' after %d iterations without a fault", r,
                    sl_orchestrator_plan(d->o, r)->schedule, d->j.quiet);
}

static void drive_once(const job *j, const drive_options *options, tally *sum, char **texts) {
    driver *d = calloc(1, sizeof *d);
    size_t size;
    assert_non_null(d);
    d->j = *j;
    d->options = options;
    d->sum = sum;
    d->log = open_memstream(texts, &size);
    assert_ok(sl_orchestrator_open(&j->config, &d->o));
    job_noise_begin(j, &d->noise);
    d->met = calloc((size_t)processes(d), (size_t)processes(d));
    for (int i = 0; i < JOB_FAULTS; i++)
        d->watch[i].began = -1;
    for (int r = 0; r < JOB_REPLICAS; r++)
        d->last_swap[r] = -10000;
    d->idle = -1;
    for (int i = 0; i <= SL_DO_NETWORK; i++)
        d->last_quick[i] = -10000;
    memcpy(d->before, sl_orchestrator_layout(d->o)->process, (size_t)processes(d) * sizeof(int));
    memcpy(d->home, d->before, sizeof d->home);
    meet(d);
    job well = *j;
    well.faults = well.loads = 0;
    d->healthy = job_time(&well, sl_orchestrator_layout(d->o), j->first, 0, -1);
    d->quick = j->config.at_once              ? j->config.at_once
               : 2 * d->healthy > 100 * SL_MS ? 2 * d->healthy
                                              : 100 * SL_MS;
    judge_plans(d);
    for (; d->iteration < j->iterations && !d->broken; d->iteration++) {
        step(d);
        if (d->iteration == j->resumed && !d->pending && !d->moved && !d->broken)
            resume(d);
    }
    if (!d->broken)
        judge_end(d);
    sl_orchestrator_close(d->o);
    for (int r = 0; r < j->config.job.replicas; r++)
        sl_order_free(&d->running[r]);
    fclose(d->log);
    free(d->met);
    free(d);
}

void drive(const job *j, const drive_options *options, tally *sum, char **texts) {
    char *first = NULL, *second = NULL;
    drive_once(j, options, sum, &first);
    sum->jobs++;
    if (options->twice) {
        tally ignored = {0};
        for (int i = 0; i < PROMISES; i++)
            ignored.broken[i] = 1000; /* said already */
        drive_once(j, options, &ignored, &second);
        if (strcmp(first, second) != 0) {
            size_t at = 0;
            while (first[at] == second[at])
                at++;
            while (at > 0 && first[at - 1] != '\n')
                at--;
            sum->broken[PROMISE_SAME]++;
            printf("BROKEN same: SL_SEED=%llu: '%.120s' then '%.120s'\n", (unsigned long long)j->seed,
                   first + at, second + at);
        }
    }
    free(second);
    if (texts)
        *texts = first;
    else
        free(first);
}
