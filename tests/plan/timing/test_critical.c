/* The critical path against hand calculation, and its promises for random orders of every placement and
 * regime: no gap in time, and every message on it holds up the end. */
#include "check.h"
#include "plan/random_order.h"

#include "base/memory.h"
#include "plan/timing/critical.h"
#include "plan/timing/replay.h"

/* ---- by hand ---- */

typedef struct example {
    sl_problem problem;
    sl_order order;
    sl_program program;
    sl_timeline t;
    int32_t *path;
    int length;
} example;

static void begin(example *e, int microbatches) {
    memset(e, 0, sizeof *e);
    assert_ok(sl_problem_make(2, 2, microbatches, &e->problem));
    for (int s = 0; s < 2; s++) {
        e->problem.time[SL_F][s] = 10;
        e->problem.time[SL_B][s] = 20;
    }
    assert_ok(sl_order_make(2, 2 * microbatches, &e->order));
}

/* "F0 F1 B0 B1" on a rank. */
static void put(example *e, int rank, const char *ops) {
    for (; *ops; ops += ops[2] ? 3 : 2)
        e->order.ops[rank][e->order.count[rank]++] =
            (sl_op){.stage = rank, .kind = *ops == 'F' ? SL_F : SL_B, .microbatch = ops[1] - '0'};
}

static void time_it(example *e) {
    assert_ok(sl_lower(&e->problem, &e->order, &e->program));
    assert_ok(sl_replay(&e->problem, &e->program, e->problem.communication, e->problem.queue, &e->t));
    assert_ok(sl_alloc(&e->path, (size_t)(e->t.spans + e->t.transfers + e->t.collectives), sizeof *e->path));
    e->length = sl_critical_path(&e->problem, &e->program, &e->t, e->path);
}

static void end(example *e) {
    sl_free(e->path);
    sl_timeline_free(&e->t);
    sl_program_free(&e->program);
    sl_order_free(&e->order);
    sl_problem_free(&e->problem);
}

/* The path in words: "0F1" an op (rank, kind, microbatch), "0>F1" a message by its sender, "1gather". */
static void expect_path(const example *e, const char *expected) {
    char text[512] = "";
    for (int i = 0; i < e->length; i++) {
        char entry[32];
        if (e->path[i] < 0) {
            const sl_transfer *t = &e->t.transfer[-1 - e->path[i]];
            snprintf(entry, sizeof entry, "%d>%s%d", t->from, sl_op_name(t->op.kind), t->op.microbatch);
        } else if (e->path[i] < e->t.spans) {
            const sl_span *s = &e->t.span[e->path[i]];
            snprintf(entry, sizeof entry, "%d%s%d", s->rank, sl_op_name(s->op.kind), s->op.microbatch);
        } else {
            const sl_span *s = &e->t.collective[e->path[i] - e->t.spans];
            snprintf(entry, sizeof entry, "%d%s", s->rank, sl_op_name(s->op.kind));
        }
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", entry);
    }
    assert_string_equal(text, expected);
}

/* Rank 1 has F0 13-23, B0 23-43, F1 43-53, B1 53-73, whose gradient arrives at 78; rank 0 ends at 98. */
static void a_busy_rank_is_the_path_and_the_link_is_crossed_once_each_way(void **state) {
    (void)state;
    example e;
    begin(&e, 2);
    e.problem.link[1].latency = 3;
    e.problem.link[2].latency = 5;
    put(&e, 0, "F0 F1 B0 B1");
    put(&e, 1, "F0 B0 F1 B1");
    time_it(&e);
    assert_int_equal(sl_timeline_makespan(&e.t), 98);
    expect_path(&e, "0F0 0>F0 1F0 1B0 1F1 1B1 1>B1 0B1");
    end(&e);
}

/* 1F1B with a warm-up of two over a link of 100: F0 0-10, there 110-140 with B0, back 240-260, F2 260-270,
 * there 370-400 with B2, back 500-520. Four crossings of 100 and 120 of work are the 520. */
static void a_slow_link_is_crossed_by_every_round_trip(void **state) {
    (void)state;
    example e;
    begin(&e, 3);
    e.problem.link[1].latency = e.problem.link[2].latency = 100;
    put(&e, 0, "F0 F1 B0 F2 B1 B2");
    put(&e, 1, "F0 B0 F1 B1 F2 B2");
    time_it(&e);
    assert_int_equal(sl_timeline_makespan(&e.t), 520);
    expect_path(&e, "0F0 0>F0 1F0 1B0 1>B0 0B0 0F2 0>F2 1F2 1B2 1>B2 0B2");
    end(&e);
}

