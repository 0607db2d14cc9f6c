/* Shared by the files of the orchestrator. */
#pragma once

#include "adapt/ladder/ladder.h"
#include "adapt/orchestrator/asked.h"
#include "adapt/orchestrator/naming.h"
#include "adapt/orchestrator/orchestrator.h"
#include "adapt/orchestrator/recording.h"
#include "adapt/orchestrator/unknown_program.h"

enum {
    SL_CASES_MAX = 64,  /* slow components at a time; of more the least costly are left out */
    SL_REMEMBERED = 50, /* iterations for which a link is remembered that nobody uses any more */
    SL_FIRST_REPORT = 1 << 20
};

#define SL_LOSS_MIN 0.02 /* minimum share of the time lost by an incident */

/* A plan that several replicas may run. */
typedef struct sl_shared_plan {
    int references, number; /* number: from 1 on, of no other plan of the orchestrator */
    sl_plan plan;
} sl_shared_plan;

/* A component that is or was slow, under the same number whenever it is. */
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
    double now, healthy; /* as compared */
    int back;            /* a direction was seen in this iteration */
    double excess;       /* ns per iteration that it would cost alone */
    double told;         /* loss reported to the ladder; negative: not reported */
    double level; /* of a device: how many times as long, as established in its first iterations; load comes
                     on top */
    int streak;   /* consecutive iterations in which it was seen */
    int waits;    /* strategies that wait for `hold` have been asked since */
    int merged;   /* it goes on as another's: a card's, or a device's of the same place */
    int card;     /* it was a card's when it was seen last */
    int apart;  /* it was named with others at its place, which sit elsewhere now: it may have been theirs */
    int keeps;  /* it has lasted, and the reason for doing nothing is due */
    int seen;   /* in this iteration */
    int costly; /* consecutive iterations in which it cost a tenth */
} sl_case;

/* A direction between two processes, as it was measured: ns more than the best connection of its kind takes.
 */
typedef struct sl_process_pair {
    int from, to;
    int between;          /* of two replicas; 0: within a pipeline */
    double latency, late; /* without a message; of one of a megabyte */
} sl_process_pair;

/* What a replica runs. */
/* origin: of the very beginning. first: of the present layout. */
typedef struct sl_side {
    sl_shared_plan *origin, *first, *running, *wanted, *candidate,
        *offered;     /* wanted: waits for `dwell`; NULL: nothing */
    int news;         /* `offered` has not been considered yet */
    int refits;       /* `wanted` is for other times than were planned for */
    int last_swap;    /* iteration; far in the past before the first */
    int fits, better; /* looks in the beginning whether it fits what is measured; of them, those at which it
                         did not */
    sl_time predicted, best; /* of the running order and the candidate, when last asked */
    double gain;             /* share of an iteration that the candidate gains */
    sl_time cost;            /* of a swap */
    struct {
        sl_measured *measured; /* kept; NULL: several, or nobody has asked */
        int plan;              /* number */
        sl_regime regime;
        double slowdown; /* of what nobody has measured */
        sl_time time;
    } ran; /* what the running order takes where all rows lately are the same */
} sl_side;

/* A queue of texts or events that grows. */
typedef struct sl_told_text {
    char *text;
    size_t used, room;
} sl_told_text;

struct sl_orchestrator {
    sl_unknown *unknown; /* a program with an unknown pipeline; then plans, cases and the model are unused.
                            NULL: known */
    sl_recording *recording;       /* NULL: not requested */
    sl_orchestrator_config config; /* arrays and texts are not kept but below */
    char schedule[64];
    char **host;      /* [processes] */
    char **kept_host; /* names of hosts that may not be left */
    size_t kept_hosts, kept_room;
    int processes;
    sl_problem *planned;        /* [kinds] copies of config.problem; */
    const sl_problem **problem; /* [replicas] into planned */
    int kinds;
    sl_history series;
    sl_naming naming;
    sl_slowness lately, last;
    int uneven; /* iterations, one after the other, in which a stage had more work against others than it had
                 */
    sl_model *model;            /* NULL: the healthy level is unknown */
    int renewed;                /* the model has what was learnt so often */
    const sl_problem **healthy; /* [replicas] that the model has */
    sl_job_layout layout, next, tried, divided,
        placed;    /* as it is; that an action asks for; scratch; answers */
    int *even;     /* [replicas] the split of the beginning */
    sl_side *side; /* [replicas] */
    sl_asked *asked;
    int numbered; /* shared plans so far */
    sl_known_component *key;
    size_t keys, key_room;
    int next_number;
    sl_case *cases; /* [case_count] the costliest first */
    int case_count;
    int ids[SL_CASES_MAX]; /* of an action */
    int *shares; /* [processes] the device's incident that was named last at its place, + 1; 0: none was */
    sl_incident_view *view; /* [views] of those that the ladder knows */
    int views;
    sl_slow_part *part; /* [SL_CASES_MAX + remembered] for the model */
    struct sl_memory {
        sl_slow_part part;
        int left;
    } * memory; /* links that nobody uses now */
    size_t memories, memory_room;
    sl_process_pair *pair; /* [pairs] that were measured last */
    unsigned char *card; /* [processes] by them it is a card that is slow */
    int pairs;
    double *looked; /* [stages] what sums had grown by at the last look at the network, ns */

