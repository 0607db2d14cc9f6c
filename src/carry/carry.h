/* The inside of libslackline_transport (include/slackline/transport.h): messages of any size on channels,
 * over the queues of delegates (run/transport/delegates.h).
 *
 * A stream is one direction of a channel with a peer. Its messages are cut into pieces; piece n of a stream,
 * in all, goes through queue channel * delegates + n % delegates, so both ends find it without a search.
 * Threads: one moves the pieces of all outgoing streams, and sleeps on the word that the delegates ring when
 * a slot is free; one per incoming stream moves its pieces, and sleeps on the bell of the queue that the next
 * piece comes through. A thread that changes what a thread looks at (a message was posted, a peer is lost,
 * the end) rings the same words. The thread that posts a small message moves it itself if it can. */
#pragma once

#include "launch/delegate_launch.h"
#include "run/transport/delegates.h"

#include <limits.h>
#include <pthread.h>
#include <slackline/transport.h>
#include <stdatomic.h>

enum { SL_CARRY_PENDING, SL_CARRY_DONE, SL_CARRY_LOST };

struct slackline_message {
    /* Futex word. The thread that ends it writes `at` and `reason`, then this (release). */
    _Atomic uint32_t state;
    _Atomic int holders; /* its stream and the caller; the last one frees it */
    pid_t pid;
    char *data; /* outgoing: only read */
    size_t bytes;
    uint32_t pieces, moved; /* the mover's */
    sl_time at;
    char reason[192];
    slackline_message *next;
};

typedef struct sl_carry_stream {
    slackline_transport *all;
    int peer, sends, channel;
    pthread_mutex_t lock;            /* guards the list and `busy` */
    slackline_message *first, *last; /* not complete, in order */
    int busy;                        /* a thread moves pieces: the rest is its own */
    uint64_t messages, pieces;       /* moved */
    pthread_t thread;                /* incoming */
    int running;
} sl_carry_stream;

typedef struct sl_carry_peer {
    _Atomic int lost; /* set (seq_cst) once, after `reason` */
    char reason[192];
} sl_carry_peer;

struct slackline_transport {
    pid_t pid;
    int rank, ranks, channels, delegates;
    size_t piece_bytes;
    char *host_of; /* [ranks] as sl_delegates_config.talks */
    char directory[48], program[PATH_MAX];
    sl_launch_delegates launch;
    sl_delegates_config config;
    sl_delegates *started; /* NULL before prepare */
    void *block;
    int phase;            /* 0: prepared, 1: started, 2: failed */
    pthread_mutex_t lock; /* guards losing a peer, and the reader of events */
    sl_carry_peer *peer;  /* [ranks] */
    int streams;
    sl_carry_stream *stream;
    int *first_stream; /* [ranks] first stream of a peer; -1: none */
    pthread_t sending;
    int running;
    _Atomic int closing;
};

/* ---- carry_stream.c ---- */

/** Starts the threads. */
sl_status sl_carry_begin(slackline_transport *t);
/** Ends them and every message. */
void sl_carry_end(slackline_transport *t);

sl_status sl_carry_post(sl_carry_stream *stream, void *data, size_t bytes, slackline_message **message);
/** 1: nothing that was sent is still on its way to this peer's delegates. */
int sl_carry_is_idle(sl_carry_stream *stream);
/** Gives the peer up; the first reason stays. */
void sl_carry_lose(slackline_transport *t, int peer, const char *reason);
/** One holder less. */
void sl_carry_drop(slackline_message *message);

/* ---- carry_program.c ---- */

/** The trusted slackline-delegate: `named` if given, else where transport.h says. */
sl_status sl_carry_program(const char *named, char path[PATH_MAX]);
