/* What the orchestrator refuses, each with a sentence, and what is left when memory ends. */
#include "base/memory.h"
#include "library/simulated_job.h"

#include <limits.h>
#include <math.h>

#define ALL ((1u << SLACKLINE_STRATEGIES) - 1)

static void nothing_there_is_refused(void **state) {
    (void)state;
    simulated_job j;
    slackline_orchestrator *o;
    slackline_event event;
    slackline_action action;
    slackline_iteration iteration = {0};
    slackline_report report = {0};
    slackline_layout layout;
    slackline_plan *plan;
    slackline_problem *problem;
    char *text;
    int64_t time;
    open_job(&j, 1, ALL, NULL);
    slackline_orchestrator *there = j.orchestrator;
    refuses(slackline_orchestrator_open(NULL, NULL, &o), "job is NULL");
    assert_null(o);
    refuses(slackline_orchestrator_open(&j.shape, NULL, NULL), "orchestrator is NULL");
    slackline_orchestrator_close(NULL);
    slackline_orchestrator_defaults(NULL);
    refuses(slackline_orchestrator_observe(NULL, &iteration), "orchestrator is NULL");
    refuses(slackline_orchestrator_observe(there, NULL), "iteration is NULL");
    refuses(slackline_orchestrator_report(NULL, 0, &report), "orchestrator is NULL");
    refuses(slackline_orchestrator_report(there, 0, NULL), "report is NULL");
    refuses(slackline_orchestrator_network(NULL, 0, NULL, 0), "orchestrator is NULL");
    refuses(slackline_orchestrator_network(there, 0, NULL, 1), "pair is NULL");
    refuses(slackline_orchestrator_estimate(NULL, SLACKLINE_BALANCE, 0), "orchestrator is NULL");
    refuses(slackline_orchestrator_may_leave(NULL, "a", 0), "orchestrator is NULL");
    refuses(slackline_orchestrator_improve(NULL, 1), "orchestrator is NULL");
    refuses(slackline_orchestrator_improve(there, -1), "work");
    refuses(slackline_orchestrator_keep_sums(NULL, 1), "orchestrator is NULL");
    refuses(slackline_orchestrator_may_leave(there, NULL, 0), "host is NULL");
    refuses(slackline_orchestrator_offer(NULL, 0, j.first), "orchestrator is NULL");
    refuses(slackline_orchestrator_offer(there, 0, NULL), "plan is NULL");
    assert_int_equal(slackline_orchestrator_event(NULL, &event), 0);
    assert_int_equal(slackline_orchestrator_event(there, NULL), 0);
    assert_says(slackline_error(), "'event' NULL");
    assert_int_equal(slackline_orchestrator_action(NULL, &action), 0);
    assert_int_equal(slackline_orchestrator_action(there, NULL), 0);
    assert_says(slackline_error(), "'action' NULL");
    refuses(slackline_orchestrator_carried_out(NULL, 0, 0, SLACKLINE_DONE, 0), "orchestrator is NULL");
    refuses(slackline_orchestrator_plan(NULL, 0, &plan), "orchestrator is NULL");
    assert_null(plan);
    refuses(slackline_orchestrator_plan(there, 0, NULL), "plan is NULL");
    assert_int_equal(slackline_orchestrator_adapted(NULL, 0), -1);
    assert_int_equal(slackline_orchestrator_adapted(there, 1), -1);
    assert_says(slackline_error(), "'replica' 0 1");
    refuses(slackline_orchestrator_layout(NULL, &layout), "orchestrator is NULL");
    refuses(slackline_orchestrator_layout(there, NULL), "layout is NULL");
    refuses(slackline_orchestrator_forecast(NULL, 0, &time), "orchestrator is NULL");
    refuses(slackline_orchestrator_forecast(there, 0, NULL), "time_ns is NULL");
    refuses(slackline_orchestrator_question(NULL, 0, &problem), "orchestrator is NULL");
    refuses(slackline_orchestrator_question(there, 0, NULL), "problem is NULL");
    assert_int_equal(slackline_orchestrator_incidents(NULL, NULL, 0), 0);
    assert_int_equal(slackline_orchestrator_incidents(there, NULL, 1), 0);
    assert_says(slackline_error(), "'incident' NULL");
    assert_int_equal(slackline_orchestrator_troubled(NULL), 0);
    assert_null(slackline_orchestrator_decisions(NULL));
    assert_int_equal(slackline_orchestrator_idle(NULL, 0), 0);
    refuses(slackline_orchestrator_skip(NULL, 0, 0), "orchestrator is NULL");
    refuses(slackline_orchestrator_save(NULL, &text, NULL), "orchestrator is NULL");
    refuses(slackline_orchestrator_save(there, NULL, NULL), "text is NULL");
    refuses(slackline_orchestrator_load(NULL, ""), "orchestrator is NULL");
    refuses(slackline_orchestrator_load(there, NULL), "text is NULL");
    close_job(&j);
}

