/* A process that did not run (a busy machine, a stopped container) was not cut off: the time counts neither
 * as an outage of its rails nor as a refusal. */
#include "check.h"
#include "run/rail/conveyance.h"

enum { OUTAGE_MS = 250, BEFORE_MS = 50, ABSENT_MS = 250, RETRY_MS = 100 };

static sl_time began, lost_at, absent;

static sl_status be_absent(conveyance *v) {
    sl_time now = sl_clock_now(sl_clock_real());
    if (!absent && now >= began + BEFORE_MS * SL_MS) {
        sl_clock_sleep_until(sl_clock_real(), now + ABSENT_MS * SL_MS);
        absent = sl_clock_now(sl_clock_real()) - now;
    }
    if (v->heard[0].count[SL_HAPPENED_LOST] && !lost_at)
        lost_at = now;
    v->hold = !lost_at;
    return SL_OK;
}

/* Nobody listens at the rail's address. What is lost in time is at least what the endpoint has tried. */
static void lose_a_sender(sl_time outage, sl_time refusal) {
    conveyance v;
    absent = lost_at = 0;
    begin(&v, 0, 4, 1000);
    add_rail(&v, NULL);
    unlink(v.config[0].rail[0].address);
    v.config[0].outage = outage;
    v.config[0].refusal = refusal;
    v.config[0].beat = 10 * SL_MS;
    v.step = be_absent;
    v.hold = 1;
    began = sl_clock_now(sl_clock_real());
    open_endpoint(&v, 0);
    carry(&v);
    printf("absent for %.0f ms, lost after %.0f ms: %s\n", sl_to_ms(absent), sl_to_ms(lost_at - began),
           v.heard[0].last[SL_HAPPENED_LOST]);
    assert_true(lost_at > 0 && absent >= ABSENT_MS * SL_MS);
    finish(&v);
}

/* Its timer was due for the next attempt, so no more than the time between two of them is not known to be
 * absence. */
static void time_in_which_a_process_did_not_run_is_no_outage(void **state) {
    (void)state;
    lose_a_sender(OUTAGE_MS * SL_MS, 0);
    assert_true(lost_at - began >= (OUTAGE_MS + ABSENT_MS - RETRY_MS - 20) * SL_MS);
}

static void nor_is_it_a_refusal(void **state) {
    (void)state;
    lose_a_sender(30 * SL_SECOND, OUTAGE_MS * SL_MS);
    assert_true(lost_at - began >= (OUTAGE_MS + ABSENT_MS - RETRY_MS - 20) * SL_MS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_in_which_a_process_did_not_run_is_no_outage),
        cmocka_unit_test(nor_is_it_a_refusal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
