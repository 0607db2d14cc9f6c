/* The seal of a message or value in the store: who wrote it, with which version, and that it was somebody who
 * has the job's key (HMAC-SHA256). Whoever shares the server can read what is sealed, but cannot change it,
 * move it to another name or another job, or write something of its own. */
#pragma once

#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

#define SL_SEAL_MAGIC "slseal1" /* version and host must stay readable where these change */

typedef struct sl_seal {
    char magic[8];
    char version[32], host[64]; /* of the writer; texts, zeros behind them */
    uint64_t sender;            /* random: a store that writes */
    uint64_t counter;           /* larger with each seal of the sender: what comes again is a copy */
    uint8_t mac[32];            /* of the above, the name and the bytes */
} sl_seal;
_Static_assert(sizeof(sl_seal) == 152, "seals cross nodes");

/** Fills in everything but the counter and the mac: this build, this host, a new sender. SL_ESYS. */
sl_status sl_seal_begin(sl_seal *seal);

/** Computes the mac of `seal` for `bytes[size]` under `name`. SL_ENOMEM. */
sl_status sl_seal_close(sl_seal *seal, const char *key, const char *name, const void *bytes, size_t size);

/** Whether the mac is right: 1 or 0. SL_ENOMEM. */
sl_status sl_seal_check(const sl_seal *seal, const char *key, const char *name, const void *bytes,
                        size_t size, int *right);

/** The sentence that says that this build and that of `host` are of different versions, in text[size]. */
void sl_seal_version_text(const char *version, const char *host, char *text, size_t size);

/** Whether these bytes have the form of a seal, with printable texts. */
int sl_seal_is(const void *bytes, size_t size);
