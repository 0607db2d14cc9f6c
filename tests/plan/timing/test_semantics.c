/* The replay by hand where a problem has more than one stage a rank, shared wires, batched groups, pairs,
 * parts, collectives or recomputation. Every example has its time table in a comment; times in ms. */
#include "check.h"
#include "plan/order_text.h"

#include "plan/search/plan.h"
#include "plan/timing/replay.h"

typedef struct example {
    sl_problem problem;
    sl_order order;
    sl_program program;
    sl_timeline timeline;
} example;

static void run(example *e, const char *yaml, const char *const *texts) {
    sl_document document;
    assert_ok(sl_document_parse("example", yaml, &document));
    assert_ok(sl_problem_read(&document, &e->problem));
    sl_document_close(&document);
    assert_ok(sl_order_make(e->problem.ranks, 64, &e->order));
    for (int rank = 0; rank < e->problem.ranks; rank++)
        fill(&e->order, rank, texts[rank]);
    assert_ok(sl_lower(&e->problem, &e->order, &e->program));
    assert_ok(sl_replay(&e->problem, &e->program, e->problem.communication, e->problem.queue, &e->timeline));
}

static void end(example *e) {
    sl_timeline_free(&e->timeline);
    sl_program_free(&e->program);
    sl_order_free(&e->order);
    sl_problem_free(&e->problem);
}

/* Starts of all ops, rank after rank in their order. */
static void assert_starts(const example *e, const int *starts, int count) {
    assert_int_equal(e->timeline.spans, count);
    for (int i = 0; i < count; i++) {
        const sl_span *span = &e->timeline.span[i];
        if (span->start != starts[i] * SL_MS)
            fail_msg("op %d (%d%s%d) starts at %g ms, by hand at %d", i, span->op.stage,
                     sl_op_name(span->op.kind), span->op.microbatch, sl_to_ms(span->start), starts[i]);
    }
}

/* When the message of an op takes its link. */
static void assert_sent(const example *e, int stage, int kind, int microbatch, int start) {
    for (int i = 0; i < e->timeline.transfers; i++) {
        const sl_transfer *t = &e->timeline.transfer[i];
        if (t->op.stage != stage || t->op.kind != kind || t->op.microbatch != microbatch)
            continue;
        if (t->start != start * SL_MS)
            fail_msg("the message of %d%s%d leaves at %g ms, by hand at %d", stage, sl_op_name(kind),
                     microbatch, sl_to_ms(t->start), start);
        return;
    }
    fail_msg("%d%s%d sends nothing", stage, sl_op_name(kind), microbatch);
}

static void assert_collective(const example *e, int kind, int stage, int start, int finish) {
    for (int i = 0; i < e->timeline.collectives; i++) {
        const sl_span *span = &e->timeline.collective[i];
        if (span->op.kind != kind || span->op.stage != stage)
            continue;
        if (span->start != start * SL_MS || span->end != finish * SL_MS)
            fail_msg("%s of stage %d is from %g to %g ms, by hand from %d to %d", sl_op_name(kind), stage,
                     sl_to_ms(span->start), sl_to_ms(span->end), start, finish);
        return;
    }
    fail_msg("no %s of stage %d", sl_op_name(kind), stage);
}

#define COUNT(array) (int)(sizeof(array) / sizeof(array)[0])
#define MAKESPAN(example) (sl_timeline_makespan(&(example).timeline))

/* ---- several stages a rank ---- */

/* Stages 0, 2 on rank 0 and 1, 3 on rank 1; a message takes 5.
 *
 *   rank 0  0F 0-10 .......... 2F 30-40 ................................ 2B 80-100 ............. 0B 130-150
 *   rank 1  ........ 1F 15-25 .......... 3F 45-55 3B 55-75 ....................... 1B 105-125
 */
static void a_loop_goes_round_the_ranks_twice(void **state) {
    (void)state;
    static const char *const orders[] = {"0F0 2F0 2B0 0B0", "1F0 3F0 3B0 1B0"};
    static const int starts[] = {0, 30, 80, 130, 15, 45, 55, 105};
    example e;
    run(&e,
        "pipeline: {ranks: 2, microbatches: 1, placement: loop, times_ms: {F: 10, I: 10, W: 10},"
        " links: {default: {latency_ms: 5}}}",
        orders);
    assert_starts(&e, starts, COUNT(starts));
    assert_int_equal(e.timeline.transfers, 6);
    assert_int_equal(MAKESPAN(e), 150 * SL_MS);
    end(&e);
}

