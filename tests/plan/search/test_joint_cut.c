/* Cut, recomputation and schedule together: compared with every cut, every choice of stages that recompute,
 * and a search for the schedule of each. SL_SEED gives other problems, SL_ROUNDS more of them. */
#include "check.h"
#include "plan/search/drawn_problem.h"

#include "base/clock.h"
#include "base/memory.h"
#include "plan/bound/bound.h"
#include "plan/pipeline/layers.h"
#include "plan/search/layer_cut.h"
#include "plan/search/plan.h"
#include "plan/search/replan.h"

/* Layers of F, I and W of 1 ms that keep 10 and recompute from 1. */
static void equal_layers(int ranks, int stages, int layers, int microbatches, double memory, sl_problem *p) {
    assert_ok(sl_problem_make(ranks, stages, microbatches, p));
    assert_ok(sl_layers_make(layers, ranks, stages, &p->layers));
    assert_ok(sl_alloc(&p->limit, (size_t)ranks, sizeof *p->limit));
    assert_ok(sl_alloc(&p->fixed, (size_t)ranks, sizeof *p->fixed));
    assert_ok(sl_alloc(&p->layers->memory, (size_t)ranks, sizeof *p->limit));
    sl_layers *l = p->layers;
    for (int rank = 0; rank < ranks; rank++)
        l->memory[rank] = memory;
    for (int layer = 0; layer < layers; layer++) {
        for (int kind = SL_F; kind <= SL_B; kind++)
            l->time[kind][layer] = kind == SL_B ? 2 * SL_MS : SL_MS;
        l->delta[SL_F][layer] = 10;
        l->delta[SL_W][layer] = l->delta[SL_B][layer] = -10;
        l->input[layer] = 1;
    }
    for (int stage = 0; stage <= stages; stage++)
        l->first[stage] = layers * stage / stages;
    sl_problem_cut(p, l->first);
}

/* By hand: two layers that keep 10 each and recompute from 1. F keeps 2; one layer at a time is computed
 * again, so I takes 9 at its start; after it all 20 are there for W. */
static void a_stage_recomputes_layer_by_layer(void **state) {
    (void)state;
    sl_problem p;
    equal_layers(2, 2, 4, 4, 1000, &p);
    p.recompute[0] = 1;
    sl_problem_cut(&p, p.layers->first);
    assert_near(p.delta[SL_F][0], 2, 0);
    assert_near(p.early[0], 9, 0);
    assert_near(p.delta[SL_I][0], 9, 0);
    assert_near(p.delta[SL_W][0], -20, 0);
    assert_near(p.delta[SL_B][0], -11, 0);
    assert_int_equal(p.time[SL_I][0], 4 * SL_MS);
    assert_int_equal(p.time[SL_B][0], 6 * SL_MS);
    assert_int_equal(p.time[SL_W][0], 2 * SL_MS);
    assert_near(p.delta[SL_F][1], 20, 0);
    assert_int_equal(p.time[SL_B][1], 4 * SL_MS);
    sl_problem_free(&p);
}

/* By hand: what I takes at its start is needed by one layer after the other: 5 and 3 bytes are 5 at a time,
 * of which I gives back 5, though its layers give back 8. */
static void gradients_of_one_layer_count_at_a_time(void **state) {
    (void)state;
    sl_problem p;
    equal_layers(1, 1, 2, 4, 1000, &p);
    p.layers->early[0] = 5;
    p.layers->early[1] = 3;
    for (int layer = 0; layer < 2; layer++) {
        p.layers->delta[SL_I][layer] = -p.layers->early[layer];
        p.layers->delta[SL_B][layer] = -10 - p.layers->early[layer];
    }
    sl_problem_cut(&p, p.layers->first);
    assert_near(p.start[0], 5, 0);
    assert_near(p.early[0], 5, 0);
    assert_near(p.delta[SL_I][0], -5, 0);
    assert_near(p.delta[SL_B][0], -25, 0);
    sl_problem_free(&p);
}

static sl_status plan_with(sl_problem *p, double seconds, sl_plan *plan) {
    const sl_plan_options options = {.schedule = "auto", .time_limit = seconds, .seed = 1, .threads = 1};
    return sl_plan_problem(p, &options, plan);
}

