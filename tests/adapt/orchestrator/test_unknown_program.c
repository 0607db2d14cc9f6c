/* Reports on a program whose pipeline nobody knows become incidents of a ladder that can balance and restart.
 * By hand: 4 ranks, 100 ms healthy, 200 ms slow: half of the time is lost. */
#include "check.h"

#include "adapt/orchestrator/orchestrator.h"
#include "adapt/orchestrator/unknown.h"

#include <string.h>

typedef struct world {
    sl_orchestrator *o;
    sl_unknown_job job;
    int iteration;
    sl_time now;
    char decisions[65536];
    int onsets, reliefs, results, failures; /* events so far */
} world;

static void open_world(world *w) {
    *w = (world){.job = {.ranks = 4,
                         .nodes = 1,
                         .replicas = 4,
                         .microbatches = 8,
                         .lightest = -1,
                         .healthy = 100e6,
                         .level = 200e6,
                         .slow = 1}};
    sl_orchestrator_config config = sl_orchestrator_defaults();
    config.unknown = &w->job;
    config.can = 1u << SL_STRATEGY_BALANCE | 1u << SL_STRATEGY_RESTART;
    for (int s = 0; s < SL_STRATEGY_KINDS; s++)
        config.cost[s] = config.undo[s] = 0;
    config.cost[SL_STRATEGY_BALANCE] = 5 * SL_SECOND;
    config.cost[SL_STRATEGY_RESTART] = 1800 * SL_SECOND;
    assert_ok(sl_orchestrator_open(&config, &w->o));
}

static void close_world(world *w) {
    sl_orchestrator_close(w->o);
}

static void report(world *w, int id, sl_part_kind kind, int a, int b, double times) {
    sl_orchestrator_report slow = {
        .id = id, .part = {.kind = kind, .a = a, .b = b, .slowdown = times}, .loss = -1};
    assert_ok(sl_orchestrator_report_slow(w->o, w->now, &slow));
}

static void over(world *w, int id) {
    sl_orchestrator_report slow = {.id = id, .over = 1};
    assert_ok(sl_orchestrator_report_slow(w->o, w->now, &slow));
}

static void read_decisions(world *w) {
    const char *text = sl_orchestrator_decisions(w->o);
    sl_event e;
    while (sl_orchestrator_event(w->o, &e)) {
        w->onsets += e.kind == SL_EVENT_ONSET;
        w->reliefs += e.kind == SL_EVENT_RELIEF;
        w->results += strstr(e.facts, "\"step\":\"result\"") != NULL;
        w->failures += strstr(e.facts, "\"step\":\"failed\"") != NULL;
    }
    if (text)
        strncat(w->decisions, text, sizeof w->decisions - strlen(w->decisions) - 1);
}

/* So many iterations of the level, and the program as it is then. */
static void follow(world *w, int iterations) {
    w->iteration += iterations;
    w->now += (sl_time)(iterations * w->job.level);
    sl_orchestrator_iteration seen = {.iteration = w->iteration, .now = w->now, .unknown = &w->job};
    assert_ok(sl_orchestrator_observe(w->o, &seen));
    read_decisions(w);
}

static void become_healthy(world *w) {
    w->job.slow = 0;
    w->job.level = w->job.healthy;
    w->job.changes++;
}

/* The incident; NULL: it does not last. */
static const sl_incident_view *lasting(const world *w, int id) {
    int count;
    const sl_incident_view *list = sl_orchestrator_incidents(w->o, &count);
    for (int i = 0; i < count; i++)
        if (list[i].id == id)
            return &list[i];
    return NULL;
}

static const sl_incident_view *incident(const world *w, int id) {
    const sl_incident_view *view = lasting(w, id);
    assert_non_null(view);
    return view;
}

/* What is wanted next must be to balance, for one second. */
static void carry_out(world *w, sl_outcome outcome) {
    sl_orchestrator_action action;
    assert_true(sl_orchestrator_next(w->o, &action));
    assert_int_equal(action.strategy, SL_STRATEGY_BALANCE);
    assert_false(action.undo);
    assert_ok(sl_orchestrator_carried_out(w->o, action.id, w->now, outcome, SL_SECOND));
    read_decisions(w);
}