/* All stages on one rank: nothing is sent, whatever a link would cost, and ops follow each other. */
static void nothing_is_sent_between_stages_of_one_rank(void **state) {
    (void)state;
    static const char *const orders[] = {"0F0 1F0 2F0 2B0 1B0 0B0"};
    static const int starts[] = {0, 10, 20, 30, 50, 70};
    example e;
    run(&e,
        "pipeline: {ranks: 1, microbatches: 1, placement: loop, stages: 3, times_ms: {F: 10, I: 10, W: 10}, "
        "links: {default: {latency_ms: 500}}}",
        orders);
    assert_starts(&e, starts, COUNT(starts));
    assert_int_equal(e.timeline.transfers, 0);
    assert_int_equal(MAKESPAN(e), 90 * SL_MS);
    end(&e);
}

/* Stages 0, 3 on rank 0 and 1, 2 on rank 1; a message takes 5. Between 1 and 2 nothing is sent.
 *
 *   rank 0  0F0 0-10  0F1 10-20  3F0 40-50  3B0 50-70  3F1 70-80  3B1 80-100   0B0 120-140  0B1 160-180
 *   rank 1  1F0 15-25 2F0 25-35  1F1 35-45  2F1 45-55  2B0 75-95  1B0 95-115   2B1 115-135  1B1 135-155
 *   there   0F0 15    0F1 25     2F0 40     2F1 60     3B0 75     3B1 105      1B0 120      1B1 160      */
static void a_wave_turns_without_sending(void **state) {
    (void)state;
    static const char *const orders[] = {"0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1",
                                         "1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1"};
    static const int starts[] = {0, 10, 40, 50, 70, 80, 120, 160, 15, 25, 35, 45, 75, 95, 115, 135};
    example e;
    run(&e,
        "pipeline: {ranks: 2, microbatches: 2, placement: wave, times_ms: {F: 10, I: 10, W: 10},"
        " links: {default: {latency_ms: 5}}}",
        orders);
    assert_starts(&e, starts, COUNT(starts));
    assert_int_equal(e.timeline.transfers, 8);
    assert_int_equal(MAKESPAN(e), 180 * SL_MS);
    end(&e);
}

/* Microbatch 0 runs down through stages 0, 1, microbatch 1 up through 2 (rank 1) and 3 (rank 0).
 *
 *   rank 0  0F0 0-10  3F1 15-25  3B1 25-45  0B0 50-70
 *   rank 1  2F1 0-10  1F0 15-25  1B0 25-45  2B1 50-70  */
static void two_pipelines_meet_on_the_ranks(void **state) {
    (void)state;
    static const char *const orders[] = {"0F0 3F1 3B1 0B0", "2F1 1F0 1B0 2B1"};
    static const int starts[] = {0, 15, 25, 50, 0, 15, 25, 50};
    example e;
    run(&e,
        "pipeline: {ranks: 2, microbatches: 2, placement: bidirectional, times_ms: {F: 10, I: 10, W: 10},"
        " links: {default: {latency_ms: 5}}}",
        orders);
    assert_starts(&e, starts, COUNT(starts));
    assert_int_equal(e.timeline.transfers, 4);
    assert_int_equal(MAKESPAN(e), 70 * SL_MS);
    end(&e);
}

/* ---- shared wires ---- */

/* Links 0-1 and 2-3 are one wire for each direction, 12 a message; link 1-2 is free.
 *
 *   wire   0F0 10-22  0F1 22-34  0F2 34-46  2F0 46-58 (made at 42)  2F1 58-70 (54)  2F2 70-82 (66)
 *   rank 1 F 22, 34, 46    rank 2 F 32, 44, 56    rank 3 F 58, 70, 82, B 92, 102, 112
 *   back   3B0 102-114  3B1 114-126  3B2 126-138  1B0 138-150 (134)  1B1 150-162 (146)  1B2 162-174 (158)
 *   rank 2 B 114, 126, 138  rank 1 B 124, 136, 148  rank 0 B 150, 162, 174 */
