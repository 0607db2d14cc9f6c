/* The messages between agents (notice/agent) and the controller (notice/control) through the store; viewers
 * (src/dashboard) read them too.
 *
 * Logs: `nodes` (heartbeats of agents), `iterations`, `profiles` (calls) and `views` (of gates) go from
 * agents to the controller; `orders` from the controller to all agents. Keys: `node:NAME` (the last
 * heartbeat; it expires with the agent), `controller` (its name), `validation:N` (verdict of round N). Small
 * messages are JSON; large ones are a head and packed structs. Times are of the clock of the node that writes
 * them; in orders, of the named node.
 *
 * The stores of agents and controller are sealed (notice/store/store.h): everything read was written by a
 * process of the job, once. It is still checked against the limits below; a reader counts what exceeds them
 * (sl_store_refuse) and continues. A late repetition of an order does nothing: orders contain their time
 * limit, or the current round. */
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "base/time.h"
#include "notice/message/gate_view.h"
#include "notice/record/call.h"
#include "notice/store/store.h"

#define SL_NODE_BEAT SL_SECOND        /* between two heartbeats */
#define SL_NODE_LASTS (5 * SL_SECOND) /* an agent that is silent for this long is lost */
#define SL_NODE_NAME 128
#define SL_CLOCK_NAME 160

#define SL_MAX_WATCHED_RANKS (1 << 17)   /* of a job */
#define SL_MAX_TIME (INT64_C(1) << 60)   /* ns: 36 years since a machine was started */
#define SL_MAX_NUMBER (INT64_C(1) << 50) /* of an iteration, a round, a record */

#define SL_LOG_NODES "nodes"
#define SL_LOG_ITERATIONS "iterations"
#define SL_LOG_PROFILES "profiles"
#define SL_LOG_VIEWS "views"
#define SL_LOG_ORDERS "orders"
/* Entries that are kept, at least: sl_log_keeps. */
#define SL_KEEP_NODES 4096
#define SL_KEEP_ITERATIONS 8192
#define SL_KEEP_PROFILES 512
#define SL_KEEP_VIEWS 4096
#define SL_KEEP_ORDERS 1024

/** Entries to keep of a log of which at least `least` are kept, in a job of `ranks`: two from each rank,
 * which may come at once. */
static inline size_t sl_log_keeps(size_t least, int ranks) {
    return ranks > 0 && 2 * (size_t)ranks > least ? 2 * (size_t)ranks : least;
}

#define SL_REQUESTS_MAX 20000 /* of all agents at the store, per second, for orders */

/** The shortest time between two looks of an agent for orders, in a job of `nodes`: a store serves one
 * request after another. */
static inline sl_time sl_order_pace(int nodes) {
    return (nodes > 1 ? nodes : 1) * (SL_SECOND / SL_REQUESTS_MAX);
}

#define SL_MESSAGE_MAGIC 0x736c6d67u /* "slmg" */
#define SL_MESSAGE_VERSION 2

typedef enum sl_message_kind {
    SL_MESSAGE_ITERATIONS = 1, /* sl_message_block[] */
    SL_MESSAGE_CALLS = 2,      /* sl_call[] */
    SL_MESSAGE_VIEW = 3        /* a packed view */
} sl_message_kind;

typedef struct sl_message_head {
    uint32_t magic, version, kind;
    uint32_t count; /* of items after the head; a view: bytes */
    int64_t round;  /* of a profile or hold */
    int32_t rank;   /* profiles and views */
    int32_t look;   /* views: number of the look; profiles: 1 for the rank's last part */
    int64_t lost;   /* profiles: calls overwritten before they were read */
    double starved; /* profiles: share of the time in which the rank wanted a processor and had none; -1:
                       unknown */
    double stopped; /* profiles: share of the time in which its control groups' quotas stopped them; -1:
                       unknown */
    char node[SL_NODE_NAME];
    char trouble[72]; /* views: why the rank cannot be held; "" */
} sl_message_head;
_Static_assert(sizeof(sl_message_head) == 256, "messages cross nodes");

/* Iterations of one rank (notice/agent/track.h). */
typedef struct sl_message_block {
    int32_t rank, process, count, period; /* process: unique per process, whatever its process id */
    int64_t number, start, end, time, bytes;
} sl_message_block;
_Static_assert(sizeof(sl_message_block) == 56, "messages cross nodes");

/** The head of a complete message of `kind` within the limits, and its content in *body; NULL: anything else.
 */
const sl_message_head *sl_message_read(const sl_store_entry *entry, sl_message_kind kind, const void **body);

/** Appends head and body to a log. `head` needs kind, count and what the kind uses. SL_EPEER, SL_ENOMEM. */
sl_status sl_message_append(sl_store *store, const char *log, sl_message_head *head, const char *node,
                            const void *body, size_t size, size_t keep);

/** A view as bytes, only its used part. *bytes grows (sl_free). SL_ENOMEM. */
sl_status sl_view_pack(const sl_gate_view *view, char **bytes, size_t *capacity, size_t *size);

/** The inverse; 0, or -1 if the bytes are not a view. */
int sl_view_unpack(const void *bytes, size_t size, sl_gate_view *view);

/** Appends a JSON object (takes its reference). SL_EPEER, SL_ENOMEM. */
sl_status sl_json_append(sl_store *store, const char *log, json_t *object, size_t keep);

/** Whether a JSON value is a heartbeat within the limits: node and clock, and for each rank its number,
 * process, world and period. */
int sl_beat_is(const json_t *beat);
