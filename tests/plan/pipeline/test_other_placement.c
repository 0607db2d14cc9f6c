/* The same work under other placements. Shares are found by hand. */
#include "check.h"

#include "base/memory.h"
#include "plan/pipeline/layers.h"
#include "plan/pipeline/other_placement.h"

/* Two ranks; rank 0 takes 7 ns for F, rank 1 takes 10. */
static void make_two(sl_problem *p) {
    assert_ok(sl_problem_make(2, 2, 4, p));
    p->time[SL_F][0] = 7;
    p->time[SL_F][1] = 10;
    p->delta[SL_F][0] = 3;
    p->delta[SL_F][1] = 4;
    p->link[1] = (sl_link){.latency = 5, .transfer = 6};
}

static void assert_forward(const sl_problem *p, const sl_time *expected) {
    for (int stage = 0; stage < p->stages; stage++)
        assert_int_equal(p->time[SL_F][stage], expected[stage]);
}

/* wave: rank 0 holds 0 and 3; loop: 0 and 2. The odd nanosecond goes to the first. */
static void a_chunk_has_half_of_what_its_rank_had(void **state) {
    (void)state;
    sl_problem p, wave, loop;
    make_two(&p);
    assert_ok(sl_problem_with_placement(&p, SL_WAVE, &wave));
    assert_ok(sl_problem_with_placement(&p, SL_LOOP, &loop));
    assert_int_equal(wave.stages, 4);
    assert_forward(&wave, (sl_time[]){4, 5, 5, 3});
    assert_forward(&loop, (sl_time[]){4, 5, 3, 5});
    assert_near(wave.delta[SL_F][0], 1.5, 0);
    assert_near(wave.delta[SL_F][1], 2, 0);
    assert_near(wave.delta[SL_F][3], 1.5, 0);
    assert_near(wave.delta[SL_W][2], -0.5, 0);
    assert_int_equal(wave.link[1].latency, 5);
    assert_int_equal(wave.link[1].transfer, 6);
    assert_null(wave.limit);
    sl_problem_free(&p);
    sl_problem_free(&wave);
    sl_problem_free(&loop);
}

/* Stages 0, 1 down on ranks 0, 1; stages 2, 3 up on ranks 1, 0. */
static void a_microbatch_meets_a_bidirectional_rank_once(void **state) {
    (void)state;
    sl_problem p, both, back;
    make_two(&p);
    p.reduce[0] = 30;
    assert_ok(sl_problem_with_placement(&p, SL_BIDIRECTIONAL, &both));
    assert_forward(&both, (sl_time[]){7, 10, 10, 7});
    assert_near(both.delta[SL_F][2], 4, 0);
    assert_int_equal(both.reduce[0], 30);
    assert_int_equal(both.reduce[3], 30);
    assert_int_equal(both.reduce[1], 0);
    assert_ok(sl_problem_with_placement(&both, SL_LINEAR, &back));
    assert_forward(&back, (sl_time[]){7, 10});
    assert_int_equal(back.reduce[0], 30);
    sl_problem_free(&p);
    sl_problem_free(&both);
    sl_problem_free(&back);
}

static sl_time work_of(const sl_problem *p, int rank) {
    sl_time work = 0;
    for (int stage = 0; stage < p->stages; stage++)
        for (int kind = 0; kind < SL_OP_KINDS && sl_problem_rank(p, stage) == rank; kind++)
            work += p->time[kind][stage] * sl_problem_microbatches(p, stage);
    return work;
}

static void every_rank_keeps_its_work(void **state) {
    (void)state;
    const char *text = getenv("SL_SEED");
    unsigned seed = text ? (unsigned)strtoul(text, NULL, 10) : 7;
    printf("SL_SEED=%u\n", seed);
    srand(seed);
    for (int round = 0; round < 100; round++) {
        int ranks = 1 + rand() % 6, chunks = 1 + rand() % 4, loops = chunks > 1;
        sl_problem p, placed;
        assert_ok(sl_problem_make(ranks, ranks * chunks, 2 * (1 + rand() % 5), &p));
        p.placement = loops ? (rand() % 2 ? SL_WAVE : SL_LOOP) : SL_LINEAR;
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            for (int stage = 0; stage < p.stages; stage++)
                p.time[kind][stage] = rand() % 1000;
        for (int to = 0; to < (int)SL_PLACEMENTS; to++) {
            assert_ok(sl_problem_with_placement(&p, (sl_placement)to, &placed));
            assert_int_equal(placed.placement, to);
            for (int rank = 0; rank < ranks; rank++)
                assert_int_equal(work_of(&placed, rank), work_of(&p, rank));
            sl_problem_free(&placed);
        }
        sl_problem_free(&p);
    }
}

