/* The bound of a rank's memory: by hand, and below every order that a search finds. SL_SEED gives other
 * problems, SL_ROUNDS more of them. */
#include "check.h"
#include "plan/drawn.h"

#include "plan/bound/bound.h"
#include "plan/search/improve.h"
#include "plan/search/order_value.h"
#include "plan/search/portfolio.h"

/* Two ranks with two stages each, ops of 1, links of 10, room for two activations: a microbatch occupies one
 * from F to W of rank 0's first stage (4 F, 4 I, W, 6 links) and one from F to W of its second (2 F, 2 I, W,
 * 2 links), so 69 + 25 of 2. Ten of them take 470, and more because they begin and end one after the other.
 */
static void stages_of_a_rank_share_its_memory(void **state) {
    (void)state;
    sl_problem p;
    sl_time bound;
    assert_ok(sl_problem_make(2, 4, 10, &p));
    p.placement = SL_LOOP;
    for (int s = 0; s < 4; s++)
        for (int kind = SL_F; kind <= SL_B; kind++)
            p.time[kind][s] = kind == SL_B ? 2 : 1;
    p.link[1].latency = p.link[2].latency = 10;
    p.limit = calloc(2, sizeof *p.limit);
    p.limit[0] = p.limit[1] = 2;
    assert_ok(sl_lower_bound(&p, 1, &bound));
    assert_true(bound >= 470 && bound <= 690); /* one after the other */
    p.limit[0] = p.limit[1] = 20;
    assert_ok(sl_lower_bound(&p, 1, &bound));
    assert_true(bound < 120);
    sl_problem_free(&p);
}

/* The same with links of 100, four microbatches, and room for four: when the last F of stage 2 starts, rank 0
 * has taken memory for eight, so four must be free again. Stage 2 frees the first at 407 and the second at
 * 408 or later. The third F of stage 2 waits for those and frees memory at 613, so the next are stage 0's
 * first two, at 609 and 610. After that, F needs 407 to the end of stage 0's W. */
static void releases_of_all_stages_are_awaited(void **state) {
    (void)state;
    sl_problem p;
    sl_time bound;
    assert_ok(sl_problem_make(2, 4, 4, &p));
    p.placement = SL_LOOP;
    for (int s = 0; s < 4; s++)
        for (int kind = SL_F; kind <= SL_B; kind++)
            p.time[kind][s] = kind == SL_B ? 2 : 1;
    p.link[1].latency = p.link[2].latency = 100;
    p.limit = calloc(2, sizeof *p.limit);
    p.limit[0] = p.limit[1] = 4;
    assert_ok(sl_lower_bound(&p, 1, &bound));
    assert_true(bound >= 610 + 407);
    sl_problem_free(&p);
}

static void random_problem(sl_problem *p) {
    sl_placement placement = (sl_placement)draw(SL_PLACEMENTS);
    int ranks = 2 + draw(3), each = placement == SL_LINEAR          ? 1
                                    : placement == SL_BIDIRECTIONAL ? 2
                                                                    : 1 + draw(3);
    assert_ok(sl_problem_make(ranks, ranks * each, 1 + draw(6), p));
    p->placement = placement;
    p->communication = draw(4) ? SL_DECOUPLED : draw(2) ? SL_INORDER : SL_BATCHED;
    p->queue = 1 + draw(2);
    int slow = 1 + draw(40), all = draw(2);
    for (int s = 0; s < p->stages; s++) {
        for (int kind = SL_F; kind <= SL_W; kind++)
            p->time[kind][s] = 1 + draw(9);
        p->time[SL_B][s] = p->time[SL_I][s] + p->time[SL_W][s];
        if (draw(4) == 0) { /* I frees some, or W keeps some */
            p->delta[SL_I][s] = -0.25 * draw(3);
            p->delta[SL_W][s] = -1 - p->delta[SL_I][s] + (draw(4) ? 0 : 0.125);
            p->delta[SL_B][s] = p->delta[SL_I][s] + p->delta[SL_W][s];
        }
    }
    for (int i = 0; i < ranks * ranks; i++)
        if (all || draw(3) == 0)
            p->link[i] = (sl_link){.latency = draw(slow), .transfer = draw(2) * draw(6)};
    p->limit = calloc((size_t)ranks, sizeof *p->limit);
    for (int rank = 0; rank < ranks; rank++)
        p->limit[rank] = each + draw(2 * each + 1) + 0.5 * draw(2);
}

/* The shortest order of a short search from one microbatch after the other; SL_TIME_NEVER: that does not fit.
 */
static sl_time search(const sl_problem *p) {
    sl_order order;
    sl_time value;
    sl_improve_result result;
    sl_improve_options options = {
        .until = {.deadline = SL_TIME_NEVER}, .work = 60000, .seed = 1, .heat = 1, .target = 0};
    assert_ok(sl_serial_order(p, &order));
    assert_ok(sl_measure(p, &order, &value, NULL));
    if (value != SL_TIME_NEVER) {
        assert_ok(sl_improve(p, &options, &order, &result));
        assert_ok(sl_measure(p, &order, &value, NULL)); /* with its memory */
        assert_int_equal(value, result.value);
    }
    sl_order_free(&order);
    return value;
}

static void no_order_found_is_below_the_bound(void **state) {
    (void)state;
    const char *more = getenv("SL_ROUNDS");
    int rounds = more ? atoi(more) : 2000, answered = 0, reached = 0;
    for (int round = 0; round < rounds; round++) {
        sl_problem p;
        sl_time bound, value;
        random_problem(&p);
        assert_ok(sl_lower_bound(&p, 1, &bound));
        value = search(&p);
        if (bound > value) {
            sl_problem_write(&p, stdout);
            fail_msg("an order takes %lld, the bound is %lld", (long long)value, (long long)bound);
        }
        answered += value != SL_TIME_NEVER;
        reached += value == bound;
        sl_problem_free(&p);
    }
    printf("%d orders, %d of them proven optimal\n", answered, reached);
    assert_true(answered > rounds / 2 && reached > answered / 4);
}

int main(void) {
    start_drawing(17);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_of_a_rank_share_its_memory),
        cmocka_unit_test(releases_of_all_stages_are_awaited),
        cmocka_unit_test(no_order_found_is_below_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
