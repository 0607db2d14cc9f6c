/* A queue pair between a trainer and one endpoint, in shared memory: messages one way, their completion the
 * other way. Single producer, single consumer, no locks; every wait sleeps on a futex word.
 *
 * `slots` slots, each a header and room for a payload. Message number n is in slot n % slots: a queue is used
 * in order, so numbers are enough and nothing has to be searched or recovered after a death.
 *
 *   put        messages that the producer has put, in all
 *   done       messages finished by the consumer, in all (a slot is free again once it is done)
 *
 * An outgoing queue: the trainer fills slot `put` % slots and adds 1 to `put`. The endpoint sends from the
 * slot and adds 1 to `done` after the receiver has published the message, with its times in the header. An
 * incoming queue: the endpoint reads the payload into the slot and adds 1 to `put` when it is published. The
 * trainer uses it there and adds 1 to `done` in the order of arrival, once the slot may be overwritten (it
 * may take messages out of order: `done` advances over a run of finished slots).
 *
 * If the endpoint's process dies, put and done show exactly where its successor resumes. */
#pragma once

#include "base/status.h"
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SL_QUEUE_MAGIC 0x65756575716b6c73ULL

typedef struct sl_slot_header {
    uint32_t iteration, index; /* name of the message; written by the producer before `put` */
    uint64_t bytes;
    /* outgoing, by the trainer: ready, the emulated link's times (link_emulator.h) and the time at which it
     * is due at the receiver. Meaningless on a clock other than the sender's. */
    int64_t ready, start, end, due;
    int64_t arrived; /* published at the receiver, on its clock. Outgoing: consumer, before `done` */
    uint32_t taken;  /* incoming: the consumer's own mark that the slot is finished */
    uint32_t reserved;
} sl_slot_header;

#define SL_QUEUE_REASON 444 /* bytes, with the 0: the paths of two programs and their builds */

typedef struct sl_queue {
    uint64_t magic;
    uint32_t slots;
    uint32_t reserved;
    uint64_t payload_bytes; /* of a slot */
    uint64_t total_bytes;
    uint8_t pad0[32];
    _Atomic uint64_t put;      /* producer: release; consumer: acquire */
    _Atomic uint32_t put_bell; /* futex word: changed after `put`, for a consumer that sleeps on memory */
    uint8_t pad1[52];
    _Atomic uint64_t done; /* consumer: release; producer: acquire */
    _Atomic uint32_t done_bell;
    uint8_t pad2[52];
    _Atomic uint32_t lost; /* endpoint: 1 after `reason`; both bells are rung */
    char reason[SL_QUEUE_REASON];
    /* then the slots: header (one or two lines) and payload, each a multiple of 64 bytes */
} sl_queue;

/* A private handle of one end. */
typedef struct sl_queue_view {
    sl_queue *queue;
    char *slot;
    size_t stride;
    uint32_t slots;
    uint64_t payload_bytes;
    /* Also rung after `done` and `lost`, for a producer that waits for several queues; NULL: none. Set by the
     * process that mapped it. */
    _Atomic uint32_t *settled;
} sl_queue_view;

/** Bytes of a queue; SL_EINVAL on overflow. */
sl_status sl_queue_size(uint32_t slots, uint64_t payload_bytes, size_t *bytes);
/** Writes the header into zeroed memory of that size. */
void sl_queue_format(sl_queue *queue, uint32_t slots, uint64_t payload_bytes);
/** A handle; SL_EPEER if the header is invalid for `bytes` of memory. */
sl_status sl_queue_open(sl_queue *queue, size_t bytes, sl_queue_view *view);

sl_slot_header *sl_queue_slot(const sl_queue_view *view, uint64_t number);
void *sl_queue_payload(const sl_queue_view *view, uint64_t number);

/** Producer: 1 if there is room for message number `put`. */
int sl_queue_has_room(const sl_queue_view *view);
/** Producer: message number put is complete: adds 1, rings put_bell (real clock). */
void sl_queue_put(sl_queue_view *view);
/** Consumer: the oldest message is finished: adds 1, rings done_bell. */
void sl_queue_done(sl_queue_view *view);
/** Endpoint: gives up, with a reason for the other side. */
void sl_queue_lose(sl_queue_view *view, const char *reason);
