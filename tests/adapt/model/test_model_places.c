/* Other places and other splits: what is found is never worse than what is there, and what it says it takes.
 */
#include "check.h"

#include "adapt/model/model_inside.h"
#include "base/memory.h"
#include "plan/pipeline/other_placement.h"
#include "random_problem.h"

#include <math.h>
#include <time.h>

#define MS 1000000LL

static void make_problem(int ranks, int microbatches, sl_problem *p) {
    assert_ok(sl_problem_make(ranks, ranks, microbatches, p));
    for (int stage = 0; stage < ranks; stage++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            p->time[kind][stage] = 10 * MS;
        p->time[SL_B][stage] = 20 * MS;
    }
}

typedef struct setting {
    sl_problem problem;
    sl_job job;
    const sl_problem **healthy;
    sl_job_layout home;
    sl_model *model;
} setting;

static void set_up(setting *s, sl_job job, int microbatches) {
    int *split = calloc((size_t)job.replicas, sizeof *split);
    s->job = job;
    s->job.message = 1000;
    s->job.effort = 0.3;
    s->job.tensor = job.tensor ? job.tensor : 1;
    s->job.schedule = job.schedule ? job.schedule : "auto";
    make_problem(job.ranks, microbatches, &s->problem);
    s->healthy = calloc((size_t)job.replicas, sizeof *s->healthy);
    assert_non_null(s->healthy);
    assert_non_null(split);
    for (int r = 0; r < job.replicas; r++) {
        s->healthy[r] = &s->problem;
        split[r] = microbatches;
    }
    assert_ok(sl_job_layout_make(&s->job, split, &s->home));
    assert_ok(sl_model_open(&s->job, s->healthy, &s->model));
    free(split);
}

static void tear_down(setting *s) {
    sl_model_close(s->model);
    sl_job_layout_free(&s->home);
    free(s->healthy);
    sl_problem_free(&s->problem);
}

static double time_of(setting *s, const sl_job_layout *layout) {
    double time;
    assert_ok(sl_model_time(s->model, layout, &time));
    return time;
}

static sl_slow_part device(int process, double slowdown) {
    return (sl_slow_part){.kind = SL_PART_DEVICE, .a = process, .b = -1, .slowdown = slowdown};
}

static sl_slow_part link(int a, int b, double latency) {
    return (sl_slow_part){.kind = SL_PART_LINK, .a = a, .b = b, .latency = {latency, latency}};
}

/* A layout of the job: every process once, the same microbatches in all. */
static void check_layout(const setting *s, const sl_job_layout *layout) {
    int processes = sl_job_processes(&s->job), left = 0;
    unsigned char *seen = calloc((size_t)processes, 1);
    assert_non_null(seen);
    for (int i = 0; i < processes; i++) {
        assert_in_range(layout->process[i], 0, processes - 1);
        assert_false(seen[layout->process[i]]++);
    }
    for (int r = 0; r < s->job.replicas; r++) {
        assert_true(layout->split[r] >= 1);
        left += layout->split[r] - s->home.split[r];
    }
    assert_int_equal(left, 0);
    free(seen);
}

static void a_slow_link_between_stages_becomes_unused(void **state) {
    setting s;
    sl_job_layout to;
    double time;
    int moved;
    (void)state;
    set_up(&s, (sl_job){.replicas = 2, .ranks = 2}, 6);
    double healthy = time_of(&s, &s.home);
    int a = sl_job_position(&s.job, 0, 1, 0), b = sl_job_position(&s.job, 1, 1, 0);
    sl_slow_part part = link(a, b, 80e6);
    assert_ok(sl_model_see(s.model, &part, 1));
    assert_true(time_of(&s, &s.home) > healthy);
    assert_true(sl_job_layout_talk(&s.job, &s.home, &s.problem, a, b));
    assert_ok(sl_model_rearrange(s.model, &s.home, 0, &to, &time, &moved));
    check_layout(&s, &to);
    assert_near(time, healthy, 0);
    assert_near(time_of(&s, &to), time, 0);
    assert_int_equal(moved, 2);
    assert_false(sl_job_layout_talk(&s.job, &to, &s.problem, a, b));
    sl_job_layout_free(&to);
    tear_down(&s);
}

