/* Topology: the assignment of hosts to (tensor, data, pipeline) positions (Falcon, section 5.3, strategy S3).
 *
 * A cluster has hosts with speeds, links between all of them, and the traffic of a training job: sums of
 * tensor ranks inside every op, activations and gradients between stages, rings over the replicas of a stage
 * (Falcon, appendix 9.2). An arrangement puts a host at every position. The timing model gives its iteration
 * time: one order of a schedule family is replayed per replica with the times of its hosts and links, and a
 * stage's ring begins when its slowest replica has ended (topology_inside.h).
 *
 * The search uses a bound of that replay, which takes a few additions per stage, and replays its results.
 * Branch and bound on the replay solves small cases, and large ones with few kinds of hosts; the others get a
 * proven bound. The same cluster, options and seed give the same answer. */
#pragma once

#include "base/config.h"
#include "plan/pipeline/problem.h"

#define SL_MAX_CLUSTER 4096 /* hosts */

typedef struct sl_cluster {
    int tensor, data, pipeline, hosts; /* hosts = tensor * data * pipeline: one per position */
    int microbatches;                  /* per replica */
    char **name;                       /* [hosts] */
    double *speed;                     /* [hosts] 1: ops take `time`; 0.5: twice as long */
    double *latency;                   /* [from * hosts + to] ns */
    double *pace;                      /* [from * hosts + to] ns per byte */
    sl_time *time[SL_OP_KINDS];        /* [kind][stage] at speed 1, without the sums of tensor ranks */
    double activation;                 /* bytes of a message between stages, per tensor rank and direction */
    double *gradient;                  /* [stage] bytes of one rank of the stage in the ring */
    int direct;      /* sum over replicas without a ring: each sends 1/D of the bytes to each, twice */
    double sum;      /* bytes of a sum over tensor ranks */
    double *sums[2]; /* [0: F, 1: I][stage] such sums per microbatch */
    char *schedule;  /* family of the replayed order */
    int *present;    /* [hosts] the present host at each position */
} sl_cluster;

/** Successive steps of a sum over the replicas, each with 1/D of the bytes. */
static inline double sl_sum_steps(const sl_cluster *c) {
    return c->direct ? 2 : 2.0 * (c->data - 1);
}

/* Positions count with the tensor rank fastest, then the replica, then the stage. */
static inline int sl_position(const sl_cluster *c, int tensor, int replica, int stage) {
    return tensor + c->tensor * (replica + c->data * stage);
}
static inline int sl_position_tensor(const sl_cluster *c, int position) {
    return position % c->tensor;
}
static inline int sl_position_replica(const sl_cluster *c, int position) {
    return position / c->tensor % c->data;
}
static inline int sl_position_stage(const sl_cluster *c, int position) {
    return position / c->tensor / c->data;
}

/** A cluster of this shape: hosts of speed 1 named node0.., links and volumes 0, schedule 1f1b, host i at
 * position i. SL_EINVAL: a shape below 1 or over the limits; SL_ENOMEM. Free with sl_cluster_free, also on
 * error. */
sl_status sl_cluster_make(int tensor, int data, int pipeline, int microbatches, sl_cluster *cluster);
void sl_cluster_free(sl_cluster *cluster);
/** SL_EINVAL if an op, message, ring or iteration of some arrangement would be longer than the timing model
 * allows; `where` precedes the reason. Readers call it; so must code that builds a cluster itself. */
sl_status sl_cluster_check(const sl_cluster *cluster, const char *where);

/** Reads a cluster file (docs/formats.md); `profile` (may be NULL): the source of op times and microbatches,
 * run by the first replica of the present arrangement. SL_EINVAL names file, line and key. Free with
 * sl_cluster_free, also on error. */
sl_status sl_cluster_read(const sl_document *document, const sl_problem *profile, sl_cluster *cluster);
/** Visits the keys of a cluster file. */
void sl_cluster_visit_keys(sl_key_visit visit, void *context);

/** Time of an iteration, ns, by the timing model: host[position] is an arrangement. SL_EINVAL: an invalid
 * arrangement, or the schedule does not fit. */
sl_status sl_topology_time(const sl_cluster *cluster, const int *host, sl_time *time);

typedef struct sl_topology_options {
    uint64_t seed;
    double effort; /* 1: at most about one second for 1,024 hosts; twice the effort tries twice as many */
} sl_topology_options;

typedef struct sl_topology {
    int *host;             /* [hosts] the best arrangement found; the present one unless it is shorter */
    sl_time time, present; /* of an iteration */
    sl_time bound;         /* proven: no arrangement is shorter */
    int proven;            /* time is optimal */
    int exact;             /* branch and bound finished */
    int moved;             /* hosts that change position */
    int weights_moved;     /* of these, to another stage or tensor rank: they need other weights */
    long long looked_at;   /* arrangements and partial arrangements timed */
} sl_topology;

/** The best arrangement: least time, then the least sum over stages of the slowest replica's work and the
 * ring (stragglers in the fewest stages), then fewest hosts that need other weights. Free with
 * sl_topology_free, also on error. SL_EINVAL, SL_ENOMEM. */
sl_status sl_topology_search(const sl_cluster *cluster, const sl_topology_options *options,
                             sl_topology *result);
void sl_topology_free(sl_topology *result);

/** Reasons, as lines: slow hosts and congested links that the result treats differently from the present
 * arrangement, and the bottlenecks of both. Free each of lines[*count] and then `lines` with sl_free. */
sl_status sl_topology_why(const sl_cluster *cluster, const sl_topology *result, char ***lines, int *count);
