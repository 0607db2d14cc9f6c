/* What a peer sends over a rail: frames, to the receiving and to the sending end of a conduit with their
 * state, the handshake, and what precedes frames over UCX. A peer's frames come as steps, so that most are
 * well formed and some are not; whatever comes, the receiving end publishes only what was sent. */
#include "endpoints.h"

#include "base/loop.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- one frame */

static int read_frame(const uint8_t *data, size_t size) {
    uint8_t bytes[SL_WIRE_BYTES] = {0}, again[SL_WIRE_BYTES];
    sl_wire frame;
    int sealed = size > SL_WIRE_BYTES;
    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    if (sealed) { /* with the checksum of what it is */
        uint64_t sum = sl_frame_checksum(bytes, SL_WIRE_BYTES - sizeof sum);
        memcpy(bytes + SL_WIRE_BYTES - sizeof sum, &sum, sizeof sum);
    }
    if (sl_frame_decode(bytes, &frame) != SL_OK)
        return 0;
    sl_frame_encode(&frame, again);
    fuzz_must(memcmp(bytes, again, sizeof bytes) == 0);
    return 1;
}

static int write_frame(int number, FILE *out) {
    const sl_wire frames[] = {
        {.kind = SL_WIRE_CHUNK, .flags = SL_WIRE_DUE, .chunk = {7, 1, 40, 64, 104}, .due = 5, .name = 3},
        {.kind = SL_WIRE_ACK, .chunk = {.message = 7, .index = 1}, .epoch = 9},
        {.kind = SL_WIRE_STATE, .state = {9, 7, 12}, .first = 3, .count = 2, .times = {100, 200}},
        {.kind = SL_WIRE_BEAT},
        {.kind = SL_WIRE_BYE}};
    uint8_t bytes[SL_WIRE_BYTES + 1] = {0};
    if (number >= (int)(sizeof frames / sizeof *frames))
        return 0;
    sl_frame_encode(&frames[number], bytes);
    return fwrite(bytes, 1, sizeof bytes, out) == sizeof bytes;
}

/* ---- steps of a peer */

enum { STEP_CHUNK, STEP_CONTROL, STEP_RAW, STEP_QUEUE, STEP_WELCOME, STEP_LEAVE, STEPS };

/* A frame to be sent, with deviations: `odd` has a bit for each. */
static size_t chunk_frame(const fuzz_end *e, const uint8_t **data, size_t *size, uint8_t *bytes) {
    uint8_t odd = (uint8_t)fuzz_take(data, size, 1);
    uint64_t total = fuzz_take(data, size, 1), published = atomic_load(&e->view.queue->put);
    uint32_t chunks = total == 0 ? 1 : (uint32_t)((total + FUZZ_CHUNK - 1) / FUZZ_CHUNK);
    sl_wire frame = {.kind = SL_WIRE_CHUNK};
    frame.chunk.message = published + (uint64_t)(int64_t)(int8_t)fuzz_take(data, size, 1);
    frame.chunk.index = (uint32_t)fuzz_take(data, size, 1) % chunks;
    frame.chunk.total = total;
    frame.chunk.offset = (uint64_t)frame.chunk.index * FUZZ_CHUNK;
    frame.chunk.bytes =
        (uint32_t)(total - frame.chunk.offset < FUZZ_CHUNK ? total - frame.chunk.offset : FUZZ_CHUNK);
    if (odd & 1)
        frame.chunk.index = (uint32_t)fuzz_take(data, size, 4);
    if (odd & 2)
        frame.chunk.offset = fuzz_take(data, size, 8);
    if (odd & 4)
        frame.chunk.bytes = (uint32_t)fuzz_take(data, size, 4);
    if (odd & 8)
        frame.chunk.total = fuzz_take(data, size, 8);
    if (odd & 16) {
        frame.flags = SL_WIRE_DUE;
        frame.due = (sl_time)fuzz_take(data, size, 8);
    }
    uint32_t sent = frame.chunk.bytes < 4096 ? frame.chunk.bytes : 4096;
    for (uint32_t i = 0; i < sent; i++)
        bytes[SL_WIRE_BYTES + i] = fuzz_byte(frame.chunk.message, frame.chunk.offset + i);
    frame.payload_checksum = sl_frame_checksum(bytes + SL_WIRE_BYTES, sent) + (odd >> 5 & 1);
    sl_frame_encode(&frame, bytes);
    if (odd & 64)
        sent = (uint32_t)fuzz_take(data, size, 2) % (sent + 1); /* the rest is what comes next */
    if (odd & 128)
        bytes[fuzz_take(data, size, 1) % SL_WIRE_BYTES] ^= 1;
    return SL_WIRE_BYTES + sent;
}

