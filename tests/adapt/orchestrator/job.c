/* What is true of a simulated job, and what is measured of it. */
#include "job.h"

#include "base/memory.h"
#include "plan/timing/replay.h"

#include <math.h>

/* ---- drawing noise ---- */

static double unit(uint64_t *state) {
    return sl_random_unit(sl_random_mix(*state += SL_RANDOM_STEP));
}

static double normal(uint64_t *state) {
    double radius = sqrt(-2 * log(unit(state)));
    return radius * cos(2 * 3.14159265358979323846 * unit(state));
}

static int happens(uint64_t *state, double share) {
    return unit(state) < share;
}

/* ---- what is true ---- */

int job_home(const job *j, int replica, int rank) {
    return sl_job_position(&j->config.job, rank, replica, 0);
}

int job_same_host(const job *j, int a, int b) {
    return a == b || (j->config.host && strcmp(j->host[a], j->host[b]) == 0);
}

static int lasts(const job_fault *f, int iteration) {
    return f->first <= iteration && iteration < f->until;
}

double job_slowness(const job *j, int process, int iteration, int except) {
    double slow = 1;
    for (int i = 0; i < j->faults; i++) {
        const job_fault *f = &j->fault[i];
        if (i == except || !lasts(f, iteration))
            continue;
        if ((f->kind == JOB_DEVICE && f->a == process) ||
            (f->kind == JOB_HOST && job_same_host(j, f->a, process)))
            slow *= f->slowdown;
    }
    return slow;
}

/* Which way of a fault a message from one process to another goes: 0 or 1; -1: it is none of its. */
static int way_of(const job *j, const job_fault *f, int from, int to) {
    if (f->kind == JOB_LINK)
        return f->a == from && f->b == to ? 0 : f->a == to && f->b == from ? 1 : -1;
    if (f->kind == JOB_CARD)
        return f->a == from ? 0 : f->a == to ? 1 : -1;
    if (f->kind == JOB_HOST && job_same_host(j, from, to))
        return -1; /* within the host nothing passes its card */
    return f->kind != JOB_HOST ? -1 : job_same_host(j, f->a, from) ? 0 : job_same_host(j, f->a, to) ? 1 : -1;
}

void job_link_excess(const job *j, int from, int to, int iteration, int except, double *latency,
                     double *pace) {
    *latency = *pace = 0;
    for (int i = 0; i < j->faults; i++) {
        const job_fault *f = &j->fault[i];
        int way = i == except || !lasts(f, iteration) ? -1 : way_of(j, f, from, to);
        if (way >= 0) {
            *latency = fmax(*latency, f->latency[way]);
            *pace = fmax(*pace, f->pace[way]);
        }
    }
}

double job_length(const job *j, int replica, int stage, int iteration) {
    double length = 1;
    for (int i = 0; i < j->loads; i++) {
        const job_load *l = &j->load[i];
        if (l->first <= iteration && iteration < l->until && (l->replica < 0 || l->replica == replica) &&
            (l->stage < 0 || l->stage == stage))
            length *= l->factor;
    }
    return length;
}

static int sits(const job *j, const sl_job_layout *layout, int rank, int replica, int tensor) {
    return layout->process[sl_job_position(&j->config.job, rank, replica, tensor)];
}

/* A ring takes 2 (n - 1) steps on its slowest link with a share of 1 / n each; where all exchange their
 * shares at once, a sum waits twice for the slowest pair. */
static double sum_excess(const job *j, const sl_job_layout *layout, int stage, int rank, int iteration,
                         int except) {
    const sl_job *shape = &j->config.job;
    int n = shape->replicas;
    double worst = 0, latency, pace;
    for (int t = 0; t < shape->tensor; t++)
        for (int a = 0; a < n; a++)
            for (int b = 0; b < n; b++) {
                if (a == b || (shape->ring && b != (a + 1) % n))
                    continue;
                job_link_excess(j, sits(j, layout, rank, a, t), sits(j, layout, rank, b, t), iteration,
                                except, &latency, &pace);
                worst = fmax(worst, latency + pace * j->sum[stage] / n);
            }
    return worst * (shape->ring ? 2 * (n - 1) : 2);
}

