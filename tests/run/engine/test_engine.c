/* The engine on the virtual clock: what runs is what the timing model predicts, to the nanosecond, for every
 * placement, family and regime; each op gets what its predecessor made. */
#include "cluster.h"

#include "base/memory.h"
#include "random_problem.h"
#include "virtual_clock.h"

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
    uint64_t state = seed_of(8);
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

/* ---- updates before the first F ---- */

static void an_update_takes_its_ranks_time_before_the_first_F_and_no_others(void **unused) {
    (void)unused;
    uint64_t state = seed_of(53);
    int rounds = 0;
    for (int round = 0; round < 60; round++) {
        sl_problem p;
        sl_plan a, b;
        int family;
        draw_problem(&state, SL_LINEAR, 1, &p);
        for (int stage = 0; stage < p.stages; stage++)
            p.gather[stage] = 1 + draw(&state, 60000000);
        if (draw_plan(&state, &p, &a, &family)) {
            assert_true(draw_plan(&state, &p, &b, &family));
            run_and_compare(&state, &p, &a, &b, 0);
            rounds++;
            sl_plan_free(&a);
            sl_plan_free(&b);
        }
        sl_problem_free(&p);
    }
    assert_true(rounds > 0);
}

static int count_pairs(const sl_order *order) {
    int pairs = 0;
    for (int r = 0; r < order->ranks; r++)
        for (int i = 0; i < order->count[r]; i++)
            pairs += order->ops[r][i].paired;
    return pairs;
}

/* ---- shared wires ---- */

/* Two wires, and the links that are on none. Op times are odd numbers of ns, so that no two messages come to
 * a wire at the same moment. */
static void links_that_share_a_wire_run_as_predicted(void **unused) {
    (void)unused;
    uint64_t state = seed_of(31);
    int rounds = 0;
    for (int round = 0; round < 120; round++) {
        sl_problem p;
        sl_plan plan;
        int family;
        draw_problem(&state, (sl_placement)(round % SL_PLACEMENTS), 1, &p);
        for (int stage = 0; stage < p.stages; stage++) {
            for (int kind = 0; kind < SL_B; kind++)
                p.time[kind][stage] = 1000001 + draw(&state, 20000000);
            p.time[SL_B][stage] = p.time[SL_I][stage] + p.time[SL_W][stage];
        }
        assert_ok(sl_alloc(&p.wire, (size_t)(p.ranks * p.ranks), sizeof *p.wire));
        for (int i = 0; i < p.ranks * p.ranks; i++)
            p.wire[i] = draw(&state, 3) ? p.ranks * p.ranks + draw(&state, 2) : i;
        if (p.ranks > 1 && draw_plan(&state, &p, &plan, &family)) {
            if (count_pairs(&plan.order) == 0) {
                run_and_compare(&state, &p, &plan, &plan, 0);
                rounds++;
            }
            sl_plan_free(&plan);
        }
        sl_problem_free(&p);
    }
    assert_true(rounds > 60);
}

/* ---- pairs ---- */

static void draw_pair_problem(uint64_t *state, int round, sl_placement placement, sl_problem *p) {
    int ranks = 2 + draw(state, 3), longest = round % 2 ? 1000000 : 10000000; /* links hold short ops back */
    assert_ok(
        sl_problem_make(ranks, placement == SL_WAVE ? 2 * ranks : ranks, 2 * ranks + draw(state, 8), p));
    p->placement = placement;
    p->communication = (sl_regime)(round % SL_REGIMES);
    p->queue = 1 + draw(state, 2);
    p->communicators = (sl_communicators)draw(state, 4);
    p->eager = 1000 * draw(state, 2);
    for (int stage = 0; stage < p->stages; stage++) {
        for (int kind = 0; kind < SL_B; kind++)
            p->time[kind][stage] = 1 + draw(state, longest);
        p->time[SL_B][stage] = p->time[SL_I][stage] + p->time[SL_W][stage];
        p->saved[stage] = draw(state, 3) * draw(state, longest / 2);
    }
    for (int i = 0; i < ranks * ranks; i++) {
        p->link[i].latency = draw(state, 3) * draw(state, 30) * SL_MS;
        p->link[i].transfer = draw(state, 2) * draw(state, 25) * SL_MS;
        p->link[i].bytes = 1000;
    }
}

