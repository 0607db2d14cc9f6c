#include "run/binding/hash.h"
#include "base/memory.h"

/* The state inline: no allocation of the library's own. */
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

struct sl_hash {
    XXH64_state_t state;
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the hash is over little-endian floats");

sl_status sl_hash_open(sl_hash **hash) {
    SL_TRY(sl_alloc(hash, 1, sizeof **hash));
    XXH64_reset(&(*hash)->state, 0);
    return SL_OK;
}

void sl_hash_add(sl_hash *hash, const float *weight, size_t count) {
    XXH64_update(&hash->state, weight, count * sizeof *weight);
}

uint64_t sl_hash_value(const sl_hash *hash) {
    return XXH64_digest(&hash->state);
}

void sl_hash_close(sl_hash *hash) {
    sl_free(hash);
}
