/* Slots for events under way, and their handles. NCCL keeps a handle for as long as an event lasts, hands it
 * from thread to thread, and names it as the parent of others, also after it was stopped. So a handle is a
 * number, never an address: of the slot, and of how often the slot was used. A handle that is stale, of
 * another process or invented finds nothing.
 *
 * A slot has parts, which end in any thread and order: the host's, one per open proxy op, one per block of
 * the kernel. Whichever thread ends the last one finishes the event. A thread pins a slot while it works on
 * it; a slot that is not pinned may be taken for a new event if all are in use, and its event is then
 * finished as it is. No lock; no thread waits for another. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

typedef enum sl_handle_kind {
    SL_EVENT_NONE = 0, /* no handle of ours */
    SL_EVENT_COMMUNICATOR,
    SL_EVENT_TASK,  /* a collective or message */
    SL_EVENT_OP,    /* a proxy op */
    SL_EVENT_STEP,  /* of a proxy op; `part` is its number */
    SL_EVENT_KERNEL /* a block of a task's kernel */
} sl_handle_kind;

/* The first member of what a slot holds. `word`: uses << 32 | pins << 24 | parts; parts 0: free. Every change
 * is one compare-and-exchange (acquire and release), so what a thread wrote while it had the slot pinned is
 * seen by the next one that pins it. */
typedef struct sl_event_slot {
    _Atomic uint64_t word;
    uint64_t pad;
} sl_event_slot;

typedef struct sl_event_pool {
    char *slots; /* [count] of `size` bytes, each beginning with an sl_event_slot */
    uint32_t count, size;
    sl_handle_kind kind;
    _Atomic uint32_t next;
    /* An event has no part left, or its slot is needed although `parts` are open. */
    void (*finish)(sl_event_slot *slot, uint32_t parts);
} sl_event_pool;

/** A slot for a new event of `parts` parts, pinned. NULL: all are pinned, or too many parts. */
sl_event_slot *sl_event_claim(sl_event_pool *pool, uint32_t parts);

/** The slot of a handle of this kind, or of one of its parts (SL_EVENT_STEP, SL_EVENT_KERNEL), pinned; NULL:
 * none. */
sl_event_slot *sl_event_pin(sl_event_pool *pool, const void *handle);

/** Ends the work on a pinned slot, whose parts grow by `parts`; the event is finished when none is left. */
void sl_event_unpin(sl_event_pool *pool, sl_event_slot *slot, int parts);

/** Finishes every event for which `of` returns 1, with its parts still open, unless another thread works on
 * it; the number of these. */
uint32_t sl_event_drop(sl_event_pool *pool, int (*of)(const sl_event_slot *slot, uint32_t key), uint32_t key);

/** The handle of a pinned slot; `part` below 256. */
void *sl_event_handle(const sl_event_pool *pool, const sl_event_slot *slot, sl_handle_kind kind,
                      unsigned part);

/** What a handle is, and which part; SL_EVENT_NONE: not one of this process. */
sl_handle_kind sl_event_kind_of(const void *handle, unsigned *part);