static void messages_of_two_links_wait_for_their_wire(void **state) {
    (void)state;
    static const char *const orders[] = {"0F0 0F1 0F2 0B0 0B1 0B2", "1F0 1F1 1F2 1B0 1B1 1B2",
                                         "2F0 2F1 2F2 2B0 2B1 2B2", "3F0 3F1 3F2 3B0 3B1 3B2"};
    static const int starts[] = {0,  10, 20, 150, 162, 174, 22, 34, 46, 124, 136, 148,
                                 32, 44, 56, 114, 126, 138, 58, 70, 82, 92,  102, 112};
    example e;
    run(&e,
        "pipeline: {ranks: 4, microbatches: 3, times_ms: {F: 10, I: 5, W: 5}, links: {list: ["
        "{between: [0, 1], transfer_ms: 12}, {between: [2, 3], transfer_ms: 12}],"
        " shared: [{name: cable, links: [[0, 1], [2, 3]]}]}}",
        orders);
    assert_starts(&e, starts, COUNT(starts));
    assert_sent(&e, 2, SL_F, 0, 46);
    assert_sent(&e, 1, SL_B, 0, 138);
    assert_int_equal(MAKESPAN(e), 184 * SL_MS);
    end(&e);
}

/* 0F3 and 2F0 both end at 40, when the wire is free: the lower microbatch goes first; then who waited longer.
 *
 *   rank 0 F 0, 10, 20, 30   rank 1 F 20, 30, 40, 60   rank 2 F 30, 40, 50, 70   rank 3 F 50, 70, 80, 90
 *   wire   0F0 10-20  0F1 20-30  0F2 30-40  2F0 40-50  0F3 50-60  2F1 60-70 (50)  2F2 70-80 (60)  2F3 80-90
 */
static void of_two_messages_of_one_instant_the_lower_microbatch_goes_first(void **state) {
    (void)state;
    static const char *const orders[] = {"0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3", "1F0 1F1 1F2 1F3 1B0 1B1 1B2 1B3",
                                         "2F0 2F1 2F2 2F3 2B0 2B1 2B2 2B3",
                                         "3F0 3F1 3F2 3F3 3B0 3B1 3B2 3B3"};
    static const int from_0[4] = {10, 20, 30, 50}, from_2[4] = {40, 60, 70, 80}, at_3[4] = {50, 70, 80, 90};
    example e;
    run(&e,
        "pipeline: {ranks: 4, microbatches: 4, times_ms: {F: 10, I: 5, W: 5}, links: {list: ["
        "{between: [0, 1], transfer_ms: 10}, {between: [2, 3], transfer_ms: 10}],"
        " shared: [{name: cable, links: [[0, 1], [2, 3]]}]}}",
        orders);
    for (int m = 0; m < 4; m++) {
        assert_sent(&e, 0, SL_F, m, from_0[m]);
        assert_sent(&e, 2, SL_F, m, from_2[m]);
        assert_int_equal(e.timeline.span[24 + m].start, at_3[m] * SL_MS);
    }
    end(&e);
}

/* Written the other way round, link 2-3's forward direction shares with link 0-1's backward one: forwards do
 * not meet, and go as on links of their own.
 *
 *   wire of 0 to 1   0F0 10-20  0F1 20-30      wire of 2 to 3   2F0 40-50  2F1 50-60 */
static void the_two_directions_of_a_cable_are_two_wires(void **state) {
    (void)state;
    static const char *const orders[] = {"0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1", "2F0 2F1 2B0 2B1",
                                         "3F0 3F1 3B0 3B1"};
    example e;
    run(&e,
        "pipeline: {ranks: 4, microbatches: 2, times_ms: {F: 10, I: 5, W: 5}, links: {list: ["
        "{between: [0, 1], transfer_ms: 10}, {between: [2, 3], transfer_ms: 10}],"
        " shared: [{name: cable, links: [[0, 1], [3, 2]]}]}}",
        orders);
    assert_sent(&e, 0, SL_F, 1, 20);
    assert_sent(&e, 2, SL_F, 0, 40);
    assert_sent(&e, 2, SL_F, 1, 50);
    end(&e);
}

/* ---- batched ---- */

/* A message takes 15, and its sender waits for it.
 *
 *   rank 0  F0 0-10   (F0 lands 25)  F1 25-35   (F1 lands 50)  B0 70-90   B1 115-135
 *   rank 1  F0 25-35  B0 35-55   (B0 lands 70)  F1 70-80  B1 80-100   (B1 lands 115)
 *
 * Decoupled, F1 starts at 10 and 55, B1 at 65 and 100: 120 in all. */