    sl_ladder *ladder; /* NULL: what is healthy is not known yet */
    int rung[SL_STRATEGY_KINDS], kind[SL_STRATEGIES_MAX], rungs;
    sl_time at_once;
    unsigned costs_known; /* bits of strategies that were carried out */
    unsigned refused;
    double healthy_time,
        healthy_model; /* of an iteration when nothing is slow: measured, and by the running orders */
    double believed;   /* what an iteration takes, as far as what is slow explains it */
    int fresh;         /* something was changed: the next losses are what it brought */
    int known[SL_STRATEGY_KINDS];
    double takes[SL_STRATEGY_KINDS]; /* ns of an iteration with it, as measured ones; asked once a step */
    double present;                  /* by the model as it is now; 0: not asked yet */
    const char *leave;               /* the host that a restart would leave out */

    sl_orchestrator_action action; /* given out, or to be; id 0: none */
    const sl_plan **plans;         /* [replicas] of a layout that is given out */
    int last_path, last_layout;    /* iterations of the last changes */
    int given, undoes, strategy;   /* of it; strategy -1: not the ladder's */
    int unended;                   /* the ladder waits for the end of an action that could not be given out */
    int asks_again;                /* the answer to a question of the ladder's was lost */
    int next_id;
    int next_replica; /* plans are given out one replica after the other */
    int iteration, observed;
    int timed, replayed; /* somebody has told what an iteration takes; nobody has, and it was replayed */
    int sudden;          /* nothing is an incident yet, but a link was slow in the last iteration */
    sl_time now;
    sl_event *events;
    size_t event_first, event_count, event_room;
    sl_told_text decisions;
    char said[640];   /* what was last written of the strategies */
    sl_status failed; /* of a question that the ladder asked */
};

/** The healthy problem of a replica: as measured, else as planned. */
static inline const sl_problem *sl_healthy_of(const sl_orchestrator *o, int replica) {
    const sl_problem *healthy = sl_history_healthy(&o->series, replica);
    return healthy ? healthy : o->problem[replica];
}

/* ---- cases.c */
/** The number of a component; the same for the same. One that is not known yet gets `as`; negative: one of
 * its own. */
sl_status sl_cases_number(sl_orchestrator *o, sl_component_key key, int as, int *number);
/** NULL: none. */
sl_case *sl_cases_by_id(const sl_orchestrator *o, int id);
sl_case *sl_cases_find(const sl_orchestrator *o, sl_component_key key);
/** The case of a component, seen in this iteration; NULL: there are too many. */
sl_status sl_cases_see(sl_orchestrator *o, sl_component_key key, sl_case **found);
/** Cases as the last rows show them; those that nobody was told of are dropped when they are seen no more. */
sl_status sl_cases_compare(sl_orchestrator *o);
/** Whether anything is slow in this iteration. */
int sl_cases_any_seen(const sl_orchestrator *o);
/** Cases that nobody knows of and that are seen no more. */
void sl_cases_drop_unknown(sl_orchestrator *o);
/** Its processes do not talk any more: nothing can be measured of it. */
int sl_cases_is_unused(const sl_orchestrator *o, const sl_case *c);
/** Moves processes to their positions in `next`. */
void sl_cases_move(sl_orchestrator *o, const sl_job_layout *next);
/** The process at a place: of tensor ranks, which are measured as one, the lowest. */
int sl_cases_process(const sl_orchestrator *o, int rank, int replica);

