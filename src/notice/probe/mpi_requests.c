#include "notice/probe/mpi_requests.h"

#include <stdatomic.h>

#define SLOTS 65536 /* power of two */
#define WINDOW 16   /* possible slots of a handle */
#define EMPTY 0
#define BUSY 1

/* A key is the handle + 2. EMPTY -> BUSY by the thread that adds (compare and swap), then the request, then
 * the key (release). The key -> BUSY by the thread that completes (compare and swap, acquire), then the copy,
 * then EMPTY. So a request belongs to one thread while it is BUSY; MPI forbids two threads to work on one
 * request at the same time. */
static _Atomic uint64_t keys[SLOTS];
static sl_request requests[SLOTS];

static size_t first(uint64_t key) {
    return (size_t)((key * 0x9e3779b97f4a7c15u) >> 48);
}

/* The slot of a key, or -1. */
static long find(uint64_t key) {
    size_t at = first(key);
    for (size_t i = 0; i < WINDOW; i++) {
        size_t slot = (at + i) % SLOTS;
        if (atomic_load_explicit(&keys[slot], memory_order_acquire) == key)
            return (long)slot;
    }
    return -1;
}

int sl_request_add(uint64_t handle, const sl_request *request) {
    uint64_t key = handle + 2;
    if (find(key) >= 0)
        return 0;
    size_t at = first(key);
    for (size_t i = 0; i < WINDOW; i++) {
        size_t slot = (at + i) % SLOTS;
        uint64_t empty = EMPTY;
        if (atomic_load_explicit(&keys[slot], memory_order_relaxed) != EMPTY ||
            !atomic_compare_exchange_strong_explicit(&keys[slot], &empty, BUSY, memory_order_acquire,
                                                     memory_order_relaxed))
            continue;
        requests[slot] = *request;
        atomic_store_explicit(&keys[slot], key, memory_order_release);
        return 1;
    }
    return -1;
}

sl_request *sl_request_find(uint64_t handle) {
    long slot = find(handle + 2);
    return slot < 0 ? NULL : &requests[slot];
}

int sl_request_complete(uint64_t handle, sl_request *request) {
    uint64_t key = handle + 2;
    for (long slot; (slot = find(key)) >= 0;) {
        uint64_t expected = key;
        if (!atomic_compare_exchange_strong_explicit(&keys[slot], &expected, BUSY, memory_order_acquire,
                                                     memory_order_relaxed))
            continue;
        *request = requests[slot];
        int was_active = !request->persistent || request->active;
        requests[slot].active = 0;
        atomic_store_explicit(&keys[slot], request->persistent ? key : EMPTY, memory_order_release);
        return was_active;
    }
    return 0;
}

int sl_request_start(uint64_t handle, int64_t start, sl_call *call) {
    long slot = find(handle + 2);
    if (slot < 0 || !requests[slot].persistent)
        return 0;
    requests[slot].active = 1;
    requests[slot].call.start = start;
    *call = requests[slot].call;
    return 1;
}

void sl_request_remove(uint64_t handle) {
    uint64_t key = handle + 2;
    long slot = find(key);
    if (slot >= 0)
        atomic_compare_exchange_strong_explicit(&keys[slot], &key, EMPTY, memory_order_acq_rel,
                                                memory_order_relaxed);
}
