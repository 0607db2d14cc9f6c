/* Moves to host memory: which, when, and that no limit is passed whatever the ranks wait for. */
#include "check.h"

#include "base/memory.h"
#include "base/random.h"
#include "plan/family/family.h"
#include "plan/lower/offload.h"
#include "plan/timing/critical.h"
#include "plan/timing/profile.h"
#include "plan/timing/replay.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t random_state;

static int draw(int n) {
    return (int)(sl_random_mix(random_state += SL_RANDOM_STEP) % (uint64_t)n);
}

static void set_host(sl_problem *p, double limit, int32_t host, sl_time offload) {
    assert_ok(sl_alloc(&p->limit, (size_t)p->ranks, sizeof *p->limit));
    assert_ok(sl_alloc(&p->host_limit, (size_t)p->ranks, sizeof *p->host_limit));
    for (int rank = 0; rank < p->ranks; rank++) {
        p->limit[rank] = limit;
        p->host_limit[rank] = host;
    }
    for (int stage = 0; stage < p->stages; stage++)
        p->offload[stage] = offload;
}

/* F and B of one rank, all F first. */
static void make_one_rank(int microbatches, double limit, int32_t host, sl_time offload, sl_problem *p,
                          sl_order *order) {
    assert_ok(sl_problem_make(1, 1, microbatches, p));
    p->time[SL_F][0] = p->time[SL_I][0] = p->time[SL_W][0] = 10;
    p->time[SL_B][0] = 20;
    set_host(p, limit, host, offload);
    assert_ok(sl_order_make(1, 2 * microbatches, order));
    for (int i = 0; i < 2 * microbatches; i++)
        order->ops[0][order->count[0]++] =
            (sl_op){.kind = i < microbatches ? SL_F : SL_B, .microbatch = i % microbatches};
}

typedef struct expected {
    int kind, microbatch;
    sl_time start, end;
} expected;

static void check_moves(const sl_timeline *t, const expected *moves, int count) {
    assert_int_equal(t->collectives, count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(t->collective[i].op.kind, moves[i].kind);
        assert_int_equal(t->collective[i].op.microbatch, moves[i].microbatch);
        assert_int_equal(t->collective[i].start, moves[i].start);
        assert_int_equal(t->collective[i].end, moves[i].end);
    }
}

/* F 10, B 20, a move 4; the device holds 2, the host 3. F0 0-10, F1 10-20. F2 at 20 needs a place: F1 would
 * be gone at 24, F0 at 14, so F0 goes. Before F3 at 30: F0 must be back at 40, its place and F3's are to be
 * made; F1 goes (20-24), then F2 (30-34), and F0 comes (34-38). During B0, 40-60: F1 must be back at 60 and
 * the device is full, so F3 goes (40-44) and F1 comes (44-48). From then on every B leaves the place that the
 * next fetch takes: 60-64 and 80-84. Nothing waits: 4 * 30 = 120. */
static void moves_beside_the_ops_cost_nothing(void **state) {
    (void)state;
    static const expected moves[] = {
        {SL_OFFLOAD, 0, 10, 14}, {SL_OFFLOAD, 1, 20, 24}, {SL_OFFLOAD, 2, 30, 34}, {SL_FETCH, 0, 34, 38},
        {SL_OFFLOAD, 3, 40, 44}, {SL_FETCH, 1, 44, 48},   {SL_FETCH, 2, 60, 64},   {SL_FETCH, 3, 80, 84}};
    sl_problem p;
    sl_order order;
    sl_program program;
    sl_timeline t;
    double peak;
    int host;
    make_one_rank(4, 2, 3, 4, &p, &order);
    assert_ok(sl_lower(&p, &order, &program));
    assert_ok(sl_replay(&p, &program, SL_DECOUPLED, 1, &t));
    check_moves(&t, moves, 8);
    assert_int_equal(sl_timeline_makespan(&t), 120);
    assert_ok(sl_peak_memory(&p, &t, &peak));
    sl_peak_host(&t, &host);
    assert_true(peak == 2);
    assert_int_equal(host, 3);
    p.offload[0] = 1; /* and a timeline tells how long its moves take */
    assert_ok(sl_profile(&t, &p));
    assert_int_equal(p.offload[0], 4);
    sl_timeline_free(&t);
    sl_program_free(&program);
    sl_order_free(&order);
    sl_problem_free(&p);
}

