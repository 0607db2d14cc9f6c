/* Heartbeats: what a node says of its ranks is heard within the limits of a job, and not at all beyond them.
 */
#include "base/memory.h"
#include "check.h"
#include "notice/control/nodes.h"

/* A heartbeat of one rank, with one of its fields as given; *node is NULL where it is not heard. */
static sl_job_node *hear(sl_nodes *nodes, const char *field, json_t *value) {
    sl_job_node *node = NULL;
    int change;
    json_t *rank =
        json_pack("{s:i,s:i,s:i,s:i,s:s}", "rank", 3, "pid", 77, "size", 4, "period", 6, "cpus", "0-3");
    json_t *beat = json_pack("{s:s,s:s,s:s,s:I,s:i,s:i,s:i}", "node", "n", "host", "h", "clock", "c", "now",
                             (json_int_t)5, "calls", 9, "lost", 0, "validate", 1);
    json_object_set_new(json_object_get(beat, field) ? beat : rank, field, value);
    json_object_set_new(beat, "ranks", json_pack("[o]", rank));
    assert_ok(sl_nodes_hear(nodes, beat, 100, &node, &change));
    json_decref(beat);
    return node;
}

static void a_heartbeat_may_not_name_more_than_a_job_can_have(void **state) {
    (void)state;
    static const struct {
        const char *field;
        json_int_t value;
    } wrong[] = {{"rank", -1},         {"rank", 2147483647},  {"rank", 4294967299},
                 {"size", 2147483647}, {"size", 0},           {"size", -4},
                 {"pid", 0},           {"pid", -1},           {"pid", 4294967297},
                 {"period", -1},       {"period", 1LL << 40}, {"calls", -1},
                 {"lost", -1},         {"validate", 7}};
    sl_nodes nodes = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (hear(&nodes, wrong[i].field, json_integer(wrong[i].value)))
            fail_msg("%s %lld is heard", wrong[i].field, (long long)wrong[i].value);
    assert_int_equal(nodes.count, 0);
    assert_int_equal(sl_nodes_world(&nodes), 0);
    char name[400];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_null(hear(&nodes, "node", json_string(name)));
    assert_null(hear(&nodes, "clock", json_string(name)));
    assert_null(hear(&nodes, "rank", json_string("3")));
    const sl_job_node *node = hear(&nodes, "rank", json_integer(2));
    assert_non_null(node);
    assert_int_equal(node->ranks, 1);
    assert_int_equal(node->rank[0].rank, 2);
    assert_int_equal(sl_nodes_world(&nodes), 4);
    sl_nodes_close(&nodes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_heartbeat_may_not_name_more_than_a_job_can_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
