/* Events of the host's network interfaces (netlink). An interface that goes down, comes up, or loses its
 * carrier or an address is reported immediately, long before a timeout would reveal it. If the system gives
 * no netlink socket, there are no events; the silence timeout then detects the loss later. */
#pragma once

#include "base/loop.h"

typedef struct sl_interfaces sl_interfaces;

/** Interface `index` can carry packets now (up) or cannot (0; also: it has lost an address). */
typedef void (*sl_interfaces_report)(void *object, unsigned index, int up);

/** Watches on `loop`. Without a netlink socket it opens but reports nothing. SL_ENOMEM. */
sl_status sl_interfaces_open(sl_loop *loop, sl_interfaces_report report, void *object,
                             sl_interfaces **interfaces);
void sl_interfaces_close(sl_interfaces *interfaces);