/* The two of a dualpipe-v pair send to the same peer. */
static void overlapped_pairs_run_as_one_block_in_every_regime(void **unused) {
    (void)unused;
    uint64_t state = seed_of(23);
    int pairs = 0;
    for (int round = 0; round < 90; round++) {
        sl_problem p;
        sl_plan plan;
        draw_pair_problem(&state, round, SL_WAVE, &p);
        assert_ok(sl_plan_make(&p, "dualpipe-v", &plan));
        assert_ok(sl_order_check_ascending(&plan.order));
        run_and_compare(&state, &p, &plan, &plan, 0);
        pairs += count_pairs(&plan.order);
        sl_plan_free(&plan);
        sl_problem_free(&p);
    }
    assert_true(pairs > 100);
}

/* 1f1b with some F and the B behind it overlapped: one sends to the next rank, one to the
 * previous, and inorder each waits for a place of its own. */
static void a_pair_that_sends_both_ways_waits_for_either_peer(void **unused) {
    (void)unused;
    uint64_t state = seed_of(29);
    int pairs = 0;
    for (int round = 0; round < 180; round++) {
        sl_problem p;
        sl_plan plan, paired;
        draw_pair_problem(&state, round, SL_LINEAR, &p);
        p.communication = (sl_regime)(round % SL_FIFO); /* fifo: such pairs may wait for their own receives */
        assert_ok(sl_plan_make(&p, "1f1b", &plan));
        for (int r = 0; r < p.ranks; r++)
            for (int i = 0; i + 1 < plan.order.count[r]; i++) {
                sl_op *op = &plan.order.ops[r][i];
                op->paired = op->kind == SL_F && op[1].kind == SL_B && op->microbatch != op[1].microbatch &&
                             draw(&state, 3) == 0;
            }
        assert_ok(sl_plan_of_order(&p, &plan.order, "paired", &paired));
        run_and_compare(&state, &p, &paired, &paired, 0);
        pairs += count_pairs(&paired.order);
        sl_plan_free(&paired);
        sl_plan_free(&plan);
        sl_problem_free(&p);
    }
    assert_true(pairs > 100);
}

static sl_time arrival(const cluster *c, int rank, int kind, int microbatch) {
    for (size_t i = 0; i < c->member[rank].records; i++) {
        const sl_record *r = &c->member[rank].record[i];
        if (r->kind == SL_RECORD_TRANSFER && r->iteration == 0 && r->op == kind &&
            r->microbatch == microbatch)
            return r->arrive - begin_of(0);
    }
    return -1;
}

/* Three ranks, ops of 1 ms, one place; 60 ms from rank 1 to 2, 20 ms from 1 to 0, nothing else. Rank 1 runs
 * F0 F1 F2 B0 (F3 B1) B2 B3. F0 is sent at 2, F1 waits until 62, F2 until 122. B0 ends at 123 and arrives at
 * 143. The pair has its inputs at 124 and ends at 126: B1 finds a place at 143 and arrives at 163, while F3
 * waits until 182 and arrives at 242. */
static void the_second_of_a_pair_does_not_wait_behind_the_first(void **unused) {
    (void)unused;
    static const char *const rows[] = {"0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3", "1F0,1F1,1F2,1B0,(1F3;1B1),1B2,1B3",
                                       "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3"};
    sl_problem p;
    sl_plan plan;
    sl_order order;
    assert_ok(sl_problem_make(3, 3, 4, &p));
    p.communication = SL_INORDER;
    p.link[1 * 3 + 2].latency = 60 * SL_MS;
    p.link[1 * 3 + 0].latency = 20 * SL_MS;
    assert_ok(sl_order_make(3, 8, &order));
    for (int r = 0; r < 3; r++) {
        p.time[SL_F][r] = p.time[SL_B][r] = SL_MS;
        for (const char *c = rows[r]; *c; c++)
            if ((*c == 'F' || *c == 'B'))
                order.ops[r][order.count[r]++] = (sl_op){.stage = r,
                                                         .microbatch = c[1] - '0',
                                                         .kind = *c == 'F' ? SL_F : SL_B,
                                                         .paired = r == 1 && c[0] == 'F' && c[1] == '3'};
    }
    assert_ok(sl_plan_of_order(&p, &order, "file", &plan));
    cluster c = {.problem = &p, .program = {&plan.program, &plan.program}};
    run_cluster(&c);
    assert_ran(&c);
    assert_int_equal(arrival(&c, 1, SL_F, 2), 182 * SL_MS);
    assert_int_equal(arrival(&c, 1, SL_B, 0), 143 * SL_MS);
    assert_int_equal(arrival(&c, 1, SL_B, 1), 163 * SL_MS);
    assert_int_equal(arrival(&c, 1, SL_F, 3), 242 * SL_MS);
    assert_int_equal(c.member[0].result[0].end - begin_of(0), 266 * SL_MS);
    compare(&c, 0);
    free_cluster(&c);
    sl_plan_free(&plan);
    sl_order_free(&order);
    sl_problem_free(&p);
}

