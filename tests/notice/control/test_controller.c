/* labels: long calm */
/* Agents and the controller together, on a job of four processes with real rings and real gates, over a real
 * server. SL_SHOW=1 prints the events. */
#include "at_once.h"
#include "watched_job.h"

static char slackline[4200]; /* the command, beside this test */

static void need_validate(void) {
    if (access(slackline, X_OK) != 0) {
        printf("not tried: %s is not built\n", slackline);
        skip();
    }
    char command[4400];
    snprintf(command, sizeof command, "%s healthcheck --ranks 2 --repeat 1 --format json > /dev/null 2>&1",
             slackline);
    int code = system(command); /* 1: something is slow, which is no matter here */
    if (!WIFEXITED(code) || WEXITSTATUS(code) > 1) {
        printf("not tried: %s healthcheck does not work here\n", slackline);
        skip();
    }
}

static const sl_status_view *status_of(const job *j) {
    return sl_controller_status(j->controller[0]);
}

static void start_watching(job *j, int hold, sl_time deadline) {
    for (int node = 0; node < j->nodes; node++)
        job_add_agent(j, node, NULL);
    job_add_controller(j, 0, hold, deadline);
}

static int is_held(const sl_event *event) {
    return strstr(event->facts, "\"ranks\":4") != NULL;
}

/* From an onset on rank 2 to its relief. Work of 12 + 10 ms becomes 32 + 10. */
static void slow_rank_is_found_and_relieved(int nodes) {
    job *j = job_open(nodes);
    job_start(j, 1);
    start_watching(j, 1, 0);
    const sl_event *event = job_await(j, SL_EVENT_TRACKED, 0);
    assert_int_equal(status_of(j)->period, 2);
    job_await(j, SL_EVENT_PROFILED, 0); /* the reference */
    assert_int_equal(status_of(j)->phase, SL_PHASE_TRACKING);
    assert_near(status_of(j)->level_ms, 22, 6);
    int from = j->events;
    int64_t at = job_iterations(j);
    atomic_store(&j->shared->extra[2], 20 * SL_MS);
    event = job_await(j, SL_EVENT_ONSET, from);
    assert_near(event->iteration, (double)at,
                12); /* iterations are counted from the first that was tracked */
    assert_near(sl_event_number(event, "former_ms"), 22, 6);
    assert_near(sl_event_number(event, "iteration_ms"), 42, 12);
    event = job_await(j, SL_EVENT_HELD, from);
    if (!is_held(event))
        fail_msg("not held: %s, %s", event->seen, event->why);
    event = job_await(j, SL_EVENT_VERDICT, from);
    assert_int_equal(event->rank, 2);
    assert_says(event->seen, "device of rank 2");
    assert_int_equal(status_of(j)->verdict[0].component, SL_COMPONENT_DEVICE);
    assert_true(status_of(j)->slow);
    assert_int_equal(status_of(j)->closed, 1);
    at = job_iterations(j);
    job_run(j, SL_SECOND); /* far less than the deadline: the release is what lets it go on */
    assert_true(job_iterations(j) > at + 5);
    from = j->events;
    atomic_store(&j->shared->extra[2], 0);
    job_await(j, SL_EVENT_RELIEF, from);
    assert_int_equal(status_of(j)->verdicts, 0);
    assert_false(status_of(j)->slow);
    assert_int_equal(status_of(j)->lost, 0);
    assert_int_equal(status_of(j)->ranks, 4);
    assert_int_equal(status_of(j)->nodes, nodes);
    job_close(j);
}

static void slow_rank_is_found_held_and_relieved(void **state) {
    (void)state;
    slow_rank_is_found_and_relieved(1);
}

static void slow_rank_is_found_on_two_nodes(void **state) {
    (void)state;
    slow_rank_is_found_and_relieved(2);
}

static void healthy_job_is_left_alone(void **state) {
    (void)state;
    job *j = job_open(1);
    job_start(j, 1);
    start_watching(j, 1, 0);
    job_await(j, SL_EVENT_PROFILED, 0);
    job_run(j, 3 * SL_SECOND);
    assert_int_equal(status_of(j)->onsets, 0);
    assert_int_equal(status_of(j)->holds, 0);
    assert_int_equal(status_of(j)->verdicts, 0);
    job_close(j);
}

