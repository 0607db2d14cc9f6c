/* The addresses at which other nodes of the job reach this host: a server for them listens only there. */
#pragma once

#include <netinet/in.h>

typedef struct sl_addresses {
    char text[15][INET6_ADDRSTRLEN]; /* numeric, none of them loopback; redis-server takes 16 in all */
    int count;
} sl_addresses;

/** If the launcher's environment has numeric addresses of the host that started the job: the addresses of
 * this host with a route to them. Otherwise all of this host, IPv4 first. Resolves no name, never waits. */
void sl_addresses_find(sl_addresses *addresses);