static void a_slow_link_of_a_ring_becomes_unused(void **state) {
    setting s;
    sl_job_layout to;
    double sum[] = {1000}, time;
    int moved;
    (void)state;
    set_up(&s, (sl_job){.replicas = 6, .ranks = 1, .ring = 1, .sum = sum}, 4);
    sl_slow_part part = link(2, 3, 50e6);
    assert_ok(sl_model_see(s.model, &part, 1));
    assert_near(time_of(&s, &s.home), 120e6 + 10 * 50e6, 0);
    assert_ok(sl_model_rearrange(s.model, &s.home, 0, &to, &time, &moved));
    check_layout(&s, &to);
    assert_near(time, 120e6, 0);
    assert_int_equal(moved, 2);
    sl_job_layout_free(&to);
    tear_down(&s);
}

/* Two slow places, each in a replica of its own: in one replica they hold up one. Of two tensor ranks both
 * are slow, so that no exchange of two processes alone is of any use. */
static void slow_devices_are_gathered_when_microbatches_are_divided(void **state) {
    (void)state;
    for (int tensor = 1; tensor <= 2; tensor++) {
        setting s;
        sl_job_layout to, divided;
        sl_slow_part part[4];
        double time, split_alone;
        int moved, parts = 0, slow = 0;
        set_up(&s, (sl_job){.replicas = 4, .ranks = 2, .tensor = tensor, .schedule = "1f1b"}, 8);
        for (int k = 0; k < tensor; k++) {
            part[parts++] = device(sl_job_position(&s.job, 0, 1, k), 2);
            part[parts++] = device(sl_job_position(&s.job, 1, 3, k), 2);
        }
        assert_ok(sl_model_see(s.model, part, parts));
        assert_ok(sl_job_layout_copy(&s.job, &s.home, &divided));
        assert_ok(sl_model_divide(s.model, &divided, &split_alone));
        assert_ok(sl_model_rearrange(s.model, &s.home, 1, &to, &time, &moved));
        check_layout(&s, &to);
        assert_true(time < split_alone);
        assert_near(time_of(&s, &to), time, 0);
        assert_int_equal(moved, 2 * tensor);
        for (int r = 0; r < 4; r++) {
            sl_problem got;
            assert_ok(sl_model_problem(s.model, &to, r, &got));
            slow += got.time[SL_F][0] > 10 * MS || got.time[SL_F][1] > 10 * MS;
            sl_problem_free(&got);
        }
        assert_int_equal(slow, 1);
        sl_job_layout_free(&divided);
        sl_job_layout_free(&to);
        tear_down(&s);
    }
}

/* Every order of processes from position `at` on. */
static void try_all(setting *s, sl_job_layout *layout, int at, double *best) {
    int *process = layout->process, processes = sl_job_processes(&s->job);
    if (at == processes)
        *best = fmin(*best, time_of(s, layout));
    for (int i = at; i < processes; i++) {
        int kept = process[at];
        process[at] = process[i];
        process[i] = kept;
        try_all(s, layout, at + 1, best);
        process[i] = process[at];
        process[at] = kept;
    }
}

static void in_a_small_ring_places_are_the_best_of_all(void **state) {
    uint64_t seed = seed_of(31);
    const double sum[] = {1000};
    (void)state;
    for (int round = 0; round < 20; round++) {
        setting s;
        sl_slow_part part[15];
        sl_job_layout to, tried;
        double time, best = INFINITY;
        int moved, parts = 0;
        set_up(&s, (sl_job){.replicas = 6, .ranks = 1, .ring = 1, .sum = sum}, 1);
        for (int a = 0; a < 6; a++)
            for (int b = a + 1; b < 6; b++)
                part[parts++] = link(a, b, draw(&seed, 8) * 1e6);
        assert_ok(sl_model_see(s.model, part, parts));
        assert_ok(sl_job_layout_copy(&s.job, &s.home, &tried));
        try_all(&s, &tried, 0, &best);
        assert_ok(sl_model_rearrange(s.model, &s.home, 0, &to, &time, &moved));
        assert_near(time, best, 0);
        sl_job_layout_free(&tried);
        sl_job_layout_free(&to);
        tear_down(&s);
    }
}

