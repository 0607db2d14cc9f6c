/* Reports on a program whose pipeline nobody knows become incidents of a ladder that can balance and restart.
 * By hand: 4 ranks, 100 ms healthy, 200 ms slow: half of the time is lost. */
#include "check.h"

#include "adapt/orchestrator/unknown_incidents.h"

typedef struct world {
    sl_unknown *unknown;
    sl_ladder *ladder;
    sl_unknown_job job;
    int iteration;
    sl_time now;
} world;

static double leaves_balanced(void *user, const sl_incident *incident) {
    return sl_unknown_leaves(((world *)user)->unknown, SL_STRATEGY_BALANCE, incident);
}

static double leaves_restarted(void *user, const sl_incident *incident) {
    return sl_unknown_leaves(((world *)user)->unknown, SL_STRATEGY_RESTART, incident);
}

static void open_world(world *w) {
    sl_ladder_config config = sl_ladder_defaults();
    sl_strategy strategies[] = {{.name = "balance",
                                 .causes = SL_CAUSE_DEVICE | SL_CAUSE_HOST,
                                 .cost = 5 * SL_SECOND,
                                 .remaining = leaves_balanced,
                                 .user = w},
                                {.name = "restart",
                                 .causes = SL_CAUSES_ANY,
                                 .cost = 1800 * SL_SECOND,
                                 .remaining = leaves_restarted,
                                 .user = w}};
    config.profile_every = 0;
    *w = (world){.job = {.ranks = 4,
                         .nodes = 1,
                         .replicas = 4,
                         .microbatches = 8,
                         .lightest = -1,
                         .healthy = 100e6,
                         .level = 200e6,
                         .slow = 1}};
    assert_ok(sl_unknown_open(&w->job, &w->unknown));
    assert_ok(sl_ladder_open(&config, strategies, 2, &w->ladder));
}

static void close_world(world *w) {
    sl_ladder_close(w->ladder);
    sl_unknown_close(w->unknown);
}

static void report(world *w, int id, sl_part_kind kind, int a, int b, double times) {
    sl_orchestrator_report slow = {
        .id = id, .part = {.kind = kind, .a = a, .b = b, .slowdown = times}, .loss = -1};
    assert_ok(sl_unknown_report(w->unknown, &slow));
}

static void over(world *w, int id) {
    sl_orchestrator_report slow = {.id = id, .over = 1};
    assert_ok(sl_unknown_report(w->unknown, &slow));
}

/* So many iterations of the level, and the program as it is then. */
static void follow(world *w, int iterations) {
    w->iteration += iterations;
    w->now += (sl_time)(iterations * w->job.level);
    assert_ok(sl_unknown_follow(w->unknown, w->ladder, w->iteration, w->now, &w->job));
}

static void become_healthy(world *w) {
    w->job.slow = 0;
    w->job.level = w->job.healthy;
    w->job.changes++;
}

static const sl_unknown_incident *incident(const world *w, int id) {
    int count;
    const sl_unknown_incident *list = sl_unknown_incidents(w->unknown, &count);
    for (int i = 0; i < count; i++)
        if (list[i].report.id == id)
            return &list[i];
    fail_msg("no incident %d", id);
    return NULL;
}

/* Carries out what the ladder wants next: it must be that. */
static void carry_out(world *w, sl_action_kind kind, sl_outcome outcome) {
    sl_action action;
    assert_ok(sl_ladder_next(w->ladder, w->now, &action));
    assert_int_equal(action.kind, kind);
    assert_int_equal(action.strategy, 0);
    sl_unknown_carried_out(w->unknown, SL_STRATEGY_BALANCE, kind == SL_ACTION_UNDO, action.incidents,
                           action.count, outcome, w->iteration, w->now);
    assert_ok(sl_ladder_ended(w->ladder, w->now, SL_SECOND, outcome == SL_OUTCOME_DONE));
}

/* Entries of the ladder's log of one kind. */
static int noted(const world *w, sl_ladder_entry_kind kind) {
    size_t count;
    int found = 0;
    const sl_ladder_entry *log = sl_ladder_log(w->ladder, &count);
    for (size_t i = 0; i < count; i++)
        found += log[i].kind == kind;
    return found;
}

