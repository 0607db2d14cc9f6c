/* `slackline dashboard`: a run's folder or a watched job's Redis server as a live page, and for Prometheus.
 *
 * Two threads. One follows the source (follow.h, cluster.h) and writes the board; it may wait for a disk or a
 * server. The other serves HTTP from an event loop and reads the board under a lock. Four times per second
 * the changes become one message for all readers of the page (http/stream.h). */
#pragma once

#include "base/status.h"

#include <stdio.h>

typedef struct sl_dashboard_request {
    const char *folder; /* NULL: a job */
    const char *redis;  /* URL; NULL: a folder */
    const char *job;    /* NULL: any */
    const char *host;   /* numeric address */
    int port;           /* 0: any free one */
    const char *token;  /* NULL: none on loopback, otherwise one is generated */
    const char *tls;    /* a PEM file (http/tls.h); NULL: http */
} sl_dashboard_request;

/** Serves until SIGINT or SIGTERM; first prints the address on `out`, in one line. SL_EINVAL (URL, address,
 * no folder), SL_ENONE (the port is in use), SL_ESYS, SL_ENOMEM. Call without other threads. */
sl_status sl_dashboard_run(const sl_dashboard_request *request, FILE *out);
