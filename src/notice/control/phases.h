/* The phases of a watched job: waiting, searching, tracking, profiling, holding, validating, and back to
 * tracking. Pure: events in, actions out; no clock, no process, no store. The caller gives all times, of any
 * one clock.
 *
 * A failure is an input like any other: a profile or a closure that never comes (a tick beyond the limit), a
 * lost node, a lost store, an onset during validation, a program that ends. Two promises hold for any input.
 * A held job is released before the phase is tracking or ended. Each onset that is not relieved or replaced
 * by another ends in a verdict: one, or a second one if the job could not be held at first and was later. */
#pragma once

#include "base/time.h"
#include "notice/control/job_status.h"

typedef enum sl_phase_input {
    SL_IN_TICK,           /* time has passed */
    SL_IN_CALLS,          /* the first call was seen */
    SL_IN_PERIOD,         /* the iteration was found */
    SL_IN_PERIOD_CHANGED, /* what was taken for the iteration was not: levels start over */
    SL_IN_STABLE,         /* tens of iterations at one level, none of them slow: good for a reference */
    SL_IN_ONSET,          /* iterations became slow, or slower */
    SL_IN_RELIEF,         /* the healthy level is back */
    SL_IN_EASED,          /* faster than before, and still slow */
    SL_IN_PROFILE,        /* the requested profile has arrived */
    SL_IN_SUSPECTS,       /* it was compared; `count` suspects */
    SL_IN_CLOSED,         /* the cut is closed; `until`: deadline of the hold */
    SL_IN_OPEN,           /* the cut does not close, or a rank cannot be held; `again`: when it can, or 0 */
    SL_IN_VERDICT,        /* the validation has ended */
    SL_IN_NODE_LOST,
    SL_IN_STORE_LOST,
    SL_IN_STORE_BACK,
    SL_IN_ENDED, /* the program has ended */
    SL_IN_KINDS
} sl_phase_input;

typedef enum sl_phase_action {
    SL_DO_REFERENCE,      /* ask for a profile of healthy iterations */
    SL_DO_PROFILE,        /* ask for a profile of slow ones */
    SL_DO_CANCEL_PROFILE, /* its result is no longer needed */
    SL_DO_KEEP_REFERENCE, /* the profile that arrived is the reference */
    SL_DO_DROP_REFERENCE,
    SL_DO_COMPARE, /* the profile that arrived with the reference; SL_IN_SUSPECTS follows */
    SL_DO_HOLD,
    SL_DO_RELEASE,
    SL_DO_VALIDATE,
    SL_DO_CANCEL_VALIDATION,
    SL_DO_VERDICT_PROFILE, /* the verdict rests on the profile */
    SL_DO_VERDICT,         /* the validation's verdict is the verdict */
    SL_DO_CLEAR_VERDICT,
} sl_phase_action;

#define SL_PHASE_ACTIONS 8 /* at most, per input */

typedef struct sl_phase_limits {
    int hold;           /* 0: the job is never held */
    sl_time profile;    /* longest wait for a profile */
    sl_time closure;    /* longest wait for closure */
    sl_time before;     /* a hold is released this long before its deadline */
    sl_time validation; /* longest wait for a validation, held or not */
    sl_time again;      /* before another try of a reference */
} sl_phase_limits;

typedef struct sl_phases {
    sl_watch_phase phase;
    sl_phase_limits limits;
    int slow;      /* between an onset and its relief */
    int reference; /* there is one */
    int healthy;   /* the requested profile is to be the reference */
    int again;     /* a profile is due as soon as nothing else is under way */
    int held;      /* the job was ordered to hold, and not yet released */
    int offline;   /* the store is lost */
    int suspects;
    sl_time until;      /* limit of the current wait; SL_TIME_NEVER: none */
    sl_time release_by; /* of a closed hold */
    sl_time not_before; /* of the next try of a reference */
    sl_time retry;      /* of the next profile of iterations that stay slow; SL_TIME_NEVER: none due */
} sl_phases;

typedef struct sl_phase_actions {
    int count;
    sl_phase_action action[SL_PHASE_ACTIONS];
} sl_phase_actions;

void sl_phases_open(sl_phases *phases, sl_phase_limits limits);

/** Handles an input at `now`. `number`: suspects of SL_IN_SUSPECTS; deadline of SL_IN_CLOSED; time of another
 * try of SL_IN_OPEN, or 0; of SL_IN_ONSET, whether the reference proved to be slow already; otherwise
 * ignored. *actions are in the order in which to do them. An input with no meaning in the current phase (a
 * late answer) does nothing. Never fails. */
void sl_phases_step(sl_phases *phases, sl_phase_input input, int64_t number, sl_time now,
                    sl_phase_actions *actions);

/** When a tick is needed; SL_TIME_NEVER: never. */
sl_time sl_phases_next(const sl_phases *phases);
