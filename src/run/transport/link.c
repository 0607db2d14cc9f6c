#include "run/transport/link.h"
#include "base/memory.h"

#include <assert.h>
#include <math.h>

/* Longest transfer, about 100 years: sums of times stay within 63 bits by saturation. */
#define LONGEST ((sl_time)3200000000 * SL_SECOND)

static sl_time later(sl_time a, sl_time b) {
    return a > b ? a : b;
}

static sl_time add(sl_time a, sl_time b) {
    return b > 0 && a > SL_TIME_NEVER - 1 - b ? SL_TIME_NEVER - 1 : a + b;
}

sl_status sl_link_open(sl_link *link, int capacity) {
    *link = (sl_link){.capacity = capacity};
    return sl_alloc(&link->message, (size_t)capacity, sizeof *link->message);
}

void sl_link_close(sl_link *link) {
    sl_free(link->message);
    *link = (sl_link){0};
}

sl_time sl_link_transfer(uint64_t bytes, double bytes_per_second) {
    if (!(bytes_per_second > 0))
        return 0;
    double ns = (double)bytes / bytes_per_second * 1e9;
    return ns < (double)LONGEST ? (sl_time)llround(ns) : LONGEST;
}

static sl_link_message *at(const sl_link *link, int position) {
    return &link->message[(link->first + position) % link->capacity];
}

static int goes_before(const sl_link_message *a, const sl_link_message *b) {
    return a->ready != b->ready ? a->ready < b->ready : a->index < b->index;
}

static void set_times(sl_link *link, int position) {
    sl_link_message *m = at(link, position);
    const sl_link_message *front = position > 0 ? at(link, position - 1) : NULL;
    m->start = later(m->ready, front ? front->end : link->free_at);
    m->end = add(m->start, sl_link_transfer(m->bytes, m->emulation.bytes_per_second));
    m->due = later(add(m->end, m->emulation.latency), front ? front->due : link->last_due);
}

void sl_link_offer(sl_link *link, const sl_link_message *message) {
    assert(link->count < link->capacity);
    int position = link->count++;
    while (position > 0) {
        const sl_link_message *front = at(link, position - 1);
        if (front->start <= message->handed || !goes_before(message, front))
            break;
        *at(link, position) = *front;
        position--;
    }
    *at(link, position) = *message;
    for (; position < link->count; position++)
        set_times(link, position);
}

const sl_link_message *sl_link_head(const sl_link *link) {
    return link->count > 0 ? at(link, 0) : NULL;
}

void sl_link_take(sl_link *link) {
    assert(link->count > 0);
    link->free_at = at(link, 0)->end;
    link->last_due = at(link, 0)->due;
    link->first = (link->first + 1) % link->capacity;
    link->count--;
}
