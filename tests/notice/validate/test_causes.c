/* Causes, on evidence made by hand. */
#include "check.h"
#include "notice/validate/causes.h"

static sl_evidence quiet(void) {
    return (sl_evidence){.pressure = -1, .load = 0, .thermal = -1, .cores = 2, .mhz = 2600};
}

static const char *device(const sl_evidence *e, double mhz, char cause[96]) {
    sl_cause_of_device(e, mhz, cause, 96);
    return cause;
}

static void a_group_that_was_stopped_is_its_quota(void **state) {
    (void)state;
    char cause[96];
    sl_evidence e = quiet();
    e.waited = 0.78;
    e.throttled = 0.74;
    e.quota = 0.25;
    assert_string_equal(device(&e, 2600, cause), "cgroup quota: 0.25 processors");
    e.quota = 0; /* not to be read */
    assert_string_equal(device(&e, 2600, cause), "cgroup quota");
}

static void waiting_for_others_is_contention_and_names_the_busiest(void **state) {
    (void)state;
    char cause[96];
    sl_evidence e = quiet();
    e.waited = 0.5;
    e.load = 0.9;
    assert_string_equal(device(&e, 2600, cause), "CPU contention: co-located load");
    e.busiest = 4711;
    snprintf(e.busiest_name, sizeof e.busiest_name, "stress");
    assert_string_equal(device(&e, 2600, cause), "CPU contention: co-located load, stress (pid 4711)");
    e.throttled = 0.1; /* a little of a quota beside much of others */
    assert_string_equal(device(&e, 2600, cause), "CPU contention: co-located load, stress (pid 4711)");
    e = quiet();
    e.waited = 0.5; /* others cannot be seen */
    assert_string_equal(device(&e, 2600, cause), "CPU contention");
}

static void a_processor_that_runs_slowly_is_its_clock(void **state) {
    (void)state;
    char cause[96];
    sl_evidence e = quiet();
    e.mhz = 1200;
    assert_string_equal(device(&e, 2600, cause), "clock: 1200 of 2600 MHz");
    e.mhz_max = 3000;
    e.celsius = 96;
    assert_string_equal(device(&e, 2600, cause), "clock: 1200 of 3000 MHz at 96 C");
    e.thermal = 3;
    assert_string_equal(device(&e, 2600, cause), "clock: 1200 of 3000 MHz, throttled by heat (96 C)");
}

static void without_evidence_there_is_no_cause(void **state) {
    (void)state;
    char cause[96];
    sl_evidence e = quiet();
    assert_string_equal(device(&e, 2600, cause), "");
    assert_string_equal(device(&e, 2700, cause), ""); /* not 10 % below the others */
    e.mhz = 0;
    assert_string_equal(device(&e, 2600, cause), "");
}

static void a_healthy_device_starves_only_when_its_processors_are_taken(void **state) {
    (void)state;
    char cause[96];
    sl_evidence e = quiet();
    sl_cause_of_starving(&e, cause, sizeof cause);
    assert_string_equal(cause, "");
    e.pressure = 0.9; /* somebody waits somewhere on the host */
    sl_cause_of_starving(&e, cause, sizeof cause);
    assert_string_equal(cause, "");
    e.load = 1.2;
    sl_cause_of_starving(&e, cause, sizeof cause);
    assert_string_equal(cause, "CPU contention: co-located load");
}

static void interfaces_tell_why_a_link_is_slow(void **state) {
    (void)state;
    char cause[96];
    sl_link_evidence from = {.interface = "eth0", .errors = 0, .drops = 0, .mbit = 25000};
    sl_link_evidence to = {.interface = "eth1", .errors = 0, .drops = 0, .mbit = 25000};
    sl_cause_of_link(&from, &to, 25000, cause, sizeof cause);
    assert_string_equal(cause, "");
    to.drops = 7;
    sl_cause_of_link(&from, &to, 25000, cause, sizeof cause);
    assert_string_equal(cause, "NIC drops: 7 on eth1");
    from.errors = 3;
    sl_cause_of_link(&from, &to, 25000, cause, sizeof cause);
    assert_string_equal(cause, "NIC errors: 3 on eth0");
    to.mbit = 1000;
    sl_cause_of_link(&from, &to, 25000, cause, sizeof cause);
    assert_string_equal(cause, "NIC eth1 runs at 1000 of 25000 Mbit/s");
    from = to = (sl_link_evidence){.errors = -1, .drops = -1, .resent = -1};
    sl_cause_of_link(&from, &to, 0, cause, sizeof cause);
    assert_string_equal(cause, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_that_was_stopped_is_its_quota),
        cmocka_unit_test(waiting_for_others_is_contention_and_names_the_busiest),
        cmocka_unit_test(a_processor_that_runs_slowly_is_its_clock),
        cmocka_unit_test(without_evidence_there_is_no_cause),
        cmocka_unit_test(a_healthy_device_starves_only_when_its_processors_are_taken),
        cmocka_unit_test(interfaces_tell_why_a_link_is_slow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
