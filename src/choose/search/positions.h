/* Positions: the devices of every rank of a division, and what they make of its ranks and links. The slowest
 * replica counts: a rank is as fast as the slowest device that has it in any replica, a link as slow as the
 * slowest of its messages. Where replicas may have different numbers of microbatches, each kind of replica
 * has positions of its own. */
#pragma once

#include "choose/search/shape.h"

typedef struct sl_positions {
    int tensor, context, expert, data, pipeline; /* what they depend on */
    sl_neighbors neighbors;
    double *speed;                                        /* [pipeline] */
    double *memory;                                       /* [pipeline] bytes; 0: no limit */
    double latency[SL_WORK_GROUPS], pace[SL_WORK_GROUPS]; /* ns, ns per byte */
    double *hop_latency,
        *hop_pace; /* [pipeline] to the next rank, or from the last to the first, either way */
    double *ring_latency, *ring_pace; /* [pipeline] of the replicas of a rank */
} sl_positions;

/* Positions by what they depend on, made when first asked for. */
typedef struct sl_position_table {
    const sl_devices *devices;
    sl_positions *plan;
    size_t count, capacity;
} sl_position_table;

/** Those of a shape; they stay where they are until another is asked for. SL_ENOMEM. */
sl_status sl_positions_of(sl_position_table *plans, const sl_shape *shape, const sl_positions **positions);
/* Replicas whose devices and links are equal. Rings and expert ranks are those of all replicas. */
typedef struct sl_replica_kind {
    int replicas;
    sl_positions positions;
} sl_replica_kind;

typedef struct sl_replica_kinds {
    int count;
    sl_replica_kind *kind; /* [count] in the order of their first replicas */
    int *of;               /* [data] kind of a replica */
} sl_replica_kinds;

/** SL_ENOMEM. Free with sl_replica_kinds_free, also on error. */
sl_status sl_replica_kinds_of(sl_position_table *plans, const sl_shape *shape, sl_replica_kinds *kinds);
void sl_replica_kinds_free(sl_replica_kinds *kinds);

void sl_position_table_free(sl_position_table *plans);

/** The device at a position of a shape. Never fails. */
int sl_shape_device(const sl_shape *shape, int tensor, int context, int replica, int rank);
