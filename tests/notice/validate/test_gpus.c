/* GPUs in a validation: which member tests which, and verdicts on rates made by hand. */
#include "check.h"
#include "notice/validate/gpu_shares.h"
#include "notice/validate/verdict.h"

#include <stdio.h>
#include <string.h>

/* ---- sharing ---- */

static void each_gpu_is_tested_once_in_turns(void **state) {
    (void)state;
    const uint64_t all = 0xff;
    uint64_t claimed[4] = {all, all, all, all}, tests[4];
    int machine[4] = {0, 0, 0, 0};
    sl_gpu_shares(claimed, machine, 4, tests);
    const uint64_t wanted[4] = {0x11, 0x22, 0x44, 0x88};
    assert_memory_equal(tests, wanted, sizeof wanted);
}

static void other_machines_have_gpus_of_their_own(void **state) {
    (void)state;
    uint64_t claimed[5] = {1, 1, 1, 3, 1}, tests[5];
    int machine[5] = {0, 1, 0, 1, -1};
    sl_gpu_shares(claimed, machine, 5, tests);
    const uint64_t wanted[5] = {1, 1, 0, 2, 0};
    assert_memory_equal(tests, wanted, sizeof wanted);
}

static void ranks_test_the_gpus_that_they_hold(void **state) {
    (void)state;
    uint64_t claimed[3] = {1 << 3, (uint64_t)1 << 63, 0}, tests[3];
    int machine[3] = {0, 0, 0};
    sl_gpu_shares(claimed, machine, 3, tests);
    assert_memory_equal(tests, claimed, sizeof claimed);
}

/* ---- verdicts ---- */

#define GPUS 16

typedef struct table {
    sl_measured_gpu gpu[GPUS];
    sl_measured_device device[1];
    sl_measured_link link[1];
    sl_validation m;
    sl_verdicts v;
} table;

static const char *const hosts[] = {"anna"};

static table alike(int count) {
    table t = {0};
    t.m.gpus = count;
    for (int i = 0; i < count; i++) {
        t.gpu[i] = (sl_measured_gpu){
            .rank = i,
            .test = {.index = i,
                     .state = {.name = "H", .pci = "0000:1b:00.0", .lanes = 16, .lanes_max = 16},
                     .rates = {.rate = {600, 50, 3000, 55, 50}, .multiprocessor = -1}}};
        t.gpu[i].test.rates.rate[SL_GPU_BF16] += i % 3; /* they vary a little */
    }
    return t;
}

static void judge(table *t, const sl_reference *reference) {
    t->m.gpu = t->gpu;
    t->m.device = t->device;
    t->m.link = t->link;
    t->m.host = hosts;
    t->m.hosts = 1;
    t->m.repeats = 3;
    assert_ok(sl_verdict(&t->m, reference, &t->v));
    for (int i = 0; i < t->v.count; i++)
        printf("  rank %d: %s; %s\n", t->v.suspect[i].rank, t->v.suspect[i].cause, t->v.suspect[i].why);
}

static void gpus_alike_are_healthy(void **state) {
    (void)state;
    for (int count = 1; count <= GPUS; count++) {
        table t = alike(count);
        judge(&t, NULL);
        assert_int_equal(t.v.count, 0);
        sl_verdicts_free(&t.v);
    }
}

static void the_one_that_is_slower_is_named_with_its_rate_and_cause(void **state) {
    (void)state;
    for (int rate = 0; rate < SL_GPU_RATES; rate++) {
        table t = alike(4);
        double healthy = t.gpu[2].test.rates.rate[rate];
        t.gpu[2].test.rates.rate[rate] *= 0.85;
        t.gpu[2].test.state.reasons = SL_GPU_HW_THERMAL;
        t.gpu[2].test.state.celsius = 92;
        judge(&t, NULL);
        assert_int_equal(t.v.count, 1);
        assert_int_equal(t.v.suspect[0].component, SL_COMPONENT_DEVICE);
        assert_int_equal(t.v.suspect[0].rank, 2);
        assert_near(t.v.suspect[0].measured, 0.85 * healthy, 1e-9);
        assert_string_equal(t.v.suspect[0].cause, "GPU: heat (92 C)");
        assert_true(strstr(t.v.suspect[0].why, sl_gpu_rate_name[rate]) != NULL);
        assert_true(strstr(t.v.suspect[0].why, "GPU 2 (0000:1b:00.0)") != NULL);
        assert_true(t.gpu[2].slow && !t.gpu[1].slow);
        sl_verdicts_free(&t.v);
    }
}

