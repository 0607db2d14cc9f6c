/* The reducer: stages are summed in descending order whatever the order of their last W, not before that W
 * has ended, next to the rank; an error arrives at the end. */
#include "check.h"

#include "run/binding/reducer.h"
#include <stdatomic.h>

enum { STAGES = 3 };

typedef struct sums {
    int order[8];
    atomic_int count;
    int fail; /* this stage cannot be summed; -1: none */
} sums;

static sl_status sum(void *object, int index) {
    sums *s = object;
    s->order[atomic_fetch_add(&s->count, 1)] = index;
    return index == s->fail ? sl_error(SL_EPEER, "stage %d is lost", index) : SL_OK;
}

static void check_iterations(int threaded) {
    static const int orders[3][STAGES] = {{2, 1, 0}, {0, 1, 2}, {1, 2, 0}};
    sums s = {.fail = -1};
    sl_reducer *r;
    assert_ok(sl_reducer_open(STAGES, threaded, sum, &s, &r));
    for (int i = 0; i < 3; i++) {
        sl_reduction times[STAGES];
        sl_time ended[STAGES];
        atomic_store(&s.count, 0);
        sl_reducer_begin(r);
        for (int k = 0; k < STAGES; k++) {
            int stage = orders[i][k];
            ended[stage] =
                sl_clock_now(sl_clock_real()) + (k == 1 ? 3 * SL_MS : 0); /* a paced W: yet to end */
            sl_reducer_ready(r, stage, ended[stage]);
        }
        assert_ok(sl_reducer_finish(r, times));
        assert_int_equal(s.count, STAGES);
        for (int k = 0; k < STAGES; k++) {
            assert_int_equal(s.order[k], STAGES - 1 - k);
            assert_true(times[k].start >= ended[k] && times[k].end >= times[k].start);
            assert_true(k == 0 || times[k - 1].start >= times[k].end);
        }
    }
    assert_true(sl_reducer_close(r));
}

static void stages_are_summed_in_descending_order(void **unused) {
    (void)unused;
    check_iterations(1);
    check_iterations(0);
}

static void a_stage_is_summed_beside_the_others(void **unused) {
    (void)unused;
    sums s = {.fail = -1};
    sl_reducer *r;
    sl_reduction times[STAGES];
    assert_ok(sl_reducer_open(STAGES, 1, sum, &s, &r));
    sl_reducer_begin(r);
    sl_reducer_ready(r, 2, sl_clock_now(sl_clock_real()));
    while (atomic_load(&s.count) == 0) /* the others are not ready yet, and nobody waits for the end */
        sl_clock_sleep_until(sl_clock_real(), sl_clock_now(sl_clock_real()) + SL_MS);
    sl_reducer_ready(r, 0, 0);
    sl_clock_sleep_until(sl_clock_real(), sl_clock_now(sl_clock_real()) + 5 * SL_MS);
    assert_int_equal(atomic_load(&s.count), 1); /* stage 1 comes first on every rank */
    sl_reducer_ready(r, 1, 0);
    assert_ok(sl_reducer_finish(r, times));
    assert_int_equal(s.order[1], 1);
    assert_true(sl_reducer_close(r));
}

static void an_error_arrives_at_the_end(void **unused) {
    (void)unused;
    sums s = {.fail = 1};
    sl_reducer *r;
    sl_reduction times[STAGES];
    assert_ok(sl_reducer_open(STAGES, 1, sum, &s, &r));
    sl_reducer_begin(r);
    for (int stage = 0; stage < STAGES; stage++)
        sl_reducer_ready(r, stage, 0);
    assert_fails(sl_reducer_finish(r, times), SL_EPEER, "stage 1 is lost");
    assert_int_equal(s.count, 2);
    assert_true(sl_reducer_close(r));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_are_summed_in_descending_order),
        cmocka_unit_test(a_stage_is_summed_beside_the_others),
        cmocka_unit_test(an_error_arrives_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
