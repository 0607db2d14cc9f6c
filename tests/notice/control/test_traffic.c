/* Who sends to whom: MPI by the world, NCCL by who a rank of a communicator is, counted per profile. */
#include "check.h"
#include "notice/control/standing.h"

#include <math.h>

static void tell(sl_traffic *t, int64_t round, int rank, int last, int calm, const sl_call *calls,
                 uint32_t count) {
    sl_message_head head = {.rank = rank, .round = round, .look = last, .count = count};
    assert_ok(sl_traffic_take(t, &head, calls, calm));
}

static sl_call call_of(int call, int peer, uint64_t bytes, int64_t took) {
    return (sl_call){.kind = SL_RECORD_CALL,
                     .call = (uint8_t)call,
                     .peer = peer,
                     .bytes = bytes,
                     .start = 1000,
                     .end = 1000 + took,
                     .device = -1};
}

static sl_call done(sl_call call) {
    call.kind = SL_RECORD_COMPLETION;
    return call;
}

static sl_call nccl(int call, uint64_t communicator, int rank, int peer, int64_t device) {
    sl_call one = call_of(call, peer, 100, 5);
    one.communicator = communicator;
    one.rank = rank;
    one.device = device;
    return one;
}

static const sl_traffic_link *link_of(const sl_traffic *t, int from, int to) {
    for (size_t i = 0; i < t->links; i++)
        if (t->link[i].from == from && t->link[i].to == to)
            return &t->link[i];
    return NULL;
}

static void a_blocking_send_is_timed_itself_and_a_posted_one_by_its_completion(void **state) {
    sl_traffic t = {0};
    (void)state;
    sl_call posted = call_of(SL_CALL_MPI_Isend, 2, 1000, 10),
            ended = done(call_of(SL_CALL_MPI_Isend, 2, 1000, 4000000));
    sl_call calls[] = {call_of(SL_CALL_MPI_Send, 1, 8, 2000000),
                       call_of(SL_CALL_MPI_Send, 1, 8, 4000000),
                       posted,
                       ended,
                       call_of(SL_CALL_MPI_Recv, 3, 8, 9),
                       call_of(SL_CALL_MPI_Send_init, 4, 16, 5),
                       done(call_of(SL_CALL_MPI_Send_init, 4, 16, 1000000)),
                       done(call_of(SL_CALL_MPI_Send_init, 4, 16, 3000000)),
                       call_of(SL_CALL_glooSend, 5, 7, 1000000),
                       call_of(SL_CALL_MPI_Send, 0, 8, 9),
                       call_of(SL_CALL_MPI_Send, SL_PEER_UNKNOWN, 8, 9)};
    tell(&t, 7, 0, 1, 1, calls, sizeof calls / sizeof *calls);
    assert_int_equal(t.links, 4); /* receives, itself and ranks of elsewhere are none */
    const sl_traffic_link *l = link_of(&t, 0, 1);
    assert_true(l->messages == 2 && l->bytes == 16 && l->timed == 2);
    assert_near(l->busy_ms, 6, 1e-9);
    assert_near(l->usual_ms, 3, 1e-9);
    l = link_of(&t, 0, 2);
    assert_true(l->messages == 1 && l->bytes == 1000 && l->timed == 1);
    assert_near(l->busy_ms, 4, 1e-9);
    l = link_of(&t, 0, 4); /* a persistent request was started twice */
    assert_true(l->messages == 2 && l->bytes == 32 && l->timed == 2);
    assert_near(l->busy_ms, 4, 1e-9);
    assert_true(link_of(&t, 0, 5)->bytes == 7);
    sl_traffic_close(&t);
}

