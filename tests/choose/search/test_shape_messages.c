/* Messages of shapes: communicators, and slow links. */
#include "choose/search/small_cluster.h"

/* Two ranks with one layer each, F, I and W of 1 ms, 4 microbatches, 10 ms on the way. A message is done when
 * it arrives, and then the next one of its communicator begins. The last gradient arrives, then I and W
 * follow: 2 ms. one communicator (a pair of ranks is the whole pipeline): the first F, then 8 messages: 1 +
 * 80 + 2 one per direction (on two linear ranks, one per kind is the same): the first F, 4 activations, F and
 * I of the last one, its gradient: 1 + 40 + 2 + 10 + 2 decoupled: F, the way, 4 F and 4 I of the second rank,
 * the way: 1 + 10 + 8 + 10 + 2 */
static void messages_wait_in_their_communicators(void **state) {
    (void)state;
    const struct {
        sl_regime regime;
        int communicators, ms, chosen;
    } cases[] = {{SL_DECOUPLED, 0, 31, 0},
                 {SL_FIFO, SL_OF_PIPELINE, 83, SL_OF_PIPELINE},
                 {SL_FIFO, SL_OF_PAIR, 83, SL_OF_PAIR},
                 {SL_FIFO, SL_OF_DIRECTION, 55, SL_OF_DIRECTION},
                 {SL_FIFO, SL_OF_KIND, 55, SL_OF_KIND},
                 {SL_FIFO, -1, 55, SL_OF_DIRECTION}};
    sl_model_work m;
    sl_devices d;
    sl_shape_fixed fixed = sl_shape_free();
    fixed.pipeline = 2;
    fixed.chunks = fixed.size = 1;
    make_model(2, 4, 100, 0, &m);
    make_devices(2, 1, 0, 10e6, 0, &d);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sl_choices found;
        d.communication = (sl_devices_communication){
            .given = 1, .regime = cases[i].regime, .communicators = cases[i].communicators};
        assert_ok(choose(&m, &d, &fixed, &found));
        const sl_choice *c = &found.choice[0];
        assert_int_equal(c->time, cases[i].ms * SL_MS);
        assert_int_equal(c->problem.communication, cases[i].regime);
        assert_true(cases[i].regime != SL_FIFO || (int)c->problem.communicators == cases[i].chosen);
        assert_true(found.bound <= c->time);
        if (cases[i].communicators < 0) {
            assert_int_equal(found.with[SL_OF_PIPELINE], 83 * SL_MS);
            assert_int_equal(found.with[SL_OF_PAIR], 83 * SL_MS);
            assert_int_equal(found.with[SL_OF_DIRECTION], 55 * SL_MS);
            assert_int_equal(found.with[SL_OF_KIND], 55 * SL_MS);
        } else
            assert_int_equal(found.with[SL_OF_KIND], 0);
        sl_choices_free(&found);
    }
    /* what is fixed counts, and one communicator is enough where there is no way */
    sl_choices found;
    assert_ok(sl_shape_fix(&fixed, "communication", "fifo"));
    d.communication = (sl_devices_communication){.regime = SL_BATCHED};
    d.latency[1] = d.latency[2] = 0;
    assert_ok(choose(&m, &d, &fixed, &found));
    assert_int_equal(found.choice[0].problem.communication, SL_FIFO);
    assert_int_equal(found.choice[0].problem.communicators, SL_OF_PIPELINE);
    assert_int_equal(found.with[SL_OF_PIPELINE], found.with[SL_OF_KIND]);
    sl_choices_free(&found);
    assert_ok(sl_shape_fix(&fixed, "communicators", "pair"));
    assert_ok(choose(&m, &d, &fixed, &found));
    assert_int_equal(found.choice[0].problem.communicators, SL_OF_PAIR);
    sl_choices_free(&found);
    assert_ok(sl_shape_fix(&fixed, "communication", "batched"));
    assert_int_equal(choose(&m, &d, &fixed, &found), SL_EINVAL);
    sl_choices_free(&found);
    free_model(&m);
    free_devices(&d);
}

/* Two ranks for four layers, F, I and W of 1 ms each, 4 microbatches, and a link that takes 100 ms for a
 * message. linear, with one layer on the first rank: 1 ms of F, 4 messages, F and I of the last microbatch,
 * its gradient, I and W: 1 + 400 + 6 + 100 + 2. Each direction of the link has 4 messages, and of a wave 8. A
 * loop has two from the first rank to the second for each microbatch, and one back, with gradients the other
 * way around: 12. */
static void a_slow_link_counts_at_once(void **state) {
    (void)state;
    const struct {
        const char *placement;
        int ms, bound_ms; /* the bound: 4 ms of F, 4 ms of I, 100 ms back, and messages; or messages alone */
    } cases[] = {{"linear", 509, 508}, {"wave", 0, 800}, {"loop", 0, 1200}};
    sl_model_work m;
    sl_devices d;
    sl_choices found;
    make_model(4, 4, 100, 0, &m);
    make_devices(2, 1, 0, 0, 1e5, &d);
    sl_shape_fixed fixed = sl_shape_free();
    fixed.pipeline = 2;
    fixed.size = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sl_shape_fixed one = fixed;
        assert_ok(sl_shape_fix(&one, "placement", cases[i].placement));
        one.chunks = i ? 2 : 1;
        assert_ok(choose(&m, &d, &one, &found));
        assert_true(found.bound >= cases[i].bound_ms * (SL_MS - 1) && found.bound <= found.choice[0].time);
        printf("%s: %.4f ms, bound %.4f\n", cases[i].placement, sl_to_ms(found.choice[0].time),
               sl_to_ms(found.bound));
        assert_true(cases[i].ms == 0 || found.choice[0].time == cases[i].ms * SL_MS);
        sl_choices_free(&found);
    }
    const sl_choose_options soon = {.fixed = fixed, .time_limit = 0.01, .most = 8, .threads = 1, .seed = 1};
    assert_ok(sl_choose(&m, &d, &soon, &found));
    assert_int_equal(found.choice[0].shape.placement, SL_LINEAR);
    assert_true(found.choice[0].time <= 520 * SL_MS);
    sl_choices_free(&found);
    free_model(&m);
    free_devices(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_wait_in_their_communicators),
        cmocka_unit_test(a_slow_link_counts_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
