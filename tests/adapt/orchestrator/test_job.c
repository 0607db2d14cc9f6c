/* The simulated job itself (job.h): what it takes and what is measured of it is as hand calculation says,
 * before anything is judged by it. */
#include "job.h"

#include "base/memory.h"
#include "plan/timing/replay.h"

#include <math.h>

static const sl_time OP = 10 * SL_MS;

static sl_time time_of(const job *j, int iteration, int except) {
    sl_job_layout home = {0};
    int process[JOB_PROCESSES], split[JOB_REPLICAS];
    for (int p = 0; p < JOB_PROCESSES; p++)
        process[p] = p;
    for (int r = 0; r < JOB_REPLICAS; r++)
        split[r] = j->pipeline[0].microbatches;
    home.process = process;
    home.split = split;
    return job_time(j, &home, j->first, iteration, except);
}

/* 1F1B of 4 ranks and 12 microbatches with F = 10 and B = 20 ms: (12 + 3) * 30 ms. */
static void a_healthy_iteration_takes_what_1f1b_takes(void **state) {
    (void)state;
    job j;
    job_plain(1, 4, 12, OP, 0, &j);
    assert_int_equal(time_of(&j, 0, -1), 450 * SL_MS);
    job_free(&j);
}

/* The last rank runs F and B of a microbatch in turn: each of the 12 takes 30 ms more when it is twice as
 * slow. */
static void a_slow_device_lengthens_the_iteration_by_its_ops(void **state) {
    (void)state;
    job j;
    job_plain(1, 4, 12, OP, 0, &j);
    j.faults = 1;
    j.fault[0] =
        (job_fault){.kind = JOB_DEVICE, .a = job_home(&j, 0, 3), .slowdown = 2, .first = 5, .until = 7};
    assert_int_equal(time_of(&j, 4, -1), 450 * SL_MS);
    assert_int_equal(time_of(&j, 5, -1), 450 * SL_MS + 12 * 30 * SL_MS);
    assert_int_equal(time_of(&j, 6, 0), 450 * SL_MS);
    assert_int_equal(time_of(&j, 7, -1), 450 * SL_MS);
    job_free(&j);
}

/* With one microbatch everything is in a row: F down, B up. A latency counts once each way, 1 MB at 5 ns a
 * byte is 5 ms. */
static void a_slow_link_lengthens_what_passes_it(void **state) {
    (void)state;
    job j;
    job_plain(1, 3, 1, OP, SL_MS, &j);
    sl_time healthy = 3 * 30 * SL_MS + 4 * SL_MS;
    assert_int_equal(time_of(&j, 0, -1), healthy);
    j.faults = 1;
    j.fault[0] = (job_fault){
        .kind = JOB_LINK, .a = 1, .b = 2, .slowdown = 1, .latency = {7e6, 0}, .pace = {0, 5}, .until = 9};
    assert_int_equal(time_of(&j, 0, -1), healthy + 12 * SL_MS);
    j.fault[0].pace[1] = 0;
    assert_int_equal(time_of(&j, 0, -1), healthy + 7 * SL_MS);
    /* a card: both links of the rank in the middle, what it sends only */
    j.fault[0] = (job_fault){.kind = JOB_CARD, .a = 1, .slowdown = 1, .latency = {7e6, 0}, .until = 9};
    assert_int_equal(time_of(&j, 0, -1), healthy + 14 * SL_MS);
    job_free(&j);
}