static void wrong_options_are_refused(void **state) {
    (void)state;
    simulated_job j;
    slackline_orchestrator *o;
    slackline_orchestrator_options standard, x;
    make_job(&j, 1, ALL);
    slackline_orchestrator_defaults(&standard);
    assert_true(standard.hold == 5 && standard.dwell == 20 &&
                standard.cost_ns[SLACKLINE_RESTART] == 600000 * ms);
#define WRONG(change, says)                                                                                  \
    do {                                                                                                     \
        x = standard;                                                                                        \
        change;                                                                                              \
        refuses(slackline_orchestrator_open(&j.shape, &x, &o), says);                                        \
        assert_null(o);                                                                                      \
    } while (0)
    WRONG(x.schedule = NULL, "options->schedule is NULL");
    WRONG(x.schedule = "1f1", "unknown schedule '1f1'");
    WRONG(x.schedule = "optimal", "unknown schedule 'optimal'");
    WRONG(x.schedule = "zb-v", "placement");
    WRONG(x.hold = 0, "hold must be from 1 to 32, got 0");
    WRONG(x.dwell = -1, "dwell");
    WRONG(x.gain = NAN, "gain");
    WRONG(x.cost_ns[3] = -1, "cost_ns");
    WRONG(x.undo_cost_ns[4] = INT64_MAX, "undo_cost_ns");
    WRONG(x.at_once_ns = -1, "at_once_ns");
    WRONG(x.profile_every_ns = -1, "profile_every_ns");
    WRONG(x.queues = 65, "queues");
    WRONG(x.work = -1, "work");
    WRONG(x.effort = 0, "effort");
    close_job(&j);
}

static void wrong_jobs_are_refused(void **state) {
    (void)state;
    simulated_job j;
    slackline_orchestrator *o;
    slackline_problem *other;
    slackline_plan *plan;
    const double sums[] = {1, 1, -1, 1};
    const int split[] = {12, 13};
    const char *const hosts[8] = {"a"};
    make_job(&j, 2, ALL);
    works(slackline_problem_make(SLACKLINE_LINEAR, 5, 0, 12, &other));
    plan = plan_of(other, "1f1b");
    slackline_job x;
#undef WRONG
#define WRONG(change, says)                                                                                  \
    do {                                                                                                     \
        x = j.shape;                                                                                         \
        change;                                                                                              \
        refuses(slackline_orchestrator_open(&x, NULL, &o), says);                                            \
        assert_null(o);                                                                                      \
    } while (0)
    WRONG(x.replicas = 0, "replicas must be from 1");
    WRONG(x.ranks = -4, "ranks");
    WRONG(x.ranks = 5, "its problem has 4 ranks, the job 5");
    WRONG(x.tensor = 0, "tensor");
    WRONG(x.tensor = INT_MAX, "tensor");
    WRONG(x.tensor = 1000000, "processes");
    WRONG(x.can = 32, "can");
    WRONG(x.delegates = -1, "delegates");
    WRONG(x.message_bytes = -1, "message_bytes");
    WRONG(x.sum_bytes = sums, "sum_bytes");
    WRONG(x.host = hosts, "a host of the job is NULL");
    WRONG(x.split = split,
          "its first plan is for 4 ranks, 4 stages and 12 microbatches, linear; it has 4, 4 and 13");
    WRONG(x.first = NULL, "job->first is NULL");
    WRONG(x.problem = NULL, "job->problem is NULL");
    j.firsts[1] = NULL;
    WRONG((void)0, "a first plan of the job is NULL");
    j.firsts[1] = plan;
    WRONG((void)0, "replica 1: its first plan is for 5 ranks");
    j.problems[1] = other;
    WRONG((void)0, "replica 1: its problem has 5 ranks");
    j.problems[0] = NULL;
    WRONG((void)0, "a problem of the job is NULL");
    slackline_plan_free(plan);
    slackline_problem_free(other);
    close_job(&j);
}

