/* The list scheduler against Adaptra's algorithms 3 and 4 as printed (a loop over time steps), and what it
 * promises about quota and memory, by hand. */
#include "check.h"
#include "plan/drawn.h"
#include "plan/order_text.h"

#include "plan/family/family.h"
#include "plan/family/list.h"
#include "plan/search/plan.h"

static void make(sl_problem *p, int ranks, int microbatches, sl_time f, sl_time i, sl_time w) {
    assert_ok(sl_problem_make(ranks, ranks, microbatches, p));
    for (int s = 0; s < ranks; s++) {
        p->time[SL_F][s] = f;
        p->time[SL_I][s] = i;
        p->time[SL_W][s] = w;
        p->time[SL_B][s] = i + w;
    }
}

static void limit_memory(sl_problem *p, double limit) {
    p->limit = calloc((size_t)p->ranks, sizeof *p->limit);
    assert_non_null(p->limit);
    for (int r = 0; r < p->ranks; r++)
        p->limit[r] = limit;
}

/* ---- algorithms 3 and 4, one time step after the other ---- */

#define MAX 16

static struct {
    int next[3], quota;
    sl_time busy, free[2], ready[2][MAX]; /* of F and I */
    double memory;
} stepped[MAX];

static int select_op(const sl_problem *p, int r, sl_time t) {
    int f = stepped[r].next[SL_F], i = stepped[r].next[SL_I], n = p->microbatches;
    int has_f = f < n && stepped[r].ready[0][f] <= t;
    if (has_f && p->limit && stepped[r].memory + p->delta[SL_F][r] > p->limit[r])
        has_f = 0;
    if (f < stepped[r].quota)
        return has_f ? SL_F : -1;
    if (i < f && stepped[r].ready[1][i] <= t)
        return SL_I;
    return has_f ? SL_F : stepped[r].next[SL_W] < i ? SL_W : -1;
}

static void execute(const sl_problem *p, int r, int kind, sl_time t, sl_order *order) {
    int m = stepped[r].next[kind]++, to = kind == SL_F ? r + 1 : r - 1;
    order->ops[r][order->count[r]++] = (sl_op){.stage = r, .microbatch = m, .kind = kind};
    sl_time end = stepped[r].busy = t + p->time[kind][r];
    stepped[r].memory += p->delta[kind][r];
    if (kind == SL_F && to == p->ranks)
        stepped[r].ready[1][m] = end;
    else if (kind != SL_W && to >= 0) {
        sl_time *free_at = &stepped[r].free[kind == SL_F], start = *free_at > end ? *free_at : end;
        const sl_link *link = &p->link[r * p->ranks + to];
        *free_at = start + link->transfer;
        stepped[to].ready[kind == SL_F ? 0 : 1][m] = *free_at + link->latency;
    }
}

static int step_through(const sl_problem *p, const int *x, sl_order *order) {
    int left = 3 * p->ranks * p->microbatches;
    memset(stepped, 0, sizeof stepped);
    for (int r = 0; r < p->ranks; r++) {
        stepped[r].quota = x[r];
        for (int m = 0; m < p->microbatches; m++) {
            stepped[r].ready[0][m] = r == 0 ? 0 : SL_TIME_NEVER;
            stepped[r].ready[1][m] = SL_TIME_NEVER;
        }
    }
    for (sl_time t = 0; left > 0 && t < 20000; t++)
        for (int r = 0; r < p->ranks; r++) {
            int kind = stepped[r].busy <= t ? select_op(p, r, t) : -1;
            if (kind < 0)
                continue;
            execute(p, r, kind, t, order);
            left--;
        }
    return left == 0;
}

static void it_is_algorithm_4_with_the_smallest_time_step(void **state) {
    (void)state;
    start_drawing(403u);
    int done = 0, stuck = 0;
    for (int round = 0; round < 400; round++) {
        sl_problem p;
        sl_order stepwise, order;
        int x[MAX], ranks = 1 + draw(6);
        make(&p, ranks, 1 + draw(MAX), 0, 0, 0);
        for (int r = 0; r < ranks; r++) {
            for (int kind = 0; kind < SL_OP_KINDS; kind++)
                p.time[kind][r] = 1 + draw(9);
            x[r] = 1 + draw(r == 0 ? p.microbatches : x[r - 1]);
        }
        for (int i = 0; i < ranks * ranks; i++)
            p.link[i] = (sl_link){.latency = draw(2) * draw(30), .transfer = draw(2) * draw(12)};
        if (draw(2))
            limit_memory(&p, 1 + draw(p.microbatches));
        assert_ok(sl_order_make(ranks, 3 * p.microbatches, &stepwise));
        int possible = step_through(&p, x, &stepwise);
        sl_list_rule rule = {.warmup = x, .limited = 1};
        sl_status status = sl_list_schedule(&p, &rule, &order);
        assert_int_equal(status, possible ? SL_OK : SL_ENONE);
        if (status == SL_OK)
            assert_true(sl_order_equal(&order, &stepwise));
        done += possible;
        stuck += !possible;
        sl_order_free(&order);
        sl_order_free(&stepwise);
        sl_problem_free(&p);
    }
    assert_true(done > 100 && stuck > 20);
}

