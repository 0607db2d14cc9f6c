/* A group from inside: what its files share.
 *
 *   group.c   opening, bytes, gathering, waiting
 *   sum.c     sums and maxima, as halves that fly
 *   flight.c  messages between pairs of ranks, held back where their link is emulated */
#pragma once

#include "run/collective/group.h"
#include "run/transport/link_emulator.h"

#include <mpi.h>
#include <stdint.h>

enum { SL_TAG_PASS = 1, SL_TAG_SUM, SL_TAG_GATHER, SL_TAG_EXCHANGE };

/* The way from this rank to another one. */
typedef struct sl_group_link {
    sl_link_emulation emulation;
    sl_link_emulator emulator;
} sl_group_link;

/* A message that an emulated link has not let through yet. Of one link those that are due first come first.
 */
typedef struct sl_group_held {
    sl_group_flight *flight;
    const float *data;
    size_t count;
    int peer, tag;
    sl_time due;
} sl_group_held;

struct sl_group {
    MPI_Comm communicator;
    int rank, size, threads;
    sl_group_wait wait;
    int *counts, *starts; /* [size], of the collective under way */
    uint64_t *sizes;      /* [size] likewise */
    sl_group_link *link;  /* [size] */
    sl_group_held *held;  /* [holds] of all flights, as they were handed over */
    size_t held_capacity;
    int holds;
    sl_group_flight *own; /* of sums that are waited for at once */
};

struct sl_group_flight {
    sl_group *group;
    MPI_Request *request; /* [requests] of 2 * size */
    int requests, holds;  /* holds: messages of it that are still held back */
    /* the sum under way */
    const float *values;
    float *scratch;
    size_t count;
};

/** Gives the core to others for a while: the `rounds`-th wait of a row, at most until `until`. */
void sl_group_nap(sl_group_wait wait, int *rounds, sl_time until);

/** When a message to `peer`, handed over at `ready`, may be sent: `ready` where nothing is emulated. Takes
 * its place on the link. */
sl_time sl_group_due(sl_group *group, int peer, sl_time ready, size_t bytes);

/* Messages of a flight: all receives and sends are entered, then waited for together. */
sl_status sl_flight_receive(sl_group_flight *flight, float *into, size_t count, int peer, int tag);
sl_status sl_flight_send(sl_group_flight *flight, const float *data, size_t count, int peer, int tag);
sl_status sl_flight_finish(sl_group_flight *flight);
