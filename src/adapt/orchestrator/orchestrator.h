/* The orchestrator of a training job (Adaptra, section 3: it stands between the profiler and any scheduler):
 * what is slow, what it costs, what should be done about it, and whether that helped. Asked once, here, for
 * every body that can measure a job and change it: `train`, `campaign`, `watch`, a program through the
 * library.
 *
 *   record            an op, a message, a sum as it happened; the body's
 *   measured problem  what a replica's ops, links and sums took in an iteration (measured.h)
 *   incident          a component that is slow, from its onset to its relief: suspect, then verdict; with its
 * loss action            what to do, with cost and gain: a plan, a path, a layout, a restart, a look at the
 * network event             what people read
 *
 * The body opens a job with its shape, the plans that it begins with and what it can carry out. After each
 * iteration it gives what was measured (any part may be missing), reads events and actions until there are
 * none, carries the actions out between two iterations and says how each went. Nothing here reads a clock,
 * opens a file or starts anything; the same inputs in the same order give the same events and actions, byte
 * for byte.
 *
 * Inside (each with one file):
 *   steps      one iteration: a row, incidents, actions, and how these went
 *   history    measured problems of the last iterations, and what is healthy: the one store, the one baseline
 *   compare    history against healthy: which components are slow, by one set of thresholds
 *   common     load that two devices have in common, told by what changes
 *   loads      whether the work of iterations has grown
 *   naming     onsets and verdicts: which components are named, and when nobody can tell
 *   cases      what is slow now, by process; cards: links of a process that are as late as each other
 *   pairs      what the last look at the network says of two processes, and of one's card
 *   losses     what an iteration loses, divided among cases
 *   incidents  cases that are told: to the ladder, to people
 *   asked      questions about plans that come again, and their answers
 *   plans      what each replica runs, and what waits; plans_new: what it might run instead
 *   strategies schedule, delegates, balance, topology, restart as rungs of one ladder (adapt/ladder)
 *   events     sentences
 *   recording  what was given to it, as text, and the same again from the text
 *
 * One thread at a time. Times are ns of the body's clock, which never goes back. */
#pragma once

#include "adapt/ladder/ladder.h"
#include "adapt/model/model.h"
#include "adapt/orchestrator/measured.h"
#include "base/event.h"

typedef struct sl_orchestrator sl_orchestrator;
struct sl_unknown_job;
struct sl_unknown_view;

/* ---- opening ---- */

/* What a body may be able to do, as bits of `can`, and the ladder's rungs in this order. */
typedef enum sl_strategy_kind {
    SL_STRATEGY_SCHEDULE, /* run another order */
    SL_STRATEGY_DELEGATE, /* have delegates carry the messages, so many for each link and direction */
    SL_STRATEGY_BALANCE,  /* give replicas other numbers of microbatches */
    SL_STRATEGY_TOPOLOGY, /* let processes change places */
    SL_STRATEGY_RESTART,  /* restart without a host */
    SL_STRATEGY_KINDS
} sl_strategy_kind;

extern const char *const sl_strategy_words[SL_STRATEGY_KINDS]; /* "adapt the schedule", ... */

typedef struct sl_orchestrator_config {
    sl_job job;
    const int *split; /* [replicas] microbatches in the beginning; NULL: those of the problems */
    const sl_problem *const *problem; /* [replicas] what each is planned for; may be the same pointer. NULL:
                                         the job is a program whose pipeline nobody knows; then only
                                         sl_orchestrator_report and iteration times tell of it */
    const sl_plan *const *first; /* [replicas] the plan that each begins with; copied once each pointer */
    const char *const *host;     /* [processes] name of each process's host; NULL: each is its own. Copied */
    unsigned can;                /* bits of sl_strategy_kind */
    sl_time cost[SL_STRATEGY_KINDS], undo[SL_STRATEGY_KINDS]; /* estimates, until one was carried out */
    sl_time at_once; /* what costs no more is not waited for; 0: two healthy iterations, at least 100 ms */
    sl_time calm; /* after relief before anything is undone; 0: `hold` healthy iterations; negative: none */
    double news, least_gain; /* as the ladder's (adapt/ladder/ladder.h); 0: 20 %, 5 % */
    sl_time profile_every; /* the network is measured again so long after the last time; 0: never by itself */
    int looks;             /* the body can measure the network when asked (SL_DO_NETWORK) */
    int hold;       /* iterations that a change must last; what is half as long again is believed in 3 */
    int dwell;      /* least iterations between two swaps of a replica's plan */
    double gain;    /* least share of an iteration that a change must gain */
    long long work; /* of the search for a plan between two iterations (plan/search/replan.h) */
    int queues;     /* delegates of a link and direction; 0: as many as measurements ask for */
    int delegates;  /* that carry messages from the beginning */
    int paced;      /* the times of the problems' ops are what ops are held to */
    const struct sl_unknown_job *unknown; /* of a program whose pipeline nobody knows; copied */
    int frozen; /* nothing is changed: events, and what a change would have brought */
    struct {
        void (*line)(void *context,
                     const char *text); /* is given each call as a line, with its end; NULL: nobody is */
        void *context;
    } record; /* adapt/orchestrator/recording.h */
} sl_orchestrator_config;

