/* A plan's JSON as an order: the ops of every rank, also in parts; what does not fit is refused by name. */
#include "check.h"

#include "base/file.h"
#include "base/memory.h"
#include "plan/search/plan.h"
#include "plan/search/plan_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char file[] = "/tmp/slackline-plan-order.XXXXXX";

static void write_text(const char *text, size_t size) {
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static sl_problem shape(int ranks, int stages, int microbatches, sl_placement placement) {
    sl_problem p;
    assert_ok(sl_problem_make(ranks, stages, microbatches, &p));
    p.placement = placement;
    for (int s = 0; s < stages; s++) {
        p.time[SL_F][s] = p.time[SL_I][s] = p.time[SL_W][s] = 8 * SL_MS;
        p.time[SL_B][s] = 16 * SL_MS;
    }
    return p;
}

static sl_problem cut(int ranks, int microbatches, int parts) {
    sl_problem p = shape(ranks, ranks, microbatches, SL_LINEAR);
    p.parts = parts;
    return p;
}

static void write_plan(const sl_problem *p, const char *schedule, sl_plan *plan) {
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_ok(sl_plan_make(p, schedule, plan));
    assert_ok(sl_plan_write_json(p, plan, out));
    fclose(out);
    write_text(text, size);
    free(text);
}

static sl_status read_order(const sl_problem *p, sl_order *order) {
    char *text;
    size_t size;
    assert_ok(sl_file_read(file, &text, &size));
    sl_status status = sl_plan_parse_order(file, text, size, p, order);
    sl_free(text);
    return status;
}

static void a_plan_is_read_as_it_was(void **state) {
    (void)state;
    static const struct {
        int ranks, stages, microbatches, parts;
        sl_placement placement;
        const char *schedule;
    } tries[] = {{4, 4, 8, 1, SL_LINEAR, "1f1b"},           {3, 3, 5, 1, SL_LINEAR, "zb-h2"},
                 {4, 4, 6, 2, SL_LINEAR, "cross-ud-sub"},   {5, 5, 7, 4, SL_LINEAR, "cross-ud-sub"},
                 {4, 8, 8, 1, SL_LOOP, "interleaved-1f1b"}, {4, 8, 9, 1, SL_WAVE, "zb-v"},
                 {2, 4, 6, 1, SL_WAVE, "dualpipe-v"},       {4, 8, 8, 1, SL_BIDIRECTIONAL, "chimera"}};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        sl_problem p = shape(tries[i].ranks, tries[i].stages, tries[i].microbatches, tries[i].placement);
        p.parts = tries[i].parts;
        sl_plan plan, again;
        sl_order order;
        write_plan(&p, tries[i].schedule, &plan);
        assert_ok(read_order(&p, &order));
        assert_true(sl_order_equal(&plan.order, &order));
        assert_ok(sl_plan_of_order(&p, &order, "file", &again));
        assert_int_equal(again.makespan, plan.makespan);
        sl_plan_free(&again);
        sl_order_free(&order);
        sl_plan_free(&plan);
        sl_problem_free(&p);
    }
}

static void refused(const sl_problem *p, const char *says) {
    sl_order order;
    assert_int_equal(read_order(p, &order), SL_EINVAL);
    if (!strstr(sl_error_text(), says) || !strstr(sl_error_text(), file))
        fail_msg("'%s' lacks '%s' or the file", sl_error_text(), says);
}

static void another_problem_is_refused_by_name(void **state) {
    (void)state;
    sl_problem p = cut(4, 6, 2), fewer = cut(3, 6, 2), longer = cut(4, 7, 2), whole = cut(4, 6, 1);
    sl_plan plan;
    write_plan(&p, "cross-ud-sub", &plan);
    refused(&fewer, "the plan is for 4 ranks, the pipeline has 3");
    refused(&longer, "missing");
    refused(&whole, "part");
    p.communication = SL_FIFO;
    refused(&p, "csv-comms");
    p.communication = SL_DECOUPLED;
    write_text("{\"format\": \"slackline-plan-1\"", 29);
    refused(&p, "");
    sl_plan_free(&plan);
    sl_problem_free(&p);
    sl_problem_free(&fewer);
    sl_problem_free(&longer);
    sl_problem_free(&whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_read_as_it_was),
        cmocka_unit_test(another_problem_is_refused_by_name),
    };
    int descriptor = mkstemp(file);
    if (descriptor < 0)
        return 1;
    close(descriptor);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(file);
    return failed;
}
