/* Sockets of rails: converting addresses to sockets, setting the options of connections, and finding the
 * interface of a connection. Nothing here waits. */
#pragma once

#include "run/rail/endpoint.h"
#include <sys/socket.h>

#define SL_RAIL_TEXT 160

/** Starts to connect to `rail` (nonblocking): the socket, or -1 with errno. It becomes writable once
 * connected or failed (SO_ERROR). */
int sl_rail_connect(const sl_rail_address *rail);

/** Options of a connection: no delay; the kernel gives up after data are unacknowledged for `patience`. */
void sl_rail_tune(int socket, sl_time patience);

/** "192.0.2.7 port 4711" of the other end, or "a process of this host". */
void sl_rail_describe(int socket, char text[SL_RAIL_TEXT]);

/** The rail's name in messages: its interface, else its address. */
const char *sl_rail_name(const sl_rail_address *rail);

/** Index of the interface that has the connection's own address; 0: none (a unix socket). */
unsigned sl_rail_interface(int socket);
