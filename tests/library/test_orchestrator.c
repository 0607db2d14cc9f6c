/* The orchestrator as a program uses it: measurements of a simulated job in, events and actions out. */
#include "library/simulated_job.h"

#define SCHEDULE SLACKLINE_CAN(SLACKLINE_SCHEDULE)
#define BALANCE SLACKLINE_CAN(SLACKLINE_BALANCE)

typedef struct heard {
    int onsets, reliefs, plans, layouts, networks, verdicts;
    char all[65536]; /* every event */
} heard;

static void hear(simulated_job *j, int iteration, heard *h) {
    slackline_event event;
    size_t used = strlen(h->all);
    while (slackline_orchestrator_event(j->orchestrator, &event)) {
        h->onsets += strcmp(event.kind, "onset") == 0;
        h->reliefs += strcmp(event.kind, "relief") == 0;
        h->verdicts += strcmp(event.kind, "verdict") == 0;
        assert_int_equal(event.iteration, iteration);
        assert_true(event.seen[0] || event.decided[0] || event.why[0]);
        used += (size_t)snprintf(h->all + used, sizeof h->all - used, "%d %s %d-%d %d: %s|%s|%s\n",
                                 event.iteration, event.kind, event.from, event.to, event.rank, event.seen,
                                 event.decided, event.why);
        assert_true(used < sizeof h->all);
    }
}

/* Carries out what is asked for, as a trainer would. */
static void act(simulated_job *j, int iteration, heard *h) {
    slackline_action action;
    hear(j, iteration, h);
    while (slackline_orchestrator_action(j->orchestrator, &action)) {
        slackline_action next;
        assert_int_equal(slackline_orchestrator_action(j->orchestrator, &next), 0);
        assert_true(action.cost_ns >= 0 && action.loss >= 0);
        h->plans += action.what == SLACKLINE_DO_PLAN;
        h->layouts += action.what == SLACKLINE_DO_LAYOUT;
        h->networks += action.what == SLACKLINE_DO_NETWORK;
        if (action.what == SLACKLINE_DO_PLAN) {
            assert_in_range(action.replica, 0, j->replicas - 1);
            slackline_plan_free(j->running[action.replica]);
            works(slackline_orchestrator_plan(j->orchestrator, action.replica, &j->running[action.replica]));
        }
        j->now += ms;
        works(slackline_orchestrator_carried_out(j->orchestrator, action.id, j->now, SLACKLINE_DONE, ms));
        for (int r = 0; action.what == SLACKLINE_DO_LAYOUT && r < j->replicas; r++) {
            slackline_plan_free(j->running[r]);
            works(slackline_orchestrator_plan(j->orchestrator, r, &j->running[r]));
        }
        hear(j, iteration, h);
    }
}

static heard *listen(void) {
    return calloc(1, sizeof(heard));
}

/* 60 ms between iterations 25 and 60: adapted an iteration takes 450 ms, and after relief 390 again. */
static void a_job_adapts_to_a_slow_link_and_returns_on_relief(void **state) {
    (void)state;
    simulated_job j;
    heard *h = listen();
    open_job(&j, 1, SCHEDULE, NULL);
    for (int i = 0; i < 120; i++) {
        set_delay(&j, 0, i >= 25 && i < 70 ? 60 * ms : 0);
        observe_iteration(&j, i);
        assert_int_equal(j.measured[0].time, i < 25 || i >= 100 ? 390 * ms : j.measured[0].time);
        if (i >= 40 && i < 70)
            assert_int_equal(j.measured[0].time, 450 * ms);
        act(&j, i, h);
        if (i == 60) {
            slackline_incident incident[2];
            int64_t forecast;
            assert_int_equal(slackline_orchestrator_incidents(j.orchestrator, incident, 2), 1);
            assert_int_equal(incident[0].slow.part, SLACKLINE_LINK);
            assert_true(incident[0].slow.a == 0 && incident[0].slow.b == 1 && incident[0].verdict);
            assert_near(incident[0].growth, 60e6, 1e6);
            assert_true(slackline_orchestrator_troubled(j.orchestrator));
            assert_int_equal(slackline_orchestrator_adapted(j.orchestrator, 0), 1);
            works(slackline_orchestrator_forecast(j.orchestrator, 0, &forecast));
            assert_int_equal(forecast, 450 * ms);
        }
    }
    assert_true(h->onsets == 1 && h->reliefs == 1 && h->plans == 2);
    assert_int_equal(slackline_orchestrator_incidents(j.orchestrator, NULL, 0), 0);
    assert_int_equal(slackline_orchestrator_adapted(j.orchestrator, 0), 0);
    assert_false(slackline_orchestrator_troubled(j.orchestrator));
    close_job(&j);
    free(h);
}

