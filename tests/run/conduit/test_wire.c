/* Frames of a conduit: fixed bytes, what goes in comes out, and nothing else is taken for a frame. */
#include "check.h"

#include "run/conduit/frame.h"

#include <xxhash.h>

/* A chunk laid out by hand from the table in wire.h: message 7, chunk 2 of 0x10 bytes at 0x20 of 0x30 in all,
 * iteration 3, name 0x0405, due -2, empty places 0. The two checksums are filled in by libxxhash itself. */
static void golden_chunk(uint8_t b[SL_WIRE_BYTES], const char payload[16]) {
    static const uint8_t head[] = {'S', 'S', 'L', 'K', 1, 0, 1, 3, 7, 0, 0, 0, 0, 0, 0, 0, 0x20};
    memset(b, 0, SL_WIRE_BYTES);
    memcpy(b, head, sizeof head);
    b[24] = 0x30;
    b[32] = 0xfe;
    memset(b + 33, 0xff, 7);
    XXH64_hash_t sum = XXH3_64bits(payload, 16);
    for (int i = 0; i < 8; i++)
        b[40 + i] = (uint8_t)(sum >> (8 * i));
    b[48] = 2;
    b[52] = 0x10;
    b[56] = 3;
    b[60] = 5;
    b[61] = 4;
}

/* What a stranger could write who knows the protocol: the header's checksum fits whatever is in it. */
static void seal(uint8_t b[SL_WIRE_BYTES]) {
    XXH64_hash_t sum = XXH3_64bits(b, 88);
    for (int i = 0; i < 8; i++)
        b[88 + i] = (uint8_t)(sum >> (8 * i));
}

static const char payload[16] = "fifteen letters";

static sl_wire a_chunk(void) {
    return (sl_wire){.kind = SL_WIRE_CHUNK,
                     .flags = SL_WIRE_DUE | SL_WIRE_HELD,
                     .chunk = {.message = 7, .index = 2, .bytes = 16, .offset = 32, .total = 48},
                     .iteration = 3,
                     .name = 0x405,
                     .due = -2,
                     .payload_checksum = sl_frame_checksum(payload, sizeof payload)};
}

static sl_wire a_state(void) {
    return (sl_wire){.kind = SL_WIRE_STATE,
                     .state = {.epoch = UINT64_MAX, .published = 9, .limit = 12},
                     .first = 4,
                     .count = 5,
                     .times = {1, -1, INT64_MAX, INT64_MIN, 0x0102030405060708}};
}

static void a_chunk_has_the_documented_bytes(void **state) {
    (void)state;
    uint8_t golden[SL_WIRE_BYTES], bytes[SL_WIRE_BYTES];
    golden_chunk(golden, payload);
    seal(golden);
    sl_wire frame = a_chunk();
    sl_frame_encode(&frame, bytes);
    assert_memory_equal(bytes, golden, sizeof golden);
}

/* XXH3 of nothing with seed 0, from the vectors of the xxHash project. */
static void the_checksum_is_xxh3(void **state) {
    (void)state;
    assert_true(sl_frame_checksum(NULL, 0) == UINT64_C(0x2d06800538d394c2));
    assert_true(sl_frame_checksum("", 0) == UINT64_C(0x2d06800538d394c2));
    assert_true(sl_frame_checksum("a", 1) != sl_frame_checksum("b", 1));
}

static void come_back(const sl_wire *frame) {
    uint8_t bytes[SL_WIRE_BYTES];
    sl_wire back;
    sl_frame_encode(frame, bytes);
    assert_ok(sl_frame_decode(bytes, &back));
    assert_int_equal(back.kind, frame->kind);
    assert_int_equal(back.flags, frame->flags);
    assert_true(back.chunk.message == frame->chunk.message && back.chunk.index == frame->chunk.index);
    assert_true(back.chunk.bytes == frame->chunk.bytes && back.chunk.offset == frame->chunk.offset);
    assert_true(back.chunk.total == frame->chunk.total && back.due == frame->due);
    assert_true(back.iteration == frame->iteration && back.name == frame->name);
    assert_true(back.payload_checksum == frame->payload_checksum && back.epoch == frame->epoch);
    assert_true(back.state.epoch == frame->state.epoch && back.state.published == frame->state.published);
    assert_true(back.state.limit == frame->state.limit && back.first == frame->first);
    assert_int_equal(back.count, frame->count);
    assert_memory_equal(back.times, frame->times, sizeof back.times);
}

