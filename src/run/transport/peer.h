/* The private side of a transport: the state of one rank and of each of its peers.
 *
 * Three kinds of thread share it. The compute side (the caller of send, receive, wait, wait_sent) fills
 * records of outgoing messages and hands their numbers over through a ring. The thread that publishes for a
 * peer (the communication thread for peers that share memory, the network thread for peers on other hosts)
 * owns that peer's lane and marks the record done. Any thread may abort. Each field names its writer and
 * reader. */
#pragma once

#include "run/transport/delegates.h"
#include "run/transport/lane.h"
#include "run/transport/link_emulator.h"
#include "run/transport/transport.h"
#include <pthread.h>
#include <semaphore.h>

typedef struct sl_network sl_network;
typedef struct sl_crossing sl_crossing;

enum { SL_OUTGOING_FREE, SL_OUTGOING_HANDED, SL_OUTGOING_DONE };

typedef struct sl_outgoing {
    /* FREE -> HANDED (release, after the fields below) and DONE -> FREE: compute side. HANDED -> DONE:
     * publishing thread, release, after `sent`; the compute side acquires. */
    _Atomic uint32_t state;
    uint32_t iteration,
        index;    /* these: written by the compute side while FREE, read by the publishing thread */
    int32_t slot; /* already copied into this slot of the lane; -1: `data` is to be copied or sent */
    const void *data;
    size_t bytes;
    sl_sent sent;    /* start, end, due: compute side, from the emulator; arrive: publishing thread */
    uint64_t number; /* delegated: messages sent to that peer's delegates before this one; compute side */
} sl_outgoing;

typedef struct sl_posted {
    int open;
    uint32_t iteration, index;
    void *buffer;
    size_t bytes;
    uint64_t number; /* delegated: messages posted from that peer's delegates before this one */
} sl_posted;

typedef struct sl_peer {
    int rank;
    int talks;                   /* this rank and that one are peers; otherwise the rest is unused */
    int remote;                  /* on another host */
    sl_link_emulation emulation; /* compute side */
    sl_link_emulator emulator;   /* compute side */
    sl_link_emulator queue_emulator[SL_DELEGATES_MAX]; /* the same, per queue if emulation.per_queue */
    sl_posted *posted;                                 /* [slots]; compute side */
    sl_outgoing *outgoing;                             /* [slots] */
    /* Handover ring: entry n % slots is the record number of handover n. The compute side writes the entry,
     * then `handed` (release); the publishing thread reads `handed` (acquire), then the entry. It cannot
     * overflow: a record is handed over once before wait_sent frees it, and there are `slots` of both. */
    int32_t *handover;
    _Atomic uint64_t handed;
    uint64_t published; /* handovers published so far, in order; publishing thread */
    /* shared memory only. Claims: compute side and communication thread; publishes: the latter */
    sl_lane_view out;
    sl_lane_view in;       /* compute side */
    sl_region *region;     /* mapped from the peer */
    sl_crossing *crossing; /* on another host: queues and endpoints (network.h) */
    sl_crossing *clearing; /* the same for clearances; NULL: there are none */
    _Atomic int lost;      /* network thread: set (seq_cst) once, after `reason`; read by all threads */
    char reason[192];
    /* delegated; compute side: messages handed over, receives posted */
    uint64_t delegated_out, delegated_in;
} sl_peer;

struct sl_transport {
    int rank, ranks, slots;
    size_t message_bytes;
    sl_clock *clock;
    sl_transport_class scheduling;
    sl_region *region;   /* own lanes; NULL when all peers are remote */
    int mapped;          /* `region` and those of the peers are mapped files, not the hub's */
    char *file;          /* own file; NULL: none */
    sl_peer *peer;       /* [ranks] */
    sl_network *network; /* NULL: no peer on another host */
    sl_wires wires;
    pthread_t thread;
    int running; /* the thread was started */
    sem_t started;
    const char *obtained; /* scheduling class; written by the thread before `started` */
    /* Futex word of wait_sent and await_change (lane.h), in the region, or else `own_changed`; the network
     * thread plays the peers on other hosts. */
    _Atomic uint32_t *changed, own_changed;
    _Atomic int closing;
    _Atomic int aborted; /* set (seq_cst) before the word in `waiting` is poked */
    /* The bell that the compute side sleeps on, or NULL. It is stored (seq_cst) before `aborted` and `lost`
     * are read, while those are set before `waiting` is read: either the waiter sees the flag or the other
     * thread sees the bell. */
    _Atomic(_Atomic uint32_t *) waiting;
    sl_transport_path path; /* compute side */
    sl_delegates_config delegation;
    sl_delegates *delegates; /* NULL: none; compute side */
};

/** Wakes the compute side so that it reads `aborted` and `lost` again. Any thread. */
void sl_transport_poke(sl_transport *t);

/** Wakes who waits on `changed`. Any thread. */
void sl_transport_change(sl_transport *t);

/** Publishing thread: the oldest record handed over and not yet published, or NULL. `published` grows by 1
 * after it is. */
sl_outgoing *sl_peer_head(sl_peer *peer, int slots);

/** Publishing thread: this record's message is at the receiver; wakes wait_sent. */
void sl_peer_done(sl_transport *t, sl_outgoing *record);

/** A message's full name, for error texts. */
typedef struct sl_full_name {
    int from, to;
    uint32_t iteration, index;
} sl_full_name;

/** Compute side: why a wait on a link must end without its message; SL_OK: it continues. `reason` (NULL:
 * none) was read before looking for the message, so that a message that arrived just before a loss is not
 * refused. */
sl_status sl_message_interrupted(sl_transport *t, const char *reason, sl_time deadline,
                                 const sl_full_name *m);

/** Compute side, delegated path: fills the next slot of the right queue with a record's name, data and times,
 * and puts it. */
sl_status sl_delegated_send(sl_transport *t, sl_peer *peer, sl_outgoing *record, sl_time ready);
/** Reads what the record's delegate has finished (which may include the record). Returns why its queue is
 * lost, or NULL. The text stays valid. */
const char *sl_delegated_look(sl_transport *t, sl_peer *peer, const sl_outgoing *record);
/** Sleeps until the posted message is in its queue, copies it into its buffer and frees its slot. */
sl_status sl_delegated_wait(sl_transport *t, sl_peer *peer, const sl_posted *posted, sl_time deadline,
                            const sl_full_name *m, sl_time *arrived);

/** Starts the communication thread / ends it. */
sl_status sl_communication_start(sl_transport *t);
void sl_communication_end(sl_transport *t);

/* A hub: regions of several ranks in one process, so that threads can be ranks. */
struct sl_transport_hub {
    int ranks, slots;
    size_t message_bytes;
    sl_wires wires;
    sl_region **region; /* [ranks], each with a lane towards every other rank; untouched pages cost nothing */
};
