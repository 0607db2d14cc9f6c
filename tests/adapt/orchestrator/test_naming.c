/* Who is named, and when: the whole orchestrator on measurements made by hand. What is healthy is never
 * named. Campaigns with engines are in tests/run/train/test_localise.c and bench/localisation. */
#include "check.h"

#include "base/memory.h"
#include "base/random.h"
#include "told.h"

enum { REPLICAS = 2, RANKS = 4, MICROBATCHES = 6, HOLD = 5 };

/* A job at a moment: ops in ms by replica and rank, messages in ms by replica and link. */
typedef struct job {
    double op[REPLICAS][RANKS], message[REPLICAS][RANKS][RANKS];
    double wait[REPLICAS][RANKS]; /* before each op, for its input */
    double reduce[RANKS], time;   /* of a stage; of an iteration */
    double clock_error;
    int blind; /* nothing is measured but times of iterations */
    int iteration, swaps, onsets;
    sl_time now;
    uint64_t random;
    sl_problem problem[REPLICAS];
    sl_plan first[REPLICAS];
    sl_orchestrator *orchestrator;
    told last; /* that was not nothing */
    int news;  /* how many */
} job;

static void open_job(job *j, unsigned can) {
    *j = (job){.reduce = {2, 2, 2, 2}, .time = 200, .random = 99};
    const sl_problem *problem[REPLICAS];
    const sl_plan *first[REPLICAS];
    for (int d = 0; d < REPLICAS; d++) {
        sl_problem *p = &j->problem[d];
        assert_ok(sl_problem_make(RANKS, RANKS, MICROBATCHES + d, p)); /* the second replica has more to do */
        for (int r = 0; r < RANKS; r++) {
            j->op[d][r] = 10;
            p->reduce[r] = 2 * SL_MS;
            for (int kind = 0; kind < SL_OP_KINDS; kind++)
                p->time[kind][r] = (kind == SL_B ? 20 : 10) * SL_MS;
            for (int o = 0; o < RANKS; o++) {
                j->message[d][r][o] = 0.5;
                p->link[r * RANKS + o].latency = SL_MS / 2;
            }
        }
        assert_ok(sl_plan_make(p, "1f1b", &j->first[d]));
        problem[d] = p;
        first[d] = &j->first[d];
    }
    sl_orchestrator_config config = sl_orchestrator_defaults();
    config.job.replicas = REPLICAS;
    config.job.ranks = RANKS;
    config.problem = problem;
    config.first = first;
    config.can = can;
    config.hold = HOLD;
    assert_ok(sl_orchestrator_open(&config, &j->orchestrator));
}

static void close_job(job *j) {
    sl_orchestrator_close(j->orchestrator);
    for (int d = 0; d < REPLICAS; d++) {
        sl_plan_free(&j->first[d]);
        sl_problem_free(&j->problem[d]);
    }
}

static sl_time noisy(job *j, double ms) {
    return (sl_time)(ms * (0.99 + 0.02 * sl_random_unit(sl_random_mix(j->random += SL_RANDOM_STEP))) * 1e6);
}

static sl_measured *measure(job *j, int d) {
    sl_measured *measured;
    sl_timeline t;
    int microbatches = MICROBATCHES + d, span = 0, transfer = 0;
    assert_ok(sl_timeline_make(RANKS, 2 * RANKS * microbatches, 2 * (RANKS - 1) * microbatches, &t));
    for (int r = 0; r < RANKS; r++) {
        sl_time now = 0;
        for (int kind = SL_F; kind <= SL_B; kind += SL_B)
            for (int m = 0; m < microbatches; m++) {
                sl_op op = {.stage = r, .microbatch = m, .kind = kind};
                now += noisy(j, j->wait[d][r]);
                sl_time end = now + noisy(j, j->op[d][r] * (kind == SL_B ? 2 : 1));
                t.span[span++] = (sl_span){.rank = r, .op = op, .start = now, .end = end};
                now = end;
                int to = kind == SL_F ? r + 1 : r - 1;
                if (to >= 0 && to < RANKS)
                    t.transfer[transfer++] = (sl_transfer){.from = r,
                                                           .to = to,
                                                           .op = op,
                                                           .start = now,
                                                           .end = now,
                                                           .arrive = now + noisy(j, j->message[d][r][to])};
            }
    }
    assert_int_equal(span, t.spans);
    assert_int_equal(transfer, t.transfers);
    assert_ok(sl_measured_make(&j->problem[d], &t, NULL, NULL, &measured));
    sl_timeline_free(&t);
    return measured;
}