static void a_batched_send_holds_its_rank_until_it_has_landed(void **state) {
    (void)state;
    static const char *const orders[] = {"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"};
    static const int starts[] = {0, 25, 70, 115, 25, 35, 70, 80};
    example e;
    sl_timeline decoupled;
    run(&e,
        "pipeline: {ranks: 2, microbatches: 2, times_ms: {F: 10, I: 10, W: 10}, communication: batched,"
        " links: {default: {latency_ms: 15}}}",
        orders);
    assert_starts(&e, starts, COUNT(starts));
    assert_int_equal(MAKESPAN(e), 135 * SL_MS);
    assert_ok(sl_replay(&e.problem, &e.program, SL_DECOUPLED, 1, &decoupled));
    assert_int_equal(sl_timeline_makespan(&decoupled), 120 * SL_MS);
    sl_timeline_free(&decoupled);
    end(&e);
}

/* A message occupies the link for 5 and arrives with its end.
 *
 *   rank 0  F0 0-10  F1 15-25  B0 65-85  B1 90-110      (F0 lands 15, F1 30)
 *   rank 1  F0 15-25  F1 30-40  B0 40-60  B1 65-85      (B0 lands 65, B1 90) */
static void a_batched_group_takes_its_transfer_time(void **state) {
    (void)state;
    static const char *const orders[] = {"0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1"};
    static const int starts[] = {0, 15, 65, 90, 15, 30, 40, 65};
    example e;
    run(&e,
        "pipeline: {ranks: 2, microbatches: 2, times_ms: {F: 10, I: 10, W: 10}, communication: batched,"
        " links: {default: {transfer_ms: 5}}}",
        orders);
    assert_starts(&e, starts, COUNT(starts));
    assert_int_equal(MAKESPAN(e), 110 * SL_MS);
    end(&e);
}

/* ---- pairs ---- */

/* F and B overlapped take 24 instead of 30; both end with the block.
 *
 *   rank 0  F0 0-10   F1 10-20   B0 44-64  B1 64-84
 *   rank 1  F0 10-20  F1 and B0 20-44      B1 44-64 */
static void a_pair_runs_as_one_block(void **state) {
    (void)state;
    static const char *const orders[] = {"0F0 0F1 0B0 0B1", "1F0 *1F1 1B0 1B1"};
    static const int starts[] = {0, 10, 44, 64, 10, 20, 20, 44};
    example e;
    run(&e, "pipeline: {ranks: 2, microbatches: 2, times_ms: {F: 10, I: 10, W: 10, FB: 24}}", orders);
    assert_starts(&e, starts, COUNT(starts));
    assert_int_equal(e.timeline.span[5].end, 44 * SL_MS);
    assert_int_equal(e.timeline.span[6].end, 44 * SL_MS);
    assert_int_equal(MAKESPAN(e), 84 * SL_MS);
    assert_int_equal(sl_timeline_work(&e.timeline, 0), 60 * SL_MS);
    assert_int_equal(sl_timeline_work(&e.timeline, 1), 54 * SL_MS); /* 10 + 24 + 20 */
    end(&e);
}

/* F1 could start at 10, but runs together with B0, whose gradient comes at 40.
 *
 *   rank 0  F0 0-10           F1 and B0 40-64            B1 94-114
 *   rank 1  F0 10-20  B0 20-40         F1 64-74  B1 74-94 */
static void a_pair_waits_for_both_inputs(void **state) {
    (void)state;
    static const char *const orders[] = {"0F0 *0F1 0B0 0B1", "1F0 1B0 1F1 1B1"};
    static const int starts[] = {0, 40, 40, 94, 10, 20, 64, 74};
    example e;
    run(&e, "pipeline: {ranks: 2, microbatches: 2, times_ms: {F: 10, I: 10, W: 10, FB: 24}}", orders);
    assert_starts(&e, starts, COUNT(starts));
    assert_int_equal(MAKESPAN(e), 114 * SL_MS);
    end(&e);
}

/* On a wave, F of stage 0 and B of stage 3: 10 + 20 less half of what either stage saves, (6 + 10) / 2: 22.
 *
 *   rank 0  0F0 0-10   3F0 30-40  0F1 and 3B0 40-62  0B0 102-122  3F1 122-132  3B1 132-152  0B1 192-212
 *   rank 1  1F0 10-20  2F0 20-30  2B0 62-82          1B0 82-102   1F1 102-112  2F1 112-122  2B1 152-172  1B1
 * 172-192 */
