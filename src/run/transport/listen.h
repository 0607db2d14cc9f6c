/* Which address of this host others can reach. */
#pragma once

#include "base/status.h"
#include "run/rail/endpoint.h"

/** The numeric address that sl_transport_listen(interface, ..) would listen on. SL_EINVAL, SL_ESYS. */
sl_status sl_address_choose(const char *interface, char number[64]);

/** What a rail named so goes over, and the interface or address in the name: "ucx:eth1" is SL_RAIL_UCX and
 * "eth1", any other name SL_RAIL_TCP and itself. */
const char *sl_rail_parse(const char *name, sl_rail_kind *kind);
