/* The ladder: what it does about incidents, when, why, and how it takes it back. Expected times are by hand:
 * an incident that loses 0.2 a second has lost a cost of 60 s after 300 s. */
#include "check.h"

#include "adapt/ladder/ladder.h"
#include "base/memory.h"

#include <math.h>

enum { ADAPT, DELEGATE, BALANCE, TOPOLOGY, RESTART, STRATEGIES };

/* What the model says would remain of any incident's loss, per strategy; 1: no help. */
typedef struct model {
    double left[STRATEGIES], keeping[STRATEGIES];
    int applied[STRATEGIES], undone[STRATEGIES];
    sl_ladder *ladder;
} model;

typedef struct answer {
    model *model;
    int strategy;
} answer;

static double remaining(void *user, const sl_incident *incident) {
    const answer *a = user;
    return a->model->left[a->strategy] * incident->loss;
}

static double keeping(void *user, const sl_incident *incident) {
    const answer *a = user;
    (void)incident;
    return a->model->keeping[a->strategy];
}

static answer answers[STRATEGIES];

static sl_time at(double seconds) {
    return (sl_time)llround(seconds * 1e9);
}

/* The ladder of a training job: next to nothing, 5 s, 60 s, 1800 s. */
static void open_ladder(model *m, const double *left) {
    static const struct {
        const char *name;
        unsigned causes;
        double cost;
        int replaces;
    } table[] = {{"adapt the schedule", SL_CAUSE_LINK | SL_CAUSE_DEVICE, 0.005, 0},
                 {"delegate", SL_CAUSE_LINK, 0.05, 0},
                 {"balance microbatches", SL_CAUSE_DEVICE, 5, 0},
                 {"change the topology", SL_CAUSES_ANY, 60, 0},
                 {"restart", SL_CAUSES_ANY, 1800, 1}};
    sl_strategy strategies[STRATEGIES];
    *m = (model){0};
    for (int s = 0; s < STRATEGIES; s++) {
        m->left[s] = left[s];
        answers[s] = (answer){m, s};
        strategies[s] = (sl_strategy){.name = table[s].name,
                                      .causes = table[s].causes,
                                      .cost = at(table[s].cost),
                                      .replaces = table[s].replaces,
                                      .remaining = remaining,
                                      .keeping = keeping,
                                      .user = &answers[s]};
    }
    sl_ladder_config config = sl_ladder_defaults();
    config.profile_every = 0;
    assert_ok(sl_ladder_open(&config, strategies, STRATEGIES, &m->ladder));
}

static void begins(model *m, double now, int id, sl_cause cause, double loss) {
    sl_incident incident = {.id = id, .cause = cause, .loss = loss, .seen = "link 0-1: 60 ms one way"};
    assert_ok(sl_ladder_begins(m->ladder, at(now), &incident));
}

/* Nothing is due before `now`, and then it is `strategy`; carries it out. */
static void expect(model *m, double now, sl_action_kind kind, int strategy, int count, double took) {
    sl_action action;
    sl_time due = sl_ladder_due(m->ladder);
    assert_near((double)due / 1e9, now, 1e-6);
    assert_ok(sl_ladder_next(m->ladder, due, &action));
    assert_int_equal(action.kind, kind);
    assert_int_equal(action.strategy, strategy);
    assert_int_equal(action.count, count);
    assert_true(action.incidents[0] >= 0);
    (kind == SL_ACTION_APPLY ? m->applied : m->undone)[strategy]++;
    assert_ok(sl_ladder_ended(m->ladder, due, at(took), 1));
}

static void expect_nothing(model *m, double now) {
    sl_action action;
    assert_ok(sl_ladder_next(m->ladder, at(now), &action));
    assert_int_equal(action.kind, SL_ACTION_NONE);
}

static sl_ladder_reason last_reason(const model *m, int strategy) {
    size_t count;
    const sl_ladder_entry *log = sl_ladder_log(m->ladder, &count);
    for (size_t i = count; i-- > 0;)
        if (log[i].kind == SL_LADDER_CONSIDERED && log[i].strategy == strategy)
            return log[i].reason;
    return SL_REASON_NONE;
}

