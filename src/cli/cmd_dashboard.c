/* slackline dashboard: a run or a watched job as a live page. */
#include "cli/command.h"
#include "cli/plan_request.h"
#include "dashboard/dashboard.h"
#include "http/token.h"
#include "notice/store/store.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct dashboard_options {
    sl_dashboard_request request;
    char host[64];
    char token[SL_TOKEN_ROOM], redis[SL_STORE_URL];
} dashboard_options;

/* HOST:PORT, IPv6 as [::1]:PORT. */
static sl_status take_listen(const sl_options *o, void *argument) {
    dashboard_options *a = argument;
    const char *text = o->value;
    const char *colon = strrchr(text, ':');
    unsigned char address[16];
    char *end;
    errno = 0;
    long port = colon ? strtol(colon + 1, &end, 10) : -1;
    if (!colon || colon[1] < '0' || colon[1] > '9' || *end || errno || port > 65535)
        return sl_error(SL_EINVAL,
                        "dashboard: --listen must be HOST:PORT with a port from 0 to 65535, got '%.80s'",
                        text);
    size_t length = (size_t)(colon - text);
    int bracket = length > 1 && text[0] == '[' && text[length - 1] == ']';
    if (length >= sizeof a->host)
        length = sizeof a->host - 1;
    snprintf(a->host, sizeof a->host, "%.*s", (int)(length - (bracket ? 2 : 0)), text + bracket);
    if (strcmp(a->host, "localhost") == 0)
        snprintf(a->host, sizeof a->host, "127.0.0.1");
    if (!bracket && strchr(a->host, ':'))
        return sl_error(SL_EINVAL, "dashboard: --listen: put an IPv6 address in brackets: [%s]:%ld", a->host,
                        port);
    if (inet_pton(bracket ? AF_INET6 : AF_INET, a->host, address) != 1)
        return sl_error(SL_EINVAL, "dashboard: --listen: '%s' is not a numeric address", a->host);
    a->request.port = (int)port;
    return SL_OK;
}

static const sl_option options[] = {
    SL_OPTION("redis", SECRET, dashboard_options, redis, "URL", SL_STORE_URL_HELP, .most = SL_STORE_URL,
              .required = 2),
    SL_OPTION("job", TEXT, dashboard_options, request.job, "NAME",
              "of several jobs on that server (default: the first by name)"),
    SL_OPTION_OWN(
        "listen", take_listen, "HOST:PORT",
        "numeric address; port 0: any free one. Only this machine can reach a loopback address; others "
        "require a token",
        .standard = "127.0.0.1:9465"),
    SL_OPTION_TOKEN(dashboard_options, token),
    SL_OPTION_TLS(dashboard_options, request.tls),
    SL_OPTION("", ONCE, dashboard_options, request.folder, "DIR", NULL, .words = "give one folder of a run",
              .completes = SL_COMPLETES_FOLDER, .required = 1),
    SL_OPTIONS_END};

static sl_status check(dashboard_options *a) {
    sl_dashboard_request *r = &a->request;
    r->redis = a->redis[0] ? a->redis : NULL;
    r->token = a->token[0] ? a->token : NULL;
    if (r->redis && r->folder)
        return sl_error(SL_EINVAL, "dashboard: give a folder or --redis, not both");
    if (!r->redis && !r->folder)
        return sl_error(
            SL_EINVAL, "dashboard: give one folder of a run, or --redis URL; see slackline dashboard --help");
    if (!r->redis && r->job)
        return sl_error(SL_EINVAL, "dashboard: --job goes with --redis");
    if (r->job && (!r->job[0] || strlen(r->job) > 200))
        return sl_error(SL_EINVAL, "dashboard: --job must be the name of a job");
    return SL_OK;
}

static int run(int argc, char **argv) {
    dashboard_options a = {0};
    a.request.host = a.host;
    sl_status status = sl_command_options(argc, argv, &a);
    SL_THEN(status, check(&a));
    if (status == SL_OK && a.request.folder && access(a.request.folder, F_OK) != 0)
        fprintf(stderr, "slackline: %s is not there yet; the page shows it when it is\n", a.request.folder);
    SL_THEN(status, sl_dashboard_run(&a.request, stdout));
    return sl_plan_request_end(status);
}

const sl_command sl_command_dashboard = {
    .name = "dashboard",
    .summary = "a run or a watched job as a live page, and for Prometheus",
    .about =
        "Shows a running job in the browser: the state of every rank and link, iteration time, schedule, "
        "suspects and live decisions. DIR is the folder of a run or of a watch and may not exist yet; with "
        "--redis it shows a job under slackline watch. The page loads nothing from other servers, "
        "changes nothing, and remains available after the run has ended. The server also has /metrics for "
        "Prometheus and /state.json. "
        "Prints its address; Ctrl-C ends it.",
    .options = options,
    .exit_code =
        "0 when ended by Ctrl-C or SIGTERM; 1 if the address is not available; 2 for a wrong request.",
    .example = "slackline dashboard runs/slow-link",
    .run = run};
