/* The inside of a group, shared by its files.
 *
 *   group.c   opening, bytes, gathering, waiting
 *   sum.c     sums and maxima, as halves in flight
 *   flight.c  messages between pairs of ranks, delayed if their link is emulated */
#pragma once

#include "run/collective/group.h"
#include "run/transport/link_emulator.h"

#include <mpi.h>
#include <stdint.h>

enum { SL_TAG_PASS = 1, SL_TAG_SUM, SL_TAG_GATHER, SL_TAG_EXCHANGE };

/* The link from this rank to another one. */
typedef struct sl_group_link {
    sl_link_emulation emulation;
    sl_link_emulator emulator;
} sl_group_link;

/* A message still delayed by an emulated link. Those of one link are ordered by due time. */
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
    sl_group_held *held;  /* [holds] of all flights, in handover order */
    size_t held_capacity;
    int holds;
    sl_group_flight *own; /* of sums that finish immediately */
};

struct sl_group_flight {
    sl_group *group;
    MPI_Request *request; /* [requests] of 2 * size */
    int requests, holds;  /* holds: its messages that are still delayed */
    /* the sum under way */
    const float *values;
    float *scratch;
    size_t count;
};

/** Yields the core: the `rounds`-th wait in a row, at most until `until`. */
void sl_group_nap(sl_group_wait wait, int *rounds, sl_time until);

/** The time at which a message to `peer`, handed over at `ready`, may be sent: `ready` without emulation.
 * Occupies the link. */
sl_time sl_group_due(sl_group *group, int peer, sl_time ready, size_t bytes);

/* Messages of a flight: all receives and sends are entered, then waited for together. */
sl_status sl_flight_receive(sl_group_flight *flight, float *into, size_t count, int peer, int tag);
sl_status sl_flight_send(sl_group_flight *flight, const float *data, size_t count, int peer, int tag);
sl_status sl_flight_finish(sl_group_flight *flight);
