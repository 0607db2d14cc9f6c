/* What the files of the ladder share.
 *
 *   ladder      what is told to it, and the action that follows
 *   ladder_time time passes: what is lost meanwhile, and when the next action is due
 *   ladder_plan what would help an incident, and at how much lost time
 *   ladder_log  why, in entries and sentences */
#pragma once

#include "adapt/ladder/ladder.h"

/* An incident and one strategy. */
typedef struct sl_ladder_pair {
    sl_ladder_reason reason;
    double lost;     /* ns, while the strategy would have helped; goes down while the incident is relieved */
    double trigger;  /* ns; of WAITS */
    double expected; /* a second, when last asked */
    double keeping;  /* a second, asked on relief */
    int in_effect;
    double saves; /* a second, while in effect and the incident lasts */
} sl_ladder_pair;

typedef struct sl_ladder_case {
    sl_incident incident;
    int active;
    int returned;        /* it has been relieved before, and something is remembered of it */
    sl_time since;       /* began or came again */
    sl_time relieved_at; /* not active */
    double lost;         /* ns, in all */
    double believed;     /* the loss that the plan counts on */
    int brought;         /* strategy whose outcome is not measured yet; -1: none */
    sl_ladder_pair pair[SL_STRATEGIES_MAX];
} sl_ladder_case;

typedef struct sl_ladder_rung {
    sl_strategy strategy; /* cost and undo_cost: as learnt */
    int failures;         /* since it last worked, or since its incidents were over */
    double kept;          /* ns lost by keeping it, less what it saved since */
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
/** Counts what `duration` ns lose: on incidents that last, by keeping strategies on relieved ones. */
void sl_ladder_pass(sl_ladder *l, double duration);
/** 1 or more: the incidents together have lost what the strategy waits for; 0: none waits for it. */
double sl_ladder_reached(const sl_ladder *l, int strategy);
/** The strategy is in effect, nothing that it is for lasts, and it has been kept long enough. */
int sl_ladder_is_to_be_undone(const sl_ladder *l, int strategy);

/* ---- ladder_plan.c */
/** What it costs to apply a strategy, failures counted, in ns. */
double sl_ladder_price(const sl_ladder *l, int strategy);
/** Asks the model about every strategy and chooses. `news`: strategies in effect may be applied again. */
sl_status sl_ladder_plan(sl_ladder *l, sl_ladder_case *c, int news);

/* ---- ladder_log.c */
/** One more entry at the ladder's time, about `c` (or NULL) and a strategy (or -1). */
sl_status sl_ladder_note(sl_ladder *l, sl_ladder_entry_kind kind, const sl_ladder_case *c, int strategy,
                         sl_ladder_entry **entry);