static void a_pair_of_two_stages_saves_half_of_each(void **state) {
    (void)state;
    static const char *const orders[] = {"0F0 3F0 *0F1 3B0 0B0 3F1 3B1 0B1",
                                         "1F0 2F0 2B0 1B0 1F1 2F1 2B1 1B1"};
    static const int starts[] = {0, 30, 40, 40, 102, 122, 132, 192, 10, 20, 62, 82, 102, 112, 152, 172};
    example e;
    run(&e,
        "pipeline: {ranks: 2, microbatches: 2, placement: wave, times_ms: {F: 10, I: 10, W: 10,"
        " FB: [24, 30, 30, 20]}}",
        orders);
    assert_starts(&e, starts, COUNT(starts));
    assert_int_equal(e.timeline.span[2].end, 62 * SL_MS);
    end(&e);
}

/* ---- parts ---- */

/* Parts of 3, 2 and 1; a message leaves with the last part, an op begins with its first.
 *
 *   rank 0  F0.0 0  F1.0 3  F0.1 6  F0.2 9-12  F1.1 12  F1.2 15-18   I0 36-42  I1 45-51  W0 51-54  W1 54-57
 *   rank 1  F0 12-21  F1 21-30  I0 30-36  W0 36-39  I1 39-45  W1 45-48 */
static void messages_leave_with_the_last_part(void **state) {
    (void)state;
    static const char *const orders[] = {"0F0.0 0F1.0 0F0.1 0F0.2 0F1.1 0F1.2 0I0.0 0I0.1 0I0.2 0I1.0 0I1.1 "
                                         "0I1.2 0W0.0 0W0.1 0W0.2 0W1.0 0W1.1 "
                                         "0W1.2",
                                         "1F0.0 1F0.1 1F0.2 1F1.0 1F1.1 1F1.2 1I0.0 1I0.1 1I0.2 1W0.0 1W0.1 "
                                         "1W0.2 1I1.0 1I1.1 1I1.2 1W1.0 1W1.1 "
                                         "1W1.2"};
    static const int starts[] = {0,  3,  6,  9,  12, 15, 36, 38, 40, 45, 47, 49, 51, 52, 53, 54, 55, 56,
                                 12, 15, 18, 21, 24, 27, 30, 32, 34, 36, 37, 38, 39, 41, 43, 45, 46, 47};
    example e;
    run(&e, "pipeline: {ranks: 2, microbatches: 2, times_ms: {F: 9, I: 6, W: 3}, parts: 3}", orders);
    assert_starts(&e, starts, COUNT(starts));
    assert_int_equal(e.timeline.transfers, 4);
    assert_int_equal(MAKESPAN(e), 57 * SL_MS);
    end(&e);
}

/* 10 ns in 4 parts: 3, 3, 2, 2. */
static void the_rest_of_a_division_falls_on_the_first_parts(void **state) {
    (void)state;
    static const char *const orders[] = {"0F0.0 0F0.1 0F0.2 0F0.3 0B0.0 0B0.1 0B0.2 0B0.3"};
    static const sl_time ends[] = {3, 6, 8, 10, 12, 14, 15, 16}; /* B: 6 ns: 2, 2, 1, 1 */
    example e;
    run(&e, "pipeline: {ranks: 1, microbatches: 1, times_ms: {F: 0.00001, I: 0.000006, W: 0}, parts: 4}",
        orders);
    for (int i = 0; i < 8; i++)
        assert_int_equal(e.timeline.span[i].end, ends[i]);
    end(&e);
}

/* F takes 2 with its first part; W gives them back with its last: a second F begun between W's parts makes 4,
 * one begun behind them 2. */
static void memory_changes_with_the_first_part_of_f_and_the_last_of_w(void **state) {
    (void)state;
    static const char *const between[] = {
        "0F0.0 0F0.1 0I0.0 0I0.1 0W0.0 0F1.0 0W0.1 0F1.1 0I1.0 0I1.1 0W1.0 0W1.1"};
    static const char *const behind[] = {
        "0F0.0 0F0.1 0I0.0 0I0.1 0W0.0 0W0.1 0F1.0 0F1.1 0I1.0 0I1.1 0W1.0 0W1.1"};
    for (int i = 0; i < 2; i++) {
        example e;
        double peak;
        run(&e,
            "pipeline: {ranks: 1, microbatches: 2, times_ms: {F: 2, I: 2, W: 2}, parts: 2,"
            " memory: {delta: {F: 2, W: -2}}}",
            i ? behind : between);
        assert_ok(sl_peak_memory(&e.problem, &e.timeline, &peak));
        assert_true(peak == (i ? 2 : 4));
        end(&e);
    }
}