/* Messages of 25 take the wire 10-35, 35-60, 60-85; the last arrives at 89, behind it rank 1 has all its
 * backwards, 99-159, and rank 0 the last one, 159-169. */
static void messages_wait_for_each_other_on_a_wire(void **state) {
    (void)state;
    example e;
    begin(&e, 3);
    e.problem.link[1] = (sl_link){.latency = 4, .transfer = 25};
    e.problem.time[SL_B][0] = 10;
    put(&e, 0, "F0 F1 F2 B0 B1 B2");
    put(&e, 1, "F0 F1 F2 B0 B1 B2");
    time_it(&e);
    assert_int_equal(sl_timeline_makespan(&e.t), 169);
    expect_path(&e, "0F0 0>F0 0>F1 0>F2 1F2 1B0 1B1 1B2 1>B2 0B2");
    end(&e);
}

/* With one place a message takes the wire when the one before has arrived: 10-39, 39-68, 68-97, latency
 * included; rank 1 then works 97-167. */
static void messages_wait_for_a_place(void **state) {
    (void)state;
    example e;
    begin(&e, 3);
    e.problem.communication = SL_INORDER;
    e.problem.link[1] = (sl_link){.latency = 4, .transfer = 25};
    e.problem.time[SL_B][0] = 10;
    put(&e, 0, "F0 F1 F2 B0 B1 B2");
    put(&e, 1, "F0 F1 F2 B0 B1 B2");
    time_it(&e);
    assert_int_equal(sl_timeline_makespan(&e.t), 177);
    expect_path(&e, "0F0 0>F0 0>F1 0>F2 1F2 1B0 1B1 1B2 1>B2 0B2");
    end(&e);
}

/* A send that finds no place holds its rank. F0 0-10 arrives at 110; F1 10-20 is issued only then, and F2
 * starts, 110-120. */
static void a_rank_waits_for_a_place_of_its_own_message(void **state) {
    (void)state;
    example e;
    begin(&e, 3);
    e.problem.communication = SL_INORDER;
    e.problem.link[1].latency = 100;
    put(&e, 0, "F0 F1 F2 B0 B1 B2");
    put(&e, 1, "F0 B0 F1 B1 F2 B2");
    time_it(&e);
    /* F2's send waits from 120 to 210, arrives at 310: F2 310-320, B2 320-340, rank 0 B2 340-360 */
    assert_int_equal(sl_timeline_makespan(&e.t), 360);
    assert_int_equal(e.t.span[2].start, 110);
    expect_path(&e, "0F0 0>F0 0>F1 0>F2 1F2 1B2 1>B2 0B2");
    end(&e);
    /* the same with an F of 150: F1 10.. ends at 300 and finds the place free since 250; the rank's own work
     * is the path: 450, F2's message arrives at 550, 550-580, rank 0 ends at 600 */
    begin(&e, 3);
    e.problem.communication = SL_INORDER;
    e.problem.link[1].latency = 100;
    e.problem.time[SL_F][0] = 150;
    put(&e, 0, "F0 F1 F2 B0 B1 B2");
    put(&e, 1, "F0 B0 F1 B1 F2 B2");
    time_it(&e);
    assert_int_equal(sl_timeline_makespan(&e.t), 600);
    expect_path(&e, "0F0 0F1 0F2 0>F2 1F2 1B2 1>B2 0B2");
    end(&e);
}

