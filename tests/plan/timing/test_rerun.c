/* Times after small changes, against a replay in full: all placements, decoupled and batched. SL_SEED gives
 * other problems, SL_ROUNDS more of them. */
#include "check.h"
#include "plan/drawn.h"
#include "plan/random_order.h"

#include "plan/timing/objective.h"

typedef struct shift {
    int rank, from, to;
} shift;

typedef struct changed {
    sl_problem problem;
    sl_program program;
    sl_replayer *replayer, *full;
    sl_evaluator evaluator;
    int64_t runs, deadlocks, kept, refused;
} changed;

static void random_problem(sl_problem *p) {
    sl_placement placement = (sl_placement)draw(SL_PLACEMENTS);
    int ranks = 1 + draw(5), each = placement == SL_LINEAR          ? 1
                                    : placement == SL_BIDIRECTIONAL ? 2
                                                                    : 1 + draw(3);
    assert_ok(sl_problem_make(ranks, ranks * each, 2 + draw(6), p));
    p->placement = placement;
    p->parts = draw(5) == 0 ? 2 : 1;
    p->communication = draw(2) ? SL_DECOUPLED : SL_BATCHED;
    p->objective = draw(4) ? SL_MAKESPAN : SL_SPAN;
    for (int s = 0; s < p->stages; s++)
        for (int kind = SL_F; kind <= SL_B; kind++)
            p->time[kind][s] = 1 + draw(20) + p->parts;
    for (int i = 0; i < ranks * ranks; i++)
        p->link[i] = (sl_link){.latency = draw(2) * draw(40), .transfer = draw(2) * draw(20)};
}

static void settle(sl_program *program, int rank, int i) {
    const sl_step *step = &program->rank[rank].step[i];
    if (step->receive >= 0)
        program->message[step->receive].consumer = i;
    if (step->send >= 0)
        program->message[step->send].producer = i;
}

static void swap(sl_program *program, int rank, int i) {
    sl_step *step = program->rank[rank].step, kept = step[i];
    step[i] = step[i + 1];
    step[i + 1] = kept;
    settle(program, rank, i);
    settle(program, rank, i + 1);
}

static void carry(sl_program *program, int rank, int from, int to) {
    for (; from < to; from++)
        swap(program, rank, from);
    for (; from > to; from--)
        swap(program, rank, from - 1);
}

/* A step moves up to `most` places past others of its rank; those of its microbatch stay where they are,
 * since they may depend on each other on the rank. */
static shift random_shift(sl_program *program, int most) {
    int rank = draw(program->ranks), steps = program->rank[rank].steps, from = draw(steps), to = from;
    int way = draw(2) ? 1 : -1, far = 1 + draw(most);
    const sl_step *step = program->rank[rank].step;
    while (far-- > 0 && to + way >= 0 && to + way < steps &&
           step[to + way].op.microbatch != step[from].op.microbatch)
        to += way;
    carry(program, rank, from, to);
    return (shift){rank, from, to};
}

static sl_time value_of(const changed *c, const sl_timeline *timeline) {
    return !timeline                             ? SL_TIME_NEVER
           : c->problem.objective == SL_MAKESPAN ? sl_timeline_makespan(timeline)
                                                 : sl_timeline_span(timeline);
}

static void assert_same_times(const sl_timeline *a, const sl_timeline *b) {
    for (int i = 0; i < a->spans; i++) {
        assert_int_equal(a->span[i].start, b->span[i].start);
        assert_int_equal(a->span[i].end, b->span[i].end);
        assert_memory_equal(&a->span[i].op, &b->span[i].op, sizeof(sl_op));
    }
    for (int i = 0; i < a->transfers; i++) {
        assert_int_equal(a->transfer[i].start, b->transfer[i].start);
        assert_int_equal(a->transfer[i].end, b->transfer[i].end);
        assert_int_equal(a->transfer[i].arrive, b->transfer[i].arrive);
    }
}

