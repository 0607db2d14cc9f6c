/* The debug server of a PyTorch process (torch.distributed.debug.start_debug_server, or a socket of
 * torchelastic's control plane): a thread of the process that answers over HTTP while all others wait. */
#pragma once

#include "base/status.h"

#include <stddef.h>

/** Asks it for the flight recorder as JSON, in *dump (free with sl_free); NULL: there is none, or it does not
 * answer. Only sockets of the process itself that listen on all addresses are tried, except `except` (a port;
 * "": none), and only one that says what it is gets the question. `socket_file`: of the control plane; "":
 * none. SL_ENOMEM. */
sl_status sl_torch_server_ask(int pid, const char *except, const char *socket_file, char **dump,
                              size_t *size);
