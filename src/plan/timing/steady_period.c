#include "plan/timing/steady_period.h"
#include "base/memory.h"
#include "plan/timing/replay.h"

/* ---- the largest mean of a cycle ---- */

typedef struct cycle_search {
    const sl_time *weight;
    int count;
    sl_time mean;    /* of the heaviest cycle so far */
    sl_time *height; /* [count] no edge climbs more than `mean` above it, once there is no heavier cycle */
    int *from;       /* [count] the edge that last raised it; -1: none since `mean` has grown */
    int *seen;       /* [count] */
} cycle_search;

/* Raises heights along edges that climb more than the mean; returns whether there were any. */
static int raise(cycle_search *s) {
    int raised = 0;
    for (int to = 0; to < s->count; to++)
        for (int from = 0; from < s->count; from++) {
            sl_time weight = s->weight[(size_t)to * (size_t)s->count + (size_t)from];
            if (weight == SL_NO_EDGE || s->height[from] + weight - s->mean <= s->height[to])
                continue;
            s->height[to] = s->height[from] + weight - s->mean;
            s->from[to] = from;
            raised = 1;
        }
    return raised;
}

/* The mean of the cycle through `at`, rounded up. */
static sl_time mean_of(const cycle_search *s, int at) {
    sl_time sum = 0;
    int length = 0, to = at;
    do {
        sum += s->weight[(size_t)to * (size_t)s->count + (size_t)s->from[to]];
        to = s->from[to];
        length++;
    } while (to != at);
    return sum / length + (sum % length > 0);
}

/* A cycle of edges that last raised heights is heavier than the mean, which becomes its. */
static void find_heavier(cycle_search *s) {
    sl_time heavier = s->mean;
    for (int i = 0; i < s->count; i++)
        s->seen[i] = -1;
    for (int i = 0; i < s->count; i++) {
        int at = i;
        for (; at >= 0 && s->seen[at] < 0; at = s->from[at])
            s->seen[at] = i;
        if (at >= 0 && s->seen[at] == i)
            heavier = sl_later(heavier, mean_of(s, at));
    }
    for (int i = 0; i < s->count && heavier > s->mean; i++)
        s->from[i] = -1;
    s->mean = heavier;
}

sl_status sl_cycle_mean(const sl_time *weight, int count, sl_time *mean) {
    cycle_search s = {.weight = weight, .count = count};
    sl_status status;
    SL_TRY_GOTO(done, status, sl_alloc(&s.height, (size_t)count, sizeof *s.height));
    SL_TRY_GOTO(done, status, sl_alloc(&s.from, (size_t)count, sizeof *s.from));
    SL_TRY_GOTO(done, status, sl_alloc(&s.seen, (size_t)count, sizeof *s.seen));
    for (int i = 0; i < count; i++) {
        s.mean = sl_later(s.mean, weight[(size_t)i * (size_t)count + (size_t)i]);
        s.from[i] = -1;
    }
    while (raise(&s))
        find_heavier(&s);
    *mean = s.mean;
done:
    SL_FREE(s.height, s.from, s.seen);
    return status;
}

/* ---- the matrix of an iteration ---- */

#define FAR                                                                                                  \
    (-(INT64_MAX / 2)) /* an instant so early that nothing waits for it; no iteration takes as long          \
                        */

typedef struct iteration_matrix {
    sl_replayer *replayer;
    int count, *at;          /* the instants that matter */
    sl_time *begin, *weight; /* [instants]; [count * count] */
} iteration_matrix;

static sl_status fill(iteration_matrix *m) {
    int instants = sl_replayer_instants(m->replayer);
    for (int from = 0; from < m->count; from++) {
        for (int i = 0; i < instants; i++)
            m->begin[i] = i == m->at[from] ? 0 : FAR;
        if (!sl_replayer_repeat(m->replayer, m->begin, m->begin, NULL))
            return sl_error(SL_EINVAL, "deadlock: the ranks wait for each other's messages");
        for (int to = 0; to < m->count; to++) {
            sl_time end = m->begin[m->at[to]];
            if (end > INT64_MAX / 4 / m->count)
                return sl_error(SL_EINVAL, "the iteration is too long for a period");
            m->weight[(size_t)to * (size_t)m->count + (size_t)from] = end < 0 ? SL_NO_EDGE : end;
        }
    }
    return SL_OK;
}

static sl_status open(const sl_problem *problem, const sl_program *program, iteration_matrix *m) {
    SL_TRY(sl_replayer_open(problem, program, &m->replayer));
    int instants = sl_replayer_instants(m->replayer);
    SL_TRY(sl_alloc(&m->at, (size_t)instants, sizeof *m->at));
    SL_TRY(sl_alloc(&m->begin, (size_t)instants, sizeof *m->begin));
    for (int i = 0; i < instants; i++)
        if (sl_replayer_waits_for(m->replayer, i))
            m->at[m->count++] = i;
    return sl_alloc(&m->weight, (size_t)m->count * (size_t)m->count, sizeof *m->weight);
}

static sl_status repeat(const sl_problem *problem, const sl_program *program, sl_time *period) {
    iteration_matrix m = {0};
    sl_status status = open(problem, program, &m);
    SL_THEN(status, fill(&m));
    SL_THEN(status, sl_cycle_mean(m.weight, m.count, period));
    sl_replayer_close(m.replayer);
    SL_FREE(m.at, m.begin, m.weight);
    return status;
}

/* ---- the period ---- */

static sl_status end_of_all(const sl_problem *problem, const sl_program *program, sl_time *end) {
    sl_timeline t;
    SL_TRY(sl_replay(problem, program, problem->communication, problem->queue, &t));
    *end = sl_timeline_end(&t);
    sl_timeline_free(&t);
    return SL_OK;
}

sl_status sl_period(const sl_problem *problem, const sl_program *program, sl_time *period) {
    if (problem->synchronization == SL_SYNC_NORM)
        return end_of_all(problem, program, period);
    if (problem->communication == SL_FIFO || problem->wire)
        return sl_error(SL_EINVAL, "no period is known for regime fifo or links that share a wire");
    return repeat(problem, program, period);
}
