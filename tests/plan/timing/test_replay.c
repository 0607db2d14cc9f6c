/* The timing model against hand calculation and against an independent, naive computation. */
#include "check.h"
#include "plan/drawn.h"

#include "base/memory.h"
#include "plan/family/family.h"
#include "plan/timing/profile.h"
#include "plan/timing/replay.h"

static void make(sl_problem *p, int ranks, int microbatches) {
    assert_ok(sl_problem_make(ranks, ranks, microbatches, p));
    for (int s = 0; s < ranks; s++) {
        p->time[SL_F][s] = p->time[SL_I][s] = p->time[SL_W][s] = 10;
        p->time[SL_B][s] = 20;
    }
}

static void put(sl_order *order, int rank, int stage, int kind, int microbatch) {
    order->ops[rank][order->count[rank]++] = (sl_op){.stage = stage, .kind = kind, .microbatch = microbatch};
}

/* Two ranks, two microbatches, F F then B B on rank 0; F B F B on rank 1. Latency 3 forward and 5 back. */
static void two_ranks_by_hand(void **state) {
    (void)state;
    sl_problem p;
    sl_order order;
    sl_program program;
    sl_timeline t;
    make(&p, 2, 2);
    p.link[0 * 2 + 1].latency = 3;
    p.link[1 * 2 + 0].latency = 5;
    assert_ok(sl_order_make(2, 4, &order));
    for (int m = 0; m < 2; m++)
        put(&order, 0, 0, SL_F, m);
    for (int m = 0; m < 2; m++) {
        put(&order, 0, 0, SL_B, m);
        put(&order, 1, 1, SL_F, m);
        put(&order, 1, 1, SL_B, m);
    }
    assert_ok(sl_lower(&p, &order, &program));
    assert_ok(sl_replay(&p, &program, SL_DECOUPLED, 1, &t));
    /* rank 1: F0 13-23, B0 23-43, F1 43-53 (there since 23), B1 53-73; rank 0: B0 48-68, B1 78-98 */
    static const sl_time starts[] = {0, 10, 48, 78, 13, 23, 43, 53};
    for (int i = 0; i < 8; i++)
        assert_int_equal(t.span[i].start, starts[i]);
    assert_int_equal(sl_timeline_makespan(&t), 98);
    assert_int_equal(sl_timeline_span(&t), 98);
    assert_true(sl_timeline_bubble(&t) > 1 - 120.0 / 196 - 1e-12 &&
                sl_timeline_bubble(&t) < 1 - 120.0 / 196 + 1e-12);
    sl_timeline_free(&t);
    sl_program_free(&program);
    sl_order_free(&order);
    sl_problem_free(&p);
}

/* A link that a message occupies for 25 makes the second one wait; with one place, inorder holds the rank as
 * well. */
