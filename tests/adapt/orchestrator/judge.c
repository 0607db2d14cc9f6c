/* What is said, planned and asked for, against what is true. */
#include "drive_inside.h"

#include "base/memory.h"
#include "plan/timing/replay.h"

/* ---- events ---- */

void drive_judge_idle(driver *d, const char *what) {
    if (d->iteration <= d->idle)
        drive_violate(d, PROMISE_IDLE, "%s, and nothing was to come up to iteration %d", what, d->idle);
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

void drive_judge_event(driver *d, const sl_event *e) {
    int explained = 0;
    if (!in_range(d, e)) {
        drive_violate(d, PROMISE_CULPRIT, "an event names what the job has not: '%s'", e->seen);
        return;
    }
    if (d->j.faults == 0 && d->j.loads == 0 && e->kind != SL_EVENT_PROFILE && e->kind != SL_EVENT_PROFILED)
        drive_violate(d, PROMISE_QUIET, "event %s: '%s' '%s'", sl_event_names[e->kind].name, e->seen, e->why);
    for (int i = 0; i < d->j.faults && e->kind == SL_EVENT_RELIEF && (e->rank >= 0 || e->from >= 0); i++)
        if (d->watch[i].costs && d->j.fault[i].first <= d->iteration && d->iteration < d->j.fault[i].until &&
            drive_explains_surely(d, &d->j.fault[i], e))
            drive_violate(d, PROMISE_KEPT, "fault %d lasts until %d, and '%s'", i, d->j.fault[i].until,
                          e->seen);
    if (!names(e))
        return;
    if (e->rank < 0 && e->from < 0) {
        for (int i = 0; i < d->j.faults; i++)
            d->watch[i].unsure |= drive_recent(d, &d->j.fault[i]);
        return;
    }
    for (int i = 0; i < d->j.faults; i++)
        if (drive_recent(d, &d->j.fault[i]) && drive_explains_event(d, &d->j.fault[i], e)) {
            explained = 1;
            note_named(d, i);
        }
    for (int r = 0; e->rank >= 0 && strstr(e->seen, "card") && r < d->j.config.job.replicas; r++)
        if (!e->has_replica || e->replica == r)
            explained |= drive_all_links_slow(d, drive_place_of(d, e->rank, r));
    if (!explained && !drive_tells_of_work(d, e))
        drive_violate(d, PROMISE_CULPRIT, "event %s names rank %d, link %d-%d of replica %d: '%s'",
                      sl_event_names[e->kind].name, e->rank, e->from, e->to, e->has_replica ? e->replica : -1,
                      e->seen);
}

/* ---- incidents ---- */

static int first_accusation(driver *d, int id) {
    for (int i = 0; i < d->accusations; i++)
        if (d->accused[i] == id)
            return 0;
    if (d->accusations < 64)
        d->accused[d->accusations++] = id;
    return 1;
}

void drive_judge_incidents(driver *d) {
    int count;
    unsigned explained_faults = 0;
    const sl_incident_view *view = sl_orchestrator_incidents(d->o, &count);
    for (int i = 0; i < count; i++) {
        const sl_incident_view *v = &view[i];
        int explained = 0;
        for (int f = 0; f < d->j.faults; f++)
            if (drive_recent(d, &d->j.fault[f]) &&
                (drive_explains_incident(d, &d->j.fault[f], v) || drive_covers(d, &d->j.fault[f], v))) {
                explained = 1;
                explained_faults |= 1u << f;
                note_named(d, f);
            }
        if (!explained && !(v->part.kind == SL_PART_CARD && drive_all_links_slow(d, v->part.a)) &&
            first_accusation(d, v->id))
            drive_violate(d, PROMISE_CULPRIT,
                          "incident %d (%s, kind %d, process %d, %d, stage %d, since %d): '%s'", v->id,
                          v->verdict ? "verdict" : "suspect", v->part.kind, v->part.a, v->part.b, v->stage,
                          v->since, v->seen);
        if (v->since > d->iteration || (i > 0 && v->loss > view[i - 1].loss))
            drive_violate(d, PROMISE_ACTIONS, "incident %d: since %d, loss %g after %g", v->id, v->since,
                          v->loss, i ? view[i - 1].loss : 0);
        fprintf(d->log, "%d: incident %d %d %d %d %.17g %s\n", d->iteration, v->id, v->verdict, v->part.a,
                v->part.b, v->loss, v->seen);
    }
    for (int f = 0; f < d->j.faults; f++) {
        const job_fault *fault = &d->j.fault[f];
        watch *w = &d->watch[f];
        int open = (int)(explained_faults >> f) & 1,
            active = fault->first <= d->iteration && d->iteration < fault->until;
        if (w->open && !open && w->costs && active)
            drive_violate(d, PROMISE_KEPT, "fault %d lasts until %d, its incident is gone", f, fault->until);
        w->open = open;
    }
}

/* ---- plans ---- */

void drive_judge_plans(driver *d) {
    const sl_job_layout *layout = sl_orchestrator_layout(d->o);
    for (int r = 0; r < d->j.config.job.replicas && !d->broken; r++) {
        const sl_plan *plan = sl_orchestrator_plan(d->o, r);
        sl_problem p;
        sl_plan again;
        if (!plan) {
            drive_violate(d, PROMISE_VALID, "replica %d has no plan", r);
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
            drive_violate(d, PROMISE_VALID, "replica %d, %d microbatches: %s", r, p.microbatches,
                          sl_error_text());
            d->broken = 1;
        } else {
            if (!again.memory_ok)
                drive_violate(d, PROMISE_MEMORY, "replica %d runs '%s' over its memory", r, plan->schedule);
            if (sl_order_check_ascending(&plan->order) != SL_OK)
                drive_violate(d, PROMISE_VALID, "replica %d: %s", r, sl_error_text());
            sl_plan_free(&again);
        }
        sl_problem_free(&p);
        sl_order_free(&d->running[r]);
        assert_ok(sl_order_copy(&plan->order, &d->running[r]));
    }
}

/* No plan changes but by an action. */
void drive_judge_unchanged(driver *d, const char *when) {
    for (int r = 0; r < d->j.config.job.replicas; r++)
        if (!sl_order_equal(&d->running[r], &sl_orchestrator_plan(d->o, r)->order))
            drive_violate(d, PROMISE_ACTIONS, "the plan of replica %d changed %s", r, when);
}

/* ---- actions ---- */

static int learnt_before(const driver *d, const job_fault *f) {
    return f->first >= d->j.config.hold * (d->j.gaps > 0 ? 2 : 1) + 4 + d->j.warm_up;
}

static sl_time time_of(const sl_problem *p, const sl_plan *plan) {
    sl_timeline t;
    assert_ok(sl_replay(p, &plan->program, p->communication, p->queue, &t));
    sl_time time = sl_timeline_makespan(&t);
    sl_timeline_free(&t);
    return time;
}

/* What was slow before healthy was learnt is healthy to who measures, and a plan that fits it is for no
 * incident: it must be shorter on what is true. */
static int is_refit(const driver *d, const sl_orchestrator_action *a) {
    sl_problem p;
    int before = 0;
    for (int i = 0; i < d->j.faults; i++)
        before |= !learnt_before(d, &d->j.fault[i]) && drive_recent(d, &d->j.fault[i]);
    if (a->what != SL_DO_PLAN || !before)
        return 0;
    job_problem(&d->j, sl_orchestrator_layout(d->o), a->replica, d->iteration, -1, &p);
    int shorter = time_of(&p, a->plan) < time_of(&p, sl_orchestrator_plan(d->o, a->replica));
    sl_problem_free(&p);
    return shorter;
}

void drive_judge_action(driver *d, const sl_orchestrator_action *a) {
    const sl_orchestrator_config *c = &d->j.config;
    drive_judge_idle(d, "an action");
    fprintf(d->log, "%d: action %d %d undo %d strategy %d replica %d cost %lld loss %.17g expected %.17g\n",
            d->iteration, a->id, a->what, a->undo, a->strategy, a->replica, (long long)a->cost, a->loss,
            a->expected);
    if (a->what == SL_DO_NETWORK) {
        d->sum->networks++;
        if (!c->looks)
            drive_violate(d, PROMISE_ACTIONS, "asked to measure the network, which this body cannot");
        return;
    }
    if (a->what <= SL_DO_NOTHING || a->what > SL_DO_NETWORK || a->strategy >= SL_STRATEGY_KINDS) {
        drive_violate(d, PROMISE_ACTIONS, "action %d of strategy %d is none", a->what, a->strategy);
        return;
    }
    d->sum->actions[a->strategy]++;
    if (!((c->can >> a->strategy) & 1) || c->frozen)
        drive_violate(d, PROMISE_ACTIONS, "strategy %d was asked for and cannot be carried out", a->strategy);
    if (((d->refused >> a->strategy) & 1) && !a->undo)
        drive_violate(d, PROMISE_ACTIONS, "strategy %d was asked for after it was refused", a->strategy);
    if (d->j.faults == 0)
        drive_violate(d, PROMISE_QUIET, "action %d of strategy %d", a->what, a->strategy);
    if (!a->undo && !(a->loss > a->expected && a->expected >= 0))
        drive_violate(d, PROMISE_ACTIONS, "strategy %d would bring a loss of %g to %g", a->strategy, a->loss,
                      a->expected);
    if (a->count == 0 && !a->undo && !is_refit(d, a))
        drive_violate(d, PROMISE_ACTIONS, "strategy %d for no incident", a->strategy);
    if (a->what == SL_DO_LAYOUT) {
        int total = 0, all = 0, seen[JOB_PROCESSES] = {0}, twice = 0;
        for (int r = 0; r < c->job.replicas; r++) {
            total += a->layout.split[r];
            all += d->j.problem[r]->microbatches;
        }
        for (int p = 0; p < drive_processes(d); p++)
            twice |= seen[a->layout.process[p]]++;
        if (total != all || twice)
            drive_violate(d, PROMISE_ACTIONS, "a layout of %d microbatches instead of %d, processes twice %d",
                          total, all, twice);
    }
    if (a->cost > d->quick && !a->undo) {
        d->paid[a->strategy] += (double)a->cost;
        if (d->paid[a->strategy] > 1.25 * d->lost + 2 * (double)d->healthy)
            drive_violate(d, PROMISE_FLAPPING, "strategy %d: %.3f s paid with this, %.3f s lost", a->strategy,
                          d->paid[a->strategy] / 1e9, d->lost / 1e9);
    }
}

void drive_judge_done(driver *d, const sl_orchestrator_action *a) {
    if (a->what == SL_DO_PLAN) {
        if (d->iteration - d->last_swap[a->replica] < d->j.config.dwell)
            drive_violate(d, PROMISE_DWELL, "replica %d swaps %d iterations after the last time, dwell %d",
                          a->replica, d->iteration - d->last_swap[a->replica], d->j.config.dwell);
        d->last_swap[a->replica] = d->iteration;
    } else if (a->what != SL_DO_NETWORK) {
        int least = a->undo ? d->j.config.hold : d->j.config.hold < 3 ? d->j.config.hold : 3;
        if (a->undo != d->last_undo[a->what] && d->iteration - d->last_quick[a->what] < least)
            drive_violate(d, PROMISE_FLAPPING,
                          "action %d, undo %d, %d iterations after the other way, hold %d", a->what, a->undo,
                          d->iteration - d->last_quick[a->what], d->j.config.hold);
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
    for (int at = 0; at < drive_processes(d); at++) {
        int replica = sl_job_replica(shape, at), rank = sl_job_rank(shape, at);
        if (f->a != layout->process[at] &&
            !(f->kind == JOB_HOST && job_same_host(&d->j, f->a, layout->process[at])))
            continue;
        seen |= drive_slows_devices(f) ? m->seen_ops[replica * shape->ranks + rank]
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
    for (int p = 0; p < drive_processes(d) && drive_slows_devices(f) && !d->j.tells_ops; p++) {
        int slow = 0;
        for (int q = 0; q < drive_processes(d); q++)
            slow |= drive_met(d, p, q) && job_slowness(&d->j, q, d->iteration, -1) > 1.1;
        if (!slow)
            return 0;
    }
    return drive_slows_devices(f) && !d->j.tells_ops;
}

/* What was slow when healthy was learnt, and is so no longer, can make up for a fault. */
static int is_made_up_for(const driver *d, const job_fault *f) {
    int made_up = drive_slows_devices(f), learnt = d->j.config.hold + d->j.warm_up;
    for (int p = 0; p < drive_processes(d); p++)
        if (p == f->a || (f->kind == JOB_HOST && job_same_host(&d->j, f->a, p)))
            made_up &= job_slowness(&d->j, p, d->iteration, -1) <= job_slowness(&d->j, p, learnt, -1);
    return made_up;
}

/* What each fault adds to the others under these plans and this layout; asked again when they change. */
void drive_judge_costs(driver *d) {
    for (int i = 0; i < d->j.faults; i++)
        d->changed |= d->j.fault[i].first == d->iteration || d->j.fault[i].until == d->iteration;
    for (int i = 0; i < d->j.faults && d->changed; i++) {
        const job_fault *f = &d->j.fault[i];
        int lasts = f->first <= d->iteration && d->iteration < f->until;
        d->watch[i].costs =
            lasts && learnt_before(d, f) && !is_made_up_for(d, f) && share_of(d, i) >= d->options->cost;
    }
    d->changed = 0;
}

/* Faults that begin before the healthy times are known cannot be noticed. */
void drive_judge_faults(driver *d, const job_iteration *m) {
    for (int i = 0; i < d->j.faults; i++) {
        const job_fault *f = &d->j.fault[i];
        watch *w = &d->watch[i];
        if (!learnt_before(d, f) || d->iteration < f->first || d->iteration >= f->until)
            continue;
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
            drive_violate(
                d, PROMISE_NAMED,
                "fault %d (kind %d, processes %d, %d, %.2f times, +%.2f %.2f ms, +%.2g %.2g ns/B) since "
                "%d costs %.0f%%",
                i, f->kind, f->a, f->b, f->slowdown, f->latency[0] / 1e6, f->latency[1] / 1e6, f->pace[0],
                f->pace[1], f->first, 100 * share_of(d, i));
    }
}

/* A plan is kept for a component that became slow again soon, four times as long as that lasted (ladder.h).
 */
static int may_recur(const driver *d) {
    for (int i = 0; i < d->j.faults; i++)
        for (int k = 0; k < d->j.faults; k++) {
            const job_fault *f = &d->j.fault[i], *g = &d->j.fault[k];
            int same =
                    f->kind == g->kind && ((f->a == g->a && f->b == g->b) || (f->a == g->b && f->b == g->a)),
                lasted =
                    f->until - f->first > g->until - g->first ? f->until - f->first : g->until - g->first;
            if (i != k && same && f->until <= g->first && d->iteration - g->until <= 4 * lasted)
                return 1;
        }
    return 0;
}

void drive_judge_end(driver *d) {
    int count;
    sl_orchestrator_incidents(d->o, &count);
    for (int i = 0; i < d->j.faults; i++)
        if (d->j.fault[i].until > d->j.iterations - d->j.quiet)
            return;
    if (d->j.quiet == 0)
        return;
    if (count > 0 || sl_orchestrator_troubled(d->o))
        drive_violate(d, PROMISE_RELIEF, "%d incidents, troubled %d, after %d iterations without a fault",
                      count, sl_orchestrator_troubled(d->o), d->j.quiet);
    for (int r = 0; r < d->j.config.job.replicas; r++)
        if (sl_orchestrator_adapted(d->o, r) && d->failed == 0 && !d->pending && !may_recur(d))
            drive_violate(d, PROMISE_RELIEF, "replica %d still runs '%s' after %d iterations without a fault",
                          r, sl_orchestrator_plan(d->o, r)->schedule, d->j.quiet);
}
