/* The seal of a message or value in the store: its writer, the writer's version, and proof that the writer
 * has the job's key (HMAC-SHA256). Other users of the server can read sealed data, but cannot change it, move
 * it to another name or another job, or write their own. */
#pragma once

#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

#define SL_SEAL_MAGIC "slseal1" /* version and host must stay readable if these change */

typedef struct sl_seal {
    char magic[8];
    char version[32], host[64]; /* of the writer; texts, padded with zeros */
    uint64_t sender;            /* random: the writing store */
    uint64_t counter;           /* grows with each seal of the sender: a repeated one is a copy */
    uint8_t mac[32];            /* of the above, the name and the bytes */
} sl_seal;
_Static_assert(sizeof(sl_seal) == 152, "seals cross nodes");

/** Fills in all but the counter and the mac: this build, this host, a new sender. SL_ESYS. */
sl_status sl_seal_begin(sl_seal *seal);

/** Computes the mac of `seal` for `bytes[size]` under `name`. SL_ENOMEM. */
sl_status sl_seal_close(sl_seal *seal, const char *key, const char *name, const void *bytes, size_t size);

/** Whether the mac is right: 1 or 0. SL_ENOMEM. */
sl_status sl_seal_check(const sl_seal *seal, const char *key, const char *name, const void *bytes,
                        size_t size, int *right);

/** A sentence saying that this build and that of `host` are of different versions, in text[size]. */
void sl_seal_version_text(const char *version, const char *host, char *text, size_t size);

/** Whether these bytes have the form of a seal, with printable texts. */
int sl_seal_is(const void *bytes, size_t size);