/* Eight microbatches on two ranks take 8 * 6 + 2 + 2 (the first F and the last I of the other rank) ms if
 * nothing is in the way. With room for all nothing recomputes. With room for one microbatch only, a rank that
 * keeps everything would wait for each of them to return. */
static void recomputation_is_chosen_only_where_it_pays(void **state) {
    (void)state;
    sl_problem p;
    sl_plan plan;
    equal_layers(2, 2, 4, 8, 1000, &p);
    p.layers->recompute = 1;
    assert_ok(plan_with(&p, 0.3, &plan));
    assert_int_equal(p.recompute[0] + p.recompute[1], 0);
    assert_true(plan.makespan <= 52 * SL_MS);
    sl_plan_free(&plan);
    sl_problem_free(&p);

    equal_layers(2, 2, 4, 8, 20, &p);
    sl_status status = plan_with(&p, 0.3, &plan); /* 8 * (F 2 + F 2 + I 2 + I 2 + W 2) */
    assert_ok(status);
    assert_true(plan.makespan >= 80 * SL_MS);
    sl_plan_free(&plan);
    p.layers->recompute = 1;
    assert_ok(plan_with(&p, 0.3, &plan));
    assert_true(p.recompute[0] || p.recompute[1]);
    assert_true(plan.makespan < 80 * SL_MS); /* 8 * 8 on a rank that recomputes, and the ends */
    for (int rank = 0; rank < 2; rank++)
        assert_true(plan.peak_memory[rank] <= 20 + 1e-6);
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

static void without_room_for_an_input_nothing_fits(void **state) {
    (void)state;
    sl_problem p;
    sl_plan plan;
    equal_layers(2, 2, 4, 2, 9, &p);
    p.layers->recompute = 1;
    assert_fails(plan_with(&p, 0.1, &plan), SL_ENONE, "no cut of the layers");
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

/* ---- against everything ---- */

static void random_layers(sl_problem *p) {
    int ranks = 2 + draw(2), layers = ranks + 1 + draw(4), microbatches = 2 + draw(5);
    equal_layers(ranks, ranks, layers, microbatches, 0, p);
    sl_layers *l = p->layers;
    double all = 0;
    for (int layer = 0; layer < layers; layer++) {
        for (int kind = SL_F; kind <= SL_W; kind++)
            l->time[kind][layer] = (1 + draw(12)) * SL_MS;
        l->time[SL_B][layer] = l->time[SL_I][layer] + l->time[SL_W][layer];
        double kept = 4 + draw(17);
        l->delta[SL_F][layer] = kept;
        l->delta[SL_I][layer] = -draw((int)kept);
        l->delta[SL_W][layer] = -kept - l->delta[SL_I][layer];
        l->delta[SL_B][layer] = -kept;
        l->input[layer] = 1 + draw(3);
        l->weights[layer] = draw(10);
        all += kept + l->weights[layer];
    }
    for (int rank = 0; rank < ranks; rank++) {
        l->memory[rank] = all * (0.5 + draw(20) / 10.0);
        l->speed[rank] = draw(3) ? 1 : 0.5;
        if (rank > 0)
            for (int way = 0; way < 2; way++)
                p->link[way ? rank * ranks + rank - 1 : (rank - 1) * ranks + rank].latency = draw(10) * SL_MS;
    }
    l->recompute = 1;
    sl_problem_cut(p, l->first);
}

/* The best plan for the cut at hand, by families and a search of fixed work. */
static sl_time best_plan(sl_problem *p) {
    sl_plan plan;
    sl_time value = SL_TIME_NEVER;
    const sl_replan_options options = {.schedule = "auto", .work = 60000, .seed = 1};
    if (sl_replan(p, &options, &plan) == SL_OK)
        value = plan.value;
    sl_plan_free(&plan);
    return value;
}

static sl_time best_of_cuts(sl_problem *p, int *first, int stage) {
    int stages = p->stages, layers = p->layers->count;
    if (stage == stages) {
        sl_problem_cut(p, first);
        return best_plan(p);
    }
    sl_time best = SL_TIME_NEVER;
    for (first[stage] = first[stage - 1] + 1; first[stage] <= layers - (stages - stage); first[stage]++)
        best = sl_sooner(best, best_of_cuts(p, first, stage + 1));
    return best;
}

static sl_time best_of_all(sl_problem *p) {
    int first[8] = {0};
    sl_time best = SL_TIME_NEVER;
    for (int mask = 0; mask < 1 << p->stages; mask++) {
        for (int stage = 0; stage < p->stages; stage++)
            p->recompute[stage] = mask >> stage & 1;
        first[p->stages] = p->layers->count;
        best = sl_sooner(best, best_of_cuts(p, first, 1));
    }
    return best;
}

/* Cut, recomputation and schedule, one after the other: the most balanced cut, then whether all or no stages
 * recompute, then the schedule. */
static sl_time one_after_the_other(sl_problem *p) {
    sl_time best = SL_TIME_NEVER;
    for (int again = 0; again < 2; again++) {
        for (int stage = 0; stage < p->stages; stage++)
            p->recompute[stage] = (unsigned char)again;
        for (int stage = 0; stage <= p->stages; stage++)
            p->layers->first[stage] = p->layers->count * stage / p->stages;
        sl_problem_cut(p, p->layers->first);
        best = sl_sooner(best, best_plan(p));
    }
    return best;
}

static void the_joint_search_finds_what_trying_everything_finds(void **state) {
    (void)state;
    const char *more = getenv("SL_ROUNDS");
    int rounds = more ? atoi(more) : 12, equal = 0, close = 0, answered = 0;
    double gained = 0;
    for (int round = 0; round < rounds; round++) {
        sl_problem p, copy;
        sl_plan plan;
        random_layers(&p);
        assert_ok(sl_problem_copy(&p, &copy));
        sl_time all = best_of_all(&copy);
        sl_status status = plan_with(&p, 0.3, &plan);
        assert_int_equal(status == SL_OK, all < SL_TIME_NEVER);
        if (status == SL_OK) {
            answered++;
            equal += plan.value <= all;
            close += (double)plan.value <= 1.005 * (double)all;
            assert_true(plan.bound <= plan.value && plan.bound <= all);
            sl_time apart = one_after_the_other(&copy);
            if (apart < SL_TIME_NEVER) {
                assert_true(plan.value <= apart);
                gained += 1 - (double)plan.value / (double)apart;
            }
        }
        sl_plan_free(&plan);
        sl_problem_free(&copy);
        sl_problem_free(&p);
    }
    printf("%d problems: %d optimal, %d within 0.5%%; %.1f%% less than one after the other\n", answered,
           equal, close, 100 * gained / answered);
    assert_true(answered > rounds / 2);
    assert_true(equal >= 0.85 * answered && close >= 0.9 * answered);
}

/* Several cuts are planned, and the last one not always for the better: the problem is left with the cut and
 * the recomputation of the plan that is returned, by which its order takes what the plan says. */
static void the_cut_is_that_of_the_plan_also_if_a_later_one_was_tried(void **state) {
    (void)state;
    const char *more = getenv("SL_ROUNDS");
    int rounds = more ? atoi(more) : 40, answered = 0;
    for (int round = 0; round < rounds; round++) {
        sl_problem p, again;
        sl_plan plan, same;
        random_layers(&p);
        sl_status status = plan_with(&p, 0.03, &plan);
        assert_true(status == SL_OK || status == SL_ENONE);
        if (status == SL_OK) {
            answered++;
            assert_ok(sl_problem_copy(&p, &again));
            sl_problem_cut(&again, p.layers->first); /* times and memory follow from the cut alone */
            assert_ok(sl_plan_of_order(&again, &plan.order, "again", &same));
            assert_int_equal(same.value, plan.value);
            for (int rank = 0; rank < p.ranks; rank++)
                assert_near(same.peak_memory[rank], plan.peak_memory[rank], 1e-9);
            sl_plan_free(&same);
            sl_problem_free(&again);
        }
        sl_plan_free(&plan);
        sl_problem_free(&p);
    }
    assert_true(answered > rounds / 2);
}

int main(void) {
    start_drawing(23);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_recomputes_layer_by_layer),
        cmocka_unit_test(gradients_of_one_layer_count_at_a_time),
        cmocka_unit_test(recomputation_is_chosen_only_where_it_pays),
        cmocka_unit_test(without_room_for_an_input_nothing_fits),
        cmocka_unit_test(the_cut_is_that_of_the_plan_also_if_a_later_one_was_tried),
        cmocka_unit_test(the_joint_search_finds_what_trying_everything_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
