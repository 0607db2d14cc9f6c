/* The public library: what its header promises, two planners at once, and every allocation failing once. */
#include "library/check_library.h"

#include "base/memory.h"
#include <pthread.h>
#include <time.h>

static const char text[] = "pipeline:\n  ranks: 4\n  microbatches: 12\n  times_ms: {F: 10, I: 10, W: 10}\n"
                           "  links: {list: [{between: [0, 1], latency_ms: 0}]}\n";

static void make(slackline_problem **problem) {
    works(slackline_problem_make(SLACKLINE_LINEAR, 4, 0, 12, problem));
    for (int stage = 0; stage < 4; stage++)
        for (int kind = SLACKLINE_F; kind <= SLACKLINE_W; kind++)
            works(slackline_problem_set_time(*problem, stage, (slackline_kind)kind, 10 * ms));
}

/* Four ranks, 12 microbatches, 10 ms each op: 390 ms, and 390 + c with a link of c up to 80 ms. */
static void a_problem_made_here_is_planned(void **state) {
    (void)state;
    slackline_problem *problem;
    slackline_planner *planner;
    make(&problem);
    works(slackline_planner_make(&planner));
    for (int64_t delay = 0; delay <= 60; delay += 20) {
        slackline_plan *plan;
        slackline_summary summary;
        works(slackline_problem_set_link(problem, 0, 1, delay * ms, 0));
        works(slackline_problem_set_link(problem, 1, 0, delay * ms, 0));
        works(slackline_planner_plan(planner, problem, &plan));
        slackline_plan_summary(plan, &summary);
        assert_int_equal(summary.makespan_ns, (390 + delay) * ms);
        assert_int_equal(summary.bound_ns, summary.makespan_ns);
        assert_near(summary.gap, 0, 0);
        assert_true(summary.memory_ok && summary.schedule[0] && summary.why[0]);
        assert_int_equal(slackline_plan_spans(plan), 4 * 36);
        assert_int_equal(slackline_plan_transfers(plan), 2 * 3 * 12);
        assert_int_equal(slackline_plan_transfer(plan, 0).arrive_ns - slackline_plan_transfer(plan, 0).end_ns,
                         delay * ms);
        slackline_plan_free(plan);
    }
    slackline_planner_free(planner);
    slackline_problem_free(problem);
}

/* 1F1B on two ranks and two microbatches by hand: F 1, B 2, no links: 0 to 1 F0, 1 to 2 F1 | 1 to 2 F0, 2 to
 * 4 B0, 4 to 5 F1, 5 to 7 B1 | B0 4 to 6, B1 7 to 9. */
