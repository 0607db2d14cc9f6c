/* What every rank of a job does at one moment, as plain values: from the gates and rings of its processes
 * (look.h), or from the dumps of a flight recorder (torch_dump.h). diagnosis.h finds from it why the job
 * hangs or stalls.
 *
 * As JSON it crosses nodes and is kept in the folder of the watch (hang.json). */
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "notice/gate/gate.h"

#define SL_HANG_CALL 48     /* a call's name */
#define SL_HANG_ON_DEVICE 2 /* `inside`: its device may wait in a call that it has enqueued */
#define SL_HANG_POLLS 3     /* `inside`: it tests in a loop whether what it waits for has come */
#define SL_HANG_FRAMES 320  /* of a thread, the innermost first */

/* A call that a thread is in, and earlier ones that it waits for, count on channels (notice/gate/gate.h). */
typedef struct sl_hang_wait {
    sl_channel_key channel;
    uint64_t number;
    int need; /* it was posted before; else it is the call itself */
} sl_hang_wait;

typedef struct sl_hang_thread {
    int inside;              /* in a call that waits for other ranks; else in the program's own code */
    char call[SL_HANG_CALL]; /* MPI_Allreduce; the last one if not inside */
    int peer;                /* SL_PEER_... of notice/record/call.h */
    double for_s;            /* unchanged for so long */
    char state;              /* of the kernel: R, S, D, T, t, Z; '?': unknown */
    char doing[96];          /* by the kernel: "computes", "sleeps", "waits for a lock", "reads /data/x" */
    char frames[SL_HANG_FRAMES]; /* "" if unknown */
    sl_hang_wait *wait;
    size_t waits;
} sl_hang_thread;

/* A collective that the rank has entered. */
typedef struct sl_hang_collective {
    uint64_t communicator, number;
    char call[SL_HANG_CALL]; /* without the I of a posted one */
    int root;
    int sized; /* `bytes` is known, and must be equal on all members */
    uint64_t bytes;
    char shape[96]; /* in a dump: sizes and type of the tensors; "" */
} sl_hang_collective;

typedef struct sl_hang_channel {
    sl_channel_key key;
    uint64_t announced; /* calls made on it, with the one under way */
    uint64_t matched;   /* WILD: messages that its receives have got */
} sl_hang_channel;

typedef struct sl_hang_rank {
    int rank, pid;
    char host[64];
    int ended;      /* the process is gone */
    int finished;   /* it has called MPI_Finalize, or is at its exit */
    double still_s; /* no call for so long */
    sl_hang_thread *thread;
    size_t threads;
    sl_hang_channel *channel;
    size_t channels;
    sl_hang_collective *collective; /* the latest of each communicator, in their order */
    size_t collectives;
    int moving; /* it makes calls: nothing else is known of it */
} sl_hang_rank;

typedef struct sl_hang_job {
    sl_hang_rank *rank; /* in order; one may be missing */
    size_t ranks;
    int size; /* of the world */
    int from_dumps;
} sl_hang_job;

void sl_hang_rank_free(sl_hang_rank *rank);
void sl_hang_job_free(sl_hang_job *job);

/** The rank of that number; NULL: it is not known. */
const sl_hang_rank *sl_hang_find(const sl_hang_job *job, int rank);

/** The rank's channel of that key; NULL: it has none. */
const sl_hang_channel *sl_hang_channel_of(const sl_hang_rank *rank, const sl_channel_key *key);

/** Collective `number` of a communicator as this rank called it; NULL: not known (any more, or not yet). */
const sl_hang_collective *sl_hang_collective_of(const sl_hang_rank *rank, uint64_t communicator,
                                                uint64_t number);

/** Adds one, keeping ranks in order; *rank becomes the job's. A second process of a rank replaces one that
 * has ended. SL_ENOMEM: it is freed. */
sl_status sl_hang_add(sl_hang_job *job, sl_hang_rank *rank);

/** A rank as JSON; NULL: no memory. */
json_t *sl_hang_rank_json(const sl_hang_rank *rank);

/** The inverse. SL_EINVAL: `json` is not such an object. SL_ENOMEM. */
sl_status sl_hang_rank_read(const json_t *json, sl_hang_rank *rank);

/** The whole job: {"size": N, "ranks": [...]}. */
json_t *sl_hang_job_json(const sl_hang_job *job);
sl_status sl_hang_job_read(const json_t *json, sl_hang_job *job);
