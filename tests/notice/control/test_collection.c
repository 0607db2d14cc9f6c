/* The calls of a profile: peers of NCCL's calls, which are ranks of their communicator, become ranks of the
 * world. */
#include "check.h"

#include "notice/control/collection.h"
#include "notice/detect/call_profile.h"
#include <string.h>

#define TENSOR(group) (0x7000u + (uint64_t)(group))
#define STAGES(column) (0x9000u + (uint64_t)(column))

typedef struct job {
    sl_nodes nodes;
    sl_collection collection;
} job;

static void open_job(job *j, int ranks) {
    sl_job_node *node;
    int change;
    json_t *beat = json_pack("{s:s,s:s,s:i,s:i,s:i,s:[]}", "node", "here", "clock", "ours", "calls", 1,
                             "lost", 0, "validate", 1, "ranks");
    *j = (job){.nodes = {.clock = "ours"}};
    assert_ok(sl_nodes_hear(&j->nodes, beat, 0, &node, &change));
    json_decref(beat);
    assert_ok(sl_collection_begin(&j->collection, 1, ranks));
}

static void tell(job *j, int world, const sl_call *calls, uint32_t count) {
    sl_message_head head = {.count = count, .round = 1, .rank = world, .look = 1};
    snprintf(head.node, sizeof head.node, "here");
    assert_ok(sl_collection_add(&j->collection, &j->nodes, &head, calls));
}

static sl_call nccl(int call, uint64_t communicator, int rank, int peer, int64_t start, int64_t end) {
    return (sl_call){.kind = SL_RECORD_CALL,
                     .call = (uint8_t)call,
                     .tag = SL_TAG_NONE,
                     .rank = rank,
                     .peer = peer,
                     .communicator = communicator,
                     .bytes = 1 << 20,
                     .start = start,
                     .end = end,
                     .device = -1};
}

static void peers_of_nccl_are_named_by_the_world(void **state) {
    (void)state;
    job j;
    open_job(&j, 8);
    /* world ranks 6 and 3 are ranks 1 and 0 of one communicator */
    tell(&j, 6, (sl_call[]){nccl(SL_CALL_ncclSend, STAGES(2), 1, 0, 0, 10)}, 1);
    tell(&j, 3,
         (sl_call[]){nccl(SL_CALL_ncclRecv, STAGES(2), 0, 1, 0, 10),
                     nccl(SL_CALL_ncclSend, STAGES(5), 0, 1, 20, 30)},
         2);
    sl_collection_settle(&j.collection);
    const sl_call *call = j.collection.call;
    assert_int_equal(call[0].rank, 6);
    assert_int_equal(call[0].peer, 3);
    assert_int_equal(call[1].rank, 3);
    assert_int_equal(call[1].peer, 6);
    assert_int_equal(call[2].peer, SL_PEER_UNKNOWN); /* nobody says who that is */
    sl_collection_end(&j.collection);
    sl_nodes_close(&j.nodes);
}

static void peers_of_mpi_stay(void **state) {
    (void)state;
    job j;
    open_job(&j, 8);
    tell(&j, 5, (sl_call[]){nccl(SL_CALL_MPI_Send, 77, 5, 2, 0, 10)}, 1);
    tell(&j, 2, (sl_call[]){nccl(SL_CALL_ncclAllReduce, 77, 0, SL_PEER_NONE, 0, 10)}, 1);
    sl_collection_settle(&j.collection);
    assert_int_equal(j.collection.call[0].peer, 2);
    assert_int_equal(j.collection.call[1].peer, SL_PEER_NONE);
    sl_collection_end(&j.collection);
    sl_nodes_close(&j.nodes);
}

/* 2 stages x 4 tensor ranks: every tensor group's ranks are 0 to 3, and so are those of no other's. Rank 6 (2
 * of the second group) computes longer from some time on; the first group waits for its gradients. */
static void fill(job *j, int iterations, int64_t late) {
    for (int world = 0; world < 8; world++) {
        sl_call calls[3 * 64];
        uint32_t count = 0;
        int group = world / 4, own = world % 4;
        for (int i = 0; i < iterations; i++) {
            int64_t begin = (int64_t)i * (40000000 + late), mine = 10000000 + (world == 6 ? late : 0),
                    all = 10000000 + (group ? late : 0);
            calls[count++] = nccl(SL_CALL_ncclAllReduce, TENSOR(group), own, SL_PEER_NONE, begin + mine,
                                  begin + all + 1000000);
            int64_t there = begin + 20000000, back = begin + 30000000, slow = group ? late : 0;
            calls[count++] = nccl(group ? SL_CALL_ncclRecv : SL_CALL_ncclSend, STAGES(own), group, !group,
                                  there + slow, there + slow + 1000000);
            calls[count++] = nccl(group ? SL_CALL_ncclSend : SL_CALL_ncclRecv, STAGES(own), group, !group,
                                  back + slow, back + late + 1000000);
        }
        tell(j, world, calls, count);
    }
    sl_collection_settle(&j->collection);
}

static void a_slow_device_of_one_tensor_group_is_named_by_its_world_rank(void **state) {
    (void)state;
    job j;
    sl_call_profile *healthy, *now;
    sl_suspect suspect[8];
    size_t count;
    char reason[256];
    open_job(&j, 8);
    fill(&j, 20, 0);
    assert_ok(sl_call_profile_make(j.collection.call, j.collection.calls, 8, 0, &healthy));
    sl_collection_end(&j.collection);
    sl_nodes_close(&j.nodes);
    open_job(&j, 8);
    fill(&j, 20, 8000000);
    assert_ok(sl_call_profile_make(j.collection.call, j.collection.calls, 8, 0, &now));
    sl_collection_end(&j.collection);
    sl_nodes_close(&j.nodes);
    assert_ok(sl_call_profile_compare(now, healthy, 0, suspect, 8, &count, reason, sizeof reason));
    assert_true(count >= 1);
    assert_int_equal(suspect[0].component, SL_COMPONENT_DEVICE);
    assert_int_equal(suspect[0].rank, 6);
    sl_call_profile_close(healthy);
    sl_call_profile_close(now);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers_of_nccl_are_named_by_the_world), cmocka_unit_test(peers_of_mpi_stay),
        cmocka_unit_test(a_slow_device_of_one_tensor_group_is_named_by_its_world_rank)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
