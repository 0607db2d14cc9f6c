/* Messages between pipeline ranks. One transport per process (rank), with one communication thread.
 *
 * The compute side posts receives ahead, hands over sends with the time at which their data count as ready,
 * and waits for arrivals; all waits sleep (sl_clock_wait). Every directed link has an emulated latency and
 * bandwidth (first come first served, one message occupies the link at a time) in absolute times: a message
 * is published at the receiver at ready-or-free + transfer + latency, so lateness never accumulates. Messages
 * to one peer are handed over in the order of their ready times, as produced by a rank that runs one op after
 * the other. The communication thread publishes them; it runs under SCHED_FIFO if permitted, else with a
 * short slice (sched_setattr), else as a normal thread.
 *
 * Paths: ranks of one host share memory (a mapped file in `directory`, futex words, the payload copied once
 * before the publishing time); ranks of different hosts use TCP (frames with sequence numbers, a per-run key
 * in the handshake). Threads of one process that act as ranks share an sl_transport_hub instead, also on a
 * virtual clock.
 *
 * Messages take the direct path, as above, or the delegated path, through separate processes that a slow or
 * dying network cannot block (last section; README, Delegates).
 *
 * Per directed pair, a message is named by (iteration, index), unique while it is under way. */
#pragma once

#include "base/clock.h"
#include "base/status.h"
#include "run/transport/starter.h"
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sl_transport sl_transport;
typedef struct sl_transport_hub sl_transport_hub;

#define SL_TRANSPORT_RAILS 8

/* The address of a rail of a rank. */
typedef struct sl_transport_rail {
    char address[64]; /* numeric IPv4 or IPv6 */
    uint16_t port;
} sl_transport_rail;

typedef struct sl_transport_address {
    char host[64];   /* name of the host */
    uint64_t memory; /* its file system for shared memory: containers of one host may have one each */
    /* numeric IPv4 or IPv6 address to reach it, with port (filled by sl_transport_listen) */
    char address[64];
    uint16_t port;
    int rails; /* 0: one, the above; else these, and the first is the above */
    sl_transport_rail rail[SL_TRANSPORT_RAILS];
} sl_transport_address;

/* Scheduling class of the threads that publish messages. BEST tries them in this order and takes the first
 * that is permitted. */
typedef enum sl_transport_class {
    SL_CLASS_BEST,
    SL_CLASS_FIFO,  /* SCHED_FIFO, priority 10 */
    SL_CLASS_SLICE, /* SCHED_OTHER with a slice of 100 us (kernel 6.12 or newer) */
    SL_CLASS_NORMAL
} sl_transport_class;

typedef struct sl_transport_config {
    int rank, ranks;
    sl_clock *clock;
    /* of the run, on a memory file system: holds the shared-memory files, which are removed with it */
    const char *directory;
    /* not NULL: threads of this process are the ranks; directory and addresses unused */
    sl_transport_hub *hub;
    const sl_transport_address *addresses; /* [ranks]; NULL: all on one host */
    uint8_t key[32];                       /* of the run; a peer without it is dropped and logged */
    size_t message_bytes;                  /* largest message */
    int slots;  /* messages under way per directed pair, at least those of one iteration (hub: the hub's) */
    int clears; /* clearances (below) may go to peers on other hosts */
    /* [ranks] bytes, nonzero: a peer of this rank (in both directions); NULL: all */
    const char *peers;
    sl_transport_class scheduling; /* the first class to try */
    /* [from * ranks + to], equal on all ranks: emulated links with the same number >= ranks * ranks share a
     * wire; NULL: one wire per link */
    const int *wire;
    /* towards other hosts: own interfaces or numeric addresses, one rail each, paired by position with those
     * of the peer; 0: the one that sl_transport_listen would choose. Copied. */
    const char *const *rails;
    int rail_count;
    const int *rail_sockets; /* [rail_count] listening (sl_transport_listen_rails), one per rail */
    uint32_t chunk_bytes;    /* 0: the endpoint's default, also for the next three */
    sl_time rail_beat, rail_silence, outage; /* endpoint.h */
    int proves;                              /* frames between hosts (endpoint.h) */
    /* The rest is for the delegated path. NULL: none. Copied. */
    const sl_transport_starter *starter;
    int deaths_max; /* max. deaths of delegates within 10 s, more are an error; 0: 20 */
} sl_transport_config;

/* A wire that links of several ranks share, such as one direction of a network card. */
typedef struct sl_link_wire {
    _Atomic int64_t
        *free_at; /* shared: time at which it becomes free (link_emulator.h); outlives its emulation */
    double bytes_per_second; /* > 0 */
} sl_link_wire;

#define SL_LINK_WIRES 4 /* cards of a process and of its host, at both ends */

/** The emulated effect of a directed link on messages, on top of the real path. */
typedef struct sl_link_emulation {
    sl_time latency;
    double bytes_per_second; /* 0: no limit */
    int per_queue;           /* the limit applies to each queue of the delegated path, as to separate flows */
    int wires;               /* passed after the link's own wire, in this order */
    sl_link_wire wire[SL_LINK_WIRES];
} sl_link_emulation;