static void wrong_iterations_are_refused_and_change_nothing(void **state) {
    (void)state;
    simulated_job j;
    slackline_measurements given[MAX_REPLICAS];
    slackline_iteration right, x;
    char *before, *after;
    open_job(&j, 2, ALL, NULL);
    for (int i = 0; i < 3; i++)
        observe_iteration(&j, i);
    works(slackline_orchestrator_save(j.orchestrator, &before, NULL));
    play_all(&j, 3, given, &right);
#undef WRONG
#define WRONG(change, says)                                                                                  \
    do {                                                                                                     \
        x = right;                                                                                           \
        change;                                                                                              \
        refuses(slackline_orchestrator_observe(j.orchestrator, &x), says);                                   \
    } while (0)
    WRONG(x.iteration = -1, "iteration");
    WRONG(x.iteration = 1, "iteration");
    WRONG(x.now_ns = 0, "comes after");
    WRONG(x.now_ns = INT64_MAX, "now_ns");
    WRONG(x.time_ns = -1, "time_ns");
    WRONG(x.work = NAN, "work");
    WRONG(x.clock_error_ns = -1, "clock_error_ns");
    double work[MAX_SPANS] = {1, INFINITY};
    given[1].span_work = work;
    WRONG((void)0, "the work of span 1 is not a finite number");
    given[1].span_work = NULL;
    given[1].transfer_work = work;
    WRONG((void)0, "the work of transfer 1");
    given[1].transfer_work = NULL;
    j.measured[1].span[5].op.stage = 4;
    WRONG((void)0, "span 5");
    j.measured[1].span[5].op.stage = 0;
    j.measured[1].transfer[9].to = 9;
    WRONG((void)0, "transfer 9: there is no link");
    given[0] = (slackline_measurements){.spans = 3};
    WRONG((void)0, "NULL");
    works(slackline_orchestrator_save(j.orchestrator, &after, NULL));
    assert_string_equal(before, after);
    slackline_free(before);
    slackline_free(after);
    close_job(&j);
}

