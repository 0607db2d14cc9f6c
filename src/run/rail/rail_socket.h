/* Sockets of rails: converting addresses to sockets, setting the options of connections, and finding the
 * interface of a connection. Nothing here waits. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <stdint.h>
#include <sys/socket.h>

#define SL_RAIL_TEXT 160

typedef enum sl_rail_kind {
    SL_RAIL_TCP,
    SL_RAIL_UNIX,
    SL_RAIL_UCX /* handshake over TCP, frames over UCX (rail_line.h); address as TCP's */
} sl_rail_kind;

typedef struct sl_rail_address {
    sl_rail_kind kind;
    char interface[32]; /* TCP: bound to this device if the system permits it; empty: any */
    char address[108];  /* of the receiver: numeric IPv4 or IPv6, or a unix socket's path ("@name": abstract,
                           no file) */
    char source[64];    /* TCP, sender: local numeric address to connect from; empty: the system's choice */
    uint16_t port;
} sl_rail_address;

/** Opens a socket that listens at `rail` (port 0: any; the assigned port is filled in). A unix socket's file
 * is made with mode 0600. SL_EINVAL, SL_ESYS. */
sl_status sl_rail_listen(sl_rail_address *rail, int *socket);
/** Removes the file of a unix socket that is no longer listened on. Other rails have none. */
void sl_rail_remove(const sl_rail_address *rail);

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
