/* Caps on microbatches in flight: better starting orders for several stages per rank, within the memory
 * limit. */
#include "check.h"
#include "plan/drawn.h"

#include "plan/search/caps.h"

/* Links of 20 to 40, three stages per rank, and less room than all microbatches need on all of them. */
static void make(sl_problem *p) {
    int ranks = 4 + draw(3), n = 8 + draw(8);
    assert_ok(sl_problem_make(ranks, 3 * ranks, n, p));
    p->placement = SL_LOOP;
    for (int s = 0; s < p->stages; s++)
        for (int kind = SL_F; kind <= SL_B; kind++)
            p->time[kind][s] = kind == SL_B ? 10 : 5;
    for (int i = 0; i < ranks * ranks; i++)
        p->link[i].latency = 20 + draw(21);
    p->limit = calloc((size_t)ranks, sizeof *p->limit);
    for (int rank = 0; rank < ranks; rank++)
        p->limit[rank] = 2 * n;
}

static void orders_with_caps_are_better_starts(void **state) {
    (void)state;
    int better = 0;
    for (int round = 0; round < 20; round++) {
        sl_problem p;
        sl_starts s;
        const sl_limit never = {.deadline = SL_TIME_NEVER};
        int64_t work = INT64_MAX;
        make(&p);
        assert_ok(sl_starts_open(&p, &s));
        assert_ok(sl_starts_relax(&s, 1));
        assert_ok(sl_starts_add_portfolio(&s, &never, &work));
        sl_time before = s.start[0].value;
        work = 200 * 25 * 3LL * p.stages * p.microbatches;
        const int64_t given = work;
        assert_ok(sl_caps_search(&s, &never, &work));
        assert_true(work < given);
        assert_true(s.start[0].value <= before && s.start[0].value >= s.bound);
        better += s.start[0].value < before;
        sl_starts_free(&s);
        sl_problem_free(&p);
    }
    printf("better for %d of 20 problems\n", better);
    assert_true(better >= 10);
}

static void other_problems_have_none(void **state) {
    (void)state;
    sl_problem p;
    sl_starts s;
    const sl_limit never = {.deadline = SL_TIME_NEVER};
    int64_t work = 1000;
    make(&p);
    free(p.limit);
    p.limit = NULL;
    assert_ok(sl_starts_open(&p, &s));
    assert_ok(sl_starts_relax(&s, 1));
    assert_ok(sl_caps_search(&s, &never, &work));
    assert_int_equal(work, 1000);
    assert_int_equal(s.count, 0);
    sl_starts_free(&s);
    sl_problem_free(&p);
}

int main(void) {
    start_drawing(3);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_with_caps_are_better_starts),
        cmocka_unit_test(other_problems_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
