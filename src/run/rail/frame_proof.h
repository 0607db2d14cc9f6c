/* Proofs of the frames of one connection, if both ends ask for them (`network.auth: frames`). Without them a
 * connection is authenticated once, by the handshake, and an attacker who can change its packets later can
 * change the messages: the checksums of frames are not secret. With them each frame proves that the other end
 * of this connection wrote it, at this position in the stream. Nothing is encrypted.
 *
 * On the wire, each header (frame.h) is followed by SL_PROOF_BYTES: a proof of the header and of the
 * payload's proof (16 bytes), then a proof of the payload (16 bytes; 0 without payload). So a header is
 * proven before its payload is read into a slot. A proof is AES-256-GMAC (NIST SP 800-38D). The keys of the
 * two directions are HMAC-SHA256(key, label | both hellos), fresh for every connection by the nonces of the
 * hellos. The nonce of a frame is its number in this direction, counted apart for frames with and without a
 * payload (a control frame may overtake a chunk that waits to be written), so frames that are sent again,
 * left out or moved fail, like those of another connection. */
#pragma once

#include "run/conduit/frame.h"
#include "run/rail/listener.h"

#define SL_PROOF_BYTES 32u

typedef struct sl_frame_proofs sl_frame_proofs;

/** For the connection of a finished handshake. SL_ENOMEM. */
sl_status sl_frame_proofs_open(const sl_handshake *handshake, sl_frame_proofs **proofs);
/** NULL is fine. */
void sl_frame_proofs_close(sl_frame_proofs *proofs);

/** Writes the proof of the next frame that this end sends: its header, and the payload of a CHUNK. SL_ENOMEM:
 * libcrypto failed; the connection is then useless. */
sl_status sl_frame_prove(sl_frame_proofs *proofs, const uint8_t head[SL_WIRE_BYTES], const void *payload,
                         size_t bytes, uint8_t proof[SL_PROOF_BYTES]);
/** 1 if the other end wrote this header as its next frame. */
int sl_frame_is_proven(sl_frame_proofs *proofs, const uint8_t head[SL_WIRE_BYTES],
                       const uint8_t proof[SL_PROOF_BYTES]);
/** 1 if `payload` belongs to the last CHUNK whose header was proven by `proof`. */
int sl_payload_is_proven(sl_frame_proofs *proofs, const void *payload, size_t bytes,
                         const uint8_t proof[SL_PROOF_BYTES]);
