/* A proven bound for clusters too large to decide. Each host must be somewhere: whatever stage that is, its
 * cell is no faster than the host, and its hops and rings take one of the host's links. The best stage for
 * it, with the best of everything around, bounds the iteration; the worst host counts. Slow hosts also need
 * cells: k of them, T per cell, make ceil(k / T) slow cells, ceil of that / D slow stages in one replica. */
#include "adapt/topology/topology_inside.h"
#include "base/memory.h"
#include "base/numbers.h"

#include <stdlib.h>
#include <string.h>

#define REPLAYED 4000000 /* ops, 0.2 s */

typedef struct class_bound {
    int host; /* one of the class */
    sl_time least;
} class_bound;

static int worst_first(const void *a, const void *b) {
    const class_bound *x = a, *y = b;
    return x->least != y->least ? (x->least < y->least) - (x->least > y->least) : x->host - y->host;
}

/* The minimum over the stages that a host can be in. */
static sl_time min_of(sl_rank_map *s, int host) {
    sl_time least = SL_TIME_NEVER;
    for (int p = 0; p < s->cluster->pipeline; p++) {
        int position = sl_position(s->cluster, 0, 0, p);
        sl_rank_map_put(s, position, host);
        sl_time time = sl_rank_map_time(s, NULL, NULL);
        least = time < least ? time : least;
        sl_rank_map_put(s, position, SL_NO_HOST);
    }
    return least;
}

/* Bounds one host of each class, then replays the worst of them, as many as are quick. */
static sl_status bound_hosts(sl_rank_map *bounded, sl_rank_map *replayed, sl_time *bound) {
    const sl_cluster *c = bounded->cluster;
    const int *class_of = bounded->best->class_of;
    int classes = bounded->best->classes;
    class_bound *class;
    SL_TRY(sl_alloc(&class, (size_t)classes, sizeof *class));
    for (int host = 0, next = 0; host < c->hosts; host++)
        if (class_of[host] == next)
            class[next++] = (class_bound){.host = host, .least = min_of(bounded, host)};
    qsort(class, (size_t)classes, sizeof *class, worst_first);
    *bound = class[0].least > *bound ? class[0].least : *bound;
    long long each = 2 * c->pipeline * sl_frame_ops(bounded->frame), ops = REPLAYED;
    for (int k = 0; k < classes && (ops -= each) >= 0; k++) {
        sl_time least = min_of(replayed, class[k].host);
        *bound = least > *bound ? least : *bound;
    }
    sl_free(class);
    return SL_OK;
}

/* The least time of a replica with `slow` stages that have a host of this speed: its busiest stage does all
 * its ops after a forward through the previous stages, and even the lightest stages are slowed. */
static sl_time bound_slow(const sl_rank_map *s, const sl_stage_times *cell, double speed, int slow) {
    const sl_cluster *c = s->cluster;
    sl_time least = SL_TIME_NEVER;
    unsigned subsets = 1u << c->pipeline;
    sl_stage_times mine[12];
    sl_time end[12], scratch[4 * 13];
    for (unsigned chosen = 0; chosen < subsets; chosen++) {
        if (__builtin_popcount(chosen) != slow)
            continue;
        sl_time most = 0;
        for (int p = 0; p < c->pipeline; p++) {
            mine[p] = cell[p];
            for (int kind = 0; kind < SL_OP_KINDS && (chosen >> p & 1); kind++) {
                sl_time extra = (sl_time)((double)c->time[kind][p] * (1 / speed - 1 / s->best->speed));
                mine[p].time[kind] += extra > 0 ? extra - 1 : 0; /* both were rounded */
            }
        }
        sl_frame_bound(s->frame, mine, s->hop, scratch, end);
        for (int p = 0; p < c->pipeline; p++)
            most = end[p] + s->ring[p] > most ? end[p] + s->ring[p] : most;
        least = most < least ? most : least;
    }
    return least;
}

/* Pigeonhole bound; tries all subsets of up to 12 stages. */
static sl_status bound_speeds(const sl_rank_map *s, sl_time *bound) {
    const sl_cluster *c = s->cluster;
    double *speed;
    if (c->pipeline > 12)
        return SL_OK;
    SL_TRY(sl_alloc(&speed, (size_t)c->hosts, sizeof *speed));
    memcpy(speed, c->speed, (size_t)c->hosts * sizeof *speed);
    qsort(speed, (size_t)c->hosts, sizeof *speed, sl_ascending_numbers);
    int before = 1;
    for (int i = 0; i < c->hosts; i++) {
        if (i + 1 < c->hosts && speed[i + 1] == speed[i])
            continue;
        int cells = (i + c->tensor) / c->tensor, slow = (cells + c->data - 1) / c->data;
        if (slow > before && speed[i] < s->best->speed) {
            sl_time time = bound_slow(s, s->cell, speed[i], slow);
            *bound = time > *bound ? time : *bound;
            before = slow;
        }
    }
    sl_free(speed);
    return SL_OK;
}

sl_status sl_bound_of(const sl_cluster *c, const sl_best *best, sl_frame *frame, sl_time *bound) {
    sl_rank_map bounded, replayed = {0};
    sl_status status;
    *bound = 0;
    SL_TRY_GOTO(done, status, sl_rank_map_make(c, best, frame, NULL, 0, &bounded));
    SL_TRY_GOTO(done, status, sl_rank_map_make(c, best, frame, NULL, 1, &replayed));
    SL_TRY_GOTO(done, status, bound_speeds(&bounded, bound));
    SL_TRY_GOTO(done, status, bound_hosts(&bounded, &replayed, bound));
    int is_small = c->pipeline * sl_frame_ops(frame) < REPLAYED / 16; /* each cut replays each stage twice */
    status = sl_bound_cuts(is_small ? &replayed : &bounded, bound);
done:
    sl_rank_map_free(&bounded);
    sl_rank_map_free(&replayed);
    return status;
}
