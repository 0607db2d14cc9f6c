/* Which address of this host others can reach. */
#ifndef SL_RUN_TRANSPORT_LISTEN_H
#define SL_RUN_TRANSPORT_LISTEN_H

#include "base/status.h"

/** The numeric address that sl_transport_listen(interface, ..) would listen on. SL_EINVAL, SL_ESYS. */
sl_status sl_address_choose(const char *interface, char number[64]);

#endif
