/* The time for which a message occupies its link, from starts and arrivals alone. A transport that hands
 * messages to the kernel, and a framework that reports only when a receive has completed, cannot say when a
 * message has left the link. On a link of limited rate, messages then seem to take the longer the more of
 * them are under way. */
#pragma once

#include "plan/pipeline/problem.h"
#include "plan/timing/timeline.h"

/* A message of one link. */
typedef struct sl_passage {
    sl_time start, arrive;
    sl_time wait; /* for earlier messages of the link; an answer of sl_wire_fit */
    int transfer; /* its number in the timeline */
} sl_passage;

/** Whether the passages of a link, sorted by start, are those of a wire that carries one message at a time,
 * for
 * `*transfer` each, and delivers it `*latency` later: if that explains most of the differences between the
 * messages' times. Else 0: the messages did not wait for each other, or not enough of them were under way at
 * the same time; waits are then 0. Uses scratch[count]. */
int sl_wire_fit(sl_passage *passage, int count, sl_time *scratch, sl_time *latency, sl_time *transfer);

/** Fits each link of a measured timeline whose messages have no recorded occupancy (they all end when they
 * start). Where a wire explains the times, link[ranks * ranks] of the problem gets its latency, transfer, and
 * one lane; wait[transfers] gets the time for which each message waited for earlier ones, else 0. Either may
 * be NULL. SL_ENOMEM. */
sl_status sl_wire_fit_links(const sl_timeline *measured, sl_link *link, sl_time *wait);
