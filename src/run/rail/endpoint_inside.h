/* The inside of an endpoint, shared by its files. Everything runs on the loop's thread.
 *
 *   endpoint          opening, closing, the timer, rails going up and down
 *   endpoint_connect  the sender's attempts to connect
 *   endpoint_stream   one connection: frames in, frames out
 *   endpoint_send     from the queue to the rails
 *   endpoint_receive  from the rails to the queue
 *
 * After each event, sl_endpoint_turn makes all possible progress and sets the timer to the next due time. */
#pragma once

#include "run/conduit/frame.h"
#include "run/rail/endpoint.h"
#include "run/rail/frame_proof.h"
#include "run/rail/interfaces.h"
#include "run/rail/rail_line.h"
#include "run/rail/rail_socket.h"

#define SL_STREAM_IN 16384u                             /* bytes read ahead */
#define SL_STREAM_HEAD (SL_WIRE_BYTES + SL_PROOF_BYTES) /* of a header at most */
#define SL_STREAM_CONTROL (256u * SL_WIRE_BYTES)        /* unwritten frames without payload */
#define SL_RESEND_AFTER (2 * SL_SECOND) /* TCP loses nothing, so resending a chunk is rarely needed */
#define SL_ATTEMPTS 4                   /* at once, on one rail */

/* An established connection. */
typedef struct sl_endpoint_stream {
    int socket; /* of `line`; -1: down */
    sl_line *line;
    unsigned interface;
    sl_time up_since, heard, spoke;
    sl_time grace; /* extra time for the first frame: the other end learns later that it is trusted */
    int announced; /* SL_HAPPENED_RAIL_UP was reported */
    int blocked;   /* the line takes nothing now; it calls when it does */
    sl_frame_proofs *proofs; /* NULL: frames have none */
    size_t head_bytes;       /* of a header on the wire, with its proof */
    /* reading */
    uint8_t in[SL_STREAM_IN];
    size_t in_begin, in_end;
    int in_payload; /* the payload of `head` is being read */
    sl_wire head;
    uint8_t proof[SL_PROOF_BYTES]; /* of `head` */
    sl_chunk_verdict verdict;
    char *destination; /* NULL: it is discarded */
    sl_time taken_since;
    size_t got;
    /* writing: control frames, and one chunk */
    uint8_t control[SL_STREAM_CONTROL];
    size_t control_begin, control_end;
    uint8_t chunk_head[SL_STREAM_HEAD];
    const char *chunk;              /* payload, in the queue's slot */
    size_t chunk_bytes, chunk_done; /* with the head; 0 bytes: none */
    uint64_t reported;              /* receiver: times of messages before this one were sent here */
} sl_endpoint_stream;

typedef struct sl_dial {
    int socket; /* -1: none */
    int connected;
    sl_time since, until;
    sl_handshake handshake;
} sl_dial;

/* A line that is authenticated but not ready. */
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
    int up;                 /* rails */
    int last_down;          /* the rail whose reason is the latest; -1: none */
    sl_time down_since;     /* while none is up */
    sl_time refused_since;  /* 0: not refused, or unknown */
    int lost;
    int moved;    /* messages were put or finished since the last call of `moved` */
    int breaches; /* of the protocol since the last valid chunk */
    uint8_t boot[SL_BOOT_BYTES];
    sl_interfaces *interfaces;
    sl_loop_timer timer; /* 0: none */
    sl_time timer_at;
    /* sending */
    sl_sender *sender;
    int shares_clock;  /* with the receiver; known once a rail has been up */
    uint32_t window;   /* max. messages offered and not done: both queues have the slots; 0: unknown */
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
/** Takes over an authenticated connection. `took`: duration of its handshake. The rail is up when its line is
 * ready. */
void sl_endpoint_welcome(sl_endpoint *c, int rail, int socket, const sl_handshake *handshake, sl_time took);
/** Closes rail's connection (if any) for the given reason; unacknowledged chunks go to other rails. */
void sl_endpoint_rail_down(sl_endpoint *c, int rail, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** The other end violated the protocol: closes rail's connection, and the conduit after repeated
 * violations. */
void sl_endpoint_breach(sl_endpoint *c, int rail, const char *what);
/** Makes all possible progress; sets the timer. */
void sl_endpoint_turn(sl_endpoint *c);

/* ---- endpoint_connect.c */
void sl_endpoint_connect(sl_endpoint *c, int rail, sl_time now);
/** Abandons all attempts. */
void sl_endpoint_disconnect(sl_endpoint *c, int rail);
/** The next time at which sl_endpoint_connect has something to do. */
sl_time sl_endpoint_connect_at(const sl_endpoint *c, int rail);

/* ---- endpoint_stream.c */
void sl_endpoint_read(sl_endpoint *c, int rail);
void sl_endpoint_write(sl_endpoint *c, int rail);
/** Writes a frame's header as it goes out, with its proof, if frames have one. 0: libcrypto failed. */
int sl_endpoint_encode(sl_endpoint_stream *stream, const sl_wire *frame, const void *payload,
                       uint8_t head[SL_STREAM_HEAD]);
/** Appends a frame without payload. 0: no room (the other end does not read). */
int sl_endpoint_say(sl_endpoint_stream *stream, const sl_wire *frame);

/* ---- endpoint_send.c */
sl_status sl_endpoint_send_open(sl_endpoint *c);
void sl_endpoint_offer(sl_endpoint *c);
/** Releases held messages whose time has come. */
void sl_endpoint_release(sl_endpoint *c, sl_time now);
sl_time sl_endpoint_send_at(const sl_endpoint *c, sl_time now);
/** Puts the next chunk for this rail into its stream. 0: none. */
int sl_endpoint_next_chunk(sl_endpoint *c, int rail);
/** Handles an ACK or STATE. NULL, or the error. */
const char *sl_endpoint_hear_receiver(sl_endpoint *c, const sl_wire *frame);

/* ---- endpoint_receive.c */
sl_status sl_endpoint_receive_open(sl_endpoint *c);
const char *sl_endpoint_answer(void *object, const sl_hello *said, sl_hello *own);
/** The head of a chunk has arrived: chooses the destination of its payload. NULL, or the error. */
const char *sl_endpoint_begin_chunk(sl_endpoint *c, int rail);
/** Its payload is complete. NULL, or the error. */
const char *sl_endpoint_end_chunk(sl_endpoint *c, int rail);
/** Publishes messages that are complete and due. */
void sl_endpoint_publish(sl_endpoint *c, sl_time now);
/** Finds the slots that the consumer has freed, and reports them to the senders. */
void sl_endpoint_allow(sl_endpoint *c);
/** Sends the state on a rail, with the times not yet sent there. 0: no room. */
int sl_endpoint_say_state(sl_endpoint *c, int rail);