static void anybodys_order_is_timed(void **state) {
    (void)state;
    static const slackline_op first[] = {{0, 0, SLACKLINE_F, 0, 0},
                                         {0, 1, SLACKLINE_F, 0, 0},
                                         {0, 0, SLACKLINE_B, 0, 0},
                                         {0, 1, SLACKLINE_B, 0, 0}},
                              second[] = {{1, 0, SLACKLINE_F, 0, 0},
                                          {1, 0, SLACKLINE_B, 0, 0},
                                          {1, 1, SLACKLINE_F, 0, 0},
                                          {1, 1, SLACKLINE_B, 0, 0}};
    const slackline_op *ops[] = {first, second};
    int count[] = {4, 4};
    slackline_problem *problem;
    slackline_plan *plan;
    slackline_summary summary;
    works(slackline_problem_make(SLACKLINE_LINEAR, 2, 0, 2, &problem));
    for (int stage = 0; stage < 2; stage++)
        for (int kind = SLACKLINE_F; kind <= SLACKLINE_W; kind++)
            works(slackline_problem_set_time(problem, stage, (slackline_kind)kind, 1));
    works(slackline_problem_set_limit(problem, 0, 1));
    works(slackline_simulate(problem, ops, count, &plan));
    slackline_plan_summary(plan, &summary);
    assert_int_equal(summary.makespan_ns, 9);
    assert_string_equal(slackline_plan_objective(plan), "makespan");
    assert_int_equal(slackline_plan_value(plan), 9);
    slackline_plan_free(plan);
    works(slackline_problem_set_objective(problem, SLACKLINE_PERIOD, SLACKLINE_SYNC_NONE));
    assert_int_equal(slackline_problem_set_objective(problem, (slackline_objective)3, SLACKLINE_SYNC_NONE),
                     SLACKLINE_INVALID);
    works(slackline_simulate(problem, ops, count, &plan));
    assert_string_equal(slackline_plan_objective(plan), "period");
    assert_int_equal(slackline_plan_value(plan), 9);
    assert_true(!summary.memory_ok);
    assert_near(slackline_plan_peak_memory(plan, 0), 2, 0);
    assert_int_equal(slackline_plan_warmup(plan, 0), 2);
    assert_int_equal(slackline_plan_ops(plan, 1), 4);
    assert_int_equal(slackline_plan_op(plan, 1, 1).kind, SLACKLINE_B);
    char *csv;
    size_t size;
    works(slackline_plan_write(plan, "csv", &csv, &size));
    assert_string_equal(csv, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    assert_int_equal(size, strlen(csv));
    slackline_free(csv);
    static const char *const forms[][2] = {{"json", "slackline-plan-1"},
                                           {"csv-comms", "SEND_F"},
                                           {"svg", "<svg"},
                                           {"html", "<html"},
                                           {"trace", "traceEvents"}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        char *written;
        works(slackline_plan_write(plan, forms[i][0], &written, NULL));
        assert_non_null(strstr(written, forms[i][1]));
        slackline_free(written);
    }
    assert_int_equal(slackline_plan_write(plan, "png", &csv, NULL), SLACKLINE_INVALID);
    slackline_plan_free(plan);
    count[1] = 3;
    assert_int_equal(slackline_simulate(problem, ops, count, &plan), SLACKLINE_INVALID);
    assert_null(plan);
    assert_says(slackline_error(), "1 is missing");
    slackline_problem_free(problem);
}

static void wrong_requests_are_refused_with_a_reason(void **state) {
    (void)state;
    slackline_problem *problem, *none;
    slackline_planner *planner;
    slackline_plan *plan;
    make(&problem);
    works(slackline_planner_make(&planner));
    assert_int_equal(slackline_problem_make(SLACKLINE_LINEAR, 0, 0, 1, &none), SLACKLINE_INVALID);
    assert_int_equal(slackline_problem_make(SLACKLINE_LINEAR, 4, 5, 1, &none), SLACKLINE_INVALID);
    assert_int_equal(slackline_problem_make(SLACKLINE_LOOP, 1024, 4096, 65536, &none), SLACKLINE_INVALID);
    assert_null(none);
    assert_int_equal(slackline_problem_set_time(problem, 4, SLACKLINE_F, 1), SLACKLINE_INVALID);
    assert_int_equal(slackline_problem_set_time(problem, 0, SLACKLINE_F, -1), SLACKLINE_INVALID);
    assert_int_equal(slackline_problem_set_time(problem, 0, SLACKLINE_GATHER, 1), SLACKLINE_INVALID);
    assert_int_equal(slackline_problem_set_link(problem, 1, 1, 1, 1), SLACKLINE_INVALID);
    assert_int_equal(slackline_problem_set_limit(problem, 0, -1), SLACKLINE_INVALID);
    assert_int_equal(slackline_problem_set_regime(problem, SLACKLINE_INORDER, 0), SLACKLINE_INVALID);
    assert_int_equal(slackline_planner_set_schedule(planner, "best"), SLACKLINE_INVALID);
    assert_int_equal(slackline_planner_set_time_limit(planner, -1), SLACKLINE_INVALID);
    works(slackline_planner_set_schedule(planner, "zb-v"));
    assert_int_equal(slackline_planner_plan(planner, problem, &plan), SLACKLINE_INVALID);
    assert_says(slackline_error(), "zb-v needs placement wave");
    works(slackline_planner_set_schedule(planner, "auto"));
    works(slackline_problem_set_limit(problem, 2, 0.5));
    assert_int_equal(slackline_planner_plan(planner, problem, &plan), SLACKLINE_NO_ANSWER);
    assert_null(plan);
    assert_int_equal(slackline_problem_parse("p", "pipeline: 3\n", NULL, 0, &none), SLACKLINE_INVALID);
    assert_says(slackline_error(), "p:1: 'pipeline'");
    slackline_planner_free(planner);
    slackline_problem_free(problem);
}

/* Adapted to 20 ms on a link, a millisecond more there costs one (design.md: 390 + c); without jitter every
 * draw takes as long as the plan. */
static void a_plan_says_where_its_time_goes(void **state) {
    (void)state;
    static const char *const set[] = {"pipeline.links.list.0.latency_ms=20"};
    slackline_problem *problem;
    slackline_planner *planner;
    slackline_plan *plan;
    slackline_losses losses;
    slackline_jitter jitter;
    slackline_summary summary;
    int from = -1, to = -1, found = 0;
    works(slackline_problem_parse("p", text, set, 1, &problem));
    works(slackline_planner_make(&planner));
    works(slackline_planner_plan(planner, problem, &plan));
    slackline_plan_summary(plan, &summary);
    works(slackline_plan_explain(plan, &losses));
    assert_int_equal(losses.work_ns + losses.imbalance_ns + losses.fill_ns + losses.collectives_ns +
                         losses.dependency_ns + losses.blocking_ns,
                     summary.makespan_ns);
    assert_int_equal(losses.work_ns, 360 * ms);
    assert_int_equal(losses.dependency_ns, 20 * ms);
    for (int i = 0; i < losses.links; i++) {
        double cost = slackline_plan_link_cost(plan, i, &from, &to);
        if (from == 0 && to == 1) {
            assert_near(cost, 1, 1e-9);
            found = 1;
        }
    }
    assert_true(found && losses.ops == 12);
    works(slackline_plan_jitter(plan, 10, 1, &jitter));
    assert_int_equal(jitter.least_ns, summary.makespan_ns);
    assert_int_equal(jitter.p90_ns, summary.makespan_ns);
    assert_int_equal(slackline_plan_jitter(plan, 0, 1, &jitter), SLACKLINE_INVALID);
    slackline_plan_free(plan);
    slackline_planner_free(planner);
    slackline_problem_free(problem);
}

static void all_schedules_have_names(void **state) {
    (void)state;
    int count = 0, found = 0;
    for (const char *name; (name = slackline_schedule_name(count)); count++)
        found += strcmp(name, "auto") == 0 || strcmp(name, "interleaved-1f1b") == 0;
    assert_true(count >= 12 && found == 2);
    assert_null(slackline_schedule_name(-1));
}

/* A search that would go on for a day, ended by another thread; the test's time limit says whether it was. */
static void *stop_soon(void *planner) {
    const struct timespec soon = {.tv_nsec = 300 * 1000 * 1000};
    nanosleep(&soon, NULL);
    slackline_planner_stop(planner);
    return NULL;
}

static void a_stopped_search_gives_the_best_so_far(void **state) {
    (void)state;
    static const char uneven[] = "pipeline:\n  ranks: 6\n  microbatches: 12\n  placement: wave\n"
                                 "  times_ms: {F: [7, 11, 9, 13, 8, 6, 12, 10, 9, 8, 7, 12], I: 9, W: [5, 3, "
                                 "8, 4, 7, 6, 5, 9, 4, 6, 8, 3]}\n"
                                 "  memory: {limit: [7, 8, 7, 8, 7, 8]}\n"
                                 "  links: {default: {latency_ms: 3, transfer_ms: 2}}\n";
    slackline_problem *problem;
    works(slackline_problem_parse("p", uneven, NULL, 0, &problem));
    for (int exact = 0; exact < 2; exact++) { /* where there is no OR-tools, the same twice */
        slackline_planner *planner;
        slackline_plan *plan;
        slackline_summary summary;
        pthread_t thread;
        works(slackline_planner_make(&planner));
        works(slackline_planner_set_schedule(planner, "optimal"));
        works(slackline_planner_set_time_limit(planner, 86400));
        works(slackline_planner_set_threads(planner, 2));
        slackline_planner_set_exact(planner, exact);
        assert_int_equal(pthread_create(&thread, NULL, stop_soon, planner), 0);
        for (int again = 0; again < 2; again++) { /* a stopped planner searches no more */
            works(slackline_planner_plan(planner, problem, &plan));
            slackline_plan_summary(plan, &summary);
            assert_true(summary.memory_ok && summary.gap > 0 && summary.makespan_ns > 0);
            slackline_plan_free(plan);
        }
        pthread_join(thread, NULL);
        slackline_planner_free(planner);
    }
    slackline_problem_free(problem);
}

/* ---- threads ---- */

typedef struct task {
    const slackline_problem *problem;
    const slackline_planner *planner;
    int64_t makespan;
    int failed;
} task;

static void *plan_often(void *argument) {
    task *t = argument;
    for (int i = 0; i < 20; i++) {
        slackline_plan *plan;
        slackline_summary summary;
        if (slackline_planner_plan(t->planner, t->problem, &plan) != SLACKLINE_OK) {
            t->failed = 1;
            return NULL;
        }
        slackline_plan_summary(plan, &summary);
        t->failed |= i > 0 && summary.makespan_ns != t->makespan;
        t->makespan = summary.makespan_ns;
        slackline_plan_free(plan);
    }
    return NULL;
}

static void two_threads_plan_the_same_problem_at_once(void **state) {
    (void)state;
    slackline_problem *problem;
    slackline_planner *planner;
    task tasks[2];
    pthread_t thread;
    make(&problem);
    works(slackline_planner_make(&planner));
    tasks[0] = tasks[1] = (task){.problem = problem, .planner = planner};
    assert_int_equal(pthread_create(&thread, NULL, plan_often, &tasks[0]), 0);
    plan_often(&tasks[1]);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++)
        assert_true(!tasks[i].failed && tasks[i].makespan == 390 * ms);
    slackline_planner_free(planner);
    slackline_problem_free(problem);
}