static void a_frozen_job_is_only_told_what_a_change_would_bring(void **state) {
    (void)state;
    simulated_job j;
    slackline_orchestrator_options options;
    heard *h = listen();
    slackline_orchestrator_defaults(&options);
    options.frozen = 1;
    open_job(&j, 1, SCHEDULE, &options);
    for (int i = 0; i < 40; i++) {
        set_delay(&j, 0, i >= 10 ? 60 * ms : 0);
        observe_iteration(&j, i);
        act(&j, i, h);
    }
    assert_true(h->plans == 0 && h->onsets == 1);
    assert_non_null(strstr(h->all, "450"));
    close_job(&j);
    free(h);
}

/* A device of replica 1 takes twice as long, 60 ms a microbatch, so with m microbatches it takes 60 m + 30 ms
 * (the other ranks' F come before), and replica 0 30 m + 30 ms: 750 ms, but of 24 microbatches 16 and 8 take
 * 510 ms. */
static void a_slow_replica_gets_fewer_microbatches(void **state) {
    (void)state;
    simulated_job j;
    slackline_layout layout;
    heard *h = listen();
    open_job(&j, 2, SCHEDULE | BALANCE, NULL);
    for (int i = 0; i < 60; i++) {
        if (i == 10)
            set_speed(&j, 1, 3, 200);
        observe_iteration(&j, i);
        int before = h->layouts;
        act(&j, i, h);
        for (int r = 0; r < 2 && h->layouts > before; r++) {
            slackline_problem *world;
            works(slackline_orchestrator_layout(j.orchestrator, &layout));
            works(slackline_problem_make(SLACKLINE_LINEAR, 4, 0, layout.split[r], &world));
            slackline_problem_free(j.world[r]);
            j.world[r] = world;
            for (int rank = 0; rank < 4; rank++)
                set_speed(&j, r, rank, r == 1 && rank == 3 ? 200 : 100);
        }
    }
    works(slackline_orchestrator_layout(j.orchestrator, &layout));
    assert_true(h->layouts > 0 && layout.split[0] > layout.split[1] &&
                layout.split[0] + layout.split[1] == 24);
    assert_int_equal(layout.process[5], 5);
    assert_in_range(layout.split[0], 16, 17);
    assert_true(j.measured[0].time <= 540 * ms && j.measured[1].time <= 540 * ms);
    slackline_span old = {.op = {.microbatch = 11}, .end_ns = 10 * ms};
    slackline_measurements given[2] = {{0}, {.span = &old, .spans = 1}};
    slackline_iteration i = {.iteration = 60, .now_ns = j.now, .replica = given};
    refuses(slackline_orchestrator_observe(j.orchestrator, &i), "no microbatch 11 of");
    close_job(&j);
    free(h);
}

/* Messages alone are enough to find a slow link, ops alone to find a slow device, though half of them are
 * missing. */
static void what_is_not_measured_is_not_missed(void **state) {
    (void)state;
    for (int ops = 0; ops < 2; ops++) {
        simulated_job j;
        slackline_incident incident = {.id = -1};
        heard *h = listen();
        open_job(&j, 2, 0, NULL);
        for (int i = 0; i < 30; i++) {
            slackline_measurements given[MAX_REPLICAS];
            slackline_iteration iteration;
            if (i == 15 && ops)
                set_speed(&j, 1, 2, 150);
            else if (i == 15)
                set_delay(&j, 1, 60 * ms);
            play_all(&j, i, given, &iteration);
            given[0] = (slackline_measurements){0};
            if (ops)
                given[1].transfers = 0;
            else
                given[1].spans = 0;
            given[1].spans /= 2;
            for (size_t op = 0; op < given[1].spans; op++)
                j.measured[1].span[op] = j.measured[1].span[2 * op + (op % 3 == 0)];
            if (i % 5 == 4)
                iteration.replica = NULL;
            works(slackline_orchestrator_observe(j.orchestrator, &iteration));
            act(&j, i, h);
        }
        assert_int_equal(slackline_orchestrator_incidents(j.orchestrator, &incident, 1), 1);
        assert_int_equal(incident.slow.part, ops ? SLACKLINE_DEVICE : SLACKLINE_LINK);
        assert_int_equal(incident.slow.a, ops ? 2 * 2 + 1 : 1); /* rank * replicas + replica */
        close_job(&j);
        free(h);
    }
}

