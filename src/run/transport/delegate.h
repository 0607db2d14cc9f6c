/* A delegate: the process that runs one endpoint for a trainer, so that a slow link never blocks the trainer.
 * Its instructions are in an *order* at the front of the memory that it shares with its trainer; the queue
 * follows. It inherits everything it needs:
 *
 *   file 3    the shared memory (a sealed memfd: order, queue)
 *   file 4    the doorbell (eventfd): the trainer has put a message or freed a slot
 *   file 5    a page with the trainer's bell (futex word): changed after a message has been finished
 *   file 6..  sockets that listen on the order's rails (a receiving delegate)
 *
 * It ends when its trainer does (death signal and pidfd), on SIGHUP, or when its endpoint fails. A new one
 * with the same files resumes from the counts of the queue. It writes nothing to stderr: its events go
 * through a ring in the order. */
#pragma once

#include "run/rail/endpoint.h"

enum {
    SL_DELEGATE_MEMORY = 3,
    SL_DELEGATE_LISTENERBELL = 4,
    SL_DELEGATE_SETTLED = 5,
    SL_DELEGATE_LISTENING = 6
};

#define SL_DELEGATE_MAGIC 0x656c65646b6c7331ULL
#define SL_DELEGATE_VERSION 3u
#define SL_DELEGATE_QUEUE 16384u /* the queue begins at this byte of the shared memory */
#define SL_DELEGATE_PAGE 4096u   /* bytes of the page with the bell */
#define SL_DELEGATE_EVENT 64u
#define SL_DELEGATE_FAILED (1u << 31) /* in `up`: the queue is lost */

typedef struct sl_delegate_event {
    int64_t time;
    int32_t happened, rail; /* sl_endpoint_event */
    char text[112];
} sl_delegate_event;

typedef struct sl_delegate_order {
    /* Constant once the delegate has been started; written by the trainer. */
    uint64_t magic;
    uint32_t version;
    int32_t parent; /* process id of the trainer */
    int32_t sends, from, to, number, rails;
    int32_t scheduling; /* sl_transport_class */
    uint32_t chunk_bytes;
    int32_t proves; /* frames (endpoint.h) */
    int64_t beat, silence, outage, refusal;
    uint8_t key[32];
    sl_rail_address rail[SL_RAILS_MAX];
    /* Futex word: bit i is set while rail i is up, SL_DELEGATE_FAILED once the queue is lost. Written by the
     * delegate, and by the trainer if there is none; read by the trainer. */
    _Atomic uint32_t up;
    /* Event n is in slot n % SL_DELEGATE_EVENT. `put`: delegate, release; `taken`: trainer, release. Events
     * without room are counted and dropped: they must never delay messages. */
    _Atomic uint32_t dropped;
    _Atomic uint64_t put, taken;
    sl_delegate_event happened[SL_DELEGATE_EVENT];
} sl_delegate_order;

_Static_assert(sizeof(sl_delegate_event) == 128, "shared between processes");
_Static_assert(sizeof(sl_delegate_order) <= SL_DELEGATE_QUEUE, "the queue follows the order");

/** SL_EPEER if the order, copied out of `bytes` of shared memory, is invalid. */
sl_status sl_delegate_check(const sl_delegate_order *order, size_t bytes);

/** Delegate: adds an event, or counts it as dropped. */
void sl_delegate_report(sl_delegate_order *order, sl_endpoint_event happened, int rail, const char *text);
/** Trainer: takes the oldest event; 0: none. */
int sl_delegate_hear(sl_delegate_order *order, sl_delegate_event *happened);

/** Signals that a delegate handles in its loop. It is started with them blocked and keeps them blocked: a
 * warning to all processes of a rank must not end it. */
void sl_delegate_signals(sigset_t *heard);
/** Runs a delegate that `starter` has started (base/build.h), with those signals blocked. Returns the
 * process's exit code: 0 asked to end or trainer gone, 1 failed (the reason is in the queue), 2 not started
 * as described above (the reason is the error text). A starter of another version is a failure. */
int sl_delegate_run(const char *starter);
