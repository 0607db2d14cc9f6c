/* The true time of an iteration: the model gets the slow components and gives every replica's problem, on
 * which the replica's running plan is replayed. */
#include "adapt/campaign/campaign_inside.h"
#include "base/memory.h"
#include "plan/pipeline/layers.h"
#include "plan/search/replan.h"
#include "plan/timing/replay.h"

#include <math.h>
#include <string.h>

#define MAX_HELD                                                                                             \
    4096 /* runs with measurements; more are dropped, and made again where they are asked for                \
          */

/* ---- opening ---- */

/* Bytes are ns of a healthy link, so that a link s times as slow takes s - 1 ns more per byte, anywhere. */
static sl_status make_job(sl_world *w) {
    const sl_campaign *c = w->campaign;
    sl_problem *p = &w->healthy;
    double steps = 2.0 * (c->replicas - 1);
    size_t links = (size_t)p->ranks * (size_t)p->ranks;
    w->job = (sl_job){.replicas = c->replicas,
                      .ranks = p->ranks,
                      .tensor = 1,
                      .ring = 1,
                      .delegated = (double)c->delegated,
                      .schedule = c->adapt_with,
                      .effort = c->effort,
                      .seed = c->seed};
    for (size_t i = 0; i < links; i++)
        w->job.message = fmax(w->job.message, (double)p->link[i].transfer);
    SL_TRY(sl_alloc(&w->sum, (size_t)p->stages, sizeof *w->sum));
    for (int stage = 0; stage < p->stages; stage++) {
        double step = c->gradient > 0 ? c->gradient * c->ring_pace / c->replicas
                      : steps > 0     ? (double)p->reduce[stage] / steps
                                      : 0;
        if (c->gradient > 0)
            p->reduce[stage] = (sl_time)llround(steps * (c->ring_latency + step));
        w->sum[stage] = step * c->replicas;
    }
    w->job.sum = c->replicas > 1 ? w->sum : NULL;
    return SL_OK;
}

static sl_status begin(sl_world *w) {
    size_t replicas = (size_t)w->campaign->replicas;
    int number;
    SL_TRY(sl_problem_copy(&w->campaign->problem, &w->healthy));
    sl_layers_free(w->healthy.layers); /* stages keep their layers */
    w->healthy.layers = NULL;
    SL_TRY(make_job(w));
    SL_TRY(sl_model_answers_open(&w->job.answers));
    SL_TRY(sl_alloc(&w->replica, replicas, sizeof *w->replica));
    SL_TRY(sl_alloc(&w->like, replicas, sizeof *w->like));
    SL_TRY(sl_alloc(&w->of, replicas, sizeof *w->of));
    SL_TRY(sl_alloc(&w->at, replicas, sizeof *w->at));
    SL_TRY(sl_alloc(&w->measured, replicas, sizeof(sl_measured *)));
    for (size_t d = 0; d < replicas; d++)
        w->replica[d] = &w->healthy;
    SL_TRY(sl_plan_make(&w->healthy, w->campaign->schedule, &w->first));
    SL_TRY(sl_world_number(w, &w->first, w->healthy.microbatches, &number));
    return sl_model_open(&w->job, w->replica, &w->model);
}

sl_status sl_world_open(const sl_campaign *campaign, sl_world *w) {
    *w = (sl_world){.campaign = campaign};
    return begin(w);
}

void sl_world_close(sl_world *w) {
    for (size_t i = 0; i < w->plan_keys.count && i < w->plan_room; i++)
        sl_plan_free(&w->plan[i]);
    for (size_t i = 0; i < w->run_keys.count && i < w->run_room; i++)
        sl_measured_drop(w->run[i].measured);
    sl_model_close(w->model);
    sl_model_answers_close(w->job.answers);
    sl_plan_free(&w->first);
    sl_problem_free(&w->healthy);
    sl_keys *keys[] = {&w->situation_keys, &w->plan_keys, &w->run_keys, &w->scene_keys};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        sl_keys_free(keys[i]);
    void *arrays[] = {w->sum,        w->replica, w->part, w->seen, w->situation, w->plan,
                      w->first_plan, w->run,     w->like, w->of,   w->at,        w->measured};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        sl_free(arrays[i]);
}

