/* The weights' hash: xxh64 (seed 0) over the f32 bytes of all parameters in canonical order, little-endian,
 * without padding. Streaming: pieces may be cut anywhere. */
#pragma once

#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct sl_hash sl_hash;

/** SL_ENOMEM. */
sl_status sl_hash_open(sl_hash **hash);
void sl_hash_add(sl_hash *hash, const float *weight, size_t count);
/** The hash of the data added so far. */
uint64_t sl_hash_value(const sl_hash *hash);
void sl_hash_close(sl_hash *hash);
