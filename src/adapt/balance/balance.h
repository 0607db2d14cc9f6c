/* How many microbatches each replica takes, so that the slowest is done as early as can be: the exact minimum
 * of max T_i(m_i) in whole numbers with 1 <= m_i <= limit_i and sum m_i = M (Falcon, section 5.3, equation 1:
 * there the least variance, which is another split: for times 7 and 11 and M = 4 it gives (2, 2) and 22).
 *
 * T_i grows with m, so the split is a selection: give everybody one microbatch, then the M - n smallest of
 * all T_i(m), m >= 2. sl_balance brackets the last of them by a threshold on time (all counts below it are
 * one division each), and chooses among the few that are left. Products are compared as they are, not
 * rounded: a double times a count is an exact pair of doubles.
 *
 * Among splits with the least maximum it takes the one whose second-largest time is least, then the third,
 * and so on; of replicas that are alike in all that the lower index takes more. */
#pragma once

#include "base/status.h"

#define SL_MAX_REPLICAS 10000000
#define SL_BALANCE_MIN 1e-200 /* time of a microbatch, in any unit */
#define SL_BALANCE_MAX 1e200
#define SL_BALANCE_FILL 1e9

/* A replica whose iteration of m microbatches takes time * (m + fill). */
typedef struct sl_replica_rate {
    double time; /* of a microbatch on its slowest rank, SL_BALANCE_MIN to SL_BALANCE_MAX */
    double fill; /* microbatches that filling and draining cost: ranks - 1 of an even pipeline; 0 to
                    SL_BALANCE_FILL, counted to 2^-20 */
    int limit;   /* most microbatches that its memory takes; 0: no limit */
} sl_replica_rate;

/** split[replicas], and *makespan: the largest time, rounded once. Expected O(replicas), whatever
 * `microbatches` is. SL_EINVAL: a number out of its range; SL_ENONE: fewer microbatches than replicas, or
 * more than the limits take. */
sl_status sl_balance(const sl_replica_rate *replica, int replicas, int microbatches, int *split,
                     double *makespan);

/** Iteration time of one replica with `microbatches`, rounded once. Never fails. */
double sl_replica_time(const sl_replica_rate *replica, int microbatches);

/** As even as can be, the first replicas one more, as `train` divides. Never fails. */
void sl_split_evenly(int replicas, int microbatches, int *split);

/* The same for times that are no formula. `time` gives the iteration time of a replica with m microbatches,
 * finite or INFINITY where its memory takes no more; it must not fall when m grows. It may be dear: it is
 * asked for few m, near the guess if that is good, but more than once for the same. Where it stays the same
 * from one m to the next the largest time is the least all the same, but not each one behind it. */
typedef struct sl_replica_curve {
    sl_status (*time)(void *context, int replica, int microbatches, double *time);
    void *context;
    const int *limit; /* [replicas], 0: no limit; NULL: no limits */
    const int *guess; /* [replicas], a split to begin with; NULL: the even one */
} sl_replica_curve;

/** As sl_balance; what `time` fails with is passed on. */
sl_status sl_balance_curve(const sl_replica_curve *curve, int replicas, int microbatches, int *split,
                           double *makespan);

/** What both begin with: room[replicas] comes with the limits (0: none) and leaves with the most that each
 * replica may take. SL_EINVAL, SL_ENONE as sl_balance. */
sl_status sl_balance_room(int replicas, int microbatches, int *room);
