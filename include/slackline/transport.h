/* SPDX-License-Identifier: Apache-2.0 */
/* libslackline_transport: messages between the ranks of a job, carried by delegates, which are processes of
 * their own (slackline-delegate). The job copies a message into memory that it shares with a delegate, or out
 * of it; the delegate sends it over one or several rails, notices a rail that fails, sends again what was
 * lost, and is replaced if it dies. A message arrives once, in order, with exactly its bytes, or the link is
 * lost and every wait on it ends with the reason.
 *
 * To open: each rank calls slackline_transport_prepare, the caller gives the blocks of all ranks to all ranks
 * (a block is plain bytes, equally long on all ranks), and each rank calls slackline_transport_start. The key
 * is the same random bytes on all ranks: whoever does not know it is turned away.
 *
 * To use: between two peers and in each direction there are `channels`. The n-th message sent on a channel is
 * the n-th one received there. Channels do not wait for each other. Neither send nor receive waits; a thread
 * of the transport copies. Sizes may differ from message to message; the receiver must know them.
 *
 * Every function may be called by any thread; the text of slackline_transport_error belongs to the calling
 * thread. In a child that was forked, every function refuses to work, and nothing of the parent's changes.
 * Nothing is printed. This library is independent of libslackline. */
#ifndef SLACKLINE_TRANSPORT_H
#define SLACKLINE_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum slackline_transport_status {
    SLACKLINE_TRANSPORT_OK = 0,
    SLACKLINE_TRANSPORT_INVALID, /* a wrong request */
    SLACKLINE_TRANSPORT_PENDING, /* the time is over and the message is still under way */
    SLACKLINE_TRANSPORT_NO_MEMORY,
    SLACKLINE_TRANSPORT_SYSTEM, /* a system call failed, or a program is missing */
    SLACKLINE_TRANSPORT_LOST    /* the peer is gone or misbehaves; the text names the link, "link 0 -> 1" */
} slackline_transport_status;

#define SLACKLINE_TRANSPORT_QUEUES 8 /* channels * delegates, at most */
#define SLACKLINE_TRANSPORT_RAILS 8

/** "0.1.0". */
const char *slackline_transport_version(void);

/** The reason of this thread's last failure; never NULL, valid until the next failure. */
const char *slackline_transport_error(void);

/** What tells hosts apart: processes with the same text reach each other without a network. `text` has `size`
 *  bytes, at least 80. SLACKLINE_TRANSPORT_SYSTEM: it cannot be found out. */
slackline_transport_status slackline_transport_host(char *text, size_t size);

typedef struct slackline_transport slackline_transport;

/** What the transport of a rank is like. All ranks give the same key, ranks, channels, delegates, piece_bytes
 *  and slots, and peers that agree. Everything is copied. */
typedef struct slackline_transport_options {
    int rank, ranks;          /* at most 4,096 ranks */
    const char *peers;        /* [ranks] nonzero: a peer, in both directions; NULL: all others */
    const char *const *hosts; /* [ranks] equal texts: the same host (slackline_transport_host); NULL: all are */
    const unsigned char *key; /* [32] */
    int channels;             /* per direction */
    int delegates;            /* per channel and direction; large messages are divided among them */
    const char *const *rails; /* towards other hosts: names of interfaces or own addresses; NULL: one, chosen */
    int rail_count;           /* at most SLACKLINE_TRANSPORT_RAILS; rail i of one host meets rail i of the other */
    size_t piece_bytes;       /* messages are cut into pieces; at least 4,096 and at most 2^30 */
    int slots;                /* pieces in the memory shared with a delegate: channels * delegates * 2 * slots
                               * * piece_bytes bytes per peer; at least 2 */
    int64_t silence_ns;       /* a rail that is silent for so long is down; at least 10 ms */
    int64_t refusal_ns;       /* a peer that refuses every attempt for so long is gone */
    int64_t outage_ns;        /* without any rail for so long, a link is lost */
    const char *program;      /* slackline-delegate; NULL: SLACKLINE_DELEGATE in the environment, else next to
                               * this library or the running program, or in ../bin from there, else in PATH */
} slackline_transport_options;

/** Fills in: no ranks, one channel with one delegate, pieces of 1 MiB, 8 slots, silence 200 ms, refusal 1 s,
 *  outage 30 s, everything else NULL or 0. */
void slackline_transport_defaults(slackline_transport_options *options);

