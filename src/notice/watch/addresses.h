/* The addresses of this host at which other nodes of the job reach it: where a server for them has to listen,
 * and nowhere else. */
#pragma once

#include <netinet/in.h>

typedef struct sl_addresses {
    char text[15][INET6_ADDRSTRLEN]; /* numeric, none of them loopback; redis-server takes 16 in all */
    int count;
} sl_addresses;

/** Where the launcher's environment has numeric addresses of the host that started the job, those from which
 * this host reaches them; otherwise all of this host, IPv4 first. Resolves no name, never waits. */
void sl_addresses_find(sl_addresses *addresses);
