/* `arrangements` of the run file: what it says arrives, and every mistake is named with its place. */
#include "check.h"

#include "read_run.h"

#define BASE(parallel)                                                                                       \
    "model: {layers: 4, width: 128, heads: 4, context: 64}\n"                                                \
    "data: {files: [\"a\"]}\n"                                                                               \
    "parallel: " parallel "\n"                                                                               \
    "batch: {microbatches: 6}\n"                                                                             \
    "iterations: 60\n"
#define TWO BASE("{pipeline: 2, data: 2}")

static void what_is_said_arrives(void **state) {
    (void)state;
    sl_run run;
    assert_ok(read_run(TWO "arrangements:\n"
                           "  - {iteration: 0, positions: [3, 0, 2, 1]}\n"
                           "  - {iteration: 20, split: [5, 1]}\n"
                           "  - {iteration: 59, positions: [0, 1, 2, 3], split: [1, 5], without: node-7}\n",
                       &run));
    assert_int_equal(run.arrangements, 3);
    const sl_run_arrangement *a = run.arrangement;
    assert_true(a[0].iteration == 0 && a[0].position[0] == 3 && a[0].position[3] == 1 && !a[0].split);
    assert_true(a[1].iteration == 20 && !a[1].position && a[1].split[0] == 5 && a[1].split[1] == 1);
    assert_true(a[2].iteration == 59 && a[2].position[2] == 2 && a[2].split[1] == 5);
    assert_string_equal(a[2].without, "node-7");
    assert_null(a[0].without);
    sl_run_free(&run);
}

static void the_former_name_of_positions_is_read(void **state) {
    (void)state;
    sl_run run;
    assert_ok(read_run(TWO "arrangements: [{iteration: 2, seats: [1, 0, 3, 2]}]\n", &run));
    assert_true(run.arrangement[0].position[0] == 1 && run.arrangement[0].position[3] == 2);
    sl_run_free(&run);
}

static void every_mistake_is_named_with_its_place(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {TWO "arrangements: 3\n", "run.yaml:6: 'arrangements' must be a list"},
        {TWO "arrangements: [3]\n", "must be a map"},
        {TWO "arrangements: [{positions: [0, 1, 2, 3]}]\n", "iteration"},
        {TWO "arrangements: [{iteration: 3}]\n", "must have one of positions, split and without"},
        {TWO "arrangements: [{iteration: 3, seat: [0, 1, 2, 3]}]\n", "seat"},
        {TWO "arrangements:\n  - {iteration: 3, positions: [0, 1, 2]}\n",
         "run.yaml:7: 'positions' must be a list of 4 whole numbers, one for each process"},
        {TWO "arrangements: [{iteration: 3, positions: [0, 1, 2, 4]}]\n", "from 0 to 3, got '4'"},
        {TWO "arrangements: [{iteration: 3, positions: [0, 1, -1, 3]}]\n", "from 0 to 3, got '-1'"},
        {TWO "arrangements: [{iteration: 3, positions: [0, 1, 1.5, 3]}]\n", "got '1.5'"},
        {TWO "arrangements: [{iteration: 3, positions: [0, 2, 2, 3]}]\n", "process 2 twice"},
        {TWO "arrangements: [{iteration: 3, positions: [0, 1, 2, 3], seats: [0, 1, 2, 3]}]\n",
         "is given twice"},
        {TWO "arrangements: [{iteration: 3, split: [6]}]\n",
         "a list of 2 whole numbers, one for each replica"},
        {TWO "arrangements: [{iteration: 3, split: [6, 0]}]\n", "got '0'"},
        {TWO "arrangements: [{iteration: 3, split: [4, 3]}]\n", "must be batch.microbatches (6) in sum"},
        {TWO "arrangements: [{iteration: 60, split: [4, 2]}]\n", "of 60 is never reached"},
        {TWO "arrangements: [{iteration: 3, split: [4, 2]}, {iteration: 3, split: [3, 3]}]\n",
         "must be after that of the previous arrangement"},
        {TWO "arrangements: [{iteration: 3, without: \"\"}]\n", "must be the name of a host"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sl_run run;
        if (read_run(wrong[i].text, &run) != SL_EINVAL)
            fail_msg("%s\nis taken", wrong[i].text);
        if (missing_fact(sl_error_text(), wrong[i].says))
            fail_msg("%s\nsays \"%s\", not \"%s\"", wrong[i].text, sl_error_text(), wrong[i].says);
        sl_run_free(&run);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said_arrives),
        cmocka_unit_test(the_former_name_of_positions_is_read),
        cmocka_unit_test(every_mistake_is_named_with_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
