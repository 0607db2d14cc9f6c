#include "notice/control/phases.h"

#include <assert.h>

void sl_phases_open(sl_phases *p, sl_phase_limits limits) {
    *p = (sl_phases){.phase = SL_PHASE_WAITING,
                     .limits = limits,
                     .until = SL_TIME_NEVER,
                     .release_by = SL_TIME_NEVER,
                     .retry = SL_TIME_NEVER};
}

static void ask(sl_phase_actions *actions, sl_phase_action action) {
    assert(actions->count < SL_PHASE_ACTIONS);
    actions->action[actions->count++] = action;
}

static void enter(sl_phases *p, sl_watch_phase phase, sl_time until) {
    p->phase = phase;
    p->until = until;
}

/* A job that was ordered to hold is released, whether or not it is known to have stopped. */
static void let_go(sl_phases *p, sl_phase_actions *actions) {
    if (p->held)
        ask(actions, SL_DO_RELEASE);
    p->held = 0;
    p->release_by = SL_TIME_NEVER;
}

static void profile(sl_phases *p, int healthy, sl_time now, sl_phase_actions *actions) {
    p->healthy = healthy;
    p->again = 0;
    p->retry = SL_TIME_NEVER;
    ask(actions, healthy ? SL_DO_REFERENCE : SL_DO_PROFILE);
    enter(p, SL_PHASE_PROFILING, now + p->limits.profile);
}

/* Idle: handle what arrived meanwhile. */
static void track(sl_phases *p, sl_time now, sl_phase_actions *actions) {
    assert(!p->held);
    enter(p, SL_PHASE_TRACKING, SL_TIME_NEVER);
    if (p->again && p->slow && !p->offline)
        profile(p, 0, now, actions);
}

/* Ends the current work without an event. */
static void drop(sl_phases *p, sl_phase_actions *actions) {
    if (p->phase == SL_PHASE_PROFILING)
        ask(actions, SL_DO_CANCEL_PROFILE);
    if (p->phase == SL_PHASE_VALIDATING)
        ask(actions, SL_DO_CANCEL_VALIDATION);
    let_go(p, actions);
}

/* The same, but what is known becomes the verdict. */
static void conclude(sl_phases *p, sl_phase_actions *actions) {
    int owed = p->phase == SL_PHASE_HOLDING || p->phase == SL_PHASE_VALIDATING ||
               (p->phase == SL_PHASE_PROFILING && !p->healthy) || (p->again && p->slow);
    drop(p, actions);
    if (owed)
        ask(actions, SL_DO_VERDICT_PROFILE);
}

static void onset(sl_phases *p, sl_time now, sl_phase_actions *actions) {
    p->slow = 1;
    p->again = 1;
    if (p->phase == SL_PHASE_TRACKING) {
        track(p, now, actions);
    } else if (p->phase == SL_PHASE_PROFILING) { /* its calls are of two levels */
        ask(actions, SL_DO_CANCEL_PROFILE);
        track(p, now, actions);
    } /* held or validating: afterwards */
}

static void relief(sl_phases *p, int whole, sl_time now, sl_phase_actions *actions) {
    p->slow = !whole;
    p->again = !whole;
    p->retry = SL_TIME_NEVER;
    if (p->phase == SL_PHASE_WAITING || p->phase == SL_PHASE_SEARCHING)
        return;
    drop(p, actions);
    ask(actions, SL_DO_CLEAR_VERDICT);
    track(p, now, actions);
}

static void suspects(sl_phases *p, int64_t count, sl_time now, sl_phase_actions *actions) {
    if (p->phase != SL_PHASE_PROFILING || p->healthy)
        return;
    p->suspects = (int)count;
    if (count > 0 && p->limits.hold) {
        ask(actions, SL_DO_HOLD);
        p->held = 1;
        enter(p, SL_PHASE_HOLDING, now + p->limits.closure);
        return;
    }
    ask(actions, SL_DO_VERDICT_PROFILE);
    track(p, now, actions);
}

static void profile_came(sl_phases *p, sl_time now, sl_phase_actions *actions) {
    if (p->phase != SL_PHASE_PROFILING)
        return;
    if (!p->healthy) {
        ask(actions, SL_DO_COMPARE); /* the answer comes as SL_IN_SUSPECTS */
        return;
    }
    ask(actions, SL_DO_KEEP_REFERENCE);
    p->reference = 1;
    track(p, now, actions);
}

/* The limit of the current wait has passed. */
static void late(sl_phases *p, sl_time now, sl_phase_actions *actions) {
    if (p->phase == SL_PHASE_PROFILING && p->healthy)
        p->not_before = now + p->limits.again;
    conclude(p, actions);
    track(p, now, actions);
}

