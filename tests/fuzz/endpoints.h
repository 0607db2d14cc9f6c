/* An endpoint of a conduit whose other end is the fuzzer: its rails are socket pairs, and its loop is never
 * run: the reader calls what the loop would. */
#ifndef SL_TESTS_FUZZ_ENDPOINTS_H
#define SL_TESTS_FUZZ_ENDPOINTS_H

#include "fuzz.h"

#include "run/rail/endpoint_inside.h"

enum { FUZZ_SLOTS = 3, FUZZ_PAYLOAD = 200, FUZZ_CHUNK = 64, FUZZ_RAILS = 2 };

typedef struct fuzz_end {
    sl_loop *loop;
    sl_queue *memory;
    sl_queue_view view;
    sl_listener *listener; /* receiver */
    sl_endpoint_config config;
    sl_endpoint *endpoint;
    int other[FUZZ_RAILS]; /* the fuzzer's ends; -1: none */
    int hostile;           /* the queue changes meanwhile: what it says of it may be refused */
    int valid;             /* frames that it has said */
} fuzz_end;

/** `memory`: a formatted queue, of `bytes`; it is freed with the end. NULL: one with FUZZ_SLOTS slots. */
void fuzz_end_open(fuzz_end *e, int sends, sl_queue *memory, size_t bytes);
void fuzz_end_close(fuzz_end *e);

/** A rail comes up (again), with what the other end has said in its handshake. */
void fuzz_end_welcome(fuzz_end *e, int rail, const sl_hello *said);

/** Bytes arrive on a rail, and the endpoint acts on them. What it says must be frames. */
void fuzz_end_hear(fuzz_end *e, int rail, const void *bytes, size_t size);

/** The byte of a payload. */
static inline uint8_t fuzz_byte(uint64_t message, uint64_t at) {
    return (uint8_t)(message * 31 + at * 7 + 1);
}

#endif
