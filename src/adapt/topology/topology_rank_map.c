/* A rank map: an arrangement with its derived values, updated position by position. */
#include "adapt/topology/topology_inside.h"
#include "base/memory.h"

#include <string.h>

static void compute_ends(sl_rank_map *s, int replica) {
    size_t row = (size_t)replica * (size_t)s->cluster->pipeline;
    s->computed++;
    if (s->replay)
        sl_frame_replay(s->frame, &s->cell[row], &s->hop[row], &s->end[row]);
    else
        sl_frame_bound(s->frame, &s->cell[row], &s->hop[row], s->scratch, &s->end[row]);
}

/* Cell and hops around one position. */
static void compute_position(sl_rank_map *s, int replica, int stage) {
    size_t row = (size_t)replica * (size_t)s->cluster->pipeline;
    s->cell[row + (size_t)stage] = sl_cell_cost(s, replica, stage);
    if (stage > 0)
        s->hop[row + (size_t)stage - 1] = sl_hop_cost(s, replica, stage - 1);
    if (stage + 1 < s->cluster->pipeline)
        s->hop[row + (size_t)stage] = sl_hop_cost(s, replica, stage);
}

/* Replicas with equal speeds and links have equal ends. */
static int same_as_before(const sl_rank_map *s, int replica) {
    size_t stages = (size_t)s->cluster->pipeline, row = (size_t)replica * stages;
    for (int other = replica - 1; other >= 0 && other >= replica - 16; other--) {
        size_t old = (size_t)other * stages;
        if (memcmp(&s->cell[row], &s->cell[old], stages * sizeof *s->cell) == 0 &&
            memcmp(&s->hop[row], &s->hop[old], stages * sizeof *s->hop) == 0) {
            memcpy(&s->end[row], &s->end[old], stages * sizeof *s->end);
            return 1;
        }
    }
    return 0;
}

static void compute_all(sl_rank_map *s) {
    const sl_cluster *c = s->cluster;
    for (int d = 0; d < c->data; d++) {
        for (int p = 0; p < c->pipeline; p++) {
            s->cell[d * c->pipeline + p] = sl_cell_cost(s, d, p);
            if (p + 1 < c->pipeline)
                s->hop[d * c->pipeline + p] = sl_hop_cost(s, d, p);
        }
        if (!same_as_before(s, d))
            compute_ends(s, d);
    }
    for (int p = 0; p < c->pipeline; p++)
        s->ring[p] = sl_ring_cost(s, p, &s->ring_sum[p]);
}

void sl_rank_map_set(sl_rank_map *s, const int *host) {
    for (int i = 0; i < s->cluster->hosts; i++)
        s->host[i] = host ? host[i] : SL_NO_HOST;
    compute_all(s);
}

sl_status sl_rank_map_make(const sl_cluster *c, const sl_best *best, sl_frame *frame, const int *host,
                           int replay, sl_rank_map *s) {
    size_t cells = (size_t)c->data * (size_t)c->pipeline, stages = (size_t)c->pipeline;
    *s = (sl_rank_map){.cluster = c, .best = best, .frame = frame, .replay = replay};
    SL_TRY(sl_alloc(&s->host, (size_t)c->hosts, sizeof *s->host));
    SL_TRY(sl_alloc(&s->cell, cells, sizeof *s->cell));
    SL_TRY(sl_alloc(&s->hop, cells, sizeof *s->hop));
    SL_TRY(sl_alloc(&s->ring, stages, sizeof *s->ring));
    SL_TRY(sl_alloc(&s->ring_sum, stages, sizeof *s->ring_sum));
    SL_TRY(sl_alloc(&s->end, cells, sizeof *s->end));
    SL_TRY(sl_alloc(&s->scratch, 4 * (stages + 1), sizeof *s->scratch));
    sl_rank_map_set(s, host);
    return SL_OK;
}

void sl_rank_map_free(sl_rank_map *s) {
    SL_FREE(s->host, s->cell, s->hop, s->ring, s->ring_sum, s->end, s->scratch);
    *s = (sl_rank_map){0};
}

void sl_rank_map_put(sl_rank_map *s, int position, int host) {
    int replica = sl_position_replica(s->cluster, position), stage = sl_position_stage(s->cluster, position);
    s->host[position] = host;
    compute_position(s, replica, stage);
    compute_ends(s, replica);
    s->ring[stage] = sl_ring_cost(s, stage, &s->ring_sum[stage]);
}

void sl_rank_map_swap(sl_rank_map *s, int a, int b, int width) {
    const sl_cluster *c = s->cluster;
    int at[2] = {a, b}, replica[2], stage[2];
    for (int i = 0; i < width; i++) {
        int host = s->host[a + i];
        s->host[a + i] = s->host[b + i];
        s->host[b + i] = host;
    }
    for (int i = 0; i < 2; i++) {
        replica[i] = sl_position_replica(c, at[i]);
        stage[i] = sl_position_stage(c, at[i]);
        compute_position(s, replica[i], stage[i]);
    }
    for (int i = 0; i < 2; i++) {
        if (i == 0 || replica[1] != replica[0])
            compute_ends(s, replica[i]);
        if (i == 0 || stage[1] != stage[0])
            s->ring[stage[i]] = sl_ring_cost(s, stage[i], &s->ring_sum[stage[i]]);
    }
}

sl_time sl_rank_map_time(const sl_rank_map *s, int *replica, int *stage) {
    const sl_cluster *c = s->cluster;
    sl_time most = -1;
    for (int d = 0; d < c->data; d++)
        for (int p = 0; p < c->pipeline; p++) {
            sl_time time = s->end[d * c->pipeline + p] + s->ring[p];
            if (time > most) {
                most = time;
                if (replica)
                    *replica = d;
                if (stage)
                    *stage = p;
            }
        }
    return most;
}

sl_time sl_rank_map_spread(const sl_rank_map *s) {
    const sl_cluster *c = s->cluster;
    sl_time sum = 0;
    for (int p = 0; p < c->pipeline; p++) {
        sl_time most = 0;
        for (int d = 0; d < c->data; d++) {
            const sl_stage_times *cell = &s->cell[d * c->pipeline + p];
            sl_time work = 0;
            for (int kind = 0; kind < SL_OP_KINDS; kind++)
                work += s->frame->ops[kind][p] * cell->time[kind];
            most = work > most ? work : most;
        }
        sum += most + s->ring[p] +
               (p == 0 || p + 1 == c->pipeline ? most / 1024 : 0); /* interior ones are preferred */
    }
    return sum;
}
