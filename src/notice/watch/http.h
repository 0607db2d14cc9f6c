/* What is known over HTTP: /metrics for Prometheus, /status.json, and / as a short text. Served on the
 * caller's thread from its event loop (http/server.h), with the value that it set last. */
#pragma once

#include "http/server.h"
#include "notice/control/job_status.h"

#include <jansson.h>

typedef struct sl_http sl_http;

/** Listens on `host` (numeric) and `port`, or the next free of 100 behind it. On an address that others reach a
 * token is asked for: `token`, or if that is NULL one that is made (http/token.h). Unwatched and closed by
 * sl_http_close. SL_EINVAL (no address), SL_ESYS (it cannot be listened on). */
sl_status sl_http_open(sl_loop *loop, const char *host, int port, const char *token, sl_http **http);
void sl_http_close(sl_http *http);

/** Its port, its address with the token, its ticks: http/server.h. */
sl_server *sl_http_server(sl_http *http);

/** What is told from now on; copied. */
void sl_http_set(sl_http *http, const sl_status_view *view);

/** What is advised from now on, the object `advice` of /status.json; taken over, NULL: none. */
void sl_http_advise(sl_http *http, json_t *advice);
