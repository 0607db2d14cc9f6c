#include "notice/control/collection.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

sl_status sl_collection_begin(sl_collection *c, int64_t round, int ranks) {
    sl_collection_end(c);
    SL_TRY(sl_alloc(&c->complete, (size_t)ranks, 1));
    SL_TRY(sl_alloc(&c->starved, (size_t)ranks, sizeof *c->starved));
    SL_TRY(sl_alloc(&c->stopped, (size_t)ranks, sizeof *c->stopped));
    for (int r = 0; r < ranks; r++)
        c->starved[r] = c->stopped[r] = -1;
    c->ranks = ranks;
    c->round = round;
    return SL_OK;
}

void sl_collection_end(sl_collection *c) {
    SL_FREE(c->call, c->complete, c->starved, c->stopped, c->member);
    *c = (sl_collection){0};
}

static int is_nccl(const sl_call *call) {
    return sl_call_is_nccl(call->call);
}

/* A rank uses few communicators, which its calls name in turns: recently noted members are skipped. */
static sl_status note_member(sl_collection *c, const sl_call *call, int world) {
    size_t lately = c->members < 64 ? c->members : 64;
    if (!is_nccl(call) || call->communicator == 0 || call->rank < 0)
        return SL_OK;
    for (size_t i = c->members; i > c->members - lately; i--) {
        const sl_collection_member *one = &c->member[i - 1];
        if (one->communicator == call->communicator && one->rank == call->rank && one->world == world)
            return SL_OK;
    }
    SL_TRY(sl_grow(&c->member, &c->member_capacity, c->members + 1, sizeof *c->member));
    c->member[c->members++] = (sl_collection_member){call->communicator, call->rank, world};
    return SL_OK;
}

static int order_members(const void *a, const void *b) {
    const sl_collection_member *x = a, *y = b;
    if (x->communicator != y->communicator)
        return x->communicator < y->communicator ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

void sl_collection_settle(sl_collection *c) {
    size_t kept = 0;
    if (c->members)
        qsort(c->member, c->members, sizeof *c->member, order_members);
    for (size_t i = 0; i < c->members; i++)
        if (kept == 0 || order_members(&c->member[kept - 1], &c->member[i]) != 0)
            c->member[kept++] = c->member[i];
    c->members = kept;
    for (size_t i = 0; i < c->calls; i++) {
        sl_call *call = &c->call[i];
        if (!is_nccl(call) || call->peer < 0)
            continue;
        sl_collection_member key = {call->communicator, call->peer, 0};
        const sl_collection_member *found =
            kept ? bsearch(&key, c->member, kept, sizeof key, order_members) : NULL;
        call->peer = found ? found->world : SL_PEER_UNKNOWN;
    }
}

sl_status sl_collection_add(sl_collection *c, const sl_nodes *nodes, const sl_message_head *head,
                            const sl_call *calls) {
    const sl_job_node *node = sl_nodes_find(nodes, head->node);
    if (!c->round || head->round != c->round || !node || head->rank < 0 || head->rank >= c->ranks)
        return SL_OK;
    if (c->calls + head->count <= SL_COLLECTION_MAX) {
        SL_TRY(sl_grow(&c->call, &c->capacity, c->calls + head->count, sizeof *c->call));
        for (uint32_t i = 0; i < head->count; i++) {
            sl_call *call = &c->call[c->calls++];
            *call = calls[i];
            SL_TRY(note_member(c, call, head->rank));
            call->rank = head->rank;
            call->start = sl_node_time(node, call->start);
            call->end = sl_node_time(node, call->end);
        }
    } else {
        c->left_out += head->count;
    }
    if (head->look && !c->complete[head->rank]) {
        c->complete[head->rank] = 1;
        c->starved[head->rank] = isfinite(head->starved) ? head->starved : -1;
        c->stopped[head->rank] = isfinite(head->stopped) ? head->stopped : -1;
        c->completed++;
    }
    return SL_OK;
}

int sl_collection_whole(const sl_collection *c) {
    return c->round && c->completed == c->ranks;
}
