/* Intervals of many keys (threads, processes), searched for those that contain an instant: sorted by key and
 * start, with a tree of the latest and the earliest end above them, so that each search is logarithmic in
 * their number for any overlap. A trace of some minutes has a million of them. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <stddef.h>
#include <stdint.h>

typedef struct sl_interval {
    uint64_t key;
    sl_time start, end; /* both inclusive */
    size_t of;          /* the caller's own index */
} sl_interval;

typedef struct sl_intervals {
    sl_interval *interval;      /* [count] */
    sl_time *latest, *earliest; /* [2 * leaves] of the ends below each node; leaves: a power of 2 */
    size_t count, leaves, room;
} sl_intervals;

/** Adds one; all must be added before sl_intervals_sort. Start with a zeroed struct; sl_intervals_free also
 * on error. */
sl_status sl_intervals_add(sl_intervals *all, sl_interval interval);
sl_status sl_intervals_sort(sl_intervals *all);

/** The index of the first by start that contains `at`, at or after index `from` (0 at first; then the last
 * result + 1). -1: none (more). Never fails. */
long sl_intervals_holding(const sl_intervals *all, uint64_t key, sl_time at, size_t from);
/** The last by start that has ended at or before `at`; the first that begins at or after `at`. -1: none. */
long sl_intervals_before(const sl_intervals *all, uint64_t key, sl_time at);
long sl_intervals_following(const sl_intervals *all, uint64_t key, sl_time at);

/** The interval at this index contains nothing from now on. */
void sl_intervals_remove(sl_intervals *all, size_t index);

void sl_intervals_free(sl_intervals *all);
