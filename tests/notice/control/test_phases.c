/* The phases of a job on a virtual clock: what happens goes in, what is to be done comes out. */
#include "base/random.h"
#include "check.h"
#include "notice/control/phases.h"

#define PROFILE (10 * SL_SECOND)
#define CLOSURE (3 * SL_SECOND)
#define VALIDATION (60 * SL_SECOND)

typedef struct world {
    sl_phases phases;
    sl_time now;
    char done[4096]; /* actions since the last look, in words */
} world;

static const char *const words[] = {
    [SL_DO_REFERENCE] = "reference",
    [SL_DO_PROFILE] = "profile",
    [SL_DO_CANCEL_PROFILE] = "cancel-profile",
    [SL_DO_KEEP_REFERENCE] = "keep",
    [SL_DO_DROP_REFERENCE] = "drop",
    [SL_DO_COMPARE] = "compare",
    [SL_DO_HOLD] = "hold",
    [SL_DO_RELEASE] = "release",
    [SL_DO_VALIDATE] = "validate",
    [SL_DO_CANCEL_VALIDATION] = "cancel-validation",
    [SL_DO_VERDICT_PROFILE] = "verdict-by-profile",
    [SL_DO_VERDICT] = "verdict",
    [SL_DO_CLEAR_VERDICT] = "clear",
};

static void in(world *w, sl_phase_input input, int64_t number) {
    sl_phase_actions actions;
    sl_phases_step(&w->phases, input, number, w->now, &actions);
    for (int i = 0; i < actions.count; i++) {
        strcat(w->done, w->done[0] ? " " : "");
        strcat(w->done, words[actions.action[i]]);
    }
}

static void after(world *w, sl_time time) {
    w->now += time;
    in(w, SL_IN_TICK, 0);
}

/* The phase and all that was asked for since the last time. */
static void expect(world *w, sl_watch_phase phase, const char *done) {
    assert_string_equal(w->done, done);
    assert_string_equal(sl_watch_phase_name(w->phases.phase), sl_watch_phase_name(phase));
    w->done[0] = 0;
}

static void open(world *w, int hold) {
    *w = (world){.now = 1000 * SL_SECOND};
    sl_phases_open(&w->phases, (sl_phase_limits){.hold = hold,
                                                 .profile = PROFILE,
                                                 .closure = CLOSURE,
                                                 .before = SL_SECOND,
                                                 .validation = VALIDATION,
                                                 .again = 20 * SL_SECOND});
}

/* Until the job is tracked and has a reference. */
static void healthy(world *w, int hold) {
    open(w, hold);
    expect(w, SL_PHASE_WAITING, "");
    in(w, SL_IN_CALLS, 0);
    expect(w, SL_PHASE_SEARCHING, "");
    in(w, SL_IN_PERIOD, 0);
    expect(w, SL_PHASE_TRACKING, "");
    in(w, SL_IN_STABLE, 0);
    expect(w, SL_PHASE_PROFILING, "reference");
    after(w, SL_SECOND);
    in(w, SL_IN_PROFILE, 0);
    expect(w, SL_PHASE_TRACKING, "keep");
}

static void until_profiling(world *w, int hold) {
    healthy(w, hold);
    in(w, SL_IN_ONSET, 0);
    expect(w, SL_PHASE_PROFILING, "profile");
}

static void until_holding(world *w) {
    until_profiling(w, 1);
    in(w, SL_IN_PROFILE, 0);
    expect(w, SL_PHASE_PROFILING, "compare");
    in(w, SL_IN_SUSPECTS, 2);
    expect(w, SL_PHASE_HOLDING, "hold");
}

static void until_validating(world *w) {
    until_holding(w);
    in(w, SL_IN_CLOSED, w->now + 5 * SL_SECOND);
    expect(w, SL_PHASE_VALIDATING, "validate");
}

