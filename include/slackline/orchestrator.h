/* SPDX-License-Identifier: Apache-2.0 */
/* The orchestrator of a training job. Its input is the measurements of every iteration; its output is slow
 * components, their cost, and actions (Adaptra, arXiv:2504.19232, section 6: it sits between the profiler and
 * the scheduler; the order of the mitigations is Falcon's, arXiv:2410.12588, section 5.1).
 *
 *   open          the job's shape, its first plans, the actions that the caller supports
 *   observe       measurements of one finished iteration; anything may be missing
 *   event         for users: onset, suspect, verdict, relief, decision
 *   action        a change between two iterations: a plan, a path, a layout, ...
 *   carried_out   the result of an action
 *
 * It decides and the caller acts: nothing here reads a clock, opens a file, starts a thread or prints. The
 * same calls in the same order give the same events and actions. Only one thread at a time may use an
 * orchestrator.
 *
 * Every argument is checked. A failed call changes nothing visible unless documented, and slackline_error()
 * has the reason. Functions without a status return 0, NULL or -1 on misuse and set the reason, too.
 * SLACKLINE_NO_MEMORY: every allocation may fail.
 *
 * Times are ns of the caller's clock, which never goes back; the caller aligns the clocks of different ranks
 * to within `clock_error_ns`. A process is a device of the job; position (rank, replica, tensor rank) has the
 * number (rank * replicas + replica) * tensor + tensor rank, and process p starts at position p. */
#ifndef SLACKLINE_ORCHESTRATOR_H
#define SLACKLINE_ORCHESTRATOR_H

#include <slackline/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct slackline_orchestrator slackline_orchestrator;

/* ---- opening ---- */

/* Mitigations, from the cheapest to the most expensive (Falcon, section 5.1). */
typedef enum slackline_strategy {
    SLACKLINE_SCHEDULE, /* run another order */
    SLACKLINE_DELEGATE, /* have delegate processes carry the messages between stages (Adaptra, section 5) */
    SLACKLINE_BALANCE,  /* change the replicas' numbers of microbatches */
    SLACKLINE_TOPOLOGY, /* exchange the positions of processes */
    SLACKLINE_RESTART   /* restart without a host */
} slackline_strategy;

#define SLACKLINE_STRATEGIES 5
/* Bits of slackline_job.can. */
#define SLACKLINE_CAN(strategy) (1u << (strategy))

/* A job's shape. Everything is copied.
 *
 * For a program with an unknown pipeline, `problem` and `first` are NULL. Then `replicas` counts processes
 * that do the same (in data parallelism, with 1 rank and 1 tensor rank, all of them), `split` has their
 * microbatches, initially equal (NULL: one each), and `can` has strategies that need no pipeline:
 * SLACKLINE_BALANCE, SLACKLINE_TOPOLOGY, SLACKLINE_RESTART. Iteration times show when something is slow;
 * reports (slackline_orchestrator_report) name the component, until they are over. Ops, messages and saves
 * are rejected; plans, forecasts and questions return SLACKLINE_NO_ANSWER. A SLACKLINE_DO_LAYOUT has the
 * split if each process is a replica, else nothing. */
typedef struct slackline_job {
    int replicas, ranks;                     /* pipelines, and ranks of each */
    int tensor;                              /* processes of a rank */
    const slackline_problem *const *problem; /* [replicas] each replica when healthy; its objective is
                                                what plans are compared by; pointers may repeat */
    const slackline_plan *const *first;      /* [replicas] initial plan of each; pointers may repeat */
    const int *split;        /* [replicas] microbatches of each; NULL: the problems' numbers */
    const char *const *host; /* [processes] name of each process's host; NULL: one host per process */
    unsigned can;            /* SLACKLINE_CAN(..) | ..: the strategies that the caller supports */
    int looks;               /* the caller can also measure the network (SLACKLINE_DO_NETWORK) */
    int delegates;           /* that carry the messages initially; 0: ranks send by themselves */
    double message_bytes;    /* of an activation between stages, per tensor rank */
    const double *sum_bytes; /* [stages] of a process's gradients of a stage; NULL: sums are not modelled */
    int ring;  /* sums over replicas use a ring; 0: each replica exchanges its share with every other */
    int paced; /* ops are paced to the op times of the problems */
} slackline_job;

