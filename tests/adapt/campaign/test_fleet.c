/* The time of a job on a fleet: by hand for single faults, and in the closed form for exponential failures
 * (Daly 2006, equation 20; the machine-repair model of queueing theory), within the confidence interval of
 * the runs. */
#include "check.h"

#include "adapt/campaign/fleet.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define S SL_SECOND
#define HOUR (3600 * SL_SECOND)

enum { WAIT, SPARES, CHECK, NOTICE, BOTH };

/* 1000 s; a checkpoint of 10 s after 100 s of work, a restart of 30 s, a check of 5 s. */
static sl_fleet small_fleet(int hosts, int spares) {
    sl_fleet f = {.hosts = hosts,
                  .spares = spares,
                  .duration = 1000 * S,
                  .restart = 30 * S,
                  .check = 5 * S,
                  .notice = 20 * S,
                  .save = 10 * S,
                  .every = 100 * S,
                  .runs = 1,
                  .in_order = 1,
                  .seed = 1};
    for (int k = 0; k < SL_FLEET_KINDS; k++)
        f.slow[k] = k < SL_FLEET_SLOW ? 1 : 2;
    return f;
}

static sl_fleet_fault fault(int host, sl_fleet_kind kind, double first, double until) {
    return (sl_fleet_fault){host, kind, (sl_time)(first * 1e9),
                            until < 0 ? SL_TIME_NEVER : (sl_time)(until * 1e9)};
}

typedef struct expected {
    double useful, slower, saving, rework, restarting, checking, waiting; /* s */
    int stops, starts, replaced;
} expected;

static void check_play(const sl_fleet *f, int strategy, const sl_fleet_fault *faults, size_t count,
                       const expected *e) {
    const double part[] = {e->useful,     e->slower,   e->saving, e->rework,
                           e->restarting, e->checking, e->waiting};
    sl_fleet_outcome o;
    assert_ok(sl_fleet_play(f, &sl_fleet_strategies[strategy], 0, faults, count, &o));
    for (int i = 0; i < SL_FLEET_PARTS; i++)
        if (o.part[i] != (sl_time)(part[i] * 1e9))
            fail_msg("strategy %d: part %d is %g s, not %g", strategy, i, (double)o.part[i] / 1e9, part[i]);
    assert_int_equal(o.stops, e->stops);
    assert_int_equal(o.starts, e->starts);
    assert_int_equal(o.replaced, e->replaced);
}

/* Host 0 fails at 250 s, 30 s after the second checkpoint. A spare: six more intervals of 110 s from 280 s,
 * and 60 s of work. */
static void a_stop_costs_rework_and_a_restart(void **state) {
    (void)state;
    const sl_fleet f = small_fleet(3, 1);
    const sl_fleet_fault lasts[] = {fault(0, SL_FLEET_STOP, 250, -1)},
                         none[] = {fault(0, SL_FLEET_STOP, 250, 250)};
    const expected restarted = {860, 0, 80, 30, 30, 0, 0, 1, 1, 0};
    check_play(&f, SPARES, lasts, 1, &restarted);
    check_play(&f, NOTICE, lasts, 1, &restarted);
    check_play(&f, WAIT, lasts, 1, &(expected){200, 0, 20, 30, 0, 0, 750, 1, 0, 0});
    /* a check of 5 s as well */
    check_play(&f, CHECK, lasts, 1, &(expected){855, 0, 80, 30, 30, 5, 0, 1, 1, 0});
    /* a host that is well again at once needs no spare */
    check_play(&f, WAIT, none, 1, &restarted);
}

/* The spare fails 10 s after the start has begun; another one is there. */
static void a_stop_during_a_start_starts_again(void **state) {
    (void)state;
    const sl_fleet f = small_fleet(4, 2);
    const sl_fleet_fault faults[] = {fault(0, SL_FLEET_STOP, 250, -1), fault(2, SL_FLEET_STOP, 260, -1)};
    check_play(&f, SPARES, faults, 2, &(expected){850, 0, 80, 30, 40, 0, 0, 2, 2, 0});
}

/* Host 1 is tested from 50 s on: a job on it continues, a start cannot use it. */
static void a_host_that_is_away_is_missing_at_the_next_start(void **state) {
    (void)state;
    const sl_fleet f = small_fleet(3, 1);
    const sl_fleet_fault faults[] = {fault(1, SL_FLEET_AWAY, 50, -1), fault(0, SL_FLEET_STOP, 250, 400)};
    check_play(&f, SPARES, faults, 2, &(expected){720, 0, 70, 30, 30, 0, 150, 1, 1, 0});
}

/* Host 1 has lost its reserve before host 0 fails: a second spare takes its part, and its own failure at 300
 * s then stops nobody. Without a second spare it stays in the job. */
