/* What can be done about something slow, behind one interface (Falcon, section 5.1): adapt the schedule,
 * delegate the communication, re-balance microbatches over replicas, change the topology, restart without the
 * bad host. To ignore it is what is left when none of them is applied.
 *
 * A strategy says which causes it answers, what it costs once, and, from the timing model, how much time
 * would still be lost with it. ladder.h decides from that when which one is applied; whoever uses the ladder
 * carries that out: a run between two iterations, a simulation by its clock, a program through a hook. */
#pragma once

#include "base/status.h"
#include "base/time.h"

#define SL_STRATEGIES_MAX 8

/* Bits, so that a strategy can name several. */
typedef enum sl_cause {
    SL_CAUSE_LINK = 1,         /* between two stages */
    SL_CAUSE_REPLICA_LINK = 2, /* in the sum over replicas */
    SL_CAUSE_DEVICE = 4,
    SL_CAUSE_HOST = 8 /* all devices or all links of a host */
} sl_cause;

#define SL_CAUSES_ANY 15u

/* Something slow, from its onset to its relief. */
typedef struct sl_incident {
    int id; /* of the caller's choice, not negative; the same when it comes again in the same place */
    sl_cause cause;
    double loss;   /* time lost a second because of it, now: 0.2 where an iteration of 1 s takes 1.25 s */
    char seen[96]; /* for the log: "link 0-1: 60 ms one way, healthy 0" */
} sl_incident;

typedef struct sl_strategy {
    const char *name; /* for the log; "adapt the schedule" */
    unsigned causes;  /* SL_CAUSE_... */
    sl_time cost;     /* of the job's time, once; an estimate, until an application has taken its time */
    sl_time undo_cost;
    int returns;  /* after relief it is undone when calm has passed, even where keeping it would lose nothing
                   */
    int replaces; /* applied, it takes what is in effect for the same incidents out of effect (a restart) */

    /* Time lost a second by `incident` if this strategy were applied (again) now, beside all that is in
     * effect. As much as `incident->loss` or more: it cannot help. From the timing model; never fails. */
    double (*remaining)(void *user, const sl_incident *incident);
    /* Time lost a second where it stays in effect after relief; NULL: none. Asked when an incident begins or
     * is over. */
    double (*keeping)(void *user, const sl_incident *incident);
    void *user;
} sl_strategy;
