#include "run/conduit/frame.h"

#include <endian.h>
#include <string.h>
#include <xxhash.h>

#define MAGIC 0x4b4c5353u /* "SSLK" */
#define VERSION 1

enum { MESSAGE = 8, OFFSET = 16, TOTAL = 24, DUE = 32, PAYLOAD = 40, INDEX = 48, BYTES = 52, ITERATION = 56 };
enum { NAME = 60, ACK_EPOCH = 16, EPOCH = 8, PUBLISHED = 16, LIMIT = 24, FIRST = 32, TIMES = 40, COUNT = 80 };
enum { CHECKSUM = 88 };
_Static_assert(TIMES + 8 * SL_WIRE_TIMES == COUNT && CHECKSUM + 8 == SL_WIRE_BYTES, "the header on the wire");

uint64_t sl_frame_checksum(const void *payload, size_t bytes) {
    return XXH3_64bits(payload ? payload : "", payload ? bytes : 0);
}

static void put32(uint8_t *to, uint32_t value) {
    value = htole32(value);
    memcpy(to, &value, sizeof value);
}

static void put64(uint8_t *to, uint64_t value) {
    value = htole64(value);
    memcpy(to, &value, sizeof value);
}

static uint32_t get32(const uint8_t *from) {
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return le32toh(value);
}

static uint64_t get64(const uint8_t *from) {
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return le64toh(value);
}

static void encode_chunk(const sl_wire *f, uint8_t *b) {
    put64(b + MESSAGE, f->chunk.message);
    put64(b + OFFSET, f->chunk.offset);
    put64(b + TOTAL, f->chunk.total);
    put64(b + DUE, f->flags & SL_WIRE_DUE ? (uint64_t)f->due : 0);
    put64(b + PAYLOAD, f->payload_checksum);
    put32(b + INDEX, f->chunk.index);
    put32(b + BYTES, f->chunk.bytes);
    put32(b + ITERATION, f->iteration);
    put32(b + NAME, f->name);
}

static void encode_state(const sl_wire *f, uint8_t *b) {
    put64(b + EPOCH, f->state.epoch);
    put64(b + PUBLISHED, f->state.published);
    put64(b + LIMIT, f->state.limit);
    put64(b + FIRST, f->count ? f->first : 0);
    for (uint32_t i = 0; i < f->count && i < SL_WIRE_TIMES; i++)
        put64(b + TIMES + 8 * i, (uint64_t)f->times[i]);
    put32(b + COUNT, f->count);
}

void sl_frame_encode(const sl_wire *frame, uint8_t bytes[SL_WIRE_BYTES]) {
    memset(bytes, 0, SL_WIRE_BYTES);
    put32(bytes, MAGIC);
    bytes[4] = VERSION;
    bytes[6] = (uint8_t)frame->kind;
    if (frame->kind == SL_WIRE_CHUNK) {
        bytes[7] = frame->flags;
        encode_chunk(frame, bytes);
    } else if (frame->kind == SL_WIRE_ACK) {
        put64(bytes + MESSAGE, frame->chunk.message);
        put64(bytes + ACK_EPOCH, frame->epoch);
        put32(bytes + INDEX, frame->chunk.index);
    } else if (frame->kind == SL_WIRE_STATE) {
        encode_state(frame, bytes);
    }
    put64(bytes + CHECKSUM, XXH3_64bits(bytes, CHECKSUM));
}

static sl_status decode_chunk(const uint8_t *b, sl_wire *f) {
    f->flags = b[7];
    f->chunk.message = get64(b + MESSAGE);
    f->chunk.offset = get64(b + OFFSET);
    f->chunk.total = get64(b + TOTAL);
    f->due = (int64_t)get64(b + DUE);
    f->payload_checksum = get64(b + PAYLOAD);
    f->chunk.index = get32(b + INDEX);
    f->chunk.bytes = get32(b + BYTES);
    f->iteration = get32(b + ITERATION);
    f->name = get32(b + NAME);
    const sl_chunk *c = &f->chunk;
    if (f->flags & ~(SL_WIRE_DUE | SL_WIRE_HELD))
        return sl_error(SL_EPEER, "a chunk with unknown flags (%u)", f->flags);
    if (c->offset > c->total || c->bytes > c->total - c->offset || (c->bytes == 0) != (c->total == 0))
        return sl_error(SL_EPEER, "a chunk of %u bytes at %llu is outside of its message of %llu", c->bytes,
                        (unsigned long long)c->offset, (unsigned long long)c->total);
    return SL_OK;
}

static sl_status decode_state(const uint8_t *b, sl_wire *f) {
    f->state.epoch = get64(b + EPOCH);
    f->state.published = get64(b + PUBLISHED);
    f->state.limit = get64(b + LIMIT);
    f->first = get64(b + FIRST);
    f->count = get32(b + COUNT);
    if (f->state.limit < f->state.published)
        return sl_error(SL_EPEER, "a state with a limit of %llu below %llu published",
                        (unsigned long long)f->state.limit, (unsigned long long)f->state.published);
    if (f->count > SL_WIRE_TIMES || f->first > f->state.published || f->count > f->state.published - f->first)
        return sl_error(SL_EPEER, "a state with times of messages that it does not call published");
    for (uint32_t i = 0; i < f->count; i++)
        f->times[i] = (int64_t)get64(b + TIMES + 8 * i);
    return SL_OK;
}

static sl_status decode(const uint8_t *b, sl_wire *f) {
    if (get32(b) != MAGIC)
        return sl_error(SL_EPEER, "not a frame (no magic number)");
    if (get64(b + CHECKSUM) != XXH3_64bits(b, CHECKSUM))
        return sl_error(SL_EPEER, "a garbled frame (checksum of the header)");
    if (b[4] != VERSION || b[5])
        return sl_error(SL_EPEER, "a frame of version %u, not %u", b[4] | (unsigned)b[5] << 8, VERSION);
    if (b[6] < SL_WIRE_CHUNK || b[6] > SL_WIRE_BYE)
        return sl_error(SL_EPEER, "a frame of unknown kind %u", b[6]);
    f->kind = (sl_wire_kind)b[6];
    if (f->kind == SL_WIRE_CHUNK)
        SL_TRY(decode_chunk(b, f));
    if (f->kind == SL_WIRE_ACK) {
        f->chunk.message = get64(b + MESSAGE);
        f->chunk.index = get32(b + INDEX);
        f->epoch = get64(b + ACK_EPOCH);
    }
    if (f->kind == SL_WIRE_STATE)
        SL_TRY(decode_state(b, f));
    /* Unused fields must be 0: any bytes that differ from our encoding are rejected. */
    uint8_t again[SL_WIRE_BYTES];
    sl_frame_encode(f, again);
    return memcmp(again, b, SL_WIRE_BYTES) ? sl_error(SL_EPEER, "a frame with bytes that its kind lacks")
                                           : SL_OK;
}

sl_status sl_frame_decode(const uint8_t bytes[SL_WIRE_BYTES], sl_wire *frame) {
    *frame = (sl_wire){0};
    sl_status status = decode(bytes, frame);
    if (status != SL_OK)
        *frame = (sl_wire){0};
    return status;
}