static void a_loss_is_divided_among_all_that_is_reported(void **state) {
    (void)state;
    world w;
    open_world(&w);
    report(&w, 7, SL_PART_DEVICE, 2, -1, 2);
    report(&w, 3, SL_PART_LINK, 0, 1, 2);
    assert_int_equal(w.onsets, 0); /* noted, no more */
    follow(&w, 1);
    assert_int_equal(w.onsets, 2);
    assert_near(incident(&w, 7)->loss, 0.25, 1e-12);
    assert_near(incident(&w, 3)->loss, 0.25, 1e-12);
    over(&w, 3);
    follow(&w, 1);
    assert_null(lasting(&w, 3));
    follow(&w, 1);
    assert_near(incident(&w, 7)->loss, 0.5, 1e-12);
    size_t decided = strlen(w.decisions);
    follow(&w, 10); /* nothing is new */
    assert_int_equal(strlen(w.decisions), decided);
    sl_orchestrator_report wrong = {.id = -1};
    assert_fails(sl_orchestrator_report_slow(w.o, w.now, &wrong), SL_EINVAL, "negative");
    close_world(&w);
}

/* 0.5 s a second are lost: what costs 5 s is worth it after 10 s, 50 iterations. */
static void what_an_action_brought_is_measured_when_the_level_has_settled(void **state) {
    (void)state;
    world w;
    open_world(&w);
    report(&w, 0, SL_PART_DEVICE, 2, -1, 2);
    follow(&w, 1);
    follow(&w, 51);
    carry_out(&w, SL_OUTCOME_DONE);
    assert_true(incident(&w, 0)->awaited);
    w.job.level = 150e6; /* no change point is seen */
    follow(&w, 19);
    assert_int_equal(w.results, 0);
    follow(&w, 1);
    assert_int_equal(w.results, 1);
    assert_false(incident(&w, 0)->awaited);
    assert_near(incident(&w, 0)->loss, 1.0 / 3, 1e-12);
    close_world(&w);
    /* a change that is seen does not wait */
    open_world(&w);
    report(&w, 0, SL_PART_DEVICE, 2, -1, 2);
    follow(&w, 1);
    follow(&w, 51);
    carry_out(&w, SL_OUTCOME_DONE);
    follow(&w, 1);
    assert_int_equal(w.results, 0);
    w.job.level = 150e6;
    w.job.changes++;
    follow(&w, 1);
    assert_int_equal(w.results, 1);
    close_world(&w);
}

static void a_balance_that_heals_is_no_end_of_the_incident(void **state) {
    (void)state;
    world w;
    open_world(&w);
    report(&w, 0, SL_PART_DEVICE, 2, -1, 2);
    follow(&w, 1);
    follow(&w, 51);
    carry_out(&w, SL_OUTCOME_DONE);
    become_healthy(&w);
    follow(&w, 1);
    assert_true(lasting(&w, 0) != NULL);
    assert_near(incident(&w, 0)->loss, 0, 0);
    assert_int_equal(w.reliefs, 0);
    follow(&w, 1000);
    assert_true(lasting(&w, 0) != NULL);
    close_world(&w);
    /* without one it is */
    open_world(&w);
    report(&w, 0, SL_PART_DEVICE, 2, -1, 2);
    follow(&w, 1);
    become_healthy(&w);
    follow(&w, 1);
    assert_null(lasting(&w, 0));
    assert_int_equal(w.reliefs, 1);
    close_world(&w);
}

static void who_is_named_no_longer_is_well_unless_something_was_done(void **state) {
    (void)state;
    world w;
    open_world(&w);
    report(&w, 0, SL_PART_DEVICE, 2, -1, 2);
    follow(&w, 1);
    follow(&w, 51);
    carry_out(&w, SL_OUTCOME_DONE);
    over(&w, 0);
    report(&w, 1, SL_PART_LINK, 0, 1, 2);
    follow(&w, 1);
    assert_true(lasting(&w, 0) != NULL);
    over(&w, 1);
    report(&w, 2, SL_PART_LINK, 1, 2, 2);
    follow(&w, 1);
    assert_null(lasting(&w, 1));
    assert_true(lasting(&w, 2) != NULL);
    close_world(&w);
}

