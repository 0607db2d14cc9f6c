/* The controller's parts, one per file. Each part's struct is defined in its file, and only that file sees
 * its inside: levels.c the job's iterations, profiling.c the profile under way, references.c the profiles
 * kept and how they compare, holding.c the hold, validating.c the tests, acting.c the phases and what they
 * ask for. All of them work on one sl_control_core: what the controller was given, what it knows and
 * publishes. concluding.c reaches verdicts, control_store.c reads logs and sends orders, control_events.c
 * reports events, controller.c steps all of it. */
#pragma once

#include "notice/control/controller.h"
#include "notice/control/leadership.h"
#include "notice/control/phases.h"
#include "notice/control/second_test.h"
#include "notice/detect/call_profile.h"
#include "notice/detect/change.h"

#define SL_PROFILE_ITERATIONS 5
#define SL_READ_MAX 512 /* entries of one reading */
#define SL_VALIDATION_TIME (60 * SL_SECOND)

typedef struct sl_control_core {
    sl_controller_config given;
    sl_time begun, now;
    int64_t round; /* number of the last order that has one */
    sl_leadership leadership;
    sl_nodes nodes;
    sl_status_view view;
    sl_standing standing;
    char reason[256]; /* why the verdict rests on the profile alone */
    sl_status failed; /* SL_ENOMEM, or SL_OK */
    struct sl_acting *acting;
    struct sl_levels *levels;
    struct sl_profiling *profiling;
    struct sl_references *references;
    struct sl_holding *holding;
    struct sl_validating *validating;
} sl_control_core;

/* Each part is opened with everything above it zeroed or open; closing accepts what was never opened.
 * SL_ENOMEM. */
#define SL_CONTROL_PARTS(X) X(acting) X(levels) X(profiling) X(references) X(validating) X(holding)
#define SL_CONTROL_PART(part)                                                                                \
    sl_status sl_##part##_open(sl_control_core *c);                                                          \
    void sl_##part##_close(sl_control_core *c);
SL_CONTROL_PARTS(SL_CONTROL_PART)
#undef SL_CONTROL_PART

/* ---- acting.c ---- */

/** Handles one input and those that its actions cause. */
void sl_control_feed(sl_control_core *c, sl_phase_input input, int64_t number);

/** An input for later in this step. */
void sl_control_note(sl_control_core *c, sl_phase_input input, int64_t number);

/** The current phase ends at `until` at the latest. */
void sl_control_wait_until(sl_control_core *c, sl_time until);

/** When a tick is needed; SL_TIME_NEVER: never. */
sl_time sl_control_due(const sl_control_core *c);

/* ---- levels.c ---- */

/** The iterations that agents found: samples, levels, onsets and reliefs. */
void sl_levels_read(sl_control_core *c);

/** Samples before now are history: they have no effect. */
void sl_levels_take_over(sl_control_core *c);

/** A controller that takes over a slow job resumes from its onset. */
void sl_levels_resume(sl_control_core *c);

/** A rank that no living node has is waited for no longer. */
void sl_levels_lose(sl_control_core *c, int rank);

/** Between the two, iterations are no evidence about the program: it is held, or tests run. */
void sl_levels_interrupt(sl_control_core *c);
void sl_levels_continue(sl_control_core *c);

/** A profile shows that iterations are slow, though since their shape changed none was healthy: an onset. The
 * next profile does not show it. */
void sl_levels_slow(sl_control_core *c);
void sl_levels_not_slow(sl_control_core *c);

/* ---- profiling.c ---- */

typedef struct sl_profiled {
    sl_call_profile *profile; /* ownership passes; NULL: none could be made */
    sl_time end;              /* of its window */
    size_t calls;
    int iterations, ranks, complete; /* complete: ranks all of whose calls arrived */
} sl_profiled;

/** Asks for a profile; cancels it. */
void sl_profiling_begin(sl_control_core *c);
void sl_profiling_cancel(sl_control_core *c);

/** The calls that agents sent. If they are far fewer than the iterations have, asks for a longer window. */
void sl_profiling_read(sl_control_core *c);

/** Skips what other controllers asked for. */
void sl_profiling_skip(sl_control_core *c);

/** Ends the profile under way, and gives what came. */
sl_profiled sl_profiling_take(sl_control_core *c);

/* ---- references.c ---- */

typedef struct sl_profile_comparison {
    const sl_call_profile *healthy, *slow; /* NULL: none */
    const double *taken;                   /* of each suspect: sl_call_profile_taken */
    const double *lost; /* [ranks of the job] of the last profile, as of sl_call_profile_weigh; NULL: none */
    const double *starved, *stopped; /* likewise, as of sl_call_profile_starved and _stopped */
    int transfers;                   /* as of sl_call_profile_weigh */
    int doubtful;                    /* compared with iterations that may have been slow already, or that
                              were of another shape */
} sl_profile_comparison;

