/* The CSV reader where a rank holds several stages: messages of a pair of ranks in one sequence, overlapped
 * pairs, sharding cells, deadlocks. Every fault is named by its line and column. */
#include "check.h"

#include "plan/lower/written.h"
#include "plan/pipeline/csv.h"

#include <unistd.h>

static void make_problem(sl_placement placement, int ranks, int stages, int microbatches,
                         sl_problem *problem) {
    assert_ok(sl_problem_make(ranks, stages, microbatches, problem));
    problem->placement = placement;
}

static sl_status read_text(const sl_problem *problem, const char *text, sl_order *order) {
    char name[] = "/tmp/slackline-csv-XXXXXX";
    int file = mkstemp(name);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
    sl_status status = sl_order_read_csv(name, problem, order);
    unlink(name);
    return status;
}

typedef struct example {
    sl_placement placement;
    int ranks, stages, microbatches;
    const char *text, *place, *says;
} example;

static void assert_refused(const example *e) {
    sl_problem problem;
    sl_order order;
    make_problem(e->placement, e->ranks, e->stages, e->microbatches, &problem);
    if (read_text(&problem, e->text, &order) != SL_EINVAL)
        fail_msg("accepted: %s", e->text);
    assert_says(sl_error_text(), e->place);
    assert_says(sl_error_text(), e->says);
    assert_null(order.ops);
    sl_problem_free(&problem);
}

static void assert_read(const example *e) {
    sl_problem problem;
    sl_order order;
    make_problem(e->placement, e->ranks, e->stages, e->microbatches, &problem);
    if (read_text(&problem, e->text, &order) != SL_OK)
        fail_msg("refused: %s", sl_error_text());
    sl_order_free(&order);
    sl_problem_free(&problem);
}

#define LOOP_0 "0F0,0SEND_F0,2RECV_F0,2F0,2SEND_F0,2RECV_B0,2B0,2SEND_B0,0RECV_B0,0B0\n"
#define LOOP_1 "1RECV_F0,1F0,1SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,1RECV_B0,1B0,1SEND_B0\n"
#define WAVE_0 "0F0,0SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,0RECV_B0,0B0\n"
#define WAVE_1 "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0\n"
#define BOTH_0 "0F0,0SEND_F0,3RECV_F1,3F1,3B1,3SEND_B1,0RECV_B0,0B0\n"
#define BOTH_1 "2F1,2SEND_F1,1RECV_F0,1F0,1B0,1SEND_B0,2RECV_B1,2B1\n"

