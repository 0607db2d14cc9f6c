/* Topology: the time of an arrangement by hand and by the timing model, bounds, exact search against brute
 * force, and what Falcon and Adaptra found. */
#include "random_problem.h"

#include "adapt/topology/topology_inside.h"
#include "adapt/topology/topology_volume.h"

#ifndef CLUSTERS
#define CLUSTERS 3
#endif
#include "base/memory.h"

#include <math.h>
#include <time.h>

/* All links of this latency and bandwidth, ops of F, I, W ms. */
static void make(int tensor, int data, int pipeline, int microbatches, double latency_ms, double gbps,
                 sl_cluster *c) {
    assert_ok(sl_cluster_make(tensor, data, pipeline, microbatches, c));
    for (int i = 0; i < c->hosts * c->hosts; i++)
        if (i / c->hosts != i % c->hosts) {
            c->latency[i] = latency_ms * 1e6;
            c->pace[i] = 8 / gbps;
        }
    for (int p = 0; p < pipeline; p++) {
        c->time[SL_F][p] = c->time[SL_I][p] = c->time[SL_W][p] = 10 * SL_MS;
        c->time[SL_B][p] = 20 * SL_MS;
    }
}

static void set_link(sl_cluster *c, int a, int b, double latency_ms, double gbps) {
    int pair[2] = {a * c->hosts + b, b * c->hosts + a};
    for (int i = 0; i < 2; i++) {
        c->latency[pair[i]] = latency_ms * 1e6;
        c->pace[pair[i]] = 8 / gbps;
    }
}

static sl_time time_of(const sl_cluster *c, const int *host) {
    sl_time time;
    assert_ok(sl_topology_time(c, host ? host : c->present, &time));
    return time;
}

static sl_topology search(const sl_cluster *c) {
    sl_topology r;
    assert_ok(sl_topology_search(c, &(sl_topology_options){.seed = 1, .effort = 1}, &r));
    assert_int_equal(r.time, time_of(c, r.host));
    assert_int_equal(r.present, time_of(c, NULL));
    assert_true(r.bound <= r.time && r.time <= r.present);
    return r;
}

/* Where a host sits. */
static int assigned(const sl_cluster *c, const int *host, int who) {
    for (int i = 0; i < c->hosts; i++)
        if (host[i] == who)
            return i;
    fail();
    return -1;
}

/* ---- the time ---- */

/* 1F1B of two stages, m microbatches, F 10, B 20, free links: stage 1 ends after 10 + 30 m, stage 0 20 later.
 */
static void two_stages_take_what_a_hand_calculates(void **state) {
    (void)state;
    sl_cluster c;
    make(1, 2, 2, 3, 0, 8, &c);
    assert_int_equal(time_of(&c, NULL), (10 + 90 + 20) * SL_MS);
    /* a ring of two replicas and 80 bytes a us: 2 steps of (1 ms + 1e6 / 2 bytes at 8 Gbit/s = 0.5 ms) behind
     */
    c.gradient[0] = c.gradient[1] = 1e6;
    for (int a = 0; a < 2; a++)
        set_link(&c, 2 * a, 2 * a + 1, 1, 8);
    assert_int_equal(time_of(&c, NULL), 123 * SL_MS);
    /* one host half as fast in stage 1: 10 + 60 m + 20 */
    c.speed[3] = 0.5;
    assert_int_equal(time_of(&c, NULL), (10 + 180 + 20 + 3) * SL_MS);
    sl_cluster_free(&c);
}

/* Two tensor ranks, one stage: F and B with 2 sums each of 2 steps of (latency + half of the bytes). */
static void sums_of_tensor_ranks_are_in_the_ops(void **state) {
    (void)state;
    sl_cluster c;
    make(2, 1, 1, 5, 0.5, 8, &c);
    c.sum = 1e6;
    c.sums[0][0] = c.sums[1][0] = 2;
    /* a sum: 2 * (0.5 + 0.5) = 2 ms; F 10 + 4, B 20 + 4 */
    assert_int_equal(time_of(&c, NULL), 5 * (14 + 24) * SL_MS);
    sl_cluster_free(&c);
}

/* Appendix 9.2: 2 m b n h k a boundary; 2 (D - 1) / D of k times the parameters; 8 b m n h L (T - 1) / (P T)
 * * k. */
