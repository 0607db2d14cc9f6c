/* The model of a job: what an iteration takes in a layout is what the planner says of each replica with what
 * is slow in it, written down here by hand. */
#include "check.h"

#include "adapt/model/model.h"
#include "base/memory.h"
#include "random_problem.h"

#include <math.h>

#define MS 1000000LL

/* F, I and W take so many ms; messages 1 ms for 1000 bytes, so that 1 ns a byte more is 1 us more. */
static void make_problem(int ranks, int microbatches, int ms, sl_problem *p) {
    assert_ok(sl_problem_make(ranks, ranks, microbatches, p));
    for (int stage = 0; stage < ranks; stage++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            p->time[kind][stage] = ms * MS;
        p->time[SL_B][stage] = 2 * ms * MS;
    }
    for (int i = 0; i < ranks * ranks; i++)
        p->link[i].transfer = MS;
}

typedef struct setting {
    sl_problem problem;
    sl_job job;
    const sl_problem **healthy;
    int *split;
    sl_job_layout home;
    sl_model *model;
} setting;

static void set_up(setting *s, sl_job job, int microbatches) {
    s->job = job;
    s->job.message = 1000;
    s->job.tensor = job.tensor ? job.tensor : 1;
    s->job.schedule = job.schedule ? job.schedule : "1f1b";
    make_problem(job.ranks, microbatches, 10, &s->problem);
    s->healthy = calloc((size_t)job.replicas, sizeof *s->healthy);
    s->split = calloc((size_t)job.replicas, sizeof *s->split);
    assert_non_null(s->healthy);
    assert_non_null(s->split);
    for (int r = 0; r < job.replicas; r++) {
        s->healthy[r] = &s->problem;
        s->split[r] = microbatches;
    }
    assert_ok(sl_job_layout_make(&s->job, s->split, &s->home));
    assert_ok(sl_model_open(&s->job, s->healthy, &s->model));
}

static void tear_down(setting *s) {
    sl_model_close(s->model);
    sl_job_layout_free(&s->home);
    free(s->split);
    free(s->healthy);
    sl_problem_free(&s->problem);
}

static double planned(const sl_problem *problem, const char *schedule) {
    sl_plan plan;
    assert_ok(sl_plan_make(problem, schedule, &plan));
    double time = (double)plan.makespan;
    sl_plan_free(&plan);
    return time;
}

static double time_of(setting *s, const sl_job_layout *layout) {
    double time;
    assert_ok(sl_model_time(s->model, layout, &time));
    return time;
}

static void see(setting *s, sl_slow_part part) {
    assert_ok(sl_model_see(s->model, &part, 1));
}

static int process_at(const setting *s, int rank, int replica) {
    return sl_job_position(&s->job, rank, replica, 0);
}

static void swap(sl_job_layout *layout, int a, int b) {
    int kept = layout->process[a];
    layout->process[a] = layout->process[b];
    layout->process[b] = kept;
}

/* ---- times ---- */

static void a_slow_device_costs_what_the_replay_says(void **state) {
    setting s;
    sl_problem slow;
    (void)state;
    set_up(&s, (sl_job){.replicas = 3, .ranks = 3}, 6);
    make_problem(3, 6, 10, &slow);
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        slow.time[kind][1] = slow.time[kind][1] * 3 / 2;
    assert_near(time_of(&s, &s.home), planned(&s.problem, "1f1b"), 0);
    see(&s, (sl_slow_part){.kind = SL_PART_DEVICE, .a = process_at(&s, 1, 2), .b = -1, .slowdown = 1.5});
    double there = planned(&slow, "1f1b");
    assert_true(there > planned(&s.problem, "1f1b"));
    assert_near(time_of(&s, &s.home), there, 0);
    s.home.split[2] = slow.microbatches = 5; /* its share is its own */
    s.home.split[0] = s.problem.microbatches = 7;
    assert_near(time_of(&s, &s.home), fmax(planned(&slow, "1f1b"), planned(&s.problem, "1f1b")), 0);
    sl_problem_free(&slow);
    tear_down(&s);
}