static void job_without_gates_gets_its_verdict_by_profile(void **state) {
    (void)state;
    job *j = job_open(1);
    job_start(j, 0);
    start_watching(j, 1, 0);
    job_await(j, SL_EVENT_PROFILED, 0);
    int from = j->events;
    atomic_store(&j->shared->extra[1], 20 * SL_MS);
    const sl_event *event = job_await(j, SL_EVENT_VERDICT, from);
    assert_int_equal(event->rank, 1);
    assert_non_null(strstr(event->decided, "profile"));
    assert_non_null(strstr(event->why, "gate"));
    assert_int_equal(status_of(j)->closed, 0);
    job_close(j);
}

static void job_that_may_not_be_held_is_not(void **state) {
    (void)state;
    job *j = job_open(1);
    job_start(j, 1);
    start_watching(j, 0, 0);
    job_await(j, SL_EVENT_PROFILED, 0);
    int from = j->events;
    atomic_store(&j->shared->extra[3], 20 * SL_MS);
    const sl_event *event = job_await(j, SL_EVENT_VERDICT, from);
    assert_int_equal(event->rank, 3);
    assert_int_equal(status_of(j)->holds, 0);
    assert_int_equal(job_said(j, SL_EVENT_HELD, 0), 0);
    job_close(j);
}

static void second_slow_rank_is_an_onset_of_its_own(void **state) {
    (void)state;
    job *j = job_open(1);
    job_start(j, 1);
    start_watching(j, 1, 0);
    job_await(j, SL_EVENT_PROFILED, 0);
    int from = j->events;
    atomic_store(&j->shared->extra[2], 20 * SL_MS);
    job_await(j, SL_EVENT_VERDICT, from);
    job_run(j, SL_SECOND);
    from = j->events;
    atomic_store(&j->shared->extra[0], 60 * SL_MS);
    job_await(j, SL_EVENT_ONSET, from);
    const sl_event *event = job_await(j, SL_EVENT_VERDICT, from);
    assert_int_equal(event->rank, 0);
    assert_int_equal(status_of(j)->onsets, 2);
    assert_near(status_of(j)->healthy_ms, 22, 6); /* still that of before the first */
    job_close(j);
}

static int is_reference(const sl_event *event) {
    return event->kind == SL_EVENT_PROFILED && strstr(event->facts, "\"reference\":true") != NULL;
}

static int held(const job *j, int from) {
    for (int i = from; i < j->events; i++)
        if (j->event[i].kind == SL_EVENT_HELD && is_held(&j->event[i]))
            return 1;
    return 0;
}

/* A hold with tests lasts a second or two: an onset shortly after it comes into the rest. */
static void onset_while_the_job_rests_from_a_hold_is_held_when_it_has_rested(void **state) {
    (void)state;
    need_validate();
    job *j = job_open(1);
    j->validate = 1;
    job_start(j, 1);
    start_watching(j, 1, 20 * SL_SECOND);
    job_await(j, SL_EVENT_PROFILED, 0);
    int from = j->events;
    atomic_store(&j->shared->extra[2], 20 * SL_MS);
    job_await(j, SL_EVENT_VERDICT, from);
    job_run(j, SL_SECOND);
    from = j->events;
    atomic_store(&j->shared->extra[0], 60 * SL_MS);
    assert_int_equal(job_await(j, SL_EVENT_VERDICT, from)->rank, 0);
    assert_true(job_said(j, SL_EVENT_HELD, from) && !held(j, from));
    from = j->events; /* nothing changes any more */
    job_await(j, SL_EVENT_PROFILED, from);
    job_await(j, SL_EVENT_VALIDATED, from);
    job_await(j, SL_EVENT_VERDICT, from);
    assert_true(held(j, from));
    assert_false(job_said(j, SL_EVENT_ONSET, from));
    job_close(j);
}

