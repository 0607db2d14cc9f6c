/* What another arrangement of a job would bring, from its profile alone: a problem as `import` or a run
 * measures it, ranked by the effort of the change. Every time is that of a complete plan by the timing model.
 *
 *   another schedule    the same shape; a running job can change it between two iterations
 *   another microbatch  half or twice as many sequences in each, with times and memory in proportion
 *   another cut         layers between stages, more stages a rank; a restart
 *   other sizes         pipeline ranks for replicas; a restart from a checkpoint with other shards
 *
 * Layers: a profile knows stages. With the number of the model's layers, an inner layer takes what the median
 * inner stage takes for one; what the first and the last stage take in addition is the embedding and the
 * head, layers of their own; an inner rank that takes more than that is slow. */
#pragma once

#include "base/clock.h"
#include "plan/search/plan.h"

typedef enum sl_effort {
    SL_EFFORT_SCHEDULE,
    SL_EFFORT_MICROBATCH,
    SL_EFFORT_CUT,
    SL_EFFORT_SIZES,
    SL_EFFORTS
} sl_effort;

extern const char *const sl_effort_names[], *const sl_effort_means[]; /* [SL_EFFORTS] a word; what it takes */

typedef struct sl_other_options {
    int layers;        /* of the model; 0: unknown, so stages stay whole */
    int replicas;      /* of the job; 1 if unknown */
    double time_limit; /* s, for all */
    int threads;       /* 0: one per processor */
    uint64_t seed;
    const atomic_int *stop; /* nonzero: ends with what was found; or NULL */
} sl_other_options;

typedef struct sl_other {
    sl_effort effort;
    int replicas;
    double size; /* sequences of a microbatch, times those of now */
    sl_problem problem;
    sl_plan plan;
    sl_time time; /* of an iteration */
    char what[160];
} sl_other;

typedef struct sl_others {
    sl_time now;     /* the running order, or the best of all families if it is not known */
    sl_other *other; /* [count] the best of each effort, by effort */
    int count;
    char why[SL_EFFORTS][160]; /* why there is none of an effort; empty: there is one */
} sl_others;

/** The best of each effort. `running` may be NULL. SL_ENONE: not even the present shape fits into memory;
 * SL_ENOMEM. Free with sl_others_free, also on error. */
sl_status sl_others_find(const sl_problem *profile, const sl_order *running, const sl_other_options *options,
                         sl_others *others);
void sl_others_free(sl_others *others);
