/* Shared by the steps of recover.c. */
#pragma once

#include "plan/trace/recover.h"

/* An op or message with its rank and iteration. */
typedef struct sl_rank_op {
    int rank;
    int iteration; /* index */
    sl_traced_op of;
} sl_rank_op;

typedef struct sl_recovery {
    sl_traced *traced;
    const sl_recover_options *options;
    sl_recovered *result;
    int ranks, stages, microbatches;
    int *rank_of_process; /* [processes] -1: none */
    int *rank_of_stage;   /* [stages] */
    sl_rank_op *op;       /* by rank, then start; ops only */
    size_t ops;
    sl_rank_op *chosen; /* those of the chosen iteration, a separate part in the same order */
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
    sl_time arrive;             /* latest possible arrival; SL_TIME_NEVER: unknown */
    sl_time whole;              /* from taking the link to arrival, if the trace has it; else -1 */
    sl_time on_link;            /* part of that on the link; -1: unknown */
    int awaited;                /* the rank had nothing else to do, so it arrived then */
    double bytes;
} sl_carried;

/** Ranks, stages, microbatches, placement and iterations; `chosen` and `index` of the requested one. */
sl_status sl_recover_shape(sl_recovery *r);
/** Makes each thread a process if the ranks are threads of one process (recover_threads.c). SL_ENOMEM. */
sl_status sl_recover_threads(sl_traced *traced);
/** The index of the mark, or of the only sequence: see recover_shape.c. */
sl_status sl_recover_iterations(sl_recovery *r);
/** Number of ops at the head of a rank's, r->op[first] to before r->op[end], that end an iteration whose
 * begin was not traced. `cells`: scratch, zeroed before and after, one entry per op by kind, stage and
 * microbatch. */
size_t sl_recover_head(const sl_recovery *r, size_t first, size_t end, int32_t *cells);
/** Ranks whose traces begin in different iterations: op[].iteration of each is shifted so that simultaneous
 * iterations have the same number. *most becomes the maximum of all ranks. */
sl_status sl_recover_meet(sl_recovery *r, int *most);

/** The messages of the chosen iteration on the ranks' own clocks; *carried is the caller's. */
sl_status sl_recover_messages(const sl_recovery *r, sl_carried **carried, size_t *count);
/** The offset of each rank's clock into the result. */
sl_status sl_recover_clocks(sl_recovery *r, const sl_carried *carried, size_t count);
/** Converts times of `chosen` and `carried` to rank 0's clock. The time of ops that began before their input
 * had left, by more than a tenth of their time, counts from its departure. */
void sl_recover_align(sl_recovery *r, sl_carried *carried, size_t count);
/** Whether all ranks had one clock: in one file, or on one host. */
int sl_recover_share_a_clock(const sl_recovery *r);
/** Latency and transfer time of each link into the result's problem. */
sl_status sl_recover_links(sl_recovery *r, sl_carried *carried, size_t count);

#define SL_QUEUE_MAX ((sl_time)(2 * SL_MAX_OP_MS * 1e6)) /* ns; the longest transfer of a problem */

/** The longest transfer time of a link that its `count` messages, in order of arrival, do not contradict if
 * each takes `delay` by itself: a queued message arrives that long after the ones that were ready before it.
 * 0 if no positive one is possible; SL_QUEUE_MAX if nothing bounds it. n log n. SL_ENOMEM. */
sl_status sl_queue_bound(const sl_carried *c, int count, sl_time delay, sl_time *transfer);
