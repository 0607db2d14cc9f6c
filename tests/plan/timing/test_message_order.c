/* Planned orders of messages: proven free of deadlock, timed alike by the replay that decides them and the
 * one that runs them, within the buffers, and never longer than PyTorch's lowering. */
#include "check.h"
#include "plan/random_fifo.h"
#include "plan/random_order.h"

#include "base/memory.h"
#include "plan/bound/bound.h"
#include "plan/lower/deadlock.h"
#include "plan/lower/own_issues.h"
#include "plan/lower/receive_buffers.h"
#include "plan/timing/message_order.h"
#include "plan/timing/objective.h"
#include "plan/timing/replay.h"

enum { RANKS = 5, MICROBATCHES = 5 };

static void random_problem(sl_problem *p) {
    random_fifo_problem(RANKS, MICROBATCHES, 100, p);
    p->receive_buffers = draw(2) ? 0 : 2 + draw(3);
}

static sl_time makespan_of(const sl_problem *p, const sl_order *order) {
    sl_time makespan;
    assert_ok(sl_objective_of_order(p, order, &makespan));
    return makespan;
}

/* Receives issued before a step whose op comes at or after it, at most. */
static int most_open(const sl_program *program, int rank) {
    const sl_rank_program *mine = &program->rank[rank];
    int most = 0;
    for (int step = 0; step <= mine->steps; step++) {
        int open = 0;
        for (int i = 0; i < mine->issues; i++)
            open += mine->issue[i].receive && mine->issue[i].step <= step &&
                    program->message[mine->issue[i].message].consumer >= step;
        most = open > most ? open : most;
    }
    return most;
}

/* The issues that a rule decides, in an order, are those that the rule's replay timed. */
static void check_rule(const sl_problem *p, const sl_order *order, sl_message_rule rule) {
    const sl_message_issue *issue[RANKS];
    int count[RANKS];
    sl_program program;
    sl_replayer *replayer;
    sl_issuer *issuer;
    sl_order own;
    sl_time due[4 * RANKS * MICROBATCHES];
    assert_ok(sl_order_copy(order, &own));
    assert_ok(sl_lower(p, order, &program));
    for (int m = 0; m < program.messages; m++)
        due[m] = draw(1000);
    assert_ok(sl_replayer_open(p, &program, &replayer));
    assert_ok(sl_replayer_order_messages(replayer, rule, due));
    sl_time decided = sl_replayer_run(replayer, NULL);
    assert_true(decided != SL_TIME_NEVER);
    for (int rank = 0; rank < p->ranks; rank++)
        issue[rank] = sl_replayer_issues(replayer, rank, &count[rank]);
    assert_ok(sl_order_take_issues(&program, issue, count, &own));
    sl_replayer_close(replayer);
    sl_program_free(&program);
    assert_ok(sl_lower(p, &own, &program)); /* both ends of all, each on its side of its op */
    assert_ok(sl_issuer_open(&program, &issuer));
    assert_ok(sl_issuer_run(issuer));
    assert_ok(sl_deadlock_check(&(sl_cells){.problem = p, .program = &program, .issuer = issuer}));
    if (p->eager <= 0 ||
        p->receive_buffers == 0) /* else an eager message may leave before it has its buffer */
        assert_int_equal(makespan_of(p, &own), decided);
    assert_ok(sl_receive_buffers_check(&(sl_cells){.problem = p, .program = &program, .issuer = issuer}));
    for (int rank = 0; rank < p->ranks && p->receive_buffers > 0; rank++)
        assert_true(most_open(&program, rank) <= p->receive_buffers);
    sl_issuer_close(issuer);
    sl_program_free(&program);
    sl_order_free(&own);
}

static void what_a_replay_decides_cannot_stop_and_takes_its_time(void **state) {
    (void)state;
    start_drawing(24u);
    for (int round = 0; round < 600; round++) {
        sl_problem p;
        sl_order order;
        random_problem(&p);
        random_order(&p, 0, &order);
        for (int rule = 0; rule < SL_MESSAGE_RULES; rule++)
            check_rule(&p, &order, (sl_message_rule)rule);
        sl_order_free(&order);
        sl_problem_free(&p);
    }
}

static void planned_messages_never_take_longer_than_lowered_ones(void **state) {
    (void)state;
    int shorter = 0;
    start_drawing(25u);
    for (int round = 0; round < 300; round++) {
        sl_problem p;
        sl_order order, planned;
        random_problem(&p);
        p.receive_buffers = 0;
        random_order(&p, 0, &order);
        assert_ok(sl_order_copy(&order, &planned));
        assert_ok(sl_messages_plan(&p, SL_MESSAGES_THOROUGHLY, &planned));
        sl_time lowered = makespan_of(&p, &order), found = makespan_of(&p, &planned);
        assert_true(found <= lowered && (found < lowered || !planned.issue));
        shorter += found < lowered;
        assert_ok(
            sl_messages_plan(&p, &(sl_message_effort){.cutoff = 1}, &order)); /* nothing is that short */
        assert_null(order.issue);
        sl_order_free(&order);
        sl_order_free(&planned);
        sl_problem_free(&p);
    }
    assert_true(shorter > 100);
}

