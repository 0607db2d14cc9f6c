/* Keys of a problem file: defaults and units. */
#include "plan/pipeline/problem_text.h"

#include "base/memory.h"

static void what_is_absent_has_the_documented_defaults(void **state) {
    (void)state;
    sl_problem p;
    assert_ok(read_text(SHAPE "  times_ms: {F: 1.5, I: [1, 2, 3], W: 0.000001}\n", &p));
    assert_true(p.ranks == 3 && p.stages == 3 && p.microbatches == 4 && p.placement == SL_LINEAR);
    assert_true(p.communication == SL_DECOUPLED && p.queue == 1 && p.limit == NULL);
    for (int s = 0; s < 3; s++) {
        assert_int_equal(p.time[SL_F][s], 1500000);
        assert_int_equal(p.time[SL_I][s], (s + 1) * SL_MS);
        assert_int_equal(p.time[SL_W][s], 1);
        assert_int_equal(p.time[SL_B][s], (s + 1) * SL_MS + 1);
        assert_true(p.delta[SL_F][s] == 1 && p.delta[SL_I][s] == 0 && p.delta[SL_W][s] == -1 &&
                    p.delta[SL_B][s] == -1);
        assert_int_equal(sl_problem_rank(&p, s), s);
    }
    for (int i = 0; i < 9; i++)
        assert_true(p.link[i].latency == 0 && p.link[i].transfer == 0);
    sl_problem_free(&p);
}

static void memory_may_be_given_per_stage_and_per_rank(void **state) {
    (void)state;
    sl_problem p;
    assert_ok(read_text(
        SHAPE TIMES "  memory: {delta: {F: [4, 5, 6], I: -1.5, W: [-2.5, -3.5, -4.5]}, limit: [7, 8, 9]}\n",
        &p));
    for (int s = 0; s < 3; s++) {
        assert_true(p.delta[SL_F][s] == 4 + s && p.delta[SL_I][s] == -1.5 && p.delta[SL_W][s] == -2.5 - s);
        assert_true(p.delta[SL_B][s] == -4.0 - s); /* I + W */
        assert_true(p.limit[s] == 7 + s);
    }
    sl_problem_free(&p);
    assert_ok(read_text(SHAPE TIMES "  memory: {delta: {B: -2}, limit: 7}\n", &p));
    assert_true(p.delta[SL_B][1] == -2 && p.delta[SL_W][1] == -1 && p.limit[2] == 7);
    sl_problem_free(&p);
}

/* Fixed memory is part of the file's limit, and of no op. */
static void fixed_memory_comes_off_the_limit(void **state) {
    (void)state;
    sl_problem p;
    assert_ok(read_text(SHAPE TIMES "  memory: {limit: [7, 8, 9], fixed: [2, 0, 9]}\n", &p));
    assert_true(p.limit[0] == 5 && p.limit[1] == 8 && p.limit[2] == 0);
    assert_true(sl_problem_fixed(&p, 0) == 2 && sl_problem_fixed(&p, 2) == 9);
    sl_problem_free(&p);
    assert_ok(read_text(SHAPE TIMES "  memory: {fixed: 3}\n", &p));
    assert_true(p.limit == NULL && p.fixed[1] == 3);
    sl_problem_free(&p);
    assert_ok(read_text(SHAPE TIMES, &p));
    assert_true(p.fixed == NULL && sl_problem_fixed(&p, 1) == 0);
    sl_problem_free(&p);
}

static void communication_is_a_regime_or_a_map(void **state) {
    (void)state;
    sl_problem p;
    assert_ok(read_text(SHAPE TIMES "  communication: fifo\n", &p));
    assert_true(p.communication == SL_FIFO && p.communicators == SL_OF_PIPELINE && p.eager == 0);
    sl_problem_free(&p);
    assert_ok(read_text(SHAPE TIMES "  communication: {regime: batched}\n", &p));
    assert_true(p.communication == SL_BATCHED);
    sl_problem_free(&p);
    assert_ok(read_text(SHAPE TIMES "  links:\n    default: {bandwidth_gbps: 10, message_mb: 25}\n"
                                    "  communication: {regime: fifo, communicators: kind, eager_kb: 64}\n",
                        &p));
    assert_true(p.communication == SL_FIFO && p.communicators == SL_OF_KIND && p.eager == 64000);
    sl_problem_free(&p);
    assert_ok(read_text(
        SHAPE TIMES "  memory: {limit: 10, fixed: 1}\n  communication: {regime: fifo, receive_buffers: 4, "
                    "receive_memory: 0.5}\n",
        &p));
    assert_true(p.receive_buffers == 4 && p.limit[0] == 7 && p.fixed[0] == 3);
    sl_problem_free(&p);
}

/* 25 MB over 10 Gb/s: 25e6 * 8 / 10e9 s = 20 ms. */
static void links_replace_the_default_and_take_decimal_units(void **state) {
    (void)state;
    sl_problem p;
    assert_ok(read_text(SHAPE TIMES "  links:\n"
                                    "    default: {latency_ms: 0.5, bandwidth_gbps: 10, message_mb: 25}\n"
                                    "    list:\n"
                                    "      - {between: [0, 1], latency_ms: 20}\n"
                                    "      - {between: [2, 1], transfer_ms: 3, one_way: true}\n"
                                    "  communication: inorder\n  queue: 2\n",
                        &p));
    assert_true(p.communication == SL_INORDER && p.queue == 2);
    const sl_link *link = p.link;
    assert_true(link[0 * 3 + 2].latency == SL_MS / 2 && link[0 * 3 + 2].transfer == 20 * SL_MS);
    assert_true(link[0 * 3 + 1].latency == 20 * SL_MS &&
                link[0 * 3 + 1].transfer == 0); /* absolute: nothing is left */
    assert_true(link[1 * 3 + 0].latency == 20 * SL_MS && link[1 * 3 + 0].transfer == 0);
    assert_true(link[2 * 3 + 1].latency == 0 && link[2 * 3 + 1].transfer == 3 * SL_MS);
    assert_true(link[1 * 3 + 2].latency == SL_MS / 2 && link[1 * 3 + 2].transfer == 20 * SL_MS); /* one way */
    sl_problem_free(&p);
}