/* Two chunks a rank, which the topology search does not know: exchanges alone. Either link alone costs as
 * much as both. */
static void links_that_are_as_slow_as_each_other_are_all_left(void **state) {
    setting s;
    sl_job_layout to;
    double time;
    int moved;
    (void)state;
    set_up(&s, (sl_job){.replicas = 4, .ranks = 2}, 4);
    sl_problem wave;
    assert_ok(sl_problem_with_placement(&s.problem, SL_WAVE, &wave));
    sl_model_close(s.model);
    for (int r = 0; r < 4; r++)
        s.healthy[r] = &wave;
    assert_ok(sl_model_open(&s.job, s.healthy, &s.model));
    double healthy = time_of(&s, &s.home);
    const sl_slow_part part[] = {link(0, 4, 70e6), link(1, 5, 70e6),
                                 link(2, 6, 70e6)}; /* of a replica each */
    assert_ok(sl_model_see(s.model, part, 3));
    double slow = time_of(&s, &s.home);
    assert_ok(sl_model_see(s.model, part, 1));
    assert_near(time_of(&s, &s.home), slow, 0);
    assert_true(slow > healthy);
    assert_ok(sl_model_see(s.model, part, 3));
    assert_ok(sl_model_rearrange(s.model, &s.home, 0, &to, &time, &moved));
    assert_near(time, healthy, 0);
    assert_in_range(moved, 3, 4);
    sl_job_layout_free(&to);
    tear_down(&s);
    sl_problem_free(&wave);
}

static void nothing_moves_where_nothing_is_slow(void **state) {
    setting s;
    sl_job_layout to;
    double time;
    int moved;
    (void)state;
    set_up(&s, (sl_job){.replicas = 3, .ranks = 2}, 4);
    s.home.delegates = 3;
    for (int divides = 0; divides < 2; divides++) {
        assert_ok(sl_model_rearrange(s.model, &s.home, divides, &to, &time, &moved));
        assert_int_equal(moved, 0);
        assert_int_equal(to.delegates, 3);
        assert_memory_equal(to.process, s.home.process, 6 * sizeof *to.process);
        assert_near(time, time_of(&s, &s.home), 0);
        sl_job_layout_free(&to);
    }
    tear_down(&s);
}

static void draw_parts(uint64_t *seed, const setting *s, sl_slow_part *part, int parts) {
    int processes = sl_job_processes(&s->job);
    for (int i = 0; i < parts; i++) {
        int a = draw(seed, processes), b = draw(seed, processes);
        if (draw(seed, 2) || a == b)
            part[i] = device(a, 1.2 + draw(seed, 20) * 0.1);
        else
            part[i] = link(a, b, draw(seed, 60) * 1e6);
        if (draw(seed, 5) == 0)
            part[i] = (sl_slow_part){.kind = SL_PART_CARD,
                                     .a = a,
                                     .b = -1,
                                     .latency = {draw(seed, 10) * 1e6, 0},
                                     .pace = {0, draw(seed, 3000)}};
    }
}

static void shuffle(uint64_t *seed, const setting *s, sl_job_layout *layout) {
    for (int i = 0; i < 2; i++) {
        int a = draw(seed, sl_job_processes(&s->job)), b = draw(seed, sl_job_processes(&s->job));
        int kept = layout->process[a];
        layout->process[a] = layout->process[b];
        layout->process[b] = kept;
    }
}

