#include "library/library_orchestrator.h"
#include "adapt/orchestrator/history.h"
#include "adapt/orchestrator/unknown.h"
#include "base/memory.h"
#include "plan/family/family.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PROCESSES 1000000
#define SEARCH 700000 /* replayed ops; some 5 ms */

sl_status sl_library_replica(const slackline_orchestrator *o, int replica) {
    SL_TRY(sl_library_need(o, "orchestrator"));
    if (!o->expected)
        return sl_error(SL_ENONE, "the program's pipeline is not known");
    return sl_library_between("replica", replica, 0, o->replicas - 1);
}

sl_problem sl_library_shape(const slackline_orchestrator *o, int replica, const sl_measured *like) {
    sl_problem shape = like->problem;
    shape.microbatches = sl_orchestrator_layout(o->inner)->split[replica];
    return shape;
}

/* ---- opening ---- */

SL_PUBLIC void slackline_orchestrator_defaults(slackline_orchestrator_options *options) {
    const sl_orchestrator_config c = sl_orchestrator_defaults();
    if (sl_library_need(options, "options") != SL_OK)
        return;
    *options = (slackline_orchestrator_options){.schedule = "auto",
                                                .hold = c.hold,
                                                .dwell = c.dwell,
                                                .gain = c.gain,
                                                .work = SEARCH,
                                                .effort = 1,
                                                .seed = 1};
    _Static_assert((int)SLACKLINE_STRATEGIES == (int)SL_STRATEGY_KINDS, "strategies");
    memcpy(options->cost_ns, c.cost, sizeof c.cost);
    memcpy(options->undo_cost_ns, c.undo, sizeof c.undo);
}

static sl_status check_options(const slackline_orchestrator_options *o) {
    SL_TRY(sl_library_need(o->schedule, "options->schedule"));
    if (!sl_family_find(o->schedule) && strcmp(o->schedule, "auto") != 0)
        return sl_error(SL_EINVAL, "unknown schedule '%s': give a family's name or auto", o->schedule);
    SL_TRY(sl_library_between("hold", o->hold, 1, SL_HEALTHY_ROWS));
    SL_TRY(sl_library_between("dwell", o->dwell, 1, 100000));
    SL_TRY(sl_library_number("gain", o->gain, 0, 1));
    for (int s = 0; s < SLACKLINE_STRATEGIES; s++) {
        SL_TRY(sl_library_between("cost_ns", o->cost_ns[s], 0, SL_LIBRARY_DURATION));
        SL_TRY(sl_library_between("undo_cost_ns", o->undo_cost_ns[s], 0, SL_LIBRARY_DURATION));
    }
    SL_TRY(sl_library_between("at_once_ns", o->at_once_ns, 0, SL_LIBRARY_DURATION));
    SL_TRY(sl_library_between("profile_every_ns", o->profile_every_ns, 0, SL_LIBRARY_DURATION));
    SL_TRY(sl_library_between("queues", o->queues, 0, 64));
    SL_TRY(sl_library_between("work", o->work, 0, SL_LIBRARY_DURATION));
    return sl_library_number("effort", o->effort, 0.01, 1000);
}

/* Checks a replica's problem and plan, and that they agree on the number of microbatches. */
static sl_status check_pipeline(const slackline_job *job, int replica, int microbatches) {
    const slackline_problem *problem = job->problem[replica];
    SL_TRY(sl_library_need(problem, "a problem of the job"));
    SL_TRY(sl_library_need(job->first[replica], "a first plan of the job"));
    const sl_problem *p = &problem->problem, *f = &job->first[replica]->problem;
    if (p->layers)
        return sl_error(SL_EINVAL, "replica %d: the stages of its problem are cut from layers", replica);
    if (p->ranks != job->ranks)
        return sl_error(SL_EINVAL, "replica %d: its problem has %d ranks, the job %d", replica, p->ranks,
                        job->ranks);
    if (p->stages != job->problem[0]->problem.stages)
        return sl_error(SL_EINVAL, "replica %d: its problem has %d stages, that of replica 0 %d", replica,
                        p->stages, job->problem[0]->problem.stages);
    SL_TRY(sl_library_between("microbatches of a replica", microbatches, 1, SL_MAX_MICROBATCHES));
    if (f->ranks != p->ranks || f->stages != p->stages || f->placement != p->placement ||
        f->parts != p->parts || f->microbatches != microbatches)
        return sl_error(
            SL_EINVAL,
            "replica %d: its first plan is for %d ranks, %d stages and %d microbatches, %s; it has %d, %d "
            "and %d, %s (or other parts)",
            replica, f->ranks, f->stages, f->microbatches, sl_placement_name(f->placement), p->ranks,
            p->stages, microbatches, sl_placement_name(p->placement));
    double total = sl_problem_total_ms(p);
    return total <= SL_MAX_TOTAL_MS
               ? SL_OK
               : sl_error(SL_EINVAL, "all ops and messages in a row take %g ms; at most %g", total,
                          (double)SL_MAX_TOTAL_MS);
}

