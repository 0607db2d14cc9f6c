#include "plan/timing/wire_fit.h"
#include "base/memory.h"
#include "base/numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WAITING_MIN = 3, /* messages that started before the one before them had arrived */
    CANDIDATES = 9     /* percentiles of the times between two arrivals */
};
static const double differ =
    0.05; /* mean difference of the times from their median, as a share of it, that is worth explaining */
static const double explains = 0.5; /* share of the differences that the wire must explain */

/* Mean distance of value[count] from its median. Sorts them. */
static double spread(sl_time *value, int count, sl_time *middle) {
    double sum = 0;
    *middle = sl_median(value, count);
    for (int i = 0; i < count; i++)
        sum += fabs((double)(value[i] - *middle));
    return sum / count;
}

/* The differences that are left if each message occupies the wire for `transfer`. */
static double misfit(const sl_passage *p, int count, sl_time transfer, sl_time *scratch, sl_time *latency) {
    sl_time free = p[0].start;
    for (int i = 0; i < count; i++) {
        free = sl_later(free, p[i].start) + transfer;
        scratch[i] = p[i].arrive - free;
    }
    return spread(scratch, count, latency);
}

/* Times between the arrivals of messages that may have waited for each other. */
static int gaps_of(const sl_passage *p, int count, sl_time *gap) {
    int found = 0;
    for (int i = 1; i < count; i++)
        if (p[i].start < p[i - 1].arrive)
            gap[found++] = sl_later(0, p[i].arrive - p[i - 1].arrive);
    return found;
}

int sl_wire_fit(sl_passage *p, int count, sl_time *scratch, sl_time *latency, sl_time *transfer) {
    sl_time candidate[CANDIDATES + 1], mean = 0, ignored;
    for (int i = 0; i < count; i++)
        p[i].wait = 0;
    int waiting = gaps_of(p, count, scratch);
    if (waiting < WAITING_MIN)
        return 0;
    for (int i = 0; i < waiting; i++)
        mean += scratch[i];
    for (int i = 0; i < CANDIDATES; i++)
        candidate[i] = sl_percentile(scratch, waiting, 10.0 * (i + 1));
    candidate[CANDIDATES] = mean / waiting; /* if the messages share the wire instead of queuing */
    double before = misfit(p, count, 0, scratch, latency), least = explains * before;
    if (before < differ * (double)*latency)
        return 0;
    *transfer = 0;
    for (int i = 0; i <= CANDIDATES; i++) {
        double left = misfit(p, count, candidate[i], scratch, &ignored);
        if (candidate[i] > 0 && left < least && ignored >= 0) {
            least = left;
            *transfer = candidate[i];
            *latency = ignored;
        }
    }
    sl_time free = p[0].start;
    for (int i = 0; i<count && * transfer> 0; i++) {
        p[i].wait = sl_later(0, free - p[i].start);
        free = sl_later(free, p[i].start) + *transfer;
    }
    return *transfer > 0;
}

static int by_start(const void *one, const void *other) {
    const sl_passage *a = one, *b = other;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return a->transfer < b->transfer ? -1 : a->transfer > b->transfer;
}

/* first[ranks * ranks + 1]: where the passages of each link begin, sorted by start. */
static sl_status collect(const sl_timeline *t, sl_passage *passage, int *first) {
    int links = t->ranks * t->ranks, *next;
    SL_TRY(sl_alloc(&next, (size_t)links + 1, sizeof *next));
    for (int i = 0; i < t->transfers; i++)
        next[t->transfer[i].from * t->ranks + t->transfer[i].to + 1]++;
    for (int link = 0; link < links; link++)
        next[link + 1] += next[link];
    memcpy(first, next, ((size_t)links + 1) * sizeof *first);
    for (int i = 0; i < t->transfers; i++)
        passage[next[t->transfer[i].from * t->ranks + t->transfer[i].to]++] =
            (sl_passage){.start = t->transfer[i].start, .arrive = t->transfer[i].arrive, .transfer = i};
    for (int link = 0; link < links; link++)
        if (first[link + 1] - first[link] > 1)
            qsort(passage + first[link], (size_t)(first[link + 1] - first[link]), sizeof *passage, by_start);
    sl_free(next);
    return SL_OK;
}

static int is_occupied(const sl_timeline *t, const sl_passage *passage, int count) {
    for (int i = 0; i < count; i++)
        if (t->transfer[passage[i].transfer].end > t->transfer[passage[i].transfer].start)
            return 1;
    return 0;
}

static void fit_links(const sl_timeline *t, sl_passage *passage, const int *first, sl_time *scratch,
                      sl_link *link, sl_time *wait) {
    for (int at = 0; at < t->ranks * t->ranks; at++) {
        sl_passage *p = passage + first[at];
        int count = first[at + 1] - first[at];
        sl_time latency, transfer;
        if (count <= WAITING_MIN || is_occupied(t, p, count) ||
            !sl_wire_fit(p, count, scratch, &latency, &transfer))
            continue;
        if (link) {
            link[at].latency = latency;
            link[at].transfer = transfer;
            link[at].lanes = 1;
        }
        for (int i = 0; i < count && wait; i++)
            wait[p[i].transfer] = p[i].wait;
    }
}

sl_status sl_wire_fit_links(const sl_timeline *t, sl_link *link, sl_time *wait) {
    sl_passage *passage;
    int *first = NULL;
    sl_time *scratch = NULL;
    for (int i = 0; i < t->transfers && wait; i++)
        wait[i] = 0;
    SL_TRY(sl_alloc(&passage, (size_t)t->transfers, sizeof *passage));
    sl_status status = sl_alloc(&first, (size_t)t->ranks * (size_t)t->ranks + 1, sizeof *first);
    SL_THEN(status, sl_alloc(&scratch, (size_t)t->transfers, sizeof *scratch));
    SL_THEN(status, collect(t, passage, first));
    if (status == SL_OK)
        fit_links(t, passage, first, scratch, link, wait);
    SL_FREE(passage, first, scratch);
    return status;
}
