/* The profiler interface of NCCL, re-declared: NCCL loads a library and calls the functions of one of its
 * tables ncclProfiler_v1, ncclProfiler_v2, ... A table is fixed once released; each version has a header of
 * its own (profiler_abi_v1.h to profiler_abi_v6.h), and tests/notice/plugin holds their layouts to what the
 * compiler makes of NCCL's own headers. This one has what all versions share.
 *
 * Rules of NCCL that its headers do not state:
 * - An event starts in one thread and may stop in another. A handle that a start returned as NULL is never
 *   stopped; parents whose handle is NULL are NULL.
 * - `stop` of a collective or message means "enqueued". Its proxy ops and kernels start and stop later.
 * - A proxy op may belong to another process of the node (PXN): then its parent is a handle of that process.
 * - `mask` of `init` may be written at any later time, too; NCCL reads it for each call. Groups are started
 *   although the mask lacks them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { SL_NCCL_SUCCESS = 0 };

/* Bits of a mask, and the type of an event. */
enum {
    SL_NCCL_GROUP = 1 << 0,
    SL_NCCL_COLLECTIVE = 1 << 1,
    SL_NCCL_MESSAGE = 1 << 2,
    SL_NCCL_PROXY_OP = 1 << 3,   /* one channel's share of a collective or message, over the network */
    SL_NCCL_PROXY_STEP = 1 << 4, /* one transfer of a proxy op */
    SL_NCCL_PROXY_CONTROL = 1 << 5,
    SL_NCCL_KERNEL = 1 << 6, /* from version 3: a channel's block of the kernel */
    SL_NCCL_NETWORK = 1 << 7,
    SL_NCCL_GROUP_CALL = 1 << 8, /* from version 5: the program's calls themselves */
    SL_NCCL_COLLECTIVE_CALL = 1 << 9,
    SL_NCCL_MESSAGE_CALL = 1 << 10,
    SL_NCCL_LAUNCH = 1 << 11,
    SL_NCCL_COPY_COLLECTIVE = 1 << 12, /* from version 6: by the GPU's copy engine */
    SL_NCCL_COPY_SYNC = 1 << 13,
    SL_NCCL_COPY_BATCH = 1 << 14
};

/* States of a proxy step: what it waits for from now on; and the end of a kernel's block. */
typedef enum sl_nccl_state {
    SL_NCCL_SEND_GPU_WAIT = 8,
    SL_NCCL_SEND_WAIT = 9, /* for the network */
    SL_NCCL_RECV_WAIT = 10,
    SL_NCCL_RECV_FLUSH_WAIT = 11,
    SL_NCCL_RECV_GPU_WAIT = 12,
    SL_NCCL_SEND_PEER_WAIT = 20, /* from version 4: for room at the receiver */
    SL_NCCL_KERNEL_STOP = 22,
    SL_NCCL_LAST_STATE = 30
} sl_nccl_state;

/* Versions 1 to 3 pass pid_t, later ones ncclPid_t, which is pid_t on Linux. */
typedef pid_t sl_nccl_pid;

typedef void (*sl_nccl_logger)(int level, unsigned long flags, const char *file, int line, const char *format,
                               ...);
