#include "run/rail/rail_socket.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define UNSENT_BYTES (512 * 1024) /* in the kernel, not yet on the wire; more only makes rails unequal */
#define BACKLOG 128

/* Parses a numeric address; a link-local one gets the scope of `interface`. 0: not an address. */
static socklen_t parse(const char *address, uint16_t port, const char *interface,
                       struct sockaddr_storage *out) {
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found;
    memset(out, 0, sizeof *out);
    if (getaddrinfo(address, NULL, &hints, &found) != 0)
        return 0;
    socklen_t size = found->ai_addrlen;
    memcpy(out, found->ai_addr, size);
    freeaddrinfo(found);
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    if (out->ss_family == AF_INET) {
        ((struct sockaddr_in *)out)->sin_port = htons(port);
    } else {
        v6->sin6_port = htons(port);
        if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) && v6->sin6_scope_id == 0 && interface[0])
            v6->sin6_scope_id = if_nametoindex(interface);
    }
    return size;
}

static socklen_t parse_unix(const char *path, struct sockaddr_un *out) {
    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    if (!path[0] || strlen(path) >= sizeof out->sun_path)
        return 0;
    memcpy(out->sun_path, path, strlen(path));
    if (path[0] != '@')
        return sizeof *out;
    out->sun_path[0] = 0; /* abstract: the name is all bytes that the size includes */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
}

/* 0, or -1: no such interface. It is not an error if the system does not permit binding: then the addresses
 * decide the route. */
static int bind_to_device(int made, const char *interface) {
    if (!interface[0])
        return 0;
    if (setsockopt(made, SOL_SOCKET, SO_BINDTODEVICE, interface, (socklen_t)strlen(interface)) == 0)
        return 0;
    return errno == EPERM ? 0 : -1;
}

static int fail(int made) {
    int why = errno;
    close(made);
    errno = why;
    return -1;
}

static int connect_unix(const sl_rail_address *rail) {
    struct sockaddr_un to;
    socklen_t size = parse_unix(rail->address, &to);
    if (size == 0) {
        errno = EINVAL;
        return -1;
    }
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made < 0)
        return -1;
    return connect(made, (struct sockaddr *)&to, size) == 0 ? made : fail(made);
}

int sl_rail_connect(const sl_rail_address *rail) {
    struct sockaddr_storage to, from;
    int yes = 1;
    if (rail->kind == SL_RAIL_UNIX)
        return connect_unix(rail);
    socklen_t size = parse(rail->address, rail->port, rail->interface, &to);
    if (size == 0) {
        errno = EINVAL;
        return -1;
    }
    int made = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made < 0)
        return -1;
    if (bind_to_device(made, rail->interface) != 0)
        return fail(made);
    socklen_t own = rail->source[0] ? parse(rail->source, 0, rail->interface, &from) : 0;
    if (own) {
        setsockopt(made, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
        if (bind(made, (struct sockaddr *)&from, own) != 0)
            return fail(made);
    }
    if (connect(made, (struct sockaddr *)&to, size) != 0 && errno != EINPROGRESS)
        return fail(made);
    return made;
}

void sl_rail_tune(int socket, sl_time patience) {
    int yes = 1, unsent = UNSENT_BYTES, buffer = 1 << 20;
    unsigned timeout_ms = (unsigned)(patience / SL_MS);
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    if (getsockname(socket, (struct sockaddr *)&own, &size) != 0)
        return;
    if (own.ss_family == AF_UNIX) { /* TCP finds its own sizes */
        setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
        return;
    }
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
}

