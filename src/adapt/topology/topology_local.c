/* Local search for large clusters: hosts exchange positions, mostly around the cell that decides the
 * iteration's time. Exchanges that lose a little are accepted while the search is hot. Since many
 * arrangements take equally long, a small share of the rest is added to the cost: mean links of rings,
 * replicas that end early, stages' latest ends. So a ring loses its slow links one by one before its slowest
 * is gone. */
#include "adapt/topology/topology_inside.h"
#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <string.h>

typedef struct local_search {
    sl_rank_map *s;
    uint64_t state;
    const int *class_of;
    int *member, *first; /* hosts by class: member[first[k] .. first[k + 1]) */
    int classes;
    int *where;        /* [hosts] its position */
    int *best;         /* [positions] */
    sl_time *stage;    /* [stage] latest end */
    int replica, late; /* at which the time is decided */
    sl_time best_time;
    double best_cost;
} local_search;

static int draw(local_search *l, int below) {
    return (int)(sl_random_mix(l->state += SL_RANDOM_STEP) % (uint64_t)below);
}

/* The time, and the cost that guides the search. */
static double cost_of(local_search *l, sl_time *time) {
    const sl_rank_map *s = l->s;
    const sl_cluster *c = s->cluster;
    double ends = 0, stages = 0, rings = 0;
    memset(l->stage, 0, (size_t)c->pipeline * sizeof *l->stage);
    *time = -1;
    for (int d = 0; d < c->data; d++) {
        const sl_time *end = &s->end[d * c->pipeline];
        sl_time finish = 0;
        for (int p = 0; p < c->pipeline; p++) {
            sl_time done = end[p] + s->ring[p];
            if (done > *time) {
                *time = done;
                l->replica = d;
                l->late = p;
            }
            finish = done > finish ? done : finish;
            l->stage[p] = end[p] > l->stage[p] ? end[p] : l->stage[p];
        }
        ends += (double)finish;
    }
    for (int p = 0; p < c->pipeline; p++) {
        stages += (double)(l->stage[p] + s->ring[p]);
        rings += s->ring_sum[p];
    }
    return (double)*time + 0.1 * ends / c->data + 0.05 * stages / c->pipeline + 0.1 * rings / c->pipeline;
}

static void keep_best(local_search *l, sl_time time, double cost) {
    if (time < l->best_time || (time == l->best_time && cost < l->best_cost)) {
        l->best_time = time;
        l->best_cost = cost;
        memcpy(l->best, l->s->host, (size_t)l->s->cluster->hosts * sizeof *l->best);
    }
}

/* The position of a host of a randomly drawn class: so unique hosts come as often as common ones. */
static int draw_host(local_search *l) {
    int k = draw(l, l->classes);
    return l->where[l->member[l->first[k] + draw(l, l->first[k + 1] - l->first[k])]];
}

static void draw_pair(local_search *l, int *a, int *b) {
    const sl_cluster *c = l->s->cluster;
    int way = draw(l, 100), t = draw(l, c->tensor), d = draw(l, c->data), p = draw(l, c->pipeline);
    *a = way < 45   ? sl_position(c, t, l->replica, p)
         : way < 75 ? sl_position(c, t, d, l->late)
                    : draw_host(l);
    *b = draw(l, 4) ? draw_host(l) : draw(l, c->hosts);
    if (way >= 90) /* the same ring in another sequence */
        *b = sl_position(c, sl_position_tensor(c, *a), draw(l, c->data), sl_position_stage(c, *a));
}

static void swap(local_search *l, int a, int b, int width) {
    sl_rank_map_swap(l->s, a, b, width);
    for (int i = 0; i < width; i++) {
        l->where[l->s->host[a + i]] = a + i;
        l->where[l->s->host[b + i]] = b + i;
    }
}

static void index_hosts(local_search *l) {
    for (int i = 0; i < l->s->cluster->hosts; i++)
        l->where[l->s->host[i]] = i;
}

/* All hosts of two stages. */
static void swap_stages(local_search *l, int a, int b) {
    const sl_cluster *c = l->s->cluster;
    int width = c->tensor * c->data;
    int *host = l->s->host;
    for (int i = 0; i < width; i++) {
        int h = host[a * width + i];
        host[a * width + i] = host[b * width + i];
        host[b * width + i] = h;
    }
    sl_rank_map_set(l->s, host);
    index_hosts(l);
}

