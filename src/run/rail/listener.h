/* The listener of receiving endpoints: accepts connections, performs the handshake and hands authenticated
 * connections to the endpoint of the conduit that they name. Several endpoints may share one listener (the
 * ranks of other hosts connect to one address per rail).
 *
 * Strangers (garbage, another key, a replayed handshake, silence, port scanners, floods) are dropped, counted
 * and reported, at most one line per second. Unauthenticated connections are kept for at most 2 s in a table
 * of fixed size; a new one replaces the oldest. So strangers cannot keep out a peer, which tries again.
 * Authenticated connections are unaffected. */
#pragma once

#include "base/loop.h"
#include "run/conduit/conduit.h"

/* How the two ends of a rail recognize each other: both identify themselves and prove that they know the
 * run's key without sending it, as a state machine that never waits.
 *
 *   initiator -> acceptor   hello
 *   acceptor -> initiator   hello
 *   initiator -> acceptor   HMAC-SHA256(key, "initiator" | both hellos)         (32 bytes)
 *   acceptor -> initiator   HMAC-SHA256(key, "acceptor" | both hellos)          (32 bytes)
 *
 * Each hello carries a fresh nonce, so a recorded one proves nothing; the label rejects a proof that is sent
 * back to its author. The frames that follow have checksums. They have proofs of their own only if both ends
 * ask for them (frame_proof.h); otherwise the network between the hosts of a run is trusted not to forge
 * packets, as with MPI or NCCL. An end that asks refuses one that does not, and the other way round.
 *
 * The sending endpoint initiates. The hello also names the conduit and the rail, the boot of the sender's
 * kernel (if equal, both ends have the same monotonic clock), and the state of its end of the conduit: the
 * receiver sends its sl_conduit_state; the sender puts the count that it knows as published into
 * `published`. */

#define SL_HANDSHAKE_HELLO 112u /* bytes */
#define SL_HANDSHAKE_PROOF 32u
#define SL_HANDSHAKE_WHOLE (SL_HANDSHAKE_HELLO + SL_HANDSHAKE_PROOF)
#define SL_BOOT_BYTES 16u
#define SL_HANDSHAKE_AUTH_DIFFERS                                                                            \
    "network.auth differs: one end asks for proofs of frames, the other does not"

typedef struct sl_hello {
    int from, to, number, rail;
    uint32_t chunk_bytes, slots;
    int proves; /* frames (frame_proof.h) */
    uint8_t boot[SL_BOOT_BYTES];
    sl_conduit_state state;
} sl_hello;

/** The acceptor's hello in reply to `said`: NULL, and *own is filled; or the reason for a refusal. */
typedef const char *(*sl_handshake_answer)(void *object, const sl_hello *said, sl_hello *own);

typedef enum sl_handshake_result {
    SL_HANDSHAKE_ON,
    SL_HANDSHAKE_DONE,
    SL_HANDSHAKE_WRONG
} sl_handshake_result;

typedef struct sl_handshake {
    int initiator;
    uint8_t key[32];
    sl_handshake_answer answer; /* acceptor */
    void *object;
    sl_hello own, other;
    uint8_t in[SL_HANDSHAKE_WHOLE], out[SL_HANDSHAKE_WHOLE];
    size_t got, put, ready; /* read; written; made so far */
    int left;               /* the other end closed the connection after a whole hello of this protocol */
} sl_handshake;

/** SL_ESYS: no random numbers. */
sl_status sl_handshake_initiate(sl_handshake *handshake, const uint8_t key[32], const sl_hello *own);

/** Reads and writes what is possible on the nonblocking connected `socket`. DONE: `other` is authenticated,
 * and nothing after the handshake has been read. WRONG: *why. */
sl_handshake_result sl_handshake_move(sl_handshake *handshake, int socket, const char **why);
/** DONE: the key of the frames that this end sends as `initiator` or acceptor (frame_proof.h). 0: libcrypto
 * failed. */
int sl_handshake_frame_key(const sl_handshake *handshake, int initiator, uint8_t key[32]);
/** It has data to write that the socket did not take. */
int sl_handshake_writes(const sl_handshake *handshake);

/** This kernel's boot id and this process's time namespace, which has a monotonic clock of its own; zero
 * (never equal to another) when they cannot be read. */
void sl_handshake_boot(uint8_t boot[SL_BOOT_BYTES]);
/** Both ends run on one kernel, so they share a monotonic clock. */
int sl_handshake_shares_clock(const sl_handshake *handshake);

typedef struct sl_listener sl_listener;

/** A stranger was dropped. */
typedef void (*sl_listener_report)(void *object, const char *text);

/* An endpoint that receives; the caller keeps it while it is admitted. */
typedef struct sl_listener_guest {
    int from, to, number;
    sl_handshake_answer answer;
    /** `socket` is authenticated and nonblocking; ownership passes to the guest. `took`: duration of the
     * handshake, at least one and a half round trips. */
    void (*take)(void *object, int socket, const sl_handshake *handshake, sl_time took);
    void *object;
} sl_listener_guest;

sl_status sl_listener_open(sl_loop *loop, const uint8_t key[32], sl_listener_report report, void *object,
                           sl_listener **listener);
void sl_listener_close(sl_listener *listener);

/** Accepts on `listening`, which stays the caller's (nonblocking, open until the listener is closed). */
sl_status sl_listener_listen(sl_listener *listener, int listening);
sl_status sl_listener_admit(sl_listener *listener, const sl_listener_guest *guest);
void sl_listener_dismiss(sl_listener *listener, const sl_listener_guest *guest);

/** Dropped so far. Any thread. */
uint64_t sl_listener_strangers(const sl_listener *listener);
