/* slackline campaign: a long job under a trace of faults, simulated with several strategies. */
#include "cli/campaign_print.h"
#include "cli/command.h"
#include "cli/planning.h"
#include "cli/suggest.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

typedef struct asked {
    const char *trace, *problem_file, *output;
    sl_status (*print)(const sl_campaign *, const sl_campaign_result *, int, FILE *);
    const char **set;
    int sets, log, stats, help;
    sl_document problem_document, document;
    sl_problem problem;
    sl_campaign campaign;
    sl_campaign_result result;
} asked;

static const struct {
    const char *name;
    sl_status (*print)(const sl_campaign *, const sl_campaign_result *, int, FILE *);
} forms[] = {{"text", sl_campaign_text},
             {"json", sl_campaign_json},
             {"csv", sl_campaign_csv},
             {"svg", sl_campaign_svg}};

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

static sl_status refuse_option(const char *word, int missing) {
    static const char *const names[] = {"problem", "set",   "seed", "log", "format",
                                        "output",  "stats", "help", NULL};
    return sl_refuse_option("campaign", names, word, missing);
}

static sl_status choose_form(asked *a, const char *name) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i].name, name) == 0) {
            a->print = forms[i].print;
            return SL_OK;
        }
    return sl_error(SL_EINVAL, "campaign: --format must be text, json, csv or svg, got '%.40s'", name);
}

/* Kept until the files have been read. */
static sl_status keep_seed(asked *a, const char *text, char *place, size_t size) {
    char *end;
    (void)strtoull(text, &end, 10);
    if (end == text || *end || text[0] == '-')
        return sl_error(SL_EINVAL, "campaign: --seed must be a whole number, got '%.40s'", text);
    snprintf(place, size, "seed=%s", text);
    a->set[a->sets++] = place;
    return SL_OK;
}

static sl_status parse(int argc, char **argv, asked *a, char *seed, size_t size) {
    static const struct option options[] = {{"problem", required_argument, NULL, 'p'},
                                            {"set", required_argument, NULL, 'k'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"log", no_argument, NULL, 'l'},
                                            {"format", required_argument, NULL, 'f'},
                                            {"output", required_argument, NULL, 'o'},
                                            {"stats", no_argument, NULL, 't'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":ho:", options, NULL)) != -1)
        switch (option) {
        case 'p':
            a->problem_file = optarg;
            break;
        case 'k':
            a->set[a->sets++] = optarg;
            break;
        case 's':
            SL_TRY(keep_seed(a, optarg, seed, size));
            break;
        case 'l':
            a->log = 1;
            break;
        case 'f':
            SL_TRY(choose_form(a, optarg));
            break;
        case 'o':
            a->output = optarg;
            break;
        case 't':
            a->stats = 1;
            break;
        case 'h':
            a->help = 1;
            return SL_OK;
        default:
            return refuse_option(argv[optind - 1], option == ':');
        }
    if (optind + 1 != argc)
        return sl_error(SL_EINVAL, "campaign: give one TRACE file; see slackline campaign --help");
    a->trace = argv[optind];
    if (!a->problem_file)
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
    sl_status status = a->print(&a->campaign, &a->result, a->log, out);
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
    asked a = {.print = sl_campaign_text};
    char seed[64];
    sl_status status = sl_alloc(&a.set, (size_t)argc + 1, sizeof *a.set);
    if (status == SL_OK)
        status = parse(argc, argv, &a, seed, sizeof seed);
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
