#include "notice/control/collection.h"

#include "base/memory.h"

sl_status sl_collection_begin(sl_collection *c, int64_t round, int ranks) {
    sl_collection_end(c);
    SL_TRY(sl_alloc(&c->told, (size_t)ranks, 1));
    c->ranks = ranks;
    c->round = round;
    return SL_OK;
}

void sl_collection_end(sl_collection *c) {
    sl_free(c->call);
    sl_free(c->told);
    *c = (sl_collection){0};
}

sl_status sl_collection_add(sl_collection *c, const sl_nodes *nodes, const sl_message_head *head,
                            const sl_call *calls) {
    const sl_node *node = sl_nodes_find(nodes, head->node);
    if (!c->round || head->round != c->round || !node || head->rank < 0 || head->rank >= c->ranks)
        return SL_OK;
    if (c->calls + head->count <= SL_COLLECTION_MOST) {
        SL_TRY(sl_grow(&c->call, &c->capacity, c->calls + head->count, sizeof *c->call));
        for (uint32_t i = 0; i < head->count; i++) {
            sl_call *call = &c->call[c->calls++];
            *call = calls[i];
            call->rank = head->rank;
            call->start = sl_node_time(node, call->start);
            call->end = sl_node_time(node, call->end);
        }
    } else {
        c->left_out += head->count;
    }
    if (head->look && !c->told[head->rank]) {
        c->told[head->rank] = 1;
        c->tolds++;
    }
    return SL_OK;
}

int sl_collection_whole(const sl_collection *c) {
    return c->round && c->tolds == c->ranks;
}
