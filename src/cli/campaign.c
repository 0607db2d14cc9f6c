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
    const char **set;
    int sets, form, log, stats, help;
    char seed[32];
    sl_document problem_document, document;
    sl_problem problem;
    sl_campaign campaign;
    sl_campaign_result result;
} asked;

static const char *const forms[] = {"text", "json", "csv", "svg", NULL};
static sl_status (*const prints[])(const sl_campaign *, const sl_campaign_result *, int, FILE *) = {
    sl_campaign_text, sl_campaign_json, sl_campaign_csv, sl_campaign_svg};

static void print_help(void) {
    printf(
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
        "  --log             the ladders' decisions: what was seen, considered, done, and what it brought\n"
        "  --format FORM     text (default), json, csv (stretches of like iterations), or svg (throughput\n"
        "                    over time)\n"
        "  -o, --output FILE  write to FILE instead of standard output, complete or not at all\n"
        "  --stats           time and peak memory of the simulation, to standard error\n\n"
        "The same inputs and seed give the same output.\n\n"
        "Example: slackline campaign examples/campaign.yaml --problem examples/four-ranks.yaml\n");
}

static const struct option options[] = {{"problem", required_argument, NULL, 'p'},
                                        {"set", required_argument, NULL, 'k'},
                                        {"seed", required_argument, NULL, 's'},
                                        {"log", no_argument, NULL, 'l'},
                                        {"format", required_argument, NULL, 'f'},
                                        {"output", required_argument, NULL, 'o'},
                                        {"stats", no_argument, NULL, 't'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

/* As --set seed=N. */
static sl_status take_seed(const sl_options *o, asked *a) {
    int64_t seed;
    SL_TRY(sl_option_whole(o, 0, INT64_MAX, &seed));
    snprintf(a->seed, sizeof a->seed, "seed=%lld", (long long)seed);
    a->set[a->sets++] = a->seed;
    return SL_OK;
}

static sl_status take(const sl_options *o, void *argument) {
    asked *a = argument;
    switch (o->option) {
    case 'p':
        a->problem_file = o->value;
        return SL_OK;
    case 'k':
        a->set[a->sets++] = o->value;
        return SL_OK;
    case 's':
        return take_seed(o, a);
    case 'l':
        a->log = 1;
        return SL_OK;
    case 'f':
        return sl_option_choice(o, forms, &a->form);
    case 'o':
        a->output = o->value;
        return SL_OK;
    case 't':
        a->stats = 1;
        return SL_OK;
    default:
        return sl_option_only_word(o, "give one TRACE file", &a->trace);
    }
}

static sl_status parse(int argc, char **argv, asked *a) {
    sl_options o = {.command = "campaign", .table = options, .argc = argc, .argv = argv};
    SL_TRY(sl_options_take(&o, take, a));
    a->help = o.help;
    if (!a->help && !a->trace)
        return sl_error(SL_EINVAL, "campaign: give one TRACE file; see slackline campaign --help");
    if (!a->help && !a->problem_file)
        return sl_error(SL_EINVAL, "campaign: give --problem FILE, the pipeline of one replica");
    return SL_OK;
}

static int is_csv(const char *path) {
    size_t length = strlen(path);
    return length > 4 && strcasecmp(path + length - 4, ".csv") == 0;
}

static sl_status read_problem(asked *a) {
    SL_TRY(sl_document_read(a->problem_file, &a->problem_document));
    for (int i = 0; i < a->sets; i++)
        if (strncmp(a->set[i], "pipeline", 8) == 0)
            SL_TRY(sl_document_set(&a->problem_document, a->set[i]));
    return sl_problem_read(&a->problem_document, &a->problem);
}

/* A CSV is the trace of a campaign file that says nothing else. */
static sl_status read_campaign(asked *a) {
    SL_TRY(is_csv(a->trace) ? sl_document_parse("--set", "{}", &a->document)
                            : sl_document_read(a->trace, &a->document));
    for (int i = 0; i < a->sets; i++)
        if (strncmp(a->set[i], "pipeline", 8) != 0)
            SL_TRY(sl_document_set(&a->document, a->set[i]));
    return sl_campaign_read(&a->document, &a->problem, is_csv(a->trace) ? a->trace : NULL, &a->campaign);
}

static sl_status print(const asked *a) {
    char *text = NULL;
    size_t size = 0;
    sl_planning where = {.output = a->output};
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return sl_error(SL_ENOMEM, "out of memory for the output");
    sl_status status = prints[a->form](&a->campaign, &a->result, a->log, out);
    if (fclose(out) != 0 && status == SL_OK)
        status = sl_error(SL_ENOMEM, "out of memory for the output");
    if (status == SL_OK)
        status = sl_planning_write(&where, text, size);
    free(text);
    return status;
}

static void print_stats(sl_time took) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    fprintf(stderr, "campaign: %.3f s, peak memory %.1f MB\n", (double)took / 1e9,
            (double)usage.ru_maxrss * 1024 / 1e6);
}

static sl_status answer(asked *a) {
    sl_time begin = sl_clock_now(sl_clock_real());
    SL_TRY(read_problem(a));
    SL_TRY(read_campaign(a));
    SL_TRY(sl_campaign_run(&a->campaign, a->log, &a->result));
    SL_TRY(print(a));
    if (a->stats)
        print_stats(sl_clock_now(sl_clock_real()) - begin);
    return SL_OK;
}

int sl_command_campaign(int argc, char **argv) {
    asked a = {0};
    sl_status status = sl_alloc(&a.set, (size_t)argc + 1, sizeof *a.set);
    if (status == SL_OK)
        status = parse(argc, argv, &a);
    if (status == SL_OK && a.help)
        print_help();
    if (status == SL_OK && !a.help)
        status = answer(&a);
    sl_campaign_result_free(&a.result);
    sl_campaign_free(&a.campaign);
    sl_problem_free(&a.problem);
    sl_document_close(&a.document);
    sl_document_close(&a.problem_document);
    sl_free(a.set);
    return sl_planning_end(status);
}
