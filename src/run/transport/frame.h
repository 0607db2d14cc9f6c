/* Frames of a rail (a TCP connection of two ranks): a header of 40 bytes, little-endian, then `bytes` of
 * payload for DATA. Data are numbered per direction from 0; an ACK carries the number, name and publishing
 * time of the message that the receiver has published. BEAT says "alive", BYE "I have closed in good order".
 */
#ifndef SL_RUN_TRANSPORT_FRAME_H
#define SL_RUN_TRANSPORT_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define SL_FRAME_BYTES 40u
#define SL_FRAME_MAGIC 0x4d524653u /* "SFRM" */

typedef enum sl_frame_kind { SL_FRAME_DATA = 1, SL_FRAME_ACK, SL_FRAME_BEAT, SL_FRAME_BYE } sl_frame_kind;

typedef struct sl_frame {
    sl_frame_kind kind;
    uint32_t iteration, index;
    uint64_t bytes;    /* of payload; 0 unless DATA */
    uint64_t sequence; /* DATA, ACK */
    int64_t time;      /* ACK: published, on the receiver's clock */
} sl_frame;

void sl_frame_encode(const sl_frame *frame, uint8_t bytes[SL_FRAME_BYTES]);

/** 0, or -1: no frame of this protocol (magic, kind, or a payload where none belongs). */
int sl_frame_decode(const uint8_t bytes[SL_FRAME_BYTES], sl_frame *frame);

#endif
