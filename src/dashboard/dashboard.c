#include "dashboard/dashboard.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "dashboard/cluster.h"
#include "dashboard/dashboard_metrics.h"
#include "dashboard/follower.h"
#include "dashboard/newest.h"
#include "dashboard/page_updates.h"
#include "http/server.h"
#include "http/stream.h"
#include "http/token.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

extern const char sl_dashboard_html[]; /* page.html */

#define TICK (SL_SECOND / 4)
#define LOOK (SL_SECOND / 4) /* between two polls of the following thread */
#define KEPT (4u << 20)      /* bytes of messages for readers that lag behind */
enum { READERS = 64, CONNECTIONS = 160 };

typedef struct dashboard {
    const sl_dashboard_request *request;
    sl_loop *loop;
    sl_server *server;
    sl_event_stream *stream;
    sl_server_page page[6];
    sl_newest newest, narrow; /* of a run's folder; only the loop's thread */
    char token[SL_TOKEN_MADE];
    int64_t data; /* version of the board at the last update */

    pthread_mutex_t lock; /* of the members below: one thread writes, the other reads and marks as sent */
    sl_board board;

    pthread_t thread;
    int following;
    _Atomic uint32_t stop;
    sl_follower *folder; /* the thread's; one of the two */
    sl_watched_cluster *cluster;
} dashboard;

/* ---- the following thread ---- */

static sl_status step(dashboard *d, int *more) {
    return d->folder ? sl_follower_step(d->folder, more)
                     : sl_cluster_step(d->cluster, &d->board, &d->lock, more);
}

static void *follow(void *context) {
    dashboard *d = context;
    while (!atomic_load(&d->stop)) {
        int more = 0;
        if (step(d, &more) != SL_OK) { /* retried: memory may be available later */
            pthread_mutex_lock(&d->lock);
            sl_board_set_state(&d->board, SL_BOARD_SILENT, "%s", sl_error_text());
            pthread_mutex_unlock(&d->lock);
            more = 0;
        }
        if (!more)
            sl_clock_wait(sl_clock_real(), &d->stop, 0, sl_now() + LOOK);
    }
    return NULL;
}

/* ---- pages ---- */

static void put_page(FILE *out, void *context) {
    (void)context;
    fputs(sl_dashboard_html, out);
}

static void put_metrics(FILE *out, void *context) {
    dashboard *d = context;
    pthread_mutex_lock(&d->lock);
    sl_board_metrics_write(out, &d->board);
    pthread_mutex_unlock(&d->lock);
}

static char *whole(void *context) {
    dashboard *d = context;
    pthread_mutex_lock(&d->lock);
    char *text = sl_page_whole(&d->board);
    pthread_mutex_unlock(&d->lock);
    return text;
}

static void put_state(FILE *out, void *context) {
    char *text = whole(context);
    fprintf(out, "%s\n", text ? text : "{}");
    free(text);
}

static void put_gantt(FILE *out, void *context) {
    dashboard *d = context;
    sl_newest_put(&d->newest, out);
}

static void put_narrow_gantt(FILE *out, void *context) {
    dashboard *d = context;
    sl_newest_put(&d->narrow, out);
}

/* Sends pending changes before a reader gets the full state (*all, if requested), both under one lock: a
 * change in between would be sent twice. */
static void send_updates(dashboard *d, char **all) {
    int renewed;
    pthread_mutex_lock(&d->lock);
    char *text = sl_page_change(&d->board, &d->data, &renewed);
    if (all)
        *all = sl_page_whole(&d->board);
    pthread_mutex_unlock(&d->lock);
    if (text)
        sl_event_stream_send(d->stream, text);
    else if (renewed)
        sl_event_stream_renew(d->stream);
    free(text);
}

static char *whole_for_stream(void *context) {
    char *all;
    send_updates(context, &all);
    return all;
}

static sl_status tick(void *context) {
    dashboard *d = context;
    send_updates(d, NULL);
    sl_server_tick(d->server);
    return sl_loop_at(d->loop, sl_now() + TICK, tick, d, NULL);
}

static sl_status on_signal(void *context, const siginfo_t *signal) {
    dashboard *d = context;
    (void)signal;
    sl_loop_stop(d->loop);
    return SL_OK;
}

/* ---- setup ---- */

