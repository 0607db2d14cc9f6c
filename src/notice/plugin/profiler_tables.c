/* The tables that NCCL looks up by name: each translates its version's descriptors. */
#include "notice/plugin/nccl_words.h"
#include "notice/plugin/profiler_abi_v1.h"
#include "notice/plugin/profiler_abi_v2.h"
#include "notice/plugin/profiler_abi_v3.h"
#include "notice/plugin/profiler_abi_v4.h"
#include "notice/plugin/profiler_abi_v5.h"
#include "notice/plugin/profiler_abi_v6.h"
#include "notice/plugin/profiler_events.h"

#define NAME "slackline"

/* A data type that is not known counts as bytes. */
static uint64_t amount(size_t count, uint64_t size) {
    return (uint64_t)count * (size ? size : 1);
}

static uint64_t of_steps(int steps, int chunk) {
    return steps > 0 && chunk > 0 ? (uint64_t)steps * (uint64_t)chunk : 0;
}

/* Versions differ in these: functions and types are numbers in version 1; 1 to 3 name the communicator in
 * each event, and messages count their channels from 4, collectives name them otherwise before; kernels have
 * times from 4. */
#define CALL_1(function) sl_nccl_call_of_number(function)
#define CALL_2(function) sl_nccl_call_of(function)
#define SIZE_1(type) sl_nccl_size_of_number(type)
#define SIZE_2(type) sl_nccl_size_of(type)
#define HASH_1(task) task.hash
#define HASH_4(task) 0
#define NO_KERNEL(d, e) (void)(d)
#define KERNEL_3(d, e) (e)->channel = (d)->kernel.channel
#define KERNEL_4(d, e) (e)->channel = (d)->kernel.channel, (e)->time = (d)->kernel.time
#define NO_COPY(d, e) (void)(d)
#define COPY_6(d, e)                                                                                         \
    (e)->call = sl_nccl_call_of((d)->copy_collective.function), (e)->peer = (d)->copy_collective.root,       \
    (e)->bytes = amount((d)->copy_collective.count, sl_nccl_size_of((d)->copy_collective.data_type))

#define TRANSLATE(version, CALL, SIZE, HASH, KERNEL, COPY)                                                   \
    static int start_v##version(void *context, void **handle, sl_nccl_descriptor_v##version *d) {            \
        if (!handle)                                                                                         \
            return SL_NCCL_SUCCESS;                                                                          \
        *handle = NULL;                                                                                      \
        if (!d)                                                                                              \
            return SL_NCCL_SUCCESS;                                                                          \
        sl_nccl_event e = {.type = d->type, .parent = d->parent, .rank = d->rank};                           \
        if (e.type == SL_NCCL_COLLECTIVE) {                                                                  \
            e.communicator = HASH(d->collective);                                                            \
            e.call = CALL(d->collective.function);                                                           \
            e.peer = d->collective.root;                                                                     \
            e.bytes = amount(d->collective.count, SIZE(d->collective.data_type));                            \
            e.channels = d->collective.channels;                                                             \
        } else if (e.type == SL_NCCL_MESSAGE) {                                                              \
            e.communicator = HASH(d->message);                                                               \
            e.call = CALL(d->message.function);                                                              \
            e.peer = d->message.peer;                                                                        \
            e.bytes = amount(d->message.count, SIZE(d->message.data_type));                                  \
        } else if (e.type == SL_NCCL_PROXY_OP) {                                                             \
            e.pid = d->proxy_op.pid;                                                                         \
            e.channel = d->proxy_op.channel;                                                                 \
            e.peer = d->proxy_op.peer;                                                                       \
            e.sends = d->proxy_op.sends;                                                                     \
            e.bytes = of_steps(d->proxy_op.steps, d->proxy_op.chunk);                                        \
        } else if (e.type == SL_NCCL_PROXY_STEP) {                                                           \
            e.step = (unsigned)d->proxy_step.step;                                                           \
        } else if (e.type == SL_NCCL_KERNEL) {                                                               \
            KERNEL(d, &e);                                                                                   \
        } else if (e.type == SL_NCCL_COPY_COLLECTIVE) {                                                      \
            COPY(d, &e);                                                                                     \
        }                                                                                                    \
        return sl_nccl_start(context, handle, &e);                                                           \
    }

TRANSLATE(1, CALL_1, SIZE_1, HASH_1, NO_KERNEL, NO_COPY)
TRANSLATE(2, CALL_2, SIZE_2, HASH_1, NO_KERNEL, NO_COPY)
TRANSLATE(3, CALL_2, SIZE_2, HASH_1, KERNEL_3, NO_COPY)
TRANSLATE(4, CALL_2, SIZE_2, HASH_4, KERNEL_4, NO_COPY)
TRANSLATE(5, CALL_2, SIZE_2, HASH_4, KERNEL_4, NO_COPY)
TRANSLATE(6, CALL_2, SIZE_2, HASH_4, KERNEL_4, COPY_6)

static int stop(void *handle) {
    return sl_nccl_stop(handle);
}

static int finalize(void *context) {
    return sl_nccl_close(context);
}

/* Versions 1 to 3 have no bytes of a step. */
#define OLD_RECORD(version)                                                                                  \
    static int record_v##version(void *handle, sl_nccl_state state, sl_nccl_arguments_v##version *a) {       \
        (void)a;                                                                                             \
        return sl_nccl_reach(handle, (int)state, 0, 0);                                                      \
    }
#define NEW_RECORD(version)                                                                                  \
    static int record_v##version(void *handle, sl_nccl_state state, sl_nccl_arguments_v##version *a) {       \
        int kernel = state == SL_NCCL_KERNEL_STOP;                                                           \
        return sl_nccl_reach(handle, (int)state, a && !kernel ? a->proxy_step.size : 0,                      \
                             a && kernel ? a->kernel.time : 0);                                              \
    }

OLD_RECORD(1)
OLD_RECORD(2)
OLD_RECORD(3)
NEW_RECORD(4)
NEW_RECORD(5)
NEW_RECORD(6)

#define OLD_INIT(version)                                                                                    \
    static int init_v##version(void **context, int *mask) {                                                  \
        return sl_nccl_open(context, mask, version, 0, 0, -1);                                               \
    }
OLD_INIT(1)
OLD_INIT(2)
OLD_INIT(3)

static int init_v4(void **context, int *mask, const char *name, uint64_t hash, int nodes, int ranks, int rank,
                   sl_nccl_logger log) {
    (void)name, (void)nodes, (void)log;
    return sl_nccl_open(context, mask, 4, hash, ranks, rank);
}

static int init_v5(void **context, uint64_t hash, int *mask, const char *name, int nodes, int ranks, int rank,
                   sl_nccl_logger log) {
    (void)name, (void)nodes, (void)log;
    return sl_nccl_open(context, mask, 5, hash, ranks, rank);
}

#define init_v6 init_v5

#define TABLE(version)                                                                                       \
    extern sl_nccl_table_v##version ncclProfiler_v##version;                                                 \
    __attribute__((visibility("default"))) sl_nccl_table_v##version ncclProfiler_v##version = {              \
        NAME, init_v##version, start_v##version, stop, record_v##version, finalize};
TABLE(1)
TABLE(2)
TABLE(3)
TABLE(4)
TABLE(5)
TABLE(6)
