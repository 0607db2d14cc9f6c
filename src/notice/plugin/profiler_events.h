/* The events of NCCL's profiler, whatever their version, as records in the probe's rings (README.md). */
#pragma once

#include "notice/plugin/profiler_abi.h"

/* A started event, from the descriptor of any version; unused fields are 0. */
typedef struct sl_nccl_event {
    uint64_t type;
    const void *parent;
    int rank;
    uint64_t communicator; /* versions 1 to 3; 0: known from the context */
    int call, peer;        /* of a collective or message; a proxy op has a peer, too */
    uint64_t bytes;        /* count x size; of a proxy op the largest amount */
    int channels;          /* blocks of its kernel; 0: unknown */
    sl_nccl_pid pid;       /* of a proxy op */
    int channel, sends;
    unsigned step;
    uint64_t time; /* of a kernel's block, the GPU's clock; 0: none */
} sl_nccl_event;

/** A communicator comes. `name` 0 and ranks 0: not known yet. *context is NULL when nothing is recorded.
 * Always SL_NCCL_SUCCESS, as all of these: NCCL is never disturbed. */
int sl_nccl_open(void **context, int *mask, int version, uint64_t name, int ranks, int rank);
int sl_nccl_close(void *context);

/** *handle is NULL for events that are not followed. */
int sl_nccl_start(const void *context, void **handle, const sl_nccl_event *event);
int sl_nccl_stop(const void *handle);

/** An event reaches a state; `size`: bytes of a step; `time`: of a kernel's end. */
int sl_nccl_reach(const void *handle, int state, uint64_t size, uint64_t time);