/* Ring of 4: 2 * 3 steps of a quarter of 100 MB; others: twice a quarter to the slowest. */
static void a_slow_pair_of_replicas_lengthens_the_sum(void **state) {
    (void)state;
    job j;
    job_plain(4, 2, 2, OP, 0, &j);
    sl_time healthy = time_of(&j, 0, -1);
    j.faults = 1;
    j.fault[0] = (job_fault){.kind = JOB_LINK,
                             .a = job_home(&j, 1, 0),
                             .b = job_home(&j, 2, 0),
                             .slowdown = 1,
                             .latency = {2e6, 2e6},
                             .pace = {0.1, 0.1},
                             .until = 9};
    assert_int_equal(time_of(&j, 0, -1), healthy + 6 * (2 * SL_MS + 2500 * (SL_MS / 1000)));
    j.config.job.ring = 0;
    assert_int_equal(time_of(&j, 0, -1), healthy + 2 * (2 * SL_MS + 2500 * (SL_MS / 1000)));
    job_free(&j);
}

/* Ops have a tenth that does not depend on length: 0.1 + 0.9 * 1.5 = 1.45. */
static void longer_microbatches_lengthen_every_op(void **state) {
    (void)state;
    job j;
    job_plain(1, 4, 12, OP, 0, &j);
    j.loads = 1;
    j.load[0] = (job_load){.first = 3, .until = 4, .replica = -1, .stage = -1, .factor = 1.5};
    assert_int_equal(time_of(&j, 3, -1), 450 * SL_MS / 100 * 145);
    assert_int_equal(time_of(&j, 4, -1), 450 * SL_MS);
    job_free(&j);
}

/* With equal durations the replay of an op's own time is the timing model's. */
static void the_replay_with_own_durations_is_the_timing_models(void **state) {
    (void)state;
    uint64_t seed = seed_of(7);
    int compared = 0;
    for (int round = 0; round < 200; round++) {
        job j;
        job_draw(seed + (uint64_t)round, &j);
        sl_problem *p = &j.pipeline[0];
        const sl_program *program = &j.plan[0].program;
        int ops = 0, pairs = 0;
        for (int r = 0; r < p->ranks; r++)
            ops += program->rank[r].steps;
        sl_time *time = calloc((size_t)ops + 2 * (size_t)program->messages + 1, sizeof *time);
        sl_time *transfer = time + ops, *latency = transfer + program->messages;
        for (int r = 0, i = 0; r < p->ranks; r++)
            for (int s = 0; s < program->rank[r].steps; s++, i++) {
                const sl_op *op = &program->rank[r].step[s].op;
                time[i] = p->time[op->kind][op->stage];
                pairs |= op->paired;
            }
        for (int m = 0; m < program->messages; m++) {
            const sl_link *link = &p->link[program->message[m].from * p->ranks + program->message[m].to];
            transfer[m] = link->transfer;
            latency[m] = link->latency;
        }
        if (!pairs) {
            sl_timeline own, theirs;
            job_replay(p, program, time, transfer, latency, &own);
            assert_ok(sl_replay(p, program, SL_DECOUPLED, 1, &theirs));
            assert_int_equal(own.spans, theirs.spans);
            for (int i = 0; i < own.spans; i++) {
                assert_int_equal(own.span[i].start, theirs.span[i].start);
                assert_int_equal(own.span[i].end, theirs.span[i].end);
            }
            for (int m = 0; m < own.transfers; m++)
                assert_int_equal(own.transfer[m].arrive, theirs.transfer[m].arrive);
            assert_int_equal(sl_timeline_makespan(&own), sl_timeline_makespan(&theirs));
            sl_timeline_free(&own);
            sl_timeline_free(&theirs);
            compared++;
        }
        free(time);
        job_free(&j);
    }
    assert_true(compared > 150);
}

