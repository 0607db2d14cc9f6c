/* Mitigations with a common interface (Falcon, section 5.1): adapt the schedule, delegate the communication,
 * rebalance microbatches over replicas, change the topology, restart without the bad host. If none is
 * applied, the incident is ignored.
 *
 * A strategy has the causes that it mitigates, a one-time cost, and, from the timing model, the remaining
 * loss. From these, ladder.h chooses a strategy and its time. The ladder's user executes it: a run between
 * two iterations, a simulation by its clock, a program through a hook. */
#pragma once

#include "base/status.h"
#include "base/time.h"

#define SL_STRATEGIES_MAX 8

/* Bits, because a strategy can have several. */
typedef enum sl_cause {
    SL_CAUSE_LINK = 1,         /* between two stages */
    SL_CAUSE_REPLICA_LINK = 2, /* in the sum over replicas */
    SL_CAUSE_DEVICE = 4,
    SL_CAUSE_HOST = 8 /* all devices or all links of a host */
} sl_cause;

#define SL_CAUSES_ANY 15u

/* A slow component, from its onset to its relief. */
typedef struct sl_incident {
    int id; /* chosen by the caller, not negative; the same if it recurs for the same component */
    sl_cause cause;
    double loss;   /* present time lost per second: 0.2 if an iteration of 1 s takes 1.25 s */
    sl_time age;   /* for which it had been slow when it began or recurred here */
    char seen[96]; /* for the log: "link 0-1: a message takes 60.00 ms, 0.02 ms when healthy" */
} sl_incident;

typedef struct sl_strategy {
    const char *name; /* for the log; "adapt the schedule" */
    unsigned causes;  /* SL_CAUSE_... */
    sl_time cost;     /* one-time, in job time; an estimate until an application is measured */
    sl_time undo_cost;
    int returns;  /* undone once calm has passed after relief, even if keeping it would lose nothing;
                   * not while its incidents recur (ladder.h) */
    int replaces; /* when applied, it ends other strategies in effect for the same incidents (a restart) */

    /* Time lost per second by `incident` if this strategy were applied (again) now, in addition to all in
     * effect. At least `incident->loss`: it cannot help. From the timing model; never fails. */
    double (*remaining)(void *user, const sl_incident *incident);
    /* Time lost per second if it stays in effect after relief; NULL: none. Asked when an incident begins or
     * ends. */
    double (*keeping)(void *user, const sl_incident *incident);
    void *user;
} sl_strategy;
