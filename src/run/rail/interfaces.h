/* News of the host's network interfaces (netlink): one that goes down or loses its carrier or an address is
 * told at once, long before anybody misses its packets, and so is one that comes up again. Where the system
 * gives no netlink socket there are no news; silence then says it later. */
#pragma once

#include "base/loop.h"

typedef struct sl_interfaces sl_interfaces;

/** Interface `index` can carry packets now (up) or cannot (0; also: it has lost an address). */
typedef void (*sl_interfaces_tell)(void *object, unsigned index, int up);

/** Watches on `loop`. Without a netlink socket it is open and never tells. SL_ENOMEM. */
sl_status sl_interfaces_open(sl_loop *loop, sl_interfaces_tell tell, void *object,
                             sl_interfaces **interfaces);
void sl_interfaces_close(sl_interfaces *interfaces);
