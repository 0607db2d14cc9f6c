#include "http/server.h"
#include "base/clock.h"
#include "base/memory.h"
#include "http/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* The connections of a server with their deadlines: a client that takes too long to send its request or to
 * read an answer is dropped, so that a few bytes now and then do not hold a slot forever. libmicrohttpd
 * itself ends connections without any traffic. A socket holds a bounded part of the unsent data, and the
 * kernel gives up on a peer that reads none of it. On the server's thread. */

typedef struct sl_visitor sl_visitor;

/* All zero is empty. */
typedef struct sl_visitors {
    sl_visitor *first;
    int count;
} sl_visitors;

#define ASKS (20 * SL_SECOND)  /* from the connection, or the last answer's end, to a complete request */
#define TAKES (60 * SL_SECOND) /* for an answer that has an end */
enum { KERNEL_BYTES = 256 << 10, UNTAKEN_MS = 10000 };

struct sl_visitor {
    sl_visitor *before, *next;
    int socket;
    sl_time until; /* SL_TIME_NEVER: a stream */
};

/* Unread data waits in the kernel, but within a bound and a time limit. */
static void bound(int socket) {
    int bytes = KERNEL_BYTES;
    unsigned untaken = UNTAKEN_MS;
    setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &untaken, sizeof untaken);
}

static void come(sl_visitors *all, struct MHD_Connection *connection, void **mine) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    sl_visitor *v;
    if (!info)
        return;
    bound(info->connect_fd);
    if (sl_alloc(&v, 1, sizeof *v) != SL_OK) { /* a client that cannot be tracked is dropped */
        shutdown(info->connect_fd, SHUT_RDWR);
        return;
    }
    *v = (sl_visitor){.next = all->first, .socket = info->connect_fd, .until = sl_now() + ASKS};
    if (v->next)
        v->next->before = v;
    all->first = v;
    all->count++;
    *mine = v;
}

static void go(sl_visitors *all, void **mine) {
    sl_visitor *v = *mine;
    if (!v)
        return;
    if (v->next)
        v->next->before = v->before;
    if (v->before)
        v->before->next = v->next;
    else
        all->first = v->next;
    all->count--;
    sl_free(v);
    *mine = NULL;
}

/* For MHD_OPTION_NOTIFY_CONNECTION and MHD_OPTION_NOTIFY_COMPLETED; their context is the sl_visitors. */
static void notify(void *visitors, struct MHD_Connection *connection, void **mine,
                   enum MHD_ConnectionNotificationCode code) {
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        come(visitors, connection, mine);
    else
        go(visitors, mine);
}

static sl_visitor *visitor_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* The request is complete, and its answer starts now. `endless`: it is a stream. */
static void asked(struct MHD_Connection *connection, int endless) {
    sl_visitor *v = visitor_of(connection);
    if (v)
        v->until = endless ? SL_TIME_NEVER : sl_now() + TAKES;
}

static void completed(void *visitors, struct MHD_Connection *connection, void **mine,
                      enum MHD_RequestTerminationCode code) {
    (void)visitors, (void)mine, (void)code;
    sl_visitor *v = visitor_of(connection);
    if (v)
        v->until = sl_now() + ASKS;
}

/* Ends connections past their deadline. */
static void tick_visitors(sl_visitors *all) {
    sl_time time = sl_now();
    for (sl_visitor *v = all->first; v; v = v->next)
        if (time > v->until) {
            shutdown(v->socket, SHUT_RDWR); /* libmicrohttpd notices */
            v->until = time + ASKS;
        }
}

enum { IDLE_S = 10, BACKLOG = 64, TURNS = 64, COOKIE = 48 };

struct sl_server {
    sl_server_config config;
    char *pem; /* NULL: no TLS */
    struct MHD_Daemon *daemon;
    int file, port, loopback;
    int again; /* a timer is set for work left by a turn */
    sl_loop_timer timer;
    char cookie[COOKIE];
    sl_visitors visitors;
};

static const char *const plain = "text/plain; charset=utf-8";

/* ---- access ---- */

int sl_server_same_secret(const char *secret, const char *given) {
    size_t size = strlen(secret), length = strlen(given), wrong = size ^ length;
    for (size_t i = 0; i < length; i++)
        wrong |= (unsigned char)given[i] ^ (unsigned char)secret[size ? i % size : 0];
    return wrong == 0;
}