static void onset_goes_all_the_way_to_a_verdict_and_relief_clears_it(void **state) {
    (void)state;
    world w;
    until_validating(&w);
    after(&w, 2 * SL_SECOND);
    expect(&w, SL_PHASE_VALIDATING, "");
    in(&w, SL_IN_VERDICT, 0);
    expect(&w, SL_PHASE_TRACKING, "release verdict");
    in(&w, SL_IN_STABLE, 0);
    expect(&w, SL_PHASE_TRACKING, ""); /* slow, and there is a reference */
    in(&w, SL_IN_RELIEF, 0);
    expect(&w, SL_PHASE_TRACKING, "clear");
    assert_int_equal(sl_phases_next(&w.phases), SL_TIME_NEVER);
}

static void job_that_may_not_be_held_gets_its_verdict_by_profile(void **state) {
    (void)state;
    world w;
    until_profiling(&w, 0);
    in(&w, SL_IN_PROFILE, 0);
    in(&w, SL_IN_SUSPECTS, 1);
    expect(&w, SL_PHASE_TRACKING, "compare verdict-by-profile");
}

static void without_suspects_nobody_is_held(void **state) {
    (void)state;
    world w;
    until_profiling(&w, 1);
    in(&w, SL_IN_PROFILE, 0);
    in(&w, SL_IN_SUSPECTS, 0);
    expect(&w, SL_PHASE_TRACKING, "compare verdict-by-profile");
}

static void profile_that_never_comes_is_waited_for_no_longer_than_its_limit(void **state) {
    (void)state;
    world w;
    until_profiling(&w, 1);
    assert_int_equal(sl_phases_next(&w.phases), w.now + PROFILE);
    after(&w, PROFILE - 1);
    expect(&w, SL_PHASE_PROFILING, "");
    after(&w, 1);
    expect(&w, SL_PHASE_TRACKING, "cancel-profile verdict-by-profile");
    in(&w, SL_IN_PROFILE, 0); /* too late */
    in(&w, SL_IN_SUSPECTS, 3);
    expect(&w, SL_PHASE_TRACKING, "");
}

static void reference_that_never_comes_is_tried_again_later(void **state) {
    (void)state;
    world w;
    open(&w, 1);
    in(&w, SL_IN_PERIOD, 0);
    in(&w, SL_IN_STABLE, 0);
    expect(&w, SL_PHASE_PROFILING, "reference");
    after(&w, PROFILE);
    expect(&w, SL_PHASE_TRACKING, "cancel-profile"); /* no verdict: nothing was wrong */
    in(&w, SL_IN_STABLE, 0);
    expect(&w, SL_PHASE_TRACKING, "");
    after(&w, 20 * SL_SECOND);
    in(&w, SL_IN_STABLE, 0);
    expect(&w, SL_PHASE_PROFILING, "reference");
}

static void onset_while_the_reference_is_taken_spoils_it(void **state) {
    (void)state;
    world w;
    open(&w, 1);
    in(&w, SL_IN_PERIOD, 0);
    in(&w, SL_IN_STABLE, 0);
    in(&w, SL_IN_ONSET, 0);
    expect(&w, SL_PHASE_PROFILING, "reference cancel-profile profile");
    in(&w, SL_IN_PROFILE, 0);
    expect(&w, SL_PHASE_PROFILING, "compare"); /* it is no reference */
}

static void cut_that_does_not_close_releases_and_rests_on_the_profile(void **state) {
    (void)state;
    world w;
    until_holding(&w);
    in(&w, SL_IN_OPEN, 0);
    expect(&w, SL_PHASE_TRACKING, "release verdict-by-profile");
    in(&w, SL_IN_CLOSED, w.now + SL_SECOND); /* of a hold that is over */
    expect(&w, SL_PHASE_TRACKING, "");
}