/** The profile that has arrived is the healthy reference; it is compared with it; none counts as healthy any
 * more. */
void sl_references_keep(sl_control_core *c);
void sl_references_compare(sl_control_core *c);
void sl_references_drop(sl_control_core *c);

/** An onset at `start`. Nonzero: the reference had been taken when iterations were slow already, and counts
 * no longer. */
int sl_references_onset(sl_control_core *c, sl_time start);

/** No profile is of this slow phase: it has ended, or another profile is taken. */
void sl_references_clear(sl_control_core *c);

/** The verdict: whether the profile of this slow phase is kept as usual. It is not if something was `found`.
 */
int sl_references_conclude(sl_control_core *c, int found);

/** The profiles last compared, and what they show; valid until the next step. */
sl_profile_comparison sl_references_last(const sl_control_core *c);

/* ---- holding.c ---- */

/** Holds the job; releases it. `testing`: a validation is under way, and continues. */
void sl_holding_begin(sl_control_core *c);
void sl_holding_release(sl_control_core *c, int testing);

/** The views of the gates, if they are awaited. */
void sl_holding_read(sl_control_core *c);

/** Skips what other controllers asked for. */
void sl_holding_skip(sl_control_core *c);

/** Whether it may be held again soon, and only not yet. */
int sl_holding_postponed(const sl_control_core *c);

/** Whether the job was asked to hold; when that hold ends at the latest. */
int sl_holding_now(const sl_control_core *c);
sl_time sl_holding_until(const sl_control_core *c);

/* ---- validating.c ---- */

/** Has the suspects tested; ends the tests' processes. */
void sl_validating_begin(sl_control_core *c);
void sl_validating_end(sl_control_core *c);

/** The result, if it is awaited. */
void sl_validating_read(sl_control_core *c);

/** Whether tests run, or a second one is about to; the results of the first and the second test (NULL: none),
 * and whether the hold had ended before the last one. */
int sl_validating_now(const sl_control_core *c);
const json_t *sl_validating_result(const sl_control_core *c, int *released);
const json_t *sl_validating_second(const sl_control_core *c);

/* ---- concluding.c ---- */

/** Share of an iteration by which it takes longer than when healthy; 0: unknown. */
double sl_control_missing(const sl_control_core *c);

/** The suspects become the verdict; or the results of the tests do, as far as there are any. */
void sl_control_verdict_by_profile(sl_control_core *c);
void sl_control_verdict_by_validation(sl_control_core *c);

/** What the tests named, and nothing else did, goes into `test`; nonzero: there is something to test again.
 */
int sl_control_doubts(sl_control_core *c, sl_second_test *test);

/* ---- control_store.c ---- */

/** Whether the store answered; handles its loss and its return. */
int sl_control_answered(sl_control_core *c, sl_status status);

/** As sl_store_read, without waiting. 0: the store did not answer. */
int sl_control_read(sl_control_core *c, const char *log, sl_store_position *position, size_t most,
                    const sl_store_entry **entries, size_t *count);

/** Skips what is in a log. */
void sl_control_skip(sl_control_core *c, const char *log, sl_store_position *position);

/** As sl_message_read; counts what is no such message. */
const sl_message_head *sl_control_message(sl_control_core *c, const sl_store_entry *entry,
                                          sl_message_kind kind, const void **body);

/** Appends an order; takes ownership of `order`. 0 when the store is lost. */
int sl_control_order(sl_control_core *c, const char *kind, int64_t round, json_t *order);

/* ---- control_events.c ---- */

/** An event at the current time. `seen`, `decided`, `why` may be NULL. */
void sl_control_report(sl_control_core *c, sl_event_kind kind, const char *seen, const char *decided,
                       const char *why);

/** The same with a member for programs (sl_event_fact); takes `value`. */
void sl_control_report_fact(sl_control_core *c, sl_event_kind kind, const char *seen, const char *decided,
                            const char *why, const char *key, json_t *value);

/** The same about a suspect: its rank or link goes into the event. */
void sl_control_report_suspect(sl_control_core *c, sl_event_kind kind, const sl_suspect *suspect,
                               const char *decided, const char *why);

/** An onset or relief, from the detector's change. */
void sl_control_report_change(sl_control_core *c, const sl_change *change, int64_t iteration,
                              const char *decided);

/** The reason of the verdict to come, should it rest on the profile alone. */
void sl_control_because(sl_control_core *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The suspects in one line. */
void sl_suspects_text(const sl_suspect *suspect, int count, char *text, size_t size);
