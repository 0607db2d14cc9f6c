/* A model of a training job on a virtual clock, whose ranks pass the real gates (notice/gate) and leave the
 * records that the probe would (notice/record). Each rank repeats a list of operations: it computes, meets
 * others in collectives, sends, receives, exchanges. A message takes the time of its link, a collective its
 * group's time after its last member has come, and longer if one of the links of its ring is slow; a rank is
 * in one call at a time, as with MPI's blocking calls.
 *
 * The programs are the loops of common jobs: data parallel (two collectives of all ranks), a ring of
 * exchanges, a pipeline with replicas, and experts (all-to-all in groups, an allreduce of all). */
#pragma once

#include "base/time.h"
#include "notice/gate/gate.h"
#include "notice/record/call.h"

enum {
    JOB_TAG = 3,
    JOB_MESSAGES = 77 /* communicator of the messages */,
    JOB_GROUPS = 1000 /* and groups */
};

typedef enum job_shape { JOB_DATA_PARALLEL, JOB_RING, JOB_PIPELINE, JOB_EXPERTS, JOB_SHAPES } job_shape;

const char *job_shape_name(job_shape shape);

typedef enum job_op_kind { JOB_WORK, JOB_MEET, JOB_SEND, JOB_RECEIVE, JOB_EXCHANGE } job_op_kind;

typedef struct job_op {
    job_op_kind kind;
    int call;     /* sl_call_kind */
    int group;    /* MEET */
    int to, from; /* channels, as indices; -1: none */
    sl_time time; /* WORK */
    uint64_t bytes;
} job_op;

typedef struct job_group {
    int *member; /* [members] */
    int members, came;
    sl_time time;
    double slowest; /* its slowest link: a factor */
} job_group;

/* Messages of one rank to another. */
typedef struct job_channel {
    int from, to;
    double slow; /* a factor of the time */
    sl_time *arrival;
    uint32_t sent, taken, room; /* a power of two */
} job_channel;

typedef enum job_state { JOB_RUNS, JOB_PARKED, JOB_WAITS } job_state;

typedef struct job_rank {
    job_op *op;
    int ops, at, room;
    job_state state;
    int begun; /* its call has passed the gate */
    double slow;
    int64_t iteration;
    sl_time offset;             /* of the clock of its node */
    sl_time start, parked, due; /* of the call; of parking; of going on, -1: waits for others */
    sl_gate *gate;
    sl_gate_caller caller;
    uint32_t woken; /* of the gate, at the last try */
    sl_process_id process;
    sl_call *call; /* records [calls & (call_room - 1)] */
    uint64_t calls;
} job_rank;

typedef struct job_model {
    job_shape shape;
    int ranks, nodes, per_node;
    sl_time link; /* time of a message */
    double jitter;
    job_rank *rank;
    job_group *group;
    int groups;
    job_channel *channel;
    int channels, channel_room, *channel_of, channel_slots;
    uint32_t call_room; /* records of a rank; a power of two */
    char *gates;        /* memory of all gates */
    size_t gate_bytes;
    int file; /* the same, as a file in memory, so that agents can map one */
    uint64_t *random;
    int64_t admitted; /* calls that passed a gate */
    /** Runs job_model_run(rank) at `time`. */
    void (*at)(void *context, int rank, sl_time time);
    void *context;
} job_model;

typedef struct job_model_config {
    job_shape shape;
    int ranks, per_node, stages; /* stages: of a pipeline, or ranks of a group of experts */
    sl_time work;                /* of an iteration, about */
    uint32_t call_room;
    uint64_t *random;
    void (*at)(void *context, int rank, sl_time time);
    void *context;
} job_model_config;

/** Aborts without memory. */
job_model *job_model_open(const job_model_config *config);
void job_model_close(job_model *job);

/** Each rank begins at `now` or soon after. */
void job_model_begin(job_model *job, sl_time now);

/** What is due for a rank at `now`. */
void job_model_run(job_model *job, int rank, sl_time now);

/** Tries the gates of the parked ranks of a node again, if somebody has changed them. */
void job_model_retry(job_model *job, int node, sl_time now);

/** Makes messages from one rank to another, and collectives over this link, `factor` times as long. */
void job_model_slow_link(job_model *job, int from, int to, double factor);

/** A link that the program uses, by a number; its ends in *from and *to. 0: it sends no messages. */
int job_model_link(const job_model *job, uint64_t number, int *from, int *to);

/** The gate of a process of this job, mapped once more; NULL: none. */
void *job_model_map_gate(const job_model *job, const char *name, size_t *bytes);
