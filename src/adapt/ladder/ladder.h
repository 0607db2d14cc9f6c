/* The ladder: what to do about each slow link or device, and when, from doing nothing to a restart (Falcon,
 * section 5.2). A pure state machine: incidents begin, change and are relieved, applications end, time
 * passes; out come actions (apply S for incidents E, undo S, profile) and a log of why. It reads no clock and
 * carries nothing out.
 *
 * Each incident counts the time that it has lost. Strategies that cost next to nothing and help come at once.
 * Of the others chain.h chooses, from what the model says would remain, those worth climbing to and at how
 * much lost time; the next is applied when that is reached, the cheapest first, one application at a time.
 * Incidents that a strategy answers together pay for it together: each contributes its lost time over its
 * trigger, and 1 in all is enough. New information (another loss than was expected) makes a new choice; what
 * a strategy could have saved so far counts on, but one that was applied counts from nothing again.
 *
 * After relief a strategy stays until keeping it has lost what applying it again would cost, and at least
 * `calm`; where keeping loses nothing it stays. And what a relieved incident has lost counts on when it comes
 * again, less what the strategy would have lost meanwhile. So whoever turns incidents on and off at the worst
 * moments makes us pay for one application per as much time lost: no flapping (README.md has the argument,
 * and the numbers).
 *
 * Not thread-safe. Times are ns of the caller's clock and never go back; every call first lets time pass to
 * `now`. */
#pragma once

#include "adapt/ladder/strategy.h"

#include <stddef.h>

typedef struct sl_ladder sl_ladder;

typedef struct sl_ladder_config {
    sl_time at_once;       /* a strategy that costs at most so much is applied as soon as it helps */
    double least_gain;     /* share of an incident's loss that a strategy must save, or it "cannot help" */
    double news;           /* a loss that is off by more than this share of what it was is new information */
    sl_time calm;          /* at least so long after relief before anything is undone */
    sl_time profile_every; /* the network is profiled again so long after the last time, incident or not; 0:
                              never */
} sl_ladder_config;

/** 100 ms, 5 %, 10 %, 10 s, 10 min. */
sl_ladder_config sl_ladder_defaults(void);

/** Copies strategies (their names and user pointers must outlive the ladder). SL_EINVAL: more than
 * SL_STRATEGIES_MAX, a negative cost, no `remaining`. Close with sl_ladder_close. */
sl_status sl_ladder_open(const sl_ladder_config *config, const sl_strategy *strategies, int count,
                         sl_ladder **ladder);
void sl_ladder_close(sl_ladder *ladder);

/** Room for the next call, which then cannot fail for want of memory, unless an incident begins. SL_ENOMEM.
 */
sl_status sl_ladder_reserve(sl_ladder *ladder);

/* ---- what is told to it. All: SL_ENOMEM, and nothing has changed; SL_EINVAL when time goes back or the id
 * or loss makes no sense */

/** An incident begins, or comes again (the same id). Its loss is what is measured, with all that is in
 * effect. */
sl_status sl_ladder_begins(sl_ladder *ladder, sl_time now, const sl_incident *incident);
/** What it loses now. The first time after an application this is what the application brought: measured
 * wholly after it. */
sl_status sl_ladder_changes(sl_ladder *ladder, sl_time now, int id, double loss);
/** All strategies are asked again about an incident, although its loss is what it was: they may answer
 * otherwise now. */
sl_status sl_ladder_reconsider(sl_ladder *ladder, sl_time now, int id);
sl_status sl_ladder_relieved(sl_ladder *ladder, sl_time now, int id);
/** The action under way has ended. `took`: of the job's time; it replaces the cost of the strategy (of its
 * undoing). While the job stood still for it nothing else was lost. Not `done`: it failed; it comes again
 * when twice as much as for the last attempt has been lost, and after three failures no more until the
 * incident is over. */
sl_status sl_ladder_ended(sl_ladder *ladder, sl_time now, sl_time took, int done);

/* ---- what it says */

