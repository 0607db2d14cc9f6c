/* The current state over HTTP: /metrics for Prometheus, /status.json, and / as a short text. Served on the
 * caller's thread from its event loop (http/server.h), with the last value set. */
#pragma once

#include "http/server.h"
#include "notice/control/job_status.h"

#include <jansson.h>

typedef struct sl_http sl_http;

/** Listens on `host` (numeric) and `port`, or the next free of the following 100. On an address that others
 * can reach, clients need a token: `token`, or a generated one if that is NULL (http/token.h). `tls`: a PEM
 * file (http/tls.h), or NULL. Unwatched and
 * closed by sl_http_close. SL_EINVAL (not an address), SL_ESYS (cannot listen on it). */
sl_status sl_http_open(sl_loop *loop, const char *host, int port, const char *token, const char *tls,
                       sl_http **http);
void sl_http_close(sl_http *http);

/** Its port, its address with the token, its ticks: http/server.h. */
sl_server *sl_http_server(sl_http *http);

/** The state to serve from now on; copied. */
void sl_http_set(sl_http *http, const sl_status_view *view);

/** The advice to serve from now on, the object `advice` of /status.json; ownership passes to `http`, NULL:
 * none. */
void sl_http_advise(sl_http *http, json_t *advice);
