/* A conduit: one directed stream of messages between two processes over several rails, as two pure state
 * machines. They have no clock, no socket and no payload: events come in with their times, and the caller
 * asks for the next action. The same code runs over TCP, on unix sockets and in a simulated network.
 *
 * Messages are numbered from 0 over the life of the conduit and cut into chunks of `chunk_bytes` (the last
 * may be shorter; an empty message has one chunk of 0 bytes). A chunk is named by (message, index), so a
 * chunk that is duplicated, late, reordered or from an earlier life of the sender is recognized. Each chunk
 * is acknowledged by name; a chunk that is not acknowledged within `resend_after`, or whose rail goes down,
 * is sent again on any live rail. The receiver publishes messages in the order of their numbers, each once,
 * and reports how many it has published; only then may the sender forget one. A receiver has slots for
 * `limit` - published messages and reports that limit; the sender sends none at or beyond it (bounded memory,
 * back-pressure).
 *
 * Life and death. State that must survive a process (the number published, the payloads) is kept by the
 * caller outside of it; the receiver's state of unfinished messages dies with it. Its `epoch` shows this: if
 * a rail comes up with another epoch than the last, the sender forgets every acknowledgement after
 * `published`. An acknowledgement counts only for the epoch that gave it, and chunks go only to rails of the
 * latest epoch that still has a rail: data that a dead receiver left in a socket do no harm.
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

/* Sent by the receiver when a rail comes up (in the handshake), and while it lives. */
typedef struct sl_conduit_state {
    uint64_t epoch;     /* of the receiving process; changes after a restart */
    uint64_t published; /* messages published so far */
    uint64_t limit;     /* messages that may have been sent so far */
} sl_conduit_state;

/* ---- sender ---- */

typedef struct sl_sender sl_sender;

typedef struct sl_sender_config {
    uint32_t window;      /* max. messages offered and not yet published */
    uint32_t chunk_bytes; /* > 0 */
    size_t rail_bytes;    /* max. bytes unacknowledged on one rail, at least one chunk */
    sl_time resend_after; /* an unacknowledged chunk is resent after this time */
    uint64_t first;       /* number of the first message offered: published by an earlier life */
} sl_sender_config;

sl_status sl_sender_open(const sl_sender_config *config, sl_sender **sender);
void sl_sender_close(sl_sender *sender);

/** Offers the next message, of `bytes`; if `held`, its last chunk stays back until sl_sender_release.
 * SL_EINVAL: more than `window`. *number: its number. */
sl_status sl_sender_offer(sl_sender *sender, uint64_t bytes, int held, uint64_t *number);
void sl_sender_release(sl_sender *sender, uint64_t number);

/** A rail can carry chunks from now on; `state` is from its receiver. After a restart of the sender, first
 * offer what is left in the queue. SL_EPEER, and the rail is down (close it): the receiver claims messages
 * that were never offered, or is an earlier life of the receiver (not the current epoch, and with less
 * published than is known; a fresh handshake with a living one is accepted). */
sl_status sl_sender_rail_up(sl_sender *sender, int rail, const sl_conduit_state *state, sl_time now);
/** Its unacknowledged chunks will be resent on other rails, oldest first. */
void sl_sender_rail_down(sl_sender *sender, int rail);

/** Chooses the chunk to put on this rail now: 1, and it counts as sent there; 0: none (nothing to send, the
 * rail is down or has `rail_bytes` under way). Oldest message first. */
int sl_sender_next(sl_sender *sender, int rail, sl_time now, sl_chunk *chunk);

/** Chunk (message, index) has been received by the process of that epoch, reported on any rail. Unknown or
 * repeated acknowledgements and those of another epoch are ignored. */
void sl_sender_acknowledge(sl_sender *sender, uint64_t epoch, uint64_t message, uint32_t index);
/** The receiver's new published count and limit. Older states are ignored. SL_EPEER: it claims messages that
 * were never offered. (It may publish messages that this life of the sender has not sent: an earlier one may
 * have.) */
sl_status sl_sender_state(sl_sender *sender, const sl_conduit_state *state);

/** Messages known as published so far (also the number of the first unpublished one). */
uint64_t sl_sender_published(const sl_sender *sender);
/** When time alone may give sl_sender_next something to send (a resend); SL_TIME_NEVER: none. */
sl_time sl_sender_deadline(const sl_sender *sender);
/** Chunks sent more than once so far. */
uint64_t sl_sender_resent(const sl_sender *sender);

/* ---- receiver ---- */

typedef struct sl_receiver sl_receiver;

typedef struct sl_receiver_config {
    uint32_t window;      /* slots for messages not yet published */
    uint32_t chunk_bytes; /* the same as the sender's */
    uint64_t total_max;   /* largest message */
    uint64_t first;       /* messages published before this life */
} sl_receiver_config;

typedef enum sl_chunk_verdict {
    SL_CHUNK_TAKE,        /* read it into its slot; then sl_receiver_finish */
    SL_CHUNK_ACKNOWLEDGE, /* already received: discard it and acknowledge it */
    SL_CHUNK_IGNORE       /* discard it: it is being read on another rail, or is beyond the limit */
} sl_chunk_verdict;

sl_status sl_receiver_open(const sl_receiver_config *config, sl_receiver **receiver);
void sl_receiver_close(sl_receiver *receiver);

/** The head of a chunk has arrived on `rail`. SL_EPEER: it cannot be one of this conduit (index, offset,
 * bytes and total contradict each other or earlier chunks). Never trusts the chunk. */
sl_status sl_receiver_begin(sl_receiver *receiver, int rail, const sl_chunk *chunk,
                            sl_chunk_verdict *verdict);
/** The chunk that `rail` was taking is complete and valid: acknowledge it. */
void sl_receiver_finish(sl_receiver *receiver, int rail);
/** The chunk that `rail` was taking will not be completed (the rail broke, or the checksum was wrong). */
void sl_receiver_rail_down(sl_receiver *receiver, int rail);

/** 1: message number published + 0 is complete and may be published (its bytes: *total). */
int sl_receiver_complete(const sl_receiver *receiver, uint64_t *total);
/** It has been published. */
void sl_receiver_published(sl_receiver *receiver);
/** The caller has slots for that many messages in all, published ones included: raises the limit, never
 * lowers it. */
void sl_receiver_allow(sl_receiver *receiver, uint64_t limit);
/** The state to send to the sender; `epoch` is the caller's. */
sl_conduit_state sl_receiver_state(const sl_receiver *receiver, uint64_t epoch);
