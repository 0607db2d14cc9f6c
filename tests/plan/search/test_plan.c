/* What a plan says about its order: losses by hand, orders of the plain families by hand, no overflow at the
 * limits of a problem file, every failed allocation an error. */
#include "check.h"
#include "plan/order_text.h"

#include "base/memory.h"
#include "plan/bound/bound.h"
#include "plan/family/family.h"
#include "plan/search/plan.h"

static void make(sl_problem *p, int ranks, int microbatches, sl_time each) {
    assert_ok(sl_problem_make(ranks, ranks, microbatches, p));
    for (int s = 0; s < ranks; s++) {
        p->time[SL_F][s] = p->time[SL_I][s] = p->time[SL_W][s] = each;
        p->time[SL_B][s] = 2 * each;
    }
}

static void gpipe_and_1f1b_are_as_their_papers_draw_them(void **state) {
    (void)state;
    sl_problem p;
    sl_order order;
    make(&p, 2, 3, 1);
    assert_ok(sl_family_find("gpipe")->build(&p, &order));
    for (int rank = 0; rank < 2; rank++)
        assert_string_equal(text_of(&order, rank), "F0 F1 F2 B0 B1 B2");
    sl_order_free(&order);
    assert_ok(sl_family_find("1f1b")->build(&p, &order));
    assert_string_equal(text_of(&order, 0), "F0 F1 B0 F2 B1 B2");
    assert_string_equal(text_of(&order, 1), "F0 B0 F1 B1 F2 B2");
    sl_order_free(&order);
    sl_problem_free(&p);
}

/* Two ranks, two microbatches, F 1, B 2, latency 10, 1f1b, by hand.
 * free links: rank 1 F0 1-2, B0 2-4, F1 4-5, B1 5-7; rank 0 B0 4-6, B1 7-9: 9.
 * decoupled: F0 arrives at 11, F1 at 12; rank 1 B0 until 14, B1 until 17; rank 0 B0 24-26, B1 27-29: 29.
 * in order, one place: F1 leaves at 11 and arrives at 21, B1 of rank 1 ends at 24, when the place of B0's
 * gradient is free again, and arrives at 34: 36. */
static void losses_are_told_apart(void **state) {
    (void)state;
    sl_problem p;
    sl_plan plan;
    make(&p, 2, 2, 1);
    p.link[1].latency = p.link[2].latency = 10;
    assert_ok(sl_plan_make(&p, "1f1b", &plan));
    assert_int_equal(plan.makespan, 29);
    assert_int_equal(plan.dependency_loss, 20);
    assert_int_equal(plan.blocking_loss, 0);
    sl_plan_free(&plan);
    p.communication = SL_INORDER;
    p.queue = 1;
    assert_ok(sl_plan_make(&p, "1f1b", &plan));
    assert_int_equal(plan.makespan, 36);
    assert_int_equal(plan.dependency_loss, 20);
    assert_int_equal(plan.blocking_loss, 7);
    assert_int_equal(plan.span, 36);
    assert_int_equal(plan.ideal, 6);
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

/* Everything in a row, the longest that a problem file may ask for: 9.1e18 of 9.22e18 ns (problem.h). */
static void the_bound_does_not_overflow_at_the_limits(void **state) {
    (void)state;
    static const int shapes[][2] = {{1, 65536}, {1000, 1300}, {20, 65000}, {1024, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        sl_problem p;
        sl_time bound, most = sl_from_ms(SL_MAX_OP_MS);
        int ranks = shapes[i][0];
        make(&p, ranks, shapes[i][1], most);
        for (int k = 0; k < ranks * ranks; k++)
            p.link[k] = (sl_link){.latency = most, .transfer = most};
        assert_ok(sl_lower_bound(&p, 1, &bound));
        /* one microbatch's way, and the work of a rank */
        assert_true(bound >= (2 * ranks + 1) * most + 4 * (ranks - 1) * most);
        assert_true(bound >= 3 * (sl_time)shapes[i][1] * most);
        sl_problem_free(&p);
    }
}

static void unknown_names_are_refused_with_the_known_ones(void **state) {
    (void)state;
    sl_problem p;
    sl_plan plan;
    make(&p, 2, 2, 1);
    assert_fails(sl_plan_make(&p, "zb-h3", &plan), SL_EINVAL,
                 "auto, optimal, gpipe, 1f1b, zb-h1, zb-h2, adaptra, interleaved-1f1b, zb-v, dualpipe-v, "
                 "chimera, cross-ud-sub");
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

/* gpipe and 1f1b take equally long with one microbatch in every respect: the table's order decides. */
static void auto_prefers_less_memory_then_the_table(void **state) {
    (void)state;
    sl_problem p;
    sl_plan plan;
    make(&p, 1, 4,
         1); /* one rank: every order takes 12 and 1f1b holds one microbatch where gpipe holds four */
    assert_ok(sl_plan_make(&p, "auto", &plan));
    assert_string_equal(plan.schedule, "1f1b");
    sl_plan_free(&plan);
    sl_problem_free(&p);
    make(&p, 1, 1, 1);
    assert_ok(sl_plan_make(&p, "auto", &plan));
    assert_string_equal(plan.schedule, "gpipe");
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

static void every_failed_allocation_is_an_error(void **state) {
    (void)state;
    sl_problem p;
    make(&p, 3, 4, 1);
    p.link[1].latency = 7;
    p.communication = SL_INORDER;
    int failed = 0;
    for (long n = 0;; n++) {
        sl_plan plan;
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        assert_non_null(out);
        sl_alloc_fail_at(n);
        sl_status status = sl_plan_make(&p, "auto", &plan);
        if (status == SL_OK)
            status = sl_plan_write_json(&p, &plan, out);
        sl_alloc_fail_at(-1);
        fclose(out);
        free(text);
        sl_plan_free(&plan);
        if (status == SL_OK)
            break;
        assert_int_equal(status, SL_ENOMEM);
        failed++;
    }
    assert_true(failed > 50);
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpipe_and_1f1b_are_as_their_papers_draw_them),
        cmocka_unit_test(losses_are_told_apart),
        cmocka_unit_test(the_bound_does_not_overflow_at_the_limits),
        cmocka_unit_test(unknown_names_are_refused_with_the_known_ones),
        cmocka_unit_test(auto_prefers_less_memory_then_the_table),
        cmocka_unit_test(every_failed_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
