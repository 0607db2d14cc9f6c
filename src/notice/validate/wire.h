/* Wires: TCP connections between validating processes, one for each link that is tested.
 *
 * Everybody has a listener and tells its addresses. Of a link's two ends the one with the smaller number
 * connects, to addresses of a common subnet first and to loopback where both are on one host; the other one
 * is found at its listener. A first message names the link and the round's token, so that a stranger's
 * connection is nobody's. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <stddef.h>
#include <stdint.h>

#define SL_ADDRESSES 8

typedef struct sl_address {
    uint8_t family; /* 4 or 6; 0: none */
    uint8_t prefix; /* bits of its subnet */
    uint8_t loopback;
    uint8_t spare;
    uint8_t bytes[16];
} sl_address;

/* Where a member is reached. */
typedef struct sl_wire_address {
    sl_address address[SL_ADDRESSES];
    uint16_t addresses, port;
} sl_wire_address;

/** A listener on a free port; `place` gets this host's addresses, or `only` alone (as text; NULL: all). *file
 * is closed by the caller. SL_EINVAL: `only` is no address, SL_ESYS. */
sl_status sl_wire_listen(const char *only, sl_wire_address *place, int *file);

/** Connects to `peer`, trying its addresses in turn, at most until `deadline`; says who is there. `here` is
 * this process's place, `together`: both are on one host. *file -1 and `why` when it cannot be. */
void sl_wire_connect(const sl_wire_address *here, const sl_wire_address *peer, int together, uint64_t token,
                     int link, sl_time deadline, int *file, char *why, size_t size);

/** The next connection at the listener that knows the token, and its link; -1 when none comes until
 * `deadline`.
 */
int sl_wire_accept(int listener, uint64_t token, sl_time deadline, int *link);

/** Whole messages, at most until `deadline`. 0: done; -1: closed, failed or too late. */
int sl_wire_send(int file, const void *bytes, size_t size, sl_time deadline);
int sl_wire_receive(int file, void *bytes, size_t size, sl_time deadline);
