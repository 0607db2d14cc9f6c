/* labels: long */
/* The exact solver: optima by hand, by trying out every order of small problems, and of design.md's facts.
 * Skipped where OR-tools is absent. */
#include "check.h"

#include "base/memory.h"
#include "plan/bound/bound.h"
#include "plan/exact/exact.h"
#include "plan/exact/exact_model.h"
#include "plan/exact/solver.h"
#include "plan/family/family.h"
#include "plan/lower/program.h"
#include "plan/timing/replay.h"

#include <time.h>

#define LIMIT_S 20

static void make(sl_problem *p, int ranks, int microbatches, sl_time each) {
    assert_ok(sl_problem_make(ranks, ranks, microbatches, p));
    for (int s = 0; s < ranks; s++) {
        p->time[SL_F][s] = p->time[SL_I][s] = p->time[SL_W][s] = each;
        p->time[SL_B][s] = 2 * each;
    }
}

static void limit(sl_problem *p, double most) {
    if (!p->limit)
        assert_ok(sl_alloc(&p->limit, (size_t)p->ranks, sizeof *p->limit));
    for (int rank = 0; rank < p->ranks; rank++)
        p->limit[rank] = most;
}

static void deltas(sl_problem *p, double forward, double input, double weight) {
    for (int s = 0; s < p->stages; s++) {
        p->delta[SL_F][s] = forward;
        p->delta[SL_I][s] = input;
        p->delta[SL_W][s] = weight;
        p->delta[SL_B][s] = input + weight;
    }
}

/* The order's makespan by the timing model; SL_TIME_NEVER when it deadlocks or exceeds the memory. */
static sl_time replayed(const sl_problem *p, const sl_order *order) {
    sl_program program;
    sl_timeline timeline;
    double peak[16];
    if (sl_lower(p, order, &program) != SL_OK)
        return SL_TIME_NEVER;
    assert_ok(sl_replay(p, &program, p->communication, p->queue, &timeline));
    assert_ok(sl_peak_memory(p, &timeline, peak));
    sl_time makespan = sl_timeline_makespan(&timeline);
    for (int rank = 0; p->limit && rank < p->ranks; rank++)
        if (peak[rank] > p->limit[rank] * (1 + 1e-9))
            makespan = SL_TIME_NEVER;
    sl_timeline_free(&timeline);
    sl_program_free(&program);
    return makespan;
}

/* Solves without a hint and expects this optimum, proven, with an order that replays to it. */
static void expect(const sl_problem *p, sl_time optimum) {
    sl_exact_result result;
    assert_ok(sl_exact_solve(p, NULL, LIMIT_S, 2, 1, 0, NULL, &result));
    assert_int_equal(result.makespan, optimum);
    assert_int_equal(result.bound, optimum);
    assert_true(result.found && result.proven);
    assert_int_equal(replayed(p, &result.order), optimum);
    sl_order_free(&result.order);
}

/* Two ranks, two microbatches, every op 1. Free: rank 1 waits 1 and works 6. One microbatch at a time: F F I
 * I W each, twice 5. With F's memory back after I (at 4): F1 4-5, 5-6, I1 6-7, 7-8, W1 8-9. */
static void two_by_two_by_hand(void **state) {
    (void)state;
    sl_problem p;
    make(&p, 2, 2, 1);
    expect(&p, 7);
    limit(&p, 1);
    expect(&p, 10);
    deltas(&p, 1, -1, 0);
    expect(&p, 9);
    deltas(&p, 2, -1, -1);
    limit(&p, 3); /* F1 needs I0 or more */
    expect(&p, 9);
    limit(&p, 2); /* F1 needs I0 and W0 */
    expect(&p, 10);
    deltas(&p, 0.1, 0, -0.1);
    limit(&p, 0.1);
    expect(&p, 10);
    limit(&p, 0.2);
    expect(&p, 7);
    sl_problem_free(&p);
}

/* One rank more to wait for: free links 7; latency 3 both ways adds 3 to rank 1's wait; transfers of 2 delay
 * the second F by 1 more than the first (sent 1-3 and 3-5), but rank 1 has work until then: 1 + 2 + 6. */
static void links_by_hand(void **state) {
    (void)state;
    sl_problem p;
    make(&p, 2, 2, 1);
    p.link[1].latency = 3; /* rank 0 to 1 */
    expect(&p, 10);
    p.link[1] = (sl_link){.transfer = 2};
    expect(&p, 9);
    sl_problem_free(&p);
}

