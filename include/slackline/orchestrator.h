/* SPDX-License-Identifier: Apache-2.0 */
/* The orchestrator of a training job: measurements of every iteration in; what is slow, what it costs and
 * what to do about it out (Adaptra, arXiv:2504.19232, section 6: it stands between the profiler and the
 * scheduler; the order of the remedies is Falcon's, arXiv:2410.12588, section 5.1).
 *
 *   open          the job's shape, its first plans, what the caller can carry out
 *   observe       one iteration has ended: what was measured; anything may be missing
 *   event         what people read: onset, suspect, verdict, relief, decision
 *   action        what to do between two iterations: a plan, a path, a layout, ...
 *   carried_out   how it went
 *
 * It decides, and the caller acts: nothing here reads a clock, opens a file, starts a thread or prints. The
 * same calls in the same order give the same events and actions. One orchestrator is for one thread at a
 * time.
 *
 * Every argument is checked. A call that fails has changed nothing that is seen, unless it is said here, and
 * its reason is in slackline_error(). Functions without a status give 0, NULL or -1 when they are misused,
 * and the reason is there as well. SLACKLINE_NO_MEMORY: every allocation may fail.
 *
 * Times are ns of the caller's clock, which never goes back; clocks of different ranks are aligned by the
 * caller to within `clock_error_ns`. A process is a device of the job; position (rank, replica, tensor rank)
 * has the number (rank * replicas + replica) * tensor + tensor rank, and process p was at position p in the
 * beginning. */
#ifndef SLACKLINE_ORCHESTRATOR_H
#define SLACKLINE_ORCHESTRATOR_H

#include <slackline/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct slackline_orchestrator slackline_orchestrator;

/* ---- opening ---- */

/* What can be done about something slow, from the cheapest to the most expensive (Falcon, section 5.1). */
typedef enum slackline_strategy {
    SLACKLINE_SCHEDULE, /* run another order */
    SLACKLINE_DELEGATE, /* have delegate processes carry the messages between stages (Adaptra, section 5) */
    SLACKLINE_BALANCE,  /* give replicas other numbers of microbatches */
    SLACKLINE_TOPOLOGY, /* let processes change places */
    SLACKLINE_RESTART   /* restart without a host */
} slackline_strategy;

#define SLACKLINE_STRATEGIES 5
/* Bits of slackline_job.can. */
#define SLACKLINE_CAN(strategy) (1u << (strategy))

/* A job's shape. Everything is copied.
 *
 * Of a program whose pipeline nobody knows `problem` and `first` are NULL. Then `replicas` counts processes
 * that do the same (of data parallelism, with 1 rank and 1 tensor rank, all of them), `split` their
 * microbatches, equal in the beginning (NULL: one each), and `can` holds what needs no pipeline:
 * SLACKLINE_BALANCE, SLACKLINE_TOPOLOGY, SLACKLINE_RESTART. Iteration times tell when something is slow, and
 * reports what (slackline_orchestrator_report), until they are over. Ops and messages are refused, and so is
 * a save; plans, forecasts and questions are SLACKLINE_NO_ANSWER. A SLACKLINE_DO_LAYOUT has the split where
 * each process is a replica, else nothing. */
typedef struct slackline_job {
    int replicas, ranks;                     /* pipelines, and ranks of each */
    int tensor;                              /* processes of a rank */
    const slackline_problem *const *problem; /* [replicas] each when nothing is slow; pointers may repeat */
    const slackline_plan *const *first;      /* [replicas] what each begins with; pointers may repeat */
    const int *split;        /* [replicas] microbatches of each; NULL: those of the problems */
    const char *const *host; /* [processes] name of each process's host; NULL: each has its own */
    unsigned can;            /* SLACKLINE_CAN(..) | ..: what the caller can carry out */
    int looks;               /* it can also measure the network when asked (SLACKLINE_DO_NETWORK) */
    int delegates;           /* that carry the messages in the beginning; 0: ranks send by themselves */
    double message_bytes;    /* of an activation between stages, per tensor rank */
    const double *sum_bytes; /* [stages] of a process's gradients of a stage; NULL: sums are not modelled */
    int ring;  /* sums over replicas go round a ring; 0: each replica exchanges its share with every other */
    int paced; /* the times of the problems' ops are what ops are held to */
} slackline_job;

