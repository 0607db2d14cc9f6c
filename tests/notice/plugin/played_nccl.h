/* What NCCL passes to the functions of a profiler's table, for any version of it: the same events, each in
 * the descriptor of the version. Events that a version lacks are not started, as in NCCL. */
#ifndef SL_TESTS_PLAYED_NCCL_H
#define SL_TESTS_PLAYED_NCCL_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "notice/plugin/profiler_abi_v1.h"
#include "notice/plugin/profiler_abi_v2.h"
#include "notice/plugin/profiler_abi_v3.h"
#include "notice/plugin/profiler_abi_v4.h"
#include "notice/plugin/profiler_abi_v5.h"
#include "notice/plugin/profiler_abi_v6.h"

enum { PLAYED_VERSIONS = 6 };

static int played_mask; /* one for the process, as in NCCL */

typedef struct played_nccl {
    int version;
    void *table;
    uint64_t hash; /* of the one communicator, for versions that name it in each event */
} played_nccl;

static inline int played_asked(void) {
    return __atomic_load_n(&played_mask, __ATOMIC_RELAXED);
}

#define PLAYED_ALL(X) X(1) X(2) X(3) X(4) X(5) X(6)

/* Initializes the descriptor of the version as `fill`, and starts it. */
#define PLAYED_START(version_, type_, parent_, rank_, ...)                                                   \
    case version_: {                                                                                         \
        sl_nccl_descriptor_v##version_ d = {.type = type_, .parent = parent_, .rank = rank_};                \
        __VA_ARGS__;                                                                                         \
        ((sl_nccl_table_v##version_ *)n->table)->start(context, &handle, &d);                                \
        break;                                                                                               \
    }

static inline void *played_open(played_nccl *n, int ranks, int rank) {
    void *context = NULL;
    switch (n->version) {
    case 1:
        ((sl_nccl_table_v1 *)n->table)->init(&context, &played_mask);
        break;
    case 2:
        ((sl_nccl_table_v2 *)n->table)->init(&context, &played_mask);
        break;
    case 3:
        ((sl_nccl_table_v3 *)n->table)->init(&context, &played_mask);
        break;
    case 4:
        ((sl_nccl_table_v4 *)n->table)->init(&context, &played_mask, NULL, n->hash, 1, ranks, rank, NULL);
        break;
    case 5:
        ((sl_nccl_table_v5 *)n->table)->init(&context, n->hash, &played_mask, NULL, 1, ranks, rank, NULL);
        break;
    default:
        ((sl_nccl_table_v6 *)n->table)->init(&context, n->hash, &played_mask, NULL, 1, ranks, rank, NULL);
    }
    return context;
}

/* The functions without a descriptor are alike in all versions. */
static inline void played_stop(const played_nccl *n, void *handle) {
    if (handle)
        ((sl_nccl_table_v1 *)n->table)->stop(handle);
}

static inline void played_close(const played_nccl *n, void *context) {
    if (context)
        ((sl_nccl_table_v1 *)n->table)->finalize(context);
}

/* An allreduce of floats. */
static inline void *played_collective(const played_nccl *n, void *context, int rank, size_t count,
                                      int channels) {
    void *handle = NULL;
    if (!(played_asked() & (SL_NCCL_COLLECTIVE | SL_NCCL_PROXY_OP | SL_NCCL_PROXY_STEP | SL_NCCL_KERNEL)))
        return NULL;
#define FILL(names, hashes)                                                                                  \
    names;                                                                                                   \
    hashes;                                                                                                  \
    d.collective.count = count;                                                                              \
    d.collective.channels = (uint8_t)channels
#define NUMBERS (d.collective.function = 4, d.collective.data_type = 7)
#define NAMES (d.collective.function = "AllReduce", d.collective.data_type = "ncclFloat32")
    switch (n->version) {
        PLAYED_START(1, SL_NCCL_COLLECTIVE, NULL, rank, FILL(NUMBERS, d.collective.hash = n->hash))
        PLAYED_START(2, SL_NCCL_COLLECTIVE, NULL, rank, FILL(NAMES, d.collective.hash = n->hash))
        PLAYED_START(3, SL_NCCL_COLLECTIVE, NULL, rank, FILL(NAMES, d.collective.hash = n->hash))
        PLAYED_START(4, SL_NCCL_COLLECTIVE, NULL, rank, FILL(NAMES, ))
        PLAYED_START(5, SL_NCCL_COLLECTIVE, NULL, rank, FILL(NAMES, ))
        PLAYED_START(6, SL_NCCL_COLLECTIVE, NULL, rank, FILL(NAMES, ))
    }
#undef FILL
    return handle;
}

/* A send or receive of floats. */
static inline void *played_message(const played_nccl *n, void *context, int rank, int sends, int peer,
                                   size_t count) {
    void *handle = NULL;
    if (!(played_asked() & (SL_NCCL_MESSAGE | SL_NCCL_PROXY_OP | SL_NCCL_PROXY_STEP | SL_NCCL_KERNEL)))
        return NULL;
#define FILL(names, hashes)                                                                                  \
    names;                                                                                                   \
    hashes;                                                                                                  \
    d.message.count = count;                                                                                 \
    d.message.peer = peer
#define MESSAGE_NUMBERS (d.message.function = sends ? 6 : 7, d.message.data_type = 7)
#define MESSAGE_NAMES (d.message.function = sends ? "Send" : "Recv", d.message.data_type = "ncclFloat32")
    switch (n->version) {
        PLAYED_START(1, SL_NCCL_MESSAGE, NULL, rank, FILL(MESSAGE_NUMBERS, d.message.hash = n->hash))
        PLAYED_START(2, SL_NCCL_MESSAGE, NULL, rank, FILL(MESSAGE_NAMES, d.message.hash = n->hash))
        PLAYED_START(3, SL_NCCL_MESSAGE, NULL, rank, FILL(MESSAGE_NAMES, d.message.hash = n->hash))
        PLAYED_START(4, SL_NCCL_MESSAGE, NULL, rank, FILL(MESSAGE_NAMES, ))
        PLAYED_START(5, SL_NCCL_MESSAGE, NULL, rank, FILL(MESSAGE_NAMES, ))
        PLAYED_START(6, SL_NCCL_MESSAGE, NULL, rank, FILL(MESSAGE_NAMES, ))
    }
#undef FILL
    return handle;
}

static inline void *played_op(const played_nccl *n, void *context, void *parent, int rank, pid_t pid,
                              int channel, int peer, int steps, int sends) {
    void *handle = NULL;
    if (!(played_asked() & (SL_NCCL_PROXY_OP | SL_NCCL_PROXY_STEP)))
        return NULL;
    switch (n->version) {
#define CASE(v)                                                                                              \
    PLAYED_START(v, SL_NCCL_PROXY_OP, parent, rank, d.proxy_op.pid = pid;                                    \
                 d.proxy_op.channel = (uint8_t)channel; d.proxy_op.peer = peer; d.proxy_op.steps = steps;    \
                 d.proxy_op.chunk = 4096; d.proxy_op.sends = sends)
        PLAYED_ALL(CASE)
#undef CASE
    }
    return handle;
}

static inline void *played_step(const played_nccl *n, void *context, void *parent, int rank, int step) {
    void *handle = NULL;
    if (!(played_asked() & SL_NCCL_PROXY_STEP))
        return NULL;
    switch (n->version) {
#define CASE(v) PLAYED_START(v, SL_NCCL_PROXY_STEP, parent, rank, d.proxy_step.step = step)
        PLAYED_ALL(CASE)
#undef CASE
    }
    return handle;
}

/* A block of a kernel begins; versions 1 and 2 have none. */
static inline void *played_kernel(const played_nccl *n, void *context, void *parent, int channel,
                                  uint64_t time) {
    void *handle = NULL;
    if (n->version < 3 || !(played_asked() & SL_NCCL_KERNEL))
        return NULL;
    switch (n->version) {
        PLAYED_START(3, SL_NCCL_KERNEL, parent, 0, d.kernel.channel = (uint8_t)channel)
#define CASE(v)                                                                                              \
    PLAYED_START(v, SL_NCCL_KERNEL, parent, 0, d.kernel.channel = (uint8_t)channel; d.kernel.time = time)
        CASE(4) CASE(5) CASE(6)
#undef CASE
    }
    return handle;
}

/* A step reaches a state with `value` bytes, or a kernel's block its end at `value`. */
static inline void played_reach(const played_nccl *n, void *handle, int state, uint64_t value) {
    if (!handle || (n->version < 4 && (state == SL_NCCL_SEND_PEER_WAIT || state == SL_NCCL_KERNEL_STOP)))
        return;
    if (n->version < 4) {
        sl_nccl_arguments_v1 a = {.proxy_op = {0, 0}};
        ((sl_nccl_table_v1 *)n->table)->record(handle, (sl_nccl_state)state, &a);
    } else {
        sl_nccl_arguments_v4 a = {.proxy_step = {value}}; /* a kernel's time is at the same place */
        ((sl_nccl_table_v4 *)n->table)->record(handle, (sl_nccl_state)state, &a);
    }
}

#endif