void job_problem(const job *j, const sl_job_layout *layout, int replica, int iteration, int except,
                 sl_problem *p) {
    const sl_job *shape = &j->config.job;
    assert_ok(sl_problem_copy(j->problem[replica], p));
    p->microbatches = layout->split[replica];
    if (layout->delegates)
        p->communication = SL_DECOUPLED;
    for (int stage = 0; stage < p->stages; stage++) {
        int rank = sl_problem_rank(p, stage);
        double slow = 1;
        for (int t = 0; t < shape->tensor; t++)
            slow = fmax(slow, job_slowness(j, sits(j, layout, rank, replica, t), iteration, except));
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            p->time[kind][stage] = (sl_time)((double)p->time[kind][stage] * slow);
        if (shape->replicas > 1)
            p->reduce[stage] += (sl_time)sum_excess(j, layout, stage, rank, iteration, except);
    }
    for (int from = 0; from < p->ranks; from++)
        for (int to = 0; to < p->ranks; to++) {
            double latency = 0, pace = 0, l, s;
            for (int t = 0; t < shape->tensor && from != to; t++) {
                job_link_excess(j, sits(j, layout, from, replica, t), sits(j, layout, to, replica, t),
                                iteration, except, &l, &s);
                latency = fmax(latency, l);
                pace = fmax(pace, s);
            }
            p->link[from * p->ranks + to].latency += (sl_time)latency;
            p->link[from * p->ranks + to].transfer += (sl_time)(pace * shape->message);
        }
}

double job_growth(const job *j, double length) {
    return j->fixed + (1 - j->fixed - j->square) * length + j->square * length * length;
}

sl_time job_time(const job *j, const sl_job_layout *layout, const sl_plan *const *plan, int iteration,
                 int except) {
    sl_time longest = 0;
    for (int r = 0; r < j->config.job.replicas; r++) {
        sl_problem p;
        sl_timeline t;
        job_problem(j, layout, r, iteration, except, &p);
        for (int stage = 0; stage < p.stages; stage++)
            for (int kind = 0; kind < SL_OP_KINDS; kind++)
                p.time[kind][stage] = (sl_time)((double)p.time[kind][stage] *
                                                job_growth(j, job_length(j, r, stage, iteration)));
        assert_ok(sl_replay(&p, &plan[r]->program, p.communication, p.queue, &t));
        sl_time time = sl_timeline_makespan(&t);
        longest = time > longest ? time : longest;
        sl_timeline_free(&t);
        sl_problem_free(&p);
    }
    return longest + j->other;
}

/* ---- the replay with a duration for every op ---- */

static void replay_sums(const sl_problem *p, const sl_program *program, const int *first, sl_timeline *t) {
    assert_ok(sl_alloc(&t->collective, (size_t)p->stages, sizeof *t->collective));
    for (int rank = 0; rank < p->ranks; rank++) {
        sl_time free = 0;
        int left[JOB_STAGES * 4] = {0};
        for (int s = 0; s < program->rank[rank].steps; s++)
            left[program->rank[rank].step[s].op.stage] += program->rank[rank].step[s].op.kind >= SL_W;
        for (int s = 0; s < program->rank[rank].steps; s++) {
            const sl_span *span = &t->span[first[rank] + s];
            if (span->op.kind < SL_W || --left[span->op.stage] > 0 || p->reduce[span->op.stage] == 0)
                continue;
            sl_time start = span->end > free ? span->end : free;
            free = start + p->reduce[span->op.stage];
            t->collective[t->collectives++] = (sl_span){
                .rank = rank, .op = {span->op.stage, -1, SL_REDUCE, 0, 0}, .start = start, .end = free};
        }
    }
}

