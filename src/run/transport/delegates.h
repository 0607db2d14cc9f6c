/* A trainer's side of its delegates: their memory, queues, doorbells and sockets, and the thread that starts,
 * watches and replaces them.
 *
 * The resources of a delegate belong to the trainer and outlive any number of delegates: the shared memory (a
 * memfd), the doorbell, the listening sockets. Only the watcher thread starts and ends processes, so they get
 * their death signal when the trainer ends and not when some other thread does. */
#pragma once

#include "run/transport/delegate.h"
#include "run/transport/transport.h"

typedef struct sl_delegates_config {
    int rank, ranks, slots;
    size_t message_bytes;
    char *directory; /* for unix sockets; "@name": they are abstract, with names that begin so; NULL: none */
    char *talks;     /* [ranks]: 0: no peer, 1: on this host, 2: on another one */
    uint8_t key[32];
    int has_starter;
    sl_transport_starter starter;
    int rails; /* 0: chosen by the system when needed */
    char rail[SL_RAILS_MAX][64];
    uint32_t chunk_bytes;
    sl_time beat, silence, outage, refusal; /* endpoint.h */
    int proves;                             /* likewise */
    int deaths_max;
    sl_transport_class scheduling;
} sl_delegates_config;

typedef struct sl_delegates sl_delegates;

/* One stream between this rank and a peer; the compute side's part of a delegate. */
typedef struct sl_delegate_stream {
    sl_queue_view queue;
    uint64_t harvested;           /* outgoing: messages whose times have been read */
    char reason[SL_QUEUE_REASON]; /* why the queue is lost, once detected */
    int32_t *record;              /* [slots] outgoing: number of the record in slot n % slots */
} sl_delegate_stream;

/** See sl_transport_block_bytes: for up to 8 delegates. */
size_t sl_delegates_block_bytes(int ranks);

/** sl_transport_prepare_delegates. `config` must outlive the delegates. */
sl_status sl_delegates_prepare(const sl_delegates_config *config, int count, void *block,
                               sl_delegates **delegates);
/** sl_transport_start_delegates; on failure, close it. */
sl_status sl_delegates_start(sl_delegates *delegates, const void *blocks, sl_time timeout);
/** Ends the processes, frees and unlinks everything. NULL is fine. */
void sl_delegates_close(sl_delegates *delegates);

/** Delegates per peer and direction. */
int sl_delegates_count(const sl_delegates *delegates);

/** Queue number message % count from (sends 0) or to (1) a peer; compute side. */
sl_delegate_stream *sl_delegates_stream(sl_delegates *delegates, int peer, int sends, uint64_t message);
/** Position of the message in its queue. */
uint64_t sl_delegates_position(const sl_delegates *delegates, uint64_t message);
/** Futex word that changes after a message of any outgoing queue is finished, or such a queue is lost. */
_Atomic uint32_t *sl_delegates_settled(sl_delegates *delegates);
/** Rings the delegate of a stream. */
void sl_delegates_ring(sl_delegates *delegates, const sl_delegate_stream *stream);

/** Process ids of the living ones into pids[most]; returns how many there are. Any thread. */
int sl_delegates_living(sl_delegates *delegates, int *pids, int most);

int sl_delegates_next_event(sl_delegates *delegates, sl_transport_event *happened);