/* Iterations have twice the tokens and take twice as long: the work is more, and nothing is slow, but for a
 * device that takes half as long again for the same tokens. */
static void times_that_follow_their_work_are_healthy(void **state) {
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        simulated_job j;
        slackline_incident incident;
        heard *h = listen();
        double work[MAX_SPANS];
        open_job(&j, 1, 0, NULL);
        for (int i = 0; i < 60; i++) {
            slackline_measurements given[MAX_REPLICAS];
            slackline_iteration iteration;
            int tokens = i < 30 ? 800 + 100 * (i * 7 % 5) : 1900 + 100 * (i % 3);
            for (int rank = 0; rank < 4; rank++)
                set_speed(&j, 0, rank, slow && rank == 2 && i >= 30 ? tokens * 3 / 20 : tokens / 10);
            play_all(&j, i, given, &iteration);
            for (size_t op = 0; op < given[0].spans; op++)
                work[op] = tokens;
            given[0].span_work = work;
            iteration.work = 12.0 * tokens;
            works(slackline_orchestrator_observe(j.orchestrator, &iteration));
            act(&j, i, h);
        }
        assert_int_equal(slackline_orchestrator_incidents(j.orchestrator, &incident, 1), slow);
        assert_int_equal(h->onsets, slow);
        if (slow) {
            assert_true(incident.slow.part == SLACKLINE_DEVICE && incident.slow.a == 2);
            assert_near(incident.slow.slowdown, 1.5, 0.05);
        }
        close_job(&j);
        free(h);
    }
}

static slackline_span sum_of(int stage, int64_t came, int64_t done) {
    return (slackline_span){.rank = stage,
                            .op = {.stage = stage, .microbatch = -1, .kind = SLACKLINE_REDUCE},
                            .start_ns = came,
                            .end_ns = done};
}

/* The sum of stage 2 takes 5 ms from when the second replica comes to it, later 45 ms: that is an incident of
 * the stage. A replica that waits 40 ms for the other one is none. */
static void a_sum_over_replicas_counts_from_the_last_to_come(void **state) {
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        simulated_job j;
        slackline_incident incident = {.id = -1};
        heard *h = listen();
        open_job(&j, 2, 0, NULL);
        for (int i = 0; i < 40; i++) {
            slackline_measurements given[MAX_REPLICAS];
            slackline_iteration iteration;
            play_all(&j, i, given, &iteration);
            int64_t late = i >= 15 ? 40 * ms : 0, done = j.now + late + 5 * ms;
            for (int r = 0; r < 2; r++)
                for (int stage = 0; stage < 4; stage++)
                    j.measured[r].span[given[r].spans++] =
                        sum_of(stage, stage == 2 && r == 1 && !slow ? j.now + late : j.now,
                               stage == 2 ? done : j.now + 5 * ms);
            iteration.now_ns = j.now = done;
            iteration.time_ns += late + 5 * ms;
            works(slackline_orchestrator_observe(j.orchestrator, &iteration));
            act(&j, i, h);
        }
        int sums = 0;
        if (slackline_orchestrator_incidents(j.orchestrator, &incident, 1))
            sums = incident.stage == 2;
        assert_int_equal(sums, slow);
        close_job(&j);
        free(h);
    }
}

/* What a test or an operator knows is an incident, until it is over. */
static void what_is_reported_is_an_incident_until_it_is_over(void **state) {
    (void)state;
    simulated_job j;
    slackline_incident incident;
    heard *h = listen();
    open_job(&j, 1, SCHEDULE, NULL);
    slackline_report report = {.id = 7,
                               .slow = {.part = SLACKLINE_DEVICE, .a = 3, .b = -1, .slowdown = 2},
                               .loss = 0.25,
                               .seen = "clock at 900 MHz"};
    for (int i = 0; i < 30; i++) {
        observe_iteration(&j, i);
        report.over = i == 20;
        if (i == 10 || i == 20)
            works(slackline_orchestrator_report(j.orchestrator, j.now, &report));
        act(&j, i, h);
        if (i == 15) {
            assert_int_equal(slackline_orchestrator_incidents(j.orchestrator, &incident, 1), 1);
            assert_true(incident.slow.part == SLACKLINE_DEVICE && incident.slow.a == 3);
            assert_near(incident.slow.slowdown, 2, 0);
            assert_near(incident.loss, 0.25, 1e-9);
            assert_says(incident.seen, "clock at 900 MHz");
        }
    }
    assert_int_equal(slackline_orchestrator_incidents(j.orchestrator, NULL, 0), 0);
    close_job(&j);
    free(h);
}