int sl_server_is_loopback(const char *host) {
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, host, &four) == 1)
        return (ntohl(four.s_addr) >> 24) == 127;
    if (inet_pton(AF_INET6, host, &six) != 1)
        return 0;
    return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
}

/* localhost or an address, with or without a port; no Host at all is HTTP 1.0 and not a browser. */
static int is_own_name(const char *host) {
    char name[80];
    unsigned char address[16];
    if (!host)
        return 1;
    size_t length = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if (length >= sizeof name || length > strlen(host))
        return 0;
    snprintf(name, sizeof name, "%.*s", (int)length, host);
    if (name[0] == '[') {
        name[length - 1] = 0;
        return inet_pton(AF_INET6, name + 1, address) == 1;
    }
    return strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, address) == 1;
}

/* Whether the request has the complete token there: more may follow a zero byte. */
static int says_token(const sl_server *s, struct MHD_Connection *connection, enum MHD_ValueKind kind,
                      const char *key, const char *before) {
    const char *said = NULL;
    size_t size = 0, skip = strlen(before);
    if (MHD_lookup_connection_value_n(connection, kind, key, strlen(key), &said, &size) != MHD_YES || !said ||
        strlen(said) != size || strncasecmp(said, before, skip) != 0)
        return 0;
    return sl_server_same_secret(s->config.token, said + skip);
}

/* *sets_cookie: the token came in the address, and a cookie should replace it. */
static int may_ask(const sl_server *s, struct MHD_Connection *connection, int *sets_cookie) {
    const char *token = s->config.token;
    *sets_cookie = 0;
    if (!token)
        return !s->loopback ||
               is_own_name(MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST));
    *sets_cookie = says_token(s, connection, MHD_GET_ARGUMENT_KIND, "token", "");
    return *sets_cookie ||
           says_token(s, connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION, "Bearer ") ||
           says_token(s, connection, MHD_COOKIE_KIND, s->cookie, "");
}

/* ---- answering ---- */

