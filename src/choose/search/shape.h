/* A shape: how a model is divided over the devices of a cluster, before its cut and schedule. Positions are
 * numbered as those of a job, and get devices in the order of the cluster's file: tensor ranks next to each
 * other, then context ranks, then replicas before pipeline ranks, or the other way around.
 *
 *   shape          which shapes there are, and why one is not possible
 *   shape_fix      the values that the search must not change, by their names
 *   positions          the devices of a shape's ranks, and what they make of ranks and links
 *   shape_problem  a shape as the planner's problem, with its layers
 *   shape_bound    what no schedule of a shape can beat */
#pragma once

#include "base/clock.h"
#include "choose/model/devices.h"
#include "choose/model/model_work.h"
#include "plan/pipeline/problem.h"

/* Which positions are neighbors: the replicas of a stage (rings within hosts, the pipeline across them), or
 * the stages of a replica. */
typedef enum sl_neighbors { SL_NEIGHBOR_REPLICAS, SL_NEIGHBOR_STAGES, SL_NEIGHBORS } sl_neighbors;

/* What is in host memory: the optimizer's state, which the host's processor then updates; activations, which
 * the plan moves where memory binds (plan/lower/offload.h); or both. */
typedef enum sl_host_use {
    SL_HOST_NOTHING,
    SL_HOST_OPTIMIZER,
    SL_HOST_ACTIVATIONS,
    SL_HOST_BOTH,
    SL_HOST_USES
} sl_host_use;

static inline int sl_hosts_optimizer(sl_host_use offload) {
    return offload == SL_HOST_OPTIMIZER || offload == SL_HOST_BOTH;
}
static inline int sl_hosts_activations(sl_host_use offload) {
    return offload == SL_HOST_ACTIVATIONS || offload == SL_HOST_BOTH;
}

typedef struct sl_shape {
    sl_division division;       /* recompute: attention or none; whole layers as `again` says */
    int data, pipeline, chunks; /* replicas; pipeline ranks; stages of each */
    sl_placement placement;
    int microbatches; /* of a replica */
    int zero;         /* 0; 1: optimizer state divided over replicas; 2: gradients, too; 3: weights, too */
    int again;        /* stages may recompute their layers: the search for a cut chooses */
    sl_neighbors neighbors;
    sl_host_use offload;
    int uneven; /* replicas have numbers of microbatches by their speed; `microbatches` is the average,
                   rounded up */
} sl_shape;

/* Values that a shape must have; 0 or -1: any. */
typedef struct sl_shape_fixed {
    int tensor, context, expert, data, pipeline, chunks, size;
    int placement, zero, again, neighbors, recompute; /* -1: any */
    int uneven;                                       /* 0: equal numbers of microbatches; 1; -1: any */
    int offload;               /* sl_host_use values that are allowed, 1 << value; -1: any */
    int regime, communicators; /* of messages between stages; -1: those of the devices */
} sl_shape_fixed;

extern const char *const sl_neighbors_names[], *const sl_recompute_names[], *const sl_host_use_names[],
                                                                                *const sl_split_names[];

/** Any values. */
sl_shape_fixed sl_shape_free(void);
/** Fixes a value by its name, "tensor" to "8". SL_EINVAL: unknown name or value, with the known ones, to be
 * prefixed by what the name was given to. */
sl_status sl_shape_fix(sl_shape_fixed *fixed, const char *name, const char *value);

/** Devices of a shape. */
int sl_shape_devices(const sl_shape *shape);

/** Microbatches of all replicas together. */
long long sl_shape_total(const sl_model_work *model, const sl_shape *shape);

/** All possible shapes that use all devices, in a fixed order: *shape[*count], free with sl_free. SL_ENONE:
 * there is none, with the reason; SL_ENOMEM. */
sl_status sl_shapes_list(const sl_model_work *model, const sl_devices *devices, const sl_shape_fixed *fixed,
                         sl_shape **shape, size_t *count);

/* What a shape costs besides its problem's times, s in an iteration of the rank that needs most. */
typedef struct sl_shape_parts {
    double computed;             /* useful arithmetic of a rank on average */
    double sent[SL_WORK_GROUPS]; /* in groups, on average */
    double weights;              /* ZeRO 3 and 2: what ops wait for weights and gradients */
    double update;               /* the optimizer, after the schedule, on the slowest rank; with the moves to
                                    host memory and back if its state is there */
    double summed;               /* sums over replicas, per rank on average */
} sl_shape_parts;

struct sl_positions;

/** The problem of one replica of a shape at the given positions: those of the slowest for each rank and link,
 * or of a kind of replicas. Cut evenly; a
 * limit if devices have one. `microbatches`: instead of the shape's. SL_EINVAL: beyond a planner's limits;
 * SL_ENOMEM. Free with sl_problem_free, also on error. */
sl_status sl_shape_problem(const sl_model_work *model, const sl_devices *devices,
                           const struct sl_positions *positions, const sl_shape *shape, int microbatches,
                           sl_problem *problem, sl_shape_parts *parts);

/* Lower bounds of a shape, for any cut and schedule. */
typedef struct sl_shape_bound {
    sl_time time;  /* of an iteration; SL_TIME_NEVER: it does not fit into memory */
    double memory; /* bytes of the rank that needs most */
} sl_shape_bound;

/** Of a problem that sl_shape_problem made. O(ranks * layers^2). SL_ENOMEM. */
sl_status sl_shape_bound_of(const sl_problem *problem, const sl_shape_parts *parts, sl_shape_bound *bound);
