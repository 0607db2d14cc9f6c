/* An endpoint: one end of a conduit, on an event loop. The sending one takes messages from a queue in shared
 * memory and writes their payloads straight from there to its rails; the receiving one reads payloads
 * straight into a queue and publishes them. It makes, authenticates, watches and replaces the connections. It
 * runs in the trainer (direct path between hosts: the network thread's loop) or in a delegate process: same
 * code.
 *
 * A rail is a pair of addresses. The sender connects, the receiver listens; both prove that they know the
 * run's key (handshake.h). Each side says something on every live connection every `beat` and closes one that
 * was silent for `silence`; link events of the kernel (netlink) and TCP_USER_TIMEOUT close it sooner. A
 * closed rail is tried again until the endpoint ends. When no rail has been up for `outage`, the conduit is
 * lost: the queue's reader is told why, in words that name the link. */
#pragma once

#include "base/loop.h"
#include "run/conduit/conduit.h"
#include "run/rail/listener.h"
#include "run/rail/queue.h"

typedef enum sl_rail_kind {
    SL_RAIL_TCP,
    SL_RAIL_UNIX,
    SL_RAIL_UCX /* connected and greeted over TCP, frames over UCX (rail_line.h); address as TCP's */
} sl_rail_kind;

typedef struct sl_rail_address {
    sl_rail_kind kind;
    char interface[32]; /* TCP: bound to this device where the system permits; empty: any */
    char address[108];  /* numeric IPv4 or IPv6 address, or the path of a unix socket; of the receiver */
    char source[64];    /* TCP, sender: the own numeric address to connect from; empty: the system's choice */
    uint16_t port;
} sl_rail_address;

typedef enum sl_endpoint_news {
    SL_NEWS_RAIL_UP,
    SL_NEWS_RAIL_DOWN, /* after it had been up; `text` says why */
    SL_NEWS_STRANGER,  /* somebody was dropped; rail -1 */
    SL_NEWS_GOODBYE,   /* the endpoint at the other end has closed in good order; it may be opened again */
    SL_NEWS_LOST       /* the conduit is given up; rail -1 */
} sl_endpoint_news;

typedef void (*sl_endpoint_tell)(void *object, sl_endpoint_news news, int rail, const char *text);

typedef struct sl_endpoint_config {
    int sends;            /* 1: takes from `queue`; 0: publishes into it */
    int from, to;         /* ranks */
    int number;           /* which of the conduits from `from` to `to` this is */
    uint8_t key[32];      /* of the run */
    sl_queue_view *queue; /* this endpoint is its only reader (sends) or writer; the caller's */
    int rails;
    sl_rail_address rail[SL_RAILS_MAX];
    int listening[SL_RAILS_MAX]; /* receiver: sockets that listen on rail[], the caller's */
    sl_listener
        *listener; /* receiver: a shared listener instead of listening[] (listener.h); NULL: its own */
    uint32_t chunk_bytes;         /* 0: 256 KiB */
    sl_time beat, silence, outage; /* 0: 50 ms, 200 ms, 30 s */
    /* sender: lost as well when for so long every answer to its attempts was that nobody listens; 0: never.
     * For who listens as long as it lives. */
    sl_time refusal;
    int own_clock;        /* 1: nobody else has this clock, whatever the kernel says */
    sl_endpoint_tell tell; /* may be NULL; must not close the endpoint */
    /* Called when this endpoint has put or finished messages; may be NULL. May look, must not close. */
    void (*moved)(void *object);
    void *object;
} sl_endpoint_config;

typedef struct sl_endpoint sl_endpoint;

/** Starts on `loop`, which must outlive it; everything else happens in the loop's callbacks. */
sl_status sl_endpoint_open(sl_loop *loop, const sl_endpoint_config *config, sl_endpoint **endpoint);
/** Says goodbye where it can without waiting, closes the connections. NULL is fine. */
void sl_endpoint_close(sl_endpoint *endpoint);
/** The queue has changed (a message was put, a place was freed): looks at it. The loop's thread. */
sl_status sl_endpoint_look(sl_endpoint *endpoint);
/** Why the rail that went down last did, or could not come up; "" when none did. */
const char *sl_endpoint_reason(const sl_endpoint *endpoint);
/** Rails that are up now. */
int sl_endpoint_rails_up(const sl_endpoint *endpoint);

/** Opens a socket that listens at `rail` (port 0: any; the one obtained is filled in). A unix socket's file
 * is made with mode 0600. SL_EINVAL, SL_ESYS. */
sl_status sl_rail_listen(sl_rail_address *rail, int *socket);
