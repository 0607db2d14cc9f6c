#include "endpoints.h"

#include "base/memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void fuzz_end_open(fuzz_end *e, int sends, sl_queue *memory, size_t bytes) {
    *e = (fuzz_end){.memory = memory, .other = {-1, -1}};
    if (!memory) {
        fuzz_must(sl_queue_size(FUZZ_SLOTS, FUZZ_PAYLOAD, &bytes) == SL_OK);
        e->memory = aligned_alloc(64, bytes);
        memset(e->memory, 0, bytes);
        sl_queue_format(e->memory, FUZZ_SLOTS, FUZZ_PAYLOAD);
    }
    fuzz_must(sl_queue_open(e->memory, bytes, &e->view) == SL_OK);
    fuzz_must(sl_loop_open(&e->loop) == SL_OK);
    e->config = (sl_endpoint_config){.sends = sends,
                                     .from = 3,
                                     .to = 5,
                                     .number = 1,
                                     .key = {1, 2, 3},
                                     .queue = &e->view,
                                     .rails = FUZZ_RAILS,
                                     .chunk_bytes = FUZZ_CHUNK};
    for (int r = 0; r < FUZZ_RAILS; r++)
        e->config.rail[r] = (sl_rail_address){.kind = SL_RAIL_UNIX, .address = "@nobody"};
    if (!sends) {
        fuzz_must(sl_listener_open(e->loop, e->config.key, NULL, NULL, &e->listener) == SL_OK);
        e->config.listener = e->listener;
    }
    fuzz_must(sl_endpoint_open(e->loop, &e->config, &e->endpoint) == SL_OK);
}

void fuzz_end_close(fuzz_end *e) {
    sl_endpoint_close(e->endpoint);
    sl_listener_close(e->listener);
    for (int r = 0; r < FUZZ_RAILS; r++)
        if (e->other[r] >= 0)
            close(e->other[r]);
    sl_loop_close(e->loop);
    free(e->memory);
}

void fuzz_end_welcome(fuzz_end *e, int rail, const sl_hello *said) {
    int pair[2];
    sl_handshake handshake = {.initiator = e->config.sends, .other = *said};
    fuzz_must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    if (e->other[rail] >= 0)
        close(e->other[rail]);
    e->other[rail] = pair[1];
    sl_endpoint_welcome(e->endpoint, rail, pair[0], &handshake, 0);
    sl_endpoint_turn(e->endpoint);
}

/* Reads what it said: whole frames, each chunk with its payload. A trainer that damages its own queue can
 * only make the other end refuse what comes of it. */
static void listen_to(fuzz_end *e, int rail) {
    static uint8_t said[1 << 18];
    ssize_t got = e->other[rail] < 0 ? 0 : recv(e->other[rail], said, sizeof said, 0);
    size_t at = 0;
    while (got > 0 && at + SL_WIRE_BYTES <= (size_t)got) {
        sl_wire frame;
        sl_status status = sl_frame_decode(said + at, &frame);
        if (e->hostile && status != SL_OK)
            return;
        fuzz_must(status == SL_OK);
        at += SL_WIRE_BYTES;
        if (frame.kind == SL_WIRE_CHUNK) {
            if (at + frame.chunk.bytes > (size_t)got)
                return;
            fuzz_must(e->hostile ||
                      sl_frame_checksum(said + at, frame.chunk.bytes) == frame.payload_checksum);
            at += frame.chunk.bytes;
        }
        e->valid++;
    }
}

void fuzz_end_hear(fuzz_end *e, int rail, const void *bytes, size_t size) {
    if (e->other[rail] < 0 || send(e->other[rail], bytes, size, MSG_NOSIGNAL) != (ssize_t)size)
        return;
    if (e->endpoint->rail[rail].stream.socket >= 0)
        sl_endpoint_read(e->endpoint, rail);
    sl_endpoint_turn(e->endpoint);
    listen_to(e, rail);
}
