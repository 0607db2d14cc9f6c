#include "notice/probe/communicators.h"

#include <pthread.h>
#include <stdlib.h>

#include "notice/probe/probe.h"

#define SLOTS 8192 /* power of two */
#define EMPTY 0
#define REMOVED 1

/* Readers: key (acquire), then the entry, which was written before the key (release). Writers hold the lock.
 */
static struct {
    pthread_mutex_t lock;
    struct {
        _Atomic uint64_t key; /* handle + 2 */
        _Atomic(sl_communicator *) communicator;
    } slot[SLOTS];
    struct {
        uint64_t key;
        uint32_t count;
    } repeat[SLOTS];
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

sl_communicator sl_nowhere __attribute__((visibility("hidden"))) = {.rank = -1};

static size_t hash(uint64_t key) {
    return (size_t)((key * 0x9e3779b97f4a7c15u) >> 51); /* 13 bits */
}

sl_communicator *sl_communicator_find(uint64_t handle) {
    uint64_t key = handle + 2;
    for (size_t i = 0, at = hash(key); i < SLOTS; i++, at = (at + 1) % SLOTS) {
        uint64_t there = atomic_load_explicit(&table.slot[at].key, memory_order_acquire);
        if (there == key)
            return atomic_load_explicit(&table.slot[at].communicator, memory_order_relaxed);
        if (there == EMPTY)
            return NULL;
    }
    return NULL;
}

static void free_entry(sl_communicator *communicator) {
    free(communicator->world);
    free(communicator->access.pair);
    free(communicator->exposure.pair);
    free(communicator);
}

static void remove_locked(uint64_t key) {
    for (size_t i = 0, at = hash(key); i < SLOTS; i++, at = (at + 1) % SLOTS) {
        uint64_t there = atomic_load_explicit(&table.slot[at].key, memory_order_relaxed);
        if (there == EMPTY)
            return;
        if (there != key)
            continue;
        sl_communicator *gone = atomic_load_explicit(&table.slot[at].communicator, memory_order_relaxed);
        atomic_store_explicit(&table.slot[at].key, REMOVED, memory_order_release);
        /* a search ends at an empty slot, so an entry removed before one becomes empty as well */
        size_t next = (at + 1) % SLOTS;
        while (atomic_load_explicit(&table.slot[at].key, memory_order_relaxed) == REMOVED &&
               atomic_load_explicit(&table.slot[next].key, memory_order_relaxed) == EMPTY) {
            atomic_store_explicit(&table.slot[at].key, EMPTY, memory_order_release);
            next = at;
            at = (at + SLOTS - 1) % SLOTS;
        }
        if (atomic_load(&gone->pending) == 0)
            free_entry(gone);
        return;
    }
}

sl_communicator *sl_communicator_add(uint64_t handle, sl_communicator *communicator, int fresh) {
    uint64_t key = handle + 2;
    sl_communicator *entered = &sl_nowhere;
    pthread_mutex_lock(&table.lock);
    sl_communicator *there = fresh ? NULL : sl_communicator_find(handle);
    if (there)
        entered = there;
    else
        remove_locked(key);
    for (size_t i = 0, at = hash(key); i < SLOTS && entered == &sl_nowhere; i++, at = (at + 1) % SLOTS) {
        if (atomic_load_explicit(&table.slot[at].key, memory_order_relaxed) > REMOVED)
            continue;
        atomic_store_explicit(&table.slot[at].communicator, communicator, memory_order_relaxed);
        atomic_store_explicit(&table.slot[at].key, key, memory_order_release);
        entered = communicator;
    }
    pthread_mutex_unlock(&table.lock);
    if (entered == &sl_nowhere)
        sl_probe_untracked();
    if (entered != communicator)
        free_entry(communicator);
    return entered;
}

void sl_communicator_remove(uint64_t handle) {
    pthread_mutex_lock(&table.lock);
    remove_locked(handle + 2);
    pthread_mutex_unlock(&table.lock);
}

/* The finalizer of splitmix64. */
uint64_t sl_name_mix(uint64_t name, uint64_t value) {
    uint64_t x = (name ^ value) + 0x9e3779b97f4a7c15u + (name << 6);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    return x ? x : 1; /* 0 names none */
}

uint64_t sl_name_text(const char *text) {
    uint64_t name = 1;
    for (; *text; text++)
        name = sl_name_mix(name, (unsigned char)*text);
    return name;
}

uint32_t sl_name_repeat(uint64_t key) {
    uint32_t before = 0;
    pthread_mutex_lock(&table.lock);
    for (size_t i = 0, at = hash(key); i < SLOTS; i++, at = (at + 1) % SLOTS)
        if (table.repeat[at].key == key || table.repeat[at].key == 0) {
            table.repeat[at].key = key;
            before = table.repeat[at].count++;
            break;
        }
    pthread_mutex_unlock(&table.lock);
    return before;
}