static void a_loss_is_divided_among_all_that_is_reported(void **state) {
    (void)state;
    world w;
    open_world(&w);
    report(&w, 7, SL_PART_DEVICE, 2, -1, 2);
    report(&w, 3, SL_PART_LINK, 0, 1, 2);
    assert_int_equal(noted(&w, SL_LADDER_BEGAN), 0); /* noted, no more */
    follow(&w, 1);
    assert_int_equal(noted(&w, SL_LADDER_BEGAN), 2);
    assert_near(incident(&w, 7)->loss, 0.25, 1e-12);
    assert_near(incident(&w, 3)->loss, 0.25, 1e-12);
    over(&w, 3);
    follow(&w, 1);
    assert_false(incident(&w, 3)->lasts);
    follow(&w, 1);
    assert_near(incident(&w, 7)->loss, 0.5, 1e-12);
    assert_int_equal(noted(&w, SL_LADDER_CHANGED), 1);
    follow(&w, 10); /* nothing is new */
    assert_int_equal(noted(&w, SL_LADDER_CHANGED), 1);
    sl_orchestrator_report wrong = {.id = -1};
    assert_fails(sl_unknown_report(w.unknown, &wrong), SL_EINVAL, "negative");
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
    carry_out(&w, SL_ACTION_APPLY, SL_OUTCOME_DONE);
    assert_true(incident(&w, 0)->awaited);
    w.job.level = 150e6; /* no change point is seen */
    follow(&w, 19);
    assert_int_equal(noted(&w, SL_LADDER_BROUGHT), 0);
    follow(&w, 1);
    assert_int_equal(noted(&w, SL_LADDER_BROUGHT), 1);
    assert_false(incident(&w, 0)->awaited);
    assert_near(incident(&w, 0)->loss, 1.0 / 3, 1e-12);
    close_world(&w);
    /* a change that is seen does not wait */
    open_world(&w);
    report(&w, 0, SL_PART_DEVICE, 2, -1, 2);
    follow(&w, 1);
    follow(&w, 51);
    carry_out(&w, SL_ACTION_APPLY, SL_OUTCOME_DONE);
    follow(&w, 1);
    assert_int_equal(noted(&w, SL_LADDER_BROUGHT), 0);
    w.job.level = 150e6;
    w.job.changes++;
    follow(&w, 1);
    assert_int_equal(noted(&w, SL_LADDER_BROUGHT), 1);
    close_world(&w);
}

static void a_balance_that_heals_is_no_end_of_the_incident(void **state) {
    (void)state;
    world w;
    open_world(&w);
    report(&w, 0, SL_PART_DEVICE, 2, -1, 2);
    follow(&w, 1);
    follow(&w, 51);
    carry_out(&w, SL_ACTION_APPLY, SL_OUTCOME_DONE);
    become_healthy(&w);
    follow(&w, 1);
    assert_true(incident(&w, 0)->lasts);
    assert_near(incident(&w, 0)->loss, 0, 0);
    assert_int_equal(noted(&w, SL_LADDER_RELIEVED), 0);
    follow(&w, 1000);
    assert_true(incident(&w, 0)->lasts);
    close_world(&w);
    /* without one it is */
    open_world(&w);
    report(&w, 0, SL_PART_DEVICE, 2, -1, 2);
    follow(&w, 1);
    become_healthy(&w);
    follow(&w, 1);
    assert_false(incident(&w, 0)->lasts);
    assert_int_equal(noted(&w, SL_LADDER_RELIEVED), 1);
    close_world(&w);
}

static void who_is_named_no_longer_is_well_unless_something_was_done(void **state) {
    (void)state;
    world w;
    open_world(&w);
    report(&w, 0, SL_PART_DEVICE, 2, -1, 2);
    follow(&w, 1);
    follow(&w, 51);
    carry_out(&w, SL_ACTION_APPLY, SL_OUTCOME_DONE);
    over(&w, 0);
    report(&w, 1, SL_PART_LINK, 0, 1, 2);
    follow(&w, 1);
    assert_true(incident(&w, 0)->lasts);
    over(&w, 1);
    report(&w, 2, SL_PART_LINK, 1, 2, 2);
    follow(&w, 1);
    assert_false(incident(&w, 1)->lasts);
    assert_true(incident(&w, 2)->lasts);
    close_world(&w);
}

static void what_is_refused_is_not_asked_for_again(void **state) {
    (void)state;
    world w;
    char why[96];
    sl_action action;
    open_world(&w);
    report(&w, 0, SL_PART_DEVICE, 2, -1, 2);
    follow(&w, 1);
    follow(&w, 51);
    carry_out(&w, SL_ACTION_APPLY, SL_OUTCOME_REFUSED);
    sl_unknown_reason(w.unknown, SL_STRATEGY_BALANCE, 0, why, sizeof why);
    assert_string_equal(why, "nobody here can carry it out");
    for (int i = 0; i < 1000; i++) {
        follow(&w, 1);
        assert_ok(sl_ladder_next(w.ladder, w.now, &action));
        assert_int_equal(action.kind, SL_ACTION_NONE);
    }
    close_world(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loss_is_divided_among_all_that_is_reported),
        cmocka_unit_test(what_an_action_brought_is_measured_when_the_level_has_settled),
        cmocka_unit_test(a_balance_that_heals_is_no_end_of_the_incident),
        cmocka_unit_test(who_is_named_no_longer_is_well_unless_something_was_done),
        cmocka_unit_test(what_is_refused_is_not_asked_for_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
