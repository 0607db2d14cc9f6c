#include "notice/record/record.h"

#include <string.h>

static sl_record *slots(const sl_record_ring *ring) {
    return (sl_record *)(uintptr_t)(ring + 1);
}

size_t sl_record_ring_bytes(uint32_t capacity) {
    return sizeof(sl_record_ring) + (size_t)capacity * sizeof(sl_record);
}

/* With one record the writer may always be in it: there is nothing to read. */
static int is_capacity(uint32_t capacity) {
    return capacity > 1 && (capacity & (capacity - 1)) == 0;
}

int sl_record_ring_init(sl_record_ring *ring, uint32_t capacity) {
    if (!is_capacity(capacity))
        return -1;
    ring->version = SL_RECORD_VERSION;
    ring->record_size = sizeof(sl_record);
    ring->capacity = capacity;
    atomic_store_explicit(&ring->head, 0, memory_order_relaxed);
    ring->magic = SL_RECORD_MAGIC;
    return 0;
}

uint32_t sl_record_ring_capacity(const sl_record_ring *ring, size_t bytes) {
    if (bytes < sizeof *ring || ring->magic != SL_RECORD_MAGIC || ring->version != SL_RECORD_VERSION ||
        ring->record_size != sizeof(sl_record))
        return 0;
    uint32_t capacity = __atomic_load_n(&ring->capacity, __ATOMIC_RELAXED); /* once: see the header */
    if (!is_capacity(capacity))
        return 0;
    return (bytes - sizeof *ring) / sizeof(sl_record) >= capacity ? capacity : 0;
}

/* The slot is written before the head passes it. A reader that copies a slot while the writer, a whole lap
 * later, overwrites it then sees that the head has moved and drops the copy; the words are atomic so that
 * this race is defined. */
void sl_record_write(sl_record_ring *ring, uint32_t capacity, const sl_record *record) {
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    _Atomic uint64_t *slot = (_Atomic uint64_t *)(void *)&slots(ring)[head & (capacity - 1)];
    uint64_t words[sizeof *record / 8];
    memcpy(words, record, sizeof words);
    words[offsetof(sl_record, sequence) / 8] = head;
    /* the head announces the overwrite (head + 1 - capacity is about to go) before any word changes */
    atomic_thread_fence(memory_order_release);
    for (size_t i = 0; i < sizeof words / 8; i++)
        atomic_store_explicit(&slot[i], words[i], memory_order_relaxed);
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

/* Copies one record; 0 if the writer may have been in it meanwhile. The oldest safe record is head - capacity
 * + 1: the writer may be busy with the slot of head, which is that of head - capacity. */
static int copy_record(const sl_record_ring *ring, uint32_t capacity, uint64_t position, sl_record *out) {
    const _Atomic uint64_t *slot =
        (const _Atomic uint64_t *)(const void *)&slots(ring)[position & (capacity - 1)];
    uint64_t words[sizeof *out / 8];
    for (size_t i = 0; i < sizeof words / 8; i++)
        words[i] = atomic_load_explicit(&slot[i], memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (position + capacity <= head)
        return 0;
    memcpy(out, words, sizeof words);
    return out->sequence == position;
}

size_t sl_record_read(const sl_record_ring *ring, uint32_t capacity, uint64_t *position, sl_record *records,
                      size_t most, uint64_t *lost) {
    size_t count = 0;
    while (count < most) {
        uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
        if (*position >= head)
            break;
        if (head - *position >= capacity) {
            uint64_t oldest = head - capacity + 1;
            *lost += oldest - *position;
            *position = oldest;
        }
        if (copy_record(ring, capacity, *position, &records[count]))
            count++;
        else
            ++*lost;
        ++*position;
    }
    return count;
}
