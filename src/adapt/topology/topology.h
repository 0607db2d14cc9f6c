/* Topology: which host sits at which (tensor, data, pipeline) position (Falcon, section 5.3, strategy S3).
 *
 * A cluster is hosts with speeds, links between all of them and what a training job sends over which: sums of
 * tensor ranks inside every op, activations and gradients between stages, rings over the replicas of a stage
 * (Falcon, appendix 9.2). An arrangement puts a host at every position. How long an iteration of it takes
 * says the one timing model: one order of a schedule family is replayed for each replica with the times of
 * its hosts and links, and a stage's ring begins when its slowest replica has ended (topology_inside.h).
 *
 * The search takes a bound of that replay instead, which is a few additions a stage, and looks at the replay
 * of what it finds. Small cases, and large ones with few kinds of hosts, are decided by branch and bound on
 * the replay; for the others there is a proven bound. The same cluster, options and seed give the same
 * answer. */
#pragma once

#include "base/yaml.h"
#include "plan/pipeline/problem.h"

#define SL_MAX_CLUSTER 4096 /* hosts */

typedef struct sl_cluster {
    int tensor, data, pipeline, hosts; /* hosts = tensor * data * pipeline: one a position */
    int microbatches;                  /* of a replica */
    char **name;                       /* [hosts] */
    double *speed;                     /* [hosts] 1: ops take what `time` says; 0.5: twice as long */
    double *latency;                   /* [from * hosts + to] ns */
    double *pace;                      /* [from * hosts + to] ns a byte */
    sl_time *time[SL_OP_KINDS];        /* [kind][stage] at speed 1, without the sums of tensor ranks */
    double activation;                 /* bytes of a message between stages, a tensor rank and direction */
    double *gradient;                  /* [stage] bytes that one rank of the stage has in the ring */
    int direct;      /* replicas sum without a ring: each sends to each, twice a D-th of the bytes */
    double sum;      /* bytes of a sum over tensor ranks */
    double *sums[2]; /* [0: F, 1: I][stage] such sums of a microbatch */
    char *schedule;  /* family of the order that is replayed */
    int *present;    /* [hosts] the host at each position now */
} sl_cluster;

/** Steps of a sum over the replicas one after the other, each with a D-th of the bytes. */
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
/** SL_EINVAL where an op, message, ring or iteration of some arrangement would be longer than the timing
 * model takes; `where` stands before the reason. Readers check it; who fills in a cluster himself calls it.
 */
sl_status sl_cluster_check(const sl_cluster *cluster, const char *where);

/** Reads a cluster file (docs/formats.md); `profile` (may be NULL): op times and microbatches come from this
 * problem, as the first replica of the present arrangement ran it. SL_EINVAL names file, line and key. Free
 * with sl_cluster_free, also on error. */
sl_status sl_cluster_read(const sl_document *document, const sl_problem *profile, sl_cluster *cluster);
/** The config tables of the cluster file, as Markdown, for docs/reference. */
void sl_cluster_document(FILE *out);

/** Time of an iteration, ns, by the timing model: host[position] is an arrangement. SL_EINVAL: it is none, or
 * the schedule does not fit. */
sl_status sl_topology_time(const sl_cluster *cluster, const int *host, sl_time *time);

typedef struct sl_topology_options {
    uint64_t seed;
    double effort; /* 1: about a second at most for 1,024 hosts; twice as much looks at twice as many */
} sl_topology_options;

typedef struct sl_topology {
    int *host;             /* [hosts] the best arrangement found; the present one unless it is shorter */
    sl_time time, present; /* of an iteration */
    sl_time bound;         /* proven: no arrangement is shorter */
    int proven;            /* time is the least there is */
    int exact;             /* branch and bound came to its end */
    int moved;             /* hosts at another position */
    int weights_moved;     /* of them, to another stage or tensor rank: they need other weights */
    long long looked_at;   /* arrangements and parts of such that were timed */
} sl_topology;

/** The best arrangement: least time, then the least sum over stages of the slowest replica's work and the
 * ring (stragglers in the fewest stages), then fewest hosts that need other weights. Free with
 * sl_topology_free, also on error. SL_EINVAL, SL_ENOMEM. */
sl_status sl_topology_search(const sl_cluster *cluster, const sl_topology_options *options,
                             sl_topology *result);
void sl_topology_free(sl_topology *result);

/** Why: a line each on slow hosts and congested links that the result treats otherwise than the present
 * arrangement, what held the present one up and what holds the new one up. lines[*count] to be freed one by
 * one and together with sl_free. */
sl_status sl_topology_why(const sl_cluster *cluster, const sl_topology *result, char ***lines, int *count);
