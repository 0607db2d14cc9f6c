#include "notice/watch/addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX = sizeof((sl_addresses *)0)->text / sizeof((sl_addresses *)0)->text[0] };

static void add(sl_addresses *a, const char *text) {
    for (int i = 0; i < a->count; i++)
        if (strcmp(a->text[i], text) == 0)
            return;
    if (a->count < MAX)
        snprintf(a->text[a->count++], sizeof a->text[0], "%s", text);
}

/* The address that packets to `other` would leave from; nothing is sent. */
static void add_way_to(sl_addresses *a, const char *other) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(9)};
    socklen_t size = sizeof address;
    char text[INET6_ADDRSTRLEN];
    if (inet_pton(AF_INET, other, &address.sin_addr) != 1)
        return;
    int file = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (file >= 0 && connect(file, (struct sockaddr *)&address, sizeof address) == 0 &&
        getsockname(file, (struct sockaddr *)&address, &size) == 0 &&
        ntohl(address.sin_addr.s_addr) >> 24 != IN_LOOPBACKNET &&
        inet_ntop(AF_INET, &address.sin_addr, text, sizeof text))
        add(a, text);
    if (file >= 0)
        close(file);
}

/* Open MPI: 1234.0;tcp://10.0.0.1,10.1.0.1:4567. Others: one address. */
static void add_ways_to_launcher(sl_addresses *a) {
    static const char *const variables[] = {"OMPI_MCA_orte_hnp_uri", "SLURM_LAUNCH_NODE_IPADDR",
                                            "MASTER_ADDR"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        char text[1024], *save = NULL;
        snprintf(text, sizeof text, "%s", getenv(variables[i]) ? getenv(variables[i]) : "");
        for (char *word = strtok_r(text, ";/,:", &save); word; word = strtok_r(NULL, ";/,:", &save))
            add_way_to(a, word);
    }
}

static void add_own(sl_addresses *a, const struct ifaddrs *all, int family) {
    for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
        char text[INET6_ADDRSTRLEN];
        if (!at->ifa_addr || at->ifa_addr->sa_family != family || (at->ifa_flags & IFF_LOOPBACK) ||
            !(at->ifa_flags & IFF_UP))
            continue;
        const struct sockaddr_in *four = (const void *)at->ifa_addr;
        const struct sockaddr_in6 *six = (const void *)at->ifa_addr;
        if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr))
            continue;
        const void *bytes = family == AF_INET ? (const void *)&four->sin_addr : &six->sin6_addr;
        if (inet_ntop(family, bytes, text, sizeof text))
            add(a, text);
    }
}

void sl_addresses_find(sl_addresses *a) {
    struct ifaddrs *all = NULL;
    memset(a, 0, sizeof *a);
    add_ways_to_launcher(a);
    if (a->count > 0 || getifaddrs(&all) != 0)
        return;
    add_own(a, all, AF_INET);
    add_own(a, all, AF_INET6);
    freeifaddrs(all);
}
