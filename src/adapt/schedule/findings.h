/* What is slow in a pipeline, piece by piece: medians of the last `hold` measurements of an adaptation
 * (decision.h), or what is half as long again in two of the last three, against the level that it has learnt
 * to be healthy. For whoever decides about more than the schedule of one pipeline: which of the pieces is to
 * blame, and what an iteration would take without.
 *
 * And that level itself, so that an adaptation that begins in the middle of trouble, because replicas got
 * other hosts or another number of microbatches, does not learn trouble as healthy. */
#ifndef SL_ADAPT_FINDINGS_H
#define SL_ADAPT_FINDINGS_H

#include "adapt/schedule/decision.h"

typedef enum sl_finding_kind { SL_FINDING_DEVICE, SL_FINDING_LINK, SL_FINDING_REDUCTION } sl_finding_kind;

typedef struct sl_finding {
    sl_finding_kind kind;
    int rank;     /* device */
    int from, to; /* link, one direction */
    int stage;    /* reduction: of the gradients of this stage over the replicas */
    sl_time healthy,
        now; /* device: F, I and W of a microbatch on all its stages; link: latency and transfer */
} sl_finding;

/** Whether the healthy level is known and three iterations (of a shorter window: as many as it has) have been
 * measured since the opening. */
int sl_adaptation_ready(const sl_adaptation *adaptation);

/** findings[most], the worst growth of each kind first; *count: how many there are, at most `most`. A device
 * is one that takes a tenth longer, a link or reduction one that takes half longer, both beyond noise and
 * enough to matter in an iteration. None before it is ready.
 * SL_ENOMEM. */
sl_status sl_adaptation_findings(const sl_adaptation *adaptation, sl_finding *findings, int most, int *count);

/** Those medians. SL_ENONE before the healthy level has been learnt. Free with sl_problem_free. */
sl_status sl_adaptation_typical(const sl_adaptation *adaptation, sl_problem *problem);

/** What the running order takes on a problem of the same shape, by the timing model. */
sl_status sl_adaptation_takes(const sl_adaptation *adaptation, const sl_problem *problem, sl_time *makespan);

/** The healthy level; the adaptation's. NULL before it has been learnt. */
const sl_problem *sl_adaptation_healthy(const sl_adaptation *adaptation);
/** This is the healthy level: nothing is learnt any more. Its shape is the adaptation's but for the number of
 * microbatches. Copied. SL_EINVAL, SL_ENOMEM. */
sl_status sl_adaptation_assume(sl_adaptation *adaptation, const sl_problem *healthy);

#endif
