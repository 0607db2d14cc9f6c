/* Splits of microbatches: against every split there is, against one microbatch after the other, and by the
 * certificate that no smaller largest time is possible. Times are compared in 113 bits, which hold every
 * product exactly. */
#include "random_problem.h"

#include "adapt/balance/balance.h"

#ifndef ALIKE
#define ALIKE 10
#endif
#include "base/memory.h"

#include <limits.h>
#include <math.h>

__extension__ typedef __float128 wide;

#define MAX 400

static wide time_of(const sl_replica_rate *r, int count) {
    return (wide)r->time * ((wide)count + (wide)r->fill);
}

static int descending(const void *a, const void *b) {
    wide x = *(const wide *)a, y = *(const wide *)b;
    return (x < y) - (x > y);
}

/* ---- facts ---- */

static void the_published_counterexample_takes_21(void **state) {
    (void)state;
    sl_replica_rate replica[] = {{.time = 7}, {.time = 11}};
    int split[2];
    double makespan;
    assert_ok(sl_balance(replica, 2, 4, split, &makespan));
    assert_int_equal(split[0], 3);
    assert_int_equal(split[1], 1);
    assert_true(makespan == 21);
}

/* examples/train-hybrid.yaml: 30 ms and 45 ms a microbatch, pipelines of two ranks. 30 * 13, 45 * 9. */
static void filling_counts(void **state) {
    (void)state;
    sl_replica_rate replica[] = {{.time = 30, .fill = 1}, {.time = 45, .fill = 1}};
    int split[2];
    double makespan;
    assert_ok(sl_balance(replica, 2, 20, split, &makespan));
    assert_int_equal(split[0], 12);
    assert_int_equal(split[1], 8);
    assert_true(makespan == 405);
}

/* The slow one fixes the maximum at 100; the others still share evenly, the lower index first. */
static void those_behind_the_slowest_are_even_too(void **state) {
    (void)state;
    sl_replica_rate replica[] = {{.time = 1}, {.time = 100}, {.time = 1}, {.time = 1}};
    int split[4];
    double makespan;
    assert_ok(sl_balance(replica, 4, 12, split, &makespan));
    assert_int_equal(split[0], 4);
    assert_int_equal(split[1], 1);
    assert_int_equal(split[2], 4);
    assert_int_equal(split[3], 3);
    assert_true(makespan == 100);
}

/* A third is a little less in double, and so are three of them, though their product rounds to 1: they end
 * before four quarters. Rounded, both would end together, and the quarters, lifted less, would come first. */
static void products_are_not_rounded(void **state) {
    (void)state;
    sl_replica_rate replica[] = {{.time = 1.0 / 3}, {.time = 0.25}};
    int split[2];
    double makespan;
    assert_true(3 * (1.0 / 3) == 1);
    assert_ok(sl_balance(replica, 2, 6, split, &makespan)); /* 2 and 3 end before */
    assert_int_equal(split[0], 3);
    assert_int_equal(split[1], 3);
    assert_true(makespan == 1);
}

/* ---- every split ---- */

typedef struct trial {
    const sl_replica_rate *replica;
    int replicas;
    int split[8], best[8];
    wide least[8]; /* times of the best, descending */
    int found;
} trial;

static void weigh(trial *t) {
    wide time[8];
    int order = 0;
    for (int i = 0; i < t->replicas; i++)
        time[i] = time_of(&t->replica[i], t->split[i]);
    qsort(time, (size_t)t->replicas, sizeof *time, descending);
    for (int i = 0; i < t->replicas && order == 0; i++)
        order = (time[i] > t->least[i]) - (time[i] < t->least[i]);
    for (int i = 0; i < t->replicas && order == 0; i++) /* the lower index takes more */
        order = t->best[i] - t->split[i];
    if (t->found && order >= 0)
        return;
    t->found = 1;
    memcpy(t->best, t->split, sizeof t->best);
    memcpy(t->least, time, sizeof time);
}

static void try_all(trial *t, int from, int left) {
    int limit = t->replica[from].limit;
    if (from == t->replicas - 1) {
        t->split[from] = left;
        if (left >= 1 && (limit == 0 || left <= limit))
            weigh(t);
        return;
    }
    for (int m = 1; m < left && (limit == 0 || m <= limit); m++) {
        t->split[from] = m;
        try_all(t, from + 1, left - m);
    }
}