static enum MHD_Result queue(const sl_server *s, struct MHD_Connection *connection, unsigned code,
                             const sl_server_page *page, int sets_cookie, struct MHD_Response *response) {
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, page ? page->type : plain);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    if (page && page->policy)
        MHD_add_response_header(response, "Content-Security-Policy", page->policy);
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (code == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (sets_cookie) {
        char cookie[512];
        int length = snprintf(cookie, sizeof cookie, "%s=%s; HttpOnly; SameSite=Strict; Path=/%s", s->cookie,
                              s->config.token, s->pem ? "; Secure" : "");
        if (length > 0 && (size_t)length < sizeof cookie)
            MHD_add_response_header(response, MHD_HTTP_HEADER_SET_COOKIE, cookie);
    }
    enum MHD_Result result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result say(const sl_server *s, struct MHD_Connection *connection, unsigned code,
                           const char *text) {
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    return response ? queue(s, connection, code, NULL, 0, response) : MHD_NO;
}

static enum MHD_Result show(const sl_server *s, struct MHD_Connection *connection, const sl_server_page *page,
                            int sets_cookie) {
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return MHD_NO;
    page->put(out, s->config.context);
    if (fclose(out) != 0) {
        free(text);
        return MHD_NO;
    }
    struct MHD_Response *response = MHD_create_response_from_buffer(length, text, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(text);
        return MHD_NO;
    }
    return queue(s, connection, MHD_HTTP_OK, page, sets_cookie, response);
}

static enum MHD_Result begin_stream(const sl_server *s, struct MHD_Connection *connection,
                                    const sl_server_page *page, int only_head) {
    int busy = 0;
    if (only_head) {
        struct MHD_Response *response =
            MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
        return response ? queue(s, connection, MHD_HTTP_OK, page, 0, response) : MHD_NO;
    }
    const char *last = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Last-Event-ID");
    struct MHD_Response *response = sl_event_stream_answer(page->stream, connection, last, &busy);
    if (busy)
        return say(s, connection, MHD_HTTP_SERVICE_UNAVAILABLE, "too many clients; try again later\n");
    asked(connection, response != NULL);
    return response ? queue(s, connection, MHD_HTTP_OK, page, 0, response) : MHD_NO;
}

static enum MHD_Result say_paths(const sl_server *s, struct MHD_Connection *connection) {
    char text[512];
    size_t used = (size_t)snprintf(text, sizeof text, "there are");
    for (int i = 0; i < s->config.pages && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %s",
                                 i == 0                    ? ""
                                 : i + 1 < s->config.pages ? ","
                                                           : " and",
                                 s->config.page[i].path);
    if (used + 2 < sizeof text)
        memcpy(text + used, "\n", 2);
    return say(s, connection, MHD_HTTP_NOT_FOUND, text);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *body, size_t *size,
                                  void **mine) {
    (void)version, (void)body;
    sl_server *s = context;
    int sets_cookie, only_head = strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    if (!*mine) { /* the first call: only the header has arrived */
        *mine = s;
        return MHD_YES;
    }
    if (*size > 0) { /* request bodies are ignored */
        *size = 0;
        return MHD_YES;
    }
    asked(connection, 0);
    if (!may_ask(s, connection, &sets_cookie))
        return s->config.token
                   ? say(s, connection, MHD_HTTP_UNAUTHORIZED,
                         "a token is required: open the address that was printed at the start, or send "
                         "Authorization: Bearer TOKEN\n")
                   : say(s, connection, MHD_HTTP_FORBIDDEN, "ask for localhost or this machine's address\n");
    if (!only_head && strcmp(method, MHD_HTTP_METHOD_GET) != 0)
        return say(s, connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET\n");
    for (int i = 0; i < s->config.pages; i++) {
        const sl_server_page *page = &s->config.page[i];
        if (strcmp(url, page->path) == 0)
            return page->put ? show(s, connection, page, sets_cookie)
                             : begin_stream(s, connection, page, only_head);
    }
    return say_paths(s, connection);
}

/* ---- listening ---- */

static sl_status turn(sl_server *s);

static sl_status on_again(void *context) {
    sl_server *s = context;
    s->again = 0;
    return turn(s);
}

/* Its epoll reports work only once; remaining work of a turn (a long answer) is polled for. */
static sl_status turn(sl_server *s) {
    MHD_UNSIGNED_LONG_LONG wait = 1;
    for (int i = 0; i < TURNS; i++) {
        MHD_run(s->daemon);
        if (MHD_get_timeout(s->daemon, &wait) != MHD_YES || wait > 0)
            return SL_OK;
    }
    if (s->again)
        return SL_OK;
    s->again = 1; /* other users of the loop first */
    return sl_loop_at(s->config.loop, sl_now(), on_again, s, &s->timer);
}

static sl_status on_ready(void *context, int file) {
    (void)file;
    return turn(context);
}

/* A listening socket on the address; -1: errno has the reason. */
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

static int port_of(int file, int otherwise) {
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    char number[16];
    if (getsockname(file, (struct sockaddr *)&name, &size) != 0 ||
        getnameinfo((struct sockaddr *)&name, size, NULL, 0, number, sizeof number, NI_NUMERICSERV) != 0)
        return otherwise;
    return atoi(number);
}

static sl_status find_port(const sl_server_config *c, int *file, int *port) {
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                             .ai_socktype = SOCK_STREAM};
    *file = -1;
    int error = 0;
    for (*port = c->port; *file < 0 && *port < c->port + c->tries && *port < 65536; *port += *file < 0) {
        struct addrinfo *address;
        char number[16];
        snprintf(number, sizeof number, "%d", *port);
        if (getaddrinfo(c->host, number, &hints, &address) != 0)
            return sl_error(SL_EINVAL, "%s: '%s' is not a numeric address", c->who, c->host);
        *file = listen_on(address);
        error = errno;
        freeaddrinfo(address);
        if (*file < 0 && error != EADDRINUSE)
            break;
    }
    if (*file >= 0) {
        *port = port_of(*file, *port);
        return SL_OK;
    }
    const char *form = strchr(c->host, ':') ? "[%s]:%d" : "%s:%d";
    char where[80];
    snprintf(where, sizeof where, form, c->host, c->port);
    if (error == EADDRINUSE)
        return sl_error(SL_ENONE,
                        "%s: %s is in use by another program; give another port, or 0 for any free one",
                        c->who, where);
    errno = error;
    return sl_error_errno(SL_ESYS, "%s: cannot listen on %s", c->who, where);
}

/* A single client address cannot use all connections. */
static unsigned max_of_one(int connections) {
    return connections < 8 ? (unsigned)connections : (unsigned)connections * 3 / 4;
}

static sl_status start(sl_server *s) {
    const sl_server_config *c = &s->config;
    int listening;
    if (c->tls)
        SL_TRY(sl_tls_read(c->who, c->tls, &s->pem));
    SL_TRY(find_port(c, &listening, &s->port));
    /* cookies do not distinguish ports, so the name contains it */
    snprintf(s->cookie, sizeof s->cookie, "slackline-%d", s->port);
    struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, s->pem},
                                   {MHD_OPTION_HTTPS_MEM_KEY, 0, s->pem},
                                   {MHD_OPTION_END, 0, NULL}};
    s->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (s->pem ? MHD_USE_TLS : 0), (uint16_t)s->port, NULL, NULL,
        on_request, s, MHD_OPTION_LISTEN_SOCKET, listening, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)c->connections, MHD_OPTION_PER_IP_CONNECTION_LIMIT, max_of_one(c->connections),
        MHD_OPTION_NOTIFY_CONNECTION, notify, &s->visitors, MHD_OPTION_NOTIFY_COMPLETED, completed,
        &s->visitors, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_ARRAY,
        s->pem ? tls : tls + 2, MHD_OPTION_END);
    if (!s->daemon) {
        close(listening);
        if (s->pem)
            return sl_error(SL_EINVAL, "%s: --tls %s: the certificate and its private key are not usable",
                            c->who, c->tls);
        return sl_error(SL_ESYS, "%s: the HTTP server cannot be started", c->who);
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info)
        return sl_error(SL_ESYS, "%s: the HTTP server cannot be waited for", c->who);
    s->file = info->epoll_fd;
    return sl_loop_watch(c->loop, s->file, on_ready, s);
}