/* All become slower before there is a reference: nobody can be blamed, and the calls of that time are
 * what later ones are compared with, until healthy iterations have been seen. */
static void what_nothing_explains_is_compared_with_while_no_reference_is_there(void **state) {
    (void)state;
    job *j = job_open(1);
    job_start(j, 1);
    start_watching(j, 1, 0);
    job_await(j, SL_EVENT_TRACKED, 0);
    job_run(j, 600 * SL_MS);
    int from = j->events;
    for (int rank = 0; rank < JOB_RANKS; rank++)
        atomic_store(&j->shared->extra[rank], 10 * SL_MS);
    const sl_event *event = job_await(j, SL_EVENT_VERDICT, from);
    for (int i = 0; i < j->events; i++)
        assert_false(is_reference(&j->event[i]));
    assert_int_equal(event->rank, -1);
    assert_non_null(strstr(event->why, "reference"));
    from = j->events;
    for (int rank = 0; rank < JOB_RANKS; rank++)
        atomic_store(&j->shared->extra[rank], 0);
    job_await(j, SL_EVENT_RELIEF, from);
    event = job_await(j, SL_EVENT_PROFILED, from); /* and then it is taken after all */
    assert_true(is_reference(event));
    job_close(j);
}

/* As above; then another rank becomes slower while the job rests from its hold. What is compared with
 * iterations that may have been slow names nobody before the tests, which follow. */
static void doubtful_comparison_waits_for_the_tests(void **state) {
    (void)state;
    need_validate();
    job *j = job_open(1);
    j->validate = 1;
    job_start(j, 1);
    start_watching(j, 1, 20 * SL_SECOND);
    job_await(j, SL_EVENT_TRACKED, 0);
    job_run(j, 600 * SL_MS);
    int from = j->events;
    for (int rank = 0; rank < JOB_RANKS; rank++)
        atomic_store(&j->shared->extra[rank], 10 * SL_MS);
    const sl_event *event = job_await(j, SL_EVENT_VERDICT, from);
    assert_int_equal(event->rank, -1);
    assert_true(held(j, from));
    job_run(j, 500 * SL_MS);
    from = j->events;
    atomic_store(&j->shared->extra[2], 60 * SL_MS);
    event = job_await(j, SL_EVENT_VERDICT, from);
    assert_false(held(j, from));
    assert_int_equal(event->rank, -1);
    assert_says(event->seen, "may have been slow already");
    from = j->events;
    event = job_await(j, SL_EVENT_VERDICT, from);
    assert_true(held(j, from));
    assert_int_equal(event->rank, 2);
    job_close(j);
}

static void more_work_in_an_iteration_is_no_trouble(void **state) {
    (void)state;
    job *j = job_open(1);
    job_start(j, 1);
    start_watching(j, 1, 0);
    job_await(j, SL_EVENT_PROFILED, 0);
    int from = j->events;
    atomic_store(&j->shared->more, 1); /* messages of twice the size, and longer computing, everywhere */
    for (int rank = 0; rank < JOB_RANKS; rank++)
        atomic_store(&j->shared->extra[rank], 20 * SL_MS);
    const sl_event *event = job_await(j, SL_EVENT_TRACKED, from);
    assert_says(event->why, "+100.0%");
    job_await(j, SL_EVENT_PROFILED, from); /* another reference */
    assert_int_equal(status_of(j)->onsets, 0);
    assert_int_equal(status_of(j)->holds, 0);
    assert_near(status_of(j)->level_ms, 42, 8);
    job_close(j);
}

static void slow_rank_is_found_where_sizes_differ_from_iteration_to_iteration(void **state) {
    (void)state;
    job *j = job_open(1);
    atomic_store(&j->shared->vary, 1);
    job_start(j, 1);
    start_watching(j, 0, 0);
    job_await(j, SL_EVENT_PROFILED, 0);
    assert_int_equal(status_of(j)->period, 2);
    int from = j->events;
    atomic_store(&j->shared->extra[1], 20 * SL_MS);
    job_await(j, SL_EVENT_ONSET, from);
    assert_int_equal(job_await(j, SL_EVENT_VERDICT, from)->rank, 1);
    job_close(j);
}

