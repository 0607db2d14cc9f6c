/* The checks of `slackline doctor`, in order; README.md has the table. Each part adds its findings and never
 * fails: a check that cannot run is a finding. */
#pragma once

#include "base/status.h"
#include "doctor/child.h"

#include <limits.h>
#include <stddef.h>

/* The findings of `slackline doctor`, each with its state, the thing found, the consequence for the user and
 * the fix. Texts are single lines, cut to their size. */

typedef enum sl_finding_state {
    SL_PRESENT,
    SL_LIMITED, /* works, but with a drawback */
    SL_ABSENT,
    SL_BROKEN, /* exists, but fails */
    SL_FINDING_STATES
} sl_finding_state;

extern const char *const sl_finding_state_names[SL_FINDING_STATES];

typedef struct sl_finding {
    sl_finding_state state;
    const char *group, *name; /* constants */
    char found[384];          /* "Open MPI 4.1.4, /usr/bin/mpirun" */
    char means[320];          /* what the user cannot do, or a drawback; "" if there is nothing to say */
    char remedy[256];         /* how to change that; "" */
} sl_finding;

typedef struct sl_findings {
    sl_finding *list;
    int count;
    size_t room;
    const char *group; /* of the findings to come */
    sl_status status;  /* of the first failure: out of memory */
} sl_findings;

int sl_findings_count(const sl_findings *findings, sl_finding_state state);
void sl_findings_free(sl_findings *findings);

/* Data shared by the parts. */
typedef struct sl_doctor {
    sl_findings findings;
    char worker[PATH_MAX]; /* slackline-worker; "": missing, or does not run */
    sl_child about;        /* its own output */
} sl_doctor;

/** Adds one in the present group: the thing found (`found`, a format), its consequence and its fix, either of
 * which may be "". */
void sl_finding_report(sl_doctor *doctor, const char *name, sl_finding_state state, const char *means,
                       const char *remedy, const char *found, ...) __attribute__((format(printf, 6, 7)));
/* One that needs no explanation. */
#define sl_finding_add(doctor, name, state, ...) sl_finding_report(doctor, name, state, "", "", __VA_ARGS__)

/** Fills doctor->findings; takes some seconds. Call it from a process without other threads. SL_ENOMEM. Free
 * the findings with sl_findings_free, also on error. */
sl_status sl_doctor_look(sl_doctor *doctor);

/** Adds `name` as not tried, for lack of a folder (below). */
void sl_doctor_not_tried(sl_doctor *doctor, const char *name);

/** A new folder for trials: below TMPDIR, or if that is longer than `longest` or unusable, below /tmp. The
 * caller removes it. SL_ESYS. */
sl_status sl_doctor_folder(size_t longest, char *folder, size_t size);

void sl_doctor_programs(sl_doctor *doctor);
void sl_doctor_mpi(sl_doctor *doctor);
void sl_doctor_services(sl_doctor *doctor);
void sl_doctor_arithmetic(sl_doctor *doctor);
void sl_doctor_devices(sl_doctor *doctor);
void sl_doctor_rights(sl_doctor *doctor);
void sl_doctor_room(sl_doctor *doctor);
