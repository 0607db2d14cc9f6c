/* The body of a simulated job: it observes, reads, carries out; and the judge of what it reads. */
#include "drive_inside.h"

#include "base/memory.h"
#include "plan/timing/replay.h"

#include <math.h>
#include <stdarg.h>

const char *const promise_words[PROMISES] = {
    "memory", "valid",  "dwell", "flapping", "same", "culprit", "named",
    "quiet",  "relief", "kept",  "actions",  "idle", "resume",
};

void drive_violate(driver *d, promise what, const char *format, ...) {
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

static void read_events(driver *d) {
    sl_event e;
    while (sl_orchestrator_event(d->o, &e)) {
        drive_judge_idle(d, sl_event_names[e.kind].name);
        char *line;
        assert_ok(sl_event_line(&e, &line));
        fputs(line, d->log);
        free(line);
        d->sum->events++;
        if (e.time > d->now)
            drive_violate(d, PROMISE_ACTIONS, "an event of %.3f s at %.3f s", sl_to_ms(e.time) / 1e3,
                          sl_to_ms(d->now) / 1e3);
        drive_judge_event(d, &e);
    }
    const char *decisions = sl_orchestrator_decisions(d->o);
    if (decisions)
        fputs(decisions, d->log);
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
    memcpy(layout, now->process, (size_t)drive_processes(d) * sizeof *layout);
    if (a->what == SL_DO_PLAN)
        assert_ok(sl_order_copy(&a->plan->order, &wanted));
    drive_judge_unchanged(d, "before its action was carried out");
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
        drive_judge_done(d, a);
    d->changed |= outcome == SL_OUTCOME_DONE;
    int id = a->id, replica = a->replica, plans = a->what == SL_DO_PLAN, layouts = a->what == SL_DO_LAYOUT;
    fprintf(d->log, "%d: action %d outcome %d took %lld\n", d->iteration, id, outcome, (long long)took);
    assert_ok(sl_orchestrator_carried_out(d->o, id, d->now, outcome, took));
    if (outcome != SL_OUTCOME_DONE)
        drive_judge_unchanged(d, "by an action that was not carried out");
    else if (plans && !sl_order_equal(&wanted, &sl_orchestrator_plan(d->o, replica)->order))
        drive_violate(d, PROMISE_ACTIONS, "replica %d does not run the plan that was carried out", replica);
    if (outcome == SL_OUTCOME_DONE && layouts) {
        memcpy(d->before, layout, sizeof layout);
        drive_meet(d);
        d->moved = 1;
    }
    sl_order_free(&wanted);
    drive_judge_plans(d);
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
        drive_judge_action(d, &d->action);
        d->pending = 1;
        d->due = d->iteration;
        if (d->j.slow_hands)
            d->due += (int)(sl_random_mix(d->noise.seed += SL_RANDOM_STEP) % (uint64_t)(d->j.slow_hands + 1));
        if (d->due == d->iteration)
            continue;
        sl_orchestrator_action more;
        if (sl_orchestrator_next(d->o, &more))
            drive_violate(d, PROMISE_ACTIONS, "action %d while action %d is under way", more.id,
                          d->action.id);
        return;
    }
    if (!d->broken)
        drive_violate(d, PROMISE_FLAPPING, "40 actions between two iterations");
}

/* ---- an iteration ---- */

/* What an iteration would take without faults, by the first plans or the present ones, whichever are better.
 * Who is not told of work takes it for time lost. */
static void set_reference(driver *d) {
    job *well = calloc(1, sizeof *well);
    const sl_plan *plan[JOB_REPLICAS];
    sl_job_layout home = {.process = d->home, .split = d->first_split};
    int edge = d->iteration == 0 || d->changed;
    assert_non_null(well);
    for (int i = 0; i < d->j.loads; i++)
        edge |= d->j.load[i].first == d->iteration || d->j.load[i].until == d->iteration;
    if (edge) {
        *well = d->j;
        well->faults = 0;
        well->loads = d->j.tells_ops ? d->j.loads : 0;
        for (int r = 0; r < d->j.config.job.replicas; r++)
            plan[r] = sl_orchestrator_plan(d->o, r);
        sl_time first = job_time(well, &home, d->j.first, d->iteration, -1);
        sl_time now = job_time(well, sl_orchestrator_layout(d->o), plan, d->iteration, -1);
        d->reference = first < now ? first : now;
    }
    free(well);
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
        drive_violate(d, PROMISE_IDLE, "%d idle iterations", idle);
    else if (d->idle < d->iteration + idle)
        d->idle = idle > d->j.iterations ? d->j.iterations : d->iteration + idle;
}

