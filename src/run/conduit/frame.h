/* Frames of a conduit on a byte stream (TCP or a unix socket): a header of 96 bytes, little-endian, and after
 * the header of a CHUNK its `bytes` of payload; no other kind has one. Encoding and decoding are pure.
 *
 * The header carries a checksum of itself; that of a CHUNK also one of its payload (XXH3, 64 bits). A header
 * that differs from the output of sl_frame_encode is rejected, and the rest of the stream cannot be trusted:
 * the caller closes the connection. A payload with a wrong checksum is discarded (sl_receiver_rail_down),
 * never finished.
 *
 *   offset  CHUNK              ACK       STATE              BEAT, BYE
 *   0       magic (4), version (2), kind (1), flags (1)
 *   8       message            message   epoch
 *   16      offset             epoch     published
 *   24      total                        limit
 *   32      due                          first
 *   40      payload checksum             times[5] (to 80)
 *   48      index (4)          index
 *   52      bytes (4)
 *   56      iteration (4), name (4)
 *   80                                   count (4)
 *   88      checksum of bytes 0 to 87
 *
 * Unused fields of a kind are 0. */
#pragma once

#include "run/conduit/conduit.h"

#define SL_WIRE_BYTES 96u
#define SL_WIRE_TIMES 5u

typedef enum sl_wire_kind {
    SL_WIRE_CHUNK = 1,
    SL_WIRE_ACK,   /* a chunk is received */
    SL_WIRE_STATE, /* published count, limit, and times of publishing */
    SL_WIRE_BEAT,  /* "alive" */
    SL_WIRE_BYE    /* "closed normally" */
} sl_wire_kind;

/* Flags of a CHUNK. */
#define SL_WIRE_DUE 1u  /* `due` is the time of publishing, on the clock that both ends share */
#define SL_WIRE_HELD 2u /* the sender holds the last chunk back until due: publish as soon as complete */

/* A frame; each kind uses the fields that name it in their comments, the others are 0 after decoding. */
typedef struct sl_wire {
    sl_wire_kind kind;
    uint8_t flags;                /* CHUNK */
    sl_chunk chunk;               /* CHUNK: all of it. ACK: message and index */
    uint32_t iteration, name;     /* CHUNK: of the message, name = its index within the iteration */
    sl_time due;                  /* CHUNK with SL_WIRE_DUE */
    uint64_t payload_checksum;    /* CHUNK: sl_frame_checksum of its payload, also of an empty one */
    uint64_t epoch;               /* ACK: of the receiving process that has the chunk */
    sl_conduit_state state;       /* STATE */
    uint64_t first;               /* STATE with count > 0: the message of times[0] */
    uint32_t count;               /* STATE: entries of times; first + count <= state.published */
    sl_time times[SL_WIRE_TIMES]; /* STATE: when message first + i was published, on the receiver's clock */
} sl_wire;

/** Of a payload; `payload` may be NULL when `bytes` is 0. */
uint64_t sl_frame_checksum(const void *payload, size_t bytes);

/** Writes the header. Fields that the kind does not use need not be set. */
void sl_frame_encode(const sl_wire *frame, uint8_t bytes[SL_WIRE_BYTES]);

/** SL_EPEER, with the reason: not a header that sl_frame_encode writes, a chunk outside of its message, or a
 * state that contradicts itself. *frame is then all zero. sl_receiver_begin checks whether a chunk fits this
 * conduit; `chunk.bytes` is not bounded here. */
sl_status sl_frame_decode(const uint8_t bytes[SL_WIRE_BYTES], sl_wire *frame);
