/* The timing of one directed emulated link, as pure data: messages in, times out, no clock and no thread.
 *
 * First come first served by ready time, then index: a message takes the link at start = max(ready, link
 * free), leaves it at end = start + bytes / bandwidth, and is due at end + latency, but never before the
 * message in front of it, so a latency that shrinks in mid-stream lets nobody overtake. A message offered
 * late may go in front of others that have not started (start > the time of the offer); their times move. The
 * result depends only on the sequence of offers and on the times they carry, not on when the owner gets to
 * look: a run on the virtual clock is repeatable.
 *
 * One thread owns a link: the one that publishes its messages. */
#ifndef SL_RUN_TRANSPORT_LINK_H
#define SL_RUN_TRANSPORT_LINK_H

#include "run/transport/transport.h"

typedef struct sl_link_message {
    sl_time handed; /* when it was offered */
    sl_time ready;  /* from when on it may take the link */
    uint64_t bytes;
    uint32_t index;
    int32_t record; /* the caller's */
    sl_link_emulation emulation;
    sl_time start, end, due; /* filled by the link */
} sl_link_message;

typedef struct sl_link {
    sl_link_message *message; /* ring of `capacity`, in the order of the link */
    int capacity, first, count;
    sl_time free_at;  /* end of the last message taken away */
    sl_time last_due; /* its due time */
} sl_link;

sl_status sl_link_open(sl_link *link, int capacity);
void sl_link_close(sl_link *link);

/** Time that `bytes` occupy the link: nearest ns; 0 when the bandwidth is not a positive number. */
sl_time sl_link_transfer(uint64_t bytes, double bytes_per_second);

/** Queues a message; start, end and due of it and of those behind it are set. At most `capacity` are queued
 * (the caller has as many records). */
void sl_link_offer(sl_link *link, const sl_link_message *message);

/** The next message to publish, or NULL; valid until the next call. */
const sl_link_message *sl_link_head(const sl_link *link);

/** Takes the head away: it has been published, nothing goes in front of it any more. */
void sl_link_take(sl_link *link);

#endif