/* The stages' times differ and nothing is proven soon, so the search's own threads run; the thread sanitizer
 * watches. How far either comes is a matter of time. */
static void *search_once(void *argument) {
    task *t = argument;
    slackline_plan *plan;
    slackline_summary summary;
    t->failed = slackline_planner_plan(t->planner, t->problem, &plan) != SLACKLINE_OK;
    if (t->failed)
        return NULL;
    slackline_plan_summary(plan, &summary);
    t->failed = summary.makespan_ns < summary.bound_ns || !summary.memory_ok;
    slackline_plan_free(plan);
    return NULL;
}

static void two_searches_run_at_once(void **state) {
    (void)state;
    static const char uneven[] =
        "pipeline:\n  ranks: 4\n  microbatches: 6\n  placement: wave\n"
        "  times_ms: {F: [7, 11, 9, 13, 8, 6, 12, 10], I: 9, W: [5, 3, 8, 4, 7, 6, 5, 9]}\n"
        "  memory: {limit: [6, 7, 6, 7]}\n"
        "  links: {default: {latency_ms: 3, transfer_ms: 2}}\n";
    slackline_problem *problem;
    slackline_planner *planner;
    task tasks[2];
    pthread_t thread;
    works(slackline_problem_parse("p", uneven, NULL, 0, &problem));
    works(slackline_planner_make(&planner));
    works(slackline_planner_set_time_limit(planner, 0.2));
    works(slackline_planner_set_threads(planner, 2));
    slackline_planner_set_exact(planner, 0);
    tasks[0] = tasks[1] = (task){.problem = problem, .planner = planner};
    assert_int_equal(pthread_create(&thread, NULL, search_once, &tasks[0]), 0);
    search_once(&tasks[1]);
    pthread_join(thread, NULL);
    assert_true(!tasks[0].failed && !tasks[1].failed);
    slackline_planner_free(planner);
    slackline_problem_free(problem);
}

