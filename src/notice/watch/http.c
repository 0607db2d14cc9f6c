#include "notice/watch/http.h"
#include "base/memory.h"
#include "notice/watch/metrics.h"
#include "notice/watch/words.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TRIES = 100, CONNECTIONS = 32, IDLE_S = 10, BACKLOG = 16 };

struct sl_http {
    sl_loop *loop;
    struct MHD_Daemon *daemon;
    int file, port;
    sl_status_view view;
    json_t *advice; /* NULL: none */
};

/* ---- what is told ---- */

static void put_metrics(FILE *out, const sl_http *http) {
    sl_metrics_write(out, &http->view);
}

static void put_status(FILE *out, const sl_http *http) {
    json_t *object = sl_words_status_json(&http->view);
    if (object && http->advice)
        json_object_set(object, "advice", http->advice);
    if (object)
        json_dumpf(object, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(object);
    fputc('\n', out);
}

static void put_text(FILE *out, const sl_http *http) {
    const sl_status_view *v = &http->view;
    char text[512];
    fprintf(out, "slackline watch: %s%s\n", sl_phase_name(v->phase), v->slow ? ", slow" : "");
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

static const struct page {
    const char *path, *type;
    void (*put)(FILE *out, const sl_http *http);
} pages[] = {{"/metrics", "text/plain; version=0.0.4; charset=utf-8", put_metrics},
             {"/status.json", "application/json", put_status},
             {"/", "text/plain; charset=utf-8", put_text}};

/* ---- answering ---- */

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned code, const char *type, char *text,
                              size_t size) {
    struct MHD_Response *response = MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(text);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static const char *const plain = "text/plain; charset=utf-8";

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *body, size_t *size,
                                  void **mine) {
    (void)version, (void)body;
    sl_http *http = context;
    if (!*mine) { /* the first call: only the head has come */
        *mine = http;
        return MHD_YES;
    }
    if (*size > 0) { /* nobody wants a body */
        *size = 0;
        return MHD_YES;
    }
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return MHD_NO;
    unsigned code = MHD_HTTP_NOT_FOUND;
    const char *type = plain;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        code = MHD_HTTP_METHOD_NOT_ALLOWED;
        fprintf(out, "only GET\n");
    }
    for (size_t i = 0; code == MHD_HTTP_NOT_FOUND && i < sizeof pages / sizeof *pages; i++)
        if (strcmp(url, pages[i].path) == 0) {
            pages[i].put(out, http);
            type = pages[i].type;
            code = MHD_HTTP_OK;
        }
    if (code == MHD_HTTP_NOT_FOUND)
        fprintf(out, "there are /metrics, /status.json and /\n");
    if (fclose(out) != 0) {
        free(text);
        return MHD_NO;
    }
    return answer(connection, code, type, text, length);
}

/* ---- listening ---- */

static sl_status on_ready(void *context, int file) {
    (void)file;
    MHD_run(((sl_http *)context)->daemon);
    return SL_OK;
}

/* A listening socket on the address; -1: errno says why. */
static int listen_on(const struct addrinfo *address) {
    int one = 1;
    int file = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (file < 0)
        return -1;
    setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(file, address->ai_addr, address->ai_addrlen) == 0 && listen(file, BACKLOG) == 0)
        return file;
    int error = errno;
    close(file);
    errno = error;
    return -1;
}

static sl_status find_port(const char *host, int first, int *file, int *port) {
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                             .ai_socktype = SOCK_STREAM};
    *file = -1;
    int error = 0;
    for (*port = first; *file < 0 && *port < first + TRIES && *port < 65536; *port += *file < 0) {
        struct addrinfo *address;
        char number[16];
        snprintf(number, sizeof number, "%d", *port);
        if (getaddrinfo(host, number, &hints, &address) != 0)
            return sl_error(SL_EINVAL, "http: '%s' is no numeric address", host);
        *file = listen_on(address);
        error = errno;
        freeaddrinfo(address);
        if (*file < 0 && error != EADDRINUSE)
            break;
    }
    errno = error;
    return *file < 0 ? sl_error_errno(SL_ESYS, "http: %s:%d cannot be listened on", host, *port) : SL_OK;
}

static sl_status start(sl_http *http, const char *host, int port) {
    int listening;
    SL_TRY(find_port(host, port, &listening, &http->port));
    http->daemon = MHD_start_daemon(MHD_USE_EPOLL, (uint16_t)http->port, NULL, NULL, on_request, http,
                                    MHD_OPTION_LISTEN_SOCKET, listening, MHD_OPTION_CONNECTION_LIMIT,
                                    (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
                                    MHD_OPTION_END);
    if (!http->daemon) {
        close(listening);
        return sl_error(SL_ESYS, "http: the server cannot be started");
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info)
        return sl_error(SL_ESYS, "http: the server cannot be waited for");
    http->file = info->epoll_fd;
    return sl_loop_watch(http->loop, http->file, on_ready, http);
}

sl_status sl_http_open(sl_loop *loop, const char *host, int port, sl_http **result) {
    sl_http *http;
    SL_TRY(sl_alloc(&http, 1, sizeof *http));
    http->loop = loop;
    http->file = -1;
    http->view.iteration = http->view.onset = -1;
    sl_status status = start(http, host, port);
    if (status != SL_OK) {
        sl_http_close(http);
        return status;
    }
    *result = http;
    return SL_OK;
}

void sl_http_close(sl_http *http) {
    if (!http)
        return;
    if (http->file >= 0)
        sl_loop_unwatch(http->loop, http->file);
    if (http->daemon)
        MHD_stop_daemon(http->daemon);
    json_decref(http->advice);
    sl_free(http);
}

int sl_http_port(const sl_http *http) {
    return http->port;
}

void sl_http_set(sl_http *http, const sl_status_view *view) {
    http->view = *view;
}

void sl_http_advise(sl_http *http, json_t *advice) {
    json_decref(http->advice);
    http->advice = advice;
}

void sl_http_tick(sl_http *http) {
    MHD_run(http->daemon);
}
