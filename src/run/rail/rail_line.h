/* A line: one established connection of a rail, whatever its transport. The endpoint above it is independent
 * of the transport: sockets (TCP, unix), or UCX if built with it.
 *
 * A line is opened on a connected socket after the handshake. A socket is ready immediately. Over UCX both
 * ends first exchange the addresses of their UCX workers on that socket, and are ready when bytes have
 * arrived over UCX. The socket stays open as the lifeline: its end of stream means that the other process has
 * exited. So UCX needs no listening address and no handling of unauthenticated connections. Successors find
 * it as they find TCP.
 *
 * Nothing here waits, except sl_line_part and sl_line_close of UCX, which wait only briefly (see below). Used
 * by one loop's thread. */
#pragma once

#include "base/loop.h"
#include "run/rail/rail_socket.h"
#include <sys/types.h>
#include <sys/uio.h>

typedef struct sl_line sl_line;

/** The line has changed: bytes to read, room to write, or progress of its setup. May close it. */
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
    const char *why; /* what failed, if not in errno; NULL: see errno */
};

/** SL_OK if rails of this kind are available here; SL_EINVAL: built without UCX; SL_ESYS: UCX does not start
 * (it is loaded by the first call, not before). */
sl_status sl_line_check(sl_rail_kind kind);

/** Takes ownership of `socket`, also on failure. `call` is called from the loop, never from here. */
sl_status sl_line_open(sl_rail_kind kind, sl_loop *loop, int socket, sl_line_call call, void *object,
                       sl_line **line);
sl_status sl_line_open_ucx(sl_loop *loop, int socket, sl_line_call call, void *object, sl_line **line);

/** 1: it carries bytes; 0: setup is in progress, `call` follows; -1: setup failed, see sl_line_why. */
int sl_line_ready(sl_line *line);
/** Bytes read into parts[count] (fewer than asked for: no more are available), 0: the other end has closed,
 * -1: EAGAIN in errno, or sl_line_why. */
ssize_t sl_line_read(sl_line *line, const struct iovec *parts, int count);
/** Bytes taken, or -1 as above. Parts whose bit (1 << index) is in `lasting` may be sent from their memory,
 * which stays allocated until the line is closed. It may change only after the receiver no longer needs the
 * data. */
ssize_t sl_line_write(sl_line *line, const struct iovec *parts, int count, unsigned lasting);
/** Whether to call `call` when there is room to write. */
sl_status sl_line_await_room(sl_line *line, int wanted);
/** Call it last before the loop sleeps: `call` then reports all later events. */
void sl_line_settle(sl_line *line);
/** Ensures that the last bytes written arrive although the line is about to be closed. UCX: waits until the
 * other end has closed, 200 ms at most. */
void sl_line_part(sl_line *line);
/** Closes the connection; afterwards nothing refers to `lasting` memory. NULL is fine. */
void sl_line_close(sl_line *line);
/** The reason why the previous call failed. */
const char *sl_line_why(const sl_line *line);