/* ---- validation, by the command itself ---- */

static void validation_runs_while_the_job_is_held_and_its_verdict_is_told(void **state) {
    (void)state;
    need_validate();
    job *j = job_open(1);
    j->validate = 1;
    job_start(j, 1);
    start_watching(j, 1, 20 * SL_SECOND);
    job_await(j, SL_EVENT_PROFILED, 0);
    int from = j->events;
    atomic_store(&j->shared->extra[2], 20 * SL_MS);
    job_await(j, SL_EVENT_HELD, from);
    int64_t at = job_iterations(j);
    const sl_event *event = job_await(j, SL_EVENT_VALIDATED, from);
    assert_true(job_iterations(j) <= at + 1); /* it stood meanwhile */
    assert_says(event->seen, "4 processors");
    assert_non_null(strstr(event->why, "held"));
    event = job_await(j, SL_EVENT_VERDICT, from);
    assert_non_null(strstr(event->decided, "validation"));
    assert_true(status_of(j)->verdicts > 0);
    at = job_iterations(j);
    job_run(j, SL_SECOND);
    assert_true(job_iterations(j) > at + 5);
    const sl_standing *standing = sl_controller_standing(j->controller[0]);
    int held = 0;
    for (int i = 0; i < standing->points; i++)
        held += standing->point[i].held;
    assert_in_range(held, 1, standing->points / 2); /* the iteration that the hold stretched, and few more */
    job_close(j);
}

static void validation_that_outlives_the_hold_goes_on_beside_the_program(void **state) {
    (void)state;
    need_validate();
    job *j = job_open(1);
    j->validate = 1;
    job_start(j, 1);
    start_watching(j, 1, SL_SECOND / 2); /* starting the processes alone takes about as long */
    job_await(j, SL_EVENT_PROFILED, 0);
    int from = j->events;
    atomic_store(&j->shared->extra[2], 20 * SL_MS);
    job_await(j, SL_EVENT_RELEASED, from);
    int64_t at = job_iterations(j);
    const sl_event *event = job_await(j, SL_EVENT_VERDICT, from);
    assert_true(job_iterations(j) > at);
    assert_non_null(strstr(event->decided, "validation"));
    assert_int_equal(status_of(j)->onsets,
                     1); /* what the tests took from the program is no trouble of its own */
    job_close(j);
}

/* ---- what breaks ---- */

static void agent_that_dies_is_told_and_the_rest_goes_on(void **state) {
    (void)state;
    job *j = job_open(2);
    job_start(j, 1);
    start_watching(j, 1, 0);
    job_await(j, SL_EVENT_PROFILED, 0);
    int from = j->events;
    job_drop_agent(j, 1);
    const sl_event *event = job_await(j, SL_EVENT_NODE, from);
    assert_non_null(strstr(event->seen, "node-b"));
    int64_t seen = status_of(j)->iteration;
    job_run(j, SL_SECOND);
    assert_true(status_of(j)->iteration > seen + 10); /* by ranks 0 and 1 */
    from = j->events;
    atomic_store(&j->shared->extra[0], 20 * SL_MS);
    job_await(j, SL_EVENT_ONSET, from);
    event = job_await(j, SL_EVENT_HELD, from);
    assert_false(is_held(event)); /* two ranks could not be asked */
    job_await(j, SL_EVENT_VERDICT, from);
    from = j->events;
    job_add_agent(j, 1, NULL);
    event = job_await(j, SL_EVENT_NODE, from);
    assert_non_null(strstr(event->seen, "node-b"));
    assert_int_equal(status_of(j)->nodes, 2);
    job_close(j);
}

