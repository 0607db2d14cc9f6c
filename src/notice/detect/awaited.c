#include "notice/detect/awaited.h"
#include "base/memory.h"
#include "base/time.h"
#include "notice/detect/call_role.h"

#include <stdlib.h>

enum { EAGER = 4096 }; /* bytes; smaller messages leave with their call in every library that we know */
#define SMALL_GAP 0.1  /* of a wait: shorter computing between calls (polling) holds nothing up */

/* A part, with when its transfer could move as far as its partners are concerned. */
typedef struct waiter {
    sl_meeting_part *part;
    int64_t movable;
} waiter;

/* When all members of a collective had come, and none computed any more. */
static int64_t all_came(const sl_meeting_part *part, int size) {
    int64_t latest = part[0].start;
    for (int m = 0; m < size; m++)
        latest = sl_later(latest, part[m].polled ? part[m].start : part[m].waiting);
    return latest;
}

/* When the transfer of a meeting could move, for the wait of member `m`. */
static int64_t movable_for(const sl_meeting *meeting, const sl_meeting_part *part, int m) {
    if (!meeting->message)
        return all_came(part, meeting->size);
    if (m == 1)
        return part[0].start;
    int rendezvous = meeting->bytes >= EAGER;
    return !rendezvous ? part[0].start : part[1].polled ? part[1].start : part[1].waiting;
}

static int order_waiters(const void *a, const void *b) {
    const sl_meeting_part *x = ((const waiter *)a)->part, *y = ((const waiter *)b)->part;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->call != y->call)
        return x->call < y->call ? -1 : 1;
    return x->end != y->end ? (x->end < y->end ? -1 : 1) : 0;
}

/* The first of the calls whose rank and end are not before these. */
static size_t first_from(const sl_call *sorted, size_t calls, int rank, int64_t end) {
    size_t low = 0, high = calls;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const sl_call *c = &sorted[middle];
        int before = c->rank < rank || (c->rank == rank && c->end < end);
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    return low;
}

/* How many transfers a call waited for, by the records: they carry its end. */
static size_t completed(const sl_call *sorted, size_t calls, const sl_meeting_part *part) {
    size_t count = 0;
    for (size_t i = first_from(sorted, calls, part->rank, part->end);
         i < calls && sorted[i].rank == part->rank && sorted[i].end == part->end; i++)
        count += sorted[i].thread == part->thread &&
                 (sorted[i].kind == SL_RECORD_COMPLETION || sl_call_is_exchange(sorted[i].call));
    return count;
}

/* ns that the thread of a sender computed between `from` and `to`; 0 when it did at `to`. */
static int64_t computed(const sl_call *sorted, size_t calls, const sl_meeting_part *sender, int64_t from,
                        int64_t to) {
    int64_t least = (int64_t)(SMALL_GAP * (double)(to - from)), sum = 0, last = from, inside = 0;
    for (size_t i = first_from(sorted, calls, sender->rank, from);
         i < calls && sorted[i].rank == sender->rank && !inside; i++) {
        const sl_call *c = &sorted[i];
        if (c->kind != SL_RECORD_CALL || c->thread != sender->thread)
            continue;
        if (c->start > to)
            return 0;
        if (c->start - last >= least && c->start > last)
            sum += c->start - last;
        last = sl_later(last, c->end);
        inside = c->end >= to;
    }
    return inside ? sum : 0;
}

static void weigh_message(sl_meeting *meeting, sl_meeting_part *part, const sl_call *sorted, size_t calls) {
    int64_t from = sl_later(sl_later(part[0].start, part[1].waiting), part[1].others);
    int64_t to =
        part[0].end < part[1].end ? part[0].end : part[1].end; /* a sent message no longer needs the sender */
    if (meeting->message && meeting->bytes >= EAGER && !part[1].polled && to > from)
        part[0].outside = computed(sorted, calls, &part[0], from, to);
}

/* Those of one call: each gets when the last of the others could move. */
static void weigh_wait(waiter *first, size_t count, int32_t wait, const sl_call *sorted, size_t calls) {
    int blind = completed(sorted, calls, first->part) > count;
    size_t last = 0;
    int64_t second = INT64_MIN;
    for (size_t i = 1; i < count; i++) {
        int later_one = first[i].movable > first[last].movable;
        second = sl_later(second, later_one ? first[last].movable : first[i].movable);
        last = later_one ? i : last;
    }
    for (size_t i = 0; i < count; i++) {
        first[i].part->wait = wait;
        first[i].part->blind = blind;
        first[i].part->others = i == last ? second : first[last].movable;
    }
}

sl_status sl_meetings_weigh_waits(sl_meetings *all, const sl_call *sorted, size_t calls) {
    waiter *waiters;
    size_t count = 0;
    int32_t wait = 0;
    SL_TRY(sl_alloc(&waiters, all->parts, sizeof *waiters));
    for (size_t i = 0; i < all->meetings; i++)
        for (int m = 0; m < all->meeting[i].size; m++) {
            sl_meeting_part *part = &all->part[all->meeting[i].part];
            waiters[count++] = (waiter){&part[m], movable_for(&all->meeting[i], part, m)};
        }
    qsort(waiters, count, sizeof *waiters, order_waiters);
    for (size_t first = 0, last; first < count; first = last, wait++) {
        for (last = first + 1; last < count && order_waiters(&waiters[first], &waiters[last]) == 0; last++)
            ;
        weigh_wait(&waiters[first], last - first, wait, sorted, calls);
    }
    sl_free(waiters);
    all->waits = (size_t)wait;
    for (size_t i = 0; i < all->meetings; i++)
        weigh_message(&all->meeting[i], &all->part[all->meeting[i].part], sorted, calls);
    return SL_OK;
}

int64_t sl_meeting_transfer(const sl_meetings *all, const sl_meeting *meeting, int *whole) {
    const sl_meeting_part *part = &all->part[meeting->part];
    int64_t latest = part[0].start, most = 0, device = -1;
    int receiver = meeting->message ? 1 : 0; /* a sender waits for nothing */
    *whole = 1;
    for (int m = 0; m < meeting->size; m++) {
        if (part[m].device >= 0 && (device < 0 || part[m].device < device))
            device = part[m].device;
        latest = meeting->message ? latest : sl_later(latest, part[m].start);
    }
    if (device >= 0)
        return device;
    int64_t moves = meeting->message ? latest : all_came(part, meeting->size);
    for (int m = receiver; m < meeting->size; m++) {
        int64_t from = sl_later(sl_later(part[m].waiting, moves), part[m].others);
        if (part[m].blind)
            return -1;
        *whole &=
            part[m].waiting <= latest && part[m].others <= latest && part[0].outside == 0 && !part[m].polled;
        most = sl_later(most, part[m].end - from);
    }
    return most > part[0].outside ? most - part[0].outside : 0;
}
