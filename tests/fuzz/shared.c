/* Memory shared with other processes, one of which writes into it while it is read: queues of delegates,
 * lanes between ranks, rings of records, gates. The memory begins as the input says; a thread then keeps
 * writing the pieces that follow. Whatever it writes, nothing outside of the memory is touched. */
#include "endpoints.h"

#include "base/memory.h"
#include "notice/message/messages.h"
#include "notice/record/call.h"
#include "notice/record/record.h"
#include "run/transport/delegate.h"
#include "run/transport/lane.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the hostile writer */

enum { WRITES = 16, ROUNDS = 200 };

typedef struct writer {
    pthread_t thread;
    uint8_t *memory;
    size_t bytes;
    struct {
        size_t at;
        uint64_t value;
    } write[WRITES];
    int writes, running;
    _Atomic int stop;
} writer;

/* As another process does: the thread sanitizer and the compiler know nothing of it. */
static void store(uint8_t *at, uint64_t value) {
    __atomic_store_n((uint64_t *)(void *)at, value, __ATOMIC_RELAXED);
}

static void *keep_writing(void *object) {
    writer *w = object;
    for (int round = 0; !atomic_load(&w->stop) && round < ROUNDS; round++)
        for (int i = 0; i < w->writes; i++)
            store(w->memory + w->write[i].at, w->write[i].value + (uint64_t)round / 8);
    return NULL;
}

/* The writes come off the front of the input: a count, then place and value of each. */
static void plan_writes(writer *w, const uint8_t **data, size_t *size) {
    *w = (writer){.writes = (int)fuzz_take(data, size, 1) % (WRITES + 1)};
    for (int i = 0; i < w->writes; i++) {
        w->write[i].at = (size_t)fuzz_take(data, size, 2);
        w->write[i].value = fuzz_take(data, size, 8);
    }
}

static void start_writing(writer *w, void *memory, size_t bytes) {
    w->memory = memory;
    w->bytes = bytes;
    for (int i = 0; i < w->writes; i++)
        w->write[i].at = w->write[i].at * 8 % (bytes - 7) / 8 * 8;
    w->running = w->writes > 0 && pthread_create(&w->thread, NULL, keep_writing, w) == 0;
}

static void end_writing(writer *w) {
    atomic_store(&w->stop, 1);
    if (w->running)
        pthread_join(w->thread, NULL);
}

/* ---- queues: the trainer writes, the endpoint of a delegate reads */

static void send_chunks(fuzz_end *e) {
    static uint8_t bytes[SL_WIRE_BYTES + FUZZ_CHUNK];
    for (uint64_t i = 0; i < FUZZ_SLOTS; i++) {
        sl_wire frame = {.kind = SL_WIRE_CHUNK,
                         .chunk = {.message = i, .bytes = FUZZ_CHUNK / 2, .total = FUZZ_CHUNK / 2}};
        frame.payload_checksum = sl_frame_checksum(bytes + SL_WIRE_BYTES, frame.chunk.bytes);
        sl_frame_encode(&frame, bytes);
        fuzz_end_hear(e, 0, bytes, SL_WIRE_BYTES + frame.chunk.bytes);
    }
}

static void send_states(fuzz_end *e) {
    uint8_t bytes[SL_WIRE_BYTES];
    for (uint64_t i = 0; i < FUZZ_SLOTS; i++) {
        const sl_wire frame = {
            .kind = SL_WIRE_STATE, .state = {9, i, i + FUZZ_SLOTS}, .first = 0, .count = i > 0, .times = {5}};
        sl_frame_encode(&frame, bytes);
        fuzz_end_hear(e, 0, bytes, sizeof bytes);
        sl_endpoint_look(e->endpoint);
    }
}