/* Keys are read where they ask for nothing. */
static void neutral_values_change_nothing(void **state) {
    (void)state;
    sl_problem p, q;
    assert_ok(read_text(SHAPE TIMES, &p));
    assert_ok(read_text(
        SHAPE TIMES "  memory: {host_limit: 0}\n  links: {shared: [{name: wan, links: [[0, 1], [1, 2]]}]}\n"
                    "  data_parallel: {reduce_ms: 0, gather_ms: 0}\n  recompute: false\n  parts: 1\n",
        &q));
    assert_null(q.host_limit);
    assert_memory_equal(p.link, q.link, 9 * sizeof *p.link);
    assert_memory_equal(p.time[SL_F], q.time[SL_F], 3 * sizeof(sl_time));
    sl_problem_free(&p);
    sl_problem_free(&q);
}

static void host_memory_is_one_number_or_one_per_rank_and_its_time_one_per_stage(void **state) {
    (void)state;
    sl_problem p, q;
    assert_ok(
        read_text(SHAPE TIMES "  memory: {limit: 4, host_limit: [1, 0, 3], offload_ms: [0.5, 1, 2]}\n", &p));
    assert_true(sl_problem_offloads(&p));
    assert_true(p.host_limit[0] == 1 && p.host_limit[1] == 0 && p.host_limit[2] == 3);
    assert_true(p.offload[0] == SL_MS / 2 && p.offload[1] == SL_MS && p.offload[2] == 2 * SL_MS);
    assert_true(sl_problem_room(&p, 0) == 5 && sl_problem_room(&p, 1) == 4 && sl_problem_room(&p, 2) == 7);
    assert_ok(sl_problem_copy(&p, &q));
    assert_memory_equal(p.host_limit, q.host_limit, 3 * sizeof *p.host_limit);
    assert_memory_equal(p.offload, q.offload, 3 * sizeof *p.offload);
    sl_problem_free(&q);
    sl_problem_free(&p);
    assert_ok(read_text(SHAPE TIMES "  memory: {limit: 4, host_limit: 2, offload_ms: 3}\n", &p));
    assert_true(p.host_limit[0] == 2 && p.host_limit[2] == 2 && p.offload[1] == 3 * SL_MS);
    sl_problem_free(&p);
    assert_ok(read_text(SHAPE TIMES "  memory: {host_limit: 2}\n", &p)); /* nothing need ever move */
    assert_false(sl_problem_offloads(&p));
    sl_problem_free(&p);
}

/* The reference and completion name every key that the reader takes. */
static void look_for_key(const char *path, const sl_key *key, void *context) {
    const char **wanted = context;
    (void)path;
    *wanted = *wanted && strcmp(*wanted, key->name) == 0 ? NULL : *wanted;
}

static void the_documentation_names_every_key(void **state) {
    (void)state;
    static const char *const keys[] = {"ranks",       "microbatches",
                                       "placement",   "stages",
                                       "times_ms",    "F",
                                       "I",           "W",
                                       "B",           "delta",
                                       "limit",       "default",
                                       "list",        "between",
                                       "one_way",     "latency_ms",
                                       "transfer_ms", "bandwidth_gbps",
                                       "message_mb",  "communication",
                                       "queue"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *wanted = keys[i];
        sl_problem_visit_keys(look_for_key, &wanted);
        if (wanted)
            fail_msg("'%s' is not visited", wanted);
    }
}

static void every_failed_allocation_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    int failures = 0, done = 0;
    for (long n = 0; !done && n < 2000; n++) {
        sl_problem p, copy = {0};
        sl_alloc_fail_at(n);
        sl_status status =
            read_text(SHAPE TIMES "  memory: {delta: {F: [1, 2, 3]}, limit: 4}\n"
                                  "  links: {list: [{between: [0, 1], latency_ms: 4}],\n"
                                  "    shared: [{name: a, links: [[0, 1], [1, 2]]}]}\n"
                                  "  recompute: true\n"
                                  "  data_parallel: {replicas: 2, volume_mb: 1, bandwidth_gbps: 1}\n",
                      &p);
        if (status == SL_OK)
            status = sl_problem_copy(&p, &copy);
        sl_alloc_fail_at(-1);
        done = status == SL_OK;
        if (!done)
            assert_int_equal(status, SL_ENOMEM);
        failures += !done;
        sl_problem_free(&p);
        sl_problem_free(&copy);
    }
    assert_true(done && failures > 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_absent_has_the_documented_defaults),
        cmocka_unit_test(memory_may_be_given_per_stage_and_per_rank),
        cmocka_unit_test(fixed_memory_comes_off_the_limit),
        cmocka_unit_test(communication_is_a_regime_or_a_map),
        cmocka_unit_test(links_replace_the_default_and_take_decimal_units),
        cmocka_unit_test(neutral_values_change_nothing),
        cmocka_unit_test(host_memory_is_one_number_or_one_per_rank_and_its_time_one_per_stage),
        cmocka_unit_test(the_documentation_names_every_key),
        cmocka_unit_test(every_failed_allocation_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