/* ---- buffers ---- */

/* 1f1b on two ranks, F and B of 10 ms, free links: rank 0 has handed over F0, F1 when B0 comes; a message has
 * arrived at the end of its op, so one buffer is written while none other is under way. */
static void buffers_are_used_again(void **unused) {
    (void)unused;
    sl_problem p;
    sl_plan plan;
    assert_ok(sl_problem_make(2, 2, 32, &p));
    for (int stage = 0; stage < 2; stage++)
        p.time[SL_F][stage] = p.time[SL_B][stage] = 10 * SL_MS;
    assert_ok(sl_plan_make(&p, "1f1b", &plan));
    cluster c = {.problem = &p, .program = {&plan.program, &plan.program}};
    for (int i = 0; i < ITERATIONS; i++)
        predict_posts(&c, i, 10 * SL_MS);
    run_cluster(&c);
    assert_ran(&c);
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < ITERATIONS; i++) {
            assert_in_range(c.member[r].result[i].receive_buffers, 1, 4);
            assert_in_range(c.member[r].result[i].send_buffers, 1, 2);
            assert_int_equal(c.member[r].result[i].local_buffers, 0);
        }
    free_cluster(&c);
    /* 200 ms of latency: whatever is under way keeps its buffer, and no send holds the rank */
    p.link[1].latency = 200 * SL_MS;
    c = (cluster){.problem = &p, .program = {&plan.program, &plan.program}};
    run_cluster(&c);
    assert_ran(&c);
    compare(&c, 0);
    assert_int_equal(c.member[0].result[0].receive_buffers, 32); /* posted at once: no prediction */
    assert_in_range(c.member[0].result[1].send_buffers, 2, 20);
    free_cluster(&c);
    sl_plan_free(&plan);
    sl_problem_free(&p);
}

/* ---- one rank, no transport: pace, overruns, refusals ---- */

typedef struct worker {
    sl_clock *clock;
    sl_time arithmetic;
    int weights;
} worker;

static sl_status work_forward(void *object, const sl_op *op, int parts, const void *input, void *output) {
    worker *w = object;
    (void)op, (void)parts, (void)input, (void)output;
    sl_clock_sleep_until(w->clock, sl_clock_now(w->clock) + w->arithmetic);
    return SL_OK;
}

static sl_status work_backward(void *object, const sl_op *op, int parts, const void *input, void *output) {
    return work_forward(object, op, parts, input, output);
}

static sl_status work_weights(void *object, const sl_op *op, int parts) {
    ((worker *)object)->weights++;
    return work_forward(object, op, parts, NULL, NULL);
}

typedef struct alone {
    sl_problem p;
    sl_order order;
    sl_program program;
    worker worker;
    sl_record_ring *ring;
    sl_engine *engine;
} alone;