/* Its pipeline is unknown: microbatches are those of a process, for balancing. */
static sl_status check_program(const slackline_job *job) {
    const unsigned pipeline = SLACKLINE_CAN(SLACKLINE_SCHEDULE) | SLACKLINE_CAN(SLACKLINE_DELEGATE);
    if (job->can & pipeline || job->delegates)
        return sl_error(SL_EINVAL, "schedules and delegates need a pipeline: job->problem is NULL");
    for (int r = 0; job->split && r < job->replicas; r++) {
        SL_TRY(sl_library_between("microbatches of a replica", job->split[r], 1, SL_MAX_MICROBATCHES));
        if (job->split[r] != job->split[0])
            return sl_error(SL_EINVAL, "replicas of a program begin with equal numbers of microbatches");
    }
    return SL_OK;
}

static sl_status check_job(const slackline_job *job, const char *schedule) {
    SL_TRY(sl_library_between("replicas", job->replicas, 1, MAX_PROCESSES));
    SL_TRY(sl_library_between("ranks", job->ranks, 1, SL_MAX_RANKS));
    SL_TRY(sl_library_between("tensor", job->tensor, 1, MAX_PROCESSES));
    int64_t ranks = (int64_t)job->replicas * job->ranks;
    SL_TRY(sl_library_between("processes", ranks > MAX_PROCESSES ? ranks : ranks * job->tensor, 1,
                              MAX_PROCESSES));
    SL_TRY(sl_library_between("can", job->can, 0, (1 << SLACKLINE_STRATEGIES) - 1));
    SL_TRY(sl_library_between("delegates", job->delegates, 0, 64));
    SL_TRY(sl_library_number("message_bytes", job->message_bytes, 0, 1e15));
    for (int64_t p = 0; job->host && p < ranks * job->tensor; p++)
        SL_TRY(sl_library_need(job->host[p], "a host of the job"));
    if (!job->problem && !job->first)
        return check_program(job);
    SL_TRY(sl_library_need(job->problem, "job->problem"));
    SL_TRY(sl_library_need(job->first, "job->first"));
    for (int r = 0; r < job->replicas; r++) {
        SL_TRY(sl_library_need(job->problem[r], "a problem of the job"));
        SL_TRY(check_pipeline(job, r, job->split ? job->split[r] : job->problem[r]->problem.microbatches));
    }
    if (sl_family_find(schedule))
        SL_TRY(sl_family_check(sl_family_find(schedule), &job->problem[0]->problem));
    for (int s = 0; job->sum_bytes && s < job->problem[0]->problem.stages; s++)
        SL_TRY(sl_library_number("sum_bytes", job->sum_bytes[s], 0, 1e15));
    return SL_OK;
}

/* Replicas of one problem share their expected values. */
static sl_status expect(slackline_orchestrator *o, const slackline_job *job) {
    for (int r = 0; r < o->replicas; r++) {
        int same = 0;
        while (same < r && job->problem[same] != job->problem[r])
            same++;
        if (same < r)
            o->expected[r] = sl_measured_keep(o->expected[same]);
        else
            SL_TRY(sl_measured_of_problem(&job->problem[r]->problem, &o->expected[r]));
    }
    return SL_OK;
}

