/* Entries of a plan's lists are read as a JSON parser reads them, or left to it. */
#include "check.h"

#include "base/random.h"
#include "plan/pipeline/problem.h"
#include "plan/search/plan_items.h"

static void an_op_is_read(void **state) {
    (void)state;
    sl_span s;
    assert_true(sl_plan_item_span(
        "{\"rank\": 3, \"op\": \"W\", \"stage\": 11, \"microbatch\": 65535, \"start_ms\": 0.0, "
        "\"end_ms\": 12.000001}",
        &s));
    assert_int_equal(s.rank, 3);
    assert_int_equal(s.op.kind, SL_W);
    assert_int_equal(s.op.stage, 11);
    assert_int_equal(s.op.microbatch, 65535);
    assert_int_equal(s.start, 0);
    assert_int_equal(s.end, 12000001);
    assert_int_equal(s.op.part, 0);
    assert_true(sl_plan_item_span(
        "{\"rank\": 0, \"op\": \"F\", \"stage\": 0, \"microbatch\": 0, \"start_ms\": 999999999.5, "
        "\"end_ms\": 999999999.5, \"part\": 3}",
        &s));
    assert_int_equal(s.start, 999999999500000);
    assert_int_equal(s.op.part, 3);
}

/* Valid JSON or not: only what is surely right is taken. */
static void other_forms_are_left_to_the_parser(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{}",
        "{\"rank\":3, \"op\": \"W\", \"stage\": 1, \"microbatch\": 5, \"start_ms\": 0.0, \"end_ms\": 1.0}",
        "{\"rank\": 03, \"op\": \"W\", \"stage\": 1, \"microbatch\": 5, \"start_ms\": 0.0, \"end_ms\": 1.0}",
        "{\"rank\": 1024, \"op\": \"W\", \"stage\": 1, \"microbatch\": 5, \"start_ms\": 0.0, \"end_ms\": "
        "1.0}",
        "{\"rank\": 3, \"op\": \"V\", \"stage\": 1, \"microbatch\": 5, \"start_ms\": 0.0, \"end_ms\": 1.0}",
        "{\"rank\": 3, \"op\": \"W\", \"stage\": 4096, \"microbatch\": 5, \"start_ms\": 0.0, \"end_ms\": "
        "1.0}",
        "{\"rank\": 3, \"op\": \"gather\", \"stage\": 1, \"microbatch\": -1, \"start_ms\": 0.0, \"end_ms\": "
        "1.0}",
        "{\"rank\": 3, \"op\": \"W\", \"stage\": 1, \"microbatch\": 5, \"start_ms\": 5e-05, \"end_ms\": 1.0}",
        "{\"rank\": 3, \"op\": \"W\", \"stage\": 1, \"microbatch\": 5, \"start_ms\": 0, \"end_ms\": 1.0}",
        "{\"rank\": 3, \"op\": \"W\", \"stage\": 1, \"microbatch\": 5, \"start_ms\": 0.1234567, \"end_ms\": "
        "1.0}",
        "{\"rank\": 3, \"op\": \"W\", \"stage\": 1, \"microbatch\": 5, \"start_ms\": 2.0, \"end_ms\": 1.0}",
        "{\"rank\": 3, \"op\": \"W\", \"stage\": 1, \"microbatch\": 5, \"start_ms\": 0.0, \"end_ms\": 1.0} ",
        "{\"rank\": 3, \"op\": \"W\", \"stage\": 1, \"microbatch\": 5, \"start_ms\": 0.0, \"end_ms\": 1.0, "
        "\"part\": 64}",
        "{\"rank\": 3, \"op\": \"W\", \"stage\": 1, \"microbatch\": 5, \"start_ms\": 0.0, \"end_ms\": 1.0, "
        "\"x\": 1}",
        "{\"rank\": 3, \"op\": \"W\", \"stage\": 1, \"microbatch\": 5, \"start_ms\": 0.0, \"end_ms\": 1.0"};
    sl_span s;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (sl_plan_item_span(texts[i], &s))
            fail_msg("taken: %s", texts[i]);
}

static void a_transfer_is_read(void **state) {
    (void)state;
    sl_transfer t;
    assert_true(sl_plan_item_transfer(
        "{\"from\": 1, \"to\": 2, \"op\": \"F\", \"stage\": 5, \"microbatch\": 6, \"start_ms\": "
        "1.5, \"end_ms\": 2.25, \"arrive_ms\": 62.25}",
        &t));
    assert_int_equal(t.from, 1);
    assert_int_equal(t.to, 2);
    assert_int_equal(t.op.kind, SL_F);
    assert_int_equal(t.op.stage, 5);
    assert_int_equal(t.op.microbatch, 6);
    assert_int_equal(t.start, 1500000);
    assert_int_equal(t.end, 2250000);
    assert_int_equal(t.arrive, 62250000);
    assert_false(sl_plan_item_transfer(
        "{\"from\": 1, \"to\": 2, \"op\": \"F\", \"stage\": 5, \"microbatch\": 6, \"start_ms\": "
        "1.5, \"end_ms\": 2.25, \"arrive_ms\": 2.0}",
        &t));
    assert_false(
        sl_plan_item_transfer("{\"from\": 1, \"to\": 2, \"op\": \"fetch\", \"stage\": 5, \"microbatch\": 6, "
                              "\"start_ms\": 1.5, \"end_ms\": 2.25, \"arrive_ms\": 2.5}",
                              &t));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_op_is_read),
        cmocka_unit_test(other_forms_are_left_to_the_parser),
        cmocka_unit_test(a_transfer_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