void job_replay(const sl_problem *p, const sl_program *program, const sl_time *duration,
                const sl_time *transfer, const sl_time *latency, sl_timeline *t) {
    int first[JOB_RANKS + 1] = {0}, next[JOB_RANKS] = {0}, moved = 1;
    sl_time free[JOB_RANKS] = {0}, wire[JOB_RANKS * JOB_RANKS] = {0};
    for (int r = 0; r < p->ranks; r++)
        first[r + 1] = first[r] + program->rank[r].steps;
    assert_ok(sl_timeline_make(p->ranks, first[p->ranks], program->messages, t));
    for (int m = 0; m < program->messages; m++)
        t->transfer[m].arrive = -1;
    while (moved) {
        moved = 0;
        for (int r = 0; r < p->ranks; r++)
            for (; next[r] < program->rank[r].steps; next[r]++, moved = 1) {
                const sl_step *step = &program->rank[r].step[next[r]];
                sl_span *span = &t->span[first[r] + next[r]];
                sl_time start = free[r];
                if (step->receive >= 0 && t->transfer[step->receive].arrive < 0)
                    break;
                if (step->receive >= 0 && t->transfer[step->receive].arrive > start)
                    start = t->transfer[step->receive].arrive;
                *span = (sl_span){
                    .rank = r, .op = step->op, .start = start, .end = start + duration[first[r] + next[r]]};
                free[r] = span->end;
                if (step->send < 0)
                    continue;
                const sl_message *m = &program->message[step->send];
                sl_time *busy = &wire[m->from * p->ranks + m->to];
                sl_time begin = span->end > *busy ? span->end : *busy;
                *busy = begin + transfer[step->send];
                t->transfer[step->send] = (sl_transfer){.from = m->from,
                                                        .to = m->to,
                                                        .op = m->op,
                                                        .start = begin,
                                                        .end = *busy,
                                                        .arrive = *busy + latency[step->send]};
            }
    }
    for (int r = 0; r < p->ranks; r++)
        assert_int_equal(next[r], program->rank[r].steps);
    replay_sums(p, program, first, t);
}

/* ---- what is measured ---- */

/* An iteration's troubles that are nobody's fault. */
typedef struct hiccup {
    int rank, replica; /* whose ops are slow in this iteration; -1: all, -2: nobody's */
    double factor;
    double evaluation;
} hiccup;

void job_noise_begin(const job *j, job_noise *noise) {
    *noise = (job_noise){.seed = sl_random_mix(j->seed + 77)};
    for (int i = 0; i < JOB_REPLICAS * JOB_RANKS; i++)
        noise->disturbed[i] = -1000;
}

/* Marks the ranks of a place (-1: all) as disturbed; 0, and nothing is marked, when one of them was lately.
 */
static int disturb(const job *j, job_noise *noise, int rank, int replica, int iteration) {
    int ranks = j->config.job.ranks, all = ranks * j->config.job.replicas;
    for (int i = 0; i < all; i++)
        if ((rank < 0 || i % ranks == rank) && (replica < 0 || i / ranks == replica) &&
            iteration - noise->disturbed[i] <= 2 * j->config.hold)
            return 0;
    for (int i = 0; i < all; i++)
        if ((rank < 0 || i % ranks == rank) && (replica < 0 || i / ranks == replica))
            noise->disturbed[i] = iteration;
    return 1;
}

static hiccup draw_hiccup(const job *j, job_noise *noise, int iteration) {
    hiccup h = {-2, -2, 1, 1};
    if (iteration < j->warm_up) {
        h = (hiccup){-1, -1, 1.3 + 1.7 * unit(&noise->seed), 1};
        for (int i = 0; i < JOB_REPLICAS * JOB_RANKS; i++)
            noise->disturbed[i] = iteration;
    } else if (j->slow_every && draw(&noise->seed, j->slow_every) == 0) {
        int rank = draw(&noise->seed, j->config.job.ranks + 1) - 1;
        int replica = draw(&noise->seed, j->config.job.replicas + 1) - 1;
        if (disturb(j, noise, rank, replica, iteration))
            h = (hiccup){rank, replica, 1.2 + 1.8 * unit(&noise->seed), 1};
    }
    if (j->evaluate_every && iteration % j->evaluate_every == j->evaluate_every - 1)
        h.evaluation = 1.5 + 1.5 * unit(&noise->seed);
    return h;
}

