/* Calls of a conduit's two sides, with what they must answer. The unit is a chunk of 10 bytes, time a count.
 */
#pragma once

#include "check.h"

#include "run/conduit/conduit.h"

enum { EPOCH = 77, RESEND = 100 };

static inline sl_sender *make_sender(uint32_t window, size_t rail_bytes, uint64_t first) {
    sl_sender_config config = {window, 10, rail_bytes, RESEND, first};
    sl_sender *sender;
    assert_ok(sl_sender_open(&config, &sender));
    return sender;
}

static inline sl_receiver *make_receiver(uint32_t window, uint64_t first) {
    sl_receiver_config config = {window, 10, 1000, first};
    sl_receiver *receiver;
    assert_ok(sl_receiver_open(&config, &receiver));
    sl_receiver_allow(receiver, first + window);
    return receiver;
}

static inline void offer(sl_sender *sender, uint64_t bytes, int held, uint64_t expected) {
    uint64_t number;
    assert_ok(sl_sender_offer(sender, bytes, held, &number));
    assert_int_equal(number, expected);
}

static inline void up(sl_sender *sender, int rail, uint64_t epoch, uint64_t published, uint64_t limit,
                      sl_time now) {
    sl_conduit_state said = {epoch, published, limit};
    assert_ok(sl_sender_rail_up(sender, rail, &said, now));
}

static inline void says(sl_sender *sender, uint64_t epoch, uint64_t published, uint64_t limit) {
    sl_conduit_state said = {epoch, published, limit};
    assert_ok(sl_sender_state(sender, &said));
}

static inline void sends(sl_sender *sender, int rail, sl_time now, uint64_t message, uint32_t index) {
    sl_chunk chunk;
    assert_int_equal(sl_sender_next(sender, rail, now, &chunk), 1);
    assert_int_equal(chunk.message, message);
    assert_int_equal(chunk.index, index);
    assert_int_equal(chunk.offset, index * 10);
}

static inline void sends_nothing(sl_sender *sender, int rail, sl_time now) {
    sl_chunk chunk;
    assert_int_equal(sl_sender_next(sender, rail, now, &chunk), 0);
}

static inline sl_chunk cut(uint64_t message, uint32_t index, uint64_t total) {
    uint64_t offset = (uint64_t)index * 10;
    return (sl_chunk){message, index, (uint32_t)(total - offset < 10 ? total - offset : 10), offset, total};
}

static inline void begins(sl_receiver *receiver, int rail, sl_chunk chunk, sl_chunk_verdict expected) {
    sl_chunk_verdict verdict;
    assert_ok(sl_receiver_begin(receiver, rail, &chunk, &verdict));
    assert_int_equal(verdict, expected);
}

static inline void takes(sl_receiver *receiver, int rail, sl_chunk chunk) {
    begins(receiver, rail, chunk, SL_CHUNK_TAKE);
    sl_receiver_finish(receiver, rail);
}

static inline void publishes(sl_receiver *receiver, uint64_t expected) {
    uint64_t total;
    assert_int_equal(sl_receiver_complete(receiver, &total), 1);
    assert_int_equal(total, expected);
    sl_receiver_published(receiver);
}

static inline int complete(const sl_receiver *receiver) {
    uint64_t total;
    return sl_receiver_complete(receiver, &total);
}
