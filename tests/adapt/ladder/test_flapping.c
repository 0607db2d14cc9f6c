/* The whole ladder, as it runs, against the best choice in hindsight: trouble of any duration, and an
 * adversary who turns it on and off at the worst moments. */
#include "check.h"

#include "adapt/ladder/world.h"
#include "base/random.h"

static uint64_t drawn, seed;

static double unit(void) {
    return sl_random_unit(sl_random_mix(seed + SL_RANDOM_STEP * ++drawn));
}

static void seeded(uint64_t standard) {
    const char *given = getenv("SL_SEED");
    seed = given ? strtoull(given, NULL, 10) : standard;
    drawn = 0;
    print_message("SL_SEED=%llu\n", (unsigned long long)seed);
}

static sl_ladder_config exact(void) {
    sl_ladder_config config = sl_ladder_defaults();
    config.profile_every = 0;
    config.at_once = 0;
    config.calm = 0;
    config.least_gain = 0;
    return config;
}

/* Costs from a second to an hour, costlier ones leave less; the loss is 0.5 a second. */
static void random_strategies(world_strategy *strategy, int count, double undo_share) {
    double cost = exp(unit() * log(100)), left = 0.5;
    for (int s = 0; s < count; s++) {
        left *= unit();
        strategy[s] = (world_strategy){
            .cost = cost, .undo_cost = undo_share * cost, .left = left, .keeping = 0.2 * unit() * unit()};
        cost *= 1 + 10 * unit() * unit();
    }
}

static double total(const world *w) {
    return w->paid + w->lost;
}

/* ---- one incident, any duration ---- */

static double after_a_duration(const world_strategy *strategy, int count, double seconds) {
    world w;
    world_answer answers[SL_STRATEGIES_MAX];
    sl_ladder_config config = exact();
    int acted;
    assert_ok(world_open(&w, &config, 0.5, strategy, count, answers));
    assert_ok(world_turn(&w, 1));
    assert_ok(world_run(&w, (sl_time)llround(seconds * 1e9), 0, &acted));
    double best = 0.5 * seconds;
    for (int s = 0; s < count; s++)
        best = fmin(best, strategy[s].cost + strategy[s].left * seconds);
    double ratio = total(&w) / best;
    sl_ladder_close(w.ladder);
    return ratio;
}

static void whatever_the_duration_one_strategy_pays_at_most_2_and_a_ladder_4_times_hindsight(void **state) {
    (void)state;
    seeded(11);
    double worst[SL_STRATEGIES_MAX + 1] = {0};
    for (int round = 0; round < 150; round++) {
        world_strategy strategy[SL_STRATEGIES_MAX];
        int count = 1 + round % 6;
        random_strategies(strategy, count, 0);
        for (double seconds = 0.5; seconds < 1e7; seconds *= 1.1)
            worst[count] = fmax(worst[count], after_a_duration(strategy, count, seconds));
        for (int s = 0; s < count; s++) /* where a cost has just been lost */
            worst[count] = fmax(worst[count], after_a_duration(strategy, count, 2 * strategy[s].cost + 1e-6));
    }
    for (int count = 1; count <= 6; count++) {
        print_message("%d strategies: %.3f\n", count, worst[count]);
        assert_true(worst[count] <= (count == 1 ? 2 : 4) * (1 + 1e-9));
        assert_true(worst[count] > 1.5); /* the sweep finds the bad moments */
    }
}

/* ---- turned on and off ---- */

/* What an adversary does: on until something is applied (or nearly so), off until it is undone (or nearly
 * so). */
typedef struct adversary {
    double on, off; /* of the time until the next action: 1 waits for it, less stops short of it */
    double jitter;  /* share of periods of random length */
} adversary;

