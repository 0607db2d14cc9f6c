/* Jobs from a seed. */
#include "job.h"

#include "base/memory.h"

#include <math.h>

static double between(uint64_t *seed, double least, double most) {
    return least + (most - least) * sl_random_unit(sl_random_mix(*seed += SL_RANDOM_STEP));
}

static int one_of(uint64_t *seed, const int *values, int count) {
    return values[draw(seed, count)];
}
#define ONE_OF(seed, ...)                                                                                    \
    one_of(seed, (const int[]){__VA_ARGS__}, (int)(sizeof(int[]){__VA_ARGS__} / sizeof(int)))

/* ---- the healthy shape ---- */

static sl_time ms(double value) {
    return (sl_time)(value * (double)SL_MS);
}

static void draw_times(uint64_t *seed, sl_problem *p) {
    int even = draw(seed, 2);
    double f = between(seed, 2, 20), i = f * between(seed, 0.8, 1.2), w = f * between(seed, 0.6, 1.1);
    double latency = draw(seed, 3) ? 0 : between(seed, 0, f),
           transfer = draw(seed, 3) ? 0 : between(seed, 0, f / 2);
    for (int stage = 0; stage < p->stages; stage++) {
        double uneven = even ? 1 : between(seed, 0.7, 1.3);
        p->time[SL_F][stage] = ms(f * uneven);
        p->time[SL_I][stage] = ms(i * uneven);
        p->time[SL_W][stage] = ms(w * uneven);
        p->time[SL_B][stage] = p->time[SL_I][stage] + p->time[SL_W][stage];
    }
    for (int k = 0; k < p->ranks * p->ranks; k++) {
        p->link[k].latency = ms(latency);
        p->link[k].transfer = ms(transfer);
    }
}

/* The limit is what the plan needs, or somewhat more. */
static void draw_limit(uint64_t *seed, const sl_plan *plan, sl_problem *p) {
    double room = draw(seed, 2) ? 1 : between(seed, 1, 2);
    assert_ok(sl_alloc(&p->limit, (size_t)p->ranks, sizeof *p->limit));
    for (int r = 0; r < p->ranks; r++)
        p->limit[r] = plan->peak_memory[r] * room;
}

/* Its plan is of the family of `like`, or of any when that is NULL. */
static void plan_pipeline(uint64_t *seed, const sl_plan *like, sl_problem *p, sl_plan *plan) {
    int family;
    if (!like || sl_plan_make(p, like->schedule, plan) != SL_OK)
        assert_true(draw_plan(seed, p, plan, &family));
}

static void draw_pipeline(uint64_t *seed, int ranks, sl_problem *p) {
    sl_placement placement = (sl_placement)ONE_OF(seed, SL_LINEAR, SL_LINEAR, SL_LOOP, SL_WAVE);
    int stages = ranks * draw_chunks(seed, placement), most = stages > 12 ? 12 : 32;
    int microbatches = 2 + draw(seed, draw(seed, 3) ? 11 : most - 1);
    assert_ok(sl_problem_make(ranks, stages, microbatches, p));
    p->placement = placement;
    p->communication = (sl_regime)draw(seed, 3);
    p->queue = 1 + draw(seed, 3);
    draw_times(seed, p);
}

static void draw_hosts(uint64_t *seed, job *j) {
    int processes = sl_job_processes(&j->config.job), each = ONE_OF(seed, 0, 0, 1, 2, 4);
    for (int p = 0; p < processes && each; p++) {
        snprintf(j->name[p], sizeof j->name[p], "h%d", p / each);
        j->host[p] = j->name[p];
    }
    j->config.host = each ? j->host : NULL;
}

