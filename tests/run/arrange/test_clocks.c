/* A clock is a process's: its offset follows the process to another position. */
#include "check.h"

#include "base/memory.h"
#include "run/arrange/exchange.h"

static void offsets_follow_their_processes(void **state) {
    (void)state;
    enum { WORLD = 5 };
    static const int was[WORLD] = {3, 0, 2, 4, 1};
    sl_trainer t = {.world = WORLD};
    assert_ok(sl_alloc(&t.clocks, WORLD, sizeof *t.clocks));
    for (int w = 0; w < WORLD; w++) {
        /* sent at 1000, answered at that by a clock that is 7 * w ahead, and received at once */
        sl_offset_add(&t.clocks[w], 1000, 1000 + 7 * w, 1000, 0);
        assert_int_equal(t.clocks[w].offset, 7 * w);
    }
    assert_ok(sl_exchange_clocks_follow(&t, was));
    for (int w = 0; w < WORLD; w++)
        assert_int_equal(t.clocks[w].offset, 7 * was[w]);
    sl_alloc_fail_at(0);
    assert_int_equal(sl_exchange_clocks_follow(&t, was), SL_ENOMEM);
    sl_alloc_fail_at(-1);
    assert_int_equal(t.clocks[0].offset, 7 * 3);
    sl_free(t.clocks);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_follow_their_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