static void play(world *w, const adversary *a, int rounds) {
    for (int round = 0; round < rounds; round++) {
        for (int on = 1; on >= 0; on--) {
            int acted;
            double share = on ? a->on : a->off;
            assert_ok(world_turn(w, on));
            sl_time due = sl_ladder_due(w->ladder);
            double wait = due == SL_TIME_NEVER ? 1e9 * (1 + 100 * unit()) : (double)(due - w->now);
            if (unit() < a->jitter)
                wait *= 1.5 * unit();
            if (wait > 1e15) /* eleven days */
                wait = 1e15;
            assert_ok(world_run(w, w->now + (sl_time)ceil(wait * share), share >= 1, &acted));
        }
    }
}

static const adversary adversaries[] = {{1, 1, 0},     {0.999, 1, 0},     {1, 0.999, 0},  {0.999, 0.999, 0},
                                        {0.5, 1, 0},   {1, 0.5, 0},       {1, 1, 0.3},    {0.9, 0.9, 0.5},
                                        {0.3, 0.3, 1}, {0.999, 0.1, 0.1}, {0.1, 0.999, 0}};
enum { ADVERSARIES = sizeof adversaries / sizeof *adversaries };

static void no_adversary_makes_one_strategy_pay_more_than_3_times_hindsight_and_the_undoing(void **state) {
    (void)state;
    seeded(12);
    double worst = 0;
    for (int round = 0; round < 60; round++)
        for (int a = 0; a < ADVERSARIES; a++) {
            world w;
            world_strategy strategy;
            world_answer answers[1];
            double undo_share = round % 3 * 0.5;
            sl_ladder_config config = exact();
            random_strategies(&strategy, 1, undo_share);
            assert_ok(world_open(&w, &config, 0.5, &strategy, 1, answers));
            play(&w, &adversaries[a], 200);
            /* what is still open at the end is one cycle at most */
            double more = total(&w) - (3 + undo_share) * world_best(&w) - 4 * strategy.cost;
            if (more > 0)
                fail_msg("cost %g, left %g, keeping %g, adversary %d: %g paid, %g in hindsight",
                         strategy.cost, strategy.left, strategy.keeping, a, total(&w), world_best(&w));
            worst = fmax(worst, (total(&w) - 4 * strategy.cost) / world_best(&w) - undo_share);
            sl_ladder_close(w.ladder);
        }
    print_message("worst: %.3f and the share of the undoing\n", worst);
    assert_true(worst > 2.5); /* the adversary is a bad one */
}

static void
however_trouble_flaps_each_application_has_been_lost_before_and_hindsight_is_not_far(void **state) {
    (void)state;
    seeded(13);
    double worst[5] = {0};
    for (int round = 0; round < 120; round++)
        for (int a = 0; a < ADVERSARIES; a++) {
            world w;
            world_strategy strategy[4];
            world_answer answers[4];
            sl_ladder_config config = exact();
            int count = 1 + round % 4;
            random_strategies(strategy, count, 0.5);
            assert_ok(world_open(&w, &config, 0.5, strategy, count, answers));
            play(&w, &adversaries[a], 100);
            for (int s = 0; s < count; s++) {
                /* one application for each cost that was lost, one undoing for each that keeping it has lost
                 */
                assert_true(w.applications[s] * strategy[s].cost <= w.lost * (1 + 1e-9) + 1e-6);
                assert_true(w.reversals[s] <= w.applications[s]);
            }
            double ratio = (total(&w) - 4 * strategy[count - 1].cost) / world_best(&w);
            worst[count] = fmax(worst[count], ratio);
            /* No rule that is not told the future has less than 2n - 1 with n places to be in (Borodin,
             * Linial and Saks 1992), here each strategy or none. This is measured, not proven. */
            if (ratio > 15)
                fail_msg("%d strategies, adversary %d: %g times hindsight", count, a, ratio);
            sl_ladder_close(w.ladder);
        }
    print_message("worst of 1 to 4 strategies: %.3f %.3f %.3f %.3f\n", worst[1], worst[2], worst[3],
                  worst[4]);
}