static void two_parts_about_one_device_multiply_and_about_one_link_the_worse_counts(void **state) {
    setting s;
    (void)state;
    set_up(&s, (sl_job){.replicas = 1, .ranks = 2}, 4);
    const sl_slow_part part[] = {
        {.kind = SL_PART_DEVICE, .a = 1, .b = -1, .slowdown = 2},
        {.kind = SL_PART_LINK, .a = 0, .b = 1, .latency = {3e6, 7e6}, .pace = {500, 0}},
        {.kind = SL_PART_DEVICE, .a = 1, .b = -1, .slowdown = 1.5},
        {.kind = SL_PART_LINK, .a = 1, .b = 0, .latency = {8e6, 1e6}, .pace = {0, 900}},
    };
    sl_problem got;
    assert_ok(sl_model_see(s.model, part, 4));
    assert_ok(sl_model_problem(s.model, &s.home, 0, &got));
    assert_int_equal(got.time[SL_F][0], 10 * MS);
    assert_int_equal(got.time[SL_F][1], 30 * MS);
    assert_int_equal(got.link[1].latency, 3 * MS);
    assert_int_equal(got.link[1].transfer, MS + 900 * 1000);
    assert_int_equal(got.link[2].latency, 8 * MS);
    assert_int_equal(got.link[2].transfer, MS);
    assert_near(time_of(&s, &s.home), planned(&got, "1f1b"), 0);
    sl_problem_free(&got);
    tear_down(&s);
}

static void a_slow_link_costs_what_the_replay_says_in_its_direction(void **state) {
    setting s;
    (void)state;
    for (int back = 0; back < 2; back++) {
        sl_problem slow;
        set_up(&s, (sl_job){.replicas = 2, .ranks = 3}, 6);
        make_problem(3, 6, 10, &slow);
        slow.link[back ? 2 * 3 + 1 : 1 * 3 + 2].latency = 40 * MS;
        slow.link[back ? 2 * 3 + 1 : 1 * 3 + 2].transfer = 6 * MS;
        int a = process_at(&s, 1, 1), b = process_at(&s, 2, 1);
        see(&s, (sl_slow_part){.kind = SL_PART_LINK,
                               .a = back ? b : a,
                               .b = back ? a : b,
                               .latency = {40e6},
                               .pace = {5000}});
        assert_near(time_of(&s, &s.home), planned(&slow, "1f1b"), 0);
        see(&s, (sl_slow_part){.kind = SL_PART_LINK,
                               .a = back ? b : a,
                               .b = back ? a : b,
                               .latency = {40e6},
                               .pace = {9000}});
        slow.link[back ? 2 * 3 + 1 : 1 * 3 + 2].transfer = 10 * MS;
        assert_near(time_of(&s, &s.home), planned(&slow, "1f1b"), 0);
        sl_problem_free(&slow);
        tear_down(&s);
    }
}

static void a_link_that_nobody_uses_costs_nothing(void **state) {
    setting s;
    double sum[] = {4000, 4000, 4000};
    (void)state;
    set_up(&s, (sl_job){.replicas = 4, .ranks = 3, .ring = 1, .sum = sum}, 6);
    double healthy = time_of(&s, &s.home);
    const int unused[][4] = {
        {0, 0, 2, 0}, {0, 1, 1, 2}, {1, 0, 1, 2}}; /* rank, replica of both; the last no neighbours */
    for (int i = 0; i < 3; i++) {
        int a = process_at(&s, unused[i][0], unused[i][1]), b = process_at(&s, unused[i][2], unused[i][3]);
        see(&s,
            (sl_slow_part){.kind = SL_PART_LINK, .a = a, .b = b, .latency = {1e9, 1e9}, .pace = {1e5, 1e5}});
        assert_near(time_of(&s, &s.home), healthy, 0);
        assert_int_equal(sl_job_layout_talk(&s.job, &s.home, &s.problem, a, b), i == 2);
    }
    int a = process_at(&s, 0, 0), b = process_at(&s, 1, 0);
    assert_int_equal(sl_job_layout_talk(&s.job, &s.home, &s.problem, a, b), 1);
    see(&s, (sl_slow_part){.kind = SL_PART_LINK, .a = a, .b = b, .latency = {1e9, 1e9}});
    assert_true(time_of(&s, &s.home) > healthy);
    swap(&s.home, a, process_at(&s, 0, 1)); /* after an exchange it is not used either */
    assert_near(time_of(&s, &s.home), healthy, 0);
    assert_int_equal(sl_job_layout_talk(&s.job, &s.home, &s.problem, a, b), 0);
    tear_down(&s);
}

