/* The engine on the virtual clock: what runs is what the timing model predicts, to the nanosecond, for every
 * placement, family and regime; each op gets what its predecessor made. */
#include "cluster.h"

#include "random_problem.h"

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
