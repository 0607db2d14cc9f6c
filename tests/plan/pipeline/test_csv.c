/* Orders as CSV: both forms of PyTorch's pipelining schedules, and every cell that is wrong named by its
 * place. */
#include "check.h"
#include "plan/drawn.h"

#include "base/memory.h"
#include "plan/lower/written.h"
#include "plan/pipeline/csv.h"

#include <unistd.h>

/* A file of its own for each test program; gone before the test looks at the result. */
static sl_status read_text(const char *text, int ranks, int microbatches, sl_order *order) {
    char name[] = "/tmp/slackline-csv-XXXXXX";
    sl_problem problem;
    assert_ok(sl_problem_make(ranks, ranks, microbatches, &problem));
    int file = mkstemp(name);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
    sl_status status = sl_order_read_csv(name, &problem, order);
    unlink(name);
    sl_problem_free(&problem);
    return status;
}

static void assert_ops(const sl_order *order, int rank, const char *wanted) {
    char text[1000] = "";
    for (int i = 0; i < order->count[rank]; i++) {
        const sl_op *op = &order->ops[rank][i];
        sprintf(text + strlen(text), "%s%d%s%d", i ? " " : "", op->stage, sl_op_name(op->kind),
                op->microbatch);
    }
    assert_string_equal(text, wanted);
}

/* 1F1B on two ranks as PyTorch writes it: a column a time slot, lines ended by CR LF. */
static void empty_cells_are_idle_slots(void **state) {
    (void)state;
    sl_order order;
    assert_ok(read_text("0F0,0F1,,,0B0,0F2,,0B1,,0B2\r\n,1F0,1B0,1F1,,1B1,1F2,,1B2,\r\n", 2, 3, &order));
    assert_ops(&order, 0, "0F0 0F1 0B0 0F2 0B1 0B2");
    assert_ops(&order, 1, "1F0 1B0 1F1 1B1 1F2 1B2");
    sl_order_free(&order);
    assert_ok(read_text("  0F0 , \"0I0\" ,0W0", 1, 1, &order)); /* blanks, quotes, no newline at the end */
    assert_ops(&order, 0, "0F0 0I0 0W0");
    sl_order_free(&order);
}

static void communication_cells_are_checked_and_dropped(void **state) {
    (void)state;
    sl_order order;
    assert_ok(read_text(
        "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0RECV_B1,0I1,0W0,0W1,0REDUCE_GRAD,0RESHARD\n"
        "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1RESHARD,1REDUCE_GRAD\n",
        2, 2, &order));
    assert_ops(&order, 0, "0F0 0F1 0I0 0I1 0W0 0W1");
    assert_ops(&order, 1, "1F0 1B0 1F1 1B1");
    sl_order_free(&order);
}