static void what_is_refused_is_not_asked_for_again(void **state) {
    (void)state;
    world w;
    sl_strategy_view balance;
    sl_orchestrator_action action;
    open_world(&w);
    report(&w, 0, SL_PART_DEVICE, 2, -1, 2);
    follow(&w, 1);
    follow(&w, 51);
    carry_out(&w, SL_OUTCOME_REFUSED);
    assert_true(sl_orchestrator_considered(w.o, 0, SL_STRATEGY_BALANCE, &balance));
    assert_int_equal(balance.reason, SL_REASON_CANNOT_HELP);
    assert_true(*balance.why);
    for (int i = 0; i < 1000; i++) {
        follow(&w, 1);
        assert_false(sl_orchestrator_next(w.o, &action));
    }
    close_world(&w);
}

static void an_action_says_what_it_costs_and_brings(void **state) {
    (void)state;
    world w;
    sl_orchestrator_action action, more;
    sl_strategy_view balance;
    open_world(&w);
    report(&w, 5, SL_PART_DEVICE, 2, -1, 2);
    follow(&w, 1);
    assert_false(sl_orchestrator_next(w.o, &action));
    follow(&w, 51); /* of 200 ms */
    assert_true(sl_orchestrator_next(w.o, &action));
    assert_int_equal(action.what, SL_DO_LAYOUT);
    assert_int_equal(action.count, 1);
    assert_int_equal(action.incidents[0], 5);
    assert_near(action.loss, 0.5, 1e-12);
    assert_near(action.expected, 0.2, 1e-12); /* test_unknown.c */
    assert_int_equal(action.cost, 5 * SL_SECOND);
    assert_int_equal(action.lost, 5 * SL_SECOND); /* counted up to what it costs */
    assert_false(sl_orchestrator_next(w.o, &more));
    assert_ok(sl_orchestrator_carried_out(w.o, action.id + 1, w.now, SL_OUTCOME_DONE, 0)); /* another one */
    assert_false(sl_orchestrator_next(w.o, &more));
    /* healthy while it is under way: neither before nor after it */
    become_healthy(&w);
    follow(&w, 1);
    assert_near(incident(&w, 5)->loss, 0.5, 1e-12);
    assert_ok(sl_orchestrator_carried_out(w.o, action.id, w.now, SL_OUTCOME_DONE, 2 * SL_SECOND));
    assert_true(sl_orchestrator_considered(w.o, 5, SL_STRATEGY_BALANCE, &balance));
    assert_true(balance.in_effect);
    assert_int_equal(balance.reason, SL_REASON_IN_EFFECT);
    follow(&w, 1);
    assert_near(incident(&w, 5)->loss, 0, 0);
    close_world(&w);
}

static void an_advice_that_nobody_carries_out_is_given_three_times(void **state) {
    (void)state;
    world w;
    sl_orchestrator_action action;
    int given = 0;
    open_world(&w);
    report(&w, 0, SL_PART_DEVICE, 2, -1, 2);
    for (int i = 0; i < 1000; i++) {
        follow(&w, 1);
        if (!sl_orchestrator_next(w.o, &action))
            continue;
        given++;
        assert_ok(sl_orchestrator_carried_out(w.o, action.id, w.now, SL_OUTCOME_ADVISED, 0));
    }
    assert_int_equal(given, 3);
    assert_int_equal(w.failures, 0);
    close_world(&w);
}

static void time_does_not_go_back(void **state) {
    (void)state;
    world w;
    open_world(&w);
    follow(&w, 10);
    follow(&w, 0); /* the same again is fine */
    sl_orchestrator_iteration back = {.iteration = w.iteration, .now = w.now - 1};
    assert_fails(sl_orchestrator_observe(w.o, &back), SL_EINVAL, "comes after");
    back = (sl_orchestrator_iteration){.iteration = w.iteration - 1, .now = w.now};
    assert_fails(sl_orchestrator_observe(w.o, &back), SL_EINVAL, "comes after");
    close_world(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loss_is_divided_among_all_that_is_reported),
        cmocka_unit_test(what_an_action_brought_is_measured_when_the_level_has_settled),
        cmocka_unit_test(a_balance_that_heals_is_no_end_of_the_incident),
        cmocka_unit_test(who_is_named_no_longer_is_well_unless_something_was_done),
        cmocka_unit_test(what_is_refused_is_not_asked_for_again),
        cmocka_unit_test(an_action_says_what_it_costs_and_brings),
        cmocka_unit_test(an_advice_that_nobody_carries_out_is_given_three_times),
        cmocka_unit_test(time_does_not_go_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
