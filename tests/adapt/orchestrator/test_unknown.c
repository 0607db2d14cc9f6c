/* What slow parts of a program cost whose pipeline nobody knows, and what strategies would leave. Expected
 * shares are by hand: 4 ranks, 100 ms healthy, 200 ms slow, all of it computing; a device twice as slow. Of
 * 32 microbatches (8 each) it takes 4 and the others 10, 9 and 9, so an iteration takes 125 ms: 20 % are
 * lost. */
#include "check.h"

#include "adapt/ladder/strategy.h"
#include "adapt/orchestrator/unknown.h"

#include <math.h>
#include <string.h>

static const sl_unknown_job four = {.ranks = 4,
                                    .nodes = 1,
                                    .replicas = 4,
                                    .microbatches = 8,
                                    .lightest = -1,
                                    .healthy = 100e6,
                                    .level = 200e6,
                                    .slow = 1};

static sl_unknown_part device(int rank, double times) {
    return (sl_unknown_part){.part = {.kind = SL_PART_DEVICE, .a = rank, .b = -1, .slowdown = times}};
}

static sl_unknown_part host_of(int rank, double times) {
    return (sl_unknown_part){.part = {.kind = SL_PART_DEVICE, .a = rank, .b = -1, .slowdown = times},
                             .host = 1};
}

static sl_unknown_part link_of(int from, int to, double times) {
    return (sl_unknown_part){.part = {.kind = SL_PART_LINK, .a = from, .b = to, .slowdown = times}};
}

/* With the reason for a strategy. */
static const char *why(const sl_unknown_view *view, sl_strategy_kind strategy, int part) {
    static char text[96];
    sl_unknown_why(view, strategy, part, text, sizeof text);
    return text;
}

static void balance_divides_by_measured_speeds(void **state) {
    (void)state;
    sl_unknown_job job = four;
    sl_unknown_part slow = device(2, 2);
    sl_unknown_view v = {.job = &job, .part = &slow, .parts = 1};
    int split[4];
    assert_near(sl_unknown_loss(&v, 0), 0.5, 1e-12);
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_BALANCE, 0), 0.2, 1e-12);
    assert_ok(sl_unknown_split(&v, split));
    assert_int_equal(split[2], 4);
    assert_int_equal(split[0] + split[1] + split[3], 28);
    /* kept on healthy devices an iteration takes 10 microbatches where it took 8 */
    assert_near(sl_unknown_keeping(&v, SL_STRATEGY_BALANCE), 0.2, 1e-12);
    assert_near(sl_unknown_keeping(&v, SL_STRATEGY_RESTART), 0, 0);
    /* half of the iteration computes: 50 ms stretched threefold; 3, 9, 10, 10: 10/8 of 50 ms */
    slow = device(2, 3);
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_BALANCE, 0), 12.5 / 112.5, 1e-12);
    /* said to be 1.5 times as slow, but the iteration takes twice as long: then the device does */
    slow = device(2, 1.5);
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_BALANCE, 0), 0.2, 1e-12);
    /* not measured: the same */
    slow = device(2, 1);
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_BALANCE, 0), 0.2, 1e-12);
}

static void only_ranks_that_do_the_same_take_its_work(void **state) {
    (void)state;
    sl_unknown_job job = four;
    sl_unknown_part slow = device(2, 2);
    sl_unknown_view v = {.job = &job, .part = &slow, .parts = 1};
    int split[4];
    /* one of two that do the same, beside two that do something else: 16 microbatches, 5 of them its own, 11
     * where 8 were */
    job.replicas = 2;
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_BALANCE, 0), 37.5 / 137.5, 1e-12);
    assert_fails(sl_unknown_split(&v, split), SL_ENONE, "one by one");
    job.replicas = 1;
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_BALANCE, 0), 0.5, 1e-12);
    assert_true(*why(&v, SL_STRATEGY_BALANCE, 0));
    /* a host of two: both of its ranks are slow: 5, 5, 11, 11 */
    job = four;
    job.nodes = 2;
    slow = host_of(2, 2);
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_BALANCE, 0), 37.5 / 137.5, 1e-12);
    assert_fails(sl_unknown_split(&v, split), SL_ENONE, "slow host");
    job.nodes = 1;
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_BALANCE, 0), 0.5, 1e-12);
    assert_true(*why(&v, SL_STRATEGY_BALANCE, 0));
    slow = link_of(0, 1, 2);
    assert_fails(sl_unknown_split(&v, split), SL_ENONE, "no slow device");
}

