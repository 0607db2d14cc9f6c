/* The inside of a trainer's delegates, shared by the side that creates them (delegates.c) and the watcher
 * (delegates_watch.c).
 *
 * The watcher is the trainer's thread that starts its delegates, sleeps on their pidfds and replaces those
 * that die, with the same queue, doorbell and sockets. Too many deaths are an error: the queue of the last
 * one is lost, and every wait on it reports this. */
#pragma once

#include "base/loop.h"
#include "run/transport/delegates.h"
#include <pthread.h>

#define SL_DELEGATES_EVENTS 64

/* Constant after prepare, except `started`, which the watcher thread writes under the mutex, and `stream`,
 * which belongs to the compute side. */
typedef struct sl_delegate {
    sl_delegates *all;
    int peer;
    int memory, doorbell; /* files; -1: none */
    int listening[SL_RAILS_MAX];
    size_t bytes;
    sl_delegate_order *order;
    sl_delegate_stream stream;
    sl_subprocess started;
} sl_delegate;

struct sl_delegates {
    const sl_delegates_config *config;
    int count; /* per peer and direction */
    int rails; /* own, towards other hosts */
    char address[SL_RAILS_MAX][64];
    int page; /* file; -1: none */
    _Atomic uint32_t *settled;
    int *peer_index; /* [ranks]: number of peers before this one; -1: no peer */
    sl_delegate *delegate;
    int delegates;
    /* the watcher's */
    pthread_t thread;
    int running;
    int control; /* eventfd: asks the thread to end */
    sl_loop *loop;
    sl_time *death; /* ring of the last `deaths_max` times */
    uint64_t deaths;
    int deaths_max;
    /* Futex word, 0: starting, 1: all are started, 2: failed for `reason`. Watcher: seq_cst, after reason. */
    _Atomic uint32_t phase;
    char reason[SL_QUEUE_REASON + 64];
    pthread_mutex_t mutex; /* guards `started` and the events */
    sl_transport_event happened[SL_DELEGATES_EVENTS];
    uint64_t put, taken;
};

/** Starts the thread and returns after it has started all delegates. SL_ESYS with the reason. */
sl_status sl_delegates_watch(sl_delegates *delegates);
/** Ends the delegates, then the thread. */
void sl_delegates_unwatch(sl_delegates *delegates);
int sl_delegates_watch_event(sl_delegates *delegates, sl_transport_event *happened);
