/* Regime fifo on the virtual clock: messages of random orders, issued as PyTorch lowers them, as the planner
 * plans them, and at random, take the times that the timing model predicts, to the nanosecond. */
#include "cluster.h"

#include "base/memory.h"
#include "plan/lower/deadlock.h"
#include "plan/lower/own_issues.h"
#include "plan/random_fifo.h"
#include "plan/random_order.h"
#include "plan/search/plan.h"
#include "plan/timing/message_order.h"

enum { RANKS = 5, MICROBATCHES = 5, ENDS = 4 * RANKS * 2 * MICROBATCHES };

/* ---- orders ---- */

/* Whether all lower microbatches have added their weight gradients. */
static int ascends(const progress *w, int kind, int stage, int m) {
    for (int before = 0; before < m && (kind == SL_W || kind == SL_B); before++)
        if (!w->done[SL_W][stage][before] && !w->done[SL_B][stage][before])
            return 0;
    return 1;
}

static int may_run_next(const sl_problem *p, const progress *w, int kind, int stage, int m) {
    return may_run(p, w, kind, stage, m) && ascends(w, kind, stage, m);
}

/* A B of the same rank that may run together with an F. */
static int find_partner(const sl_problem *p, const progress *w, int of, int *stage, int *m) {
    for (*stage = p->stages - 1; *stage >= 0; --*stage)
        for (*m = 0; *m < p->microbatches; ++*m)
            if (sl_problem_rank(p, *stage) == sl_problem_rank(p, of) && may_run_next(p, w, SL_B, *stage, *m))
                return 1;
    return 0;
}

/* A random walk over what may run next, as bit-identical sums need it. Pairs of an F and a B send at the same
 * moment, on a wave to the same rank. */
static void ascending_order(const sl_problem *p, sl_order *order) {
    progress w = {0};
    int left = 0;
    assert_ok(sl_order_make(p->ranks, 3 * p->stages * p->microbatches, order));
    for (int s = 0; s < p->stages; s++)
        for (int m = 0; m < p->microbatches; m++)
            left += full_backward(p, s, m) ? 2 : 3;
    while (left > 0) {
        int stage = draw(p->stages), kind = draw(SL_OP_KINDS), m = draw(p->microbatches);
        int other, other_m;
        if (!may_run_next(p, &w, kind, stage, m))
            continue;
        int paired = kind == SL_F && find_partner(p, &w, stage, &other, &other_m);
        run_op(p, &w, kind, stage, m, paired, order);
        if (paired)
            run_op(p, &w, SL_B, other, other_m, 0, order);
        left -= 1 + paired;
    }
}

/* Gives the order issues of its own: PyTorch's, with receives moved ahead at random as long as no ranks can
 * stop. Returns how many were. */
static int move_receives(const sl_problem *p, sl_order *order) {
    sl_program program;
    sl_issuer *issuer;
    int moved = 0;
    assert_ok(sl_lower(p, order, &program));
    assert_ok(sl_issuer_open(&program, &issuer));
    assert_ok(sl_issuer_run(issuer));
    for (int tries = 0; tries < 60; tries++) {
        sl_message_issue issue[ENDS], before[ENDS];
        sl_wait_cycle cycle;
        int count, rank = draw(p->ranks);
        const sl_message_issue *now = sl_issues_of(issuer, rank, &count);
        memcpy(issue, now, (size_t)count * sizeof *issue);
        memcpy(before, now, (size_t)count * sizeof *before);
        int at = count > 1 ? 1 + draw(count - 1) : 0;
        if (at == 0 || !issue[at].receive)
            continue;
        issue[at] = before[at - 1];
        issue[at - 1] = before[at];
        issue[at - 1].step = before[at - 1].step;
        sl_issuer_give(issuer, rank, issue, count);
        assert_ok(sl_waits_check(p, &program, issuer, &cycle));
        if (cycle.length > 0)
            sl_issuer_give(issuer, rank, before, count);
        moved += cycle.length == 0;
        sl_wait_cycle_free(&cycle);
    }
    const sl_message_issue *all[RANKS];
    int counts[RANKS];
    for (int rank = 0; rank < p->ranks; rank++)
        all[rank] = sl_issues_of(issuer, rank, &counts[rank]);
    assert_ok(sl_order_take_issues(&program, all, counts, order));
    sl_issuer_close(issuer);
    sl_program_free(&program);
    return moved;
}

/* *kind: of its issues: PyTorch's, planned, at random. */
static void draw_program(const sl_problem *p, int *kind, sl_order *order, sl_program *program) {
    ascending_order(p, order);
    *kind = draw(3);
    if (*kind == 1)
        assert_ok(sl_messages_plan(p, SL_MESSAGES_THOROUGHLY, order));
    if (*kind == 2 && move_receives(p, order) == 0)
        *kind = 0;
    assert_ok(sl_lower(p, order, program));
}