static size_t control_frame(const fuzz_end *e, const uint8_t **data, size_t *size, uint8_t *bytes) {
    uint64_t done = atomic_load(&e->view.queue->done), put = atomic_load(&e->view.queue->put);
    uint8_t odd = (uint8_t)fuzz_take(data, size, 1);
    sl_wire frame = {.kind = (sl_wire_kind)(SL_WIRE_ACK + odd % 4)};
    frame.epoch = frame.state.epoch = odd & 4 ? 1 : 9;
    frame.chunk.message = done + fuzz_take(data, size, 1) % 8;
    frame.chunk.index = (uint32_t)fuzz_take(data, size, 1) % 8;
    frame.state.published =
        odd & 8 ? fuzz_take(data, size, 8) : done + fuzz_take(data, size, 1) % (put - done + 2);
    frame.state.limit = odd & 16 ? fuzz_take(data, size, 8) : frame.state.published + FUZZ_SLOTS;
    frame.count = odd & 32 ? (uint32_t)fuzz_take(data, size, 1) % (SL_WIRE_TIMES + 2) : 0;
    frame.first = odd & 64 ? fuzz_take(data, size, 8) : frame.state.published - frame.count;
    for (uint32_t i = 0; i < frame.count && i < SL_WIRE_TIMES; i++)
        frame.times[i] = (sl_time)fuzz_take(data, size, odd & 128 ? 8 : 2);
    if (frame.count > SL_WIRE_TIMES)
        frame.count = SL_WIRE_TIMES;
    sl_frame_encode(&frame, bytes);
    return SL_WIRE_BYTES;
}

static sl_hello hello_of(const fuzz_end *e, const uint8_t **data, size_t *size) {
    uint64_t put = atomic_load(&e->view.queue->put), done = atomic_load(&e->view.queue->done);
    uint8_t odd = (uint8_t)fuzz_take(data, size, 1);
    sl_hello h = {.from = 3,
                  .to = 5,
                  .number = 1,
                  .rail = odd & 1,
                  .chunk_bytes = odd & 2 ? (uint32_t)fuzz_take(data, size, 4) : FUZZ_CHUNK,
                  .slots = odd & 4 ? (uint32_t)fuzz_take(data, size, 4) : FUZZ_SLOTS,
                  .state = {odd & 8 ? 1 : 9,
                            odd & 16          ? fuzz_take(data, size, 8)
                            : e->config.sends ? done
                                              : put,
                            0}};
    h.state.limit = odd & 32 ? fuzz_take(data, size, 8) : h.state.published + FUZZ_SLOTS;
    return h;
}

/* The trainer's side of the queue: a message more, or one finished. */
static void move_queue(fuzz_end *e, size_t bytes) {
    sl_queue *q = e->view.queue;
    uint64_t put = atomic_load(&q->put), done = atomic_load(&q->done);
    if (e->config.sends && put - done < FUZZ_SLOTS) {
        sl_slot_header *slot = sl_queue_slot(&e->view, put);
        *slot = (sl_slot_header){.bytes = bytes % (FUZZ_PAYLOAD + 1)};
        for (size_t i = 0; i < slot->bytes; i++)
            ((uint8_t *)sl_queue_payload(&e->view, put))[i] = fuzz_byte(put, i);
        sl_queue_put(&e->view);
    } else if (!e->config.sends && done < put) {
        sl_queue_done(&e->view);
    }
    sl_endpoint_look(e->endpoint);
}

/* What is published is what was sent, and the other side of the queue was not touched. */
static void must_hold(const fuzz_end *e, uint64_t *checked) {
    uint64_t put = atomic_load(&e->view.queue->put), done = atomic_load(&e->view.queue->done);
    fuzz_must(done <= put && put - done <= FUZZ_SLOTS);
    for (; !e->config.sends && *checked < put; ++*checked) {
        const sl_slot_header *slot = sl_queue_slot(&e->view, *checked);
        const uint8_t *payload = sl_queue_payload(&e->view, *checked);
        fuzz_must(slot->bytes <= FUZZ_PAYLOAD);
        for (size_t i = 0; i < slot->bytes; i++)
            fuzz_must(payload[i] == fuzz_byte(*checked, i));
    }
}

