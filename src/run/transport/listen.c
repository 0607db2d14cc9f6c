/* The listening socket: chooses an address that others can reach, and a port of the kernel's choice. */
#include "run/transport/listen.h"
#include "run/rail/rail_line.h"
#include "run/transport/transport.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static socklen_t size_of(const struct sockaddr *a) {
    return a->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/* How useful an address is to other hosts; 0: not at all. An IPv6 link-local one needs a scope that differs
 * per host. */
static int usefulness(const struct ifaddrs *a) {
    if (!a->ifa_addr || !(a->ifa_flags & IFF_UP))
        return 0;
    int loopback = (a->ifa_flags & IFF_LOOPBACK) != 0;
    if (a->ifa_addr->sa_family == AF_INET)
        return loopback ? 2 : 4;
    if (a->ifa_addr->sa_family == AF_INET6 &&
        !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)a->ifa_addr)->sin6_addr))
        return loopback ? 1 : 3;
    return 0;
}

static int from_number(const char *text, struct sockaddr_storage *out) {
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        out->ss_family = AF_INET;
        return 1;
    }
    if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
        out->ss_family = AF_INET6;
        return 1;
    }
    return 0;
}

/* The most useful address of the host, or of one interface. */
static sl_status choose(const char *interface, struct sockaddr_storage *out) {
    struct ifaddrs *all, *best = NULL;
    memset(out, 0, sizeof *out);
    if (interface && from_number(interface, out))
        return SL_OK;
    if (getifaddrs(&all) != 0)
        return sl_error_errno(SL_ESYS, "the addresses of this host cannot be listed");
    for (struct ifaddrs *a = all; a; a = a->ifa_next)
        if ((!interface || strcmp(a->ifa_name, interface) == 0) &&
            usefulness(a) > (best ? usefulness(best) : 0))
            best = a;
    if (best)
        memcpy(out, best->ifa_addr, size_of(best->ifa_addr));
    freeifaddrs(all);
    if (!best)
        return sl_error(SL_EINVAL, "'%s' is neither a numeric address nor an interface with one",
                        interface ? interface : "");
    return SL_OK;
}

static void set_port(struct sockaddr_storage *a, uint16_t port) {
    if (a->ss_family == AF_INET)
        ((struct sockaddr_in *)a)->sin_port = port;
    else
        ((struct sockaddr_in6 *)a)->sin6_port = port;
}

static sl_status describe(int made, sl_transport_address *address) {
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    if (getsockname(made, (struct sockaddr *)&bound, &size) != 0)
        return sl_error_errno(SL_ESYS, "a listening socket without an address");
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&bound;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&bound;
    int is_v4 = bound.ss_family == AF_INET;
    const void *number = is_v4 ? (const void *)&v4->sin_addr : (const void *)&v6->sin6_addr;
    inet_ntop(bound.ss_family, number, address->address, sizeof address->address);
    address->port = ntohs(is_v4 ? v4->sin_port : v6->sin6_port);
    return SL_OK;
}

const char *sl_rail_parse(const char *name, sl_rail_kind *kind) {
    int over_ucx = strncmp(name, "ucx:", 4) == 0;
    *kind = over_ucx ? SL_RAIL_UCX : SL_RAIL_TCP;
    return over_ucx ? name + 4 : name;
}

static sl_status listen_on(const char *name, int rail, sl_transport_address *all, int *made) {
    sl_transport_address one;
    sl_rail_kind kind = SL_RAIL_TCP;
    if (name)
        name = sl_rail_parse(name, &kind);
    SL_TRY(sl_line_check(kind));
    SL_TRY(sl_transport_listen(name, &one, made));
    if (rail == 0)
        *all = one;
    sl_transport_rail *r = &all->rail[rail];
    memcpy(r->address, one.address, sizeof r->address);
    r->port = one.port;
    all->rails = rail + 1;
    return SL_OK;
}

sl_status sl_transport_listen_rails(const char *const *rails, int count, sl_transport_address *address,
                                    int *sockets) {
    if (count < 0 || count > SL_TRANSPORT_RAILS)
        return sl_error(SL_EINVAL, "%d rails; at most %d are possible", count, SL_TRANSPORT_RAILS);
    for (int i = 0; i < SL_TRANSPORT_RAILS; i++)
        sockets[i] = -1;
    for (int i = 0; i < (count ? count : 1); i++) {
        sl_status status = listen_on(count ? rails[i] : NULL, i, address, &sockets[i]);
        for (int k = 0; status != SL_OK && k < i; k++)
            close(sockets[k]);
        SL_TRY(status);
    }
    return SL_OK;
}

sl_status sl_address_choose(const char *interface, char number[64]) {
    struct sockaddr_storage a;
    SL_TRY(choose(interface, &a));
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&a;
    inet_ntop(a.ss_family,
              a.ss_family == AF_INET ? (const void *)&v4->sin_addr : (const void *)&v6->sin6_addr, number,
              64);
    return SL_OK;
}

sl_status sl_transport_listen(const char *interface_address, sl_transport_address *address, int *socket_out) {
    struct sockaddr_storage local;
    sl_status status;
    *socket_out = -1;
    memset(address, 0, sizeof *address);
    if (gethostname(address->host, sizeof address->host - 1) != 0)
        return sl_error_errno(SL_ESYS, "this host has no name that fits");
    struct stat memory;
    address->memory = stat("/dev/shm", &memory) == 0 ? (uint64_t)memory.st_dev : 0;
    SL_TRY(choose(interface_address, &local));
    set_port(&local, 0);
    int made = socket(local.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made < 0)
        return sl_error_errno(SL_ESYS, "no socket for the peers on other hosts");
    if (bind(made, (struct sockaddr *)&local, size_of((struct sockaddr *)&local)) != 0 ||
        listen(made, 128) != 0)
        SL_TRY_GOTO(err_close, status,
                    sl_error_errno(SL_ESYS, "cannot listen on '%s'",
                                   interface_address ? interface_address : "any address"));
    SL_TRY_GOTO(err_close, status, describe(made, address));
    *socket_out = made;
    return SL_OK;
err_close:
    close(made);
    return status;
}
