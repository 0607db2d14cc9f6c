/* The nodes of a job as the controller knows them: their ranks and the offsets of their clocks. Fed with
 * heartbeats; a node that is silent for long is lost until it is heard again. */
#pragma once

#include "base/status.h"
#include "notice/message/messages.h"
#include "notice/record/offset.h"

typedef struct sl_node_rank {
    int rank, pid, period;
} sl_node_rank;

typedef struct sl_job_node {
    char name[SL_NODE_NAME];
    char clock[SL_CLOCK_NAME]; /* identity */
    int same_clock;            /* as the controller: offset 0, no error */
    sl_offset offset;          /* theirs - ours */
    sl_time asked;             /* when the offset was last requested */
    int alive, validate;
    sl_time heard;
    int64_t calls, lost;
    char trouble[256]; /* why its agent cannot read its processes' calls; "" */
    int troubled;      /* the trouble differs from the last one reported */
    int size;          /* of the world, as its processes report */
    sl_node_rank *rank;
    size_t ranks, capacity;
} sl_job_node;

typedef struct sl_nodes {
    sl_job_node *node;
    size_t count, capacity;
    char clock[SL_CLOCK_NAME];    /* identity of the controller's own */
    struct sl_node_index *lookup; /* by name and by rank; NULL: no node yet */
} sl_nodes;

void sl_nodes_close(sl_nodes *nodes);

/** Reads a heartbeat. *node is its sender; *news: 1 the node is new or back, 2 its processes changed, else 0.
 * Not a heartbeat, or one node too many: *node is NULL. SL_ENOMEM. */
sl_status sl_nodes_hear(sl_nodes *nodes, const json_t *beat, sl_time now, sl_job_node **node, int *change);

/** The node of that name; NULL. */
sl_job_node *sl_nodes_find(const sl_nodes *nodes, const char *name);

/** A node that has been silent for too long, each once; NULL: none. */
sl_job_node *sl_nodes_expired(sl_nodes *nodes, sl_time now);

/** Counts all nodes as heard now (after a time without a store). */
void sl_nodes_forgive(sl_nodes *nodes, sl_time now);

/** Number of living nodes; number of ranks in the world; whether each rank has exactly one process; whether
 * all clocks are known. */
int sl_nodes_alive(const sl_nodes *nodes);
int sl_nodes_world(const sl_nodes *nodes);
int sl_nodes_whole(const sl_nodes *nodes);
int sl_nodes_timed(const sl_nodes *nodes);

/** Whether each living node has been asked for its clock: those that are still unknown do not answer. A profile
 * before that would lack the ranks of all nodes whose turn has not come. */
int sl_nodes_asked(const sl_nodes *nodes);

/** The node of a rank; NULL: none. *pid may be NULL. */
const sl_job_node *sl_nodes_of_rank(const sl_nodes *nodes, int rank, int *pid);

/** Converts a node's time to the controller's clock. */
int64_t sl_node_time(const sl_job_node *node, int64_t theirs);

/** Bound of the difference of any two nodes' clocks, ns. */
int64_t sl_nodes_clock_error(const sl_nodes *nodes);

/** {"NODE": time on its own clock, ..., "CLOCK": time}; new reference, NULL without memory. The nodes that
 * share the controller's clock find it under that clock's identity: an order goes to all nodes. */
json_t *sl_nodes_times(const sl_nodes *nodes, sl_time time);