static void every_placement_is_read(void **state) {
    (void)state;
    static const example cases[] = {
        {SL_LOOP, 2, 4, 1, LOOP_0 LOOP_1, "", ""},
        {SL_LOOP, 2, 4, 1, "0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0\n", "", ""},
        {SL_WAVE, 2, 4, 1, WAVE_0 WAVE_1, "", ""},
        {SL_WAVE, 2, 4, 1, "0F0,3F0,3B0,0B0\n1F0,2F0,2I0,1I0,1W0,2W0\n", "", ""},
        {SL_BIDIRECTIONAL, 2, 4, 2, BOTH_0 BOTH_1, "", ""},
        {SL_BIDIRECTIONAL, 2, 4, 2, "0F0,3F1,3B1,0B0\n2F1,1F0,1B0,2B1\n", "", ""},
        {SL_LOOP, 1, 3, 1, "0F0,1F0,2F0,2B0,1B0,0B0,1REDUCE_GRAD,0REDUCE_GRAD,2REDUCE_GRAD\n", "", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_read(&cases[i]);
}

static void messages_of_two_ranks_come_in_the_order_in_which_they_were_sent(void **state) {
    (void)state;
    static const example cases[] = {
        /* an activation and a gradient on the same link */
        {SL_LOOP, 2, 4, 1, "0F0,0SEND_F0,2RECV_B0,2RECV_F0,2F0,2SEND_F0,2B0,2SEND_B0,0RECV_B0,0B0\n" LOOP_1,
         ":2: column 3: message 0 from rank 1 to rank 0",
         "received as 0 in line 1, column 3 (1SEND_F0, 2RECV_B0)"},
        /* activations of two stages */
        {SL_LOOP, 2, 4, 1, LOOP_0 "3RECV_F0,1RECV_F0,1F0,1SEND_F0,3F0,3B0,3SEND_B0,1RECV_B0,1B0,1SEND_B0\n",
         ":1: column 2: message 0 from rank 0 to rank 1", "(0SEND_F0, 3RECV_F0)"},
        {SL_LOOP, 2, 4, 1, LOOP_0 "1RECV_F0,1F0,1SEND_F0,3RECV_F0,3F0,3B0,1RECV_B0,1B0,1SEND_B0,3SEND_B0\n",
         ":2: column 9: message 1 from rank 1 to rank 0", "(1SEND_B0, 2RECV_B0)"},
        {SL_LOOP, 2, 4, 1,
         "0F0,0SEND_F0,2RECV_F0,2F0,2SEND_F0,2B0,2SEND_B0,0RECV_B0,0B0\n"
         "1RECV_F0,1F0,1SEND_F0,3RECV_F0,3F0,3B0,1RECV_B0,1B0,1SEND_B0\n",
         ":2: column 6, '3B0': 2 messages from rank 1 to rank 0", "need 3; 3SEND_B0 is missing"},
        {SL_WAVE, 2, 4, 1, WAVE_0 "1RECV_F0,1F0,1SEND_F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0\n",
         ":2: column 3, '1SEND_F0'", "both ends are on this rank"},
        {SL_WAVE, 2, 4, 1, "0F0,0SEND_F0,3RECV_F0,3F0,3SEND_F0,3B0,3SEND_B0,0RECV_B0,0B0\n" WAVE_1,
         ":1: column 5, '3SEND_F0'", "no stage at the other end"},
        {SL_BIDIRECTIONAL, 2, 4, 2, "0F0,0SEND_F1,3RECV_F1,3F1,3B1,3SEND_B1,0RECV_B0,0B0\n" BOTH_1,
         ":1: column 2, '0SEND_F1'", "other pipeline's microbatch"},
        {SL_BIDIRECTIONAL, 2, 4, 2, BOTH_0 "2F1,2SEND_F1,1RECV_F0,1F0,1SEND_F0,1B0,1SEND_B0,2RECV_B1,2B1\n",
         ":2: column 5, '1SEND_F0'", "no stage at the other end"}, /* 1 is the last of the pipeline down */
        {SL_BIDIRECTIONAL, 2, 4, 2, "0F1,3F1,3B1,0B1\n2F1,1F0,1B0,2B1\n",
         ":1: column 1: ", "other pipeline's microbatch"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_refused(&cases[i]);
}

static void a_pair_is_an_f_and_the_b_behind_it(void **state) {
    (void)state;
    sl_problem problem;
    sl_order order;
    make_problem(SL_WAVE, 1, 2, 2, &problem);
    assert_ok(read_text(&problem, "0F0,1F0,0F1,(1F1;1B0)OVERLAP_F_B,,0B0,1I1,0B1,1W1\n", &order));
    assert_int_equal(order.count[0], 9);
    for (int i = 0; i < 9; i++)
        assert_int_equal(order.ops[0][i].paired, i == 3);
    assert_true(order.ops[0][3].kind == SL_F && order.ops[0][3].stage == 1 &&
                order.ops[0][3].microbatch == 1);
    assert_true(order.ops[0][4].kind == SL_B && order.ops[0][4].stage == 1 &&
                order.ops[0][4].microbatch == 0);
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_ok(sl_order_write_csv(&problem, &order, out));
    fclose(out);
    assert_string_equal(text, "0F0,1F0,0F1,(1F1;1B0)OVERLAP_F_B,0B0,1I1,0B1,1W1\n");
    free(text);
    sl_order_free(&order);
    sl_problem_free(&problem);

    static const struct {
        const char *pair, *says;
    } wrong[] = {{"(0F1;0B0)", "OVERLAP_F_B must follow"},
                 {"(0F1;0B0)OVERLAP", "OVERLAP_F_B must follow"},
                 {"(0F1;0B0)OVERLAP_F_B0", "after the action"},
                 {"(0F1)OVERLAP_F_B", "must be separated by ';'"},
                 {"(0F1;0B0", "must end with ')'"},
                 {"(0F1;0B0;0B0)OVERLAP_F_B", "must end with ')'"},
                 {"(0B0;0F1)OVERLAP_F_B", "only an F and a B, in this order"},
                 {"(0F1;0I0)OVERLAP_F_B", "only an F and a B, in this order"},
                 {"(0F1;0SEND_B0)OVERLAP_F_B", "only an F and a B, in this order"},
                 {"(0F;0B0)OVERLAP_F_B", "microbatch is missing"},
                 {"()OVERLAP_F_B", "begin with a stage"},
                 {"(0F1;0B1)OVERLAP_F_B", "overlapped with its own B"},
                 {"(0F1;7B0)OVERLAP_F_B", "no such stage"},
                 {"(0F9;0B0)OVERLAP_F_B", "no such microbatch"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char line[100], place[100];
        snprintf(line, sizeof line, "0F0,,%s,0B1\n", wrong[i].pair);
        snprintf(place, sizeof place, ":1: column 3, '%s'", wrong[i].pair);
        assert_refused(&(example){SL_LINEAR, 1, 1, 2, line, place, wrong[i].says});
    }
    assert_refused(&(example){SL_LINEAR, 1, 1, 2, "0F0,(0F1;0B0)OVERLAP_F_B,0B0,0B1\n",
                              ":1: column 3: ", "0B0 is duplicated"});
    assert_refused(&(example){SL_LINEAR, 1, 1, 2, "(0F0;0B1)OVERLAP_F_B,0F1,0B0\n",
                              ":1: column 1: ", "0B1 precedes its F"});
}

static void sharding_cells_are_checked(void **state) {
    (void)state;
    static const example cases[] = {
        {SL_LINEAR, 1, 1, 2, "0F0,0B0,0REDUCE_GRAD,0F1,0B1\n", ":1: column 3, '0REDUCE_GRAD'",
         "precedes the stage's last W or B"},
        {SL_LINEAR, 1, 1, 1, "0F0,0I0,0REDUCE_GRAD,0W0\n", ":1: column 3, '0REDUCE_GRAD'", "last W or B"},
        {SL_LINEAR, 1, 1, 1, "0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD\n", ":1: column 4, '0REDUCE_GRAD'",
         "is duplicated"},
        {SL_LOOP, 2, 4, 1, "0F0,2F0,2B0,0B0,1REDUCE_GRAD\n1F0,3F0,3B0,1B0\n", ":1: column 5, '1REDUCE_GRAD'",
         "another rank"},
        {SL_LINEAR, 1, 1, 1, "0UNSHARD,0UNSHARD,0F0,0B0\n", ":1: column 2, '0UNSHARD'", "already"},
        {SL_LINEAR, 1, 1, 1, "0RESHARD,0UNSHARD,0F0,0B0\n", ":1: column 1, '0RESHARD'", "is not unsharded"},
        {SL_LINEAR, 1, 1, 1, "0F0,0UNSHARD,0B0\n", ":1: column 1, '0F0'", "not unsharded here"},
        {SL_LINEAR, 1, 1, 1, "0UNSHARD,0F0,0RESHARD,0B0,0UNSHARD\n", ":1: column 4, '0B0'",
         "not unsharded here"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_refused(&cases[i]);
    assert_read(&(example){SL_LINEAR, 1, 1, 1, "0UNSHARD,0F0,0RESHARD,0UNSHARD,0B0,0RESHARD\n", "", ""});
}

static void a_deadlock_is_named_by_its_cells(void **state) {
    (void)state;
    static const example cases[] = {
        {SL_LINEAR, 2, 2, 2, "0F0,,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n",
         ":1: column 3: deadlock: 0B0 of rank 0 (line 1, column 3) waits for 1B0 of rank 1 (line 2, column "
         "3)",
         "1F1 of rank 1 (line 2, column 2), which waits for 0F1 of rank 0 (line 1, column 4)"},
        /* the ops alone would end, but the message stands behind what waits for its answer */
        {SL_LINEAR, 2, 2, 1, "0F0,0RECV_B0,0B0,0SEND_F0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
         ":1: column 2: deadlock: 0RECV_B0 of rank 0", "0SEND_F0 of rank 0 (line 1, column 4)"},
        /* between stages of one rank */
        {SL_WAVE, 2, 4, 1, "0F0,3F0,3B0,0B0\n2F0,1F0,2B0,1B0\n",
         ":2: column 1: rank 1, op 0: 2F0 precedes 1F0", ""},
        {SL_WAVE, 2, 4, 1, "0F0,3F0,3B0,0B0\n1F0,2F0,1B0,2B0\n",
         ":2: column 3: rank 1, op 2: 1B0 precedes 2B0", ""},
        /* a pair waits for both of its messages */
        {SL_LINEAR, 2, 2, 2, "0F0,0F1,0B0,0B1\n1F0,(1F1;1B0)OVERLAP_F_B,1B1\n", "", ""},
        {SL_LINEAR, 2, 2, 2, "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,1F1,1B0,1B1\n", ":1: column 2: deadlock: 0F1",
         "1F1 of rank 1 (line 2, column 2)"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (*cases[i].place)
            assert_refused(&cases[i]);
        else
            assert_read(&cases[i]);
    char ring[400] = ""; /* three ranks, each waits for the next */
    strcat(ring, "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n2F0,2F1,2B0,2B1\n");
    assert_refused(&(example){SL_LINEAR, 3, 3, 2, ring, "deadlock", "1F1 of rank 1 (line 2, column 2)"});
}

static void a_blank_line_and_parts_are_refused(void **state) {
    (void)state;
    assert_refused(&(example){SL_LINEAR, 1, 1, 1, "0F0,0B0\n\n", ":2: ", "a blank line counts as one"});
    assert_refused(&(example){SL_LINEAR, 1, 1, 1, "0F0,0B0\n \r\n", ":2: ", "a blank line counts as one"});
    sl_problem problem;
    sl_order order;
    make_problem(SL_LINEAR, 1, 1, 1, &problem);
    assert_ok(read_text(&problem, "0F0,0B0\n", &order));
    problem.parts = 2;
    FILE *out = fopen("/dev/null", "w");
    assert_fails(sl_order_write_csv(&problem, &order, out), SL_ENONE, "2 parts");
    sl_order_free(&order);
    assert_fails(read_text(&problem, "0F0,0B0\n", &order), SL_EINVAL, "2 parts");
    fclose(out);
    sl_problem_free(&problem);
}

/* PyTorch appends the losses as they come and looks them up by microbatch. */
static void forwards_of_the_last_stage_out_of_order_have_no_csv(void **state) {
    (void)state;
    static const struct {
        sl_placement placement;
        int stages, writes;
        const char *text;
    } cases[] = {{SL_LINEAR, 2, 0, "0F1,0F0,0B1,0B0\n1F1,1B1,1F0,1B0\n"},
                 {SL_LINEAR, 2, 1, "0F1,0F0,0B1,0B0\n1F0,1F1,1B1,1B0\n"},
                 {SL_WAVE, 4, 0, "0F0,0F1,3F1,3F0,3B0,3B1,0B0,0B1\n1F0,1F1,2F0,2F1,2B0,2B1,1B0,1B1\n"},
                 {SL_WAVE, 4, 1, "0F0,0F1,3F0,3F1,3B0,3B1,0B0,0B1\n1F1,1F0,2F1,2F0,2B0,2B1,1B0,1B1\n"},
                 {SL_BIDIRECTIONAL, 4, 1, "0F0,3F1,3B1,0B0\n2F1,1F0,1B0,2B1\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_problem problem;
        sl_order order;
        FILE *out = fopen("/dev/null", "w");
        make_problem(cases[i].placement, 2, cases[i].stages, 2, &problem);
        assert_ok(read_text(&problem, cases[i].text, &order));
        if (cases[i].writes)
            assert_ok(sl_order_write_csv(&problem, &order, out));
        else
            assert_fails(sl_order_write_csv(&problem, &order, out), SL_ENONE, "PyTorch CSV");
        fclose(out);
        sl_order_free(&order);
        sl_problem_free(&problem);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_placement_is_read),
        cmocka_unit_test(messages_of_two_ranks_come_in_the_order_in_which_they_were_sent),
        cmocka_unit_test(a_pair_is_an_f_and_the_b_behind_it),
        cmocka_unit_test(sharding_cells_are_checked),
        cmocka_unit_test(a_deadlock_is_named_by_its_cells),
        cmocka_unit_test(a_blank_line_and_parts_are_refused),
        cmocka_unit_test(forwards_of_the_last_stage_out_of_order_have_no_csv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
