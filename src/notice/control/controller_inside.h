/* The controller's state, shared by its files. controller.c reads the nodes, levels.c their iterations,
 * answering.c what agents answer; these are inputs of the phases. acting.c does what the phases ask for,
 * concluding.c reaches verdicts, control_events.c reports events. */
#pragma once

#include "notice/control/closing.h"
#include "notice/control/collection.h"
#include "notice/control/controller.h"
#include "notice/control/iteration_samples.h"
#include "notice/control/nodes.h"
#include "notice/control/phases.h"
#include "notice/control/seat.h"
#include "notice/control/standing.h"
#include "notice/detect/call_profile.h"
#include "notice/detect/change.h"

#define SL_PROFILE_ITERATIONS 5
#define SL_PROFILE_CALLS 20000 /* of one rank, about */
#define SL_STABLE_SAMPLES 20   /* at one level, before a reference is taken */
#define SL_MEMORY 8192         /* samples whose iteration is remembered; a power of two */
#define SL_INTERRUPTIONS 16
#define SL_INPUTS 16

/* Time in which iterations say nothing about the program: it was held, or tests ran at the same time. */
typedef struct sl_interruption {
    sl_time begin, end; /* end SL_TIME_NEVER: not over */
} sl_interruption;

struct sl_controller {
    sl_controller_config config;
    sl_time deadline; /* of a hold, ns */
    sl_leadership seat;
    int was_mine, connected;
    int64_t round; /* number of the last order that has one */
    sl_store_position at_nodes, at_iterations, at_profiles, at_views;
    sl_nodes nodes;
    sl_iteration_samples *samples;
    sl_detector *detector;
    int64_t sample; /* given to the detector since it was opened */
    int64_t since;  /* of them, since the last change */
    int64_t iteration_of[SL_MEMORY];
    sl_time start_of[SL_MEMORY];
    double bytes_of[SL_MEMORY]; /* of an iteration */
    sl_phases phases;
    sl_status_view view;
    sl_standing standing;
    sl_time begun, now, taken_over; /* samples before `taken_over` are history: they have no effect */
    sl_call_profile *reference;
    sl_time reference_until; /* end of its window */
    sl_call_profile *slow;   /* the last one compared with the reference; NULL: none */
    sl_call_profile *usual;  /* replaces a missing reference for onsets after usual_until: its iterations may
                                have been slow already */
    sl_time usual_until, onset_at;
    int usual_is_now;                 /* it is of this slow phase */
    double taken[SL_STATUS_SUSPECTS]; /* of each suspect: sl_call_profile_taken */
    double *starved; /* [ranks of the job] sl_call_profile_starved of the last profile compared; NULL: none */
    struct {
        sl_collection collection;
        sl_time from, to;
        int iterations;
        int stretch; /* part of its window in which iterations took longer than their level */
    } profile;
    struct {
        sl_closing closing;
        int64_t round; /* 0: none ordered */
        sl_time begin, until, closed;
        sl_time rested; /* no new hold before this time: a fault that comes and goes must not stop the job */
    } hold;
    struct {
        int64_t round;       /* 0: none */
        int members, beside; /* beside: the hold was released before the validation ended */
        sl_time begin, next;
        json_t *result; /* its result; NULL: none yet */
    } validation;
    sl_interruption interruption[SL_INTERRUPTIONS];
    int interruptions;
    struct {
        sl_phase_input input;
        int64_t number;
    } input[SL_INPUTS]; /* inputs caused by actions */
    int inputs;
    char reason[256]; /* why the verdict rests on the profile alone */
    char profile_reason[256];
    sl_status failed; /* SL_ENOMEM, or SL_OK */
};

/* ---- controller.c ---- */

/** Handles one input and those that its actions cause. */
void sl_controller_feed(sl_controller *c, sl_phase_input input, int64_t number);

/** Whether the store answered; handles its loss and its return. */
int sl_controller_answered(sl_controller *c, sl_status status);

/* ---- levels.c ---- */

/** The iterations that agents found: samples, levels, onsets and reliefs. */
void sl_controller_read_iterations(sl_controller *c);

/** A controller that takes over a slow job resumes from its onset. */
void sl_controller_resume(sl_controller *c);

/* ---- answering.c ---- */

/** What agents answer to orders, if it is awaited: calls, views of gates, the result of a validation. */
void sl_controller_read_profiles(sl_controller *c);
void sl_controller_read_views(sl_controller *c);
void sl_controller_read_validation(sl_controller *c);

/* ---- acting.c ---- */

/** Does what the phases asked for. Failures become inputs, or `failed`. */
void sl_controller_act(sl_controller *c, const sl_phase_actions *actions);

/** An input for later in this step. */
void sl_controller_note(sl_controller *c, sl_phase_input input, int64_t number);

/** Appends an order; takes ownership of `order`. 0 when the store is lost. */
int sl_controller_order(sl_controller *c, const char *kind, int64_t round, json_t *order);

/** If the profile holds far fewer calls than its iterations have, asks for one of a longer window. 0: it
 * holds enough, or a longer window does not help. */
int sl_controller_profile_again(sl_controller *c);

/** No profile counts as healthy any more. */
void sl_controller_drop_reference(sl_controller *c);

/** The validation has ended or is no longer needed: ends its processes. */
void sl_controller_end_validation(sl_controller *c);

/* ---- concluding.c ---- */

/** The members' results have arrived: the verdict that follows. */
void sl_controller_validated(sl_controller *c);

/** The suspects become the verdict; or the results of the tests do, as far as there are any. */
void sl_controller_verdict_by_profile(sl_controller *c);
void sl_controller_verdict_by_validation(sl_controller *c);

/* ---- control_events.c ---- */

/** An event at the current time. `seen`, `decided`, `why` may be NULL. */
void sl_controller_tell(sl_controller *c, sl_event_kind kind, const char *seen, const char *decided,
                        const char *why);

/** The same about a suspect: its rank or link goes into the event. */
void sl_controller_tell_suspect(sl_controller *c, sl_event_kind kind, const sl_suspect *suspect,
                                const char *decided, const char *why);

/** An onset or relief, from the detector's change. */
void sl_controller_tell_change(sl_controller *c, const sl_change *change, int64_t iteration,
                               const char *decided);

/** The suspects in one line. */
void sl_suspects_text(const sl_suspect *suspect, int count, char *text, size_t size);
