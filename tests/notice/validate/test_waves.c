/* Devices that share processors are not tested at the same time. */
#include "check.h"
#include "notice/validate/waves.h"

static sl_wave_member member(int host, int threads, int first, int last) {
    sl_wave_member m = {.host = host, .threads = threads};
    for (int core = first; core <= last; core++)
        sl_core_set_add(&m.cores, core);
    return m;
}

static void four_on_two_processors_take_two_waves(void **state) {
    (void)state;
    sl_wave_member m[4];
    int wave[4], waves;
    for (int i = 0; i < 4; i++)
        m[i] = member(0, 1, 0, 1);
    assert_ok(sl_waves(m, 4, wave, &waves));
    assert_int_equal(waves, 2);
    int count[2] = {0};
    for (int i = 0; i < 4; i++)
        count[wave[i]]++;
    assert_int_equal(count[0], 2);
    assert_int_equal(count[1], 2);
}

static void hosts_do_not_wait_for_each_other(void **state) {
    (void)state;
    sl_wave_member m[64];
    int wave[64], waves;
    for (int i = 0; i < 64; i++)
        m[i] = member(i / 2, 1, 0, 1);
    assert_ok(sl_waves(m, 64, wave, &waves));
    assert_int_equal(waves, 1);
}

static void those_that_are_bound_to_one_processor_take_turns(void **state) {
    (void)state;
    sl_wave_member m[] = {member(0, 1, 0, 7), member(0, 1, 0, 0), member(0, 1, 0, 0), member(0, 1, 1, 1)};
    int wave[4], waves;
    assert_ok(sl_waves(m, 4, wave, &waves));
    assert_int_equal(waves, 2);
    assert_int_equal(wave[0], 0); /* it can stand aside for the bound ones */
    assert_int_equal(wave[1], 0);
    assert_int_equal(wave[2], 1);
    assert_int_equal(wave[3], 0);
}

static void threads_need_a_processor_each(void **state) {
    (void)state;
    sl_wave_member m[] = {member(0, 2, 0, 3), member(0, 2, 0, 3), member(0, 2, 0, 3), member(0, 4, 0, 1)};
    int wave[4], waves;
    assert_ok(sl_waves(m, 4, wave, &waves));
    assert_int_equal(wave[0], 0);
    assert_int_equal(wave[1], 0);
    assert_int_equal(wave[2], 1);
    assert_int_equal(wave[3],
                     1); /* more threads than processors: all that it has, and 2 of 0..3 can move away */
}

static void those_that_are_not_tested_take_no_place(void **state) {
    (void)state;
    sl_wave_member m[] = {member(0, 0, 0, 0), member(0, 1, 0, 0), member(-1, 0, 0, 0)};
    int wave[3], waves;
    assert_ok(sl_waves(m, 3, wave, &waves));
    assert_int_equal(waves, 1);
    assert_int_equal(wave[0], -1);
    assert_int_equal(wave[1], 0);
    assert_int_equal(wave[2], -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_on_two_processors_take_two_waves),
        cmocka_unit_test(hosts_do_not_wait_for_each_other),
        cmocka_unit_test(those_that_are_bound_to_one_processor_take_turns),
        cmocka_unit_test(threads_need_a_processor_each),
        cmocka_unit_test(those_that_are_not_tested_take_no_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
