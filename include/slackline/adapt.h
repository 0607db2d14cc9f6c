/* SPDX-License-Identifier: Apache-2.0 */
/* Adapting a running job: measurements of every iteration in, the decision to change the schedule out, and
 * back on relief. Nothing happens here but the decision; the caller carries it out between two iterations.
 *
 * After each iteration the running order is replayed on what was measured, and a new plan beside it. When the
 * new one gains more than a swap costs, and more than the iterations vary by, for `hold` iterations on end,
 * the verdict is to swap. The healthy level is learnt from the first `hold` iterations. */
#ifndef SLACKLINE_ADAPT_H
#define SLACKLINE_ADAPT_H

#include <slackline/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- measurements ---- */

/** A copy of `problem` with what was measured: the median time of every stage and kind among `spans` (kinds
 * that did not run keep their time), the median latency and transfer of every link among `transfers`. Times
 * may have any origin. Free with slackline_problem_free. */
slackline_status slackline_measure(const slackline_problem *problem, const slackline_span *spans,
                                   size_t span_count, const slackline_transfer *transfers,
                                   size_t transfer_count, slackline_problem **measured);

/* ---- decisions ---- */

typedef struct slackline_adaptation slackline_adaptation;

typedef struct slackline_adaptation_options {
    const char *schedule; /* of new plans: a family's name or "auto" (the best family, no search) */
    int hold;             /* iterations that a change must last, 1 to 1000 */
    int dwell;            /* least iterations between two swaps, 1 to 100000 */
    double gain;          /* least share of the iteration that a swap must gain, 0 to 1 */
    int64_t swap_cost_ns; /* of one swap, until one has been measured */
    int frozen;           /* never swap, only say what it would bring */
} slackline_adaptation_options;

/** Fills in what `slackline train` takes: adaptra, 5, 20, 0.02, 5 ms, 0. */
void slackline_adaptation_defaults(slackline_adaptation_options *options);

/** An adaptation of a job that runs `first`, whose problem says what is expected. Copies all it needs.
 * `options` NULL: the defaults. Free with slackline_adaptation_free. */
slackline_status slackline_adaptation_make(const slackline_plan *first,
                                           const slackline_adaptation_options *options,
                                           slackline_adaptation **adaptation);
void slackline_adaptation_free(slackline_adaptation *adaptation);

typedef enum slackline_verdict { SLACKLINE_KEEP, SLACKLINE_SWAP, SLACKLINE_RETURN } slackline_verdict;

typedef struct slackline_event {
    const char *kind; /* "onset", "relief", "swap", "keep", "return" */
    int from, to;     /* the link at fault; -1: none */
    int rank;         /* the slow rank; -1: none */
    char seen[256];   /* what was measured, decided, and why: sentences, or empty */
    char decided[128];
    char why[256];
} slackline_event;

typedef struct slackline_decision {
    slackline_verdict
        verdict;        /* SWAP and RETURN: run slackline_adaptation_plan() from the next iteration on */
    int64_t running_ns; /* the running order on this iteration's measurements */
    int64_t best_ns;    /* the best candidate on them */
    int troubled;       /* this iteration was measured slow */
    int adapted;        /* it ran another plan than the first */
    int events;
    slackline_event event[4];
} slackline_decision;

/** One iteration's measurements, of the shape of the first plan's problem; iterations ascend. When it fails
 * for want of memory, *decision still says what has been decided. */
slackline_status slackline_adaptation_observe(slackline_adaptation *adaptation, int iteration,
                                              const slackline_problem *measured,
                                              slackline_decision *decision);
/** What a swap took, measured: replaces the estimate. */
void slackline_adaptation_swap_took(slackline_adaptation *adaptation, int64_t cost_ns);
/** A copy of the plan that is to run, timed on the problem that the adaptation began with, or on the last
 * observed one. Free with slackline_plan_free. */
slackline_status slackline_adaptation_plan(const slackline_adaptation *adaptation, slackline_plan **plan);

#ifdef __cplusplus
}
#endif
#endif
