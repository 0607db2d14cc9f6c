/* The public orchestrator: arguments are checked, converted, and passed to adapt/orchestrator.
 *
 *   library_orchestrator.c          opening, and common checks
 *   library_orchestrator_given.c    measurements and reports
 *   library_orchestrator_answers.c  events, actions, questions, a resume */
#pragma once

#include "adapt/orchestrator/orchestrator.h"
#include "library/library_handles.h"

#define SL_LIBRARY_DURATION ((int64_t)1000000000 * SL_SECOND) /* the longest: 30 years */
#define SL_LIBRARY_LATEST (INT64_MAX / 2)                     /* so that the difference of two times is one */

struct slackline_orchestrator {
    sl_orchestrator *inner;
    int replicas, processes;
    sl_measured **expected;           /* [replicas] used for unmeasured values; equal replicas share one */
    sl_measured **last;               /* [replicas] measured in this layout, or NULL */
    sl_orchestrator_action under_way; /* SL_DO_NOTHING: none */
};

/** Checks that the replica exists. */
sl_status sl_library_replica(const slackline_orchestrator *orchestrator, int replica);

/** `like` (expected or last) of a replica, with its current number of microbatches; shares the arrays of
 * `like`. */
sl_problem sl_library_shape(const slackline_orchestrator *orchestrator, int replica, const sl_measured *like);
/** Drops all measurements: none were made in this layout. */
void sl_library_forget(slackline_orchestrator *orchestrator);
