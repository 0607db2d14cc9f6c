/* A simulated job: what it consists of, and its random numbers. */
#pragma once

#include "base/random.h"
#include "notice/gate/gate.h"
#include "notice/message/gate_view.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 5
#define PROCS (2 * RANKS) /* threads of all ranks */
#define COMMS 6
#define OPS 900 /* of one thread */
#define EVENTS 400
#define REQUESTS 4000

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define S INT64_C(1000000000)

typedef enum {
    COMPUTE,
    COLLECTIVE,
    ICOLLECTIVE,
    SEND,
    ISEND,
    RECV,
    IRECV,
    SENDRECV,
    WAIT,
    TEST,
    FORBID,
    ALLOW,
    ENQUEUE,
    SYNC
} op_kind;

typedef struct {
    op_kind kind;
    int position, sub;
    int communicator, rooted, root; /* collectives */
    int source, destination, tag;   /* ranks; of the receive: -1 any */
    int sync;                       /* the send waits for its receiver */
    int payload;
    int request, request2; /* request2: the send of SENDRECV */
    int wild_group;        /* payloads of a group may come in any order */
    int source2, destination2, tag2;
} op;

typedef enum { RUN, PARKED, BLOCKED, DONE } proc_state;

typedef struct {
    int rank, ops, at, announced;
    op list[OPS];
    proc_state state;
    int64_t next;
    sl_gate_caller caller;
    uint64_t hash, wild_sum;
    uint64_t made;
    int unstopped; /* may make calls within the closed cut */
} proc;

typedef struct {
    int used, complete, receive, wild, collective, instance, counted, payload, source, communicator, tag;
    int match_source, match_tag, destination, sync;
    int64_t at; /* when complete */
    sl_gate_channel *channel;
    uint64_t number;
} request;

typedef struct {
    int members, device;
    int member[PROCS]; /* procs */
    int calls[PROCS];
    int arrived[EVENTS];
    int root_here[EVENTS];
} communicator;

typedef struct {
    int naive;         /* maximum of the counters alone: the first targets never rise */
    int kill;          /* the controller dies in the middle of the hold */
    int64_t hold_from; /* first hold, 0: none */
    int holds;
    int64_t limit;
} plan;

typedef struct {
    int holds, closed, released, killed, ended; /* ended: the program was over before */
    int64_t longest;                            /* to closure */
    int failed;
    char why[200];
    uint64_t hash;
    int64_t time;
} outcome;

typedef struct {
    uint64_t random;
    int64_t now;
    int ranks, procs, comms;
    proc proc[PROCS];
    communicator comm[COMMS];
    request request[REQUESTS];
    int requests;
    int send_queue[REQUESTS], sends, recv_queue[REQUESTS], recvs;
    sl_gate gate[RANKS];
    sl_gate_view view[RANKS];
    outcome out;
    uint64_t last_number[RANKS][SL_GATE_CHANNELS];
    int frozen; /* closed: no call may be made */
} job;

static inline uint64_t draw(job *j) {
    j->random += SL_RANDOM_STEP;
    return sl_random_mix(j->random);
}

static inline int below(job *j, int n) {
    return (int)(draw(j) % (uint64_t)n);
}

static inline void fail_job(job *j, const char *why) {
    if (!j->out.failed)
        snprintf(j->out.why, sizeof j->out.why, "%s", why);
    j->out.failed = 1;
}

static inline op message(int comm, int source, int destination, int tag, int payload) {
    return (op){
        .communicator = comm, .source = source, .destination = destination, .tag = tag, .payload = payload};
}
