/* A recorder's verdict joined with the one by slackline's own records. */
#include "check.h"
#include "notice/hang/recorders.h"
#include "notice/hang/torch_dump.h"

#include <stdio.h>

/* Two ranks that have made `entered[r]` sums, as their flight recorders show it. */
static void record(sl_hang_job *job, const int *entered, int ranks) {
    char name[32], text[512];
    for (int r = 0; r < ranks; r++) {
        snprintf(name, sizeof name, "dump_%d", r);
        int used = snprintf(text, sizeof text, "{\"pg_config\": {}, \"entries\": [");
        for (int i = 1; i <= entered[r]; i++)
            used += snprintf(text + used, sizeof text - (size_t)used,
                             "%s{\"collective_seq_id\": %d, \"process_group\": [\"0\", \"\"], "
                             "\"profiling_name\": \"nccl:all_reduce\", "
                             "\"state\": \"%s\"}",
                             i > 1 ? "," : "", i, i < 2 ? "completed" : "started");
        used += snprintf(text + used, sizeof text - (size_t)used, "]}");
        assert_int_equal(sl_torch_dump_add(name, text, (size_t)used, job), SL_OK);
    }
}

/* The same two ranks, in calls that no probe could see into: they stand, and nothing is known. */
static void stand(sl_hang_job *job, double still_s) {
    for (int r = 0; r < 2; r++) {
        sl_hang_rank rank = {.rank = r, .pid = 10 + r, .still_s = still_s + r};
        assert_int_equal(sl_hang_add(job, &rank), SL_OK);
    }
}

static sl_hang_verdict joined(double still_s, int ranks, sl_hang_verdict own, sl_hang_verdict *recorded) {
    sl_hang_job job = {0}, from = {0};
    const int entered[2] = {2, 1};
    stand(&job, still_s);
    record(&from, entered, ranks);
    assert_int_equal(sl_hang_recorders_join(&job, 20, &from, "the recorder", &own, recorded), SL_OK);
    sl_hang_job_free(&job);
    sl_hang_job_free(&from);
    return own;
}

static void what_only_the_recorder_knows_is_the_verdict(void **state) {
    (void)state;
    sl_hang_verdict recorded, v = joined(21, 2, (sl_hang_verdict){.rank = -1}, &recorded);
    assert_int_equal(v.cause, SL_HANG_AWAY);
    assert_int_equal(v.rank, 1);
    assert_true(v.for_s == 21);
    assert_non_null(strstr(v.why, "by the recorder"));
    v = joined(21, 2, (sl_hang_verdict){.cause = SL_HANG_INSIDE, .rank = -1}, &recorded);
    assert_int_equal(v.rank, 1);
}

static void own_records_that_name_a_rank_stay(void **state) {
    (void)state;
    sl_hang_verdict recorded,
        v = joined(21, 2, (sl_hang_verdict){.cause = SL_HANG_ENDED, .rank = 0, .why = "why"}, &recorded);
    assert_int_equal(v.cause, SL_HANG_ENDED);
    assert_int_equal(v.rank, 0);
    assert_int_equal(recorded.rank, 1);
    assert_non_null(strstr(v.why, "why; the recorder: rank 1 has not entered"));
}

static void a_job_that_does_not_stand_yet_and_a_rank_that_is_not_recorded_have_no_verdict(void **state) {
    (void)state;
    sl_hang_verdict recorded;
    assert_int_equal(joined(19, 2, (sl_hang_verdict){.rank = -1}, &recorded).cause, SL_HANG_NOTHING);
    assert_int_equal(joined(21, 1, (sl_hang_verdict){.rank = -1}, &recorded).cause, SL_HANG_NOTHING);
    assert_int_equal(recorded.cause, SL_HANG_NOTHING);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_only_the_recorder_knows_is_the_verdict),
        cmocka_unit_test(own_records_that_name_a_rank_stay),
        cmocka_unit_test(a_job_that_does_not_stand_yet_and_a_rank_that_is_not_recorded_have_no_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
