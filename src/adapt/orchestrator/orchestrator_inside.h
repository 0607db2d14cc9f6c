/* Shared by the files of the orchestrator. */
#pragma once

#include "adapt/ladder/ladder.h"
#include "adapt/orchestrator/naming.h"
#include "adapt/orchestrator/orchestrator.h"
#include "adapt/orchestrator/recording.h"
#include "adapt/orchestrator/unknown.h"

enum {
    SL_CASES_MAX = 64,  /* slow components at a time; of more, the least costly are dropped */
    SL_REMEMBERED = 50, /* iterations for which an unused link is remembered */
    SL_FIRST_REPORT = 1 << 20
};

#define SL_LOSS_MIN 0.02 /* minimum share of the time lost by an incident */

typedef struct sl_unknown sl_unknown; /* unknown_program.c */

/* A plan that several replicas may run. */
typedef struct sl_shared_plan {
    int references, number; /* number: from 1 on, unique in the orchestrator */
    sl_plan plan;
} sl_shared_plan;

/* A component that is or was slow; it keeps its number if it recurs. */
typedef struct sl_component_key {
    int kind; /* sl_part_kind, or SL_KEY_SUM, SL_KEY_REPORT */
    int a, b; /* processes, or the stage, or the reporter's id */
} sl_component_key;
enum { SL_KEY_SUM = 16, SL_KEY_REPORT };

typedef struct sl_known_component {
    sl_component_key key;
    int id;
} sl_known_component;

/* A component that is slow now. */
typedef struct sl_case {
    sl_incident_view view;
    sl_cause cause;
    int replica;         /* that showed it; -1: all of them */
    int rank, from, to;  /* of the present layout; -1 */
    int reported;        /* by another source, until it reports the end */
    double claimed;      /* the reported loss; negative: none */
    double now, healthy; /* as in the comparison */
    int back;            /* a direction was seen in this iteration */
    double excess;       /* ns per iteration that it would cost alone */
    double announced;    /* loss reported to the ladder; negative: not reported */
    double level; /* of a device: slowdown factor established in its first iterations; load comes on top */
    int streak;   /* consecutive iterations in which it was seen */
    int waits;    /* strategies that wait for `hold` have been asked since */
    int merged;   /* it continues as another's: a card's, or a device's of the same position */
    int card;     /* it belonged to a card when last seen */
    int apart; /* it was named with others at its position, which have moved since: it may have been theirs */
    int keeps; /* it has lasted, and the reason for doing nothing must be reported */
    int seen;  /* in this iteration */
    int costly; /* consecutive iterations in which it cost a tenth */
} sl_case;

/* A direction between two processes, as measured: ns more than the best connection of its kind. */
typedef struct sl_process_pair {
    int from, to;
    int between;          /* of two replicas; 0: within a pipeline */
    double latency, late; /* without a message; with one of a megabyte */
} sl_process_pair;

/* The plans of a replica. */
/* origin: at the job's start. first: of the present layout. */
typedef struct sl_side {
    sl_shared_plan *origin, *first, *running, *wanted, *candidate,
        *offered;     /* wanted: waits for `dwell`; NULL: nothing */
    int changed;      /* `offered` has not been considered yet */
    int refits;       /* `wanted` becomes the first plan */
    int last_swap;    /* iteration; far in the past before the first */
    int fits, better; /* checks whether the first plan fits the measurements; those in which it did not */
    sl_time predicted, best; /* time of the running order and of the candidate, when last asked */
    int asked;               /* iteration in which sl_plans_ask was last called; -1: never */
    double gain;             /* share of an iteration that the candidate gains */
    sl_time cost;            /* of a swap */
    struct {
        sl_measured *measured; /* kept; NULL: several, or not asked yet */
        int plan;              /* number */
        sl_regime regime;
        double slowdown; /* of devices without measurements */
        sl_time time;
    } ran; /* time of the running order, if all recent rows are equal */
} sl_side;

/* A growing queue of texts. */
typedef struct sl_run_data_text {
    char *text;
    size_t used, room;
} sl_run_data_text;

/* Of the orchestrator, what mainly one file needs. */

/* cases.c: the numbers of components. */
typedef struct sl_case_numbers {
    sl_known_component *key;
    size_t keys, key_room;
    int last_number;
    int *shares; /* [processes] the device incident last named at its position, + 1; 0: none */
} sl_case_numbers;

