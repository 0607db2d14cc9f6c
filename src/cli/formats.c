/* slackline formats: the tables of keys, events and metrics as Markdown. docs/reference/ is made from this
 * output (tests/docs/test_reference.py). */
#include "cli/command.h"
#include "cli/plan_request.h"

#include "adapt/campaign/campaign.h"
#include "adapt/topology/topology.h"
#include "base/event.h"
#include "choose/model/model_work.h"
#include "notice/watch/watch_metrics.h"
#include "plan/pipeline/problem.h"
#include "run/file/run.h"

#include <stdio.h>
#include <string.h>

static const char *type_name(const sl_key *key) {
    switch (key->type) {
    case SL_KEY_INT:
    case SL_KEY_INT64:
        return "whole number";
    case SL_KEY_REAL:
        return "number";
    case SL_KEY_BOOL:
        return "true or false";
    case SL_KEY_TEXT:
        return "text";
    case SL_KEY_CHOICE:
        return "choice";
    default:
        return "see right";
    }
}

static void print_key(const char *path, const sl_key *key, void *context) {
    (void)context;
    printf("| `%s%s` | %s | %s%s%s | %s", path, key->name, type_name(key), key->required ? "required" : "",
           key->standard ? "default " : "", key->standard ? key->standard : "", key->help ? key->help : "");
    for (int i = 0; key->type == SL_KEY_CHOICE && key->choices[i]; i++)
        printf("%s`%s`", i ? ", " : ": ", key->choices[i]);
    printf(" |\n");
}

static void print_keys(const char *file, void (*visit_keys)(sl_key_visit visit, void *context)) {
    printf("### Keys of a %s file\n| key | type | default | meaning |\n|---|---|---|---|\n", file);
    visit_keys(print_key, NULL);
    printf("\n");
}

static const sl_option options[] = {SL_OPTIONS_END};

static int run(int argc, char **argv) {
    sl_status status = sl_command_options(argc, argv, NULL);
    if (status != SL_OK)
        return sl_plan_request_end(status);
    print_keys("problem", sl_problem_visit_keys);
    print_keys("run", sl_run_visit_keys);
    print_keys("cluster", sl_cluster_visit_keys);
    print_keys("model", sl_model_work_visit_keys);
    print_keys("campaign", sl_campaign_visit_keys);
    printf("### Kinds of events\n| kind | meaning |\n|---|---|\n");
    for (int kind = 0; kind < SL_EVENT_KINDS; kind++)
        printf("| %s | %s |\n", sl_event_names[kind].name, sl_event_names[kind].meaning);
    int count;
    const sl_metric *metrics = sl_metrics_all(&count);
    printf("\n### Metrics of watch\n| metric | type | meaning |\n|---|---|---|\n");
    for (int i = 0; i < count; i++)
        printf("| `%s` | %s | %s |\n", metrics[i].name, metrics[i].type, metrics[i].help);
    return 0;
}

const sl_command sl_command_formats = {.name = "formats",
                                       .about = "Prints the tables of docs/reference/ that describe files.",
                                       .options = options,
                                       .example = "slackline formats",
                                       .run = run};