/* Of each kind: whole and so often equal, next to each other, any, and far apart. */
static double draw_time(uint64_t *state, int kind) {
    double unit = sl_random_unit(sl_random_mix(*state += SL_RANDOM_STEP));
    switch (kind) {
    case 0:
        return 1 + draw(state, 6);
    case 1:
        return 0.1 * (1 + draw(state, 4)) * (1 + (draw(state, 5) - 2) * 0x1p-52);
    case 2:
        return 0.5 + unit;
    case 3:
        return exp(200 * (unit - 0.5));
    default:
        return exp(900 * (unit - 0.5));
    }
}

static void draw_replicas(uint64_t *state, int replicas, int limits, sl_replica_rate *replica) {
    int kind = draw(state, 5), fills = draw(state, 2);
    for (int i = 0; i < replicas; i++)
        replica[i] = (sl_replica_rate){.time = draw_time(state, kind),
                                       .fill = fills ? 0.25 * draw(state, 12) : 0,
                                       .limit = limits && draw(state, 2) ? 1 + draw(state, limits) : 0};
}

static void the_split_is_the_best_of_all(void **unused) {
    (void)unused;
    uint64_t state = seed_of(1);
    int none = 0, trials = 3000;
    for (int n = 0; n < trials; n++) {
        sl_replica_rate replica[8];
        int replicas = 1 + draw(&state, 5), microbatches = replicas + draw(&state, 11), split[8];
        double makespan;
        draw_replicas(&state, replicas, n % 2 ? 6 : 0, replica);
        trial t = {.replica = replica, .replicas = replicas};
        try_all(&t, 0, microbatches);
        if (!t.found) {
            none++;
            assert_fails(sl_balance(replica, replicas, microbatches, split, &makespan), SL_ENONE, "limits");
            continue;
        }
        assert_ok(sl_balance(replica, replicas, microbatches, split, &makespan));
        assert_memory_equal(split, t.best, (size_t)replicas * sizeof *split);
        assert_true(makespan == (double)t.least[0]);
    }
    assert_in_range(none, 10, trials / 4);
}

/* ---- one microbatch after the other ---- */

/* To the replica that is done first with one more; together: to the one that is lifted less. */
static void give_one_by_one(const sl_replica_rate *replica, int replicas, int microbatches, int *split) {
    for (int i = 0; i < replicas; i++)
        split[i] = 1;
    for (int given = replicas; given < microbatches; given++) {
        int to = -1;
        for (int i = 0; i < replicas; i++) {
            wide time = time_of(&replica[i], split[i] + 1);
            if (replica[i].limit > 0 && split[i] == replica[i].limit)
                continue;
            if (to < 0 || time < time_of(&replica[to], split[to] + 1) ||
                (time == time_of(&replica[to], split[to] + 1) &&
                 time_of(&replica[i], split[i]) > time_of(&replica[to], split[to])))
                to = i;
        }
        split[to]++;
    }
}

static void many_replicas_get_what_one_by_one_gives(void **unused) {
    (void)unused;
    static sl_replica_rate replica[MAX];
    static int split[MAX], expected[MAX];
    uint64_t state = seed_of(2);
    for (int n = 0; n < 60; n++) {
        int replicas = 1 + draw(&state, MAX);
        int spare = draw(&state, 3), microbatches = replicas + draw(&state, spare == 0   ? 3
                                                                            : spare == 1 ? replicas
                                                                                         : 5000);
        double makespan;
        draw_replicas(&state, replicas, n % 3 == 0 ? 100 : 0, replica);
        replica[0].limit = 0; /* there is room for all */
        assert_ok(sl_balance(replica, replicas, microbatches, split, &makespan));
        give_one_by_one(replica, replicas, microbatches, expected);
        assert_memory_equal(split, expected, (size_t)replicas * sizeof *split);
    }
}

/* ---- large ---- */