static void job_that_could_not_be_held_yet_is_held_later_if_it_is_still_slow(void **state) {
    (void)state;
    world w;
    until_holding(&w);
    in(&w, SL_IN_OPEN, w.now + 6 * SL_SECOND);
    expect(&w, SL_PHASE_TRACKING, "release verdict-by-profile");
    assert_int_equal(sl_phases_next(&w.phases), w.now + 6 * SL_SECOND);
    after(&w, 6 * SL_SECOND - 1);
    expect(&w, SL_PHASE_TRACKING, "");
    after(&w, 1);
    expect(&w, SL_PHASE_PROFILING, "profile");
    in(&w, SL_IN_PROFILE, 0);
    in(&w, SL_IN_SUSPECTS, 1);
    expect(&w, SL_PHASE_HOLDING, "compare hold");
    in(&w, SL_IN_OPEN, 0); /* nobody can be held: not again and again */
    expect(&w, SL_PHASE_TRACKING, "release verdict-by-profile");
    assert_int_equal(sl_phases_next(&w.phases), SL_TIME_NEVER);
    until_holding(&w);
    in(&w, SL_IN_OPEN, w.now + 6 * SL_SECOND);
    in(&w, SL_IN_RELIEF, 0);
    expect(&w, SL_PHASE_TRACKING, "release verdict-by-profile clear");
    after(&w, 10 * SL_SECOND); /* healthy: no reason to */
    expect(&w, SL_PHASE_TRACKING, "");
    until_holding(&w);
    in(&w, SL_IN_OPEN, w.now + 6 * SL_SECOND);
    w.done[0] = 0;
    in(&w, SL_IN_STORE_LOST, 0);
    after(&w, 10 * SL_SECOND);
    expect(&w, SL_PHASE_TRACKING, ""); /* nobody would hear */
    in(&w, SL_IN_STORE_BACK, 0);
    after(&w, 1);
    expect(&w, SL_PHASE_PROFILING, "profile");
}

static void views_that_never_come_release_at_the_limit(void **state) {
    (void)state;
    world w;
    until_holding(&w);
    after(&w, CLOSURE - 1);
    expect(&w, SL_PHASE_HOLDING, "");
    after(&w, 1);
    expect(&w, SL_PHASE_TRACKING, "release verdict-by-profile");
}

static void long_validation_outlives_the_hold(void **state) {
    (void)state;
    world w;
    until_validating(&w);
    assert_int_equal(sl_phases_next(&w.phases), w.now + 4 * SL_SECOND);
    after(&w, 4 * SL_SECOND); /* one before the deadline */
    expect(&w, SL_PHASE_VALIDATING, "release");
    after(&w, 10 * SL_SECOND);
    expect(&w, SL_PHASE_VALIDATING, ""); /* once */
    in(&w, SL_IN_VERDICT, 0);
    expect(&w, SL_PHASE_TRACKING, "verdict");
}

static void validation_that_never_ends_is_given_up(void **state) {
    (void)state;
    world w;
    until_validating(&w);
    after(&w, 4 * SL_SECOND);
    after(&w, VALIDATION);
    expect(&w, SL_PHASE_TRACKING, "release cancel-validation verdict-by-profile");
}

static void onset_during_validation_has_its_turn_afterwards(void **state) {
    (void)state;
    world w;
    until_validating(&w);
    in(&w, SL_IN_ONSET, 0);
    expect(&w, SL_PHASE_VALIDATING, "");
    in(&w, SL_IN_VERDICT, 0);
    expect(&w, SL_PHASE_PROFILING, "release verdict profile");
}

static void relief_ends_whatever_goes_on(void **state) {
    (void)state;
    world w;
    until_profiling(&w, 1);
    in(&w, SL_IN_RELIEF, 0);
    expect(&w, SL_PHASE_TRACKING, "cancel-profile clear");
    until_holding(&w);
    in(&w, SL_IN_RELIEF, 0);
    expect(&w, SL_PHASE_TRACKING, "release clear");
    until_validating(&w);
    in(&w, SL_IN_RELIEF, 0);
    expect(&w, SL_PHASE_TRACKING, "cancel-validation release clear");
}

static void second_component_is_profiled_anew(void **state) {
    (void)state;
    world w;
    until_validating(&w);
    in(&w, SL_IN_VERDICT, 0);
    w.done[0] = 0;
    in(&w, SL_IN_ONSET, 0); /* slower still */
    expect(&w, SL_PHASE_PROFILING, "profile");
    in(&w, SL_IN_ONSET, 0); /* and once more, in the middle of it */
    expect(&w, SL_PHASE_PROFILING, "cancel-profile profile");
    in(&w, SL_IN_PROFILE, 0);
    in(&w, SL_IN_SUSPECTS, 1);
    in(&w, SL_IN_OPEN, 0);
    expect(&w, SL_PHASE_TRACKING, "compare hold release verdict-by-profile");
    in(&w, SL_IN_EASED, 0); /* one of two is healthy again */
    expect(&w, SL_PHASE_PROFILING, "clear profile");
}

