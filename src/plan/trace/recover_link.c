/* Links: latency and transfer time of each direction from its messages. */
#include "base/memory.h"
#include "base/numbers.h"
#include "plan/trace/recover_inside.h"

#include <stdlib.h>

typedef struct link_samples {
    sl_time *delay, *transfer, *bytes;
    int delays, transfers, sizes;
} link_samples;

static int compare_carried(const void *a, const void *b) {
    const sl_carried *x = a, *y = b;
    if (x->from != y->from)
        return x->from - y->from;
    if (x->to != y->to)
        return x->to - y->to;
    if (x->arrive != y->arrive)
        return x->arrive < y->arrive ? -1 : 1;
    return x->ready < y->ready ? -1 : x->ready > y->ready;
}

static sl_time delay_of(const sl_carried *c) {
    return c->whole >= 0 ? c->whole : c->arrive > c->ready ? c->arrive - c->ready : 0;
}

/* The link's delay is at most that of the fastest message. */
static sl_time min_delay(const sl_carried *c, int count) {
    sl_time least = SL_TIME_NEVER;
    for (int i = 0; i < count; i++)
        if (c[i].arrive != SL_TIME_NEVER && delay_of(&c[i]) < least)
            least = delay_of(&c[i]);
    return least == SL_TIME_NEVER ? 0 : least;
}

/* Samples messages that found the link empty and were waited for. A rank's first op in an iteration may have
 * waited for more than its message, so it counts only if there is no other; and a message that took more than
 * twice as long as another one was not the only cause of the wait. */
static void sample_delays(const sl_recovery *r, const sl_carried *c, int count, link_samples *s) {
    sl_time least = min_delay(c, count), most = least < SL_TIME_NEVER / 4 ? 2 * least + 50000 : least;
    for (int first = 0; first < 2 && s->delays == 0; first++)
        for (int i = 0; i < count; i++) {
            int32_t op = c[i].consumer;
            int is_first = op == 0 || r->chosen[op - 1].rank != r->chosen[op].rank;
            int queues = i > 0 && c[i - 1].arrive > c[i].ready && c[i].whole < 0;
            if (c[i].awaited && !queues && (first || c[i].whole >= 0 || !is_first) &&
                (c[i].whole >= 0 || delay_of(&c[i]) <= most))
                s->delay[s->delays++] = delay_of(&c[i]);
        }
}

/* A message that was ready while the previous one was under way, and took longer than by itself: it queued,
 * unless no transfer time that the others allow would have delayed it. */
static void sample_transfers(const sl_carried *c, int count, sl_time delay, sl_time most, link_samples *s) {
    sl_time tolerance = delay / 20 + 1000;
    for (int i = 0; i < count; i++)
        if (c[i].on_link >= 0)
            s->transfer[s->transfers++] = c[i].on_link;
    if (s->transfers > 0) /* from the trace itself */
        return;
    for (int i = 1; i < count; i++)
        if (c[i].awaited && c[i - 1].awaited && c[i - 1].arrive > c[i].ready &&
            c[i].arrive - c[i].ready > delay + tolerance && c[i].arrive > c[i - 1].arrive &&
            c[i].ready - c[i - 1].ready < most)
            s->transfer[s->transfers++] = c[i].arrive - c[i - 1].arrive;
}

static sl_status profile_link(sl_recovery *r, const sl_carried *c, int count, link_samples *s) {
    int at = c->from * r->ranks + c->to;
    sl_link *link = &r->result->problem.link[at];
    sl_traced_link *reported = &r->result->link[at];
    s->delays = s->transfers = s->sizes = 0;
    sample_delays(r, c, count, s);
    sl_time delay = s->delays ? sl_median(s->delay, s->delays) : min_delay(c, count);
    sl_time most;
    SL_TRY(sl_queue_bound(c, count, delay, &most));
    sample_transfers(c, count, delay, most, s);
    for (int i = 0; i < count; i++)
        if (c[i].bytes > 0)
            s->bytes[s->sizes++] = (sl_time)c[i].bytes;
    sl_time transfer = sl_median(s->transfer, s->transfers);
    if (s->transfers > 0 && c[0].on_link < 0 && transfer > most)
        transfer = most;
    link->transfer = transfer < delay ? transfer : delay;
    link->latency = delay - link->transfer;
    link->bytes = (double)sl_median(s->bytes, s->sizes);
    *reported = (sl_traced_link){
        .messages = count, .awaited = s->delays, .queued = s->transfers, .bytes = link->bytes};
    return SL_OK;
}

sl_status sl_recover_links(sl_recovery *r, sl_carried *carried, size_t count) {
    sl_time *room;
    size_t links = (size_t)r->ranks * (size_t)r->ranks;
    SL_TRY(sl_alloc(&r->result->link, links, sizeof *r->result->link));
    SL_TRY(sl_alloc(&room, 3 * count, sizeof *room));
    link_samples s = {.delay = room, .transfer = room + count, .bytes = room + 2 * count};
    sl_status status = SL_OK;
    if (count > 0)
        qsort(carried, count, sizeof *carried, compare_carried);
    for (size_t first = 0, last; first < count && status == SL_OK; first = last) {
        for (last = first; last < count && carried[last].from == carried[first].from &&
                           carried[last].to == carried[first].to;)
            last++;
        status = profile_link(r, carried + first, (int)(last - first), &s);
    }
    sl_free(room);
    return status;
}