static void what_comes_at_once_changes_at_most_once_in_a_calm_period(void **state) {
    (void)state;
    world w;
    world_answer answers[1];
    world_strategy strategy = {.cost = 0.005, .undo_cost = 0.005, .left = 0.1, .keeping = 0.05};
    sl_ladder_config config = sl_ladder_defaults();
    int acted;
    config.profile_every = 0;
    assert_ok(world_open(&w, &config, 0.5, &strategy, 1, answers));
    /* on and off every 100 ms for 1000 s: applied once, never undone, as relief never lasts 10 s */
    for (int i = 0; i < 10000; i++) {
        assert_ok(world_turn(&w, i % 2 == 0));
        assert_ok(world_run(&w, w.now + 100 * SL_MS, 0, &acted));
    }
    assert_int_equal(w.applied, 1);
    assert_int_equal(w.undone, 0);
    /* the worst against calm: off until just undone. Cycles of 10 s and more: 11 in 110 s, and the last one's
     * end */
    sl_time end = w.now + 110 * SL_SECOND;
    int before = w.applied + w.undone;
    while (w.now < end) {
        assert_ok(world_turn(&w, 0));
        assert_ok(world_run(&w, w.now + 60 * SL_SECOND, 1, &acted));
        assert_true(acted);
        assert_ok(world_turn(&w, 1));
        assert_ok(world_run(&w, w.now + 1, 1, &acted));
    }
    assert_true(w.applied + w.undone - before <= 2 * 12);
    assert_true(w.undone >= 10);
    sl_ladder_close(w.ladder);
}

/* ---- strategies that return after relief, unless their incidents recur ---- */

typedef struct recurring {
    double keeping; /* s lost per second by keeping it */
    sl_ladder *ladder;
} recurring;

static double a_tenth(void *user, const sl_incident *incident) {
    (void)user;
    return fmin(incident->loss, 0.1);
}

static double keeping_of(void *user, const sl_incident *incident) {
    (void)incident;
    return ((const recurring *)user)->keeping;
}

/* At once, for 5 ms: it saves 0.4 of the 0.5 s lost per second. */
static void open_recurring(recurring *r, double keeping) {
    sl_ladder_config config = sl_ladder_defaults();
    config.calm = SL_SECOND;
    config.profile_every = 0;
    *r = (recurring){.keeping = keeping};
    sl_strategy strategy = {.name = "s",
                            .causes = SL_CAUSES_ANY,
                            .cost = 5 * SL_MS,
                            .undo_cost = 5 * SL_MS,
                            .returns = 1,
                            .remaining = a_tenth,
                            .keeping = keeping_of,
                            .user = r};
    assert_ok(sl_ladder_open(&config, &strategy, 1, &r->ladder));
}

/* Follows it until `until`; returns the number of undos. */
static int follow(recurring *r, sl_time until) {
    int undone = 0;
    for (sl_time due = sl_ladder_due(r->ladder); due <= until; due = sl_ladder_due(r->ladder)) {
        sl_action action;
        assert_ok(sl_ladder_next(r->ladder, due, &action));
        undone += action.kind == SL_ACTION_UNDO;
        if (action.kind != SL_ACTION_NONE)
            assert_ok(sl_ladder_ended(r->ladder, due, 5 * SL_MS, 1));
    }
    return undone;
}

/* `cycles` of 5 s that are slow, noticed 2 s late, and `away` that are healthy; returns the undos in them,
 * and in *after the time from the last relief to the undo. */
