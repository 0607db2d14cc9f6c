#include "run/arrange/exchange.h"
#include "base/memory.h"
#include "run/arrange/rank_state.h"

#include <string.h>

/* The order's own issues, if it has any; a rank has at most two per op. */
static sl_status exchange_issues(const sl_trainer *t, int capacity, sl_order *order) {
    sl_group *group = t->groups.world;
    int32_t own = order->issue != NULL;
    SL_TRY(sl_group_broadcast(group, t->leader, &own, sizeof own));
    if (!own)
        return SL_OK;
    int *count, ranks = order->ranks;
    SL_TRY(sl_alloc(&count, (size_t)ranks, sizeof *count));
    if (sl_trainer_leads(t))
        memcpy(count, order->issues, (size_t)ranks * sizeof *count);
    sl_status status = sl_group_broadcast(group, t->leader, count, (size_t)ranks * sizeof *count);
    for (int rank = 0; rank < ranks && status == SL_OK; rank++)
        if (count[rank] < 0 || count[rank] > 2 * capacity)
            status = sl_error(SL_EPEER, "an order of %d sends and receives on rank %d", count[rank], rank);
    if (status == SL_OK && !sl_trainer_leads(t)) {
        status = sl_order_make_issues(order, count);
        if (status == SL_OK)
            memcpy(order->issues, count, (size_t)ranks * sizeof *count);
    }
    for (int rank = 0; rank < ranks && status == SL_OK; rank++)
        status = sl_group_broadcast(group, t->leader, order->issue[rank],
                                    (size_t)count[rank] * sizeof **order->issue);
    sl_free(count);
    return status;
}

sl_status sl_exchange_order(const sl_trainer *t, const sl_problem *problem, sl_order *order) {
    sl_group *group = t->groups.world;
    int capacity = 0; /* F, I and W, in parts, on the rank that has most */
    for (int rank = 0; rank < problem->ranks; rank++) {
        int ops = sl_problem_rank_ops(problem, rank, 3);
        capacity = ops > capacity ? ops : capacity;
    }
    if (!sl_trainer_leads(t))
        SL_TRY(sl_order_make(problem->ranks, capacity, order));
    SL_TRY(sl_group_broadcast(group, t->leader, order->count, (size_t)problem->ranks * sizeof *order->count));
    for (int rank = 0; rank < problem->ranks; rank++) {
        if (order->count[rank] > capacity)
            return sl_error(SL_EPEER, "an order of %d ops on rank %d", order->count[rank], rank);
        SL_TRY(sl_group_broadcast(group, t->leader, order->ops[rank],
                                  (size_t)order->count[rank] * sizeof(sl_op)));
    }
    return exchange_issues(t, capacity, order);
}

sl_status sl_exchange_clocks(sl_trainer *t, int suspect) {
    sl_group *group = t->groups.world;
    const int from = t->leader;
    for (int peer = 0; peer < t->world; peer++) {
        if (!t->state->remote[peer] || peer == from)
            continue;
        int64_t sent = sl_clock_now(t->clock), replied = 0;
        SL_TRY(sl_group_pass(group, from, peer, &sent, sizeof sent));
        if (t->world_rank == peer)
            replied = sl_clock_now(t->clock);
        SL_TRY(sl_group_pass(group, peer, from, &replied, sizeof replied));
        if (sl_trainer_leads(t))
            sl_offset_add(&t->clocks[peer], sent, replied, sl_clock_now(t->clock), suspect);
    }
    return SL_OK;
}

sl_status sl_exchange_clocks_follow(sl_trainer *t, const int *was) {
    sl_offset *clocks;
    SL_TRY(sl_alloc(&clocks, (size_t)t->world, sizeof *clocks));
    for (int w = 0; w < t->world; w++)
        clocks[w] = t->clocks[was[w]];
    sl_free(t->clocks);
    t->clocks = clocks;
    return SL_OK;
}
