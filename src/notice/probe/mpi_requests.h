/* Requests: what was posted, by the request's handle, until a Wait or Test completes it. Without locks: any
 * thread may post and any may complete.
 *
 * A library may give several calls the same handle when they are complete at once (small sends). The second
 * one is recognized by that and counts as complete when posted. */
#pragma once

#include <stdint.h>

#include "notice/probe/communicators.h"
#include "notice/record/call.h"

typedef struct sl_request {
    sl_call call;             /* the posting */
    int persistent;           /* made by an _init call, may be started repeatedly */
    int active;               /* persistent: started and not yet complete */
    void *created;            /* MPI_Comm_idup: address of the communicator's future handle */
    uint64_t new_name;        /* and the communicator's future name */
    void *owned;              /* freed at completion */
    sl_gate_channel *channel; /* of the call; NULL: no gate, or no other rank takes part */
    uint64_t number;          /* there; for a persistent request the last one started */
    sl_communicator *wild;    /* a wildcard receive of this communicator; NULL: none */
    int cancelled;            /* MPI_Cancel was called */
} sl_request;

/** Adds a request. 1 done; 0 this handle is in the table already: nothing is added; -1 no room. */
int sl_request_add(uint64_t handle, const sl_request *request);

/** The request of a handle in the table, or NULL. Valid until a thread completes it, which MPI forbids to
 * other threads while one works on it. */
sl_request *sl_request_find(uint64_t handle);

/** Removes a completed request from the table; a persistent one is only set inactive. 1 and *request if there
 * was an active one, otherwise 0. */
int sl_request_complete(uint64_t handle, sl_request *request);

/** Starts a persistent request at `start`: fills *call with what it does. 0: unknown request. */
int sl_request_start(uint64_t handle, int64_t start, sl_call *call);

/** Removes it in any state. */
void sl_request_remove(uint64_t handle);