/** Defaults: hold 5, dwell 20, gain 0.02, cost 5 ms, 5 ms, 1 s, 30 s, 600 s (undo the same, restart 0), all
 * else 0. */
sl_orchestrator_config sl_orchestrator_defaults(void);

/** Copies what it needs. SL_EINVAL with the reason; SL_ENOMEM. Close with sl_orchestrator_close. */
sl_status sl_orchestrator_open(const sl_orchestrator_config *config, sl_orchestrator **orchestrator);
void sl_orchestrator_close(sl_orchestrator *orchestrator);

/* ---- what is given to it ---- */

typedef struct sl_orchestrator_iteration {
    int iteration;       /* ascending */
    sl_time now;         /* at its end */
    sl_time time;        /* that it took; 0: not known */
    double work;         /* of it (tokens of all replicas, say); 0: not known */
    sl_time clock_error; /* bound of the difference of any two ranks' clocks */
    sl_measured *const
        *replica; /* [replicas] each may be NULL: not measured. Retained as long as it is needed */
    const struct sl_unknown_job
        *unknown; /* a program whose pipeline nobody knows, as it is now; copied. NULL: as before */
} sl_orchestrator_iteration;

/** One iteration has ended; the same again: only time has passed. SL_EINVAL: measured is another shape, or
 * iteration or time go back; SL_ENOMEM. */
sl_status sl_orchestrator_observe(sl_orchestrator *o, const sl_orchestrator_iteration *iteration);

/** So many further iterations, each as the last one observed, would bring neither event nor action: a
 * simulation may skip them (it still observes the one after). 0: the next one may. INT_MAX: until something
 * else is measured. `each`: what one takes. */
int sl_orchestrator_idle(const sl_orchestrator *o, sl_time each);
/** They have passed; `now` is the time behind them. At most as many as sl_orchestrator_idle said. */
sl_status sl_orchestrator_skip(sl_orchestrator *o, int iterations, sl_time now);

/* Something slow that was found elsewhere: by a validator, an operator, a watched program's calls. It is an
 * incident as if it had been measured here. */
typedef struct sl_orchestrator_report {
    int id;   /* of the reporter's choice, not negative */
    int over; /* it is well again */
    sl_slow_part part;
    int host;    /* device or card: every process of the host of `part.a` */
    double loss; /* time lost a second because of it; negative: the model says it */
    char seen[96];
} sl_orchestrator_report;

sl_status sl_orchestrator_report_slow(sl_orchestrator *o, sl_time now, const sl_orchestrator_report *report);

/* The network as it was measured, a direction between two processes. */
typedef struct sl_network_measure {
    int from, to;         /* processes */
    double latency, pace; /* ns; ns a byte */
} sl_network_measure;

/** All pairs that were measured, now. Which pair of a sum over several replicas is slow only this tells. */
sl_status sl_orchestrator_network(sl_orchestrator *o, sl_time now, const sl_network_measure *measure,
                                  int count);

/** What a strategy is estimated to cost from now on, where that changes. */
sl_status sl_orchestrator_estimate(sl_orchestrator *o, sl_strategy_kind strategy, sl_time cost);
/** Whether the job can be restarted without the host of this name; until said otherwise all hosts can be
 * left. */
sl_status sl_orchestrator_may_leave(sl_orchestrator *o, const char *host, int may);
/** The body has changed layout and plans by itself, because somebody said so: what each replica runs now.
 * Copied. */
sl_status sl_orchestrator_moved(sl_orchestrator *o, const sl_job_layout *layout, const sl_plan *const *plan);
/** A plan for a replica that was found elsewhere, by a longer search: it is considered as a new plan the next
 * time. */
sl_status sl_orchestrator_offer(sl_orchestrator *o, int replica, const sl_plan *plan);

/* ---- what it answers ---- */

/** The next event; 0: there is none. Its time is that of the body's clock, ranks are pipeline ranks of a
 * replica. */
int sl_orchestrator_event(sl_orchestrator *o, sl_event *event);

typedef enum sl_do {
    SL_DO_NOTHING,
    SL_DO_PLAN,   /* `replica` runs `plan` */
    SL_DO_PATH,   /* `layout.delegates` carry the messages of each link and direction; 0: ranks do */
    SL_DO_LAYOUT, /* processes and microbatches as in `layout`; sl_orchestrator_plan says what each replica
                     runs then */
    SL_DO_LEAVE,  /* restart without `host` */
    SL_DO_NETWORK /* measure the network: answer by sl_orchestrator_network, then carried_out */
} sl_do;

