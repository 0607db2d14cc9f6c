/* Positions of devices: what crosses hosts and sites, and the search for the best where hosts differ. */
#include "choose/search/small_cluster.h"

#include "choose/search/positions.h"
#include "choose/search/shape_arrange.h"

/* Two sites of two hosts with two devices; 5 ms between the sites, 1 ms within one. */
static void positions_know_what_crosses_a_site(void **state) {
    (void)state;
    sl_devices d;
    make_devices(4, 2, 0, 0, 0, &d);
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++)
            d.latency[a * 4 + b] = a == b ? 0 : a / 2 == b / 2 ? 1e6 : 5e6;
    d.device[7].speed = 0.5;
    sl_shape s = {.division = {.tensor = 2, .context = 1, .expert = 1, .size = 1}, .data = 2, .pipeline = 2};
    sl_position_table plans = {.devices = &d};
    const sl_positions *positions;
    /* stage 0 on hosts 0 and 1, stage 1 on 2 and 3: the pipeline crosses, the rings do not */
    assert_ok(sl_positions_of(&plans, &s, &positions));
    assert_int_equal(sl_shape_device(&s, 1, 0, 1, 0), 3);
    assert_near(positions->hop_latency[0], 5e6, 0);
    assert_near(positions->ring_latency[0], 1e6, 0);
    assert_near(positions->latency[SL_WORK_TENSOR], 0, 0);
    assert_near(positions->speed[0], 1, 0);
    assert_near(positions->speed[1], 0.5, 0);
    /* replica 0 on hosts 0 and 1, replica 1 on 2 and 3 */
    s.neighbors = SL_NEIGHBOR_STAGES;
    assert_ok(sl_positions_of(&plans, &s, &positions));
    assert_int_equal(sl_shape_device(&s, 1, 0, 1, 0), 5);
    assert_near(positions->hop_latency[0], 1e6, 0);
    assert_near(positions->ring_latency[0], 5e6, 0);
    assert_near(positions->ring_latency[1], 5e6, 0);
    sl_position_table_free(&plans);
    free_devices(&d);
}

/* A replica's positions are those of its own devices; the rings are those of all. */
static void replicas_of_one_kind_are_equal(void **state) {
    (void)state;
    sl_devices d;
    sl_replica_kinds kinds;
    make_devices(4, 2, 80, 1e5, 0.1, &d);
    d.device[6].speed = 0.5; /* of the last host */
    sl_shape s = {.division = {.tensor = 1, .context = 1, .expert = 1, .size = 1},
                  .data = 4,
                  .pipeline = 2,
                  .neighbors = SL_NEIGHBOR_STAGES};
    sl_position_table plans = {.devices = &d};
    assert_ok(sl_replica_kinds_of(&plans, &s, &kinds));
    assert_int_equal(kinds.count, 2);
    assert_int_equal(kinds.kind[0].replicas, 3);
    assert_int_equal(kinds.kind[1].replicas, 1);
    assert_int_equal(kinds.of[3], 1);
    assert_near(kinds.kind[0].positions.speed[0], 1, 0);
    assert_near(kinds.kind[1].positions.speed[0], 0.5, 0);
    assert_near(kinds.kind[1].positions.speed[1], 1, 0);
    assert_near(kinds.kind[1].positions.ring_latency[0], 1e5, 0);
    assert_near(kinds.kind[1].positions.hop_latency[0], 0, 0);
    sl_replica_kinds_free(&kinds);
    sl_position_table_free(&plans);
    free_devices(&d);
}

/* Every assignment of four devices to the positions of two replicas of two ranks, each planned; *file: that
 * of the order of the file. */
static sl_time best_of_assignments(const sl_model_work *m, const sl_devices *d, const sl_shape *s,
                                   sl_time *file) {
    const sl_choose_options options = {.seed = 1};
    sl_time best = SL_TIME_NEVER;
    for (int code = 0; code < 256; code++) {
        const int device[] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6};
        int seen = 0;
        for (int i = 0; i < 4; i++)
            seen |= 1 << device[i];
        if (seen != 15)
            continue;
        sl_devices other = *d;
        sl_position_table positions = {.devices = &other};
        const sl_shape_planning there = {
            .model = m, .devices = &other, .options = &options, .positions = &positions};
        sl_choice made;
        other.device = calloc(4, sizeof *other.device);
        for (int i = 0; i < 4; i++)
            other.device[i] = d->device[device[i]];
        assert_ok(sl_shape_plan(&there, s, 0, 0.02, 1, &made));
        best = sl_sooner(best, made.time);
        if (code == (0 | 1 << 2 | 2 << 4 | 3 << 6))
            *file = made.time;
        sl_choice_free(&made);
        sl_position_table_free(&positions);
        free(other.device);
    }
    return best;
}

/* The first and the last host are on another site, or half as fast: the order of the file is wrong for both
 * kinds of neighbors. */
static void positions_are_found_where_hosts_differ(void **state) {
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        sl_model_work m;
        sl_devices d;
        sl_choices found;
        sl_shape_fixed fixed = sl_shape_free();
        fixed.data = fixed.pipeline = 2;
        fixed.chunks = fixed.size = 1;
        fixed.zero = fixed.uneven = fixed.again = 0;
        make_model(4, 8, 1e6, 1e6, &m);
        make_devices(4, 1, 0, 1e4, 0.1, &d);
        const int site[] = {0, 1, 1, 0};
        for (int i = 0; i < 16 && !slow; i++)
            if (site[i / 4] != site[i % 4])
                d.latency[i] = 1e7;
        if (slow) {
            d.device[0].speed = d.device[3].speed = 0.5;
            for (int i = 0; i < 16; i++)
                d.pace[i] = i / 4 == i % 4 ? 0 : 0.01;
        }
        assert_ok(choose(&m, &d, &fixed, &found));
        const sl_choice *c = &found.choice[0];
        sl_time file = 0, best = best_of_assignments(&m, &d, &c->shape, &file);
        printf("all assignments: %.3f ms, that of the file %.3f, found %.3f\n", sl_to_ms(best),
               sl_to_ms(file), sl_to_ms(c->time));
        assert_true((double)c->time <= 1.005 * (double)best && found.bound <= c->time);
        assert_true(c->device && (double)c->time < 0.95 * (double)file);
        assert_int_equal(1 << c->device[0] | 1 << c->device[1] | 1 << c->device[2] | 1 << c->device[3], 15);
        sl_choices_free(&found);
        free_model(&m);
        free_devices(&d);
    }
}

/* Where all hosts and links are alike, ranks are in the order of the file. */
static void equal_hosts_keep_their_order(void **state) {
    (void)state;
    sl_devices d;
    make_devices(3, 2, 1e9, 1e4, 0.1, &d);
    assert_int_equal(sl_arrange_matters(&d), 0);
    d.latency[4] = 5; /* within a host */
    assert_int_equal(sl_arrange_matters(&d), 1);
    d.latency[4] = 0;
    d.pace[1] = 0.2;
    assert_int_equal(sl_arrange_matters(&d), 1);
    d.pace[1] = 0.1;
    d.device[5].speed = 0.9;
    assert_int_equal(sl_arrange_matters(&d), 1);
    free_devices(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions_know_what_crosses_a_site),
        cmocka_unit_test(replicas_of_one_kind_are_equal),
        cmocka_unit_test(positions_are_found_where_hosts_differ),
        cmocka_unit_test(equal_hosts_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