/* The draws hold what the tests of all jobs count on: enough of everything, first plans within memory. */
static void drawn_jobs_hold_enough_of_everything(void **state) {
    (void)state;
    uint64_t seed = seed_of(8);
    int regimes[3] = {0}, placements[SL_PLACEMENTS] = {0}, kinds[4] = {0}, healthy = 0, replicas = 0,
        limits = 0, costly = 0;
    int families = 0;
    for (int round = 0; round < 300; round++) {
        job j;
        job_draw(seed + (uint64_t)round, &j);
        regimes[j.pipeline[0].communication]++;
        placements[j.pipeline[0].placement]++;
        healthy += j.faults == 0;
        replicas += j.config.job.replicas > 1;
        limits += j.pipeline[0].limit != NULL;
        families += strcmp(j.plan[0].schedule, "1f1b") != 0;
        for (int r = 0; r < j.config.job.replicas; r++) {
            sl_plan plan;
            assert_ok(sl_plan_of_order(j.problem[r], &j.first[r]->order, "first", &plan));
            assert_true(plan.memory_ok);
            sl_plan_free(&plan);
        }
        for (int f = 0; f < j.faults; f++) {
            const job_fault *fault = &j.fault[f];
            kinds[fault->kind]++;
            assert_true(fault->first < fault->until && fault->until <= j.iterations);
            sl_time with = time_of(&j, fault->first, -1), without = time_of(&j, fault->first, f);
            assert_true(with >= without);
            costly += fault->until - fault->first >= 20 && (double)with >= 1.1 * (double)without;
        }
        job_free(&j);
    }
    for (int i = 0; i < 3; i++)
        assert_true(regimes[i] > 50 && placements[i] > 40);
    for (int i = 0; i < 4; i++)
        assert_true(kinds[i] > 10);
    assert_true(healthy > 30 && replicas > 100 && limits > 50 && families > 100 && costly > 100);
    print_message("%d healthy jobs, %d costly faults\n", healthy, costly);
}

/* What is measured is what is true, within the noise that was asked for: clocks shift one-way times of a pair
 * by the error at most, ops take up to the jitter longer, and known work tells longer microbatches. */
static void measurements_are_the_truth_within_the_stated_noise(void **state) {
    (void)state;
    job j;
    job_iteration out;
    job_noise noise;
    sl_job_layout home;
    int split[] = {12};
    job_plain(1, 4, 12, OP, 2 * SL_MS, &j);
    assert_ok(sl_job_layout_make(&j.config.job, split, &home));
    j.jitter = 0.09;
    j.clock_error = SL_MS;
    j.sigma = 0.5;
    j.tells_ops = j.tells_iteration = 1;
    job_noise_begin(&j, &noise);
    for (int i = 0; i < 20; i++) {
        double share = 0;
        job_measure(&j, &noise, &home, j.first, i, 1000, &out);
        const sl_measured *m = out.measured[0];
        assert_non_null(m);
        assert_int_equal(out.given.now, 1000 + out.given.time);
        for (int stage = 0; stage < 4; stage++) {
            const sl_level *level = &m->op[SL_B * 4 + stage];
            assert_int_equal(level->count, 12);
            assert_int_equal(level->worked, 12);
            /* 20 ms * (0.1 + 0.9 * tokens / 1000), of those that count, and up to 9 % more */
            double plain = 20e6 * (0.1 + 0.9 * level->work / 1000);
            assert_true(level->time > plain * 0.999 && level->time < plain * 1.091);
            share += level->work / 4000;
        }
        for (int r = 0; r < 3; r++) {
            double one_way = m->link[r * 4 + r + 1].time - 2e6 * m->link[r * 4 + r + 1].work / 1e6;
            assert_true(fabs(one_way) < 1e6 + 1);
        }
        assert_true(share > 0.3 && share < 3);
        job_iteration_free(&j, &out);
    }
    sl_job_layout_free(&home);
    job_free(&j);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_healthy_iteration_takes_what_1f1b_takes),
        cmocka_unit_test(a_slow_device_lengthens_the_iteration_by_its_ops),
        cmocka_unit_test(a_slow_link_lengthens_what_passes_it),
        cmocka_unit_test(a_slow_pair_of_replicas_lengthens_the_sum),
        cmocka_unit_test(longer_microbatches_lengthen_every_op),
        cmocka_unit_test(the_replay_with_own_durations_is_the_timing_models),
        cmocka_unit_test(drawn_jobs_hold_enough_of_everything),
        cmocka_unit_test(measurements_are_the_truth_within_the_stated_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