/* ---- process_pairs.c */
/** Of a look at the network, in the present layout. SL_ENOMEM. */
sl_status sl_pairs_take(sl_orchestrator *o, const sl_network_measure *measure, int count);
/** The pair of processes at a rank whose connection between two replicas was found slowest, the lower one
 * first; of two replicas there is one. 0: it is not known, both are -1. */
int sl_pairs_slowest(const sl_orchestrator *o, int rank, int pair[2]);
/** Whether all connections of a process that were measured are as slow as each other: its card. */
int sl_pairs_card(const sl_orchestrator *o, int process);
/** Latency and pace of a part in one direction, as far as it was measured. 0: it was not. */
int sl_pairs_split(const sl_orchestrator *o, sl_slow_part *part, int way);

/* ---- cards.c */
/** Whether a process's card holds up a sum of its rank, as the network shows, or before it was measured, as
 * was known; *part: what is slow. */
int sl_cards_known(const sl_orchestrator *o, int process, sl_slow_part *part);
/** Links that are seen become cards. */
sl_status sl_cards_find(sl_orchestrator *o);

/* ---- losses.c */
/** What an iteration takes when nothing is slow, once it is known; less, where something was slow from the
 * beginning. */
sl_status sl_losses_learn(sl_orchestrator *o);
/** The model sees what is slow, and each case's loss is what it costs. */
sl_status sl_losses_divide(sl_orchestrator *o);
/** The model has what is healthy as it is known now: after each time that it was learnt. */
sl_status sl_losses_renew(sl_orchestrator *o);
sl_status sl_losses_open_model(sl_orchestrator *o);
/** Iteration time as far as slow components explain it, ns. */
double sl_losses_believed(sl_orchestrator *o);

/* ---- incidents.c */
/** Compares the last rows and updates the cases, their losses, and what the model sees. *ready: what is
 * healthy is known and enough rows have come since the last change of layout. */
sl_status sl_incidents_see(sl_orchestrator *o, int *ready);
/** Tells the ladder what has begun, changed and ended. */
sl_status sl_incidents_tell(sl_orchestrator *o);
/** What has lasted and nothing is done about: the reason, once. */
sl_status sl_incidents_keep(sl_orchestrator *o);
sl_status sl_incidents_report(sl_orchestrator *o, const sl_orchestrator_report *report);
/** What a report says of its incident. */
void sl_incidents_note(const sl_orchestrator_report *report, sl_incident_view *view);
/** Fills the views, the costliest first. */
void sl_incidents_view(sl_orchestrator *o);
void sl_incidents_sort(sl_incident_view *view, int count);
void sl_incident_name(const sl_orchestrator *o, const sl_case *c, char *text, size_t size);
/** Whether a sum has grown so much that the network should be looked at. */
int sl_incidents_wants_network(sl_orchestrator *o);

/* ---- steps.c */
/** The end of a call: what was decided without memory fails it, and is asked again. */
sl_status sl_steps_result(sl_orchestrator *o, sl_status status);

/* ---- plans.c, plans_new.c */
sl_status sl_plans_open(sl_orchestrator *o, const sl_orchestrator_config *config);
void sl_plans_close(sl_orchestrator *o);
sl_shared_plan *sl_plans_keep(sl_shared_plan *plan);
void sl_plans_drop(sl_shared_plan **plan);
/** *plan, which is emptied, for several to share. SL_ENOMEM. */
sl_status sl_plans_share(sl_orchestrator *o, sl_plan *plan, sl_shared_plan **shared);
void sl_plans_replace(sl_shared_plan **place, sl_shared_plan *with);
/* The versions of the rows that say what replicas take lately. */
typedef struct sl_plans_window {
    int rows[SL_ROWS], count;
} sl_plans_window;
sl_plans_window sl_plans_window_of(const sl_orchestrator *o);
/** Replicas of a simulation that are alike are asked once. */
int sl_plans_as_before(const sl_orchestrator *o, const sl_plans_window *w, int replica);
/** Medians of the window, but what has become half as long again or more, or that much shorter, in two of the
 * last three measurements is as there. Free with sl_problem_free. */