static void what_is_within_ten_percent_is_not_slow(void **state) {
    (void)state;
    table t = alike(4);
    t.gpu[2].test.rates.rate[SL_GPU_BF16] *= 0.92;
    judge(&t, NULL);
    assert_int_equal(t.v.count, 0);
    sl_verdicts_free(&t.v);
}

static void two_gpus_have_no_comparison_but_for_a_reference(void **state) {
    (void)state;
    table t = alike(2);
    t.gpu[0].test.rates.rate[SL_GPU_TO] = 12;
    judge(&t, NULL);
    assert_int_equal(t.v.count, 0);
    sl_verdicts_free(&t.v);
    sl_reference healthy = {.gpu = "H", .gpu_rate = {600, 50, 3000, 55, 50}};
    judge(&t, &healthy);
    assert_int_equal(t.v.count, 1);
    assert_int_equal(t.v.suspect[0].rank, 0);
    assert_near(t.v.suspect[0].expected, 55, 1e-9);
    sl_verdicts_free(&t.v);
    snprintf(healthy.gpu, sizeof healthy.gpu, "another model");
    judge(&t, &healthy);
    assert_int_equal(t.v.count, 0);
    sl_verdicts_free(&t.v);
}

static void models_are_compared_with_their_own(void **state) {
    (void)state;
    table t = alike(6);
    for (int i = 3; i < 6; i++) {
        t.gpu[i].test.state.name[0] = 'A';
        t.gpu[i].test.rates.rate[SL_GPU_BF16] = 250;
    }
    judge(&t, NULL);
    assert_int_equal(t.v.count, 0);
    sl_verdicts_free(&t.v);
}

static void a_fault_needs_no_comparison(void **state) {
    (void)state;
    table t = alike(1);
    t.gpu[0].test.rates.wrong = 5;
    t.gpu[0].test.rates.multiprocessor = 9;
    judge(&t, NULL);
    assert_int_equal(t.v.count, 1);
    assert_string_equal(t.v.suspect[0].cause, "GPU: computes wrongly");
    assert_true(strstr(t.v.suspect[0].why, "multiprocessor 9") != NULL);
    sl_verdicts_free(&t.v);
}

static void a_gpu_that_was_not_tested_is_no_suspect(void **state) {
    (void)state;
    table t = alike(4);
    memset(t.gpu[1].test.rates.rate, 0, sizeof t.gpu[1].test.rates.rate);
    snprintf(t.gpu[1].test.rates.why, sizeof t.gpu[1].test.rates.why, "out of memory");
    judge(&t, NULL);
    assert_int_equal(t.v.count, 0);
    sl_verdicts_free(&t.v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_gpu_is_tested_once_in_turns),
        cmocka_unit_test(other_machines_have_gpus_of_their_own),
        cmocka_unit_test(ranks_test_the_gpus_that_they_hold),
        cmocka_unit_test(gpus_alike_are_healthy),
        cmocka_unit_test(the_one_that_is_slower_is_named_with_its_rate_and_cause),
        cmocka_unit_test(what_is_within_ten_percent_is_not_slow),
        cmocka_unit_test(two_gpus_have_no_comparison_but_for_a_reference),
        cmocka_unit_test(models_are_compared_with_their_own),
        cmocka_unit_test(a_fault_needs_no_comparison),
        cmocka_unit_test(a_gpu_that_was_not_tested_is_no_suspect)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