/* ---- slow components ---- */

/* The one-way latency above that of the healthy link that this fault slows at the initial positions. */
static sl_time more_latency(const sl_world *w, const sl_campaign_fault *f) {
    const sl_campaign *c = w->campaign;
    int ranks = c->problem.ranks, a = f->a / c->replicas, b = f->b / c->replicas;
    sl_time healthy = c->gradient > 0 ? (sl_time)llround(c->ring_latency) : 0;
    if (f->kind == SL_FAULT_NIC && ranks > 1)
        b = a + 1 < ranks ? a + 1 : a - 1;
    if (a != b)
        healthy = c->problem.link[a * ranks + b].latency;
    return f->latency > healthy ? f->latency - healthy : 0;
}

static sl_status see_fault(sl_world *w, const sl_campaign_fault *f) {
    double latency = (double)more_latency(w, f), pace = f->slowdown - 1;
    int last = f->kind == SL_FAULT_LINK ? f->a : f->b;
    for (int a = f->a; a <= last; a++) {
        sl_slow_part part = {.kind = SL_PART_DEVICE, .a = a, .b = -1, .slowdown = f->slowdown};
        if (f->kind != SL_FAULT_DEVICE)
            part = (sl_slow_part){.kind = f->kind == SL_FAULT_LINK ? SL_PART_LINK : SL_PART_CARD,
                                  .a = a,
                                  .b = f->kind == SL_FAULT_LINK ? f->b : -1,
                                  .slowdown = 1,
                                  .latency = {latency, latency},
                                  .pace = {pace, pace}};
        SL_TRY(sl_grow(&w->part, &w->part_room, w->parts + 1, sizeof *w->part));
        w->part[w->parts++] = part;
    }
    return SL_OK;
}

sl_status sl_world_see(sl_world *w, const int *fault, int faults) {
    if (faults == w->seens && (!faults || memcmp(fault, w->seen, (size_t)faults * sizeof *fault) == 0))
        return SL_OK;
    SL_TRY(sl_grow(&w->seen, &w->seen_room, (size_t)faults, sizeof *w->seen));
    w->parts = 0;
    w->seens = -1;
    for (int i = 0; i < faults; i++)
        SL_TRY(see_fault(w, &w->campaign->fault[fault[i]]));
    SL_TRY(sl_model_see(w->model, w->part, (int)w->parts));
    if (faults)
        memcpy(w->seen, fault, (size_t)faults * sizeof *fault);
    w->seens = faults;
    return SL_OK;
}

static sl_status number_situation(sl_world *w, const sl_likeness *like, int *number) {
    int is_new;
    SL_TRY(sl_keys_number(&w->situation_keys, like, sizeof *like, number, &is_new));
    SL_TRY(sl_grow(&w->situation, &w->situation_room, w->situation_keys.count, sizeof *w->situation));
    if (is_new)
        w->situation[*number] = (sl_situation){.best = -1, .time = SL_TIME_NEVER, .made = -1};
    return SL_OK;
}

/* The situation of each replica, into w->of. */
static sl_status find_situations(sl_world *w, const sl_scene *s) {
    SL_TRY(sl_world_see(w, s->fault, s->faults));
    SL_TRY(sl_model_alike(w->model, s->layout, w->like));
    for (int d = 0; d < w->job.replicas; d++) {
        if (d && memcmp(&w->like[d], &w->like[d - 1], sizeof *w->like) == 0)
            w->of[d] = w->of[d - 1];
        else
            SL_TRY(number_situation(w, &w->like[d], &w->of[d]));
    }
    return SL_OK;
}

