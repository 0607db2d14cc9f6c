/* Change points as samples come: series whose changes are known because they were made, and what must not be
 * told. */
#include "check.h"

#include "base/memory.h"
#include "base/random.h"
#include "notice/detect/change.h"
#include <math.h>

static uint64_t seed(void) {
    const char *text = getenv("SL_SEED");
    uint64_t value = text ? strtoull(text, NULL, 10) : 20261121;
    print_message("seed %llu\n", (unsigned long long)value);
    return value;
}

static double normal(uint64_t of) {
    double u = sl_random_unit(sl_random_mix(of)), v = sl_random_unit(sl_random_mix(of ^ SL_RANDOM_STEP));
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

typedef struct told {
    sl_change change[100];
    int changes;
    int64_t delay;
} told;

static told detect(sl_change_algorithm algorithm, const double *x, int n) {
    sl_detector *detector;
    told all = {0};
    assert_ok(sl_detector_open(algorithm, &detector));
    for (int i = 0; i < n; i++)
        if (sl_detector_add(detector, x[i], &all.change[all.changes])) {
            assert_int_equal(all.change[all.changes].seen, i);
            assert_true(all.change[all.changes].index <= i);
            all.changes++;
            assert_true(all.changes < 100);
        }
    sl_detector_close(detector);
    return all;
}

/* `levels` of 60 samples each with relative noise `noise`. */
static int steps(double *x, const double *level, int levels, double noise, uint64_t of) {
    for (int i = 0; i < 60 * levels; i++)
        x[i] = level[i / 60] * (1 + noise * normal(of + (uint64_t)i));
    return 60 * levels;
}

static void onsets_and_reliefs_are_told_where_they_are(void **state) {
    (void)state;
    uint64_t of = seed();
    double x[1000];
    const double level[] = {200, 230, 200, 1000, 200, 300, 500, 200};
    for (int series = 0; series < 40; series++) {
        int n = steps(x, level, 8, 0.01, of + 1000 * (uint64_t)series);
        told all = detect(SL_CHANGE_BOCD_V, x, n);
        assert_int_equal(all.changes, 7);
        for (int i = 0; i < 7; i++) {
            assert_in_range(all.change[i].index, 60 * i + 59, 60 * i + 61);
            assert_int_equal(all.change[i].kind,
                             level[i + 1] > level[i] ? SL_CHANGE_ONSET : SL_CHANGE_RELIEF);
            assert_near(all.change[i].before, level[i], 0.02 * level[i]);
            assert_near(all.change[i].after, level[i + 1], 0.05 * level[i + 1]);
            assert_true(all.change[i].seen - all.change[i].index <= 8);
        }
    }
}

static void less_than_10_percent_is_jitter(void **state) {
    (void)state;
    uint64_t of = seed();
    double x[1000];
    const double level[] = {200, 215, 200, 190, 206, 200};
    for (int series = 0; series < 100; series++) {
        int n = steps(x, level, 6, 0.002 * (1 + series % 8), of + 1000 * (uint64_t)series);
        assert_int_equal(detect(SL_CHANGE_BOCD_V, x, n).changes, 0);
    }
}

/* A restart, a checkpoint every 20, stragglers in pairs: what is over after three samples is no change. */
static void spikes_are_no_changes(void **state) {
    (void)state;
    uint64_t of = seed();
    double x[1000];
    for (int series = 0; series < 50; series++) {
        for (int i = 0; i < 1000; i++)
            x[i] = 1400 * (1 + 0.005 * normal(of + 1000 * (uint64_t)series + (uint64_t)i));
        x[300] = 88685;
        x[301] = 1504;
        for (int i = 20; i < 1000; i += 20)
            x[i] *= 1.2 + 0.1 * (series % 30);
        for (int i = 511; i < 990; i += 100)
            x[i] = x[i + 1] = x[i + 2] = 2500;
        assert_int_equal(detect(SL_CHANGE_BOCD_V, x, 1000).changes, 0);
    }
}

static void a_start_settles_down_without_alarm(void **state) {
    (void)state;
    uint64_t of = seed();
    double x[200];
    for (int slow = 0; slow <= 10; slow++) {
        for (int i = 0; i < 200; i++)
            x[i] = (i < slow ? 900 - 60 * i : 200) * (1 + 0.01 * normal(of + (uint64_t)i));
        x[0] = 50000;
        assert_int_equal(detect(SL_CHANGE_BOCD_V, x, 200).changes, 0);
    }
}

static void an_onset_soon_after_the_start_is_told(void **state) {
    (void)state;
    double x[60];
    for (int i = 0; i < 60; i++)
        x[i] = i == 0 ? 900 : i < 10 || i >= 40 ? 50 + 0.1 * (i % 3) : 80 + 0.1 * (i % 4);
    told all = detect(SL_CHANGE_BOCD_V, x, 60);
    assert_int_equal(all.changes, 2);
    assert_int_equal(all.change[0].index, 10);
    assert_int_equal(all.change[0].kind, SL_CHANGE_ONSET);
    assert_int_equal(all.change[1].index, 40);
    assert_int_equal(all.change[1].kind, SL_CHANGE_RELIEF);
}

static void slow_drift_is_no_change(void **state) {
    (void)state;
    uint64_t of = seed();
    double x[1000];
    for (int series = 0; series < 20; series++) {
        for (int i = 0; i < 1000; i++)
            x[i] =
                300 * (1 + 0.2 * i / 1000) * (1 + 0.01 * normal(of + 1000 * (uint64_t)series + (uint64_t)i));
        assert_int_equal(detect(SL_CHANGE_BOCD_V, x, 1000).changes, 0);
    }
}

static void scale_does_not_matter(void **state) {
    (void)state;
    double x[480], small[480];
    const double level[] = {200, 230, 200, 1000, 200, 300, 500, 200};
    int n = steps(x, level, 8, 0.01, 77);
    for (int i = 0; i < n; i++)
        small[i] = x[i] * 0x1p-30;
    told a = detect(SL_CHANGE_BOCD_V, x, n), b = detect(SL_CHANGE_BOCD_V, small, n);
    assert_int_equal(a.changes, b.changes);
    for (int i = 0; i < a.changes; i++)
        assert_int_equal(a.change[i].index, b.change[i].index);
}

static void zeros_and_giants_are_survived(void **state) {
    (void)state;
    double x[300];
    for (int i = 0; i < 300; i++)
        x[i] = i % 7 == 0 ? 0 : i % 11 == 0 ? 1e308 : i < 150 ? 0 : 1e-300;
    detect(SL_CHANGE_BOCD_V, x, 300);
    detect(SL_CHANGE_WINDOW, x, 300);
}

static void a_week_of_samples_takes_no_memory(void **state) {
    (void)state;
    sl_detector *detector;
    sl_change change;
    int changes = 0;
    assert_ok(sl_detector_open(SL_CHANGE_BOCD_V, &detector));
    sl_alloc_fail_at(0); /* an allocation would fail, and the next one of this thread is the test's own */
    for (int i = 0; i < 7 * 24 * 3600; i++)
        changes += sl_detector_add(detector, (i / 50000 % 2 ? 400 : 300) * (1 + 0.01 * normal((uint64_t)i)),
                                   &change);
    void *pointer = NULL;
    assert_int_equal(sl_alloc(&pointer, 1, 1), SL_ENOMEM);
    assert_int_equal(changes, 12);
    sl_detector_close(detector);
}

static void the_window_sees_steps_later(void **state) {
    (void)state;
    double x[180];
    const double level[] = {200, 300, 200};
    int n = steps(x, level, 3, 0.005, 3);
    told all = detect(SL_CHANGE_WINDOW, x, n);
    assert_int_equal(all.changes, 2);
    assert_int_equal(all.change[0].index, 60);
    assert_int_equal(all.change[0].kind, SL_CHANGE_ONSET);
    assert_int_equal(all.change[1].index, 120);
    assert_int_equal(all.change[1].kind, SL_CHANGE_RELIEF);
}

/* A start that settles in two steps has not changed yet: 6 slow iterations, 10 less slow ones, then as
 * always; and only a change after that is one. */
static void a_start_that_settles_in_two_steps_is_no_change(void **state) {
    (void)state;
    uint64_t of = seed();
    double x[160];
    for (int series = 0; series < 40; series++) {
        for (int i = 0; i < 160; i++)
            x[i] = (i < 6     ? 900
                    : i < 16  ? 500
                    : i < 100 ? 200
                              : 300) *
                   (1 + 0.01 * normal(of + 1000 * (uint64_t)series + (uint64_t)i));
        told all = detect(SL_CHANGE_BOCD_V, x, 160);
        assert_int_equal(all.changes, 1);
        assert_int_equal(all.change[0].index, 100);
        assert_int_equal(all.change[0].kind, SL_CHANGE_ONSET);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(onsets_and_reliefs_are_told_where_they_are),
        cmocka_unit_test(less_than_10_percent_is_jitter),
        cmocka_unit_test(spikes_are_no_changes),
        cmocka_unit_test(a_start_settles_down_without_alarm),
        cmocka_unit_test(an_onset_soon_after_the_start_is_told),
        cmocka_unit_test(slow_drift_is_no_change),
        cmocka_unit_test(scale_does_not_matter),
        cmocka_unit_test(zeros_and_giants_are_survived),
        cmocka_unit_test(a_week_of_samples_takes_no_memory),
        cmocka_unit_test(the_window_sees_steps_later),
        cmocka_unit_test(a_start_that_settles_in_two_steps_is_no_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
