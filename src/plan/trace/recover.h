/* Recovering: turns the collected ops of a trace (collect.h) into a problem for the planner, with the order
 * and the times that were traced.
 *
 * 1. Shape (recover_shape.c): processes become ranks by their lowest stage, or by their number if names have
 *    no stage; a repeated op, or a mark, begins another iteration; the ranks of the stages give the
 *    placement.
 * 2. Clocks (recover_clock.c): if a message arrives before it left, the clocks of two ranks differ; the
 *    minimum delays of both directions give the offset, as in a round trip (notice/record/offset.h).
 * 3. Links (recover_link.c): a message leaves when its op ends and has arrived when the op that needs it
 *    begins. If the rank had nothing else to do, it waited only for the message, and this is the link's
 *    delay. Messages that queue one after the other arrive a transfer time apart; if none does, all of the
 *    delay is latency.
 * 4. Op times are medians over microbatches (plan/timing/profile.h), or means: if ops are delayed now and
 *    then (several ranks on a core), only means add up to the busy time of a rank. */
#pragma once

#include "plan/pipeline/order.h"
#include "plan/timing/timeline.h"
#include "plan/trace/collect.h"

typedef struct sl_recover_options {
    int64_t iteration; /* its mark; -1: the one of median time, without the first if there are others */
    int microbatches;  /* of an iteration, if names do not number them; 0: found automatically */
    int shared_clock;  /* all ranks had one clock */
    int mean;          /* op times are means over microbatches, not medians */
} sl_recover_options;

typedef struct sl_traced_iteration {
    int64_t number; /* its mark, or from 0 in order of time */
    int ops;
    int complete;
    sl_time makespan; /* by the trace's unchanged clocks; 0 if it is incomplete */
} sl_traced_iteration;

typedef struct sl_traced_link {
    int messages; /* in the iteration */
    int awaited;  /* that were waited for, which gives the delay. 0: it is at most `delay` */
    int queued;   /* that queued after another one, which gives the transfer time */
    double bytes; /* median; 0: unknown */
} sl_traced_link;

typedef struct sl_recovered {
    sl_problem problem;
    sl_order order;
    sl_timeline timeline; /* measured, from the iteration's begin, on one clock */
    sl_traced_iteration *iteration;
    int iterations, chosen;
    sl_traced_link *link;  /* [ranks * ranks] */
    sl_time *offset;       /* [ranks] by how much its clock was ahead of rank 0's */
    sl_time *offset_error; /* [ranks] bound; 0 if the clock was not changed */
    int *process;          /* [ranks] index into the trace's processes */
    int halved;            /* stages whose I and W were never seen: half of B each */
    int waiting;           /* ops whose label began before their input had left; they count from then */
    int left_out;          /* ops of other replicas */
    int overlapping;       /* ops that began before the previous one had ended, by a tenth of their time */
    int overlapping_rank;  /* of the first of them */
} sl_recovered;

/** SL_EINVAL: the trace is not a pipeline that can be planned; the text names what is missing or duplicate.
 * `traced` is changed (its ops are sorted and numbered). Free with sl_recovered_free, also on error. */
sl_status sl_recover(sl_traced *traced, const sl_recover_options *options, sl_recovered *recovered);
void sl_recovered_free(sl_recovered *recovered);
