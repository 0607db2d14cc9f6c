/* A line: one established connection of a rail, whatever carries its bytes. Above it (endpoint) everything is
 * the same; below it are sockets (TCP, unix), and UCX where built with it.
 *
 * A line is opened on a connected socket that has been greeted and proven. A socket is ready at once. Over
 * UCX both ends first tell each other by that socket where their UCX workers are, and are ready when bytes
 * have come over UCX; the socket stays as the lifeline, whose end tells that the other process is gone. So
 * UCX needs no listening address and no strangers' handling of its own, and successors find it as they find
 * TCP.
 *
 * Nothing here waits, but sl_line_part and sl_line_close of UCX, and they not for long (below). Of one loop's
 * thread. */
#pragma once

#include "run/rail/endpoint.h"
#include <sys/types.h>
#include <sys/uio.h>

typedef struct sl_line sl_line;

/** The line has moved: bytes to read, room to write, its introduction went on. May close it. */
typedef void (*sl_line_call)(void *object, sl_line *line);

typedef struct sl_line_io {
    int (*ready)(sl_line *line);
    ssize_t (*read)(sl_line *line, const struct iovec *parts, int count);
    ssize_t (*write)(sl_line *line, const struct iovec *parts, int count, unsigned lasting);
    sl_status (*await_room)(sl_line *line, int wanted);
    void (*settle)(sl_line *line);
    void (*part)(sl_line *line);
    void (*close)(sl_line *line);
} sl_line_io;

struct sl_line {
    const sl_line_io *io;
    sl_loop *loop;
    int socket;
    sl_line_call call;
    void *object;
    const char *why; /* what failed, where errno does not say it; NULL: errno does */
};

/** SL_OK when rails of this kind can be had here; SL_EINVAL: built without UCX, SL_ESYS: UCX does not start
 * (it is loaded by the first call, and not before). */
sl_status sl_line_check(sl_rail_kind kind);

/** Takes `socket` over, also when it fails. `call` is called from the loop, never from here. */
sl_status sl_line_open(sl_rail_kind kind, sl_loop *loop, int socket, sl_line_call call, void *object,
                       sl_line **line);
sl_status sl_line_open_ucx(sl_loop *loop, int socket, sl_line_call call, void *object, sl_line **line);

/** 1: it carries bytes; 0: it is still being introduced, `call` tells; -1: that failed, sl_line_why. */
int sl_line_ready(sl_line *line);
/** Bytes read into parts[count] (fewer than asked for: there are no more now), 0: the other end has closed,
 * -1: EAGAIN in errno, or sl_line_why. */
ssize_t sl_line_read(sl_line *line, const struct iovec *parts, int count);
/** Bytes taken, or -1 as above. Of parts whose bit (1 << index) is in `lasting`, the memory stays allocated
 * until the line is closed: they may be sent from there. They may change only when nobody is any more
 * interested in what arrives. */
ssize_t sl_line_write(sl_line *line, const struct iovec *parts, int count, unsigned lasting);
/** Whether `call` is wanted when there is room to write. */
sl_status sl_line_await_room(sl_line *line, int wanted);
/** To be called before the loop sleeps, after anything else was: `call` will tell of all that comes then. */
void sl_line_settle(sl_line *line);
/** What was written last is to arrive although the line is closed now. UCX: waits until the other end has
 * closed, 200 ms at most. */
void sl_line_part(sl_line *line);
/** Closes the connection; nothing refers to `lasting` memory any more. NULL is fine. */
void sl_line_close(sl_line *line);
/** Why the call before failed. */
const char *sl_line_why(const sl_line *line);