static void a_start_prefers_hosts_without_a_warning(void **state) {
    (void)state;
    const sl_fleet two = small_fleet(4, 2), one = small_fleet(3, 1);
    const sl_fleet_fault faults[] = {fault(1, SL_FLEET_WARN, 50, -1), fault(0, SL_FLEET_STOP, 250, -1),
                                     fault(1, SL_FLEET_STOP, 300, -1)};
    check_play(&two, SPARES, faults, 3, &(expected){860, 0, 80, 30, 30, 0, 0, 1, 1, 0});
    /* from 280 s, 20 s of work are lost; then there is one host */
    check_play(&one, SPARES, faults, 3, &(expected){200, 0, 20, 50, 30, 0, 700, 2, 1, 0});
}

/* Host 1 takes twice as long from 110 s on. */
static void a_slow_host_is_replaced_once_that_pays(void **state) {
    (void)state;
    const sl_fleet f = small_fleet(3, 1);
    const sl_fleet_fault faults[] = {fault(1, SL_FLEET_NIC, 110, -1)};
    /* four intervals of 210 s, and 50 s of half work */
    const expected ignored = {525, 425, 50, 0, 0, 0, 0, 0, 0, 0};
    check_play(&f, SPARES, faults, 1, &ignored);
    check_play(&f, CHECK, faults, 1, &ignored);
    /* known at 130 s; at 200 s the 45 s of checkpoint, check and restart are lost: 210 s checkpoint, 245 s
     * running; six intervals and 95 s */
    const expected replaced = {840, 45, 80, 0, 30, 5, 0, 0, 1, 1};
    check_play(&f, NOTICE, faults, 1, &replaced);
    check_play(&f, BOTH, faults, 1, &replaced);
    /* no spare: nothing to do */
    const sl_fleet none = small_fleet(2, 0);
    check_play(&none, NOTICE, faults, 1, &ignored);
}

/* Host 1 is slow from 110 s on, and host 0 fails at 250 s, before a checkpoint: 140 s are lost. */
static void a_check_before_a_start_leaves_slow_hosts_out(void **state) {
    (void)state;
    const sl_fleet two = small_fleet(4, 2), one = small_fleet(3, 1);
    const sl_fleet_fault faults[] = {fault(1, SL_FLEET_HEAT, 110, -1), fault(0, SL_FLEET_STOP, 250, -1)};
    check_play(&two, CHECK, faults, 2, &(expected){755, 0, 70, 140, 30, 5, 0, 1, 1, 0});
    check_play(&two, SPARES, faults, 2, &(expected){445, 345, 40, 140, 30, 0, 0, 1, 1, 0});
    /* with one spare it has to stay */
    check_play(&one, CHECK, faults, 2, &(expected){442.5, 342.5, 40, 140, 30, 5, 0, 1, 1, 0});
}

static void a_job_ends_when_its_work_is_saved(void **state) {
    (void)state;
    sl_fleet f = small_fleet(2, 0);
    sl_fleet_outcome o;
    f.work = 250 * S;
    assert_ok(sl_fleet_play(&f, &sl_fleet_strategies[WAIT], 0, NULL, 0, &o));
    assert_int_equal(o.wall, 280 * S); /* 100, 10, 100, 10, 50, 10 */
    assert_true(o.is_done);
    f.work = 2000 * S;
    assert_ok(sl_fleet_play(&f, &sl_fleet_strategies[WAIT], 0, NULL, 0, &o));
    assert_true(o.wall == 1000 * S && !o.is_done);
}

/* ---- closed forms ---- */

typedef struct sample {
    int count;
    double sum, squares;
} sample;

static void take(sample *s, double value) {
    s->count++;
    s->sum += value;
    s->squares += value * value;
}

/* The mean of the runs is within the interval that holds it in 999 of 1000 cases: `quantile` standard errors
 * (3.3 for many runs, 3.9 for 20, by Student's distribution). */
static void check_mean(const char *what, const sample *s, double quantile, double expected_mean) {
    const double mean = s->sum / s->count;
    const double error = sqrt((s->squares / s->count - mean * mean) / (s->count - 1));
    if (!(fabs(mean - expected_mean) <= quantile * error))
        fail_msg("%s: %.6g, not %.6g +- %.3g", what, mean, expected_mean, quantile * error);
    if (!(error < 0.02 * expected_mean))
        fail_msg("%s: the runs say too little, %.6g +- %.3g", what, mean, error);
}

/* Daly 2006: wall time = M e^(R/M) (e^((t+d)/M) - 1) Ts/t for failures every M on average, also during
 * checkpoints d and restarts R. */