static void *fail_otherwise(void *argument) {
    slackline_problem *problem;
    *(int *)argument = slackline_problem_make(SLACKLINE_LINEAR, 0, 0, 1, &problem) == SLACKLINE_INVALID &&
                       strstr(slackline_error(), "ranks") != NULL;
    return NULL;
}

static void each_thread_has_its_own_error(void **state) {
    (void)state;
    slackline_problem *problem;
    pthread_t thread;
    int right = 0;
    refuses(slackline_problem_make(SLACKLINE_LINEAR, 1, 0, 0, &problem), "microbatches must be");
    assert_int_equal(pthread_create(&thread, NULL, fail_otherwise, &right), 0);
    pthread_join(thread, NULL);
    assert_true(right);
    assert_says(slackline_error(), "microbatches must be");
}

/* ---- failing allocations ---- */

#define STEP(call)                                                                                           \
    if (status == SLACKLINE_OK)                                                                              \
    status = (call)

/* What a session holds; whatever failed, all of it is freed. */
typedef struct session {
    slackline_problem *problem, *made, *copy;
    slackline_planner *planner;
    slackline_plan *plan, *again;
    char *text;
} session;

static slackline_status fill(slackline_problem *p) {
    static const int from[] = {0, 2}, to[] = {1, 3};
    slackline_status status = SLACKLINE_OK;
    STEP(slackline_problem_set_time(p, 1, SLACKLINE_F, 10 * ms));
    STEP(slackline_problem_set_limit(p, 0, 4));
    STEP(slackline_problem_share_links(p, from, to, 2));
    return status;
}