static void collectives_by_hand(void **state) {
    (void)state;
    sl_problem p;
    make(&p, 2, 2, 1);
    p.gather[0] = 5;
    p.gather[1] = 6; /* rank 1 waits no longer than for the first F: the makespan begins at 5 */
    expect(&p, 7);
    p.gather[1] = 8;
    expect(&p, 9);
    p.gather[0] = p.gather[1] = 0;
    p.reduce[1] = 4; /* rank 1 ends at 7 at the earliest */
    expect(&p, 11);
    sl_problem_free(&p);
}

/* design.md: S=4, N=12, F=I=W=10 ms take 390 ms, and c more with a delay c of up to 80 ms between ranks 0 and
 * 1. */
static void the_facts_are_optimal(void **state) {
    (void)state;
    static const int delays[] = {0, 10, 20, 60};
    for (int i = 0; i < 4; i++) {
        sl_problem p;
        make(&p, 4, 12, 10 * SL_MS);
        p.link[1].latency = p.link[4].latency = delays[i] * SL_MS;
        expect(&p, (390 + delays[i]) * SL_MS);
        sl_problem_free(&p);
    }
}

/* 8 ranks, 16 microbatches, two sites, memory of 1F1B (units of half an F). The last rank holds one
 * microbatch at a time; it waits 7*2 + 3 and runs 16 F, I, W in a row; after its last I (2 before its end)
 * the gradient takes 7*2 + 3 to the end of the first rank's I, and W 2: no schedule is shorter than 17 + 16*6
 * - 2 + 17 + 2 = 130, and an order that replays to a proven bound is the proof of the rest. */
static void two_sites_with_little_memory_are_solved(void **state) {
    (void)state;
    sl_problem p;
    sl_order hint;
    sl_exact_result result;
    make(&p, 8, 16, 2);
    limit(&p, 0);
    for (int rank = 0; rank < 8; rank++)
        p.limit[rank] = 8 - rank;
    p.link[3 * 8 + 4] = p.link[4 * 8 + 3] = (sl_link){.latency = 2, .transfer = 1};
    assert_ok(sl_family_build(sl_family_find("1f1b"), &p, &hint));
    assert_ok(sl_exact_solve(&p, &hint, LIMIT_S, 2, 1, 0, NULL, &result));
    assert_true(result.found && result.proven && result.bound >= 130);
    assert_int_equal(replayed(&p, &result.order), result.bound);
    sl_order_free(&result.order);
    sl_order_free(&hint);
    sl_problem_free(&p);
}

/* ---- every order of small problems ---- */

typedef struct trial {
    const sl_problem *p;
    sl_order order;
    unsigned char done[4][2]; /* [stage][microbatch] kinds: F, I, W */
    sl_time best;
} trial;

static void try_from(trial *t, int rank) {
    const sl_problem *p = t->p;
    if (rank == p->ranks) {
        sl_time makespan = replayed(p, &t->order);
        t->best = makespan < t->best ? makespan : t->best;
        return;
    }
    if (t->order.count[rank] == sl_problem_rank_ops(p, rank, 3)) {
        try_from(t, rank + 1);
        return;
    }
    for (int s = 0; s < p->stages; s++)
        for (int m = 0; sl_problem_rank(p, s) == rank && m < p->microbatches; m++) {
            if (!sl_problem_runs(p, s, m) || t->done[s][m] == 3)
                continue;
            t->order.ops[rank][t->order.count[rank]++] =
                (sl_op){.stage = s, .microbatch = m, .kind = t->done[s][m]};
            t->done[s][m]++;
            try_from(t, rank);
            t->done[s][m]--;
            t->order.count[rank]--;
        }
}

static sl_time best_of_all(const sl_problem *p) {
    trial t = {.p = p, .best = SL_TIME_NEVER};
    assert_ok(sl_order_make(p->ranks, 12, &t.order));
    try_from(&t, 0);
    sl_order_free(&t.order);
    return t.best;
}

static unsigned seed_of_test(void) {
    const char *given = getenv("SL_SEED");
    unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
    printf("SL_SEED=%u\n", seed);
    return seed;
}

static int any(int least, int most) {
    return least + rand() % (most - least + 1);
}

typedef struct shape {
    int ranks, stages, microbatches;
    sl_placement placement;
} shape;

static void fill_at_random(sl_problem *p, const shape *s, int with_transfers) {
    assert_ok(sl_problem_make(s->ranks, s->stages, s->microbatches, p));
    p->placement = s->placement;
    int kept = any(0, 3);
    for (int i = 0; i < s->stages; i++) {
        for (int kind = SL_F; kind <= SL_W; kind++)
            p->time[kind][i] = any(1, 9);
        p->time[SL_B][i] = p->time[SL_I][i] + p->time[SL_W][i];
        p->gather[i] = any(0, 3) ? 0 : any(1, 9);
        p->reduce[i] = any(0, 3) ? 0 : any(1, 9);
        double forward = any(1, 4), input = -any(0, (int)forward);
        p->early[i] = kept == 3 ? any(0, 2) : 0;
        p->delta[SL_F][i] = forward;
        p->delta[SL_I][i] = input - p->early[i];
        p->delta[SL_W][i] = -forward - input;
        if (kept == 2) /* something stays */
            p->delta[SL_W][i] += any(0, 1);
        p->delta[SL_B][i] = p->delta[SL_I][i] + p->delta[SL_W][i];
    }
    for (int i = 0; i < s->ranks * s->ranks; i++)
        p->link[i] = (sl_link){.latency = any(0, 5), .transfer = with_transfers ? any(0, 5) : 0};
    if (kept > 0)
        limit(p, any(3, 9));
}

