/* The part of the protobuf wire format that CP-SAT's model, parameters and response need: varints, packed
 * lists of them, doubles and nested messages. The encoder stores its first failure, so callers check once at
 * the end. The decoder walks the fields of a message and checks every length against the bytes available. */
#pragma once

#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct sl_protobuf {
    unsigned char *bytes;
    size_t size, capacity;
    sl_status status; /* of the first allocation that failed; nothing is added after it */
} sl_protobuf;

void sl_protobuf_free(sl_protobuf *message);
/** Empties it and keeps its memory and status. */
void sl_protobuf_clear(sl_protobuf *message);

/** int32, int64, bool and enum alike: negative values take ten bytes. */
void sl_protobuf_int(sl_protobuf *message, unsigned field, int64_t value);
void sl_protobuf_double(sl_protobuf *message, unsigned field, double value);
void sl_protobuf_ints(sl_protobuf *message, unsigned field, const int64_t *values, size_t count);
void sl_protobuf_text(sl_protobuf *message, unsigned field, const char *text);
/** A copy of `nested`, whose failure becomes that of `message`. */
void sl_protobuf_nest(sl_protobuf *message, unsigned field, const sl_protobuf *nested);

typedef struct sl_protobuf_field {
    unsigned number;
    uint64_t value;             /* of a varint; the bits of a double */
    const unsigned char *bytes; /* of a nested message or packed list; NULL for numbers */
    size_t size;
} sl_protobuf_field;

/** Takes the next field off the front of *bytes. 1: *field is filled, 0: the end, -1: not protobuf. */
int sl_protobuf_next(const unsigned char **bytes, size_t *size, sl_protobuf_field *field);
/** Takes a varint off the front. 0 if there is none. */
int sl_protobuf_varint(const unsigned char **bytes, size_t *size, uint64_t *value);
