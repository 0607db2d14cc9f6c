#include "notice/message/messages.h"

#include "base/memory.h"
#include <stdio.h>
#include <string.h>

static size_t size_of(sl_message_kind kind) {
    return kind == SL_MESSAGE_ITERATIONS ? sizeof(sl_message_block)
           : kind == SL_MESSAGE_CALLS    ? sizeof(sl_call)
                                         : 1;
}

static int is_from(int64_t value, int64_t least, int64_t most) {
    return value >= least && value <= most;
}

static int is_block(const sl_message_block *b) {
    return is_from(b->rank, 0, SL_MAX_WATCHED_RANKS - 1) && b->count > 0 && b->period >= 0 &&
           is_from(b->number, 0, SL_MAX_NUMBER) && is_from(b->start, 0, SL_MAX_TIME) &&
           is_from(b->end, b->start, SL_MAX_TIME) && is_from(b->time, 0, SL_MAX_TIME) &&
           is_from(b->bytes, 0, INT64_MAX / 2);
}

static int is_call(const sl_call *c) {
    return is_from(c->rank, -1, SL_MAX_WATCHED_RANKS - 1) &&
           is_from(c->peer, SL_PEER_NULL, SL_MAX_WATCHED_RANKS - 1) && c->bytes <= INT64_MAX / 2 &&
           is_from(c->start, 0, SL_MAX_TIME) && is_from(c->end, 0, SL_MAX_TIME) &&
           is_from(c->device, -1, SL_MAX_TIME);
}

/* Entries are copied: their alignment is not guaranteed. */
static int are_within(sl_message_kind kind, const char *body, uint32_t count) {
    for (uint32_t i = 0; i < count && kind != SL_MESSAGE_VIEW; i++) {
        sl_message_block block;
        sl_call call;
        if (kind == SL_MESSAGE_ITERATIONS)
            memcpy(&block, body + i * sizeof block, sizeof block);
        else
            memcpy(&call, body + i * sizeof call, sizeof call);
        if (!(kind == SL_MESSAGE_ITERATIONS ? is_block(&block) : is_call(&call)))
            return 0;
    }
    return 1;
}

const sl_message_head *sl_message_read(const sl_store_entry *entry, sl_message_kind kind, const void **body) {
    const sl_message_head *head = entry->bytes;
    if (entry->size < sizeof *head || head->magic != SL_MESSAGE_MAGIC ||
        head->version != SL_MESSAGE_VERSION || head->kind != (uint32_t)kind ||
        (entry->size - sizeof *head) / size_of(kind) != head->count ||
        !memchr(head->node, 0, sizeof head->node) || !memchr(head->trouble, 0, sizeof head->trouble) ||
        !is_from(head->rank, -1, SL_MAX_WATCHED_RANKS - 1) || !is_from(head->round, 0, SL_MAX_NUMBER) ||
        head->look < 0 || head->lost < 0 || !are_within(kind, (const char *)(head + 1), head->count))
        return NULL;
    *body = head + 1;
    return head;
}

sl_status sl_message_append(sl_store *store, const char *log, sl_message_head *head, const char *node,
                            const void *body, size_t size, size_t keep) {
    char *bytes;
    head->magic = SL_MESSAGE_MAGIC;
    head->version = SL_MESSAGE_VERSION;
    snprintf(head->node, sizeof head->node, "%s", node);
    SL_TRY(sl_alloc(&bytes, sizeof *head + size, 1));
    memcpy(bytes, head, sizeof *head);
    if (size > 0)
        memcpy(bytes + sizeof *head, body, size);
    sl_status status = sl_store_append(store, log, bytes, sizeof *head + size, keep);
    sl_free(bytes);
    return status;
}

/* ---- views ---- */

typedef struct packed_view {
    int32_t rank, held, finished, overflow, drained;
    uint32_t wild, threads, channels;
    uint64_t calls;
} packed_view;

typedef struct packed_thread {
    uint64_t serial;
    int32_t state, forbidden;
    uint32_t entries, pad;
} packed_thread;

static size_t threads_size(const sl_gate_view *view) {
    size_t size = 0;
    for (uint32_t i = 0; i < view->threads; i++)
        size += sizeof(packed_thread) + view->thread[i].entries * sizeof(sl_gate_view_entry);
    return size;
}

