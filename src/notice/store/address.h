/* The address of a Redis server in its URL: unix:PATH, redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE], and
 * rediss:// for the same over TLS. User and password may contain %XX; HOST may be [IPv6]. */
#pragma once

#include "base/status.h"
#include <stddef.h>

typedef struct sl_store_address {
    char path[108]; /* of a unix socket; "": TCP */
    char host[256];
    int port;
    int secure;     /* TLS */
    char user[128]; /* "": the default one */
    char password[256];
    int has_password;
    int database;
} sl_store_address;

/** SL_EINVAL explains the error in `url`, without its password. */
sl_status sl_store_address_read(const char *url, sl_store_address *address);

/** The address for display (without the password), in text[size]. */
void sl_store_address_show(const sl_store_address *address, char *text, size_t size);