static void volumes_are_those_of_falcons_appendix(void **state) {
    (void)state;
    const char *text =
        "parallel: {tensor: 2, data: 4, pipeline: 2}\nbatch: {microbatches: 8, size: 3}\n"
        "times_ms: {F: 1, I: 1, W: 1}\nhosts: [\"n[0-15]\"]\nlinks: {default: {bandwidth_gbps: 1}}\n"
        "model: {layers: 6, width: 100, context: 50, bytes: 4}\n";
    sl_document document;
    sl_cluster c;
    assert_ok(sl_document_parse("text", text, &document));
    assert_ok(sl_cluster_read(&document, NULL, &c));
    double m = 8, b = 3, n = 50, h = 100, k = 4, layers = 6, t = 2, d = 4, p = 2;
    assert_near(sl_volume_pipeline(&c), 2 * m * b * n * h * k, 1e-6);
    assert_near(sl_volume_tensor(&c, 1), 8 * b * m * n * h * layers * (t - 1) / (p * t) * k, 1e-3);
    assert_near(sl_volume_data(&c, 1), 2 * (d - 1) / d * k * (layers / p) * (12 * h * h + 5 * h) / t, 1e-3);
    sl_cluster_free(&c);
    sl_document_close(&document);
}

/* A slow pair that is not neighbours on the ring: it costs nothing there, and all of a direct sum, which
 * takes twice a quarter of the bytes on that link; other places leave it without traffic. */
static void a_direct_sum_takes_every_pair(void **state) {
    (void)state;
    sl_cluster c;
    make(1, 4, 2, 4, 0, 100, &c);
    c.gradient[0] = 100e6;
    sl_time healthy = time_of(&c, NULL);
    c.direct = 1;
    sl_time direct = time_of(&c, NULL);
    assert_int_equal(healthy - direct, (6 - 2) * 2 * SL_MS); /* 25 MB at 100 Gbit/s: 2 ms */
    set_link(&c, 0, 2, 0, 10);
    assert_int_equal(time_of(&c, NULL) - direct, 2 * (20 - 2) * SL_MS);
    sl_topology r = search(&c);
    assert_int_equal(r.time, direct);
    sl_topology_free(&r);
    c.direct = 0;
    assert_int_equal(time_of(&c, NULL), healthy);
    sl_cluster_free(&c);
}

/* ---- random clusters ---- */

static void draw_links(uint64_t *s, sl_cluster *c) {
    static const double gbps[] = {100, 40, 10, 1};
    int few = draw(s, 2);
    for (int a = 0; a < c->hosts; a++)
        for (int b = 0; b < c->hosts; b++)
            if (a != b && (!few || draw(s, 6) == 0)) {
                c->latency[a * c->hosts + b] = draw(s, 3) * 0.3e6;
                c->pace[a * c->hosts + b] = 8 / gbps[draw(s, 4)];
            }
}

static void draw_cluster(uint64_t *s, int tensor, int data, int pipeline, sl_cluster *c) {
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1"};
    make(tensor, data, pipeline, pipeline + draw(s, 6), 0.05, 100, c);
    draw_links(s, c);
    for (int i = 0; i < c->hosts; i++)
        c->speed[i] = draw(s, 3) ? 1 : 0.4 + 0.1 * draw(s, 6);
    for (int p = 0; p < pipeline; p++) {
        for (int kind = 0; kind < 3; kind++)
            c->time[kind][p] = (1 + draw(s, 10)) * SL_MS;
        c->time[SL_B][p] = c->time[SL_I][p] + c->time[SL_W][p];
        c->gradient[p] = draw(s, 40) * 1e6;
        c->sums[0][p] = c->sums[1][p] = draw(s, 3);
    }
    c->activation = draw(s, 5) * 1e6;
    c->sum = draw(s, 3) * 1e6;
    c->direct = draw(s, 2);
    sl_free(c->schedule);
    assert_ok(sl_copy_text(&c->schedule, schedules[draw(s, 3)]));
    for (int i = c->hosts - 1; i > 0; i--) {
        int k = draw(s, i + 1), host = c->present[i];
        c->present[i] = c->present[k];
        c->present[k] = host;
    }
}

