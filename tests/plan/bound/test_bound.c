/* Bounds and search against all orders of small problems: none is below the bound, and the search finds the
 * shortest. SL_SEED gives other problems. */
#include "check.h"
#include "plan/drawn.h"

#include "base/clock.h"
#include "plan/bound/bound.h"
#include "plan/search/plan.h"
#include "plan/timing/objective.h"

#ifndef PROBLEMS
#define PROBLEMS 20
#endif

#define MAX 20000

typedef struct sequence {
    sl_op op[18];
    int count;
} sequence;

/* All sequences of a rank within its limit: microbatches of a stage and kind ascend (others are no better,
 * for microbatches are alike), each split or run as B. */
typedef struct all {
    const sl_problem *p;
    int rank;
    sequence now, *found;
    int count;
} all;

static int done(const sequence *s, int stage, int kind, int m) {
    for (int i = 0; i < s->count; i++)
        if (s->op[i].stage == stage && s->op[i].kind == kind && s->op[i].microbatch == m)
            return 1;
    return 0;
}

static double held(const sl_problem *p, const sequence *s) {
    double sum = 0;
    for (int i = 0; i < s->count; i++)
        sum += sl_problem_start_memory(p, &s->op[i]) + sl_problem_end_memory(p, &s->op[i]);
    return sum;
}

/* Whether `op` may come next on its rank, as far as the rank itself is concerned. */
static int may_follow(const all *a, const sl_op *op) {
    const sequence *s = &a->now;
    int stage = op->stage, m = op->microbatch, step = a->p->placement == SL_BIDIRECTIONAL ? 2 : 1;
    int back = done(s, stage, SL_I, m) || done(s, stage, SL_B, m);
    if (!sl_problem_runs(a->p, stage, m) || done(s, stage, op->kind, m))
        return 0;
    if (m >= step && !done(s, stage, op->kind, m - step) &&
        !(op->kind != SL_F && (done(s, stage, op->kind == SL_B ? SL_I : SL_B, m - step))))
        return 0;
    if (op->kind != SL_F && !done(s, stage, SL_F, m))
        return 0;
    if (op->kind == SL_W ? !done(s, stage, SL_I, m) : op->kind != SL_F && back)
        return 0;
    for (int other = 0; other < a->p->stages; other++) {
        if (sl_problem_rank(a->p, other) != a->rank || other == stage || !sl_problem_runs(a->p, other, m))
            continue;
        if (op->kind == SL_F && other < stage && !done(s, other, SL_F, m))
            return 0;
        if ((op->kind == SL_I || op->kind == SL_B) && other > stage && !done(s, other, SL_I, m) &&
            !done(s, other, SL_B, m))
            return 0;
    }
    return 1;
}

static int within(const all *a, const sl_op *op) {
    if (!a->p->limit)
        return 1;
    double before = held(a->p, &a->now), start = before + sl_problem_start_memory(a->p, op),
           end = start + sl_problem_end_memory(a->p, op);
    return (start > end ? start : end) <= a->p->limit[a->rank] + 1e-9;
}

static void enumerate(all *a, int full) {
    int added = 0, left = 0;
    for (int stage = 0; stage < a->p->stages; stage++)
        for (int m = 0; m < a->p->microbatches; m++) {
            if (sl_problem_rank(a->p, stage) != a->rank || !sl_problem_runs(a->p, stage, m))
                continue;
            left += !done(&a->now, stage, SL_W, m) && !done(&a->now, stage, SL_B, m);
            for (int kind = SL_F; kind <= (full ? SL_B : SL_W); kind++) {
                sl_op op = {.stage = stage, .microbatch = m, .kind = kind};
                if (!may_follow(a, &op) || !within(a, &op))
                    continue;
                a->now.op[a->now.count++] = op;
                enumerate(a, full);
                a->now.count--;
                added = 1;
            }
        }
    if (!added && left == 0 && a->count < MAX)
        a->found[a->count++] = a->now;
}

static sl_time value_of(const sl_problem *p, const sequence *const *chosen) {
    sl_order order;
    assert_ok(sl_order_make(p->ranks, 18, &order));
    for (int rank = 0; rank < p->ranks; rank++) {
        order.count[rank] = chosen[rank]->count;
        memcpy(order.ops[rank], chosen[rank]->op, (size_t)chosen[rank]->count * sizeof(sl_op));
    }
    sl_time value;
    if (sl_objective_of_order(p, &order, &value) != SL_OK)
        value = SL_TIME_NEVER;
    sl_order_free(&order);
    return value;
}

