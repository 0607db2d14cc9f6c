/* Which intervals hold an instant, and what queues allow: the same as by trying each one, on random ones that
 * nest, overlap, coincide and have no length. SL_SEED gives the seed. */
#include "check.h"

#include "plan/trace/interval.h"
#include "plan/trace/recover_inside.h"

#include <stdlib.h>

static uint64_t seed_of(void) {
    const char *text = getenv("SL_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 20261122;
    print_message("SL_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static int below(uint64_t *state, int most) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int)((*state >> 33) % (uint64_t)most);
}

enum { MAX = 60, KEYS = 3, TIMES = 40 };

/* The place of the one that was added as `of`. */
static long place_of(const sl_intervals *all, long of) {
    for (size_t i = 0; i < all->count; i++)
        if (of >= 0 && all->interval[i].of == (size_t)of)
            return (long)i;
    return -1;
}

/* By start, then as added. */
static int comes_first(const sl_interval *list, long a, long b) {
    return b < 0 || list[a].start < list[b].start || (list[a].start == list[b].start && a < b);
}

static void check_questions(const sl_intervals *all, const sl_interval *list, const int *gone, int count,
                            uint64_t key, sl_time at) {
    long holding = -1, before = -1, behind = -1, held = 0, found = 0;
    for (long i = 0; i < count; i++) {
        if (list[i].key != key)
            continue;
        if (!gone[i] && list[i].start <= at && at <= list[i].end) {
            held++;
            holding = comes_first(list, i, holding) ? i : holding;
        }
        if (!gone[i] && list[i].end <= at && (before < 0 || !comes_first(list, i, before)))
            before = i;
        if (list[i].start >= at && comes_first(list, i, behind))
            behind = i;
    }
    assert_int_equal(sl_intervals_holding(all, key, at, 0), place_of(all, holding));
    assert_int_equal(sl_intervals_before(all, key, at), place_of(all, before));
    assert_int_equal(sl_intervals_following(all, key, at), place_of(all, behind));
    for (long place = -1; (place = sl_intervals_holding(all, key, at, (size_t)(place + 1))) >= 0;)
        found++;
    assert_int_equal(found, held);
}

static void every_question_has_the_answer_of_a_search(void **state) {
    (void)state;
    uint64_t random = seed_of();
    for (int round = 0; round < 300; round++) {
        sl_interval list[MAX];
        int gone[MAX] = {0}, count = below(&random, MAX + 1);
        sl_intervals all = {0};
        for (int i = 0; i < count; i++) {
            sl_time start = below(&random, TIMES);
            list[i] = (sl_interval){(uint64_t)below(&random, KEYS), start,
                                    start + below(&random, 1 + below(&random, TIMES)), (size_t)i};
            assert_ok(sl_intervals_add(&all, list[i]));
        }
        assert_ok(sl_intervals_sort(&all));
        for (int removed = 0; removed < 2; removed++) {
            for (uint64_t key = 0; key <= KEYS; key++)
                for (sl_time at = -1; at <= 2 * TIMES; at++)
                    check_questions(&all, list, gone, count, key, at);
            for (int i = 0; i < count / 2 && !removed; i++) {
                long of = below(&random, count);
                gone[of] = 1;
                sl_intervals_remove(&all, (size_t)place_of(&all, of));
            }
        }
        sl_intervals_free(&all);
    }
}

/* ---- queues ---- */

static int compare_arrivals(const void *a, const void *b) {
    const sl_carried *x = a, *y = b;
    return x->arrive < y->arrive ? -1 : x->arrive > y->arrive;
}

static void the_bound_of_a_queue_is_that_of_all_its_pairs(void **state) {
    (void)state;
    uint64_t random = seed_of() + 1;
    for (int round = 0; round < 2000; round++) {
        sl_carried c[MAX] = {0};
        const int count = below(&random, MAX + 1);
        const sl_time delay = 1000 * below(&random, 50), step = 1 + below(&random, 20000);
        sl_time bound, expected = SL_QUEUE_MAX;
        for (int i = 0; i < count; i++) {
            c[i].ready = step * i + below(&random, 1 + below(&random, 40000));
            c[i].arrive = below(&random, 9) ? c[i].ready + delay + below(&random, 30000) : SL_TIME_NEVER;
        }
        qsort(c, (size_t)count, sizeof *c, compare_arrivals);
        for (int i = 0; i < count; i++)
            for (int j = 0; j < i && c[i].arrive != SL_TIME_NEVER; j++) {
                const sl_time all = c[i].arrive - c[j].ready - delay + delay / 20 + 1000;
                if (c[j].ready <= c[i].ready && all / (i - j) < expected)
                    expected = all > 0 ? all / (i - j) : 0;
            }
        assert_ok(sl_queue_bound(c, count, delay, &bound));
        assert_int_equal(bound, expected);
    }
}

/* Ready at once, a transfer time apart behind each other: just that, and the allowance of the last one. */
static void a_long_queue_tells_its_transfer_time(void **state) {
    (void)state;
    enum { LONG = 200000 };
    sl_carried *c = calloc(LONG, sizeof *c);
    sl_time bound;
    assert_non_null(c);
    for (int i = 0; i < LONG; i++)
        c[i] = (sl_carried){.ready = 5, .arrive = 5 + 70000 + (sl_time)i * 40000};
    assert_ok(sl_queue_bound(c, LONG, 70000, &bound));
    assert_int_equal(bound, 40000); /* (199999 * 40000 + 3500 + 1000) / 199999 */
    free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_question_has_the_answer_of_a_search),
        cmocka_unit_test(the_bound_of_a_queue_is_that_of_all_its_pairs),
        cmocka_unit_test(a_long_queue_tells_its_transfer_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
