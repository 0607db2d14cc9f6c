/* What agents (notice/agent) and the controller (notice/control) tell each other through the store; read by
 * those who look on, too (src/dashboard).
 *
 * Logs: `nodes` (heartbeats of agents), `iterations`, `profiles` (calls) and `views` (looks at gates) go from
 * agents to the controller; `orders` from the controller to all agents. Keys: `node:NAME` (the last
 * heartbeat; it goes when the agent does), `controller` (who it is), `validation:N` (verdict of round N).
 * What is small is JSON; what is much is a head and packed structs. Times are of the clock of the node that
 * writes them, in orders of the node that is named.
 *
 * The stores of agents and controller are sealed (notice/store/store.h): what is read was written by somebody
 * of the job, once. It is checked all the same, against the limits below; a reader counts what is beyond them
 * (sl_store_refuse) and goes on. An order that is repeated later than its time does nothing: orders name
 * until when they hold, or the round that is under way. */
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "base/time.h"
#include "notice/message/gate_view.h"
#include "notice/record/call.h"
#include "notice/store/store.h"

#define SL_NODE_BEAT SL_SECOND        /* between two heartbeats */
#define SL_NODE_LASTS (5 * SL_SECOND) /* an agent that is silent for so long is lost */
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
#define SL_KEEP_NODES 4096
#define SL_KEEP_ITERATIONS 8192
#define SL_KEEP_PROFILES 512
#define SL_KEEP_VIEWS 4096
#define SL_KEEP_ORDERS 1024

#define SL_MESSAGE_MAGIC 0x736c6d67u /* "slmg" */
#define SL_MESSAGE_VERSION 1

typedef enum sl_message_kind {
    SL_MESSAGE_ITERATIONS = 1, /* sl_message_block[] */
    SL_MESSAGE_CALLS = 2,      /* sl_call[] */
    SL_MESSAGE_VIEW = 3        /* a packed view */
} sl_message_kind;

typedef struct sl_message_head {
    uint32_t magic, version, kind;
    uint32_t count; /* of what follows; a view: bytes */
    int64_t round;  /* of a profile or hold */
    int32_t rank;   /* profiles and views */
    int32_t look;   /* views: number of the look; profiles: 1 for the rank's last part */
    int64_t lost;   /* profiles: calls overwritten before they were read */
    double starved; /* profiles: share of the time in which the rank wanted a processor and had none; -1: not
                       known */
    char node[SL_NODE_NAME];
    char trouble[80]; /* views: why the rank cannot be held; "" */
} sl_message_head;
_Static_assert(sizeof(sl_message_head) == 256, "messages cross nodes");

/* Iterations of one rank (notice/agent/track.h). */
typedef struct sl_message_block {
    int32_t rank, process, count, period; /* process: another number for each, whatever its process id */
    int64_t number, start, end, time, bytes;
} sl_message_block;
_Static_assert(sizeof(sl_message_block) == 56, "messages cross nodes");

/** The head of a message of `kind` that is whole and within the limits, what follows it in *body; NULL: bytes
 * from elsewhere. */
const sl_message_head *sl_message_read(const sl_store_entry *entry, sl_message_kind kind, const void **body);

/** Appends head and body to a log. `head` needs kind, count and what the kind uses. SL_EPEER, SL_ENOMEM. */
sl_status sl_message_append(sl_store *store, const char *log, sl_message_head *head, const char *node,
                            const void *body, size_t size, size_t keep);

/** A view as bytes: what is used of it. *bytes grows (sl_free). SL_ENOMEM. */
sl_status sl_view_pack(const sl_gate_view *view, char **bytes, size_t *capacity, size_t *size);

/** The other way; 0, or -1 when the bytes are no view. */
int sl_view_unpack(const void *bytes, size_t size, sl_gate_view *view);

/** Appends a JSON object (its reference is taken). SL_EPEER, SL_ENOMEM. */
sl_status sl_json_append(sl_store *store, const char *log, json_t *object, size_t keep);

/** Whether a heartbeat is one, within the limits: node and clock, and for each rank its number, process,
 * world and period. */
int sl_beat_is(const json_t *beat);
