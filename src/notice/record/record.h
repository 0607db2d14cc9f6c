/* Records: events of fixed size, through a ring in (shared) memory without lock or system call.
 *
 * One writer thread per ring, one reader. The engine writes ops and transfers, the probe writes calls;
 * detection reads both, so watching and training have one input. The writer never waits: a reader that is too
 * slow loses the oldest records and learns their number (sequence numbers are dense). libc only. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SL_RECORD_MAGIC 0x736c7265u /* "slre" */
#define SL_RECORD_VERSION 2

typedef enum sl_record_kind {
    SL_RECORD_OP = 1,        /* start, end; op is F, I, W or B */
    SL_RECORD_TRANSFER = 2,  /* start, end, arrive; op made the message, rank sent it to peer */
    SL_RECORD_OPTIMIZER = 3, /* start, end of the update of a stage's weights; op is gather, microbatch -1 */
    SL_RECORD_REDUCE = 5,    /* start, end of the sum of a stage's gradients over replicas; microbatch -1 */
    SL_RECORD_MOVE = 4       /* start, end; op: to host memory or back, part 0: before I or B, 1: before W */
} sl_record_kind;

typedef struct sl_record {
    uint8_t kind;   /* sl_record_kind */
    uint8_t op;     /* sl_op_kind of plan/pipeline */
    uint8_t part;   /* of an op in parts; of a transfer the part that made the message */
    uint8_t paired; /* F: it ran as one block with the B whose record follows, both with the same times */
    int32_t iteration;
    int32_t rank, peer; /* peer -1: none */
    int32_t stage, microbatch;
    int64_t start, end, arrive; /* ns, CLOCK_MONOTONIC of the writer's host (or the virtual clock) */
    int64_t due;                /* transfers: arrival time set by the emulated link; ops: 0 */
    uint64_t sequence;          /* filled by the ring; dense from 0 */
} sl_record;
_Static_assert(sizeof(sl_record) == 64, "records cross processes and are one cache line");

/* Head of a ring in memory; `capacity` records follow. */
typedef struct sl_record_ring {
    uint32_t magic, version;
    uint32_t record_size, capacity; /* capacity: a power of two, at least 2 */
    uint8_t pad[48];
    /* Records completely written. Writer: release store after the record's bytes; reader: acquire load before
     * reading them and a second load afterwards to see whether the writer lapped it. */
    _Atomic uint64_t head;
    uint8_t pad2[56];
} sl_record_ring;
_Static_assert(sizeof(sl_record_ring) == 128, "the layout is part of the version");

/** Size of a ring of `capacity` records. */
size_t sl_record_ring_bytes(uint32_t capacity);

/** Makes a ring in zeroed memory. Returns -1 if capacity is not a power of two, or 1. */
int sl_record_ring_init(sl_record_ring *ring, uint32_t capacity);

/** Capacity in records of a ring from outside in `bytes` bytes of memory; 0: not a ring of this version, or
 * it does not fit. Other processes may later change the ring's own value, so write and read with this one
 * from then on. */
uint32_t sl_record_ring_capacity(const sl_record_ring *ring, size_t bytes);

/** Writes one record (its sequence is set here). Never waits, never fails. */
void sl_record_write(sl_record_ring *ring, uint32_t capacity, const sl_record *record);

/** Reads up to `most` records from *position on, and advances *position; *lost counts records overwritten
 * before they were read. Returns the number read. Torn records are never returned. */
size_t sl_record_read(const sl_record_ring *ring, uint32_t capacity, uint64_t *position, sl_record *records,
                      size_t most, uint64_t *lost);
