/* Costs of cells, hops and rings of an arrangement. */
#include "adapt/topology/topology_inside.h"
#include "base/memory.h"

#include <math.h>

sl_status sl_best_make(const sl_cluster *c, sl_best *b) {
    size_t n = (size_t)c->hosts;
    *b = (sl_best){.latency = c->hosts > 1 ? INFINITY : 0, .pace = c->hosts > 1 ? INFINITY : 0};
    SL_TRY(sl_alloc(&b->out_latency, 4 * n, sizeof *b->out_latency));
    b->in_latency = b->out_latency + n;
    b->out_pace = b->in_latency + n;
    b->in_pace = b->out_pace + n;
    for (size_t i = 0; i < 4 * n; i++)
        b->out_latency[i] = c->hosts > 1 ? INFINITY : 0;
    for (size_t i = 0; i < n; i++) {
        b->speed = fmax(b->speed, c->speed[i]);
        for (size_t k = 0; k < n; k++) {
            if (i == k)
                continue;
            double latency = c->latency[i * n + k], pace = c->pace[i * n + k];
            b->out_latency[i] = fmin(b->out_latency[i], latency);
            b->in_latency[k] = fmin(b->in_latency[k], latency);
            b->out_pace[i] = fmin(b->out_pace[i], pace);
            b->in_pace[k] = fmin(b->in_pace[k], pace);
            b->latency = fmin(b->latency, latency);
            b->pace = fmin(b->pace, pace);
        }
    }
    SL_TRY(sl_alloc(&b->class_of, n, sizeof *b->class_of));
    return sl_topology_classes(c, b->class_of, &b->classes);
}

void sl_best_free(sl_best *best) {
    SL_FREE(best->out_latency, best->class_of);
    *best = (sl_best){0};
}

/* Latency and pace of a link, either end of which may be empty. */
static void link_of(const sl_rank_map *s, int from, int to, double *latency, double *pace) {
    if (from >= 0 && to >= 0) {
        size_t i = (size_t)from * (size_t)s->cluster->hosts + (size_t)to;
        *latency = s->cluster->latency[i];
        *pace = s->cluster->pace[i];
    } else if (from >= 0) {
        *latency = s->best->out_latency[from];
        *pace = s->best->out_pace[from];
    } else if (to >= 0) {
        *latency = s->best->in_latency[to];
        *pace = s->best->in_pace[to];
    } else {
        *latency = s->best->latency;
        *pace = s->best->pace;
    }
}

static sl_time whole(double ns) {
    return (sl_time)(ns + 0.5);
}

/* One sum over the tensor ranks of a cell: 2 (T - 1) steps of a T-th of the bytes on the slowest link of
 * their ring. */
static double tensor_sum(const sl_rank_map *s, int replica, int stage) {
    const sl_cluster *c = s->cluster;
    const int *host = &s->host[sl_position(c, 0, replica, stage)];
    double slowest = 0;
    for (int t = 0; t < c->tensor; t++) {
        double latency, pace;
        link_of(s, host[t], host[t + 1 == c->tensor ? 0 : t + 1], &latency, &pace);
        slowest = fmax(slowest, latency + c->sum / c->tensor * pace);
    }
    return 2.0 * (c->tensor - 1) * slowest;
}

sl_stage_times sl_cell_cost(const sl_rank_map *s, int replica, int stage) {
    const sl_cluster *c = s->cluster;
    const int *host = &s->host[sl_position(c, 0, replica, stage)];
    double speed = s->best->speed, sum = 0;
    for (int t = 0; t < c->tensor; t++)
        if (host[t] >= 0)
            speed = fmin(speed, c->speed[host[t]]);
    if (c->tensor > 1)
        sum = tensor_sum(s, replica, stage);
    sl_stage_times cell;
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        double sums = kind == SL_F ? c->sums[0][stage] : kind == SL_W ? 0 : c->sums[1][stage];
        cell.time[kind] = whole((double)c->time[kind][stage] / speed + sums * sum);
    }
    return cell;
}

sl_hop sl_hop_cost(const sl_rank_map *s, int replica, int stage) {
    const sl_cluster *c = s->cluster;
    const int *from = &s->host[sl_position(c, 0, replica, stage)],
              *to = &s->host[sl_position(c, 0, replica, stage + 1)];
    double latency[2] = {0, 0}, pace[2] = {0, 0};
    for (int t = 0; t < c->tensor; t++)
        for (int back = 0; back < 2; back++) {
            double l, p;
            link_of(s, back ? to[t] : from[t], back ? from[t] : to[t], &l, &p);
            latency[back] = fmax(latency[back], l);
            pace[back] = fmax(pace[back], p);
        }
    sl_hop hop;
    for (int back = 0; back < 2; back++) {
        hop.latency[back] = whole(latency[back]);
        hop.transfer[back] = whole(pace[back] * c->activation);
    }
    return hop;
}

/* Replica `from` and its receivers: the next one on the ring, or all others. */
static void sum_steps(const sl_rank_map *s, int tensor, int from, int stage, double *slowest, double *all) {
    const sl_cluster *c = s->cluster;
    int host = s->host[sl_position(c, tensor, from, stage)], last = c->direct ? c->data - 1 : 1;
    for (int next = 1; next <= last; next++) {
        int to = s->host[sl_position(c, tensor, (from + next) % c->data, stage)];
        double latency, pace;
        link_of(s, host, to, &latency, &pace);
        double step = latency + c->gradient[stage] / c->data * pace;
        *slowest = fmax(*slowest, step);
        *all += step / last;
    }
}

sl_time sl_ring_cost(const sl_rank_map *s, int stage, double *sum) {
    const sl_cluster *c = s->cluster;
    double slowest = 0, all = 0;
    *sum = 0;
    if (c->data == 1)
        return 0;
    for (int t = 0; t < c->tensor; t++)
        for (int d = 0; d < c->data; d++)
            sum_steps(s, t, d, stage, &slowest, &all);
    *sum = sl_sum_steps(c) * all / (c->data * c->tensor);
    return whole(sl_sum_steps(c) * slowest);
}
