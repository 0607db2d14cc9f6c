/* Numbers for recurring things of a campaign (a replica with its faults, a plan, a set of faults, an
 * arrangement of the job): equal bytes get the same number. Arrays by number hold the results. Keys are
 * hashed byte by byte: structs used as keys have no gaps. */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct sl_keys {
    unsigned char *bytes;
    size_t used, room;
    size_t *end; /* [count] end of a key's bytes */
    size_t count, end_room;
    int *slot; /* [slots] number + 1; 0: free */
    size_t slots;
} sl_keys;

/** The number of `size` bytes at `key`, counted from 0 in order of first use. *is_new: it was added.
 * SL_ENOMEM. */
sl_status sl_keys_number(sl_keys *keys, const void *key, size_t size, int *number, int *is_new);
/** The bytes of a number; valid until the next sl_keys_number, and aligned to 8. Never fails. */
const void *sl_keys_at(const sl_keys *keys, int number, size_t *size);
void sl_keys_free(sl_keys *keys);

/** 128-bit digest of data too large to keep: adds `size` bytes to sum[2]. Never fails. */
void sl_keys_digest(uint64_t sum[2], const void *bytes, size_t size);
