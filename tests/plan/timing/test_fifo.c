/* The fifo regime against a stepper that reads the rows of PyTorch's compute_comms form and knows only the
 * rules: no program, no lanes, no queue of events. */
#include "check.h"
#include "plan/random_fifo.h"
#include "plan/random_order.h"

#include "plan/bound/bound.h"
#include "plan/lower/comms_csv.h"
#include "plan/timing/replay.h"

enum { RANKS = 5, STAGES = 10, MICROBATCHES = 5, CELLS = 400, ENDS = 4 * STAGES * MICROBATCHES };

/* ---- the stepper ---- */

typedef enum doing { OP, SEND, RECEIVE } doing;

typedef struct cell {
    doing what;
    int stage, kind, microbatch; /* of the op, or of the op that makes the message */
} cell;

typedef struct row {
    cell cell[CELLS];
    int cells, next, running;
    sl_time ends, start[CELLS];
    int ops;
} row;

/* One end of a message, as its rank issued it. */
typedef struct end {
    int rank, peer, receive, kind, stage, microbatch;
    sl_time issued, reached, done; /* SL_TIME_NEVER: not yet */
} end;

typedef struct stepper {
    const sl_problem *p;
    row row[RANKS];
    end end[ENDS]; /* in the order of issue */
    int ends;
    int asked[ENDS]; /* its message waits for its wire, or has left (sends) */
    sl_time wire[RANKS][RANKS], left[ENDS], arrive[ENDS];
} stepper;

/* Ends of two ranks may use one communicator only if they are of one rank. */
static int same_communicator(const sl_problem *p, const end *a, const end *b) {
    if (a->rank != b->rank)
        return 0;
    if (p->communicators == SL_OF_PIPELINE)
        return 1;
    if (a->peer != b->peer || p->communicators == SL_OF_PAIR)
        return a->peer == b->peer;
    return a->receive == b->receive &&
           (p->communicators == SL_OF_DIRECTION || (a->kind == SL_F) == (b->kind == SL_F));
}

static int other_end(const stepper *s, int i) {
    for (int k = 0; k < s->ends; k++)
        if (s->end[k].receive != s->end[i].receive && s->end[k].stage == s->end[i].stage &&
            s->end[k].microbatch == s->end[i].microbatch &&
            (s->end[k].kind == SL_F) == (s->end[i].kind == SL_F))
            return k;
    return -1;
}

static int is_small(const stepper *s, const end *e) {
    int from = e->receive ? e->peer : e->rank, to = e->receive ? e->rank : e->peer;
    return s->p->link[from * s->p->ranks + to].bytes <= s->p->eager;
}

/* The stage that uses the result of a stage. */
static int user_of(const sl_problem *p, const cell *c) {
    return c->kind == SL_F ? sl_problem_next(p, c->stage) : sl_problem_previous(p, c->stage);
}

static int has_input(const stepper *s, int rank, const cell *c, sl_time now) {
    int from = c->kind == SL_F ? sl_problem_previous(s->p, c->stage) : sl_problem_next(s->p, c->stage);
    if (c->kind == SL_W || from < 0 || sl_problem_rank(s->p, from) == rank)
        return 1;
    for (int i = 0; i < s->ends; i++)
        if (s->end[i].receive && s->end[i].stage == from && s->end[i].microbatch == c->microbatch &&
            (s->end[i].kind == SL_F) == (c->kind == SL_F))
            return s->end[i].done <= now;
    return 0;
}

static int step_rank(stepper *s, int rank, sl_time now) {
    row *r = &s->row[rank];
    if (r->running && r->ends == now) {
        r->running = 0;
        r->next++;
        return 1;
    }
    if (r->running || r->next == r->cells)
        return 0;
    const cell *c = &r->cell[r->next];
    if (c->what == OP) {
        if (!has_input(s, rank, c, now))
            return 0;
        r->running = 1;
        r->start[r->ops++] = now;
        r->ends = now + s->p->time[c->kind][c->stage];
        return 1;
    }
    int other = c->what == SEND ? user_of(s->p, c) : c->stage;
    s->end[s->ends++] = (end){.rank = rank,
                              .peer = sl_problem_rank(s->p, other),
                              .receive = c->what == RECEIVE,
                              .kind = c->kind,
                              .stage = c->stage,
                              .microbatch = c->microbatch,
                              .issued = now,
                              .reached = SL_TIME_NEVER,
                              .done = SL_TIME_NEVER};
    r->next++;
    return 1;
}

static int reach(stepper *s, int i, sl_time now) {
    if (s->end[i].reached != SL_TIME_NEVER)
        return 0;
    for (int k = 0; k < i; k++)
        if (same_communicator(s->p, &s->end[k], &s->end[i]) && s->end[k].done > now)
            return 0;
    s->end[i].reached = now;
    return 1;
}

