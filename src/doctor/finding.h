/* What `slackline doctor` found: one thing after the other, each with its state, what is there, what that
 * means for the user and how to change it. Texts are cut to their room, in one line. */
#ifndef SL_DOCTOR_FINDING_H
#define SL_DOCTOR_FINDING_H

#include "base/status.h"

#include <stddef.h>

typedef enum sl_finding_state {
    SL_PRESENT,
    SL_LIMITED, /* works, and something is worse for it */
    SL_ABSENT,
    SL_BROKEN, /* is there, and fails */
    SL_FINDING_STATES
} sl_finding_state;

extern const char *const sl_finding_state_names[SL_FINDING_STATES];

typedef struct sl_finding {
    sl_finding_state state;
    const char *group, *name; /* constants */
    char found[384];          /* "Open MPI 4.1.4, /usr/bin/mpirun" */
    char means[320];          /* what the user cannot do, or what is worse; "" where nothing is to say */
    char remedy[256];         /* how to change that; "" */
} sl_finding;

typedef struct sl_findings {
    sl_finding *list;
    int count;
    size_t room;
    const char *group; /* of those that come */
    sl_status status;  /* the first that failed: no memory */
} sl_findings;

/** Adds one in the present group and returns it, to be filled with sl_finding_...; never NULL. Valid until
 * the next. `found` is a format. */
sl_finding *sl_finding_add(sl_findings *findings, const char *name, sl_finding_state state, const char *found,
                           ...) __attribute__((format(printf, 4, 5)));

/** What it means and how to change it; either may be "". */
void sl_finding_explain(sl_finding *finding, const char *means, const char *remedy);

int sl_findings_count(const sl_findings *findings, sl_finding_state state);
void sl_findings_free(sl_findings *findings);

#endif
