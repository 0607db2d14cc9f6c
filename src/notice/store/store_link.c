#include "notice/store/store_link.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if HIREDIS_MAJOR >= 1 && defined(SL_HIREDIS_SSL)
#include <hiredis/hiredis_ssl.h>
#define HAS_TLS 1
#else
#define HAS_TLS 0
#endif

enum { PAUSE_S = 1 };
#define ANSWER_MAX ((size_t)64 << 20) /* bytes: other users of the server could send any number */

#if HAS_TLS
static sl_status open_tls(sl_store_link *link) {
    redisSSLContextError error = REDIS_SSL_CTX_NONE;
    const char *file = secure_getenv("SSL_CERT_FILE"), *folder = secure_getenv("SSL_CERT_DIR");
    redisInitOpenSSL();
    link->secure = redisCreateSSLContext(file, file || folder ? folder : "/etc/ssl/certs", NULL, NULL,
                                         link->address.host, &error);
    if (!link->secure)
        return sl_error(SL_ESYS, "TLS for redis cannot be used: %s", redisSSLContextGetError(error));
    return SL_OK;
}

static int start_tls(sl_store_link *link, redisContext *redis) {
    return !link->secure || redisInitiateSSLWithContext(redis, link->secure) == REDIS_OK;
}

static void close_tls(sl_store_link *link) {
    if (link->secure)
        redisFreeSSLContext(link->secure);
}
#else
static sl_status open_tls(sl_store_link *link) {
    (void)link;
    return sl_error(SL_EINVAL,
                    "rediss:// needs TLS, which hiredis %d.%d.%d, that this slackline was built with, does "
                    "not have: build with hiredis 1.0 or newer (-DSL_HIREDIS), or tunnel redis:// by stunnel "
                    "(docs/security.md)",
                    HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
}

static int start_tls(sl_store_link *link, redisContext *redis) {
    (void)link, (void)redis;
    return 1;
}

static void close_tls(sl_store_link *link) {
    (void)link;
}
#endif

sl_status sl_store_link_open(const char *url, sl_store_link *link) {
    memset(link, 0, sizeof *link);
    SL_TRY(sl_store_address_read(url, &link->address));
    return link->address.secure ? open_tls(link) : SL_OK;
}

static void drop(sl_store_link *link) {
    if (link->redis)
        redisFree(link->redis);
    link->redis = NULL;
}

void sl_store_link_close(sl_store_link *link) {
    drop(link);
    close_tls(link);
}

/* ---- one exchange ---- */

/* Waits until the connection is ready for `events`; 0: the deadline came first. */
static int await(const redisContext *redis, int events, sl_time deadline) {
    struct pollfd file = {.fd = redis->fd, .events = (short)events};
    for (;;) {
        sl_time left = deadline - sl_now();
        if (left <= 0)
            return 0;
        int ready = poll(&file, 1, (int)((left + SL_MS - 1) / SL_MS));
        if (ready > 0)
            return 1;
        if (ready < 0 && errno != EINTR)
            return 0;
    }
}

/* Appended words go out, and one answer comes back. NULL: it did not; *late when for want of time. */
static redisReply *exchange_now(redisContext *redis, sl_time deadline, int *late) {
    void *reply = NULL;
    int sent = 0;
    while (!sent) {
        if (redisBufferWrite(redis, &sent) != REDIS_OK)
            return NULL;
        if (!sent && (*late = !await(redis, POLLOUT, deadline)))
            return NULL;
    }
    for (;;) { /* TLS may hold bytes that poll does not report: wait only if a read returned none */
        size_t before = redis->reader->len;
        if (before > ANSWER_MAX) {
            snprintf(redis->errstr, sizeof redis->errstr, "an answer of more than %zu MiB", ANSWER_MAX >> 20);
            return NULL;
        }
        if (redisBufferRead(redis) != REDIS_OK)
            return NULL;
        int none = redis->reader->len == before;
        if (redisGetReplyFromReader(redis, &reply) != REDIS_OK || reply)
            return reply;
        if (none && (*late = !await(redis, POLLIN, deadline)))
            return NULL;
    }
}

/* The library writes as if a lost connection could not end the process: a signal caused by this is removed;
 * one that was pending before is left. */
static redisReply *exchange(redisContext *redis, sl_time deadline, int *late) {
    sigset_t pipe, before, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    redisReply *reply = exchange_now(redis, deadline, late);
    int error = errno;
    if (!sigismember(&pending, SIGPIPE)) {
        struct timespec none = {0};
        while (sigtimedwait(&pipe, NULL, &none) < 0 && errno == EINTR)
            ;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return reply;
}

/* ---- connecting ---- */

static int refuse(sl_store_link *link, redisContext *redis, const char *why) {
    snprintf(link->why, sizeof link->why, "%s", why);
    if (redis)
        redisFree(redis);
    link->retry = sl_now() + PAUSE_S * SL_SECOND;
    return 0;
}

/* A request of connecting itself; its answer must be OK. */
static int greet(sl_store_link *link, redisContext *redis, int count, const char **words, sl_time deadline) {
    int late = 0;
    redisAppendCommandArgv(redis, count, words, NULL);
    redisReply *reply = exchange(redis, deadline, &late);
    if (!reply)
        return refuse(link, redis, late ? "no answer in time" : redis->errstr);
    char why[sizeof link->why] = "";
    int well = reply->type == REDIS_REPLY_STATUS;
    snprintf(why, sizeof why, "%.200s", reply->type == REDIS_REPLY_ERROR ? reply->str : "no redis server");
    freeReplyObject(reply);
    return well || refuse(link, redis, why);
}

static redisContext *call_up(const sl_store_address *a, sl_time deadline) {
    sl_time left = deadline - sl_now();
    left = left > SL_MS ? left : SL_MS;
    struct timeval limit = {.tv_sec = left / SL_SECOND, .tv_usec = left % SL_SECOND / 1000};
    redisContext *redis = a->path[0] ? redisConnectUnixWithTimeout(a->path, limit)
                                     : redisConnectWithTimeout(a->host, a->port, limit);
    if (redis && !redis->err) {
        redisSetTimeout(redis, limit); /* of a handshake; the rest polls */
        fcntl(redis->fd, F_SETFD, FD_CLOEXEC);
    }
    return redis;
}

static int connect_now(sl_store_link *link, sl_time deadline) {
    const sl_store_address *a = &link->address;
    redisContext *redis = call_up(a, deadline);
    if (!redis || redis->err)
        return refuse(link, redis, redis ? redis->errstr : "out of memory");
    if (!start_tls(link, redis))
        return refuse(link, redis, redis->errstr);
    fcntl(redis->fd, F_SETFL, fcntl(redis->fd, F_GETFL) | O_NONBLOCK);
    redis->flags &= ~REDIS_BLOCK;
    const char *with_user[] = {"AUTH", a->user, a->password}, *without[] = {"AUTH", a->password};
    if (a->has_password &&
        !(a->user[0] ? greet(link, redis, 3, with_user, deadline) : greet(link, redis, 2, without, deadline)))
        return 0;
    char number[16];
    snprintf(number, sizeof number, "%d", a->database);
    const char *select[] = {"SELECT", number};
    if (a->database > 0 && !greet(link, redis, 2, select, deadline))
        return 0;
    link->redis = redis;
    return 1;
}

/* Between two requests nothing arrives: anything readable is the end of the connection. */
static int is_over(const redisContext *redis) {
    struct pollfd file = {.fd = redis->fd, .events = POLLIN};
    return poll(&file, 1, 0) != 0;
}

static sl_status lost(sl_store_link *link, const char *why) {
    char server[sizeof link->address.host + 16];
    sl_store_address_show(&link->address, server, sizeof server);
    return sl_error(SL_EPEER, "redis at %s: %s", server, why);
}

sl_status sl_store_link_ask(sl_store_link *link, int count, const char **words, const size_t *sizes,
                            sl_time patience, redisReply **reply) {
    sl_time begin = sl_now(), deadline = begin + patience;
    int late = 0;
    link->answered = 0;
    if (link->redis && is_over(link->redis))
        drop(link);
    if (!link->redis && (begin < link->retry || !connect_now(link, deadline)))
        return lost(link, link->why);
    if (redisAppendCommandArgv(link->redis, count, words, sizes) != REDIS_OK)
        return sl_error(SL_ENOMEM, "out of memory for a request to redis");
    redisReply *got = exchange(link->redis, deadline, &late);
    if (!got) {
        refuse(link, NULL, late ? "no answer in time" : link->redis->errstr);
        link->retry = late ? link->retry : 0; /* a server that is lost may be back; a slow one is slow */
        drop(link);
        return lost(link, link->why);
    }
    link->answered = 1;
    if (got->type == REDIS_REPLY_ERROR) {
        sl_status status = lost(link, got->str);
        freeReplyObject(got);
        return status;
    }
    *reply = got;
    return SL_OK;
}
