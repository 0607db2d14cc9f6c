/* The replay of any valid order against a stepper that advances one ns at a time and knows only the rules of
 * the problem file's semantics: no program, no messages of the lowering, no event queue. */
#include "check.h"
#include "plan/random_order.h"

#include "base/memory.h"
#include "plan/timing/profile.h"
#include "plan/timing/replay.h"

enum { RANKS = 5, MICROBATCHES = 6, STEPS = 3 * MICROBATCHES, MESSAGES = 2 * MICROBATCHES };

/* ---- the stepper ---- */

typedef struct wire {
    int waiting[MESSAGES], first, last; /* producers' microbatch * 2 + backward, in issue order */
    sl_time busy;
    int places; /* issued and not arrived */
    int flying[MESSAGES];
    sl_time lands[MESSAGES];
    int flights;
} wire;

typedef struct stepper {
    const sl_problem *p;
    const sl_order *order;
    int in_order, queue;
    int next[RANKS], running[RANKS], sending[RANKS];
    sl_time ends[RANKS], start[RANKS][STEPS], end[RANKS][STEPS];
    int done[SL_OP_KINDS][RANKS][MICROBATCHES],
        here[2][RANKS][MICROBATCHES]; /* data at their rank, by direction */
    wire wire[RANKS][2];              /* to the next, to the previous */
    sl_time finish;
} stepper;

static int land(stepper *s, sl_time now) {
    int moved = 0;
    for (int rank = 0; rank < s->p->ranks; rank++)
        for (int d = 0; d < 2; d++) {
            wire *w = &s->wire[rank][d];
            for (int i = 0; i < w->flights; i++)
                if (w->lands[i] == now) {
                    s->here[d][rank + (d ? -1 : 1)][w->flying[i]] = 1;
                    w->flying[i] = w->flying[--w->flights];
                    w->lands[i--] = w->lands[w->flights];
                    w->places--;
                    moved = 1;
                }
        }
    return moved;
}

static int take_links(stepper *s, sl_time now) {
    int moved = 0;
    for (int rank = 0; rank < s->p->ranks; rank++)
        for (int d = 0; d < 2; d++) {
            wire *w = &s->wire[rank][d];
            const sl_link *link = &s->p->link[rank * s->p->ranks + rank + (d ? -1 : 1)];
            while (w->first < w->last && w->busy <= now) {
                w->busy = now + link->transfer;
                w->lands[w->flights] = w->busy + link->latency;
                w->flying[w->flights++] = w->waiting[w->first++];
                moved = 1;
            }
        }
    return moved;
}

static int advance_rank(stepper *s, int rank, sl_time now) {
    if (s->next[rank] >= s->order->count[rank])
        return 0;
    const sl_op *op = &s->order->ops[rank][s->next[rank]];
    int backward = op->kind != SL_F, to = rank + (backward ? -1 : 1), from = rank + (backward ? 1 : -1);
    if (s->sending[rank]) {
        wire *w = &s->wire[rank][backward];
        if (s->in_order && w->places >= s->queue)
            return 0;
        w->places++;
        w->waiting[w->last++] = op->microbatch;
        s->sending[rank] = 0;
        s->next[rank]++;
        return 1;
    }
    if (s->running[rank]) {
        if (s->ends[rank] != now)
            return 0;
        s->running[rank] = 0;
        s->end[rank][s->next[rank]] = now;
        s->done[op->kind][rank][op->microbatch] = 1;
        s->sending[rank] = op->kind != SL_W && to >= 0 && to < s->p->ranks;
        s->next[rank] += !s->sending[rank];
        return 1;
    }
    if (op->kind != SL_W && from >= 0 && from < s->p->ranks && !s->here[backward][rank][op->microbatch])
        return 0;
    assert_true(op->kind == SL_F || s->done[op->kind == SL_W ? SL_I : SL_F][rank][op->microbatch]);
    s->start[rank][s->next[rank]] = now;
    s->ends[rank] = now + s->p->time[op->kind][rank];
    s->running[rank] = 1;
    return 1;
}

static void step_through(stepper *s) {
    int left = 1;
    for (sl_time now = 0; left && now < 100000; now++) {
        for (int moved = 1; moved;) { /* whatever can happen at this instant happens */
            moved = land(s, now) | take_links(s, now);
            for (int rank = 0; rank < s->p->ranks; rank++)
                moved |= advance_rank(s, rank, now);
        }
        left = 0;
        for (int rank = 0; rank < s->p->ranks; rank++)
            left |= s->next[rank] < s->order->count[rank];
        s->finish = now;
    }
    assert_false(left);
}

/* Memory after everything that happens at an instant but its acquisitions, then after those: the most of
 * both. */
static double peak_by_steps(const stepper *s, int rank) {
    double most = 0;
    for (sl_time now = 0; now <= s->finish; now++)
        for (int half = 0; half < 2; half++) {
            double used = 0;
            for (int i = 0; i < s->order->count[rank]; i++) {
                int kind = s->order->ops[rank][i].kind;
                int counts = kind == SL_F ? s->start[rank][i] < now + half : s->end[rank][i] <= now;
                used += counts ? s->p->delta[kind][rank] : 0;
            }
            most = used > most ? used : most;
        }
    return most;
}