static void messages_take_the_times_of_the_timing_model(void **unused) {
    (void)unused;
    int ran[4][3][3] = {{{0}}};
    start_drawing(31u);
    for (int round = 0; round < 240; round++) {
        sl_problem p;
        sl_order order[ITERATIONS];
        sl_program program[ITERATIONS];
        int kind;
        random_fifo_problem(RANKS, MICROBATCHES, 3000, &p);
        p.communicators = (sl_communicators)(round % 4);
        cluster c = {.problem = &p};
        for (int i = 0; i < ITERATIONS; i++) {
            draw_program(&p, &kind, &order[i], &program[i]);
            c.program[i] = &program[i];
            ran[p.communicators][kind][(int)p.eager / 2000]++;
        }
        run_cluster(&c);
        assert_ran(&c);
        for (int i = 0; i < ITERATIONS; i++)
            compare(&c, i);
        free_cluster(&c);
        for (int i = 0; i < ITERATIONS; i++) {
            sl_program_free(&program[i]);
            sl_order_free(&order[i]);
        }
        sl_problem_free(&p);
    }
    for (int i = 0; i < 36 && !getenv("SL_SEED"); i++)
        assert_true(ran[i / 9][i / 3 % 3][i % 3] > 0);
}

/* Two ranks of one stage each, ops of 10 ms, links of 1 ms; 1f1b as PyTorch issues its messages. */
static void make_two_ranks(sl_problem *p, sl_plan *plan) {
    assert_ok(sl_problem_make(2, 2, 4, p));
    for (int stage = 0; stage < 2; stage++)
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            p->time[kind][stage] = 10 * SL_MS;
    p->link[1].latency = p->link[2].latency = SL_MS;
    p->communication = SL_FIFO;
    assert_ok(sl_plan_make(p, "1f1b", plan));
}