void sl_rail_describe(int socket, char text[SL_RAIL_TEXT]) {
    struct sockaddr_storage other;
    socklen_t size = sizeof other;
    char host[96], port[16];
    if (getpeername(socket, (struct sockaddr *)&other, &size) != 0)
        snprintf(text, SL_RAIL_TEXT, "a peer that has left");
    else if (other.ss_family == AF_UNIX)
        snprintf(text, SL_RAIL_TEXT, "a process of this host");
    else if (getnameinfo((struct sockaddr *)&other, size, host, sizeof host, port, sizeof port,
                         NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        snprintf(text, SL_RAIL_TEXT, "an address without a name");
    else
        snprintf(text, SL_RAIL_TEXT, "%s port %s", host, port);
}

const char *sl_rail_name(const sl_rail_address *rail) {
    return rail->interface[0] ? rail->interface : rail->address;
}

static int same_host(const struct sockaddr *a, const struct sockaddr_storage *b) {
    if (!a || a->sa_family != b->ss_family)
        return 0;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    return a->sa_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

unsigned sl_rail_interface(int socket) {
    struct sockaddr_storage own;
    struct ifaddrs *all;
    socklen_t size = sizeof own;
    unsigned index = 0;
    if (getsockname(socket, (struct sockaddr *)&own, &size) != 0 || own.ss_family == AF_UNIX ||
        getifaddrs(&all) != 0)
        return 0;
    for (struct ifaddrs *a = all; a && index == 0; a = a->ifa_next)
        if (same_host(a->ifa_addr, &own))
            index = if_nametoindex(a->ifa_name);
    freeifaddrs(all);
    return index;
}

/* ---- listening ---- */

static sl_status listen_unix(sl_rail_address *rail, int *result) {
    struct sockaddr_un at;
    socklen_t size = parse_unix(rail->address, &at);
    if (size == 0)
        return sl_error(SL_EINVAL, "'%s' is too long for the name of a unix socket", rail->address);
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* The mode is set before the file exists, so no other user can open it in between. */
    if (made < 0 || fchmod(made, 0600) != 0 || bind(made, (struct sockaddr *)&at, size) != 0 ||
        listen(made, BACKLOG) != 0) {
        sl_status status = sl_error_errno(SL_ESYS, "cannot listen on '%s'", rail->address);
        if (made >= 0)
            close(made);
        return status;
    }
    *result = made;
    return SL_OK;
}

void sl_rail_remove(const sl_rail_address *rail) {
    if (rail->kind == SL_RAIL_UNIX && rail->address[0] != '@')
        unlink(rail->address);
}

static sl_status bind_and_listen(int made, const struct sockaddr_storage *at, socklen_t size,
                                 sl_rail_address *rail) {
    struct sockaddr_storage bound;
    socklen_t bound_size = sizeof bound;
    int yes = 1;
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind_to_device(made, rail->interface) != 0)
        return sl_error_errno(SL_ESYS, "cannot listen on interface '%s'", rail->interface);
    if (bind(made, (const struct sockaddr *)at, size) != 0 || listen(made, BACKLOG) != 0 ||
        getsockname(made, (struct sockaddr *)&bound, &bound_size) != 0)
        return sl_error_errno(SL_ESYS, "cannot listen on '%s' port %u", rail->address, rail->port);
    rail->port = ntohs(bound.ss_family == AF_INET ? ((struct sockaddr_in *)&bound)->sin_port
                                                  : ((struct sockaddr_in6 *)&bound)->sin6_port);
    return SL_OK;
}

sl_status sl_rail_listen(sl_rail_address *rail, int *result) {
    struct sockaddr_storage at;
    *result = -1;
    if (rail->kind == SL_RAIL_UNIX)
        return listen_unix(rail, result);
    socklen_t size = parse(rail->address, rail->port, rail->interface, &at);
    if (size == 0)
        return sl_error(SL_EINVAL, "'%s' is not a numeric address", rail->address);
    int made = socket(at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made < 0)
        return sl_error_errno(SL_ESYS, "no socket to listen on '%s'", rail->address);
    sl_status status = bind_and_listen(made, &at, size, rail);
    if (status == SL_OK)
        *result = made;
    else
        close(made);
    return status;
}