/* When the network is to be measured, it is asked for, and the answer ends the action. */
static void the_network_is_measured_when_it_is_time(void **state) {
    (void)state;
    simulated_job j;
    slackline_orchestrator_options options;
    slackline_action action;
    int asked = 0;
    slackline_orchestrator_defaults(&options);
    options.profile_every_ns = 10000 * ms;
    make_job(&j, 1, 0);
    j.shape.looks = 1;
    works(slackline_orchestrator_open(&j.shape, &options, &j.orchestrator));
    for (int i = 0; i < 60; i++) {
        observe_iteration(&j, i);
        while (slackline_orchestrator_action(j.orchestrator, &action)) {
            static const slackline_network pairs[] = {{0, 1, 1e4, 0.1}, {1, 0, 1e4, 0.1}, {1, 2, 1e4, 0.1}};
            assert_int_equal(action.what, SLACKLINE_DO_NETWORK);
            assert_true(action.strategy == -1 && action.replica == -1);
            works(slackline_orchestrator_network(j.orchestrator, j.now, pairs, 3));
            works(slackline_orchestrator_carried_out(j.orchestrator, action.id, j.now, SLACKLINE_DONE, ms));
            asked++;
        }
    }
    assert_in_range(asked, 2, 3); /* 60 * 390 ms = 23.4 s */
    close_job(&j);
}

/* An action that failed comes again, one that was refused does not. */
static void a_refused_strategy_is_not_asked_for_again(void **state) {
    (void)state;
    for (int refuse = 0; refuse < 2; refuse++) {
        simulated_job j;
        slackline_action action;
        int asked = 0;
        open_job(&j, 1, SCHEDULE, NULL);
        for (int i = 0; i < 120; i++) {
            set_delay(&j, 0, i >= 10 ? 60 * ms : 0);
            observe_iteration(&j, i);
            while (slackline_orchestrator_action(j.orchestrator, &action)) {
                asked++;
                works(slackline_orchestrator_carried_out(j.orchestrator, action.id, j.now,
                                                         refuse ? SLACKLINE_REFUSED : SLACKLINE_FAILED, ms));
            }
        }
        assert_true(refuse ? asked == 1 : asked > 1);
        assert_int_equal(slackline_orchestrator_adapted(j.orchestrator, 0), 0);
        close_job(&j);
    }
}

/* What is learnt goes with a resume: the new orchestrator knows from its first iterations that the link is
 * slow. */
static void a_resumed_job_knows_what_is_healthy(void **state) {
    (void)state;
    simulated_job j;
    slackline_orchestrator *resumed;
    char *text, *again;
    size_t size;
    heard *h = listen();
    open_job(&j, 1, SCHEDULE, NULL);
    for (int i = 0; i < 30; i++) {
        observe_iteration(&j, i);
        act(&j, i, h);
    }
    works(slackline_orchestrator_save(j.orchestrator, &text, &size));
    assert_int_equal(size, strlen(text));
    works(slackline_orchestrator_open(&j.shape, NULL, &resumed));
    works(slackline_orchestrator_load(resumed, text));
    works(slackline_orchestrator_save(resumed, &again, NULL));
    assert_string_equal(again, text);
    slackline_orchestrator_close(j.orchestrator);
    j.orchestrator = resumed;
    set_delay(&j, 0, 60 * ms);
    for (int i = 30; i < 45; i++) {
        observe_iteration(&j, i);
        act(&j, i, h);
    }
    assert_true(h->onsets == 1 && h->plans == 1);
    slackline_free(text);
    slackline_free(again);
    close_job(&j);
    free(h);
}

static void the_same_calls_get_the_same_answers(void **state) {
    (void)state;
    heard *h[2];
    for (int k = 0; k < 2; k++) {
        simulated_job j;
        h[k] = listen();
        open_job(&j, 2, SCHEDULE, NULL);
        for (int i = 0; i < 40; i++) {
            set_delay(&j, 1, i >= 10 && i < 30 ? 60 * ms : 0);
            observe_iteration(&j, i);
            act(&j, i, h[k]);
            const char *decisions = slackline_orchestrator_decisions(j.orchestrator);
            if (decisions)
                strncat(h[k]->all, decisions, sizeof h[k]->all - strlen(h[k]->all) - 1);
        }
        close_job(&j);
    }
    assert_true(strlen(h[0]->all) > 100);
    assert_string_equal(h[0]->all, h[1]->all);
    free(h[0]);
    free(h[1]);
}

