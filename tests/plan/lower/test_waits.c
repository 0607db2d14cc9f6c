/* The proof against deadlock compared with all interleavings: every state that a small job can reach, by the
 * rules of the regimes alone (issued, reached, done), without a graph. */
#include "check.h"
#include "plan/drawn.h"

#include "base/memory.h"
#include "plan/lower/waits.h"
#include "plan/timing/replay.h"

enum { RANKS = 3, MICROBATCHES = 2, MAX_ISSUES = 32, TABLE = 1 << 17, MAX_STATES = 60000 };

/* ---- a random valid order, with issues in a random order ---- */

typedef struct job {
    sl_problem problem;
    sl_order order;
    sl_program program;
    sl_issuer *issuer;
    int count[RANKS];
    const sl_message_issue *issue[RANKS];
    int eager;
} job;

static void random_ops(job *j) {
    const sl_problem *p = &j->problem;
    int seen[SL_OP_KINDS][2 * RANKS][MICROBATCHES] = {0}, left = 2 * p->stages * p->microbatches;
    assert_ok(sl_order_make(p->ranks, left, &j->order));
    while (left > 0) {
        int stage = draw(p->stages), kind = draw(2) ? SL_F : SL_B, m = draw(p->microbatches);
        int needed = kind == SL_F ? sl_problem_previous(p, stage) : sl_problem_next(p, stage);
        if (seen[kind][stage][m] || (kind == SL_B && !seen[SL_F][stage][m]) ||
            (needed >= 0 && !seen[kind][needed][m]))
            continue;
        int rank = sl_problem_rank(p, stage);
        seen[kind][stage][m] = 1;
        j->order.ops[rank][j->order.count[rank]++] = (sl_op){.stage = stage, .kind = kind, .microbatch = m};
        left--;
    }
}

static int by_step(const void *a, const void *b) {
    const sl_message_issue *x = a, *y = b;
    return x->step != y->step ? (x->step < y->step ? -1 : 1) : x->cell < y->cell ? -1 : 1;
}

/* Sends after their op, receives before theirs; those of one link in one order at both ends. Those before the
 * same step are in random order, by `cell`, except that a link's keep theirs. */
static void random_issues(job *j, int near) {
    sl_message_issue list[RANKS][MAX_ISSUES];
    int count[RANKS] = {0};
    for (int from = 0; from < j->problem.ranks; from++)
        for (int to = 0; to < j->problem.ranks; to++) {
            int sent = 0, tie = draw(1000), most = j->program.rank[to].steps;
            for (int m = 0; m < j->program.messages; m++) {
                const sl_message *message = &j->program.message[m];
                if (message->from != from || message->to != to)
                    continue;
                int least = message->producer + 1, step = least + draw(1 + draw(near));
                step = step > j->program.rank[from].steps ? j->program.rank[from].steps : step;
                sent = step > sent ? step : sent;
                list[from][count[from]++] =
                    (sl_message_issue){.message = m, .step = sent, .cell = 1000 * tie + m};
            }
            tie = draw(1000);
            for (int m = j->program.messages - 1; m >= 0; m--) {
                const sl_message *message = &j->program.message[m];
                if (message->from != from || message->to != to)
                    continue;
                int step = message->consumer - draw(1 + draw(near));
                most = step < 0 ? 0 : step < most ? step : most;
                list[to][count[to]++] =
                    (sl_message_issue){.message = m, .receive = 1, .step = most, .cell = 1000 * tie + m};
            }
        }
    for (int rank = 0; rank < j->problem.ranks; rank++) {
        qsort(list[rank], (size_t)count[rank], sizeof list[rank][0], by_step);
        sl_issuer_give(j->issuer, rank, list[rank], count[rank]);
        j->issue[rank] = sl_issues_of(j->issuer, rank, &j->count[rank]);
    }
}

static void random_job(job *j) {
    static const sl_placement placements[] = {SL_LINEAR, SL_LOOP, SL_WAVE};
    sl_placement placement = placements[draw(3)];
    int ranks = placement == SL_LINEAR ? 2 + draw(RANKS - 1) : 2, stages = placement == SL_LINEAR ? ranks : 4;
    *j = (job){.eager = draw(4) == 0};
    assert_ok(sl_problem_make(ranks, stages, 1 + draw(MICROBATCHES), &j->problem));
    j->problem.placement = placement;
    j->problem.communicators = (sl_communicators)draw(4);
    j->problem.eager = j->eager;
    random_ops(j);
    assert_ok(sl_lower(&j->problem, &j->order, &j->program));
    assert_ok(sl_issuer_open(&j->program, &j->issuer));
    random_issues(j, 1 + draw(5));
}

static void end_job(job *j) {
    sl_issuer_close(j->issuer);
    sl_program_free(&j->program);
    sl_order_free(&j->order);
    sl_problem_free(&j->problem);
}

/* ---- all states ---- */

/* What has happened: a rank's steps and issues; an end is reached, and is done. */
typedef struct state {
    unsigned char step[RANKS], issue[RANKS];
    uint32_t reached, done;
} state;

static int rank_of(const job *j, int end) {
    const sl_message *m = &j->program.message[end / 2];
    return end % 2 ? m->to : m->from;
}

static int end_at(const job *j, int rank, int i) {
    return 2 * j->issue[rank][i].message + j->issue[rank][i].receive;
}

