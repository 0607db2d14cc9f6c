#include "run/rail/queue.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>

/* Memory orders. Only the producer writes `put`, so it adds with a plain load and a store. The store releases
 * the contents of the slot, and the consumer's acquiring load of `put` sees all of them. `done` works the
 * same in the other direction: the producer, having acquired it, may overwrite the slot. A process that dies
 * in between has either added the message or not; there is no state in between.
 *
 * A bell changes after its count (both sequentially consistent, as are the reads of the sleeper). A sleeper
 * reads the bell, then the count, then sleeps on the value of the bell it read, so if it missed a count, the
 * bell differs from that value. A process that dies between count and bell leaves a sleeper waiting;
 * therefore every process that opens a queue rings both bells. */

#define LINE 64u

_Static_assert(sizeof(sl_slot_header) == LINE, "headers of slots are shared between processes");
_Static_assert(sizeof(sl_queue) == 10 * LINE, "the queue's header is shared between processes");
_Static_assert(offsetof(sl_queue, put) == LINE && offsetof(sl_queue, done) == 2 * LINE, "one line a writer");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "counts are lock-free, also between processes");

static sl_status stride_of(uint64_t payload_bytes, size_t *stride) {
    if (payload_bytes > SIZE_MAX / 2)
        return sl_error(SL_EINVAL, "a queue slot of %llu bytes is too large",
                        (unsigned long long)payload_bytes);
    *stride = sizeof(sl_slot_header) + ((size_t)payload_bytes + LINE - 1) / LINE * LINE;
    return SL_OK;
}

sl_status sl_queue_size(uint32_t slots, uint64_t payload_bytes, size_t *bytes) {
    size_t stride = 0;
    if (slots == 0)
        return sl_error(SL_EINVAL, "a queue needs at least one slot");
    SL_TRY(stride_of(payload_bytes, &stride));
    if (stride > (SIZE_MAX / 2 - sizeof(sl_queue)) / slots)
        return sl_error(SL_EINVAL, "a queue of %u slots of %llu bytes is too large", slots,
                        (unsigned long long)payload_bytes);
    *bytes = sizeof(sl_queue) + slots * stride;
    return SL_OK;
}

void sl_queue_format(sl_queue *queue, uint32_t slots, uint64_t payload_bytes) {
    size_t bytes = 0;
    if (sl_queue_size(slots, payload_bytes, &bytes) != SL_OK)
        return; /* without a magic number it cannot be opened */
    queue->slots = slots;
    queue->payload_bytes = payload_bytes;
    queue->total_bytes = bytes;
    queue->magic = SL_QUEUE_MAGIC;
}

static void ring(_Atomic uint32_t *bell) {
    atomic_fetch_add(bell, 1);
    sl_clock_wake(sl_clock_real(), bell);
}

sl_status sl_queue_open(sl_queue *queue, size_t bytes, sl_queue_view *view) {
    size_t total = 0;
    if (bytes < sizeof *queue || queue->magic != SL_QUEUE_MAGIC)
        return sl_error(SL_EPEER, "shared memory of %zu bytes does not hold a queue", bytes);
    uint32_t slots = queue->slots;
    uint64_t payload_bytes = queue->payload_bytes;
    SL_TRY(sl_queue_size(slots, payload_bytes, &total));
    if (total != queue->total_bytes || total > bytes)
        return sl_error(SL_EPEER, "a queue of %u slots of %llu bytes does not fit %zu bytes", slots,
                        (unsigned long long)payload_bytes, bytes);
    if (atomic_load(&queue->put) - atomic_load(&queue->done) > slots)
        return sl_error(SL_EPEER, "a queue's counts contradict each other");
    *view = (sl_queue_view){.queue = queue,
                            .slot = (char *)queue + sizeof *queue,
                            .slots = slots,
                            .payload_bytes = payload_bytes};
    SL_TRY(stride_of(payload_bytes, &view->stride));
    ring(&queue->put_bell);
    ring(&queue->done_bell);
    return SL_OK;
}

sl_slot_header *sl_queue_slot(const sl_queue_view *view, uint64_t number) {
    return (sl_slot_header *)(void *)(view->slot + number % view->slots * view->stride);
}

void *sl_queue_payload(const sl_queue_view *view, uint64_t number) {
    return sl_queue_slot(view, number) + 1;
}

int sl_queue_has_room(const sl_queue_view *view) {
    uint64_t put = atomic_load_explicit(&view->queue->put, memory_order_relaxed);
    return put - atomic_load_explicit(&view->queue->done, memory_order_acquire) < view->slots;
}

static void advance(_Atomic uint64_t *count, _Atomic uint32_t *bell) {
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1, memory_order_release);
    ring(bell);
}

void sl_queue_put(sl_queue_view *view) {
    advance(&view->queue->put, &view->queue->put_bell);
}

void sl_queue_done(sl_queue_view *view) {
    advance(&view->queue->done, &view->queue->done_bell);
    if (view->settled)
        ring(view->settled);
}

void sl_queue_lose(sl_queue_view *view, const char *reason) {
    sl_queue *queue = view->queue;
    if (!atomic_load(&queue->lost)) { /* the first reason stays */
        snprintf(queue->reason, sizeof queue->reason, "%s", reason);
        atomic_store(&queue->lost, 1);
    }
    ring(&queue->put_bell);
    ring(&queue->done_bell);
    if (view->settled)
        ring(view->settled);
}