/* Two ranks, 1F1B with a second forward ahead on rank 0: F takes 30 there, everything else 10, a message 5.
 * Rank 1 makes the gradient at 55, while rank 0 runs its second forward until 60. PyTorch's lowering receives
 * it after the send of that forward, from 65 to 70; ahead of it, it moves from 55 to 60. */
static void a_receive_moves_ahead_of_a_send_by_hand(void **state) {
    (void)state;
    static const int kinds[2][4] = {{SL_F, SL_F, SL_B, SL_B}, {SL_F, SL_B, SL_F, SL_B}};
    static const int microbatches[2][4] = {{0, 1, 0, 1}, {0, 0, 1, 1}};
    sl_problem p;
    sl_order order;
    sl_program program;
    sl_timeline t;
    assert_ok(sl_problem_make(2, 2, 2, &p));
    for (int stage = 0; stage < 2; stage++)
        p.time[SL_F][stage] = p.time[SL_B][stage] = 10;
    p.time[SL_F][0] = 30;
    p.time[SL_B][0] = 25; /* so that the earlier gradient shortens the iteration */
    p.link[1].transfer = p.link[2].transfer = 5;
    p.communication = SL_FIFO;
    assert_ok(sl_order_make(2, 4, &order));
    for (int rank = 0; rank < 2; rank++)
        for (int i = 0; i < 4; i++)
            order.ops[rank][order.count[rank]++] =
                (sl_op){.stage = rank, .kind = kinds[rank][i], .microbatch = microbatches[rank][i]};
    assert_int_equal(makespan_of(&p, &order), 70 + 25 + 5 + 25); /* B1 is received after B0 */
    assert_ok(sl_messages_plan(&p, SL_MESSAGES_THOROUGHLY, &order));
    assert_ok(sl_lower(&p, &order, &program));
    assert_ok(sl_replay(&p, &program, SL_FIFO, 1, &t));
    assert_int_equal(sl_timeline_makespan(&t), 60 + 25 + 25 + 5); /* B1's gradient: 85 to 90; B0 until 85 */
    sl_timeline_free(&t);
    sl_program_free(&program);
    sl_order_free(&order);
    sl_problem_free(&p);
}

/* Two ranks and 4 microbatches; F, I and W take 1, a message 10. With one communicator for both directions, 8
 * messages follow each other from 1 on, and I and W follow the last: 83. With one for each direction, 4 do;
 * the first gradient leaves at 13, and the last arrives at 53: 55. */
static void a_communicator_carries_one_message_at_a_time_by_hand(void **state) {
    (void)state;
    static const sl_time bounds[] = {83, 83, 55, 55};
    for (int communicators = SL_OF_PIPELINE; communicators <= SL_OF_KIND; communicators++) {
        sl_problem p;
        sl_time bound;
        assert_ok(sl_problem_make(2, 2, 4, &p));
        for (int stage = 0; stage < 2; stage++)
            p.time[SL_F][stage] = p.time[SL_I][stage] = p.time[SL_W][stage] = 1, p.time[SL_B][stage] = 2;
        p.link[1].latency = p.link[2].latency = 4;
        p.link[1].transfer = p.link[2].transfer = 6;
        p.communication = SL_FIFO;
        p.communicators = (sl_communicators)communicators;
        assert_ok(sl_lower_bound(&p, 0, &bound));
        assert_int_equal(bound, bounds[communicators]);
        sl_problem_free(&p);
    }
}

static void every_failed_allocation_is_an_error_and_leaves_the_order_valid(void **state) {
    (void)state;
    int done = 0, failures = 0;
    sl_problem p;
    sl_order order;
    start_drawing(26u);
    for (random_problem(&p); p.microbatches < 3 || p.ranks < 3; random_problem(&p))
        sl_problem_free(&p);
    random_order(&p, 0, &order);
    for (long n = 0; !done && n < 2000; n++) {
        sl_alloc_fail_at(n);
        sl_status status = sl_messages_plan(&p, SL_MESSAGES_THOROUGHLY, &order);
        sl_alloc_fail_at(-1);
        done = status == SL_OK;
        if (!done)
            assert_int_equal(status, SL_ENOMEM);
        failures += !done;
        makespan_of(&p, &order);
    }
    assert_true(done && failures > 20);
    sl_order_free(&order);
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_replay_decides_cannot_stop_and_takes_its_time),
        cmocka_unit_test(planned_messages_never_take_longer_than_lowered_ones),
        cmocka_unit_test(a_receive_moves_ahead_of_a_send_by_hand),
        cmocka_unit_test(a_communicator_carries_one_message_at_a_time_by_hand),
        cmocka_unit_test(every_failed_allocation_is_an_error_and_leaves_the_order_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