static int share(const job *j, int a, int b) {
    return sl_communicator(&j->problem, &j->program, &j->program.message[a / 2], a % 2) ==
           sl_communicator(&j->problem, &j->program, &j->program.message[b / 2], b % 2);
}

/* Event number `e` of rank `rank`: 0 is its next step, 1 its next issue, then for each end that it is
 * reached, and that it is done. Returns whether it can happen now, and *next, the state after it. */
static int happens(const job *j, const state *s, int rank, int e, state *next) {
    *next = *s;
    int step = s->step[rank], i = s->issue[rank], due = i < j->count[rank] && j->issue[rank][i].step <= step;
    if (e == 0) {
        const sl_rank_program *mine = &j->program.rank[rank];
        int receive = step < mine->steps ? mine->step[step].receive : -1;
        next->step[rank]++;
        return step < mine->steps && !due && (receive < 0 || s->done >> (2 * receive + 1) & 1);
    }
    if (e == 1) {
        next->issue[rank]++;
        return due;
    }
    int is_done = e - 2 >= 2 * j->program.messages, end = (e - 2) % (2 * j->program.messages), at = 0;
    if (rank_of(j, end) != rank)
        return 0;
    while (end_at(j, rank, at) != end)
        at++;
    if (is_done) {
        int other = s->reached >> (end ^ 1) & 1, needs = end % 2 || !j->eager;
        next->done |= UINT32_C(1) << end;
        return !(s->done >> end & 1) && (s->reached >> end & 1) && (!needs || other);
    }
    if (s->reached >> end & 1 || at >= i)
        return 0;
    next->reached |= UINT32_C(1) << end;
    for (int k = 0; k < at; k++)
        if (share(j, end_at(j, rank, k), end) && !(s->done >> end_at(j, rank, k) & 1))
            return 0;
    return 1;
}

static int is_over(const job *j, const state *s) {
    for (int rank = 0; rank < j->problem.ranks; rank++)
        if (s->step[rank] < j->program.rank[rank].steps)
            return 0;
    return 1;
}

static state *table[TABLE];
static state states[MAX_STATES];

/* Whether the state is new. */
static int note(const state *s, int *count) {
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < sizeof *s; i++)
        hash = (hash ^ ((const unsigned char *)s)[i]) * 1099511628211u;
    size_t at = (size_t)hash % TABLE;
    for (; table[at]; at = (at + 1) % TABLE)
        if (memcmp(table[at], s, sizeof *s) == 0)
            return 0;
    states[*count] = *s;
    table[at] = &states[(*count)++];
    return 1;
}

/* 1: in some state nothing can happen before the end; 0: in none; -1: too many states. */
static int can_stop(const job *j) {
    int count = 0, stops = 0;
    memset(table, 0, sizeof table);
    state first;
    memset(&first, 0, sizeof first);
    note(&first, &count);
    for (int at = 0; at < count && !stops; at++) {
        int moves = 0;
        for (int rank = 0; rank < j->problem.ranks; rank++)
            for (int e = 0; e < 2 + 4 * j->program.messages; e++) {
                state next;
                if (!happens(j, &states[at], rank, e, &next))
                    continue;
                moves++;
                if (count == MAX_STATES)
                    return -1;
                note(&next, &count);
            }
        stops |= moves == 0 && !is_over(j, &states[at]);
    }
    return stops;
}

/* Each event of the cycle waits for the next one: both ends are on one rank, or are ends of one message. */
static void check_cycle(const job *j, const sl_wait_cycle *c) {
    assert_true(c->length >= 2);
    for (int i = 0; i < c->length; i++) {
        const sl_wait *a = &c->wait[i], *b = &c->wait[(i + 1) % c->length];
        int message_a = a->kind == SL_WAIT_STEP ? -1 : j->issue[a->rank][a->at].message,
            message_b = b->kind == SL_WAIT_STEP ? -1 : j->issue[b->rank][b->at].message;
        assert_true(a->rank == b->rank || (message_a >= 0 && message_a == message_b));
    }
}

static int compare(int *stopping) {
    job j;
    sl_wait_cycle cycle;
    random_job(&j);
    int expected = can_stop(&j);
    assert_ok(sl_waits_check(&j.problem, &j.program, j.issuer, &cycle));
    if (expected >= 0)
        assert_int_equal(cycle.length > 0, expected);
    if (cycle.length > 0)
        check_cycle(&j, &cycle);
    sl_timeline t;
    sl_status status = sl_replay_issued(&j.problem, &j.program, j.issuer, &t); /* one run agrees, too */
    assert_int_equal(status, cycle.length > 0 ? SL_EINVAL : SL_OK);
    if (status == SL_OK)
        sl_timeline_free(&t);
    *stopping += cycle.length > 0;
    sl_wait_cycle_free(&cycle);
    end_job(&j);
    return expected >= 0;
}

static void the_proof_agrees_with_all_interleavings(void **unused) {
    (void)unused;
    start_drawing(172668u);
    const char *given = getenv("SL_ROUNDS");
    int rounds = given ? atoi(given) : 5000, explored = 0, stopping = 0;
    for (int i = 0; i < rounds; i++)
        explored += compare(&stopping);
    printf("%d of %d orders explored, %d stop\n", explored, rounds, stopping);
    assert_true(explored > rounds / 2 && stopping > rounds / 20 && stopping < rounds - rounds / 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_proof_agrees_with_all_interleavings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
