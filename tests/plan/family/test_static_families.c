/* The fixed schedules of several stages a rank: valid for every shape, with the bubbles and the memory that
 * were published or follow by hand. */
#include "check.h"

#include "plan/family/family.h"
#include "plan/search/plan.h"
#include "plan/timing/replay.h"

static void make(sl_problem *p, sl_placement placement, int ranks, int chunks, int microbatches) {
    assert_ok(sl_problem_make(ranks, ranks * chunks, microbatches, p));
    p->placement = placement;
}

static void set_times(sl_problem *p, sl_time f, sl_time i, sl_time w, sl_time overlapped) {
    for (int s = 0; s < p->stages; s++) {
        p->time[SL_F][s] = f;
        p->time[SL_I][s] = i;
        p->time[SL_W][s] = w;
        p->time[SL_B][s] = i + w;
        p->saved[s] = f + i + w - overlapped;
    }
}

/* One family, one shape, on free links; F, I, W in ns. */
static void plan_shape(const char *family, sl_placement placement, int ranks, int chunks, int microbatches,
                       const sl_time *times, sl_plan *plan) {
    sl_problem p;
    make(&p, placement, ranks, chunks, microbatches);
    set_times(&p, times[0], times[1], times[2], times[0] + times[1] + times[2]);
    assert_ok(sl_plan_make(&p, family, plan));
    sl_problem_free(&p);
}

static const sl_time equal[3] = {10, 10, 10};  /* B = 2F */
static const sl_time as_long[3] = {10, 10, 0}; /* B = F */

/* ---- every shape ---- */

static void check_regimes(const sl_problem *p, const sl_program *program) {
    for (int regime = SL_DECOUPLED; regime <= SL_INORDER; regime++) {
        sl_timeline timeline;
        assert_ok(sl_replay(p, program, (sl_regime)regime, 1, &timeline));
        sl_timeline_free(&timeline);
    }
}

static int check_shape(const sl_family *family, sl_problem *p) {
    sl_order order;
    sl_program program;
    set_times(p, 10, 9, 8, 20);
    p->parts = 1 + p->microbatches % 2;
    assert_ok(sl_family_build(family, p, &order));
    if (sl_lower(p, &order, &program) != SL_OK)
        fail_msg("%s, %d ranks, %d stages, %d microbatches: %s", family->name, p->ranks, p->stages,
                 p->microbatches, sl_error_text());
    assert_ok(sl_order_check_ascending(&order));
    check_regimes(p, &program);
    sl_program_free(&program);
    sl_order_free(&order);
    return 1;
}

static void every_shape_gets_a_complete_order_without_deadlock(void **state) {
    (void)state;
    int shapes[16] = {0};
    for (int placement = 0; placement < SL_PLACEMENTS; placement++)
        for (int ranks = 1; ranks <= 9; ranks++)
            for (int chunks = 1; chunks <= 4; chunks++)
                for (int n = 1; n <= 40; n++) {
                    if ((placement == SL_LINEAR && chunks != 1) ||
                        (placement == SL_BIDIRECTIONAL && chunks != 2))
                        continue;
                    for (int i = 0; sl_families[i].name; i++) {
                        sl_problem p;
                        if (strcmp(sl_families[i].name, "adaptra") == 0) /* looks at times: test_schedules */
                            continue;
                        make(&p, (sl_placement)placement, ranks, chunks, n);
                        if (sl_family_fits(&sl_families[i], &p))
                            shapes[i] += check_shape(&sl_families[i], &p);
                        sl_problem_free(&p);
                    }
                }
    static const struct {
        const char *name;
        int shapes; /* of 9 ranks * 40 microbatches */
    } expected[] = {{"gpipe", 9 * 360}, {"1f1b", 360},       {"interleaved-1f1b", 4 * 360},
                    {"zb-v", 360},      {"dualpipe-v", 360}, {"chimera", 360}};
    for (size_t k = 0; k < sizeof expected / sizeof expected[0]; k++)
        assert_int_equal(shapes[sl_family_find(expected[k].name) - sl_families], expected[k].shapes);
}