sl_status sl_server_open(const sl_server_config *config, sl_server **result) {
    sl_server *s;
    SL_TRY(sl_alloc(&s, 1, sizeof *s));
    s->config = *config;
    s->file = -1;
    s->loopback = sl_server_is_loopback(config->host);
    sl_status status = start(s);
    if (status != SL_OK) {
        sl_server_close(s);
        return status;
    }
    *result = s;
    return SL_OK;
}

static int wake(sl_server *s) {
    int woken = 0;
    for (int i = 0; i < s->config.pages; i++)
        if (s->config.page[i].stream)
            woken |= sl_event_stream_wake(s->config.page[i].stream);
    return woken;
}

void sl_server_close(sl_server *s) {
    if (!s)
        return;
    if (s->file >= 0)
        sl_loop_unwatch(s->config.loop, s->file);
    if (s->again)
        sl_loop_forget(s->config.loop, s->timer);
    for (int i = 0; i < s->config.pages && s->daemon; i++)
        if (s->config.page[i].stream)
            sl_event_stream_release(s->config.page[i].stream);
    for (int i = 0; i < TURNS && s->daemon; i++) /* ends streams properly */
        MHD_run(s->daemon);
    if (s->daemon)
        MHD_stop_daemon(s->daemon);
    SL_FREE(s->pem, s);
}

int sl_server_port(const sl_server *s) {
    return s->port;
}

/* The name by which this machine is reached; the loopback address if nothing knows the name. */
static void own_name(char *name, size_t size) {
    struct addrinfo *found = NULL;
    name[size - 1] = 0;
    if (gethostname(name, size - 1) != 0 || getaddrinfo(name, NULL, NULL, &found) != 0)
        snprintf(name, size, "127.0.0.1");
    else
        freeaddrinfo(found);
}

void sl_server_url(const sl_server *s, char *text, size_t size) {
    const char *token = s->config.token, *host = s->config.host;
    char own[HOST_NAME_MAX + 1];
    if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0) { /* every address, and none to be opened */
        own_name(own, sizeof own);
        host = own;
    }
    snprintf(text, size, strchr(host, ':') ? "http%s://[%s]:%d/%s%s" : "http%s://%s:%d/%s%s",
             s->pem ? "s" : "", host, s->port, token ? "?token=" : "", token ? token : "");
}

void sl_server_tick(sl_server *s) {
    tick_visitors(&s->visitors);
    wake(s);
    (void)turn(s); /* it fails only if no timer could be set; the next tick resumes */
}
