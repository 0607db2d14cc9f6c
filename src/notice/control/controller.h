/* The controller of a job: moves all nodes through tracking, profiling and validation.
 *
 * It reads what the agents put into the store and runs the change-point detector on the job's iteration
 * times. At an onset it asks for a profile, names suspects, holds the job at a consistent cut (hold_cut.h),
 * has the suspects validated, releases the job, and reports its verdict. If no cut closes, the verdict rests
 * on the profile. Like the agent, it is stepped by its caller. */
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
    sl_store *store; /* the caller's; from now on only the controller uses it */
    const char *job;
    sl_time deadline; /* of a hold; 0: SL_GATE_DEADLINE */
    int hold;         /* 0: never holds the job: verdicts rest on profiles */
    /* every event, in order: the caller writes events.jsonl and shows it. `time` is measured from the
     * controller's start */
    void (*event)(void *context, const sl_event *event);
    void *context;
} sl_controller_config;

/** SL_EINVAL, SL_ENOMEM. */
sl_status sl_controller_open(const sl_controller_config *config, sl_controller **controller);
void sl_controller_close(sl_controller *controller);

/** Does what is due; *next is the time of the next call. SL_ENOMEM. */
sl_status sl_controller_step(sl_controller *controller, sl_time now, sl_time *next);

/** Whether this controller is in charge: of all controllers of a job one is, and only its output counts. */
int sl_controller_in_charge(const sl_controller *controller);

/** The current state; owned by the controller, valid until the next step. */
const sl_status_view *sl_controller_status(const sl_controller *controller);
/** The same for each rank, each link and the nodes. */
const sl_standing *sl_controller_standing(const sl_controller *controller);
const sl_nodes *sl_controller_nodes(const sl_controller *controller);

/** The program has ended: reads what is left in the store, reports the last events. */
void sl_controller_finish(sl_controller *controller);