static void tick(sl_phases *p, sl_time now, sl_phase_actions *actions) {
    if (p->phase == SL_PHASE_VALIDATING && p->held && now >= p->release_by)
        let_go(p, actions); /* the validation continues while the program runs */
    if (p->until != SL_TIME_NEVER && now >= p->until)
        late(p, now, actions);
    else if (p->phase == SL_PHASE_TRACKING && p->slow && !p->offline && now >= p->retry)
        profile(p, 0, now, actions);
}

static void lost_store(sl_phases *p, sl_time now, sl_phase_actions *actions) {
    int profiling = p->phase == SL_PHASE_PROFILING && !p->healthy;
    p->offline = 1;
    if (profiling) { /* repeated when the store is back */
        drop(p, actions);
        p->again = 1;
    } else if (p->phase == SL_PHASE_HOLDING || p->phase == SL_PHASE_VALIDATING) {
        conclude(p, actions);
    } else {
        drop(p, actions);
    }
    if (p->phase >= SL_PHASE_PROFILING && p->phase < SL_PHASE_ENDED)
        track(p, now, actions);
}

static void changed_period(sl_phases *p, sl_phase_actions *actions) {
    if (p->phase < SL_PHASE_TRACKING)
        return;
    drop(p, actions);
    if (p->slow)
        ask(actions, SL_DO_CLEAR_VERDICT);
    ask(actions, SL_DO_DROP_REFERENCE);
    p->slow = p->again = p->reference = 0;
    p->retry = SL_TIME_NEVER;
    enter(p, SL_PHASE_TRACKING, SL_TIME_NEVER);
}

static void in_hold(sl_phases *p, sl_phase_input input, int64_t number, sl_time now,
                    sl_phase_actions *actions) {
    if (p->phase == SL_PHASE_HOLDING && input == SL_IN_CLOSED) {
        ask(actions, SL_DO_VALIDATE);
        p->release_by = number - p->limits.before;
        enter(p, SL_PHASE_VALIDATING, now + p->limits.validation);
    } else if (p->phase == SL_PHASE_HOLDING) { /* open, or a node less */
        conclude(p, actions);
        track(p, now, actions);
        if (input == SL_IN_OPEN && number > now && p->phase == SL_PHASE_TRACKING)
            p->retry = number;
    } else if (p->phase == SL_PHASE_VALIDATING && input == SL_IN_VERDICT) {
        let_go(p, actions);
        ask(actions, SL_DO_VERDICT);
        track(p, now, actions);
    } else if (p->phase == SL_PHASE_VALIDATING && input == SL_IN_NODE_LOST) {
        let_go(p, actions); /* the other members may still answer */
    }
}

void sl_phases_step(sl_phases *p, sl_phase_input input, int64_t number, sl_time now,
                    sl_phase_actions *actions) {
    actions->count = 0;
    if (p->phase == SL_PHASE_ENDED)
        return;
    switch (input) {
    case SL_IN_TICK:
        tick(p, now, actions);
        break;
    case SL_IN_CALLS:
        if (p->phase == SL_PHASE_WAITING)
            enter(p, SL_PHASE_SEARCHING, SL_TIME_NEVER);
        break;
    case SL_IN_PERIOD:
        if (p->phase <= SL_PHASE_SEARCHING)
            enter(p, SL_PHASE_TRACKING, SL_TIME_NEVER);
        break;
    case SL_IN_PERIOD_CHANGED:
        changed_period(p, actions);
        break;
    case SL_IN_STABLE:
        if (p->phase == SL_PHASE_TRACKING && !p->slow && !p->reference && !p->offline && now >= p->not_before)
            profile(p, 1, now, actions);
        break;
    case SL_IN_ONSET:
        p->reference = p->reference && !number;
        onset(p, now, actions);
        break;
    case SL_IN_RELIEF:
        relief(p, 1, now, actions);
        break;
    case SL_IN_EASED:
        relief(p, 0, now, actions);
        break;
    case SL_IN_PROFILE:
        profile_came(p, now, actions);
        break;
    case SL_IN_SUSPECTS:
        suspects(p, number, now, actions);
        break;
    case SL_IN_CLOSED:
    case SL_IN_OPEN:
    case SL_IN_VERDICT:
    case SL_IN_NODE_LOST:
        in_hold(p, input, number, now, actions);
        break;
    case SL_IN_STORE_LOST:
        lost_store(p, now, actions);
        break;
    case SL_IN_STORE_BACK:
        p->offline = 0;
        if (p->phase == SL_PHASE_TRACKING)
            track(p, now, actions);
        break;
    case SL_IN_ENDED:
        conclude(p, actions);
        enter(p, SL_PHASE_ENDED, SL_TIME_NEVER);
        break;
    case SL_IN_KINDS:
        break;
    }
}

sl_time sl_phases_next(const sl_phases *p) {
    if (p->phase == SL_PHASE_TRACKING && p->slow && !p->offline && p->retry < p->until)
        return p->retry;
    return p->held && p->release_by < p->until ? p->release_by : p->until;
}