static void lost_node_ends_a_hold_but_not_a_profile(void **state) {
    (void)state;
    world w;
    until_profiling(&w, 1);
    in(&w, SL_IN_NODE_LOST, 0);
    expect(&w, SL_PHASE_PROFILING, "");
    until_holding(&w);
    in(&w, SL_IN_NODE_LOST, 0);
    expect(&w, SL_PHASE_TRACKING, "release verdict-by-profile");
    until_validating(&w);
    in(&w, SL_IN_NODE_LOST, 0);
    expect(&w, SL_PHASE_VALIDATING, "release");
    in(&w, SL_IN_VERDICT, 0);
    expect(&w, SL_PHASE_TRACKING, "verdict");
}

static void lost_store_lets_go_and_a_profile_is_taken_when_it_is_back(void **state) {
    (void)state;
    world w;
    until_profiling(&w, 1);
    in(&w, SL_IN_STORE_LOST, 0);
    expect(&w, SL_PHASE_TRACKING, "cancel-profile");
    after(&w, 100 * SL_SECOND);
    expect(&w, SL_PHASE_TRACKING, "");
    in(&w, SL_IN_STORE_BACK, 0);
    expect(&w, SL_PHASE_PROFILING, "profile");
    until_holding(&w);
    in(&w, SL_IN_STORE_LOST, 0);
    expect(&w, SL_PHASE_TRACKING, "release verdict-by-profile");
    until_validating(&w);
    in(&w, SL_IN_STORE_LOST, 0);
    expect(&w, SL_PHASE_TRACKING, "cancel-validation release verdict-by-profile");
    in(&w, SL_IN_ONSET, 0); /* known from samples that were under way */
    expect(&w, SL_PHASE_TRACKING, "");
    in(&w, SL_IN_STORE_BACK, 0);
    expect(&w, SL_PHASE_PROFILING, "profile");
}

static void other_period_forgets_what_was_healthy(void **state) {
    (void)state;
    world w;
    until_holding(&w);
    in(&w, SL_IN_PERIOD_CHANGED, 0);
    expect(&w, SL_PHASE_TRACKING, "release clear drop");
    in(&w, SL_IN_STABLE, 0);
    expect(&w, SL_PHASE_PROFILING, "reference");
}

static void program_may_end_in_every_phase(void **state) {
    (void)state;
    world w;
    open(&w, 1);
    in(&w, SL_IN_ENDED, 0);
    expect(&w, SL_PHASE_ENDED, "");
    open(&w, 1);
    in(&w, SL_IN_CALLS, 0);
    in(&w, SL_IN_ENDED, 0);
    expect(&w, SL_PHASE_ENDED, "");
    healthy(&w, 1);
    in(&w, SL_IN_ENDED, 0);
    expect(&w, SL_PHASE_ENDED, "");
    until_profiling(&w, 1);
    in(&w, SL_IN_ENDED, 0);
    expect(&w, SL_PHASE_ENDED, "cancel-profile verdict-by-profile");
    until_holding(&w);
    in(&w, SL_IN_ENDED, 0);
    expect(&w, SL_PHASE_ENDED, "release verdict-by-profile");
    until_validating(&w);
    in(&w, SL_IN_ENDED, 0);
    expect(&w, SL_PHASE_ENDED, "cancel-validation release verdict-by-profile");
    in(&w, SL_IN_ONSET, 0);
    in(&w, SL_IN_TICK, 0);
    expect(&w, SL_PHASE_ENDED, "");
}

/* Any inputs in any order, with time going by: a job that is told to hold is told to go on, within the
 * limits, and before anything but validation follows; an onset ends in a verdict, a clearing, or the next
 * onset. */
