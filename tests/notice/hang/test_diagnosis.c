/* The diagnosis of hangs, on jobs written by hand: the mistake, the rank, and what is certain. */
#include "check.h"

#include "notice/record/call.h"
#include "written.h"

#include <string.h>

#define OTHER 0x20

static void called(sl_hang_rank *r, uint64_t number, const char *call, int root, uint64_t bytes) {
    sl_hang_collective *c = &r->collective[r->collectives++];
    *c = (sl_hang_collective){
        .communicator = WORLD, .number = number, .root = root, .sized = 1, .bytes = bytes};
    snprintf(c->call, sizeof c->call, "%s", call);
}

/* Three ranks; the world's collective 5 was entered by those with in[i]. */
static void three(sl_hang_rank *r, const int *in) {
    for (int i = 0; i < 3; i++) {
        r[i] = blank(i);
        counts(&r[i], collective(WORLD), in[i] ? 5 : 4);
        called(&r[i], 4, "MPI_Barrier", -1, 0);
        if (in[i]) {
            called(&r[i], 5, "MPI_Allreduce", -1, 800);
            waits(&r[i], "MPI_Allreduce", collective(WORLD), 5);
        }
    }
}

static void a_rank_that_computes_is_awaited_and_nothing_is_certain(void **state) {
    (void)state;
    sl_hang_rank r[3];
    three(r, (int[]){1, 0, 1});
    computes(&r[1]);
    sl_hang_verdict v = diagnosed(r, 3);
    assert_int_equal(v.cause, SL_HANG_AWAY);
    assert_int_equal(v.certain, 0);
    assert_int_equal(v.rank, 1);
    assert_says(v.seen, "rank 1, ranks 0,2 in MPI_Allreduce, collective 5, for 30 s");
    assert_says(v.why, "1 MPI_Send 'spin < main'");
}

static void nothing_is_said_while_a_rank_still_calls(void **state) {
    (void)state;
    sl_hang_rank r[3];
    three(r, (int[]){1, 0, 1});
    computes(&r[1]);
    r[1].still_s = 2;
    assert_int_equal(diagnosed(r, 3).cause, SL_HANG_NOTHING);
}

static void nothing_is_said_of_short_waits(void **state) {
    (void)state;
    sl_hang_rank r[3];
    three(r, (int[]){1, 0, 1});
    computes(&r[1]);
    r[0].thread[0].for_s = r[2].thread[0].for_s = 19;
    assert_int_equal(diagnosed(r, 3).cause, SL_HANG_NOTHING);
}

static void a_rank_that_ended_never_comes(void **state) {
    (void)state;
    sl_hang_rank r[3];
    three(r, (int[]){1, 0, 1});
    r[1].ended = 1;
    sl_hang_verdict v = diagnosed(r, 3);
    assert_int_equal(v.cause, SL_HANG_ENDED);
    assert_int_equal(v.certain, 1);
    assert_int_equal(v.rank, 1);
}

static void an_ended_rank_that_did_its_part_is_not_blamed(void **state) {
    (void)state;
    sl_hang_rank r[3];
    three(r, (int[]){1, 0, 0});
    counts(&r[2], message(2, 0, 1), 1);
    r[2].channel[0].announced = 5; /* entered all, then ended */
    r[2].ended = r[2].finished = 1;
    computes(&r[1]);
    sl_hang_verdict v = diagnosed(r, 3);
    assert_int_equal(v.cause, SL_HANG_AWAY);
    assert_int_equal(v.rank, 1);
}

static void another_collective_is_named_by_the_smaller_group(void **state) {
    (void)state;
    sl_hang_rank r[3];
    three(r, (int[]){1, 1, 1});
    snprintf(r[2].collective[1].call, SL_HANG_CALL, "MPI_Bcast");
    sl_hang_verdict v = diagnosed(r, 3);
    assert_int_equal(v.cause, SL_HANG_COLLECTIVE);
    assert_int_equal(v.rank, 2);
    assert_says(v.seen, "5: 2 MPI_Bcast, 0,1 MPI_Allreduce");
}

