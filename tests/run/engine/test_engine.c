/* The engine on the virtual clock: what runs is what the timing model predicts, to the nanosecond, for every
 * placement, family and regime; each op gets what its predecessor made. */
#include "cluster.h"

#include "base/random.h"
#include "plan/family/family.h"
#include "plan/search/plan.h"

static uint64_t seed_of(uint64_t otherwise) {
    const char *given = getenv("SL_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : otherwise;
    printf("SL_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static int draw(uint64_t *state, int below) {
    return (int)(sl_random_mix(*state += SL_RANDOM_STEP) % (uint64_t)below);
}

/* ---- comparing ---- */

static const sl_transfer *find_transfer(const sl_timeline *t, const sl_record *r) {
    for (int i = 0; i < t->transfers; i++) {
        const sl_transfer *x = &t->transfer[i];
        if (x->from == r->rank && x->op.kind == r->op && x->op.stage == r->stage &&
            x->op.microbatch == r->microbatch && x->op.part == r->part && x->op.paired == r->paired)
            return x;
    }
    return NULL;
}

static void compare_transfer(const sl_timeline *predicted, const sl_record *r, sl_time begin) {
    const sl_transfer *t = find_transfer(predicted, r);
    if (!t)
        fail_msg("rank %d sent what is not in the prediction", r->rank);
    assert_int_equal(r->peer, t->to);
    assert_int_equal(r->start - begin, t->start);
    assert_int_equal(r->end - begin, t->end);
    assert_int_equal(r->arrive - begin, t->arrive);
    assert_int_equal(r->due - begin, t->arrive);
}

static void compare_op(const sl_span *span, const sl_record *r, sl_time begin) {
    assert_int_equal(span->rank, r->rank);
    assert_int_equal(span->op.kind, r->op);
    assert_int_equal(span->op.stage, r->stage);
    assert_int_equal(span->op.microbatch, r->microbatch);
    assert_int_equal(span->op.part, r->part);
    assert_int_equal(span->op.paired, r->paired);
    assert_int_equal(r->start - begin, span->start);
    assert_int_equal(r->end - begin, span->end);
}

/* Every recorded op and transfer of an iteration equals the predicted one, in the predicted order. */
static void compare(const cluster *c, int iteration) {
    sl_timeline predicted;
    sl_time begin = begin_of(iteration);
    int span = 0, transfers = 0;
    assert_ok(sl_replay(c->problem, c->program[iteration], c->problem->communication, c->problem->queue,
                        &predicted));
    for (int r = 0; r < c->problem->ranks; r++) {
        const member *m = &c->member[r];
        sl_time last = 0;
        for (size_t i = 0; i < m->records; i++) {
            const sl_record *record = &m->record[i];
            if (record->iteration != iteration)
                continue;
            if (record->kind == SL_RECORD_OP) {
                assert_true(span < predicted.spans);
                last = predicted.span[span].end;
                compare_op(&predicted.span[span++], record, begin);
            } else {
                compare_transfer(&predicted, record, begin);
                transfers++;
            }
        }
        assert_int_equal(m->result[iteration].end - begin, last);
        assert_int_equal(m->result[iteration].overruns, 0);
    }
    assert_int_equal(span, predicted.spans);
    assert_int_equal(transfers, predicted.transfers);
    sl_timeline_free(&predicted);
}

/* ---- random problems ---- */

static void draw_links(sl_problem *p, uint64_t *state, int transfers) {
    for (int i = 0; i < p->ranks * p->ranks; i++) {
        p->link[i].latency = draw(state, 3) == 0 ? draw(state, 60) * SL_MS : draw(state, 2) * 12345;
        p->link[i].transfer = transfers && draw(state, 3) == 0 ? (1 + draw(state, 25)) * SL_MS : 0;
    }
}

static void draw_problem(uint64_t *state, sl_placement placement, int transfers, sl_problem *p) {
    int ranks = 1 + draw(state, MOST_RANKS), microbatches = 1 + draw(state, 8);
    int chunks = placement == SL_LINEAR                                ? 1
                 : placement == SL_BIDIRECTIONAL || draw(state, 3) > 0 ? 2
                 : placement == SL_WAVE                                ? 4
                                                                       : 3;
    if (placement == SL_BIDIRECTIONAL)
        microbatches += microbatches % 2;
    if (placement == SL_BIDIRECTIONAL && ranks == 1)
        ranks = 2;
    assert_ok(sl_problem_make(ranks, ranks * chunks, microbatches, p));
    p->placement = placement;
    p->communication = (sl_regime)draw(state, 3);
    p->queue = 1 + draw(state, 3);
    p->parts = draw(state, 3) == 0 ? 2 + draw(state, MOST_PARTS - 1) : 1;
    for (int stage = 0; stage < p->stages; stage++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            p->time[kind][stage] = draw(state, 20) == 0 ? 0 : 1 + draw(state, 20000000);
        p->time[SL_B][stage] = p->time[SL_I][stage] + p->time[SL_W][stage];
        p->saved[stage] = draw(state, 2) ? draw(state, 4000000) : 0;
    }
    draw_links(p, state, transfers);
}

/* One of the families that fit, as a plan whose W ascend; 0: none does. */
static int draw_plan(uint64_t *state, const sl_problem *p, sl_plan *plan, int *family) {
    int families = 0;
    while (sl_families[families].name)
        families++;
    *family = draw(state, families);
    for (int tries = 0; tries < families; tries++) {
        *family = (*family + 1) % families;
        if (!sl_family_fits(&sl_families[*family], p) ||
            sl_plan_make(p, sl_families[*family].name, plan) != SL_OK)
            continue;
        if (sl_order_check_ascending(&plan->order) == SL_OK)
            return 1;
        sl_plan_free(plan);
    }
    return 0;
}

static void run_and_compare(uint64_t *state, const sl_problem *p, const sl_plan *a, const sl_plan *b,
                            size_t extra) {
    cluster c = {.problem = p, .program = {&a->program, &b->program}, .extra = extra};
    if (draw(state, 4) > 0)
        for (int i = 0; i < ITERATIONS; i++)
            predict_posts(&c, i, draw(state, 30) * SL_MS);
    run_cluster(&c);
    assert_ran(&c);
    for (int i = 0; i < ITERATIONS; i++)
        compare(&c, i);
    free_cluster(&c);
}

static void what_runs_is_what_was_predicted_to_the_nanosecond(void **unused) {
    (void)unused;
    uint64_t state = seed_of(7);
    int ran[64][3] = {{0}}, rounds = 0, pairs = 0, parts = 0;
    for (int round = 0; round < 300; round++) {
        sl_problem p;
        sl_plan a, b;
        int first, second;
        int transfers = draw(&state, 4) > 0;
        draw_problem(&state, (sl_placement)(round % SL_PLACEMENTS), transfers, &p);
        if (!draw_plan(&state, &p, &a, &first)) {
            sl_problem_free(&p);
            continue;
        }
        assert_true(draw_plan(&state, &p, &b, &second));
        run_and_compare(&state, &p, &a, &b, transfers ? 0 : (size_t)draw(&state, 3) * 40);
        ran[first][p.communication]++;
        ran[second][p.communication]++;
        parts += p.parts > 1;
        for (int r = 0; r < p.ranks; r++)
            for (int i = 0; i < a.order.count[r]; i++)
                pairs += a.order.ops[r][i].paired;
        rounds++;
        sl_plan_free(&a);
        sl_plan_free(&b);
        sl_problem_free(&p);
    }
    for (int f = 0; sl_families[f].name; f++)
        printf("%-18s decoupled %3d, inorder %3d, batched %3d\n", sl_families[f].name, ran[f][SL_DECOUPLED],
               ran[f][SL_INORDER], ran[f][SL_BATCHED]);
    printf("%d rounds, %d with parts, %d pairs\n", rounds, parts, pairs);
    for (int f = 0; sl_families[f].name && !getenv("SL_SEED"); f++)
        assert_true(ran[f][SL_DECOUPLED] && ran[f][SL_INORDER] && ran[f][SL_BATCHED]);
    assert_true(getenv("SL_SEED") || (pairs > 0 && parts > 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_runs_is_what_was_predicted_to_the_nanosecond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