static int on_and_off(recurring *r, int cycles, sl_time away, sl_time *after) {
    sl_time now = 0;
    int undone = 0;
    for (int i = 0; i < cycles; i++) {
        sl_incident incident = {.id = 3,
                                .cause = SL_CAUSE_LINK,
                                .loss = sl_ladder_in_effect(r->ladder, 0) ? 0.1 : 0.5,
                                .age = 2 * SL_SECOND};
        assert_ok(sl_ladder_begins(r->ladder, now, &incident));
        undone += follow(r, now += 5 * SL_SECOND);
        assert_ok(sl_ladder_relieved(r->ladder, now, 3));
        if (i < cycles - 1)
            undone += follow(r, now += away);
    }
    *after = sl_ladder_due(r->ladder) - now;
    return undone;
}

/* It is applied 2 s late, which loses 2 x 0.4 = 0.8 s each time, and 5 ms. Keeping it for the 5 healthy
 * seconds of a cycle loses 5 x `keeping`: if that is less, it is kept from the second relief on. When the
 * incident has ended, it is undone once keeping it has lost 0.805 s; or, if that loses nothing, after 4 times
 * the 7 s that the incident has lasted. */
static void a_strategy_is_kept_while_its_incident_recurs_if_keeping_it_loses_less(void **state) {
    (void)state;
    static const struct {
        double keeping, away;
        int undone;   /* in 20 cycles */
        double after; /* the last relief */
    } table[] = {{0.05, 5, 1, 16.1}, {0.1, 5, 1, 8.05}, {0, 5, 1, 28},   {0.15, 5, 1, 0.805 / 0.15},
                 {0.17, 5, 19, 1},   {0.5, 5, 19, 1},   {0, 27, 1, 108}, {0, 29, 19, 1}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        recurring r;
        sl_time after;
        open_recurring(&r, table[i].keeping);
        assert_int_equal(on_and_off(&r, 20, (sl_time)(table[i].away * 1e9), &after), table[i].undone);
        assert_true(fabs((double)after / 1e9 - table[i].after) < 1e-6);
        sl_ladder_close(r.ladder);
    }
}

/* 3 is relieved after 5 s, while 4 lasts from the 3rd to the 20th. The strategy was in effect when 4 began,
 * which it mitigates, too: it is undone only when that one is relieved and `calm` has passed, as if it were
 * 3's relief. */
static void a_strategy_stays_for_another_incident_that_began_while_it_was_in_effect(void **state) {
    (void)state;
    const sl_incident first = {.id = 3, .cause = SL_CAUSE_LINK, .loss = 0.5},
                      second = {.id = 4, .cause = SL_CAUSE_LINK, .loss = 0.1};
    recurring r;
    open_recurring(&r, 0);
    assert_ok(sl_ladder_begins(r.ladder, 0, &first));
    assert_int_equal(follow(&r, 3 * SL_SECOND), 0);
    assert_true(sl_ladder_in_effect(r.ladder, 0));
    assert_ok(sl_ladder_begins(r.ladder, 3 * SL_SECOND, &second));
    assert_int_equal(follow(&r, 5 * SL_SECOND), 0);
    assert_ok(sl_ladder_relieved(r.ladder, 5 * SL_SECOND, 3));
    assert_int_equal(follow(&r, 20 * SL_SECOND), 0);
    assert_true(sl_ladder_in_effect(r.ladder, 0));
    assert_ok(sl_ladder_relieved(r.ladder, 20 * SL_SECOND, 4));
    assert_int_equal(follow(&r, 22 * SL_SECOND), 1);
    sl_ladder_close(r.ladder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_the_duration_one_strategy_pays_at_most_2_and_a_ladder_4_times_hindsight),
        cmocka_unit_test(no_adversary_makes_one_strategy_pay_more_than_3_times_hindsight_and_the_undoing),
        cmocka_unit_test(
            however_trouble_flaps_each_application_has_been_lost_before_and_hindsight_is_not_far),
        cmocka_unit_test(what_comes_at_once_changes_at_most_once_in_a_calm_period),
        cmocka_unit_test(a_strategy_is_kept_while_its_incident_recurs_if_keeping_it_loses_less),
        cmocka_unit_test(a_strategy_stays_for_another_incident_that_began_while_it_was_in_effect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