static int take_steps(int sends, const uint8_t *data, size_t size) {
    static uint8_t bytes[SL_WIRE_BYTES + 4096];
    fuzz_end e;
    uint64_t checked = 0;
    fuzz_end_open(&e, sends, NULL, 0);
    for (int steps = 0; size > 0 && steps < 200; steps++) {
        uint8_t step = (uint8_t)fuzz_take(&data, &size, 1);
        int rail = step >> 7;
        sl_hello hello;
        size_t n;
        switch ((step & 127) % STEPS) {
        case STEP_CHUNK:
            fuzz_end_hear(&e, rail, bytes, chunk_frame(&e, &data, &size, bytes));
            break;
        case STEP_CONTROL:
            fuzz_end_hear(&e, rail, bytes, control_frame(&e, &data, &size, bytes));
            break;
        case STEP_RAW:
            n = (size_t)fuzz_take(&data, &size, 1);
            n = n < size ? n : size;
            fuzz_end_hear(&e, rail, data, n);
            data += n;
            size -= n;
            break;
        case STEP_QUEUE:
            move_queue(&e, (size_t)fuzz_take(&data, &size, 1));
            break;
        case STEP_WELCOME:
            hello = hello_of(&e, &data, &size);
            fuzz_end_welcome(&e, rail, &hello);
            break;
        default:
            sl_endpoint_rail_down(e.endpoint, rail, "the test ends it");
            sl_endpoint_turn(e.endpoint);
        }
        must_hold(&e, &checked);
    }
    fuzz_end_close(&e);
    return sends ? e.valid > 0 : checked > 0;
}

static int read_receiver(const uint8_t *data, size_t size) {
    return take_steps(0, data, size);
}

static int read_sender(const uint8_t *data, size_t size) {
    return take_steps(1, data, size);
}

static int say_steps(const uint8_t *const *steps, const size_t *sizes, int count, int number, FILE *out) {
    return number < count && fwrite(steps[number], 1, sizes[number], out) == sizes[number];
}

#define STEPS_OF(name, ...) static const uint8_t name[] = {__VA_ARGS__}

static int write_receiver(int number, FILE *out) {
    STEPS_OF(one, STEP_WELCOME, 0, STEP_CHUNK, 0, 10, 0, 0, STEP_QUEUE, 0, STEP_CHUNK, 0, 0, 0, 0);
    STEPS_OF(three, STEP_WELCOME, 0, STEP_CHUNK, 0, 150, 0, 2, STEP_CHUNK, 0, 150, 0, 0, STEP_CHUNK, 0, 150,
             0, 1, STEP_CHUNK, 0, 150, 0, 2);
    STEPS_OF(due, STEP_WELCOME, 0, STEP_CHUNK, 16, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0);
    const uint8_t *const all[] = {one, three, due};
    const size_t sizes[] = {sizeof one, sizeof three, sizeof due};
    return say_steps(all, sizes, 3, number, out);
}

static int write_sender(int number, FILE *out) {
    STEPS_OF(state, STEP_QUEUE, 150, STEP_WELCOME, 0, STEP_CONTROL, 1, 0, 0, 1, STEP_QUEUE, 3);
    STEPS_OF(acks, STEP_WELCOME, 0, STEP_QUEUE, 150, STEP_CONTROL, 0, 0, 0, 0, STEP_CONTROL, 0, 0, 1, 0,
             STEP_CONTROL, 0, 0, 2, 0, STEP_CONTROL, 33, 0, 0, 1, 1, 50, 0);
    STEPS_OF(again, STEP_WELCOME, 0, STEP_QUEUE, 150, STEP_LEAVE, STEP_WELCOME, 8, STEP_CONTROL, 1, 0, 0, 0);
    const uint8_t *const all[] = {state, acks, again};
    const size_t sizes[] = {sizeof state, sizeof acks, sizeof again};
    return say_steps(all, sizes, 3, number, out);
}

/* ---- the handshake */

static void move(sl_handshake *one, int socket, sl_handshake_result *result) {
    const char *why;
    if (*result != SL_HANDSHAKE_ON)
        return;
    *result = sl_handshake_move(one, socket, &why);
    fuzz_must(*result != SL_HANDSHAKE_WRONG || why[0]);
}

/* A peer that does not know the key says anything: it is never believed. */
static int strangers(fuzz_end *e, int initiates, const uint8_t *data, size_t size) {
    int pair[2];
    sl_handshake own = {.answer = sl_endpoint_answer, .object = e->endpoint};
    sl_handshake_result result = SL_HANDSHAKE_ON;
    const sl_hello hello = {.from = 3, .to = 5, .number = 1, .chunk_bytes = FUZZ_CHUNK};
    fuzz_must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    memcpy(own.key, e->config.key, sizeof own.key);
    if (initiates)
        fuzz_must(sl_handshake_initiate(&own, e->config.key, &hello) == SL_OK);
    for (size_t at = 0; at < size && result == SL_HANDSHAKE_ON;) {
        size_t piece = size - at < 100 ? size - at : 100;
        if (send(pair[1], data + at, piece, MSG_NOSIGNAL) != (ssize_t)piece)
            break;
        at += piece;
        move(&own, pair[0], &result);
    }
    fuzz_must(result != SL_HANDSHAKE_DONE);
    close(pair[0]);
    close(pair[1]);
    return own.got >= SL_HANDSHAKE_HELLO;
}