/* Everything that it asks for is done, and costs 1 ms. */
static void answer(job *j) {
    sl_orchestrator_action action;
    while (sl_orchestrator_next(j->orchestrator, &action)) {
        j->swaps += action.what == SL_DO_PLAN;
        assert_ok(
            sl_orchestrator_carried_out(j->orchestrator, action.id, j->now += SL_MS, SL_OUTCOME_DONE, SL_MS));
    }
}

static sl_status iterate(job *j) {
    sl_measured *measured[REPLICAS] = {NULL};
    sl_time sum[RANKS], time = noisy(j, j->time);
    for (int r = 0; r < RANKS; r++)
        sum[r] = noisy(j, j->reduce[r]);
    for (int d = 0; d < REPLICAS && !j->blind; d++) {
        measured[d] = measure(j, d);
        memcpy(measured[d]->problem.reduce, sum, sizeof sum);
        memset(measured[d]->summed, 1, RANKS);
    }
    j->now += time;
    sl_status status = sl_orchestrator_observe(
        j->orchestrator, &(sl_orchestrator_iteration){.iteration = j->iteration++,
                                                      .now = j->now,
                                                      .time = time,
                                                      .clock_error = (sl_time)(j->clock_error * 1e6),
                                                      .replica = measured});
    for (int d = 0; d < REPLICAS; d++)
        sl_measured_drop(measured[d]);
    return status;
}

static void go(job *j, int iterations) {
    for (int i = 0; i < iterations; i++) {
        told now = {0};
        sl_event event;
        assert_ok(iterate(j));
        answer(j);
        while (sl_orchestrator_event(j->orchestrator, &event)) {
            told_add(&now, &event, REPLICAS);
            j->onsets += event.kind == SL_EVENT_ONSET;
        }
        if (now.count) {
            j->last = now;
            j->news++;
        }
    }
}

static const told_name *only(const job *j, sl_event_kind kind, int replica) {
    if (j->news == 0 || j->last.kind != kind || j->last.count != 1 || j->last.name[0].replica != replica)
        fail_msg("%d news, the last '%s' with %d names: %s (replica %d): %s", j->news,
                 j->news ? sl_event_names[j->last.kind].name : "", j->last.count, j->last.name[0].what,
                 j->last.name[0].replica, j->last.name[0].why);
    return &j->last.name[0];
}

static void assert_unknown(const job *j, const char *part) {
    assert_true(j->news > 0);
    assert_int_equal(j->last.count, 1);
    assert_int_equal(j->last.name[0].component, SL_COMPONENT_UNKNOWN);
    assert_says(j->last.name[0].why, part);
}