/* Within the bound: any two clocks differ by the error at most. */
static void set_clocks(const job *j, job_noise *noise, int iteration) {
    if (iteration > 0 && (j->resync == 0 || iteration % j->resync != 0))
        return;
    for (int p = 0; p < sl_job_processes(&j->config.job); p++)
        noise->clock[p] = (sl_time)((unit(&noise->seed) - 0.5) * (double)j->clock_error);
}

static double op_length(const job *j, const double *length, int replica, int stage, int microbatch,
                        int iteration) {
    return length[microbatch] * job_length(j, replica, stage, iteration);
}

/* Durations of all ops; what ops take together, over what they would take plain, into *mean [stages] where
 * asked. */
static void draw_durations(const job *j, job_noise *noise, const hiccup *h, const sl_problem *p,
                           const sl_plan *plan, const double *length, int replica, int iteration,
                           sl_time *duration) {
    int i = 0;
    for (int r = 0; r < p->ranks; r++) {
        int slow = (h->rank == -1 || h->rank == r) && (h->replica == -1 || h->replica == replica);
        for (int s = 0; s < plan->program.rank[r].steps; s++, i++) {
            const sl_op *op = &plan->program.rank[r].step[s].op;
            double f = job_growth(j, op_length(j, length, replica, op->stage, op->microbatch, iteration));
            f *= 1 + j->jitter * unit(&noise->seed);
            if (happens(&noise->seed, j->spikes) && disturb(j, noise, r, replica, iteration))
                f *= 1.5 + 2.5 * unit(&noise->seed);
            f *= slow ? h->factor : 1;
            duration[i] = (sl_time)((double)p->time[op->kind][op->stage] * f);
        }
    }
}

static void draw_messages(const job *j, job_noise *noise, const sl_problem *p, const sl_plan *plan,
                          const double *length, int replica, int iteration, sl_time *transfer,
                          sl_time *latency) {
    for (int m = 0; m < plan->program.messages; m++) {
        const sl_message *message = &plan->program.message[m];
        const sl_link *link = &p->link[message->from * p->ranks + message->to];
        double size = op_length(j, length, replica, -1, message->op.microbatch, iteration);
        transfer[m] = (sl_time)((double)link->transfer * size);
        latency[m] = link->latency + (sl_time)((double)j->late * unit(&noise->seed));
    }
}

/* In the other regimes: replayed with each stage's mean, then every duration as it was drawn. */
static void replay_by_means(const sl_problem *p, const sl_plan *plan, const sl_time *duration,
                            const sl_time *transfer, const sl_time *latency, sl_timeline *t) {
    sl_problem mean;
    double sum[SL_OP_KINDS][JOB_STAGES] = {{0}};
    int count[SL_OP_KINDS][JOB_STAGES] = {{0}}, i = 0;
    assert_ok(sl_problem_copy(p, &mean));
    for (int r = 0; r < p->ranks; r++)
        for (int s = 0; s < plan->program.rank[r].steps; s++, i++) {
            const sl_op *op = &plan->program.rank[r].step[s].op;
            sum[op->kind][op->stage] += (double)duration[i];
            count[op->kind][op->stage]++;
        }
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        for (int stage = 0; stage < p->stages; stage++)
            if (count[kind][stage])
                mean.time[kind][stage] = (sl_time)(sum[kind][stage] / count[kind][stage]);
    assert_ok(sl_replay(&mean, &plan->program, p->communication, p->queue, t));
    for (i = 0; i < t->spans; i++) {
        sl_span *span = &t->span[i];
        if (span->op.paired || (i > 0 && t->span[i - 1].op.paired)) {
            sl_time both = span->op.paired ? duration[i] + duration[i + 1] : duration[i - 1] + duration[i];
            span->end = span->start + both;
        } else
            span->end = span->start + duration[i];
    }
    for (int m = 0; m < t->transfers; m++) {
        t->transfer[m].end = t->transfer[m].start + transfer[m];
        t->transfer[m].arrive = t->transfer[m].end + latency[m];
    }
    sl_problem_free(&mean);
}