/* Rank 1 fails in F1, so it never reaches the receive of F2, for which rank 0 waits while it waits for B0. */
static void a_rank_whose_peer_dies_ends_with_the_name_of_the_link(void **unused) {
    (void)unused;
    static const char *const expected[] = {"did not come before the deadline", "the run is aborted"};
    sl_problem p;
    sl_plan plan;
    make_two_ranks(&p, &plan);
    for (int aborts = 0; aborts < 2; aborts++) {
        cluster c = {.problem = &p, .program = {&plan.program, &plan.program}, .dies = 2, .aborts = aborts};
        run_cluster(&c);
        assert_int_equal(c.member[1].status, SL_ESYS);
        assert_non_null(strstr(c.member[1].error, "this rank dies"));
        assert_int_equal(c.member[0].status, SL_EPEER);
        if (!strstr(c.member[0].error, expected[aborts]) || !strstr(c.member[0].error, "link "))
            fail_msg("%s", c.member[0].error);
        free_cluster(&c);
    }
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

/* An end of a message: of which stage's result, whether it is the receive, microbatch, step. */
typedef struct written_end {
    int stage, receive, microbatch, step;
} written_end;

static void issue_as_written(written_end ends[2][8], sl_order *order) {
    assert_ok(sl_order_make_issues(order, (int[]){8, 8}));
    for (int rank = 0; rank < 2; rank++)
        for (int i = 0; i < 8; i++)
            order->issue[rank][order->issues[rank]++] =
                (sl_order_issue){.stage = ends[rank][i].stage,
                                 .microbatch = ends[rank][i].microbatch,
                                 .backward = (int16_t)ends[rank][i].stage,
                                 .receive = (int16_t)ends[rank][i].receive,
                                 .step = ends[rank][i].step};
}

/* Runs the plan of two ranks with these issues. Closed by the caller. */
static void run_written(const sl_problem *p, sl_plan *plan, written_end ends[2][8], sl_program *program,
                        cluster *c) {
    issue_as_written(ends, &plan->order);
    assert_ok(sl_lower(p, &plan->order, program));
    *c = (cluster){.problem = p, .program = {program, program}};
    run_cluster(c);
}

/* Of 1f1b: rank 0 runs F0 F1 B0 F2 B1 F3 B2 B3, rank 1 F0 B0 F1 B1 F2 B2 F3 B3. */
#define LATE_RECEIVES                                                                                        \
    {                                                                                                        \
        {{0, 0, 0, 1}, {0, 0, 1, 2}, {1, 1, 0, 2}, {0, 0, 2, 4},                                             \
         {1, 1, 1, 4}, {0, 0, 3, 6}, {1, 1, 2, 6}, {1, 1, 3, 7}},                                            \
        {                                                                                                    \
            {0, 1, 0, 0}, {1, 0, 0, 2}, {0, 1, 1, 2}, {1, 0, 1, 4}, {0, 1, 2, 4}, {1, 0, 2, 6},              \
                {0, 1, 3, 6}, {                                                                              \
                1, 0, 3, 8                                                                                   \
            }                                                                                                \
        }                                                                                                    \
    }

/* Rank 1 issues the receive of F1 after its B0, which ends at 31 ms (F0 10, its way 1, F0 and B0 10 each);
 * rank 0 has made F1 at 20 ms. */
static void a_message_waits_until_its_receive_is_reached(void **unused) {
    (void)unused;
    written_end ends[2][8] = LATE_RECEIVES;
    sl_problem p;
    sl_plan plan;
    make_two_ranks(&p, &plan);
    p.communicators = SL_OF_DIRECTION;
    p.link[1].bytes = p.link[2].bytes = 1000;
    for (int eager = 0; eager < 2; eager++) {
        sl_program program;
        cluster c;
        p.eager = eager * 1000;
        run_written(&p, &plan, ends, &program, &c);
        assert_ran(&c);
        for (size_t i = 0; i < c.member[0].records; i++) {
            const sl_record *r = &c.member[0].record[i];
            if (r->kind != SL_RECORD_TRANSFER || r->iteration != 0 || r->microbatch != 1)
                continue;
            assert_int_equal(r->start - begin_of(0), (eager ? 20 : 31) * SL_MS);
            assert_int_equal(r->arrive - begin_of(0), (eager ? 21 : 32) * SL_MS);
        }
        compare(&c, 0);
        free_cluster(&c);
        sl_program_free(&program);
    }
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

/* An order that can stop, run all the same: in the one communicator of rank 0 the receive of B0 comes before
 * the send of F0. All ranks wait, and all end with an error. */
static void ranks_that_stop_end_with_an_error(void **unused) {
    (void)unused;
    written_end ends[2][8] = LATE_RECEIVES, first = {1, 1, 0, 0};
    sl_problem p;
    sl_plan plan;
    sl_program program;
    cluster c;
    make_two_ranks(&p, &plan);
    memmove(&ends[0][1], &ends[0][0], 2 * sizeof first);
    ends[0][0] = first;
    run_written(&p, &plan, ends, &program, &c);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(c.member[rank].status, SL_EPEER);
    free_cluster(&c);
    sl_program_free(&program);
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

/* A program without an order of messages is refused; where taking one fails, it can be taken again. */
static void an_order_of_messages_is_complete_or_absent(void **unused) {
    (void)unused;
    sl_problem p;
    sl_plan plan;
    make_two_ranks(&p, &plan);
    cluster c = {.problem = &p};
    sl_transport *transport;
    sl_engine *engine;
    sl_stage stage[MAX_STAGES];
    sl_engine_result result;
    assert_ok(sl_clock_open_virtual(1, &c.clock));
    assert_ok(sl_transport_hub_open(2, sizeof(payload), 16, &c.hub));
    c.member[0] = (member){.cluster = &c};
    bind_stages(&c.member[0], stage);
    assert_ok(sl_transport_open(
        &(sl_transport_config){.ranks = 2, .clock = c.clock, .hub = c.hub, .message_bytes = sizeof(payload)},
        -1, SL_SECOND, &transport));
    assert_ok(sl_engine_open(&(sl_engine_config){.clock = c.clock,
                                                 .transport = transport,
                                                 .stage = stage,
                                                 .stages = 2,
                                                 .regime = SL_FIFO,
                                                 .patience = SL_SECOND},
                             &engine));
    assert_ok(sl_engine_swap(engine, &plan.program, NULL));
    assert_fails(sl_engine_run(engine, 0, 0, &result), SL_EINVAL, "rank 0 has no order of messages");
    int failures = 0;
    for (sl_status status = SL_ENOMEM; status != SL_OK; failures++) {
        sl_alloc_fail_at(failures);
        status = issue_messages(&c, &plan.program, engine);
        sl_alloc_fail_at(-1);
        assert_true(status == SL_OK || status == SL_ENOMEM);
        if (status != SL_OK)
            assert_fails(sl_engine_run(engine, 0, 0, &result), SL_EINVAL, "has no order of messages");
    }
    assert_true(failures > 10);
    sl_engine_close(engine);
    sl_transport_close(transport);
    sl_transport_hub_close(c.hub);
    sl_clock_leave(c.clock);
    sl_clock_close(c.clock);
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_take_the_times_of_the_timing_model),
        cmocka_unit_test(a_message_waits_until_its_receive_is_reached),
        cmocka_unit_test(a_rank_whose_peer_dies_ends_with_the_name_of_the_link),
        cmocka_unit_test(ranks_that_stop_end_with_an_error),
        cmocka_unit_test(an_order_of_messages_is_complete_or_absent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