typedef struct slackline_orchestrator_options {
    const char *schedule; /* of new plans: a family's name or "auto" (the best family) */
    int hold;             /* iterations that a change must last, 1 to 32; 3 suffice for a growth of 50% */
    int dwell;            /* minimum of iterations between two plans of a replica */
    double gain;          /* minimum gain of a new plan, as a share of an iteration, 0 to 1 */
    /* estimates per strategy, in the job's time; an action carried out replaces its estimate */
    int64_t cost_ns[SLACKLINE_STRATEGIES], undo_cost_ns[SLACKLINE_STRATEGIES];
    int64_t at_once_ns; /* strategies up to this cost are applied at once; 0: two healthy iterations, at least
                           100 ms */
    int64_t profile_every_ns; /* interval between measurements of the network; 0: only if something is slow */
    int queues;               /* delegates per link and direction; 0: as many as the measurements require */
    int64_t work;  /* ops that a search for a plan may replay between two iterations; 0: no search */
    double effort; /* of a topology search, as in slackline_topology_search */
    uint64_t seed; /* of these searches */
    int frozen;    /* no actions: only events and what a change would have gained */
} slackline_orchestrator_options;

/** Fills in: auto, hold 5, dwell 20, gain 0.02, costs 5 ms, 5 ms, 1 s, 30 s and 600 s (the same to undo, 0
 * for a restart), work 700,000 (about 5 ms), effort 1, seed 1, all else 0. */
void slackline_orchestrator_defaults(slackline_orchestrator_options *options);

/** `options` NULL: the defaults. SLACKLINE_INVALID: inconsistent shapes, an unknown schedule, numbers out of
 * range. Close with slackline_orchestrator_close, which takes NULL. */
slackline_status slackline_orchestrator_open(const slackline_job *job,
                                             const slackline_orchestrator_options *options,
                                             slackline_orchestrator **orchestrator);
void slackline_orchestrator_close(slackline_orchestrator *orchestrator);

/* ---- input ---- */

/* Measurements of one replica, as far as known; an array may be NULL with a count of 0. The results of
 * slackline_plan_span and slackline_plan_transfer for a simulated order fit as they are. */
typedef struct slackline_measurements {
    /* Whole ops (no parts); for a pair, F and then its B, with equal times. Collectives and moves as in
     * slackline_plan_span; SLACKLINE_REDUCE from the arrival of this replica at the sum over replicas until
     * its end. A stage's sum counts only if every replica was measured: from the last arrival to the end, so
     * that waiting for a slow replica is not blamed on the network. */
    const slackline_span *span;
    size_t spans;
    const double *span_work; /* [spans] its work, such as tokens; 0: unknown. NULL: all are */
    const slackline_transfer *transfer;
    size_t transfers;
    const double *transfer_work; /* [transfers] the same, such as bytes */
} slackline_measurements;

typedef struct slackline_iteration {
    int iteration;                         /* number; ascending */
    int64_t now_ns;                        /* at its end */
    int64_t time_ns;                       /* duration; 0: unknown */
    double work;                           /* such as tokens of all replicas; 0: unknown */
    int64_t clock_error_ns;                /* bound on the difference between any two ranks' clocks */
    const slackline_measurements *replica; /* [replicas]; empty: not measured. NULL: none measured */
} slackline_iteration;

/** One iteration has ended. The same number again: only time has passed. SLACKLINE_INVALID: the number or
 * time goes back, or an op or link does not exist. SLACKLINE_NO_MEMORY: the iteration is lost; the next one
 * may be observed. */
slackline_status slackline_orchestrator_observe(slackline_orchestrator *orchestrator,
                                                const slackline_iteration *iteration);

typedef enum slackline_part {
    SLACKLINE_DEVICE, /* process a: its ops take `slowdown` times as long */
    SLACKLINE_LINK,   /* between processes a and b */
    SLACKLINE_CARD    /* everything that process a sends and receives: its network card */
} slackline_part;

/* A component that is slow. */
typedef struct slackline_slow {
    slackline_part part;
    int a, b;              /* processes; b: -1 unless a link */
    int host;              /* 1: a device or card of every process on the host of `a` */
    double slowdown;       /* device: 2 for twice the time */
    double latency_ns[2];  /* link, card: above healthy, one way; [0] from a (to b), [1] back */
    double ns_per_byte[2]; /* above healthy, the same */
} slackline_slow;

/* A slow component that was found elsewhere: by a test, an operator, a watched program's calls. */
typedef struct slackline_report {
    int id;   /* chosen by the caller, not negative; the same in the report of its end */
    int over; /* 1: it has recovered */
    slackline_slow slow;
    double loss;      /* time lost per second, 0 to 1; negative: use the timing model's estimate */
    const char *seen; /* a sentence for users, up to 95 bytes; or NULL */
} slackline_report;