static void a_slow_device_is_suspected_and_then_the_verdict(void **state) {
    (void)state;
    job j;
    open_job(&j, 0);
    go(&j, 30);
    assert_int_equal(j.news, 0);
    j.op[1][2] = 15;
    j.time = 260;
    go(&j, 7);
    const told_name *s = only(&j, SL_EVENT_SUSPECT, 1);
    assert_int_equal(s->component, SL_COMPONENT_DEVICE);
    assert_int_equal(s->rank, 2);
    assert_near(s->times, 1.5, 0.03);
    assert_int_equal(j.last.first, 30);
    assert_near(j.last.before, 200, 3);
    assert_near(j.last.after, 260, 4);
    go(&j, 10);
    s = only(&j, SL_EVENT_VERDICT, 1);
    assert_int_equal(s->rank, 2);
    assert_int_equal(j.news, 2);
    assert_int_equal(j.last.iteration, 37); /* after 8 slow ones */
    j.op[1][2] = 10;
    j.time = 200;
    go(&j, 30);
    assert_int_equal(j.news, 2);
    j.op[0][0] = 20; /* another one, after the first is over */
    j.time = 300;
    go(&j, 12);
    assert_int_equal(j.news, 4);
    assert_int_equal(only(&j, SL_EVENT_VERDICT, 0)->rank, 0);
    close_job(&j);
}

static void a_slow_link_is_named_with_its_direction(void **state) {
    (void)state;
    for (int both = 0; both < 2; both++) {
        job j;
        open_job(&j, 0);
        go(&j, 20);
        j.message[0][2][1] = 9;
        if (both)
            j.message[0][1][2] = 9;
        j.time = 240;
        go(&j, 12);
        const told_name *s = only(&j, SL_EVENT_VERDICT, 0);
        assert_int_equal(s->component, SL_COMPONENT_LINK);
        assert_int_equal(s->both, both);
        assert_int_equal(s->from, both ? 1 : 2);
        assert_int_equal(s->to, both ? 2 : 1);
        close_job(&j);
    }
}

static void two_faults_are_both_named(void **state) {
    (void)state;
    job j;
    open_job(&j, 0);
    go(&j, 20);
    j.message[0][2][1] = 9;
    j.op[1][3] = 14;
    j.time = 240;
    go(&j, 12);
    assert_int_equal(j.last.count, 2);
    assert_int_equal(j.last.name[0].component, SL_COMPONENT_DEVICE);
    assert_int_equal(j.last.name[0].replica, 1);
    assert_int_equal(j.last.name[0].rank, 3);
    assert_int_equal(j.last.name[1].component, SL_COMPONENT_LINK);
    assert_int_equal(j.last.name[1].replica, 0);
    assert_int_equal(j.last.name[1].from, 2);
    close_job(&j);
}

static void what_comes_later_is_told_as_well(void **state) {
    (void)state;
    job j;
    open_job(&j, 0);
    go(&j, 20);
    j.op[0][1] = 14;
    j.time = 250;
    go(&j, 20);
    assert_int_equal(j.news, 2);
    j.op[1][3] = 22;
    j.time = 350;
    go(&j, 20);
    assert_int_equal(j.news, 4);
    assert_int_equal(j.last.count, 2);
    close_job(&j);
}

static void an_adaptation_that_hides_the_trouble_does_not_end_it(void **state) {
    (void)state;
    job j;
    open_job(&j, 1u << SL_STRATEGY_SCHEDULE);
    go(&j, 20);
    j.message[1][0][1] = j.message[1][1][0] = 20;
    j.time = 300;
    go(&j, 2);
    assert_int_equal(only(&j, SL_EVENT_SUSPECT, 1)->component, SL_COMPONENT_LINK);
    assert_int_equal(j.last.first, 20);
    assert_int_equal(j.swaps, 0);
    while (!j.swaps && j.iteration < 40)
        go(&j, 1);
    assert_true(sl_orchestrator_adapted(j.orchestrator, 1));
    j.time = 205; /* the schedule absorbs it */
    go(&j, 30);
    assert_int_equal(j.news, 2);
    const told_name *s = only(&j, SL_EVENT_VERDICT, 1);
    assert_int_equal(s->from, 0);
    assert_int_equal(s->to, 1);
    close_job(&j);
}

static void a_spike_is_no_onset(void **state) {
    (void)state;
    job j;
    open_job(&j, 0);
    go(&j, 20);
    j.message[1][0][1] = 20;
    j.time = 300;
    go(&j, 1);
    j.message[1][0][1] = 0.5;
    j.time = 200;
    go(&j, 20);
    assert_int_equal(j.news, 0);
    assert_int_equal(j.onsets, 0);
    close_job(&j);
}