static void a_restart_heals_and_a_spare_host_takes_the_place_of_the_slow_one(void **state) {
    (void)state;
    sl_unknown_job job = four;
    sl_unknown_part slow = device(2, 2);
    sl_unknown_view v = {.job = &job, .part = &slow, .parts = 1};
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_RESTART, 0), 0, 1e-12);
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_TOPOLOGY, 0), 0.5, 1e-12);
    assert_true(*why(&v, SL_STRATEGY_TOPOLOGY, 0));
    job.spares = 1;
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_TOPOLOGY, 0), 0, 1e-12);
    assert_string_equal(why(&v, SL_STRATEGY_TOPOLOGY, 0), "");
    slow = link_of(-1, -1, 2); /* of a sum */
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_TOPOLOGY, 0), 0.5, 1e-12);
    assert_true(*why(&v, SL_STRATEGY_TOPOLOGY, 0));
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_RESTART, 0), 0, 1e-12);
    /* what only another order, or delegates, could do */
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_SCHEDULE, 0), 0.5, 1e-12);
    assert_true(*why(&v, SL_STRATEGY_DELEGATE, 0));
}

static void several_parts_share_the_loss_by_how_far_each_is_off(void **state) {
    (void)state;
    sl_unknown_job job = four;
    sl_unknown_part slow[] = {device(2, 2), link_of(0, 1, 2)};
    sl_unknown_view v = {.job = &job, .part = slow, .parts = 2};
    assert_near(sl_unknown_loss(&v, 0), 0.25, 1e-12);
    assert_near(sl_unknown_loss(&v, 1), 0.25, 1e-12);
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_BALANCE, 1), 0.25, 1e-12);
    assert_true(*why(&v, SL_STRATEGY_BALANCE, 1));
    /* a transfer that is 40 times as long is not 40 times as much of the iteration */
    slow[1].part.slowdown = 40;
    assert_near(sl_unknown_loss(&v, 0), 0.25, 1e-12);
    /* a device by half, a link by as much as the iteration: a third and two thirds of it */
    slow[0].part.slowdown = 1.5;
    assert_near(sl_unknown_loss(&v, 0), 0.5 / 3, 1e-12);
    assert_near(sl_unknown_loss(&v, 1), 1.0 / 3, 1e-12);
    /* iterations that are healthy lose nothing */
    job.level = 100e6;
    assert_near(sl_unknown_loss(&v, 0), 0, 0);
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_RESTART, 0), 0, 0);
}

/* The slow link to two ranks that send each other a tenth: 50 ms of 200 become 5 of 155. */
static void the_lightest_traffic_takes_the_slow_link(void **state) {
    (void)state;
    sl_unknown_job job = four;
    sl_unknown_part slow[] = {device(2, 2), link_of(0, 1, 2)};
    sl_unknown_view v = {.job = &job, .part = slow, .parts = 2};
    job.nodes = 4;
    job.lightest = 0.1;
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_TOPOLOGY, 1), 5.0 / 155, 1e-12);
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_TOPOLOGY, 0), 0.25, 1e-12);
    job.nodes = 2; /* no third host to send less */
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_TOPOLOGY, 1), 0.25, 1e-12);
    assert_true(*why(&v, SL_STRATEGY_TOPOLOGY, 1));
    job.nodes = 4;
    job.lightest = -1;
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_TOPOLOGY, 1), 0.25, 1e-12);
}

static void what_is_refused_leaves_everything(void **state) {
    (void)state;
    sl_unknown_part slow = device(2, 2);
    sl_unknown_view v = {.job = &four, .part = &slow, .parts = 1, .refused = 1u << SL_STRATEGY_RESTART};
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_RESTART, 0), 0.5, 1e-12);
    assert_true(*why(&v, SL_STRATEGY_RESTART, 0));
    assert_near(sl_unknown_remaining(&v, SL_STRATEGY_BALANCE, 0), 0.2, 1e-12);
}

static void causes_are_those_of_the_ladder(void **state) {
    (void)state;
    sl_unknown_part parts[] = {device(0, 2), host_of(0, 2), link_of(0, 1, 2), link_of(-1, -1, 2)};
    unsigned causes[] = {SL_CAUSE_DEVICE, SL_CAUSE_HOST, SL_CAUSE_LINK, SL_CAUSE_REPLICA_LINK};
    for (int i = 0; i < 4; i++)
        assert_int_equal(sl_unknown_cause(&parts[i]), causes[i]);
}

/* 20 iterations and 3 s; a level that has changed needs no waiting. */
static void a_new_level_takes_iterations_to_be_seen(void **state) {
    (void)state;
    assert_false(sl_unknown_settled(19, 60 * SL_SECOND, 0));
    assert_false(sl_unknown_settled(200, 2 * SL_SECOND, 0));
    assert_true(sl_unknown_settled(20, 3 * SL_SECOND, 0));
    assert_true(sl_unknown_settled(1, SL_MS, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(balance_divides_by_measured_speeds),
        cmocka_unit_test(only_ranks_that_do_the_same_take_its_work),
        cmocka_unit_test(a_restart_heals_and_a_spare_host_takes_the_place_of_the_slow_one),
        cmocka_unit_test(several_parts_share_the_loss_by_how_far_each_is_off),
        cmocka_unit_test(the_lightest_traffic_takes_the_slow_link),
        cmocka_unit_test(what_is_refused_leaves_everything),
        cmocka_unit_test(causes_are_those_of_the_ladder),
        cmocka_unit_test(a_new_level_takes_iterations_to_be_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
