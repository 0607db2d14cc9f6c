/* Ski rental with several rungs: what a chain of strategies pays against the best choice in hindsight. */
#include "check.h"

#include "adapt/ladder/chain.h"
#include "base/random.h"

#include <math.h>

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

/* Costs from a second to an hour; every costlier one leaves less. */
static void random_ladder(sl_rung *rungs, int count) {
    double loss = 1;
    for (int i = 0; i < count; i++)
        rungs[i].cost = exp(unit() * log(3600));
    for (int i = 0; i < count; i++)
        for (int j = i + 1; j < count; j++)
            if (rungs[j].cost < rungs[i].cost) {
                double cost = rungs[i].cost;
                rungs[i].cost = rungs[j].cost;
                rungs[j].cost = cost;
            }
    for (int i = 0; i < count; i++)
        rungs[i].loss = loss = i == count - 1 && unit() < 0.3 ? 0 : loss * pow(unit(), 1 + 3 * unit());
}

/* What a chain pays, by walking along its triggers: written again, not with the code under test. */
static double walk(double loss, const sl_rung *rungs, const sl_chain *chain, double duration) {
    double paid = 0, lost = 0, left = duration, rate = loss;
    for (int i = 0; i < chain->count; i++) {
        double more = fmax(0, chain->trigger[i] - lost);
        if (more > rate * left)
            break;
        left -= rate > 0 ? more / rate : 0;
        lost += more;
        paid += rungs[chain->rung[i]].cost;
        rate = rungs[chain->rung[i]].loss;
    }
    return paid + lost + rate * left;
}

static double hindsight(double loss, const sl_rung *rungs, int count, double duration) {
    double best = loss * duration;
    for (int i = 0; i < count; i++)
        best = fmin(best, rungs[i].cost + rungs[i].loss * duration);
    return best;
}

/* The largest ratio among many durations, those of the chain's own moments among them. */
static double sweep(double loss, const sl_rung *rungs, int count, const sl_chain *chain) {
    double worst = 1;
    for (double duration = 1e-3; duration < 1e12; duration *= 1.003)
        worst = fmax(worst, walk(loss, rungs, chain, duration) / hindsight(loss, rungs, count, duration));
    double now = 0, lost = 0, rate = loss;
    for (int i = 0; i < chain->count; i++) {
        if (chain->trigger[i] > lost)
            now += (chain->trigger[i] - lost) / rate * (1 + 1e-12);
        lost = fmax(lost, chain->trigger[i]);
        rate = rungs[chain->rung[i]].loss;
        worst = fmax(worst, walk(loss, rungs, chain, now) / hindsight(loss, rungs, count, now));
    }
    return worst;
}

static void one_strategy_waits_until_the_time_lost_equals_its_cost_and_has_ratio_2(void **state) {
    (void)state;
    sl_rung rung = {.cost = 60, .loss = 0.05};
    sl_chain chain;
    sl_chain_choose(0.2, &rung, 1, &chain);
    assert_int_equal(chain.count, 1);
    assert_near(chain.trigger[0], 60, 0);
    assert_near(chain.ratio, 2, 1e-12);
    /* 300 s lose 60; one who knew would have ignored it, we have paid 60 on top */
    assert_near(sl_chain_pays(0.2, &rung, &chain, 300), 120, 1e-9);
    assert_near(sl_chain_pays(0.2, &rung, &chain, 299.9), 59.98, 1e-9);
    assert_near(sl_chain_best(0.2, &rung, 1, 300), 60, 1e-9);
    assert_near(sl_chain_best(0.2, &rung, 1, 1000), 110, 1e-9);
}

static void falcons_rule_pays_every_rung_of_the_same_cost(void **state) {
    (void)state;
    sl_rung rungs[] = {{1, 0.5}, {1, 0.4}, {1, 0.3}};
    sl_chain chain;
    for (int count = 1; count <= 3; count++) { /* lost 1, paid `count`, where ignoring costs 1 */
        sl_chain_falcon(1, rungs, count, &chain);
        assert_near(chain.ratio, count + 1, 1e-12);
    }
    sl_chain_choose(1, rungs, 3, &chain); /* one of them is enough */
    assert_int_equal(chain.count, 1);
    assert_int_equal(chain.rung[0], 2);
    assert_near(chain.ratio, 2, 1e-12);
}