/* Somebody changes the schedule to one that takes longer. */
static void a_slower_schedule_alone_blames_nobody(void **state) {
    (void)state;
    job j;
    sl_plan slower[REPLICAS];
    const sl_plan *plan[REPLICAS];
    open_job(&j, 0);
    go(&j, 20);
    for (int d = 0; d < REPLICAS; d++) {
        assert_ok(sl_plan_make(&j.problem[d], "gpipe", &slower[d]));
        plan[d] = &slower[d];
    }
    assert_ok(sl_orchestrator_moved(j.orchestrator, sl_orchestrator_layout(j.orchestrator), plan));
    j.time = 260;
    go(&j, 30);
    assert_int_equal(j.news, 0);
    assert_int_equal(j.onsets, 0);
    for (int d = 0; d < REPLICAS; d++)
        sl_plan_free(&slower[d]);
    close_job(&j);
    open_job(&j, 0); /* and without a change, it is said that nothing is to be seen */
    go(&j, 20);
    j.time = 260;
    go(&j, 9);
    assert_unknown(&j, "no op and no message");
    close_job(&j);
}

static void what_explains_too_little_is_not_blamed(void **state) {
    (void)state;
    job j;
    open_job(&j, 0);
    go(&j, 20);
    j.op[0][1] = 11.5; /* 6 x 1.5 and 6 x 3 ms: 27 of 100 */
    j.time = 300;
    go(&j, 9);
    assert_unknown(&j, "of the");
    close_job(&j);
}

static void what_all_have_is_nobodys_fault(void **state) {
    (void)state;
    job j;
    open_job(&j, 0);
    go(&j, 20);
    for (int d = 0; d < REPLICAS; d++)
        for (int r = 0; r < RANKS; r++)
            j.op[d][r] = 13;
    j.time = 260;
    go(&j, 9);
    for (int i = 0; i < j.last.count; i++) {
        assert_int_equal(j.last.name[i].rank, -1);
        assert_int_equal(j.last.name[i].from, -1);
    }
    assert_int_equal(j.onsets, 0);
    assert_int_equal(j.last.count, 1);
    assert_says(j.last.name[0].why, "8 devices");
    close_job(&j);
}

static void both_links_of_a_rank_may_be_its_host(void **state) {
    (void)state;
    job j;
    open_job(&j, 0);
    go(&j, 20);
    j.message[1][0][1] = j.message[1][1][0] = j.message[1][1][2] = j.message[1][2][1] = 15;
    j.time = 260;
    go(&j, 9);
    assert_unknown(&j, "both links of rank 1");
    close_job(&j);
    open_job(&j, 0); /* not when one is far worse: that is two causes */
    go(&j, 20);
    j.message[1][0][1] = 15;
    j.message[1][1][2] = 40;
    j.time = 260;
    go(&j, 9);
    assert_int_equal(j.last.count, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(j.last.name[i].component, SL_COMPONENT_LINK);
        assert_int_equal(j.last.name[i].from, i);
        assert_int_equal(j.last.name[i].to, i + 1);
    }
    close_job(&j);
}

/* 5 ms more in one direction and 5 ms less in the other. */
static void clocks_that_shift_are_no_slow_link(void **state) {
    (void)state;
    job j;
    open_job(&j, 0);
    j.clock_error = 5;
    j.message[0][0][1] = j.message[0][1][0] = 6;
    go(&j, 20);
    j.message[0][0][1] = 11;
    j.message[0][1][0] = 1;
    j.time = 260;
    go(&j, 9);
    assert_unknown(&j, "no op and no message");
    assert_int_equal(j.onsets, 0);
    close_job(&j);
}

