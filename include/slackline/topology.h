/* SPDX-License-Identifier: Apache-2.0 */
/* Assigns hosts to (tensor, data, pipeline) positions, given link costs, device speeds and the traffic of a
 * training job: congested links get light traffic, slow hosts are gathered in few stages.
 *
 * A cluster is built here or read from a file (docs/formats.md); an arrangement puts a host at every
 * position. The timing model of plans gives its iteration time. Positions count with the tensor rank fastest,
 * then the replica, then the stage: tensor + T * (replica + D * stage). */
#ifndef SLACKLINE_TOPOLOGY_H
#define SLACKLINE_TOPOLOGY_H

#include <slackline/problem.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- clusters ---- */

typedef struct slackline_cluster slackline_cluster;

/** tensor * data * pipeline hosts (at most 4,096) of speed 1, named node0.., host i at position i; ops, links
 * and volumes take no time, the schedule is 1f1b. Free with slackline_cluster_free. */
slackline_status slackline_cluster_make(int tensor, int data, int pipeline, int microbatches,
                                        slackline_cluster **cluster);
/** Reads a cluster file. `profile` (may be NULL): op times and microbatches as a run's first replica measured
 * them. */
slackline_status slackline_cluster_read(const char *file, const slackline_problem *profile,
                                        slackline_cluster **cluster);
/** The same from text; `name` replaces the file in errors. */
slackline_status slackline_cluster_parse(const char *name, const char *text, const slackline_problem *profile,
                                         slackline_cluster **cluster);
void slackline_cluster_free(slackline_cluster *cluster);

int slackline_cluster_hosts(const slackline_cluster *cluster);
/** Owned by the cluster; NULL: no such host. */
const char *slackline_cluster_host(const slackline_cluster *cluster, int host);
/** -1: no such position. */
int slackline_cluster_position(const slackline_cluster *cluster, int tensor, int replica, int stage);

/** 1: ops take the times of slackline_cluster_set_time; 0.5: twice as long. 1e-3 to 1e3. */
slackline_status slackline_cluster_set_speed(slackline_cluster *cluster, int host, double speed);
/** One direction between two hosts: latency from 0 to 1e12 ns, and ns per byte (0.08: 100 Gbit/s) from 0 to
 * 1e6. */
slackline_status slackline_cluster_set_link(slackline_cluster *cluster, int from, int to, double latency_ns,
                                            double ns_per_byte);
/** Time of an op (F, I, W; B if the schedule has it) of a stage on a host of speed 1, 0 to 1e12 ns. B is I +
 * W until it is set. */
slackline_status slackline_cluster_set_time(slackline_cluster *cluster, int stage, slackline_kind kind,
                                            int64_t time_ns);
/** Bytes of a message between two stages, per tensor rank and direction; 0 to 1e15. */
slackline_status slackline_cluster_set_activation(slackline_cluster *cluster, double bytes);
/** Bytes of one rank of a stage in the ring over replicas; 0 to 1e15. */
slackline_status slackline_cluster_set_gradient(slackline_cluster *cluster, int stage, double bytes);
/** Sums over tensor ranks: their number in the F (SLACKLINE_F) or I (SLACKLINE_I) of a microbatch of a stage,
 * and the bytes of one, the same for all. */
slackline_status slackline_cluster_set_sums(slackline_cluster *cluster, int stage, slackline_kind kind,
                                            double count, double bytes);
/** A family's name. */
slackline_status slackline_cluster_set_schedule(slackline_cluster *cluster, const char *schedule);
/** The present arrangement: host[position], each host once. */
slackline_status slackline_cluster_set_present(slackline_cluster *cluster, const int *host);

/* ---- arrangements ---- */

/** Time of an iteration; `host` NULL: in the present arrangement. */
slackline_status slackline_topology_time(const slackline_cluster *cluster, const int *host, int64_t *time_ns);

typedef struct slackline_topology {
    int64_t time_ns, present_ns; /* of an iteration: the best found, and the present one */
    int64_t bound_ns;            /* proven: no arrangement is shorter */
    int proven;                  /* time_ns is optimal */
    int moved;                   /* hosts that change position */
    int weights_moved;           /* of these, to another stage or tensor rank: they need other weights */
} slackline_topology;

/** Writes the best arrangement into host[hosts], by position: the present one unless another is shorter.
 * `effort`, 0.01 to 1000: 1 is at most about one second for 1,024 hosts; twice the effort tries twice as
 * many. The same cluster, seed and effort give the same answer. *why (may be NULL): the moves and their
 * reasons, as lines of text; free with slackline_free. */
slackline_status slackline_topology_search(const slackline_cluster *cluster, uint64_t seed, double effort,
                                           int *host, slackline_topology *result, char **why);

#ifdef __cplusplus
}
#endif
#endif
