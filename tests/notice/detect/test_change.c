/* Change points: published results, series whose changes are known because they were made, and what must not
 * be told. */
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

/* ---- bocd ---- */

/* clang-format off */
static const double nile[100] = { /* annual flow at Aswan, 1871-1970 (Cobb 1978) */
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180, 799, 958, 1140,
    1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969,
    831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759,
    781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874, 848, 890,
    744, 749, 838, 1050, 918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740};
/* clang-format on */

static void the_nile_changes_once_at_28(void **state) {
    (void)state;
    sl_change *change;
    size_t changes;
    assert_ok(sl_change_bocd(nile, 100, &change, &changes));
    assert_int_equal(changes, 1);
    assert_int_equal(change[0].index, 28);
    assert_int_equal(change[0].kind, SL_CHANGE_ANY);
    assert_near(change[0].before, 1097.75, 1e-9); /* means of 1871-1898 and 1899-1970 */
    assert_near(change[0].after, 849.9722222222, 1e-9);
    sl_free(change);
}

/* ln of the density of x[from, to), normal with unknown mean and variance, prior (0, 1, 1, 1). */
static long double marginal(const double *x, int from, int to) {
    long double n = to - from, mean = 0, squares = 0;
    for (int i = from; i < to; i++)
        mean += (long double)x[i] / n;
    for (int i = from; i < to; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    return lgammal(1 + n / 2) - (1 + n / 2) * logl(1 + squares / 2 + n * mean * mean / (2 * (1 + n))) -
           0.5L * logl(1 + n) - n / 2 * logl(2 * acosl(-1));
}

/* The best segmentation by trying all, segment by segment, in closed form: no recursion over run lengths. */
static int best_segmentation(const double *sample, int n, int *start) {
    static long double best[400];
    static double x[400];
    static int from_of[400];
    double mean = 0, squares = 0;
    for (int i = 0; i < n; i++)
        mean += sample[i] / n;
    for (int i = 0; i < n; i++)
        squares += (sample[i] - mean) * (sample[i] - mean);
    for (int i = 0; i < n; i++)
        x[i] = (sample[i] - mean) / sqrt(squares / (n - 1));
    for (int to = 1; to <= n; to++) {
        best[to] = -INFINITY;
        for (int from = 0; from < to; from++) {
            long double score =
                (from ? best[from] + logl(0.01L) : 0) + (to - from - 1) * logl(0.99L) + marginal(x, from, to);
            if (score > best[to]) {
                best[to] = score;
                from_of[to] = from;
            }
        }
    }
    int count = 0, at;
    for (at = from_of[n]; at > 0; at = from_of[at])
        count++;
    at = from_of[n];
    for (int left = count; left > 0; at = from_of[at])
        start[--left] = at;
    return count;
}

/* 24 series of 300 samples: a clear change at each multiple of 60 to 140, and the same answer as trying all.
 */
static void bocd_finds_known_changes_and_the_best_segmentation(void **state) {
    (void)state;
    uint64_t of = seed();
    for (int series = 0; series < 24; series++) {
        double x[300], level = 100;
        int known[8], knowns = 0, expected[300], every = 60 + series % 5 * 20;
        for (int i = 0; i < 300; i++) {
            if (i && i % every == 0 && 300 - i > 15) {
                known[knowns++] = i;
                level += (knowns + series) % 2 ? 12 : -12;
            }
            x[i] = level + normal(of + 1000 * (uint64_t)series + (uint64_t)i);
        }
        sl_change *change;
        size_t changes;
        assert_ok(sl_change_bocd(x, 300, &change, &changes));
        int best = best_segmentation(x, 300, expected);
        assert_int_equal(changes, best);
        for (int i = 0; i < best; i++)
            assert_int_equal(change[i].index, expected[i]);
        for (int k = 0; k < knowns; k++) {
            int found = 0;
            for (size_t i = 0; i < changes; i++)
                found |= change[i].index == known[k];
            if (!found)
                fail_msg("series %d: the change at %d is not found", series, known[k]);
        }
        sl_free(change);
    }
}

static void a_constant_series_never_changes(void **state) {
    (void)state;
    double x[50];
    for (int n = 0; n <= 50; n++) {
        for (int i = 0; i < n; i++)
            x[i] = 0.1;
        sl_change *change;
        size_t changes;
        assert_ok(sl_change_bocd(x, (size_t)n, &change, &changes));
        assert_int_equal(changes, 0);
        sl_free(change);
    }
}

static void bocd_of_a_long_series_finds_its_changes_too(void **state) {
    (void)state;
    uint64_t of = seed();
    static double x[12000];
    for (int i = 0; i < 12000; i++)
        x[i] = normal(of + (uint64_t)i) + (i >= 5100 && i < 9000 ? 9 : 0);
    sl_change *change;
    size_t changes;
    assert_ok(sl_change_bocd(x, 12000, &change, &changes));
    assert_int_equal(changes, 2);
    assert_in_range(change[0].index, 5099, 5101);
    assert_in_range(change[1].index, 8999, 9001);
    sl_free(change);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nile_changes_once_at_28),
        cmocka_unit_test(bocd_finds_known_changes_and_the_best_segmentation),
        cmocka_unit_test(a_constant_series_never_changes),
        cmocka_unit_test(bocd_of_a_long_series_finds_its_changes_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
