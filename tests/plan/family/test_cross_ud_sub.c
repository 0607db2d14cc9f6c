/* cross-ud-sub: what CrossPipe publishes about its greedy (section 4.2), its rules by hand, and validity. */
#include "check.h"
#include "plan/drawn.h"

#include "base/memory.h"
#include "plan/family/cross_ud_sub.h"
#include "plan/family/greedy_pass.h"
#include "plan/family/windows.h"
#include "plan/search/plan.h"

#define MS 1000000

static void make(sl_problem *p, int ranks, int microbatches, int parts) {
    assert_ok(sl_problem_make(ranks, ranks, microbatches, p));
    p->parts = parts;
    for (int rank = 0; rank < ranks; rank++) {
        p->time[SL_F][rank] = p->time[SL_I][rank] = p->time[SL_W][rank] = 10 * MS;
        p->time[SL_B][rank] = 20 * MS;
    }
}

/* Rank r may hold `first` - `less` * r activations. */
static void limit_memory(sl_problem *p, double first, double less) {
    if (!p->limit)
        p->limit = calloc((size_t)p->ranks, sizeof *p->limit);
    assert_non_null(p->limit);
    for (int rank = 0; rank < p->ranks; rank++)
        p->limit[rank] = first - less * rank;
}

static void delay(sl_problem *p, int from, sl_time latency, sl_time transfer) {
    p->link[from * p->ranks + from + 1] = p->link[(from + 1) * p->ranks + from] =
        (sl_link){.latency = latency, .transfer = transfer};
}

static sl_time makespan(const sl_problem *p, const char *schedule) {
    sl_plan plan;
    assert_ok(sl_plan_make(p, schedule, &plan));
    sl_time found = plan.makespan;
    assert_true(plan.memory_ok);
    sl_plan_free(&plan);
    return found;
}

/* ---- published ---- */

/* ZB-H1 with F = I = W, p ranks, n microbatches: (3 n + p - 1) F; it holds p activations on every rank. */
static void without_delays_it_is_as_fast_as_zb_h1_in_the_same_memory(void **state) {
    (void)state;
    for (int ranks = 2; ranks <= 8; ranks *= 2)
        for (int n = ranks; n <= 4 * ranks; n += ranks)
            for (int parts = 1; parts <= 4; parts *= 2) {
                sl_problem p;
                make(&p, ranks, n, parts);
                limit_memory(&p, ranks, 0);
                assert_int_equal(makespan(&p, "cross-ud-sub"), (3 * n + ranks - 1) * 10 * MS);
                assert_int_equal(makespan(&p, "zb-h1"), (3 * n + ranks - 1) * 10 * MS);
                sl_problem_free(&p);
            }
}

/* With 1F1B's memory, ranks - r, the last rank has room for one activation: F, I and W of one microbatch
 * after the other, between the p - 1 F that come before and, for the last microbatch, p - 1 I and a W of rank
 * 0 after its I: (p - 1) + 3 n - 1 + (p - 1) + 1. Nothing that fits is faster. */
static void in_the_memory_of_1f1b_it_is_as_fast_as_can_be(void **state) {
    (void)state;
    for (int parts = 1; parts <= 4; parts *= 2) {
        sl_problem p;
        make(&p, 4, 8, parts);
        limit_memory(&p, 4, 1);
        assert_int_equal(makespan(&p, "cross-ud-sub"), (3 + 23 + 3 + 1) * 10 * MS);
        sl_problem_free(&p);
    }
}

/* Figure 8's setup: 4 stages, 8 microbatches, two sites of two stages. */
static void it_beats_the_static_schedules_under_delays(void **state) {
    (void)state;
    static const int quarters[] = {0, 1, 2, 4, 8};
    for (int i = 0; i < 25; i++)
        for (int parts = 1; parts <= 4; parts *= 2) {
            sl_time latency = quarters[i / 5] * 10 * MS / 4, transfer = quarters[i % 5] * 10 * MS / 4;
            sl_problem p;
            make(&p, 4, 8, parts);
            delay(&p, 1, latency, transfer);
            limit_memory(&p, 4, 1);
            sl_time found = makespan(&p, "cross-ud-sub"), fixed = makespan(&p, "1f1b");
            assert_true(found < fixed);
            limit_memory(&p, 4, 0);
            found = makespan(&p, "cross-ud-sub");
            fixed = makespan(&p, "zb-h1");
            assert_true(found <= fixed);
            if (latency + transfer >= 10 * MS) /* beyond what ZB-H1 absorbs */
                assert_true(found < fixed);
            sl_problem_free(&p);
        }
}

