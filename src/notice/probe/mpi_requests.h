/* Requests: what was posted, by the request's handle, until a Wait or Test completes it. Without lock: any
 * thread may post and any may complete.
 *
 * A library may give several calls the same handle when they are complete at once (small sends). The second
 * of them is recognised by that and counts as complete when it is posted. */
#pragma once

#include <stdint.h>

#include "notice/probe/communicators.h"
#include "notice/record/call.h"

typedef struct sl_request {
    sl_call call;             /* the posting */
    int persistent;           /* made by an _init call, may be started again and again */
    int active;               /* persistent: started and not yet complete */
    void *created;            /* MPI_Comm_idup: where the handle of the communicator will stand */
    uint64_t new_name;        /* and what the communicator will be called */
    void *owned;              /* to be freed when it is complete */
    sl_gate_channel *channel; /* that it is a call of; NULL: no gate, or nobody else has a part in it */
    uint64_t number;          /* there; of a persistent one the last that was started */
    sl_communicator *wild;    /* a wildcard receive of this communicator; NULL: none */
    int cancelled;            /* MPI_Cancel was called */
} sl_request;

/** Enters a request. 1 done; 0 this handle is in the table already: nothing is entered; -1 no place. */
int sl_request_add(uint64_t handle, const sl_request *request);

/** The request of a handle, in the table, or NULL. It stays good as long as nobody completes it, which MPI
 * forbids to other threads while one works on it. */
sl_request *sl_request_find(uint64_t handle);

/** Takes a request that has completed out of the table, a persistent one only sets inactive. 1 and *request
 * when there was one that was active, otherwise 0. */
int sl_request_complete(uint64_t handle, sl_request *request);

/** A persistent request is started at `start`: fills *call with what it does. 0: it is not known. */
int sl_request_start(uint64_t handle, int64_t start, sl_call *call);

/** Takes it out whatever it is. */
void sl_request_remove(uint64_t handle);
