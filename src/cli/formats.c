/* slackline formats: the key tables as Markdown; docs/formats.md holds this output and a test compares them. */
#include "cli/command.h"

#include "base/event.h"
#include "plan/pipeline/problem.h"
#include "run/train/run.h"

#include <stdio.h>

static const char heading[] = "| key | type | default | meaning |\n|---|---|---|---|\n";

int sl_command_formats(int argc, char **argv) {
    (void)argc, (void)argv;
    printf("### Keys of a problem file\n%s", heading);
    sl_problem_document(stdout);
    printf("\n### Keys of a run file\n%s", heading);
    sl_run_document(stdout);
    printf("\n### Kinds of events\n| kind | meaning |\n|---|---|\n");
    for (int kind = 0; kind < SL_EVENT_KINDS; kind++)
        printf("| %s | %s |\n", sl_event_names[kind].name, sl_event_names[kind].meaning);
    return fflush(stdout) == 0 ? 0 : 1;
}