/* The page may load nothing, send nothing, and not be framed elsewhere. */
static const char policy[] =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static sl_status open_source(dashboard *d) {
    static const sl_draw_style phone = {.width = 360, .font = 11};
    const sl_dashboard_request *r = d->request;
    char shown[400];
    if (r->folder) {
        SL_TRY(sl_board_open(r->folder, 0, &d->board));
        SL_TRY(sl_newest_open(r->folder, NULL, &d->newest));
        SL_TRY(sl_newest_open(r->folder, &phone, &d->narrow));
        return sl_follower_open(r->folder, &d->board, &d->lock, &d->folder);
    }
    SL_TRY(sl_cluster_open(r->redis, r->job, &d->cluster));
    SL_TRY(sl_cluster_name(r->redis, shown, sizeof shown));
    return sl_board_open(shown, 1, &d->board);
}

static sl_status open_server(dashboard *d) {
    sl_stream_config stream = {.whole = whole_for_stream, .context = d, .most = KEPT, .readers = READERS};
    const char *token;
    SL_TRY(sl_token_choose(d->request->host, d->request->token, d->token, &token));
    SL_TRY(sl_event_stream_open(&stream, &d->stream));
    d->page[0] =
        (sl_server_page){.path = "/", .type = "text/html; charset=utf-8", .put = put_page, .policy = policy};
    d->page[1] = (sl_server_page){.path = "/events", .type = "text/event-stream", .stream = d->stream};
    d->page[2] = (sl_server_page){
        .path = "/metrics", .type = "text/plain; version=0.0.4; charset=utf-8", .put = put_metrics};
    d->page[3] = (sl_server_page){.path = "/state.json", .type = "application/json", .put = put_state};
    d->page[4] = (sl_server_page){.path = "/gantt.svg",
                                  .type = "image/svg+xml",
                                  .put = put_gantt,
                                  .policy = "default-src 'none'; style-src 'unsafe-inline'"};
    d->page[5] = d->page[4];
    d->page[5].path = "/gantt-narrow.svg";
    d->page[5].put = put_narrow_gantt;
    sl_server_config config = {.loop = d->loop,
                               .who = "dashboard",
                               .host = d->request->host,
                               .port = d->request->port,
                               .tries = 1,
                               .token = token,
                               .tls = d->request->tls,
                               .connections = CONNECTIONS,
                               .page = d->page,
                               .pages = d->folder ? 6 : 4,
                               .context = d};
    return sl_server_open(&config, &d->server);
}

static sl_status hear_signals(dashboard *d) {
    sigset_t heard;
    sigemptyset(&heard);
    sigaddset(&heard, SIGINT);
    sigaddset(&heard, SIGTERM);
    sigset_t blocked = heard;
    sigaddset(&blocked, SIGPIPE);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    return sl_loop_signals(d->loop, &heard, on_signal, d);
}

static void say_address(const dashboard *d, FILE *out) {
    char url[320];
    sl_server_url(d->server, url, sizeof url);
    fprintf(out, "%s\n", url);
    fflush(out);
}

static sl_status serve(dashboard *d, FILE *out) {
    SL_TRY(sl_loop_open(&d->loop));
    SL_TRY(hear_signals(d));
    SL_TRY(open_source(d));
    SL_TRY(open_server(d));
    if (pthread_create(&d->thread, NULL, follow, d) != 0)
        return sl_error(SL_ESYS, "dashboard: the thread that follows cannot be started");
    d->following = 1;
    say_address(d, out);
    SL_TRY(sl_loop_at(d->loop, sl_now(), tick, d, NULL));
    return sl_loop_run(d->loop);
}

sl_status sl_dashboard_run(const sl_dashboard_request *request, FILE *out) {
    dashboard *d;
    SL_TRY(sl_alloc(&d, 1, sizeof *d));
    d->request = request;
    d->data = -1;
    pthread_mutex_init(&d->lock, NULL);
    sl_status status = serve(d, out);
    atomic_store(&d->stop, 1);
    sl_clock_wake(sl_clock_real(), &d->stop);
    if (d->following)
        pthread_join(d->thread, NULL);
    sl_server_close(d->server);
    sl_event_stream_close(d->stream);
    sl_newest_close(&d->newest);
    sl_newest_close(&d->narrow);
    sl_follower_close(d->folder);
    sl_cluster_close(d->cluster);
    sl_board_close(&d->board);
    sl_loop_close(d->loop);
    pthread_mutex_destroy(&d->lock);
    sl_free(d);
    return status;
}
