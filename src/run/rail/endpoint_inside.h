/* The inside of an endpoint: what its files share. Everything runs on the loop's thread.
 *
 *   endpoint          opening, closing, the timer, rails that come up and go down
 *   endpoint_connect  the sender's attempts to connect
 *   endpoint_stream   one connection: frames in, frames out
 *   endpoint_send     from the queue to the rails
 *   endpoint_receive  from the rails to the queue
 *
 * After each event sl_endpoint_turn moves on what can move and sets the timer to the next time at which
 * something is to be done. */
#pragma once

#include "run/conduit/frame.h"
#include "run/rail/endpoint.h"
#include "run/rail/interfaces.h"
#include "run/rail/rail_line.h"
#include "run/rail/rail_socket.h"

#define SL_STREAM_IN 16384u                      /* bytes read ahead of their use */
#define SL_STREAM_CONTROL (256u * SL_WIRE_BYTES) /* frames without payload that wait to be written */
#define SL_RESEND_AFTER                                                                                      \
    (2 * SL_SECOND)   /* TCP loses nothing, so a chunk is sent again for a reason that is rare */
#define SL_ATTEMPTS 4 /* at once, on one rail */

/* An established connection. */
typedef struct sl_endpoint_stream {
    int socket; /* of `line`; -1: down */
    sl_line *line;
    unsigned interface;
    sl_time up_since, heard, spoke;
    sl_time grace; /* the first word may come so much later: the other end learns later that it is trusted */
    int announced; /* SL_NEWS_RAIL_UP was told */
    int blocked;   /* the line takes nothing now; it says when */
    /* reading */
    uint8_t in[SL_STREAM_IN];
    size_t in_begin, in_end;
    int in_payload; /* the payload of `head` is being read */
    sl_wire head;
    sl_chunk_verdict verdict;
    char *place; /* where it goes; NULL: it is thrown away */
    sl_time taken_since;
    size_t got;
    /* writing: control frames, and one chunk */
    uint8_t control[SL_STREAM_CONTROL];
    size_t control_begin, control_end;
    uint8_t chunk_head[SL_WIRE_BYTES];
    const char *chunk;              /* payload, in the queue's place */
    size_t chunk_bytes, chunk_done; /* with the head; 0 bytes: none */
    uint64_t told;                  /* receiver: times of messages before this one were told here */
} sl_endpoint_stream;

typedef struct sl_dial {
    int socket; /* -1: none */
    int connected;
    sl_time since, until;
    sl_handshake handshake;
} sl_dial;

/* A line that is proven but not ready. */
typedef struct sl_coming {
    sl_line *line; /* NULL: none */
    sl_handshake handshake;
    sl_time took, since;
} sl_coming;

typedef struct sl_endpoint_rail {
    struct sl_endpoint *endpoint;
    int number;
    sl_rail_address address;
    sl_endpoint_stream stream;
    sl_dial attempt[SL_ATTEMPTS]; /* sender */
    sl_coming coming;
    sl_time next_attempt;
    char reason[128]; /* why it is down */
} sl_endpoint_rail;

struct sl_endpoint {
    sl_loop *loop;
    sl_endpoint_config config;
    sl_queue_view *queue;
    sl_endpoint_rail *rail; /* [config.rails] */
    int up;                /* rails */
    int last_down;         /* the rail whose reason is the latest; -1: none */
    sl_time down_since;    /* while none is up */
    sl_time refused_since; /* 0: somebody listens, or nobody knows */
    int lost;
    int moved;    /* messages were put or finished and `moved` was not called yet */
    int breaches; /* of the protocol since the last chunk that was sound */
    uint8_t boot[SL_BOOT_BYTES];
    sl_interfaces *interfaces;
    sl_loop_timer timer; /* 0: none */
    sl_time timer_at;
    /* sending */
    sl_sender *sender;
    int shares_clock;  /* with the receiver; known once a rail has been up */
    uint32_t window;   /* messages offered and not done, at most: both queues have the places; 0: not known */
    uint64_t offered;  /* the next message to be offered */
    uint64_t released; /* the next message to be released, if it is held */
    char *held;        /* [slots] */
    /* receiving */
    sl_receiver *receiver;
    uint64_t epoch;
    sl_listener *listener; /* own or shared */
    sl_listener_guest guest;
    int admitted;
    sl_time publish_at; /* when the next message is due; SL_TIME_NEVER: none waits for its time */
};

sl_time sl_endpoint_now(void);

/* ---- endpoint.c */
/** Takes over a proven connection. `took`: the time of its handshake. The rail is up when its line is ready.
 */
void sl_endpoint_welcome(sl_endpoint *c, int rail, int socket, const sl_handshake *handshake, sl_time took);
/** Closes rail's connection (if any), with the reason; what was unacknowledged goes elsewhere. */
void sl_endpoint_rail_down(sl_endpoint *c, int rail, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** The other end broke the protocol: closes rail's connection, and the conduit when it does nothing else. */
void sl_endpoint_breach(sl_endpoint *c, int rail, const char *what);
/** Moves on what can move; sets the timer. */
void sl_endpoint_turn(sl_endpoint *c);

/* ---- endpoint_connect.c */
void sl_endpoint_connect(sl_endpoint *c, int rail, sl_time now);
/** Gives all attempts up. */
void sl_endpoint_disconnect(sl_endpoint *c, int rail);
/** When sl_endpoint_connect has something to do. */
sl_time sl_endpoint_connect_at(const sl_endpoint *c, int rail);

/* ---- endpoint_stream.c */
void sl_endpoint_read(sl_endpoint *c, int rail);
void sl_endpoint_write(sl_endpoint *c, int rail);
/** Appends a frame without payload. 0: there is no room (the other end does not read). */
int sl_endpoint_say(sl_endpoint_stream *stream, const sl_wire *frame);

/* ---- endpoint_send.c */
sl_status sl_endpoint_send_open(sl_endpoint *c);
void sl_endpoint_offer(sl_endpoint *c);
/** Releases held messages whose time has come. */
void sl_endpoint_release(sl_endpoint *c, sl_time now);
sl_time sl_endpoint_send_at(const sl_endpoint *c, sl_time now);
/** The next chunk for this rail goes into its stream. 0: none. */
int sl_endpoint_next_chunk(sl_endpoint *c, int rail);
/** An ACK or STATE has come. NULL, or what is wrong with it. */
const char *sl_endpoint_hear_receiver(sl_endpoint *c, const sl_wire *frame);

/* ---- endpoint_receive.c */
sl_status sl_endpoint_receive_open(sl_endpoint *c);
const char *sl_endpoint_answer(void *object, const sl_hello *said, sl_hello *own);
/** The head of a chunk has come: where its payload goes. NULL, or what is wrong with it. */
const char *sl_endpoint_begin_chunk(sl_endpoint *c, int rail);
/** Its payload is complete. NULL, or what is wrong with it. */
const char *sl_endpoint_end_chunk(sl_endpoint *c, int rail);
/** Publishes what is complete and due. */
void sl_endpoint_publish(sl_endpoint *c, sl_time now);
/** Looks which places the consumer has freed, and tells the senders. */
void sl_endpoint_allow(sl_endpoint *c);
/** Says the state on a rail, with the times that it has not been told. 0: no room. */
int sl_endpoint_say_state(sl_endpoint *c, int rail);