typedef struct slackline_orchestrator_options {
    const char *schedule; /* of new plans: a family's name or "auto" (the best family) */
    int hold;    /* iterations that a change must last, 1 to 32; if half as much again is lost, 3 suffice */
    int dwell;   /* least iterations between two plans of a replica */
    double gain; /* least share of an iteration that a new plan must gain, 0 to 1 */
    /* of each strategy, of the job's time, until one has been carried out, which replaces the estimate */
    int64_t cost_ns[SLACKLINE_STRATEGIES], undo_cost_ns[SLACKLINE_STRATEGIES];
    int64_t at_once_ns; /* what costs no more is done at once; 0: two healthy iterations, at least 100 ms */
    int64_t profile_every_ns; /* interval between measurements of the network; 0: only if something is slow */
    int queues;               /* delegates of a link and direction; 0: as many as measurements ask for */
    int64_t work;  /* ops that a search for a plan may replay between two iterations; 0: no search */
    double effort; /* of a search for places, as in slackline_topology_search */
    uint64_t seed; /* of these searches */
    int frozen;    /* nothing is done: events only, and what a change would have brought */
} slackline_orchestrator_options;

/** Fills in: auto, hold 5, dwell 20, gain 0.02, costs 5 ms, 5 ms, 1 s, 30 s and 600 s (the same to undo, a
 * restart nothing), work 700,000 (some 5 ms), effort 1, seed 1, all else 0. */
void slackline_orchestrator_defaults(slackline_orchestrator_options *options);

/** `options` NULL: the defaults. SLACKLINE_INVALID: shapes that do not fit together, an unknown schedule,
 * numbers out of range. Close with slackline_orchestrator_close, which takes NULL. */
slackline_status slackline_orchestrator_open(const slackline_job *job,
                                             const slackline_orchestrator_options *options,
                                             slackline_orchestrator **orchestrator);
void slackline_orchestrator_close(slackline_orchestrator *orchestrator);

/* ---- what is given to it ---- */

/* What was measured of one replica, as far as it is known; an array may be NULL with a count of 0. What
 * slackline_plan_span and slackline_plan_transfer give of a simulated order can be given as it is. */
typedef struct slackline_measurements {
    /* Ops, whole (no parts); of a pair F and its B one after the other, with equal times. Collectives and
     * moves as slackline_plan_span has them; SLACKLINE_REDUCE from when this replica came to the sum over
     * replicas until it was done. A stage's sum counts where every replica was measured: from the last one's
     * coming to the end, so that waiting for a slow replica is not held against the network. */
    const slackline_span *span;
    size_t spans;
    const double *span_work; /* [spans] tokens, say, that its time follows; 0: not known. NULL: none is */
    const slackline_transfer *transfer;
    size_t transfers;
    const double *transfer_work; /* [transfers] bytes, likewise */
} slackline_measurements;

typedef struct slackline_iteration {
    int iteration;                         /* its number; ascending */
    int64_t now_ns;                        /* at its end */
    int64_t time_ns;                       /* that it took; 0: not known */
    double work;                           /* of it, tokens of all replicas, say; 0: not known */
    int64_t clock_error_ns;                /* bound of the difference of any two ranks' clocks */
    const slackline_measurements *replica; /* [replicas], empty: not measured. NULL: none is */
} slackline_iteration;

/** One iteration has ended. SLACKLINE_INVALID: iteration or time go back, or there is no such op or link.
 * The same iteration again: only time has passed. SLACKLINE_NO_MEMORY: the iteration is lost; the next one
 * may be observed. */
slackline_status slackline_orchestrator_observe(slackline_orchestrator *orchestrator,
                                                const slackline_iteration *iteration);

typedef enum slackline_part {
    SLACKLINE_DEVICE, /* process a: its ops take `slowdown` times as long */
    SLACKLINE_LINK,   /* between processes a and b */
    SLACKLINE_CARD    /* whatever process a sends and receives: its network card */
} slackline_part;

/* A component that is slow. */
typedef struct slackline_slow {
    slackline_part part;
    int a, b;              /* processes; b -1 but for links */
    int host;              /* 1: a device or card of every process on the host of `a` */
    double slowdown;       /* device: 2 for twice the time */
    double latency_ns[2];  /* link, card: more than healthy, one way; [0] from a (to b), [1] back */
    double ns_per_byte[2]; /* more than healthy, likewise */
} slackline_slow;

