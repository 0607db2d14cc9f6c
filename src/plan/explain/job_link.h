/* What a worker sends and receives in one direction, as series of times: how the layout of a job and the
 * offsets of its clocks are found. */
#pragma once

#include "plan/explain/job_trace.h"

typedef struct sl_hybrid_link {
    int ops, sends, receives; /* per step, in the median step; messages without effect left out */
    int count_sent, count_received;
    sl_time *sent, *received; /* ends, of all steps, in order */
    int64_t *sent_step, *received_step;
} sl_hybrid_link;

/** Of one worker: activations (direction 1, of forwards) or gradients (2). SL_ENOMEM. */
sl_status sl_hybrid_link_read(const sl_hybrid_trace *trace, int worker, int direction, sl_hybrid_link *link);
void sl_hybrid_link_free(sl_hybrid_link *link);

/** The time from a send's end to its receive's, ns, if `to` receives what `from` sends: the median, and in
 * *spread (may be NULL) the median deviation from it. Returns the number of messages compared; 0: there are
 * none, or their numbers in a step differ. */
int sl_hybrid_link_compare(const sl_hybrid_link *from, const sl_hybrid_link *to, sl_time *median,
                           sl_time *spread);

/** The same of the least such time of each step: of a message that its receiver awaited. Workers may ask for
 * a message only when they need it; those of a late one then end with its asking. With fewer than three
 * steps, of all messages. */
int sl_hybrid_link_awaited(const sl_hybrid_link *from, const sl_hybrid_link *to, sl_time *median,
                           sl_time *spread);

/** Whether a message has no effect, as some tracers record them around a step: a receive that begins after
 * the last computation that could use it (`last_start`), a send that ends before any could have produced it
 * (`first_end`). */
static inline int sl_hybrid_is_idle_receive(const sl_hybrid_event *e, sl_time last_start) {
    return e->start > last_start + 50000;
}
static inline int sl_hybrid_is_idle_send(const sl_hybrid_event *e, sl_time first_end) {
    return e->end < first_end - 50000 && !e->open;
}
