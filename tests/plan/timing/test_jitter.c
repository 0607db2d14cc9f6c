/* The distribution of a makespan under jitter: exact where nothing jitters, known where a chain of messages
 * does. */
#include "check.h"

#include "plan/family/family.h"
#include "plan/search/plan.h"
#include "plan/timing/jitter.h"

static void make(sl_problem *p, int ranks, int microbatches) {
    assert_ok(sl_problem_make(ranks, ranks, microbatches, p));
    for (int rank = 0; rank < ranks; rank++) {
        p->time[SL_F][rank] = p->time[SL_I][rank] = p->time[SL_W][rank] = 10 * SL_MS;
        p->time[SL_B][rank] = 20 * SL_MS;
    }
}

/* As a file with latency_ms and jitter_ms gives it: plans count on the percentile. */
static void jitter_link(sl_problem *p, int from, double latency_ms, double mean_ms) {
    p->link[from * p->ranks + from + 1] = p->link[(from + 1) * p->ranks + from] =
        (sl_link){.latency = sl_from_ms(latency_ms + sl_jitter_share(mean_ms, p->percentile)),
                  .jitter = sl_from_ms(mean_ms)};
}

static void lower(const sl_problem *p, const char *schedule, sl_program *program) {
    sl_order order;
    assert_ok(sl_family_build(sl_family_find(schedule), p, &order));
    assert_ok(sl_lower(p, &order, program));
    sl_order_free(&order);
}

static void without_jitter_every_draw_is_the_makespan(void **state) {
    (void)state;
    sl_problem p;
    sl_program program;
    sl_jitter jitter;
    make(&p, 4, 12);
    jitter_link(&p, 0, 10, 0);
    lower(&p, "1f1b", &program);
    sl_plan plan;
    assert_ok(sl_plan_make(&p, "1f1b", &plan));
    assert_ok(sl_jitter_replay(&p, &program, 7, 3, &jitter));
    assert_int_equal(jitter.draws, 7);
    assert_true(jitter.mean == (double)plan.makespan);
    assert_int_equal(jitter.least, plan.makespan);
    assert_int_equal(jitter.most, plan.makespan);
    assert_int_equal(jitter.p10, plan.makespan);
    assert_int_equal(jitter.p99, plan.makespan);
    assert_fails(sl_jitter_replay(&p, &program, 0, 3, &jitter), SL_EINVAL, "draws");
    sl_plan_free(&plan);
    sl_program_free(&program);
    sl_problem_free(&p);
}

/* One microbatch on two ranks is a chain: F, message, F, B, message, B: 10 + 10 + 20 + 20 and two latencies.
 * The two exponential delays add up to a gamma of shape 2: mean 2, variance 2, P(x) = 1 - exp(-x) (1 + x) in
 * units of the mean; its quantiles are 0.5318, 1.6783, 3.8897, 6.6384. Allowed: four standard errors,
 * sqrt(p (1 - p) / n) / density for a quantile. */
static void a_chain_of_two_messages_has_the_gamma_distribution(void **state) {
    (void)state;
    enum { DRAWS = 10000 };
    const double mean = 20, fixed = 60 + 2 * 5;
    static const struct {
        double side, at, density; /* side: sqrt(p (1 - p)) */
    } quantiles[] = {{0.3, 0.53181, 0.31246},
                     {0.5, 1.67835, 0.31328},
                     {0.3, 3.88972, 0.07956},
                     {0.0995, 6.63835, 0.008698}};
    for (uint64_t seed = 1; seed <= 3; seed++) {
        sl_problem p;
        sl_program program;
        sl_jitter jitter;
        make(&p, 2, 1);
        jitter_link(&p, 0, 5, mean);
        lower(&p, "1f1b", &program);
        assert_ok(sl_jitter_replay(&p, &program, DRAWS, seed, &jitter));
        assert_near(jitter.mean / 1e6, fixed + 2 * mean, 4 * mean * 1.41422 / 100);
        const sl_time found[] = {jitter.p10, jitter.p50, jitter.p90, jitter.p99};
        for (int i = 0; i < 4; i++) {
            double error = quantiles[i].side / 100 / quantiles[i].density;
            assert_near(sl_to_ms(found[i]), fixed + mean * quantiles[i].at, 4 * mean * error);
        }
        assert_true(jitter.least >= sl_from_ms(fixed) - 4 && jitter.least < sl_from_ms(fixed + mean * 0.2));
        assert_true(jitter.most > jitter.p99);
        sl_program_free(&program);
        sl_problem_free(&p);
    }
}

static void a_seed_repeats_its_draws_and_another_does_not(void **state) {
    (void)state;
    sl_problem p;
    sl_program program;
    sl_jitter a, b, c;
    make(&p, 4, 6);
    jitter_link(&p, 1, 5, 8);
    lower(&p, "zb-h1", &program);
    assert_ok(sl_jitter_replay(&p, &program, 50, 11, &a));
    assert_ok(sl_jitter_replay(&p, &program, 50, 11, &b));
    assert_ok(sl_jitter_replay(&p, &program, 50, 12, &c));
    assert_memory_equal(&a, &b, sizeof a);
    assert_true(a.mean != c.mean);
    sl_program_free(&program);
    sl_problem_free(&p);
}

/* What a plan counts on decides its tail: the same link planned for its least latency and for its 90th
 * percentile, both under the same delays. */
static void a_plan_for_the_percentile_has_the_better_tail(void **state) {
    (void)state;
    sl_problem careful, hopeful;
    sl_program planned[2];
    sl_jitter jitter[2];
    make(&careful, 4, 12);
    make(&hopeful, 4, 12);
    hopeful.percentile = 0;
    jitter_link(&careful, 0, 0, 15);
    jitter_link(&hopeful, 0, 0, 15);
    assert_int_equal(hopeful.link[1].latency, 0);
    lower(&careful, "adaptra", &planned[0]);
    lower(&hopeful, "adaptra", &planned[1]);
    assert_ok(sl_jitter_replay(&careful, &planned[0], 1000, 5, &jitter[0]));
    assert_ok(sl_jitter_replay(&hopeful, &planned[1], 1000, 5, &jitter[1]));
    assert_true(jitter[0].p90 < jitter[1].p90);
    assert_true(jitter[0].p99 < jitter[1].p99);
    sl_program_free(&planned[0]);
    sl_program_free(&planned[1]);
    sl_problem_free(&careful);
    sl_problem_free(&hopeful);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_jitter_every_draw_is_the_makespan),
        cmocka_unit_test(a_chain_of_two_messages_has_the_gamma_distribution),
        cmocka_unit_test(a_seed_repeats_its_draws_and_another_does_not),
        cmocka_unit_test(a_plan_for_the_percentile_has_the_better_tail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