/* A link that is unused now. */
typedef struct sl_memory {
    sl_slow_part part;
    int left;
} sl_memory;

/* losses.c: the model, and the time that slow components cost. */
typedef struct sl_loss_state {
    sl_model *model;            /* NULL: the healthy level is unknown */
    int renewed;                /* number of times healthy was learned for the model */
    int rebased;                /* the healthy time is predicted for new first plans, not measured yet */
    const sl_problem **healthy; /* [replicas] in the model */
    sl_slow_part *part;         /* [SL_CASES_MAX + remembered] for the model */
    sl_memory *memory;
    size_t memories, memory_room;
    double healthy_time,
        healthy_model; /* of an iteration if nothing is slow: measured; by the running orders */
    double believed;   /* iteration time as far as slow components explain it */
} sl_loss_state;

/* process_pairs.c: the network as last measured. */
typedef struct sl_network_state {
    sl_process_pair *pair; /* [pairs] */
    unsigned char *card;   /* [processes] whether by these its card is slow */
    int pairs;
    double *looked; /* [stages] growth of sums at the last measurement of the network, ns */
} sl_network_state;

/* strategies.c: what the ladder asks about strategies. */
typedef struct sl_strategy_state {
    int rung[SL_STRATEGY_KINDS], kind[SL_STRATEGIES_MAX], rungs;
    sl_time at_once;
    unsigned costs_known; /* bits of strategies that have been carried out */
    unsigned refused;
    int known[SL_STRATEGY_KINDS];
    double takes[SL_STRATEGY_KINDS]; /* ns of an iteration with it, as if measured; asked once per step */
    double present;                  /* the present state by the model; 0: not asked yet */
    const char *leave;               /* the host that a restart would leave out */
    sl_job_layout tried, divided, placed; /* scratch; answers */
} sl_strategy_state;

/* steps.c: the action that was given out, or is pending. */
typedef struct sl_action_state {
    sl_orchestrator_action action; /* id 0: none */
    const sl_plan **plans;         /* [replicas] of a layout being given out */
    sl_job_layout next;            /* requested by it */
    int ids[SL_CASES_MAX];         /* of it */
    int given, undoes, strategy;   /* of it; strategy -1: not the ladder's */
    int last_path, last_layout;    /* iterations of the last changes */
    int unended;                   /* the ladder waits for the end of an action that could not be given out */
    int asks_again;                /* an answer to the ladder was lost */
    int next_id;
} sl_action_state;

/* wording.c: events and decisions. */
typedef struct sl_event_state {
    sl_event *events;
    size_t event_first, event_count, event_room;
    sl_run_data_text decisions;
    char said[640]; /* the last line written about strategies */
} sl_event_state;

struct sl_orchestrator {
    sl_unknown *unknown;           /* an unknown pipeline: no plans, cases, or model; or NULL */
    sl_recording *recording;       /* NULL: not requested */
    sl_orchestrator_config config; /* its arrays and texts are not kept, except below */
    char schedule[64];
    char **host;      /* [processes] */
    char **kept_host; /* names of hosts that must stay */
    size_t kept_hosts, kept_room;
    int processes;
    sl_problem *planned;        /* [kinds] copies of config.problem */
    const sl_problem **problem; /* [replicas] into planned */
    int kinds;
    sl_job_layout layout; /* present */
    int *even;            /* [replicas] the initial split */
    sl_side *side;        /* [replicas] */
    struct sl_asked *asked;
    int numbered;      /* number of shared plans so far */
    long long improve; /* work of the search for a better first plan; 0: none */
    int keeps_sums;    /* plans end their backwards as the first ones */

    int iteration, observed;
    sl_time now;
    int timed, replayed; /* iteration times are given; they are not, and were replayed */
    sl_history series;
    sl_naming naming;
    sl_slowness lately, last;
    int uneven; /* consecutive iterations in which a stage had more work relative to others than before */
    int sudden; /* no incident yet, but a link was slow in the last iteration */
    int fresh;  /* after a change: the next losses are its effect */

    sl_case *cases; /* [case_count] the costliest first */
    int case_count;
    sl_incident_view *view; /* [views] of those known to the ladder */
    int views;
    sl_ladder *ladder; /* NULL: the healthy level is unknown */
    sl_status failed;  /* of a question asked by the ladder */