static void a_family_says_which_shape_it_needs(void **state) {
    (void)state;
    sl_problem p;
    sl_plan plan;
    make(&p, SL_WAVE, 3, 4, 6);
    set_times(&p, 1, 1, 1, 3);
    assert_fails(sl_plan_make(&p, "zb-v", &plan), SL_EINVAL,
                 "zb-v needs two stages per rank (6); the problem has 12");
    sl_plan_free(&plan);
    assert_fails(sl_plan_make(&p, "dualpipe-v", &plan), SL_EINVAL, "dualpipe-v needs two stages per rank");
    sl_plan_free(&plan);
    assert_fails(sl_plan_make(&p, "interleaved-1f1b", &plan), SL_EINVAL,
                 "interleaved-1f1b needs placement loop; the problem's is wave");
    sl_plan_free(&plan);
    assert_fails(sl_plan_make(&p, "chimera", &plan), SL_EINVAL, "chimera needs placement bidirectional");
    sl_plan_free(&plan);
    assert_fails(sl_plan_make(&p, "1f1b", &plan), SL_EINVAL, "1f1b needs placement linear");
    sl_plan_free(&plan);
    assert_ok(sl_plan_make(&p, "auto", &plan)); /* takes what fits */
    assert_string_equal(plan.schedule, "gpipe");
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

/* ---- gpipe ---- */

/* The last rank starts F of its first stage after p - 1 forwards, and with n >= p microbatches nobody waits
 * between stages of a loop: (n v + p - 1)(F + B). All activations are held at the turn. */
static void breadth_first_has_the_bubble_of_one_stage(void **state) {
    (void)state;
    for (int p = 1; p <= 6; p++)
        for (int v = 1; v <= 4; v++)
            for (int n = p; n <= 3 * p; n++) {
                sl_plan plan;
                plan_shape("gpipe", v == 1 ? SL_LINEAR : SL_LOOP, p, v, n, equal, &plan);
                assert_int_equal(plan.makespan, (n * v + p - 1) * 30);
                for (int r = 0; r < p; r++)
                    assert_true(plan.peak_memory[r] == n * v);
                sl_plan_free(&plan);
            }
}

/* ---- interleaved 1F1B ---- */

/* Narayanan et al., 2.2: with times of a whole rank t_f, t_b the bubble is (p - 1)(t_f + t_b) / v; a chunk
 * takes t / v, so (p - 1)(F + B) of a chunk, and relative to the ideal (p - 1) / (v m). Megatron demands that
 * p divides m; the larger groups here keep the bubble for every m >= p. */
static void the_bubble_of_interleaved_1f1b_is_that_of_1f1b_divided_by_the_chunks(void **state) {
    (void)state;
    for (int p = 1; p <= 8; p++)
        for (int v = 1; v <= 4; v++)
            for (int m = p; m <= 4 * p + 2; m++) {
                sl_plan plan;
                plan_shape("interleaved-1f1b", SL_LOOP, p, v, m, equal, &plan);
                assert_int_equal(plan.ideal, m * v * 30);
                assert_int_equal(plan.makespan - plan.ideal, (p - 1) * 30);
                assert_near((double)(plan.makespan - plan.ideal) / (double)plan.ideal,
                            (p - 1) / ((double)v * m), 1e-12);
                sl_plan_free(&plan);
            }
}

/* Warm-up 2 (p - r - 1) + (v - 1) p and the forward that follows it; on rank 0 v p + p - 1 chunks: the 1 + (p
 * - 1) / (p v) times 1F1B's p of Korthikanti et al. (2022), section 4.2.3. */
static void interleaved_1f1b_holds_what_megatron_says(void **state) {
    (void)state;
    for (int p = 2; p <= 8; p++)
        for (int v = 2; v <= 4; v++) {
            sl_plan plan;
            plan_shape("interleaved-1f1b", SL_LOOP, p, v, 3 * p, equal, &plan);
            assert_near(plan.peak_memory[0] / v, p * (1 + (p - 1) / ((double)p * v)), 1e-9);
            for (int r = 0; r < p; r++)
                assert_true(plan.peak_memory[r] == 2 * (p - r - 1) + (v - 1) * p + 1);
            sl_plan_free(&plan);
        }
}

/* Fewer microbatches than ranks: one group. By hand, 2 ranks, 2 chunks, 1 microbatch: everything in a row. */
static void one_microbatch_runs_in_a_row(void **state) {
    (void)state;
    static const struct {
        const char *family;
        sl_placement placement;
    } cases[] = {{"interleaved-1f1b", SL_LOOP}, {"gpipe", SL_LOOP}, {"gpipe", SL_WAVE}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
        for (int p = 1; p <= 5; p++) {
            sl_plan plan;
            plan_shape(cases[k].family, cases[k].placement, p, 2, 1, equal, &plan);
            assert_int_equal(plan.makespan, 2 * p * 30);
            sl_plan_free(&plan);
        }
}

/* ---- zb-v ---- */

/* Zero Bubble, section 6: F = I = W and free links give no stall on any rank. A rank works 6n units, rank r
 * starts r units after rank 0 (its first forward comes down r stages), so the last one ends after 6n + p - 1.
 * Memory is that of 1F1B, p whole ranks, which is 2p stages, on every rank. */
static void zb_v_has_no_bubble_with_the_memory_of_1f1b(void **state) {
    (void)state;
    for (int p = 1; p <= 8; p++)
        for (int n = 2 * p; n <= 5 * p; n++) {
            sl_plan plan;
            plan_shape("zb-v", SL_WAVE, p, 2, n, equal, &plan);
            assert_int_equal(plan.span, 6 * n * 10);
            assert_int_equal(plan.makespan, (6 * n + p - 1) * 10);
            for (int r = 0; r < p; r++)
                assert_true(plan.peak_memory[r] == 2 * p);
            sl_plan_free(&plan);
        }
}

/* ---- dualpipe-v ---- */

static sl_time most_idle(const sl_plan *plan) {
    sl_time most = 0;
    for (int r = 0; r < plan->order.ranks; r++) {
        sl_time idle = plan->makespan - sl_timeline_work(&plan->timeline, r);
        most = idle > most ? idle : most;
    }
    return most;
}

/* DualPipe's table: bubble (PP/2 - 1)(FB + B - 3W) and PP + 1 activations with PP stages, here on PP/2 ranks,
 * for F = I (the table counts on I being no longer than F). The bubble is that of the rank with most pairs,
 * where FB < F + B makes ranks differ. */
static void dualpipe_v_has_the_published_bubble_and_memory(void **state) {
    (void)state;
    static const sl_time times[][4] = {/* F, I, W, FB */
                                       {10, 10, 10, 30},
                                       {10, 10, 10, 25},
                                       {20, 20, 10, 50},
                                       {20, 20, 10, 40},
                                       {10, 10, 5, 25}};
    for (size_t k = 0; k < sizeof times / sizeof times[0]; k++)
        for (int ranks = 2; ranks <= 8; ranks++)
            for (int n = 2 * ranks; n <= 5 * ranks; n += 3) {
                sl_problem p;
                sl_plan plan;
                const sl_time *t = times[k];
                make(&p, SL_WAVE, ranks, 2, n);
                set_times(&p, t[0], t[1], t[2], t[3]);
                assert_ok(sl_plan_make(&p, "dualpipe-v", &plan));
                assert_int_equal(most_idle(&plan), (ranks - 1) * (t[3] + t[1] + t[2] - 3 * t[2]));
                for (int r = 0; r < ranks; r++)
                    assert_true(plan.peak_memory[r] == 2 * ranks + 1);
                sl_plan_free(&plan);
                sl_problem_free(&p);
            }
}

/* By the steps of its README, rank r of p pairs a forward with a backward in the main step twice a turn, n -
 * 2p + r + 1 turns, less the first pair of the last rank, and p - r - 1 times in the step behind it. */
static void dualpipe_v_pairs_forwards_with_backwards(void **state) {
    (void)state;
    for (int p = 1; p <= 6; p++)
        for (int n = 2 * p; n <= 4 * p; n++) {
            sl_plan plan;
            plan_shape("dualpipe-v", SL_WAVE, p, 2, n, equal, &plan);
            for (int r = 0; r < p; r++) {
                int pairs = 0;
                for (int i = 0; i < plan.order.count[r]; i++)
                    pairs += plan.order.ops[r][i].paired;
                assert_int_equal(pairs, 2 * (n - 2 * p + r + 1) - (r == p - 1) + p - r - 1);
            }
            sl_plan_free(&plan);
        }
}

/* ---- chimera ---- */

/* Li and Hoefler: with N = p (even) microbatches and F as long as B there are p - 2 bubbles, (p - 2) / (2N +
 * p - 2) of the time; units that follow one another leave no more. With B = 2F one unit has (p - 2) / (3N/2 +
 * p - 2), so 2 (p - 2) F. */
static void chimera_has_half_the_bubbles_of_1f1b(void **state) {
    (void)state;
    for (int p = 2; p <= 12; p += 2) {
        for (int units = 1; units <= 4; units++) {
            int n = p * units;
            sl_plan plan;
            plan_shape("chimera", SL_BIDIRECTIONAL, p, 2, n, as_long, &plan);
            assert_int_equal(plan.makespan, (2 * n + p - 2) * 10);
            assert_near(sl_timeline_bubble(&plan.timeline), (p - 2) / (2.0 * n + p - 2), 1e-12);
            sl_plan_free(&plan);
        }
        sl_plan plan;
        plan_shape("chimera", SL_BIDIRECTIONAL, p, 2, p, equal, &plan);
        assert_int_equal(plan.makespan, (3 * p + 2 * (p - 2)) * 10);
        assert_near(sl_timeline_bubble(&plan.timeline), (p - 2) / (1.5 * p + p - 2), 1e-12);
        sl_plan_free(&plan);
    }
}

/* By hand, 4 ranks, 4 microbatches, B = 2F = 20: stages 0..3 run down, 4..7 up. */
static void chimera_of_four_ranks_is_the_one_drawn_by_hand(void **state) {
    (void)state;
    static const struct {
        int kind, stage, microbatch;
        sl_time start;
    } rank0[] = {{SL_F, 0, 0, 0},  {SL_F, 0, 2, 10}, {SL_F, 7, 1, 30},  {SL_B, 7, 1, 40},
                 {SL_F, 7, 3, 60}, {SL_B, 7, 3, 70}, {SL_B, 0, 0, 100}, {SL_B, 0, 2, 140}};
    sl_plan plan;
    plan_shape("chimera", SL_BIDIRECTIONAL, 4, 2, 4, equal, &plan);
    assert_int_equal(plan.order.count[0], 8);
    for (int i = 0; i < 8; i++) {
        const sl_span *span = &plan.timeline.span[i];
        assert_int_equal(span->op.kind, rank0[i].kind);
        assert_int_equal(span->op.stage, rank0[i].stage);
        assert_int_equal(span->op.microbatch, rank0[i].microbatch);
        assert_int_equal(span->start, rank0[i].start);
    }
    sl_plan_free(&plan);
}

/* Table 2 there: activations from p/2 + 1 at the ends to p in the middle, one more a rank: rank r holds p/2
 * of the pipeline that begins near it, and 1 + min(r, p - 1 - r) of the other. */
static void chimera_balances_memory(void **state) {
    (void)state;
    for (int p = 2; p <= 12; p += 2)
        for (int units = 1; units <= 3; units++) {
            sl_plan plan;
            plan_shape("chimera", SL_BIDIRECTIONAL, p, 2, p * units, as_long, &plan);
            for (int r = 0; r < p; r++)
                assert_true(plan.peak_memory[r] == p / 2 + 1 + (r < p - 1 - r ? r : p - 1 - r));
            sl_plan_free(&plan);
        }
}

/* An odd number of ranks follows the slots of one rank more, so it takes no longer than those slots. */
static void chimera_of_odd_ranks_keeps_to_the_slots_of_one_more(void **state) {
    (void)state;
    for (int p = 1; p <= 9; p += 2)
        for (int units = 1; units <= 4; units++) {
            int n = (p + 1) * units;
            sl_plan plan;
            plan_shape("chimera", SL_BIDIRECTIONAL, p, 2, n, as_long, &plan);
            assert_true(plan.makespan <= (2 * n + p - 1) * 10);
            sl_plan_free(&plan);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_gets_a_complete_order_without_deadlock),
        cmocka_unit_test(a_family_says_which_shape_it_needs),
        cmocka_unit_test(breadth_first_has_the_bubble_of_one_stage),
        cmocka_unit_test(the_bubble_of_interleaved_1f1b_is_that_of_1f1b_divided_by_the_chunks),
        cmocka_unit_test(interleaved_1f1b_holds_what_megatron_says),
        cmocka_unit_test(one_microbatch_runs_in_a_row),
        cmocka_unit_test(zb_v_has_no_bubble_with_the_memory_of_1f1b),
        cmocka_unit_test(dualpipe_v_has_the_published_bubble_and_memory),
        cmocka_unit_test(dualpipe_v_pairs_forwards_with_backwards),
        cmocka_unit_test(chimera_has_half_the_bubbles_of_1f1b),
        cmocka_unit_test(chimera_of_four_ranks_is_the_one_drawn_by_hand),
        cmocka_unit_test(chimera_balances_memory),
        cmocka_unit_test(chimera_of_odd_ranks_keeps_to_the_slots_of_one_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
