#include "plan/timing/order_check.h"
#include "base/memory.h"
#include "plan/timing/critical.h"
#include "plan/timing/replay.h"

#include <float.h>
#include <stdlib.h>

/* Times of one regime. */
typedef struct checking {
    const sl_problem *problem;
    const sl_written *written;
    sl_timeline timeline;
    int32_t *first_span; /* [ranks] */
    int32_t *at;         /* [2 * messages] position of each end among its rank's issues */
    sl_blocker *blocker; /* [2 * messages] by end */
} checking;

static sl_time issued(const checking *c, int rank, int32_t issue) {
    int count;
    int32_t step = sl_issues_of(c->written->issuer, rank, &count)[issue].step;
    return step > 0 ? c->timeline.span[c->first_span[rank] + step - 1].end : 0;
}

static int rank_of(const checking *c, int32_t end) {
    const sl_message *m = &c->written->program.message[end / 2];
    return end % 2 ? m->to : m->from;
}

/* The end of `blocker` that comes before an end of `message` in one communicator; -1: none, they shared a
 * wire. */
static int32_t end_in_front(const checking *c, int32_t blocker, int32_t message) {
    const sl_program *program = &c->written->program;
    for (int32_t b = 2 * blocker; b < 2 * blocker + 2; b++)
        for (int32_t m = 2 * message; m < 2 * message + 2; m++)
            if (rank_of(c, b) == rank_of(c, m) && c->at[b] < c->at[m] &&
                sl_communicator(c->problem, program, &program->message[blocker], b % 2) ==
                    sl_communicator(c->problem, program, &program->message[message], m % 2))
                return b;
    return -1;
}

static void add_blocker(checking *c, int32_t message) {
    int32_t cause = c->timeline.cause[2 * message];
    if (cause >= 0 || cause == SL_NO_CAUSE)
        return;
    sl_time ready = 0;
    for (int32_t end = 2 * message; end < 2 * message + 2; end++) {
        sl_time time = issued(c, rank_of(c, end), c->at[end]);
        ready = time > ready ? time : ready;
    }
    int32_t front = end_in_front(c, -1 - cause, message);
    if (front >= 0)
        c->blocker[front].time += c->timeline.transfer[message].start - ready;
}

static int longer_first(const void *a, const void *b) {
    const sl_blocker *x = a, *y = b;
    if (x->time != y->time)
        return x->time > y->time ? -1 : 1;
    return x->rank != y->rank ? (x->rank < y->rank ? -1 : 1) : x->issue < y->issue ? -1 : 1;
}

static sl_status find_blockers(checking *c, sl_checked_regime *r) {
    const sl_program *program = &c->written->program;
    size_t ends = 2 * (size_t)program->messages;
    SL_TRY(sl_alloc(&c->first_span, (size_t)program->ranks, sizeof *c->first_span));
    SL_TRY(sl_alloc(&c->at, ends, sizeof *c->at));
    SL_TRY(sl_alloc(&c->blocker, ends, sizeof *c->blocker));
    for (int rank = 0; rank < program->ranks; rank++) {
        int count;
        const sl_message_issue *issue = sl_issues_of(c->written->issuer, rank, &count);
        if (rank > 0)
            c->first_span[rank] = c->first_span[rank - 1] + program->rank[rank - 1].steps;
        for (int i = 0; i < count; i++) {
            int32_t end = 2 * issue[i].message + issue[i].receive;
            c->at[end] = i;
            c->blocker[end] = (sl_blocker){.rank = rank, .issue = i};
        }
    }
    for (int32_t m = 0; m < program->messages; m++)
        add_blocker(c, m);
    qsort(c->blocker, ends, sizeof *c->blocker, longer_first);
    while (r->blockers < SL_BLOCKERS && r->blockers < (int)ends && c->blocker[r->blockers].time > 0) {
        r->blocker[r->blockers] = c->blocker[r->blockers];
        r->blockers++;
    }
    return SL_OK;
}

static sl_status time_it(const sl_written *w, const sl_problem *problem, sl_checked_regime *r) {
    checking c = {.problem = problem, .written = w};
    sl_status status;
    SL_TRY_GOTO(done, status, sl_replay_issued(problem, &w->program, w->issuer, &c.timeline));
    r->makespan = sl_timeline_makespan(&c.timeline);
    if (r->regime == SL_FIFO)
        status = find_blockers(&c, r);
done:
    SL_FREE(c.first_span, c.at, c.blocker);
    sl_timeline_free(&c.timeline);
    return status;
}

static sl_status check_one(const sl_written *w, int timed, sl_checked_regime *r) {
    sl_problem problem = *w->problem;
    const int decoupled = r->regime == SL_DECOUPLED;
    problem.communicators = r->communicators;
    problem.eager = decoupled ? DBL_MAX : 0;
    SL_TRY(sl_waits_check(&problem, &w->program, w->issuer, &r->cycle));
    return timed && r->cycle.length == 0 ? time_it(w, &problem, r) : SL_OK;
}

/* Eager messages of a directed pair wait for each other only as on the link: decoupled. */
sl_status sl_order_check_regimes(const sl_written *w, int timed, sl_checked_regime *checked) {
    for (int i = 0; i < SL_CHECKED_REGIMES; i++)
        checked[i] =
            (sl_checked_regime){.regime = i == 0 ? SL_DECOUPLED : SL_FIFO,
                                .communicators = i == 0 ? SL_OF_DIRECTION : (sl_communicators)(i - 1),
                                .makespan = SL_TIME_NEVER};
    for (int i = 0; i < SL_CHECKED_REGIMES; i++)
        SL_TRY(check_one(w, timed, &checked[i]));
    return SL_OK;
}

void sl_checked_regime_free(sl_checked_regime *checked) {
    sl_wait_cycle_free(&checked->cycle);
}