static void
a_strategy_is_applied_when_the_time_lost_equals_its_cost_and_what_it_took_replaces_the_cost(void **state) {
    (void)state;
    model m;
    open_ladder(&m, (double[]){1, 1, 1, 0.1, 1});
    begins(&m, 0, 7, SL_CAUSE_REPLICA_LINK, 0.2);
    expect_nothing(&m, 299.9);
    expect(&m, 300, SL_ACTION_APPLY, TOPOLOGY, 1, 45);
    assert_int_equal(m.applied[TOPOLOGY], 1);
    assert_true(sl_ladder_cost(m.ladder, TOPOLOGY) == at(45));
    assert_true(sl_ladder_in_effect(m.ladder, TOPOLOGY));
    /* another incident pays 45 for it */
    begins(&m, 1000, 8, SL_CAUSE_REPLICA_LINK, 0.5);
    expect(&m, 1090, SL_ACTION_APPLY, TOPOLOGY, 1, 45);
    sl_ladder_close(m.ladder);
}

static void what_costs_next_to_nothing_comes_at_once_and_the_rest_by_what_then_remains(void **state) {
    (void)state;
    model m;
    open_ladder(&m, (double[]){0.5, 0.5, 1, 0.1, 1});
    begins(&m, 10, 1, SL_CAUSE_LINK, 0.8);
    expect(&m, 10, SL_ACTION_APPLY, ADAPT, 1, 0.005);
    expect(&m, 10, SL_ACTION_APPLY, DELEGATE, 1, 0.05);
    /* 0.2 a second remain: 60 s are lost after 300 */
    expect(&m, 310, SL_ACTION_APPLY, TOPOLOGY, 1, 60);
    sl_ladder_close(m.ladder);
}

static void cheaper_strategies_come_first_and_dearer_ones_when_they_do_not_help_enough(void **state) {
    (void)state;
    model m;
    open_ladder(&m, (double[]){1, 1, 0.5, 0.5, 0});
    begins(&m, 0, 1, SL_CAUSE_DEVICE, 0.4);
    /* 5 s lost after 12.5 s; then 0.2 a second */
    expect(&m, 12.5, SL_ACTION_APPLY, BALANCE, 1, 5);
    assert_int_equal(last_reason(&m, TOPOLOGY), SL_REASON_SKIPPED); /* leaves as much as the balance */
    /* 1795 more at 0.2 */
    expect(&m, 12.5 + 8975, SL_ACTION_APPLY, RESTART, 1, 1800);
    expect_nothing(&m, 100000);
    /* the restart has replaced what was in effect */
    assert_false(sl_ladder_in_effect(m.ladder, BALANCE));
    assert_true(sl_ladder_in_effect(m.ladder, RESTART));
    sl_ladder_close(m.ladder);
}

static void what_cannot_help_or_is_for_another_cause_is_left_out_and_the_log_says_so(void **state) {
    (void)state;
    model m;
    open_ladder(&m, (double[]){0.97, 0.2, 0.2, 1, 1});
    begins(&m, 0, 1, SL_CAUSE_DEVICE, 0.3);
    assert_int_equal(last_reason(&m, ADAPT), SL_REASON_CANNOT_HELP); /* 3 % of the loss is less than 5 % */
    assert_int_equal(last_reason(&m, DELEGATE), SL_REASON_OTHER_CAUSE);
    assert_int_equal(last_reason(&m, BALANCE), SL_REASON_WAITS);
    assert_int_equal(last_reason(&m, TOPOLOGY), SL_REASON_CANNOT_HELP);
    sl_ladder_close(m.ladder);
}

static void incidents_that_one_strategy_answers_pay_for_it_together(void **state) {
    (void)state;
    model m;
    open_ladder(&m, (double[]){1, 1, 1, 0.1, 1});
    begins(&m, 0, 1, SL_CAUSE_REPLICA_LINK, 0.1);
    begins(&m, 100, 2, SL_CAUSE_REPLICA_LINK, 0.4);
    /* 10 at 100 s, then 0.5 a second: 60 at 200 s */
    expect(&m, 200, SL_ACTION_APPLY, TOPOLOGY, 2, 60);
    assert_int_equal(m.applied[TOPOLOGY], 1);
    expect_nothing(&m, 10000);
    sl_ladder_close(m.ladder);
}

