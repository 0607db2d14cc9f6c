/* The order of messages of a plan (regime fifo): the best of PyTorch's lowering, of the order's own, and of
 * those that a replay decides by several rules (greedy.c). */
#pragma once

#include "plan/pipeline/order.h"

typedef struct sl_message_effort {
    sl_time cutoff; /* nothing is tried if messages that never wait for each other do not bring the makespan
                       below it */
    int quick;      /* only the most successful rules */
} sl_message_effort;

#define SL_MESSAGES_THOROUGHLY (&(sl_message_effort){.cutoff = SL_TIME_NEVER})

/** Gives a valid order its best order of issue within the ranks' receive buffers: none of its own if
 * PyTorch's lowering is as good. Does nothing in other regimes. SL_EINVAL: the ops alone deadlock; SL_ENOMEM.
 */
sl_status sl_messages_plan(const sl_problem *problem, const sl_message_effort *effort, sl_order *order);
