/* Version 6 of the profiler interface (NCCL 2.29): collectives of the GPU's copy engine. See profiler_abi.h.
 */
#pragma once

#include "notice/plugin/profiler_abi.h"

typedef struct sl_nccl_descriptor_v6 {
    uint64_t type;
    void *parent;
    int rank; /* in the communicator */
    union {
        struct {
            bool captured;
            int depth;
        } group_call;
        struct {
            const char *function;
            size_t count;
            const char *data_type;
            int root;
            void *stream;
            bool captured;
        } collective_call;
        struct {
            const char *function;
            size_t count;
            const char *data_type;
            void *stream;
            bool captured;
        } message_call;
        struct {
            void *stream;
        } launch;
        struct {
            uint64_t number;
            const char *function;
            const void *send;
            void *receive;
            size_t count;
            int root;
            const char *data_type;
            uint8_t channels, warps;
            const char *algorithm, *protocol;
            void *group; /* the parent in version 4 */
        } collective;
        struct {
            const char *function;
            void *buffer;
            const char *data_type;
            size_t count;
            int peer;
            uint8_t channels;
            void *group; /* the parent in version 4 */
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
            uint64_t time; /* ns of the GPU's clock */
        } kernel;
        struct {
            int64_t id;
            void *data;
        } network;
        struct {
            uint64_t number;
            const char *function;
            const void *send;
            void *receive;
            size_t count;
            int root;
            const char *data_type;
            const char *synchronization;
            bool inside_batch;
            uint32_t batch, batches, copy_number;
            void *stream;
        } copy_collective;
        struct {
            bool complete;
            int ranks;
        } copy_sync;
        struct {
            int ops;
            size_t bytes;
            bool synchronized;
        } copy_batch;
    };
} sl_nccl_descriptor_v6;

typedef union sl_nccl_arguments_v6 {
    struct {
        size_t size;
    } proxy_step;
    struct {
        int appended;
    } proxy_control;
    struct {
        void *data;
    } network;
    struct {
        uint64_t time; /* ns of the GPU's clock */
    } kernel;
} sl_nccl_arguments_v6;

typedef struct sl_nccl_table_v6 {
    const char *name;
    int (*init)(void **context, uint64_t hash, int *mask, const char *name, int nodes, int ranks, int rank,
                sl_nccl_logger log);
    int (*start)(void *context, void **handle, sl_nccl_descriptor_v6 *descriptor);
    int (*stop)(void *handle);
    int (*record)(void *handle, sl_nccl_state state, sl_nccl_arguments_v6 *arguments);
    int (*finalize)(void *context);
} sl_nccl_table_v6;