/* Lets a send's message go as soon as it may and its wire is free. */
static int go(stepper *s, int i, sl_time now) {
    const end *e = &s->end[i];
    int k = other_end(s, i), small = is_small(s, e);
    if (e->receive || s->asked[i] || e->reached > now || (!small && (k < 0 || s->end[k].reached > now)))
        return 0;
    sl_time *wire = &s->wire[e->rank][e->peer];
    if (*wire > now)
        return 0;
    const sl_link *link = &s->p->link[e->rank * s->p->ranks + e->peer];
    s->asked[i] = 1;
    *wire = s->left[i] = now + link->transfer;
    s->arrive[i] = *wire + link->latency;
    s->end[i].done = small ? s->left[i] : s->arrive[i];
    return 1;
}

static int arrive(stepper *s, int i, sl_time now) {
    int k = other_end(s, i);
    if (!s->end[i].receive || s->end[i].done != SL_TIME_NEVER || s->end[i].reached > now || k < 0 ||
        !s->asked[k] || s->arrive[k] > now)
        return 0;
    s->end[i].done = now;
    return 1;
}

static int step_all(stepper *s, sl_time now) {
    int moved = 0;
    for (int rank = 0; rank < s->p->ranks; rank++)
        moved |= step_rank(s, rank, now);
    for (int i = 0; i < s->ends; i++)
        moved |= reach(s, i, now) | go(s, i, now) | arrive(s, i, now);
    return moved;
}

static int is_over(const stepper *s) {
    for (int rank = 0; rank < s->p->ranks; rank++)
        if (s->row[rank].next < s->row[rank].cells)
            return 0;
    return 1;
}

static void step_through(stepper *s) {
    sl_time now = 0;
    for (; !is_over(s) && now < 1000000; now++)
        while (step_all(s, now))
            ;
    assert_true(is_over(s));
}

/* "0SEND_F3", "1I2" and the like; the cells of sharding are nothing here. */
static void read_cell(const sl_problem *p, row *r, const char *text) {
    int stage, microbatch;
    char name[32];
    if (sscanf(text, "%d%30[A-Z_]%d", &stage, name, &microbatch) != 3)
        return;
    cell *c = &r->cell[r->cells++];
    int receive = strncmp(name, "RECV", 4) == 0, message = receive || strncmp(name, "SEND", 4) == 0;
    char kind = name[strlen(name) - 1];
    *c = (cell){.what = receive   ? RECEIVE
                        : message ? SEND
                                  : OP,
                .stage = stage,
                .kind = kind == 'F'   ? SL_F
                        : kind == 'I' ? SL_I
                        : kind == 'W' ? SL_W
                                      : SL_B,
                .microbatch = microbatch};
    if (receive) /* by the stage that made the message */
        c->stage = kind == 'F' ? sl_problem_previous(p, stage) : sl_problem_next(p, stage);
}

/* The peer of a receive is the rank of the stage that made the message. */
static void read_rows(const sl_problem *p, const sl_order *order, const sl_program *program, stepper *s) {
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_ok(sl_program_write_csv(p, order, program, out));
    fclose(out);
    char *line = text;
    for (int rank = 0; rank < p->ranks; rank++) {
        char *next = strchr(line, '\n');
        *next = 0;
        for (char *at = strtok(line, ","); at; at = strtok(NULL, ","))
            read_cell(p, &s->row[rank], at);
        line = next + 1;
    }
    free(text);
}

/* ---- random cases ---- */

static void in_microbatch_order(const sl_problem *p, sl_order *order) { /* as the CSV form needs it */
    int next = 0;
    int last = p->stages - 1, rank = sl_problem_rank(p, last);
    int seen[MICROBATCHES] = {0};
    for (int i = 0; i < order->count[rank]; i++)
        if (order->ops[rank][i].stage == last && order->ops[rank][i].kind == SL_F)
            seen[next++] = order->ops[rank][i].microbatch;
    for (int r = 0; r < p->ranks; r++)
        for (int i = 0; i < order->count[r]; i++)
            for (int k = 0; k < next; k++)
                if (order->ops[r][i].microbatch == seen[k]) {
                    order->ops[r][i].microbatch = k;
                    break;
                }
}

