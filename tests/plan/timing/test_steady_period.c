/* The period of repeated orders: by hand, against long replays of the order written out many times, and of
 * graphs whose cycles are known. SL_SEED gives other orders. */
#include "check.h"
#include "plan/order_text.h"
#include "plan/random_order.h"

#include "plan/timing/objective.h"
#include "plan/timing/steady_period.h"

/* ---- by hand, ms ---- */

static sl_time value_of(const char *yaml, const char *const *texts) {
    sl_document document;
    sl_problem p;
    sl_order order;
    sl_time value;
    assert_ok(sl_document_parse("example", yaml, &document));
    assert_ok(sl_problem_read(&document, &p));
    sl_document_close(&document);
    assert_ok(sl_order_make(p.ranks, 64, &order));
    for (int rank = 0; rank < p.ranks; rank++)
        fill(&order, rank, texts[rank]);
    assert_ok(sl_objective_of_order(&p, &order, &value));
    sl_order_free(&order);
    sl_problem_free(&p);
    return value;
}

/* Two ranks, F, I, W of 10, 20, 5. 0F0 0-10, 1F0 10-20, 1I0 20-40, 1W0 40-45, 0I0 40-60, 0W0 60-65: rank 1
 * takes 35 of the 65, but its next forward waits for rank 0. */
static void one_microbatch_fills_the_whole_iteration(void **state) {
    (void)state;
#define TWO "ranks: 2, microbatches: 1, times_ms: {F: 10, I: 20, W: 5}"
    static const char *const texts[] = {"0F0 0I0 0W0", "1F0 1I0 1W0"};
    assert_int_equal(value_of("pipeline: {" TWO "}", texts), 65 * SL_MS);
    assert_int_equal(value_of("pipeline: {" TWO ", objective: span}", texts), 65 * SL_MS);
    assert_int_equal(value_of("pipeline: {" TWO ", objective: period}", texts), 65 * SL_MS);
}

/* With two microbatches rank 0 forwards both, then waits: 0F0 0-10, 0F1 10-20, 1F0 10-20, 1I0 20-40, 1F1
 * 40-50, 1I1 50-70; 0I0 40-60, 0W0 60-65, 0I1 70-90, 0W1 90-95; 1W0 70-75, 1W1 75-80. Rank 1 spans 10 to 80,
 * rank 0 0 to 95. With 0W1 and 0W0 the ring of waiting is rank 0's alone, from its first forward to its last
 * op: 95. */
static void the_longest_rank_is_the_span(void **state) {
    (void)state;
#define MORE "ranks: 2, microbatches: 2, times_ms: {F: 10, I: 20, W: 5}"
    static const char *const texts[] = {"0F0 0F1 0I0 0W0 0I1 0W1", "1F0 1I0 1F1 1I1 1W0 1W1"};
    assert_int_equal(value_of("pipeline: {" MORE ", objective: span}", texts), 95 * SL_MS);
    assert_int_equal(value_of("pipeline: {" MORE ", objective: period}", texts), 95 * SL_MS);
}

/* Rank 1 is the slow one: its F and I take 30 and 40. 0F0 0-10, 0F1 10-20, 1F0 10-40, 1F1 40-70, 1I0 70-110,
 * 1I1 110-150, 1W 150-160; 0I0 110-130, 0I1 150-170, 0W 170-180. Makespan and rank 0's span are 180, rank 1's
 * is 150. In the next iteration rank 0 begins at 180, rank 1 at 190. The cycle: 1F0 - 1I1 - 0I1 - 0W1 -
 * 0F0 - 1F0 takes 140 + 20 + 10 + 10: 180. */
static void a_period_may_need_every_rank(void **state) {
    (void)state;
#define SLOW "ranks: 2, microbatches: 2, times_ms: {F: [10, 30], I: [20, 40], W: [5, 5]}"
    static const char *const texts[] = {"0F0 0F1 0I0 0I1 0W0 0W1", "1F0 1F1 1I0 1I1 1W0 1W1"};
    assert_int_equal(value_of("pipeline: {" SLOW "}", texts), 180 * SL_MS);
    assert_int_equal(value_of("pipeline: {" SLOW ", objective: span}", texts), 180 * SL_MS);
    assert_int_equal(value_of("pipeline: {" SLOW ", objective: period}", texts), 180 * SL_MS);
}

