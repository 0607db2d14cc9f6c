/* A measured timeline back into a problem: what was measured is what the problem then says, whatever it said
 * before. */
#include "check.h"
#include "random_problem.h"

#include "plan/timing/profile.h"
#include "plan/timing/replay.h"

static int ran_apart(const sl_timeline *t, int kind, int stage) {
    for (int i = 0; i < t->spans; i++)
        if (t->span[i].op.kind == kind && t->span[i].op.stage == stage && !t->span[i].op.paired &&
            !(i > 0 && t->span[i - 1].op.paired))
            return 1;
    return 0;
}

static void ops_in_parts_and_several_stages_are_measured_whole(void **unused) {
    (void)unused;
    uint64_t state = seed_of(17);
    int checked = 0, in_parts = 0;
    for (int round = 0; round < 300; round++) {
        sl_problem p, measured;
        sl_plan plan;
        int family;
        draw_problem(&state, (sl_placement)(round % SL_PLACEMENTS), 1, &p);
        if (!draw_plan(&state, &p, &plan, &family)) {
            sl_problem_free(&p);
            continue;
        }
        assert_ok(sl_problem_copy(&p, &measured));
        for (int stage = 0; stage < p.stages; stage++)
            for (int kind = 0; kind < SL_OP_KINDS; kind++)
                measured.time[kind][stage] = 123 * SL_MS;
        assert_ok(sl_profile(&plan.timeline, &measured));
        for (int stage = 0; stage < p.stages; stage++)
            for (int kind = 0; kind < SL_OP_KINDS; kind++)
                if (ran_apart(&plan.timeline, kind, stage)) {
                    assert_int_equal(measured.time[kind][stage], p.time[kind][stage]);
                    checked++;
                    in_parts += p.parts > 1;
                }
        sl_problem_free(&measured);
        sl_plan_free(&plan);
        sl_problem_free(&p);
    }
    assert_true(checked > 1000 && in_parts > 300);
}

/* F 10, B 20, and an overlapped pair takes 24 ms: each of its stages saves 6. An op that ran in a pair says
 * nothing of its own time. */
static void pairs_tell_what_overlapping_saves(void **unused) {
    (void)unused;
    sl_problem p, measured;
    sl_plan plan;
    assert_ok(sl_problem_make(2, 4, 12, &p));
    p.placement = SL_WAVE;
    for (int stage = 0; stage < 4; stage++) {
        p.time[SL_F][stage] = p.time[SL_I][stage] = p.time[SL_W][stage] = 10 * SL_MS;
        p.time[SL_B][stage] = 20 * SL_MS;
    }
    assert_ok(sl_problem_copy(&p, &measured));
    for (int stage = 0; stage < 4; stage++)
        p.saved[stage] = 6 * SL_MS;
    assert_ok(sl_plan_make(&p, "dualpipe-v", &plan));
    assert_ok(sl_profile(&plan.timeline, &measured));
    int pairs = 0;
    for (int i = 0; i < plan.timeline.spans; i++)
        if (plan.timeline.span[i].op.paired) {
            pairs++;
            assert_int_equal(plan.timeline.span[i].end - plan.timeline.span[i].start, 24 * SL_MS);
        }
    assert_true(pairs > 0);
    for (int stage = 0; stage < 4; stage++) {
        assert_int_equal(measured.time[SL_F][stage], 10 * SL_MS);
        assert_int_equal(measured.time[SL_B][stage], 20 * SL_MS);
        assert_int_equal(measured.saved[stage], 6 * SL_MS);
    }
    sl_problem_free(&measured);
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

/* Planned as I 15 and W 5, B runs in 40 ms: it is twice as slow, so halves would take 30 and 10. */
static void halves_that_did_not_run_share_what_the_whole_took(void **unused) {
    (void)unused;
    sl_problem p, slow, measured;
    sl_plan plan;
    assert_ok(sl_problem_make(2, 2, 4, &p));
    for (int stage = 0; stage < 2; stage++) {
        p.time[SL_F][stage] = 10 * SL_MS;
        p.time[SL_I][stage] = 15 * SL_MS;
        p.time[SL_W][stage] = 5 * SL_MS;
        p.time[SL_B][stage] = 20 * SL_MS;
    }
    assert_ok(sl_problem_copy(&p, &measured));
    assert_ok(sl_problem_copy(&p, &slow));
    slow.time[SL_B][0] = 40 * SL_MS;
    assert_ok(sl_plan_make(&slow, "1f1b", &plan));
    assert_ok(sl_profile(&plan.timeline, &measured));
    assert_int_equal(measured.time[SL_B][0], 40 * SL_MS);
    assert_int_equal(measured.time[SL_I][0], 30 * SL_MS);
    assert_int_equal(measured.time[SL_W][0], 10 * SL_MS);
    assert_int_equal(measured.time[SL_I][1], 15 * SL_MS);
    assert_int_equal(measured.time[SL_W][1], 5 * SL_MS);
    sl_problem_free(&measured);
    sl_problem_free(&slow);
    sl_problem_free(&p);
    sl_plan_free(&plan);
}

/* Four messages of 30 ms, one every 10: three are on the link at once, 10 ms of it each, and one that comes
 * alone still arrives 35 ms after its start. Back to back on the other link is one lane. */
static void messages_side_by_side_make_a_faster_link(void **unused) {
    (void)unused;
    sl_problem p;
    sl_transfer transfers[7];
    for (int i = 0; i < 7; i++) {
        sl_time start = i < 4 ? (3 - i) * 10 * SL_MS : i * 30 * SL_MS;
        transfers[i] = (sl_transfer){.from = i >= 4,
                                     .to = i < 4,
                                     .start = start,
                                     .end = start + 30 * SL_MS,
                                     .arrive = start + 35 * SL_MS};
    }
    sl_timeline measured = {.ranks = 2, .transfers = 7, .transfer = transfers};
    assert_ok(sl_problem_make(2, 2, 4, &p));
    assert_ok(sl_profile(&measured, &p));
    assert_int_equal(p.link[0 * 2 + 1].lanes, 3);
    assert_int_equal(p.link[0 * 2 + 1].transfer, 10 * SL_MS);
    assert_int_equal(p.link[0 * 2 + 1].latency, 25 * SL_MS);
    assert_int_equal(p.link[1 * 2 + 0].lanes, 0);
    assert_int_equal(p.link[1 * 2 + 0].transfer, 30 * SL_MS);
    assert_int_equal(p.link[1 * 2 + 0].latency, 5 * SL_MS);
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_side_by_side_make_a_faster_link),
        cmocka_unit_test(ops_in_parts_and_several_stages_are_measured_whole),
        cmocka_unit_test(pairs_tell_what_overlapping_saves),
        cmocka_unit_test(halves_that_did_not_run_share_what_the_whole_took),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