static int by_name(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static sl_status count_hosts(const slackline_job *job, int processes, int *hosts) {
    const char **name;
    *hosts = processes;
    if (!job->host)
        return SL_OK;
    SL_TRY(sl_alloc(&name, (size_t)processes, sizeof *name));
    memcpy(name, job->host, (size_t)processes * sizeof *name);
    qsort(name, (size_t)processes, sizeof *name, by_name);
    for (int p = 1; p < processes; p++)
        *hosts -= strcmp(name[p - 1], name[p]) == 0;
    sl_free(name);
    return SL_OK;
}

/* problem, first: [replicas] to be filled in; NULL: the pipeline is unknown. */
static sl_status open_with(slackline_orchestrator *o, const slackline_job *job,
                           const slackline_orchestrator_options *options, const sl_problem **problem,
                           const sl_plan **first) {
    sl_unknown_job program = {.ranks = o->processes,
                              .replicas = job->replicas,
                              .microbatches = job->split ? job->split[0] : 1,
                              .lightest = -1};
    SL_TRY(count_hosts(job, o->processes, &program.nodes));
    sl_orchestrator_config c = sl_orchestrator_defaults();
    c.job = (sl_job){.replicas = job->replicas,
                     .ranks = job->ranks,
                     .tensor = job->tensor,
                     .ring = job->ring,
                     .message = job->message_bytes,
                     .sum = job->sum_bytes,
                     .schedule = options->schedule,
                     .effort = options->effort,
                     .seed = options->seed};
    for (int r = 0; problem && r < o->replicas; r++) {
        problem[r] = &o->expected[r]->problem;
        first[r] = &job->first[r]->plan;
    }
    c.split = job->split;
    c.problem = problem;
    c.first = first;
    c.unknown = problem ? NULL : &program;
    c.host = job->host;
    c.can = job->can;
    memcpy(c.cost, options->cost_ns, sizeof c.cost);
    memcpy(c.undo, options->undo_cost_ns, sizeof c.undo);
    c.at_once = options->at_once_ns;
    c.profile_every = options->profile_every_ns;
    c.looks = job->looks != 0;
    c.hold = options->hold;
    c.dwell = options->dwell;
    c.gain = options->gain;
    c.work = options->work;
    c.queues = options->queues;
    c.delegates = job->delegates;
    c.paced = job->paced != 0;
    c.frozen = options->frozen != 0;
    return sl_orchestrator_open(&c, &o->inner);
}

static sl_status make(const slackline_job *job, const slackline_orchestrator_options *options,
                      slackline_orchestrator *o) {
    const sl_problem **problem = NULL;
    const sl_plan **first = NULL;
    size_t replicas = (size_t)job->replicas;
    o->replicas = job->replicas;
    o->processes = job->replicas * job->ranks * job->tensor;
    if (!job->problem)
        return open_with(o, job, options, NULL, NULL);
    SL_TRY(sl_alloc(&o->expected, replicas, sizeof *o->expected));
    SL_TRY(sl_alloc(&o->last, replicas, sizeof *o->last));
    SL_TRY(expect(o, job));
    sl_status status = sl_alloc(&problem, replicas, sizeof *problem);
    SL_THEN(status, sl_alloc(&first, replicas, sizeof *first));
    SL_THEN(status, open_with(o, job, options, problem, first));
    SL_FREE(first, problem);
    return status;
}

SL_PUBLIC slackline_status slackline_orchestrator_open(const slackline_job *job,
                                                       const slackline_orchestrator_options *options,
                                                       slackline_orchestrator **orchestrator) {
    SL_PLAIN_NUMBERS;
    slackline_orchestrator_options standard;
    SL_LIBRARY_TRY(sl_library_need(orchestrator, "orchestrator"));
    *orchestrator = NULL;
    slackline_orchestrator_defaults(&standard);
    options = options ? options : &standard;
    SL_LIBRARY_TRY(sl_library_need(job, "job"));
    SL_LIBRARY_TRY(check_options(options));
    SL_LIBRARY_TRY(check_job(job, options->schedule));
    SL_LIBRARY_TRY(sl_alloc(orchestrator, 1, sizeof **orchestrator));
    sl_status status = make(job, options, *orchestrator);
    if (status != SL_OK) {
        slackline_orchestrator_close(*orchestrator);
        *orchestrator = NULL;
    }
    return sl_library_status(status);
}

void sl_library_forget(slackline_orchestrator *o) {
    for (int r = 0; o->last && r < o->replicas; r++) {
        sl_measured_drop(o->last[r]);
        o->last[r] = NULL;
    }
}

SL_PUBLIC void slackline_orchestrator_close(slackline_orchestrator *o) {
    if (!o)
        return;
    sl_orchestrator_close(o->inner);
    sl_library_forget(o);
    for (int r = 0; o->expected && r < o->replicas; r++)
        sl_measured_drop(o->expected[r]);
    SL_FREE(o->last, o->expected, o);
}
