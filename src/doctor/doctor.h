/* All that `slackline doctor` looks at, in order; README.md has the table. Each part adds its findings and
 * never fails: what cannot be tried is a finding. */
#ifndef SL_DOCTOR_DOCTOR_H
#define SL_DOCTOR_DOCTOR_H

#include "doctor/child.h"
#include "doctor/finding.h"

#include <limits.h>

/* What the parts tell each other. */
typedef struct sl_doctor {
    sl_findings findings;
    char worker[PATH_MAX]; /* slackline-worker; "": it is not there, or does not run */
    sl_child about;        /* what it says of itself */
} sl_doctor;

/** Fills doctor->findings; takes some seconds. Call it from a process without other threads. SL_ENOMEM. Free
 * the findings with sl_findings_free, also on error. */
sl_status sl_doctor_look(sl_doctor *doctor);

/** A finding of `name` that was not tried for want of a place (below). */
void sl_doctor_not_tried(sl_doctor *doctor, const char *name);

/** A new folder for what is tried: below TMPDIR, or where that is longer than `longest` or cannot be used,
 * below /tmp. The caller removes it. SL_ESYS. */
sl_status sl_doctor_place(size_t longest, char *folder, size_t size);

void sl_doctor_programs(sl_doctor *doctor);
void sl_doctor_mpi(sl_doctor *doctor);
void sl_doctor_services(sl_doctor *doctor);
void sl_doctor_arithmetic(sl_doctor *doctor);
void sl_doctor_devices(sl_doctor *doctor);
void sl_doctor_rights(sl_doctor *doctor);
void sl_doctor_room(sl_doctor *doctor);

#endif
