/* The bound over all cuts of layers, and the cut that is chosen, against all cuts, which are enumerated here
 * as sets of boundaries. SL_SEED gives other problems. */
#include "check.h"
#include "plan/drawn.h"

#include "base/clock.h"
#include "plan/bound/bound.h"
#include "plan/pipeline/layers.h"
#include "plan/search/layer_cut.h"

enum { MAX = 17 };

static void random_layers(int layers, int ranks, int microbatches, int speeds, sl_problem *p) {
    assert_ok(sl_problem_make(ranks, ranks, microbatches, p));
    assert_ok(sl_layers_make(layers, ranks, ranks, &p->layers));
    for (int layer = 0; layer < layers; layer++) {
        int heavy = (layer == 0 && draw(2)) || (layer == layers - 1 && draw(2)); /* as an embedding, a head */
        for (int kind = SL_F; kind <= SL_W; kind++)
            p->layers->time[kind][layer] = 1 + draw(9) + (heavy ? 100 : 0);
        p->layers->time[SL_B][layer] = p->layers->time[SL_I][layer] + p->layers->time[SL_W][layer] - draw(2);
    }
    for (int rank = 0; rank < ranks && speeds; rank++)
        p->layers->speed[rank] = 1 << draw(3);
    for (int stage = 0; stage <= ranks; stage++)
        p->layers->first[stage] = stage < ranks ? stage : layers;
}

/* Bit i of `set`: a stage begins at layer i + 1. Returns whether there are `stages` of them. */
static int cut_of(unsigned set, int layers, int stages, int first[MAX + 1]) {
    int count = 1;
    first[0] = 0;
    if (__builtin_popcount(set) != stages - 1)
        return 0;
    for (int i = 0; i < layers - 1; i++)
        if (set >> i & 1)
            first[count++] = i + 1;
    first[stages] = layers;
    return 1;
}

static void the_bound_of_few_cuts_is_the_least_of_all(void **state) {
    (void)state;
    for (int round = 0; round < 60; round++) {
        int layers = 3 + draw(5), stages = 2 + draw(layers - 1 < 4 ? layers - 1 : 3), first[MAX + 1];
        sl_problem p;
        sl_time bound, mine, least = SL_TIME_NEVER;
        random_layers(layers, stages, 1 + draw(5), 1, &p);
        assert_ok(sl_cut_bound(&p, &bound));
        for (unsigned set = 0; set < 1u << (layers - 1); set++)
            if (cut_of(set, layers, stages, first)) {
                sl_problem_cut(&p, first);
                assert_ok(sl_lower_bound(&p, 0, &mine));
                least = sl_sooner(least, mine);
            }
        assert_int_equal(bound, least);
        sl_problem_free(&p);
    }
}

/* The work of one microbatch on the rank of a cut that takes longest for it. */
static double slowest(const sl_problem *p, const int *first) {
    double worst = 0;
    for (int s = 0; s < p->stages; s++) {
        double work = 0;
        for (int i = first[s]; i < first[s + 1]; i++) {
            const sl_layers *l = p->layers;
            sl_time apart = l->time[SL_I][i] + l->time[SL_W][i];
            work += (double)(l->time[SL_F][i] + sl_sooner(apart, l->time[SL_B][i]));
        }
        work /= p->layers->speed[s];
        worst = work > worst ? work : worst;
    }
    return worst;
}

/* 4,368 cuts of 17 layers into 6 stages: one rank has all microbatches of its stage to run. */
static void the_bound_of_many_cuts_is_the_slowest_rank_of_the_best_one(void **state) {
    (void)state;
    enum { LAYERS = 17, STAGES = 6, MICROBATCHES = 1000 };
    for (int round = 0; round < 12; round++) {
        int first[MAX + 1];
        double least = 1e300;
        sl_problem p;
        sl_time bound;
        random_layers(LAYERS, STAGES, MICROBATCHES, round % 2, &p);
        assert_ok(sl_cut_bound(&p, &bound));
        for (unsigned set = 0; set < 1u << (LAYERS - 1); set++)
            if (cut_of(set, LAYERS, STAGES, first)) {
                double work = slowest(&p, first);
                least = work < least ? work : least;
            }
        assert_true((double)bound <= least * MICROBATCHES);
        assert_true((double)bound >= least * MICROBATCHES - 3 - 2 * MICROBATCHES /* ops are rounded */);
        sl_problem_free(&p);
    }
}

/* Layers of 1, 1, 1, 1 and 40 on two ranks: the last one has a rank for itself. */
static void a_heavy_last_layer_has_a_rank_for_itself(void **state) {
    (void)state;
    sl_problem p;
    sl_time bound;
    assert_ok(sl_problem_make(2, 2, 10, &p));
    assert_ok(sl_layers_make(5, 2, 2, &p.layers));
    for (int layer = 0; layer < 5; layer++)
        for (int kind = SL_F; kind <= SL_B; kind++)
            p.layers->time[kind][layer] = (layer == 4 ? 40 : 1) * (kind == SL_B ? 2 : 1);
    p.layers->first[1] = 2;
    p.layers->first[2] = 5;
    assert_ok(sl_cut_bound(&p, &bound));
    /* 4 until its first F, 120 for each of 10 microbatches, and the first rank's I and W of the last one */
    assert_in_range(bound, 1200, 1212);
    assert_ok(sl_cut_choose(&p, (sl_limit){.deadline = SL_TIME_NEVER}));
    assert_int_equal(p.layers->first[1], 4);
    sl_problem_free(&p);
}

int main(void) {
    start_drawing(5);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bound_of_few_cuts_is_the_least_of_all),
        cmocka_unit_test(the_bound_of_many_cuts_is_the_slowest_rank_of_the_best_one),
        cmocka_unit_test(a_heavy_last_layer_has_a_rank_for_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
