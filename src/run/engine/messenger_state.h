/* A rank's messages in regime fifo: a thread that, next to the rank's ops, runs the sends and receives of
 * each communicator one after the other, in the order of issue, for one iteration.
 *
 * The rank reports the end of its steps. What is issued after a step is issued then, and reached when the end
 * before it in its communicator is done (plan/timing/fifo.c has the rules). The receiver clears a message
 * when it reaches its receive, and the sender hands it to the transport when it has reached the send and the
 * message is cleared; an eager one without that. All times are those of the events, not of the thread's
 * waking up, so lateness does not accumulate.
 *
 * While it runs, only this thread uses the transport, and it owns engine->way. Two counters carry the rest,
 * each written by one thread: `steps` (the rank; preceded by ended[], all of its steps so far, and the
 * results that they send) and `finished` (the messenger; preceded by its log), stored with release and loaded
 * with acquire. On a virtual clock the messenger is a participant. */
#pragma once

#include "base/clock.h"
#include "plan/lower/flow.h"
#include "plan/lower/issue.h"
#include "run/transport/transport.h"
#include <pthread.h>

struct sl_engine;

/* One of this rank's ends of messages. */
typedef struct sl_messenger_end {
    int32_t message, step; /* as in sl_message_issue */
    int32_t receive, eager;
    int32_t buffer;             /* receive: number of the received buffer */
    int reached_before, handed; /* in this iteration; the rest are times of it, too */
    sl_time issued, reached;
    sl_time cleared; /* of its receive; SL_TIME_NEVER: not yet */
    sl_time done;    /* once known: a send's; an eager one's, when it leaves its wire */
} sl_messenger_end;

typedef struct sl_messenger_communicator {
    int32_t *end; /* [count] its ends, in order */
    int count, next;
    sl_time done; /* the end before `next` */
} sl_messenger_communicator;

/* A send whose message is published, or a receive that is done. */
typedef struct sl_messenger_finished {
    int32_t message, receive;
    sl_sent sent; /* receive: `arrive` only */
} sl_messenger_finished;

#define SL_MESSENGER_FAILED UINT32_MAX

typedef struct sl_messenger {
    struct sl_engine *engine;
    int planned;  /* the program that runs has issues */
    sl_flow flow; /* buffers for them */
    int ends;
    sl_messenger_end *end; /* [ends] in order of issue */
    int32_t *of;           /* [messages] this rank's end of a message; -1: none */
    int32_t *ordered;      /* [ends] of the communicators */
    sl_messenger_communicator communicator[SL_COMMUNICATORS_MAX];
    size_t end_capacity, of_capacity, ordered_capacity, log_capacity, ended_capacity, arrived_capacity;
    /* of an iteration */
    pthread_t thread;
    int running;
    sl_time begin;
    int issued;                 /* messenger: of end[] */
    sl_time *ended;             /* [steps] written by the rank */
    sl_messenger_finished *log; /* [ends] written by the messenger */
    sl_time *arrived;           /* [messages] by the rank, from the log; SL_TIME_NEVER: not yet */
    uint32_t heard;             /* by the rank, of the log */
    _Atomic uint32_t steps;     /* ended; the rank */
    _Atomic uint32_t finished;  /* of the log; the messenger. SL_MESSENGER_FAILED: it has failed */
    _Atomic int quit;           /* the rank, which then changes the transport's word */
    sl_status status;
    char error[512];
} sl_messenger;

/** Takes the issues of the engine's program, with the communicators of `problem`. SL_ENOMEM. */
sl_status sl_messenger_plan(struct sl_engine *engine, const sl_problem *problem, const sl_issuer *issuer);
/** Frees all. */
void sl_messenger_free(sl_messenger *messenger);

/** Starts the messages of an iteration. SL_EINVAL: the program has no issues; SL_ENOMEM, SL_ESYS. */
sl_status sl_messenger_begin(struct sl_engine *engine, sl_time begin);
/** The first `steps` steps have ended, the last ones at `end`. */
void sl_messenger_step(struct sl_engine *engine, int32_t steps, sl_time end);
/** Sleeps until the receive of a message is done. SL_EPEER as sl_transport_wait. */
sl_status sl_messenger_wait(struct sl_engine *engine, int32_t message, sl_time deadline, sl_time *arrived);
/** Notes what has been published or received, without waiting. Returns the error of a failed messenger. */
sl_status sl_messenger_reap(struct sl_engine *engine);
/** Waits until all is. SL_EPEER names the first message that is not at `deadline`. */
sl_status sl_messenger_finish(struct sl_engine *engine, sl_time deadline);
/** Ends the iteration: the thread has ended when this returns, whether all messages came or not. */
void sl_messenger_end_iteration(struct sl_engine *engine);
