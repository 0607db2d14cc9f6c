/* From records to a measured timeline and on to a problem: parts, pairs, several stages a rank. */
#include "check.h"
#include "random_problem.h"

#include "plan/timing/profile.h"
#include "plan/timing/replay.h"
#include "run/journal/measure.h"

enum { MAX = 8192 };

/* What ranks with these clocks would have written had they run the prediction. */
static int write_records(const sl_timeline *t, int iteration, sl_time begin, const sl_offset *clock,
                         sl_record *records) {
    int count = 0;
    for (int i = 0; i < t->spans; i++) {
        const sl_span *s = &t->span[i];
        sl_time shift = begin + clock[s->rank].offset;
        records[count++] = (sl_record){.kind = SL_RECORD_OP,
                                       .op = (uint8_t)s->op.kind,
                                       .part = (uint8_t)s->op.part,
                                       .paired = (uint8_t)s->op.paired,
                                       .iteration = iteration,
                                       .rank = s->rank,
                                       .peer = -1,
                                       .stage = s->op.stage,
                                       .microbatch = s->op.microbatch,
                                       .start = s->start + shift,
                                       .end = s->end + shift};
    }
    for (int i = 0; i < t->transfers; i++) {
        const sl_transfer *x = &t->transfer[i];
        sl_time shift = begin + clock[x->from].offset;
        records[count++] = (sl_record){.kind = SL_RECORD_TRANSFER,
                                       .op = (uint8_t)x->op.kind,
                                       .part = (uint8_t)x->op.part,
                                       .paired = (uint8_t)x->op.paired,
                                       .iteration = iteration,
                                       .rank = x->from,
                                       .peer = x->to,
                                       .stage = x->op.stage,
                                       .microbatch = x->op.microbatch,
                                       .start = x->start + shift,
                                       .end = x->end + shift,
                                       .arrive = x->arrive + begin + clock[x->to].offset};
    }
    return count;
}

static void a_measured_timeline_is_what_the_ranks_wrote(void **unused) {
    (void)unused;
    static sl_record records[MAX];
    uint64_t state = seed_of(13);
    for (int round = 0; round < 200; round++) {
        sl_problem p;
        sl_plan plan;
        sl_timeline t;
        sl_offset clock[6] = {{0}};
        int family;
        draw_problem(&state, (sl_placement)(round % SL_PLACEMENTS), 1, &p);
        if (!draw_plan(&state, &p, &plan, &family)) {
            sl_problem_free(&p);
            continue;
        }
        for (int r = 1; r < p.ranks; r++)
            clock[r].offset = draw(&state, 1000000);
        int count = write_records(&plan.timeline, 4, 77 * SL_SECOND, clock, records);
        assert_true(count < MAX);
        assert_ok(sl_measure_timeline(&p, records, count, 4, 77 * SL_SECOND, clock, &t));
        assert_int_equal(t.spans, plan.timeline.spans);
        assert_int_equal(t.transfers, plan.timeline.transfers);
        for (int i = 0; i < t.spans; i++) {
            const sl_span *a = &t.span[i], *b = &plan.timeline.span[i];
            assert_int_equal(a->rank, b->rank);
            assert_memory_equal(&a->op, &b->op, sizeof a->op);
            assert_int_equal(a->start, b->start);
            assert_int_equal(a->end, b->end);
        }
        for (int i = 0; i < t.transfers; i++)
            assert_memory_equal(&t.transfer[i], &plan.timeline.transfer[i], sizeof t.transfer[i]);
        sl_timeline_free(&t);
        /* one that is missing, one that came twice, one of a rank that does not hold the stage */
        int at = draw(&state, plan.timeline.spans);
        sl_record kept = records[at];
        records[at].iteration = 3;
        assert_int_equal(sl_measure_timeline(&p, records, count, 4, 0, clock, &t), SL_EPEER);
        sl_timeline_free(&t);
        records[at] = kept;
        records[count] = kept;
        assert_int_equal(sl_measure_timeline(&p, records, count + 1, 4, 0, clock, &t), SL_EPEER);
        sl_timeline_free(&t);
        records[at].part = (uint8_t)p.parts;
        assert_fails(sl_measure_timeline(&p, records, count, 4, 0, clock, &t), SL_EPEER, "not of this run");
        sl_timeline_free(&t);
        records[at] = kept;
        if (p.ranks > 1) {
            records[at].rank = (kept.rank + 1) % p.ranks;
            assert_fails(sl_measure_timeline(&p, records, count, 4, 0, clock, &t), SL_EPEER,
                         "not of this run");
            sl_timeline_free(&t);
        }
        sl_plan_free(&plan);
        sl_problem_free(&p);
    }
}