/* There and back takes 8.5 ms more, whatever the clocks show. */
static void a_slow_link_is_named_although_clocks_are_uncertain(void **state) {
    (void)state;
    job j;
    open_job(&j, 0);
    j.clock_error = 5;
    go(&j, 20);
    j.message[0][0][1] = 9;
    j.time = 260;
    go(&j, 9);
    assert_int_equal(j.last.count, 1);
    assert_int_equal(j.last.name[0].component, SL_COMPONENT_LINK);
    assert_int_equal(j.last.name[0].from + j.last.name[0].to, 1);
    close_job(&j);
}

static void a_reduction_is_named_when_it_is_what_was_lost(void **state) {
    (void)state;
    job j;
    open_job(&j, 0);
    go(&j, 20);
    for (int r = 0; r < RANKS; r++)
        j.reduce[r] = 60;
    j.time = 258;
    go(&j, 9);
    assert_int_equal(j.last.count, RANKS);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(j.last.name[r].component, SL_COMPONENT_GROUP);
        assert_int_equal(j.last.name[r].stage, r);
    }
    close_job(&j);
}

static void without_healthy_iterations_nothing_can_be_told(void **state) {
    (void)state;
    job j;
    open_job(&j, 0); /* slow from the start: that is how the job is */
    j.op[0][1] = 30;
    j.time = 400;
    go(&j, 30);
    assert_int_equal(j.news, 0);
    assert_int_equal(j.onsets, 0);
    close_job(&j);
    open_job(&j, 0); /* or from its third iteration on: no other one is named */
    go(&j, 2);
    j.op[0][1] = 30;
    j.time = 400;
    go(&j, 30);
    for (int i = 0; i < j.last.count; i++)
        if (j.last.name[i].component != SL_COMPONENT_UNKNOWN)
            assert_int_equal(only(&j, j.last.kind, 0)->rank, 1);
    close_job(&j);
    open_job(&j, 0); /* nothing was ever measured but that iterations became longer */
    j.blind = 1;
    go(&j, 20);
    j.time = 400;
    go(&j, 12);
    for (int i = 0; i < j.last.count; i++)
        assert_int_equal(j.last.name[i].component, SL_COMPONENT_UNKNOWN);
    close_job(&j);
}

/* Stages are as long as they are, and the last ranks wait for their input: a fault is what differs from
 * before. */
static void neither_uneven_stages_nor_waiting_are_faults(void **state) {
    (void)state;
    static const double uneven[RANKS] = {6, 16, 9, 12};
    job j;
    open_job(&j, 0);
    for (int d = 0; d < REPLICAS; d++)
        for (int r = 0; r < RANKS; r++) {
            j.op[d][r] = uneven[r];
            j.wait[d][r] = r;
        }
    go(&j, 30);
    assert_int_equal(j.news, 0);
    j.op[1][0] = 9; /* still the shortest of its replica, and all behind it wait */
    for (int r = 1; r < RANKS; r++)
        j.wait[1][r] = 8 * r;
    j.time = 260;
    go(&j, 12);
    assert_int_equal(only(&j, SL_EVENT_VERDICT, 1)->component, SL_COMPONENT_DEVICE);
    assert_int_equal(j.last.name[0].rank, 0);
    assert_near(j.last.name[0].times, 1.5, 0.03);
    close_job(&j);
}

/* The first iteration of a run is cold. */
static void the_first_iteration_is_no_measure_of_health(void **state) {
    (void)state;
    job j;
    open_job(&j, 0);
    j.op[0][2] = 500;
    j.time = 5000;
    go(&j, 1);
    j.op[0][2] = 10;
    j.time = 200;
    go(&j, 20);
    assert_int_equal(j.news, 0);
    assert_int_equal(j.onsets, 0);
    j.op[0][2] = 15;
    j.time = 260;
    go(&j, 12);
    assert_int_equal(only(&j, SL_EVENT_VERDICT, 0)->rank, 2);
    assert_near(j.last.name[0].times, 1.5, 0.03);
    close_job(&j);
}

