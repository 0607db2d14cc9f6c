/* The engine's internal state, shared by its files. */
#pragma once

#include "plan/lower/flow.h"
#include "run/device/arena.h"
#include "run/engine/copier.h"
#include "run/engine/engine.h"
#include "run/engine/messenger_state.h"

/* Buffers of one size, allocated on demand, kept until the engine closes; pinned for copies by the device. */
typedef struct sl_pool {
    sl_device *device; /* or NULL */
    sl_arena **memory; /* [count] of a buffer each */
    char **buffer;     /* [count] */
    size_t memory_capacity, capacity;
    int count;
    int32_t *idle; /* [idles] a stack of numbers; sends only, for the flow numbers the others */
    size_t idle_capacity;
    int idles;
} sl_pool;

/* Messages handed over to one neighbor and not yet known to have arrived, in order. */
typedef struct sl_way {
    int32_t *message; /* [the queue's messages] of this iteration */
    int first, count; /* message[first .. first + count) are under way */
} sl_way;

/* A block whose work is queued, and whose results have not been handed over. */
typedef struct sl_queued {
    int32_t step;
    int steps;     /* 0: none */
    int mark;      /* number of its mark */
    sl_time start; /* of its ops, at the earliest */
} sl_queued;

struct sl_engine {
    sl_engine_config config;            /* stage: a copy */
    size_t bytes;                       /* of a buffer: the largest message of the stages here */
    sl_time *pace[SL_OP_KINDS], *saved; /* [stages] */
    sl_time *offload;                   /* [stages] */
    sl_copier copier;
    const sl_program *program;
    const sl_rank_program *mine;
    sl_messenger messenger; /* fifo */
    sl_flow posted;         /* the other regimes */
    const sl_flow *flow;    /* the one of this iteration */
    sl_pool received, local, sent;
    int32_t *sending; /* [messages] the send buffer of a message that is being written or under way */
    sl_way way[2];    /* SL_SEND_NEXT, SL_SEND_PREVIOUS */
    uint32_t iteration;
    unsigned char *prepared; /* [stages] in this iteration */
    int next_post;
    sl_queued queued;
    sl_time free_at; /* earliest start of the next block on this rank's part */
};

/** Room for the numbers and addresses of `count` buffers. */
sl_status sl_pool_reserve(sl_pool *pool, int count);
/** At least `count` buffers of `bytes`. */
sl_status sl_pool_hold(sl_pool *pool, int count, size_t bytes);
/** A buffer that is idle, or a new one. */
sl_status sl_pool_take(sl_pool *pool, size_t bytes, int32_t *number);
void sl_pool_give(sl_pool *pool, int32_t number);
void sl_pool_free(sl_pool *pool);

/** Bytes of a message. */
size_t sl_message_bytes(const sl_engine *engine, const sl_message *message);

/** The buffer for a result of step `i` that will be sent. */
sl_status sl_sends_buffer(sl_engine *engine, int32_t i, void **buffer);
/** Hands over the results of a block of `steps` steps from `i` on, ready at `end`; engine->free_at becomes
 * the time at which the regime lets the next block start. */
sl_status sl_sends_issue(sl_engine *engine, int32_t i, int steps, sl_time end);
/** Hands a message over that may leave at `ready`. Fifo: the messenger's, as the next. */
sl_status sl_sends_hand_over(sl_engine *engine, int32_t message, sl_time ready);
/** The next message towards a neighbor (0 or 1: engine->way) that has arrived, *message -1: none. */
sl_status sl_sends_next_published(sl_engine *engine, int way, int32_t *message, sl_sent *sent);
/** Records a send that has arrived; its buffer is free. */
void sl_sends_note(sl_engine *engine, int32_t message, const sl_sent *sent);
/** Notes the sends that have arrived, without waiting. */
sl_status sl_sends_reap(sl_engine *engine);
/** Waits until all have arrived. */
sl_status sl_sends_finish(sl_engine *engine);

/** Posts receives, waits, computes, holds the pace, hands over: one block from step `i` on, `steps` steps. */
sl_status sl_block_run(sl_engine *engine, int32_t i, int steps, sl_engine_result *result);
/** Waits for the block that is queued, if any, and hands its results over. */
sl_status sl_block_finish(sl_engine *engine, sl_engine_result *result);
/** Posts the receives due before step `i`. */
sl_status sl_block_post(sl_engine *engine, int32_t i);