static void make_pipelines(uint64_t *seed, job *j) {
    int replicas = j->config.job.replicas;
    for (int i = 0; i < j->pipelines; i++) {
        if (i > 0) {
            assert_ok(sl_problem_copy(&j->pipeline[0], &j->pipeline[i]));
            for (int k = 0; k < SL_OP_KINDS * j->pipeline[i].stages; k++) {
                sl_time *time = &j->pipeline[i].time[k % SL_OP_KINDS][k / SL_OP_KINDS];
                *time = (sl_time)((double)*time * (1 + 0.05 * i));
            }
        }
        plan_pipeline(seed, i ? &j->plan[0] : NULL, &j->pipeline[i], &j->plan[i]);
    }
    if (draw(seed, 3) == 0)
        for (int i = j->pipelines - 1; i >= 0; i--)
            draw_limit(seed, &j->plan[i], &j->pipeline[i]);
    for (int r = 0; r < replicas; r++) {
        j->problem[r] = &j->pipeline[j->pipelines > 1 ? r : 0];
        j->first[r] = &j->plan[j->pipelines > 1 ? r : 0];
    }
}

static void connect(job *j) {
    j->config.problem = j->problem;
    j->config.first = j->first;
    j->config.job.sum = j->config.job.replicas > 1 ? j->sum : NULL;
}

void job_draw_shape(uint64_t *seed, job *j) {
    int ranks = ONE_OF(seed, 1, 2, 2, 3, 4, 4, 5, 6, 8),
        replicas = ONE_OF(seed, 1, 1, 1, 1, 2, 2, 2, 3, 4, 8);
    j->config = sl_orchestrator_defaults();
    if (ranks == 8 && replicas == 8)
        replicas = 4;
    draw_pipeline(seed, ranks, &j->pipeline[0]);
    sl_problem *p = &j->pipeline[0];
    j->config.job = (sl_job){.replicas = replicas,
                             .ranks = ranks,
                             .tensor = ONE_OF(seed, 1, 1, 1, 2),
                             .ring = draw(seed, 2),
                             .message = 1e6,
                             .effort = 0.02,
                             .seed = 1};
    j->pipelines = draw(seed, 8) ? 1 : replicas;
    for (int stage = 0; stage < p->stages; stage++) {
        j->sum[stage] = 1e8;
        p->reduce[stage] = replicas > 1 ? ms(between(seed, 1, 20)) : 0;
    }
    make_pipelines(seed, j);
    connect(j);
    j->config.job.schedule = draw(seed, 2) ? "auto" : j->plan[0].schedule;
    j->config.hold = 3 + draw(seed, 4);
    j->config.dwell = 5 + draw(seed, 16);
    j->fixed = 0.1;
    j->other = draw(seed, 2) ? 0 : ms(between(seed, 0, 10));
    draw_hosts(seed, j);
}

/* ---- what disturbs ---- */

void job_draw_noise(uint64_t *seed, job *j) {
    j->tells_iteration = draw(seed, 2);
    j->still = draw(seed, 6) == 0;
    if (j->still)
        return;
    j->jitter = draw(seed, 4) ? between(seed, 0, 0.09) : 0;
    j->sums = 0.05;
    j->spikes = draw(seed, 2) ? 0 : 0.004;
    j->slow_every = draw(seed, 3) ? 0 : 30;
    j->late = draw(seed, 3) ? (sl_time)between(seed, 0, 2e5) : 0;
    j->clock_error = ONE_OF(seed, 0, 50, 500, 2000) * (SL_MS / 1000);
    j->resync = draw(seed, 2) ? 0 : 25;
    j->warm_up = ONE_OF(seed, 0, 0, 0, 1, 2);
    j->evaluate_every = draw(seed, 4) ? 0 : 25;
    j->gaps = draw(seed, 3) ? 0 : between(seed, 0.02, 0.2);
    j->sigma = draw(seed, 4) ? 0 : 0.1;
    j->tells_ops = j->sigma > 0 || draw(seed, 2);
    j->config.paced = j->jitter < 0.02 && j->sigma == 0 && draw(seed, 2);
}