static void two_ranks_that_differ_are_both_named(void **state) {
    (void)state;
    sl_hang_rank r[3];
    three(r, (int[]){1, 1, 1});
    sl_hang_rank_free(&r[2]);
    r[1].collective[1].bytes = 80;
    sl_hang_verdict v = diagnosed(r, 2);
    assert_int_equal(v.cause, SL_HANG_SIZE);
    assert_int_equal(v.rank, -1);
    assert_says(v.seen, "5: 1 MPI_Allreduce 80, 0 MPI_Allreduce 800");
}

static void blocks_of_gatherv_may_differ(void **state) {
    (void)state;
    sl_hang_rank r[3];
    three(r, (int[]){1, 1, 1});
    for (int i = 0; i < 3; i++) {
        snprintf(r[i].collective[1].call, SL_HANG_CALL, "MPI_Gatherv");
        r[i].collective[1].bytes = 8 * (uint64_t)(i + 1);
    }
    sl_hang_verdict v = diagnosed(r, 3);
    assert_int_equal(v.cause, SL_HANG_INSIDE);
    assert_int_equal(v.certain, 0);
}

static void receives_in_a_circle_never_end(void **state) {
    (void)state;
    sl_hang_rank r[3];
    for (int i = 0; i < 3; i++) {
        r[i] = blank(i);
        counts(&r[i], collective(WORLD), 0);
        counts(&r[i], message((i + 1) % 3, i, 4), 1);
        waits(&r[i], "MPI_Recv", message((i + 1) % 3, i, 4), 1);
    }
    sl_hang_verdict v = diagnosed(r, 3);
    assert_int_equal(v.cause, SL_HANG_CIRCLE);
    assert_int_equal(v.certain, 1);
    assert_non_null(strstr(v.seen, "0-2"));
}

static void a_circle_is_certain_while_another_rank_still_calls(void **state) {
    (void)state;
    sl_hang_rank r[3];
    for (int i = 0; i < 2; i++) {
        r[i] = blank(i);
        counts(&r[i], collective(OTHER), 0);
        counts(&r[i], message(1 - i, i, 4), 1);
        waits(&r[i], "MPI_Recv", message(1 - i, i, 4), 1);
    }
    r[2] = blank(2);
    computes(&r[2]);
    r[2].still_s = 0;
    sl_hang_verdict v = diagnosed(r, 3);
    assert_int_equal(v.cause, SL_HANG_CIRCLE);
    assert_int_equal(v.certain, 1);
}

static void a_second_thread_that_works_may_still_send(void **state) {
    (void)state;
    sl_hang_rank r[2];
    for (int i = 0; i < 2; i++) {
        r[i] = blank(i);
        counts(&r[i], message(1 - i, i, 4), 1);
        waits(&r[i], "MPI_Recv", message(1 - i, i, 4), 1);
    }
    computes(&r[1]);
    sl_hang_verdict v = diagnosed(r, 2);
    assert_int_equal(v.certain, 0);
    assert_int_equal(v.rank, 1);
}

static void a_message_with_another_tag_is_found(void **state) {
    (void)state;
    sl_hang_rank r[2];
    r[0] = blank(0);
    r[1] = blank(1);
    counts(&r[0], message(0, 1, 8), 1);
    counts(&r[1], message(0, 1, 7), 1);
    waits(&r[1], "MPI_Recv", message(0, 1, 7), 1);
    r[0].finished = 1;
    sl_hang_verdict v = diagnosed(r, 2);
    assert_int_equal(v.cause, SL_HANG_TAG);
    assert_int_equal(v.rank, 1);
    assert_int_equal(v.peer, 0);
    assert_says(v.seen, "0 8");
}

static void one_of_several_is_enough_for_waitany(void **state) {
    (void)state;
    sl_hang_rank r[3];
    for (int i = 0; i < 3; i++)
        r[i] = blank(i);
    counts(&r[0], message(1, 0, 4), 1);
    counts(&r[0], message(2, 0, 4), 1);
    waits(&r[0], "MPI_Waitany", message(1, 0, 4), 1);
    sl_free(r[0].thread[0].wait);
    assert_int_equal(sl_alloc(&r[0].thread[0].wait, 2, sizeof(sl_hang_wait)), SL_OK);
    r[0].thread[0].wait[0] = (sl_hang_wait){message(1, 0, 4), 1, 1};
    r[0].thread[0].wait[1] = (sl_hang_wait){message(2, 0, 4), 1, 1};
    r[0].thread[0].waits = 2;
    r[1].ended = 1;
    computes(&r[2]);
    sl_hang_verdict v = diagnosed(r, 3);
    assert_int_equal(v.certain, 0);
}