static void exponential_failures_take_dalys_wall_time(void **state) {
    (void)state;
    static const struct {
        double mean, every, save, restart; /* h */
    } cases[] = {{1, 0.3, 0.02, 0.1}, {1, 0.3, 0, 0}, {4, 0.5, 0.1, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        sl_fleet f = small_fleet(1, 0);
        sample wall = {0};
        f.failure_days = cases[c].mean / 24;
        f.repair_hours = 1e-9;
        f.every = (sl_time)(cases[c].every * (double)HOUR);
        f.save = (sl_time)(cases[c].save * (double)HOUR);
        f.restart = (sl_time)(cases[c].restart * (double)HOUR);
        f.work = 60 * f.every;
        f.duration = 20 * f.work;
        for (int run = 0; run < 400; run++) {
            sl_fleet_fault *faults;
            size_t count;
            sl_fleet_outcome o;
            assert_ok(sl_fleet_draw(&f, run, &faults, &count));
            assert_ok(sl_fleet_play(&f, &sl_fleet_strategies[SPARES], run, faults, count, &o));
            assert_true(o.is_done && o.part[SL_FLEET_USEFUL] == f.work);
            take(&wall, (double)o.wall / (double)HOUR);
            sl_free(faults);
        }
        const double m = cases[c].mean;
        check_mean("wall time", &wall, 3.3,
                   m * exp(cases[c].restart / m) * (exp((cases[c].every + cases[c].save) / m) - 1) * 60);
    }
}

/* Share of time with fewer than `need` of `hosts` machines up, birth and death: (n - k) / mean failures, and
 * min(k, crews) / repair repairs. */
static double share_down(int hosts, int need, int crews, double ratio) {
    double weight = 1, all = 1, down = 0;
    for (int k = 1; k <= hosts; k++) {
        weight *= (hosts - k + 1) * ratio / (crews && k > crews ? crews : k);
        all += weight;
        down += hosts - k < need ? weight : 0;
    }
    return down / all;
}

static void jobs_wait_as_machines_wait_for_repair(void **state) {
    (void)state;
    static const struct { int crews, strategy; } cases[] = {{1, SPARES}, {2, SPARES}, {0, SPARES}, {0, WAIT}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        sl_fleet f = small_fleet(10, 2);
        sample waiting = {0};
        f.failure_days = 10;
        f.repair_hours = 24;
        f.crews = cases[c].crews;
        f.restart = f.save = f.check = 0;
        f.duration = 20000 * 24 * HOUR;
        f.in_order = 0;
        for (int run = 0; run < 20; run++) {
            sl_fleet_fault *faults;
            size_t count;
            sl_fleet_outcome o;
            assert_ok(sl_fleet_draw(&f, run, &faults, &count));
            assert_ok(sl_fleet_play(&f, &sl_fleet_strategies[cases[c].strategy], run, faults, count, &o));
            take(&waiting, (double)o.part[SL_FLEET_WAITING] / (double)o.wall);
            sl_free(faults);
        }
        /* a job without spares needs its own eight hosts, each independently down */
        check_mean("waiting", &waiting, 3.9,
                   cases[c].strategy == WAIT ? 1 - pow(1 / 1.1, 8) : share_down(10, 8, f.crews, 0.1));
    }
}

/* By hand: d = 60 s, M = 1 day: sqrt(2 d M) = 3219.94 s; d / 2M = 3.47222e-4, its root 0.0186339, so
 * 3219.94 (1 + 0.00621130 + 0.0000385802) - 60 = 3180.06 s. */
static void intervals_are_youngs_and_dalys(void **state) {
    (void)state;
    assert_near(sl_fleet_young(60, 86400), 3219.94, 0.01);
    assert_near(sl_fleet_daly(60, 86400), 3180.06, 0.01);
    assert_near(sl_fleet_daly(3, 1), 1, 0); /* longer than 2M: M */
}

/* ---- any fleet ---- */

static sl_fleet draw_fleet(uint64_t seed) {
    const int64_t bits = (int64_t)(seed * UINT64_C(0x9e3779b97f4a7c15) >> 1);
    sl_fleet f = small_fleet(2 + (int)(bits >> 59), 0);
    f.spares = (int)((bits >> 50) % f.hosts);
    f.in_order = (int)(bits >> 49 & 1);
    f.runs = 3;
    f.seed = seed;
    f.duration = 30 * 24 * HOUR;
    f.failure_days = 1 + (double)(bits >> 40 & 15);
    f.repair_hours = 1 + (double)(bits >> 36 & 15);
    f.crews = (int)(bits >> 34 & 3);
    f.slow_days = 1 + (double)(bits >> 30 & 15);
    f.slow_hours = 1 + (double)(bits >> 26 & 63);
    f.slow[SL_FLEET_DRAWN] = 1 + (double)(bits >> 20 & 63) / 17;
    f.save = (sl_time)(bits >> 16 & 15) * 7 * S;
    f.check = (sl_time)(bits >> 14 & 3) * 41 * S;
    f.restart = (sl_time)(bits >> 12 & 3) * 333 * S;
    f.notice = (sl_time)(bits >> 10 & 3) * 60 * S;
    f.every = (1 + (sl_time)(bits >> 4 & 63)) * 97 * S;
    f.work = bits & 1 ? 10 * 24 * HOUR + (sl_time)(bits >> 30 & 1023) : 0;
    return f;
}

static void times_add_up_to_the_wall_time(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        const sl_fleet f = draw_fleet(seed);
        sl_fleet_fault *faults;
        size_t count;
        assert_ok(sl_fleet_draw(&f, 1, &faults, &count));
        for (int strategy = 0; strategy < SL_FLEET_STRATEGIES; strategy++) {
            sl_fleet_outcome o, again;
            sl_time sum = 0;
            assert_ok(sl_fleet_play(&f, &sl_fleet_strategies[strategy], 1, faults, count, &o));
            assert_ok(sl_fleet_play(&f, &sl_fleet_strategies[strategy], 1, faults, count, &again));
            assert_memory_equal(&o, &again, sizeof o);
            for (int i = 0; i < SL_FLEET_PARTS; i++) {
                assert_true(o.part[i] >= 0);
                sum += o.part[i];
            }
            if (sum != o.wall || (o.is_done ? o.part[SL_FLEET_USEFUL] != f.work : o.wall != f.duration))
                fail_msg("seed %llu, strategy %d: %lld of %lld ns", (unsigned long long)seed, strategy,
                         (long long)sum, (long long)o.wall);
        }
        sl_free(faults);
    }
}

