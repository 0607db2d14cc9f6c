/* Work that varies is no fault: microbatches of log-normal lengths, where an op takes a + b * tokens (+ c *
 * tokens^2 of attention). Told the work of every op, or only that of iterations, the orchestrator raises no
 * false alarm; with the work of ops it still finds slow devices and links, and tells them from more work, of
 * all stages or of one. */
#include "drive.h"

#include "adapt/orchestrator/unknown.h"

/* Ten times as many as faults and changes of work of each kind. */
#ifndef SERIES
#define SERIES 60
#endif

static double between(uint64_t *seed, double least, double most) {
    return least + (most - least) * sl_random_unit(sl_random_mix(*seed += SL_RANDOM_STEP));
}

/* `wire`: links take up to so many times as long as an op. */
static void draw_work(uint64_t seed, double wire, job *j) {
    uint64_t state = sl_random_mix(seed + 5);
    int ranks = 2 + draw(&state, 4), replicas = draw(&state, 3) ? 1 : 2;
    sl_time op = (sl_time)(between(&state, 3, 20) * (double)SL_MS);
    job_plain(replicas, ranks, 4 + draw(&state, 9), op, (sl_time)(wire * (double)op), j);
    j->seed = seed;
    j->sigma = between(&state, 0.2, 1);
    j->fixed = between(&state, 0, 0.4);
    j->square = draw(&state, 2) ? 0 : between(&state, 0, 0.05);
    j->jitter = between(&state, 0, 0.03);
    j->late = draw(&state, 2) ? 0 : (sl_time)between(&state, 0, 2e5);
    j->clock_error = draw(&state, 2) ? 0 : SL_MS / 10;
    j->tells_ops = 1;
    j->tells_iteration = draw(&state, 2);
    j->config.can = (unsigned)draw(&state, 8);
}

static void report(const char *what, const tally *sum) {
    printf("%s: %d jobs, %d events, %d faults, %d named after %.1f iterations, %d times nobody can tell\n",
           what, sum->jobs, sum->events, sum->faults, sum->named,
           sum->named ? (double)sum->waited / sum->named : 0, sum->cannot_tell);
}

static void assert_kept(const tally *sum) {
    for (int p = 0; p < PROMISES; p++)
        if (sum->broken[p])
            fail_msg("%s: broken %d times", promise_words[p], sum->broken[p]);
}

static void lengths_that_vary_raise_no_alarm_when_the_work_of_ops_is_known(void **state) {
    (void)state;
    uint64_t seed = seed_of(100);
    drive_options options = drive_defaults();
    tally sum = {0};
    for (int i = 0; i < SERIES; i++) {
        job j;
        draw_work(seed + (uint64_t)i, i % 3 * 0.5, &j);
        drive(&j, &options, &sum, NULL);
        job_free(&j);
    }
    report("work of ops", &sum);
    assert_kept(&sum);
}

static void nor_when_only_iterations_and_their_work_are(void **state) {
    (void)state;
    uint64_t seed = seed_of(200);
    drive_options options = drive_defaults();
    tally sum = {0};
    for (int i = 0; i < SERIES; i++) {
        job j;
        draw_work(seed + (uint64_t)i, i % 3 * 0.5, &j);
        j.unmeasured = j.tells_iteration = 1;
        drive(&j, &options, &sum, NULL);
        job_free(&j);
    }
    report("work of iterations", &sum);
    assert_kept(&sum);
}

/* Of a program whose pipeline nobody knows there is nothing else. */
static void nor_in_a_program_whose_pipeline_is_not_known(void **state) {
    (void)state;
    uint64_t seed = seed_of(300);
    int alarms = 0;
    for (int i = 0; i < SERIES / 5; i++) {
        job j;
        job_noise noise;
        sl_job_layout home;
        sl_orchestrator *o;
        sl_time now = 0;
        draw_work(seed + (uint64_t)i, 0, &j);
        j.unmeasured = j.tells_iteration = 1;
        int split[] = {j.pipeline[0].microbatches, j.pipeline[0].microbatches};
        assert_ok(sl_job_layout_make(&j.config.job, split, &home));
        sl_orchestrator_config program = sl_orchestrator_defaults();
        int ranks = sl_job_processes(&j.config.job);
        program.unknown = &(sl_unknown_job){.ranks = ranks,
                                            .nodes = ranks,
                                            .replicas = j.config.job.replicas,
                                            .microbatches = split[0],
                                            .lightest = -1};
        program.can = 28;
        assert_ok(sl_orchestrator_open(&program, &o));
        job_noise_begin(&j, &noise);
        for (int iteration = 0; iteration < 200; iteration++) {
            job_iteration m;
            sl_event e;
            sl_orchestrator_action action;
            job_measure(&j, &noise, &home, j.first, iteration, now, &m);
            m.given.replica = NULL;
            now = m.given.now;
            assert_ok(sl_orchestrator_observe(o, &m.given));
            for (; sl_orchestrator_event(o, &e); alarms++)
                printf("SL_SEED=%llu iteration %d: %s '%s'\n", (unsigned long long)j.seed, iteration,
                       sl_event_names[e.kind].name, e.seen);
            alarms += sl_orchestrator_next(o, &action);
            job_iteration_free(&j, &m);
        }
        sl_orchestrator_close(o);
        sl_job_layout_free(&home);
        job_free(&j);
    }
    assert_int_equal(alarms, 0);
}