static void random_problem(sl_problem *p) {
    int ranks = 1 + draw(RANKS), zeros = draw(4) == 0;
    assert_ok(sl_problem_make(ranks, ranks, 1 + draw(MICROBATCHES), p));
    for (int s = 0; s < ranks; s++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            p->time[kind][s] = zeros ? draw(3) : 1 + draw(12);
        p->delta[SL_F][s] = 1 + draw(8);
        p->delta[SL_I][s] = -draw((int)p->delta[SL_F][s] + 1);
        p->delta[SL_W][s] = -p->delta[SL_F][s] - p->delta[SL_I][s];
        p->delta[SL_B][s] = -p->delta[SL_F][s];
    }
    for (int i = 0; i < ranks * ranks; i++)
        p->link[i] = (sl_link){.latency = draw(2) ? 0 : draw(30), .transfer = draw(2) ? 0 : draw(20)};
}

static void compare_once(int in_order, int queue) {
    static stepper s;
    sl_problem p;
    sl_order order;
    sl_program program;
    sl_timeline t;
    double peak[RANKS];
    random_problem(&p);
    random_order(&p, 0, &order);
    assert_ok(sl_lower(&p, &order, &program));
    assert_ok(sl_replay(&p, &program, in_order ? SL_INORDER : SL_DECOUPLED, queue, &t));
    s = (stepper){.p = &p, .order = &order, .in_order = in_order, .queue = queue};
    step_through(&s);
    assert_ok(sl_peak_memory(&p, &t, peak));
    for (int rank = 0, i = 0; rank < p.ranks; rank++) {
        for (int k = 0; k < order.count[rank]; k++, i++) {
            assert_memory_equal(&t.span[i].op, &order.ops[rank][k], sizeof(sl_op));
            assert_int_equal(t.span[i].start, s.start[rank][k]);
            assert_int_equal(t.span[i].end, s.end[rank][k]);
        }
        if (p.time[SL_F][rank] > 0 &&
            p.time[SL_I][rank] > 0) /* an F that ends where it starts has no instant between */
            assert_true(peak[rank] == peak_by_steps(&s, rank));
    }
    sl_timeline_free(&t);
    sl_program_free(&program);
    sl_order_free(&order);
    sl_problem_free(&p);
}

static void any_valid_order_runs_as_the_rules_say(void **state) {
    (void)state;
    start_drawing(314u);
    for (int round = 0; round < 1000; round++)
        compare_once(round & 1, 1 + draw(3));
}

/* ---- by hand ---- */

static void put(sl_order *order, int rank, int kind, int microbatch) {
    order->ops[rank][order->count[rank]++] = (sl_op){.stage = rank, .kind = kind, .microbatch = microbatch};
}

/* Ranks 0 and 1, two microbatches, F, I and W of 10, latency 15 both ways, one place.
 *
 * rank 0: F0 0-10 (message 10-25), F1 10-20: no place until 25, so the rank goes on at 25 (message 25-40)
 * rank 1: F0 25-35, I0 35-45 (gradient 45-60), W0 45-55, F1 55-65, I1 65-75 (its place is free since 60;
 * 75-90), W1 75-85 rank 0: I0 60-70, I1 90-100, W0 100-110, W1 110-120 */
static void one_place_holds_the_rank_by_hand(void **state) {
    (void)state;
    sl_problem p;
    sl_order order;
    sl_program program;
    sl_timeline t;
    assert_ok(sl_problem_make(2, 2, 2, &p));
    for (int kind = 0; kind < SL_B; kind++)
        p.time[kind][0] = p.time[kind][1] = 10;
    p.link[1].latency = p.link[2].latency = 15;
    assert_ok(sl_order_make(2, 6, &order));
    static const int first[6][2] = {{SL_F, 0}, {SL_F, 1}, {SL_I, 0}, {SL_I, 1}, {SL_W, 0}, {SL_W, 1}};
    static const int second[6][2] = {{SL_F, 0}, {SL_I, 0}, {SL_W, 0}, {SL_F, 1}, {SL_I, 1}, {SL_W, 1}};
    for (int i = 0; i < 6; i++) {
        put(&order, 0, first[i][0], first[i][1]);
        put(&order, 1, second[i][0], second[i][1]);
    }
    assert_ok(sl_lower(&p, &order, &program));
    assert_ok(sl_replay(&p, &program, SL_INORDER, 1, &t));
    static const sl_time starts[12] = {0, 10, 60, 90, 100, 110, 25, 35, 45, 55, 65, 75};
    for (int i = 0; i < 12; i++)
        assert_int_equal(t.span[i].start, starts[i]);
    static const sl_time sent[4] = {10, 25, 45, 75};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(t.transfer[i].start, sent[i]);
        assert_int_equal(t.transfer[i].end, sent[i]);
        assert_int_equal(t.transfer[i].arrive, sent[i] + 15);
    }
    assert_int_equal(sl_timeline_makespan(&t), 120);
    assert_int_equal(sl_timeline_span(&t), 120);
    assert_true(sl_timeline_bubble(&t) == 0.5); /* 120 of work on 2 * 120 */
    sl_timeline_free(&t);
    sl_program_free(&program);
    sl_order_free(&order);
    sl_problem_free(&p);
}

