/* Version 1 of the profiler interface (NCCL 2.23): functions and data types are numbers, and the communicator
 * is known from its events alone. See profiler_abi.h. */
#pragma once

#include "notice/plugin/profiler_abi.h"

typedef struct sl_nccl_descriptor_v1 {
    uint8_t type;
    void *parent;
    int rank; /* in the communicator */
    union {
        struct {
            const char *name;
            uint64_t hash; /* of the communicator */
            uint64_t number;
            uint8_t function;
            const void *send;
            void *receive;
            size_t count;
            int root;
            uint8_t data_type;
            uint32_t op;
            size_t traffic;
            uint8_t channels, warps, algorithm, protocol;
            int collnet, nvls;
        } collective;
        struct {
            const char *name;
            uint64_t hash;
            uint8_t function;
            void *buffer;
            uint8_t data_type;
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
    };
} sl_nccl_descriptor_v1;

typedef union sl_nccl_arguments_v1 {
    struct {
        size_t size;
        int steps;
    } proxy_op;
    struct {
        int appended;
    } proxy_control;
} sl_nccl_arguments_v1;

typedef struct sl_nccl_table_v1 {
    const char *name;
    int (*init)(void **context, int *mask);
    int (*start)(void *context, void **handle, sl_nccl_descriptor_v1 *descriptor);
    int (*stop)(void *handle);
    int (*record)(void *handle, sl_nccl_state state, sl_nccl_arguments_v1 *arguments);
    int (*finalize)(void *context);
} sl_nccl_table_v1;
