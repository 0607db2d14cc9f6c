/* A group from inside: what its files share. */
#ifndef SL_RUN_COLLECTIVE_GROUP_INSIDE_H
#define SL_RUN_COLLECTIVE_GROUP_INSIDE_H

#include "run/collective/group.h"

#include <mpi.h>
#include <stdint.h>

enum { SL_TAG_PASS = 1, SL_TAG_SUM = 2, SL_TAG_EXCHANGE = 3 };

struct sl_group {
    MPI_Comm communicator;
    int rank, size, threads;
    sl_group_wait wait;
    int *counts, *starts; /* [size], of the collective under way */
    uint64_t *sizes;      /* [size] likewise */
};

/** A rank that waits gives its core to those that compute: short naps first, then up to 200 us. */
void sl_group_nap(sl_group_wait wait, int *rounds);

#endif