/* ---- gathers and reductions ---- */

/*   rank 0  gather 0-4  F 4-14                    B 44-64  reduce 64-70
 *   rank 1  gather 0-7          F 14-24  B 24-44  reduce 44-47
 *
 * The makespan begins with stage 0's F at 4 and ends with its reduction: 66 (CrossPipe, appendix A). */
static void gathers_come_before_the_first_f_and_reductions_end_the_iteration(void **state) {
    (void)state;
    static const char *const orders[] = {"0F0 0B0", "1F0 1B0"};
    static const int starts[] = {4, 44, 14, 24};
    example e;
    run(&e,
        "pipeline: {ranks: 2, microbatches: 1, times_ms: {F: 10, I: 10, W: 10},"
        " data_parallel: {gather_ms: [4, 7], reduce_ms: [6, 3]}}",
        orders);
    assert_starts(&e, starts, COUNT(starts));
    assert_collective(&e, SL_GATHER, 0, 0, 4);
    assert_collective(&e, SL_GATHER, 1, 0, 7);
    assert_collective(&e, SL_REDUCE, 0, 64, 70);
    assert_collective(&e, SL_REDUCE, 1, 44, 47);
    assert_int_equal(MAKESPAN(e), 66 * SL_MS);
    end(&e);
}

/*   gathers     0: 0-4   1: 4-8
 *   ops         0F 4-14  1F 14-24  1B 24-44  0B 44-64
 *   reductions  1: 44-74   0: 74-104 (could be at 64) */
static void collectives_of_a_rank_follow_each_other(void **state) {
    (void)state;
    static const char *const orders[] = {"0F0 1F0 1B0 0B0"};
    static const int starts[] = {4, 14, 24, 44};
    example e;
    run(&e,
        "pipeline: {ranks: 1, microbatches: 1, placement: loop, stages: 2, times_ms: {F: 10, I: 10, W: 10},"
        " data_parallel: {gather_ms: 4, reduce_ms: 30}}",
        orders);
    assert_starts(&e, starts, COUNT(starts));
    assert_collective(&e, SL_GATHER, 1, 4, 8);
    assert_collective(&e, SL_REDUCE, 1, 44, 74);
    assert_collective(&e, SL_REDUCE, 0, 74, 104);
    assert_int_equal(MAKESPAN(e), 100 * SL_MS);
    end(&e);
}

/* Two pipelines: rank 0 still gathers stage 3 when stage 0 is done, so stage 0's reduction waits.
 *
 *   rank 0  gather 0: 0-1, 3: 1-101   0F0 1-11  0B0 41-61  3F1 101-111  3B1 111-131
 *           reduce 0: 101-106 (could be at 61), 3: 131-136
 *   rank 1  gather 1: 0-1, 2: 1-2     1F0 11-21  1B0 21-41  2F1 41-51  2B1 131-151
 *           reduce 1: 41-46, 2: 151-156 */
static void a_reduction_waits_for_the_gathers_of_its_rank(void **state) {
    (void)state;
    static const char *const orders[] = {"0F0 0B0 3F1 3B1", "1F0 1B0 2F1 2B1"};
    static const int starts[] = {1, 41, 101, 111, 11, 21, 41, 131};
    example e;
    run(&e,
        "pipeline: {ranks: 2, microbatches: 2, placement: bidirectional, times_ms: {F: 10, I: 10, W: 10},"
        " data_parallel: {gather_ms: [1, 1, 1, 100], reduce_ms: 5}}",
        orders);
    assert_starts(&e, starts, COUNT(starts));
    assert_collective(&e, SL_REDUCE, 0, 101, 106);
    assert_collective(&e, SL_REDUCE, 3, 131, 136);
    assert_collective(&e, SL_REDUCE, 1, 41, 46);
    assert_collective(&e, SL_REDUCE, 2, 151, 156);
    assert_int_equal(MAKESPAN(e), 155 * SL_MS);
    end(&e);
}

/* ---- recomputation ---- */