/* Two stages on one rank: 0F0 1F0 1B0 0B0. */
static void alone_open(alone *a, sl_time arithmetic) {
    static const sl_op ops[] = {
        {0, 0, SL_F, 0, 0}, {1, 0, SL_F, 0, 0}, {1, 0, SL_B, 0, 0}, {0, 0, SL_B, 0, 0}};
    *a = (alone){.worker = {.arithmetic = arithmetic}};
    assert_ok(sl_problem_make(1, 2, 1, &a->p));
    a->p.placement = SL_LOOP;
    assert_ok(sl_order_make(1, 4, &a->order));
    memcpy(a->order.ops[0], ops, sizeof ops);
    a->order.count[0] = 4;
    assert_ok(sl_lower(&a->p, &a->order, &a->program));
    assert_ok(sl_clock_open_virtual(1, &a->worker.clock));
    a->ring = calloc(1, sl_record_ring_bytes(64));
    sl_record_ring_init(a->ring, 64);
    sl_stage stage[2];
    for (int s = 0; s < 2; s++)
        stage[s] = (sl_stage){.object = &a->worker,
                              .forward = work_forward,
                              .input_grad = work_backward,
                              .weight_grad = work_weights,
                              .input_bytes = s > 0 ? 64 : 0,
                              .output_bytes = s > 0 ? 0 : 64};
    sl_engine_config config = {
        .clock = a->worker.clock, .ring = a->ring, .stage = stage, .stages = 2, .patience = SL_SECOND};
    assert_ok(sl_engine_open(&config, &a->engine));
}

static void alone_close(alone *a) {
    sl_engine_close(a->engine);
    sl_clock_leave(a->worker.clock);
    sl_clock_close(a->worker.clock);
    free(a->ring);
    sl_program_free(&a->program);
    sl_order_free(&a->order);
    sl_problem_free(&a->p);
}

static void an_op_lasts_as_long_as_its_pace_or_its_arithmetic(void **unused) {
    (void)unused;
    static const sl_time forward[] = {10 * SL_MS, 3 * SL_MS}, full[] = {20 * SL_MS, 0};
    alone a;
    sl_engine_result result;
    alone_open(&a, 4 * SL_MS); /* a B is I and W: 8 ms */
    assert_ok(sl_engine_swap(a.engine, &a.program, NULL));
    sl_engine_pace(a.engine, &(sl_pace){.time = {[SL_F] = forward, [SL_B] = full}});
    assert_ok(sl_engine_run(a.engine, 0, SL_SECOND, &result));
    /* 0F0 10; 1F0 wants 3 and takes 4, an overrun; 1B0 has no pace and takes 8; 0B0 20 */
    assert_int_equal(result.end, SL_SECOND + (10 + 4 + 8 + 20) * SL_MS);
    assert_int_equal(result.ops, 4);
    assert_int_equal(result.overruns, 1);
    assert_int_equal(result.local_buffers, 1);
    assert_int_equal(a.worker.weights, 2);
    alone_close(&a);
}

/* A device that only queues: `busy` is when all that was queued will be done. */
typedef struct queuer {
    sl_clock *clock;
    sl_time busy, marked[2];
    char log[64]; /* F, B (its W) as queued, and w: a wait */
} queuer;

static sl_status queue_work(queuer *q, const char *letter) {
    const sl_time now = sl_clock_now(q->clock);
    q->busy = (q->busy > now ? q->busy : now) + 4 * SL_MS;
    strcat(q->log, letter);
    return SL_OK;
}

static sl_status queue_forward(void *object, const sl_op *op, int parts, const void *input, void *output) {
    (void)op, (void)parts, (void)input, (void)output;
    return queue_work(object, "F");
}

static sl_status queue_backward(void *object, const sl_op *op, int parts, const void *input, void *output) {
    (void)op, (void)parts, (void)input, (void)output;
    return queue_work(object, "");
}

static sl_status queue_weights(void *object, const sl_op *op, int parts) {
    (void)op, (void)parts;
    return queue_work(object, "B");
}

static sl_status mark_queue(void *object, int number) {
    ((queuer *)object)->marked[number] = ((queuer *)object)->busy;
    return SL_OK;
}

static sl_status wait_for_mark(void *object, int number) {
    queuer *q = object;
    strcat(q->log, "w");
    sl_clock_sleep_until(q->clock, q->marked[number]);
    return SL_OK;
}

static sl_status wait_for_all(void *object) {
    queuer *q = object;
    strcat(q->log, "f");
    sl_clock_sleep_until(q->clock, q->busy);
    return SL_OK;
}