static void measurements_of_another_job_are_refused(void **state) {
    (void)state;
    job j;
    sl_problem other;
    sl_measured *measured[REPLICAS] = {NULL};
    open_job(&j, 0);
    go(&j, 7);
    sl_orchestrator_iteration it = {
        .iteration = j.iteration, .now = j.now, .time = 200 * SL_MS, .replica = measured};
    assert_ok(sl_problem_make(3, 3, MICROBATCHES, &other));
    assert_ok(sl_measured_of_problem(&other, &measured[1]));
    assert_fails(sl_orchestrator_observe(j.orchestrator, &it), SL_EINVAL, "3 ranks");
    sl_measured_drop(measured[1]);
    sl_problem_free(&other);
    measured[1] = NULL;
    it.iteration = 3;
    assert_fails(sl_orchestrator_observe(j.orchestrator, &it), SL_EINVAL, "comes after");
    it.iteration = j.iteration;
    it.now = 0;
    assert_fails(sl_orchestrator_observe(j.orchestrator, &it), SL_EINVAL, "comes after");
    go(&j, 20); /* it takes no notice of them */
    assert_int_equal(j.news, 0);
    j.op[0][2] = 15;
    j.time = 260;
    go(&j, 12);
    assert_int_equal(only(&j, SL_EVENT_VERDICT, 0)->rank, 2);
    close_job(&j);
}

/* Through an onset and a verdict. */
static void every_allocation_may_fail(void **state) {
    (void)state;
    int failed = 0;
    for (long n = 0; n < 3000; n++) {
        job j;
        open_job(&j, 0);
        go(&j, 8);
        j.op[1][2] = 15;
        j.message[0][1][2] = 9;
        j.time = 260;
        sl_measured *measured[REPLICAS] = {measure(&j, 0), measure(&j, 1)};
        sl_status status = SL_OK;
        sl_alloc_fail_at(n);
        for (int i = 0; i < 9 && status == SL_OK; i++)
            status = sl_orchestrator_observe(j.orchestrator,
                                             &(sl_orchestrator_iteration){.iteration = j.iteration++,
                                                                          .now = j.now += 260 * SL_MS,
                                                                          .time = 260 * SL_MS,
                                                                          .replica = measured});
        sl_alloc_fail_at(-1);
        for (int d = 0; d < REPLICAS; d++)
            sl_measured_drop(measured[d]);
        close_job(&j);
        if (status == SL_OK)
            break;
        assert_int_equal(status, SL_ENOMEM);
        failed++;
    }
    assert_in_range(failed, 100, 2999);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_device_is_suspected_and_then_the_verdict),
        cmocka_unit_test(a_slow_link_is_named_with_its_direction),
        cmocka_unit_test(two_faults_are_both_named),
        cmocka_unit_test(what_comes_later_is_told_as_well),
        cmocka_unit_test(an_adaptation_that_hides_the_trouble_does_not_end_it),
        cmocka_unit_test(a_spike_is_no_onset),
        cmocka_unit_test(a_slower_schedule_alone_blames_nobody),
        cmocka_unit_test(what_explains_too_little_is_not_blamed),
        cmocka_unit_test(what_all_have_is_nobodys_fault),
        cmocka_unit_test(both_links_of_a_rank_may_be_its_host),
        cmocka_unit_test(clocks_that_shift_are_no_slow_link),
        cmocka_unit_test(a_slow_link_is_named_although_clocks_are_uncertain),
        cmocka_unit_test(a_reduction_is_named_when_it_is_what_was_lost),
        cmocka_unit_test(without_healthy_iterations_nothing_can_be_told),
        cmocka_unit_test(neither_uneven_stages_nor_waiting_are_faults),
        cmocka_unit_test(the_first_iteration_is_no_measure_of_health),
        cmocka_unit_test(measurements_of_another_job_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
