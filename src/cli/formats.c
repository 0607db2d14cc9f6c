/* slackline formats: the tables of keys, events and metrics as Markdown. docs/reference/ is made from this
 * output (tests/docs/test_reference.py). */
#include "cli/command.h"

#include "adapt/campaign/campaign.h"
#include "adapt/topology/topology.h"
#include "base/event.h"
#include "notice/watch/watch_metrics.h"
#include "plan/pipeline/problem.h"
#include "run/file/run.h"

#include <stdio.h>
#include <string.h>

static const char heading[] = "| key | type | default | meaning |\n|---|---|---|---|\n";

int sl_command_formats(int argc, char **argv) {
    if (argc > 1) {
        int help = strcmp(argv[1], "--help") == 0;
        fputs(sl_help_formats, help ? stdout : stderr);
        return help ? 0 : 2;
    }
    printf("### Keys of a problem file\n%s", heading);
    sl_problem_document(stdout);
    printf("\n### Keys of a run file\n%s", heading);
    sl_run_document(stdout);
    printf("\n### Keys of a cluster file\n%s", heading);
    sl_cluster_document(stdout);
    printf("\n### Keys of a campaign file\n%s", heading);
    sl_campaign_document(stdout);
    printf("\n### Kinds of events\n| kind | meaning |\n|---|---|\n");
    for (int kind = 0; kind < SL_EVENT_KINDS; kind++)
        printf("| %s | %s |\n", sl_event_names[kind].name, sl_event_names[kind].meaning);
    int count;
    const sl_metric *metrics = sl_metrics_all(&count);
    printf("\n### Metrics of watch\n| metric | type | meaning |\n|---|---|---|\n");
    for (int i = 0; i < count; i++)
        printf("| `%s` | %s | %s |\n", metrics[i].name, metrics[i].type, metrics[i].help);
    return 0;
}
