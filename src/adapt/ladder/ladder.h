/* The ladder: chooses a strategy for each slow link or device, and its time, from doing nothing to a restart
 * (Falcon, section 5.2). It is a pure state machine. Its inputs are incidents that begin, change and are
 * relieved, the ends of applications, and the time; its outputs are actions (apply S for incidents E, undo S,
 * profile) and a log of reasons. It reads no clock and executes no action.
 *
 * Each incident counts its lost time. Strategies that help and cost almost nothing are applied immediately.
 * Of the others, chain.h chooses the useful ones and their triggers (in lost time) from the remaining loss in
 * the model. The next is applied when its trigger is reached, the cheapest first, one application at a time.
 * Incidents with the same strategy share its cost: each contributes its lost time over its trigger, and a sum
 * of 1 suffices. New information (an unexpected loss) causes a new choice. The saving that a strategy has
 * missed so far is kept, but an applied strategy counts from zero again.
 *
 * A strategy that returns (strategy.h) is undone once `calm` has passed after relief. But it comes late: each
 * onset loses what it saves until it is in effect. An incident that comes back before keeping the strategy
 * would have lost as much recurs, and the strategy then stays as others do, with that loss as a part of its
 * cost. It also stays while another incident that it may mitigate lasts, even one that began when it was in
 * effect already.
 *
 * After relief a strategy stays until keeping it has lost as much as a new application would cost, and for at
 * least `calm`; if keeping it loses nothing, it stays. The lost time of a relieved incident is kept if it
 * recurs, minus the loss that the strategy would have caused meanwhile. So even incidents that turn on and
 * off at the worst moments cost only one application per equal lost time: no flapping (README.md has the
 * argument and the numbers).
 *
 * Not thread-safe. Times are ns of the caller's clock and never go back; every call first advances the time
 * to `now`. */
#pragma once

#include "adapt/ladder/strategy.h"

#include <stddef.h>

typedef struct sl_ladder sl_ladder;

typedef struct sl_ladder_config {
    sl_time at_once;       /* strategies up to this cost are applied as soon as they help */
    double least_gain;     /* minimum share of a loss that a strategy must save; else it "cannot help" */
    double changed;        /* a relative change of a loss by more than this is new information */
    sl_time calm;          /* minimum time from relief to an undo */
    sl_time profile_every; /* interval between network profiles, also without incidents; 0: never */
} sl_ladder_config;

/** 100 ms, 5%, 10%, 10 s, 10 min. */
sl_ladder_config sl_ladder_defaults(void);

/** Copies strategies (their names and user pointers must outlive the ladder). SL_EINVAL: more than
 * SL_STRATEGIES_MAX, a negative cost, no `remaining`. Close with sl_ladder_close. */
sl_status sl_ladder_open(const sl_ladder_config *config, const sl_strategy *strategies, int count,
                         sl_ladder **ladder);
void sl_ladder_close(sl_ladder *ladder);

/** Reserves memory for the next call, which then cannot run out of memory unless an incident begins.
 * SL_ENOMEM. */
sl_status sl_ladder_reserve(sl_ladder *ladder);

/* ---- input. All: SL_ENOMEM, and nothing has changed; SL_EINVAL if time goes back or the id or loss is
 * invalid */

/** An incident begins or recurs (same id). Its loss is measured with all strategies in effect. */
sl_status sl_ladder_begins(sl_ladder *ladder, sl_time now, const sl_incident *incident);
/** Its present loss. The first call after an application gives the effect of the application, so it must be
 * measured entirely after it. */
sl_status sl_ladder_changes(sl_ladder *ladder, sl_time now, int id, double loss);
/** Asks all strategies again about an incident with the same loss, because their answers may have changed. */
sl_status sl_ladder_reconsider(sl_ladder *ladder, sl_time now, int id);
sl_status sl_ladder_relieved(sl_ladder *ladder, sl_time now, int id);
/** The action under way has ended. `took`: job time, which replaces the cost of the strategy or of its undo.
 * No other loss is counted while the job was stopped for it. Not `done`: it failed; the next attempt waits
 * for twice the loss of the last, and after three failures there is none until the incident ends. */
