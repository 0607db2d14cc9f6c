/* Recovering: from what was collected of a trace (collect.h) to a problem that a planner takes, with the
 * order and the times that were traced.
 *
 * 1. Shape (recover_shape.c): processes become ranks by their lowest stage, or by their number where names
 *    say no stage; a repeated op, or a mark, begins another iteration; the stages' places tell the placement.
 * 2. Clocks (recover_clock.c): where a message arrives before it left, the clocks of two ranks differ; the
 *    least delays of both directions tell by how much, as a round trip does (notice/record/offset.h).
 * 3. Links (recover_link.c): a message leaves when its op ends and has arrived when the op that needs it
 *    begins. Where the rank had nothing else to do, it waited for just that, and this is the link's delay.
 *    Messages that queue behind each other arrive a transfer time apart; where none does, all of the delay
 *    is latency.
 * 4. Op times are medians over microbatches (plan/timing/profile.h), or means: where ops are held up now and
 *    then (several ranks on a core), only means add up to what a rank was busy. */
#pragma once

#include "plan/pipeline/order.h"
#include "plan/timing/timeline.h"
#include "plan/trace/collect.h"

typedef struct sl_recover_options {
    int64_t iteration; /* which; -1: the one of median time, without the first where there are others */
    int microbatches;  /* of an iteration, where names do not number them; 0: found out */
    int shared_clock;  /* all ranks had one clock */
    int mean;          /* op times are means over microbatches, not medians */
} sl_recover_options;

typedef struct sl_traced_iteration {
    int64_t number; /* its mark, or from 0 in the order of time */
    int ops;
    int complete;
    sl_time makespan; /* by the trace's clocks as they are; 0 where it is not complete */
} sl_traced_iteration;

typedef struct sl_traced_link {
    int messages; /* in the iteration */
    int awaited;  /* that were waited for: they tell the delay. 0: it is at most what `delay` says */
    int queued;   /* that came behind another one: they tell the transfer time */
    double bytes; /* median; 0: the trace does not say */
} sl_traced_link;

typedef struct sl_recovered {
    sl_problem problem;
    sl_order order;
    sl_timeline timeline; /* measured, from the iteration's begin, on one clock */
    sl_traced_iteration *iteration;
    int iterations, chosen;
    sl_traced_link *link;  /* [ranks * ranks] */
    sl_time *offset;       /* [ranks] how far its clock was ahead of rank 0's */
    sl_time *offset_error; /* [ranks] bound; 0 where the clock was left alone */
    int *process;          /* [ranks] index into the trace's processes */
    int halved;            /* stages whose I and W were never seen: half of B each */
    int waiting;           /* ops whose label began before their input had left; they count from then */
    int left_out;          /* ops of other replicas */
    int overlapping;       /* ops that began before the one before had ended, by a tenth of their time */
    int overlapping_rank;  /* of the first of them */
} sl_recovered;

/** SL_EINVAL: what was traced is no pipeline that can be planned; the text says what is missing or twice.
 * `traced` is changed (its ops are sorted and numbered). Free with sl_recovered_free, also on error. */
sl_status sl_recover(sl_traced *traced, const sl_recover_options *options, sl_recovered *recovered);
void sl_recovered_free(sl_recovered *recovered);