/* Communicator 9 has the ranks 3, 2, 1 of the world as 0, 1, 2. */
static void a_peer_of_nccl_is_told_once_that_rank_has_said_who_it_is(void **state) {
    sl_traffic t = {0};
    (void)state;
    sl_call first[] = {nccl(SL_CALL_ncclSend, 9, 0, 2, -1), done(nccl(SL_CALL_ncclSend, 9, 0, 2, 2000000))};
    tell(&t, 1, 3, 1, 1, first, 2);
    assert_int_equal(t.links, 0); /* nobody knows who is rank 2 of it */
    sl_call second[] = {nccl(SL_CALL_ncclRecv, 9, 2, 0, -1), nccl(SL_CALL_ncclSend, 9, 2, 1, -1)};
    tell(&t, 1, 1, 1, 1, second, 2);
    assert_int_equal(t.links, 1);
    const sl_traffic_link *l = link_of(&t, 3, 1);
    assert_non_null(l);
    assert_true(l->messages == 1 && l->bytes == 100 && l->timed == 1);
    assert_near(l->busy_ms, 2, 1e-9);
    sl_call third[] = {nccl(SL_CALL_ncclAllReduce, 9, 1, SL_PEER_NONE, -1)};
    tell(&t, 1, 2, 1, 1, third, 1);
    assert_non_null(link_of(&t, 1, 2)); /* any call says who it is */
    sl_call other[] = {nccl(SL_CALL_ncclSend, 8, 0, 1, -1), nccl(SL_CALL_ncclRecv, 8, 1, 0, -1)};
    tell(&t, 1, 0, 1, 1, other, 1);
    tell(&t, 1, 1, 0, 1, other + 1, 1); /* of its last part the rest was told before */
    tell(&t, 1, 5, 1, 1, NULL, 0);
    assert_non_null(link_of(&t, 0, 1)); /* another communicator, other names */
    sl_traffic_close(&t);
}

static void what_nccl_sends_for_a_call_is_not_counted_a_second_time(void **state) {
    sl_traffic t = {0};
    (void)state;
    sl_call calls[] = {nccl(SL_CALL_ncclSend, 9, 0, 1, -1),
                       done(nccl(SL_CALL_ncclProxySend, 9, 0, 1, 2000000)),
                       done(nccl(SL_CALL_ncclProxyGpuWait, 9, 0, 1, 5000000)),
                       done(nccl(SL_CALL_ncclSend, 9, 0, 1, 3000000))},
            other[] = {nccl(SL_CALL_ncclRecv, 9, 1, 0, -1)};
    tell(&t, 1, 1, 1, 1, other, 1);
    tell(&t, 1, 0, 1, 1, calls, sizeof calls / sizeof *calls);
    const sl_traffic_link *link = link_of(&t, 0, 1);
    assert_non_null(link);
    assert_int_equal(link->messages, 1);
    assert_int_equal(link->timed, 1);
    assert_near(link->busy_ms, 3, 1e-9);
    sl_traffic_close(&t);
}

static void a_profile_counts_anew_and_keeps_what_was_usual(void **state) {
    sl_traffic t = {0};
    (void)state;
    sl_call quick = call_of(SL_CALL_MPI_Send, 1, 8, 1000000), slow = call_of(SL_CALL_MPI_Send, 1, 8, 5000000);
    tell(&t, 1, 0, 0, 1, &quick, 1);
    assert_int_equal(t.links, 0); /* its part is not whole */
    tell(&t, 1, 0, 1, 1, &quick, 1);
    assert_true(link_of(&t, 0, 1)->messages == 2);
    uint64_t before = t.number;
    tell(&t, 2, 0, 1, 0, &slow, 1);
    const sl_traffic_link *l = link_of(&t, 0, 1);
    assert_true(l->messages == 1 && l->timed == 1 && l->number > before && l->round == 2);
    assert_near(l->busy_ms, 5, 1e-9);
    assert_near(l->usual_ms, 1, 1e-9);
    tell(&t, 3, 2, 1, 0, &slow, 1);
    assert_true(isnan(link_of(&t, 2, 1)->usual_ms)); /* seen only while something was slow */
    sl_traffic_close(&t);
}