/* One rank, room for two: after I1 both places are taken, so W0 comes before F2. */
static void a_forward_that_would_pass_the_limit_gives_way_to_w(void **state) {
    (void)state;
    sl_problem p;
    sl_order order;
    make(&p, 1, 3, 1, 1, 1);
    limit_memory(&p, 2);
    static const int x[1] = {1};
    sl_list_rule rule = {.warmup = x, .limited = 1};
    assert_ok(sl_list_schedule(&p, &rule, &order));
    assert_string_equal(text_of(&order, 0), "F0 I0 F1 I1 W0 F2 I2 W1 W2");
    sl_order_free(&order);
    sl_problem_free(&p);
}

/* Two ranks: rank 1 needs 3 forwards, the first gradients must wait for them although they could run before.
 */
static void the_quota_comes_before_the_first_backward(void **state) {
    (void)state;
    sl_problem p;
    sl_order order;
    make(&p, 2, 3, 1, 1, 1);
    static const int x[2] = {3, 3};
    sl_list_rule rule = {.warmup = x};
    assert_ok(sl_list_schedule(&p, &rule, &order));
    assert_string_equal(text_of(&order, 1), "F0 F1 F2 I0 I1 I2 W0 W1 W2");
    sl_order_free(&order);
    sl_problem_free(&p);
}

static void a_quota_beyond_the_memory_gets_stuck_and_says_so(void **state) {
    (void)state;
    sl_problem p;
    sl_order order;
    make(&p, 2, 4, 1, 1, 1);
    limit_memory(&p, 2);
    static const int x[2] = {3, 1};
    sl_list_rule rule = {.warmup = x, .limited = 1};
    assert_fails(sl_list_schedule(&p, &rule, &order), SL_ENONE, "the memory limit is too low");
    sl_problem_free(&p);
}

/* I of each microbatch takes half a unit until its W: with 2 forwards in memory of 3 units both I still fit;
 * a third F would leave no room for any. Slow gradients tempt rank 0 to start it. */
static void a_forward_leaves_room_for_an_i_that_takes_memory(void **state) {
    (void)state;
    for (int n = 1; n <= 12; n++)
        for (int latency = 0; latency <= 40; latency += 10) {
            sl_problem p;
            sl_plan plan;
            make(&p, 3, n, 3, 4, 5);
            for (int r = 0; r < 3; r++) {
                p.delta[SL_I][r] = 0.5;
                p.delta[SL_W][r] = -1.5;
                p.delta[SL_B][r] = -1;
            }
            for (int i = 0; i < 9; i++)
                p.link[i].latency = latency;
            limit_memory(&p, 3);
            assert_ok(sl_plan_make(&p, "adaptra", &plan));
            assert_true(plan.memory_ok);
            assert_true(plan.warmup[0] <= 2);
            sl_plan_free(&plan);
            p.limit[1] = 1.4; /* F and I of one microbatch need 1.5 */
            assert_fails(sl_plan_make(&p, "adaptra", &plan), SL_ENONE,
                         "at least 1.5 on rank 1, over its limit of 1.4");
            sl_plan_free(&plan);
            sl_problem_free(&p);
        }
}

/* Each microbatch leaves 0.1 behind for good: the 11th starts when 10 have left 1.0, so 2.0 is needed, and is
 * enough. */
static void memory_that_stays_behind_counts(void **state) {
    (void)state;
    sl_problem p;
    sl_plan plan;
    make(&p, 2, 11, 1, 1, 1);
    for (int r = 0; r < 2; r++)
        p.delta[SL_W][r] = -0.9;
    limit_memory(&p, 2);
    assert_ok(sl_plan_make(&p, "adaptra", &plan));
    assert_true(plan.memory_ok);
    sl_plan_free(&plan);
    p.limit[0] = 1.99;
    assert_fails(sl_plan_make(&p, "adaptra", &plan), SL_ENONE,
                 "at least 2 on rank 0, over its limit of 1.99");
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

/* N = 1 leaves no choice: down, back and W; with N up to 3 plans are valid whatever S and delay are. */
static void few_microbatches_get_plans_too(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= 8; ranks++)
        for (int n = 1; n <= 3; n++)
            for (int delay = 0; delay <= 100; delay += 50) {
                sl_problem p;
                sl_plan plan;
                make(&p, ranks, n, 10, 10, 10);
                for (int i = 0; i < ranks * ranks; i++)
                    p.link[i].latency = delay;
                assert_ok(sl_plan_make(&p, "adaptra", &plan));
                if (n == 1) {
                    assert_int_equal(plan.makespan, 20 * ranks + 10 + 2 * delay * (ranks - 1));
                    assert_int_equal(plan.bound, plan.makespan);
                }
                for (int r = 0; r < ranks; r++)
                    assert_true(plan.warmup[r] >= 1 && plan.warmup[r] <= n);
                sl_plan_free(&plan);
                sl_problem_free(&p);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_algorithm_4_with_the_smallest_time_step),
        cmocka_unit_test(a_forward_that_would_pass_the_limit_gives_way_to_w),
        cmocka_unit_test(the_quota_comes_before_the_first_backward),
        cmocka_unit_test(a_quota_beyond_the_memory_gets_stuck_and_says_so),
        cmocka_unit_test(a_forward_leaves_room_for_an_i_that_takes_memory),
        cmocka_unit_test(memory_that_stays_behind_counts),
        cmocka_unit_test(few_microbatches_get_plans_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
