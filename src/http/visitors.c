#include "http/visitors.h"
#include "base/clock.h"
#include "base/memory.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#define ASKS (20 * SL_SECOND)  /* from the connection, or the last answer's end, to a whole request */
#define TAKES (60 * SL_SECOND) /* an answer that has an end */
enum { KERNEL_BYTES = 256 << 10, UNTAKEN_MS = 10000 };

struct sl_visitor {
    sl_visitor *before, *next;
    int socket;
    sl_time until; /* SL_TIME_NEVER: a stream */
};

/* What he does not take waits in the kernel: not without bound, and not for ever. */
static void bound(int socket) {
    int bytes = KERNEL_BYTES;
    unsigned untaken = UNTAKEN_MS;
    setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &untaken, sizeof untaken);
}

static void come(sl_visitors *all, struct MHD_Connection *connection, void **mine) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    sl_visitor *v;
    if (!info)
        return;
    bound(info->connect_fd);
    if (sl_alloc(&v, 1, sizeof *v) != SL_OK) { /* whom nobody would watch does not stay */
        shutdown(info->connect_fd, SHUT_RDWR);
        return;
    }
    *v = (sl_visitor){.next = all->first, .socket = info->connect_fd, .until = sl_now() + ASKS};
    if (v->next)
        v->next->before = v;
    all->first = v;
    all->count++;
    *mine = v;
}

static void go(sl_visitors *all, void **mine) {
    sl_visitor *v = *mine;
    if (!v)
        return;
    if (v->next)
        v->next->before = v->before;
    if (v->before)
        v->before->next = v->next;
    else
        all->first = v->next;
    all->count--;
    sl_free(v);
    *mine = NULL;
}

void sl_visitors_notify(void *visitors, struct MHD_Connection *connection, void **mine,
                        enum MHD_ConnectionNotificationCode code) {
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        come(visitors, connection, mine);
    else
        go(visitors, mine);
}

static sl_visitor *visitor_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

void sl_visitors_asked(struct MHD_Connection *connection, int endless) {
    sl_visitor *v = visitor_of(connection);
    if (v)
        v->until = endless ? SL_TIME_NEVER : sl_now() + TAKES;
}

void sl_visitors_completed(void *visitors, struct MHD_Connection *connection, void **mine,
                           enum MHD_RequestTerminationCode code) {
    (void)visitors, (void)mine, (void)code;
    sl_visitor *v = visitor_of(connection);
    if (v)
        v->until = sl_now() + ASKS;
}

void sl_visitors_tick(sl_visitors *all) {
    sl_time time = sl_now();
    for (sl_visitor *v = all->first; v; v = v->next)
        if (time > v->until) {
            shutdown(v->socket, SHUT_RDWR); /* which libmicrohttpd sees */
            v->until = time + ASKS;
        }
}
