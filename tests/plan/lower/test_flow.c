/* Which buffers results go through: two results never share one while both are needed, and there are no more
 * than that takes. */
#include "check.h"
#include "random_problem.h"

#include "base/memory.h"
#include "plan/lower/flow.h"

/* From which step to which a result needs its buffer, found in the problem and the order alone. */
typedef struct need {
    int from, to, buffer;
} need;

static int step_of(const sl_rank_program *rank, int kind, int stage, int microbatch, int part) {
    for (int i = 0; i < rank->steps; i++) {
        const sl_op *op = &rank->step[i].op;
        int same = op->kind == kind || (kind == SL_I && op->kind == SL_B);
        if (same && op->stage == stage && op->microbatch == microbatch && op->part == part)
            return i;
    }
    return -1;
}

static int most_open(const need *needs, int count, int steps) {
    int most = 0;
    for (int i = 0; i < steps; i++) {
        int open = 0;
        for (int n = 0; n < count; n++)
            open += needs[n].from <= i && i <= needs[n].to;
        most = open > most ? open : most;
    }
    return most;
}

static void assert_apart(const need *needs, int count) {
    for (int a = 0; a < count; a++)
        for (int b = 0; b < a; b++)
            if (needs[a].buffer == needs[b].buffer)
                assert_true(needs[a].to < needs[b].from || needs[b].to < needs[a].from);
}

/* All parts of the op that begins at `step` have this end, the last one marked. */
static int check_ends(const sl_problem *p, const sl_rank_program *rank, const sl_flow_end *ends, int step,
                      sl_flow_kind kind, int message) {
    const sl_op *op = &rank->step[step].op;
    for (int part = 0; part < p->parts; part++) {
        const sl_flow_end *end = &ends[step_of(rank, op->kind, op->stage, op->microbatch, part)];
        assert_int_equal(end->kind, kind);
        assert_int_equal(end->message, message);
        assert_int_equal(end->last, part == p->parts - 1);
        assert_int_equal(end->buffer, ends[step].buffer);
    }
    return ends[step].buffer;
}

static void check_received(const sl_problem *p, const sl_program *program, int r, const int32_t *post,
                           const sl_flow *flow) {
    const sl_rank_program *rank = &program->rank[r];
    need *needs = calloc((size_t)flow->posts + 1, sizeof *needs);
    int count = 0, last = 0;
    for (int i = 0; i < flow->posts; i++) {
        const sl_post *x = &flow->post[i];
        const sl_message *m = &program->message[x->message];
        const sl_op *op = &rank->step[m->consumer].op;
        assert_int_equal(m->to, r);
        assert_int_equal(x->step, post ? post[x->message] : 0);
        assert_true(x->step >= last);
        last = x->step;
        assert_int_equal(check_ends(p, rank, flow->in, m->consumer, SL_FLOW_RECEIVED, x->message), x->buffer);
        needs[count++] =
            (need){x->step, step_of(rank, op->kind, op->stage, op->microbatch, p->parts - 1), x->buffer};
        for (int k = 0; k < i; k++) /* on a link as the peer sends */
            assert_true(program->message[flow->post[k].message].from != m->from ||
                        flow->post[k].message < x->message);
    }
    for (int m = 0; m < program->messages; m++)
        count -= program->message[m].to == r;
    assert_int_equal(count, 0);
    assert_apart(needs, flow->posts);
    assert_int_equal(flow->receive_buffers, most_open(needs, flow->posts, rank->steps));
    free(needs);
}

static void check_local(const sl_problem *p, const sl_program *program, int r, const sl_flow *flow) {
    const sl_rank_program *rank = &program->rank[r];
    need *needs = calloc((size_t)rank->steps + 1, sizeof *needs);
    int count = 0;
    for (int i = 0; i < rank->steps; i++) {
        const sl_op *op = &rank->step[i].op;
        int to = op->kind == SL_W   ? -1
                 : op->kind == SL_F ? sl_problem_next(p, op->stage)
                                    : sl_problem_previous(p, op->stage);
        if (op->part > 0)
            continue;
        if (to < 0) {
            assert_int_equal(flow->out[i].kind, SL_FLOW_NONE);
            continue;
        }
        if (sl_problem_rank(p, to) != r) {
            int last = step_of(rank, op->kind, op->stage, op->microbatch, p->parts - 1);
            check_ends(p, rank, flow->out, i, SL_FLOW_SENT, rank->step[last].send);
            continue;
        }
        int kind = op->kind == SL_F ? SL_F : SL_I, user = step_of(rank, kind, to, op->microbatch, 0);
        int buffer = check_ends(p, rank, flow->out, i, SL_FLOW_LOCAL, -1);
        assert_int_equal(check_ends(p, rank, flow->in, user, SL_FLOW_LOCAL, -1), buffer);
        needs[count++] = (need){i, step_of(rank, kind, to, op->microbatch, p->parts - 1), buffer};
    }
    assert_apart(needs, count);
    assert_int_equal(flow->local_buffers, most_open(needs, count, rank->steps));
    free(needs);
}

