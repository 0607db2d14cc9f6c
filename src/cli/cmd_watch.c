/* slackline watch: runs a program and watches it. */
#include "base/option.h"
#include "cli/command.h"
#include "cli/plan_request.h"
#include "http/token.h"
#include "launch/limits.h"
#include "notice/store/store.h"
#include "notice/watch/watch.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT = 9464, MAX_COUNT = 1000000 };
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
        return sl_error(SL_EINVAL, "watch: --http: '%s' is no numeric address", a->host);
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

static const sl_option options[] = {
    SL_OPTION("out", TEXT, watch_options, request.directory, .letter = 'o'),
    SL_OPTION("overwrite", FLAG, watch_options, request.overwrite),
    SL_OPTION("record", FLAG, watch_options, request.record),
    SL_OPTION("redis", SECRET, watch_options, redis, .most = SL_STORE_URL),
    SL_OPTION("key", OWN, watch_options, key, .take = take_key),
    SL_OPTION_OWN("http", take_http),
    SL_OPTION("token", OWN, watch_options, token, .take = sl_token_take),
    SL_OPTION("no-hold", NO, watch_options, request.hold),
    SL_OPTION("no-validate", NO, watch_options, request.validate),
    SL_OPTION("on-event", TEXT, watch_options, request.on_event),
    SL_OPTION("on-event-limit", REAL, watch_options, request.on_event_limit, .least = 0.001,
              .most = MAX_SECONDS, .words = "seconds"),
    SL_OPTION("cost", OWN, watch_options, request.offer, .take = take_costs),
    SL_OPTION("microbatches", INT, watch_options, request.offer.microbatches, .least = 1, .most = MAX_COUNT),
    SL_OPTION("spares", INT, watch_options, request.offer.spares, .most = MAX_COUNT),
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

static sl_status check(watch_options *a, char **command) {
    sl_watch_request *request = &a->request;
    request->redis = a->redis[0] ? a->redis : NULL;
    request->token = a->token[0] ? a->token : NULL;
    if (request->directory && !request->directory[0])
        return sl_error(SL_EINVAL, "watch: --out needs the path of a folder");
    if (request->on_event && !request->on_event[0])
        return sl_error(SL_EINVAL, "watch: --on-event needs the path of a program");
    if (!command[0] || !command[0][0])
        return sl_error(SL_EINVAL, "watch: no command to run; see slackline watch --help");
    request->command = command;
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

int sl_command_watch(int argc, char **argv) {
    watch_options a = {.host = "127.0.0.1",
                       .request = {.port = PORT,
                                   .hold = 1,
                                   .validate = 1,
                                   .on_event_limit = 60,
                                   .offer = sl_advice_offer_defaults()}};
    a.request.host = a.host;
    int code = 0;
    sl_options o = {
        .command = "watch", .table = options, .argc = argc, .argv = argv, .stops = 1, .usage = sl_help_watch};
    sl_status status = sl_options_take(&o, &a);
    SL_THEN(status, check(&a, argv + o.next));
    SL_THEN(status, look_at_limits(&a.request));
    SL_THEN(status, sl_watch_run(&a.request, &code));
    return status == SL_OK ? code : sl_plan_request_end(status);
}
