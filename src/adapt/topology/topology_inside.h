/* Shared by the parts of topology.h: an arrangement with all derived values (a rank map), updated while hosts
 * exchange positions. Some positions may be empty.
 *
 *   cell   (replica, stage): op times: the slowest of its tensor ranks, and their sums on a ring
 *   hop    between two cells of a replica: latency and occupancy, each the worst of its tensor ranks
 *   ring   of a stage: 2 (D - 1) steps of latency and V / D bytes on its slowest link, the worst of its
 *          tensor ranks (as data_parallel of a problem file); direct sum: 2 steps on the slowest of all pairs
 *   end    end of a cell's last op: by the replay, or bounded from below
 *   time   of an iteration: the latest of (last end of a stage in any replica, then its ring)
 *
 * An empty position counts as the best possible host: the fastest speed, and the best link to each other
 * position. So the time of a rank map with empty positions is a bound for all ways to fill them: in a fixed
 * order of ops the replay is a longest path, which is never shorter if a part is longer. */
#pragma once

#include "adapt/topology/topology.h"
#include "plan/search/plan.h"
#include "plan/timing/replay.h"

#define SL_NO_HOST (-1)

/* Properties of a cluster's hosts without an arrangement: the best links of each and of all, and classes of
 * equal hosts. */
typedef struct sl_best {
    double *out_latency, *in_latency, *out_pace, *in_pace; /* [hosts] */
    double latency, pace, speed;
    int *class_of; /* [hosts] hosts that may be exchanged without any change; numbered by their first hosts */
    int classes;
} sl_best;

typedef struct sl_stage_times {
    sl_time time[SL_OP_KINDS];
} sl_stage_times;

typedef struct sl_hop {
    sl_time latency[2], transfer[2]; /* 0: activations forwards, 1: gradients back */
} sl_hop;

/* The replayed order, and its values for the bound. */
typedef struct sl_frame {
    sl_problem problem; /* of one replica; its times and links are those of the replay at hand */
    sl_plan plan;
    sl_replayer *replayer;
    int *ops[SL_OP_KINDS]; /* [stage] number of each kind */
    int *flight;        /* [stage] maximum of microbatches between F and backward; 0: order not ascending */
    int full;           /* full backwards: 1 everywhere, 0 nowhere, -1 both */
    long long replayed; /* ops so far */
} sl_frame;

typedef struct sl_rank_map {
    const sl_cluster *cluster;
    const sl_best *best;
    sl_frame *frame;
    int replay;           /* ends are from the replay; else bounds */
    int *host;            /* [positions] */
    sl_stage_times *cell; /* [replica * pipeline + stage] */
    sl_hop *hop;          /* the same, to the next stage; the last stage's is not used */
    sl_time *ring;        /* [stage] */
    double *ring_sum;     /* [stage] time of its rings on their mean link */
    sl_time *end;         /* [replica * pipeline + stage] */
    sl_time *scratch;     /* [4 * (pipeline + 1)] */
    long long computed;   /* replicas whose ends were computed */
} sl_rank_map;

/* ---- topology_cost.c ---- */
sl_status sl_best_make(const sl_cluster *cluster, sl_best *best);
void sl_best_free(sl_best *best);
sl_stage_times sl_cell_cost(const sl_rank_map *s, int replica, int stage);
sl_hop sl_hop_cost(const sl_rank_map *s, int replica, int stage);
/** *sum: on the mean link instead of the slowest. */
sl_time sl_ring_cost(const sl_rank_map *s, int stage, double *sum);

/* ---- topology_frame.c ---- */
sl_status sl_frame_make(const sl_cluster *cluster, sl_frame *frame);
void sl_frame_free(sl_frame *frame);
/** End of each stage's last op in a replica, by the replay; end[pipeline]. */
void sl_frame_replay(sl_frame *frame, const sl_stage_times *cell, const sl_hop *hop, sl_time *end);
/** Ops of a replay. */
long long sl_frame_ops(const sl_frame *frame);
/** A lower bound of these ends in O(pipeline); scratch[4 * (pipeline + 1)]. */
void sl_frame_bound(const sl_frame *frame, const sl_stage_times *cell, const sl_hop *hop, sl_time *scratch,
                    sl_time *end);

/* ---- topology_rank_map.c ---- */
/** host NULL: all positions empty. `best`, `frame` must outlive it. */
sl_status sl_rank_map_make(const sl_cluster *cluster, const sl_best *best, sl_frame *frame, const int *host,
                           int replay, sl_rank_map *rank_map);
void sl_rank_map_free(sl_rank_map *rank_map);
void sl_rank_map_set(sl_rank_map *rank_map, const int *host);
/** Puts a host (or SL_NO_HOST) at a position. */
void sl_rank_map_put(sl_rank_map *rank_map, int position, int host);
/** Exchanges the hosts of two positions, or of `width` positions each, of one cell each. */
void sl_rank_map_swap(sl_rank_map *rank_map, int a, int b, int width);
/** Time of an iteration. *replica, *stage (may be NULL): the critical ones. */
sl_time sl_rank_map_time(const sl_rank_map *rank_map, int *replica, int *stage);
/** Sum over stages of the slowest replica's ops and the ring: smaller if fewer stages hold slow components.
 * The first and the last stage count a thousandth more. */
sl_time sl_rank_map_spread(const sl_rank_map *rank_map);

/* ---- the searches, on arrangements ---- */

/** Compares by time, then by spread. */
static inline int sl_shorter(sl_time time, sl_time spread, sl_time than_time, sl_time than_spread) {
    return time < than_time || (time == than_time && spread < than_spread);
}

/** Local search (topology_local.c): improves `rank_map`, `moves` tries; deterministic for a seed. */
sl_status sl_topology_local(sl_rank_map *rank_map, uint64_t seed, long long moves);
/** An arrangement that keeps hosts with good links together and slow ones next to each other, host[hosts]
 * (topology_local.c). `by_speed`: slow ones first. */
sl_status sl_topology_grow(const sl_cluster *cluster, int by_speed, int *host);

/** Classes of hosts that may be exchanged without any change: class_of[hosts], numbered by their first hosts;
 * *classes: their number (topology_class.c). Computed once: sl_best has them. */
sl_status sl_topology_classes(const sl_cluster *cluster, int *class_of, int *classes);

/** Branch and bound (topology_exact.c): improves host[hosts], whose time and spread are given. *finished 0:
 * `budget` (about ns) ran out. */
sl_status sl_topology_exact(const sl_cluster *cluster, const sl_best *best, sl_frame *frame, sl_time bound,
                            long long budget, int *host, sl_time *time, sl_time *spread, int *finished,
                            long long *looked_at);

/** Chooses the arrangement nearest to the present one among those equal up to rotations and exchanges within
 * a class (topology_class.c). */
sl_status sl_topology_settle(const sl_cluster *cluster, const sl_best *best, int *host);

/** A lower bound for all arrangements of the cluster, ns: each host at its best position, surrounded by the
 * best of all others. */
sl_status sl_bound_of(const sl_cluster *cluster, const sl_best *best, sl_frame *frame, sl_time *bound);

/** Raises the bound by the traffic that must cross between parts of the cluster (topology_cut.c); all
 * positions of `empty` are empty. */
sl_status sl_bound_cuts(sl_rank_map *empty, sl_time *bound);