/* One place on the device and slow moves of 30: F0 0-10, out 10-40; F1 waits, 40-50, out 50-80; F0 back
 * 80-110; B0 110-130; F1 back 130-160, B1 160-180. The critical path goes through every move. */
static void ops_wait_for_slow_moves(void **state) {
    (void)state;
    static const expected moves[] = {
        {SL_OFFLOAD, 0, 10, 40}, {SL_OFFLOAD, 1, 50, 80}, {SL_FETCH, 0, 80, 110}, {SL_FETCH, 1, 130, 160}};
    static const sl_time starts[] = {0, 40, 110, 160};
    static const int32_t path[] = {0, 4, 1, 5, 6, 2, 7, 3};
    sl_problem p;
    sl_order order;
    sl_program program;
    sl_timeline t;
    double peak;
    int32_t found[8];
    make_one_rank(2, 1, 2, 30, &p, &order);
    assert_ok(sl_lower(&p, &order, &program));
    assert_ok(sl_replay(&p, &program, SL_DECOUPLED, 1, &t));
    check_moves(&t, moves, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(t.span[i].start, starts[i]);
    assert_int_equal(sl_critical_path(&p, &program, &t, found), 8);
    assert_memory_equal(found, path, sizeof path);
    assert_ok(sl_peak_memory(&p, &t, &peak));
    assert_true(peak == 1);
    sl_timeline_free(&t);
    sl_program_free(&program);
    sl_order_free(&order);
    sl_problem_free(&p);
}

/* Two in flight on one place of the device and one of the host cannot change places: the memory check has to
 * say so, and the host's limit is kept all the same. */
static void what_fits_nowhere_passes_the_devices_limit_only(void **state) {
    (void)state;
    sl_problem p;
    sl_order order;
    sl_program program;
    sl_timeline t;
    double peak;
    int host;
    make_one_rank(2, 1, 1, 5, &p, &order);
    assert_ok(sl_lower(&p, &order, &program));
    assert_false(sl_offload_rank(&p, &program, 0));
    assert_ok(sl_replay(&p, &program, SL_DECOUPLED, 1, &t));
    assert_ok(sl_peak_memory(&p, &t, &peak));
    sl_peak_host(&t, &host);
    assert_true(peak == 2);
    assert_int_equal(host, 1);
    sl_timeline_free(&t);
    sl_program_free(&program);
    sl_order_free(&order);
    sl_problem_free(&p);
}

static void a_limit_that_is_not_reached_moves_nothing(void **state) {
    (void)state;
    sl_problem p;
    sl_order order;
    sl_program program;
    make_one_rank(6, 6, 6, 5, &p, &order);
    assert_ok(sl_lower(&p, &order, &program));
    assert_int_equal(program.rank[0].moves, 0);
    sl_program_free(&program);
    sl_order_free(&order);
    sl_problem_free(&p);
}

/* ---- random problems, checked by a walk of the test's own over the moments of a timeline ---- */

typedef struct moment {
    sl_time time;
    double bytes; /* device */
    int host;
} moment;

static int by_time(const void *a, const void *b) {
    const moment *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? -1 : 1) : 0;
}

/* Most on the device at once; the host is counted in the order of the moves. */
static double walk(const sl_problem *p, const sl_timeline *t, int rank, int *host) {
    moment *moments = calloc(2 * (size_t)t->spans + (size_t)t->collectives + 1, sizeof *moments);
    int count = 0, hosted = 0;
    double used = 0, most = 0;
    *host = 0;
    for (int i = 0; i < t->spans; i++) {
        const sl_span *s = &t->span[i];
        if (s->rank != rank)
            continue;
        double taken = s->op.kind == SL_F   ? p->delta[SL_F][s->op.stage]
                       : s->op.kind == SL_W ? 0
                                            : p->early[s->op.stage];
        if (s->op.part == 0 && taken != 0)
            moments[count++] = (moment){.time = s->start, .bytes = taken};
        if (s->op.kind != SL_F && s->op.part == p->parts - 1)
            moments[count++] = (moment){.time = s->end, .bytes = p->delta[s->op.kind][s->op.stage]};
    }
    for (int i = 0; i < t->collectives; i++) {
        const sl_span *s = &t->collective[i];
        if (s->rank != rank || s->op.kind < SL_OFFLOAD)
            continue;
        double size = p->delta[SL_F][s->op.stage];
        if (s->op.part) /* between I and W */
            size += p->early[s->op.stage] + p->delta[SL_I][s->op.stage];
        moments[count++] = s->op.kind == SL_OFFLOAD ? (moment){.time = s->end, .bytes = -size}
                                                    : (moment){.time = s->start, .bytes = size};
        hosted += s->op.kind == SL_OFFLOAD ? 1 : -1;
        *host = hosted > *host ? hosted : *host;
    }
    assert_int_equal(hosted, 0); /* whatever went came back */
    qsort(moments, (size_t)count, sizeof *moments, by_time);
    for (int i = 0; i < count; i++) {
        used += moments[i].bytes;
        most = used > most ? used : most;
    }
    free(moments);
    return most;
}