static void what_is_slow_goes_with_its_process(void **state) {
    setting s;
    sl_problem got;
    (void)state;
    set_up(&s, (sl_job){.replicas = 2, .ranks = 2}, 4);
    see(&s, (sl_slow_part){.kind = SL_PART_DEVICE, .a = process_at(&s, 0, 0), .b = -1, .slowdown = 2});
    swap(&s.home, process_at(&s, 0, 0), process_at(&s, 1, 1));
    for (int r = 0; r < 2; r++) {
        assert_ok(sl_model_problem(s.model, &s.home, r, &got));
        assert_int_equal(got.time[SL_F][0], 10 * MS);
        assert_int_equal(got.time[SL_F][1], (r ? 20 : 10) * MS);
        sl_problem_free(&got);
    }
    assert_int_equal(sl_job_layout_position(&s.job, &s.home, process_at(&s, 0, 0)), process_at(&s, 1, 1));
    assert_int_equal(sl_job_layout_position(&s.job, &s.home, process_at(&s, 0, 1)), process_at(&s, 0, 1));
    tear_down(&s);
}

static void a_slow_card_slows_all_links_of_its_process(void **state) {
    setting s;
    sl_problem got;
    (void)state;
    set_up(&s, (sl_job){.replicas = 2, .ranks = 3}, 4);
    see(&s, (sl_slow_part){.kind = SL_PART_CARD,
                           .a = process_at(&s, 1, 0),
                           .b = -1,
                           .latency = {2e6, 5e6},
                           .pace = {0, 1000}});
    assert_ok(sl_model_problem(s.model, &s.home, 0, &got));
    const int link[] = {1 * 3 + 0, 1 * 3 + 2, 0 * 3 + 1, 2 * 3 + 1}; /* sends, sends, receives, receives */
    for (int i = 0; i < 4; i++) {
        assert_int_equal(got.link[link[i]].latency, (i < 2 ? 2 : 5) * MS);
        assert_int_equal(got.link[link[i]].transfer, (i < 2 ? 1 : 2) * MS);
    }
    sl_problem_free(&got);
    assert_ok(sl_model_problem(s.model, &s.home, 1, &got));
    assert_memory_equal(got.link, s.problem.link, 9 * sizeof *got.link);
    sl_problem_free(&got);
    tear_down(&s);
}

/* One rank: 4 microbatches take 4 * 30 ms, then comes the sum. */
static void a_sum_waits_for_its_slowest_pair(void **state) {
    const double sum[] = {8000};
    (void)state;
    for (int ring = 0; ring < 2; ring++) {
        setting s;
        set_up(&s, (sl_job){.replicas = 4, .ranks = 1, .ring = ring, .sum = sum}, 4);
        assert_near(time_of(&s, &s.home), 120e6, 0);
        s.problem.reduce[0] = 6 * MS;
        assert_ok(sl_model_renew(s.model, s.healthy));
        assert_near(time_of(&s, &s.home), 126e6, 0);
        /* a step: 1 ms and 2000 bytes of 500 ns */
        const sl_slow_part part[] = {
            {.kind = SL_PART_LINK, .a = 1, .b = 2, .latency = {0, 1e6}, .pace = {100, 500}},
            {.kind = SL_PART_LINK, .a = 2, .b = 3, .latency = {1e6, 0}, .pace = {0, 500}},
        };
        assert_ok(sl_model_see(s.model, part, 2));
        assert_near(time_of(&s, &s.home), 126e6 + (ring ? 6 : 2) * 2e6, 0);
        see(&s, (sl_slow_part){.kind = SL_PART_CARD, .a = 3, .b = -1, .latency = {1e6, 0}, .pace = {500, 0}});
        assert_near(time_of(&s, &s.home), 126e6 + (ring ? 6 : 2) * 2e6, 0);
        /* the ring is closed; a link's latency, and the bandwidth of a card at its end */
        const sl_slow_part last[] = {
            {.kind = SL_PART_LINK, .a = 0, .b = 3, .latency = {0, 3e6}},
            {.kind = SL_PART_CARD, .a = 0, .b = -1, .pace = {0, 500}},
        };
        assert_ok(sl_model_see(s.model, last, 2));
        assert_near(time_of(&s, &s.home), 126e6 + (ring ? 6 : 2) * 4e6, 0);
        tear_down(&s);
    }
}

