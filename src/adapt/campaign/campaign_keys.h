/* Things that a campaign meets again and again (a replica with its faults, a plan, a set of faults, an
 * arrangement of the job), each under a number: bytes in, the number out, the same number for the same bytes.
 * What is known of a number stands in an array beside. Keys are hashed byte by byte: structs that become keys
 * have no gaps. */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct sl_keys {
    unsigned char *bytes;
    size_t used, room;
    size_t *end; /* [count] where a key's bytes end */
    size_t count, end_room;
    int *slot; /* [slots] number + 1; 0: free */
    size_t slots;
} sl_keys;

/** The number of `size` bytes at `key`, counted from 0 in the order of first sight. *is_new: it was not
 * there. SL_ENOMEM. */
sl_status sl_keys_number(sl_keys *keys, const void *key, size_t size, int *number, int *is_new);
/** The bytes of a number; valid until the next sl_keys_number, and aligned to 8. Never fails. */
const void *sl_keys_at(const sl_keys *keys, int number, size_t *size);
void sl_keys_free(sl_keys *keys);

/** 128 bits that stand for bytes of which there are too many to keep: those of `size` more into sum[2]. Never
 * fails. */
void sl_keys_digest(uint64_t sum[2], const void *bytes, size_t size);