static void wrong_reports_and_answers_are_refused(void **state) {
    (void)state;
    simulated_job j;
    slackline_plan *plan;
    slackline_problem *other;
    open_job(&j, 2, ALL, NULL);
    observe_iteration(&j, 0);
    slackline_orchestrator *o = j.orchestrator;
    const slackline_report right = {
        .slow = {.part = SLACKLINE_LINK, .a = 0, .b = 1, .latency_ns = {1e6, 1e6}}};
    slackline_report x;
#undef WRONG
#define WRONG(change, says)                                                                                  \
    do {                                                                                                     \
        x = right;                                                                                           \
        change;                                                                                              \
        refuses(slackline_orchestrator_report(o, j.now, &x), says);                                          \
    } while (0)
    WRONG(x.id = -1, "report->id");
    WRONG(x.slow.part = (slackline_part)3, "slow.part");
    WRONG(x.slow.a = 8, "slow.a must be from 0 to 7, got 8");
    WRONG(x.slow.b = -1, "slow.b");
    WRONG(x.slow.b = 0, "a link is between two processes");
    WRONG(x.slow.host = 1, "of a host");
    WRONG(x.slow.latency_ns[1] = NAN, "latency_ns");
    WRONG(x.slow.ns_per_byte[0] = -1, "ns_per_byte");
    WRONG((x.slow.part = SLACKLINE_DEVICE, x.slow.slowdown = 0.5), "slowdown");
    WRONG(x.loss = 2, "loss");
    refuses(slackline_orchestrator_report(o, INT64_MIN, &right), "now_ns");
    refuses(slackline_orchestrator_report(o, 0, &right), "back");
    slackline_network pair = {.from = 1, .to = 1};
    refuses(slackline_orchestrator_network(o, j.now, &pair, 1), "to itself");
    pair = (slackline_network){.to = 8};
    refuses(slackline_orchestrator_network(o, j.now, &pair, 1), "to must be from 0 to 7");
    pair = (slackline_network){.to = 1, .latency_ns = -1};
    refuses(slackline_orchestrator_network(o, j.now, &pair, 1), "latency_ns");
    refuses(slackline_orchestrator_network(o, j.now, &pair, SIZE_MAX), "more than");
    refuses(slackline_orchestrator_estimate(o, (slackline_strategy)5, 0),
            "strategy must be from 0 to 4, got 5");
    refuses(slackline_orchestrator_estimate(o, SLACKLINE_BALANCE, -1), "cost_ns");
    refuses(slackline_orchestrator_may_leave(o, "nowhere", 0), "nowhere");
    refuses(slackline_orchestrator_offer(o, 2, j.first), "replica must be from 0 to 1, got 2");
    works(slackline_problem_make(SLACKLINE_LINEAR, 4, 0, 11, &other));
    plan = plan_of(other, "1f1b");
    refuses(slackline_orchestrator_offer(o, 0, plan),
            "the plan is not for replica 0: 4 ranks, 4 stages, 12 microbatches");
    refuses(slackline_orchestrator_carried_out(o, 0, j.now, SLACKLINE_DONE, 0), "action 0 is not under way");
    refuses(slackline_orchestrator_carried_out(o, 0, j.now, (slackline_outcome)4, 0), "outcome");
    refuses(slackline_orchestrator_carried_out(o, 0, j.now, SLACKLINE_DONE, -1), "took_ns");
    refuses(slackline_orchestrator_skip(o, -1, j.now), "iterations");
    refuses(slackline_orchestrator_skip(o, 1, 0), "1 iterations are skipped");
    assert_int_equal(slackline_orchestrator_idle(o, -1), 0);
    slackline_plan_free(plan);
    slackline_problem_free(other);
    close_job(&j);
}

static void a_damaged_or_foreign_save_is_refused(void **state) {
    (void)state;
    static const char *const damaged[] = {"", "{", "[]", "null", "{}", "{\"format\": \"slackline-plan-1\"}"};
    simulated_job j, two;
    char *text;
    open_job(&j, 1, ALL, NULL);
    open_job(&two, 2, ALL, NULL);
    for (int i = 0; i < 20; i++)
        observe_iteration(&j, i);
    works(slackline_orchestrator_save(j.orchestrator, &text, NULL));
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++)
        assert_int_equal(slackline_orchestrator_load(two.orchestrator, damaged[i]), SLACKLINE_INVALID);
    assert_int_equal(slackline_orchestrator_load(two.orchestrator, text), SLACKLINE_INVALID);
    for (size_t cut = strlen(text); cut > 0; cut -= 1 + cut / 10) {
        char *part = strndup(text, cut - 1);
        assert_int_equal(slackline_orchestrator_load(two.orchestrator, part), SLACKLINE_INVALID);
        free(part);
    }
    char *incident = strdup(text), *at = strstr(incident, "\"incidents\":["); /* all before it is good */
    assert_non_null(at);
    char *end = strchr(at, ']'), *broken = malloc(strlen(text) + 32);
    sprintf(broken, "%.*s[7]%s", (int)(at + strlen("\"incidents\":[") - incident), incident, end);
    slackline_orchestrator *fresh;
    char *before, *after;
    works(slackline_orchestrator_open(&j.shape, NULL, &fresh));
    works(slackline_orchestrator_save(fresh, &before, NULL));
    refuses(slackline_orchestrator_load(fresh, broken), "an incident");
    works(slackline_orchestrator_save(fresh, &after, NULL));
    assert_string_equal(before, after);
    works(slackline_orchestrator_load(fresh, text));
    slackline_free(after);
    works(slackline_orchestrator_save(fresh, &after, NULL));
    assert_string_equal(after, text);
    slackline_orchestrator_close(fresh);
    slackline_free(before);
    slackline_free(after);
    free(broken);
    free(incident);
    slackline_free(text);
    close_job(&two);
    close_job(&j);
}