static void places_are_never_worse_and_the_same_a_second_time(void **state) {
    uint64_t seed = seed_of(4711);
    (void)state;
    for (int round = 0; round < 40; round++) {
        setting s;
        sl_slow_part part[4];
        sl_job_layout to, again;
        sl_model *second;
        double sum[] = {4000, 2000, 1000}, time, same;
        int moved, moved_again, parts = 1 + draw(&seed, 4), divides = draw(&seed, 2), differ = 0;
        set_up(&s,
               (sl_job){.replicas = 1 + draw(&seed, 4),
                        .ranks = 1 + draw(&seed, 3),
                        .tensor = 1 + draw(&seed, 2),
                        .ring = draw(&seed, 2),
                        .sum = draw(&seed, 2) ? sum : NULL},
               2 + draw(&seed, 5));
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            s.problem.time[kind][0] += draw(&seed, 8) * MS;
        if (s.job.ranks > 1 && draw(&seed, 2)) /* links that differ: the topology search does not know them */
            s.problem.link[1].latency = draw(&seed, 40) * MS;
        assert_ok(sl_model_renew(s.model, s.healthy));
        draw_parts(&seed, &s, part, parts);
        shuffle(&seed, &s, &s.home);
        assert_ok(sl_model_see(s.model, part, parts));
        assert_ok(sl_model_rearrange(s.model, &s.home, divides, &to, &time, &moved));
        check_layout(&s, &to);
        assert_near(time_of(&s, &to), time, 0);
        assert_true(time <= time_of(&s, &s.home));
        for (int i = 0; i < sl_job_processes(&s.job); i++)
            differ += to.process[i] != s.home.process[i];
        assert_int_equal(moved, differ);
        assert_true(moved == 0 || divides || time < time_of(&s, &s.home));
        assert_true(divides ||
                    memcmp(to.split, s.home.split, (size_t)s.job.replicas * sizeof *to.split) == 0);
        assert_ok(sl_model_open(&s.job, s.healthy, &second));
        assert_ok(sl_model_see(second, part, parts));
        assert_ok(sl_model_time(second, &to, &same));
        assert_near(time, same, 0);
        assert_ok(sl_model_rearrange(second, &s.home, divides, &again, &same, &moved_again));
        assert_near(time, same, 0);
        assert_memory_equal(to.process, again.process, (size_t)sl_job_processes(&s.job) * sizeof *to.process);
        assert_memory_equal(to.split, again.split, (size_t)s.job.replicas * sizeof *to.split);
        sl_model_close(second);
        sl_job_layout_free(&again);
        sl_job_layout_free(&to);
        tear_down(&s);
    }
}

/* ---- large jobs ---- */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void a_job_of_100000_replicas_asks_for_few_plans(void **state) {
    setting s;
    double sum[8] = {0}, time, divided, begin = now();
    (void)state;
    sl_job_layout to;
    int moved;
    set_up(&s, (sl_job){.replicas = 100000, .ranks = 8, .ring = 1, .sum = sum, .schedule = "1f1b"}, 16);
    const sl_slow_part part[] = {
        device(sl_job_position(&s.job, 3, 77777, 0), 1.5),
        device(sl_job_position(&s.job, 5, 123, 0), 1.5),
        link(sl_job_position(&s.job, 1, 4242, 0), sl_job_position(&s.job, 2, 4242, 0), 90e6),
        link(sl_job_position(&s.job, 6, 10, 0), sl_job_position(&s.job, 6, 11, 0), 5e6),
    };
    double healthy = time_of(&s, &s.home);
    printf("opened %.3f s\n", now() - begin);
    assert_int_equal(s.model->answers->answers, 1);
    assert_ok(sl_model_see(s.model, part, 4));
    double slow = time_of(&s, &s.home);
    printf("time %.3f s\n", now() - begin);
    assert_true(slow > healthy + 2.0 * 99999 * 5e6);
    assert_true(s.model->answers->answers <= 5); /* healthy before and now, and with each of three */
    sl_job_layout split;
    assert_ok(sl_job_layout_copy(&s.job, &s.home, &split));
    assert_ok(sl_model_divide(s.model, &split, &divided));
    printf("divide %.3f s\n", now() - begin);
    assert_true(divided < slow);
    assert_true(s.model->answers->answers < 60);
    check_layout(&s, &split);
    for (int divides = 0; divides < 2; divides++) {
        assert_ok(sl_model_rearrange(s.model, &s.home, divides, &to, &time, &moved));
        printf("places %.3f s\n", now() - begin);
        check_layout(&s, &to);
        assert_true(time < 1e-3 * slow); /* the ring's slow link is left */
        assert_in_range(moved, 2, 32);
        sl_job_layout_free(&to);
    }
    sl_job_layout_free(&split);
    tear_down(&s);
}

