/* Clients of services that jobs have, over TCP or a local socket. */
#pragma once

#include "base/status.h"

#include <stddef.h>

/** A connection that waits `seconds` at most for each step; -1: nothing listens there. */
int sl_ask_connect(const char *host, const char *port, int seconds);

/** The same to a socket that is a file. */
int sl_ask_connect_file(const char *path, int seconds);

/** What comes until the other side closes, 256 MiB at most, in *bytes (free with sl_free; also on error).
 * SL_EPEER, SL_ENOMEM. */
sl_status sl_ask_read(int file, const char *who, char **bytes, size_t *size);
