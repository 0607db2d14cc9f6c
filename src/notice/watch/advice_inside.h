/* What the files of the advice share.
 *
 *   advice       verdicts become incidents, the ladder is asked, actions are followed
 *   advice_words what it says: events, the live line, JSON, the decision log */
#ifndef SL_NOTICE_WATCH_ADVICE_INSIDE_H
#define SL_NOTICE_WATCH_ADVICE_INSIDE_H

#include "adapt/ladder/ladder.h"
#include "notice/watch/advice.h"

enum { SL_ADVICE_INCIDENTS = 32 };

/* What the ladder last said of a strategy for an incident. */
typedef struct sl_advice_rung {
    sl_ladder_reason reason;
    double expected;
    sl_time cost, trigger;
    char why[96]; /* of a no; "" */
} sl_advice_rung;

typedef struct sl_advice_incident {
    sl_suspect slow;
    int used, active;
    int slot;     /* in foreign.slow; -1: it is not there now */
    double loss;  /* as told to the ladder */
    int pending;  /* a strategy was applied, and what it brought is not measured yet */
    int strategy; /* the last one in effect; -1 */
    int planned;  /* told: the strategy that comes next (sl_advice_next) + 2; 0: nothing */
    int called;   /* told, and nobody carries it out: the strategy to apply now + 1; 0: none */
    sl_time since;
    sl_advice_rung rung[SL_FOREIGN_STRATEGIES];
} sl_advice_incident;

typedef struct sl_advice_bound {
    sl_advice *advice;
    int strategy; /* sl_foreign_strategy */
} sl_advice_bound;

struct sl_advice {
    sl_advice_config config;
    sl_foreign foreign;
    sl_ladder *ladder;
    sl_advice_bound bound[SL_FOREIGN_STRATEGIES];
    int strategy_of[SL_FOREIGN_STRATEGIES]; /* the ladder's index to sl_foreign_strategy */
    int strategies;                         /* of the ladder */
    sl_advice_incident incident[SL_ADVICE_INCIDENTS];
    size_t read; /* entries of the ladder's log that were looked at */
    int64_t iteration;
    int slow, reliefs, onsets;

    int64_t number; /* of the action under way; 0: none */
    int64_t numbers;
    int undo, strategy, count;
    int ids[SL_ADVICE_INCIDENTS];
    int64_t applied_at; /* iteration, of the last application */
    sl_time applied_time;
};

/** Ladder's index of a strategy to ours; -1. */
int sl_advice_strategy(const sl_advice *advice, int index);
/** The strategy that comes next for an incident; -1: none. */
int sl_advice_next(const sl_advice_incident *incident);
/** An entry of the ladder's log in words. */
void sl_advice_entry_text(const sl_advice *advice, const sl_ladder_entry *entry, char *text, size_t size);
/** The event that says what would be done about an incident, and why not the rest. */
void sl_advice_plan_event(const sl_advice *advice, int id, sl_event *event);
/** The event of an action that is due. */
void sl_advice_action_event(const sl_advice *advice, const sl_advice_action *action, sl_event *event);

#endif