typedef struct sl_sent {
    sl_time start, end; /* enters and leaves the link */
    sl_time arrive;     /* actually published at the receiver */
    sl_time due;        /* emulated arrival time; arrive - due is the arrival error */
} sl_sent;

/** Opens the listening socket for peers on other hosts and fills `address` (host name, numeric address,
 * port). `interface_address`: a numeric IPv4 or IPv6 address of this host, the name of one of its interfaces,
 * or NULL: its first address that others can reach, else the loopback one. The addresses of all ranks are
 * exchanged by the caller. *socket is passed to sl_transport_open. SL_EINVAL, SL_ESYS. */
sl_status sl_transport_listen(const char *interface_address, sl_transport_address *address, int *socket);

/** The same for several rails: rails[count], each an interface or an own address, with the prefix "ucx:" to
 * use UCX (count 0: one rail, as with NULL above). sockets[SL_TRANSPORT_RAILS] are for
 * sl_transport_config.rail_sockets. */
sl_status sl_transport_listen_rails(const char *const *rails, int count, sl_transport_address *address,
                                    int *sockets);

/** Connects to the peers (waits at most `timeout`) and starts the communication thread. Ownership of `socket`
 * (-1: none) and of config->rail_sockets passes to the transport, also on failure. The virtual clock needs a
 * hub. SL_EPEER names the peer that did not connect; SL_EINVAL, SL_ENOMEM, SL_ESYS. *transport is NULL on
 * failure.
 *
 * Only one thread at a time may call send, receive, wait and wait_sent of one transport; any thread may call
 * abort. */
sl_status sl_transport_open(const sl_transport_config *config, int socket, sl_time timeout,
                            sl_transport **transport);
/** Ends the threads, discards messages not yet published, removes this rank's file. NULL is fine. */
void sl_transport_close(sl_transport *transport);

/** Sets the emulation of the directed link from this rank to `peer`, for messages handed over from now on. */
void sl_transport_emulate(sl_transport *transport, int peer, sl_link_emulation emulation);

/** 1: the emulated link to `peer` shares a wire with links of other ranks; its messages must be handed over
 * when they are ready, not before. */
int sl_transport_shares_wire(const sl_transport *transport, int peer);

/** Posts a receive ahead: the message (iteration, index) from `peer` goes to `buffer` (of `bytes`, kept by
 * the caller until sl_transport_wait reports the arrival). SL_EINVAL: more than `slots` posted, or posted
 * twice. */
sl_status sl_transport_receive(sl_transport *transport, int peer, uint32_t iteration, uint32_t index,
                               void *buffer, size_t bytes);

/** Sleeps until the posted message has arrived; *arrived: its time of publishing. SL_EPEER if the peer is
 * gone, if `deadline` (SL_TIME_NEVER: none) has passed, or if the message's size differs from the posted
 * buffer's; the text names the link. SL_EINVAL if it was never posted. */
sl_status sl_transport_wait(sl_transport *transport, int peer, uint32_t iteration, uint32_t index,
                            sl_time deadline, sl_time *arrived);

/** Hands a message over. The data may be sent from now on (they are copied or sent before this returns, or
 * kept until sl_transport_wait_sent; the caller must not change them before that), but count as ready at
 * `ready`, which may be in the future: the message never arrives before ready + transfer + latency. Never
 * sleeps: if the receiver has no free slot for it, the communication thread publishes it as soon as there is
 * one. SL_EINVAL: more than `slots` handed over and not yet waited for, handed over twice, or too large;
 * SL_EPEER: the peer is gone. */
sl_status sl_transport_send(sl_transport *transport, int peer, uint32_t iteration, uint32_t index,
                            const void *data, size_t bytes, sl_time ready);

/** Sleeps until a handed-over message has been published at the receiver, and returns its times. Must be
 * called exactly once for each message handed over; it gives the slot back. sent->arrive is the time that
 * the receiver's sl_transport_wait reports (over TCP, on the receiver's clock: comparable if both share
 * one). */
sl_status sl_transport_wait_sent(sl_transport *transport, int peer, uint32_t iteration, uint32_t index,
                                 sl_time deadline, sl_sent *sent);

#define SL_ANY_SENT 8

typedef struct sl_message_name {
    int peer;
    uint32_t iteration, index;
} sl_message_name;

/** The same for the first to be published of `count` (at most SL_ANY_SENT) handed-over messages; of several,
 * the first in the list. *which is its index, and the call counts only for it. With `deadline` 0 it does not
 * sleep: *which is -1 if none is published. */
sl_status sl_transport_wait_any_sent(sl_transport *transport, const sl_message_name *names, int count,
                                     sl_time deadline, int *which, sl_sent *sent);

/* ---- rendezvous, on the direct path ----
 *
 * A message that must not leave before its receive is reached: the receiver clears it, and the sender hands
 * it over only then. Clearances pass all messages of their link, and emulated links do not delay them. The
 * thread that waits for several things at once reads sl_transport_changes, looks at all of them, and then
 * awaits a change. */

