/* How ranks on different hosts find each other: the higher rank connects to the lower one, and both prove
 * that they know the run's key without sending it.
 *
 *   initiator -> acceptor   hello: magic, own rank, wanted rank, nonce          (48 bytes)
 *   acceptor -> initiator   hello: magic, own rank, wanted rank, nonce          (48 bytes)
 *   initiator -> acceptor   HMAC-SHA256(key, "initiator" | both hellos)         (32 bytes)
 *   acceptor -> initiator   HMAC-SHA256(key, "acceptor" | both hellos)          (32 bytes)
 *
 * Fresh nonces on both sides refuse replays, the label refuses a proof sent back to its maker. What follows
 * on the connection is neither encrypted nor authenticated frame by frame: the network between the hosts of a
 * run is trusted not to alter packets, as that of MPI or NCCL is.
 *
 * Whoever else connects (a port scanner, a rank of another run, a half-open connection) is dropped and
 * counted. Such strangers share a table of fixed size in which the oldest makes room, so they cannot keep a
 * peer out: a peer that lost its place tries again until the deadline. */
#ifndef SL_RUN_TRANSPORT_HANDSHAKE_H
#define SL_RUN_TRANSPORT_HANDSHAKE_H

#include "run/transport/transport.h"

/** Connects rank config->rank with every rank whose byte in `remote[ranks]` is set; connections[rank] is then
 * its socket (nonblocking, TCP_NODELAY, TCP_USER_TIMEOUT 10 s), -1 for the others. SL_EPEER names the first
 * one missing at `deadline` (real clock); all sockets made here are closed then. `listening` stays the
 * caller's. */
sl_status sl_handshake(const sl_transport_config *config, const char *remote, int listening, sl_time deadline,
                       int *connections, int *strangers);

#endif
