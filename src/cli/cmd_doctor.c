/* slackline doctor: checks the installation, with the consequences of each missing part. */
#include "cli/command.h"
#include "cli/plan_request.h"
#include "cli/version.h"
#include "doctor/doctor.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char *const forms[] = {"text", "json", NULL};
static const sl_option options[] = {{.name = "format", .kind = SL_TAKES_CHOICE, .names = forms},
                                    SL_OPTIONS_END};

static void print_text(const sl_findings *findings) {
    const char *group = "";
    printf("slackline %s%s%s\n", SL_VERSION, *sl_version_commit() ? ", commit " : "", sl_version_commit());
    for (int i = 0; i < findings->count; i++) {
        const sl_finding *f = &findings->list[i];
        if (strcmp(group, f->group) != 0)
            printf("\n%s\n", f->group);
        group = f->group;
        printf("  %-8s %-20s %s\n", sl_finding_state_names[f->state], f->name, f->found);
        if (*f->means)
            printf("  %-8s %-20s   %s\n", "", "", f->means);
        if (*f->remedy)
            printf("  %-8s %-20s   %s\n", "", "", f->remedy);
    }
    printf("\n%d present, %d limited, %d absent, %d broken\n", sl_findings_count(findings, SL_PRESENT),
           sl_findings_count(findings, SL_LIMITED), sl_findings_count(findings, SL_ABSENT),
           sl_findings_count(findings, SL_BROKEN));
}

/* The output of a program may not be UTF-8. */
static json_t *text_json(const char *text) {
    json_t *value = json_string(text);
    return value ? value : json_string("(not readable)");
}

static sl_status print_json(const sl_findings *findings) {
    json_t *list = json_array();
    for (int i = 0; i < findings->count; i++) {
        const sl_finding *f = &findings->list[i];
        json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:o,s:o,s:o}", "group", f->group, "name", f->name,
                                              "state", sl_finding_state_names[f->state], "found",
                                              text_json(f->found), "means", text_json(f->means), "remedy",
                                              text_json(f->remedy)));
    }
    json_t *all =
        json_pack("{s:s,s:s,s:o,s:i,s:i,s:i}", "version", SL_VERSION, "commit", sl_version_commit(),
                  "findings", list, "absent", sl_findings_count(findings, SL_ABSENT), "limited",
                  sl_findings_count(findings, SL_LIMITED), "broken", sl_findings_count(findings, SL_BROKEN));
    int failed = !all || json_dumpf(all, stdout, JSON_INDENT(1)) != 0;
    json_decref(all);
    putchar('\n');
    return failed ? sl_error(SL_ESYS, "the findings cannot be written") : SL_OK;
}

int sl_command_doctor(int argc, char **argv) {
    int is_json = 0;
    sl_status status = sl_subcommand_options(argc, argv, options, &is_json);
    if (status != SL_OK)
        return sl_plan_request_end(status);
    sl_doctor doctor;
    int broken = 0;
    status = sl_doctor_look(&doctor);
    if (status == SL_OK) {
        broken = sl_findings_count(&doctor.findings, SL_BROKEN);
        if (is_json)
            status = print_json(&doctor.findings);
        else
            print_text(&doctor.findings);
    }
    sl_findings_free(&doctor.findings);
    return status == SL_OK ? broken > 0 : sl_plan_request_end(status);
}