/* What it sends of a slot that changes meanwhile may have any checksum, but is a frame. */
static int read_queue(const uint8_t *data, size_t size) {
    writer w;
    size_t bytes;
    sl_queue_view view;
    int sends = (int)fuzz_take(&data, &size, 1) & 1;
    fuzz_must(sl_queue_size(FUZZ_SLOTS, FUZZ_PAYLOAD, &bytes) == SL_OK);
    plan_writes(&w, &data, &size);
    sl_queue *memory = aligned_alloc(64, bytes);
    memset(memory, 0, bytes);
    sl_queue_format(memory, FUZZ_SLOTS, FUZZ_PAYLOAD);
    memcpy(memory, data, size < bytes ? size : bytes); /* the whole header is the writer's */
    if (sl_queue_open(memory, bytes, &view) != SL_OK) {
        free(memory);
        return 0;
    }
    fuzz_end e;
    const sl_hello said = {.from = 3,
                           .to = 5,
                           .number = 1,
                           .chunk_bytes = FUZZ_CHUNK,
                           .slots = FUZZ_SLOTS,
                           .state = {9, atomic_load(&memory->done), atomic_load(&memory->done) + FUZZ_SLOTS}};
    fuzz_end_open(&e, sends, memory, bytes);
    e.hostile = 1;
    start_writing(&w, memory, bytes);
    fuzz_end_welcome(&e, 0, &said);
    for (int i = 0; i < 3; i++)
        sends ? send_states(&e) : send_chunks(&e);
    end_writing(&w);
    fuzz_end_close(&e);
    return 1;
}

static int write_queue(int number, FILE *out) {
    static sl_queue queue;
    if (number > 3)
        return 0;
    sl_queue_format(&queue, FUZZ_SLOTS, FUZZ_PAYLOAD);
    atomic_store(&queue.put, number > 1 ? 2 : 0);
    fputc(number & 1, out);
    fputc(1, out);
    fwrite((uint8_t[10]){offsetof(sl_queue, done) / 8, 0, (uint8_t)number}, 1, 10, out);
    return fwrite(&queue, 1, offsetof(sl_queue, reason), out) > 0;
}

/* ---- a delegate's order, checked by the delegate, and its events, read by the trainer */

static int read_delegate(const uint8_t *data, size_t size) {
    writer w;
    sl_delegate_event event;
    plan_writes(&w, &data, &size);
    sl_delegate_order *order = calloc(1, sizeof *order);
    memcpy(order, data, size < sizeof *order ? size : sizeof *order);
    int accepted = sl_delegate_check(order, SL_DELEGATE_QUEUE + sizeof(sl_queue)) == SL_OK;
    start_writing(&w, order, sizeof *order);
    for (unsigned i = 0; i < 3 * SL_DELEGATE_EVENT && sl_delegate_hear(order, &event); i++)
        fuzz_must(memchr(event.text, 0, sizeof event.text));
    end_writing(&w);
    free(order);
    return accepted;
}

static int write_delegate(int number, FILE *out) {
    static sl_delegate_order order = {.magic = SL_DELEGATE_MAGIC,
                                      .version = SL_DELEGATE_VERSION,
                                      .parent = 2,
                                      .from = 1,
                                      .to = 2,
                                      .rails = 1,
                                      .rail = {{.kind = SL_RAIL_TCP, .address = "127.0.0.1", .port = 5}}};
    if (number > 0)
        return 0;
    sl_delegate_report(&order, SL_HAPPENED_RAIL_UP, 0, "up");
    fwrite((uint8_t[11]){1, offsetof(sl_delegate_order, put) / 8 & 255,
                         offsetof(sl_delegate_order, put) / 8 >> 8, 9},
           1, 11, out);
    return fwrite(&order, 1, sizeof order, out) == sizeof order;
}

/* ---- lanes between ranks */

enum { LANE_SLOTS = 4, LANE_BYTES = 64, RUN = 77 };

