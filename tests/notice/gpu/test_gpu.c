/* The words for what is wrong with a GPU; the test of a GPU where there is none. */
#include "check.h"
#include "notice/gpu/gpu.h"

#include <string.h>

static sl_gpu_result well(void) {
    return (sl_gpu_result){.state = {.lanes = 16, .lanes_max = 16, .uncorrected = 0},
                           .rates.multiprocessor = -1};
}

static void expect_faults(const sl_gpu_result *r, const char *cause, const char *part) {
    char words[96], why[200];
    sl_gpu_faults(r, words, sizeof words, why, sizeof why);
    assert_string_equal(words, cause);
    assert_true(strstr(why, part) != NULL);
    assert_true((why[0] == 0) == (cause[0] == 0));
}

static void a_healthy_gpu_has_no_faults(void **state) {
    (void)state;
    sl_gpu_result r = well();
    expect_faults(&r, "", "");
    r.state.uncorrected = -1; /* a GPU whose memory counts no errors */
    r.state.lanes_max = 0;    /* a library that does not know */
    expect_faults(&r, "", "");
    r = well();
    r.state.remap_pending = 1; /* after an error that could be corrected */
    r.state.reasons = SL_GPU_IDLE | SL_GPU_POWER_CAP;
    expect_faults(&r, "", "");
}

static void each_fault_is_named(void **state) {
    (void)state;
    sl_gpu_result r = well();
    r.rates.wrong = 3;
    r.rates.multiprocessor = 77;
    expect_faults(&r, "computes wrongly", "3 threads had wrong products, one of them on multiprocessor 77");
    r = well();
    r.rates.corrupt = 1;
    expect_faults(&r, "corrupts copies", "1 words came back");
    r = well();
    r.state.uncorrected = 2;
    expect_faults(&r, "memory errors", "2 uncorrectable errors");
    r.state.remap_pending = 1;
    expect_faults(&r, "memory errors", "replaced when the GPU is reset");
    r.state.remap_failed = 1;
    expect_faults(&r, "memory errors", "no row left");
    r = well();
    r.state.lanes = 8;
    expect_faults(&r, "link to the host: x8 of x16", "8 of 16 lanes");
    r.rates.wrong = 1;
    expect_faults(&r, "computes wrongly, link to the host: x8 of x16", "8 of 16 lanes");
}

static void words_fit_any_room(void **state) {
    (void)state;
    sl_gpu_result r = well();
    r.rates.wrong = r.rates.corrupt = UINT32_MAX;
    r.state.uncorrected = INT64_MAX;
    r.state.remap_failed = 1;
    r.state.lanes = 1;
    for (size_t size = 1; size < 300; size++) {
        char cause[300], why[300];
        memset(cause, 'x', sizeof cause);
        memset(why, 'x', sizeof why);
        sl_gpu_faults(&r, cause, size, why, size);
        assert_true(memchr(cause, 0, size) != NULL && memchr(why, 0, size) != NULL);
        assert_int_equal(cause[size < 299 ? size : 299], 'x');
    }
}

static void clocks_are_low_for_a_reason(void **state) {
    (void)state;
    static const struct {
        uint64_t reasons;
        const char *words;
    } cases[] = {{0, ""},
                 {SL_GPU_IDLE, ""},
                 {SL_GPU_POWER_CAP, "at its power limit (700 W)"},
                 {SL_GPU_HW_SLOWDOWN | SL_GPU_HW_THERMAL, "heat (91 C)"},
                 {SL_GPU_SW_THERMAL, "heat, slowed by the driver (91 C)"},
                 {SL_GPU_HW_SLOWDOWN | SL_GPU_POWER_BRAKE, "power brake of the host"},
                 {SL_GPU_HW_SLOWDOWN, "slowed by its hardware"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const sl_gpu_state s = {.reasons = cases[i].reasons, .celsius = 91, .watts_max = 700};
        char words[96];
        sl_gpu_clocks(&s, words, sizeof words);
        assert_string_equal(words, cases[i].words);
    }
}

static void without_a_gpu_the_reason_is_given(void **state) {
    (void)state;
    int count = 0;
    if (sl_gpu_count(&count) == SL_OK)
        skip();
    sl_gpu_result r;
    sl_gpu_test(0, SL_MS, &r);
    assert_true(r.rates.why[0] != 0);
    for (int i = 0; i < SL_GPU_RATES; i++)
        assert_true(r.rates.rate[i] <= 0);
    int index[4];
    assert_int_equal(sl_gpu_of_process(1, index, 4), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_healthy_gpu_has_no_faults), cmocka_unit_test(each_fault_is_named),
        cmocka_unit_test(words_fit_any_room), cmocka_unit_test(clocks_are_low_for_a_reason),
        cmocka_unit_test(without_a_gpu_the_reason_is_given)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