/* The device or the link of a place in the first layout; whether the link is one of a sum. */
static int draw_place(uint64_t *seed, const job *j, job_fault *f) {
    const sl_job *shape = &j->config.job;
    int rank = draw(seed, shape->ranks), replica = draw(seed, shape->replicas),
        tensor = draw(seed, shape->tensor);
    int sum = shape->ranks == 1 || (shape->replicas > 1 && draw(seed, 3) == 0);
    f->a = f->b = sl_job_position(shape, rank, replica, tensor);
    if (f->kind == JOB_LINK && sum)
        f->b = sl_job_position(shape, rank, (replica + 1) % shape->replicas, tensor);
    else if (f->kind == JOB_LINK && j->pipeline[0].placement == SL_LOOP)
        f->b = sl_job_position(shape, (rank + 1) % shape->ranks, replica, tensor);
    else if (f->kind == JOB_LINK)
        f->b = sl_job_position(shape, rank + 1 < shape->ranks ? rank + 1 : rank - 1, replica, tensor);
    return sum;
}

static void draw_delays(uint64_t *seed, const job *j, int sum, job_fault *f) {
    double op = (double)j->pipeline[0].time[SL_F][0];
    int ways = ONE_OF(seed, 1, 2, 3, 3, 3), what = 1 + draw(seed, 3);
    double bytes = sum ? j->sum[0] / j->config.job.replicas : j->config.job.message;
    double latency = op * between(seed, 0.3, sum ? 2 : 4),
           pace = op * between(seed, 0.3, sum ? 5 : 3) / bytes;
    for (int way = 0; way < 2; way++) {
        f->latency[way] = (ways & (1 << way)) && (what & 1) ? latency : 0;
        f->pace[way] = (ways & (1 << way)) && (what & 2) ? pace : 0;
    }
}

static void draw_span(uint64_t *seed, const job *j, int window, job_fault *f) {
    f->first =
        draw(seed, 20) == 0 ? draw(seed, 5) : j->config.hold + 6 + j->warm_up + draw(seed, window - 50);
    int length = ONE_OF(seed, 0, 1, 1, 2);
    f->until = length == 0   ? f->first + 1 + draw(seed, 4)
               : length == 1 ? f->first + 20 + draw(seed, 30)
                             : window;
    f->until = f->until > window ? window : f->until;
}

static void draw_fault(uint64_t *seed, const job *j, int window, job_fault *f) {
    const sl_job *shape = &j->config.job;
    int kind =
        ONE_OF(seed, JOB_DEVICE, JOB_DEVICE, JOB_DEVICE, JOB_LINK, JOB_LINK, JOB_LINK, JOB_CARD, JOB_HOST);
    *f = (job_fault){.kind = (job_fault_kind)kind, .slowdown = 1};
    if (shape->ranks * shape->replicas == 1 || (f->kind == JOB_HOST && !j->config.host))
        f->kind = JOB_DEVICE;
    int sum = draw_place(seed, j, f);
    if (f->kind == JOB_DEVICE || (f->kind == JOB_HOST && draw(seed, 2)))
        f->slowdown = between(seed, 1.2, 3);
    else
        draw_delays(seed, j, sum, f);
    draw_span(seed, j, window, f);
}

void job_draw_faults(uint64_t *seed, job *j) {
    int window = 70 + draw(seed, 50);
    j->iterations = window;
    j->faults = draw(seed, 5) == 0 ? 0 : ONE_OF(seed, 1, 1, 1, 2, 2, 3, 4);
    for (int i = 0; i < j->faults; i++)
        draw_fault(seed, j, window, &j->fault[i]);
    if (draw(seed, 3)) {
        j->quiet = 2 * j->config.dwell + 3 * j->config.hold + 12;
        j->iterations += j->quiet;
    } else
        for (int i = 0; i < j->faults; i++)
            j->fault[i].until = j->fault[i].until == window ? j->iterations : j->fault[i].until;
}