    sl_case_numbers numbers;
    sl_loss_state losses;
    sl_network_state network;
    sl_strategy_state strategies;
    sl_action_state doing;
    sl_event_state log;
};

/** The healthy problem of a replica: as measured, else as planned. */
static inline const sl_problem *sl_healthy_of(const sl_orchestrator *o, int replica) {
    const sl_problem *healthy = sl_history_healthy(&o->series, replica);
    return healthy ? healthy : o->problem[replica];
}

/* ---- cases.c */
/** The number of a component, always the same. A new one gets `as`; negative: a number of its own. */
sl_status sl_cases_number(sl_orchestrator *o, sl_component_key key, int as, int *number);
/** NULL: none. */
sl_case *sl_cases_by_id(const sl_orchestrator *o, int id);
sl_case *sl_cases_find(const sl_orchestrator *o, sl_component_key key);
/** The case of a component, seen in this iteration; NULL: there are too many. */
sl_status sl_cases_see(sl_orchestrator *o, sl_component_key key, sl_case **found);
/** Updates the cases from the last rows; unreported ones are dropped when they are no longer seen. */
sl_status sl_cases_compare(sl_orchestrator *o);
/** Whether any component is slow in this iteration. */
int sl_cases_any_seen(const sl_orchestrator *o);
/** Drops cases that are neither seen nor reported. */
void sl_cases_drop_unknown(sl_orchestrator *o);
/** Whether its processes no longer communicate: it cannot be measured. */
int sl_cases_is_unused(const sl_orchestrator *o, const sl_case *c);
/** Moves processes to their positions in `next`. */
void sl_cases_move(sl_orchestrator *o, const sl_job_layout *next);
/** The process at a position: of tensor ranks, which are measured as one, the lowest. */
int sl_cases_process(const sl_orchestrator *o, int rank, int replica);

/* ---- process_pairs.c */
/** Takes measurements of the network, in the present layout. SL_ENOMEM. */
sl_status sl_pairs_take(sl_orchestrator *o, const sl_network_measure *measure, int count);
/** The pair of processes at a rank with the slowest connection between two replicas, the lower one first; of
 * two replicas there is one. 0: unknown, both are -1. */
int sl_pairs_slowest(const sl_orchestrator *o, int rank, int pair[2]);
/** Whether all measured connections of a process are equally slow: its card. */
int sl_pairs_card(const sl_orchestrator *o, int process);
/** Latency and pace of a part in one direction, as far as measured. 0: not measured. */
int sl_pairs_split(const sl_orchestrator *o, sl_slow_part *part, int way);

/* ---- cards.c */
/** Whether a process's card holds up a sum of its rank, from network measurements, or before these from
 * earlier knowledge; *part: the slow part. */
int sl_cards_known(const sl_orchestrator *o, int process, sl_slow_part *part);
/** Turns seen links into cards. */
sl_status sl_cards_find(sl_orchestrator *o);

/* ---- losses.c */
/** Learns the iteration time if nothing is slow; a lower one if a component was slow from the beginning. */
sl_status sl_losses_learn(sl_orchestrator *o);
/** Gives the model the slow components, and divides the loss among the cases. */
sl_status sl_losses_divide(sl_orchestrator *o);
/** Gives the model the healthy level, each time it was learned. */
sl_status sl_losses_renew(sl_orchestrator *o);
sl_status sl_losses_open_model(sl_orchestrator *o);
/** New first plans run: healthy iterations are theirs. */
sl_status sl_losses_rebase(sl_orchestrator *o);
/** Iteration time as far as slow components explain it, ns. */
double sl_losses_believed(sl_orchestrator *o);

/* ---- incidents.c */
/** Compares the last rows and updates the cases, their losses, and the model's components. *ready: the
 * healthy level is known and there are enough rows since the last change of layout. */