static void messages_queue_on_a_link_and_block_in_order(void **state) {
    (void)state;
    sl_problem p;
    sl_order order;
    sl_program program;
    sl_timeline t;
    make(&p, 2, 3);
    p.link[0 * 2 + 1] = (sl_link){.latency = 4, .transfer = 25};
    assert_ok(sl_order_make(2, 6, &order));
    for (int m = 0; m < 3; m++) {
        put(&order, 0, 0, SL_F, m);
        put(&order, 1, 1, SL_F, m);
    }
    for (int m = 0; m < 3; m++) {
        put(&order, 0, 0, SL_B, m);
        put(&order, 1, 1, SL_B, m);
    }
    assert_ok(sl_lower(&p, &order, &program));
    assert_ok(sl_replay(&p, &program, SL_DECOUPLED, 1, &t));
    /* messages leave at 10, 20, 30 and take the link 10-35, 35-60, 60-85 */
    assert_int_equal(t.transfer[0].arrive, 39);
    assert_int_equal(t.transfer[1].start, 35);
    assert_int_equal(t.transfer[2].arrive, 89);
    assert_int_equal(t.span[2].start, 20);
    sl_timeline_free(&t);
    assert_ok(sl_replay(&p, &program, SL_INORDER, 1, &t));
    /* F0 0-10, sent, arrives 39. F1 10-20: its send waits for the place until 39, then takes the link until
     * 64 and arrives 68. F2 starts at 39, ends 49, is sent at 68; the rank goes on only then. */
    assert_int_equal(t.span[1].start, 10);
    assert_int_equal(t.span[2].start, 39);
    assert_int_equal(t.transfer[1].start, 39);
    assert_int_equal(t.transfer[1].arrive, 68);
    assert_int_equal(t.transfer[2].start, 68);
    assert_int_equal(t.transfer[2].arrive, 97);
    assert_int_equal(t.span[6].start, 39); /* rank 1 works on what arrived: F0 39, F1 68, F2 97 */
    assert_int_equal(t.span[8].start, 97);
    sl_timeline_free(&t);
    assert_ok(sl_replay(&p, &program, SL_INORDER, 2, &t));
    /* two places: F1 is sent at 20 and takes the link at 35; F2's send waits for the first place, free at 39
     */
    assert_int_equal(t.span[2].start, 20);
    assert_int_equal(t.transfer[1].arrive, 64);
    assert_int_equal(t.transfer[2].start, 60);
    sl_timeline_free(&t);
    sl_program_free(&program);
    sl_order_free(&order);
    sl_problem_free(&p);
}

/* ---- an independent computation: repeat every rule until nothing moves ---- */

typedef struct naive {
    sl_time start[4000], end[4000], issue[4000]; /* by rank * 500 + step */
} naive;

static sl_time larger(sl_time a, sl_time b) {
    return a > b ? a : b;
}

static int find(const sl_order *o, int rank, int stage, int kind, int microbatch) {
    for (int i = 0; i < o->count[rank]; i++) {
        const sl_op *op = &o->ops[rank][i];
        if (op->stage == stage && op->microbatch == microbatch &&
            (op->kind == kind || (kind == SL_I && op->kind == SL_B)))
            return rank * 500 + i;
    }
    return -1;
}

static int is_sent(const sl_problem *p, const sl_op *op, int *to) {
    *to = op->kind == SL_F ? op->stage + 1 : op->stage - 1;
    return op->kind != SL_W && *to >= 0 && *to < p->ranks;
}

/* Arrival of the k-th message from rank to `to`, by walking all messages of the link again. */
static sl_time arrival(const sl_problem *p, const sl_order *o, const naive *n, int rank, int to, int wanted) {
    sl_time free_at = 0, arrive = 0;
    int other, k = 0;
    for (int i = 0; i < o->count[rank]; i++) {
        if (!is_sent(p, &o->ops[rank][i], &other) || other != to)
            continue;
        const sl_link *link = &p->link[rank * p->ranks + to];
        free_at = larger(free_at, n->issue[rank * 500 + i]) + link->transfer;
        arrive = free_at + link->latency;
        if (k++ == wanted)
            return arrive;
    }
    return arrive;
}

static int index_on_link(const sl_problem *p, const sl_order *o, int rank, int step, int to) {
    int other, k = 0;
    for (int i = 0; i < step; i++)
        k += is_sent(p, &o->ops[rank][i], &other) && other == to;
    return k;
}

static void compute_naive(const sl_problem *p, const sl_order *o, int in_order, int queue, naive *n) {
    memset(n, 0, sizeof *n);
    for (int moved = 1, rounds = 0; moved && rounds < 5000; rounds++) {
        moved = 0;
        for (int rank = 0; rank < p->ranks; rank++)
            for (int i = 0; i < o->count[rank]; i++) {
                const sl_op *op = &o->ops[rank][i];
                int at = rank * 500 + i, to, from = op->kind == SL_F ? op->stage - 1 : op->stage + 1;
                sl_time start = i > 0 ? n->issue[at - 1] : 0;
                if (op->kind != SL_W && from >= 0 && from < p->ranks) {
                    int made = find(o, from, from, op->kind == SL_F ? SL_F : SL_I, op->microbatch);
                    start = larger(start,
                                   arrival(p, o, n, from, rank, index_on_link(p, o, from, made % 500, rank)));
                }
                sl_time end = start + p->time[op->kind][op->stage], issue = end;
                if (in_order && is_sent(p, op, &to)) {
                    int k = index_on_link(p, o, rank, i, to);
                    if (k >= queue)
                        issue = larger(issue, arrival(p, o, n, rank, to, k - queue));
                }
                moved |= start != n->start[at] || end != n->end[at] || issue != n->issue[at];
                n->start[at] = start;
                n->end[at] = end;
                n->issue[at] = issue;
            }
    }
}

