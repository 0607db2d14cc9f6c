#include "run/rail/interfaces.h"
#include "base/memory.h"

#include <errno.h>
#include <linux/if.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

struct sl_interfaces {
    sl_loop *loop;
    int socket; /* -1: none */
    sl_interfaces_report report;
    void *object;
};

/* IFF_RUNNING reflects the operational state, except for drivers that do not know it (state UNKNOWN); for
 * those it is set. */
static int can_carry(const struct ifinfomsg *link) {
    return (link->ifi_flags & IFF_UP) && (link->ifi_flags & IFF_RUNNING);
}

static void take(sl_interfaces *i, const struct nlmsghdr *message) {
    const void *data = NLMSG_DATA(message);
    if (message->nlmsg_type == RTM_NEWLINK || message->nlmsg_type == RTM_DELLINK) {
        const struct ifinfomsg *link = data;
        if (message->nlmsg_len >= NLMSG_LENGTH(sizeof *link) && link->ifi_family == AF_UNSPEC)
            i->report(i->object, (unsigned)link->ifi_index,
                      message->nlmsg_type == RTM_NEWLINK && can_carry(link));
    } else if (message->nlmsg_type == RTM_DELADDR || message->nlmsg_type == RTM_NEWADDR) {
        const struct ifaddrmsg *address = data;
        if (message->nlmsg_len >= NLMSG_LENGTH(sizeof *address))
            i->report(i->object, address->ifa_index, message->nlmsg_type == RTM_NEWADDR);
    }
}

static sl_status hear(void *context, int file) {
    sl_interfaces *i = context;
    union {
        struct nlmsghdr header;
        char bytes[16384];
    } buffer;
    for (;;) {
        ssize_t n = recv(file, buffer.bytes, sizeof buffer.bytes, MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == ENOBUFS)) /* some events are lost: silence shows them */
            continue;
        if (n <= 0)
            return SL_OK;
        size_t left = (size_t)n;
        for (const struct nlmsghdr *m = &buffer.header; NLMSG_OK(m, left); m = NLMSG_NEXT(m, left))
            take(i, m);
    }
}

static int open_socket(void) {
    struct sockaddr_nl own = {.nl_family = AF_NETLINK,
                              .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
    int made = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (made >= 0 && bind(made, (struct sockaddr *)&own, sizeof own) != 0) {
        close(made);
        made = -1;
    }
    return made;
}

sl_status sl_interfaces_open(sl_loop *loop, sl_interfaces_report report, void *object,
                             sl_interfaces **interfaces) {
    SL_TRY(sl_alloc(interfaces, 1, sizeof **interfaces));
    sl_interfaces *i = *interfaces;
    *i = (sl_interfaces){.loop = loop, .socket = open_socket(), .report = report, .object = object};
    if (i->socket >= 0 && sl_loop_watch(loop, i->socket, hear, i) != SL_OK) {
        close(i->socket);
        i->socket = -1;
    }
    return SL_OK;
}

void sl_interfaces_close(sl_interfaces *i) {
    if (!i)
        return;
    if (i->socket >= 0) {
        sl_loop_unwatch(i->loop, i->socket);
        close(i->socket);
    }
    sl_free(i);
}