/* For who reads the log: what the iteration was like. */
static void log_truth(driver *d, const job_iteration *m) {
    int ranks = d->j.config.job.ranks;
    if (m->slow > 1)
        fprintf(d->log, "%d: rank %d of replica %d is slow once, %.2f times\n", d->iteration, m->slow_rank,
                m->slow_replica, m->slow);
    if (m->absent)
        fprintf(d->log, "%d: not observed\n", d->iteration);
    for (int r = 0; r < d->j.config.job.replicas && !m->absent && !d->j.unmeasured; r++) {
        for (int rank = 0; rank < ranks; rank++)
            if (!m->seen_ops[r * ranks + rank])
                fprintf(d->log, "%d: ops of rank %d of replica %d are missing\n", d->iteration, rank, r);
        if (!m->seen_links[r])
            fprintf(d->log, "%d: messages of replica %d are missing\n", d->iteration, r);
    }
}

static void step(driver *d) {
    set_reference(d);
    job_iteration m;
    const sl_plan *plan[JOB_REPLICAS];
    for (int r = 0; r < d->j.config.job.replicas; r++)
        plan[r] = sl_orchestrator_plan(d->o, r);
    job_measure(&d->j, &d->noise, sl_orchestrator_layout(d->o), plan, d->iteration, d->now, &m);
    log_truth(d, &m);
    d->lost += fmax(0, (double)(m.given.now - d->now - d->reference));
    sl_time took = m.given.now - d->now;
    d->now = m.given.now;
    if (!m.absent)
        assert_ok(sl_orchestrator_observe(d->o, &m.given));
    drive_judge_unchanged(d, "by an observation");
    drive_judge_costs(d);
    read_events(d);
    drive_judge_incidents(d);
    drive_judge_faults(d, &m);
    d->changed = 0; /* by what is done from here on, what a fault costs is asked again */
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
        drive_violate(d, PROMISE_RESUME, "%s", sl_error_text());
    free(text);
    view = sl_orchestrator_incidents(d->o, &again);
    if (again != count)
        drive_violate(d, PROMISE_RESUME, "%d incidents were saved, %d loaded", count, again);
    for (int i = 0; i < count; i++) {
        int found = 0;
        for (int k = 0; k < again; k++) /* in another order: the first plans lose other shares by them */
            found |= view[k].part.kind == before[i].part.kind && view[k].part.a == before[i].part.a &&
                     view[k].part.b == before[i].part.b && view[k].stage == before[i].stage &&
                     view[k].since == before[i].since && view[k].verdict == before[i].verdict;
        if (!found)
            drive_violate(d, PROMISE_RESUME, "incident %d '%s' is not there after the load", before[i].id,
                          before[i].seen);
    }
    for (int r = 0; r < JOB_REPLICAS; r++)
        d->last_swap[r] = -10000;
    for (int i = 0; i <= SL_DO_NETWORK; i++)
        d->last_quick[i] = -10000;
    memset(d->paid, 0, sizeof d->paid);
    d->refused = 0;
    d->idle = -1;
    drive_judge_plans(d);
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
    d->met = calloc((size_t)drive_processes(d), (size_t)drive_processes(d));
    for (int i = 0; i < JOB_FAULTS; i++)
        d->watch[i].began = -1;
    for (int r = 0; r < JOB_REPLICAS; r++)
        d->last_swap[r] = -10000;
    d->idle = -1;
    for (int i = 0; i <= SL_DO_NETWORK; i++)
        d->last_quick[i] = -10000;
    memcpy(d->before, sl_orchestrator_layout(d->o)->process, (size_t)drive_processes(d) * sizeof(int));
    memcpy(d->home, d->before, sizeof d->home);
    memcpy(d->first_split, sl_orchestrator_layout(d->o)->split, (size_t)j->config.job.replicas * sizeof(int));
    drive_meet(d);
    job well = *j;
    well.faults = well.loads = 0;
    d->healthy = job_time(&well, sl_orchestrator_layout(d->o), j->first, 0, -1);
    d->quick = j->config.at_once              ? j->config.at_once
               : 2 * d->healthy > 100 * SL_MS ? 2 * d->healthy
                                              : 100 * SL_MS;
    drive_judge_plans(d);
    for (; d->iteration < j->iterations && !d->broken; d->iteration++) {
        step(d);
        if (d->iteration == j->resumed && !d->pending && !d->moved && !d->broken)
            resume(d);
    }
    if (!d->broken)
        drive_judge_end(d);
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