/* One fault of this size; it counts where it costs a twentieth of the iteration. */
static void find_faults(uint64_t seed, job_fault_kind kind, double size) {
    drive_options options = {.cost = 0.05, .lasts = 20, .within = 8};
    tally sum = {0};
    char what[64];
    for (int i = 0; i < SERIES / 10; i++) {
        job j;
        /* links that take as long as all ops of a microbatch and more hold the pipeline up */
        draw_work(seed + (uint64_t)i, kind == JOB_LINK ? 2 + i % 3 : 0.2, &j);
        uint64_t place = sl_random_mix(seed + (uint64_t)i + 9);
        int rank = draw(&place, j.config.job.ranks - 1), replica = draw(&place, j.config.job.replicas);
        double pace = (size - 1) * (double)j.pipeline[0].link[0].transfer / j.config.job.message;
        j.faults = 1;
        j.fault[0] =
            (job_fault){.kind = kind, .a = job_home(&j, replica, rank), .slowdown = 1, .until = j.iterations};
        j.fault[0].first = 20 + draw(&place, 100);
        j.fault[0].b = job_home(&j, replica, rank + 1);
        if (kind == JOB_DEVICE)
            j.fault[0].slowdown = size;
        else
            j.fault[0].pace[0] = j.fault[0].pace[1] = pace;
        drive(&j, &options, &sum, NULL);
        job_free(&j);
    }
    snprintf(what, sizeof what, "%s of %.2f times", kind == JOB_LINK ? "links" : "devices", size);
    report(what, &sum);
    assert_true(sum.faults > SERIES / 40);
    assert_int_equal(sum.cannot_tell, 0);
    assert_kept(&sum);
}

#define FINDS(name, seed, kind, size)                                                                        \
    static void name(void **state) {                                                                         \
        (void)state;                                                                                         \
        find_faults(seed_of(seed), kind, size);                                                              \
    }
FINDS(a_device_of_1_15_times_is_found_in_8_iterations, 400, JOB_DEVICE, 1.15)
FINDS(a_device_of_1_3_times_is_found_in_8_iterations, 500, JOB_DEVICE, 1.3)
FINDS(a_device_of_2_times_is_found_in_8_iterations, 600, JOB_DEVICE, 2)
FINDS(a_link_of_1_15_times_is_found_in_8_iterations, 700, JOB_LINK, 1.15)
FINDS(a_link_of_1_3_times_is_found_in_8_iterations, 800, JOB_LINK, 1.3)
FINDS(a_link_of_2_times_is_found_in_8_iterations, 900, JOB_LINK, 2)

/* Half as much work again from iteration 40 on, of all stages or of one, which is its rank's: nothing is
 * named as slow, and some event speaks of work (and of that rank). */
static void tell_work(uint64_t seed, int one_stage) {
    drive_options options = drive_defaults();
    tally sum = {0};
    int silent = 0;
    for (int i = 0; i < SERIES / 10; i++) {
        job j;
        char *texts, of[16] = "work";
        int spoken = 0;
        draw_work(seed + (uint64_t)i, 0.2, &j);
        j.sigma = between(&(uint64_t){seed + (uint64_t)i}, 0.1, 0.4);
        int stage = one_stage ? i % j.config.job.ranks : -1;
        j.iterations = 100;
        j.loads = 1;
        j.load[0] = (job_load){.first = 40, .until = 100, .replica = -1, .stage = stage, .factor = 1.5};
        drive(&j, &options, &sum, &texts);
        if (one_stage)
            snprintf(of, sizeof of, "\"rank\":%d,", stage);
        for (char *line = strtok(texts, "\n"); line; line = strtok(NULL, "\n"))
            spoken |= line[0] == '{' && strstr(line, "work") && strstr(line, of);
        if (!spoken && silent++ < 10)
            printf("SL_SEED=%llu: no event speaks of work\n", (unsigned long long)j.seed);
        free(texts);
        job_free(&j);
    }
    report(one_stage ? "more work of a stage" : "more work", &sum);
    assert_kept(&sum);
    assert_int_equal(silent, 0);
}

static void more_work_is_told_as_work(void **state) {
    (void)state;
    tell_work(seed_of(1000), 0);
}
static void more_work_of_one_stage_is_told_as_that_stages(void **state) {
    (void)state;
    tell_work(seed_of(1100), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_that_vary_raise_no_alarm_when_the_work_of_ops_is_known),
        cmocka_unit_test(nor_when_only_iterations_and_their_work_are),
        cmocka_unit_test(nor_in_a_program_whose_pipeline_is_not_known),
        cmocka_unit_test(a_device_of_1_15_times_is_found_in_8_iterations),
        cmocka_unit_test(a_device_of_1_3_times_is_found_in_8_iterations),
        cmocka_unit_test(a_device_of_2_times_is_found_in_8_iterations),
        cmocka_unit_test(a_link_of_1_15_times_is_found_in_8_iterations),
        cmocka_unit_test(a_link_of_1_3_times_is_found_in_8_iterations),
        cmocka_unit_test(a_link_of_2_times_is_found_in_8_iterations),
        cmocka_unit_test(more_work_is_told_as_work),
        cmocka_unit_test(more_work_of_one_stage_is_told_as_that_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
