#include "plan/trace/interval.h"
#include "base/memory.h"

#include <stdlib.h>

sl_status sl_intervals_add(sl_intervals *all, sl_interval interval) {
    SL_TRY(sl_grow(&all->interval, &all->room, all->count + 1, sizeof *all->interval));
    all->interval[all->count++] = interval;
    return SL_OK;
}

static int compare(const void *a, const void *b) {
    const sl_interval *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->of < y->of ? -1 : x->of > y->of;
}

static void set_node(sl_intervals *all, size_t node) {
    const size_t left = 2 * node, right = left + 1;
    all->latest[node] = all->latest[left] > all->latest[right] ? all->latest[left] : all->latest[right];
    all->earliest[node] =
        all->earliest[left] < all->earliest[right] ? all->earliest[left] : all->earliest[right];
}

sl_status sl_intervals_sort(sl_intervals *all) {
    all->leaves = 1;
    while (all->leaves < all->count)
        all->leaves *= 2;
    SL_TRY(sl_alloc(&all->latest, 2 * all->leaves, sizeof *all->latest));
    SL_TRY(sl_alloc(&all->earliest, 2 * all->leaves, sizeof *all->earliest));
    if (all->count > 0)
        qsort(all->interval, all->count, sizeof *all->interval, compare);
    for (size_t i = 0; i < all->leaves; i++) {
        all->latest[all->leaves + i] = i < all->count ? all->interval[i].end : INT64_MIN;
        all->earliest[all->leaves + i] = i < all->count ? all->interval[i].end : INT64_MAX;
    }
    for (size_t node = all->leaves; --node > 0;)
        set_node(all, node);
    return SL_OK;
}

/* The first index whose key and start are not below these. */
static size_t first_index(const sl_intervals *all, uint64_t key, sl_time start) {
    size_t low = 0, high = all->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const sl_interval *i = &all->interval[middle];
        if (i->key < key || (i->key == key && i->start < start))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first index at or after `from` whose end is not below `at`; `leaves` if there is none. Goes up to the
 * subtree that has one, then down to its first. */
static size_t first_ending_after(const sl_intervals *all, size_t from, sl_time at) {
    if (from >= all->count)
        return all->leaves;
    size_t node = all->leaves + from;
    while (all->latest[node] < at) {
        while (node & 1) /* a right child: its successors are those of its parent */
            node >>= 1;
        if (node == 0)
            return all->leaves;
        node++;
    }
    while (node < all->leaves)
        node = all->latest[2 * node] >= at ? 2 * node : 2 * node + 1;
    return node - all->leaves;
}

long sl_intervals_holding(const sl_intervals *all, uint64_t key, sl_time at, size_t from) {
    const size_t first = first_index(all, key, INT64_MIN);
    const size_t last = first_index(all, key, at + 1); /* later ones begin later */
    const size_t index = first_ending_after(all, from > first ? from : first, at);
    return index < last ? (long)index : -1;
}

/* The last index below `until` whose end is not above `at`; -1: none. */
static long last_ending_before(const sl_intervals *all, size_t until, sl_time at) {
    if (until == 0)
        return -1;
    size_t node = all->leaves + until - 1;
    while (all->earliest[node] > at) {
        while (!(node & 1)) /* a left child: its predecessors are those of its parent */
            node >>= 1;
        if (node <= 1)
            return -1;
        node--;
    }
    while (node < all->leaves)
        node = all->earliest[2 * node + 1] <= at ? 2 * node + 1 : 2 * node;
    return (long)(node - all->leaves);
}

long sl_intervals_before(const sl_intervals *all, uint64_t key, sl_time at) {
    const size_t first = first_index(all, key, INT64_MIN);
    const size_t last = first_index(all, key, at + 1); /* it begins before it ends */
    const long index = last > first ? last_ending_before(all, last, at) : -1;
    return index >= (long)first ? index : -1;
}

long sl_intervals_following(const sl_intervals *all, uint64_t key, sl_time at) {
    const size_t index = first_index(all, key, at);
    return index < all->count && all->interval[index].key == key ? (long)index : -1;
}

void sl_intervals_remove(sl_intervals *all, size_t index) {
    size_t node = all->leaves + index;
    all->latest[node] = INT64_MIN;
    all->earliest[node] = INT64_MAX;
    while (node >>= 1)
        set_node(all, node);
}

void sl_intervals_free(sl_intervals *all) {
    SL_FREE(all->interval, all->latest, all->earliest);
    *all = (sl_intervals){0};
}