static void incidents_that_no_strategy_has_in_common_pay_each_for_itself(void **state) {
    (void)state;
    model m;
    open_ladder(&m, (double[]){1, 1, 0.1, 1, 1});
    begins(&m, 0, 1, SL_CAUSE_LINK, 0.9);
    begins(&m, 0, 2, SL_CAUSE_DEVICE, 0.1);
    expect(&m, 50, SL_ACTION_APPLY, BALANCE, 1, 5);
    sl_ladder_close(m.ladder);
}

static void new_information_moves_the_moment_and_the_time_lost_counts_on(void **state) {
    (void)state;
    model m;
    open_ladder(&m, (double[]){1, 1, 1, 0.1, 1});
    begins(&m, 0, 1, SL_CAUSE_REPLICA_LINK, 0.2);
    assert_ok(sl_ladder_changes(m.ladder, at(150), 1, 0.4)); /* 30 lost, 30 more take 75 s */
    expect(&m, 225, SL_ACTION_APPLY, TOPOLOGY, 1, 60);
    /* its effect is as predicted: nothing to do */
    assert_ok(sl_ladder_changes(m.ladder, at(230), 1, 0.04));
    expect_nothing(&m, 3000);
    /* then it gets worse, and the model has an answer: as much again must be lost first */
    assert_ok(sl_ladder_changes(m.ladder, at(3000), 1, 0.5));
    expect(&m, 3120, SL_ACTION_APPLY, TOPOLOGY, 1, 60);
    assert_int_equal(m.applied[TOPOLOGY], 2);
    sl_ladder_close(m.ladder);
}

static void a_strategy_that_brought_less_than_foretold_is_not_applied_again_for_that(void **state) {
    (void)state;
    model m;
    open_ladder(&m, (double[]){1, 1, 1, 0.1, 0});
    begins(&m, 0, 1, SL_CAUSE_REPLICA_LINK, 0.2);
    expect(&m, 300, SL_ACTION_APPLY, TOPOLOGY, 1, 60);
    assert_ok(sl_ladder_changes(m.ladder, at(310), 1, 0.2)); /* nothing at all */
    assert_int_equal(last_reason(&m, TOPOLOGY), SL_REASON_IN_EFFECT);
    /* 62 lost by then where 0.02 was believed for 10 s: 60.2; 1739.8 more at 0.2 */
    expect(&m, 310 + 8699, SL_ACTION_APPLY, RESTART, 1, 1800);
    sl_ladder_close(m.ladder);
}

static void
a_failed_application_comes_again_after_twice_the_loss_and_three_failures_are_enough(void **state) {
    (void)state;
    model m;
    sl_action action;
    open_ladder(&m, (double[]){1, 1, 1, 0.1, 1});
    begins(&m, 0, 1, SL_CAUSE_REPLICA_LINK, 0.2);
    for (int attempt = 0; attempt < 3; attempt++) {
        double when = 300 * (1 << attempt);
        sl_time due = sl_ladder_due(m.ladder);
        assert_near((double)due / 1e9, when, 1e-6);
        assert_ok(sl_ladder_next(m.ladder, due, &action));
        assert_int_equal(action.kind, SL_ACTION_APPLY);
        assert_ok(sl_ladder_ended(m.ladder, due, 0, 0));
    }
    assert_true(sl_ladder_due(m.ladder) == SL_TIME_NEVER);
    assert_int_equal(last_reason(&m, TOPOLOGY), SL_REASON_FAILED);
    assert_false(sl_ladder_in_effect(m.ladder, TOPOLOGY));
    sl_ladder_close(m.ladder);
}