/* Three ranks whose threads compute after they have enqueued `count` collectives for their devices. */
static void enqueued(sl_hang_rank *r, const uint64_t *count) {
    for (int i = 0; i < 3; i++) {
        r[i] = blank(i);
        counts(&r[i], collective(WORLD), count[i]);
        waits(&r[i], "ncclAllReduce", collective(WORLD), count[i]);
        r[i].thread[0].inside = SL_HANG_ON_DEVICE;
        snprintf(r[i].thread[0].doing, sizeof r[i].thread[0].doing, "computes");
    }
}

static void devices_wait_for_the_rank_that_enqueued_less(void **state) {
    (void)state;
    sl_hang_rank r[3];
    enqueued(r, (uint64_t[]){7, 7, 6});
    sl_hang_verdict v = diagnosed(r, 3);
    assert_int_equal(v.cause, SL_HANG_AWAY);
    assert_int_equal(v.rank, 2);
    assert_int_equal(v.certain, 0);
    assert_says(v.why, "2 ncclAllReduce");
    enqueued(r, (uint64_t[]){7, 7, 6});
    r[2].ended = 1;
    v = diagnosed(r, 3);
    assert_int_equal(v.cause, SL_HANG_ENDED);
    assert_int_equal(v.certain, 1);
}

static void hosts_ahead_on_different_communicators_are_no_circle(void **state) {
    (void)state;
    sl_hang_rank r[3];
    enqueued(r, (uint64_t[]){7, 6, 7});
    for (int i = 0; i < 3; i++) {
        sl_hang_wait *both;
        counts(&r[i], collective(OTHER), i == 1 ? 4 : 3);
        assert_int_equal(sl_alloc(&both, 2, sizeof *both), SL_OK);
        both[0] = r[i].thread[0].wait[0];
        both[1] = (sl_hang_wait){collective(OTHER), i == 1 ? 4 : 3, 1};
        sl_free(r[i].thread[0].wait);
        r[i].thread[0].wait = both;
        r[i].thread[0].waits = 2;
    }
    sl_hang_verdict v = diagnosed(r, 3);
    assert_int_equal(v.cause, SL_HANG_AWAY);
    assert_int_equal(v.certain, 0);
}

static void states_of_strangers_are_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"{}", "{\"ranks\": [{}]}", "{\"ranks\": [{\"rank\": -1}]}",
                                        "{\"ranks\": [{\"rank\": \"0\"}]}", "{\"ranks\": 3}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sl_hang_job job = {0};
        json_t *json = json_loads(wrong[i], 0, NULL);
        assert_int_equal(sl_hang_job_read(json, &job), SL_EINVAL);
        json_decref(json);
        sl_hang_job_free(&job);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_computes_is_awaited_and_nothing_is_certain),
        cmocka_unit_test(nothing_is_said_while_a_rank_still_calls),
        cmocka_unit_test(nothing_is_said_of_short_waits),
        cmocka_unit_test(a_rank_that_ended_never_comes),
        cmocka_unit_test(an_ended_rank_that_did_its_part_is_not_blamed),
        cmocka_unit_test(another_collective_is_named_by_the_smaller_group),
        cmocka_unit_test(two_ranks_that_differ_are_both_named),
        cmocka_unit_test(blocks_of_gatherv_may_differ),
        cmocka_unit_test(receives_in_a_circle_never_end),
        cmocka_unit_test(a_circle_is_certain_while_another_rank_still_calls),
        cmocka_unit_test(a_second_thread_that_works_may_still_send),
        cmocka_unit_test(a_message_with_another_tag_is_found),
        cmocka_unit_test(one_of_several_is_enough_for_waitany),
        cmocka_unit_test(devices_wait_for_the_rank_that_enqueued_less),
        cmocka_unit_test(hosts_ahead_on_different_communicators_are_no_circle),
        cmocka_unit_test(states_of_strangers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
