/* slackline doctor: checks the installation, with the consequences of each missing part. */
#include "cli/command.h"
#include "cli/plan_request.h"
#include "cli/version.h"
#include "doctor/doctor.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

typedef struct doctor_options {
    int is_json;
} doctor_options;

static const sl_value forms[] = {
    {"text", "a line per finding"},
    {"json",
     "{\"version\", \"commit\", \"findings\": [{\"group\", \"name\", \"state\", \"found\", \"means\", "
     "\"remedy\"}], \"absent\", \"limited\", \"broken\"}"},
    {NULL, NULL}};
static const sl_option options[] = {SL_OPTION_FORM(doctor_options, is_json, forms), SL_OPTIONS_END};

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

static int run(int argc, char **argv) {
    doctor_options a = {0};
    sl_status status = sl_command_options(argc, argv, &a);
    if (status != SL_OK)
        return sl_plan_request_end(status);
    sl_doctor doctor;
    int broken = 0;
    status = sl_doctor_look(&doctor);
    if (status == SL_OK) {
        broken = sl_findings_count(&doctor.findings, SL_BROKEN);
        if (a.is_json)
            status = print_json(&doctor.findings);
        else
            print_text(&doctor.findings);
    }
    sl_findings_free(&doctor.findings);
    return status == SL_OK ? broken > 0 : sl_plan_request_end(status);
}

const sl_command sl_command_doctor = {
    .name = "doctor",
    .summary = "check the installation and suggest fixes",
    .about =
        "Checks the installation and suggests fixes: the planner, its programs, two ranks under mpirun, a "
        "Redis server, the exact solver, instruction sets, devices, permissions, limits. Each is present, "
        "limited (works, but worse), absent (with the consequence and the fix), or broken. It takes a few "
        "seconds and leaves no files.",
    .options = options,
    .exit_code =
        "0 nothing is broken, even if something is absent; 1 something is broken; 2 a wrong request.",
    .example = "slackline doctor",
    .run = run};
