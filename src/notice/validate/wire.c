#include "notice/validate/wire.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A present host answers immediately; a wrong address must not use up the time of the others. */
#define PATIENCE (300 * SL_MS)

typedef struct handshake {
    uint64_t token;
    int32_t link, magic;
} handshake;
enum { MAGIC = 0x534c5631 };

/* ---- addresses ---- */

static int bits_of(const uint8_t *mask, size_t bytes) {
    int bits = 0;
    for (size_t i = 0; i < bytes; i++)
        for (int bit = 7; bit >= 0 && (mask[i] >> bit & 1); bit--)
            bits++;
    return bits;
}

static int take_address(const struct sockaddr *from, const struct sockaddr *mask, sl_address *address) {
    *address = (sl_address){0};
    if (from->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)from, *m = (const void *)mask;
        address->family = 4;
        memcpy(address->bytes, &v4->sin_addr, 4);
        address->prefix = (uint8_t)(m ? bits_of((const void *)&m->sin_addr, 4) : 32);
        address->loopback = address->bytes[0] == 127;
        return 1;
    }
    if (from->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const void *)from, *m = (const void *)mask;
        if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) /* means nothing without an interface */
            return 0;
        address->family = 6;
        memcpy(address->bytes, &v6->sin6_addr, 16);
        address->prefix = (uint8_t)(m ? bits_of((const void *)&m->sin6_addr, 16) : 128);
        address->loopback = (uint8_t)IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
        return 1;
    }
    return 0;
}

static sl_status own_addresses(sl_wire_address *wire) {
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0)
        return sl_error_errno(SL_ESYS, "this host's addresses cannot be listed");
    for (int loopback = 0; loopback < 2; loopback++)
        for (const struct ifaddrs *i = all; i && wire->addresses < SL_ADDRESSES; i = i->ifa_next) {
            sl_address address;
            if (i->ifa_addr && (i->ifa_flags & IFF_UP) && !!(i->ifa_flags & IFF_LOOPBACK) == loopback &&
                take_address(i->ifa_addr, i->ifa_netmask, &address) &&
                (!loopback || wire->addresses < SL_ADDRESSES))
                wire->address[wire->addresses++] = address;
        }
    freeifaddrs(all);
    return SL_OK;
}

static sl_status one_address(const char *text, sl_wire_address *wire) {
    sl_address *address = &wire->address[0];
    wire->addresses = 1;
    *address = (sl_address){.family = 4, .prefix = 32};
    if (inet_pton(AF_INET, text, address->bytes) == 1) {
        address->loopback = address->bytes[0] == 127;
        return SL_OK;
    }
    *address = (sl_address){.family = 6, .prefix = 128};
    if (inet_pton(AF_INET6, text, address->bytes) == 1)
        return SL_OK;
    return sl_error(SL_EINVAL, "'%s' is not an address", text);
}

static int listen_on(int family, uint16_t *port) {
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } bound;
    socklen_t size = sizeof bound;
    int file = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), both = 0;
    if (file < 0)
        return -1;
    if (family == AF_INET6)
        setsockopt(file, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof both);
    const void *address = family == AF_INET6 ? (const void *)&v6 : (const void *)&v4;
    if (bind(file, address, family == AF_INET6 ? sizeof v6 : sizeof v4) != 0 || listen(file, 1024) != 0 ||
        getsockname(file, &bound.any, &size) != 0) {
        close(file);
        return -1;
    }
    *port = ntohs(family == AF_INET6 ? bound.v6.sin6_port : bound.v4.sin_port);
    return file;
}

sl_status sl_wire_listen(const char *only, sl_wire_address *wire, int *file) {
    *wire = (sl_wire_address){0};
    SL_TRY(only ? one_address(only, wire) : own_addresses(wire));
    *file = listen_on(AF_INET6, &wire->port);
    if (*file < 0)
        *file = listen_on(AF_INET, &wire->port);
    return *file < 0 ? sl_error_errno(SL_ESYS, "no port for the tests of links") : SL_OK;
}

static int is_same(const sl_address *a, const sl_address *b) {
    return a->family == b->family && memcmp(a->bytes, b->bytes, 16) == 0;
}

static int is_near(const sl_address *a, const sl_address *b) {
    if (a->family != b->family)
        return 0;
    for (int bit = 0; bit < a->prefix; bit++)
        if ((a->bytes[bit / 8] ^ b->bytes[bit / 8]) >> (7 - bit % 8) & 1)
            return 0;
    return 1;
}

/* 0: a common subnet, 1: perhaps through a router, 2: not from here. On one host, loopback is what a program
 * would use; between hosts, an address that this host also has belongs to another interface of the same name.
 */