/* A problem of one replica with the ring as its reductions, by the planner's own path. */
static void one_replica_takes_what_the_planner_says(void **state) {
    (void)state;
    uint64_t s = seed_of(1);
    for (int round = 0; round < 30; round++) {
        sl_cluster c;
        draw_cluster(&s, 1, 1, 2 + draw(&s, 4), &c);
        sl_problem p;
        sl_plan plan;
        assert_ok(sl_problem_make(c.pipeline, c.pipeline, c.microbatches, &p));
        for (int stage = 0; stage < c.pipeline; stage++) {
            int host = c.present[stage], next = stage + 1 < c.pipeline ? c.present[stage + 1] : host;
            for (int kind = 0; kind < SL_OP_KINDS; kind++)
                p.time[kind][stage] = (sl_time)((double)c.time[kind][stage] / c.speed[host] + 0.5);
            for (int back = 0; back < 2 && next != host; back++) {
                int i = back ? next * c.hosts + host : host * c.hosts + next;
                p.link[back ? (stage + 1) * p.ranks + stage : stage * p.ranks + stage + 1] =
                    (sl_link){.latency = (sl_time)(c.latency[i] + 0.5),
                              .transfer = (sl_time)(c.pace[i] * c.activation + 0.5)};
            }
        }
        assert_ok(sl_plan_make(&p, c.schedule, &plan));
        assert_int_equal(time_of(&c, NULL), plan.makespan);
        sl_plan_free(&plan);
        sl_problem_free(&p);
        sl_cluster_free(&c);
    }
}

static int next_permutation(int *host, int n) {
    int i = n - 2, k = n - 1;
    while (i >= 0 && host[i] > host[i + 1])
        i--;
    if (i < 0)
        return 0;
    while (host[k] < host[i])
        k--;
    int swap = host[i];
    host[i] = host[k];
    host[k] = swap;
    for (int a = i + 1, b = n - 1; a < b; a++, b--) {
        swap = host[a];
        host[a] = host[b];
        host[b] = swap;
    }
    return 1;
}

/* What the search goes by instead of the replay, for an arrangement; and the bound for all of them (NULL: not
 * asked for). */
static void estimate_and_bound(const sl_cluster *c, const int *host, sl_time *estimate, sl_time *bound) {
    sl_best best;
    sl_frame frame = {0};
    sl_rank_map rank_map = {0};
    assert_ok(sl_best_make(c, &best));
    assert_ok(sl_frame_make(c, &frame));
    assert_ok(sl_rank_map_make(c, &best, &frame, host, 0, &rank_map));
    *estimate = sl_rank_map_time(&rank_map, NULL, NULL);
    if (bound)
        assert_ok(sl_bound_of(c, &best, &frame, bound));
    sl_rank_map_free(&rank_map);
    sl_frame_free(&frame);
    sl_best_free(&best);
}

/* All arrangements of up to 6 hosts, each timed by itself: none is shorter than what the search proves. */
static void the_search_finds_what_brute_force_finds(void **state) {
    (void)state;
    static const int shape[][3] = {{1, 2, 2}, {1, 1, 4}, {1, 3, 2}, {2, 1, 2}, {1, 2, 3}, {1, 4, 1},
                                   {2, 2, 1}, {3, 1, 2}, {1, 1, 5}, {1, 5, 1}, {2, 3, 1}};
    uint64_t s = seed_of(2);
    for (int round = 0; round < 33; round++) {
        const int *is = shape[round % 11];
        sl_cluster c;
        draw_cluster(&s, is[0], is[1], is[2], &c);
        sl_topology r = search(&c);
        sl_time least = SL_TIME_NEVER;
        int host[8];
        for (int i = 0; i < c.hosts; i++)
            host[i] = i;
        do {
            sl_time time, estimate;
            assert_ok(sl_topology_time(&c, host, &time));
            estimate_and_bound(&c, host, &estimate, NULL);
            assert_true(estimate <= time);
            least = time < least ? time : least;
        } while (next_permutation(host, c.hosts));
        assert_int_equal(r.time, least);
        assert_true(r.proven);
        assert_int_equal(r.bound, least);
        sl_time bound, estimate;
        estimate_and_bound(&c, c.present, &estimate, &bound);
        assert_true(bound <= least);
        sl_topology_free(&r);
        sl_cluster_free(&c);
    }
}

/* On clusters too large for brute force: bounds stay below every random arrangement, estimates below times.
 */
