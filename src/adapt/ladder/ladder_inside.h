/* Shared by the files of the ladder.
 *
 *   ladder      its input, and the action that follows
 *   ladder_time the loss over time, and when the next action is due
 *   ladder_plan strategies for an incident, and their triggers
 *   ladder_log  reasons, as entries and sentences */
#pragma once

#include "adapt/ladder/ladder.h"

/* An incident and one strategy. */
typedef struct sl_ladder_pair {
    sl_ladder_reason reason;
    double lost;     /* ns, while the strategy would have helped; decreases during relief */
    double trigger;  /* ns; of WAITS */
    double expected; /* per second, when last asked */
    double keeping;  /* per second, asked on relief */
    int in_effect;
    double saves; /* per second, while in effect and the incident lasts */
    double late;  /* ns lost because it was applied only some time after the onset; of those that return */
} sl_ladder_pair;

typedef struct sl_ladder_case {
    sl_incident incident;
    int active;
    int returned;   /* it was relieved before and is still remembered */
    int recurs;     /* it came back before keeping a strategy would have lost as much as applying it again */
    sl_time lasted; /* the longest time from an onset to its relief, or from that to the next onset */
    sl_time since;  /* began or recurred */
    sl_time relieved_at; /* not active */
    double lost;         /* ns, total */
    double believed;     /* the loss that the plan assumes */
    int brought;         /* strategy with an effect not measured yet; -1: none */
    sl_ladder_pair pair[SL_STRATEGIES_MAX];
} sl_ladder_case;

typedef struct sl_ladder_rung {
    sl_strategy strategy; /* cost and undo_cost: as learned */
    int failures;         /* since its last success, or since the end of its incidents */
    double kept;          /* ns lost by keeping it, minus savings since */
} sl_ladder_rung;

struct sl_ladder {
    sl_ladder_config config;
    sl_ladder_rung rung[SL_STRATEGIES_MAX];
    int rungs;
    sl_ladder_case *cases;
    size_t case_count, case_capacity;
    sl_time now, begun_at; /* begun_at: of the action under way */
    sl_time profiled_at;
    sl_action_kind under_way;
    int under_way_strategy;
    int *ids; /* of the action; room for case_capacity */
    size_t id_capacity;
    int id_count;
    sl_ladder_entry *log;
    size_t log_count, log_capacity;
};

/* ---- ladder_time.c */
/** Counts the loss of `duration` ns: from lasting incidents, and from strategies kept for relieved ones. */
void sl_ladder_pass(sl_ladder *l, double duration);
/** 1 or more: the incidents together have reached the trigger of the strategy; 0: none waits for it. */
double sl_ladder_reached(const sl_ladder *l, int strategy);
/** Whether a relieved incident, if it came back now, would be one that recurs. */
int sl_ladder_may_recur(const sl_ladder *l, const sl_ladder_case *c);
/** Whether the strategy is in effect, all its incidents have ended, and it has been kept long enough. */
int sl_ladder_is_to_be_undone(const sl_ladder *l, int strategy);

/* ---- ladder_plan.c */
/** Cost of applying a strategy, including failures, in ns. */
double sl_ladder_price(const sl_ladder *l, int strategy);
/** Asks the model about every strategy and chooses. `changed`: strategies in effect may be applied again. */
sl_status sl_ladder_plan(sl_ladder *l, sl_ladder_case *c, int changed);

/* ---- ladder_log.c */
/** One more entry at the ladder's time, about `c` (or NULL) and a strategy (or -1). */
sl_status sl_ladder_note(sl_ladder *l, sl_ladder_entry_kind kind, const sl_ladder_case *c, int strategy,
                         sl_ladder_entry **entry);