static void check_same(const sl_fleet_result *one, const sl_fleet_result *other) {
    for (int i = 0; i < SL_FLEET_STRATEGIES; i++) {
        const sl_fleet_row *a = &one->row[i], *b = &other->row[i];
        assert_memory_equal(a->part, b->part, sizeof a->part);
        assert_true(a->error == b->error && a->wall == b->wall && a->stops == b->stops);
    }
    assert_int_equal(one->spares, other->spares);
    assert_int_equal(one->intervals, other->intervals);
    for (int i = 0; i < one->spares; i++)
        assert_memory_equal(one->spare[i].goodput, other->spare[i].goodput, sizeof one->spare[i].goodput);
    for (int i = 0; i < one->intervals; i++)
        assert_memory_equal(one->interval[i].goodput, other->interval[i].goodput,
                            sizeof one->interval[i].goodput);
}

static void results_depend_on_the_seed_alone(void **state) {
    (void)state;
    sl_fleet f = draw_fleet(7);
    static sl_fleet_result one, same, other;
    f.every = 0; /* Daly's */
    f.save = 30 * S;
    f.work = 0;
    assert_ok(sl_fleet_run(&f, &one));
    assert_ok(sl_fleet_run(&f, &same));
    check_same(&one, &same);
    f.seed = 8;
    assert_ok(sl_fleet_run(&f, &other));
    assert_true(memcmp(one.row[0].part, other.row[0].part, sizeof one.row[0].part) != 0);
    for (int i = 0; i < SL_FLEET_STRATEGIES; i++) {
        double sum = 0;
        for (int k = 0; k < SL_FLEET_PARTS; k++)
            sum += one.row[i].part[k];
        assert_near(sum, 1, 1e-12);
    }
    assert_near((double)one.daly, sl_fleet_daly((double)f.save, one.between_stops), 1);
    assert_int_equal(one.every, one.daly);
}

static void memory_may_run_out_anywhere(void **state) {
    (void)state;
    sl_fleet f = draw_fleet(3);
    static sl_fleet_result result;
    f.duration = 24 * HOUR;
    f.work = 0;
    for (long n = 0;; n++) {
        sl_alloc_fail_at(n);
        sl_status status = sl_fleet_run(&f, &result);
        sl_alloc_fail_at(-1);
        if (status == SL_OK)
            break;
        assert_int_equal(status, SL_ENOMEM);
        n += n / 8;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_costs_rework_and_a_restart),
        cmocka_unit_test(a_stop_during_a_start_starts_again),
        cmocka_unit_test(a_host_that_is_away_is_missing_at_the_next_start),
        cmocka_unit_test(a_start_prefers_hosts_without_a_warning),
        cmocka_unit_test(a_slow_host_is_replaced_once_that_pays),
        cmocka_unit_test(a_check_before_a_start_leaves_slow_hosts_out),
        cmocka_unit_test(a_job_ends_when_its_work_is_saved),
        cmocka_unit_test(exponential_failures_take_dalys_wall_time),
        cmocka_unit_test(jobs_wait_as_machines_wait_for_repair),
        cmocka_unit_test(intervals_are_youngs_and_dalys),
        cmocka_unit_test(times_add_up_to_the_wall_time),
        cmocka_unit_test(results_depend_on_the_seed_alone),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