static void bounds_hold_for_random_arrangements(void **state) {
    (void)state;
    uint64_t s = seed_of(3);
    for (int round = 0; round < CLUSTERS; round++) {
        sl_cluster c;
        draw_cluster(&s, 1 + draw(&s, 3), 1 + draw(&s, 5), 1 + draw(&s, 6), &c);
        sl_time bound, estimate;
        estimate_and_bound(&c, c.present, &estimate, &bound);
        assert_true(estimate <= time_of(&c, NULL));
        assert_true(bound <= time_of(&c, NULL));
        sl_topology r = search(&c);
        assert_true(bound <= r.time);
        sl_topology_free(&r);
        sl_cluster_free(&c);
    }
}

static void the_same_seed_gives_the_same_answer(void **state) {
    (void)state;
    uint64_t s = seed_of(4);
    sl_cluster c;
    draw_cluster(&s, 1, 6, 4, &c);
    sl_topology a = search(&c), b = search(&c);
    assert_memory_equal(a.host, b.host, (size_t)c.hosts * sizeof *a.host);
    assert_int_equal(a.bound, b.bound);
    sl_topology_free(&a);
    sl_topology_free(&b);
    sl_cluster_free(&c);
}

/* ---- what was published ---- */

/* Falcon, figure 10 and section 5.3: a congested link between data-parallel peers is better as a link between
 * stages. Every pair is used here (2 x 2: ring, boundary, and two diagonals that carry nothing), so the
 * diagonals are slow, too. */
static void a_congested_link_goes_from_the_ring_to_the_pipeline(void **state) {
    (void)state;
    sl_cluster c;
    make(1, 2, 2, 8, 0.01, 100, &c);
    c.activation = 4e6;
    c.gradient[0] = c.gradient[1] = 400e6;
    set_link(&c, 0, 1, 0.01, 5); /* the ring of stage 0 */
    set_link(&c, 0, 3, 0.01, 1);
    set_link(&c, 1, 2, 0.01, 1);
    sl_time present = time_of(&c, NULL);
    int swapped[] = {0, 2, 1, 3}; /* stage 0: 0 2, stage 1: 1 3; 0 sends to 1 */
    assert_true(time_of(&c, swapped) < present);
    sl_topology r = search(&c);
    assert_true(r.proven && r.time <= time_of(&c, swapped));
    int a = assigned(&c, r.host, 0), b = assigned(&c, r.host, 1);
    assert_int_equal(sl_position_replica(&c, a), sl_position_replica(&c, b));
    assert_int_equal(abs(sl_position_stage(&c, a) - sl_position_stage(&c, b)), 1);
    sl_topology_free(&r);
    sl_cluster_free(&c);
}

/* Adaptra, figure 3: a slow link in the ring costs more than the same link between stages. */
static void the_same_slow_link_costs_more_in_a_ring(void **state) {
    (void)state;
    sl_cluster c;
    make(1, 4, 4, 16, 0.01, 100, &c);
    c.activation = 8e6;
    for (int p = 0; p < 4; p++)
        c.gradient[p] = 600e6;
    sl_time healthy = time_of(&c, NULL);
    set_link(&c, 0, 1, 0.01, 4); /* replicas 0 and 1 of stage 0 */
    sl_time ring = time_of(&c, NULL);
    set_link(&c, 0, 1, 0.01, 100);
    set_link(&c, 0, 4, 0.01, 4); /* stages 0 and 1 of replica 0 */
    sl_time between = time_of(&c, NULL);
    assert_true(healthy <= between && between < ring);
    sl_cluster_free(&c);
}

/* Falcon, figure 11: slow devices spread over stages cost more than gathered in one; with as many as a stage
 * has they fit, with more they need ceil(stragglers / devices a stage) stages. */
static void stragglers_are_gathered_in_the_fewest_stages(void **state) {
    (void)state;
    for (int slow = 2; slow <= 6; slow += 2) {
        sl_cluster c;
        make(1, 4, 4, 12, 0, 100, &c);
        for (int i = 0; i < slow; i++) /* two in each of the first replicas, in different stages */
            c.speed[sl_position(&c, 0, i / 2, i % 2 ? 2 : 0)] = 0.6;
        sl_topology r = search(&c);
        assert_true(slow > 4 ? r.time <= r.present : r.time < r.present);
        int stages = 0;
        for (int p = 0; p < 4 && r.time < r.present; p++) {
            int any = 0;
            for (int d = 0; d < 4; d++)
                any |= c.speed[r.host[sl_position(&c, 0, d, p)]] < 1;
            stages += any;
        }
        if (r.time < r.present)
            assert_int_equal(stages, (slow + 3) / 4);
        sl_topology_free(&r);
        sl_cluster_free(&c);
    }
}

