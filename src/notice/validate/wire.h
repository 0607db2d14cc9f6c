/* Wires: TCP connections between validating processes, one per tested link.
 *
 * Every member has a listener and sends its addresses. Of a link's two ends the one with the smaller number
 * connects to the other's listener: to addresses of a common subnet first, and to loopback if both are on one
 * host. A first message contains the link and the round's token, so that connections of strangers are
 * rejected. */
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

/* The addresses of a member. */
typedef struct sl_wire_address {
    sl_address address[SL_ADDRESSES];
    uint16_t addresses, port;
} sl_wire_address;

/** Opens a listener on a free port; `wire` gets this host's addresses, or only `only` (as text; NULL: all).
 * The caller closes *file. SL_EINVAL: `only` is not an address, SL_ESYS. */
sl_status sl_wire_listen(const char *only, sl_wire_address *wire, int *file);

/** Connects to `peer`, trying its addresses in turn, at most until `deadline`, and sends the first message.
 * `here` is this process's address, `together`: both are on one host. *file is -1 and `why` is set on
 * failure. */
void sl_wire_connect(const sl_wire_address *here, const sl_wire_address *peer, int together, uint64_t token,
                     int link, sl_time deadline, int *file, char *why, size_t size);

/** The next connection at the listener with the right token, and its link; -1 if none comes until `deadline`.
 */
int sl_wire_accept(int listener, uint64_t token, sl_time deadline, int *link);

/** Whole messages, at most until `deadline`. 0: done; -1: closed, failed or too late. */
int sl_wire_send(int file, const void *bytes, size_t size, sl_time deadline);
int sl_wire_receive(int file, void *bytes, size_t size, sl_time deadline);