static void agree_with_all_orders(const shape *s, int problems, int with_transfers, int exactly) {
    for (int i = 0; i < problems; i++) {
        sl_problem p;
        sl_exact_result result;
        fill_at_random(&p, s, with_transfers);
        if (exactly && s->placement == SL_BIDIRECTIONAL)
            memset(p.gather, 0, (size_t)s->stages * sizeof *p.gather);
        sl_time best = best_of_all(&p);
        sl_status status = sl_exact_solve(&p, NULL, LIMIT_S, 1, 1, 0, NULL, &result);
        if (best == SL_TIME_NEVER) {
            assert_int_equal(status, SL_ENONE);
        } else {
            if (status != SL_OK)
                fail_msg("problem %d: %s", i, sl_error_text());
            if (result.bound > best || result.makespan < best || (exactly && result.makespan != best))
                fail_msg("problem %d: bound %d, makespan %d, but the best of all orders takes %d", i,
                         (int)result.bound, (int)result.makespan, (int)best);
            assert_int_equal(replayed(&p, &result.order), result.makespan);
        }
        sl_order_free(&result.order);
        sl_problem_free(&p);
    }
}

/* With transfers, several flows may share a link: the replay then serves who comes first, and an order need
 * not reach the model's makespan. Nor need it where two pipelines wait for gathers: the model may then put
 * off the first F. */
static void no_order_of_a_small_problem_is_better(void **state) {
    (void)state;
    static const shape shapes[] = {{2, 2, 2, SL_LINEAR},
                                   {3, 3, 2, SL_LINEAR},
                                   {2, 4, 1, SL_LOOP},
                                   {2, 4, 1, SL_WAVE},
                                   {2, 4, 2, SL_BIDIRECTIONAL}};
    srand(seed_of_test());
    for (int i = 0; i < 5; i++) {
        int linear = shapes[i].placement == SL_LINEAR;
        agree_with_all_orders(&shapes[i], 12, 1, linear);
        agree_with_all_orders(&shapes[i], 8, 0, 1);
    }
}

/* ---- random problems of some size ---- */

static void plans_of_random_problems_are_improved_and_bounds_kept(void **state) {
    (void)state;
    srand(seed_of_test());
    for (int i = 0; i < 10; i++) {
        shape s = {any(2, 6), 0, any(2, 8), SL_LINEAR};
        sl_problem p;
        sl_order hint;
        sl_exact_result result;
        sl_time bound;
        s.stages = s.ranks;
        fill_at_random(&p, &s, 1);
        if (p.limit)
            limit(&p, 4 * s.ranks + 4);
        if (sl_family_build(sl_family_find("1f1b"), &p, &hint) == SL_OK) {
            sl_time before = replayed(&p, &hint);
            assert_ok(sl_lower_bound(&p, 1, &bound));
            assert_ok(sl_exact_solve(&p, &hint, LIMIT_S, 2, (uint64_t)i, bound, NULL, &result));
            assert_true(result.bound >= bound && result.makespan >= result.bound);
            assert_true(result.makespan <= before && result.found == (result.makespan < before));
            if (result.found)
                assert_int_equal(replayed(&p, &result.order), result.makespan);
            sl_order_free(&result.order);
            sl_order_free(&hint);
        }
        sl_problem_free(&p);
    }
}

static void a_proven_hint_stays(void **state) {
    (void)state;
    sl_problem p;
    sl_exact_result first, again;
    make(&p, 3, 4, 5);
    limit(&p, 3);
    assert_ok(sl_exact_solve(&p, NULL, LIMIT_S, 2, 1, 0, NULL, &first));
    assert_true(first.proven);
    assert_ok(sl_exact_solve(&p, &first.order, LIMIT_S, 2, 1, 0, NULL, &again));
    assert_true(again.proven && !again.found);
    assert_int_equal(again.makespan, first.makespan);
    sl_order_free(&first.order);
    sl_problem_free(&p);
}

/* ---- what it does not promise ---- */