sl_status sl_incidents_see(sl_orchestrator *o, int *ready);
/** Reports to the ladder the incidents that began, changed and ended. */
sl_status sl_incidents_announce(sl_orchestrator *o);
/** Reports, once, why nothing is done about a lasting incident. */
sl_status sl_incidents_keep(sl_orchestrator *o);
sl_status sl_incidents_report(sl_orchestrator *o, const sl_orchestrator_report *report);
/** Copies a report's data to its incident. */
void sl_incidents_note(const sl_orchestrator_report *report, sl_incident_view *view);
/** Fills the views, the costliest first. */
void sl_incidents_view(sl_orchestrator *o);
void sl_incidents_sort(sl_incident_view *view, int count);
void sl_incident_name(const sl_orchestrator *o, const sl_case *c, char *text, size_t size);
/** Whether a sum has grown so much that the network should be measured. */
int sl_incidents_wants_network(sl_orchestrator *o);

/* ---- steps.c */
/** The end of a call: if memory for a decision was lacking, it fails, and the question is asked again. */
sl_status sl_steps_result(sl_orchestrator *o, sl_status status);

/* ---- plans.c, plans_new.c */
sl_status sl_plans_open(sl_orchestrator *o, const sl_orchestrator_config *config);
void sl_plans_close(sl_orchestrator *o);
sl_shared_plan *sl_plans_keep(sl_shared_plan *plan);
void sl_plans_drop(sl_shared_plan **plan);
/** Makes *plan, which is emptied, shareable. SL_ENOMEM. */
sl_status sl_plans_share(sl_orchestrator *o, sl_plan *plan, sl_shared_plan **shared);
void sl_plans_replace(sl_shared_plan **slot, sl_shared_plan *with);
/* The distinct versions of the recent rows. */
typedef struct sl_plans_window {
    int rows[SL_ROWS], count;
} sl_plans_window;
sl_plans_window sl_plans_window_of(const sl_orchestrator *o);
/** Whether the previous replica's answer applies: identical replicas of a simulation are asked once. */
int sl_plans_as_before(const sl_orchestrator *o, const sl_plans_window *w, int replica);
/** Medians of the window; but a value at least half as long again, or shorter by as much, in two of the last
 * three measurements is used as measured there. Free with sl_problem_free. */
sl_status sl_plans_lately(sl_orchestrator *o, int replica, sl_problem *usual);
/** Whether the last swap was less than `dwell` iterations ago. */
static inline int sl_plans_dwell(const sl_orchestrator *o, const sl_side *side) {
    return o->iteration - side->last_swap < o->config.dwell;
}
/** The value of an order on a problem, under the problem's objective. */
sl_status sl_plans_time_in(const sl_orchestrator *o, const sl_shared_plan *plan, const sl_problem *problem,
                           sl_regime regime, sl_time *time);
/** ... with the present path. */
sl_status sl_plans_time(const sl_orchestrator *o, const sl_shared_plan *plan, const sl_problem *problem,
                        sl_time *time);
/** The slowest replica's time with its running order on recent measurements. */
sl_status sl_plans_running(sl_orchestrator *o, sl_time *time);
/** The time of the first plans of all replicas on healthy problems. */
sl_status sl_plans_healthy(sl_orchestrator *o, sl_time *time);
/** The share of an iteration lost by the running orders on healthy problems, compared with the first ones. */
sl_status sl_plans_keeping(sl_orchestrator *o, double *loss);
/** The slowest replica's time on recent measurements, with the running orders and with new plans. Keeps
 * candidates that pay. */
sl_status sl_plans_ask(sl_orchestrator *o, sl_time *running, sl_time *best);
/** Makes the candidates, or the first plans, the wanted plans. */
sl_status sl_plans_take(sl_orchestrator *o);
sl_status sl_plans_return(sl_orchestrator *o);
/** Plans for the next layout, into `wanted` of each replica; they run once it is carried out. */
sl_status sl_plans_layout(sl_orchestrator *o, const sl_job_layout *layout);
/** Sets the plan of each replica from now on: the first plan of the present layout. */
sl_status sl_plans_set(sl_orchestrator *o, const sl_plan *const *plan);
/** Whether a slow component of the replica costs time. */
int sl_plans_is_slow(const sl_orchestrator *o, int replica);
/** Drops waiting plans for components that are no longer slow, and waiting returns to a first plan that is
 * worse for components that are slow again. */
sl_status sl_plans_drop_late(sl_orchestrator *o);
/** Relief: the first plan; if something else is slow, only if it is no worse now. */
sl_status sl_plans_may_return(sl_orchestrator *o, int replica, int *may);
/** Nothing is slow and no mitigation is in effect: first plans return. A better one, for the healthy times
 * before any is measured, or one for times other than those it was planned for, becomes the first. */