/* F0 0-10 arrives at 110 and holds the place; F1 10-20 waits for it until then, and so does the rank. */
static void a_held_rank_follows_the_message_that_freed_its_place(void **state) {
    (void)state;
    example e;
    begin(&e, 3);
    e.problem.communication = SL_INORDER;
    e.problem.link[1].latency = 100;
    put(&e, 0, "F0 F1 B0 B1 F2 B2");
    put(&e, 1, "F0 B0 F1 B1 F2 B2");
    time_it(&e);
    /* rank 1: F0 110-120, B0 120-140; rank 0: free at 110, B0 140-160. F1 arrives at 210, B1 is done at 240:
     * rank 0 B1 240-260, F2 260-270, arrives at 370, B2 400, rank 0 B2 400-420 */
    assert_int_equal(sl_timeline_makespan(&e.t), 420);
    expect_path(&e, "0F0 0>F0 0>F1 1F1 1B1 1>B1 0B1 0F2 0>F2 1F2 1B2 1>B2 0B2");
    end(&e);
    begin(&e, 3);
    e.problem.communication = SL_INORDER;
    e.problem.link[1].latency = 100;
    e.problem.time[SL_B][0] = 500;
    put(&e, 0, "F0 F1 F2 B0 B1 B2");
    put(&e, 1, "F0 B0 F1 B1 F2 B2");
    time_it(&e);
    /* F2's place comes at 210; until then the rank is held, and B0, there since 140, starts at 210: the
     * three backwards end at 1710 */
    assert_int_equal(sl_timeline_makespan(&e.t), 1710);
    expect_path(&e, "0F0 0>F0 0>F1 0B0 0B1 0B2");
    end(&e);
}

/* Latency 5, batched: rank 0 F0 0-10, F1 15-25; rank 1 F0 15-25, F1 30-40, B0 40-60, B1 only when B0's
 * gradient has arrived, 65-85; rank 0 B1 90-110. */
static void a_group_holds_the_next_op(void **state) {
    (void)state;
    example e;
    begin(&e, 2);
    e.problem.communication = SL_BATCHED;
    e.problem.link[1].latency = e.problem.link[2].latency = 5;
    put(&e, 0, "F0 F1 B0 B1");
    put(&e, 1, "F0 F1 B0 B1");
    time_it(&e);
    assert_int_equal(sl_timeline_makespan(&e.t), 110);
    expect_path(&e, "0F0 0>F0 0F1 0>F1 1F1 1B0 1>B0 1B1 1>B1 0B1");
    end(&e);
}

/* Gathers of 7 on rank 0 and 50 on rank 1: rank 0's F0 is 7-17, rank 1's waits for its own gather, 50-60,
 * B0 60-80, rank 0's B0 80-100, its reduction 100-140. */
static void gathers_and_reductions_are_on_the_path(void **state) {
    (void)state;
    example e;
    begin(&e, 1);
    e.problem.gather[0] = 7;
    e.problem.gather[1] = 50;
    e.problem.reduce[0] = 40;
    e.problem.reduce[1] = 1;
    put(&e, 0, "F0 B0");
    put(&e, 1, "F0 B0");
    time_it(&e);
    assert_int_equal(sl_timeline_makespan(&e.t), 133); /* from the first F, at 7 */
    expect_path(&e, "1gather 1F0 1B0 1>B0 0B0 0reduce");
    end(&e);
}

/* ---- random orders of every placement ---- */

static void random_problem(sl_problem *p) {
    static const sl_placement all[] = {SL_LINEAR, SL_LOOP, SL_WAVE, SL_BIDIRECTIONAL};
    sl_placement placement = all[draw(4)];
    int ranks = 2 + draw(4), stages = placement == SL_LINEAR ? ranks : 2 * ranks;
    assert_ok(sl_problem_make(ranks, stages, 2 + draw(4), p));
    p->placement = placement;
    p->parts = 1 + draw(2);
    p->communication = (sl_regime)draw(SL_REGIMES);
    p->communicators = (sl_communicators)draw(4);
    p->eager = draw(2);
    p->queue = 1 + draw(2);
    int most = 1 + draw(20); /* short times make ties */
    for (int s = 0; s < stages; s++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            p->time[kind][s] = draw(most + 1);
        p->saved[s] = draw(2) && p->time[SL_B][s] > 0 ? 1 : 0;
        p->gather[s] = draw(3) ? 0 : draw(3 * most);
        p->reduce[s] = draw(3) ? 0 : draw(3 * most);
    }
    for (int i = 0; i < ranks * ranks; i++)
        p->link[i] = (sl_link){.latency = draw(3) ? draw(2 * most) : 0,
                               .transfer = draw(2) ? draw(most) : 0,
                               .bytes = 1 + draw(2)};
    if (draw(2) == 0) {
        assert_ok(sl_alloc(&p->wire, (size_t)(ranks * ranks), sizeof *p->wire));
        for (int i = 0; i < ranks * ranks; i++)
            p->wire[i] = draw(3) ? i : 0;
    }
}

