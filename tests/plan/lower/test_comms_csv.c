/* The compute_comms form by hand, for every placement, after the rule of comms_csv.h: a cell a turn, rank by
 * rank; a RECV joins its row when its SEND does. tests/torch compares larger ones with PyTorch's own. */
#include "check.h"

#include "base/memory.h"
#include "plan/lower/comms_csv.h"
#include "plan/lower/written.h"

#include <unistd.h>

typedef struct example {
    sl_placement placement;
    int ranks, stages, microbatches;
    const char *order, *wanted;
} example;

static const example examples[] = {
    {SL_LINEAR, 2, 2, 1, "0F0,0I0,0W0\n1F0,1I0,1W0\n",
     "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0I0,0W0,0REDUCE_GRAD,0RESHARD\n"
     "1UNSHARD,1RECV_F0,1F0,1I0,1SEND_B0,1W0,1REDUCE_GRAD,1RESHARD\n"},
    {SL_LOOP, 2, 4, 1, "0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0\n",
     "0UNSHARD,2UNSHARD,0F0,0SEND_F0,2RECV_F0,2F0,2SEND_F0,2RECV_B0,2B0,2SEND_B0,2REDUCE_GRAD,2RESHARD,"
     "0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\n"
     "1UNSHARD,3UNSHARD,1RECV_F0,1F0,1SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,1RECV_B0,3REDUCE_GRAD,3RESHARD,"
     "1B0,1SEND_B0,1REDUCE_GRAD,1RESHARD\n"},
    /* nothing is sent between 1 and 2; the pair's gradient leaves behind the pair */
    {SL_WAVE, 2, 4, 2, "0F0,0F1,3F0,(3F1;3B0)OVERLAP_F_B,3B1,0B0,0B1\n1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\n",
     "0UNSHARD,3UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,3RECV_F0,3F0,3RECV_F1,(3F1;3B0)OVERLAP_F_B,3SEND_B0,"
     "3B1,3SEND_B1,0RECV_B0,3REDUCE_GRAD,3RESHARD,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\n"
     "1UNSHARD,2UNSHARD,1RECV_F0,1F0,1RECV_F1,2F0,2SEND_F0,1F1,2F1,2SEND_F1,2RECV_B0,2B0,2RECV_B1,1B0,"
     "1SEND_B0,2B1,2REDUCE_GRAD,2RESHARD,1B1,1SEND_B1,1REDUCE_GRAD,1RESHARD\n"},
    {SL_BIDIRECTIONAL, 2, 4, 2, "0F0,3F1,3B1,0B0\n2F1,1F0,1B0,2B1\n",
     "0UNSHARD,3UNSHARD,0F0,0SEND_F0,3RECV_F1,3F1,3B1,3SEND_B1,0RECV_B0,3REDUCE_GRAD,3RESHARD,0B0,"
     "0REDUCE_GRAD,0RESHARD\n"
     "2UNSHARD,1UNSHARD,1RECV_F0,2F1,2SEND_F1,1F0,2RECV_B1,1B0,1SEND_B0,1REDUCE_GRAD,1RESHARD,2B1,"
     "2REDUCE_GRAD,2RESHARD\n"},
    /* of four stages on a rank three are gathered at a time */
    {SL_LOOP, 1, 4, 1, "0F0,1F0,2F0,3F0,3B0,2B0,1B0,0B0\n",
     "0UNSHARD,1UNSHARD,2UNSHARD,0F0,0RESHARD,3UNSHARD,1F0,2F0,3F0,3B0,3REDUCE_GRAD,3RESHARD,0UNSHARD,2B0,"
     "2REDUCE_GRAD,2RESHARD,1B0,1REDUCE_GRAD,1RESHARD,0B0,0REDUCE_GRAD,0RESHARD\n"},
};

static void make_problem(const example *e, sl_problem *problem) {
    assert_ok(sl_problem_make(e->ranks, e->stages, e->microbatches, problem));
    problem->placement = e->placement;
}

static void read_text(const sl_problem *problem, const char *text, sl_order *order) {
    char name[] = "/tmp/slackline-csv-XXXXXX";
    int file = mkstemp(name);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
    assert_ok(sl_order_read_csv(name, problem, order));
    unlink(name);
}