static void every_kind_comes_back_as_it_went(void **state) {
    (void)state;
    sl_wire frames[] = {
        a_chunk(),
        {.kind = SL_WIRE_CHUNK, .payload_checksum = sl_frame_checksum(NULL, 0)},
        {.kind = SL_WIRE_CHUNK,
         .chunk = {UINT64_MAX, UINT32_MAX, UINT32_MAX, UINT64_MAX - UINT32_MAX, UINT64_MAX}},
        {.kind = SL_WIRE_ACK, .chunk = {.message = UINT64_MAX, .index = UINT32_MAX}, .epoch = UINT64_MAX - 1},
        a_state(),
        {.kind = SL_WIRE_STATE, .state = {1, 0, 0}},
        {.kind = SL_WIRE_BEAT},
        {.kind = SL_WIRE_BYE}};
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++)
        come_back(&frames[i]);
}

/* Any one or two bits wrong anywhere, without a checksum made to fit. */
static void a_garbled_header_is_never_acted_upon(void **state) {
    (void)state;
    sl_wire frames[] = {a_chunk(), a_state(), {.kind = SL_WIRE_ACK}, {.kind = SL_WIRE_BEAT}}, back;
    const sl_wire nothing = {0};
    for (size_t f = 0; f < sizeof frames / sizeof *frames; f++) {
        uint8_t bytes[SL_WIRE_BYTES];
        sl_frame_encode(&frames[f], bytes);
        for (unsigned i = 0; i < 8 * SL_WIRE_BYTES; i++)
            for (unsigned j = i; j < 8 * SL_WIRE_BYTES; j++) {
                bytes[i / 8] = (uint8_t)(bytes[i / 8] ^ (1u << i % 8));
                if (j != i)
                    bytes[j / 8] = (uint8_t)(bytes[j / 8] ^ (1u << j % 8));
                if (sl_frame_decode(bytes, &back) != SL_EPEER || back.kind != nothing.kind)
                    fail_msg("frame %zu with bits %u and %u flipped is taken", f, i, j);
                bytes[i / 8] = (uint8_t)(bytes[i / 8] ^ (1u << i % 8));
                if (j != i)
                    bytes[j / 8] = (uint8_t)(bytes[j / 8] ^ (1u << j % 8));
            }
    }
}

static void refused(const sl_wire *frame, size_t at, uint8_t value, const char *why) {
    uint8_t bytes[SL_WIRE_BYTES];
    sl_wire back;
    sl_frame_encode(frame, bytes);
    assert_int_not_equal(bytes[at], value);
    bytes[at] = value;
    seal(bytes);
    assert_fails(sl_frame_decode(bytes, &back), SL_EPEER, why);
    assert_int_equal(back.kind, 0);
}

/* Everything here carries a checksum that fits. */
static void a_malformed_frame_is_refused(void **state) {
    (void)state;
    sl_wire chunk = a_chunk(), said = a_state(), ack = {.kind = SL_WIRE_ACK}, beat = {.kind = SL_WIRE_BEAT};
    refused(&chunk, 0, 's', "magic");
    refused(&chunk, 4, 2, "version 2");
    refused(&chunk, 5, 1, "version 257");
    refused(&chunk, 6, 0, "kind 0");
    refused(&chunk, 6, 6, "kind 6");
    refused(&chunk, 7, 4, "flags");
    refused(&chunk, 7, 2, "lacks");          /* a due time that is not meant */
    refused(&chunk, 16, 0x21, "is outside"); /* one byte beyond the message */
    refused(&chunk, 24, 0x2f, "is outside");
    refused(&chunk, 23, 0x80, "is outside"); /* an offset of 2^63 */
    refused(&chunk, 52, 0x00, "is outside"); /* nothing, of a message that has bytes */
    refused(&chunk, 55, 0xff, "is outside"); /* 4 GB */
    refused(&chunk, 80, 1, "lacks");
    refused(&ack, 52, 1, "lacks");
    refused(&ack, 7, 1, "lacks");
    refused(&beat, 8, 1, "lacks");
    refused(&said, 24, 8, "limit of 8 below 9");
    refused(&said, 80, 6, "times");
    refused(&said, 80, 4, "lacks"); /* a fifth time that is not counted */
    refused(&said, 32, 5, "times"); /* up to message 10, with 9 published */
    refused(&said, 39, 0xff, "times");
    refused(&said, 84, 1, "lacks");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_has_the_documented_bytes),
        cmocka_unit_test(the_checksum_is_xxh3),
        cmocka_unit_test(every_kind_comes_back_as_it_went),
        cmocka_unit_test(a_garbled_header_is_never_acted_upon),
        cmocka_unit_test(a_malformed_frame_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
