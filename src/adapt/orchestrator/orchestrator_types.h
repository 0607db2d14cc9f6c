/* What goes into an orchestrator and comes out of it (orchestrator.h). */
#pragma once

#include "adapt/ladder/ladder.h"
#include "adapt/model/model.h"
#include "adapt/orchestrator/measured.h"

typedef struct sl_orchestrator sl_orchestrator;
struct sl_unknown_job;

/* ---- opening ---- */

/* Possible strategies of a body, as bits of `can`, and the ladder's rungs in this order. */
typedef enum sl_strategy_kind {
    SL_STRATEGY_SCHEDULE, /* run another order */
    SL_STRATEGY_DELEGATE, /* have delegates carry the messages, a number per link and direction */
    SL_STRATEGY_BALANCE,  /* change the replicas' numbers of microbatches */
    SL_STRATEGY_TOPOLOGY, /* exchange the positions of processes */
    SL_STRATEGY_RESTART,  /* restart without a host */
    SL_STRATEGY_KINDS
} sl_strategy_kind;

typedef struct sl_orchestrator_config {
    sl_job job;
    const int *split; /* [replicas] initial microbatches; NULL: the problems' numbers */
    const sl_problem *const
        *problem; /* [replicas] problem that each is planned for; pointers may repeat. NULL: a program with an
                     unknown pipeline; then its only inputs are sl_orchestrator_report and iteration times */
    const sl_plan *const *first; /* [replicas] the first plan of each; copied once per pointer */
    const char *const *host; /* [processes] name of each process's host; NULL: one host per process. Copied */
    unsigned can;            /* bits of sl_strategy_kind */
    sl_time cost[SL_STRATEGY_KINDS], undo[SL_STRATEGY_KINDS]; /* estimates, until one is measured */
    sl_time at_once; /* strategies up to this cost do not wait; 0: two healthy iterations, at least 100 ms */
    sl_time calm;    /* time from relief to an undo; 0: `hold` healthy iterations; negative: none */
    double changed, least_gain; /* as the ladder's (adapt/ladder/ladder.h); 0: 20%, 5% */
    sl_time profile_every;      /* interval between measurements of the network; 0: only on demand */
    int looks;                  /* the body can measure the network on request (SL_DO_NETWORK) */
    int hold;                   /* iterations that a change must last; 3 suffice for a growth by half */
    int dwell;                  /* minimum of iterations between two swaps of a replica's plan */
    double gain;                /* minimum gain of a change, as a share of an iteration */
    long long work;             /* of the search for a plan between two iterations (plan/search/replan.h) */
    int queues;                 /* delegates per link and direction; 0: as many as measurements require */
    int delegates;              /* that carry messages initially */
    int paced;                  /* ops are paced to the op times of the problems */
    const struct sl_unknown_job *unknown; /* of a program with an unknown pipeline; copied */
    int frozen;                           /* no actions: only events and what a change would have gained */
    struct {
        void (*line)(void *context,
                     const char *text); /* receives each call as a line, with its end; or NULL */
        void *context;
    } record; /* adapt/orchestrator/recording.h */
} sl_orchestrator_config;

/* ---- input ---- */

typedef struct sl_orchestrator_iteration {
    int iteration;       /* ascending */
    sl_time now;         /* at its end */
    sl_time time;        /* duration; 0: unknown */
    double work;         /* such as tokens of all replicas; 0: unknown */
    sl_time clock_error; /* bound on the difference between any two ranks' clocks */
    sl_measured *const
        *replica; /* [replicas] each may be NULL: not measured. References are kept as needed */
    const struct sl_unknown_job
        *unknown; /* present state of a program with an unknown pipeline; copied. NULL: unchanged */
} sl_orchestrator_iteration;

/* A slow component that was found elsewhere: by a validator, an operator, a watched program's calls. It
 * becomes an incident as if it had been measured here. */
typedef struct sl_orchestrator_report {
    int id;   /* chosen by the reporter, not negative */
    int over; /* it has recovered */
    sl_slow_part part;
    int host;    /* device or card: every process of the host of `part.a` */
    double loss; /* time lost per second; negative: use the model's estimate */
    char seen[96];
} sl_orchestrator_report;

/* A measurement of the network, one direction between two processes. */
typedef struct sl_network_measure {
    int from, to;         /* processes */
    double latency, pace; /* ns; ns per byte */
} sl_network_measure;

/* ---- output ---- */

typedef enum sl_do {
    SL_DO_NOTHING,
    SL_DO_PLAN,   /* `replica` runs `plan`; -1: all do */
    SL_DO_PATH,   /* `layout.delegates` carry the messages per link and direction; 0: ranks do */
    SL_DO_LAYOUT, /* positions and microbatches as in `layout`; sl_orchestrator_plan then has each replica's
                     plan */
    SL_DO_LEAVE,  /* restart without `host` */
    SL_DO_NETWORK /* measure the network: answer by sl_orchestrator_network, then carried_out */
} sl_do;

typedef struct sl_orchestrator_action {
    int id; /* for sl_orchestrator_carried_out */
    sl_do what;
    int undo; /* it reverts an earlier action */
    sl_strategy_kind strategy;
    int replica;
    const sl_plan *plan;         /* the orchestrator's, until carried_out */
    const sl_plan *const *plans; /* LAYOUT: [replicas] each one's plan after it; the same ownership */
    sl_job_layout layout;        /* the same ownership */
    const char *host;
    sl_time cost;          /* of the job's time, once */
    double loss, expected; /* time lost per second: now, and with the action */
    sl_time lost;          /* so far, by its incidents; undo: by keeping the strategy */
    const int *incidents;  /* ids, `count` of them */
    int count;
} sl_orchestrator_action;

typedef enum sl_outcome {
    SL_OUTCOME_DONE,
    SL_OUTCOME_FAILED,
    SL_OUTCOME_REFUSED, /* this strategy is never requested again */
    SL_OUTCOME_ADVISED  /* a user was advised; nothing was changed */
} sl_outcome;

/* ---- queries ---- */

/* An incident that lasts. */
typedef struct sl_incident_view {
    int id;
    int verdict; /* named by enough evidence; 0: suspect */
    sl_slow_part part;
    int host;      /* all processes of the host of part.a */
    int stage;     /* with a slow sum over replicas; -1: none */
    int since;     /* iteration */
    double loss;   /* time lost per second */
    double growth; /* factor (device), or additional ns (link, sum) */
    int awaited;   /* an action was carried out for it, and its effect is not measured yet */
    char seen[96];
} sl_incident_view;

/* The last consideration of a strategy for an incident. */
typedef struct sl_strategy_view {
    sl_ladder_reason reason; /* SL_REASON_NONE: not supported, or not considered yet */
    int in_effect;
    double expected;       /* time lost per second with it */
    sl_time cost, trigger; /* trigger: time lost at which it is applied */
    char why[96];          /* reason against it; or "" */
} sl_strategy_view;