/* 1,000 ranks in a ring of 8 peers each, every peer an NCCL rank of a communicator that counts backwards. */
static void many_ranks_and_communicators_keep_their_names(void **state) {
    enum { RANKS = 1000, PEERS = 8 };
    sl_traffic t = {0};
    (void)state;
    for (int rank = 0; rank < RANKS; rank++) {
        sl_call calls[PEERS];
        for (int i = 0; i < PEERS; i++)
            calls[i] = nccl(SL_CALL_ncclSend, 5, RANKS - 1 - rank, RANKS - 1 - (rank + i + 1) % RANKS, -1);
        tell(&t, 1, rank, 1, 1, calls, PEERS);
    }
    assert_int_equal(t.links, RANKS * PEERS);
    for (int rank = 0; rank < RANKS; rank += 37)
        for (int i = 1; i <= PEERS; i++)
            assert_true(link_of(&t, rank, (rank + i) % RANKS)->messages == 1);
    sl_traffic_close(&t);
}

static void whatever_the_calls_say_nothing_breaks(void **state) {
    unsigned seed = getenv("SL_SEED") ? (unsigned)atoi(getenv("SL_SEED")) : 1;
    (void)state;
    printf("seed %u (SL_SEED)\n", seed);
    srand(seed);
    sl_traffic t = {0};
    for (int i = 0; i < 3000; i++) {
        sl_call calls[8];
        for (size_t k = 0; k < sizeof calls; k++)
            ((unsigned char *)calls)[k] = (unsigned char)(rand() % 3 ? rand() % 4 : rand());
        sl_message_head head = {.rank = rand() % 2 ? rand() % 5 : rand() - RAND_MAX / 2,
                                .round = rand() % 4,
                                .look = rand() % 2,
                                .count = 8};
        assert_ok(sl_traffic_take(&t, &head, calls, rand() % 2));
    }
    for (size_t i = 0; i < t.links; i++)
        assert_true(t.link[i].from >= 0 && t.link[i].to >= 0 && t.link[i].from != t.link[i].to);
    sl_traffic_close(&t);
}

static void of_many_iterations_the_shortest_and_the_longest_stay(void **state) {
    sl_standing s = {0};
    (void)state;
    for (int i = 0; i < 100000; i++)
        assert_ok(sl_standing_iteration(&s, i, i == 50001 ? 500 : i == 70003 ? 1 : 10 + i % 3, 0));
    assert_true(s.points <= SL_STANDING_POINTS && s.point[s.points - 1].iteration == 99999);
    int longest = 0, shortest = 0;
    for (int i = 0; i < s.points; i++) {
        longest |= s.point[i].iteration == 50001 && s.point[i].ms == 500;
        shortest |= s.point[i].iteration == 70003 && s.point[i].ms == 1;
        assert_true(i == 0 || s.point[i].iteration > s.point[i - 1].iteration);
    }
    assert_true(longest && shortest);
    sl_standing_close(&s);
}

static void one_that_was_held_is_marked_and_never_the_longest(void **state) {
    sl_standing s = {0};
    (void)state;
    for (int i = 0; i < SL_STANDING_POINTS; i++)
        assert_ok(sl_standing_iteration(&s, i, i % 4 == 2 ? 900 : 10 + i % 4, i % 4 == 2));
    assert_true(s.point[2].held && !s.point[3].held);
    assert_ok(sl_standing_iteration(&s, SL_STANDING_POINTS, 10, 0)); /* now the older half is thinned out */
    assert_int_equal(s.points, SL_STANDING_POINTS / 4 + SL_STANDING_POINTS / 2 + 1);
    for (int i = 0; i < SL_STANDING_POINTS / 4; i++)
        assert_true(!s.point[i].held && s.point[i].ms == (i % 2 ? 13 : 10));
    sl_standing_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_blocking_send_is_timed_itself_and_a_posted_one_by_its_completion),
        cmocka_unit_test(a_peer_of_nccl_is_told_once_that_rank_has_said_who_it_is),
        cmocka_unit_test(what_nccl_sends_for_a_call_is_not_counted_a_second_time),
        cmocka_unit_test(a_profile_counts_anew_and_keeps_what_was_usual),
        cmocka_unit_test(many_ranks_and_communicators_keep_their_names),
        cmocka_unit_test(whatever_the_calls_say_nothing_breaks),
        cmocka_unit_test(of_many_iterations_the_shortest_and_the_longest_stay),
        cmocka_unit_test(one_that_was_held_is_marked_and_never_the_longest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
