/* Lowering by hand where ranks hold several stages, ops come in parts or run as pairs. */
#include "check.h"
#include "plan/order_text.h"

#include "plan/lower/program.h"

typedef struct shape {
    int ranks, stages, microbatches, parts;
    sl_placement placement;
} shape;

static sl_status lower(const shape *s, const char *const *texts, sl_program *program) {
    sl_problem problem;
    sl_order order;
    assert_ok(sl_problem_make(s->ranks, s->stages, s->microbatches, &problem));
    problem.placement = s->placement;
    problem.parts = s->parts;
    assert_ok(sl_order_make(s->ranks, 64, &order));
    for (int rank = 0; rank < s->ranks; rank++)
        fill(&order, rank, texts[rank]);
    sl_status status = sl_lower(&problem, &order, program);
    sl_order_free(&order);
    sl_problem_free(&problem);
    return status;
}

static void assert_message(const sl_program *program, int from, int producer, int to, int consumer) {
    int index = program->rank[from].step[producer].send;
    assert_true(index >= 0 && index < program->messages);
    const sl_message *message = &program->message[index];
    assert_true(message->from == from && message->producer == producer);
    assert_true(message->to == to && message->consumer == consumer);
    assert_int_equal(program->rank[to].step[consumer].receive, index);
}

static int queued(const sl_program *program, int rank, sl_queue_kind queue) {
    return program->rank[rank].queued[queue];
}

/* Stages 0, 3 | 1, 4 | 2, 5: activations always go to the next rank of the ring, from 2 to 0 too, gradients
 * to the previous one. */
static void the_ring_of_a_loop_closes(void **state) {
    (void)state;
    static const char *const texts[] = {"0F0 3F0 3B0 0B0", "1F0 4F0 4B0 1B0", "2F0 5F0 5B0 2B0"};
    static const sl_lifetime first[2] = {{0, 0, 0, 3}, {3, 0, 1, 2}};
    sl_program program;
    assert_ok(lower(&(shape){3, 6, 1, 1, SL_LOOP}, texts, &program));
    assert_int_equal(program.messages, 10);
    assert_message(&program, 2, 0, 0, 1); /* 2F0 to 3F0 */
    assert_message(&program, 0, 2, 2, 3); /* 3B0 to 2B0 */
    assert_message(&program, 0, 1, 1, 1); /* 3F0 to 4F0 */
    assert_true(queued(&program, 2, SL_SEND_NEXT) == 1 && queued(&program, 0, SL_RECEIVE_PREVIOUS) == 1);
    assert_true(queued(&program, 0, SL_SEND_NEXT) == 2 && queued(&program, 0, SL_SEND_PREVIOUS) == 1);
    assert_true(queued(&program, 2, SL_RECEIVE_NEXT) == 1 && queued(&program, 2, SL_SEND_PREVIOUS) == 2);
    assert_memory_equal(program.rank[0].lifetime, first, sizeof first);
    assert_int_equal(program.rank[0].buffers, 2);
    sl_program_free(&program);
}

/* Stages 0, 3 on rank 0 and 1, 2 on rank 1: between 1 and 2 there is a step to wait for instead of a message.
 */
static void a_wave_turns_with_a_dependency_instead_of_a_message(void **state) {
    (void)state;
    static const char *const texts[] = {"0F0 3F0 3B0 0B0", "1F0 2F0 2B0 1B0"};
    sl_program program;
    assert_ok(lower(&(shape){2, 4, 1, 1, SL_WAVE}, texts, &program));
    assert_int_equal(program.messages, 4);
    const sl_step *step = program.rank[1].step;
    assert_true(step[0].send == -1 && step[0].receive >= 0 && step[0].after == -1);
    assert_true(step[1].receive == -1 && step[1].after == 0 && step[1].send >= 0);
    assert_true(step[2].receive >= 0 && step[2].after == 1 && step[2].send == -1);
    assert_true(step[3].receive == -1 && step[3].after == 2 && step[3].send >= 0);
    assert_message(&program, 1, 1, 0, 1); /* 2F0 to 3F0, on the way back */
    assert_message(&program, 0, 2, 1, 2); /* 3B0 to 2B0 */
    sl_program_free(&program);
}

static void a_stage_before_the_one_that_feeds_it_is_refused(void **state) {
    (void)state;
    static const char *const forward[] = {"0F0 3F0 3B0 0B0", "2F0 1F0 2B0 1B0"}, *const backward[] = {
                                                                                     "0F0 3F0 3B0 0B0",
                                                                                     "1F0 2F0 1B0 2B0"};
    sl_program program;
    assert_fails(lower(&(shape){2, 4, 1, 1, SL_WAVE}, forward, &program), SL_EINVAL,
                 "2F0 precedes 1F0, which it needs");
    assert_fails(lower(&(shape){2, 4, 1, 1, SL_WAVE}, backward, &program), SL_EINVAL,
                 "1B0 precedes 2B0, which it needs");
}