/* A report that is refused does not move the clock. */
static void what_is_refused_leaves_the_time_as_it_was(void **state) {
    (void)state;
    simulated_job j;
    open_job(&j, 1, ALL, NULL);
    observe_iteration(&j, 0);
    slackline_report over = {.id = 7, .over = 1};
    refuses(slackline_orchestrator_report(j.orchestrator, j.now + 1000000 * ms, &over),
            "report 7 is not open");
    observe_iteration(&j, 1);
    close_job(&j);
}

#define STEP(call)                                                                                           \
    do {                                                                                                     \
        if (status == SLACKLINE_OK)                                                                          \
            status = (call);                                                                                 \
    } while (0)

/* From the opening to a resume, with a slow link between: whatever fails ends it. */
static slackline_status whole_session(const simulated_job *j, const slackline_measurements *healthy,
                                      const slackline_measurements *slow) {
    slackline_orchestrator *o = NULL, *resumed = NULL;
    slackline_event event;
    slackline_action action;
    slackline_plan *plan = NULL;
    slackline_problem *question = NULL;
    char *text = NULL;
    int64_t time;
    slackline_report report = {.slow = {.a = 2, .b = -1, .slowdown = 2}, .loss = -1};
    slackline_status status = slackline_orchestrator_open(&j->shape, NULL, &o);
    for (int i = 0; i < 14 && status == SLACKLINE_OK; i++) {
        slackline_iteration iteration = {
            .iteration = i, .now_ns = i * 1000 * ms, .time_ns = 390 * ms, .replica = i < 7 ? healthy : slow};
        STEP(slackline_orchestrator_observe(o, &iteration));
        while (status == SLACKLINE_OK && slackline_orchestrator_event(o, &event))
            ;
        while (status == SLACKLINE_OK && slackline_orchestrator_action(o, &action)) {
            STEP(slackline_orchestrator_plan(o, 0, &plan));
            STEP(slackline_orchestrator_carried_out(o, action.id, i * 1000 * ms, SLACKLINE_FAILED, ms));
            slackline_plan_free(plan);
            plan = NULL;
        }
    }
    STEP(slackline_orchestrator_report(o, 14000 * ms, &report));
    STEP(slackline_orchestrator_forecast(o, 0, &time));
    STEP(slackline_orchestrator_question(o, 0, &question));
    STEP(slackline_orchestrator_offer(o, 0, j->first));
    STEP(slackline_orchestrator_save(o, &text, NULL));
    STEP(slackline_orchestrator_open(&j->shape, NULL, &resumed));
    STEP(slackline_orchestrator_load(resumed, text));
    slackline_problem_free(question);
    slackline_free(text);
    slackline_orchestrator_close(o);
    slackline_orchestrator_close(resumed);
    return status;
}

/* Leaks are the address sanitizer's to find. */
static void every_failed_allocation_is_a_status(void **state) {
    (void)state;
    simulated_job j;
    measured_replica *slow = calloc(1, sizeof *slow);
    int failed = 0, last = 0;
    make_job(&j, 1, SLACKLINE_CAN(SLACKLINE_SCHEDULE));
    set_delay(&j, 0, 60 * ms);
    play(&j, 0, 0);
    *slow = j.measured[0];
    slow->given.span = slow->span;
    slow->given.transfer = slow->transfer;
    set_delay(&j, 0, 0);
    play(&j, 0, 0);
    for (long n = 0;; n += 1 + n / 300) {
        sl_alloc_fail_at(n);
        slackline_status status = whole_session(&j, &j.measured[0].given, &slow->given);
        sl_alloc_fail_at(-1);
        last = status == SLACKLINE_OK ? last + 1 : 0;
        if (last == 3)
            break;
        assert_true(status == SLACKLINE_OK || status == SLACKLINE_NO_MEMORY);
        failed += status == SLACKLINE_NO_MEMORY;
        assert_true(n < 10000000);
    }
    assert_true(failed > 300);
    free(slow);
    close_job(&j);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_there_is_refused),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(wrong_jobs_are_refused),
        cmocka_unit_test(wrong_iterations_are_refused_and_change_nothing),
        cmocka_unit_test(wrong_reports_and_answers_are_refused),
        cmocka_unit_test(a_damaged_or_foreign_save_is_refused),
        cmocka_unit_test(what_is_refused_leaves_the_time_as_it_was),
        cmocka_unit_test(every_failed_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
