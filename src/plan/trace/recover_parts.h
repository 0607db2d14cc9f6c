/* What the steps of recover.c share. */
#pragma once

#include "plan/trace/recover.h"

/* An op or message with its rank and iteration. */
typedef struct sl_placed_op {
    int rank;
    int iteration; /* index */
    sl_traced_op of;
} sl_placed_op;

typedef struct sl_recovery {
    sl_traced *traced;
    const sl_recover_options *options;
    sl_recovered *result;
    int ranks, stages, microbatches;
    int *rank_of_process; /* [processes] -1: none */
    int *rank_of_stage;   /* [stages] */
    sl_placed_op *op;     /* by rank, then start; ops only */
    size_t ops;
    sl_placed_op *chosen; /* those of the chosen iteration, a part of their own, the same order */
    size_t chosens;
    int32_t *index; /* [SL_OP_KINDS][stages][microbatches] into `chosen`; -1: it did not run */
} sl_recovery;

static inline int32_t *sl_recovery_at(const sl_recovery *r, int kind, int stage, int microbatch) {
    return &r->index[((size_t)kind * (size_t)r->stages + (size_t)stage) * (size_t)r->microbatches +
                     (size_t)microbatch];
}

/* A message of the chosen iteration. */
typedef struct sl_carried {
    int from, to;               /* ranks */
    int32_t producer, consumer; /* into `chosen` */
    sl_time ready;              /* its op has ended, and the rank has begun to send it */
    sl_time arrive;             /* it was there at the latest; SL_TIME_NEVER: nothing tells */
    sl_time whole;              /* from taking the link to arrival, where the trace says; -1 */
    sl_time on_link;            /* of that on the link; -1 */
    int awaited;                /* the rank had nothing else to do: it arrived then */
    double bytes;
} sl_carried;

/** Ranks, stages, microbatches, placement and iterations; `chosen` and `index` of the one that is asked for.
 */
sl_status sl_recover_shape(sl_recovery *r);
/** Makes a process of each thread where the ranks are threads of one: see recover_threads.c. SL_ENOMEM. */
sl_status sl_recover_threads(sl_traced *traced);
/** The index of the mark, or of the only sequence: see recover_shape.c. */
sl_status sl_recover_iterations(sl_recovery *r);
/** Ops at the head of a rank's, r->op[first] to before r->op[end], that end an iteration whose begin was not
 * traced. `cells` of room, zeroed and left so, one an op of kind, stage and microbatch. */
size_t sl_recover_head(const sl_recovery *r, size_t first, size_t end, int32_t *cells);
/** Ranks whose traces begin in different iterations: op[].iteration of each is shifted so that what ran at
 * the same time has one number. *most becomes that of any rank. */
sl_status sl_recover_meet(sl_recovery *r, int *most);

/** The messages of the chosen iteration on the ranks' own clocks; *carried is the caller's. */
sl_status sl_recover_messages(const sl_recovery *r, sl_carried **carried, size_t *count);
/** The offset of each rank's clock into the result. */
sl_status sl_recover_clocks(sl_recovery *r, const sl_carried *carried, size_t count);
/** Times of `chosen` and `carried` on rank 0's clock. Ops that began before their input had left, by more
 * than a tenth of their time, count from then. */
void sl_recover_align(sl_recovery *r, sl_carried *carried, size_t count);
/** Whether all ranks had one clock: in one file, or on one host. */
int sl_recover_share_a_clock(const sl_recovery *r);
/** Latency and transfer time of each link into the result's problem. */
sl_status sl_recover_links(sl_recovery *r, sl_carried *carried, size_t count);

#define SL_QUEUE_MAX ((sl_time)(2 * SL_MAX_OP_MS * 1e6)) /* ns; a problem has no longer transfers */

/** The longest transfer time of a link whose `count` messages, in the order of arrival, cannot be
 * contradicted when each takes `delay` by itself: what queues arrives that long behind what was ready before
 * it. 0 where no positive one can be; SL_QUEUE_MAX where nothing bounds it. n log n. SL_ENOMEM. */
sl_status sl_queue_bound(const sl_carried *c, int count, sl_time delay, sl_time *transfer);
