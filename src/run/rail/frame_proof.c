#include "run/rail/frame_proof.h"
#include "base/memory.h"

#include <endian.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

enum { TAG = 16, NONCE = 12, KIND = 6, PAYLOADS = 2 };

/* What a nonce is of; the values are part of the protocol. */
enum { OF_CONTROL = 0, OF_CHUNK = 1, OF_PAYLOAD = 2 };

typedef struct frame_flow {
    EVP_CIPHER_CTX *context; /* its key is set */
    uint64_t next[PAYLOADS]; /* frames without a payload; chunks */
} frame_flow;

struct sl_frame_proofs {
    frame_flow out, in;
};

static sl_status open_direction(const sl_handshake *handshake, int initiator, frame_flow *d) {
    uint8_t key[32];
    d->context = EVP_CIPHER_CTX_new();
    int done = d->context && sl_handshake_frame_key(handshake, initiator, key) &&
               EVP_EncryptInit_ex(d->context, EVP_aes_256_gcm(), NULL, key, NULL) == 1;
    OPENSSL_cleanse(key, sizeof key);
    return done ? SL_OK
                : sl_error(SL_ENOMEM, "frames cannot be proven: libcrypto has no AES-GCM, or no memory");
}

sl_status sl_frame_proofs_open(const sl_handshake *handshake, sl_frame_proofs **proofs) {
    SL_TRY(sl_alloc(proofs, 1, sizeof **proofs));
    sl_status status = open_direction(handshake, handshake->initiator, &(*proofs)->out);
    if (status == SL_OK)
        status = open_direction(handshake, !handshake->initiator, &(*proofs)->in);
    if (status != SL_OK) {
        sl_frame_proofs_close(*proofs);
        *proofs = NULL;
    }
    return status;
}

void sl_frame_proofs_close(sl_frame_proofs *p) {
    if (!p)
        return;
    EVP_CIPHER_CTX_free(p->out.context);
    EVP_CIPHER_CTX_free(p->in.context);
    sl_free(p);
}

/* GMAC: the tag of GCM over `first` and `second` as additional data, with nothing encrypted. 1: done. */
static int compute(frame_flow *d, uint64_t number, uint32_t of, const void *first, size_t first_bytes,
                   const void *second, size_t second_bytes, uint8_t tag[TAG]) {
    uint8_t nonce[NONCE];
    int length = 0;
    number = htole64(number);
    of = htole32(of);
    memcpy(nonce, &number, sizeof number);
    memcpy(nonce + sizeof number, &of, sizeof of);
    return EVP_EncryptInit_ex(d->context, NULL, NULL, NULL, nonce) == 1 &&
           (!first_bytes || EVP_EncryptUpdate(d->context, NULL, &length, first, (int)first_bytes) == 1) &&
           (!second_bytes || EVP_EncryptUpdate(d->context, NULL, &length, second, (int)second_bytes) == 1) &&
           EVP_EncryptFinal_ex(d->context, NULL, &length) == 1 &&
           EVP_CIPHER_CTX_ctrl(d->context, EVP_CTRL_AEAD_GET_TAG, TAG, tag) == 1;
}

static int is_chunk(const uint8_t head[SL_WIRE_BYTES]) {
    return head[KIND] == SL_WIRE_CHUNK;
}

static int compute_head(frame_flow *d, const uint8_t head[SL_WIRE_BYTES], const uint8_t proof[SL_PROOF_BYTES],
                        uint8_t tag[TAG]) {
    int chunk = is_chunk(head);
    return compute(d, d->next[chunk]++, chunk ? OF_CHUNK : OF_CONTROL, head, SL_WIRE_BYTES, proof + TAG, TAG,
                   tag);
}

sl_status sl_frame_prove(sl_frame_proofs *p, const uint8_t head[SL_WIRE_BYTES], const void *payload,
                         size_t bytes, uint8_t proof[SL_PROOF_BYTES]) {
    frame_flow *d = &p->out;
    memset(proof, 0, SL_PROOF_BYTES);
    if ((!is_chunk(head) || compute(d, d->next[1], OF_PAYLOAD, payload, bytes, NULL, 0, proof + TAG)) &&
        compute_head(d, head, proof, proof))
        return SL_OK;
    return sl_error(SL_ENOMEM, "a frame cannot be proven: libcrypto has no memory");
}

int sl_frame_is_proven(sl_frame_proofs *p, const uint8_t head[SL_WIRE_BYTES],
                       const uint8_t proof[SL_PROOF_BYTES]) {
    uint8_t expected[TAG];
    return compute_head(&p->in, head, proof, expected) && CRYPTO_memcmp(expected, proof, TAG) == 0;
}

int sl_payload_is_proven(sl_frame_proofs *p, const void *payload, size_t bytes,
                         const uint8_t proof[SL_PROOF_BYTES]) {
    uint8_t expected[TAG];
    return compute(&p->in, p->in.next[1] - 1, OF_PAYLOAD, payload, bytes, NULL, 0, expected) &&
           CRYPTO_memcmp(expected, proof + TAG, TAG) == 0;
}
