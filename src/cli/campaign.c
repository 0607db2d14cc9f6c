/* slackline campaign: a long job under a trace of faults, simulated with several strategies. */
#include "cli/campaign_print.h"
#include "cli/command.h"
#include "cli/planning.h"

#include "base/clock.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

typedef struct asked {
    const char *trace, *problem_file, *output;
    sl_texts set;
    int form, log, stats;
    char seed[32];
    sl_document problem_document, document;
    sl_problem problem;
    sl_campaign campaign;
    sl_campaign_result result;
} asked;

static const char *const forms[] = {"text", "json", "csv", "svg", NULL};
static sl_status (*const prints[])(const sl_campaign *, const sl_campaign_result *, int, FILE *) = {
    sl_campaign_text, sl_campaign_json, sl_campaign_csv, sl_campaign_svg};

static const char usage[] =
    "Usage: slackline campaign TRACE --problem FILE [--set KEY=VALUE]... [--seed N] [--log]\n"
    "                          [--format text|json|csv|svg] [-o FILE] [--stats]\n\n"
    "Simulates a long job while links, devices, NICs and hosts become slow and well again, once for "
    "each\n"
    "strategy: nothing, each remedy alone, other schedules, the ladder of all, and the best in "
    "hindsight.\n"
    "TRACE is a campaign file as examples/campaign.yaml (docs/formats.md), or a CSV with the columns\n"
    "first_iteration,last_iteration,links,latency_ms; - is standard input (a campaign file).\n\n"
    "  --problem FILE    the pipeline of one replica, as for plan\n"
    "  --set KEY=VALUE   as if it stood in the campaign file (job.replicas=4), or, where KEY begins "
    "with\n"
    "                    pipeline, in the problem; of a CSV too: --set job.iterations=1200\n"
    "  --seed N          as --set seed=N: of what is drawn\n"
    "  --log             decisions: what was seen, considered, done, and what it brought\n"
    "  --format FORM     text (default), json, csv (stretches of like iterations), or svg (throughput\n"
    "                    over time)\n"
    "  -o, --output FILE  write to FILE instead of standard output, complete or not at all\n"
    "  --stats           time and peak memory of the simulation, to standard error\n\n"
    "The same inputs and seed give the same output.\n\n"
    "Example: slackline campaign examples/campaign.yaml --problem examples/four-ranks.yaml\n";

/* As --set seed=N. */
static sl_status take_seed(const sl_options *o, void *argument) {
    asked *a = argument;
    int64_t seed;
    SL_TRY(sl_option_whole(o, 0, INT64_MAX, &seed));
    snprintf(a->seed, sizeof a->seed, "seed=%lld", (long long)seed);
    return sl_texts_add(&a->set, a->seed);
}

static const sl_option options[] = {SL_OPTION("problem", TEXT, asked, problem_file),
                                    SL_OPTION("set", TEXTS, asked, set),
                                    SL_OPTION_OWN("seed", take_seed),
                                    SL_OPTION("log", FLAG, asked, log),
                                    SL_OPTION("format", CHOICE, asked, form, .names = forms),
                                    SL_OPTION("output", TEXT, asked, output, .letter = 'o'),
                                    SL_OPTION("stats", FLAG, asked, stats),
                                    SL_OPTION("", ONCE, asked, trace, .words = "give one TRACE file"),
                                    SL_OPTIONS_END};

static int is_csv(const char *path) {
    size_t length = strlen(path);
    return length > 4 && strcasecmp(path + length - 4, ".csv") == 0;
}

static sl_status read_problem(asked *a) {
    SL_TRY(sl_document_read(a->problem_file, &a->problem_document));
    for (int i = 0; i < a->set.count; i++)
        if (strncmp(a->set.text[i], "pipeline", 8) == 0)
            SL_TRY(sl_document_set(&a->problem_document, a->set.text[i]));
    return sl_problem_read(&a->problem_document, &a->problem);
}

/* A CSV is the trace of a campaign file that says nothing else. */
static sl_status read_campaign(asked *a) {
    SL_TRY(is_csv(a->trace) ? sl_document_parse("--set", "{}", &a->document)
                            : sl_document_read(a->trace, &a->document));
    for (int i = 0; i < a->set.count; i++)
        if (strncmp(a->set.text[i], "pipeline", 8) != 0)
            SL_TRY(sl_document_set(&a->document, a->set.text[i]));
    return sl_campaign_read(&a->document, &a->problem, is_csv(a->trace) ? a->trace : NULL, &a->campaign);
}

static sl_status print(const asked *a) {
    sl_leaving leaving;
    SL_TRY(sl_leaving_open(a->output, &leaving));
    return sl_leaving_close(&leaving, prints[a->form](&a->campaign, &a->result, a->log, leaving.out));
}

static void print_stats(sl_time took) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    fprintf(stderr, "campaign: %.3f s, peak memory %.1f MB\n", (double)took / 1e9,
            (double)used.ru_maxrss * 1024 / 1e6);
}

static sl_status answer(asked *a) {
    sl_time begin = sl_now();
    if (!a->trace)
        return sl_error(SL_EINVAL, "campaign: give one TRACE file; see slackline campaign --help");
    if (!a->problem_file)
        return sl_error(SL_EINVAL, "campaign: give --problem FILE, the pipeline of one replica");
    SL_TRY(read_problem(a));
    SL_TRY(read_campaign(a));
    SL_TRY(sl_campaign_run(&a->campaign, a->log, &a->result));
    SL_TRY(print(a));
    if (a->stats)
        print_stats(sl_now() - begin);
    return SL_OK;
}

int sl_command_campaign(int argc, char **argv) {
    asked a = {0};
    sl_options o = {.command = "campaign", .table = options, .argc = argc, .argv = argv, .usage = usage};
    sl_status status = sl_options_take(&o, &a);
    if (status == SL_OK && !o.help)
        status = answer(&a);
    sl_campaign_result_free(&a.result);
    sl_campaign_free(&a.campaign);
    sl_problem_free(&a.problem);
    sl_document_close(&a.document);
    sl_document_close(&a.problem_document);
    sl_free(a.set.text);
    return sl_planning_end(status);
}