/* A rank's moves do not overlap, follow their F or I and end before what needs them. */
static void check_sequence(const sl_problem *p, const sl_program *program, const sl_timeline *t) {
    int c = 0, first = 0;
    for (int rank = 0; rank < p->ranks; rank++) {
        const sl_rank_program *mine = &program->rank[rank];
        for (int m = 0; m < mine->moves; m++, c++) {
            const sl_span *move = &t->collective[c];
            assert_true(move->rank == rank && move->op.kind == mine->move[m].kind);
            assert_true(m == 0 || move->start >= move[-1].end);
            assert_true(move->end - move->start == p->offload[move->op.stage]);
            for (int i = first; i < first + mine->steps; i++) {
                const sl_span *s = &t->span[i];
                if (s->op.stage != move->op.stage || s->op.microbatch != move->op.microbatch)
                    continue;
                int before = s->op.kind == (move->op.part ? SL_I : SL_F),
                    behind = move->op.part ? s->op.kind == SL_W : s->op.kind == SL_I || s->op.kind == SL_B;
                assert_true(!before || s->end <= move->start);
                assert_true(!behind || s->start >= move->end);
            }
        }
        first += mine->steps;
    }
    assert_int_equal(c, t->collectives);
}

static void make_random(sl_problem *p) {
    static const int per_rank[] = {1, 2, 2};
    int placement = draw(3), ranks = 1 + draw(5), n = 1 + draw(14);
    assert_ok(sl_problem_make(ranks, ranks * per_rank[placement], n, p));
    p->placement = (sl_placement)placement;
    p->communication = (sl_regime)draw(3);
    p->queue = 1 + draw(2);
    p->parts = draw(4) == 0 ? 1 + draw(3) : 1;
    int uneven = draw(2);
    for (int s = 0; s < p->stages; s++) {
        for (int kind = SL_F; kind <= SL_W; kind++)
            p->time[kind][s] = (1 + draw(20)) * SL_MS;
        p->time[SL_B][s] = p->time[SL_I][s] + p->time[SL_W][s];
        if (uneven) {
            p->delta[SL_F][s] = 1 + draw(4);
            p->delta[SL_I][s] = draw(3) - 1;
            p->early[s] = draw(3) == 0 ? draw(2) : 0;
            p->delta[SL_W][s] = -(p->delta[SL_F][s] + p->delta[SL_I][s] + p->early[s]);
            p->delta[SL_B][s] = p->delta[SL_I][s] + p->delta[SL_W][s];
        }
    }
    for (int i = 0; i < ranks * ranks; i++)
        p->link[i] = (sl_link){.latency = draw(3) ? 0 : draw(40) * SL_MS, .transfer = draw(3) * SL_MS};
    double least = 0;
    for (int s = 0; s < p->stages; s++)
        for (int half = 0; half < 2; half++)
            least = sl_problem_kept(p, s, half) > least ? sl_problem_kept(p, s, half) : least;
    set_host(p, least * (1 + draw(4)) + 1, draw(3) ? draw(8) : 1000, draw(3) ? draw(12) * SL_MS : 0);
    for (int s = 0; s < p->stages && draw(2); s++)
        p->offload[s] = draw(30) * SL_MS;
}