static void agent_that_dies_in_a_hold_holds_nothing_up(void **state) {
    (void)state;
    job *j = job_open(2);
    job_start(j, 1);
    start_watching(j, 1, 3 * SL_SECOND);
    job_await(j, SL_EVENT_PROFILED, 0);
    int from = j->events;
    atomic_store(&j->shared->extra[2], 20 * SL_MS);
    sl_time due[4] = {0};
    for (sl_time end = job_now() + JOB_PATIENCE; status_of(j)->phase != SL_PHASE_HOLDING && job_now() < end;)
        job_step(j, due);
    assert_int_equal(status_of(j)->phase, SL_PHASE_HOLDING);
    for (int i = 0; i < 3; i++) /* it holds its gates, and is no more */
        sl_agent_step(j->agent[1], job_now(), &due[0]);
    sl_agent *dead = j->agent[1];
    j->agent[1] = NULL;
    int64_t at = job_iterations(j);
    const sl_event *event = job_await(j, SL_EVENT_HELD, from);
    assert_false(is_held(event));
    assert_int_equal(job_await(j, SL_EVENT_VERDICT, from)->rank, 2);
    job_run(j, 2 * SL_SECOND); /* by then the deadline is past on its node too */
    assert_true(job_iterations(j) > at + 5);
    assert_int_equal(status_of(j)->phase, SL_PHASE_TRACKING);
    j->agent[1] = dead;
    job_close(j);
}

static void hold_ends_by_its_deadline_when_all_that_watches_is_dead(void **state) {
    (void)state;
    job *j = job_open(1);
    job_start(j, 1);
    start_watching(j, 1, 2 * SL_SECOND);
    job_await(j, SL_EVENT_PROFILED, 0);
    atomic_store(&j->shared->extra[2], 20 * SL_MS);
    sl_time due[4] = {0};
    for (sl_time end = job_now() + JOB_PATIENCE; status_of(j)->phase != SL_PHASE_HOLDING && job_now() < end;)
        job_step(j, due);
    assert_int_equal(status_of(j)->phase, SL_PHASE_HOLDING);
    for (int i = 0; i < 3; i++) /* the agent holds the gates */
        sl_agent_step(j->agent[0], job_now(), &due[0]);
    job_work(100 * SL_MS);
    int64_t at = job_iterations(j);
    job_work(300 * SL_MS);
    assert_int_equal(job_iterations(j), at); /* it stands, and nobody is left to release it */
    job_goes_on(j, 20 * SL_SECOND);
    job_close(j);
}

static void another_controller_takes_the_place_of_a_dead_one(void **state) {
    (void)state;
    job *j = job_open(1);
    job_start(j, 1);
    start_watching(j, 1, 0);
    job_add_controller(j, 1, 1, 0);
    job_await(j, SL_EVENT_PROFILED, 0);
    assert_int_equal(sl_controller_status(j->controller[1])->onsets, 0);
    assert_int_equal(sl_controller_status(j->controller[1])->period, 0); /* it only waits */
    sl_controller *dead = j->controller[0];
    job_forget_controller(j, 0);
    int from = j->events;
    job_await(j, SL_EVENT_TRACKED, from);
    atomic_store(&j->shared->extra[1], 20 * SL_MS);
    job_await(j, SL_EVENT_ONSET, from);
    assert_int_equal(job_await(j, SL_EVENT_VERDICT, from)->rank, 1);
    j->controller[0] = dead;
    job_close(j);
}

static void lost_store_stops_nothing(void **state) {
    (void)state;
    job *j = job_open(1);
    job_start(j, 1);
    start_watching(j, 1, 0);
    job_await(j, SL_EVENT_PROFILED, 0);
    int from = j->events;
    pid_t server = j->redis.pid;
    kill(server, SIGKILL);
    job_await(j, SL_EVENT_STORE, from);
    assert_false(status_of(j)->connected);
    job_goes_on(j, 20 * SL_SECOND);
    from = j->events;
    assert_ok(sl_redis_restart(&j->redis));
    assert_ok(sl_redis_wait(&j->redis, 10 * SL_SECOND));
    job_await(j, SL_EVENT_STORE, from);
    assert_true(status_of(j)->connected);
    job_run(j, SL_SECOND);
    from = j->events;
    atomic_store(&j->shared->extra[3], 20 * SL_MS);
    job_await(j, SL_EVENT_ONSET, from);
    assert_int_equal(job_await(j, SL_EVENT_VERDICT, from)->rank, 3);
    job_close(j);
}

