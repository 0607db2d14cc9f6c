/* SPDX-License-Identifier: Apache-2.0 */
/* libslackline_transport: messages between the ranks of a job, carried by delegates, which are processes of
 * their own (slackline-delegate). The job copies a message into memory that it shares with a delegate, or out
 * of it; the delegate sends it over one or several rails, notices a rail that fails, sends again what was
 * lost, and is replaced if it dies. A message arrives once, in order, with exactly its bytes, or the link is
 * lost and every wait on it ends with the reason.
 *
 * To open: each rank calls slackline_transport_prepare, the caller gives the blocks of all ranks to all ranks
 * (a block is plain bytes, of the same length on all ranks), and each rank calls slackline_transport_start.
 * The key is the same random bytes on all ranks: connections without it are rejected.
 *
 * To use: between two peers and in each direction there are `channels`. The n-th message sent on a channel is
 * the n-th one received there. Channels do not wait for each other. Send and receive return at once; a thread
 * of the transport copies. Each message may have another size; the receiver must know it.
 *
 * Every function may be called by any thread; the text of slackline_transport_error belongs to the calling
 * thread. In a forked child, every function fails, and the parent's transport is unaffected.
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

/** Identifies this host: processes with equal texts reach each other without a network. `text` has `size`
 *  bytes, at least 80. SLACKLINE_TRANSPORT_SYSTEM: /proc does not have what is needed. */
slackline_transport_status slackline_transport_host(char *text, size_t size);

typedef struct slackline_transport slackline_transport;

/** All ranks pass the same key, ranks, channels, delegates, piece_bytes and slots, and `peers` that match.
 *  Everything is copied. */
typedef struct slackline_transport_options {
    int rank, ranks;          /* at most 4,096 ranks */
    const char *peers;        /* [ranks] nonzero: a peer, in both directions; NULL: all others */
    const char *const *hosts; /* [ranks] equal texts: same host (slackline_transport_host); NULL: all are */
    const unsigned char *key; /* [32] */
    int channels;             /* per direction */
    int delegates;            /* per channel and direction; large messages are divided among them */
    const char *const *rails; /* to other hosts: names of interfaces or own addresses; NULL: one, chosen */
    int rail_count;      /* at most SLACKLINE_TRANSPORT_RAILS; rail i of one host meets rail i of the other */
    size_t piece_bytes;  /* messages are cut into pieces; at least 4,096 and at most 2^30 */
    int slots;           /* pieces in the memory shared with a delegate: channels * delegates * 2 * slots
                          * * piece_bytes bytes per peer; at least 2 */
    int prove_frames;    /* nonzero, on all ranks: each frame proves that it comes from a rank with the key
                          * (AES-256-GMAC), not only each connection; nothing is encrypted */
    int64_t silence_ns;  /* a rail is down after this silence; at least 10 ms */
    int64_t refusal_ns;  /* a peer is gone after refusing every attempt for this time */
    int64_t outage_ns;   /* a link is lost after this time without a rail */
    const char *program; /* slackline-delegate; NULL: SLACKLINE_DELEGATE in the environment, else next to
                          * this library or the running program, or in ../bin from there, else in PATH */
} slackline_transport_options;

/** Fills in: no ranks, one channel with one delegate, pieces of 1 MiB, 8 slots, silence 200 ms, refusal 1 s,
 *  outage 30 s, everything else NULL or 0. */
void slackline_transport_defaults(slackline_transport_options *options);

/** Makes the memory and the sockets that listen; starts nothing. *transport is NULL on failure.
 *  SLACKLINE_TRANSPORT_INVALID: an option is out of range, or a rail is neither an interface nor an address.
 *  SLACKLINE_TRANSPORT_SYSTEM: slackline-delegate is missing or others could replace it, or a call failed. */
slackline_transport_status slackline_transport_prepare(const slackline_transport_options *options,
                                                       slackline_transport **transport);

/** The bytes for the other ranks; owned by the transport. */
const void *slackline_transport_block(const slackline_transport *transport, size_t *bytes);

/** Starts the delegates, once. `blocks`: those of all ranks in order, block after block. Waits until each
 * link from this rank has a rail, at most `timeout_ns`. SLACKLINE_TRANSPORT_LOST: a link has none, or a rank
 * has other options; SLACKLINE_TRANSPORT_SYSTEM: a delegate cannot be started. After a failure only close is
 *  left. */
slackline_transport_status slackline_transport_start(slackline_transport *transport, const void *blocks,
                                                     int64_t timeout_ns);

/** A message that was posted. */
typedef struct slackline_message slackline_message;

/** Hands over `bytes` of `data`, which must not change until the message is complete: all of it is copied
 *  into shared memory, but may not have arrived. It is sent even without a wait. *message (may be NULL) is
 *  released by slackline_transport_release. SLACKLINE_TRANSPORT_INVALID, _NO_MEMORY; _LOST: the
 *  link is lost already. */
slackline_transport_status slackline_transport_send(slackline_transport *transport, int peer, int channel,
                                                    const void *data, size_t bytes,
                                                    slackline_message **message);

/** The next message from `peer` on this channel is to be written to `buffer`, which belongs to the transport
 *  until the message is complete or the transport is closed. It must have exactly `bytes`; if not, the link
 * is lost. Otherwise as slackline_transport_send. */
slackline_transport_status slackline_transport_receive(slackline_transport *transport, int peer, int channel,
                                                       void *buffer, size_t bytes,
                                                       slackline_message **message);

/** Waits until the message is complete, at most `timeout_ns` (0: only looks; negative: without limit).
 *  SLACKLINE_TRANSPORT_PENDING; _LOST with the reason, each time that it is asked. */
slackline_transport_status slackline_transport_wait(slackline_message *message, int64_t timeout_ns);

/** The time of its completion or loss, in ns of CLOCK_MONOTONIC; 0: still under way. */
int64_t slackline_transport_completed(slackline_message *message);

/** Frees the handle; the message is still sent or received. NULL does nothing. Not while a thread waits for
 * it. */
void slackline_transport_release(slackline_message *message);

typedef enum slackline_transport_happening {
    SLACKLINE_TRANSPORT_RAIL_UP,
    SLACKLINE_TRANSPORT_RAIL_DOWN,
    SLACKLINE_TRANSPORT_STRANGER, /* a connection without the key was rejected */
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

/** Takes the next event of this rank's delegates. 1, or 0: none. Not sorted by time. If events are not taken,
 *  later ones are dropped. */
int slackline_transport_next_event(slackline_transport *transport, slackline_transport_event *event);

/** Process ids of the living delegates into pids[count]; returns their number, which may be larger. */
int slackline_transport_delegates(slackline_transport *transport, int *pids, int count);

/** Waits until all sent messages have arrived at the peers' delegates, or the peers have closed, at most
 *  `linger_ns`; then ends the delegates and frees everything. Messages that are not complete become LOST;
 *  wait and release still accept them. No other thread may use the transport. NULL does nothing. In a
 *  forked child it does nothing. */
void slackline_transport_close(slackline_transport *transport, int64_t linger_ns);

#ifdef __cplusplus
}
#endif
#endif
