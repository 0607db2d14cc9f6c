/* SPDX-License-Identifier: Apache-2.0 */
/* How many microbatches each replica takes, so that the slowest one is done as early as can be: the exact
 * least largest iteration time, with at least one microbatch for each. Of equally good splits it is the one
 * whose second-largest time is least, and so on; of replicas that are alike the lower index takes more.
 * Gradients of replicas that take different numbers count by them (or by their tokens) in the sum. */
#ifndef SLACKLINE_BALANCE_H
#define SLACKLINE_BALANCE_H

#include <slackline/problem.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A replica whose iteration with m microbatches takes time * (m + fill). */
typedef struct slackline_replica {
    double time; /* of a microbatch on its slowest rank, in any unit, 1e-200 to 1e200 */
    double fill; /* microbatches that filling and draining cost, 0 to 1e9: ranks - 1 of an even pipeline */
    int limit;   /* most microbatches that its memory takes; 0: no limit */
} slackline_replica;

/** split[replicas] for 1 to 10,000,000 replicas; 512 take some 20 us, 100,000 some 5 ms. *makespan (may be
 * NULL): the largest time. SLACKLINE_NO_ANSWER: fewer microbatches than replicas, or more than the limits
 * take. */
slackline_status slackline_balance(const slackline_replica *replica, int replicas, int microbatches,
                                   int *split, double *makespan);

/** The same for replicas whose pipelines are problem[replicas] (pointers may repeat), with their links,
 * collectives and memory limits: iteration times are those of plans. `schedule`: a family's name, or "auto",
 * the best family for each number. `limit`: [replicas], 0: none; or NULL. time_ns[replicas] (may be NULL):
 * what each replica's plan takes. What the problems say of microbatches does not count. Stages cut from
 * layers and bidirectional pipelines are refused. */
slackline_status slackline_balance_pipelines(const slackline_problem *const *problem, int replicas,
                                             int microbatches, const char *schedule, const int *limit,
                                             int *split, int64_t *time_ns);

#ifdef __cplusplus
}
#endif
#endif
