#include "run/arrange/exchange.h"

sl_status sl_exchange_order(sl_group *group, int from, const sl_problem *problem, sl_order *order) {
    int capacity = 0; /* F, I and W, in parts, on the rank that has most */
    for (int rank = 0; rank < problem->ranks; rank++) {
        int ops = sl_problem_rank_ops(problem, rank, 3);
        capacity = ops > capacity ? ops : capacity;
    }
    if (sl_group_rank(group) != from)
        SL_TRY(sl_order_make(problem->ranks, capacity, order));
    SL_TRY(sl_group_broadcast(group, from, order->count, (size_t)problem->ranks * sizeof *order->count));
    for (int rank = 0; rank < problem->ranks; rank++) {
        if (order->count[rank] > capacity)
            return sl_error(SL_EPEER, "an order of %d ops on rank %d", order->count[rank], rank);
        SL_TRY(sl_group_broadcast(group, from, order->ops[rank], (size_t)order->count[rank] * sizeof(sl_op)));
    }
    return SL_OK;
}

sl_status sl_exchange_clocks(sl_group *group, int from, sl_clock *clock, const int *remote, int suspect,
                             sl_offset *clocks) {
    int rank = sl_group_rank(group);
    for (int peer = 0; peer < sl_group_size(group); peer++) {
        if (!remote[peer] || peer == from)
            continue;
        int64_t sent = sl_clock_now(clock), replied = 0;
        SL_TRY(sl_group_pass(group, from, peer, &sent, sizeof sent));
        if (rank == peer)
            replied = sl_clock_now(clock);
        SL_TRY(sl_group_pass(group, peer, from, &replied, sizeof replied));
        if (rank == from)
            sl_offset_add(&clocks[peer], sent, replied, sl_clock_now(clock), suspect);
    }
    return SL_OK;
}
