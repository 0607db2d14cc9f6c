/* Lowering by hand: steps, messages, queues and lifetimes; deadlocks are named by their cycle. */
#include "check.h"
#include "plan/order_text.h"

#include "base/memory.h"
#include "plan/lower/program.h"

static sl_status lower(int ranks, int microbatches, const char *const *texts, sl_program *program) {
    sl_problem problem;
    sl_order order;
    assert_ok(sl_problem_make(ranks, ranks, microbatches, &problem));
    assert_ok(sl_order_make(ranks, 3 * microbatches, &order));
    for (int rank = 0; rank < ranks; rank++)
        fill(&order, rank, texts[rank]);
    sl_status status = sl_lower(&problem, &order, program);
    sl_order_free(&order);
    sl_problem_free(&problem);
    return status;
}

/* The message from a producing step to a consuming step. */
static void assert_message(const sl_program *program, int from, int producer, int to, int consumer) {
    int index = program->rank[from].step[producer].send;
    assert_true(index >= 0 && index < program->messages);
    const sl_message *message = &program->message[index];
    assert_true(message->from == from && message->producer == producer);
    assert_true(message->to == to && message->consumer == consumer);
    assert_memory_equal(&message->op, &program->rank[from].step[producer].op, sizeof(sl_op));
    assert_int_equal(program->rank[to].step[consumer].receive, index);
}

static void assert_queue(const sl_program *program, int rank, sl_queue_kind queue, const int *steps,
                         int count) {
    const sl_rank_program *mine = &program->rank[rank];
    assert_int_equal(mine->queued[queue], count);
    for (int i = 0; i < count; i++) {
        const sl_message *message = &program->message[mine->queue[queue][i]];
        assert_int_equal(queue == SL_SEND_NEXT || queue == SL_SEND_PREVIOUS ? message->producer
                                                                            : message->consumer,
                         steps[i]);
    }
}

/* 1F1B with full and split backwards on three ranks. */
static void a_1f1b_schedule_becomes_steps_messages_and_queues(void **state) {
    (void)state;
    static const char *const texts[] = {"0F0 0F1 0F2 0B0 0B1 0B2", "1F0 1F1 1I0 1F2 1W0 1I1 1W1 1B2",
                                        "2F0 2B0 2F1 2B1 2F2 2B2"};
    sl_program program;
    assert_ok(lower(3, 3, texts, &program));
    assert_int_equal(program.ranks, 3);
    assert_int_equal(program.messages, 12); /* 2 links, 3 microbatches, both ways */
    static const int forward01[3] = {0, 1, 3}, forward12[3] = {0, 2, 4}, backward21[3] = {2, 5, 7},
                     backward10[3] = {3, 4, 5};
    static const int forward0[3] = {0, 1, 2}, backward2[3] = {1, 3, 5};
    for (int m = 0; m < 3; m++) {
        assert_message(&program, 0, forward0[m], 1, forward01[m]);
        assert_message(&program, 1, forward01[m], 2, forward12[m]);
        assert_message(&program, 2, backward2[m], 1, backward21[m]);
        assert_message(&program, 1, backward21[m], 0, backward10[m]);
    }
    assert_queue(&program, 0, SL_SEND_NEXT, forward0, 3);
    assert_queue(&program, 0, SL_RECEIVE_NEXT, backward10, 3);
    assert_queue(&program, 0, SL_SEND_PREVIOUS, NULL, 0);
    assert_queue(&program, 0, SL_RECEIVE_PREVIOUS, NULL, 0);
    assert_queue(&program, 1, SL_RECEIVE_PREVIOUS, forward01, 3);
    assert_queue(&program, 1, SL_SEND_NEXT, forward01, 3);
    assert_queue(&program, 1, SL_RECEIVE_NEXT, backward21, 3);
    assert_queue(&program, 1, SL_SEND_PREVIOUS, backward21, 3);
    assert_queue(&program, 2, SL_RECEIVE_PREVIOUS, forward12, 3);
    assert_queue(&program, 2, SL_SEND_PREVIOUS, backward2, 3);
    assert_queue(&program, 2, SL_SEND_NEXT, NULL, 0);

    /* rank 1: 1F0 1F1 1I0 1F2 1W0 1I1 1W1 1B2; I and B come after their F, W after its I */
    static const int after[8] = {-1, -1, 0, -1, 2, 1, 5, 3};
    for (int i = 0; i < 8; i++)
        assert_int_equal(program.rank[1].step[i].after, after[i]);
    assert_true(program.rank[1].step[4].send == -1 &&
                program.rank[1].step[4].receive == -1); /* W stays at home */
    assert_true(program.rank[0].step[0].receive == -1 && program.rank[0].step[3].send == -1);
    assert_true(program.rank[2].step[0].send == -1 && program.rank[2].step[1].receive == -1);
    sl_program_free(&program);
}

static void buffers_live_from_f_to_w_or_b(void **state) {
    (void)state;
    static const char *const texts[] = {"0F0 0F1 0F2 0B0 0B1 0B2", "1F0 1F1 1I0 1F2 1W0 1I1 1W1 1B2",
                                        "2F0 2B0 2F1 2B1 2F2 2B2"};
    static const sl_lifetime middle[3] = {{1, 0, 0, 4}, {1, 1, 1, 6}, {1, 2, 3, 7}};
    sl_program program;
    assert_ok(lower(3, 3, texts, &program));
    assert_int_equal(program.rank[1].lifetimes, 3);
    assert_memory_equal(program.rank[1].lifetime, middle, sizeof middle);
    assert_true(program.rank[0].buffers == 3 && program.rank[1].buffers == 3 && program.rank[2].buffers == 1);
    sl_program_free(&program);
}

