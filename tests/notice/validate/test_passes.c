/* Passes cover every link once, nobody twice at a time, in as few passes as promised. */
#include "base/random.h"
#include "check.h"
#include "notice/validate/passes.h"

/* Every pair once, in order; nobody twice in a pass; no pass empty. */
static void assert_sound(int members, const sl_passes *p) {
    int *busy = calloc((size_t)members * (size_t)(p->passes + 1), sizeof *busy);
    int *used = calloc((size_t)p->passes + 1, sizeof *used);
    for (int i = 0; i < p->count; i++) {
        const sl_member_pair *pair = &p->pair[i];
        assert_true(pair->a >= 0 && pair->a < pair->b && pair->b < members);
        assert_true(pair->pass >= 0 && pair->pass < p->passes);
        if (i > 0)
            assert_true(pair[-1].a < pair->a || (pair[-1].a == pair->a && pair[-1].b < pair->b));
        assert_int_equal(busy[pair->pass * members + pair->a]++, 0);
        assert_int_equal(busy[pair->pass * members + pair->b]++, 0);
        used[pair->pass]++;
    }
    for (int i = 0; i < p->passes; i++)
        assert_true(used[i] > 0);
    free(busy);
    free(used);
}

static int has(const sl_passes *p, int a, int b) {
    for (int i = 0; i < p->count; i++)
        if (p->pair[i].a == (a < b ? a : b) && p->pair[i].b == (a < b ? b : a))
            return 1;
    return 0;
}

static void a_ring_takes_two_passes_or_three_whatever_its_size(void **state) {
    (void)state;
    for (int n = 3; n <= 1000; n++) {
        sl_passes p;
        assert_ok(sl_passes_ring(n, &p));
        assert_sound(n, &p);
        assert_int_equal(p.count, n);
        assert_int_equal(p.passes, n % 2 ? 3 : 2);
        for (int i = 0; i < n && n < 50; i++)
            assert_true(has(&p, i, (i + 1) % n));
        sl_passes_free(&p);
    }
}

static void two_have_one_link_and_one_has_none(void **state) {
    (void)state;
    for (int n = 0; n <= 2; n++) {
        sl_passes ring, tree, all;
        assert_ok(sl_passes_ring(n, &ring));
        assert_ok(sl_passes_tree(n, &tree));
        assert_ok(sl_passes_all(n, &all));
        assert_int_equal(ring.count, n == 2);
        assert_int_equal(ring.passes, n == 2);
        assert_int_equal(tree.count, n == 2);
        assert_int_equal(tree.passes, n == 2);
        assert_int_equal(all.count, n == 2);
        assert_int_equal(all.passes, n == 2);
        sl_passes_free(&ring);
        sl_passes_free(&tree);
        sl_passes_free(&all);
    }
}

static void a_tree_takes_four_passes_whatever_its_size(void **state) {
    (void)state;
    for (int n = 2; n <= 1000; n++) {
        sl_passes p;
        assert_ok(sl_passes_tree(n, &p));
        assert_sound(n, &p);
        assert_int_equal(p.count, n - 1);
        assert_true(p.passes <= 4);
        if (n >= 5) /* 3, 4 hang below 1, which hangs below 0: left and right of two levels */
            assert_int_equal(p.passes, 4);
        for (int i = 1; i < n && n < 50; i++)
            assert_true(has(&p, i, (i - 1) / 2));
        sl_passes_free(&p);
    }
}

/* A tournament of n has n - 1 rounds when n is even and n when it is odd: no schedule has fewer. */
static void all_pairs_take_as_few_passes_as_a_tournament(void **state) {
    (void)state;
    for (int n = 3; n <= 64; n++) {
        sl_passes p;
        assert_ok(sl_passes_all(n, &p));
        assert_sound(n, &p);
        assert_int_equal(p.count, n * (n - 1) / 2);
        assert_int_equal(p.passes, n % 2 ? n : n - 1);
        sl_passes_free(&p);
    }
}