/* ---- plans ---- */

sl_status sl_world_number(sl_world *w, const sl_plan *plan, int microbatches, int *number) {
    uint64_t sum[2] = {0, 0};
    int is_new;
    sl_problem problem = w->healthy;
    problem.microbatches = microbatches;
    for (int r = 0; r < plan->order.ranks; r++)
        sl_keys_digest(sum, plan->order.ops[r], (size_t)plan->order.count[r] * sizeof(sl_op));
    for (int r = 0; plan->order.issue && r < plan->order.ranks; r++)
        sl_keys_digest(sum, plan->order.issue[r], (size_t)plan->order.issues[r] * sizeof(sl_order_issue));
    SL_TRY(sl_keys_number(&w->plan_keys, sum, sizeof sum, number, &is_new));
    SL_TRY(sl_grow(&w->plan, &w->plan_room, w->plan_keys.count, sizeof *w->plan));
    if (!is_new)
        return SL_OK;
    SL_TRY(sl_plan_of_order(&problem, &plan->order, plan->schedule, &w->plan[*number]));
    sl_timeline_free(&w->plan[*number].timeline); /* the largest part of a plan, and unused here */
    return SL_OK;
}

/* As the orchestrator plans without a search, or by the family alone; -1: none fits. */
static sl_status number_made(sl_world *w, const sl_problem *problem, const char *family, int *number) {
    sl_plan plan;
    sl_status status =
        family ? sl_plan_make(problem, family, &plan)
               : sl_replan(problem, &(sl_replan_options){.schedule = w->campaign->adapt_with}, &plan);
    *number = -1;
    if (status == SL_OK)
        status = sl_world_number(w, &plan, problem->microbatches, number);
    else if (status == SL_ENONE || status == SL_EINVAL)
        status = SL_OK;
    sl_plan_free(&plan);
    return status;
}

sl_status sl_world_first(sl_world *w, int microbatches, int *number) {
    sl_problem problem = w->healthy;
    problem.microbatches = microbatches;
    SL_TRY(sl_grow(&w->first_plan, &w->first_room, (size_t)microbatches + 1, sizeof *w->first_plan));
    if (!w->first_plan[microbatches]) {
        SL_TRY(number_made(w, &problem, w->campaign->schedule, number));
        if (*number < 0)
            SL_TRY(number_made(w, &problem, NULL, number));
        w->first_plan[microbatches] = *number < 0 ? -1 : *number + 1;
    }
    *number = w->first_plan[microbatches] - 1;
    return *number >= 0 ? SL_OK
                        : sl_error(SL_ENONE, "no schedule of %d microbatches fits the memory", microbatches);
}

/* ---- replays ---- */

static sl_status true_problem(sl_world *w, const sl_scene *s, int replica, sl_problem *problem) {
    SL_TRY(sl_world_see(w, s->fault, s->faults));
    return sl_model_problem(w->model, s->layout, replica, problem);
}

/* An op kind that is not run is not measured: it keeps its healthy time. */
static sl_status measure(const sl_world *w, const sl_problem *problem, const sl_timeline *timeline,
                         sl_measured **measured) {
    sl_problem expected = w->healthy;
    expected.microbatches = problem->microbatches;
    expected.communication = problem->communication;
    SL_TRY(sl_measured_make(&expected, timeline, NULL, NULL, measured));
    for (int stage = 0; stage < problem->stages; stage++) {
        (*measured)->problem.reduce[stage] = problem->reduce[stage];
        (*measured)->summed[stage] = w->job.sum && problem->reduce[stage] > 0;
    }
    return SL_OK;
}