static slackline_status plan_it(session *s) {
    static const char *const set[] = {"pipeline.links.list.0.latency_ms=20"};
    slackline_status status = slackline_problem_parse("p", text, set, 1, &s->problem);
    STEP(slackline_problem_make(SLACKLINE_LINEAR, 4, 0, 12, &s->made));
    STEP(fill(s->made));
    STEP(slackline_problem_copy(s->made, &s->copy));
    STEP(slackline_planner_make(&s->planner));
    if (status != SLACKLINE_OK)
        return status;
    slackline_planner_set_exact(s->planner, 0);
    STEP(slackline_planner_plan(s->planner, s->problem, &s->plan));
    return status;
}

static slackline_status look_at_it(session *s) {
    slackline_losses losses;
    slackline_jitter jitter;
    size_t order[4 * 36];
    slackline_status status = slackline_plan_start_order(s->plan, order);
    STEP(slackline_plan_explain(s->plan, &losses));
    STEP(slackline_plan_jitter(s->plan, 2, 1, &jitter));
    STEP(slackline_plan_write(s->plan, "csv", &s->text, NULL));
    STEP(slackline_simulate_csv_text(s->problem, "p", s->text, strlen(s->text), &s->again));
    static const char *const forms[] = {"text", "json", "csv-comms", "svg", "html", "trace"};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        char *written = NULL;
        STEP(slackline_plan_write(s->plan, forms[i], &written, NULL));
        slackline_free(written);
    }
    return status;
}

static slackline_status measure_it(session *s) {
    slackline_problem *measured = NULL;
    slackline_span span = {.rank = 0, .op = {.kind = SLACKLINE_F}, .start_ns = 0, .end_ns = 10 * ms};
    slackline_status status = slackline_measure(s->problem, &span, 1, NULL, 0, &measured);
    slackline_problem_free(measured);
    return status;
}

static slackline_status whole_session(void) {
    session s = {0};
    slackline_status status = plan_it(&s);
    STEP(look_at_it(&s));
    STEP(measure_it(&s));
    if (status == SLACKLINE_OK) {
        slackline_summary summary;
        slackline_plan_summary(s.again, &summary);
        assert_int_equal(summary.makespan_ns, 410 * ms);
    }
    slackline_free(s.text);
    slackline_plan_free(s.plan);
    slackline_plan_free(s.again);
    slackline_planner_free(s.planner);
    slackline_problem_free(s.problem);
    slackline_problem_free(s.made);
    slackline_problem_free(s.copy);
    return status;
}

/* Leaks are the address sanitizer's to find. */
static void every_failed_allocation_is_a_status(void **state) {
    (void)state;
    int failed = 0;
    for (long n = 0;; n++) {
        sl_alloc_fail_at(n);
        slackline_status status = whole_session();
        sl_alloc_fail_at(-1);
        if (status == SLACKLINE_OK)
            break;
        assert_int_equal(status, SLACKLINE_NO_MEMORY);
        failed++;
        assert_true(n < 100000);
    }
    assert_true(failed > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_problem_made_here_is_planned),
        cmocka_unit_test(anybodys_order_is_timed),
        cmocka_unit_test(wrong_requests_are_refused_with_a_reason),
        cmocka_unit_test(a_plan_says_where_its_time_goes),
        cmocka_unit_test(all_schedules_have_names),
        cmocka_unit_test(a_stopped_search_gives_the_best_so_far),
        cmocka_unit_test(two_threads_plan_the_same_problem_at_once),
        cmocka_unit_test(two_searches_run_at_once),
        cmocka_unit_test(each_thread_has_its_own_error),
        cmocka_unit_test(every_failed_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