static void while_the_job_stands_still_for_an_application_nothing_else_is_lost(void **state) {
    (void)state;
    model m;
    sl_action action;
    open_ladder(&m, (double[]){1, 1, 0.5, 0.1, 1});
    begins(&m, 0, 1, SL_CAUSE_DEVICE, 0.5);
    assert_ok(sl_ladder_next(m.ladder, at(10), &action));
    assert_int_equal(action.strategy, BALANCE);
    expect_nothing(&m, 15); /* one at a time */
    /* 10 s later, of which the job stood still for 6: 2 s lost in the others */
    assert_ok(sl_ladder_ended(m.ladder, at(20), at(6), 1));
    /* 5 + 2 lost; 53 more at 0.25 */
    expect(&m, 20 + 212, SL_ACTION_APPLY, TOPOLOGY, 1, 60);
    sl_ladder_close(m.ladder);
}

static void after_relief_a_strategy_is_undone_when_keeping_it_has_lost_its_cost(void **state) {
    (void)state;
    model m;
    open_ladder(&m, (double[]){1, 1, 0.1, 1, 1});
    m.keeping[BALANCE] = 0.01;
    begins(&m, 0, 1, SL_CAUSE_DEVICE, 0.5);
    expect(&m, 10, SL_ACTION_APPLY, BALANCE, 1, 4);
    assert_ok(sl_ladder_relieved(m.ladder, at(100), 1));
    expect(&m, 500, SL_ACTION_UNDO, BALANCE, 1, 1);
    assert_int_equal(m.undone[BALANCE], 1);
    assert_false(sl_ladder_in_effect(m.ladder, BALANCE));
    assert_true(sl_ladder_due(m.ladder) == SL_TIME_NEVER);
    sl_ladder_close(m.ladder);
}

static void what_loses_nothing_by_staying_stays_and_cheap_things_wait_for_calm(void **state) {
    (void)state;
    model m;
    open_ladder(&m, (double[]){0.5, 0.1, 1, 1, 1});
    m.keeping[ADAPT] = 0.5;
    begins(&m, 0, 1, SL_CAUSE_LINK, 0.5);
    expect(&m, 0, SL_ACTION_APPLY, ADAPT, 1, 0.005);
    expect(&m, 0, SL_ACTION_APPLY, DELEGATE, 1, 0.05);
    assert_ok(sl_ladder_relieved(m.ladder, at(100), 1));
    expect(&m, 110, SL_ACTION_UNDO, ADAPT, 1, 0.005); /* 5 ms are lost after 10 ms, calm is 10 s */
    assert_true(sl_ladder_due(m.ladder) == SL_TIME_NEVER);
    assert_true(sl_ladder_in_effect(m.ladder, DELEGATE));
    sl_ladder_close(m.ladder);
}

static void nothing_is_undone_while_another_incident_needs_it(void **state) {
    (void)state;
    model m;
    open_ladder(&m, (double[]){1, 1, 1, 0.1, 1});
    m.keeping[TOPOLOGY] = 0.1;
    begins(&m, 0, 1, SL_CAUSE_HOST, 0.3);
    begins(&m, 0, 2, SL_CAUSE_HOST, 0.3);
    expect(&m, 100, SL_ACTION_APPLY, TOPOLOGY, 2, 60);
    assert_ok(sl_ladder_relieved(m.ladder, at(200), 1));
    assert_true(sl_ladder_due(m.ladder) == SL_TIME_NEVER);
    assert_ok(sl_ladder_relieved(m.ladder, at(5000), 2));
    /* both keep: 0.2 a second; what it saved for the second was more than what it lost for the first */
    expect(&m, 5300, SL_ACTION_UNDO, TOPOLOGY, 2, 60);
    sl_ladder_close(m.ladder);
}

static void what_an_incident_has_lost_counts_when_it_comes_again(void **state) {
    (void)state;
    model m;
    open_ladder(&m, (double[]){1, 1, 1, 0.1, 1});
    m.keeping[TOPOLOGY] = 0.05;
    begins(&m, 0, 1, SL_CAUSE_HOST, 0.2);
    assert_ok(sl_ladder_relieved(m.ladder, at(250), 1)); /* 50 lost */
    begins(&m, 450, 1, SL_CAUSE_HOST, 0.2);              /* having it would have lost 10 since */
    expect(&m, 550, SL_ACTION_APPLY, TOPOLOGY, 1, 60);   /* 40 + 20 */
    sl_ladder_close(m.ladder);
}