static int has_pairs(const sl_plan *plan) {
    for (int r = 0; r < plan->order.ranks; r++)
        for (int i = 0; i < plan->order.count[r]; i++)
            if (plan->order.ops[r][i].paired)
                return 1;
    return 0;
}

/* Clocks are off, and some of it was never seen. */
static void obscure(const job *j, job_noise *noise, const sl_job_layout *layout, int replica, sl_timeline *t,
                    job_iteration *out) {
    sl_time clock[JOB_RANKS];
    int ranks = j->config.job.ranks, kept = 0, blind[JOB_RANKS];
    for (int r = 0; r < ranks; r++) {
        clock[r] = noise->clock[sits(j, layout, r, replica, 0)];
        blind[r] = happens(&noise->seed, j->gaps / 2);
        out->seen_ops[replica * ranks + r] = !blind[r];
    }
    for (int i = 0; i < t->spans; i++) {
        sl_span span = t->span[i];
        span.start += clock[span.rank];
        span.end += clock[span.rank];
        if (!blind[span.rank])
            t->span[kept++] = span;
    }
    t->spans = kept;
    for (int m = 0; m < t->transfers; m++) {
        t->transfer[m].start += clock[t->transfer[m].from];
        t->transfer[m].end += clock[t->transfer[m].from];
        t->transfer[m].arrive += clock[t->transfer[m].to];
    }
    out->seen_links[replica] = !happens(&noise->seed, j->gaps / 2);
    if (!out->seen_links[replica])
        t->transfers = 0;
}

static void measure_replica(const job *j, job_noise *noise, const hiccup *h, const sl_job_layout *layout,
                            const sl_plan *plan, int replica, int iteration, sl_time *took,
                            job_iteration *out) {
    double length[JOB_MICROBATCHES], tokens = 0;
    sl_problem p, expected;
    sl_timeline t;
    int ops = 0;
    job_problem(j, layout, replica, iteration, -1, &p);
    for (int m = 0; m < p.microbatches; m++) {
        length[m] = j->sigma > 0 ? exp(j->sigma * normal(&noise->seed) - j->sigma * j->sigma / 2) : 1;
        tokens += 1000 * op_length(j, length, replica, -1, m, iteration);
    }
    for (int r = 0; r < p.ranks; r++)
        ops += plan->program.rank[r].steps;
    sl_time *duration, *transfer, *latency;
    size_t messages = (size_t)plan->program.messages;
    assert_ok(sl_alloc(&duration, (size_t)ops, sizeof *duration));
    assert_ok(sl_alloc(&transfer, messages, sizeof *transfer));
    assert_ok(sl_alloc(&latency, messages, sizeof *latency));
    draw_durations(j, noise, h, &p, plan, length, replica, iteration, duration);
    draw_messages(j, noise, &p, plan, length, replica, iteration, transfer, latency);
    if (p.communication == SL_DECOUPLED && !has_pairs(plan))
        job_replay(&p, &plan->program, duration, transfer, latency, &t);
    else
        replay_by_means(&p, plan, duration, transfer, latency, &t);
    *took = sl_timeline_makespan(&t);
    obscure(j, noise, layout, replica, &t, out);
    out->given.work += tokens;
    if (!j->unmeasured && !happens(&noise->seed, j->gaps)) {
        double *op_work, *message_work;
        assert_ok(sl_alloc(&op_work, (size_t)t.spans + 1, sizeof *op_work));
        assert_ok(sl_alloc(&message_work, messages + 1, sizeof *message_work));
        for (int i = 0; i < t.spans; i++)
            op_work[i] =
                1000 * op_length(j, length, replica, t.span[i].op.stage, t.span[i].op.microbatch, iteration);
        for (int m = 0; m < t.transfers; m++)
            message_work[m] = j->config.job.message *
                              op_length(j, length, replica, -1, t.transfer[m].op.microbatch, iteration);
        assert_ok(sl_problem_copy(j->problem[replica], &expected));
        expected.microbatches = p.microbatches;
        expected.communication = p.communication;
        t.measured = 1;
        assert_ok(sl_measured_make(&expected, &t, j->tells_ops ? op_work : NULL,
                                   j->tells_ops ? message_work : NULL, &out->measured[replica]));
        for (int stage = 0; stage < p.stages && out->seen_sums && j->config.job.replicas > 1; stage++) {
            double noisy = (double)p.reduce[stage] * (1 + j->sums * unit(&noise->seed));
            out->measured[replica]->problem.reduce[stage] = (sl_time)noisy;
            out->measured[replica]->summed[stage] = 1;
        }
        sl_problem_free(&expected);
        sl_free(op_work);
        sl_free(message_work);
    } else {
        memset(out->seen_ops + replica * p.ranks, 0, (size_t)p.ranks * sizeof *out->seen_ops);
        out->seen_links[replica] = 0;
    }
    sl_timeline_free(&t);
    sl_problem_free(&p);
    sl_free(duration);
    sl_free(transfer);
    sl_free(latency);
}