/** To the sender of a message: its receive was reached at this time. SL_EPEER: the peer is gone. */
sl_status sl_transport_clear(sl_transport *transport, int peer, uint32_t iteration, uint32_t index,
                             sl_time reached);
/** The next of the messages of this rank and iteration that a peer has cleared, and when its receive was
 * reached (on another host: when this was learned, on this clock). SL_ENONE: none yet; SL_EPEER names the
 * link. */
sl_status sl_transport_next_cleared(sl_transport *transport, uint32_t iteration, sl_message_name *name,
                                    sl_time *reached);

/** Like sl_transport_wait, without waiting: SL_ENONE if it has not arrived. */
sl_status sl_transport_take(sl_transport *transport, int peer, uint32_t iteration, uint32_t index,
                            sl_time *arrived);

/** When the emulated link carries a message that was handed over; `arrive` is not known yet. SL_EINVAL: it
 * was not. */
sl_status sl_transport_times(const sl_transport *transport, int peer, uint32_t iteration, uint32_t index,
                             sl_sent *sent);

/** Changes after a message has arrived, was published or cleared, or is lost with its peer. */
uint32_t sl_transport_changes(const sl_transport *transport);
/** Changes it. Any thread. */
void sl_transport_change(sl_transport *transport);
/** Sleeps while it equals `seen`, at most until `deadline`. May return early. */
void sl_transport_await_change(sl_transport *transport, uint32_t seen, sl_time deadline);
/** Why a message of this rank that is not there at `deadline` will not come (SL_EPEER); SL_OK: it may. Any
 * thread. */
sl_status sl_transport_check(sl_transport *transport, int from, int to, uint32_t iteration, uint32_t index,
                             sl_time deadline);

/** Makes every wait of this process end with SL_EPEER from now on (a rank of the run has failed). */
void sl_transport_abort(sl_transport *transport);

/** "SCHED_FIFO 10", "slice 100 us" or "normal": the class that the communication thread obtained. */
const char *sl_transport_scheduling(const sl_transport *transport);

/* ---- the delegated path ----
 *
 * There are `count` delegates per peer and direction, each with its own queue in shared memory. Message n of
 * a link goes through queue n % count, so receives must be posted in the order in which the peer sends. All
 * ranks call prepare, exchange their blocks, call start and then use, between two iterations: nothing is
 * posted or under way. A delegate that dies is replaced immediately; no message is lost or duplicated. */

#define SL_DELEGATES_MAX 8 /* per peer and direction */

typedef enum sl_transport_path { SL_PATH_DIRECT, SL_PATH_DELEGATED } sl_transport_path;

/** Bytes of the block that prepare fills, equal on all ranks. */
size_t sl_transport_block_bytes(const sl_transport *transport);

/** Makes queues and listening sockets for `count` (1 to 8) delegates per peer and direction, and writes their
 * addresses into `block`, for all ranks. SL_EINVAL: no starter, a hub, or prepared already; SL_ESYS. */
sl_status sl_transport_prepare_delegates(sl_transport *transport, int count, void *block);

/** Starts the delegates and sleeps until every queue towards a peer has a rail. `blocks`: those of all ranks,
 * concatenated. SL_EPEER names the link that has none after `timeout`; SL_ESYS: a delegate cannot be
 * started. On failure there are no delegates. */
sl_status sl_transport_start_delegates(sl_transport *transport, const void *blocks, sl_time timeout);

/** Send, receive and wait take this path from now on. SL_EINVAL: something is posted or under way, or there
 * are no delegates. */
sl_status sl_transport_use(sl_transport *transport, sl_transport_path path);

/** Ends the delegates; the path must be direct. Collective: all ranks must have waited for their sends, or a
 * peer's last acknowledgement may be lost. Does nothing if there are none. */
sl_status sl_transport_stop_delegates(sl_transport *transport);

typedef enum sl_transport_event_kind {
    SL_TRANSPORT_RAIL_UP,
    SL_TRANSPORT_RAIL_DOWN,
    SL_TRANSPORT_STRANGER, /* a stranger was dropped */
    SL_TRANSPORT_GOODBYE,  /* the delegate at the other end ended normally */
    SL_TRANSPORT_LOST,     /* a queue is given up: every wait on it ends with the reason */
    SL_TRANSPORT_REPLACED  /* a delegate died and was replaced; `text`: how it ended */
} sl_transport_event_kind;

typedef struct sl_transport_event {
    sl_transport_event_kind kind;
    int from, to, number; /* conduit `number` of link `from` -> `to` */
    int rail;             /* -1: none */
    sl_time time;
    char text[112];
} sl_transport_event;

/** Takes the next event of this rank's delegates and of its direct path to other hosts (number -1; from -1
 * for a stranger); 0: none. Not sorted by time. */
int sl_transport_next_event(sl_transport *transport, sl_transport_event *happened);
