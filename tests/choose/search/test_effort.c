/* What another arrangement would bring, from a profile: against figures that are known or calculated by hand.
 */
#include "check.h"

#include "base/memory.h"
#include "choose/search/effort.h"
#include "choose/search/profile_layers.h"
#include "plan/family/family.h"
#include "plan/pipeline/layers.h"

#include <string.h>

static void stages(int ranks, int microbatches, const int *ms, sl_problem *p) {
    assert_ok(sl_problem_make(ranks, ranks, microbatches, p));
    for (int stage = 0; stage < ranks; stage++)
        for (int kind = SL_F; kind <= SL_B; kind++)
            p->time[kind][stage] = (kind == SL_B ? 2 : 1) * ms[stage] * SL_MS;
}

static const sl_other *of_effort(const sl_others *o, sl_effort effort) {
    for (int i = 0; i < o->count; i++)
        if (o->other[i].effort == effort)
            return &o->other[i];
    return NULL;
}

static const sl_other_options options = {.replicas = 1, .time_limit = 2, .threads = 1, .seed = 1};

/* 1F1B with full backwards takes (12 + 3) * 30 ms, the ideal schedule 390 (docs/theory.md). */
static void another_schedule_is_found(void **state) {
    (void)state;
    sl_problem p;
    sl_order order;
    sl_others o;
    stages(4, 12, (const int[]){10, 10, 10, 10}, &p);
    assert_ok(sl_family_build(sl_family_find("1f1b"), &p, &order));
    assert_ok(sl_others_find(&p, &order, &options, &o));
    assert_int_equal(o.now, 450 * SL_MS);
    const sl_other *schedule = of_effort(&o, SL_EFFORT_SCHEDULE);
    assert_non_null(schedule);
    assert_int_equal(schedule->time, 390 * SL_MS);
    /* 24 microbatches of half the size: (24 + 2) * 15 ms at least, as the ideal one has 13 * 30 */
    const sl_other *microbatch = of_effort(&o, SL_EFFORT_MICROBATCH);
    assert_non_null(microbatch);
    assert_near(microbatch->size, 0.5, 0);
    assert_int_equal(microbatch->problem.microbatches, 24);
    assert_true(microbatch->time < 390 * SL_MS && microbatch->time >= 360 * SL_MS);
    assert_null(of_effort(&o, SL_EFFORT_CUT));
    assert_true(strstr(o.why[SL_EFFORT_CUT], "number of layers") != NULL);
    sl_others_free(&o);
    sl_order_free(&order);
    sl_problem_free(&p);
}

/* 8 layers in four stages, 5 ms each; the last stage has a head of 10 ms as well: a layer of its own. */
static void the_head_is_a_layer_of_its_own(void **state) {
    (void)state;
    sl_problem p, layered;
    sl_others o;
    sl_other_options with = options;
    stages(4, 12, (const int[]){10, 10, 10, 20}, &p);
    assert_ok(sl_problem_of_layers(&p, 8, &layered));
    assert_int_equal(layered.layers->count, 9);
    for (int layer = 0; layer < 8; layer++)
        assert_int_equal(layered.layers->time[SL_F][layer], 5 * SL_MS);
    assert_int_equal(layered.layers->time[SL_F][8], 10 * SL_MS);
    for (int stage = 0; stage < 4; stage++)
        assert_int_equal(layered.time[SL_F][stage], p.time[SL_F][stage]);
    sl_problem_free(&layered);
    with.layers = 8;
    assert_ok(sl_others_find(&p, NULL, &with, &o));
    const sl_other *cut = of_effort(&o, SL_EFFORT_CUT), *schedule = of_effort(&o, SL_EFFORT_SCHEDULE);
    assert_non_null(cut);
    assert_true(schedule->time >= 12 * 60 * SL_MS); /* the last stage's work */
    assert_true(cut->time < schedule->time &&
                cut->time >= 450 * SL_MS); /* 12 * 37.5: all ranks the same work */
    sl_others_free(&o);
    sl_problem_free(&p);
}

/* Rank 1 of four takes 1.5 times as long: it is slow, its layers are not. */
static void a_slow_rank_is_not_a_slow_layer(void **state) {
    (void)state;
    sl_problem p, layered;
    stages(4, 8, (const int[]){10, 15, 10, 10}, &p);
    assert_ok(sl_problem_of_layers(&p, 8, &layered));
    assert_int_equal(layered.layers->count, 8);
    assert_near(layered.layers->speed[1], 1 / 1.5, 1e-9);
    for (int layer = 0; layer < 8; layer++)
        assert_near((double)layered.layers->time[SL_F][layer], 5.0 * SL_MS, 1);
    assert_near((double)layered.time[SL_F][1], 15.0 * SL_MS, 2);
    sl_problem_free(&layered);
    assert_fails(sl_problem_of_layers(&p, 3, &layered), SL_EINVAL, "fewer than the 4 stages");
    sl_problem_free(&layered);
    sl_problem_free(&p);
}

/* Two replicas of four ranks with sums of 8 ms a stage: (2 - 1) / 2 of the bytes; in four replicas of two
 * ranks a stage has twice the layers, and (4 - 1) / 4 of their bytes: 8 * 2 * 1.5. */
static void sums_follow_the_ring(void **state) {
    (void)state;
    sl_problem p, layered, sized;
    stages(4, 8, (const int[]){10, 10, 10, 10}, &p);
    for (int stage = 0; stage < 4; stage++)
        p.reduce[stage] = 8 * SL_MS;
    assert_ok(sl_problem_of_layers(&p, 8, &layered));
    assert_ok(sl_layers_over_ranks(&layered, 2, 2, 4, &sized));
    assert_int_equal(sized.microbatches, 4);
    for (int stage = 0; stage < 2; stage++) {
        assert_near((double)sized.reduce[stage], 24.0 * SL_MS, 10);
        assert_int_equal(sized.time[SL_F][stage], 20 * SL_MS);
    }
    sl_problem_free(&sized);
    assert_fails(sl_layers_over_ranks(&layered, 1, 2, 2, &sized), SL_ENONE, "one replica");
    sl_problem_free(&sized);
    sl_problem_free(&layered);
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_schedule_is_found),
        cmocka_unit_test(the_head_is_a_layer_of_its_own),
        cmocka_unit_test(a_slow_rank_is_not_a_slow_layer),
        cmocka_unit_test(sums_follow_the_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
