/* The virtual clock is exact: time moves only when everybody waits. */
#include "check.h"

#include "base/clock.h"
#include "virtual_clock.h"
#include <pthread.h>

typedef struct pair {
    sl_clock *clock;
    _Atomic uint32_t word;
    sl_time woken;
} pair;

static void *waits(void *object) {
    pair *p = object;
    while (atomic_load(&p->word) == 0)
        sl_clock_wait(p->clock, &p->word, 0, SL_TIME_NEVER);
    p->woken = sl_clock_now(p->clock);
    sl_clock_leave(p->clock);
    return NULL;
}

static void *sleeps_then_wakes(void *object) {
    pair *p = object;
    sl_clock_sleep_until(p->clock, 1000 * SL_SECOND);
    atomic_store(&p->word, 1);
    sl_clock_wake(p->clock, &p->word);
    sl_clock_leave(p->clock);
    return NULL;
}

static void a_thousand_virtual_seconds_take_no_time_and_a_wake_is_not_missed(void **state) {
    (void)state;
    for (int round = 0; round < 200; round++) {
        pair p = {0};
        assert_ok(sl_clock_open_virtual(2, &p.clock));
        pthread_t a, b;
        pthread_create(&a, NULL, waits, &p);
        pthread_create(&b, NULL, sleeps_then_wakes, &p);
        pthread_join(a, NULL);
        pthread_join(b, NULL);
        assert_int_equal(p.woken, 1000 * SL_SECOND);
        sl_clock_close(p.clock);
    }
}

static void a_wait_ends_at_its_deadline(void **state) {
    (void)state;
    sl_clock *clock;
    _Atomic uint32_t word = 0;
    assert_ok(sl_clock_open_virtual(1, &clock));
    sl_clock_wait(clock, &word, 0, 7 * SL_MS);
    assert_int_equal(sl_clock_now(clock), 7 * SL_MS);
    sl_clock_wait(clock, &word, 1, 9 * SL_MS); /* the word differs already */
    assert_int_equal(sl_clock_now(clock), 7 * SL_MS);
    sl_clock_leave(clock);
    sl_clock_close(clock);
    sl_time before = sl_clock_now(sl_clock_real());
    sl_clock_wait(sl_clock_real(), &word, 0, before + 2 * SL_MS);
    assert_true(sl_clock_now(sl_clock_real()) >= before + 2 * SL_MS);
    sl_clock_sleep_until(sl_clock_real(), before + 4 * SL_MS);
    assert_true(sl_clock_now(sl_clock_real()) >= before + 4 * SL_MS);
}

static void a_deadlock_on_the_virtual_clock_is_reported(void **state) {
    (void)state;
    sl_clock *clock;
    _Atomic uint32_t word = 0;
    assert_ok(sl_clock_open_virtual(1, &clock));
    assert_false(sl_clock_stuck(clock));
    sl_clock_wait(clock, &word, 0, SL_TIME_NEVER);
    assert_true(sl_clock_stuck(clock));
    sl_clock_leave(clock);
    sl_clock_close(clock);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_virtual_seconds_take_no_time_and_a_wake_is_not_missed),
        cmocka_unit_test(a_wait_ends_at_its_deadline),
        cmocka_unit_test(a_deadlock_on_the_virtual_clock_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
