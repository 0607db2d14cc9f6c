/* Which cores a rank has. More threads than free cores make a run 3 to 100 times slower, so a rank's threads
 * are by default the cores that its process may run on (mpirun's, srun's or taskset's binding; a core counts
 * once, whatever hardware threads it has), divided by the ranks of this host that may run on them too.
 *
 * Binding a rank to a slice of its own keeps its memory near on a host with several memory nodes; on a host
 * with one it only takes freedom from the scheduler. */
#pragma once

#include "run/collective/group.h"
#include "run/file/run.h"

typedef enum sl_bind { SL_BIND_AUTO, SL_BIND_NEVER, SL_BIND_ALWAYS } sl_bind;

#define SL_CORES_WORDS 32 /* of 64 bits: as many processors of a host are told apart */

/* What a rank tells the others. */
typedef struct sl_rank_cores {
    char host[64];
    uint64_t processors[SL_CORES_WORDS]; /* that it may run on */
    int32_t cores;                       /* of them */
    int32_t memory_nodes;                /* of the host */
} sl_rank_cores;

/* What a rank has. */
typedef struct sl_cores_share {
    int threads;
    int first; /* of the cores that it may run on: its slice begins here */
    int bound; /* whether it should be bound to [first, first + threads) */
} sl_cores_share;

/** What this process may run on. SL_ESYS. */
sl_status sl_cores_read(sl_rank_cores *cores);

/** The share of rank `rank` out of what all ranks told; `threads` 0: as many as fit, at least 1. Bound only
 * where all that share the cores fit beside each other, and `bind` or the memory nodes ask for it. Pure. */
sl_cores_share sl_cores_divide(const sl_rank_cores *all, int ranks, int rank, int threads, sl_bind bind);

/** Fills run->device.threads where it is 0 (auto), and binds the process. Collective; before the first thread
 * that should inherit the binding. SL_ESYS, SL_EPEER, SL_ENOMEM. */
sl_status sl_cores_claim(sl_group *world, sl_run *run);
