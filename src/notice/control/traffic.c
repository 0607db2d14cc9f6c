#include "notice/control/traffic.h"
#include "base/memory.h"
#include "base/random.h"
#include "notice/detect/call_role.h"

#include <math.h>
#include <string.h>

enum { RANKS = 1 << 17, LINKS = 1 << 18, MEMBERS = 1 << 18 };

/* What a rank sends to a peer of a communicator; 0: the world. */
struct sl_traffic_pair {
    uint64_t communicator;
    int from, peer;
    int64_t messages, bytes, timed;
    double busy_ms;
    int next; /* of the same sender; -1 */
    int due;  /* its sender's part is complete, and it has not been reported yet */
};

struct sl_traffic_member {
    uint64_t communicator; /* 0: a free slot */
    int rank, world;
};

void sl_traffic_close(sl_traffic *t) {
    SL_FREE(t->link, t->pair, t->member, t->first_pair, t->first_link);
    *t = (sl_traffic){0};
}

/* ---- members of a communicator ---- */

static sl_traffic_member *slot_of(const sl_traffic *t, uint64_t communicator, int rank) {
    size_t at = (size_t)sl_random_mix(communicator ^ ((uint64_t)rank << 40)), mask = t->member_room - 1;
    for (;; at++) {
        sl_traffic_member *m = &t->member[at & mask];
        if (m->communicator == 0 || (m->communicator == communicator && m->rank == rank))
            return m;
    }
}

static sl_status more_members(sl_traffic *t) {
    sl_traffic larger = {.member_room = t->member_room ? 2 * t->member_room : 64};
    SL_TRY(sl_alloc(&larger.member, larger.member_room, sizeof *larger.member));
    for (size_t i = 0; i < t->member_room; i++)
        if (t->member[i].communicator)
            *slot_of(&larger, t->member[i].communicator, t->member[i].rank) = t->member[i];
    sl_free(t->member);
    t->member = larger.member;
    t->member_room = larger.member_room;
    return SL_OK;
}

static sl_status note_member(sl_traffic *t, const sl_call *call, int world) {
    if (!sl_call_is_nccl(call->call) || call->communicator == 0 || call->rank < 0)
        return SL_OK;
    if (2 * t->members >= t->member_room && t->members < MEMBERS)
        SL_TRY(more_members(t));
    sl_traffic_member *m = slot_of(t, call->communicator, call->rank);
    if (m->communicator == 0 && t->members >= MEMBERS)
        return SL_OK;
    t->members += m->communicator == 0;
    *m = (sl_traffic_member){call->communicator, call->rank, world};
    return SL_OK;
}

/* The peer as a rank of the world; -1: not known yet. */
static int peer_of(const sl_traffic *t, const sl_traffic_pair *p) {
    if (p->communicator == 0)
        return p->peer;
    const sl_traffic_member *m = t->member_room ? slot_of(t, p->communicator, p->peer) : NULL;
    return m && m->communicator ? m->world : -1;
}

/* ---- pairs and links, each in a chain of its sender ---- */

static sl_status need_sender(sl_traffic *t, int rank) {
    if ((size_t)rank < t->senders)
        return SL_OK;
    SL_TRY(sl_grow(&t->first_pair, &t->pair_senders, (size_t)rank + 1, sizeof(int)));
    SL_TRY(sl_grow(&t->first_link, &t->link_senders, (size_t)rank + 1, sizeof(int)));
    for (; t->senders <= (size_t)rank; t->senders++)
        t->first_pair[t->senders] = t->first_link[t->senders] = -1;
    return SL_OK;
}

/* *pair stays NULL if there are too many. */
static sl_status find_pair(sl_traffic *t, uint64_t communicator, int from, int peer, sl_traffic_pair **pair) {
    *pair = NULL;
    for (int i = t->first_pair[from]; i >= 0; i = t->pair[i].next)
        if (t->pair[i].peer == peer && t->pair[i].communicator == communicator) {
            *pair = &t->pair[i];
            return SL_OK;
        }
    if (t->pairs >= LINKS)
        return SL_OK;
    SL_TRY(sl_grow(&t->pair, &t->pair_room, t->pairs + 1, sizeof *t->pair));
    *pair = &t->pair[t->pairs];
    **pair = (sl_traffic_pair){
        .communicator = communicator, .from = from, .peer = peer, .next = t->first_pair[from]};
    t->first_pair[from] = (int)t->pairs++;
    return SL_OK;
}

