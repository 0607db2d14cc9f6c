/* The search for an arrangement: local searches from several starts, then branch and bound if feasible. */
#include "adapt/topology/topology_inside.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

typedef struct topology_search {
    const sl_cluster *cluster;
    sl_best best;
    sl_frame frame;
    sl_rank_map bounded, replayed; /* by the bound; by the replay */
    int *host, *trial;             /* [hosts] the best so far; another */
    sl_time time, spread;          /* of the best, by the replay */
    uint64_t seed;
    double effort;
} topology_search;

static sl_status check(const sl_cluster *c, const int *host) {
    unsigned char *seen;
    sl_status status = SL_OK;
    SL_TRY(sl_alloc(&seen, (size_t)c->hosts, 1));
    for (int i = 0; i < c->hosts && status == SL_OK; i++)
        if (host[i] < 0 || host[i] >= c->hosts || seen[host[i]]++)
            status = sl_error(SL_EINVAL, "an arrangement has each of the %d hosts once", c->hosts);
    sl_free(seen);
    return status;
}

sl_status sl_topology_time(const sl_cluster *c, const int *host, sl_time *time) {
    sl_best best = {0};
    sl_frame frame = {0};
    sl_rank_map rank_map = {0};
    sl_status status;
    SL_TRY(check(c, host));
    SL_TRY_GOTO(done, status, sl_best_make(c, &best));
    SL_TRY_GOTO(done, status, sl_frame_make(c, &frame));
    SL_TRY_GOTO(done, status, sl_rank_map_make(c, &best, &frame, host, 1, &rank_map));
    *time = sl_rank_map_time(&rank_map, NULL, NULL);
done:
    sl_rank_map_free(&rank_map);
    sl_frame_free(&frame);
    sl_best_free(&best);
    return status;
}

/* Keeps an arrangement if it is shorter by the replay. */
static void consider(topology_search *t, const int *host) {
    sl_rank_map_set(&t->replayed, host);
    sl_time time = sl_rank_map_time(&t->replayed, NULL, NULL), spread = sl_rank_map_spread(&t->replayed);
    if (sl_shorter(time, spread, t->time, t->spread)) {
        t->time = time;
        t->spread = spread;
        memmove(t->host, host, (size_t)t->cluster->hosts * sizeof *host);
    }
}

/* Tries of a search by the bound: about 0.6 s for 1,024 hosts in total, on a processor of 2020. */
static long long tries(const topology_search *t) {
    const sl_cluster *c = t->cluster;
    double each = 200 + 120.0 * c->pipeline + 20.0 * c->data * c->tensor + 2.0 * c->data * c->pipeline;
    double most = 2000.0 * c->hosts, fit = 5e8 / (2 * each);
    return (long long)(t->effort * (fit < most ? fit : most));
}

/* Local searches by the bound from three starts, then one by the replay from the best. */
static sl_status search_local(topology_search *t) {
    const sl_cluster *c = t->cluster;
    long long all = tries(t);
    for (int start = 0; start < 3; start++) {
        if (start > 0)
            SL_TRY(sl_topology_grow(c, start == 2, t->trial));
        sl_rank_map_set(&t->bounded, start > 0 ? t->trial : c->present);
        SL_TRY(sl_topology_local(&t->bounded, t->seed + (uint64_t)start, start == 0 ? all / 2 : all / 4));
        consider(t, t->bounded.host);
    }
    double replay = 2 * 2 * 40.0 * (double)sl_frame_ops(&t->frame); /* two replicas, there and back */
    double fit = t->effort * 1.5e8 / replay, most = t->effort * 1000.0 * c->hosts;
    sl_rank_map_set(&t->replayed, t->host);
    SL_TRY(sl_topology_local(&t->replayed, t->seed + 3, (long long)(fit < most ? fit : most)));
    memcpy(t->trial, t->replayed.host, (size_t)c->hosts * sizeof *t->trial);
    consider(t, t->trial);
    return SL_OK;
}

/* Logarithm of the number of arrangements that differ in more than hosts of one class. */
static sl_status count(const sl_cluster *c, const sl_best *best, double *logarithm) {
    int *of;
    SL_TRY(sl_alloc(&of, (size_t)best->classes, sizeof *of));
    *logarithm = lgamma(c->hosts + 1.0) - log((double)c->tensor * c->data);
    for (int k = 0; k < c->hosts; k++)
        of[best->class_of[k]]++;
    for (int k = 0; k < best->classes; k++)
        *logarithm -= lgamma(of[k] + 1.0);
    sl_free(of);
    return SL_OK;
}

/* Moves the present host of a position back to it by an exchange, alone (width 1) or with its whole cell,
 * unless that makes anything worse. Returns whether anything moved. */
