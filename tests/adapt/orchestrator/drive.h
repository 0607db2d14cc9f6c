/* Drives the orchestrator with a simulated job and judges all that it says and does by what is true: each
 * promise that is broken is counted and printed with the job's seed. SL_SEED=that SL_JOBS=1 has the job
 * alone. */
#ifndef SL_TESTS_DRIVE_H
#define SL_TESTS_DRIVE_H

#include "job.h"

typedef enum promise {
    PROMISE_MEMORY,   /* no plan over memory */
    PROMISE_VALID,    /* plans are schedules of what the replica has to do */
    PROMISE_DWELL,    /* swaps of a replica's plan are `dwell` iterations apart */
    PROMISE_FLAPPING, /* what actions cost was lost before; what costs nothing changes no more often than
                         `hold` */
    PROMISE_SAME,     /* the same inputs, the same words and actions */
    PROMISE_CULPRIT,  /* nothing is named that is not slow */
    PROMISE_NAMED,    /* what costs a tenth of the iteration for long is spoken of in time */
    PROMISE_QUIET,    /* without a fault there is neither event nor action */
    PROMISE_RELIEF,   /* then incidents end and the first plan comes back */
    PROMISE_KEPT,     /* an incident lasts as long as its fault, whatever was not measured */
    PROMISE_ACTIONS, /* actions are those that the body can carry out, one at a time, and plans change by them
                        alone */
    PROMISE_IDLE,    /* where the next iterations were said to bring nothing, they bring nothing */
    PROMISE_RESUME,  /* what was saved is loaded: incidents go on */
    PROMISES
} promise;

extern const char *const promise_words[PROMISES];

/* What all jobs together came to. */
typedef struct tally {
    int jobs, events, actions[SL_STRATEGY_KINDS], networks;
    int faults, named, cannot_tell; /* that cost enough and last long enough to be judged */
    long long waited;               /* iterations until they were named, all together */
    int broken[PROMISES];
} tally;

typedef struct drive_options {
    double cost; /* share of an iteration from which a fault must be named */
    int lasts;   /* iterations that it lasts at least */
    int within;  /* iterations */
    int twice;   /* the job is run again, and must say the same */
} drive_options;

/** A tenth, 20 iterations, within 12, once. */
drive_options drive_defaults(void);

/** The whole job. `texts` (may be NULL): all that was said, to be freed; one line an event, action and
 * decision. */
void drive(const job *j, const drive_options *options, tally *sum, char **texts);

#endif
