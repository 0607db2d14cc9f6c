/* Version 3 of the profiler interface (NCCL 2.25): kernels, without times, and events of network plug-ins.
 * See profiler_abi.h. */
#pragma once

#include "notice/plugin/profiler_abi.h"

typedef struct sl_nccl_descriptor_v3 {
    uint8_t type;
    void *parent;
    int rank; /* in the communicator */
    union {
        struct {
            const char *name;
            uint64_t hash; /* of the communicator */
            uint64_t number;
            const char *function;
            const void *send;
            void *receive;
            size_t count;
            int root;
            const char *data_type;
            uint8_t channels, warps;
            const char *algorithm, *protocol;
        } collective;
        struct {
            const char *name;
            uint64_t hash;
            const char *function;
            void *buffer;
            const char *data_type;
            size_t count;
            int peer;
        } message;
        struct {
            sl_nccl_pid pid; /* that made it */
            uint8_t channel;
            int peer, steps, chunk, sends;
        } proxy_op;
        struct {
            int step;
        } proxy_step;
        struct {
            uint8_t channel;
        } kernel;
        struct {
            int64_t id;
            void *data;
        } network;
    };
} sl_nccl_descriptor_v3;

typedef union sl_nccl_arguments_v3 {
    struct {
        size_t size;
        int steps;
    } proxy_op;
    struct {
        int appended;
    } proxy_control;
} sl_nccl_arguments_v3;

typedef struct sl_nccl_table_v3 {
    const char *name;
    int (*init)(void **context, int *mask);
    int (*start)(void *context, void **handle, sl_nccl_descriptor_v3 *descriptor);
    int (*stop)(void *handle);
    int (*record)(void *handle, sl_nccl_state state, sl_nccl_arguments_v3 *arguments);
    int (*finalize)(void *context);
} sl_nccl_table_v3;