static void rungs_that_cannot_help_or_are_dominated_are_left_out(void **state) {
    (void)state;
    /* no help; costlier than the next and leaves more; the two of use */
    sl_rung rungs[] = {{1, 0.5}, {40, 0.3}, {10, 0.2}, {1000, 0}};
    sl_chain chain;
    sl_chain_choose(0.5, rungs, 4, &chain);
    assert_int_equal(chain.count, 2);
    assert_int_equal(chain.rung[0], 2);
    assert_int_equal(chain.rung[1], 3);
    sl_chain_choose(0.5, rungs, 1, &chain);
    assert_int_equal(chain.count, 0);
    assert_near(chain.ratio, 1, 0);
}

static void a_rung_of_hardly_another_cost_is_skipped(void **state) {
    (void)state;
    /* 10 for 10 % of the loss, or 11 for nothing of it: to wait a little longer pays one of them only */
    sl_rung rungs[] = {{10, 0.1}, {11, 0}};
    sl_chain chain, falcon;
    sl_chain_choose(1, rungs, 2, &chain);
    assert_int_equal(chain.count, 1);
    assert_int_equal(chain.rung[0], 1);
    /* at 11 s: lost 11, paid 11; hindsight 11 */
    assert_near(chain.ratio, 2, 1e-9);
    sl_chain_falcon(1, rungs, 2, &falcon);
    /* lost 10, paid 10, lost 1 in 10 s more, paid 11; hindsight at 20 s: 11 */
    assert_near(falcon.ratio, 32.0 / 11, 1e-9);
}

static void ratios_are_those_of_a_sweep_of_durations(void **state) {
    (void)state;
    seeded(1);
    for (int round = 0; round < 200; round++) {
        sl_rung rungs[SL_STRATEGIES_MAX];
        sl_chain chain, falcon;
        int count = 1 + (int)(unit() * 5);
        double loss = 0.01 + unit();
        random_ladder(rungs, count);
        for (int i = 0; i < count; i++)
            rungs[i].loss *= loss;
        sl_chain_choose(loss, rungs, count, &chain);
        sl_chain_falcon(loss, rungs, count, &falcon);
        for (int which = 0; which < 2; which++) {
            const sl_chain *c = which ? &falcon : &chain;
            double found = sweep(loss, rungs, count, c);
            if (!(found <= c->ratio * (1 + 1e-9) && found >= c->ratio * 0.98))
                fail_msg("round %d: a sweep finds %.9g, not %.9g", round, found, c->ratio);
        }
        assert_true(chain.ratio <= falcon.ratio);
    }
}

static void a_lasting_trouble_ends_with_the_rung_that_leaves_the_least(void **state) {
    (void)state;
    seeded(2);
    for (int round = 0; round < 500; round++) {
        sl_rung rungs[SL_STRATEGIES_MAX];
        sl_chain chain;
        int count = 1 + (int)(unit() * SL_STRATEGIES_MAX);
        random_ladder(rungs, count);
        sl_chain_choose(1, rungs, count, &chain);
        assert_true(chain.count > 0);
        assert_int_equal(chain.rung[chain.count - 1], count - 1);
        for (int i = 1; i < chain.count; i++) {
            assert_true(chain.trigger[i] >= chain.trigger[i - 1]);
            assert_true(rungs[chain.rung[i]].cost > rungs[chain.rung[i - 1]].cost);
        }
    }
}

/* Climbs from a random ladder to a worse one, as long as it finds any. */
static double worst_found(int count, int starts, int steps) {
    double most = 0;
    for (int start = 0; start < starts; start++) {
        sl_rung now[SL_STRATEGIES_MAX], next[SL_STRATEGIES_MAX];
        sl_chain chain;
        random_ladder(now, count);
        sl_chain_choose(1, now, count, &chain);
        double height = chain.ratio;
        for (int step = 0; step < steps; step++) {
            double size = pow(10, -3 * unit());
            for (int i = 0; i < count; i++) {
                int move = unit() < 0.6;
                next[i].cost = now[i].cost * (move ? exp(size * (unit() - 0.5)) : 1);
                next[i].loss = fmin(1, now[i].loss * (move ? exp(4 * size * (unit() - 0.5)) : 1));
            }
            sl_chain_choose(1, next, count, &chain);
            if (chain.ratio >= height) {
                height = chain.ratio;
                memcpy(now, next, sizeof now);
            }
        }
        most = fmax(most, height);
    }
    return most;
}

