/* slackline watch: a program under watch. */
#include "notice/watch/watch.h"
#include "cli/command.h"
#include "cli/planning.h"
#include "cli/suggest.h"
#include "launch/limits.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT = 9464 };

static const char usage[] =
    "Usage: slackline watch [OPTION]... -- COMMAND [ARGUMENT]...\n"
    "\n"
    "Runs COMMAND, an unchanged MPI or NCCL program or its launcher, and finds when its iterations become\n"
    "slow, which group of ranks, and which device or link it is. Input, output and exit code are COMMAND's.\n"
    "Shows a live line on a terminal; writes events.jsonl, report.txt and report.json into DIR.\n"
    "\n"
    "  -o, --out DIR       results (default: runs/watch-<program>); one that all nodes share\n"
    "  --record            a log of each rank's calls in DIR/calls, for slackline detect\n"
    "  --redis URL         redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE], rediss://... or unix:PATH\n"
    "                      (default: a private server is started)\n"
    "  --http [HOST:]PORT  where /metrics (Prometheus) and /status.json are served (default 127.0.0.1:9464,\n"
    "                      or the next free port); off: not at all\n"
    "  --no-hold           the program is never held: verdicts rest on its own calls\n"
    "  --no-validate       suspects are named and not tested\n"
    "  --on-event CMD      a program that is run for each onset, verdict and relief, and to carry an advice "
    "out;\n"
    "                      the event comes as JSON on its standard input (docs/watching.md)\n"
    "  --on-event-limit S  seconds that a run of it may take (default 60)\n"
    "  --cost NAME=S,...   seconds of the job's time that balance, topology and restart cost until one has\n"
    "                      been carried out (default balance=5,topology=60,restart=1800); off: never "
    "advised\n"
    "  --microbatches N    of a rank and iteration, for the advice to balance (default 8)\n"
    "  --spares N          hosts that could take another's place, for the advice (default 0)\n"
    "\n"
    "PyTorch over Gloo is seen when Python starts the watch: python -m slackline watch -- torchrun ...\n"
    "(docs/python.md).\n"
    "\n"
    "On one node: slackline watch -- mpirun -np 4 PROGRAM. On several: mpirun ... slackline watch -- "
    "PROGRAM,\n"
    "or srun in place of mpirun.\n"
    "\n"
    "Exit code: COMMAND's; 128 + N when signal N killed it; 1 when watching could not begin, 2 for a wrong\n"
    "request (COMMAND has not run then).\n"
    "\n"
    "Example: slackline watch -- mpirun -np 4 hpcc\n";

static sl_status refuse_option(const char *word, int missing) {
    static const char *const names[] = {
        "out",  "record",       "redis",  "http", "no-hold", "no-validate", "on-event", "on-event-limit",
        "cost", "microbatches", "spares", "help", NULL};
    return sl_refuse_option("watch", names, word, missing);
}

/* [HOST:]PORT or off; host[64]. IPv6 as [::1]:PORT. */
static sl_status parse_http(const char *text, char *host, size_t size, sl_watch_request *request) {
    const char *colon = strrchr(text, ':'), *number = colon ? colon + 1 : text;
    char *end;
    unsigned char address[16];
    if (strcmp(text, "off") == 0) {
        request->port = 0;
        return SL_OK;
    }
    long port = strtol(number, &end, 10);
    if (number[0] < '0' || number[0] > '9' || *end || port < 1 || port > 65535)
        return sl_error(SL_EINVAL, "watch: --http must be [HOST:]PORT or off, got '%s'", text);
    request->port = (int)port;
    if (!colon)
        return SL_OK;
    size_t length = (size_t)(colon - text);
    int bracket = length > 1 && text[0] == '[' && text[length - 1] == ']';
    snprintf(host, size, "%.*s", (int)(length - (bracket ? 2 : 0)), text + bracket);
    if (strcmp(host, "localhost") == 0)
        snprintf(host, size, "127.0.0.1");
    if (inet_pton(bracket ? AF_INET6 : AF_INET, host, address) != 1)
        return sl_error(SL_EINVAL, "watch: --http: '%s' is no numeric address", host);
    return SL_OK;
}

static sl_status parse_seconds(const char *option, const char *text, double least, double *value) {
    char *end;
    *value = strtod(text, &end);
    if (end == text || *end || !(*value >= least && *value <= 1e8))
        return sl_error(SL_EINVAL, "watch: %s must be seconds from %g to 1e8, got '%.40s'", option, least,
                        text);
    return SL_OK;
}

static sl_status parse_count(const char *option, const char *text, long least, int *value) {
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || *end || number < least || number > 1000000)
        return sl_error(SL_EINVAL, "watch: %s must be a number from %ld to 1000000, got '%.40s'", option,
                        least, text);
    *value = (int)number;
    return SL_OK;
}

