#include "adapt/campaign/campaign_keys.h"
#include "base/memory.h"
#include "base/random.h"

#include <string.h>

/* Keys start at multiples of 8, so that structs can be read in place. */
static size_t padded(size_t size) {
    return (size + 7) & ~(size_t)7;
}

static uint64_t hash(const unsigned char *key, size_t size) {
    uint64_t sum = SL_RANDOM_STEP ^ size, word = 0;
    for (size_t i = 0; i < size; i += 8) {
        size_t left = size - i < 8 ? size - i : 8;
        word = 0;
        memcpy(&word, key + i, left);
        sum = sl_random_mix(sum ^ word) + SL_RANDOM_STEP;
    }
    return sum;
}

/* A key's size is in the 8 bytes before it. */
const void *sl_keys_at(const sl_keys *k, int number, size_t *size) {
    size_t begin = number ? k->end[number - 1] : 0;
    uint64_t bytes;
    memcpy(&bytes, k->bytes + begin, sizeof bytes);
    *size = (size_t)bytes;
    return k->bytes + begin + sizeof bytes;
}

static int *find_slot(const sl_keys *k, const void *key, size_t size) {
    for (size_t i = (size_t)hash(key, size) & (k->slots - 1);; i = (i + 1) & (k->slots - 1)) {
        size_t other;
        if (!k->slot[i])
            return &k->slot[i];
        const void *bytes = sl_keys_at(k, k->slot[i] - 1, &other);
        if (other == size && (size == 0 || memcmp(bytes, key, size) == 0))
            return &k->slot[i];
    }
}

static sl_status widen(sl_keys *k) {
    sl_keys wider = *k;
    wider.slots = k->slots ? 2 * k->slots : 64;
    SL_TRY(sl_alloc(&wider.slot, wider.slots, sizeof *wider.slot));
    for (size_t i = 0; i < k->count; i++) {
        size_t size;
        const void *key = sl_keys_at(k, (int)i, &size);
        *find_slot(&wider, key, size) = (int)i + 1;
    }
    sl_free(k->slot);
    *k = wider;
    return SL_OK;
}

sl_status sl_keys_number(sl_keys *k, const void *key, size_t size, int *number, int *is_new) {
    if (2 * k->count >= k->slots)
        SL_TRY(widen(k));
    int *slot = find_slot(k, key, size);
    *is_new = !*slot;
    if (*is_new) {
        uint64_t bytes = size;
        size_t all = sizeof bytes + padded(size);
        SL_TRY(sl_grow(&k->bytes, &k->room, k->used + all, 1));
        SL_TRY(sl_grow(&k->end, &k->end_room, k->count + 1, sizeof *k->end));
        memcpy(k->bytes + k->used, &bytes, sizeof bytes);
        if (size)
            memcpy(k->bytes + k->used + sizeof bytes, key, size);
        k->used += all;
        k->end[k->count++] = k->used;
        *slot = (int)k->count;
    }
    *number = *slot - 1;
    return SL_OK;
}

void sl_keys_free(sl_keys *k) {
    SL_FREE(k->bytes, k->end, k->slot);
    *k = (sl_keys){0};
}

void sl_keys_digest(uint64_t sum[2], const void *bytes, size_t size) {
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = 0;
        memcpy(&word, (const unsigned char *)bytes + i, size - i < 8 ? size - i : 8);
        sum[0] = sl_random_mix(sum[0] ^ word) + SL_RANDOM_STEP;
        sum[1] = sl_random_mix(sum[1] + word * SL_RANDOM_STEP + i) ^ sum[0];
    }
    sum[0] = sl_random_mix(sum[0] ^ size);
}