sl_status sl_plans_rest(sl_orchestrator *o);
/** The next replica whose wanted plan may run from the next iteration on; -1: none. */
int sl_plans_due(const sl_orchestrator *o);
/** Whether it has not been decided yet whether a replica's first plan fits. */
int sl_plans_may_refit(const sl_orchestrator *o, int replica);
/** Whether all replicas want the same new first plan. */
int sl_plans_all_want(const sl_orchestrator *o);
/** Iterations until a plan may run, -1: none waits. */
int sl_plans_wait(const sl_orchestrator *o);
/** Number of delegates that measurements require. */
sl_status sl_plans_delegates(sl_orchestrator *o, int *count);
/** Whether a slow link exceeds the tolerance of the running plan (Adaptra, eq. 1). */
int sl_plans_exceed(sl_orchestrator *o);

/* ---- strategies.c */
/** Whether the host can be left: true unless denied. */
int sl_orchestrator_can_leave(const sl_orchestrator *o, const char *host);
sl_status sl_strategies_open(sl_orchestrator *o);
/** Drops answers, which are outdated. */
void sl_strategies_forget(sl_orchestrator *o);
/** The action for the ladder's last decision, with the numbers from its log. */
sl_orchestrator_action sl_strategies_action(sl_orchestrator *o, const sl_action *said);
/** Makes o->doing.action from the ladder's decision. */
sl_status sl_strategies_act(sl_orchestrator *o, const sl_action *action);

/* ---- wording.c */
/** Reserves memory for the events of a call. SL_ENOMEM. */
sl_status sl_events_reserve(sl_orchestrator *o);
/** One more event of this iteration, to be filled in; NULL: no memory (o->failed). */
sl_event *sl_events_add(sl_orchestrator *o, sl_event_kind kind);
void sl_events_onset(sl_orchestrator *o, const sl_case *c);
void sl_events_relief(sl_orchestrator *o, const sl_case *c);
void sl_events_naming(sl_orchestrator *o, const sl_naming_result *result);
/** replica -1: all. */
void sl_events_swap(sl_orchestrator *o, int replica, int undo);
void sl_events_keep(sl_orchestrator *o, const sl_case *c);
/** A better first plan that a frozen job does not run. */
void sl_events_keep_first(sl_orchestrator *o, int replica);
void sl_events_path(sl_orchestrator *o, int delegates);
/** The ladder's new log entries: sentences into decisions, important ones as events. */
void sl_events_ladder(sl_orchestrator *o);
/** Adds an entry of the ladder's log as an event, if it matters to users. `advised`: no program carries it
 * out. */
void sl_events_decided(sl_orchestrator *o, const sl_ladder_entry *entry, int advised, const char *text);
/** Adds a line of decisions, with its end. */
void sl_events_write(sl_orchestrator *o, const char *line);
void sl_events_decision(sl_orchestrator *o, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- unknown_program.c: programs with an unknown pipeline */
/** Uses only the configuration of strategies, ladder and hosts, and `unknown`. SL_ENOMEM. */
sl_status sl_unknown_open(sl_orchestrator *o, const sl_orchestrator_config *config);
void sl_unknown_close(sl_unknown *unknown);
/** SL_EINVAL: a negative id. SL_ENOMEM. */
sl_status sl_unknown_report(sl_orchestrator *o, const sl_orchestrator_report *report);
/** Without `unknown` and a time in `iteration`, only time passes, and reports wait. SL_ENOMEM. */
sl_status sl_unknown_observe(sl_orchestrator *o, const sl_orchestrator_iteration *iteration);
int sl_unknown_next(sl_orchestrator *o, sl_orchestrator_action *action);
sl_status sl_unknown_carried_out(sl_orchestrator *o, int id, sl_time now, sl_outcome outcome, sl_time took);
/** An incident's id is its report's. */
const sl_incident_view *sl_unknown_incidents(const sl_orchestrator *o, int *count);
/** Why a strategy would not help for an incident; returns 0: no such incident. */
int sl_unknown_why_not(const sl_orchestrator *o, int incident, sl_strategy_kind strategy, char *text,
                       size_t size);
const sl_unknown_view *sl_unknown_seen(const sl_unknown *unknown);