static int32_t *draw_posts(uint64_t *state, const sl_program *program) {
    int32_t *post = calloc((size_t)program->messages + 1, sizeof *post);
    for (int r = 0; r < program->ranks; r++)
        for (int q = SL_RECEIVE_NEXT; q <= SL_RECEIVE_PREVIOUS; q++) {
            int32_t most = program->rank[r].steps;
            for (int i = program->rank[r].queued[q] - 1; i >= 0; i--) {
                int32_t m = program->rank[r].queue[q][i], consumer = program->message[m].consumer;
                most = consumer < most ? consumer : most;
                post[m] = most = most - draw(state, most + 1) / 2;
            }
        }
    return post;
}

static void results_never_share_a_buffer_that_is_needed(void **unused) {
    (void)unused;
    uint64_t state = seed_of(3);
    int local = 0, received = 0;
    for (int round = 0; round < 400; round++) {
        sl_problem p;
        sl_plan plan;
        int family;
        draw_problem(&state, (sl_placement)(round % SL_PLACEMENTS), 1, &p);
        if (!draw_plan(&state, &p, &plan, &family)) {
            sl_problem_free(&p);
            continue;
        }
        int32_t *post = round % 3 ? draw_posts(&state, &plan.program) : NULL;
        for (int r = 0; r < p.ranks; r++) {
            sl_flow flow;
            assert_ok(sl_flow_make(&plan.program, r, post, &flow));
            check_received(&p, &plan.program, r, post, &flow);
            check_local(&p, &plan.program, r, &flow);
            local += flow.local_buffers;
            received += flow.receive_buffers;
            sl_flow_free(&flow);
        }
        free(post);
        sl_plan_free(&plan);
        sl_problem_free(&p);
    }
    assert_true(local > 0 && received > 0);
}

/* One rank, two stages, gpipe by hand: 0F0 1F0 0F1 1F1 .. each F of stage 0 hands to the F right behind it,
 * so one buffer is enough. */
static void a_loop_of_one_rank_sends_nothing(void **unused) {
    (void)unused;
    sl_problem p;
    sl_order order;
    sl_program program;
    sl_flow flow;
    assert_ok(sl_problem_make(1, 2, 2, &p));
    p.placement = SL_LOOP;
    assert_ok(sl_order_make(1, 8, &order));
    static const sl_op ops[] = {{0, 0, SL_F, 0, 0}, {1, 0, SL_F, 0, 0}, {0, 1, SL_F, 0, 0},
                                {1, 1, SL_F, 0, 0}, {1, 0, SL_B, 0, 0}, {1, 1, SL_B, 0, 0},
                                {0, 0, SL_B, 0, 0}, {0, 1, SL_B, 0, 0}};
    memcpy(order.ops[0], ops, sizeof ops);
    order.count[0] = 8;
    assert_ok(sl_lower(&p, &order, &program));
    assert_int_equal(program.messages, 0);
    assert_ok(sl_flow_make(&program, 0, NULL, &flow));
    assert_int_equal(flow.posts, 0);
    assert_int_equal(flow.receive_buffers, 0);
    assert_int_equal(flow.local_buffers, 2); /* both gradients lie there at once */
    sl_flow_free(&flow);
    sl_program_free(&program);
    sl_order_free(&order);
    sl_problem_free(&p);
}

static void every_failed_allocation_is_told_and_leaks_nothing(void **unused) {
    (void)unused;
    sl_problem p;
    sl_plan plan;
    sl_flow flow;
    assert_ok(sl_problem_make(3, 6, 4, &p));
    p.placement = SL_WAVE;
    for (int stage = 0; stage < 6; stage++)
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            p.time[kind][stage] = SL_MS;
    assert_ok(sl_plan_make(&p, "zb-v", &plan));
    int failures = 0;
    for (sl_status status = SL_ENOMEM; status != SL_OK; failures++) {
        sl_alloc_fail_at(failures);
        status = sl_flow_make(&plan.program, 1, NULL, &flow);
        sl_alloc_fail_at(-1);
        sl_flow_free(&flow);
        assert_true(status == SL_OK || status == SL_ENOMEM);
    }
    assert_true(failures > 5);
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_never_share_a_buffer_that_is_needed),
        cmocka_unit_test(a_loop_of_one_rank_sends_nothing),
        cmocka_unit_test(every_failed_allocation_is_told_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
