/* Families with offloaded activations (plan/lower/offload.h). A family has only one limit, so it is called
 * several times: with the device's own limit, without any, and with the limit raised by some of the host's
 * activations. Each result is lowered and replayed with its moves, and the shortest within the real limit is
 * used; among equals the one with the fewest moves. So host memory is used only if it saves time, including
 * its cost. */
#include "base/memory.h"
#include "plan/family/family.h"
#include "plan/lower/program.h"
#include "plan/timing/objective.h"
#include "plan/timing/replay.h"

#define MAX_OPS 20000 /* for more, only the two extremes are tried */

typedef struct host_choice {
    const sl_family *family;
    const sl_problem *problem;
    sl_order best;
    sl_time value; /* SL_TIME_NEVER: it exceeds the limit */
    int moves;
    int found;
} host_choice;

static int keeps_limit(const sl_problem *p, const double *peak) {
    for (int rank = 0; rank < p->ranks; rank++)
        if (peak[rank] > p->limit[rank] * (1 + 1e-9))
            return 0;
    return 1;
}

static sl_status time_order(const sl_problem *p, const sl_program *program, sl_time *value) {
    sl_timeline timeline;
    double *peak;
    SL_TRY(sl_replay(p, program, p->communication, p->queue, &timeline));
    sl_status status = sl_alloc(&peak, (size_t)p->ranks, sizeof *peak);
    SL_THEN(status, sl_peak_memory(p, &timeline, peak));
    *value = SL_TIME_NEVER;
    if (status == SL_OK && keeps_limit(p, peak))
        status = sl_objective_value(p, program, &timeline, value);
    sl_free(peak);
    sl_timeline_free(&timeline);
    return status;
}

/* Takes ownership of `order`: it becomes the best, or is freed. */
static sl_status offer(host_choice *c, sl_order *order) {
    sl_program program;
    sl_time value = SL_TIME_NEVER;
    int moves = 0;
    sl_status status = sl_lower(c->problem, order, &program);
    if (status == SL_OK) {
        status = time_order(c->problem, &program, &value);
        for (int rank = 0; rank < program.ranks; rank++)
            moves += program.rank[rank].moves;
        sl_program_free(&program);
    }
    int better = !c->found || value < c->value || (value == c->value && moves < c->moves);
    if (status != SL_OK || !better) {
        sl_order_free(order);
        return status;
    }
    sl_order_free(&c->best);
    c->best = *order;
    c->value = value;
    c->moves = moves;
    c->found = 1;
    return SL_OK;
}

/* With the limit raised by `held` activations; -1: without a limit. */
static sl_status try_limit(host_choice *c, int held) {
    const sl_problem *p = c->problem;
    sl_problem raised = *p;
    sl_order order = {0};
    raised.host_limit = NULL;
    raised.limit = NULL;
    if (held >= 0)
        SL_TRY(sl_alloc(&raised.limit, (size_t)p->ranks, sizeof *raised.limit));
    for (int rank = 0; rank < p->ranks && held >= 0; rank++) {
        int more = held < p->host_limit[rank] ? held : p->host_limit[rank];
        double each = more > 0 ? (sl_problem_room(p, rank) - p->limit[rank]) / p->host_limit[rank] : 0;
        raised.limit[rank] = p->limit[rank] + more * each;
    }
    sl_status status = c->family->build(&raised, &order);
    if (status == SL_OK && !c->family->parts)
        status = sl_order_split(&raised, &order);
    if (held >= 0)
        sl_free(raised.limit);
    if (status == SL_OK)
        return offer(c, &order);
    sl_order_free(&order);
    return status == SL_ENONE ? SL_OK : status;
}

/* From all activations that fit into host memory down to one. */
static sl_status try_limits(host_choice *c) {
    const sl_problem *p = c->problem;
    int most = 0, all = 0;
    for (int rank = 0; rank < p->ranks; rank++)
        most = p->host_limit[rank] > most ? p->host_limit[rank] : most;
    all = p->microbatches * (p->stages / p->ranks);
    most = most < all ? most : all;
    SL_TRY(try_limit(c, 0));
    SL_TRY(try_limit(c, -1));
    SL_TRY(try_limit(c, most));
    if (c->family->placements & SL_LABORIOUS || 3 * p->stages * p->microbatches * p->parts > MAX_OPS)
        return SL_OK;
    for (int held = most - 1; held > 0; held -= held > 8 ? held / 4 : 1)
        SL_TRY(try_limit(c, held));
    return SL_OK;
}

sl_status sl_family_hosted(const sl_family *family, const sl_problem *problem, sl_order *order) {
    host_choice c = {.family = family, .problem = problem, .value = SL_TIME_NEVER};
    sl_status status = try_limits(&c);
    if (status == SL_OK && !c.found)
        status = sl_error(SL_ENONE, "%s: no schedule fits into the memory limit, host memory included",
                          family->name);
    if (status != SL_OK) {
        sl_order_free(&c.best);
        return status;
    }
    *order = c.best;
    return SL_OK;
}