sl_status sl_ladder_ended(sl_ladder *ladder, sl_time now, sl_time took, int done);

/* ---- output */

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

/** The next action. After APPLY or UNDO there is none until sl_ladder_ended; a PROFILE needs no answer. */
sl_status sl_ladder_next(sl_ladder *ladder, sl_time now, sl_action *action);

/** Time of the next action without further input. SL_TIME_NEVER: none. */
sl_time sl_ladder_due(const sl_ladder *ladder);

/** Changes the estimated cost of a strategy without an application; used from the next new information on.
 * SL_EINVAL: negative. */
sl_status sl_ladder_estimate(sl_ladder *ladder, int strategy, sl_time cost);

/** The present cost estimate, and whether the strategy is in effect for any incident. */
sl_time sl_ladder_cost(const sl_ladder *ladder, int strategy);
int sl_ladder_in_effect(const sl_ladder *ladder, int strategy);

/* ---- the log */

typedef enum sl_ladder_entry_kind {
    SL_LADDER_BEGAN,      /* loss */
    SL_LADDER_CHANGED,    /* loss, expected */
    SL_LADDER_RELIEVED,   /* lost */
    SL_LADDER_CONSIDERED, /* one strategy for one incident: reason, cost, loss, expected, trigger */
    SL_LADDER_APPLY,      /* strategy, loss, lost, cost, expected, trigger */
    SL_LADDER_APPLIED,    /* cost: measured */
    SL_LADDER_FAILED,     /* cost: measured */
    SL_LADDER_BROUGHT,    /* strategy: the last applied; loss: measured since; expected */
    SL_LADDER_UNDO,       /* lost: by keeping it; cost: of applying it again */
    SL_LADDER_UNDONE,     /* cost: measured */
    SL_LADDER_PROFILE
} sl_ladder_entry_kind;

/* The state of a strategy for an incident, as a reason. */
typedef enum sl_ladder_reason {
    SL_REASON_NONE,
    SL_REASON_OTHER_CAUSE, /* it does not mitigate this cause */
    SL_REASON_CANNOT_HELP, /* according to the model */
    SL_REASON_SKIPPED,     /* others help as much for less, or for hardly more (chain.h) */
    SL_REASON_IN_EFFECT,   /* already, without new information */
    SL_REASON_FAILED,      /* three times */
    SL_REASON_WAITS,       /* applied when the time lost reaches `trigger` */
    SL_REASON_AT_ONCE      /* costs almost nothing */
} sl_ladder_reason;

typedef struct sl_ladder_entry {
    sl_time time;
    sl_ladder_entry_kind kind;
    sl_ladder_reason reason;
    int id;       /* incident; -1: none. APPLY, UNDO: the first one */
    int count;    /* incidents concerned */
    int strategy; /* -1: none */
    double loss, expected;
    sl_time lost, cost, trigger;
    char seen[96];
} sl_ladder_entry;

/** The last consideration of a strategy for an incident, as an updated log entry, and whether it is in effect
 * for it. Returns 0: the incident is unknown. */
int sl_ladder_considered(const sl_ladder *ladder, int id, int strategy, sl_ladder_entry *entry,
                         int *in_effect);

/** All entries since the opening or the last sl_ladder_clear_log, by time. The ladder's, until its next call.
 */
const sl_ladder_entry *sl_ladder_log(const sl_ladder *ladder, size_t *count);
void sl_ladder_clear_log(sl_ladder *ladder);

/** One entry as a sentence for users, without end of line. */
void sl_ladder_entry_text(const sl_ladder *ladder, const sl_ladder_entry *entry, char *text, size_t size);
