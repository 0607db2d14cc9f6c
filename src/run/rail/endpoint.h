/* An endpoint: one end of a conduit, on an event loop. The sending endpoint takes messages from a queue in
 * shared memory and writes their payloads straight from there to its rails. The receiving endpoint reads
 * payloads straight into a queue and publishes them. An endpoint opens, authenticates, watches and replaces
 * the connections. The same code runs in the trainer (direct path between hosts: the network thread's loop)
 * and in a delegate process.
 *
 * A rail is a pair of addresses. The sender connects, the receiver listens; both prove that they know the
 * run's key (listener.h). Each side sends a frame on every live connection every `beat` and closes a
 * connection that was silent for `silence`. Link events of the kernel (netlink) and TCP_USER_TIMEOUT close it
 * sooner. A closed rail is retried until the endpoint is closed. If no rail has been up for `outage`, the
 * conduit is lost: the queue is marked lost, with a reason that names the link. */
#pragma once

#include "base/loop.h"
#include "run/conduit/conduit.h"
#include "run/rail/listener.h"
#include "run/rail/queue.h"
#include "run/rail/rail_socket.h"

typedef enum sl_endpoint_event {
    SL_HAPPENED_RAIL_UP,
    SL_HAPPENED_RAIL_DOWN, /* after it had been up; `text` is the reason */
    SL_HAPPENED_STRANGER,  /* a stranger was dropped; rail -1 */
    SL_HAPPENED_GOODBYE,   /* the endpoint at the other end closed normally; it may be opened again */
    SL_HAPPENED_LOST       /* the conduit is given up; rail -1 */
} sl_endpoint_event;

typedef void (*sl_endpoint_report)(void *object, sl_endpoint_event happened, int rail, const char *text);

typedef struct sl_endpoint_config {
    int sends;            /* 1: takes from `queue`; 0: publishes into it */
    int from, to;         /* ranks */
    int number;           /* number of this conduit among those from `from` to `to` */
    uint8_t key[32];      /* of the run */
    sl_queue_view *queue; /* this endpoint is its only reader (sends) or writer; the caller's */
    int rails;
    sl_rail_address rail[SL_RAILS_MAX];
    int listening[SL_RAILS_MAX]; /* receiver: listening sockets of rail[], the caller's */
    sl_listener
        *listener;        /* receiver: a shared listener instead of listening[] (listener.h); NULL: its own */
    uint32_t chunk_bytes; /* 0: 256 KiB */
    sl_time beat, silence, outage; /* 0: 50 ms, 200 ms, 30 s */
    /* sender: also lost if every attempt for this long was refused; 0: never. For receivers that listen for
     * their whole lifetime. */
    sl_time refusal;
    int proves;                /* 1: every frame is authenticated (frame_proof.h), at both ends */
    int own_clock;             /* 1: no other process shares this clock, whatever the kernel reports */
    sl_endpoint_report report; /* may be NULL; must not close the endpoint */
    /* Called after this endpoint has put or finished messages; may be NULL. Must not close the endpoint. */
    void (*moved)(void *object);
    void *object;
} sl_endpoint_config;

typedef struct sl_endpoint sl_endpoint;

/** Starts on `loop`, which must outlive it; everything else happens in the loop's callbacks. */
sl_status sl_endpoint_open(sl_loop *loop, const sl_endpoint_config *config, sl_endpoint **endpoint);
/** Sends a goodbye if that is possible without waiting, then closes the connections. NULL is fine. */
void sl_endpoint_close(sl_endpoint *endpoint);
/** The queue has changed (a message was put, a slot was freed): looks at it. The loop's thread. */
sl_status sl_endpoint_look(sl_endpoint *endpoint);
/** The reason of the rail that most recently went down or failed to come up; "" if none did. */
const char *sl_endpoint_reason(const sl_endpoint *endpoint);
/** Number of rails that are up. */
int sl_endpoint_rails_up(const sl_endpoint *endpoint);
