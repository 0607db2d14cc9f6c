/* SPDX-License-Identifier: Apache-2.0 */
/* Splits microbatches over replicas so that the largest iteration time is minimal (exact), with at least one
 * microbatch per replica. Ties are broken by the second-largest time, and so on; among equal replicas the
 * lower index gets more. If the numbers differ, weight each replica's gradients in the sum by its
 * microbatches (or tokens). */
#ifndef SLACKLINE_BALANCE_H
#define SLACKLINE_BALANCE_H

#include <slackline/problem.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A replica whose iteration with m microbatches takes time * (m + fill). */
typedef struct slackline_replica {
    double time; /* of a microbatch on its slowest rank, in any unit, 1e-200 to 1e200 */
    double fill; /* cost of filling and draining in microbatches, 0 to 1e9: ranks - 1 if even */
    int limit;   /* maximum of microbatches that fit in its memory; 0: no limit */
} slackline_replica;

/** split[replicas] for 1 to 10,000,000 replicas; 512 take about 20 us, 100,000 about 5 ms. *makespan (may be
 * NULL): the largest time. SLACKLINE_NO_ANSWER: fewer microbatches than replicas, or more than the limits
 * allow. */
slackline_status slackline_balance(const slackline_replica *replica, int replicas, int microbatches,
                                   int *split, double *makespan);

/** The same for replicas with the pipelines problem[replicas] (pointers may repeat), including links,
 * collectives and memory limits: iteration times are those of plans. `schedule`: a family's name, or "auto"
 * for the best family per number. `limit`: [replicas], 0: none; or NULL. time_ns[replicas] (may be NULL):
 * makespan of each replica's plan. The problems' own numbers of microbatches are ignored. Stages cut from
 * layers and bidirectional pipelines are rejected. */
slackline_status slackline_balance_pipelines(const slackline_problem *const *problem, int replicas,
                                             int microbatches, const char *schedule, const int *limit,
                                             int *split, int64_t *time_ns);

#ifdef __cplusplus
}
#endif
#endif
