/* A watched program: started with the probe preloaded, while its node's agent and the job's controller are
 * stepped and their findings shown live, over HTTP and in a report.
 *
 * Two threads. The first has the program: it starts it, passes signals on, fetches its exit code, draws and
 * serves HTTP; it never waits for Redis. The second (noticing.h) has everything that does. The program is
 * started with everything inherited, and nothing here can stop it. README.md describes the roles when several
 * of these run in a job, and what remains when one is killed. */
#pragma once

#include "base/status.h"
#include "notice/watch/advice.h"

typedef struct sl_watch_request {
    char *const *command;  /* argv, ended by NULL */
    const char *directory; /* for events, report, calls; NULL: runs/watch-<program> */
    const char *redis;     /* URL; NULL: a private server */
    const char *key;       /* of the job; NULL: its first process makes one */
    const char *host;      /* address of HTTP, numeric */
    int port;              /* the first that is tried; 0: no HTTP */
    const char *token;     /* NULL: none on a loopback address, otherwise one is generated */
    const char *tls;       /* a PEM file (http/tls.h): https; NULL: http */
    int overwrite;         /* 1: a finished run in `directory` is replaced */
    int record;            /* 1: call logs of each rank, into directory/calls */
    int hold, validate;    /* 0: never */
    const char *on_event;  /* a program to call for events; NULL: none */
    double on_event_limit; /* seconds per call */
    double hang_after;     /* seconds; 0: hangs are not noticed */
    int hang_kill;         /* 1: a job that hangs is ended, with exit code 124 */
    double hang_limit;     /* seconds after which one that only stalls is ended, too */
    sl_advice_offer offer; /* what the program or its operator can change */
} sl_watch_request;

/** Runs the command to its end. *exit_code is the program's, 128 + signal if one killed it, 126 or 127 if it
 * could not be started (which is reported). An error comes only before the program is started: SL_EINVAL
 * (wrong URL, a folder that holds a finished run), SL_ENONE (no redis-server, no probe), SL_ESYS. From a
 * process without other threads. */
sl_status sl_watch_run(const sl_watch_request *request, int *exit_code);