/* Runs 0F0 0F1 0F2 0B0 0B1 0B2; 4 ms an F, 8 a B. */
static void run_queuer(queuer *q, const sl_time *pace, sl_regime regime, sl_time *end, sl_record *record) {
    sl_problem p;
    sl_order order;
    sl_program program;
    sl_engine *engine;
    sl_engine_result result;
    assert_ok(sl_problem_make(1, 1, 3, &p));
    assert_ok(sl_order_make(1, 6, &order));
    for (int i = 0; i < 6; i++)
        order.ops[0][i] = (sl_op){.kind = i < 3 ? SL_F : SL_B, .microbatch = i % 3};
    order.count[0] = 6;
    assert_ok(sl_lower(&p, &order, &program));
    *q = (queuer){0};
    assert_ok(sl_clock_open_virtual(1, &q->clock));
    sl_record_ring *ring = calloc(1, sl_record_ring_bytes(64));
    sl_record_ring_init(ring, 64);
    const sl_stage stage = {.object = q,
                            .forward = queue_forward,
                            .input_grad = queue_backward,
                            .weight_grad = queue_weights,
                            .finish = wait_for_all,
                            .mark = mark_queue,
                            .wait = wait_for_mark};
    const sl_engine_config config = {.clock = q->clock,
                                     .ring = ring,
                                     .stage = &stage,
                                     .stages = 1,
                                     .regime = regime,
                                     .queue = 1,
                                     .patience = SL_SECOND};
    assert_ok(sl_engine_open(&config, &engine));
    assert_ok(sl_engine_swap(engine, &program, NULL));
    sl_engine_pace(engine, &(sl_pace){.time = {[SL_F] = pace, [SL_B] = pace}});
    assert_ok(sl_engine_run(engine, 0, SL_SECOND, &result));
    *end = result.end;
    assert_int_equal(result.ops, 6);
    uint64_t from = 0, lost = 0;
    assert_int_equal(sl_record_read(ring, ring->capacity, &from, record, 6, &lost), 6);
    sl_engine_close(engine);
    sl_clock_leave(q->clock);
    sl_clock_close(q->clock);
    free(ring);
    sl_program_free(&program);
    sl_order_free(&order);
    sl_problem_free(&p);
}

static void a_block_is_queued_before_the_one_before_it_is_waited_for(void **unused) {
    (void)unused;
    static const sl_time paced[] = {10 * SL_MS};
    queuer q;
    sl_time end;
    sl_record record[6];
    run_queuer(&q, NULL, SL_DECOUPLED, &end, record);
    assert_string_equal(q.log, "FFwFwBwBwBww"); /* two at a time; the device is never idle */
    assert_int_equal(end, SL_SECOND + (3 * 4 + 3 * 8) * SL_MS);
    for (int i = 0; i < 6; i++) {
        const sl_time start = SL_SECOND + (i < 3 ? 4 * i : 12 + 8 * (i - 3)) * SL_MS;
        assert_int_equal(record[i].start, start);
        assert_int_equal(record[i].end, start + (i < 3 ? 4 : 8) * SL_MS);
    }
    run_queuer(&q, paced, SL_DECOUPLED, &end, record); /* a pace needs each op's own end */
    assert_string_equal(q.log, "FfFfFfBfBfBf");
    assert_int_equal(end, SL_SECOND + 60 * SL_MS);
    run_queuer(&q, NULL, SL_INORDER, &end, record); /* its sends may hold the rank */
    assert_string_equal(q.log, "FfFfFfBfBfBf");
}

static void programs_that_cannot_run_here_are_refused(void **unused) {
    (void)unused;
    alone a;
    sl_problem p;
    sl_order order;
    sl_program program;
    alone_open(&a, 0);
    assert_ok(sl_problem_make(1, 1, 2, &p));
    assert_ok(sl_order_make(1, 4, &order));
    static const sl_op ops[] = {
        {0, 0, SL_F, 0, 0}, {0, 1, SL_F, 0, 0}, {0, 1, SL_B, 0, 0}, {0, 0, SL_B, 0, 0}};
    memcpy(order.ops[0], ops, sizeof ops);
    order.count[0] = 4;
    assert_ok(sl_lower(&p, &order, &program));
    assert_fails(sl_engine_swap(a.engine, &program, NULL), SL_EINVAL,
                 "stage 0, microbatch 0 after 1; bit-identical");
    sl_program_free(&program);
    sl_order_free(&order);
    sl_problem_free(&p);

    sl_plan plan;
    assert_ok(sl_problem_make(1, 3, 2, &p));
    p.placement = SL_LOOP;
    assert_ok(sl_plan_make(&p, "gpipe", &plan));
    assert_fails(sl_engine_swap(a.engine, &plan.program, NULL), SL_EINVAL, "gives stage 2 to rank 0");
    sl_plan_free(&plan);
    sl_problem_free(&p);

    assert_ok(sl_problem_make(2, 2, 2, &p));
    assert_ok(sl_plan_make(&p, "gpipe", &plan));
    assert_fails(sl_engine_swap(a.engine, &plan.program, NULL), SL_EINVAL, "no transport");
    sl_plan_free(&plan);
    sl_problem_free(&p);
    alone_close(&a);
}