static void the_replay_agrees_with_a_naive_computation(void **state) {
    (void)state;
    start_drawing(4711u);
    static naive n;
    for (int round = 0; round < 300; round++) {
        sl_problem p;
        sl_order order;
        sl_program program;
        sl_timeline t;
        int ranks = 1 + draw(6), in_order = draw(2), queue = 1 + draw(3);
        make(&p, ranks, 1 + draw(12));
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            for (int s = 0; s < ranks; s++)
                p.time[kind][s] = 1 + draw(20);
        for (int i = 0; i < ranks * ranks; i++)
            p.link[i] = (sl_link){.latency = draw(3) ? 0 : draw(40), .transfer = draw(3) ? 0 : draw(30)};
        assert_ok(sl_families[draw(5)].build(&p, &order));
        assert_ok(sl_lower(&p, &order, &program));
        assert_ok(sl_replay(&p, &program, in_order ? SL_INORDER : SL_DECOUPLED, queue, &t));
        compute_naive(&p, &order, in_order, queue, &n);
        for (int rank = 0, i = 0; rank < ranks; rank++)
            for (int step = 0; step < order.count[rank]; step++, i++) {
                assert_int_equal(t.span[i].start, n.start[rank * 500 + step]);
                assert_int_equal(t.span[i].end, n.end[rank * 500 + step]);
            }
        sl_timeline_free(&t);
        sl_program_free(&program);
        sl_order_free(&order);
        sl_problem_free(&p);
    }
}

/* F takes 3 at its start, I gives 1 back at its end and W 2: the release of W0 at 30 counts before F1's start
 * at 30. */
static void memory_is_released_before_it_is_taken(void **state) {
    (void)state;
    sl_problem p;
    sl_order order;
    sl_program program;
    sl_timeline t;
    double peak;
    make(&p, 1, 2);
    p.delta[SL_F][0] = 3;
    p.delta[SL_I][0] = -1;
    p.delta[SL_W][0] = -2;
    assert_ok(sl_order_make(1, 6, &order));
    for (int m = 0; m < 2; m++) {
        put(&order, 0, 0, SL_F, m);
        put(&order, 0, 0, SL_I, m);
        put(&order, 0, 0, SL_W, m);
    }
    assert_ok(sl_lower(&p, &order, &program));
    assert_int_equal(program.rank[0].buffers, 1);
    assert_ok(sl_replay(&p, &program, SL_DECOUPLED, 1, &t));
    assert_ok(sl_peak_memory(&p, &t, &peak));
    assert_true(peak == 3);
    sl_timeline_free(&t);
    sl_program_free(&program);
    sl_order_free(&order);
    sl_problem_free(&p);
}

/* Replaying a problem and profiling the timeline gives the problem back. */
static void a_profile_of_a_replay_is_the_problem(void **state) {
    (void)state;
    random_state = 99;
    for (int round = 0; round < 50; round++) {
        sl_problem p, q;
        sl_order order;
        sl_program program;
        sl_timeline t;
        make(&p, 4, 6);
        for (int kind = 0; kind < SL_B; kind++)
            for (int s = 0; s < 4; s++)
                p.time[kind][s] = 1 + draw(20);
        for (int r = 0; r < 3; r++) {
            p.link[r * 4 + r + 1] = (sl_link){.latency = draw(40), .transfer = draw(9)};
            p.link[(r + 1) * 4 + r] = (sl_link){.latency = draw(40), .transfer = draw(9)};
        }
        assert_ok(sl_family_find("zb-h1")->build(&p, &order));
        assert_ok(sl_lower(&p, &order, &program));
        assert_ok(sl_replay(&p, &program, SL_DECOUPLED, 1, &t));
        make(&q, 4, 6);
        assert_ok(sl_profile(&t, &q));
        for (int s = 0; s < 4; s++) {
            for (int kind = 0; kind < SL_B; kind++)
                assert_int_equal(q.time[kind][s], p.time[kind][s]);
            assert_int_equal(q.time[SL_B][s], p.time[SL_I][s] + p.time[SL_W][s]);
        }
        assert_memory_equal(q.link, p.link, 16 * sizeof *q.link);
        sl_timeline_free(&t);
        sl_program_free(&program);
        sl_order_free(&order);
        sl_problem_free(&p);
        sl_problem_free(&q);
    }
}