/* Microbatch 0 through 0, 1, microbatch 1 through 2 (rank 1) and 3 (rank 0): no message from stage 1 to 2. */
static void two_pipelines_send_nothing_to_each_other(void **state) {
    (void)state;
    static const char *const texts[] = {"0F0 3F1 3B1 0B0", "2F1 1F0 1B0 2B1"};
    sl_program program;
    assert_ok(lower(&(shape){2, 4, 2, 1, SL_BIDIRECTIONAL}, texts, &program));
    assert_int_equal(program.messages, 4);
    assert_message(&program, 0, 0, 1, 1); /* 0F0 to 1F0 */
    assert_message(&program, 1, 0, 0, 1); /* 2F1 to 3F1 */
    assert_message(&program, 0, 2, 1, 3); /* 3B1 to 2B1 */
    assert_message(&program, 1, 2, 0, 3); /* 1B0 to 0B0 */
    sl_program_free(&program);
    static const char *const wrong[] = {"0F1 3F0 3B0 0B1", "2F0 1F1 1B1 2B0"};
    assert_int_equal(lower(&(shape){2, 4, 2, 1, SL_BIDIRECTIONAL}, wrong, &program), SL_EINVAL);
}

/* A message is made by the last part and used by the first; the buffer lives from F's first part to B's last.
 */
static void messages_go_from_last_part_to_first_part(void **state) {
    (void)state;
    static const char *const texts[] = {"0F0.0 0F0.1 0B0.0 0B0.1", "1F0.0 1F0.1 1B0.0 1B0.1"};
    static const int after[4] = {-1, 0, 1, 2};
    sl_program program;
    assert_ok(lower(&(shape){2, 2, 1, 2, SL_LINEAR}, texts, &program));
    assert_int_equal(program.messages, 2);
    assert_message(&program, 0, 1, 1, 0);
    assert_message(&program, 1, 3, 0, 2);
    for (int i = 0; i < 4; i++)
        assert_int_equal(program.rank[1].step[i].after, after[i]);
    assert_true(program.rank[0].step[0].send == -1 && program.rank[0].step[3].receive == -1);
    assert_true(program.rank[0].lifetime[0].acquire == 0 && program.rank[0].lifetime[0].release == 3);
    sl_program_free(&program);
}

static void parts_missing_or_out_of_sequence_are_refused(void **state) {
    (void)state;
    static const char *const missing[] = {"0F0.0 0B0.0 0B0.1"}, *const turned[] = {"0F0.1 0F0.0 0B0.0 0B0.1"},
                             *const early[] = {"0F0.0 0B0.0 0F0.1 0B0.1"};
    sl_program program;
    assert_int_equal(lower(&(shape){1, 1, 1, 2, SL_LINEAR}, missing, &program), SL_EINVAL);
    assert_int_equal(lower(&(shape){1, 1, 1, 2, SL_LINEAR}, turned, &program), SL_EINVAL);
    assert_int_equal(lower(&(shape){1, 1, 1, 2, SL_LINEAR}, early, &program), SL_EINVAL);
}

/* Apart, 0F1 runs before 1B0 is there; as a pair they wait for it, and 1B0 stands behind 1F1, which waits for
 * 0F1. */
static void a_pair_that_waits_for_its_own_result_is_a_deadlock(void **state) {
    (void)state;
    static const char *const apart[] = {"0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1"}, *const pair[] = {
                                                                                   "0F0 *0F1 0B0 0B1",
                                                                                   "1F0 1F1 1B0 1B1"};
    sl_program program;
    assert_ok(lower(&(shape){2, 2, 2, 1, SL_LINEAR}, apart, &program));
    sl_program_free(&program);
    assert_fails(lower(&(shape){2, 2, 2, 1, SL_LINEAR}, pair, &program), SL_EINVAL, "deadlock");
}

static void parts_do_not_pair(void **state) {
    (void)state;
    static const char *const texts[] = {"0F0.0 0F0.1 0F1.0 *0F1.1 0B0.0 0B0.1 0B1.0 0B1.1"};
    sl_program program;
    assert_fails(lower(&(shape){1, 1, 2, 2, SL_LINEAR}, texts, &program), SL_EINVAL, "comes in parts");
}

static void a_pair_is_an_f_and_the_b_behind_it(void **state) {
    (void)state;
    static const char *const last[] = {"0F0 0B0 *0F1", "1F0 1B0 1F1 1B1"},
                             *const split[] = {"0F0 *0F1 0I0 0W0 0B1", "1F0 1B0 1F1 1B1"},
                             *const backward[] = {"0F0 0F1 *0B0 0B1", "1F0 1F1 1B0 1B1"},
                             *const same[] = {"0F0 0F1 0B0 0B1", "*1F0 1B0 1F1 1B1"};
    sl_program program;
    assert_int_equal(lower(&(shape){2, 2, 2, 1, SL_LINEAR}, last, &program), SL_EINVAL);
    assert_int_equal(lower(&(shape){2, 2, 2, 1, SL_LINEAR}, split, &program), SL_EINVAL);
    assert_int_equal(lower(&(shape){2, 2, 2, 1, SL_LINEAR}, backward, &program), SL_EINVAL);
    assert_int_equal(lower(&(shape){2, 2, 2, 1, SL_LINEAR}, same, &program), SL_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ring_of_a_loop_closes),
        cmocka_unit_test(a_wave_turns_with_a_dependency_instead_of_a_message),
        cmocka_unit_test(a_stage_before_the_one_that_feeds_it_is_refused),
        cmocka_unit_test(two_pipelines_send_nothing_to_each_other),
        cmocka_unit_test(messages_go_from_last_part_to_first_part),
        cmocka_unit_test(parts_missing_or_out_of_sequence_are_refused),
        cmocka_unit_test(a_pair_that_waits_for_its_own_result_is_a_deadlock),
        cmocka_unit_test(parts_do_not_pair),
        cmocka_unit_test(a_pair_is_an_f_and_the_b_behind_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