static void compare_once(void) {
    static stepper s;
    static int round_of;
    sl_problem p;
    sl_order order;
    sl_program program;
    sl_timeline t;
    random_fifo_problem(RANKS, MICROBATCHES, 1, &p);
    random_order(&p, 0, &order);
    in_microbatch_order(&p, &order);
    assert_ok(sl_lower(&p, &order, &program));
    assert_ok(sl_replay(&p, &program, SL_FIFO, 1, &t));
    s = (stepper){.p = &p};
    read_rows(&p, &order, &program, &s);
    step_through(&s);
    for (int rank = 0, i = 0; rank < p.ranks; rank++)
        for (int k = 0; k < order.count[rank]; k++, i++)
            assert_int_equal(t.span[i].start, s.row[rank].start[k]);
    sl_time bound;
    assert_ok(sl_lower_bound(&p, round_of++ % 2, &bound));
    assert_true(bound <= sl_timeline_makespan(&t));
    for (int i = 0; i < t.transfers; i++)
        for (int k = 0; k < s.ends; k++)
            if (!s.end[k].receive && s.end[k].stage == t.transfer[i].op.stage &&
                s.end[k].microbatch == t.transfer[i].op.microbatch &&
                (s.end[k].kind == SL_F) == (t.transfer[i].op.kind == SL_F)) {
                assert_int_equal(t.transfer[i].end, s.left[k]);
                assert_int_equal(t.transfer[i].arrive, s.end[other_end(&s, k)].done);
            }
    sl_timeline_free(&t);
    sl_program_free(&program);
    sl_order_free(&order);
    sl_problem_free(&p);
}

static void random_orders_take_the_times_that_the_rules_give(void **state) {
    (void)state;
    start_drawing(2711u);
    for (int round = 0; round < cases(200); round++)
        compare_once();
}

/* A send holds nothing if it is small and its communicator carries only messages that share a link anyway. */
static void small_messages_of_a_direction_are_decoupled(void **state) {
    (void)state;
    start_drawing(99u);
    for (int round = 0; round < cases(300); round++) {
        sl_problem p;
        sl_order order;
        sl_program program;
        sl_timeline fifo, decoupled;
        random_fifo_problem(RANKS, MICROBATCHES, 1, &p);
        p.communicators = SL_OF_DIRECTION;
        p.eager = 4000;
        random_order(&p, 0, &order);
        assert_ok(sl_lower(&p, &order, &program));
        assert_ok(sl_replay(&p, &program, SL_FIFO, 1, &fifo));
        assert_ok(sl_replay(&p, &program, SL_DECOUPLED, 1, &decoupled));
        for (int i = 0; i < fifo.spans; i++)
            assert_int_equal(fifo.span[i].start, decoupled.span[i].start);
        sl_timeline_free(&fifo);
        sl_timeline_free(&decoupled);
        sl_program_free(&program);
        sl_order_free(&order);
        sl_problem_free(&p);
    }
}

/* ---- by hand ---- */

/* 1F1B of two ranks and two microbatches; F takes 30 on rank 0, everything else 10, a message 5. Rank 0
 * issues F0 S F1 S R B0 R B1, rank 1 R F0 R B0 S F1 B1 S.
 *
 * The first activation moves from 30 to 35, and rank 1 runs F0 35-45 and B0 45-55. With one communicator its
 * gradient waits behind the receive of the second activation, which moves from 60 to 65: the gradient moves
 * from 65 to 70. With one per direction it moves as soon as rank 0 receives it, after its F1, from 60 to 65.
 */
static void a_receive_that_waits_holds_up_the_sends_behind_it_by_hand(void **state) {
    (void)state;
    static const sl_time starts[2][8] = {{0, 30, 70, 90, 35, 45, 65, 75}, {0, 30, 65, 90, 35, 45, 65, 75}};
    for (int apart = 0; apart < 2; apart++) {
        sl_problem p;
        sl_order order;
        sl_program program;
        sl_timeline t;
        assert_ok(sl_problem_make(2, 2, 2, &p));
        for (int stage = 0; stage < 2; stage++)
            p.time[SL_F][stage] = p.time[SL_B][stage] = 10;
        p.time[SL_F][0] = 30;
        p.link[1].transfer = p.link[2].transfer = 5;
        p.communicators = apart ? SL_OF_DIRECTION : SL_OF_PIPELINE;
        assert_ok(sl_order_make(2, 4, &order));
        static const int kinds[2][4] = {{SL_F, SL_F, SL_B, SL_B}, {SL_F, SL_B, SL_F, SL_B}};
        static const int microbatches[2][4] = {{0, 1, 0, 1}, {0, 0, 1, 1}};
        for (int rank = 0; rank < 2; rank++)
            for (int i = 0; i < 4; i++)
                order.ops[rank][order.count[rank]++] =
                    (sl_op){.stage = rank, .kind = kinds[rank][i], .microbatch = microbatches[rank][i]};
        assert_ok(sl_lower(&p, &order, &program));
        assert_ok(sl_replay(&p, &program, SL_FIFO, 1, &t));
        for (int i = 0; i < 8; i++)
            assert_int_equal(t.span[i].start, starts[apart][i]);
        assert_int_equal(sl_timeline_makespan(&t), 100);
        sl_timeline_free(&t);
        sl_program_free(&program);
        sl_order_free(&order);
        sl_problem_free(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_orders_take_the_times_that_the_rules_give),
        cmocka_unit_test(small_messages_of_a_direction_are_decoupled),
        cmocka_unit_test(a_receive_that_waits_holds_up_the_sends_behind_it_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
