#include "notice/watch/http.h"
#include "base/memory.h"
#include "notice/watch/watch_metrics.h"
#include "notice/watch/words.h"

#include "http/token.h"

#include <stdio.h>

enum { TRIES = 100, CONNECTIONS = 32 };

struct sl_http {
    sl_server *server;
    char token[SL_TOKEN_MADE];
    sl_status_view view;
    json_t *advice; /* NULL: none */
};

/* ---- served content ---- */

static void put_metrics(FILE *out, void *context) {
    const sl_http *http = context;
    sl_metrics_write(out, &http->view);
}

static void put_status(FILE *out, void *context) {
    const sl_http *http = context;
    json_t *object = sl_words_status_json(&http->view);
    if (object && http->advice)
        json_object_set(object, "advice", http->advice);
    if (object)
        json_dumpf(object, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(object);
    fputc('\n', out);
}

static void put_text(FILE *out, void *context) {
    const sl_http *http = context;
    const sl_status_view *v = &http->view;
    char text[512];
    fprintf(out, "slackline watch: %s%s\n", sl_watch_phase_name(v->phase), v->slow ? ", slow" : "");
    if (v->iteration >= 0)
        fprintf(out, "iteration %lld: %.3f ms (healthy %.3f ms)\n", (long long)v->iteration, v->time_ms,
                v->healthy_ms > 0 ? v->healthy_ms : v->level_ms);
    for (int i = 0; i < v->suspects; i++) {
        sl_suspect_text(&v->suspect[i], text, sizeof text);
        fprintf(out, "suspect: %s\n", text);
    }
    for (int i = 0; i < v->verdicts; i++) {
        sl_suspect_text(&v->verdict[i], text, sizeof text);
        fprintf(out, "verdict: %s\n", text);
    }
    fprintf(out, "\n/metrics      for Prometheus\n/status.json  the same as JSON\n");
}

static const sl_server_page pages[] = {
    {.path = "/metrics", .type = "text/plain; version=0.0.4; charset=utf-8", .put = put_metrics},
    {.path = "/status.json", .type = "application/json", .put = put_status},
    {.path = "/", .type = "text/plain; charset=utf-8", .put = put_text}};

sl_status sl_http_open(sl_loop *loop, const char *host, int port, const char *token, const char *tls,
                       sl_http **result) {
    sl_http *http;
    const char *asked = NULL;
    SL_TRY(sl_alloc(&http, 1, sizeof *http));
    http->view.iteration = http->view.onset = -1;
    sl_status status;
    SL_TRY_GOTO(err_close, status, sl_token_choose(host, token, http->token, &asked));
    sl_server_config config = {.loop = loop,
                               .who = "http",
                               .host = host,
                               .port = port,
                               .tries = TRIES,
                               .token = asked,
                               .tls = tls,
                               .connections = CONNECTIONS,
                               .page = pages,
                               .pages = sizeof pages / sizeof *pages,
                               .context = http};
    SL_TRY_GOTO(err_close, status, sl_server_open(&config, &http->server));
    *result = http;
    return SL_OK;
err_close:
    sl_http_close(http);
    return status;
}

void sl_http_close(sl_http *http) {
    if (!http)
        return;
    sl_server_close(http->server);
    json_decref(http->advice);
    sl_free(http);
}

sl_server *sl_http_server(sl_http *http) {
    return http->server;
}

void sl_http_set(sl_http *http, const sl_status_view *view) {
    http->view = *view;
}

void sl_http_advise(sl_http *http, json_t *advice) {
    json_decref(http->advice);
    http->advice = advice;
}