void job_draw_loads(uint64_t *seed, job *j) {
    const sl_job *shape = &j->config.job;
    j->loads = draw(seed, 5) < 3 ? 0 : 1 + draw(seed, JOB_LOADS - 1);
    for (int i = 0; i < j->loads; i++) {
        int replica = shape->replicas > 1 && draw(seed, 3) == 0 ? draw(seed, shape->replicas) : -1;
        int first = j->config.hold + 6 + draw(seed, j->iterations - 30);
        j->load[i] = (job_load){first, first + 5 + draw(seed, 50), replica, -1, between(seed, 1.1, 1.6)};
        /* a process alone that takes longer with unknown work looks slow, whatever the cause, and so does one
         * whose ops are held to their times */
        if (shape->ranks == 1 || j->config.paced)
            j->tells_ops = 1;
    }
}

void job_draw_body(uint64_t *seed, job *j) {
    sl_orchestrator_config *c = &j->config;
    c->can = (unsigned)ONE_OF(seed, 0, 1, 3, 7, 15, 31, 31, 1 << draw(seed, 5));
    if (!c->host)
        c->can &= ~(1u << SL_STRATEGY_RESTART);
    for (int s = SL_STRATEGY_BALANCE; s < SL_STRATEGY_KINDS; s++) {
        c->cost[s] = ms(between(seed, 200, s == SL_STRATEGY_BALANCE ? 2000 : 30000));
        c->undo[s] = s == SL_STRATEGY_RESTART ? 0 : c->cost[s];
    }
    c->looks = draw(seed, 2);
    c->profile_every = c->looks && draw(seed, 4) == 0 ? 5 * SL_SECOND : 0;
    c->work = draw(seed, 4) ? 0 : 20000;
    c->queues = draw(seed, 3);
    c->frozen = draw(seed, 10) == 0;
    j->fails = draw(seed, 3) ? 0 : 0.3;
    j->refuses = draw(seed, 5) ? 0 : 0.2;
    j->resumed = draw(seed, 6) ? 0 : 20 + draw(seed, j->iterations - 20);
    j->slow_hands = draw(seed, 2) ? 0 : 3;
}

void job_draw(uint64_t seed, job *j) {
    uint64_t state = sl_random_mix(seed);
    memset(j, 0, sizeof *j);
    j->seed = seed;
    job_draw_shape(&state, j);
    job_draw_noise(&state, j);
    job_draw_faults(&state, j);
    job_draw_loads(&state, j);
    job_draw_body(&state, j);
}

void job_plain(int replicas, int ranks, int microbatches, sl_time op, sl_time link, job *j) {
    memset(j, 0, sizeof *j);
    j->config = sl_orchestrator_defaults();
    j->config.job = (sl_job){.replicas = replicas,
                             .ranks = ranks,
                             .tensor = 1,
                             .ring = 1,
                             .message = 1e6,
                             .schedule = "1f1b",
                             .effort = 0.02,
                             .seed = 1};
    j->pipelines = 1;
    j->iterations = 200;
    j->fixed = 0.1;
    sl_problem *p = &j->pipeline[0];
    assert_ok(sl_problem_make(ranks, ranks, microbatches, p));
    for (int stage = 0; stage < ranks; stage++) {
        j->sum[stage] = 1e8;
        p->time[SL_F][stage] = p->time[SL_I][stage] = p->time[SL_W][stage] = op;
        p->time[SL_B][stage] = 2 * op;
    }
    for (int k = 0; k < ranks * ranks; k++)
        p->link[k].transfer = link;
    assert_ok(sl_plan_make(p, "1f1b", &j->plan[0]));
    for (int r = 0; r < replicas; r++) {
        j->problem[r] = p;
        j->first[r] = &j->plan[0];
    }
    connect(j);
}

void job_free(job *j) {
    for (int i = 0; i < j->pipelines; i++) {
        sl_problem_free(&j->pipeline[i]);
        sl_plan_free(&j->plan[i]);
    }
}
