/* How many threads a rank has and where they run: by hand. */
#include "check.h"

#include "run/train/cores.h"

/* `count` cores from `first`, of one processor each. */
static sl_rank_cores on(const char *host, int first, int count, int nodes) {
    sl_rank_cores c = {.cores = count, .memory_nodes = nodes};
    snprintf(c.host, sizeof c.host, "%s", host);
    for (int p = first; p < first + count; p++)
        c.processors[p / 64] |= (uint64_t)1 << p % 64;
    return c;
}

static void cores_are_divided_among_the_ranks_of_a_host(void **state) {
    (void)state;
    sl_rank_cores all[5];
    for (int r = 0; r < 4; r++)
        all[r] = on("a", 0, 10, 1);
    all[4] = on("b", 0, 6, 1);
    for (int r = 0; r < 4; r++) {
        sl_cores_share share = sl_cores_divide(all, 5, r, 0, SL_BIND_AUTO);
        assert_int_equal(share.threads, 2);
        assert_int_equal(share.first, 2 * r);
        assert_false(share.bound); /* one memory node */
    }
    assert_int_equal(sl_cores_divide(all, 5, 4, 0, SL_BIND_AUTO).threads, 6);
}

/* As srun binds them: each has its own, none divides. */
static void ranks_that_are_bound_apart_keep_their_cores(void **state) {
    (void)state;
    sl_rank_cores all[3] = {on("a", 0, 4, 1), on("a", 4, 4, 1), on("a", 100, 8, 1)};
    assert_int_equal(sl_cores_divide(all, 3, 0, 0, SL_BIND_AUTO).threads, 4);
    assert_int_equal(sl_cores_divide(all, 3, 1, 0, SL_BIND_AUTO).threads, 4);
    assert_int_equal(sl_cores_divide(all, 3, 2, 0, SL_BIND_AUTO).threads, 8);
    assert_int_equal(sl_cores_divide(all, 3, 2, 0, SL_BIND_AUTO).first, 0);
}

static void never_more_threads_than_cores_unless_asked(void **state) {
    (void)state;
    sl_rank_cores all[4];
    for (int r = 0; r < 4; r++)
        all[r] = on("a", 0, 2, 2);
    assert_int_equal(sl_cores_divide(all, 4, 3, 0, SL_BIND_AUTO).threads, 1);
    assert_false(sl_cores_divide(all, 4, 3, 0, SL_BIND_ALWAYS).bound); /* they do not fit side by side */
    assert_int_equal(sl_cores_divide(all, 4, 3, 3, SL_BIND_AUTO).threads, 3);
}

static void several_memory_nodes_ask_for_binding(void **state) {
    (void)state;
    sl_rank_cores all[2] = {on("a", 0, 8, 2), on("a", 0, 8, 2)};
    assert_true(sl_cores_divide(all, 2, 1, 0, SL_BIND_AUTO).bound);
    assert_int_equal(sl_cores_divide(all, 2, 1, 0, SL_BIND_AUTO).first, 4);
    assert_false(sl_cores_divide(all, 2, 1, 0, SL_BIND_NEVER).bound);
    all[0].memory_nodes = all[1].memory_nodes = 1;
    assert_true(sl_cores_divide(all, 2, 0, 1, SL_BIND_ALWAYS).bound);
}

/* What the system says of this process: no more cores than processors. */
static void this_process_has_cores(void **state) {
    (void)state;
    sl_rank_cores mine;
    int processors = 0;
    assert_ok(sl_cores_read(&mine));
    for (int w = 0; w < SL_CORES_WORDS; w++)
        processors += __builtin_popcountll(mine.processors[w]);
    assert_true(mine.cores >= 1 && mine.cores <= processors);
    assert_true(mine.host[0] != 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_are_divided_among_the_ranks_of_a_host),
        cmocka_unit_test(ranks_that_are_bound_apart_keep_their_cores),
        cmocka_unit_test(never_more_threads_than_cores_unless_asked),
        cmocka_unit_test(several_memory_nodes_ask_for_binding),
        cmocka_unit_test(this_process_has_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
