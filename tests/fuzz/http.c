/* HTTP requests, to a server with a token and to one without, over a connection of this machine. Whatever is
 * asked, what is answered is HTTP, and the pages are only for who presents the token. */
#include "fuzz.h"

#include "base/clock.h"
#include "base/loop.h"
#include "http/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TOKEN "0123456789abcdef"
#define SECRET "what-only-those-with-the-token-see"
#define EPOCH "eeeeeeee" /* in a request: the stream's own, as its messages' ids begin */
#define QUIET (100 * SL_MS)

static struct site {
    sl_loop *loop;
    sl_event_stream *stream;
    sl_server *server[2]; /* without a token, with */
    char epoch[9];
    /* of the client */
    int client, ended;
    sl_loop_timer timer;
    char answer[1 << 16];
    size_t got;
} site;

static void put_page(FILE *out, void *context) {
    (void)context;
    fputs("<p>" SECRET "</p>", out);
}

static char *whole(void *context) {
    (void)context;
    return strdup("{\"state\": \"" SECRET "\"}");
}

static sl_status stop(void *context) {
    (void)context;
    site.timer = 0;
    sl_loop_stop(site.loop);
    return SL_OK;
}

/* The answer, until it ends, or for a stream until it has begun. */
static sl_status hear(void *context, int file) {
    (void)context;
    ssize_t n = recv(file, site.answer + site.got, sizeof site.answer - 1 - site.got, MSG_DONTWAIT);
    site.got += n > 0 ? (size_t)n : 0;
    site.answer[site.got] = 0;
    if (n <= 0 || site.got == sizeof site.answer - 1 || strstr(site.answer, "data:")) {
        sl_loop_unwatch(site.loop, file);
        sl_loop_stop(site.loop);
    }
    return SL_OK;
}

/* Waits for `patience` after the request. */
static void ask(int which, const char *request, size_t size, sl_time patience) {
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)sl_server_port(site.server[which])),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    site.got = 0;
    site.answer[0] = 0;
    site.client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fuzz_must(site.client >= 0 && connect(site.client, (struct sockaddr *)&at, sizeof at) == 0);
    if (size > 0)
        (void)!send(site.client, request, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(site.client, SHUT_WR);
    fuzz_must(sl_loop_watch(site.loop, site.client, hear, NULL) == SL_OK);
    fuzz_must(sl_loop_at(site.loop, sl_now() + patience, stop, NULL, &site.timer) == SL_OK);
    fuzz_must(sl_loop_run(site.loop) == SL_OK);
    sl_loop_forget(site.loop, site.timer);
    sl_loop_unwatch(site.loop, site.client);
    const struct linger at_once = {.l_onoff = 1};
    setsockopt(site.client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(site.client);
    sl_event_stream_send(site.stream, "{\"more\": 1}"); /* whose reader has left is noticed */
    for (int i = 0; i < 2; i++)
        sl_server_tick(site.server[i]);
}

static void open_site(void) {
    static sl_server_page pages[] = {
        {.path = "/", .type = "text/html", .put = put_page, .policy = "default-src 'none'"},
        {.path = "/events", .type = "text/event-stream"}};
    const sl_stream_config stream = {.whole = whole, .most = 4096, .readers = 8};
    fuzz_must(sl_loop_open(&site.loop) == SL_OK);
    fuzz_must(sl_event_stream_open(&stream, &site.stream) == SL_OK);
    pages[1].stream = site.stream;
    for (int i = 0; i < 2; i++) {
        const sl_server_config config = {.loop = site.loop,
                                         .who = "fuzz",
                                         .host = "127.0.0.1",
                                         .tries = 1,
                                         .token = i ? TOKEN : NULL,
                                         .connections = 64,
                                         .page = pages,
                                         .pages = 2};
        fuzz_must(sl_server_open(&config, &site.server[i]) == SL_OK);
    }
    static const char first[] = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    ask(0, first, sizeof first - 1, 10 * SL_SECOND);
    const char *id = strstr(site.answer, "id: ");
    fuzz_must(id && strchr(id, '-') == id + 4 + 8);
    memcpy(site.epoch, id + 4, 8);
}

/* The first byte chooses the server. */
static int read_request(const uint8_t *data, size_t size) {
    int which = (int)fuzz_take(&data, &size, 1) & 1;
    if (!site.loop)
        open_site();
    char *text = fuzz_text(data, size);
    for (char *at = text; (at = memmem(at, size - (size_t)(at - text), EPOCH, 8)) != NULL; at += 8)
        memcpy(at, site.epoch, 8);
    ask(which, text, size, QUIET);
    fuzz_must(site.got == 0 || strncmp(site.answer, "HTTP/1.", 7) == 0);
    int shown =
        memmem(site.answer, site.got, SECRET, sizeof SECRET - 1) != NULL || strstr(site.answer, "event: ");
    if (which == 1 && shown) /* the token may be written with %xx in the address */
        fuzz_must(memmem(text, size, TOKEN, sizeof TOKEN - 1) || memchr(text, '%', size));
    free(text);
    return shown;
}

static int write_request(int number, FILE *out) {
    static const char *const all[] = {
        "0GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
        "1GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " TOKEN "\r\nConnection: close\r\n\r\n",
        "1GET /?token=" TOKEN " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "1HEAD / HTTP/1.0\r\nCookie: slackline-1=" TOKEN "\r\n\r\n",
        "0GET /events HTTP/1.1\r\nHost: localhost:1\r\nLast-Event-ID: " EPOCH "-1\r\n\r\n",
        "0GET /events HTTP/1.1\r\nHost: [::1]:80\r\nLast-Event-ID: 00000000-99999999999999999999\r\n\r\n",
        "0POST /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
        "0GET / HTTP/1.1\r\nHost: foreign.example\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"};
    return number < (int)(sizeof all / sizeof *all) && fuzz_say(out, all[number]);
}

const fuzz_reader fuzz_http[] = {
    {"http", "sl_server_same_secret sl_event_stream_answer sl_server_open sl_server_tick", NULL,
     write_request,
     "GET HEAD /events token= Bearer Authorization: Cookie: Host: localhost "
     "Last-Event-ID: eeeeeeee- 127.0.0.1 [::1] HTTP/1.1 \\x0d\\x0a %00 chunked",
     read_request},
    {0}};
