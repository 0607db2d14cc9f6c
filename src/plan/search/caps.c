#include "plan/search/caps.h"
#include "base/memory.h"
#include "plan/search/order_value.h"
#include "plan/search/portfolio.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 12, SLOPES = 8, STEP = 2 };

typedef struct cap_search {
    sl_starts *starts;
    const sl_limit *until;
    int64_t *work;
    int levels, most, room; /* stages of a rank; microbatches; activations that fit into a rank's memory */
    int *cap, *best;        /* [levels] */
    sl_time value;          /* with the best caps */
} cap_search;

static int is_over(const cap_search *c) {
    return *c->work <= 0 || sl_limit_is_over(c->until) || sl_starts_proven(c->starts);
}

static sl_status try_patience(cap_search *c, int patience) {
    const sl_problem *p = c->starts->problem;
    sl_order order;
    sl_time value;
    *c->work -= SL_PORTFOLIO_WORK * 3LL * p->stages * p->microbatches * p->parts;
    sl_status status = sl_portfolio_capped(&c->starts->relaxation, c->cap, patience, &order);
    if (status != SL_OK)
        return status == SL_ENOMEM ? status : SL_OK;
    status = sl_measure(p, &order, &value, NULL);
    if (status == SL_OK && value < c->value) {
        c->value = value;
        memcpy(c->best, c->cap, (size_t)c->levels * sizeof *c->best);
        return sl_starts_add(c->starts, &order, NULL);
    }
    sl_order_free(&order);
    return status == SL_ENOMEM ? status : SL_OK;
}

/* The present caps. */
static sl_status try_caps(cap_search *c) {
    for (int level = 0; level < c->levels; level++)
        c->cap[level] = c->cap[level] < 1 ? 1 : c->cap[level] > c->most ? c->most : c->cap[level];
    if (!is_over(c))
        SL_TRY(try_patience(c, 4));
    return is_over(c) ? SL_OK : try_patience(c, 0);
}

/* The same cap for all: the microbatches pass in equal rounds. */
static sl_status try_rounds(cap_search *c) {
    for (int rounds = 1; rounds <= ROUNDS && rounds <= c->most; rounds++) {
        for (int level = 0; level < c->levels; level++)
            c->cap[level] = (c->most + rounds - 1) / rounds;
        if (c->cap[0] <= c->room)
            SL_TRY(try_caps(c));
    }
    return SL_OK;
}

/* Caps that ascend towards the first stages, which have what the others leave. */
static sl_status try_shares(cap_search *c) {
    int last = c->levels - 1;
    for (int rounds = 1; rounds <= ROUNDS && rounds <= c->most; rounds++)
        for (int slope = 0; slope < SLOPES; slope++) {
            int left = c->room;
            for (int level = last; level > 0; level--) {
                c->cap[level] = (c->most + rounds - 1) / rounds + slope * (last - level);
                left -= c->cap[level];
            }
            c->cap[0] = left;
            if (left >= c->cap[1])
                SL_TRY(try_caps(c));
        }
    return SL_OK;
}

/* One cap more or less, or one level's share to another, as long as that helps. */
static sl_status climb(cap_search *c) {
    sl_time before = SL_TIME_NEVER;
    while (c->value < before && !is_over(c)) {
        before = c->value;
        for (int from = -1; from < c->levels; from++)
            for (int to = -1; to < c->levels; to++)
                for (int by = 1; by <= STEP && from != to; by++) {
                    memcpy(c->cap, c->best, (size_t)c->levels * sizeof *c->cap);
                    if (from >= 0)
                        c->cap[from] -= by;
                    if (to >= 0)
                        c->cap[to] += by;
                    SL_TRY(try_caps(c));
                }
    }
    return SL_OK;
}

/* Activations of the largest stage that fit into the memory of every rank. */
static int find_room(const sl_problem *p) {
    double room = (double)p->microbatches * p->stages;
    for (int s = 0; s < p->stages; s++)
        if (p->delta[SL_F][s] > 0)
            room =
                fmin(room, floor(sl_problem_room(p, sl_problem_rank(p, s)) / p->delta[SL_F][s] * (1 + 1e-9)));
    return (int)room;
}

sl_status sl_caps_search(sl_starts *starts, const sl_limit *until, int64_t *work) {
    const sl_problem *p = starts->problem;
    cap_search c = {.starts = starts,
                    .until = until,
                    .work = work,
                    .levels = p->stages / p->ranks,
                    .most = p->microbatches,
                    .value = SL_TIME_NEVER};
    if (!p->limit || c.levels < 2 || p->placement == SL_BIDIRECTIONAL || is_over(&c))
        return SL_OK;
    c.room = find_room(p);
    SL_TRY(sl_alloc(&c.cap, 2 * (size_t)c.levels, sizeof *c.cap));
    c.best = c.cap + c.levels;
    sl_status status = try_rounds(&c);
    SL_THEN(status, try_shares(&c));
    if (c.value < SL_TIME_NEVER)
        SL_THEN(status, climb(&c));
    sl_free(c.cap);
    return status;
}