/* Something slow that was found elsewhere: by a test, an operator, a watched program's calls. */
typedef struct slackline_report {
    int id;   /* of the caller's choice, not negative; the same in the report that it is over */
    int over; /* 1: it is well again */
    slackline_slow slow;
    double loss;      /* time lost per second because of it, 0 to 1; negative: the timing model's estimate */
    const char *seen; /* a sentence for people, up to 95 bytes; or NULL */
} slackline_report;

/** It becomes an incident as if it had been measured here. */
slackline_status slackline_orchestrator_report(slackline_orchestrator *orchestrator, int64_t now_ns,
                                               const slackline_report *report);

/* The network between two processes, one direction. */
typedef struct slackline_network {
    int from, to; /* processes */
    double latency_ns, ns_per_byte;
} slackline_network;

/** All pairs that were measured, now; which pair is slow in a sum over several replicas, only this tells. */
slackline_status slackline_orchestrator_network(slackline_orchestrator *orchestrator, int64_t now_ns,
                                                const slackline_network *pair, size_t pairs);

/** What a strategy is estimated to cost from now on, of the job's time. */
slackline_status slackline_orchestrator_estimate(slackline_orchestrator *orchestrator,
                                                 slackline_strategy strategy, int64_t cost_ns);
/** Whether the job could be restarted without the host of this name; at first every host can be left. */
slackline_status slackline_orchestrator_may_leave(slackline_orchestrator *orchestrator, const char *host,
                                                  int may);
/** A plan that was found by a longer search (see slackline_orchestrator_question); considered from the next
 * iteration on. Copied. */
slackline_status slackline_orchestrator_offer(slackline_orchestrator *orchestrator, int replica,
                                              const slackline_plan *plan);

/* ---- what it answers; both are asked after every call above until there is nothing more ---- */

typedef struct slackline_event {
    const char
        *kind; /* "onset", "suspect", "verdict", "swap", "relief", "decision", ...; docs/formats.md has all */
    int64_t time_ns; /* of the caller's clock */
    int iteration;
    int from, to, rank; /* ranks of the replica's pipeline that it is about; -1: none */
    int replica;        /* -1: all, or there is one */
    char seen[256];     /* what was measured, decided, and why: sentences, or empty */
    char decided[128];
    char why[256];
} slackline_event;

/** 1 and the next event; 0: there is none. */
int slackline_orchestrator_event(slackline_orchestrator *orchestrator, slackline_event *event);

/* Where processes sit, how many microbatches replicas take, who carries the messages. */
typedef struct slackline_layout {
    const int *process; /* [processes] that sits at each position */
    const int *split;   /* [replicas] microbatches */
    int delegates;      /* of a link and direction; 0: ranks send by themselves */
} slackline_layout;

typedef enum slackline_do {
    SLACKLINE_DO_NOTHING,
    SLACKLINE_DO_PLAN,   /* `replica` runs slackline_orchestrator_plan(replica) */
    SLACKLINE_DO_PATH,   /* `layout.delegates` processes carry the messages of each link and direction; 0: the
                            ranks */
    SLACKLINE_DO_LAYOUT, /* processes sit and replicas take microbatches as in `layout`;
                          * slackline_orchestrator_plan has each one's plan once it is carried out */
    SLACKLINE_DO_LEAVE,  /* save, and restart without `host` */
    SLACKLINE_DO_NETWORK /* measure the network: slackline_orchestrator_network, then carried_out */
} slackline_do;

typedef struct slackline_action {
    slackline_do what;
    int id;                  /* for slackline_orchestrator_carried_out */
    int undo;                /* it takes back what was done before */
    int strategy;            /* slackline_strategy that it belongs to; -1 for SLACKLINE_DO_NETWORK */
    int replica;             /* -1: all */
    slackline_layout layout; /* the orchestrator's, until carried_out; pointers NULL where it says nothing */
    const char *host;        /* likewise */
    int64_t cost_ns;         /* estimate, of the job's time, once */
    double loss, expected;   /* time lost per second now, and with it */
    const int *incident;     /* [incidents] ids; the orchestrator's, until carried_out */
    int incidents;
} slackline_action;