/* By hand: an op lasts from when the last tensor rank begins it to when the last ends it. */
static void of_tensor_ranks_the_slowest_counts(void **unused) {
    (void)unused;
    const sl_record f = {
        .kind = SL_RECORD_OP, .op = SL_F, .iteration = 3, .start = 10, .end = 20, .arrive = 20};
    const sl_record w = {
        .kind = SL_RECORD_OP, .op = SL_W, .iteration = 3, .start = 20, .end = 30, .arrive = 30};
    const sl_record sent = {.kind = SL_RECORD_TRANSFER,
                            .op = SL_F,
                            .iteration = 3,
                            .start = 20,
                            .end = 21,
                            .arrive = 25,
                            .due = 24};
    sl_record base[3] = {f, sent, w}, other[3] = {w, f, sent}; /* sends are noted when they have arrived */
    other[1].start = 12, other[1].end = 19;
    other[0].start = 25, other[0].end = 41;
    other[2].arrive = 27, other[2].due = 26;
    assert_ok(sl_measure_merge(base, 3, other, 3));
    assert_true(base[0].start == 12 && base[0].end == 20);
    assert_true(base[1].start == 20 && base[1].arrive == 27 && base[1].due == 26);
    assert_true(base[2].start == 25 && base[2].end == 41);
    other[1].stage = 1;
    assert_fails(sl_measure_merge(base, 3, other, 3), SL_EPEER, "ran different ops");
}

/* By hand: replica 0 waits for replica 1 from 10 to 50, then both sum until 60 and 63. */
static void a_reduction_begins_when_the_last_replica_comes(void **unused) {
    (void)unused;
    sl_span span[2] = {{.op = {.kind = SL_REDUCE, .stage = 0, .microbatch = -1}, .start = 10, .end = 60},
                       {.op = {.kind = SL_REDUCE, .stage = 0, .microbatch = -1}, .start = 50, .end = 63}};
    sl_timeline timeline[2] = {{.collective = &span[0], .collectives = 1},
                               {.collective = &span[1], .collectives = 1}};
    sl_measured *measured[2];
    for (int r = 0; r < 2; r++) {
        sl_problem shape;
        assert_ok(sl_problem_make(1, 1, 4 + r, &shape));
        assert_ok(sl_measured_of_problem(&shape, &measured[r]));
        sl_problem_free(&shape);
    }
    sl_measure_reductions(timeline, 2, measured);
    for (int r = 0; r < 2; r++)
        assert_true(measured[r]->problem.reduce[0] == 13 && measured[r]->summed[0]);
    timeline[0].collectives = timeline[1].collectives = 0; /* nothing was summed: nothing was measured */
    sl_measure_reductions(timeline, 2, measured);
    for (int r = 0; r < 2; r++) {
        assert_false(measured[r]->summed[0]);
        sl_measured_drop(measured[r]);
    }
}

/* By hand: two ranks, one microbatch; rank 1's update of 40 ns is over before its F, rank 0's of 30 before
 * the first of all. It is what the stage's first F waits for, and no part of it. */
static void an_update_is_measured_as_what_the_first_F_waits_for(void **unused) {
    (void)unused;
    const sl_record update = {.kind = SL_RECORD_OPTIMIZER, .op = SL_GATHER, .peer = -1, .microbatch = -1};
    const sl_offset clock[2] = {{0}};
    sl_problem p;
    sl_timeline t;
    sl_record records[6] = {
        update, {.kind = SL_RECORD_OP, .op = SL_F, .start = 130, .end = 150}, {0}, update};
    records[0].start = 100, records[0].end = 130;
    records[2] = (sl_record){.kind = SL_RECORD_OP, .op = SL_B, .start = 190, .end = 220};
    records[3].start = 100, records[3].end = 140, records[3].rank = records[3].stage = 1;
    for (int i = 4; i < 6; i++) {
        records[i] = i == 4 ? records[1] : records[2];
        records[i].rank = records[i].stage = 1;
    }
    assert_ok(sl_problem_make(2, 2, 1, &p));
    assert_ok(sl_measure_timeline(&p, records, 6, 0, 100, clock, &t));
    assert_int_equal(t.collectives, 2);
    assert_int_equal(t.collective[1].op.kind, SL_GATHER);
    assert_int_equal(t.collective[1].end, 40);
    assert_ok(sl_profile(&t, &p));
    assert_true(p.gather[0] == 30 && p.gather[1] == 40);
    assert_true(p.time[SL_F][0] == 20 && p.time[SL_F][1] == 20);
    sl_timeline_free(&t);
    records[3].rank = 0;
    assert_fails(sl_measure_timeline(&p, records, 6, 0, 100, clock, &t), SL_EPEER, "not of this run");
    sl_timeline_free(&t);
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_measured_timeline_is_what_the_ranks_wrote),
        cmocka_unit_test(of_tensor_ranks_the_slowest_counts),
        cmocka_unit_test(a_reduction_begins_when_the_last_replica_comes),
        cmocka_unit_test(an_update_is_measured_as_what_the_first_F_waits_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