static sl_status replay(sl_world *w, const sl_scene *s, int replica, int plan, int measures,
                        sl_replica_run *run) {
    sl_problem problem;
    sl_timeline timeline = {0};
    SL_TRY(true_problem(w, s, replica, &problem));
    sl_status status =
        sl_replay(&problem, &w->plan[plan].program, problem.communication, problem.queue, &timeline);
    if (status == SL_OK) {
        run->time = sl_timeline_makespan(&timeline);
        if (measures && (status = measure(w, &problem, &timeline, &run->measured)) == SL_OK)
            w->held++;
    }
    w->replays++;
    sl_timeline_free(&timeline);
    sl_problem_free(&problem);
    return status;
}

static sl_status find_run(sl_world *w, const sl_scene *s, int replica, int plan, int measures, int *number) {
    int key[2] = {w->of[replica], plan}, is_new;
    SL_TRY(sl_keys_number(&w->run_keys, key, sizeof key, number, &is_new));
    SL_TRY(sl_grow(&w->run, &w->run_room, w->run_keys.count, sizeof *w->run));
    sl_replica_run *run = &w->run[*number];
    if (run->time && (run->measured || !measures))
        return SL_OK;
    SL_TRY(replay(w, s, replica, plan, measures, run));
    sl_situation *c = &w->situation[w->of[replica]];
    if (run->time < c->time) {
        c->time = run->time;
        c->best = plan;
    }
    return SL_OK;
}

sl_status sl_world_time(sl_world *w, const sl_scene *s, int measures, sl_time *time) {
    uint64_t sum[2] = {0, 0};
    int number, is_new;
    for (size_t i = 0; w->held > MAX_HELD && i < w->run_keys.count; i++) {
        sl_measured_drop(w->run[i].measured);
        w->run[i].measured = NULL;
    }
    w->held = w->held > MAX_HELD ? 0 : w->held;
    SL_TRY(find_situations(w, s));
    *time = 0;
    for (int d = 0; d < w->job.replicas; d++) {
        if (d && w->of[d] == w->of[d - 1] && s->plan[d] == s->plan[d - 1])
            w->at[d] = w->at[d - 1];
        else
            SL_TRY(find_run(w, s, d, s->plan[d], measures, &w->at[d]));
        const sl_replica_run *run = &w->run[w->at[d]];
        *time = run->time > *time ? run->time : *time;
        w->measured[d] = run->measured;
    }
    *time += w->campaign->other;
    sl_keys_digest(sum, w->at, (size_t)w->job.replicas * sizeof *w->at);
    return sl_keys_number(&w->scene_keys, sum, sizeof sum, &number, &is_new);
}

/* ---- adapted ---- */

/* A new one is made once per set of slow components in a pipeline, whatever the sums take. */
static sl_status make_plan(sl_world *w, const sl_scene *s, int replica, int *plan) {
    sl_problem problem;
    sl_likeness like = w->like[replica];
    int base;
    like.sums[0] = like.sums[1] = 0;
    SL_TRY(number_situation(w, &like, &base));
    *plan = w->situation[base].made;
    if (*plan >= 0)
        return SL_OK;
    SL_TRY(true_problem(w, s, replica, &problem));
    sl_status status = number_made(w, &problem, NULL, plan);
    sl_problem_free(&problem);
    SL_TRY(status);
    if (*plan < 0)
        SL_TRY(sl_world_first(w, like.microbatches, plan));
    w->situation[base].made = *plan;
    return SL_OK;
}

sl_status sl_world_adapt(sl_world *w, const sl_scene *s, int *plan) {
    int run;
    SL_TRY(find_situations(w, s));
    for (int d = 0; d < w->job.replicas; d++) {
        if (!d || w->of[d] != w->of[d - 1]) {
            SL_TRY(sl_world_first(w, s->layout->split[d], &plan[d]));
            SL_TRY(find_run(w, s, d, plan[d], 0, &run));
            if (s->faults) /* otherwise a job without faults would be replanned */
                SL_TRY(make_plan(w, s, d, &plan[d]));
            SL_TRY(find_run(w, s, d, plan[d], 0, &run));
        }
        plan[d] = w->situation[w->of[d]].best;
    }
    return SL_OK;
}