static void what_is_remembered_is_bounded(void **state) {
    setting s;
    (void)state;
    set_up(&s, (sl_job){.replicas = 2, .ranks = 1, .schedule = "gpipe"}, 1);
    for (int i = 0; i < 140000; i++) {
        sl_slow_part part = device(1, 1 + (i + 1) * 1e-6);
        assert_ok(sl_model_see(s.model, &part, 1));
        assert_near(time_of(&s, &s.home), 30e6 + (i + 1) * 30, 3);
        assert_true(s.model->answers->slots <= 1 << 17);
    }
    tear_down(&s);
}

static void no_failed_allocation_leaks_or_breaks_the_model(void **state) {
    setting s;
    const double sum[] = {4000, 4000};
    (void)state;
    set_up(&s, (sl_job){.replicas = 3, .ranks = 2, .ring = 1, .sum = sum, .schedule = "1f1b"}, 3);
    const sl_slow_part part[] = {device(1, 2), link(0, 3, 50e6), device(5, 1.5)};
    for (int work = 0; work < 4; work++) {
        int failed = 0;
        for (long n = 0;; n++) {
            sl_model *model = NULL;
            sl_job_layout to = {0};
            double time;
            int moved;
            if (work) {
                assert_ok(sl_model_open(&s.job, s.healthy, &model));
                assert_ok(sl_model_see(model, part, 3));
            }
            sl_alloc_fail_at(n);
            sl_status status = SL_OK;
            if (work == 0)
                status = sl_model_open(&s.job, s.healthy, &model);
            else if (work == 1)
                status = sl_model_see(model, part, 2);
            else if (work == 2)
                status = sl_model_divide(model, &s.home, &time);
            else
                status = sl_model_rearrange(model, &s.home, 1, &to, &time, &moved);
            sl_alloc_fail_at(-1);
            failed += status != SL_OK;
            assert_true(status == SL_OK || status == SL_ENOMEM);
            if (status == SL_ENOMEM && work == 0)
                assert_null(model);
            if (status == SL_ENOMEM && work) {
                double after, fresh;
                assert_ok(sl_model_see(s.model, part, 3));
                assert_ok(sl_model_time(model, &s.home, &after));
                assert_ok(sl_model_time(s.model, &s.home, &fresh));
                assert_near(after, fresh, 0);
            }
            sl_job_layout_free(&to);
            sl_model_close(model);
            if (status == SL_OK)
                break;
            n += work == 3 ? n / 8 : 0; /* thousands */
        }
        assert_true(failed > 0);
    }
    tear_down(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_link_between_stages_becomes_unused),
        cmocka_unit_test(a_slow_link_of_a_ring_becomes_unused),
        cmocka_unit_test(slow_devices_are_gathered_when_microbatches_are_divided),
        cmocka_unit_test(in_a_small_ring_places_are_the_best_of_all),
        cmocka_unit_test(links_that_are_as_slow_as_each_other_are_all_left),
        cmocka_unit_test(nothing_moves_where_nothing_is_slow),
        cmocka_unit_test(places_are_never_worse_and_the_same_a_second_time),
        cmocka_unit_test(a_job_of_100000_replicas_asks_for_few_plans),
        cmocka_unit_test(what_is_remembered_is_bounded),
        cmocka_unit_test(no_failed_allocation_leaks_or_breaks_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