static void store_lost_in_a_hold_ends_it_by_its_deadline(void **state) {
    (void)state;
    job *j = job_open(1);
    job_start(j, 1);
    start_watching(j, 1, 2 * SL_SECOND);
    job_await(j, SL_EVENT_PROFILED, 0);
    int from = j->events;
    atomic_store(&j->shared->extra[2], 20 * SL_MS);
    sl_time due[4] = {0};
    for (sl_time end = job_now() + JOB_PATIENCE; status_of(j)->phase != SL_PHASE_HOLDING && job_now() < end;)
        job_step(j, due);
    kill(j->redis.pid, SIGKILL);
    job_await(j, SL_EVENT_STORE, from);
    assert_int_equal(job_await(j, SL_EVENT_VERDICT, from)->rank, 2);
    assert_int_equal(status_of(j)->phase, SL_PHASE_TRACKING);
    job_goes_on(j, 20 * SL_SECOND);
    job_close(j);
}

static void program_that_ends_ends_the_watch(void **state) {
    (void)state;
    job *j = job_open(1);
    job_start(j, 1);
    start_watching(j, 1, 0);
    job_await(j, SL_EVENT_PROFILED, 0);
    for (int rank = 0; rank < JOB_RANKS; rank++) {
        kill(j->rank[rank], SIGKILL);
        waitpid(j->rank[rank], NULL, 0);
        j->rank[rank] = 0;
    }
    int from = j->events;
    job_run(j, 2 * SL_SECOND);
    assert_int_equal(status_of(j)->ranks, 0);
    sl_controller_finish(j->controller[0]);
    assert_int_equal(status_of(j)->phase, SL_PHASE_ENDED);
    assert_int_equal(job_said(j, SL_EVENT_VERDICT, from), 0);
    job_close(j);
}

/* An agent starts its own program with the word `healthcheck`: here that is this test, which becomes
 * slackline.
 */
int main(int argc, char **argv) {
    char self[4096] = "";
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return 1;
    *strrchr(self, '/') = 0;
    snprintf(slackline, sizeof slackline, "%s/../slackline", self);
    if (argc > 1 && strcmp(argv[1], "healthcheck") == 0) {
        execv(slackline, argv);
        return 127;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_rank_is_found_held_and_relieved),
        cmocka_unit_test(slow_rank_is_found_on_two_nodes),
        cmocka_unit_test(healthy_job_is_left_alone),
        cmocka_unit_test(job_without_gates_gets_its_verdict_by_profile),
        cmocka_unit_test(job_that_may_not_be_held_is_not),
        cmocka_unit_test(second_slow_rank_is_an_onset_of_its_own),
        cmocka_unit_test(onset_while_the_job_rests_from_a_hold_is_held_when_it_has_rested),
        cmocka_unit_test(what_nothing_explains_is_compared_with_while_no_reference_is_there),
        cmocka_unit_test(doubtful_comparison_waits_for_the_tests),
        cmocka_unit_test(more_work_in_an_iteration_is_no_trouble),
        cmocka_unit_test(slow_rank_is_found_where_sizes_differ_from_iteration_to_iteration),
        cmocka_unit_test(validation_runs_while_the_job_is_held_and_its_verdict_is_told),
        cmocka_unit_test(validation_that_outlives_the_hold_goes_on_beside_the_program),
        cmocka_unit_test(agent_that_dies_is_told_and_the_rest_goes_on),
        cmocka_unit_test(agent_that_dies_in_a_hold_holds_nothing_up),
        cmocka_unit_test(hold_ends_by_its_deadline_when_all_that_watches_is_dead),
        cmocka_unit_test(another_controller_takes_the_place_of_a_dead_one),
        cmocka_unit_test(lost_store_stops_nothing),
        cmocka_unit_test(store_lost_in_a_hold_ends_it_by_its_deadline),
        cmocka_unit_test(program_that_ends_ends_the_watch),
    };
    cmocka_set_test_filter(getenv("SL_ONLY"));
    return run_at_once("controller", tests, sizeof tests / sizeof *tests, 6);
}
