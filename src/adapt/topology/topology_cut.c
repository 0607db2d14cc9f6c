/* Bounds from parts of a cluster that only slow links connect. For each kind of link the cluster falls into
 * parts if links as slow or slower are cut. A ring of D replicas is within one part or crosses between two;
 * if the parts have no room for all rings, some cross, of whichever stages. The same holds for the T hosts of
 * a cell; and in any case something crosses: a ring, a cell or a hop. The cheapest one is the bound. */
#include "adapt/topology/topology_inside.h"
#include "base/memory.h"
#include "base/numbers.h"

#include <stdlib.h>
#include <string.h>

#define MAX_KINDS 24 /* kinds of links that are tried */

typedef struct cut {
    sl_rank_map *s;
    double latency, pace; /* least cost of a crossing */
    int *part;            /* [hosts] */
    int *stack, *size;    /* [hosts] */
    int parts;
} cut;

static int crosses(const cut *k, size_t from, size_t to) {
    const sl_cluster *c = k->s->cluster;
    size_t n = (size_t)c->hosts, there = from * n + to, back = to * n + from;
    return c->latency[there] >= k->latency && c->pace[there] >= k->pace && c->latency[back] >= k->latency &&
           c->pace[back] >= k->pace;
}

static void divide(cut *k) {
    int hosts = k->s->cluster->hosts;
    k->parts = 0;
    for (int i = 0; i < hosts; i++)
        k->part[i] = -1;
    for (int first = 0; first < hosts; first++) {
        if (k->part[first] >= 0)
            continue;
        int waiting = 0;
        k->stack[waiting++] = first;
        k->part[first] = k->parts;
        k->size[k->parts] = 0;
        while (waiting > 0) {
            int host = k->stack[--waiting];
            k->size[k->parts]++;
            for (int other = 0; other < hosts; other++)
                if (k->part[other] < 0 && !crosses(k, (size_t)host, (size_t)other)) {
                    k->part[other] = k->parts;
                    k->stack[waiting++] = other;
                }
        }
        k->parts++;
    }
}

/* Groups of `width` hosts that fit within parts. */
static int room(const cut *k, int width) {
    int groups = 0;
    for (int i = 0; i < k->parts; i++)
        groups += k->size[i] / width;
    return groups;
}

static sl_time with_ring(const cut *k, int stage) {
    sl_rank_map *s = k->s;
    const sl_cluster *c = s->cluster;
    sl_time before = s->ring[stage];
    s->ring[stage] = (sl_time)(sl_sum_steps(c) * (k->latency + c->gradient[stage] / c->data * k->pace));
    s->ring[stage] = s->ring[stage] > before ? s->ring[stage] : before;
    sl_time time = sl_rank_map_time(s, NULL, NULL);
    s->ring[stage] = before;
    return time;
}

/* If this many stages have crossing rings: best those that end first. */
static sl_time with_rings(const cut *k, int stages) {
    sl_time time[SL_MAX_RANKS];
    int all = k->s->cluster->pipeline;
    for (int p = 0; p < all; p++)
        time[p] = with_ring(k, p);
    qsort(time, (size_t)all, sizeof *time, sl_ascending_times);
    return time[stages - 1];
}

/* With the first replica as now in `s`; then restores it. */
static sl_time changed(sl_rank_map *s) {
    size_t bytes = (size_t)s->cluster->pipeline * sizeof *s->end;
    sl_time *before = s->scratch + 3 * (s->cluster->pipeline + 1);
    memcpy(before, s->end, bytes);
    if (s->replay)
        sl_frame_replay(s->frame, s->cell, s->hop, s->end);
    else
        sl_frame_bound(s->frame, s->cell, s->hop, s->scratch, s->end);
    sl_time time = sl_rank_map_time(s, NULL, NULL);
    memcpy(s->end, before, bytes);
    return time;
}