static void the_network_is_profiled_periodically_without_an_incident(void **state) {
    (void)state;
    sl_ladder *l;
    sl_action action;
    sl_ladder_config config = sl_ladder_defaults();
    config.profile_every = at(600);
    assert_ok(sl_ladder_open(&config, NULL, 0, &l));
    for (int i = 1; i <= 3; i++) {
        assert_true(sl_ladder_due(l) == at(600.0 * i));
        assert_ok(sl_ladder_next(l, at(600.0 * i), &action));
        assert_int_equal(action.kind, SL_ACTION_PROFILE);
        assert_ok(sl_ladder_next(l, at(600.0 * i + 1), &action));
        assert_int_equal(action.kind, SL_ACTION_NONE);
    }
    sl_ladder_close(l);
}

static void has_line(const char *text, const char *name, const char *facts) {
    if (!line_has(text, name, facts))
        fail_msg("no line on %s has '%s'", name, facts);
}

static void a_person_can_read_why(void **state) {
    (void)state;
    model m;
    open_ladder(&m, (double[]){0.97, 1, 0.5, 0.2, 1});
    begins(&m, 12, 3, SL_CAUSE_HOST, 0.2);
    expect(&m, 312, SL_ACTION_APPLY, TOPOLOGY, 1, 48);
    assert_ok(sl_ladder_changes(m.ladder, at(400), 3, 0.041));
    assert_ok(sl_ladder_relieved(m.ladder, at(1000), 3));
    char text[4096] = "", one[256];
    size_t entries;
    const sl_ladder_entry *log = sl_ladder_log(m.ladder, &entries);
    for (size_t i = 0; i < entries; i++) {
        sl_ladder_entry_text(m.ladder, &log[i], one, sizeof one);
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%10.3f s  %s\n", (double)log[i].time / 1e9, one);
    }
    has_line(text, "incident 3", "12.000 link 0-1 60 20.0");
    has_line(text, "adapt the schedule", "");
    has_line(text, "change the topology", "60 20.0 4.0");
    has_line(text, "restart", "20.0");
    has_line(text, "change the topology", "312.000 3 60 20.0 4.0");
    has_line(text, "change the topology", "48");
    has_line(text, "change the topology", "3 4.1 4.0");
    has_line(text, "incident 3", "1000.000");
    sl_ladder_close(m.ladder);
}

static void wrong_requests_are_refused(void **state) {
    (void)state;
    model m;
    sl_ladder *l;
    sl_ladder_config config = sl_ladder_defaults();
    sl_strategy nothing = {.name = "nothing"}, negative = {.name = "x", .remaining = remaining, .cost = -1};
    assert_fails(sl_ladder_open(&config, &nothing, 1, &l), SL_EINVAL, "what would remain");
    assert_fails(sl_ladder_open(&config, &negative, 1, &l), SL_EINVAL, "'x' has a negative cost");
    assert_fails(sl_ladder_open(&config, &negative, 9, &l), SL_EINVAL, "at most 8");
    open_ladder(&m, (double[]){1, 1, 1, 0.1, 1});
    begins(&m, 10, 1, SL_CAUSE_HOST, 0.2);
    sl_incident again = {.id = 1, .cause = SL_CAUSE_HOST, .loss = 0.1};
    assert_fails(sl_ladder_begins(m.ladder, at(11), &again), SL_EINVAL, "has not been relieved");
    assert_fails(sl_ladder_changes(m.ladder, at(9), 1, 0.1), SL_EINVAL, "goes back by 2000.000 ms");
    assert_fails(sl_ladder_changes(m.ladder, at(12), 2, 0.1), SL_EINVAL, "has not begun");
    assert_fails(sl_ladder_changes(m.ladder, at(12), 1, NAN), SL_EINVAL, "nan");
    assert_fails(sl_ladder_relieved(m.ladder, at(12), 2), SL_EINVAL, "has not begun");
    assert_fails(sl_ladder_ended(m.ladder, at(12), 0, 1), SL_EINVAL, "nothing was under way");
    sl_ladder_close(m.ladder);
}

