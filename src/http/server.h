/* An HTTP server on an event loop (base/loop.h) for the state of a running program: a table of pages,
 * generated per request, and streams of server-sent events (stream.h). Read-only: only GET and HEAD.
 * libmicrohttpd implements HTTP; everything runs on the loop's thread.
 *
 * Access: with a token, only requests that present it (`Authorization: Bearer TOKEN`, `?token=TOKEN`, or the
 * cookie that an answer to the latter sets, so that the page's address need not keep it). Without a token, on
 * a loopback address, only requests whose Host is an address or localhost: a foreign page whose own host name
 * points here is rejected. */
#pragma once

#include "base/loop.h"
#include "http/stream.h"
#include <stddef.h>
#include <stdio.h>

typedef struct sl_server sl_server;

/* The content of a path: a text written by `put`, or a stream. */
typedef struct sl_server_page {
    const char *path, *type;
    void (*put)(FILE *out, void *context); /* NULL: `stream` */
    sl_event_stream *stream;
    const char *policy; /* Content-Security-Policy; NULL: none */
} sl_server_page;

typedef struct sl_server_config {
    sl_loop *loop;
    const char *who;   /* prefix of its errors: "watch" */
    const char *host;  /* numeric address */
    int port, tries;   /* the first port to try (0: any free one), and how many; at least 1 */
    const char *token; /* NULL: none is required */
    const char *tls;   /* a PEM file (http/tls.h): https; NULL: http */
    int connections;   /* maximum at a time */
    const sl_server_page *page;
    int pages;
    void *context; /* of `put` */
} sl_server_config;

/** Listens. `config` is copied; the objects it points to must outlive the server. SL_EINVAL (not a numeric
 * address, a wrong PEM file), SL_ENONE (the port is in use), SL_ESYS. */
sl_status sl_server_open(const sl_server_config *config, sl_server **server);
/** Ends all connections. Call it before the streams are closed. NULL does nothing. */
void sl_server_close(sl_server *server);

int sl_server_port(const sl_server *server);

/** The address to open, in text[size]: http(s)://HOST:PORT/, with ?token=TOKEN if one is required. HOST is this
 * machine's name if the server listens on all addresses. */
void sl_server_url(const sl_server *server, char *text, size_t size);

/** Call it at least every half second: ends silent connections, and starts pending messages of streams. */
void sl_server_tick(sl_server *server);

/** Whether only this machine can reach `host` (numeric). */
int sl_server_is_loopback(const char *host);

/** Whether two texts are equal, in a time that depends only on the length of `given`. */
int sl_server_same_secret(const char *secret, const char *given);