sl_status sl_view_pack(const sl_gate_view *view, char **bytes, size_t *capacity, size_t *size) {
    size_t channels = view->channels * sizeof view->channel[0];
    *size = sizeof(packed_view) + threads_size(view) + channels;
    SL_TRY(sl_grow(bytes, capacity, *size, 1));
    char *at = *bytes;
    packed_view head = {.rank = view->rank,
                        .held = view->held,
                        .finished = view->finished,
                        .overflow = view->overflow,
                        .drained = view->drained,
                        .wild = view->wild,
                        .threads = view->threads,
                        .channels = view->channels,
                        .calls = view->calls};
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    for (uint32_t i = 0; i < view->threads; i++) {
        const sl_gate_view_thread *thread = &view->thread[i];
        packed_thread packed = {.serial = thread->serial,
                                .state = (int32_t)thread->state,
                                .forbidden = thread->forbidden,
                                .entries = thread->entries};
        memcpy(at, &packed, sizeof packed);
        memcpy(at + sizeof packed, thread->entry, thread->entries * sizeof thread->entry[0]);
        at += sizeof packed + thread->entries * sizeof thread->entry[0];
    }
    memcpy(at, view->channel, channels);
    return SL_OK;
}

/* Takes `size` bytes off the front; 0 if there are fewer. */
static int cut_off(const char **at, size_t *left, void *to, size_t size) {
    if (*left < size)
        return 0;
    memcpy(to, *at, size);
    *at += size;
    *left -= size;
    return 1;
}

static int unpack_thread(const char **at, size_t *left, uint32_t channels, sl_gate_view_thread *thread) {
    packed_thread packed;
    if (!cut_off(at, left, &packed, sizeof packed) || packed.entries > SL_GATE_ENTRIES ||
        packed.state < SL_GATE_FREE || packed.state > SL_GATE_PARKED)
        return 0;
    thread->state = (sl_gate_state)packed.state;
    thread->serial = packed.serial;
    thread->forbidden = packed.forbidden;
    thread->entries = packed.entries;
    if (!cut_off(at, left, thread->entry, packed.entries * sizeof thread->entry[0]))
        return 0;
    for (uint32_t i = 0; i < packed.entries; i++)
        if (thread->entry[i].channel >= channels)
            return 0;
    return 1;
}

int sl_view_unpack(const void *bytes, size_t size, sl_gate_view *view) {
    const char *at = bytes;
    packed_view head;
    if (!cut_off(&at, &size, &head, sizeof head) || head.threads > SL_GATE_THREADS ||
        head.channels > SL_GATE_CHANNELS)
        return -1;
    view->rank = head.rank;
    view->held = head.held;
    view->finished = head.finished;
    view->overflow = head.overflow;
    view->drained = head.drained;
    view->wild = head.wild;
    view->threads = head.threads;
    view->channels = head.channels;
    view->calls = head.calls;
    for (uint32_t i = 0; i < head.threads; i++)
        if (!unpack_thread(&at, &size, head.channels, &view->thread[i]))
            return -1;
    return cut_off(&at, &size, view->channel, head.channels * sizeof view->channel[0]) && size == 0 ? 0 : -1;
}

/* ---- JSON ---- */

sl_status sl_json_append(sl_store *store, const char *log, json_t *object, size_t keep) {
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!text)
        return sl_error(SL_ENOMEM, "out of memory for a message");
    sl_status status = sl_store_append(store, log, text, strlen(text), keep);
    free(text);
    return status;
}

static int is_rank(const json_t *row) {
    return sl_json_within(row, "rank", 0, SL_MAX_WATCHED_RANKS - 1) &&
           sl_json_within(row, "pid", 1, INT32_MAX) && sl_json_within(row, "size", 1, SL_MAX_WATCHED_RANKS) &&
           sl_json_within(row, "period", 0, INT32_MAX);
}

int sl_beat_is(const json_t *beat) {
    const char *name = sl_json_text(beat, "node", ""), *clock = sl_json_text(beat, "clock", NULL);
    const json_t *ranks = json_object_get(beat, "ranks"), *row;
    size_t i;
    if (!name[0] || strlen(name) >= SL_NODE_NAME || !clock || strlen(clock) >= SL_CLOCK_NAME ||
        !json_is_array(ranks) || json_array_size(ranks) > SL_MAX_WATCHED_RANKS ||
        !sl_json_within(beat, "calls", 0, INT64_MAX) || !sl_json_within(beat, "lost", 0, INT64_MAX) ||
        !sl_json_within(beat, "validate", 0, 1))
        return 0;
    json_array_foreach(ranks, i, row) {
        if (!is_rank(row))
            return 0;
    }
    return 1;
}