static int read_lane(const uint8_t *data, size_t size) {
    writer w;
    char name[64];
    sl_region *region;
    sl_lane_view view;
    int opened = 0;
    plan_writes(&w, &data, &size);
    snprintf(name, sizeof name, "/dev/shm/slackline-fuzz-%d", (int)getpid());
    FILE *copy = fopen(name, "we"); /* a path that is no link, as it is required */
    fuzz_must(copy && fwrite(data, 1, size, copy) == size && fclose(copy) == 0);
    if (sl_region_map(name, 0, 2, LANE_SLOTS, LANE_BYTES, RUN, &region) == SL_OK) {
        size_t bytes = region->total_bytes;
        fuzz_must(bytes <= size);
        if (sl_lane_open(region, 1, &view) == SL_OK) {
            opened = 1;
            start_writing(&w, region, bytes);
            for (uint32_t i = 0; i < 20; i++) {
                sl_clearance clearance;
                sl_status status = sl_lane_drain(&view);
                fuzz_must(status == SL_OK || status == SL_EPEER);
                fuzz_must(view.waitings <= LANE_SLOTS);
                for (uint32_t k = 0; k < view.waitings; k++) {
                    sl_slot *slot = sl_lane_slot(&view, view.waiting[k]);
                    uint64_t said = slot->bytes;
                    fuzz_must((char *)sl_slot_payload(slot) + LANE_BYTES <= (char *)region + bytes);
                    (void)said;
                }
                int at = sl_lane_find(&view, 0, i);
                if (at >= 0)
                    sl_lane_free(&view, at);
                (void)sl_lane_next_cleared(&view, i / 4, &clearance);
                int32_t claimed = sl_lane_claim(&view);
                fuzz_must(claimed >= -1 && claimed < LANE_SLOTS);
            }
            end_writing(&w);
            sl_lane_close(&view);
        }
        sl_region_unmap(region);
    }
    unlink(name);
    return opened;
}

static int write_lane(int number, FILE *out) {
    char path[64];
    sl_region *region;
    sl_lane_view view;
    if (number > 1)
        return 0;
    snprintf(path, sizeof path, "/dev/shm/slackline-fuzz-made-%d", (int)getpid());
    unlink(path);
    fuzz_must(sl_region_create(path, 0, 2, LANE_SLOTS, LANE_BYTES, RUN, "\0\1", &region) == SL_OK);
    fuzz_must(sl_lane_open(region, 1, &view) == SL_OK);
    for (int i = 0; i < 2 * number; i++) {
        int32_t slot = sl_lane_claim(&view);
        sl_lane_slot(&view, (uint32_t)slot)->index = (uint32_t)i;
        sl_lane_slot(&view, (uint32_t)slot)->bytes = 5;
        sl_lane_publish(&view, slot, 1);
        sl_lane_clear(&view, &(sl_clearance){.iteration = 0, .index = (uint32_t)i});
    }
    fputc(number, out);
    if (number)
        fwrite((uint8_t[10]){0}, 1, 10, out);
    fwrite(region, 1, region->total_bytes, out);
    sl_lane_close(&view);
    sl_region_unmap(region);
    unlink(path);
    return 1;
}

/* ---- rings of records */

static int read_ring(const uint8_t *data, size_t size) {
    writer w;
    sl_record records[8];
    uint64_t position = 0, lost = 0;
    plan_writes(&w, &data, &size);
    size_t bytes = (size + 63) / 64 * 64;
    uint8_t *memory = aligned_alloc(64, bytes + 64);
    memset(memory, 0, bytes + 64);
    memcpy(memory, data, size);
    const sl_record_ring *ring = (const sl_record_ring *)(const void *)memory;
    uint32_t capacity = sl_record_ring_capacity(ring, size);
    if (capacity > 0) {
        start_writing(&w, memory, size);
        for (int i = 0; i < 20; i++)
            fuzz_must(sl_record_read(ring, capacity, &position, records, 8, &lost) <= 8);
        end_writing(&w);
    }
    free(memory);
    return capacity > 0;
}