/* The least value of all orders of two ranks; SL_TIME_NEVER when none fits. */
static sl_time least_value(const sl_problem *p, int full) {
    sequence *found[2];
    int count[2];
    sl_time best = SL_TIME_NEVER;
    for (int rank = 0; rank < 2; rank++) {
        found[rank] = calloc(MAX, sizeof(sequence));
        all a = {.p = p, .rank = rank, .found = found[rank]};
        enumerate(&a, full);
        assert_true(a.count < MAX);
        count[rank] = a.count;
    }
    assert_true((double)count[0] * count[1] < 4e6);
    for (int i = 0; i < count[0]; i++)
        for (int k = 0; k < count[1]; k++) {
            sl_time time = value_of(p, (const sequence *const[]){&found[0][i], &found[1][k]});
            best = time < best ? time : best;
        }
    free(found[0]);
    free(found[1]);
    return best;
}

static void random_problem(sl_problem *p, sl_placement placement, int microbatches) {
    int stages = placement == SL_LINEAR ? 2 : 4;
    assert_ok(sl_problem_make(2, stages, microbatches, p));
    p->placement = placement;
    for (int s = 0; s < stages; s++) {
        for (int kind = SL_F; kind <= SL_W; kind++)
            p->time[kind][s] = 1 + draw(9);
        p->time[SL_B][s] = p->time[SL_I][s] + p->time[SL_W][s] - draw(2) * draw(3);
        p->reduce[s] = draw(4) == 0 ? draw(9) : 0;
        p->gather[s] = draw(4) == 0 ? draw(9) : 0;
        if (draw(3) == 0)
            p->delta[SL_I][s] = -0.5, p->delta[SL_W][s] = -0.5;
        if (draw(5) == 0)
            p->early[s] = 0.5, p->delta[SL_F][s] = 0.5;
    }
    p->link[1] = (sl_link){.latency = draw(12), .transfer = draw(2) * draw(12)};
    p->link[2] = (sl_link){.latency = draw(12), .transfer = draw(2) * draw(12)};
    p->communication = (sl_regime)(draw(4) ? SL_DECOUPLED : SL_INORDER + draw(2));
    if (draw(3)) {
        p->limit = calloc(2, sizeof(double));
        p->limit[0] = 1 + draw(2 * microbatches * stages) / 2.0;
        p->limit[1] = 1 + draw(2 * microbatches * stages) / 2.0;
    }
}

static void check_problem(sl_problem *p, int *answered) {
    sl_time bound, best = least_value(p, p->stages == 2 || p->microbatches == 1);
    sl_plan plan;
    sl_plan_options options = {.schedule = "optimal", .time_limit = 0.05, .seed = 1, .threads = 1};
    assert_ok(sl_lower_bound(p, 1, &bound));
    sl_status status = sl_plan_search(p, &options, &plan);
    if (best == SL_TIME_NEVER) {
        assert_int_equal(status, SL_ENONE);
        return;
    }
    assert_true(bound <= best);
    if (status != SL_OK) {
        sl_problem_write(p, stdout);
        fail_msg("%s, but an order takes %lld", sl_error_text(), (long long)best);
    }
    assert_true(plan.memory_ok && plan.bound <= best);
    ++*answered;
    if (p->stages == 2 || p->microbatches == 1)
        assert_true(plan.value >= best);
    sl_plan_free(&plan);
}

/* With the second pipeline's F the makespan begins at either end. */
static void no_order_of_small_problems_is_below_the_bound(void **state) {
    (void)state;
    static const struct {
        sl_placement placement;
        int microbatches, rounds;
    } shapes[] = {{SL_LINEAR, 2, 2 * PROBLEMS}, {SL_LINEAR, 3, PROBLEMS / 15},   {SL_LOOP, 1, PROBLEMS},
                  {SL_WAVE, 1, PROBLEMS},       {SL_BIDIRECTIONAL, 2, PROBLEMS}, {SL_WAVE, 2, PROBLEMS / 15},
                  {SL_LOOP, 2, PROBLEMS / 15}};
    int answered = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int round = 0; round < cases(shapes[i].rounds); round++) {
            sl_problem p;
            random_problem(&p, shapes[i].placement, shapes[i].microbatches);
            p.objective = (sl_objective)(round % 3);
            p.synchronization = (sl_synchronization)(round / 3 % 3);
            check_problem(&p, &answered);
            sl_problem_free(&p);
        }
    assert_true(answered > cases(PROBLEMS) * 5 / 3);
}

int main(void) {
    start_drawing(7);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_order_of_small_problems_is_below_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