static sl_status many(model *m) {
    sl_action action;
    sl_incident incident = {.cause = SL_CAUSE_HOST, .loss = 0.2};
    for (incident.id = 0; incident.id < 20; incident.id++)
        SL_TRY(sl_ladder_begins(m->ladder, 0, &incident));
    SL_TRY(sl_ladder_next(m->ladder, at(100), &action));
    assert_int_equal(action.count, 20);
    return sl_ladder_ended(m->ladder, at(100), at(60), 1);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    for (long n = 0;; n++) {
        model m;
        open_ladder(&m, (double[]){1, 1, 1, 0.1, 1});
        sl_alloc_fail_at(n);
        sl_status status = many(&m);
        sl_alloc_fail_at(-1);
        sl_ladder_close(m.ladder);
        if (status == SL_OK) {
            assert_true(n > 5);
            break;
        }
        assert_int_equal(status, SL_ENOMEM);
    }
}

/* Failures belong to the incident: the next one pays the plain cost, and has three attempts of its own. */
static void failures_are_forgotten_when_nothing_is_slow_any_more(void **state) {
    (void)state;
    model m;
    sl_action action;
    open_ladder(&m, (double[]){1, 1, 1, 0.1, 1});
    begins(&m, 0, 1, SL_CAUSE_REPLICA_LINK, 0.2);
    for (int attempt = 0; attempt < 3; attempt++) {
        sl_time due = sl_ladder_due(m.ladder);
        assert_ok(sl_ladder_next(m.ladder, due, &action));
        assert_ok(sl_ladder_ended(m.ladder, due, 0, 0));
    }
    begins(&m, 2000, 2, SL_CAUSE_REPLICA_LINK, 0.2); /* while the first lasts: no fourth attempt */
    assert_true(sl_ladder_due(m.ladder) == SL_TIME_NEVER);
    assert_ok(sl_ladder_relieved(m.ladder, at(3000), 1));
    assert_true(sl_ladder_due(m.ladder) == SL_TIME_NEVER);
    assert_ok(sl_ladder_relieved(m.ladder, at(4000), 2));
    begins(&m, 5000, 3, SL_CAUSE_REPLICA_LINK, 0.2);
    expect(&m, 5300, SL_ACTION_APPLY, TOPOLOGY, 1, 60);
    sl_ladder_close(m.ladder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_strategy_is_applied_when_the_time_lost_equals_its_cost_and_what_it_took_replaces_the_cost),
        cmocka_unit_test(what_costs_next_to_nothing_comes_at_once_and_the_rest_by_what_then_remains),
        cmocka_unit_test(cheaper_strategies_come_first_and_dearer_ones_when_they_do_not_help_enough),
        cmocka_unit_test(what_cannot_help_or_is_for_another_cause_is_left_out_and_the_log_says_so),
        cmocka_unit_test(incidents_that_one_strategy_answers_pay_for_it_together),
        cmocka_unit_test(incidents_that_no_strategy_has_in_common_pay_each_for_itself),
        cmocka_unit_test(new_information_moves_the_moment_and_the_time_lost_counts_on),
        cmocka_unit_test(a_strategy_that_brought_less_than_foretold_is_not_applied_again_for_that),
        cmocka_unit_test(a_failed_application_comes_again_after_twice_the_loss_and_three_failures_are_enough),
        cmocka_unit_test(while_the_job_stands_still_for_an_application_nothing_else_is_lost),
        cmocka_unit_test(after_relief_a_strategy_is_undone_when_keeping_it_has_lost_its_cost),
        cmocka_unit_test(what_loses_nothing_by_staying_stays_and_cheap_things_wait_for_calm),
        cmocka_unit_test(nothing_is_undone_while_another_incident_needs_it),
        cmocka_unit_test(what_an_incident_has_lost_counts_when_it_comes_again),
        cmocka_unit_test(the_network_is_profiled_periodically_without_an_incident),
        cmocka_unit_test(a_person_can_read_why),
        cmocka_unit_test(wrong_requests_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(failures_are_forgotten_when_nothing_is_slow_any_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