static void tensor_ranks_wait_for_their_slowest(void **state) {
    setting s;
    sl_problem got;
    (void)state;
    set_up(&s, (sl_job){.replicas = 2, .ranks = 2, .tensor = 2}, 4);
    const sl_slow_part part[] = {
        {.kind = SL_PART_DEVICE, .a = sl_job_position(&s.job, 0, 1, 0), .b = -1, .slowdown = 2},
        {.kind = SL_PART_DEVICE, .a = sl_job_position(&s.job, 0, 1, 1), .b = -1, .slowdown = 1.5},
        {.kind = SL_PART_LINK,
         .a = sl_job_position(&s.job, 0, 1, 0),
         .b = sl_job_position(&s.job, 1, 1, 0),
         .latency = {1e6, 0}},
        {.kind = SL_PART_LINK,
         .a = sl_job_position(&s.job, 0, 1, 1),
         .b = sl_job_position(&s.job, 1, 1, 1),
         .latency = {4e6, 0}},
        {.kind = SL_PART_LINK, /* of other tensor ranks: not used */
         .a = sl_job_position(&s.job, 0, 1, 0),
         .b = sl_job_position(&s.job, 1, 1, 1),
         .latency = {9e6, 9e6}},
    };
    assert_ok(sl_model_see(s.model, part, 5));
    assert_ok(sl_model_problem(s.model, &s.home, 1, &got));
    assert_int_equal(got.time[SL_W][0], 20 * MS);
    assert_int_equal(got.time[SL_W][1], 10 * MS);
    assert_int_equal(got.link[1].latency, 4 * MS);
    assert_int_equal(got.link[2].latency, 0);
    sl_problem_free(&got);
    tear_down(&s);
}

static void delegates_decouple_and_may_take_longer(void **state) {
    setting s;
    sl_problem got;
    (void)state;
    set_up(&s, (sl_job){.replicas = 2, .ranks = 2, .delegated = 5e4}, 4);
    s.problem.communication = SL_INORDER;
    s.home.delegates = 2;
    assert_ok(sl_model_problem(s.model, &s.home, 1, &got));
    assert_int_equal(got.communication, SL_DECOUPLED);
    assert_int_equal(got.link[1].latency, 50000);
    sl_problem_free(&got);
    s.home.delegates = 0;
    assert_ok(sl_model_problem(s.model, &s.home, 1, &got));
    assert_int_equal(got.communication, SL_INORDER);
    assert_int_equal(got.link[1].latency, 0);
    sl_problem_free(&got);
    double coupled = time_of(&s, &s.home);
    assert_near(coupled, planned(&s.problem, "1f1b"), 0);
    s.home.delegates = 1;
    make_problem(2, 4, 10, &got);
    for (int i = 0; i < 4; i++)
        got.link[i].latency = 50000;
    assert_near(time_of(&s, &s.home), planned(&got, "1f1b"), 0);
    assert_true(time_of(&s, &s.home) != coupled);
    sl_problem_free(&got);
    tear_down(&s);
}

static void a_share_beyond_the_memory_has_no_time(void **state) {
    setting s;
    double limit[] = {2}, time;
    (void)state;
    set_up(&s, (sl_job){.replicas = 2, .ranks = 1, .schedule = "gpipe"}, 3);
    s.problem.limit = limit; /* GPipe keeps all of its microbatches */
    assert_ok(sl_model_renew(s.model, s.healthy));
    assert_int_equal(sl_model_time(s.model, &s.home, &time), SL_ENONE);
    assert_int_equal(sl_model_divide(s.model, &s.home, &time), SL_ENONE);
    s.home.split[0] = 1;
    assert_ok(sl_model_divide(s.model, &s.home, &time)); /* 4: 2 and 2 */
    assert_int_equal(s.home.split[0], 2);
    assert_near(time, 60e6, 0);
    s.problem.limit = NULL;
    tear_down(&s);
}