static int bring_back(sl_rank_map *s, int position, int width, sl_time time, sl_time spread) {
    const sl_cluster *c = s->cluster;
    int home = position, host = c->present[position];
    while (s->host[home] != host)
        home = home + 1 == c->hosts ? 0 : home + 1;
    if (home == position || home % width != position % width)
        return 0;
    sl_rank_map_swap(s, position, home, width);
    if (!sl_shorter(time, spread, sl_rank_map_time(s, NULL, NULL), sl_rank_map_spread(s)))
        return 1;
    sl_rank_map_swap(s, position, home, width);
    return 0;
}

/* Moves hosts back if they need not have moved, cells first, unless anything gets worse. */
static void move_less(topology_search *t) {
    const sl_cluster *c = t->cluster;
    sl_rank_map *s = &t->bounded;
    sl_rank_map_set(s, t->host);
    sl_time time = sl_rank_map_time(s, NULL, NULL), spread = sl_rank_map_spread(s);
    for (int again = 1, round = 0; again && round < 4; round++) {
        again = 0;
        for (int position = 0; position < c->hosts && c->tensor > 1; position += c->tensor)
            again |= bring_back(s, position, c->tensor, time, spread);
        for (int position = 0; position < c->hosts; position++)
            again |= bring_back(s, position, 1, time, spread);
    }
    sl_rank_map_set(&t->replayed, s->host);
    if (!sl_shorter(t->time, t->spread, sl_rank_map_time(&t->replayed, NULL, NULL),
                    sl_rank_map_spread(&t->replayed)))
        memcpy(t->host, s->host, (size_t)c->hosts * sizeof *t->host);
}

static void count_moves(const sl_cluster *c, sl_topology *r) {
    for (int host = 0; host < c->hosts; host++) {
        int from = 0, to = 0;
        while (c->present[from] != host)
            from++;
        while (r->host[to] != host)
            to++;
        r->moved += from != to;
        r->weights_moved += sl_position_stage(c, from) != sl_position_stage(c, to) ||
                            sl_position_tensor(c, from) != sl_position_tensor(c, to);
    }
}

static sl_status search(topology_search *t, sl_topology *r) {
    const sl_cluster *c = t->cluster;
    double logarithm;
    memcpy(t->host, c->present, (size_t)c->hosts * sizeof *t->host);
    t->time = r->present = sl_rank_map_time(&t->replayed, NULL, NULL);
    t->spread = sl_rank_map_spread(&t->replayed);
    SL_TRY(sl_bound_of(c, &t->best, &t->frame, &r->bound));
    SL_TRY(count(c, &t->best, &logarithm));
    if (r->present > r->bound)
        SL_TRY(search_local(t));
    if (t->time > r->bound && logarithm < log(1e12))
        SL_TRY(sl_topology_exact(c, &t->best, &t->frame, r->bound, (long long)(t->effort * 1e9), t->host,
                                 &t->time, &t->spread, &r->exact, &r->looked_at));
    if (r->exact)
        r->bound = t->time;
    r->proven = t->time <= r->bound;
    if (t->time < r->present) {
        SL_TRY(sl_topology_settle(c, &t->best, t->host));
        move_less(t);
    } else {
        memcpy(t->host, c->present, (size_t)c->hosts * sizeof *t->host);
    }
    r->time = t->time;
    r->looked_at += t->bounded.computed + t->replayed.computed;
    return SL_OK;
}

sl_status sl_topology_search(const sl_cluster *c, const sl_topology_options *options, sl_topology *r) {
    topology_search t = {.cluster = c, .seed = options->seed, .effort = options->effort};
    sl_status status;
    *r = (sl_topology){0};
    SL_TRY(check(c, c->present));
    SL_TRY_GOTO(done, status, sl_best_make(c, &t.best));
    SL_TRY_GOTO(done, status, sl_frame_make(c, &t.frame));
    SL_TRY_GOTO(done, status, sl_rank_map_make(c, &t.best, &t.frame, c->present, 0, &t.bounded));
    SL_TRY_GOTO(done, status, sl_rank_map_make(c, &t.best, &t.frame, c->present, 1, &t.replayed));
    SL_TRY_GOTO(done, status, sl_alloc(&r->host, (size_t)c->hosts, sizeof *r->host));
    SL_TRY_GOTO(done, status, sl_alloc(&t.trial, (size_t)c->hosts, sizeof *t.trial));
    t.host = r->host;
    SL_TRY_GOTO(done, status, search(&t, r));
    count_moves(c, r);
done:
    sl_free(t.trial);
    sl_rank_map_free(&t.bounded);
    sl_rank_map_free(&t.replayed);
    sl_frame_free(&t.frame);
    sl_best_free(&t.best);
    return status;
}

void sl_topology_free(sl_topology *result) {
    sl_free(result->host);
    *result = (sl_topology){0};
}
