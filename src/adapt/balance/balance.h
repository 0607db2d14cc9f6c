/* Splits microbatches over replicas so that the slowest ends as early as possible: the exact minimum of max
 * T_i(m_i) in integers with 1 <= m_i <= limit_i and sum m_i = M. (Falcon, section 5.3, equation 1, minimizes
 * the variance, which gives a different split: (2, 2) and 22 for times 7 and 11 and M = 4.)
 *
 * T_i grows with m, so the split is a selection: one microbatch per replica, then the M - n smallest of all
 * T_i(m), m >= 2. sl_balance brackets the last one by a time threshold (one division per count below it) and
 * chooses among the few left. Products are compared exactly: a double times a count is an exact pair of
 * doubles.
 *
 * Ties are broken by the second-largest time, then the third, and so on; among equal replicas the lower index
 * gets more. */
#pragma once

#include "base/status.h"

#define SL_MAX_REPLICAS 10000000
#define SL_BALANCE_MIN 1e-200 /* time of a microbatch, in any unit */
#define SL_BALANCE_MAX 1e200
#define SL_BALANCE_FILL 1e9

/* A replica whose iteration of m microbatches takes time * (m + fill). */
typedef struct sl_replica_rate {
    double time; /* of a microbatch on its slowest rank, SL_BALANCE_MIN to SL_BALANCE_MAX */
    double fill; /* cost of filling and draining in microbatches: ranks - 1 of an even pipeline; 0 to
                    SL_BALANCE_FILL, in steps of 2^-20 */
    int limit;   /* maximum of microbatches that fit in its memory; 0: no limit */
} sl_replica_rate;

/** split[replicas], and *makespan: the largest time, rounded once. Expected O(replicas) for any
 * `microbatches`. SL_EINVAL: a number out of range; SL_ENONE: fewer microbatches than replicas, or more than
 * the limits allow. */
sl_status sl_balance(const sl_replica_rate *replica, int replicas, int microbatches, int *split,
                     double *makespan);

/** Iteration time of one replica with `microbatches`, rounded once. Never fails. */
double sl_replica_time(const sl_replica_rate *replica, int microbatches);

/** As evenly as possible, the first replicas get one more, as in `train`. Never fails. */
void sl_split_evenly(int replicas, int microbatches, int *split);

/* The same for times without a formula. `time` gives the iteration time of a replica with m microbatches, or
 * INFINITY if they exceed its memory; it must not decrease with m. It may be expensive: it is called for few
 * m, near a good guess, but repeatedly for the same. If it is equal for two successive m, the largest time is
 * still minimal, but the times after it may not be. */
typedef struct sl_replica_curve {
    sl_status (*time)(void *context, int replica, int microbatches, double *time);
    void *context;
    const int *limit; /* [replicas], 0: no limit; NULL: no limits */
    const int *guess; /* [replicas], a split to start from; NULL: the even one */
} sl_replica_curve;

/** As sl_balance; errors of `time` are passed on. */
sl_status sl_balance_curve(const sl_replica_curve *curve, int replicas, int microbatches, int *split,
                           double *makespan);

/** Checks shared by both: on entry room[replicas] holds the limits (0: none), on return the most that each
 * replica may take. SL_EINVAL, SL_ENONE as sl_balance. */
sl_status sl_balance_room(int replicas, int microbatches, int *room);