typedef struct sl_orchestrator_action {
    int id; /* for sl_orchestrator_carried_out */
    sl_do what;
    int undo; /* it takes back what was done before */
    sl_strategy_kind strategy;
    int replica;
    const sl_plan *plan;         /* the orchestrator's, until it has been carried out */
    const sl_plan *const *plans; /* LAYOUT: [replicas] what each runs then; the orchestrator's, likewise */
    sl_job_layout layout;        /* the orchestrator's, likewise */
    const char *host;
    sl_time cost;          /* of the job's time, once */
    double loss, expected; /* time lost a second now, and with it */
    sl_time lost;          /* so far, by its incidents; undo: by keeping it */
    const int *incidents;  /* ids, `count` of them */
    int count;
} sl_orchestrator_action;

/** The next action; 0: there is none. It must be answered by sl_orchestrator_carried_out before the next is
 * asked for, at once or iterations later; meanwhile there is none. */
int sl_orchestrator_next(sl_orchestrator *o, sl_orchestrator_action *action);

typedef enum sl_outcome {
    SL_OUTCOME_DONE,
    SL_OUTCOME_FAILED,
    SL_OUTCOME_REFUSED, /* this strategy is never asked for again */
    SL_OUTCOME_ADVISED  /* told to people, carried out by nobody */
} sl_outcome;

/** How it went, and what it took of the job's time. An id that is not under way: nothing happens. */
sl_status sl_orchestrator_carried_out(sl_orchestrator *o, int id, sl_time now, sl_outcome outcome,
                                      sl_time took);

/* ---- what may be asked of it ---- */

/** The plan that a replica is to run now; the orchestrator's, until it changes. NULL where no pipeline is
 * known. */
const sl_plan *sl_orchestrator_plan(const sl_orchestrator *o, int replica);
/** Whether that is another than it began with in this layout. */
int sl_orchestrator_adapted(const sl_orchestrator *o, int replica);
/** The layout as carried out so far. */
const sl_job_layout *sl_orchestrator_layout(const sl_orchestrator *o);
/** What a replica's ops should take next, from the last measurements, ns. */
sl_status sl_orchestrator_forecast(sl_orchestrator *o, int replica, sl_time *time);
/** A replica's typical problem lately, for a longer search (sl_orchestrator_offer). Free with
 * sl_problem_free. SL_ENONE: nothing was measured, or nothing is slow. */
sl_status sl_orchestrator_question(sl_orchestrator *o, int replica, sl_problem *problem);

/* An incident that lasts. */
typedef struct sl_incident_view {
    int id;
    int verdict; /* named by enough evidence; 0: suspect */
    sl_slow_part part;
    int host;      /* all processes of the host of part.a */
    int stage;     /* whose sum over replicas is slow; -1 */
    int since;     /* iteration */
    double loss;   /* time lost a second */
    double growth; /* times as long (device), or ns more (link, sum) */
    int awaited;   /* something was carried out for it, and what that brought is not measured yet */
    char seen[96];
} sl_incident_view;

/** Those that last, the costliest first; *count of them, the orchestrator's until its next call. */
const sl_incident_view *sl_orchestrator_incidents(const sl_orchestrator *o, int *count);
/* What was last considered of a strategy for an incident. */
typedef struct sl_strategy_view {
    sl_ladder_reason reason; /* SL_REASON_NONE: it is not offered, or was not asked yet */
    int in_effect;
    double expected;       /* time lost a second with it */
    sl_time cost, trigger; /* trigger: time lost at which it is applied */
    char why[96];          /* of a no; "" */
} sl_strategy_view;
/** 0: there is no such incident; one that is over keeps it until its id is given away. */
int sl_orchestrator_considered(const sl_orchestrator *o, int incident, sl_strategy_kind strategy,
                               sl_strategy_view *view);
/** What its model knows of a program whose pipeline nobody knows; NULL: there is a pipeline. */
const struct sl_unknown_view *sl_orchestrator_unknown(const sl_orchestrator *o);
/** Something is measured slow; iterations are. */
int sl_orchestrator_troubled(const sl_orchestrator *o);

/** What was considered and decided, and why, since the last time, a line each with its end; NULL: nothing.
 * The orchestrator's until its next call. */
const char *sl_orchestrator_decisions(sl_orchestrator *o);

/* ---- a resume ---- */

/** Baseline, costs learnt and open incidents as one JSON text; free with free(). SL_ENOMEM. */
sl_status sl_orchestrator_save(const sl_orchestrator *o, char **text);
/** Into one that was just opened with the same shape; SL_EINVAL: it is not of this shape, or damaged. */
sl_status sl_orchestrator_load(sl_orchestrator *o, const char *text);