static sl_time with_cell(const cut *k, int stage) {
    sl_rank_map *s = k->s;
    const sl_cluster *c = s->cluster;
    sl_stage_times before = s->cell[stage];
    double sum = 2.0 * (c->tensor - 1) * (k->latency + c->sum / c->tensor * k->pace);
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        double sums = kind == SL_F ? c->sums[0][stage] : kind == SL_W ? 0 : c->sums[1][stage];
        sl_time time = (sl_time)((double)c->time[kind][stage] / s->best->speed + sums * sum);
        s->cell[stage].time[kind] = time > before.time[kind] ? time : before.time[kind];
    }
    sl_time time = changed(s);
    s->cell[stage] = before;
    return time;
}

static sl_time with_hop(const cut *k, int stage) {
    sl_rank_map *s = k->s;
    sl_hop before = s->hop[stage];
    for (int back = 0; back < 2; back++) {
        sl_time latency = (sl_time)k->latency, transfer = (sl_time)(k->pace * s->cluster->activation);
        s->hop[stage].latency[back] = latency > before.latency[back] ? latency : before.latency[back];
        s->hop[stage].transfer[back] = transfer > before.transfer[back] ? transfer : before.transfer[back];
    }
    sl_time time = changed(s);
    s->hop[stage] = before;
    return time;
}

/* The minimum over the stages. */
static sl_time least(const cut *k, sl_time (*with)(const cut *, int), int stages) {
    sl_time time = SL_TIME_NEVER;
    for (int p = 0; p < stages; p++) {
        sl_time one = with(k, p);
        time = one < time ? one : time;
    }
    return time;
}

static void raise(sl_time *bound, sl_time to) {
    if (to != SL_TIME_NEVER && to > *bound)
        *bound = to;
}

static void bound_cut(cut *k, sl_time *bound) {
    const sl_cluster *c = k->s->cluster;
    divide(k);
    if (k->parts == 1)
        return;
    sl_time ring = c->data > 1 ? least(k, with_ring, c->pipeline) : SL_TIME_NEVER;
    sl_time cell = c->tensor > 1 ? least(k, with_cell, c->pipeline) : SL_TIME_NEVER;
    sl_time hop = c->pipeline > 1 ? least(k, with_hop, c->pipeline - 1) : SL_TIME_NEVER;
    raise(bound, sl_sooner(ring, sl_sooner(cell, hop)));
    int whole = room(k, c->data) / c->tensor; /* at most this many stages without crossing rings */
    if (c->data > 1 && whole < c->pipeline)
        raise(bound, with_rings(k, c->pipeline - whole));
    if (room(k, c->tensor) < c->data * c->pipeline)
        raise(bound, cell);
    if (room(k, c->data * c->tensor) < c->pipeline)
        raise(bound, sl_sooner(ring, cell));
    if (room(k, c->tensor * c->pipeline) < c->data)
        raise(bound, sl_sooner(cell, hop));
}

/* Kinds of links, by latency and pace; returns their number, at most MAX_KINDS. */
static int find_kinds(const sl_cluster *c, double *latency, double *pace) {
    int kinds = 0;
    size_t n = (size_t)c->hosts;
    for (size_t i = 0; i < n * n && kinds < MAX_KINDS; i++) {
        if (i / n == i % n)
            continue;
        int k = 0;
        while (k < kinds && (latency[k] != c->latency[i] || pace[k] != c->pace[i]))
            k++;
        if (k == kinds) {
            latency[kinds] = c->latency[i];
            pace[kinds++] = c->pace[i];
        }
    }
    return kinds;
}

sl_status sl_bound_cuts(sl_rank_map *empty, sl_time *bound) {
    const sl_cluster *c = empty->cluster;
    double latency[MAX_KINDS], pace[MAX_KINDS];
    cut k = {.s = empty};
    size_t n = (size_t)c->hosts;
    SL_TRY(sl_alloc(&k.part, 3 * n, sizeof *k.part));
    k.stack = k.part + n;
    k.size = k.stack + n;
    int kinds = find_kinds(c, latency, pace);
    for (int i = 0; i < kinds; i++) {
        k.latency = latency[i];
        k.pace = pace[i];
        bound_cut(&k, bound);
    }
    sl_free(k.part);
    return SL_OK;
}