/* A peer that knows it names what it likes; then frames follow. */
static int member(fuzz_end *e, const uint8_t *data, size_t size) {
    int pair[2];
    sl_handshake acceptor = {.answer = sl_endpoint_answer, .object = e->endpoint}, initiator;
    sl_handshake_result here = SL_HANDSHAKE_ON, there = SL_HANDSHAKE_ON;
    sl_hello hello = hello_of(e, &data, &size);
    hello.rail = (int)(int32_t)fuzz_take(&data, &size, 4);
    fuzz_must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    memcpy(acceptor.key, e->config.key, sizeof acceptor.key);
    fuzz_must(sl_handshake_initiate(&initiator, e->config.key, &hello) == SL_OK);
    for (int i = 0; i < 3; i++) {
        move(&initiator, pair[1], &there);
        move(&acceptor, pair[0], &here);
    }
    if (here == SL_HANDSHAKE_DONE) {
        e->other[acceptor.other.rail] = pair[1];
        sl_endpoint_welcome(e->endpoint, acceptor.other.rail, pair[0], &acceptor, 0);
        sl_endpoint_turn(e->endpoint);
        fuzz_end_hear(e, acceptor.other.rail, data, size);
        return 1;
    }
    close(pair[0]);
    close(pair[1]);
    return 0;
}

static int read_handshake(const uint8_t *data, size_t size) {
    fuzz_end e;
    uint64_t kind = fuzz_take(&data, &size, 1) % 3;
    fuzz_end_open(&e, 0, NULL, 0);
    int accepted = kind == 2 ? member(&e, data, size) : strangers(&e, (int)kind, data, size);
    fuzz_end_close(&e);
    return accepted;
}

static int write_handshake(int number, FILE *out) {
    if (number > 2)
        return 0;
    fputc(number, out);
    if (number == 2)
        return fwrite((uint8_t[5]){0}, 1, 5, out) == 5;
    sl_handshake own;
    const sl_hello hello = {.from = 3, .to = 5, .number = 1, .chunk_bytes = FUZZ_CHUNK, .slots = 4};
    fuzz_must(sl_handshake_initiate(&own, (const uint8_t[32]){1, 2, 3}, &hello) == SL_OK);
    return fwrite(own.out, 1, sizeof own.out, out) == sizeof own.out;
}

/* ---- UCX */

static void ignore(void *object, sl_line *line) {
    (void)object, (void)line;
}

/* Only an authenticated peer gets here. UCX believes the address itself, so of that only the length is tried:
 * a whole address is not given to it. */
static int read_introduction(const uint8_t *data, size_t size) {
    int pair[2], ready = -1;
    sl_loop *loop;
    sl_line *line;
    if (sl_line_check(SL_RAIL_UCX) != SL_OK)
        return 1;
    uint32_t said = 0;
    memcpy(&said, data, size < sizeof said ? size : sizeof said);
    size = size < sizeof said + said || said == 0 ? size : sizeof said + said - 1;
    fuzz_must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    fuzz_must(sl_loop_open(&loop) == SL_OK);
    if (sl_line_open_ucx(loop, pair[0], ignore, NULL, &line) == SL_OK) {
        if (send(pair[1], data, size, MSG_NOSIGNAL) == (ssize_t)size)
            ready = sl_line_ready(line);
        fuzz_must(ready <= 0);
        sl_line_close(line);
    }
    close(pair[1]);
    sl_loop_close(loop);
    return ready == 0;
}

static int write_introduction(int number, FILE *out) {
    const uint8_t bytes[] = {40, 0, 0, 0, 1, 2, 3};
    return number == 0 && fwrite(bytes, 1, sizeof bytes, out) == sizeof bytes;
}

const fuzz_reader fuzz_wire[] = {
    {"frame", "sl_frame_decode", NULL, write_frame, NULL, read_frame},
    {"receiver",
     "sl_endpoint_read sl_receiver_begin sl_endpoint_begin_chunk sl_endpoint_end_chunk sl_line_read", NULL,
     write_receiver, NULL, read_receiver},
    {"sender", "sl_endpoint_hear_receiver sl_sender_state sl_sender_acknowledge", NULL, write_sender, NULL,
     read_sender},
    {"handshake", "sl_handshake_move sl_endpoint_answer", NULL, write_handshake, NULL, read_handshake},
    {"ucx", "sl_line_open_ucx sl_line_ready", NULL, write_introduction, NULL, read_introduction},
    {0}};
