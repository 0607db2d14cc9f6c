#include "plan/draw/lanes.h"
#include "base/memory.h"

#include <stdlib.h>

void sl_lanes_free(sl_lanes *lanes) {
    SL_FREE(lanes->ride, lanes->lane);
    *lanes = (sl_lanes){0};
}

typedef struct by_link {
    const sl_transfer *t;
    int transfer;
} by_link;

static int compare_links(const void *a, const void *b) {
    const sl_transfer *x = ((const by_link *)a)->t, *y = ((const by_link *)b)->t;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return x->start != y->start                                              ? (x->start < y->start ? -1 : 1)
           : ((const by_link *)a)->transfer < ((const by_link *)b)->transfer ? -1
                                                                             : 1;
}

/* During the division into lanes, rides hold their index among the sorted messages instead of their
 * transfer. */
static int compare_rides(const void *a, const void *b) {
    const sl_ride *x = a, *y = b;
    return x->lane != y->lane ? (x->lane < y->lane ? -1 : 1) : x->transfer - y->transfer;
}

static void divide(sl_lanes *l, const by_link *order, int count, sl_time *busy) {
    int first = 0;
    for (int i = 0; i < count; i++) {
        const sl_transfer *t = order[i].t;
        if (i > 0 && (t->from != order[i - 1].t->from || t->to != order[i - 1].t->to))
            first = l->lanes;
        int lane = first;
        while (lane < l->lanes && busy[lane] > t->start)
            lane++;
        l->lanes += lane == l->lanes;
        l->lane[lane] = t;
        busy[lane] = t->arrive;
        l->ride[l->rides++] = (sl_ride){i, lane};
    }
    if (l->rides > 0)
        qsort(l->ride, (size_t)l->rides, sizeof *l->ride, compare_rides);
    for (int i = 0; i < l->rides; i++)
        l->ride[i].transfer = order[l->ride[i].transfer].transfer;
}

sl_status sl_lanes_make(const sl_timeline *t, sl_lanes *l) {
    by_link *order = NULL;
    sl_time *busy = NULL;
    const size_t most = (size_t)t->transfers;
    int count = 0;
    sl_status status;
    *l = (sl_lanes){0};
    SL_TRY_GOTO(done, status, sl_alloc(&order, most, sizeof *order));
    SL_TRY_GOTO(done, status, sl_alloc(&busy, most, sizeof *busy));
    SL_TRY_GOTO(done, status, sl_alloc(&l->ride, most, sizeof *l->ride));
    SL_TRY_GOTO(done, status, sl_alloc(&l->lane, most, sizeof(const sl_transfer *)));
    for (int i = 0; i < t->transfers; i++)
        if (t->transfer[i].arrive > t->transfer[i].start)
            order[count++] = (by_link){&t->transfer[i], i};
    if (count > 0)
        qsort(order, (size_t)count, sizeof *order, compare_links);
    divide(l, order, count, busy);
done:
    SL_FREE(order, busy);
    return status;
}