static void given_links_count_once_however_often_they_are_named(void **state) {
    (void)state;
    const sl_member_pair pair[] = {{3, 1, 0}, {1, 3, 0}, {0, 1, 0}, {1, 3, 0}};
    sl_passes p;
    assert_ok(sl_passes_given(4, pair, 4, &p));
    assert_sound(4, &p);
    assert_int_equal(p.count, 2);
    assert_int_equal(p.passes, 2); /* both have member 1 */
    sl_passes_free(&p);
}

/* König: a bipartite graph has as many colours as its busiest member has links. */
static void links_between_two_camps_take_no_pass_more_than_the_busiest_member_has_links(void **state) {
    (void)state;
    const char *given = getenv("SL_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 20261121, at = seed;
    printf("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 300; round++) {
        int side = 2 + (int)(sl_random_mix(at += SL_RANDOM_STEP) % 20), n = 2 * side, count = 0;
        sl_member_pair pair[500];
        int degree[64] = {0}, most = 0;
        for (int a = 0; a < side; a++)
            for (int b = side; b < n; b++)
                if (sl_random_mix(at += SL_RANDOM_STEP) % 3 == 0) {
                    pair[count++] = (sl_member_pair){a, b, 0};
                    most = ++degree[a] > most ? degree[a] : most;
                    most = ++degree[b] > most ? degree[b] : most;
                }
        sl_passes p;
        assert_ok(sl_passes_given(n, pair, count, &p));
        assert_sound(n, &p);
        assert_int_equal(p.count, count);
        assert_int_equal(p.passes, most);
        sl_passes_free(&p);
    }
}

static void any_links_take_at_most_twice_what_none_can_beat(void **state) {
    (void)state;
    uint64_t at = 7;
    for (int round = 0; round < 300; round++) {
        int n = 2 + (int)(sl_random_mix(at += SL_RANDOM_STEP) % 30), count = 0;
        sl_member_pair pair[500];
        int degree[64] = {0}, most = 0;
        for (int a = 0; a < n; a++)
            for (int b = a + 1; b < n; b++)
                if (sl_random_mix(at += SL_RANDOM_STEP) % 2) {
                    pair[count++] = (sl_member_pair){b, a, 0};
                    most = ++degree[a] > most ? degree[a] : most;
                    most = ++degree[b] > most ? degree[b] : most;
                }
        sl_passes p;
        assert_ok(sl_passes_given(n, pair, count, &p));
        assert_sound(n, &p);
        assert_int_equal(p.count, count);
        assert_true(p.passes >= most && p.passes <= (most > 0 ? 2 * most - 1 : 0));
        sl_passes_free(&p);
    }
}

static void a_link_of_nobody_is_refused(void **state) {
    (void)state;
    sl_passes p;
    assert_fails(sl_passes_given(4, &(sl_member_pair){1, 4, 0}, 1, &p), SL_EINVAL, "1-4");
    assert_fails(sl_passes_given(4, &(sl_member_pair){-1, 2, 0}, 1, &p), SL_EINVAL, "-1-2");
    assert_fails(sl_passes_given(4, &(sl_member_pair){2, 2, 0}, 1, &p), SL_EINVAL, "2-2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_takes_two_passes_or_three_whatever_its_size),
        cmocka_unit_test(two_have_one_link_and_one_has_none),
        cmocka_unit_test(a_tree_takes_four_passes_whatever_its_size),
        cmocka_unit_test(all_pairs_take_as_few_passes_as_a_tournament),
        cmocka_unit_test(given_links_count_once_however_often_they_are_named),
        cmocka_unit_test(links_between_two_camps_take_no_pass_more_than_the_busiest_member_has_links),
        cmocka_unit_test(any_links_take_at_most_twice_what_none_can_beat),
        cmocka_unit_test(a_link_of_nobody_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