static void other_regimes_get_a_bound_alone(void **state) {
    (void)state;
    sl_problem p;
    sl_exact_result result;
    make(&p, 2, 2, 1);
    p.communication = SL_INORDER;
    p.queue = 1;
    assert_ok(sl_exact_solve(&p, NULL, LIMIT_S, 2, 1, 0, NULL, &result));
    assert_int_equal(result.bound, 7);
    assert_false(result.found || result.proven);
    sl_problem_free(&p);
}

/* F and B of 1, as against I and W of 1 each: 1f1b ends at 5 on rank 1 (1 + 4) and its gradient takes 1 more.
 */
static void nothing_is_proven_where_a_whole_backward_is_cheaper(void **state) {
    (void)state;
    sl_problem p;
    sl_order hint;
    sl_exact_result result;
    make(&p, 2, 2, 1);
    for (int s = 0; s < 2; s++)
        p.time[SL_B][s] = 1;
    assert_ok(sl_family_build(sl_family_find("1f1b"), &p, &hint));
    assert_int_equal(replayed(&p, &hint), 6);
    assert_ok(sl_exact_solve(&p, &hint, LIMIT_S, 2, 1, 5, NULL, &result));
    assert_int_equal(result.makespan, 6);
    assert_int_equal(result.bound, 5);
    assert_false(result.found || result.proven);
    sl_order_free(&hint);
    sl_problem_free(&p);
}

static void what_it_cannot_take_is_said(void **state) {
    (void)state;
    sl_problem p;
    sl_exact_result result;
    make(&p, 2, 2, 2);
    p.parts = 2;
    assert_fails(sl_exact_solve(&p, NULL, 1, 1, 1, 0, NULL, &result), SL_ENONE, "parts");
    p.parts = 1;
    limit(&p, 0.5);
    assert_fails(sl_exact_solve(&p, NULL, 1, 1, 1, 0, NULL, &result), SL_ENONE, "memory limit of 0.5");
    sl_problem_free(&p);
    make(&p, 100, 1000, 1);
    assert_fails(sl_exact_solve(&p, NULL, 1, 1, 1, 0, NULL, &result), SL_ENONE, "300000");
    sl_problem_free(&p);
}

static sl_status solve(const sl_problem *p) {
    sl_exact_result result;
    sl_status status = sl_exact_solve(p, NULL, LIMIT_S, 1, 1, 0, NULL, &result);
    assert_int_equal(result.found, status == SL_OK);
    sl_order_free(&result.order);
    return status;
}

static sl_status model(const sl_problem *p) {
    sl_exact_model made;
    sl_status status = sl_exact_model_make(p, NULL, 0, &made);
    sl_exact_model_free(&made);
    return status;
}

static void fail_every_allocation(sl_status (*call)(const sl_problem *), const sl_problem *p) {
    sl_status status = SL_ENOMEM;
    for (long n = 0; status != SL_OK; n++) {
        sl_alloc_fail_at(n);
        status = call(p);
        sl_alloc_fail_at(-1);
        if ((status != SL_OK && status != SL_ENOMEM) || n > 10000)
            fail_msg("allocation %ld: %s", n, sl_error_text());
    }
}

/* The whole, and models with two stages a rank (memory as intervals) and with memory that stays (a
 * reservoir).
 */
static void every_failed_allocation_is_an_error(void **state) {
    (void)state;
    sl_problem p;
    make(&p, 1, 1, 1);
    limit(&p, 1);
    fail_every_allocation(solve, &p);
    sl_problem_free(&p);
    assert_ok(sl_problem_make(2, 4, 2, &p));
    p.placement = SL_LOOP;
    limit(&p, 4);
    for (int s = 0; s < p.stages; s++)
        p.time[SL_F][s] = p.time[SL_I][s] = p.time[SL_W][s] = p.reduce[s] = 1;
    fail_every_allocation(model, &p);
    deltas(&p, 1, 0, -0.5);
    fail_every_allocation(model, &p);
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_by_two_by_hand),
        cmocka_unit_test(links_by_hand),
        cmocka_unit_test(collectives_by_hand),
        cmocka_unit_test(the_facts_are_optimal),
        cmocka_unit_test(two_sites_with_little_memory_are_solved),
        cmocka_unit_test(no_order_of_a_small_problem_is_better),
        cmocka_unit_test(plans_of_random_problems_are_improved_and_bounds_kept),
        cmocka_unit_test(a_proven_hint_stays),
        cmocka_unit_test(other_regimes_get_a_bound_alone),
        cmocka_unit_test(nothing_is_proven_where_a_whole_backward_is_cheaper),
        cmocka_unit_test(what_it_cannot_take_is_said),
        cmocka_unit_test(every_failed_allocation_is_an_error),
    };
    if (!sl_exact_available()) {
        printf("skipped: %s\n", sl_error_text());
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