/* Rank 0 forwards the next two microbatches while rank 1 still works: with W of 60 on rank 1 alone, 1F0 at
 * 10, ... 1I0 50-60, 1I1 60-70, 1W 70-190: rank 1 spans 180 and is the period, although rank 0 takes part:
 * 0F0 of the next iteration ends long before 190. The makespan counts rank 0's first forward: 190. */
static void a_busy_rank_is_the_period(void **state) {
    (void)state;
#define BUSY "ranks: 2, microbatches: 2, times_ms: {F: [10, 20], I: [10, 10], W: [10, 60]}"
    static const char *const texts[] = {"0F0 0F1 0I0 0I1 0W0 0W1", "1F0 1F1 1I0 1I1 1W0 1W1"};
    assert_int_equal(value_of("pipeline: {" BUSY "}", texts), 190 * SL_MS);
    assert_int_equal(value_of("pipeline: {" BUSY ", objective: span}", texts), 180 * SL_MS);
    assert_int_equal(value_of("pipeline: {" BUSY ", objective: period}", texts), 180 * SL_MS);
    assert_int_equal(value_of("pipeline: {" BUSY ", objective: period, synchronization: norm}", texts),
                     190 * SL_MS);
}

/* One rank, 60 of work. A reduction of 25 lasts until 85. Without a gather only an update waits for it; a
 * gather of 5 follows the reduction in any case. A norm ends with the reduction, and the gather begins the
 * next iteration. A reduction of 70 is longer than the work: the next one waits for it. */
static void collectives_follow_each_other_and_gate_an_update(void **state) {
    (void)state;
    static const struct {
        int reduce, gather;
        const char *synchronization;
        int period;
    } rows[] = {{25, 0, "none", 60}, {25, 0, "update", 85},  {25, 0, "norm", 85},
                {25, 5, "none", 90}, {25, 5, "update", 90},  {25, 5, "norm", 90},
                {70, 0, "none", 70}, {70, 0, "update", 130}, {0, 5, "none", 65}};
    static const char *const texts[] = {"0F0 0I0 0W0 0F1 0I1 0W1"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char yaml[400];
        snprintf(yaml, sizeof yaml,
                 "pipeline: {ranks: 1, microbatches: 2, times_ms: {F: 10, I: 10, W: 10}, objective: period, "
                 "synchronization: %s, data_parallel: {reduce_ms: %d, gather_ms: %d}}",
                 rows[i].synchronization, rows[i].reduce, rows[i].gather);
        sl_time period = value_of(yaml, texts);
        if (period != rows[i].period * SL_MS)
            fail_msg("row %zu takes %g ms, by hand %d", i, sl_to_ms(period), rows[i].period);
    }
}

/* ---- against the order written out many times ---- */

static void random_problem(sl_problem *p) {
    static const sl_placement placements[] = {SL_LINEAR, SL_LINEAR, SL_LOOP, SL_WAVE};
    sl_placement placement = placements[draw(4)];
    int ranks = 1 + draw(3), stages = placement == SL_LINEAR ? ranks : 2 * ranks;
    assert_ok(sl_problem_make(ranks, stages, 1 + draw(3), p));
    p->placement = placement;
    for (int s = 0; s < stages; s++)
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            p->time[kind][s] = 1 + draw(9);
    for (int i = 0; i < ranks * ranks; i++)
        p->link[i] = (sl_link){.latency = draw(2) * draw(15), .transfer = draw(2) * draw(8)};
    p->communication = (sl_regime)draw(3);
    p->queue = 1 + draw(5);
    p->objective = SL_PERIOD;
}

/* The end of `iterations` of it in a row: microbatches simply go on counting. */
static sl_time end_after(const sl_problem *p, const sl_order *order, int iterations) {
    sl_problem many = *p;
    sl_order repeated;
    sl_program program;
    sl_timeline timeline;
    int most = 0;
    many.microbatches = p->microbatches * iterations;
    for (int rank = 0; rank < p->ranks; rank++)
        most = order->count[rank] > most ? order->count[rank] : most;
    assert_ok(sl_order_make(p->ranks, most * iterations, &repeated));
    for (int rank = 0; rank < p->ranks; rank++)
        for (int n = 0; n < iterations; n++)
            for (int i = 0; i < order->count[rank]; i++) {
                sl_op op = order->ops[rank][i];
                op.microbatch += n * p->microbatches;
                repeated.ops[rank][repeated.count[rank]++] = op;
            }
    assert_ok(sl_lower(&many, &repeated, &program));
    assert_ok(sl_replay(&many, &program, p->communication, p->queue, &timeline));
    sl_time end = sl_timeline_end(&timeline);
    sl_timeline_free(&timeline);
    sl_program_free(&program);
    sl_order_free(&repeated);
    return end;
}

