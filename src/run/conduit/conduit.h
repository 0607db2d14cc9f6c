/* A conduit: one directed stream of messages between two processes over several rails, as two pure state
 * machines. No clock, no socket and no payload in here: events come in with the time they happened at, what
 * to do next is asked for. The same code runs over TCP, on unix sockets and in a simulated network.
 *
 * Messages are numbered from 0 in the life of the conduit and cut into chunks of `chunk_bytes` (the last may
 * be shorter; an empty message has one chunk of 0 bytes). A chunk is named by (message, index), so one that
 * comes twice, late, in another order or from an earlier life of the sender is known as what it is. Each
 * chunk is acknowledged by name; one that is not, within `resend_after`, or whose rail goes down, is sent
 * again on any live rail. The receiver publishes messages in the order of their numbers, each once, and says
 * how many it has published; only then may the sender forget one. A receiver has places for `limit` -
 * published messages and says that limit; the sender sends none at or beyond it (bounded memory,
 * back-pressure).
 *
 * Life and death. What must survive a process (how many were published, the payloads) is kept by the caller
 * outside of it; what a receiver knows of unfinished messages dies with it. Its `epoch` says so: when a rail
 * comes up with another epoch than the last, the sender forgets every acknowledgement behind `published`. An
 * acknowledgement counts only for the epoch that gave it, and chunks go only to rails of the epoch that came
 * up last and still has a rail: what a dead receiver left in a socket does no harm.
 *
 * One thread. Times only order and space out resends. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <stddef.h>
#include <stdint.h>

#define SL_RAILS_MAX 8

typedef struct sl_chunk {
    uint64_t message; /* number in the conduit */
    uint32_t index;   /* of the chunk in its message */
    uint32_t bytes;   /* of this chunk */
    uint64_t offset;  /* of its first byte in the message */
    uint64_t total;   /* bytes of the message */
} sl_chunk;

/* What the receiver says when a rail comes up (in the handshake), and while it lives. */
typedef struct sl_conduit_state {
    uint64_t epoch;     /* of the receiving process; another one after a restart */
    uint64_t published; /* messages published so far */
    uint64_t limit;     /* messages that may have been sent so far */
} sl_conduit_state;

/* ---- sender ---- */

typedef struct sl_sender sl_sender;

typedef struct sl_sender_config {
    uint32_t window;      /* most messages offered and not yet published */
    uint32_t chunk_bytes; /* > 0 */
    size_t rail_bytes;    /* most bytes unacknowledged on one rail, at least one chunk */
    sl_time resend_after; /* an unacknowledged chunk is sent again after this long */
    uint64_t first;       /* number of the first message offered: what an earlier life had published */
} sl_sender_config;

sl_status sl_sender_open(const sl_sender_config *config, sl_sender **sender);
void sl_sender_close(sl_sender *sender);

/** The next message, of `bytes`; its last chunk stays back until sl_sender_release when `held`. SL_EINVAL:
 * more than `window`. *number: its number. */
sl_status sl_sender_offer(sl_sender *sender, uint64_t bytes, int held, uint64_t *number);
void sl_sender_release(sl_sender *sender, uint64_t number);

/** A rail can carry chunks from now on, with what the receiver said at the other end of it. After a restart
 * of the sender, offer what is left in the queue before. SL_EPEER, and the rail is down (close it): the
 * receiver claims what was never offered, or is an earlier life of the receiver (another epoch than the
 * present one, with less published than is known; a fresh handshake with a living one is taken). */
sl_status sl_sender_rail_up(sl_sender *sender, int rail, const sl_conduit_state *state, sl_time now);
/** What is unacknowledged on it will be sent again elsewhere, oldest first. */
void sl_sender_rail_down(sl_sender *sender, int rail);

/** The chunk to put on this rail now: 1, and it counts as sent there; 0: none (nothing to send, the rail is
 * down or has `rail_bytes` under way). Oldest message first. */
int sl_sender_next(sl_sender *sender, int rail, sl_time now, sl_chunk *chunk);

/** Chunk (message, index) has been received by the process of that epoch; whatever rail says so. Unknown or
 * repeated ones and those of another epoch are ignored. */
void sl_sender_acknowledge(sl_sender *sender, uint64_t epoch, uint64_t message, uint32_t index);
/** The receiver has published and allows so much. Older news are ignored. SL_EPEER: it claims what was never
 * offered. (It may publish what this life of the sender has not sent: an earlier one may have.) */
sl_status sl_sender_state(sl_sender *sender, const sl_conduit_state *state);

/** Messages known as published so far (the first one not: its number). */
uint64_t sl_sender_published(const sl_sender *sender);
/** When sl_sender_next may have something again by time alone (a resend); SL_TIME_NEVER: none. */
sl_time sl_sender_deadline(const sl_sender *sender);
/** Chunks sent more than once so far. */
uint64_t sl_sender_resent(const sl_sender *sender);

/* ---- receiver ---- */

typedef struct sl_receiver sl_receiver;

typedef struct sl_receiver_config {
    uint32_t window;      /* places for messages not yet published */
    uint32_t chunk_bytes; /* as the sender's */
    uint64_t total_most;  /* largest message */
    uint64_t first;       /* messages published before this life */
} sl_receiver_config;

typedef enum sl_chunk_verdict {
    SL_CHUNK_TAKE,        /* read it into its place; then sl_receiver_finish */
    SL_CHUNK_ACKNOWLEDGE, /* it is here already: throw it away and acknowledge it */
    SL_CHUNK_IGNORE       /* throw it away: it is being read on another rail, or lies beyond the limit */
} sl_chunk_verdict;

sl_status sl_receiver_open(const sl_receiver_config *config, sl_receiver **receiver);
void sl_receiver_close(sl_receiver *receiver);

/** The head of a chunk has come on `rail`. SL_EPEER: it cannot be one of this conduit (index, offset, bytes
 * and total do not fit each other or what came before). Never trusts the chunk. */
sl_status sl_receiver_begin(sl_receiver *receiver, int rail, const sl_chunk *chunk,
                            sl_chunk_verdict *verdict);
/** The chunk that `rail` was taking is complete and sound: acknowledge it. */
void sl_receiver_finish(sl_receiver *receiver, int rail);
/** What `rail` was taking will not be completed (it broke, or the checksum was wrong). */
void sl_receiver_rail_down(sl_receiver *receiver, int rail);

/** 1: message number published + 0 is complete and may be published (its bytes: *total). */
int sl_receiver_complete(const sl_receiver *receiver, uint64_t *total);
/** It has been published. */
void sl_receiver_published(sl_receiver *receiver);
/** The caller has places for that many messages in all, published ones included: sets the limit, never back.
 */
void sl_receiver_allow(sl_receiver *receiver, uint64_t limit);
/** What to tell the sender; `epoch` is the caller's. */
sl_conduit_state sl_receiver_state(const sl_receiver *receiver, uint64_t epoch);
