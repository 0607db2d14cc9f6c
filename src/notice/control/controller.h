/* The controller of a job: moves all nodes through tracking, profiling and validation.
 *
 * It reads what the agents put into the store, runs the change-point detector on the job's iteration times,
 * and at an onset asks for a profile, names suspects, holds the job at a consistent cut (hold_cut.h), has the
 * suspects validated, releases, and says its verdict. Where no cut closes, the verdict rests on the profile.
 * Stepped by its caller like the agent. */
#pragma once

#include "base/event.h"
#include "base/status.h"
#include "base/time.h"
#include "notice/control/job_status.h"
#include "notice/control/nodes.h"
#include "notice/control/standing.h"
#include "notice/store/store.h"

typedef struct sl_controller sl_controller;

typedef struct sl_controller_config {
    sl_store *store; /* the caller's; used by the controller alone from now on */
    const char *job;
    sl_time deadline; /* of a hold; 0: SL_GATE_DEADLINE */
    int hold;         /* 0: the job is never held: verdicts rest on profiles */
    /* every event, in order: the caller writes events.jsonl and shows it. `time` is since the controller's
     * start */
    void (*event)(void *context, const sl_event *event);
    void *context;
} sl_controller_config;

/** SL_EINVAL, SL_ENOMEM. */
sl_status sl_controller_open(const sl_controller_config *config, sl_controller **controller);
void sl_controller_close(sl_controller *controller);

/** Does what is due; *next is when it wants to be called again. SL_ENOMEM. */
sl_status sl_controller_step(sl_controller *controller, sl_time now, sl_time *next);

/** Whether it is the job's: of all controllers of a job one is in charge, and only what that one says counts.
 */
int sl_controller_in_charge(const sl_controller *controller);

/** What is known now; the controller's, good until the next step. */
const sl_status_view *sl_controller_status(const sl_controller *controller);
/** The same of each rank, each link and the nodes. */
const sl_standing *sl_controller_standing(const sl_controller *controller);
const sl_nodes *sl_controller_nodes(const sl_controller *controller);

/** The program has ended: reads what is left in the store, says the last events. */
void sl_controller_finish(sl_controller *controller);