/** Makes the memory and the sockets that listen; starts nothing. *transport is NULL on failure.
 *  SLACKLINE_TRANSPORT_INVALID: an option is out of range, or a rail is neither an interface nor an address.
 *  SLACKLINE_TRANSPORT_SYSTEM: no slackline-delegate that others cannot replace, or the system refuses. */
slackline_transport_status slackline_transport_prepare(const slackline_transport_options *options,
                                                       slackline_transport **transport);

/** The bytes for the other ranks; owned by the transport. */
const void *slackline_transport_block(const slackline_transport *transport, size_t *bytes);

/** Starts the delegates, once. `blocks`: those of all ranks in order, block after block. Waits until each link
 *  from this rank has a rail, at most `timeout_ns`. SLACKLINE_TRANSPORT_LOST: a link has none, or a rank has
 *  other options; SLACKLINE_TRANSPORT_SYSTEM: a delegate cannot be started. After a failure only close is
 *  left. */
slackline_transport_status slackline_transport_start(slackline_transport *transport, const void *blocks,
                                                     int64_t timeout_ns);

/** A message that was posted. */
typedef struct slackline_message slackline_message;

/** Hands over `bytes` of `data`, which must stay as they are until the message is complete: until all is copied
 *  into shared memory, not until it has arrived. It arrives even if nobody waits. *message (may be NULL:
 *  unwanted) is released by slackline_transport_release. SLACKLINE_TRANSPORT_INVALID, _NO_MEMORY; _LOST: the
 *  link is lost already. */
slackline_transport_status slackline_transport_send(slackline_transport *transport, int peer, int channel,
                                                    const void *data, size_t bytes,
                                                    slackline_message **message);

/** The next message from `peer` on this channel is to be written to `buffer`, which belongs to the transport
 *  until the message is complete or the transport is closed. It must have exactly `bytes`; if not, the link is
 *  lost. Otherwise as slackline_transport_send. */
slackline_transport_status slackline_transport_receive(slackline_transport *transport, int peer, int channel,
                                                       void *buffer, size_t bytes,
                                                       slackline_message **message);

/** Waits until the message is complete, at most `timeout_ns` (0: only looks; negative: without limit).
 *  SLACKLINE_TRANSPORT_PENDING; _LOST with the reason, each time that it is asked. */
slackline_transport_status slackline_transport_wait(slackline_message *message, int64_t timeout_ns);

/** When it was completed, in ns of CLOCK_MONOTONIC; 0: it is not. */
int64_t slackline_transport_completed(slackline_message *message);

/** Frees the handle; the message itself takes its course. NULL does nothing. Not while a thread waits for it. */
void slackline_transport_release(slackline_message *message);

typedef enum slackline_transport_happening {
    SLACKLINE_TRANSPORT_RAIL_UP,
    SLACKLINE_TRANSPORT_RAIL_DOWN,
    SLACKLINE_TRANSPORT_STRANGER, /* somebody without the key was turned away */
    SLACKLINE_TRANSPORT_CLOSED,   /* the delegate at the other end ended normally */
    SLACKLINE_TRANSPORT_GIVEN_UP, /* the link is lost */
    SLACKLINE_TRANSPORT_REPLACED  /* a delegate died and was replaced */
} slackline_transport_happening;

typedef struct slackline_transport_event {
    slackline_transport_happening happening;
    int from, to;    /* the link; one end is this rank */
    int queue;       /* channel * delegates + delegate */
    int rail;        /* -1: none */
    int64_t time_ns; /* CLOCK_MONOTONIC */
    char text[112];  /* the reason; empty: none */
} slackline_transport_event;

/** Takes the next event of this rank's delegates. 1, or 0: none. They are not sorted by time; if nobody takes
 *  them, later ones are dropped. */
int slackline_transport_next_event(slackline_transport *transport, slackline_transport_event *event);

/** Process ids of the living delegates into pids[count]; returns their number, which may be larger. */
int slackline_transport_delegates(slackline_transport *transport, int *pids, int count);

/** Waits until what was sent has arrived at the peers' delegates, or the peer has closed, at most `linger_ns`;
 *  then ends the delegates and frees everything. Messages that are not complete are LOST from then on, and
 *  may still be asked about and released. No other thread may use the transport. NULL does nothing. In a
 *  forked child it does nothing. */
void slackline_transport_close(slackline_transport *transport, int64_t linger_ns);

#ifdef __cplusplus
}
#endif
#endif
