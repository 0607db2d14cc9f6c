/* slackline watch: runs a program and watches it. */
#include "base/memory.h"
#include "base/option.h"
#include "cli/command.h"
#include "cli/plan_request.h"
#include "http/tls.h"
#include "http/token.h"
#include "launch/limits.h"
#include "notice/store/store.h"
#include "notice/watch/watch.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COUNT = 1000000 };
#define MAX_SECONDS 1e8
#define KEY_VARIABLE "SLACKLINE_KEY"

typedef struct watch_options {
    sl_watch_request request;
    char host[64], redis[SL_STORE_URL], key[SL_STORE_KEY], token[SL_TOKEN_ROOM];
} watch_options;

/* [HOST:]PORT or off. IPv6 as [::1]:PORT. */
static sl_status take_http(const sl_options *o, void *argument) {
    watch_options *a = argument;
    const char *text = o->value;
    const char *colon = strrchr(text, ':'), *number = colon ? colon + 1 : text;
    char *end;
    unsigned char address[16];
    if (strcmp(text, "off") == 0) {
        a->request.port = 0;
        return SL_OK;
    }
    long port = strtol(number, &end, 10);
    if (number[0] < '0' || number[0] > '9' || *end || port < 1 || port > 65535)
        return sl_error(SL_EINVAL, "watch: --http must be [HOST:]PORT or off, got '%s'", text);
    a->request.port = (int)port;
    if (!colon)
        return SL_OK;
    size_t length = (size_t)(colon - text);
    int bracket = length > 1 && text[0] == '[' && text[length - 1] == ']';
    snprintf(a->host, sizeof a->host, "%.*s", (int)(length - (bracket ? 2 : 0)), text + bracket);
    if (strcmp(a->host, "localhost") == 0)
        snprintf(a->host, sizeof a->host, "127.0.0.1");
    if (inet_pton(bracket ? AF_INET6 : AF_INET, a->host, address) != 1)
        return sl_error(SL_EINVAL, "watch: --http: '%s' is not a numeric address", a->host);
    return SL_OK;
}

/* NAME=SECONDS or NAME=off, with commas between. */
static sl_status take_costs(const sl_options *o, void *argument) {
    sl_advice_offer *offer = argument;
    const char *text = o->value;
    sl_options one = *o;
    while (*text) {
        char item[80];
        size_t length = strcspn(text, ",");
        snprintf(item, sizeof item, "%.*s", (int)(length < sizeof item ? length : sizeof item - 1), text);
        char *value = strchr(item, '=');
        sl_strategy_kind strategy = 0;
        if (value)
            *value++ = 0;
        while (strategy < SL_STRATEGY_KINDS &&
               (!sl_advice_name(strategy) || strcmp(item, sl_advice_name(strategy)) != 0))
            strategy++;
        if (!value || strategy == SL_STRATEGY_KINDS)
            return sl_error(SL_EINVAL, "watch: --cost takes balance=S, topology=S or restart=S, got '%.*s'",
                            (int)(length < 60 ? length : 60), text);
        one.value = value;
        if (strcmp(value, "off") == 0)
            offer->cost_s[strategy] = -1;
        else
            SL_TRY(sl_option_real(&one, "seconds", 0, MAX_SECONDS, &offer->cost_s[strategy]));
        text += length + (text[length] == ',');
    }
    return SL_OK;
}

static sl_status take_key(const sl_options *o, void *key) {
    SL_TRY(sl_option_secret(o, key, SL_STORE_KEY));
    return sl_store_key_check(key);
}

static const sl_value hang_actions[] = {{"report", "an event, and a call of --on-event"},
                                        {"kill", "also, the program is ended with exit code 124"},
                                        {NULL, NULL}};