void job_measure(const job *j, job_noise *noise, const sl_job_layout *layout, const sl_plan *const *plan,
                 int iteration, sl_time now, job_iteration *out) {
    memset(out, 0, sizeof *out);
    hiccup h = draw_hiccup(j, noise, iteration);
    sl_time longest = 0;
    out->slow_rank = h.rank;
    out->slow_replica = h.replica;
    out->slow = h.factor;
    set_clocks(j, noise, iteration);
    out->seen_sums = !happens(&noise->seed, j->gaps / 2);
    for (int r = 0; r < j->config.job.replicas; r++) {
        sl_time took;
        measure_replica(j, noise, &h, layout, plan[r], r, iteration, &took, out);
        longest = took > longest ? took : longest;
    }
    longest = (sl_time)((double)(longest + j->other) * h.evaluation);
    out->given.iteration = iteration;
    out->given.time = longest;
    out->given.now = now + longest;
    out->given.clock_error = j->clock_error;
    out->given.replica = out->measured;
    out->absent = happens(&noise->seed, j->gaps / 3);
    if (happens(&noise->seed, j->gaps / 2))
        out->given.time = 0;
    if (!j->tells_iteration)
        out->given.work = 0;
}

void job_iteration_free(const job *j, job_iteration *out) {
    for (int r = 0; r < j->config.job.replicas; r++)
        sl_measured_drop(out->measured[r]);
}

/* ---- the network ---- */

int job_network(const job *j, const sl_job_layout *layout, job_noise *noise, int iteration,
                sl_network_measure *measure) {
    const sl_job *shape = &j->config.job;
    int count = 0, all = sl_job_processes(shape);
    for (int at = 0; at < all; at++)
        for (int to = 0; to < all; to++) {
            int replica = sl_job_replica(shape, at), same = replica == sl_job_replica(shape, to);
            int a = sl_job_rank(shape, at), b = sl_job_rank(shape, to);
            const sl_problem *p = j->problem[replica];
            double latency, pace;
            if (at % shape->tensor != to % shape->tensor || (same ? a == b : a != b))
                continue;
            if (same && abs(a - b) != 1 && !(p->placement == SL_LOOP && abs(a - b) == p->ranks - 1))
                continue;
            job_link_excess(j, layout->process[at], layout->process[to], iteration, -1, &latency, &pace);
            const sl_link *link = &p->link[a * p->ranks + b];
            latency += same ? (double)link->latency : 2e4;
            pace += same ? (double)link->transfer / shape->message : 0.02;
            measure[count++] = (sl_network_measure){.from = layout->process[at],
                                                    .to = layout->process[to],
                                                    .latency = latency * (1 + 0.02 * unit(&noise->seed)),
                                                    .pace = pace * (1 + 0.02 * unit(&noise->seed))};
        }
    return count;
}