static void every_failed_allocation_is_an_error(void **state) {
    (void)state;
    int failures = 0, done = 0;
    for (long n = 0; !done && n < 1000; n++) {
        sl_problem p;
        sl_order order = {0};
        sl_program program = {0};
        sl_timeline t = {0};
        make(&p, 3, 4);
        sl_alloc_fail_at(n);
        sl_status status = sl_family_find("adaptra")->build(&p, &order);
        if (status == SL_OK)
            status = sl_lower(&p, &order, &program);
        if (status == SL_OK)
            status = sl_replay(&p, &program, SL_DECOUPLED, 1, &t);
        sl_alloc_fail_at(-1);
        done = status == SL_OK;
        if (!done)
            assert_int_equal(status, SL_ENOMEM);
        failures += !done;
        sl_timeline_free(&t);
        sl_program_free(&program);
        sl_order_free(&order);
        sl_problem_free(&p);
    }
    assert_in_range(failures, 20, 900);
}

/* Ops in two parts: each stage has one gather and one reduction, which follows the last part of its last W.
 */
static void ops_in_parts_are_reduced_once_after_the_last_part(void **state) {
    (void)state;
    sl_problem p;
    sl_order order;
    sl_program program;
    sl_timeline t;
    make(&p, 2, 2);
    p.parts = 2;
    for (int s = 0; s < 2; s++) {
        p.gather[s] = 4;
        p.reduce[s] = 7 + s;
    }
    assert_ok(sl_order_make(2, 6, &order));
    for (int rank = 0; rank < 2; rank++)
        for (int m = 0; m < 2; m++)
            for (int kind = SL_F; kind <= SL_W; kind++)
                put(&order, rank, rank, kind, m);
    assert_ok(sl_order_split(&p, &order));
    assert_ok(sl_lower(&p, &order, &program));
    assert_ok(sl_replay(&p, &program, SL_DECOUPLED, 1, &t));
    /* F 4-14, rank 1: F 14-24, I 24-34, W 34-44; rank 0: I 34-44, W 44-54; F, I, W again: 64, 94 and 104 */
    static const struct {
        int rank, kind;
        sl_time start, end;
    } expected[] = {
        {0, SL_GATHER, 0, 4}, {1, SL_GATHER, 0, 4}, {0, SL_REDUCE, 104, 111}, {1, SL_REDUCE, 94, 102}};
    assert_int_equal(t.collectives, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(t.collective[i].rank, expected[i].rank);
        assert_int_equal(t.collective[i].op.kind, expected[i].kind);
        assert_int_equal(t.collective[i].start, expected[i].start);
        assert_int_equal(t.collective[i].end, expected[i].end);
    }
    sl_timeline_free(&t);
    sl_program_free(&program);
    sl_order_free(&order);
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks_by_hand),
        cmocka_unit_test(messages_queue_on_a_link_and_block_in_order),
        cmocka_unit_test(the_replay_agrees_with_a_naive_computation),
        cmocka_unit_test(memory_is_released_before_it_is_taken),
        cmocka_unit_test(a_profile_of_a_replay_is_the_problem),
        cmocka_unit_test(every_failed_allocation_is_an_error),
        cmocka_unit_test(ops_in_parts_are_reduced_once_after_the_last_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