/* ---- profile ---- */

static void medians_stand_against_one_late_op_and_kinds_that_did_not_run_keep_their_time(void **state) {
    (void)state;
    sl_problem p;
    sl_timeline t;
    assert_ok(sl_problem_make(2, 2, 3, &p));
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        p.time[kind][0] = p.time[kind][1] = 1000 + kind;
    p.link[0] = (sl_link){.latency = 9, .transfer = 9};
    p.link[1] = (sl_link){.latency = 7, .transfer = 7};
    p.link[2] = (sl_link){.latency = 8, .transfer = 8};
    assert_ok(sl_timeline_make(2, 13, 6, &t));
    static const sl_time forward[3] = {50, 900, 52}, input[3] = {60, 61, 62}, weight[3] = {70, 69, 10};
    for (int m = 0; m < 3; m++) {
        t.span[m] = (sl_span){.rank = 0,
                              .op = {.stage = 0, .microbatch = m, .kind = SL_F},
                              .start = m * 1000,
                              .end = m * 1000 + forward[m]};
        t.span[3 + m] = (sl_span){.rank = 0,
                                  .op = {.stage = 0, .microbatch = m, .kind = SL_I},
                                  .start = m * 2000,
                                  .end = m * 2000 + input[m]};
        t.span[6 + m] = (sl_span){.rank = 0,
                                  .op = {.stage = 0, .microbatch = m, .kind = SL_W},
                                  .start = 9000,
                                  .end = 9000 + weight[m]};
        t.span[9 + m] = (sl_span){.rank = 1,
                                  .op = {.stage = 1, .microbatch = m, .kind = SL_B},
                                  .start = 9000,
                                  .end = 9000 + 10 * m};
    }
    t.span[12] = (sl_span){.rank = 1,
                           .op = {.stage = 1, .microbatch = 0, .kind = SL_I},
                           .start = 9500,
                           .end = 9507}; /* both ways in one run */
    t.transfer[0] = (sl_transfer){.from = 0, .to = 1, .start = 10, .end = 14, .arrive = 34};
    t.transfer[1] = (sl_transfer){.from = 0, .to = 1, .start = 20, .end = 25, .arrive = 29};
    t.transfer[2] = (sl_transfer){.from = 0, .to = 1, .start = 30, .end = 93, .arrive = 95};
    for (int i = 3; i < 6; i++)
        t.transfer[i] = (sl_transfer){
            .from = 1, .to = 0, .start = 100 * i, .end = 100 * i + 3, .arrive = 100 * i + (i < 5 ? 1 : 50)};
    assert_ok(sl_profile(&t, &p));
    assert_int_equal(p.time[SL_F][0], 52);
    assert_int_equal(p.time[SL_I][0], 61);
    assert_int_equal(p.time[SL_W][0], 69);
    assert_int_equal(p.time[SL_B][0], 61 + 69); /* only I and W ran */
    assert_int_equal(p.time[SL_B][1], 10);
    assert_int_equal(p.time[SL_I][1], 7);
    assert_int_equal(p.time[SL_F][1], 1000 + SL_F);
    assert_int_equal(p.time[SL_W][1], 1000 + SL_W);
    assert_true(p.link[1].latency == 4 && p.link[1].transfer == 5);
    assert_true(p.link[2].latency == 0 &&
                p.link[2].transfer == 3); /* clocks that disagree give no latency below 0 */
    assert_true(p.link[0].latency == 9 && p.link[0].transfer == 9); /* nothing went that way */
    sl_timeline_free(&t);
    sl_problem_free(&p);
}

static void every_failed_allocation_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    int failures = 0, done = 0;
    sl_problem p;
    sl_order order;
    random_state = 1;
    assert_ok(sl_problem_make(3, 3, 4, &p));
    random_order(&p, 0, &order);
    for (long n = 0; !done && n < 1000; n++) {
        sl_program program = {0};
        sl_timeline t = {0};
        double peak[3];
        sl_alloc_fail_at(n);
        sl_status status = sl_lower(&p, &order, &program);
        if (status == SL_OK)
            status = sl_replay(&p, &program, SL_INORDER, 1, &t);
        if (status == SL_OK)
            status = sl_peak_memory(&p, &t, peak);
        if (status == SL_OK)
            status = sl_profile(&t, &p);
        sl_alloc_fail_at(-1);
        done = status == SL_OK;
        if (!done)
            assert_int_equal(status, SL_ENOMEM);
        failures += !done;
        sl_timeline_free(&t);
        sl_program_free(&program);
    }
    assert_true(done && failures > 40);
    sl_order_free(&order);
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_valid_order_runs_as_the_rules_say),
        cmocka_unit_test(one_place_holds_the_rank_by_hand),
        cmocka_unit_test(medians_stand_against_one_late_op_and_kinds_that_did_not_run_keep_their_time),
        cmocka_unit_test(every_failed_allocation_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