static const sl_option options[] = {
    SL_OPTION(
        "out", TEXT, watch_options, request.directory, "DIR",
        "results (default: runs/watch-<program>, or runs/watch-<program>-2, -3, ... if that holds a finished "
        "run); one that all nodes share",
        .letter = 'o', .completes = SL_COMPLETES_FOLDER),
    SL_OPTION("overwrite", FLAG, watch_options, request.overwrite, NULL,
              "replaces a finished run in DIR; without it, such a DIR is refused"),
    SL_OPTION("record", FLAG, watch_options, request.record, NULL,
              "a log of each rank's calls in DIR/calls, for slackline detect"),
    SL_OPTION("redis", SECRET, watch_options, redis, "URL",
              SL_STORE_URL_HELP " (default: a private server is started)", .most = SL_STORE_URL),
    SL_OPTION(
        "key", OWN, watch_options, key, "KEY",
        "authenticates the messages of the job's watches: 16 to 256 characters without blanks; @FILE reads "
        "it from a file (default: " KEY_VARIABLE ", or one that the first rank makes and leaves in DIR for "
        "the others)",
        .take = take_key),
    SL_OPTION_OWN("http", take_http, "[HOST:]PORT",
                  "address of /metrics (Prometheus) and /status.json; if the port is in use, the next free "
                  "one; off: no server. An "
                  "address that others can reach requires a token",
                  .standard = "127.0.0.1:9464"),
    SL_OPTION_TOKEN(watch_options, token),
    SL_OPTION_TLS(watch_options, request.tls),
    SL_OPTION("no-hold", NO, watch_options, request.hold, NULL,
              "the program is never held: verdicts rest on its own calls"),
    SL_OPTION("no-validate", NO, watch_options, request.validate, NULL,
              "suspects are reported but not tested"),
    SL_OPTION("on-event", TEXT, watch_options, request.on_event, "CMD",
              "a program to run for each onset, verdict, relief and hang, and to apply advice; it gets the "
              "event as "
              "JSON on its standard input (docs/watching.md)"),
    SL_OPTION("on-event-limit", REAL, watch_options, request.on_event_limit, "S",
              "time limit of one run of it, in seconds", .least = 0.001, .most = MAX_SECONDS,
              .words = "seconds", .standard = "60"),
    SL_OPTION(
        "hang-after", REAL, watch_options, request.hang_after, "SECONDS",
        "a job that makes no call for this long is examined, and the rank or mistake that it waits for is "
        "reported (docs/hangs.md); 0: never",
        .most = MAX_SECONDS, .words = "seconds", .standard = "20"),
    SL_OPTION("hang", CHOICE, watch_options, request.hang_kill, "WHAT", "what is done when the job hangs",
              .values = hang_actions, .standard = "report"),
    SL_OPTION("hang-limit", REAL, watch_options, request.hang_limit, "SECONDS",
              "with --hang kill: a job that stalls for this long is ended even if it might continue",
              .least = 0.001, .most = MAX_SECONDS, .words = "seconds", .standard = "600"),
    SL_OPTION(
        "cost", OWN, watch_options, request.offer, "NAME=S,...",
        "estimated costs of balance, topology and restart in seconds of job time, until one is measured; "
        "off: never advised",
        .take = take_costs, .standard = "balance=5,topology=60,restart=1800"),
    SL_OPTION("microbatches", INT, watch_options, request.offer.microbatches, "N",
              "per rank and iteration, for the advice to balance", .least = 1, .most = MAX_COUNT,
              .standard = "8"),
    SL_OPTION("spares", INT, watch_options, request.offer.spares, "N",
              "hosts that can replace another, for the advice", .most = MAX_COUNT, .standard = "0"),
    SL_OPTION("", PROGRAM, watch_options, request.command, "COMMAND [ARGUMENT]...", NULL),
    SL_OPTIONS_END};

/* Launchers pass the environment on; programs started from here do not need the key. */
static sl_status choose_key(watch_options *a) {
    const char *handed = getenv(KEY_VARIABLE);
    if (!a->key[0] && handed) {
        SL_TRY(sl_store_key_check(handed));
        snprintf(a->key, sizeof a->key, "%s", handed);
    }
    unsetenv(KEY_VARIABLE);
    a->request.key = a->key[0] ? a->key : NULL;
    return SL_OK;
}

/* Now, since a watch without its page would go on. */
static sl_status check_tls(const char *file) {
    char *pem = NULL;
    sl_status status = file ? sl_tls_read("watch", file, &pem) : SL_OK;
    sl_free(pem);
    return status;
}

static sl_status check(watch_options *a) {
    sl_watch_request *request = &a->request;
    request->redis = a->redis[0] ? a->redis : NULL;
    request->token = a->token[0] ? a->token : NULL;
    if (request->directory && !request->directory[0])
        return sl_error(SL_EINVAL, "watch: --out needs the path of a folder");
    if (request->on_event && !request->on_event[0])
        return sl_error(SL_EINVAL, "watch: --on-event needs the path of a program");
    SL_TRY(check_tls(request->tls));
    if (!request->command[0] || !request->command[0][0])
        return sl_error(SL_EINVAL, "watch: no command to run; see slackline watch --help");
    return choose_key(a);
}

/* redis-server and mpirun would not start; a limit raised for the program does not harm it. */
static sl_status look_at_limits(const sl_watch_request *request) {
    char what[64] = "watch";
    const int ranks = sl_limits_ranks_of(request->command);
    if (ranks > 0)
        snprintf(what, sizeof what, "watch: %d rank%s", ranks, ranks == 1 ? "" : "s");
    return sl_limits_open_files(ranks, what);
}

static int run(int argc, char **argv) {
    watch_options a = {.request = {.hold = 1, .validate = 1, .offer = sl_advice_offer_defaults()}};
    a.request.host = a.host;
    int code = 0;
    sl_status status = sl_command_options(argc, argv, &a);
    SL_THEN(status, check(&a));
    SL_THEN(status, look_at_limits(&a.request));
    SL_THEN(status, sl_watch_run(&a.request, &code));
    return status == SL_OK ? code : sl_plan_request_end(status);
}

const sl_command sl_command_watch = {
    .name = "watch",
    .summary = "find slow links and devices under any MPI or NCCL program",
    .about =
        "Runs COMMAND, an unmodified MPI or NCCL program or its launcher. Detects when its iterations become "
        "slow, and finds the slow group of ranks, device or link. Input, output and exit code are "
        "COMMAND's. Shows a live line on a terminal; writes events.jsonl, report.txt and report.json into "
        "DIR.",
    .options = options,
    .notes =
        "PyTorch over Gloo is observed if Python starts the watch: python -m slackline watch -- torchrun "
        "... (docs/python.md).\n"
        "On one node: slackline watch -- mpirun -np 4 PROGRAM. On several: mpirun ... slackline watch -- "
        "PROGRAM, or srun instead of mpirun.",
    .exit_code = "COMMAND's; 128 + N if signal N killed it; 124 if --hang kill ended it; 1 if the watch "
                 "could not start, 2 for a wrong "
                 "request (then COMMAND has not run).",
    .example = "slackline watch -- mpirun -np 4 hpcc",
    .run = run};