static void its_own_placement_changes_nothing(void **state) {
    (void)state;
    sl_problem p, placed;
    assert_ok(sl_problem_make(2, 8, 3, &p));
    p.placement = SL_LOOP;
    p.time[SL_F][7] = 9;
    assert_ok(sl_problem_with_placement(&p, SL_LOOP, &placed));
    assert_int_equal(placed.stages, 8);
    assert_int_equal(placed.time[SL_F][7], 9);
    sl_problem_free(&placed);
    sl_problem_free(&p);
}

static const char layered[] =
    "pipeline: {ranks: 2, microbatches: 2, memory: {limit: 20}, layers: {count: %d, weights: 1, times_ms: "
    "{F: 1, I: 1, W: 1}}}";

/* Six layers in four chunks begin at 0, 1, 3, 4; rank 0 of a wave holds chunks 0 and 3. */
static void layers_are_cut_anew(void **state) {
    (void)state;
    char text[512];
    sl_document document;
    sl_problem p, wave;
    snprintf(text, sizeof text, layered, 6);
    assert_ok(sl_document_parse("test", text, &document));
    assert_ok(sl_problem_read(&document, &p));
    assert_ok(sl_problem_with_placement(&p, SL_WAVE, &wave));
    assert_forward(&wave, (sl_time[]){SL_MS, 2 * SL_MS, SL_MS, 2 * SL_MS});
    assert_near(wave.limit[0], 17, 0); /* three layers' weights */
    sl_problem_free(&wave);
    sl_problem_free(&p);
    sl_document_close(&document);
    snprintf(text, sizeof text, layered, 3);
    assert_ok(sl_document_parse("test", text, &document));
    assert_ok(sl_problem_read(&document, &p));
    assert_fails(sl_problem_with_placement(&p, SL_LOOP, &wave), SL_EINVAL, "at least 4 layers, got 3");
    sl_problem_free(&wave);
    sl_problem_free(&p);
    sl_document_close(&document);
}

static void too_many_ops_are_refused(void **state) {
    (void)state;
    sl_problem p, wave;
    assert_ok(sl_problem_make(80, 80, 65000, &p));
    assert_fails(sl_problem_with_placement(&p, SL_WAVE, &wave), SL_EINVAL, "placement wave makes 160 stages");
    sl_problem_free(&wave);
    sl_problem_free(&p);
}

/* Linear: stages 0-1 lie on two ranks. Loop: 0-1, 1-2 and 2-3 do. Two messages of 5e6 ms each, 300,000 times.
 */
static void messages_beyond_64_bits_are_refused(void **state) {
    (void)state;
    sl_problem p, loop;
    assert_ok(sl_problem_make(2, 2, 300000, &p));
    p.link[1].latency = p.link[2].latency = 1000000 * SL_MS * 5;
    assert_near(sl_problem_total_ms(&p), 3e12, 1);
    assert_fails(sl_problem_with_placement(&p, SL_LOOP, &loop), SL_EINVAL, "take 9e+12 ms");
    sl_problem_free(&loop);
    sl_problem_free(&p);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    sl_problem p, placed;
    make_two(&p);
    assert_ok(sl_alloc(&p.limit, 2, sizeof *p.limit));
    for (long n = 0;; n++) {
        sl_alloc_fail_at(n);
        sl_status status = sl_problem_with_placement(&p, SL_WAVE, &placed);
        sl_alloc_fail_at(-1);
        sl_problem_free(&placed);
        if (status == SL_OK)
            break;
        assert_int_equal(status, SL_ENOMEM);
        assert_true(n < 100);
    }
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_has_half_of_what_its_rank_had),
        cmocka_unit_test(a_microbatch_meets_a_bidirectional_rank_once),
        cmocka_unit_test(every_rank_keeps_its_work),
        cmocka_unit_test(its_own_placement_changes_nothing),
        cmocka_unit_test(layers_are_cut_anew),
        cmocka_unit_test(too_many_ops_are_refused),
        cmocka_unit_test(messages_beyond_64_bits_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