static void wrong_questions_are_refused(void **state) {
    setting s;
    sl_model *model = NULL;
    (void)state;
    set_up(&s, (sl_job){.replicas = 2, .ranks = 2}, 4);
    const sl_slow_part wrong[] = {
        {.kind = SL_PART_DEVICE, .a = 4, .b = -1, .slowdown = 2},
        {.kind = SL_PART_DEVICE, .a = 0, .b = -1},
        {.kind = SL_PART_DEVICE, .a = -1, .b = -1, .slowdown = 2},
        {.kind = SL_PART_LINK, .a = 1, .b = 1},
        {.kind = SL_PART_LINK, .a = 1, .b = 4},
        {.kind = SL_PART_CARD, .a = 0, .latency = {-1, 0}},
        {.kind = SL_PART_CARD, .a = 0, .pace = {0, NAN}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(sl_model_see(s.model, &wrong[i], 1), SL_EINVAL);
    sl_job job = s.job;
    job.ranks = 3;
    assert_int_equal(sl_model_open(&job, s.healthy, &model), SL_EINVAL);
    job = s.job;
    job.schedule = "fastest";
    assert_fails(sl_model_open(&job, s.healthy, &model), SL_EINVAL, "fastest");
    assert_null(model);
    tear_down(&s);
}

/* ---- microbatches ---- */

/* Every split of `left` over replicas r and beyond. */
static void try_all(setting *s, sl_job_layout *layout, int r, int left, double *best) {
    if (r == s->job.replicas - 1) {
        double time;
        layout->split[r] = left;
        sl_status status = sl_model_time(s->model, layout, &time);
        assert_true(status == SL_OK || status == SL_ENONE);
        *best = status == SL_OK && time < *best ? time : *best;
        return;
    }
    for (int m = 1; m <= left - (s->job.replicas - 1 - r); m++) {
        layout->split[r] = m;
        try_all(s, layout, r + 1, left - m, best);
    }
}

static void a_divided_split_is_as_good_as_the_best_of_all(void **state) {
    uint64_t seed = seed_of(2024);
    (void)state;
    for (int round = 0; round < 150; round++) {
        setting s;
        sl_slow_part part[6];
        int replicas = 2 + draw(&seed, 3), ranks = 1 + draw(&seed, 3), total = 0, sum = 0;
        set_up(&s, (sl_job){.replicas = replicas, .ranks = ranks}, 1 + draw(&seed, 4));
        int parts = draw(&seed, 5);
        for (int i = 0; i < parts; i++)
            part[i] = (sl_slow_part){.kind = SL_PART_DEVICE,
                                     .a = draw(&seed, replicas * ranks),
                                     .b = -1,
                                     .slowdown = 0.5 + draw(&seed, 8) * 0.5};
        for (int i = 0; i < 2 && ranks > 1; i++) { /* what no formula of the ops knows */
            int a = sl_job_position(&s.job, 0, draw(&seed, replicas), 0);
            part[parts++] = (sl_slow_part){
                .kind = SL_PART_LINK, .a = a, .b = a + replicas, .latency = {draw(&seed, 200) * 1e6, 0}};
        }
        assert_ok(sl_model_see(s.model, part, parts));
        for (int r = 0; r < replicas; r++)
            total += s.home.split[r];
        double best = INFINITY, time;
        sl_job_layout tried;
        assert_ok(sl_job_layout_copy(&s.job, &s.home, &tried));
        try_all(&s, &tried, 0, total, &best);
        assert_ok(sl_model_divide(s.model, &s.home, &time));
        assert_near(time, best, 0);
        assert_near(time_of(&s, &s.home), time, 0);
        for (int r = 0; r < replicas; r++)
            sum += s.home.split[r];
        assert_int_equal(sum, total);
        sl_job_layout_free(&tried);
        tear_down(&s);
    }
}

static void the_present_split_stays_where_none_is_better(void **state) {
    setting s;
    double time;
    (void)state;
    set_up(&s, (sl_job){.replicas = 3, .ranks = 1}, 4);
    s.home.split[0] = 3; /* 11: 4, 4 and 3 anyhow */
    assert_ok(sl_model_divide(s.model, &s.home, &time));
    assert_near(time, 120e6, 0);
    assert_int_equal(s.home.split[0], 3);
    tear_down(&s);
}

/* ---- random jobs ---- */

static void a_healthy_job_takes_what_its_plan_takes_under_any_name(void **state) {
    uint64_t seed = seed_of(77);
    (void)state;
    for (int round = 0; round < 60; round++) {
        sl_problem problem[4];
        const sl_problem *healthy[4];
        sl_model *model;
        sl_job_layout home;
        sl_placement placement = (sl_placement)draw(&seed, SL_PLACEMENTS);
        int replicas = 1 + draw(&seed, 4), split[4];
        double time, again;
        draw_problem(&seed, placement, 1, &problem[0]);
        for (int r = 0; r < replicas; r++) {
            if (r) {
                assert_ok(sl_problem_copy(&problem[0], &problem[r]));
                problem[r].time[SL_F][0] += draw(&seed, 3) * MS;
            }
            healthy[r] = &problem[r];
            split[r] = problem[0].microbatches;
        }
        double slowest = 0;
        for (int r = 0; r < replicas; r++)
            slowest = fmax(slowest, planned(&problem[r], "auto"));
        sl_job job = {.replicas = replicas, .ranks = problem[0].ranks, .tensor = 1, .schedule = "auto"};
        assert_ok(sl_job_layout_make(&job, split, &home));
        assert_ok(sl_model_open(&job, healthy, &model));
        assert_ok(sl_model_time(model, &home, &time));
        assert_near(time, slowest, 0);
        /* replica r becomes replica (r + 1) % replicas, with its slow device */
        sl_slow_part part = {
            .kind = SL_PART_DEVICE, .a = draw(&seed, sl_job_processes(&job)), .b = -1, .slowdown = 3};
        assert_ok(sl_model_see(model, &part, 1));
        assert_ok(sl_model_time(model, &home, &time));
        const sl_problem *turned[4];
        for (int r = 0; r < replicas; r++)
            turned[(r + 1) % replicas] = healthy[r];
        part.a = sl_job_position(&job, sl_job_rank(&job, part.a),
                                 (sl_job_replica(&job, part.a) + 1) % replicas, 0);
        assert_ok(sl_model_renew(model, turned));
        assert_ok(sl_model_see(model, &part, 1));
        assert_ok(sl_model_time(model, &home, &again));
        assert_near(time, again, 0);
        sl_model_close(model);
        sl_job_layout_free(&home);
        for (int r = 0; r < replicas; r++)
            sl_problem_free(&problem[r]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_device_costs_what_the_replay_says),
        cmocka_unit_test(two_parts_about_one_device_multiply_and_about_one_link_the_worse_counts),
        cmocka_unit_test(a_slow_link_costs_what_the_replay_says_in_its_direction),
        cmocka_unit_test(a_link_that_nobody_uses_costs_nothing),
        cmocka_unit_test(what_is_slow_goes_with_its_process),
        cmocka_unit_test(a_slow_card_slows_all_links_of_its_process),
        cmocka_unit_test(a_sum_waits_for_its_slowest_pair),
        cmocka_unit_test(tensor_ranks_wait_for_their_slowest),
        cmocka_unit_test(delegates_decouple_and_may_take_longer),
        cmocka_unit_test(a_share_beyond_the_memory_has_no_time),
        cmocka_unit_test(wrong_questions_are_refused),
        cmocka_unit_test(a_divided_split_is_as_good_as_the_best_of_all),
        cmocka_unit_test(the_present_split_stays_where_none_is_better),
        cmocka_unit_test(a_healthy_job_takes_what_its_plan_takes_under_any_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