/** Becomes an incident as if it had been measured here. */
slackline_status slackline_orchestrator_report(slackline_orchestrator *orchestrator, int64_t now_ns,
                                               const slackline_report *report);

/* The network between two processes, one direction. */
typedef struct slackline_network {
    int from, to; /* processes */
    double latency_ns, ns_per_byte;
} slackline_network;

/** All pairs measured now. Only this shows which pair is slow in a sum over several replicas. */
slackline_status slackline_orchestrator_network(slackline_orchestrator *orchestrator, int64_t now_ns,
                                                const slackline_network *pair, size_t pairs);

/** Replaces the estimated cost of a strategy, in the job's time. */
slackline_status slackline_orchestrator_estimate(slackline_orchestrator *orchestrator,
                                                 slackline_strategy strategy, int64_t cost_ns);
/** Whether the job can be restarted without this host; initially true for all hosts. */
slackline_status slackline_orchestrator_may_leave(slackline_orchestrator *orchestrator, const char *host,
                                                  int may);
/** From now on, if nothing is slow, a better first plan is an action like the others (SLACKLINE_DO_PLAN, of
 * all replicas if they run the same one): with the first iteration, for the times of the problems, and then
 * for measured ones. It is then the plan of the healthy job, to which the job returns. `work`: ops that a
 * search for it may replay, 0: none. Initially 0: first plans are only replaced, by their own kind of
 * schedule, if the measured times are others than those of the problems. */
slackline_status slackline_orchestrator_improve(slackline_orchestrator *orchestrator, int64_t work);
/** 1: gradients are summed over the replicas during an iteration, as soon as a stage has all of them. From
 * now on, in all plans the backwards of each rank's stages end in the same order as in the first plan. */
slackline_status slackline_orchestrator_keep_sums(slackline_orchestrator *orchestrator, int keep);
/** A plan from a longer search (see slackline_orchestrator_question), considered from the next iteration on.
 * Copied. */
slackline_status slackline_orchestrator_offer(slackline_orchestrator *orchestrator, int replica,
                                              const slackline_plan *plan);

/* ---- output; after every call above, read both until empty ---- */

typedef struct slackline_event {
    const char
        *kind; /* "onset", "suspect", "verdict", "swap", "relief", "decision", ...; docs/formats.md has all */
    int64_t time_ns; /* of the caller's clock */
    int iteration;
    int from, to, rank; /* ranks of the replica's pipeline; -1: none */
    int replica;        /* -1: all, or the only one */
    char seen[256];     /* measurement, decision and reason: sentences, or empty */
    char decided[128];
    char why[256];
} slackline_event;

/** Returns 1 and the next event, or 0. */
int slackline_orchestrator_event(slackline_orchestrator *orchestrator, slackline_event *event);

/* The positions of processes, the replicas' microbatches, and the senders of messages. */
typedef struct slackline_layout {
    const int *process; /* [processes] the process at each position */
    const int *split;   /* [replicas] microbatches */
    int delegates;      /* per link and direction; 0: ranks send by themselves */
} slackline_layout;

typedef enum slackline_do {
    SLACKLINE_DO_NOTHING,
    SLACKLINE_DO_PLAN,   /* `replica`, or all with -1, runs slackline_orchestrator_plan(replica) */
    SLACKLINE_DO_PATH,   /* `layout.delegates` processes carry the messages of each link and direction; 0: the
                            ranks */
    SLACKLINE_DO_LAYOUT, /* positions and microbatches as in `layout`, each replica with
                            slackline_orchestrator_plan(replica) */
    SLACKLINE_DO_LEAVE,  /* save, and restart without `host` */
    SLACKLINE_DO_NETWORK /* measure the network: slackline_orchestrator_network, then carried_out */
} slackline_do;

typedef struct slackline_action {
    slackline_do what;
    int id;                  /* for slackline_orchestrator_carried_out */
    int undo;                /* it reverts an earlier action */
    int strategy;            /* slackline_strategy that it belongs to; -1 for SLACKLINE_DO_NETWORK */
    int replica;             /* -1: all */
    slackline_layout layout; /* the orchestrator's, until carried_out; NULL pointers: unchanged */
    const char *host;        /* likewise */
    int64_t cost_ns;         /* estimate, of the job's time, once */
    double loss, expected;   /* time lost per second: now, and with the action */
    const int *incident;     /* [incidents] ids; the orchestrator's, until carried_out */
    int incidents;
} slackline_action;