/* Shifts on one rank or two, or a single swap, which a limit judges exactly. Returns the base's value. */
static sl_time change(changed *c, sl_time base) {
    sl_evaluation now;
    const sl_timeline *timeline;
    shift done[2];
    int limited = draw(2), count = !limited && draw(4) == 0 && c->program.ranks > 1 ? 2 : 1;
    sl_time limit = limited ? base + draw(30) : SL_TIME_NEVER;
    for (int i = 0; i < count; i++) {
        do
            done[i] = random_shift(&c->program, limited ? 1 : 8);
        while (i > 0 && done[i].rank == done[0].rank &&
               (carry(&c->program, done[i].rank, done[i].to, done[i].from), 1));
        sl_evaluator_change(&c->evaluator, done[i].rank,
                            done[i].from < done[i].to ? done[i].from : done[i].to,
                            done[i].from < done[i].to ? done[i].to : done[i].from);
    }
    sl_replayer_run(c->full, &timeline);
    sl_time value = value_of(c, timeline);
    sl_evaluator_rerun(&c->evaluator, limit, &now);
    c->runs++;
    c->deadlocks += value == SL_TIME_NEVER;
    c->refused += value > limit;
    if (value <= limit || c->problem.objective == SL_SPAN)
        assert_int_equal(now.value, value);
    else
        assert_int_equal(now.value, SL_TIME_NEVER);
    if (now.value != SL_TIME_NEVER)
        assert_same_times(now.timeline, timeline);
    if (now.value != SL_TIME_NEVER && draw(3)) {
        sl_evaluator_keep(&c->evaluator);
        c->kept++;
        return value;
    }
    for (int i = count - 1; i >= 0; i--)
        carry(&c->program, done[i].rank, done[i].to, done[i].from);
    sl_evaluator_undo(&c->evaluator);
    return base;
}

static void times_after_a_change_are_those_of_a_replay(void **state) {
    (void)state;
    const char *more = getenv("SL_ROUNDS");
    changed c = {0};
    for (int round = 0; round < (more ? atoi(more) : 500); round++) {
        sl_order order;
        sl_evaluation now;
        random_problem(&c.problem);
        random_order(&c.problem, 0, &order);
        assert_ok(sl_lower(&c.problem, &order, &c.program));
        assert_ok(sl_replayer_open(&c.problem, &c.program, &c.replayer));
        assert_ok(sl_replayer_open(&c.problem, &c.program, &c.full));
        assert_ok(sl_evaluator_open(&c.problem, c.replayer, &c.evaluator));
        assert_non_null(c.evaluator.rerun);
        sl_evaluator_run(&c.evaluator, &now);
        sl_evaluator_keep(&c.evaluator);
        for (int move = 0; move < 200; move++)
            now.value = change(&c, now.value);
        sl_evaluator_close(&c.evaluator);
        sl_replayer_close(c.replayer);
        sl_replayer_close(c.full);
        sl_program_free(&c.program);
        sl_order_free(&order);
        sl_problem_free(&c.problem);
    }
    printf("%lld changes, %lld kept, %lld above their limit, %lld deadlocks\n", (long long)c.runs,
           (long long)c.kept, (long long)c.refused, (long long)c.deadlocks);
    assert_true(c.kept > c.runs / 10 && c.deadlocks > c.runs / 100 && c.refused > c.runs / 20);
}

/* What a change costs: a swap at the end of a long pipeline affects few steps. */
static void few_steps_are_timed_again(void **state) {
    (void)state;
    sl_problem p;
    sl_order order;
    sl_program program;
    sl_replayer *replayer;
    sl_evaluator e;
    sl_evaluation now;
    assert_ok(sl_problem_make(1, 1, 100, &p));
    p.time[SL_F][0] = p.time[SL_I][0] = p.time[SL_W][0] = 10;
    assert_ok(sl_order_make(1, 300, &order));
    for (int kind = SL_F; kind <= SL_W; kind++)
        for (int m = 0; m < 100; m++)
            order.ops[0][order.count[0]++] = (sl_op){.kind = kind, .microbatch = m};
    assert_ok(sl_lower(&p, &order, &program));
    assert_ok(sl_replayer_open(&p, &program, &replayer));
    assert_ok(sl_evaluator_open(&p, replayer, &e));
    sl_evaluator_run(&e, &now);
    sl_evaluator_keep(&e);
    sl_evaluator_cost(&e);
    swap(&program, 0, 100); /* I_0 and I_1 */
    sl_evaluator_change(&e, 0, 100, 101);
    sl_evaluator_rerun(&e, SL_TIME_NEVER, &now);
    sl_evaluator_keep(&e);
    assert_int_equal(now.value, 3000);
    assert_true(sl_evaluator_cost(&e) <= 2 * 6); /* the two, forward and backward, and one before them */
    sl_evaluator_close(&e);
    sl_replayer_close(replayer);
    sl_program_free(&program);
    sl_order_free(&order);
    sl_problem_free(&p);
}

int main(void) {
    start_drawing(29);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_after_a_change_are_those_of_a_replay),
        cmocka_unit_test(few_steps_are_timed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