static void whatever_comes_the_job_goes_on_and_an_onset_is_answered(void **state) {
    (void)state;
    uint64_t seed = getenv("SL_SEED") ? strtoull(getenv("SL_SEED"), NULL, 0) : 20261121;
    printf("SL_SEED=%llu\n", (unsigned long long)seed);
    for (int run = 0; run < 20000; run++) {
        world w;
        int held = 0, owed = 0;
        sl_time held_since = 0;
        open(&w, 1);
        in(&w, SL_IN_CALLS, 0);
        in(&w, SL_IN_PERIOD, 0);
        for (int i = 0; i < 60; i++) {
            uint64_t bits = sl_random_mix(seed += SL_RANDOM_STEP);
            sl_phase_actions actions;
            sl_phase_input input = i == 59 ? SL_IN_ENDED : (sl_phase_input)(bits % SL_IN_ENDED);
            w.now += (sl_time)(bits >> 20) % (4 * SL_SECOND);
            int64_t number = input == SL_IN_CLOSED ? held_since + 5 * SL_SECOND : (int64_t)(bits >> 60);
            if (input == SL_IN_OPEN && bits >> 63)
                number = w.now + (sl_time)(bits >> 30) % (9 * SL_SECOND);
            if (input == SL_IN_ONSET)
                owed = 1;
            sl_phases_step(&w.phases, input, number, w.now, &actions);
            for (int k = 0; k < actions.count; k++) {
                sl_phase_action action = actions.action[k];
                if (action == SL_DO_HOLD)
                    held_since = w.now;
                if (action == SL_DO_RELEASE && !held)
                    fail_msg("run %d, input %d: a job that is not held is released", run, i);
                held = action == SL_DO_HOLD ? 1 : action == SL_DO_RELEASE ? 0 : held;
                if (action == SL_DO_VERDICT || action == SL_DO_VERDICT_PROFILE ||
                    action == SL_DO_CLEAR_VERDICT)
                    owed = 0;
            }
            if (held && w.phases.phase != SL_PHASE_HOLDING && w.phases.phase != SL_PHASE_VALIDATING)
                fail_msg("run %d, input %d: held while %s", run, i, sl_watch_phase_name(w.phases.phase));
            if (held && input == SL_IN_TICK && w.now - held_since >= 4 * SL_SECOND)
                fail_msg("run %d, input %d: held for too long", run, i);
        }
        if (held || owed)
            fail_msg("run %d ends %s", run, held ? "held" : "without an answer to an onset");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(onset_goes_all_the_way_to_a_verdict_and_relief_clears_it),
        cmocka_unit_test(job_that_may_not_be_held_gets_its_verdict_by_profile),
        cmocka_unit_test(without_suspects_nobody_is_held),
        cmocka_unit_test(profile_that_never_comes_is_waited_for_no_longer_than_its_limit),
        cmocka_unit_test(reference_that_never_comes_is_tried_again_later),
        cmocka_unit_test(onset_while_the_reference_is_taken_spoils_it),
        cmocka_unit_test(cut_that_does_not_close_releases_and_rests_on_the_profile),
        cmocka_unit_test(job_that_could_not_be_held_yet_is_held_later_if_it_is_still_slow),
        cmocka_unit_test(views_that_never_come_release_at_the_limit),
        cmocka_unit_test(long_validation_outlives_the_hold),
        cmocka_unit_test(validation_that_never_ends_is_given_up),
        cmocka_unit_test(onset_during_validation_has_its_turn_afterwards),
        cmocka_unit_test(relief_ends_whatever_goes_on),
        cmocka_unit_test(second_component_is_profiled_anew),
        cmocka_unit_test(lost_node_ends_a_hold_but_not_a_profile),
        cmocka_unit_test(lost_store_lets_go_and_a_profile_is_taken_when_it_is_back),
        cmocka_unit_test(other_period_forgets_what_was_healthy),
        cmocka_unit_test(program_may_end_in_every_phase),
        cmocka_unit_test(whatever_comes_the_job_goes_on_and_an_onset_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