/** Returns 1 and the next action, or 0 if there is none or the last one is not answered yet. */
int slackline_orchestrator_action(slackline_orchestrator *orchestrator, slackline_action *action);

typedef enum slackline_outcome {
    SLACKLINE_DONE,
    SLACKLINE_FAILED,  /* nothing has changed; tried again after further losses */
    SLACKLINE_REFUSED, /* nothing has changed; this strategy is never requested again */
    SLACKLINE_ADVISED  /* nothing has changed; a user was advised */
} slackline_outcome;

/** Reports the outcome of the action `id`, at once or iterations later, and its cost in the job's time, which
 * replaces the estimate. SLACKLINE_INVALID: this action is not under way. */
slackline_status slackline_orchestrator_carried_out(slackline_orchestrator *orchestrator, int id,
                                                    int64_t now_ns, slackline_outcome outcome,
                                                    int64_t took_ns);

/* ---- queries ---- */

/** A copy of the plan that a replica should run: that of an action under way, else the running one. Its times
 * follow the last measurements. Free with slackline_plan_free. */
slackline_status slackline_orchestrator_plan(const slackline_orchestrator *orchestrator, int replica,
                                             slackline_plan **plan);
/** Whether a replica runs a plan other than its first in this layout; -1: no such replica. */
int slackline_orchestrator_adapted(const slackline_orchestrator *orchestrator, int replica);
/** The layout as carried out so far. Its pointers belong to the orchestrator and are valid until its next
 * call. */
slackline_status slackline_orchestrator_layout(const slackline_orchestrator *orchestrator,
                                               slackline_layout *layout);
/** Expected time of a replica's next ops, from the last measurements. */
slackline_status slackline_orchestrator_forecast(slackline_orchestrator *orchestrator, int replica,
                                                 int64_t *time_ns);
/** A replica as recently measured, for a longer search whose plan is then offered. SLACKLINE_NO_ANSWER:
 * nothing was measured, or nothing is slow. Free with slackline_problem_free. */
slackline_status slackline_orchestrator_question(slackline_orchestrator *orchestrator, int replica,
                                                 slackline_problem **problem);

/* A slow component, from its onset to its relief. */
typedef struct slackline_incident {
    int id;
    int verdict; /* 1: named by enough evidence; 0: a suspect */
    slackline_slow slow;
    int stage;     /* with a slow sum over replicas; -1: none */
    int since;     /* iteration */
    double loss;   /* time lost per second */
    double growth; /* factor (device), or additional ns (link, sum) */
    char seen[96];
} slackline_incident;

/** Returns the number of open incidents and fills incident[most] (NULL with 0) with the costliest, in
 * descending order. */
int slackline_orchestrator_incidents(const slackline_orchestrator *orchestrator, slackline_incident *incident,
                                     int most);
/** Whether any component or the iterations are slow. */
int slackline_orchestrator_troubled(const slackline_orchestrator *orchestrator);

/** Considered strategies, decisions and reasons since the last call, as lines; NULL: none. Belongs to the
 * orchestrator, valid until its next call. */
const char *slackline_orchestrator_decisions(slackline_orchestrator *orchestrator);

/* ---- simulations: identical iterations need not be observed one by one ---- */

/** The number of further iterations, equal to the last one observed and `each_ns` long, without any event or
 * action. 0: the next one may have one. INT_MAX: none until a measurement changes. */
int slackline_orchestrator_idle(const slackline_orchestrator *orchestrator, int64_t each_ns);
/** That many iterations have passed, at most slackline_orchestrator_idle(); `now_ns` is the time after
 * them. */
slackline_status slackline_orchestrator_skip(slackline_orchestrator *orchestrator, int iterations,
                                             int64_t now_ns);

/* ---- a resume ---- */

/** The healthy level, the costs of strategies and the open incidents as JSON. *text is ended by 0 and *size
 * (may be NULL) counts the rest; free it with slackline_free. */
slackline_status slackline_orchestrator_save(const slackline_orchestrator *orchestrator, char **text,
                                             size_t *size);
/** Restores a save into an orchestrator just opened with the same job. SLACKLINE_INVALID: the text is
 * damaged, or of another job; nothing has changed. */
slackline_status slackline_orchestrator_load(slackline_orchestrator *orchestrator, const char *text);

#ifdef __cplusplus
}
#endif
#endif