/* One try; reverted if the cost grows by more than chance allows. */
static void try_move(local_search *l, double heat, double *cost) {
    const sl_cluster *c = l->s->cluster;
    int a = 0, b = 0, width = 1, stages = !l->s->replay && c->pipeline > 1 && draw(l, 100) == 0;
    sl_time time;
    if (stages) {
        a = draw(l, c->pipeline);
        b = draw(l, c->pipeline);
        if (a == b)
            return;
        swap_stages(l, a, b);
    } else {
        draw_pair(l, &a, &b);
        if (c->tensor > 1 && draw(l, 2)) { /* whole cells: fast links inside stay */
            width = c->tensor;
            a -= a % width;
            b -= b % width;
        }
        if (a == b || (width == 1 && l->class_of[l->s->host[a]] == l->class_of[l->s->host[b]]))
            return;
        swap(l, a, b, width);
    }
    int replica = l->replica, late = l->late;
    double now = cost_of(l, &time);
    double chance = sl_random_unit(sl_random_mix(l->state += SL_RANDOM_STEP));
    if (now <= *cost || (heat > 0 && chance < exp((*cost - now) / heat))) {
        *cost = now;
        keep_best(l, time, now);
        return;
    }
    l->replica = replica;
    l->late = late;
    if (stages)
        swap_stages(l, a, b);
    else
        swap(l, a, b, width);
}

static void sort_classes(local_search *l) {
    int hosts = l->s->cluster->hosts, n = 0;
    for (int k = 0; k < l->classes; k++) {
        l->first[k] = n;
        for (int i = 0; i < hosts; i++)
            if (l->class_of[i] == k)
                l->member[n++] = i;
    }
    l->first[l->classes] = n;
}

sl_status sl_topology_local(sl_rank_map *rank_map, uint64_t seed, long long moves) {
    size_t n = (size_t)rank_map->cluster->hosts;
    local_search l = {.s = rank_map,
                      .state = sl_random_mix(seed),
                      .best_time = SL_TIME_NEVER,
                      .class_of = rank_map->best->class_of,
                      .classes = rank_map->best->classes};
    int *room;
    SL_TRY(sl_alloc(&room, 4 * n + 1, sizeof *room));
    l.member = room;
    l.where = room + n;
    l.best = room + 2 * n;
    l.first = room + 3 * n;
    sl_status status = sl_alloc(&l.stage, (size_t)rank_map->cluster->pipeline, sizeof *l.stage);
    if (status == SL_OK) {
        sort_classes(&l);
        index_hosts(&l);
        sl_time time;
        double cost = cost_of(&l, &time), hot = 0.0005 * cost;
        keep_best(&l, time, cost);
        for (long long i = 0; i < moves; i++) {
            double left = 1 - (double)i / (double)moves;
            try_move(&l, left > 0.2 ? hot * left * left : 0, &cost);
        }
        sl_rank_map_set(rank_map, l.best);
    }
    SL_FREE(l.stage, room);
    return status;
}

/* A slower host comes first, then the one with the best link to the last one, then the first in the file. */
static int better_next(const sl_cluster *c, int by_speed, int last, int a, int b, double bytes) {
    size_t n = (size_t)c->hosts;
    if (by_speed && c->speed[a] != c->speed[b])
        return c->speed[a] < c->speed[b];
    if (last < 0)
        return 0;
    double cost_a = c->latency[(size_t)last * n + (size_t)a] + bytes * c->pace[(size_t)last * n + (size_t)a];
    double cost_b = c->latency[(size_t)last * n + (size_t)b] + bytes * c->pace[(size_t)last * n + (size_t)b];
    return cost_a < cost_b;
}

sl_status sl_topology_grow(const sl_cluster *c, int by_speed, int *host) {
    unsigned char *taken;
    double bytes = c->tensor > 1 ? c->sum / c->tensor : c->gradient[0] / c->data;
    SL_TRY(sl_alloc(&taken, (size_t)c->hosts, 1));
    for (int i = 0, last = -1; i < c->hosts; i++) {
        int next = -1;
        for (int h = 0; h < c->hosts; h++)
            if (!taken[h] && (next < 0 || better_next(c, by_speed, last, h, next, bytes)))
                next = h;
        taken[next] = 1;
        host[i] = last = next;
    }
    sl_free(taken);
    return SL_OK;
}
