/* Chooses an address of this host that other hosts can reach. */
#pragma once

#include "base/status.h"
#include "run/rail/endpoint.h"

/** The numeric address that sl_transport_listen(interface, ..) would listen on. SL_EINVAL, SL_ESYS. */
sl_status sl_address_choose(const char *interface, char number[64]);

/** Splits a rail's name into transport and interface or address: "ucx:eth1" is SL_RAIL_UCX and "eth1"; any
 * other name is SL_RAIL_TCP and the name itself. */
const char *sl_rail_parse(const char *name, sl_rail_kind *kind);