/* Links of a sender are few, and are found in the order in which they came. */
static sl_status find_link(sl_traffic *t, int from, int to, sl_traffic_link **link) {
    for (size_t i = t->first_link[from] >= 0 ? (size_t)t->first_link[from] : t->links; i < t->links; i++)
        if (t->link[i].from == from && t->link[i].to == to) {
            *link = &t->link[i];
            return SL_OK;
        }
    SL_TRY(sl_grow(&t->link, &t->link_room, t->links + 1, sizeof *t->link));
    *link = &t->link[t->links];
    **link = (sl_traffic_link){.from = from, .to = to, .usual_ms = NAN, .round = -1};
    if (t->first_link[from] < 0)
        t->first_link[from] = (int)t->links;
    t->links++;
    return SL_OK;
}

/* ---- calls ---- */

static void count_call(sl_traffic_pair *p, const sl_call *call) {
    int nccl = sl_call_is_nccl(call->call), posts = sl_call_only_posts(call->call);
    /* of a persistent request only the completions are messages */
    int persistent = call->call >= SL_CALL_MPI_Send_init && call->call <= SL_CALL_MPI_Rsend_init;
    int completion = call->kind == SL_RECORD_COMPLETION;
    if (completion == persistent) {
        p->messages++;
        p->bytes += call->bytes < (uint64_t)1 << 50 ? (int64_t)call->bytes : 0;
    }
    if (nccl && completion && call->device >= 0) {
        p->timed++;
        p->busy_ms += (double)call->device / 1e6;
    } else if (!nccl && completion == posts && call->start > 0 && call->end > call->start) {
        p->timed++;
        p->busy_ms += (double)(call->end - call->start) / 1e6;
    }
}

static sl_status take_call(sl_traffic *t, int rank, const sl_call *call) {
    sl_traffic_pair *pair;
    sl_call_role role = sl_call_role_of(call->call);
    uint64_t communicator = sl_call_is_nccl(call->call) ? call->communicator : 0;
    if ((call->kind != SL_RECORD_CALL && call->kind != SL_RECORD_COMPLETION) ||
        (call->kind == SL_RECORD_COMPLETION && sl_call_is_exchange(call->call))) /* the received message */
        return SL_OK;
    SL_TRY(note_member(t, call, rank));
    if (sl_call_is_proxy(call->call)) /* part of a call that counts itself, or of a collective */
        return SL_OK;
    if (role != SL_ROLE_SEND || call->peer < 0 || call->peer >= RANKS ||
        (communicator == 0 && (call->peer == rank || sl_call_is_nccl(call->call))))
        return SL_OK;
    SL_TRY(find_pair(t, communicator, rank, call->peer, &pair));
    if (pair)
        count_call(pair, call);
    return SL_OK;
}

/* A pair becomes part of its link, which may be of several communicators. */
static sl_status report(sl_traffic *t, sl_traffic_pair *p, int calm) {
    sl_traffic_link *link;
    int to = peer_of(t, p);
    if (to < 0)
        return SL_OK;
    p->due = 0;
    if (to == p->from || (p->messages == 0 && p->timed == 0))
        return SL_OK;
    SL_TRY(find_link(t, p->from, to, &link));
    if (link->round != t->round) {
        link->messages = link->bytes = link->timed = 0;
        link->busy_ms = 0;
        link->round = t->round;
    }
    link->messages += p->messages;
    link->bytes += p->bytes;
    link->timed += p->timed;
    link->busy_ms += p->busy_ms;
    link->number = ++t->number;
    if (calm && isnan(link->usual_ms) && link->timed > 0)
        link->usual_ms = link->busy_ms / (double)link->timed;
    return SL_OK;
}

sl_status sl_traffic_take(sl_traffic *t, const sl_message_head *head, const sl_call *calls, int calm) {
    if (head->rank < 0 || head->rank >= RANKS)
        return SL_OK;
    SL_TRY(need_sender(t, head->rank));
    if (head->round != t->round)
        for (size_t i = 0; i < t->pairs; i++) {
            t->pair[i].messages = t->pair[i].bytes = t->pair[i].timed = t->pair[i].due = 0;
            t->pair[i].busy_ms = 0;
        }
    t->round = head->round;
    for (uint32_t i = 0; i < head->count; i++) {
        sl_call call;
        memcpy(&call, &calls[i], sizeof call);
        SL_TRY(take_call(t, head->rank, &call));
    }
    if (!head->look)
        return SL_OK;
    for (int i = t->first_pair[head->rank]; i >= 0; i = t->pair[i].next)
        t->pair[i].due = 1;
    for (size_t i = 0; i < t->pairs; i++) /* those that waited for a member may know it now */
        if (t->pair[i].due)
            SL_TRY(report(t, &t->pair[i], calm));
    return SL_OK;
}