/** 1 and the next action; 0: there is none, or the last one has not been answered yet. */
int slackline_orchestrator_action(slackline_orchestrator *orchestrator, slackline_action *action);

typedef enum slackline_outcome {
    SLACKLINE_DONE,
    SLACKLINE_FAILED,  /* nothing has changed; tried again when more has been lost */
    SLACKLINE_REFUSED, /* nothing has changed, and this strategy is never asked for again */
    SLACKLINE_ADVISED  /* nothing has changed; people were told */
} slackline_outcome;

/** How the action `id` went, at once or iterations later, and what it took of the job's time, which replaces
 * the estimate. SLACKLINE_INVALID: this action is not under way. */
slackline_status slackline_orchestrator_carried_out(slackline_orchestrator *orchestrator, int id,
                                                    int64_t now_ns, slackline_outcome outcome,
                                                    int64_t took_ns);

/* ---- what may be asked of it ---- */

/** A copy of the plan that a replica is to run: the one of a SLACKLINE_DO_PLAN under way, else the running
 * one. Its times are those on what was measured last. Free with slackline_plan_free. */
slackline_status slackline_orchestrator_plan(const slackline_orchestrator *orchestrator, int replica,
                                             slackline_plan **plan);
/** Whether a replica runs another plan than it began with in this layout; -1: there is no such replica. */
int slackline_orchestrator_adapted(const slackline_orchestrator *orchestrator, int replica);
/** The layout as carried out so far; its pointers are the orchestrator's, until its next call. */
slackline_status slackline_orchestrator_layout(const slackline_orchestrator *orchestrator,
                                               slackline_layout *layout);
/** What a replica's ops should take next, from the last measurements. */
slackline_status slackline_orchestrator_forecast(slackline_orchestrator *orchestrator, int replica,
                                                 int64_t *time_ns);
/** A replica as it was measured of late, for a longer search, whose plan is offered. SLACKLINE_NO_ANSWER:
 * nothing was measured, or nothing is slow. Free with slackline_problem_free. */
slackline_status slackline_orchestrator_question(slackline_orchestrator *orchestrator, int replica,
                                                 slackline_problem **problem);

/* Something slow, from its onset to its relief. */
typedef struct slackline_incident {
    int id;
    int verdict; /* 1: enough evidence names it; 0: a suspect */
    slackline_slow slow;
    int stage;     /* whose sum over replicas is slow; -1 */
    int since;     /* iteration */
    double loss;   /* time lost per second because of it */
    double growth; /* times as long (device), or ns more (link, sum) */
    char seen[96];
} slackline_incident;

/** How many incidents last, and the costliest `most` of them, in that order, into incident[most] (NULL with
 * 0). */
int slackline_orchestrator_incidents(const slackline_orchestrator *orchestrator, slackline_incident *incident,
                                     int most);
/** Whether something is measured slow, or iterations are. */
int slackline_orchestrator_troubled(const slackline_orchestrator *orchestrator);

/** What was considered and decided, and why, since the last call: lines. NULL: nothing. The orchestrator's,
 * until its next call. */
const char *slackline_orchestrator_decisions(slackline_orchestrator *orchestrator);

/* ---- simulations: so many iterations that are alike need not be observed one by one ---- */

/** Further iterations, each as the last one observed and `each_ns` long, that would bring neither event nor
 * action. 0: the next one may. INT_MAX: none will until something else is measured. */
int slackline_orchestrator_idle(const slackline_orchestrator *orchestrator, int64_t each_ns);
/** They have passed, at most as many as slackline_orchestrator_idle said; `now_ns` is the time after them. */
slackline_status slackline_orchestrator_skip(slackline_orchestrator *orchestrator, int iterations,
                                             int64_t now_ns);

/* ---- a resume ---- */

/** What is healthy, what strategies cost and which incidents are open, as a JSON text. *text is ended by 0
 * and *size (may be NULL) counts the rest; free it with slackline_free. */
slackline_status slackline_orchestrator_save(const slackline_orchestrator *orchestrator, char **text,
                                             size_t *size);
/** Into one that was just opened with the same job. SLACKLINE_INVALID: the text is damaged, or of another
 * job; nothing of it was taken. */
slackline_status slackline_orchestrator_load(slackline_orchestrator *orchestrator, const char *text);

#ifdef __cplusplus
}
#endif
#endif