/* F keeps 1 of 4; I (or B) runs F again, 10 longer, and takes the other 3 when it starts.
 *
 *   F0 0-10   F1 10-20   I0 20-40   W0 40-50   I1 50-70   W1 70-80
 *   used  1          2          5 .......... 1     4 ............ 0 */
static void recomputation_takes_time_and_memory_when_the_backward_starts(void **state) {
    (void)state;
    static const char *const split[] = {"0F0 0F1 0I0 0W0 0I1 0W1"}, *const full[] = {"0F0 0F1 0B0 0B1"};
    static const int split_starts[] = {0, 10, 20, 40, 50, 70}, full_starts[] = {0, 10, 20, 50};
    static const char yaml[] = "pipeline: {ranks: 1, microbatches: 2, times_ms: {F: 10, I: 10, W: 10},"
                               " memory: {delta: {F: 4, W: -4, input: 1}}, recompute: true}";
    for (int i = 0; i < 2; i++) {
        example e;
        double peak;
        run(&e, yaml, i ? full : split);
        assert_starts(&e, i ? full_starts : split_starts, i ? 4 : 6);
        assert_int_equal(MAKESPAN(e), 80 * SL_MS);
        assert_ok(sl_peak_memory(&e.problem, &e.timeline, &peak));
        assert_true(peak == 5);
        end(&e);
    }
}

/* F keeps 2, I takes 3 more when it starts and gives 1 of it back when it ends, W the rest; B does both. 10
 * units lie there all the time.
 *
 *   F0 0-10   F1 10-20   I0 20-30   W0 30-40   I1 40-50   W1 50-60
 *   used  2          4          7 ..... 6   2          5 ..... 4  0 */
static void a_backward_takes_memory_when_it_starts(void **state) {
    (void)state;
    static const char *const split[] = {"0F0 0F1 0I0 0W0 0I1 0W1"},
                             *const late[] = {"0F0 0F1 0I0 0I1 0W0 0W1"}, *const full[] = {"0F0 0F1 0B0 0B1"};
    static const char yaml[] = "pipeline: {ranks: 1, microbatches: 2, times_ms: {F: 10, I: 10, W: 10},"
                               " memory: {delta: {F: 2, I_start: 3, I: -1, W: -4}, fixed: 10}}";
    const char *const *orders[] = {split, late, full};
    static const double by_hand[] = {7, 9, 7}; /* late: I1 starts at 6 and takes 3 */
    for (int i = 0; i < 3; i++) {
        example e;
        double peak;
        sl_plan plan;
        run(&e, yaml, orders[i]);
        assert_ok(sl_peak_memory(&e.problem, &e.timeline, &peak));
        assert_true(peak == by_hand[i]);
        assert_ok(sl_plan_of_order(&e.problem, &e.order, "by hand", &plan));
        assert_true(plan.peak_memory[0] == by_hand[i] + 10);
        sl_plan_free(&plan);
        end(&e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_backward_takes_memory_when_it_starts),
        cmocka_unit_test(a_loop_goes_round_the_ranks_twice),
        cmocka_unit_test(nothing_is_sent_between_stages_of_one_rank),
        cmocka_unit_test(a_wave_turns_without_sending),
        cmocka_unit_test(two_pipelines_meet_on_the_ranks),
        cmocka_unit_test(messages_of_two_links_wait_for_their_wire),
        cmocka_unit_test(of_two_messages_of_one_instant_the_lower_microbatch_goes_first),
        cmocka_unit_test(the_two_directions_of_a_cable_are_two_wires),
        cmocka_unit_test(a_batched_send_holds_its_rank_until_it_has_landed),
        cmocka_unit_test(a_batched_group_takes_its_transfer_time),
        cmocka_unit_test(a_pair_runs_as_one_block),
        cmocka_unit_test(a_pair_waits_for_both_inputs),
        cmocka_unit_test(a_pair_of_two_stages_saves_half_of_each),
        cmocka_unit_test(messages_leave_with_the_last_part),
        cmocka_unit_test(the_rest_of_a_division_falls_on_the_first_parts),
        cmocka_unit_test(memory_changes_with_the_first_part_of_f_and_the_last_of_w),
        cmocka_unit_test(gathers_come_before_the_first_f_and_reductions_end_the_iteration),
        cmocka_unit_test(collectives_of_a_rank_follow_each_other),
        cmocka_unit_test(a_reduction_waits_for_the_gathers_of_its_rank),
        cmocka_unit_test(recomputation_takes_time_and_memory_when_the_backward_starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
