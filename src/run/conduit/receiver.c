/* The receiving half of a conduit: a ring of `window` messages after `published`, each with a bitmap of the
 * received chunks. Message n uses entry n % window. Only published <= n < limit <= published + window is ever
 * taken, so an entry belongs to one message at a time, and a chunk of an earlier one is recognized by its
 * number before an entry is read. */
#include "base/memory.h"
#include "run/conduit/conduit.h"

#include <assert.h>
#include <string.h>

typedef struct incoming {
    uint64_t total;
    uint32_t chunks; /* 0: nothing of it has come yet */
    uint32_t here;   /* bits set in its bitmap */
} incoming;

typedef struct taking {
    int busy;
    uint64_t message;
    uint32_t index;
} taking;

struct sl_receiver {
    sl_receiver_config config;
    uint64_t published, allowed;
    size_t words; /* of a bitmap */
    incoming *message;
    uint64_t *bitmap; /* window * words */
    taking rail[SL_RAILS_MAX];
};

static uint64_t chunks_of(uint64_t total, uint32_t chunk_bytes) {
    return total ? (total - 1) / chunk_bytes + 1 : 1;
}

sl_status sl_receiver_open(const sl_receiver_config *config, sl_receiver **receiver) {
    *receiver = NULL;
    if (!config->window || !config->chunk_bytes)
        return sl_error(SL_EINVAL, "a conduit needs a window and a chunk size");
    uint64_t chunks = chunks_of(config->total_max, config->chunk_bytes);
    size_t words = (size_t)(chunks / 64 + 1);
    if (chunks > UINT32_MAX || words > SIZE_MAX / config->window)
        return sl_error(SL_EINVAL, "messages of %llu bytes have too many chunks of %u",
                        (unsigned long long)config->total_max, config->chunk_bytes);
    sl_receiver *r;
    sl_status status;
    SL_TRY(sl_alloc(&r, 1, sizeof *r));
    r->config = *config;
    r->published = r->allowed = config->first;
    r->words = words;
    SL_TRY_GOTO(err_close, status, sl_alloc(&r->message, config->window, sizeof *r->message));
    SL_TRY_GOTO(err_close, status, sl_alloc(&r->bitmap, words * config->window, sizeof *r->bitmap));
    *receiver = r;
    return SL_OK;
err_close:
    sl_receiver_close(r);
    return status;
}

void sl_receiver_close(sl_receiver *receiver) {
    if (!receiver)
        return;
    SL_FREE(receiver->message, receiver->bitmap, receiver);
}

static uint64_t limit_of(const sl_receiver *r) {
    return r->allowed - r->published < r->config.window ? r->allowed : r->published + r->config.window;
}

static incoming *entry(const sl_receiver *r, uint64_t number) {
    return &r->message[number % r->config.window];
}

static uint64_t *bits_of(const sl_receiver *r, uint64_t number) {
    return r->bitmap + (size_t)(number % r->config.window) * r->words;
}

/* A chunk's fields must follow from its index, the chunk size and its message's bytes. */
static sl_status check(const sl_receiver *r, const sl_chunk *c) {
    uint64_t size = r->config.chunk_bytes;
    if (c->total > r->config.total_max)
        return sl_error(SL_EPEER, "message %llu has %llu bytes, more than the %llu there is room for",
                        (unsigned long long)c->message, (unsigned long long)c->total,
                        (unsigned long long)r->config.total_max);
    if (c->index >= chunks_of(c->total, r->config.chunk_bytes) || c->offset != c->index * size ||
        c->bytes != (c->total - c->offset < size ? c->total - c->offset : size))
        return sl_error(SL_EPEER, "chunk %u of message %llu cannot be %u bytes at %llu of %llu", c->index,
                        (unsigned long long)c->message, c->bytes, (unsigned long long)c->offset,
                        (unsigned long long)c->total);
    return SL_OK;
}

static int taken_elsewhere(const sl_receiver *r, const sl_chunk *c) {
    for (int i = 0; i < SL_RAILS_MAX; i++)
        if (r->rail[i].busy && r->rail[i].message == c->message && r->rail[i].index == c->index)
            return 1;
    return 0;
}

sl_status sl_receiver_begin(sl_receiver *receiver, int rail, const sl_chunk *chunk,
                            sl_chunk_verdict *verdict) {
    assert(rail >= 0 && rail < SL_RAILS_MAX);
    *verdict = SL_CHUNK_IGNORE;
    receiver->rail[rail].busy = 0; /* what it was taking before has not been finished */
    SL_TRY(check(receiver, chunk));
    if (chunk->message < receiver->published) {
        *verdict = SL_CHUNK_ACKNOWLEDGE;
        return SL_OK;
    }
    if (chunk->message >= limit_of(receiver))
        return SL_OK;
    incoming *m = entry(receiver, chunk->message);
    if (m->chunks && m->total != chunk->total)
        return sl_error(SL_EPEER, "message %llu has %llu bytes now and had %llu before",
                        (unsigned long long)chunk->message, (unsigned long long)chunk->total,
                        (unsigned long long)m->total);
    m->total = chunk->total;
    m->chunks = (uint32_t)chunks_of(chunk->total, receiver->config.chunk_bytes);
    if (bits_of(receiver, chunk->message)[chunk->index / 64] >> (chunk->index % 64) & 1) {
        *verdict = SL_CHUNK_ACKNOWLEDGE;
    } else if (!taken_elsewhere(receiver, chunk)) {
        receiver->rail[rail] = (taking){1, chunk->message, chunk->index};
        *verdict = SL_CHUNK_TAKE;
    }
    return SL_OK;
}

void sl_receiver_finish(sl_receiver *receiver, int rail) {
    assert(rail >= 0 && rail < SL_RAILS_MAX);
    taking *t = &receiver->rail[rail];
    if (!t->busy)
        return;
    t->busy = 0;
    /* Taken by one rail at a time and not published before it is complete: its entry is still its own. */
    bits_of(receiver, t->message)[t->index / 64] |= UINT64_C(1) << (t->index % 64);
    entry(receiver, t->message)->here++;
}

void sl_receiver_rail_down(sl_receiver *receiver, int rail) {
    assert(rail >= 0 && rail < SL_RAILS_MAX);
    receiver->rail[rail].busy = 0;
}

int sl_receiver_complete(const sl_receiver *receiver, uint64_t *total) {
    const incoming *m = entry(receiver, receiver->published);
    if (!m->chunks || m->here < m->chunks)
        return 0;
    *total = m->total;
    return 1;
}

void sl_receiver_published(sl_receiver *receiver) {
    incoming *m = entry(receiver, receiver->published);
    assert(m->chunks && m->here == m->chunks);
    memset(bits_of(receiver, receiver->published), 0, (m->chunks / 64 + 1) * sizeof(uint64_t));
    *m = (incoming){0};
    receiver->published++;
}

void sl_receiver_allow(sl_receiver *receiver, uint64_t limit) {
    if (limit > receiver->allowed)
        receiver->allowed = limit;
}

sl_conduit_state sl_receiver_state(const sl_receiver *receiver, uint64_t epoch) {
    return (sl_conduit_state){epoch, receiver->published, limit_of(receiver)};
}