static int write_ring(int number, FILE *out) {
    uint8_t memory[sizeof(sl_record_ring) + 4 * sizeof(sl_record)] __attribute__((aligned(64))) = {0};
    sl_record_ring *ring = (sl_record_ring *)(void *)memory;
    if (number > 0)
        return 0;
    fuzz_must(sl_record_ring_init(ring, 4) == 0);
    for (int i = 0; i < 6; i++)
        sl_record_write(ring, 4, &(sl_record){.kind = SL_RECORD_OP, .iteration = i});
    fputc(1, out);
    fwrite((uint8_t[10]){offsetof(sl_record_ring, head) / 8, 0, 5}, 1, 10, out);
    return fwrite(memory, 1, sizeof memory, out) == sizeof memory;
}

/* ---- gates: a view of one can be sent and read again */

static int read_gate(const uint8_t *data, size_t size) {
    writer w;
    char text[160], *bytes = NULL;
    size_t capacity = 0, length;
    int ours = 0;
    plan_writes(&w, &data, &size);
    sl_gate *gate = aligned_alloc(64, (sizeof *gate + 63) / 64 * 64);
    sl_gate_view *view = calloc(1, sizeof *view), *again = calloc(1, sizeof *again);
    memset(gate, 0, sizeof *gate);
    sl_gate_init(gate, 3, NULL);
    /* the head, the tables of channels and of threads: a third of the input each */
    size_t third = size / 3,
           part[3] = {offsetof(sl_gate, size), offsetof(sl_gate, channel), offsetof(sl_gate, thread)};
    size_t room[3] = {offsetof(sl_gate, slot) - part[0], sizeof gate->channel, sizeof gate->thread};
    for (int i = 0; i < 3; i++)
        memcpy((char *)gate + part[i], data + (size_t)i * third, third < room[i] ? third : room[i]);
    if (sl_gate_read(gate, sizeof *gate, text, sizeof text) == SL_FILE_OURS) {
        ours = 1;
        start_writing(&w, (char *)gate + part[0], sizeof *gate - part[0]);
        for (int i = 0; i < 3; i++) {
            sl_gate_look(gate, view);
            fuzz_must(view->threads <= SL_GATE_THREADS && view->channels <= SL_GATE_CHANNELS);
            fuzz_must(sl_view_pack(view, &bytes, &capacity, &length) == SL_OK);
            fuzz_must(sl_view_unpack(bytes, length, again) == 0);
            fuzz_must(again->channels == view->channels && again->threads == view->threads);
        }
        const sl_channel_key key = {1, -1, -1, -1, SL_CHANNEL_COLLECTIVE};
        (void)sl_gate_raise(gate, &key, 5);
        end_writing(&w);
    }
    sl_free(bytes);
    free(again);
    free(view);
    free(gate);
    return ours;
}

static int write_gate(int number, FILE *out) {
    static sl_gate gate;
    sl_gate_caller caller;
    const sl_channel_key key = {1, -1, -1, -1, SL_CHANNEL_COLLECTIVE};
    enum { PART = 192 - offsetof(sl_gate, size) };
    if (number > 0)
        return 0;
    sl_gate_init(&gate, 3, NULL);
    sl_gate_join(&caller, &gate, NULL);
    sl_gate_enter(&caller, sl_gate_channel_of(&gate, &key), SL_GATE_BLOCK);
    fputc(0, out);
    fwrite(&gate.size, 1, PART, out);
    fwrite(gate.channel, 1, PART, out);
    return fwrite(gate.thread, 1, PART, out) == PART;
}

const fuzz_reader fuzz_shared[] = {
    {"queue", "sl_queue_open sl_endpoint_look sl_queue_slot", NULL, write_queue, NULL, read_queue},
    {"delegate", "sl_delegate_check sl_delegate_hear", NULL, write_delegate, NULL, read_delegate},
    {"lane", "sl_region_map sl_lane_open sl_lane_drain sl_lane_find sl_lane_next_cleared sl_lane_free", NULL,
     write_lane, NULL, read_lane},
    {"ring", "sl_record_ring_capacity sl_record_read", NULL, write_ring, NULL, read_ring},
    {"gate", "sl_gate_read sl_gate_look sl_view_unpack sl_gate_raise", NULL, write_gate, NULL, read_gate},
    {0}};