/* Table 5, case 3: more memory brings further improvements. */
static void more_memory_never_makes_it_slower(void **state) {
    (void)state;
    for (int transfer = 0; transfer <= 20; transfer += 5) {
        sl_problem p;
        sl_time before = SL_TIME_NEVER, first = 0;
        make(&p, 4, 16, 2);
        delay(&p, 1, 20 * MS, transfer * MS);
        for (int memory = 4; memory <= 16; memory += 4) {
            limit_memory(&p, memory, 0);
            sl_time found = makespan(&p, "cross-ud-sub");
            assert_true(found <= before);
            before = found;
            first = first ? first : found;
        }
        assert_true(before < first);
        sl_problem_free(&p);
    }
}

/* ---- by hand ---- */

static const char *text_of(const sl_order *order, int rank) {
    static char text[512];
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < order->count[rank]; i++) {
        const sl_op *op = &order->ops[rank][i];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%d.%d", i ? " " : "",
                                 sl_op_name(op->kind), op->microbatch, op->part);
    }
    return text;
}

/* Rank 1 needs 5 for an F. F0 reaches it at 15, F1 at 25; it runs F0 15-20, I0 20-30, F1 30-35, I1 35-45, so
 * the gradients reach rank 0 at 35 and 50. Rank 0 runs I0 35-45: a bubble of 5 is left, half a W. */
static void a_bubble_smaller_than_an_op_is_filled_with_a_part_of_w(void **state) {
    (void)state;
    sl_problem p;
    sl_order order;
    sl_phase_rule rule = {.steady = SL_ALTERNATE};
    make(&p, 2, 2, 2);
    p.time[SL_F][1] = 5 * MS;
    delay(&p, 0, 5 * MS, 0);
    assert_ok(sl_phases_order(&p, &rule, &order));
    assert_string_equal(text_of(&order, 0), "F0.0 F0.1 F1.0 F1.1 I0.0 I0.1 W0.0 I1.0 I1.1 W0.1 W1.0 W1.1");
    sl_order_free(&order);
    p.parts = 1; /* a whole W does not fit: it would keep I1 waiting for 5, half its time */
    assert_ok(sl_phases_order(&p, &rule, &order));
    assert_string_equal(text_of(&order, 0), "F0.0 F1.0 I0.0 I1.0 W0.0 W1.0");
    sl_order_free(&order);
    rule.overrun = 1;
    assert_ok(sl_phases_order(&p, &rule, &order));
    assert_string_equal(text_of(&order, 0), "F0.0 F1.0 I0.0 I1.0 W0.0 W1.0");
    sl_order_free(&order);
    rule.overrun = 2;
    assert_ok(sl_phases_order(&p, &rule, &order));
    assert_string_equal(text_of(&order, 0), "F0.0 F1.0 I0.0 W0.0 I1.0 W1.0");
    sl_order_free(&order);
    sl_problem_free(&p);
}

/* One activation: F1 waits for all parts of W0. */
static void memory_brings_w_forward(void **state) {
    (void)state;
    sl_problem p;
    sl_order order;
    make(&p, 1, 2, 2);
    limit_memory(&p, 1, 0);
    assert_ok(sl_cross_ud_sub(&p, &order));
    assert_string_equal(text_of(&order, 0), "F0.0 F0.1 I0.0 I0.1 W0.0 W0.1 F1.0 F1.1 I1.0 I1.1 W1.0 W1.1");
    sl_order_free(&order);
    sl_problem_free(&p);
}