/* NAME=SECONDS or NAME=off, with commas between. */
static sl_status parse_costs(const char *text, sl_foreign_config *foreign) {
    while (*text) {
        char item[80];
        size_t length = strcspn(text, ",");
        snprintf(item, sizeof item, "%.*s", (int)(length < sizeof item ? length : sizeof item - 1), text);
        char *value = strchr(item, '=');
        int strategy = 0;
        if (value)
            *value++ = 0;
        while (strategy < SL_FOREIGN_STRATEGIES && strcmp(item, sl_foreign_name(strategy)) != 0)
            strategy++;
        if (!value || strategy == SL_FOREIGN_STRATEGIES)
            return sl_error(SL_EINVAL, "watch: --cost takes balance=S, topology=S or restart=S, got '%.*s'",
                            (int)(length < 60 ? length : 60), text);
        if (strcmp(value, "off") == 0)
            foreign->cost_s[strategy] = -1;
        else
            SL_TRY(parse_seconds("--cost", value, 0, &foreign->cost_s[strategy]));
        text += length + (text[length] == ',');
    }
    return SL_OK;
}

static sl_status parse(int argc, char **argv, sl_watch_request *request, char *host, size_t size, int *help) {
    static const struct option options[] = {{"out", required_argument, NULL, 'o'},
                                            {"record", no_argument, NULL, 'r'},
                                            {"redis", required_argument, NULL, 'R'},
                                            {"http", required_argument, NULL, 'p'},
                                            {"no-hold", no_argument, NULL, 'H'},
                                            {"no-validate", no_argument, NULL, 'V'},
                                            {"on-event", required_argument, NULL, 'e'},
                                            {"on-event-limit", required_argument, NULL, 'l'},
                                            {"cost", required_argument, NULL, 'c'},
                                            {"microbatches", required_argument, NULL, 'm'},
                                            {"spares", required_argument, NULL, 's'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    optind = 1;
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, "+:ho:", options, NULL)) != -1;)
        switch (option) {
        case 'o':
            request->directory = optarg;
            break;
        case 'r':
            request->record = 1;
            break;
        case 'R':
            request->redis = optarg;
            break;
        case 'p':
            SL_TRY(parse_http(optarg, host, size, request));
            break;
        case 'H':
            request->hold = 0;
            break;
        case 'V':
            request->validate = 0;
            break;
        case 'e':
            request->on_event = optarg;
            break;
        case 'l':
            SL_TRY(parse_seconds("--on-event-limit", optarg, 0.001, &request->on_event_limit));
            break;
        case 'c':
            SL_TRY(parse_costs(optarg, &request->foreign));
            break;
        case 'm':
            SL_TRY(parse_count("--microbatches", optarg, 1, &request->foreign.microbatches));
            break;
        case 's':
            SL_TRY(parse_count("--spares", optarg, 0, &request->foreign.spares));
            break;
        case 'h':
            *help = 1;
            return SL_OK;
        default:
            return refuse_option(argv[optind - 1], option == ':');
        }
    if (request->directory && !request->directory[0])
        return sl_error(SL_EINVAL, "watch: --out needs the path of a folder");
    if (request->on_event && !request->on_event[0])
        return sl_error(SL_EINVAL, "watch: --on-event needs the path of a program");
    if (optind >= argc || !argv[optind][0])
        return sl_error(SL_EINVAL, "watch: no command to run; see slackline watch --help");
    request->command = argv + optind;
    return SL_OK;
}

/* redis-server and mpirun would not start; what the program gets beyond its own limit does not harm it. */
static sl_status look_at_limits(const sl_watch_request *request) {
    char what[64] = "watch";
    const int ranks = sl_limits_ranks_of(request->command);
    if (ranks > 0)
        snprintf(what, sizeof what, "watch: %d rank%s", ranks, ranks == 1 ? "" : "s");
    return sl_limits_open_files(ranks, what);
}

int sl_command_watch(int argc, char **argv) {
    char host[64] = "127.0.0.1";
    sl_watch_request request = {.host = host,
                                .port = PORT,
                                .hold = 1,
                                .validate = 1,
                                .on_event_limit = 60,
                                .foreign = sl_foreign_defaults()};
    int help = 0, code = 0;
    sl_status status = parse(argc, argv, &request, host, sizeof host, &help);
    if (status == SL_OK && help)
        fputs(usage, stdout);
    if (status == SL_OK && !help)
        status = look_at_limits(&request);
    if (status == SL_OK && !help)
        status = sl_watch_run(&request, &code);
    return status == SL_OK ? code : sl_planning_end(status);
}