/* Most microbatches, from 1, that end before `time`. */
static int64_t count_before(const sl_replica_rate *r, wide time) {
    int64_t low = 1, high = (int64_t)1 << 32;
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        if ((wide)r->time * ((wide)middle + (wide)r->fill) < time)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Everybody has at least one, all are given, nobody is above its limit, and what ends before the largest time
 * is less than all. */
static void certify(const sl_replica_rate *replica, int replicas, int microbatches, const int *split) {
    wide largest = 0, alone = 0;
    int64_t sum = 0, before = 0;
    for (int i = 0; i < replicas; i++) {
        assert_true(split[i] >= 1 && (replica[i].limit == 0 || split[i] <= replica[i].limit));
        sum += split[i];
        wide time = time_of(&replica[i], split[i]), one = time_of(&replica[i], 1);
        largest = time > largest ? time : largest;
        alone = one > alone ? one : alone;
    }
    assert_int_equal(sum, microbatches);
    for (int i = 0; i < replicas; i++) {
        int64_t count = count_before(&replica[i], largest);
        before += replica[i].limit > 0 && count > replica[i].limit ? replica[i].limit : count;
    }
    assert_true(largest == alone || before < microbatches);
}

static void large_splits_are_certified(void **unused) {
    (void)unused;
    uint64_t state = seed_of(3);
    static const int sizes[] = {2, 3, 17, 512, 5000, 100000};
    sl_replica_rate *replica = calloc(100000, sizeof *replica);
    int *split = calloc(100000, sizeof *split);
    double makespan;
    for (int n = 0; n < 24; n++) {
        int replicas = sizes[draw(&state, 6)];
        int microbatches = (const int[]){replicas,      replicas + 1,       2 * replicas - 1,
                                         10 * replicas, 1000000 + replicas, INT_MAX}[draw(&state, 6)];
        draw_replicas(&state, replicas, n % 4 == 0 ? 1000 : 0, replica);
        replica[0].limit = 0;
        assert_ok(sl_balance(replica, replicas, microbatches, split, &makespan));
        certify(replica, replicas, microbatches, split);
    }
    free(replica);
    free(split);
}

/* All alike but for the last bits: thresholds without a double between them. */
static void times_that_differ_in_the_last_bit_are_told_apart(void **unused) {
    (void)unused;
    uint64_t state = seed_of(4);
    static sl_replica_rate replica[MAX];
    static int split[MAX], expected[MAX];
    for (int n = 0; n < ALIKE; n++) {
        double makespan, base = 1 + sl_random_unit(sl_random_mix(state += SL_RANDOM_STEP));
        for (int i = 0; i < MAX; i++)
            replica[i] = (sl_replica_rate){.time = base * (1 + draw(&state, 3) * 0x1p-52)};
        int microbatches = 3 * MAX + draw(&state, MAX);
        assert_ok(sl_balance(replica, MAX, microbatches, split, &makespan));
        give_one_by_one(replica, MAX, microbatches, expected);
        assert_memory_equal(split, expected, sizeof split);
    }
}

/* ---- refusals ---- */

static void what_cannot_be_divided_is_said(void **state) {
    (void)state;
    int split[3];
    double makespan;
    sl_replica_rate good[] = {{.time = 1}, {.time = 2, .limit = 2}, {.time = 3, .limit = 1}};
    assert_fails(sl_balance(good, 3, 2, split, &makespan), SL_ENONE,
                 "2 microbatches cannot be divided among 3");
    assert_fails(sl_balance(good + 1, 2, 4, split, &makespan), SL_ENONE, "take 3 microbatches, not 4");
    assert_fails(sl_balance(good, 0, 4, split, &makespan), SL_EINVAL, "replicas must be");
    static const double wrong[] = {0, -1, NAN, INFINITY, 1e-201, 1e201};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sl_replica_rate bad[] = {{.time = 1}, {.time = wrong[i]}};
        assert_fails(sl_balance(bad, 2, 4, split, &makespan), SL_EINVAL, "time of replica 1");
    }
    sl_replica_rate fill[] = {{.time = 1, .fill = -0.5}}, limit[] = {{.time = 1, .limit = -1}};
    assert_fails(sl_balance(fill, 1, 4, split, &makespan), SL_EINVAL, "fill of replica 0");
    assert_fails(sl_balance(limit, 1, 4, split, &makespan), SL_EINVAL, "limit of replica 0");
}

static void want_of_memory_is_an_error(void **state) {
    (void)state;
    sl_replica_rate replica[] = {{.time = 7}, {.time = 11}};
    int split[2];
    double makespan;
    for (long n = 0; n < 2; n++) { /* rows, candidates */
        sl_alloc_fail_at(n);
        assert_int_equal(sl_balance(replica, 2, 4, split, &makespan), SL_ENOMEM);
    }
    sl_alloc_fail_at(-1);
}

/* ---- times that are no formula ---- */

typedef struct table {
    double time[8][64];
    int64_t asked;
} table;

static sl_status look_up(void *context, int replica, int microbatches, double *time) {
    table *t = context;
    t->asked++;
    *time = t->time[replica][microbatches];
    return SL_OK;
}