/* Removes the cells of sharding, which are derived from the ops. */
static void without_sharding(const char *text, char *kept) {
    *kept = 0;
    for (size_t size; *text; text += size) {
        size = strcspn(text, ",\n") + 1;
        if (!memmem(text, size, "SHARD", 5) && !memmem(text, size, "REDUCE", 6))
            strncat(strcat(kept, " "), text, size - 1);
        if (text[size - 1] == '\n')
            strcat(kept, "\n");
    }
}

/* What was read keeps its sends and receives. */
static void assert_own_issues(const sl_problem *problem, const sl_order *order, const char *text) {
    sl_program program;
    char *again;
    size_t size;
    FILE *out = open_memstream(&again, &size);
    assert_ok(sl_lower(problem, order, &program));
    assert_int_equal(program.own_issues, strstr(text, "SEND") != NULL);
    assert_ok(sl_program_write_csv(problem, order, &program, out));
    fclose(out);
    char kept[2][2000];
    without_sharding(text, kept[0]);
    without_sharding(again, kept[1]);
    assert_string_equal(kept[1], kept[0]);
    free(again);
    sl_program_free(&program);
}

static void rows_are_those_by_hand_and_read_back_as_the_same_order(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        sl_problem problem;
        sl_order order, again;
        sl_program program;
        char *text;
        size_t size;
        make_problem(&examples[i], &problem);
        read_text(&problem, examples[i].order, &order);
        assert_ok(sl_lower(&problem, &order, &program));
        FILE *out = open_memstream(&text, &size);
        assert_ok(sl_program_write_csv(&problem, &order, &program, out));
        fclose(out);
        assert_string_equal(text, examples[i].wanted);
        read_text(&problem, text, &again);
        assert_own_issues(&problem, &again, text);
        sl_order_drop_issues(&again);
        assert_true(sl_order_equal(&order, &again));
        free(text);
        sl_order_free(&order);
        sl_order_free(&again);
        sl_program_free(&program);
        sl_problem_free(&problem);
    }
}

static void what_has_no_csv_and_what_cannot_be_written_are_errors(void **state) {
    (void)state;
    static const example swapped = {SL_LINEAR, 2, 2, 2, "0F1,0F0,0B1,0B0\n1F1,1B1,1F0,1B0\n", NULL};
    sl_problem problem;
    sl_order order;
    sl_program program;
    FILE *out = fopen("/dev/full", "w");
    make_problem(&swapped, &problem);
    read_text(&problem, swapped.order, &order);
    assert_ok(sl_lower(&problem, &order, &program));
    assert_fails(sl_program_write_csv(&problem, &order, &program, out), SL_ENONE,
                 "rank 1 runs 1F0 after 1F1");
    sl_order_free(&order);
    sl_program_free(&program);
    read_text(&problem, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", &order);
    assert_ok(sl_lower(&problem, &order, &program));
    assert_fails(sl_program_write_csv(&problem, &order, &program, out), SL_ESYS, "cannot be written");
    problem.parts = 3;
    assert_fails(sl_program_write_csv(&problem, &order, &program, out), SL_ENONE, "3 parts");
    fclose(out);
    sl_order_free(&order);
    sl_program_free(&program);
    sl_problem_free(&problem);
}

static void every_failed_allocation_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    int failures = 0, done = 0;
    sl_problem problem;
    sl_order order;
    sl_program program;
    make_problem(&examples[2], &problem);
    read_text(&problem, examples[2].order, &order);
    assert_ok(sl_lower(&problem, &order, &program));
    for (long n = 0; !done && n < 1000; n++) {
        FILE *out = fopen("/dev/null", "w");
        sl_alloc_fail_at(n);
        sl_status status = sl_program_write_csv(&problem, &order, &program, out);
        sl_alloc_fail_at(-1);
        fclose(out);
        done = status == SL_OK;
        if (!done)
            assert_int_equal(status, SL_ENOMEM);
        failures += !done;
    }
    assert_true(done && failures >= 14);
    sl_order_free(&order);
    sl_program_free(&program);
    sl_problem_free(&problem);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_by_hand_and_read_back_as_the_same_order),
        cmocka_unit_test(what_has_no_csv_and_what_cannot_be_written_are_errors),
        cmocka_unit_test(every_failed_allocation_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