/* A simulation skips what would bring nothing, and hears the same. */
static void iterations_that_bring_nothing_may_be_skipped(void **state) {
    (void)state;
    int observed[2] = {0};
    heard *h[2];
    for (int k = 0; k < 2; k++) {
        simulated_job j;
        h[k] = listen();
        open_job(&j, 1, SCHEDULE, NULL);
        for (int i = 0; i < 200; i++) {
            set_delay(&j, 0, i >= 100 ? 60 * ms : 0);
            observe_iteration(&j, i);
            observed[k]++;
            act(&j, i, h[k]);
            int left = (i < 100 ? 99 : 199) - i,
                idle = slackline_orchestrator_idle(j.orchestrator, j.measured[0].time);
            assert_true(idle >= 0);
            int skipped = idle < left ? idle : left;
            if (k == 0 || skipped < 1)
                continue;
            j.now += skipped * j.measured[0].time;
            works(slackline_orchestrator_skip(j.orchestrator, skipped, j.now));
            i += skipped;
        }
        close_job(&j);
    }
    assert_string_equal(h[0]->all, h[1]->all);
    assert_int_equal(observed[0], 200);
    assert_true(observed[1] < 100);
    free(h[0]);
    free(h[1]);
}

/* A longer search gets the replica as it is, and its plan is taken. Without a search between iterations the
 * best family takes 188 ms when a link of this job has 40 ms; this order takes 180 ms. */
static void a_longer_search_gets_a_question_and_offers_a_plan(void **state) {
    (void)state;
    static const char text[] =
        "pipeline: {ranks: 3, microbatches: 4, times_ms: {F: [16, 10, 2], I: [2, 4, 8], W: [8, 8, 16]}}";
    static const char found[] = "0F0,0F1,0F2,0F3,0I0,0W0,0I1,0W1,0I2,0W2,0I3,0W3\n"
                                "1F0,1F1,1I0,1F2,1I1,1F3,1I2,1I3,1W0,1W1,1W2,1W3\n"
                                "2F0,2I0,2W0,2F1,2I1,2F2,2I2,2F3,2I3,2W1,2W2,2W3\n";
    simulated_job j;
    slackline_problem *question, *problem;
    slackline_orchestrator_options options;
    heard *h = listen();
    slackline_orchestrator_defaults(&options);
    options.work = 0;
    options.dwell = 1;
    works(slackline_problem_parse("problem", text, NULL, 0, &problem));
    make_job_of(&j, problem, "zb-h1", 1, SCHEDULE);
    works(slackline_orchestrator_open(&j.shape, &options, &j.orchestrator));
    assert_int_equal(slackline_orchestrator_question(j.orchestrator, 0, &question), SLACKLINE_NO_ANSWER);
    assert_null(question);
    for (int i = 0; i < 60; i++) {
        set_delay(&j, 0, i >= 15 ? 40 * ms : 0);
        observe_iteration(&j, i);
        act(&j, i, h);
        if (i == 30) {
            slackline_plan *plan;
            assert_int_equal(j.measured[0].time, 188 * ms);
            works(slackline_orchestrator_question(j.orchestrator, 0, &question));
            works(slackline_simulate_csv_text(question, "found", found, strlen(found), &plan));
            works(slackline_orchestrator_offer(j.orchestrator, 0, plan));
            slackline_plan_free(plan);
            slackline_problem_free(question);
        }
    }
    assert_int_equal(j.measured[0].time, 180 * ms);
    close_job(&j);
    free(h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_adapts_to_a_slow_link_and_returns_on_relief),
        cmocka_unit_test(a_frozen_job_is_only_told_what_a_change_would_bring),
        cmocka_unit_test(a_slow_replica_gets_fewer_microbatches),
        cmocka_unit_test(what_is_not_measured_is_not_missed),
        cmocka_unit_test(times_that_follow_their_work_are_healthy),
        cmocka_unit_test(a_sum_over_replicas_counts_from_the_last_to_come),
        cmocka_unit_test(what_is_reported_is_an_incident_until_it_is_over),
        cmocka_unit_test(the_network_is_measured_when_it_is_time),
        cmocka_unit_test(a_refused_strategy_is_not_asked_for_again),
        cmocka_unit_test(a_resumed_job_knows_what_is_healthy),
        cmocka_unit_test(the_same_calls_get_the_same_answers),
        cmocka_unit_test(iterations_that_bring_nothing_may_be_skipped),
        cmocka_unit_test(a_longer_search_gets_a_question_and_offers_a_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