/* With the program's moves, on links of any latency. Returns whether all ranks fit, as the pass says. */
static int check_program(const sl_problem *p, sl_program *program) {
    int fits = 1;
    sl_replayer *replayer;
    const sl_timeline *t;
    sl_time *latency = calloc((size_t)program->messages + 1, sizeof *latency);
    for (int round = 0; round < 3; round++) {
        for (int m = 0; m < program->messages; m++)
            latency[m] = round == 0
                             ? p->link[program->message[m].from * p->ranks + program->message[m].to].latency
                             : draw(2) * draw(100) * SL_MS;
        assert_ok(sl_replayer_open(p, program, &replayer));
        sl_replayer_delay(replayer, latency);
        assert_true(sl_replayer_run(replayer, &t) != SL_TIME_NEVER);
        check_sequence(p, program, t);
        for (int rank = 0; rank < p->ranks; rank++) {
            int host, fit = sl_offload_rank(p, program, rank);
            double most = walk(p, t, rank, &host);
            fits &= fit;
            assert_true(host <= p->host_limit[rank]);
            if (fit && most > p->limit[rank] * (1 + 1e-9))
                fail_msg("rank %d holds %g of %g", rank, most, p->limit[rank]);
        }
        sl_replayer_close(replayer);
    }
    free(latency);
    return fits;
}

static void no_limit_is_passed_whatever_the_ranks_wait_for(void **state) {
    (void)state;
    int moved = 0, fitted = 0, tried = 0;
    for (int round = 0; round < 1500; round++) {
        sl_problem p, free_memory;
        make_random(&p);
        free_memory = p;
        free_memory.limit = NULL;
        for (const sl_family *family = sl_families; family->name; family++) {
            sl_order order;
            sl_program program;
            if (!sl_family_fits(family, &p) || family->placements & SL_LABORIOUS || draw(2) ||
                sl_family_build(family, &free_memory, &order) != SL_OK)
                continue;
            assert_ok(sl_lower(&p, &order, &program));
            int moves = 0;
            for (int rank = 0; rank < p.ranks; rank++)
                moves += program.rank[rank].moves;
            int fit = check_program(&p, &program);
            tried++;
            moved += moves > 0;
            fitted += moves > 0 && fit;
            sl_program_free(&program);
            sl_order_free(&order);
        }
        sl_problem_free(&p);
    }
    printf("%d orders, %d with moves, %d of them within all limits\n", tried, moved, fitted);
    assert_true(fitted > tried / 20);
}

/* With room on the host for everything and for three activations on the device, every order of equal stages
 * fits. */
static void a_large_host_makes_every_order_fit(void **state) {
    (void)state;
    for (int round = 0; round < 300; round++) {
        sl_problem p, free_memory;
        make_random(&p);
        for (int rank = 0; rank < p.ranks; rank++) {
            p.limit[rank] = 3 + draw(3);
            p.host_limit[rank] = 1000;
        }
        for (int s = 0; s < p.stages; s++) {
            p.delta[SL_F][s] = 1;
            p.delta[SL_I][s] = p.early[s] = 0;
            p.delta[SL_W][s] = p.delta[SL_B][s] = -1;
        }
        free_memory = p;
        free_memory.limit = NULL;
        for (const sl_family *family = sl_families; family->name; family++) {
            sl_order order;
            sl_program program;
            if (!sl_family_fits(family, &p) || family->placements & SL_LABORIOUS ||
                sl_family_build(family, &free_memory, &order) != SL_OK)
                continue;
            assert_ok(sl_lower(&p, &order, &program));
            for (int rank = 0; rank < p.ranks; rank++)
                if (!sl_offload_rank(&p, &program, rank))
                    fail_msg("%s does not fit on rank %d, limit %g", family->name, rank, p.limit[rank]);
            sl_program_free(&program);
            sl_order_free(&order);
        }
        sl_problem_free(&p);
    }
}

int main(void) {
    const char *seed = getenv("SL_SEED");
    random_state = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)random_state);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_beside_the_ops_cost_nothing),
        cmocka_unit_test(ops_wait_for_slow_moves),
        cmocka_unit_test(what_fits_nowhere_passes_the_devices_limit_only),
        cmocka_unit_test(a_limit_that_is_not_reached_moves_nothing),
        cmocka_unit_test(no_limit_is_passed_whatever_the_ranks_wait_for),
        cmocka_unit_test(a_large_host_makes_every_order_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
