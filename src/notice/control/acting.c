#include "notice/control/controller_inside.h"

#include "base/memory.h"
#include <string.h>

#define INPUTS 16
#define CLOSURE (2 * SL_SECOND)
#define BEFORE (300 * SL_MS) /* of a hold's deadline */
#define AGAIN (20 * SL_SECOND)

/* The phases, and the inputs caused by actions. */
struct sl_acting {
    sl_phases phases;
    struct {
        sl_phase_input input;
        int64_t number;
    } input[INPUTS];
    int inputs;
};

sl_status sl_acting_open(sl_control_core *c) {
    sl_time deadline = c->given.deadline;
    SL_TRY(sl_alloc(&c->acting, 1, sizeof *c->acting));
    sl_phases_open(&c->acting->phases,
                   (sl_phase_limits){.hold = c->given.hold,
                                     .profile = 30 * SL_SECOND,
                                     .closure = deadline < CLOSURE ? deadline : CLOSURE,
                                     .before = deadline / 4 < BEFORE ? deadline / 4 : BEFORE,
                                     .validation = SL_VALIDATION_TIME,
                                     .again = AGAIN});
    return SL_OK;
}

void sl_acting_close(sl_control_core *c) {
    sl_free(c->acting);
}

void sl_control_note(sl_control_core *c, sl_phase_input input, int64_t number) {
    struct sl_acting *a = c->acting;
    if (a->inputs < INPUTS) {
        a->input[a->inputs].input = input;
        a->input[a->inputs++].number = number;
    }
}

void sl_control_wait_until(sl_control_core *c, sl_time until) {
    c->acting->phases.until = until;
}

sl_time sl_control_due(const sl_control_core *c) {
    return sl_phases_next(&c->acting->phases);
}

static void clear(sl_control_core *c) {
    sl_references_clear(c);
    c->view.suspects = c->view.verdicts = 0;
    c->reason[0] = 0;
}

static void act(sl_control_core *c, sl_phase_action action) {
    switch (action) {
    case SL_DO_REFERENCE:
        sl_profiling_begin(c);
        break;
    case SL_DO_PROFILE:
        clear(c);
        sl_control_because(c, "no profile came in time");
        sl_profiling_begin(c);
        break;
    case SL_DO_CANCEL_PROFILE:
        sl_profiling_cancel(c);
        break;
    case SL_DO_KEEP_REFERENCE:
        sl_references_keep(c);
        break;
    case SL_DO_DROP_REFERENCE:
        sl_references_drop(c);
        break;
    case SL_DO_COMPARE:
        sl_references_compare(c);
        break;
    case SL_DO_HOLD:
        sl_holding_begin(c);
        break;
    case SL_DO_RELEASE:
        sl_holding_release(c, sl_validating_now(c));
        break;
    case SL_DO_VALIDATE:
        sl_validating_begin(c);
        break;
    case SL_DO_CANCEL_VALIDATION:
        sl_validating_end(c);
        break;
    case SL_DO_VERDICT_PROFILE:
        sl_control_verdict_by_profile(c);
        break;
    case SL_DO_VERDICT:
        sl_control_verdict_by_validation(c);
        break;
    case SL_DO_CLEAR_VERDICT:
        clear(c);
        break;
    }
}

static void step(sl_control_core *c, sl_phase_input input, int64_t number) {
    sl_phase_actions actions;
    sl_phases_step(&c->acting->phases, input, number, c->now, &actions);
    for (int i = 0; i < actions.count; i++)
        act(c, actions.action[i]);
}

void sl_control_feed(sl_control_core *c, sl_phase_input input, int64_t number) {
    struct sl_acting *a = c->acting;
    step(c, input, number);
    while (a->inputs > 0) {
        sl_phase_input next = a->input[0].input;
        int64_t with = a->input[0].number;
        memmove(a->input, a->input + 1, (size_t)--a->inputs * sizeof a->input[0]);
        step(c, next, with);
    }
    c->view.phase = a->phases.phase;
}