static int rank_address(const sl_wire_address *here, const sl_address *address, int together) {
    int rank = 1;
    if (together)
        return address->loopback ? 0 : 1;
    for (int i = 0; i < here->addresses; i++) {
        if (is_same(&here->address[i], address))
            return 2;
        if (is_near(&here->address[i], address))
            rank = 0;
    }
    return address->loopback ? 2 : rank;
}

/* ---- whole messages ---- */

static int wait_for(int file, short what, sl_time deadline) {
    struct pollfd one = {.fd = file, .events = what};
    sl_time left = deadline - sl_now();
    if (left <= 0)
        return 0;
    int ms = left > 3600 * SL_SECOND ? 3600000 : (int)((left + SL_MS - 1) / SL_MS);
    int got = poll(&one, 1, ms);
    return got > 0 || (got < 0 && errno == EINTR);
}

int sl_wire_send(int file, const void *bytes, size_t size, sl_time deadline) {
    for (const char *at = bytes; size > 0;) {
        ssize_t sent = send(file, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            at += sent;
            size -= (size_t)sent;
        } else if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            return -1;
        } else if (!wait_for(file, POLLOUT, deadline)) {
            return -1;
        }
    }
    return 0;
}

int sl_wire_receive(int file, void *bytes, size_t size, sl_time deadline) {
    for (char *at = bytes; size > 0;) {
        ssize_t got = recv(file, at, size, MSG_DONTWAIT);
        if (got > 0) {
            at += got;
            size -= (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            return -1;
        } else if (!wait_for(file, POLLIN, deadline)) {
            return -1;
        }
    }
    return 0;
}

/* ---- connecting ---- */

static socklen_t fill(const sl_address *address, uint16_t port, struct sockaddr_storage *to) {
    memset(to, 0, sizeof *to);
    if (address->family == 4) {
        struct sockaddr_in *v4 = (void *)to;
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        memcpy(&v4->sin_addr, address->bytes, 4);
        return sizeof *v4;
    }
    struct sockaddr_in6 *v6 = (void *)to;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    memcpy(&v6->sin6_addr, address->bytes, 16);
    return sizeof *v6;
}

static void prepare(int file) {
    int yes = 1;
    setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

static int try_address(const sl_address *address, uint16_t port, sl_time deadline, int *error) {
    struct sockaddr_storage to;
    socklen_t size = fill(address, port, &to), length = sizeof *error;
    int file = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *error = errno;
    if (file < 0)
        return -1;
    *error = connect(file, (struct sockaddr *)&to, size) == 0 ? 0 : errno;
    if (*error == EINPROGRESS) {
        if (!wait_for(file, POLLOUT, deadline))
            *error = ETIMEDOUT;
        else if (getsockopt(file, SOL_SOCKET, SO_ERROR, error, &length) != 0)
            *error = errno;
    }
    if (*error == 0) {
        prepare(file);
        return file;
    }
    close(file);
    return -1;
}

void sl_wire_connect(const sl_wire_address *here, const sl_wire_address *peer, int together, uint64_t token,
                     int link, sl_time deadline, int *file, char *why, size_t size) {
    const handshake hello = {.token = token, .link = link, .magic = MAGIC};
    snprintf(why, size, "no address of the other end can be reached");
    *file = -1;
    for (int rank = 0; rank < 2 && *file < 0; rank++)
        for (int i = 0; i < peer->addresses && i < SL_ADDRESSES && *file < 0; i++) {
            const sl_address *address = &peer->address[i];
            sl_time now = sl_now();
            sl_time limit = now + PATIENCE < deadline ? now + PATIENCE : deadline;
            int error;
            if (rank_address(here, address, together) != rank || now >= deadline)
                continue;
            *file = try_address(address, peer->port, limit, &error);
            if (*file >= 0 && sl_wire_send(*file, &hello, sizeof hello, limit) == 0)
                return;
            if (*file >= 0)
                close(*file);
            *file = -1;
            char text[64] = "";
            inet_ntop(address->family == 4 ? AF_INET : AF_INET6, address->bytes, text, sizeof text);
            snprintf(why, size, "%s: %s", text, strerror(error));
        }
}

int sl_wire_accept(int listener, uint64_t token, sl_time deadline, int *link) {
    for (;;) {
        handshake hello;
        int file = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (file < 0) {
            if (!wait_for(listener, POLLIN, deadline))
                return -1;
            continue;
        }
        sl_time limit = sl_now() + PATIENCE;
        if (sl_wire_receive(file, &hello, sizeof hello, limit < deadline ? limit : deadline) == 0 &&
            hello.magic == MAGIC && hello.token == token) {
            prepare(file);
            *link = hello.link;
            return file;
        }
        close(file);
    }
}
