#include "notice/plugin/event_slots.h"

#include <pthread.h>
#include <sys/random.h>
#include <time.h>

#define TRIES 16 /* slots looked at for one that is free, before another event loses its slot */
#define PARTS_MAX 0xffffu
#define PINS_MAX 0xffu

/* A handle: salt of the process 16, kind 4, part 8, slot 16, use 20 bits. */
#define USE_MASK 0xfffffu

static uint32_t parts_of(uint64_t word) {
    return (uint32_t)(word & 0xffffff);
}

static uint32_t pins_of(uint64_t word) {
    return (uint32_t)(word >> 24) & PINS_MAX;
}

static uint64_t make_word(uint64_t use, uint32_t pins, uint32_t parts) {
    return use << 32 | (uint64_t)pins << 24 | parts;
}

/* Distinguishes handles of processes; never 0, so that no handle is NULL. Written once. */
static uint64_t salt;

static void make_salt(void) {
    if (getrandom(&salt, sizeof salt, GRND_NONBLOCK) != (ssize_t)sizeof salt)
        salt = (uint64_t)time(NULL) * 0x9e3779b97f4a7c15u;
    salt = (salt >> 48) | 1;
}

static uint64_t own_salt(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_salt);
    return salt;
}

void *sl_event_handle(const sl_event_pool *pool, const sl_event_slot *slot, sl_handle_kind kind,
                      unsigned part) {
    uint64_t index = (uint64_t)((const char *)slot - pool->slots) / pool->size;
    uint64_t use = atomic_load_explicit(&slot->word, memory_order_relaxed) >> 32 & USE_MASK;
    return (void *)(uintptr_t)(own_salt() << 48 | (uint64_t)kind << 44 | (uint64_t)(part & 0xff) << 36 |
                               index << 20 | use);
}

sl_handle_kind sl_event_kind_of(const void *handle, unsigned *part) {
    uint64_t bits = (uint64_t)(uintptr_t)handle;
    *part = (unsigned)(bits >> 36) & 0xff;
    return bits >> 48 == own_salt() ? (sl_handle_kind)(bits >> 44 & 0xf) : SL_EVENT_NONE;
}

static sl_event_slot *slot_at(const sl_event_pool *pool, uint64_t index) {
    return (sl_event_slot *)(void *)(pool->slots + index * pool->size);
}

/* Takes the slot as `word`, which must not be pinned, for another use. */
static int take(sl_event_slot *slot, uint64_t word, uint32_t parts) {
    return atomic_compare_exchange_strong_explicit(&slot->word, &word, make_word((word >> 32) + 1, 1, parts),
                                                   memory_order_acq_rel, memory_order_relaxed);
}

sl_event_slot *sl_event_claim(sl_event_pool *pool, uint32_t parts) {
    for (int used = 0; used < 2 && pool->slots && parts <= PARTS_MAX; used++)
        for (int tries = 0; tries < TRIES; tries++) {
            uint32_t at = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed) % pool->count;
            sl_event_slot *slot = slot_at(pool, at);
            uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
            if (pins_of(word) > 0 || (parts_of(word) > 0) > used || !take(slot, word, parts))
                continue;
            if (parts_of(word) > 0)
                pool->finish(slot, parts_of(word));
            return slot;
        }
    return NULL;
}

sl_event_slot *sl_event_pin(sl_event_pool *pool, const void *handle) {
    uint64_t bits = (uint64_t)(uintptr_t)handle;
    uint64_t index = bits >> 20 & 0xffff;
    if (!pool->slots || bits >> 48 != own_salt() || index >= pool->count)
        return NULL;
    sl_event_slot *slot = slot_at(pool, index);
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
    do {
        if ((word >> 32 & USE_MASK) != (bits & USE_MASK) || parts_of(word) == 0 || pins_of(word) == PINS_MAX)
            return NULL;
    } while (!atomic_compare_exchange_weak_explicit(&slot->word, &word, word + make_word(0, 1, 0),
                                                    memory_order_acq_rel, memory_order_acquire));
    return slot;
}

void sl_event_unpin(sl_event_pool *pool, sl_event_slot *slot, int parts) {
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire), changed;
    int last;
    do {
        int64_t left = (int64_t)parts_of(word) + parts;
        left = left < 0 ? 0 : left > (int64_t)PARTS_MAX ? (int64_t)PARTS_MAX : left;
        last = left == 0 && pins_of(word) == 1; /* stays pinned while it is finished */
        changed = make_word(word >> 32, pins_of(word) - !last, (uint32_t)left);
    } while (!atomic_compare_exchange_weak_explicit(&slot->word, &word, changed, memory_order_acq_rel,
                                                    memory_order_acquire));
    if (!last)
        return;
    pool->finish(slot, 0);
    atomic_store_explicit(&slot->word, make_word((word >> 32) + 1, 0, 0), memory_order_release);
}

/* Pinned, and of no other thread: from now on the handles of its event are stale. */
static int take_pinned(sl_event_slot *slot) {
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
    do {
        if (pins_of(word) != 1 || parts_of(word) == 0)
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(&slot->word, &word, make_word((word >> 32) + 1, 1, 0),
                                                    memory_order_acq_rel, memory_order_acquire));
    return 1;
}

/* Of a slot that another thread has pinned, the event may just be written. */
static int pin_idle(sl_event_slot *slot) {
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
    do {
        if (parts_of(word) == 0 || pins_of(word) > 0)
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(&slot->word, &word, word + make_word(0, 1, 0),
                                                    memory_order_acq_rel, memory_order_acquire));
    return 1;
}

uint32_t sl_event_drop(sl_event_pool *pool, int (*of)(const sl_event_slot *slot, uint32_t key),
                       uint32_t key) {
    uint32_t dropped = 0;
    for (uint32_t i = 0; pool->slots && i < pool->count; i++) {
        sl_event_slot *slot = slot_at(pool, i);
        if (!pin_idle(slot))
            continue;
        dropped += of(slot, key) && take_pinned(slot);
        sl_event_unpin(pool, slot, 0); /* finishes it if no part is left */
    }
    return dropped;
}
