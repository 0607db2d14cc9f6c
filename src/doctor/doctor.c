#include "doctor/doctor.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sl_status sl_doctor_folder(size_t longest, char *folder, size_t size) {
    const char *const parents[] = {getenv("TMPDIR"), "/tmp"};
    for (int i = 0; i < 2; i++) {
        if (!parents[i] || strlen(parents[i]) > longest)
            continue;
        snprintf(folder, size, "%.3000s/slackline-doctor-XXXXXX", parents[i]);
        if (mkdtemp(folder))
            return SL_OK;
    }
    return sl_error_errno(SL_ESYS, "%s: no temporary directory can be made", folder);
}

void sl_doctor_not_tried(sl_doctor *d, const char *name) {
    sl_finding_add(d, name, SL_ABSENT, "not tried: no file can be written (temporary files)");
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

const char *const sl_finding_state_names[SL_FINDING_STATES] = {"present", "limited", "absent", "broken"};

/* Makes one line of any program's output. */
static void flatten(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ')
            *text = ' ';
}

void sl_finding_report(sl_doctor *doctor, const char *name, sl_finding_state state, const char *means,
                       const char *remedy, const char *found, ...) {
    sl_findings *all = &doctor->findings;
    sl_status status = sl_grow(&all->list, &all->room, (size_t)all->count + 1, sizeof *all->list);
    if (status != SL_OK) {
        all->status = status;
        return;
    }
    sl_finding *one = &all->list[all->count++];
    *one = (sl_finding){.state = state, .group = all->group, .name = name};
    va_list values;
    va_start(values, found);
    vsnprintf(one->found, sizeof one->found, found, values);
    va_end(values);
    snprintf(one->means, sizeof one->means, "%s", means);
    snprintf(one->remedy, sizeof one->remedy, "%s", remedy);
    flatten(one->found);
    flatten(one->means);
}

int sl_findings_count(const sl_findings *findings, sl_finding_state state) {
    int count = 0;
    for (int i = 0; i < findings->count; i++)
        count += findings->list[i].state == state;
    return count;
}

void sl_findings_free(sl_findings *findings) {
    sl_free(findings->list);
    *findings = (sl_findings){0};
}