/* Small whole times: after 700 iterations no faster cycle counts any more, and the slowest repeats
 * within 420, a multiple of 1 to 7 iterations. */
static void the_period_is_the_growth_of_a_long_replay(void **state) {
    (void)state;
    enum { BEFORE = 700, LATER = 420 };
    int overlapping = 0;
    for (int round = 0; round < 200; round++) {
        sl_problem p;
        sl_order order;
        sl_program program;
        sl_timeline timeline;
        random_problem(&p);
        random_order(&p, draw(2), &order);
        if (sl_lower(&p, &order, &program) != SL_OK)
            fail_msg("%s", sl_error_text());
        if (sl_replay(&p, &program, p.communication, p.queue, &timeline) == SL_OK) {
            sl_time period, grown = end_after(&p, &order, BEFORE + LATER) - end_after(&p, &order, BEFORE);
            assert_ok(sl_period(&p, &program, &period));
            if (period != (grown + LATER - 1) / LATER) {
                sl_problem_write(&p, stdout);
                fail_msg("round %d: period %lld, but %d iterations more take %lld", round, (long long)period,
                         LATER, (long long)grown);
            }
            overlapping += period < sl_timeline_makespan(&timeline);
            sl_timeline_free(&timeline);
        }
        sl_program_free(&program);
        sl_order_free(&order);
        sl_problem_free(&p);
    }
    assert_true(overlapping > 10);
}

/* ---- cycles ---- */

/* 0 -> 1 -> 2 -> 0 of 5, 6, 8 is 19 in 3, more than the loop at 1 of 6, and less than 0 <-> 2 of 8 + 5. */
static void the_heaviest_cycle_counts_by_its_mean(void **state) {
    (void)state;
    sl_time mean, none = SL_NO_EDGE;
    sl_time weight[9] = {none, none, 8, 5, 6, none, none, 6, none};
    assert_ok(sl_cycle_mean(weight, 3, &mean));
    assert_int_equal(mean, 7); /* 19 / 3, rounded up */
    weight[6] = 7;
    assert_ok(sl_cycle_mean(weight, 3, &mean));
    assert_int_equal(mean, 8); /* 15 / 2 */
    weight[8] = 9;
    assert_ok(sl_cycle_mean(weight, 3, &mean));
    assert_int_equal(mean, 9);
}

/* ---- what has no period ---- */

static void assert_refused(const char *yaml, const char *why) {
    sl_document document;
    sl_problem p;
    assert_ok(sl_document_parse("p.yaml", yaml, &document));
    assert_int_equal(sl_problem_read(&document, &p), SL_EINVAL);
    if (!strstr(sl_error_text(), why))
        fail_msg("'%s' does not say '%s'", sl_error_text(), why);
    sl_problem_free(&p);
    sl_document_close(&document);
}

static void a_problem_without_a_period_is_refused(void **state) {
    (void)state;
#define SMALL "pipeline:\n  ranks: 2\n  microbatches: 1\n  times_ms: {F: 1, I: 1, W: 1}\n"
    assert_refused(SMALL "  objective: time\n",
                   "p.yaml:5: 'objective' must be one of makespan, span, period");
    assert_refused(SMALL "  objective: span\n  synchronization: none\n",
                   "p.yaml:6: 'synchronization' belongs to objective period");
    assert_refused(SMALL "  communication: fifo\n  objective: period\n", "p.yaml:6: 'objective' is period");
    assert_refused(SMALL "  links: {shared: [{name: w, links: [[0, 1]]}]}\n  objective: period\n",
                   "p.yaml:6: 'objective' is period");
}

int main(void) {
    start_drawing(11);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_microbatch_fills_the_whole_iteration),
        cmocka_unit_test(the_longest_rank_is_the_span),
        cmocka_unit_test(a_period_may_need_every_rank),
        cmocka_unit_test(a_busy_rank_is_the_period),
        cmocka_unit_test(collectives_follow_each_other_and_gate_an_update),
        cmocka_unit_test(the_period_is_the_growth_of_a_long_replay),
        cmocka_unit_test(the_heaviest_cycle_counts_by_its_mean),
        cmocka_unit_test(a_problem_without_a_period_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