typedef enum sl_action_kind {
    SL_ACTION_NONE,
    SL_ACTION_APPLY,
    SL_ACTION_UNDO,
    SL_ACTION_PROFILE
} sl_action_kind;

typedef struct sl_action {
    sl_action_kind kind;
    int strategy;         /* index; -1: none */
    const int *incidents; /* ids; the ladder's, until its next call */
    int count;
} sl_action;

/** What to do now. After APPLY and UNDO nothing more until sl_ladder_ended; a PROFILE needs no answer. */
sl_status sl_ladder_next(sl_ladder *ladder, sl_time now, sl_action *action);

/** When sl_ladder_next will have an action if nothing is told to it until then. SL_TIME_NEVER: not so. */
sl_time sl_ladder_due(const sl_ladder *ladder);

/** What applying a strategy is estimated to cost now, where that changes although it has not been applied:
 * counts from the next news on. SL_EINVAL: negative. */
sl_status sl_ladder_estimate(sl_ladder *ladder, int strategy, sl_time cost);

/** The cost that is counted on now, and whether the strategy is in effect for any incident. */
sl_time sl_ladder_cost(const sl_ladder *ladder, int strategy);
int sl_ladder_in_effect(const sl_ladder *ladder, int strategy);

/* ---- the log */

typedef enum sl_ladder_entry_kind {
    SL_LADDER_BEGAN,      /* loss */
    SL_LADDER_CHANGED,    /* loss, expected: what it was thought to be */
    SL_LADDER_RELIEVED,   /* lost */
    SL_LADDER_CONSIDERED, /* one strategy for one incident: reason, cost, loss, expected, trigger */
    SL_LADDER_APPLY,      /* strategy, loss, lost, cost, expected, trigger */
    SL_LADDER_APPLIED,    /* cost: what it took */
    SL_LADDER_FAILED,     /* cost: what it took */
    SL_LADDER_BROUGHT,    /* strategy: the last applied; loss: measured since; expected */
    SL_LADDER_UNDO,       /* lost: by keeping it; cost: of applying it again */
    SL_LADDER_UNDONE,     /* cost: what it took */
    SL_LADDER_PROFILE
} sl_ladder_entry_kind;

/* Why a strategy is or is not on the way to be applied. */
typedef enum sl_ladder_reason {
    SL_REASON_NONE,
    SL_REASON_OTHER_CAUSE, /* it does not answer this cause */
    SL_REASON_CANNOT_HELP, /* the model says so */
    SL_REASON_SKIPPED,     /* others do as well for less, or as much for hardly more (chain.h) */
    SL_REASON_IN_EFFECT,   /* already, and nothing is new */
    SL_REASON_FAILED,      /* three times */
    SL_REASON_WAITS,       /* applied when the time lost has come to `trigger` */
    SL_REASON_AT_ONCE      /* costs next to nothing */
} sl_ladder_reason;

typedef struct sl_ladder_entry {
    sl_time time;
    sl_ladder_entry_kind kind;
    sl_ladder_reason reason;
    int id;       /* incident; -1: none. APPLY, UNDO: the first of them */
    int count;    /* incidents that it is for */
    int strategy; /* -1: none */
    double loss, expected;
    sl_time lost, cost, trigger;
    char seen[96];
} sl_ladder_entry;

/** What was last considered of a strategy for an incident, as an entry of the log, with what has become of it
 * since, and whether it is in effect for it. 0: nothing is remembered of this incident. */
int sl_ladder_considered(const sl_ladder *ladder, int id, int strategy, sl_ladder_entry *entry,
                         int *in_effect);

/** All entries since the opening or the last sl_ladder_clear_log, in time. The ladder's, until its next call.
 */
const sl_ladder_entry *sl_ladder_log(const sl_ladder *ladder, size_t *count);
void sl_ladder_clear_log(sl_ladder *ladder);

/** One entry as a sentence without end of line, for a person. */
void sl_ladder_entry_text(const sl_ladder *ladder, const sl_ladder_entry *entry, char *text, size_t size);
