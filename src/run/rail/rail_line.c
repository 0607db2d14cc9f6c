/* Lines over sockets, and what all lines have in common. */
#include "run/rail/rail_line.h"
#include "base/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static sl_status on_socket(void *context, int file) {
    sl_line *l = context;
    (void)file;
    l->call(l->object, l);
    return SL_OK;
}

static int socket_ready(sl_line *l) {
    (void)l;
    return 1;
}

static ssize_t socket_read(sl_line *l, const struct iovec *parts, int count) {
    ssize_t n;
    do
        n = readv(l->socket, parts, count);
    while (n < 0 && errno == EINTR);
    return n;
}

static ssize_t socket_write(sl_line *l, const struct iovec *parts, int count, unsigned lasting) {
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = (size_t)count};
    ssize_t n;
    (void)lasting; /* the kernel copies */
    do
        n = sendmsg(l->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n;
}

static sl_status socket_await_room(sl_line *l, int wanted) {
    return sl_loop_watch_writable(l->loop, l->socket, wanted);
}

static void socket_settle(sl_line *l) {
    (void)l;
}

/* Drains the input first: the kernel resets a connection that is closed with unread data, and the last frames
 * would be lost with it. */
static void socket_part(sl_line *l) {
    char waste[16384];
    shutdown(l->socket, SHUT_WR);
    while (recv(l->socket, waste, sizeof waste, MSG_DONTWAIT) > 0) {
    }
}

static void socket_close(sl_line *l) {
    sl_loop_unwatch(l->loop, l->socket);
    shutdown(l->socket, SHUT_RDWR); /* a forked process may hold a copy */
    close(l->socket);
    sl_free(l);
}

static const sl_line_io socket_io = {.ready = socket_ready,
                                     .read = socket_read,
                                     .write = socket_write,
                                     .await_room = socket_await_room,
                                     .settle = socket_settle,
                                     .part = socket_part,
                                     .close = socket_close};

sl_status sl_line_open(sl_rail_kind kind, sl_loop *loop, int socket, sl_line_call call, void *object,
                       sl_line **line) {
    *line = NULL;
    if (kind == SL_RAIL_UCX)
        return sl_line_open_ucx(loop, socket, call, object, line);
    sl_status status = sl_alloc(line, 1, sizeof **line);
    if (status == SL_OK) {
        **line = (sl_line){.io = &socket_io, .loop = loop, .socket = socket, .call = call, .object = object};
        status = sl_loop_watch(loop, socket, on_socket, *line);
    }
    if (status != SL_OK) {
        sl_free(*line);
        *line = NULL;
        close(socket);
    }
    return status;
}

int sl_line_ready(sl_line *line) {
    return line->io->ready(line);
}

ssize_t sl_line_read(sl_line *line, const struct iovec *parts, int count) {
    return line->io->read(line, parts, count);
}

ssize_t sl_line_write(sl_line *line, const struct iovec *parts, int count, unsigned lasting) {
    return line->io->write(line, parts, count, lasting);
}

sl_status sl_line_await_room(sl_line *line, int wanted) {
    return line->io->await_room(line, wanted);
}

void sl_line_settle(sl_line *line) {
    line->io->settle(line);
}

void sl_line_part(sl_line *line) {
    line->io->part(line);
}

void sl_line_close(sl_line *line) {
    if (line)
        line->io->close(line);
}

const char *sl_line_why(const sl_line *line) {
    return line->why ? line->why : strerror(errno);
}