sl_status sl_plans_lately(sl_orchestrator *o, int replica, sl_problem *usual);
/** The last swap was less than `dwell` iterations ago. */
static inline int sl_plans_dwell(const sl_orchestrator *o, const sl_side *side) {
    return o->iteration - side->last_swap < o->config.dwell;
}
/** The makespan of an order on a problem. */
sl_status sl_plans_time_in(const sl_orchestrator *o, const sl_shared_plan *plan, const sl_problem *problem,
                           sl_regime regime, sl_time *time);
/** ... in the path that is taken now. */
sl_status sl_plans_time(const sl_orchestrator *o, const sl_shared_plan *plan, const sl_problem *problem,
                        sl_time *time);
/** The slowest replica's running order on what was measured lately. */
sl_status sl_plans_running(sl_orchestrator *o, sl_time *time);
/** The first plans of all replicas on healthy problems. */
sl_status sl_plans_healthy(sl_orchestrator *o, sl_time *time);
/** What iterations would take with new plans for what is measured lately: running and best, the slowest
 * replica's. Keeps candidates where they pay. */
sl_status sl_plans_ask(sl_orchestrator *o, sl_time *running, sl_time *best);
/** Makes the candidates, or the first plans, the wanted plans. */
sl_status sl_plans_take(sl_orchestrator *o);
sl_status sl_plans_return(sl_orchestrator *o);
/** Plans of the next layout, into `wanted` of each replica, which run when it has been carried out. */
sl_status sl_plans_layout(sl_orchestrator *o, const sl_job_layout *layout);
/** What each replica is to run from now on is this: the first plan of the present layout. */
sl_status sl_plans_set(sl_orchestrator *o, const sl_plan *const *plan);
/** Whether a slow component of the replica costs time. */
int sl_plans_is_slow(const sl_orchestrator *o, int replica);
/** Plans that wait for what is slow no more are dropped. */
void sl_plans_drop_late(sl_orchestrator *o);
/** Nothing is slow, and nothing is in effect for what was: first plans return, and one that was made for
 * other times than are measured in the beginning is planned again, which becomes the first. */
sl_status sl_plans_rest(sl_orchestrator *o);
/** The next replica whose wanted plan may run from the next iteration on; -1. */
int sl_plans_due(const sl_orchestrator *o);
/** Iterations until one may, -1: none waits. */
int sl_plans_wait(const sl_orchestrator *o);
/** Number of delegates that measurements require. */
sl_status sl_plans_delegates(sl_orchestrator *o, int *count);
/** Whether a slow link exceeds the tolerance of the running plan (Adaptra, eq. 1). */
int sl_plans_exceed(sl_orchestrator *o);

/* ---- strategies.c */
/** Whether the host can be left: true unless denied. */
int sl_orchestrator_can_leave(const sl_orchestrator *o, const char *host);
sl_status sl_strategies_open(sl_orchestrator *o);
/** Answers are about what was before. */
void sl_strategies_forget(sl_orchestrator *o);
/** What the ladder has just said, with the numbers that it wrote down. */
sl_orchestrator_action sl_strategies_action(sl_orchestrator *o, const sl_action *said);
/** The action for what the ladder says; o->action. */
sl_status sl_strategies_act(sl_orchestrator *o, const sl_action *action);

/* ---- wording.c */
/** Reserves memory for the events of a call. SL_ENOMEM. */
sl_status sl_events_reserve(sl_orchestrator *o);
/** One more event of this iteration, to be filled in; NULL: no memory (o->failed). */
sl_event *sl_events_add(sl_orchestrator *o, sl_event_kind kind);
void sl_events_onset(sl_orchestrator *o, const sl_case *c);
void sl_events_relief(sl_orchestrator *o, const sl_case *c);
void sl_events_naming(sl_orchestrator *o, const sl_naming_result *result);
void sl_events_swap(sl_orchestrator *o, int replica, int undo);
void sl_events_keep(sl_orchestrator *o, const sl_case *c);
void sl_events_path(sl_orchestrator *o, int delegates);
/** The ladder's log since the last time: sentences into decisions, what matters as events. */
void sl_events_ladder(sl_orchestrator *o);
/** What the ladder has written, as an event, if people should hear of it. */
void sl_events_decided(sl_orchestrator *o, const sl_ladder_entry *entry, const char *text);
/** Adds a line of decisions, with its end. */
void sl_events_write(sl_orchestrator *o, const char *line);
void sl_events_decision(sl_orchestrator *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