/* F:1 and I:0.5 in a limit of 1.5: a second F would leave no room for the I of the first. */
static void a_forward_leaves_room_for_the_backward(void **state) {
    (void)state;
    sl_problem p;
    make(&p, 3, 5, 2);
    limit_memory(&p, 1.5, 0);
    for (int rank = 0; rank < 3; rank++) {
        p.delta[SL_I][rank] = 0.5;
        p.delta[SL_W][rank] = -1.5;
    }
    makespan(&p, "cross-ud-sub");
    for (int rank = 0; rank < 3; rank++) { /* the same as recomputed activations, taken when I starts */
        p.early[rank] = 0.5;
        p.delta[SL_I][rank] = -0.5;
        p.delta[SL_W][rank] = -1;
    }
    makespan(&p, "cross-ud-sub");
    limit_memory(&p, 1.4, 0);
    sl_plan plan;
    assert_fails(sl_plan_make(&p, "cross-ud-sub", &plan), SL_ENONE, "memory limit");
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

static void a_message_takes_the_earliest_window_that_is_long_enough(void **state) {
    (void)state;
    sl_windows wire = {0};
    sl_time end;
    assert_ok(sl_windows_book(&wire, 0, 10, 5, &end)); /* 10-15 */
    assert_int_equal(end, 15);
    assert_ok(sl_windows_book(&wire, 0, 20, 5, &end)); /* 20-25 */
    assert_int_equal(end, 25);
    assert_ok(sl_windows_book(&wire, 2, 4, 6, &end)); /* 4-10, before both */
    assert_int_equal(end, 10);
    assert_ok(sl_windows_book(&wire, 3, 3, 4, &end)); /* 1 is left before 4, then 15-19 */
    assert_int_equal(end, 19);
    assert_ok(sl_windows_book(&wire, 3, 12, 1, &end)); /* 19-20 closes the gap */
    assert_int_equal(end, 20);
    assert_ok(sl_windows_book(&wire, 3, 4, 2, &end)); /* 4-25 is taken */
    assert_int_equal(end, 27);
    assert_ok(sl_windows_book(&wire, 30, 31, 2, &end));
    assert_int_equal(end, 33);
    sl_windows_free(&wire);
}

/* ---- validity ---- */

static void draw_problem(sl_problem *p) {
    int ranks = 1 + draw(7);
    make(p, ranks, 1 + draw(20), 1 + draw(4));
    for (int rank = 0; rank < ranks && draw(3); rank++) {
        for (int kind = 0; kind < SL_B; kind++)
            p->time[kind][rank] = draw(4) ? 1 + draw(20 * MS) : 0;
        p->time[SL_B][rank] = p->time[SL_I][rank] + p->time[SL_W][rank];
    }
    for (int rank = 0; rank + 1 < ranks; rank++)
        if (draw(2))
            delay(p, rank, draw(2) * draw(60 * MS), draw(2) * draw(20 * MS));
    if (ranks > 2 && draw(3) == 0) { /* two links share a wire */
        p->wire = calloc((size_t)(ranks * ranks), sizeof *p->wire);
        assert_non_null(p->wire);
        for (int i = 0; i < ranks * ranks; i++)
            p->wire[i] = i;
        p->wire[1 * ranks + 2] = p->wire[0 * ranks + 1];
    }
}

static void check_parts_of_f_and_i_are_side_by_side(const sl_problem *p, const sl_order *order) {
    for (int rank = 0; rank < p->ranks; rank++)
        for (int i = 0; i < order->count[rank]; i++) {
            const sl_op *op = &order->ops[rank][i];
            if (op->kind == SL_W || op->part == 0)
                continue;
            assert_int_equal(op[-1].kind, op->kind);
            assert_int_equal(op[-1].microbatch, op->microbatch);
            assert_int_equal(op[-1].part, op->part - 1);
        }
}

/* Lowering checks that every part stands once and that nothing deadlocks; sl_plan measures memory from the
 * replayed timeline. 1F1B with its B in two is one of the rules, so nothing beats that. */
static void every_schedule_is_valid_within_memory_and_no_slower_than_1f1b(void **state) {
    (void)state;
    int limited = 0, none = 0;
    start_drawing(404);
    for (int round = 0; round < 400; round++) {
        sl_problem p;
        sl_plan plan, fixed;
        draw_problem(&p);
        if (draw(3))
            limit_memory(&p, 1 + draw(2 * p.ranks), draw(2));
        for (int rank = 0; p.limit && rank < p.ranks; rank++)
            limited += p.limit[rank] < p.ranks - rank;
        sl_status status = sl_plan_make(&p, "cross-ud-sub", &plan);
        if (status == SL_OK) {
            assert_true(plan.memory_ok);
            assert_ok(sl_order_check_ascending(&plan.order));
            check_parts_of_f_and_i_are_side_by_side(&p, &plan.order);
        } else { /* only a rank without room for one activation */
            int room = 1;
            for (int rank = 0; rank < p.ranks; rank++)
                room &= p.limit && p.limit[rank] >= 1;
            assert_int_equal(status, SL_ENONE);
            assert_false(room);
            none++;
        }
        if (sl_plan_make(&p, "1f1b", &fixed) == SL_OK)
            assert_true(plan.makespan <= fixed.makespan);
        sl_plan_free(&fixed);
        sl_plan_free(&plan);
        sl_problem_free(&p);
    }
    assert_true(limited > 100 && none > 10);
}

/* Every allocation may fail: the error comes back and nothing leaks. */
static void out_of_memory_is_passed_on(void **state) {
    (void)state;
    sl_problem p;
    sl_status status = SL_ENOMEM;
    make(&p, 3, 4, 2);
    delay(&p, 0, 3 * MS, 7 * MS);
    for (long n = 0; status != SL_OK; n += n < 100 ? 1 : 37) {
        sl_order order = {0};
        sl_alloc_fail_at(n);
        status = sl_cross_ud_sub(&p, &order);
        sl_alloc_fail_at(-1);
        assert_true(status == SL_OK || status == SL_ENOMEM);
        assert_true(status == SL_OK || !order.ops);
        sl_order_free(&order);
    }
    sl_problem_free(&p);
}

/* Activations are a quarter until their I recomputes the rest: five would fit, but then no I ever could. Each
 * F leaves the three quarters free that one I takes, so two are held. */
static void forwards_leave_room_for_the_backward_that_frees_them(void **state) {
    (void)state;
    sl_problem p;
    sl_order order;
    make(&p, 2, 6, 1);
    limit_memory(&p, 1.25, 0);
    for (int rank = 0; rank < 2; rank++) {
        p.delta[SL_F][rank] = 0.25;
        p.early[rank] = 0.75;
        p.delta[SL_I][rank] = 0;
        p.delta[SL_W][rank] = -1;
    }
    for (int steady = SL_ALTERNATE; steady <= SL_STRICT; steady++) {
        sl_phase_rule rule = {.steady = (sl_steady)steady};
        assert_ok(sl_phases_order(&p, &rule, &order));
        assert_ok(sl_order_check(&p, &order));
        for (int rank = 0; rank < 2; rank++) {
            double held = 0;
            for (int i = 0; i < order.count[rank]; i++) {
                int kind = order.ops[rank][i].kind;
                held += kind == SL_F ? 0.25 : kind == SL_I ? 0.75 : 0;
                assert_true(held <= 1.25);
                held -= kind == SL_W ? 1 : 0;
            }
            assert_near(held, 0, 0);
        }
        sl_order_free(&order);
    }
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_delays_it_is_as_fast_as_zb_h1_in_the_same_memory),
        cmocka_unit_test(in_the_memory_of_1f1b_it_is_as_fast_as_can_be),
        cmocka_unit_test(it_beats_the_static_schedules_under_delays),
        cmocka_unit_test(more_memory_never_makes_it_slower),
        cmocka_unit_test(a_bubble_smaller_than_an_op_is_filled_with_a_part_of_w),
        cmocka_unit_test(memory_brings_w_forward),
        cmocka_unit_test(a_forward_leaves_room_for_the_backward),
        cmocka_unit_test(a_message_takes_the_earliest_window_that_is_long_enough),
        cmocka_unit_test(every_schedule_is_valid_within_memory_and_no_slower_than_1f1b),
        cmocka_unit_test(out_of_memory_is_passed_on),
        cmocka_unit_test(forwards_leave_room_for_the_backward_that_frees_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