static void every_wrong_cell_is_named_with_line_column_and_text(void **state) {
    (void)state;
    static const struct {
        int ranks, microbatches;
        const char *text, *place, *says;
    } cases[] = {
        {1, 1, "0F0,0B0x\n", ":1: column 2, '0B0x'", "after the action"},
        {1, 1, "0F0,0B0 0\n", ":1: column 2, '0B0 0'", "after the action"},
        {1, 1, "0F,0B0\n", ":1: column 1, '0F'", "microbatch is missing"},
        {1, 1, "F0,0B0\n", ":1: column 1, 'F0'", "begin with a stage"},
        {1, 1, "-1F0,0B0\n", ":1: column 1, '-1F0'", "begin with a stage"},
        {1, 1, "0F-1,0B0\n", ":1: column 1, '0F-1'", "microbatch is missing"},
        {1, 1, "0F4294967296,0B0\n", ":1: column 1", "microbatch is missing"},
        {1, 1, "99999999999F0,0B0\n", ":1: column 1", "begin with a stage"},
        {1, 1, "0f0,0B0\n", ":1: column 1, '0f0'", "no action"},
        {1, 1, "0X0,0B0\n", ":1: column 1, '0X0'", "no action"},
        {1, 1, "0\n", ":1: column 1, '0'", "no action"},
        {1, 1, "0F0,\"0B0\n", ":1: column 2, '\"0B0'", "begin with a stage"},
        {1, 1, "0F0,0B0\"\n", ":1: column 2, '0B0\"'", "after the action"},
        {1, 1, "0F0,(0F0;0B0)OVERLAP_F_B\n", ":1: column 2", "overlapped"},
        {1, 1, "0F0,0UNSHARD3,0B0\n", ":1: column 2, '0UNSHARD3'", "after the action"},
        {2, 1, "0F0,0B0\n1F0,,2B0\n", ":2: column 3, '2B0'", "no such stage"},
        {2, 1, "0F0,0B1\n1F0,1B0\n", ":1: column 2, '0B1'", "no such microbatch"},
        {2, 1, "0F0,0B0\n1F0,0B0\n", ":2: column 2, '0B0'", "another rank"},
        {2, 1, "0F0,0B0\n0UNSHARD,1F0,1B0\n", ":2: column 1, '0UNSHARD'", "another rank"},
        {2, 1, "0F0,0B0\n", "1 lines", "the problem has 2 ranks"},
        {2, 1, "0F0,0B0\n1F0,1B0\n2F0,2B0\n", ":3:", "the problem has 2 ranks"},
        {2, 1, "0F0,0B0\n1F0,1B0\n\n", ":3:", "the problem has 2 ranks"},
        {1, 1, "", "0 lines", "the problem has 1 ranks"},
        {1, 2, "0F0,0F0,0B0,0F1,0B1\n", ":1: column 2: ", "0F0 is duplicated"},
        {1, 1, "0F0,,0I0,0W0,0W0\n",
         ":1: column 5: ", "0W0 is duplicated"}, /* one op more than there can be */
        {1, 1, "0F0,0I0,0W0,0F0,0I0,0W0\n", ":1: column 4: ", "0F0 is duplicated"},
        {1, 1, "0F0,0B0,0I0,0W0\n", ":1: column 3: ", "in addition to a B"},
        {1, 1, "0F0,0I0,0B0\n", ":1: column 3: ", "in addition to a B"},
        {1, 1, "0I0,0F0,0W0\n", ":1: column 1: ", "0I0 precedes its F"},
        {1, 1, "0F0,0W0,0I0\n", ":1: column 2: ", "0W0 precedes its I"},
        {2, 2, "0F0,0F1,0B0,0B1\n1F0,1B0,1B1\n", ":2: column 3: ", "1B1 precedes its F"},
        {2, 2, "0F0,0F1,0B0,0B1\n1F0,1B0\n", ":2: ", "1F1 is missing"},
        {1, 2, "0F0,0F1,0I0,0I1,0W1\n", ":1: ", "0W0 is missing"},
        /* communication: 0 sends both forward, 1 both back */
        {2, 1, "0F0,0SEND_F,0B0\n1F0,1B0\n", ":1: column 2, '0SEND_F'", "microbatch is missing"},
        {2, 1, "0F0,0SEND_F7,0B0\n1F0,1B0\n", ":1: column 2, '0SEND_F7'", "no such stage or microbatch"},
        {2, 1, "0F0,1SEND_F0,0B0\n1F0,1B0\n", ":1: column 2, '1SEND_F0'", "another rank"},
        {2, 1, "0RECV_F0,0F0,0B0\n1F0,1B0\n", ":1: column 1, '0RECV_F0'", "no stage at the other end"},
        {2, 1, "0F0,0B0,0SEND_B0\n1F0,1B0\n", ":1: column 3, '0SEND_B0'", "no stage at the other end"},
        {2, 1, "0F0,0B0\n1F0,1SEND_F0,1B0\n", ":2: column 2, '1SEND_F0'", "no stage at the other end"},
        {2, 1, "0F0,0B0\n1F0,1RECV_B0,1B0\n", ":2: column 2, '1RECV_B0'", "no stage at the other end"},
        {2, 1, "0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", ":1: column 1, '0SEND_F0'",
         "precedes the op"},
        {2, 1, "0F0,0SEND_F0,0B0,0RECV_B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", ":1: column 4, '0RECV_B0'",
         "follows the op"},
        {2, 1, "0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0\n", ":2: column 2, '1RECV_F0'",
         "follows the op"},
        {2, 1, "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1SEND_B0,1B0\n", ":2: column 3, '1SEND_B0'",
         "precedes the op"},
        {2, 1, "0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", ":1: column 3, '0SEND_F0'",
         "is duplicated"},
        {2, 1, "0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0\n", ":1: column 2: ", "never received"},
        {2, 1, "0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", ":2: column 1: ", "never sent"},
        {2, 1, "0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0\n", "0 messages from rank 1 to rank 0", "1 microbatches"},
        {2, 2,
         "0F0,0F1,0SEND_F1,0SEND_F0,0RECV_B0,0RECV_B1,0B0,0B1\n1RECV_F0,1RECV_F1,1F0,1F1,1B0,1SEND_B0,1B1,"
         "1SEND_B1\n",
         ":1: column 3: message 0 from rank 0 to rank 1",
         "sent as microbatch 1, but received as 0 in line 2, column 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_order order;
        if (read_text(cases[i].text, cases[i].ranks, cases[i].microbatches, &order) != SL_EINVAL)
            fail_msg("accepted: %s", cases[i].text);
        assert_says(sl_error_text(), cases[i].place);
        assert_says(sl_error_text(), cases[i].says);
        assert_non_null(strstr(sl_error_text(), "/tmp/slackline-csv-"));
        assert_null(order.ops);
    }
    sl_order order;
    char *wide = malloc(200000);
    memset(wide, 'x', 199999);
    wide[199999] = 0;
    assert_int_equal(read_text(wide, 1, 1, &order), SL_EINVAL);
    assert_says(sl_error_text(), "must begin with a stage number"); /* the reason is not cut off */
    free(wide);
}

static void two_sends_swapped_at_both_ends_are_a_valid_order_of_messages(void **state) {
    (void)state;
    sl_order order;
    assert_ok(read_text("0F0,0F1,0SEND_F1,0SEND_F0,0RECV_B1,0RECV_B0,0B0,0B1\n"
                        "1RECV_F1,1RECV_F0,1F0,1F1,1B1,1SEND_B1,1B0,1SEND_B0\n",
                        2, 2, &order));
    sl_order_free(&order);
}

static void a_missing_file_and_a_zero_byte_are_errors(void **state) {
    (void)state;
    sl_problem problem;
    sl_order order;
    assert_ok(sl_problem_make(1, 1, 1, &problem));
    assert_fails(sl_order_read_csv("/nowhere/order.csv", &problem, &order), SL_EINVAL, "/nowhere/order.csv");
    char name[] = "/tmp/slackline-csv-XXXXXX";
    int file = mkstemp(name);
    assert_int_equal(write(file, "0F0\0,0B0\n", 9), 9);
    close(file);
    assert_fails(sl_order_read_csv(name, &problem, &order), SL_EINVAL, "zero byte");
    unlink(name);
    sl_problem_free(&problem);
}

static void what_is_written_reads_back(void **state) {
    (void)state;
    sl_order order, again;
    char *text;
    size_t size;
    assert_ok(read_text("0F0,0F1,0I0,0W0,0B1\n1F0,1B0,1F1,1I1,1W1\n", 2, 2, &order));
    FILE *out = open_memstream(&text, &size);
    sl_problem problem;
    assert_ok(sl_problem_make(2, 2, 2, &problem));
    assert_ok(sl_order_write_csv(&problem, &order, out));
    fclose(out);
    assert_string_equal(text, "0F0,0F1,0I0,0W0,0B1\n1F0,1B0,1F1,1I1,1W1\n");
    assert_ok(read_text(text, 2, 2, &again));
    assert_true(sl_order_equal(&order, &again));
    FILE *full = fopen("/dev/full", "w");
    assert_fails(sl_order_write_csv(&problem, &order, full), SL_ESYS, "cannot be written");
    fclose(full);
    free(text);
    sl_problem_free(&problem);
    sl_order_free(&order);
    sl_order_free(&again);
}

/* A valid file with a few bytes changed: read or refused, with a reason that fits a line, and never anything
 * worse (the sanitizers watch). */
static void damaged_files_are_read_or_refused(void **state) {
    (void)state;
    static const char valid[] = "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0RECV_B1,0I1,0W0,0W1\n"
                                "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n";
    static const char bytes[] = "0123456789,,,\n\rFIWB_SENDRCV \"();-x";
    start_drawing(77u);
    int refused = 0;
    for (int round = 0; round < 3000; round++) {
        char text[sizeof valid];
        sl_order order;
        memcpy(text, valid, sizeof valid);
        for (int i = draw(4); i >= 0; i--)
            text[draw((int)sizeof valid - 1)] = bytes[draw((int)sizeof bytes - 1)];
        sl_status status = read_text(text, 2, 2, &order);
        if (status == SL_OK) {
            assert_in_range(order.count[0], 4, 6); /* F and B, or F, I and W, for both microbatches */
            assert_in_range(order.count[1], 4, 6);
        } else {
            assert_int_equal(status, SL_EINVAL);
            refused++;
        }
        sl_order_free(&order);
    }
    assert_in_range(refused, 1500, 2999);
}

static void every_failed_allocation_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    int failures = 0, done = 0;
    for (long n = 0; !done && n < 1000; n++) {
        sl_order order;
        sl_problem problem;
        assert_ok(sl_problem_make(2, 2, 1, &problem));
        char name[] = "/tmp/slackline-csv-XXXXXX";
        static const char text[] = "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n";
        int file = mkstemp(name);
        assert_int_equal(write(file, text, sizeof text - 1), sizeof text - 1);
        close(file);
        sl_alloc_fail_at(n);
        sl_status status = sl_order_read_csv(name, &problem, &order);
        sl_alloc_fail_at(-1);
        unlink(name);
        done = status == SL_OK;
        if (!done)
            assert_int_equal(status, SL_ENOMEM);
        failures += !done;
        sl_order_free(&order);
        sl_problem_free(&problem);
    }
    assert_true(done && failures >= 12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_cells_are_idle_slots),
        cmocka_unit_test(communication_cells_are_checked_and_dropped),
        cmocka_unit_test(every_wrong_cell_is_named_with_line_column_and_text),
        cmocka_unit_test(two_sends_swapped_at_both_ends_are_a_valid_order_of_messages),
        cmocka_unit_test(a_missing_file_and_a_zero_byte_are_errors),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(damaged_files_are_read_or_refused),
        cmocka_unit_test(every_failed_allocation_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