static void a_failed_allocation_is_an_error_and_the_engine_can_be_used_again(void **unused) {
    (void)unused;
    alone a;
    sl_engine_result result;
    alone_open(&a, SL_MS);
    int failures = 0;
    for (sl_status status = SL_ENOMEM; status != SL_OK; failures++) {
        sl_alloc_fail_at(failures);
        status = sl_engine_swap(a.engine, &a.program, NULL);
        sl_alloc_fail_at(-1);
        assert_true(status == SL_OK || status == SL_ENOMEM);
    }
    assert_true(failures > 5);
    assert_ok(sl_engine_run(a.engine, 0, 0, &result));
    assert_int_equal(result.end, 6 * SL_MS); /* two F, and two B of two each */
    alone_close(&a);
}

/* Plans that fit with host memory, at random; the stages count what is where. */
static void moves_to_host_memory_run_as_predicted_and_keep_every_limit(void **unused) {
    (void)unused;
    uint64_t state = seed_of(11);
    int rounds = 0, moves = 0;
    for (int round = 0; round < 300; round++) {
        sl_problem p;
        sl_plan a, b;
        int first, second;
        draw_problem(&state, (sl_placement)(round % SL_PLACEMENTS), 1, &p);
        assert_ok(sl_alloc(&p.limit, (size_t)p.ranks, sizeof *p.limit));
        assert_ok(sl_alloc(&p.host_limit, (size_t)p.ranks, sizeof *p.host_limit));
        for (int rank = 0; rank < p.ranks; rank++) {
            p.limit[rank] = 2 + draw(&state, 3);
            p.host_limit[rank] = 2 + draw(&state, 20);
        }
        for (int stage = 0; stage < p.stages; stage++)
            p.offload[stage] = draw(&state, 4) ? draw(&state, 8000000) : 0;
        if (draw_plan(&state, &p, &a, &first)) {
            assert_true(draw_plan(&state, &p, &b, &second));
            run_and_compare(&state, &p, &a, &b, 0);
            for (int rank = 0; rank < p.ranks; rank++)
                moves += a.program.rank[rank].moves + b.program.rank[rank].moves;
            rounds++;
            sl_plan_free(&a);
            sl_plan_free(&b);
        }
        sl_problem_free(&p);
    }
    printf("%d rounds, %d moves\n", rounds, moves);
    assert_true(getenv("SL_SEED") || (rounds > 100 && moves > 500));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_runs_is_what_was_predicted_to_the_nanosecond),
        cmocka_unit_test(an_update_takes_its_ranks_time_before_the_first_F_and_no_others),
        cmocka_unit_test(links_that_share_a_wire_run_as_predicted),
        cmocka_unit_test(moves_to_host_memory_run_as_predicted_and_keep_every_limit),
        cmocka_unit_test(overlapped_pairs_run_as_one_block_in_every_regime),
        cmocka_unit_test(a_pair_that_sends_both_ways_waits_for_either_peer),
        cmocka_unit_test(the_second_of_a_pair_does_not_wait_behind_the_first),
        cmocka_unit_test(buffers_are_used_again),
        cmocka_unit_test(an_op_lasts_as_long_as_its_pace_or_its_arithmetic),
        cmocka_unit_test(a_block_is_queued_before_the_one_before_it_is_waited_for),
        cmocka_unit_test(programs_that_cannot_run_here_are_refused),
        cmocka_unit_test(a_failed_allocation_is_an_error_and_the_engine_can_be_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