static void no_adversary_finds_more_than_2_for_one_strategy_and_4_for_a_ladder(void **state) {
    (void)state;
    seeded(3);
    for (int count = 1; count <= SL_STRATEGIES_MAX; count++) {
        double worst = worst_found(count, 6, count < 6 ? 3000 : 400);
        print_message("%d strategies: %.4f\n", count, worst);
        assert_true(worst <= (count == 1 ? 2 : 4) + 1e-9);
    }
}

static void climbing_whenever_hindsight_has_doubled_has_ratio_4_for_any_number_of_rungs(void **state) {
    (void)state;
    seeded(4);
    double worst = 0;
    for (int round = 0; round < 20000; round++) {
        sl_rung rungs[SL_STRATEGIES_MAX];
        sl_chain chain;
        int count = 1 + (int)(unit() * SL_STRATEGIES_MAX);
        random_ladder(rungs, count);
        sl_chain_doubling(1, rungs, count, rungs[0].cost * pow(2, -1 - unit()), &chain);
        assert_int_equal(chain.rung[chain.count - 1], count - 1);
        worst = fmax(worst, chain.ratio);
        if (round < 50)
            assert_true(sweep(1, rungs, count, &chain) <= 4 + 1e-9);
    }
    print_message("worst: %.4f\n", worst);
    assert_true(worst <= 4 + 1e-9 && worst > 2);
}

/* As few as 1 to 3 strategies: every ladder of a grid, costs relative to the first. */
static void no_ladder_of_a_grid_exceeds_what_falcons_rule_is_known_for(void **state) {
    (void)state;
    static const double cost[] = {1, 1.2, 1.5, 2, 3, 5, 10, 30, 100},
                        loss[] = {0.9, 0.5, 0.2, 0.1, 0.03, 0.01, 0};
    enum { COSTS = sizeof cost / sizeof *cost, LOSSES = sizeof loss / sizeof *loss };
    double worst[4] = {0};
    for (int a = 0; a < COSTS; a++)
        for (int b = a; b < COSTS; b++)
            for (int x = 0; x < LOSSES; x++)
                for (int y = x + 1; y < LOSSES; y++)
                    for (int z = y + 1; z < LOSSES; z++) {
                        sl_rung rungs[] = {{1, loss[x]}, {cost[a], loss[y]}, {cost[b], loss[z]}};
                        for (int count = 1; count <= 3; count++) {
                            sl_chain chain;
                            sl_chain_choose(1, rungs, count, &chain);
                            worst[count] = fmax(worst[count], chain.ratio);
                        }
                    }
    print_message("grid: %.3f, %.3f, %.3f\n", worst[1], worst[2], worst[3]);
    assert_true(worst[1] <= 2 + 1e-9);
    assert_true(worst[2] <= 2.9);
    assert_true(worst[3] <= 3.7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_strategy_waits_until_the_time_lost_equals_its_cost_and_has_ratio_2),
        cmocka_unit_test(falcons_rule_pays_every_rung_of_the_same_cost),
        cmocka_unit_test(rungs_that_cannot_help_or_are_dominated_are_left_out),
        cmocka_unit_test(a_rung_of_hardly_another_cost_is_skipped),
        cmocka_unit_test(ratios_are_those_of_a_sweep_of_durations),
        cmocka_unit_test(a_lasting_trouble_ends_with_the_rung_that_leaves_the_least),
        cmocka_unit_test(no_adversary_finds_more_than_2_for_one_strategy_and_4_for_a_ladder),
        cmocka_unit_test(climbing_whenever_hindsight_has_doubled_has_ratio_4_for_any_number_of_rungs),
        cmocka_unit_test(no_ladder_of_a_grid_exceeds_what_falcons_rule_is_known_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