static sl_time last_end(const sl_timeline *t) {
    sl_time last = 0;
    for (int i = 0; i < t->spans; i++)
        last = t->span[i].end > last ? t->span[i].end : last;
    for (int i = 0; i < t->collectives; i++)
        last = t->collective[i].end > last ? t->collective[i].end : last;
    return last;
}

static void times_of(const sl_timeline *t, int32_t entry, sl_time *start, sl_time *left, sl_time *arrive) {
    if (entry < 0) {
        const sl_transfer *transfer = &t->transfer[-1 - entry];
        *start = transfer->start;
        *left = transfer->end;
        *arrive = transfer->arrive;
        return;
    }
    const sl_span *span = entry < t->spans ? &t->span[entry] : &t->collective[entry - t->spans];
    *start = span->start;
    *left = *arrive = span->end;
}

/* Makes one message on the path, which something waits for, later by far: the end moves by as much. (Not with
 * shared wires: there others may overtake it, and the end moves less.) */
static void check_that_it_holds(const example *e, int entry) {
    const sl_time late = 1000;
    sl_time *latency, start, left, arrive, next, unused;
    times_of(&e->t, e->path[entry], &start, &left, &arrive);
    times_of(&e->t, e->path[entry + 1], &next, &unused, &unused);
    if (e->path[entry] >= 0 || next != arrive || left == arrive || e->problem.wire)
        return;
    sl_replayer *replayer;
    const sl_timeline *later;
    assert_ok(sl_alloc(&latency, (size_t)e->program.messages, sizeof *latency));
    for (int i = 0; i < e->program.messages; i++)
        latency[i] = e->t.transfer[i].arrive - e->t.transfer[i].end;
    latency[-1 - e->path[entry]] += late;
    assert_ok(sl_replayer_open(&e->problem, &e->program, &replayer));
    sl_replayer_delay(replayer, latency);
    assert_true(sl_replayer_run(replayer, &later) != SL_TIME_NEVER);
    assert_true(last_end(later) >= last_end(&e->t) + late);
    sl_replayer_close(replayer);
    sl_free(latency);
}

static int check_path(const example *e) {
    sl_time begins = SL_TIME_NEVER, start, left, arrive, total = 0;
    for (int i = 0; i < e->t.spans; i++)
        if (e->t.span[i].op.kind == SL_F && e->t.span[i].start < begins)
            begins = e->t.span[i].start;
    assert_true(e->length > 0);
    for (int i = 0; i < e->length; i++) {
        times_of(&e->t, e->path[i], &start, &left, &arrive);
        assert_true(i > 0 || start <= begins); /* from the makespan's begin ... */
        sl_time until = arrive, unused;
        if (i + 1 < e->length) { /* ... without a gap or an overlap ... */
            times_of(&e->t, e->path[i + 1], &until, &unused, &unused);
            assert_true(until == left || until == arrive);
            check_that_it_holds(e, i);
        } else {
            assert_int_equal(until, last_end(&e->t)); /* ... to its end */
        }
        total += until - (start < begins ? begins : start);
    }
    assert_int_equal(total, sl_timeline_makespan(&e->t));
    return e->length;
}

static void the_path_has_no_gap_and_its_messages_hold_up_the_end(void **state) {
    (void)state;
    start_drawing(4711);
    int long_paths = 0;
    for (int round = 0; round < 2000; round++) {
        example e = {0};
        random_problem(&e.problem);
        random_order(&e.problem, 1, &e.order);
        time_it(&e);
        long_paths += check_path(&e) > 10;
        end(&e);
    }
    assert_true(long_paths > 1000); /* it is not about trifles */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_busy_rank_is_the_path_and_the_link_is_crossed_once_each_way),
        cmocka_unit_test(a_slow_link_is_crossed_by_every_round_trip),
        cmocka_unit_test(messages_wait_for_each_other_on_a_wire),
        cmocka_unit_test(messages_wait_for_a_place),
        cmocka_unit_test(a_rank_waits_for_a_place_of_its_own_message),
        cmocka_unit_test(a_held_rank_follows_the_message_that_freed_its_place),
        cmocka_unit_test(a_group_holds_the_next_op),
        cmocka_unit_test(gathers_and_reductions_are_on_the_path),
        cmocka_unit_test(the_path_has_no_gap_and_its_messages_hold_up_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