static double least_of_all(const table *t, int replicas, int from, int left, const int *limit) {
    double least = INFINITY;
    for (int m = from == replicas - 1 ? left : 1; m <= left - (replicas - 1 - from); m++) {
        double rest = from == replicas - 1 ? 0 : least_of_all(t, replicas, from + 1, left - m, limit);
        if (limit[from] == 0 || m <= limit[from])
            least = fmin(least, fmax(t->time[from][m], rest));
    }
    return least;
}

static void tables_are_split_exactly(void **unused) {
    (void)unused;
    uint64_t state = seed_of(5);
    int none = 0, trials = 2000;
    for (int n = 0; n < trials; n++) {
        table t = {0};
        int replicas = 1 + draw(&state, 4), microbatches = replicas + draw(&state, 12), split[8], limit[8],
            guess[8];
        for (int i = 0; i < replicas; i++) {
            double time = draw(&state, 5);
            int most = draw(&state, 4) == 0 ? 1 + draw(&state, 8) : 64; /* of its memory */
            for (int m = 1; m < 64; m++)
                t.time[i][m] = m > most ? INFINITY : (time += draw(&state, 3));
            limit[i] = draw(&state, 4) == 0 ? 1 + draw(&state, 12) : 0;
            guess[i] = draw(&state, 20); /* anything */
        }
        double makespan, least = least_of_all(&t, replicas, 0, microbatches, limit);
        sl_replica_curve curve = {look_up, &t, limit, n % 2 ? guess : NULL};
        if (isinf(least)) {
            none++;
            assert_int_equal(sl_balance_curve(&curve, replicas, microbatches, split, &makespan), SL_ENONE);
            continue;
        }
        assert_ok(sl_balance_curve(&curve, replicas, microbatches, split, &makespan));
        double largest = 0;
        int sum = 0;
        for (int i = 0; i < replicas; i++) {
            assert_true(split[i] >= 1 && (limit[i] == 0 || split[i] <= limit[i]));
            largest = fmax(largest, t.time[i][split[i]]);
            sum += split[i];
        }
        assert_int_equal(sum, microbatches);
        assert_true(makespan == least && largest == least);
    }
    assert_in_range(none, 10, trials / 2);
}

typedef struct formula {
    const sl_replica_rate *replica;
    int64_t asked;
} formula;

static sl_status compute(void *context, int replica, int microbatches, double *time) {
    formula *f = context;
    f->asked++;
    *time = sl_replica_time(&f->replica[replica], microbatches);
    return SL_OK;
}

/* Times of small whole numbers, so that no product is rounded. */
static void a_formula_asked_for_gives_the_same_split_with_few_questions(void **unused) {
    (void)unused;
    uint64_t state = seed_of(6);
    static sl_replica_rate replica[64];
    int limit[64], guess[64], split[64], expected[64];
    for (int n = 0; n < 200; n++) {
        int replicas = 1 + draw(&state, 64), microbatches = replicas + draw(&state, 60000);
        double makespan, same;
        for (int i = 0; i < replicas; i++) {
            replica[i] = (sl_replica_rate){.time = 1 + draw(&state, 1000),
                                           .fill = draw(&state, 8),
                                           .limit = i > 0 && n % 2 ? 1 + draw(&state, 3000) : 0};
            limit[i] = replica[i].limit;
        }
        assert_ok(sl_balance(replica, replicas, microbatches, expected, &makespan));
        for (int i = 0; i < replicas; i++)
            guess[i] = expected[i] + draw(&state, 3) - 1;
        formula f = {.replica = replica};
        sl_replica_curve curve = {compute, &f, limit, guess};
        assert_ok(sl_balance_curve(&curve, replicas, microbatches, split, &same));
        assert_memory_equal(split, expected, (size_t)replicas * sizeof *split);
        assert_true(same == makespan);
        assert_in_range(f.asked, 0, 200 * replicas); /* of up to 60,000 each */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_counterexample_takes_21),
        cmocka_unit_test(filling_counts),
        cmocka_unit_test(those_behind_the_slowest_are_even_too),
        cmocka_unit_test(products_are_not_rounded),
        cmocka_unit_test(the_split_is_the_best_of_all),
        cmocka_unit_test(many_replicas_get_what_one_by_one_gives),
        cmocka_unit_test(large_splits_are_certified),
        cmocka_unit_test(times_that_differ_in_the_last_bit_are_told_apart),
        cmocka_unit_test(what_cannot_be_divided_is_said),
        cmocka_unit_test(want_of_memory_is_an_error),
        cmocka_unit_test(tables_are_split_exactly),
        cmocka_unit_test(a_formula_asked_for_gives_the_same_split_with_few_questions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
