/* The calls of all ranks for one profile, as the agents send them, on the job's clock. */
#pragma once

#include "base/status.h"
#include "notice/control/nodes.h"
#include "notice/message/messages.h"

#define SL_COLLECTION_MAX                                                                                    \
    ((size_t)1 << 23) /* records of all ranks; further ones are dropped and counted                          \
                       */

/* The identity of `rank` of an NCCL communicator. */
typedef struct sl_collection_member {
    uint64_t communicator;
    int32_t rank, world;
} sl_collection_member;

typedef struct sl_collection {
    int64_t round; /* 0: not collecting */
    int ranks;
    sl_call *call; /* [calls] */
    size_t calls, capacity, left_out;
    char *complete; /* [ranks] whose last part has arrived */
    double
        *starved; /* [ranks] share of the time in which a rank wanted a processor and had none; -1: unknown */
    double *stopped; /* [ranks] share in which its quotas stopped it; -1: unknown */
    int completed;
    sl_collection_member *member; /* [members]; in order of arrival, unique after sl_collection_settle */
    size_t members, member_capacity;
} sl_collection;

/** SL_ENOMEM. */
sl_status sl_collection_begin(sl_collection *collection, int64_t round, int ranks);
void sl_collection_end(sl_collection *collection);

/** One message of the log of profiles. SL_ENOMEM. */
sl_status sl_collection_add(sl_collection *collection, const sl_nodes *nodes, const sl_message_head *head,
                            const sl_call *calls);

/** Call once, before the calls are compared. NCCL's peers, which are ranks of their communicator, become
 * ranks of the world, by the calls that those ranks made on it; the peer of a rank without such calls is
 * SL_PEER_UNKNOWN. */
void sl_collection_settle(sl_collection *collection);

/** Whether all calls of every rank have arrived. */
int sl_collection_whole(const sl_collection *collection);
