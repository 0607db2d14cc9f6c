/* Work that threads share: all of it is done, the first failure is the one that is told, and the others end.
 */
#include "check.h"

#include "base/signals.h"

typedef struct work {
    atomic_int left, done, failed, calls;
    int fails_at; /* 0: never */
} work;

static sl_status take_some(void *object) {
    work *w = object;
    atomic_fetch_add(&w->calls, 1);
    for (;;) {
        const int number = atomic_fetch_sub(&w->left, 1);
        if (number <= 0 || atomic_load(&w->failed))
            return SL_OK;
        if (number == w->fails_at)
            return sl_error(SL_ENONE, "number %d is bad", number);
        atomic_fetch_add(&w->done, 1);
    }
}

static void all_work_is_done_on_any_number_of_threads(void **state) {
    (void)state;
    for (int threads = 1; threads <= SL_THREADS_MAX + 3; threads++) {
        work w = {.left = 1000};
        assert_ok(sl_threads_join_in(threads, take_some, &w, &w.failed));
        assert_int_equal(w.done, 1000);
        assert_int_equal(w.calls, threads < SL_THREADS_MAX ? threads : SL_THREADS_MAX);
        assert_int_equal(w.failed, 0);
    }
}

static void a_failure_keeps_its_text_and_ends_the_others(void **state) {
    (void)state;
    for (int threads = 1; threads < 9; threads++) {
        work w = {.left = 10000000, .fails_at = 9999000};
        assert_fails(sl_threads_join_in(threads, take_some, &w, &w.failed), SL_ENONE, "number 9999000 is bad");
        assert_int_equal(w.failed, 1);
        assert_true(w.done < 9999999);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_work_is_done_on_any_number_of_threads),
        cmocka_unit_test(a_failure_keeps_its_text_and_ends_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