/* Section 5.3: where the first and last stages have more to do, stragglers go to an interior one. */
static void stragglers_prefer_interior_stages(void **state) {
    (void)state;
    sl_cluster c;
    make(1, 2, 4, 12, 0, 100, &c);
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        c.time[kind][0] = c.time[kind][0] * 12 / 10;
        c.time[kind][3] = c.time[kind][3] * 12 / 10;
    }
    c.speed[0] = 0.7; /* in stage 0 */
    sl_topology r = search(&c);
    int stage = sl_position_stage(&c, assigned(&c, r.host, 0));
    assert_true(r.time < r.present);
    assert_true(stage == 1 || stage == 2);
    sl_topology_free(&r);
    sl_cluster_free(&c);
}

/* Figure 16: when all links are slow, there is nothing to move. */
static void equal_hosts_stay_where_they_are(void **state) {
    (void)state;
    sl_cluster c;
    make(1, 4, 4, 12, 0.1, 1, &c);
    for (int p = 0; p < 4; p++)
        c.gradient[p] = 100e6;
    sl_topology r = search(&c);
    assert_int_equal(r.moved, 0);
    assert_true(r.proven);
    assert_memory_equal(r.host, c.present, (size_t)c.hosts * sizeof *r.host);
    sl_topology_free(&r);
    sl_cluster_free(&c);
}

/* 1,024 hosts with slow ones and congested links; the time is printed, not judged. */
static void a_thousand_hosts_are_arranged_with_a_bound(void **state) {
    (void)state;
    uint64_t s = seed_of(5);
    sl_cluster c;
    make(1, 64, 16, 64, 0.02, 100, &c);
    c.activation = 16e6;
    for (int p = 0; p < 16; p++)
        c.gradient[p] = 2e9;
    for (int i = 0; i < 20; i++)
        c.speed[draw(&s, 1024)] = 0.6;
    for (int i = 0; i < 30; i++) {
        int at = draw(&s, 1023);
        set_link(&c, at, at + 1, 0.02, 10);
    }
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    sl_topology r = search(&c);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("1,024 hosts: %.6g -> %.6g ms, bound %.6g, %.2f s\n", sl_to_ms(r.present), sl_to_ms(r.time),
           sl_to_ms(r.bound),
           (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
    assert_true(r.time < r.present);
    sl_topology_free(&r);
    sl_cluster_free(&c);
}

static void no_memory_is_an_error_and_nothing_leaks(void **state) {
    (void)state;
    uint64_t s = seed_of(6);
    sl_cluster c;
    draw_cluster(&s, 1, 2, 2, &c);
    for (long n = 0;; n++) {
        sl_topology r;
        sl_alloc_fail_at(n);
        sl_status status = sl_topology_search(&c, &(sl_topology_options){.seed = 1, .effort = 0.01}, &r);
        sl_alloc_fail_at(-1);
        sl_topology_free(&r);
        if (status == SL_OK)
            break;
        assert_int_equal(status, SL_ENOMEM);
    }
    sl_cluster_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_stages_take_what_a_hand_calculates),
        cmocka_unit_test(sums_of_tensor_ranks_are_in_the_ops),
        cmocka_unit_test(volumes_are_those_of_falcons_appendix),
        cmocka_unit_test(one_replica_takes_what_the_planner_says),
        cmocka_unit_test(a_direct_sum_takes_every_pair),
        cmocka_unit_test(the_search_finds_what_brute_force_finds),
        cmocka_unit_test(bounds_hold_for_random_arrangements),
        cmocka_unit_test(the_same_seed_gives_the_same_answer),
        cmocka_unit_test(a_congested_link_goes_from_the_ring_to_the_pipeline),
        cmocka_unit_test(the_same_slow_link_costs_more_in_a_ring),
        cmocka_unit_test(stragglers_are_gathered_in_the_fewest_stages),
        cmocka_unit_test(stragglers_prefer_interior_stages),
        cmocka_unit_test(equal_hosts_stay_where_they_are),
        cmocka_unit_test(a_thousand_hosts_are_arranged_with_a_bound),
        cmocka_unit_test(no_memory_is_an_error_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
