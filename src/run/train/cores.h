/* The cores of a rank. More threads than free cores make a run 3 to 100 times slower. So the default number
 * of threads of a rank is the number of cores that its process may run on (the binding by mpirun, srun or
 * taskset; a core counts once, regardless of its hardware threads), divided by the number of ranks of this
 * host that may also run on them.
 *
 * Binding a rank to its own slice keeps its memory near on a host with several memory nodes; on a host with
 * one it only restricts the scheduler. */
#pragma once

#include "run/collective/group.h"
#include "run/file/run.h"

typedef enum sl_bind { SL_BIND_AUTO, SL_BIND_NEVER, SL_BIND_ALWAYS } sl_bind;

#define SL_CORES_WORDS 32 /* of 64 bits: bounds the processors of a host that are distinguished */

/* Sent by each rank to the others. */
typedef struct sl_rank_cores {
    char host[64];
    uint64_t processors[SL_CORES_WORDS]; /* that it may run on */
    int32_t cores;                       /* of them */
    int32_t memory_nodes;                /* of the host */
} sl_rank_cores;

/* The share of a rank. */
typedef struct sl_cores_share {
    int threads;
    int first; /* its slice begins here, among the cores that it may run on */
    int bound; /* whether it should be bound to [first, first + threads) */
} sl_cores_share;

/** Reads the cores that this process may run on. SL_ESYS. */
sl_status sl_cores_read(sl_rank_cores *cores);

/** The share of rank `rank`, from the data of all ranks; `threads` 0: as many as fit, at least 1. Bound only
 * if all ranks that share the cores fit on them together, and `bind` or the memory nodes require it. Pure. */
sl_cores_share sl_cores_divide(const sl_rank_cores *all, int ranks, int rank, int threads, sl_bind bind);

/** Fills run->device.threads if it is 0 (auto), and run->device.local, and binds the process. Collective;
 * before the first thread that must inherit the binding. SL_ESYS, SL_EPEER, SL_ENOMEM. */
sl_status sl_cores_claim(sl_group *world, sl_run *run);