static void one_rank_sends_nothing(void **state) {
    (void)state;
    static const char *const texts[] = {"0F0 0F1 0I1 0I0 0W0 0W1"};
    sl_program program;
    assert_ok(lower(1, 2, texts, &program));
    assert_int_equal(program.messages, 0);
    assert_int_equal(program.rank[0].buffers, 2);
    for (int q = 0; q < SL_QUEUES; q++)
        assert_int_equal(program.rank[0].queued[q], 0);
    sl_program_free(&program);
}

/* Rank 1 works on microbatch 1 first: its receives stay in the order in which rank 0 sends. */
static void receives_are_queued_as_the_peer_sends(void **state) {
    (void)state;
    static const char *const texts[] = {"0F0 0F1 0B0 0B1", "1F1 1F0 1B1 1B0"};
    static const int consumers[2] = {1, 0}, producers[2] = {2, 3}, back[2] = {3, 2};
    sl_program program;
    assert_ok(lower(2, 2, texts, &program));
    assert_queue(&program, 1, SL_RECEIVE_PREVIOUS, consumers, 2);
    assert_queue(&program, 1, SL_SEND_PREVIOUS, producers, 2);
    assert_queue(&program, 0, SL_RECEIVE_NEXT, back, 2); /* 1B1 comes first, and 0B1 is step 3 */
    sl_program_free(&program);
}

static void crossed_orders_are_a_deadlock_with_its_cycle(void **state) {
    (void)state;
    static const char *const crossed[] = {"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"};
    sl_program program;
    assert_fails(lower(2, 2, crossed, &program), SL_EINVAL, "deadlock");
    assert_says(sl_error_text(), "0B0 of rank 0 waits for 1B0 of rank 1");
    assert_says(sl_error_text(), "1F1 of rank 1, which waits for 0F1 of rank 0");
    assert_null(program.rank);
    assert_null(program.message);

    /* rank 0 waits too, but the cycle is between 1 and 2 */
    static const char *const behind[] = {"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1", "2F0 2F1 2B0 2B1"};
    assert_fails(lower(3, 2, behind, &program), SL_EINVAL, "deadlock");
    assert_says(sl_error_text(), "1B0 of rank 1 waits for 2B0 of rank 2");
    assert_says(sl_error_text(), "2F1 of rank 2, which waits for 1F1 of rank 1");
    assert_null(strstr(sl_error_text(), "rank 0"));
}

static void what_is_no_schedule_is_refused(void **state) {
    (void)state;
    static const char *const missing[] = {"0F0 0B0", "1F0"}, *const early[] = {"0B0 0F0", "1F0 1B0"};
    sl_program program;
    assert_fails(lower(2, 1, missing, &program), SL_EINVAL, "1I0 is missing");
    assert_fails(lower(2, 1, early, &program), SL_EINVAL, "precedes its F");
}

/* Two ranks, four stages as a V: 1 and 2 are on rank 1, where nothing is sent between them. */
static void stages_of_one_rank_keep_their_sequence(void **state) {
    (void)state;
    static const struct {
        const char *rank_1, *says;
    } cases[] = {{"2F0 1F0 2B0 1B0", "rank 1, op 0: 2F0 precedes 1F0"},
                 {"1F0 2F0 1B0 2B0", "rank 1, op 2: 1B0 precedes 2B0"},
                 {"1F0 2F0 1I0 2I0 1W0 2W0", "rank 1, op 2: 1I0 precedes 2I0"},
                 {"1F0 2F0 2I0 1I0 1W0 2W0", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_problem problem;
        sl_order order;
        sl_program program;
        assert_ok(sl_problem_make(2, 4, 1, &problem));
        problem.placement = SL_WAVE;
        assert_ok(sl_order_make(2, 6, &order));
        fill(&order, 0, "0F0 3F0 3B0 0B0");
        fill(&order, 1, cases[i].rank_1);
        if (cases[i].says)
            assert_fails(sl_lower(&problem, &order, &program), SL_EINVAL, cases[i].says);
        else
            assert_ok(sl_lower(&problem, &order, &program));
        sl_program_free(&program);
        sl_order_free(&order);
        sl_problem_free(&problem);
    }
}

static void every_failed_allocation_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    sl_problem problem;
    sl_order order;
    int failures = 0, done = 0;
    assert_ok(sl_problem_make(2, 2, 1, &problem));
    assert_ok(sl_order_make(2, 3, &order));
    fill(&order, 0, "0F0 0I0 0W0");
    fill(&order, 1, "1F0 1B0");
    for (long n = 0; !done && n < 1000; n++) {
        sl_program program;
        sl_alloc_fail_at(n);
        sl_status status = sl_lower(&problem, &order, &program);
        sl_alloc_fail_at(-1);
        done = status == SL_OK;
        if (!done) {
            assert_int_equal(status, SL_ENOMEM);
            assert_null(program.rank);
        }
        failures += !done;
        sl_program_free(&program);
    }
    assert_true(done && failures > 20);
    sl_order_free(&order);
    sl_problem_free(&problem);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_1f1b_schedule_becomes_steps_messages_and_queues),
        cmocka_unit_test(buffers_live_from_f_to_w_or_b),
        cmocka_unit_test(one_rank_sends_nothing),
        cmocka_unit_test(receives_are_queued_as_the_peer_sends),
        cmocka_unit_test(crossed_orders_are_a_deadlock_with_its_cycle),
        cmocka_unit_test(what_is_no_schedule_is_refused),
        cmocka_unit_test(stages_of_one_rank_keep_their_sequence),
        cmocka_unit_test(every_failed_allocation_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
