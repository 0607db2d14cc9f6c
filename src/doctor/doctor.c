#include "doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sl_status sl_doctor_place(size_t longest, char *folder, size_t size) {
    const char *const places[] = {getenv("TMPDIR"), "/tmp"};
    for (int i = 0; i < 2; i++) {
        if (!places[i] || strlen(places[i]) > longest)
            continue;
        snprintf(folder, size, "%.3000s/slackline-doctor-XXXXXX", places[i]);
        if (mkdtemp(folder))
            return SL_OK;
    }
    return sl_error_errno(SL_ESYS, "%s: no temporary directory can be made", folder);
}

void sl_doctor_not_tried(sl_doctor *d, const char *name) {
    sl_finding_add(&d->findings, name, SL_ABSENT, "not tried: no file can be written (temporary files)");
}

sl_status sl_doctor_look(sl_doctor *doctor) {
    static const struct {
        const char *group;
        void (*look)(sl_doctor *doctor);
    } parts[] = {{"slackline", sl_doctor_programs}, {"MPI", sl_doctor_mpi},
                 {"services", sl_doctor_services},  {"arithmetic", sl_doctor_arithmetic},
                 {"devices", sl_doctor_devices},    {"permissions", sl_doctor_rights},
                 {"room", sl_doctor_room}};
    *doctor = (sl_doctor){.worker = ""};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        doctor->findings.group = parts[i].group;
        parts[i].look(doctor);
    }
    return doctor->findings.status == SL_OK ? SL_OK : sl_error(SL_ENOMEM, "out of memory for the findings");
}
