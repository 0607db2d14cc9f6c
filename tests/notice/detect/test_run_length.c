/* The recursion against the definition: segments' marginal likelihoods in closed form, summed over all ways
 * to come to a run length, in long double; nothing of it is shared with the recursion under test. */
#include "check.h"

#include "base/memory.h"
#include "base/random.h"
#include "notice/detect/run_length.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SAMPLES 120

static const sl_run_prior priors[] = {
    {0, 1, 1, 1, 0.01, 0}, {2, 0.03, 0.5, 4, 0.2, 0}, {-1, 10, 3, 0.01, 0.001, 0}};

static uint64_t seed(void) {
    const char *text = getenv("SL_SEED");
    uint64_t value = text ? strtoull(text, NULL, 10) : 20261121;
    printf("seed %llu\n", (unsigned long long)value);
    return value;
}

static double normal(uint64_t of) {
    double u = sl_random_unit(sl_random_mix(of)), v = sl_random_unit(sl_random_mix(of ^ SL_RANDOM_STEP));
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* ln of the density of x[from, to) under the prior, by its sufficient statistics (Murphy 2007, equation 95).
 */
static long double marginal(const sl_run_prior *p, const double *x, int from, int to) {
    long double n = to - from, mean = 0, squares = 0;
    if (to == from)
        return 0;
    for (int i = from; i < to; i++)
        mean += (long double)x[i] / n;
    for (int i = from; i < to; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    long double k = p->strength, a = p->shape, b = p->rate, away = mean - p->mean;
    long double rate = b + squares / 2 + k * n * away * away / (2 * (k + n));
    return lgammal(a + n / 2) - lgammal(a) + a * logl(b) - (a + n / 2) * logl(rate) +
           0.5L * logl(k / (k + n)) - n / 2 * logl(2 * acosl(-1));
}

static long double add_logs(long double a, long double b) {
    long double most = a > b ? a : b, least = a > b ? b : a;
    return most == -INFINITY ? most : most + log1pl(expl(least - most));
}

/* weight[i]: ln P(the run began at i | x[0, n)), i <= n; best: the last segment's start in the best
 * segmentation. */
static int by_definition(const sl_run_prior *p, const double *x, int n, long double *weight) {
    static long double total[SAMPLES + 1], most[SAMPLES + 1];
    long double stay = log1pl(-(long double)p->hazard), change = logl(p->hazard), sum = -INFINITY;
    int last = 0;
    total[0] = most[0] = 0; /* of all segmentations whose last one ends right before sample i */
    for (int to = 1; to <= n; to++) {
        total[to] = most[to] = -INFINITY;
        for (int from = 0; from < to; from++) {
            long double segment = marginal(p, x, from, to) + (to - from - 1) * stay + change;
            total[to] = add_logs(total[to], total[from] + segment);
            if (most[from] + segment > most[to]) {
                most[to] = most[from] + segment;
                last = to == n ? from : last;
            }
        }
    }
    for (int from = 0; from <= n; from++) {
        weight[from] = total[from] + marginal(p, x, from, n) + (n - from) * stay;
        sum = add_logs(sum, weight[from]);
    }
    for (int from = 0; from <= n; from++)
        weight[from] -= sum;
    return last;
}

static void check_series(const sl_run_prior *prior, const double *x, int n) {
    static long double weight[SAMPLES + 1];
    sl_run_lengths lengths;
    assert_int_equal(sl_run_lengths_open(prior, (size_t)n + 1, &lengths), SL_OK);
    for (int t = 0; t < n; t++) {
        sl_run_lengths_add(&lengths, x[t]);
        if (t % 7 && t != n - 1)
            continue;
        int last = by_definition(prior, x, t + 1, weight);
        assert_int_equal(lengths.runs, t + 2);
        for (size_t i = 0; i < lengths.runs; i++) {
            long double expected = weight[lengths.run[i].start];
            if (fabsl((long double)lengths.run[i].weight - expected) > 1e-9L * (1 + fabsl(expected)))
                fail_msg("after %d samples, run from %d: ln P %.15g, by definition %.15Lg", t + 1,
                         (int)lengths.run[i].start, lengths.run[i].weight, expected);
        }
        assert_int_equal(lengths.best, last);
    }
    sl_run_lengths_close(&lengths);
}

static void the_recursion_is_what_the_definition_says(void **state) {
    (void)state;
    uint64_t of = seed();
    double x[SAMPLES];
    for (int series = 0; series < 6; series++) {
        for (int i = 0; i < SAMPLES; i++)
            x[i] =
                normal(of + 1000 * (uint64_t)series + (uint64_t)i) + (i > 40 + 10 * series ? 5 - series : 0);
        check_series(&priors[series % 3], x, SAMPLES);
    }
}

static void numbers_far_apart_lose_nothing(void **state) {
    (void)state;
    double x[SAMPLES];
    for (int i = 0; i < SAMPLES; i++)
        x[i] = i % 40 == 39 ? 1e9 : i < 60 ? 1e-6 * i : -4e5 + normal((uint64_t)i);
    check_series(&priors[0], x, SAMPLES);
    check_series(&priors[1], x, SAMPLES);
}

static double sum_of(const sl_run_lengths *lengths) {
    double sum = 0;
    for (size_t i = 0; i < lengths->runs; i++)
        sum += exp(lengths->run[i].weight);
    return sum;
}

static void probabilities_add_up_and_a_run_of_0_has_the_hazard(void **state) {
    (void)state;
    uint64_t of = seed();
    for (int merged = 0; merged < 2; merged++) {
        sl_run_prior prior = priors[0];
        prior.spacing = merged ? 0.25 : 0;
        sl_run_lengths lengths;
        assert_int_equal(sl_run_lengths_open(&prior, merged ? 0 : 3001, &lengths), SL_OK);
        for (int i = 0; i < 3000; i++) {
            sl_run_lengths_add(&lengths, normal(of + (uint64_t)i) + (i / 700) * 4);
            assert_near(sum_of(&lengths), 1, 1e-9);
            assert_near(exp(lengths.run[lengths.runs - 1].weight), 0.01, 1e-12);
        }
        sl_run_lengths_close(&lengths);
    }
}

static double probability_of_at_most(const sl_run_lengths *lengths, int64_t length) {
    double sum = 0;
    for (size_t i = 0; i < lengths->runs; i++)
        sum += lengths->samples - lengths->run[i].start <= length ? exp(lengths->run[i].weight) : 0;
    return sum;
}

/* Of the best segmentation whose last segment begins at `start`, the best of all being 0. */
static double score_from(const sl_run_lengths *lengths, int64_t start) {
    for (size_t i = 0; i < lengths->runs; i++)
        if (lengths->run[i].start == start)
            return lengths->run[i].score;
    return -INFINITY;
}

/* What merging may change is bounded: young runs keep their probability, and the best run is among the best.
 */
static void merging_changes_little(void **state) {
    (void)state;
    uint64_t of = seed();
    sl_run_prior prior = priors[0];
    sl_run_lengths exact, merged;
    assert_int_equal(sl_run_lengths_open(&prior, 2001, &exact), SL_OK);
    prior.spacing = 0.25;
    assert_int_equal(sl_run_lengths_open(&prior, 0, &merged), SL_OK);
    double worst = 0, worst_score = 0;
    for (int i = 0; i < 2000; i++) {
        double x = normal(of + (uint64_t)i) + (i / 400) * 6;
        sl_run_lengths_add(&exact, x);
        sl_run_lengths_add(&merged, x);
        worst = fmax(worst, fabs(probability_of_at_most(&exact, 8) - probability_of_at_most(&merged, 8)));
        worst_score = fmin(worst_score, score_from(&exact, merged.best));
    }
    print_message(
        "largest difference of P(run length <= 8): %g; ln of how much less likely the best start is than the "
        "exact one: %g\n",
        worst, worst_score);
    assert_true(worst < 0.05);
    assert_true(worst_score > -2);
    sl_run_lengths_close(&exact);
    sl_run_lengths_close(&merged);
}

static void a_week_of_samples_takes_no_more_memory(void **state) {
    (void)state;
    sl_run_prior prior = priors[0];
    prior.spacing = 0.25;
    sl_run_lengths lengths;
    assert_int_equal(sl_run_lengths_open(&prior, 0, &lengths), SL_OK);
    size_t room = lengths.capacity, most = 0;
    sl_alloc_fail_at(0);
    for (int i = 0; i < 7 * 24 * 3600; i++) {
        sl_run_lengths_add(&lengths, normal((uint64_t)i));
        most = lengths.runs > most ? lengths.runs : most;
    }
    sl_alloc_fail_at(-1);
    assert_int_equal(lengths.capacity, room);
    assert_true(most <= room);
    assert_near(sum_of(&lengths), 1, 1e-9);
    print_message("at most %zu runs, room for %zu\n", most, room);
    sl_run_lengths_close(&lengths);
}

static void a_recursion_without_memory_is_refused(void **state) {
    (void)state;
    sl_run_lengths lengths;
    for (int n = 0; n < 2; n++) {
        sl_alloc_fail_at(n);
        assert_int_equal(sl_run_lengths_open(&priors[0], 100, &lengths), SL_ENOMEM);
        sl_run_lengths_close(&lengths);
    }
    sl_alloc_fail_at(-1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_recursion_is_what_the_definition_says),
                                       cmocka_unit_test(numbers_far_apart_lose_nothing),
                                       cmocka_unit_test(probabilities_add_up_and_a_run_of_0_has_the_hazard),
                                       cmocka_unit_test(merging_changes_little),
                                       cmocka_unit_test(a_week_of_samples_takes_no_more_memory),
                                       cmocka_unit_test(a_recursion_without_memory_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
