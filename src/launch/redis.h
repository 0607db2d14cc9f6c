/* A Redis server of a run: a child of the process that starts it, without persistence, which is ended by its
 * process id or, in any case, with the thread that started it (PR_SET_PDEATHSIG). Its configuration, with the
 * password, goes through its standard input, so that no process list shows it. Clients may only perform the
 * store's operations (notice/store) on keys that begin with "slackline:". */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct sl_redis {
    pid_t pid;      /* 0: none */
    char path[108]; /* of its unix socket; "": TCP */
    int port;       /* TCP; 0: unix socket */
    char password[48];
    char addresses[800]; /* addresses it listens on besides 127.0.0.1, separated by blanks */
    char folder[256];
} sl_redis;

/** The redis-server in an absolute entry of PATH, else the one next to the running program. SL_ENONE explains
 * how to get one, SL_ESYS: others could replace the one next to the program. */
sl_status sl_redis_find(char path[PATH_MAX]);

/** Starts one in `folder`: listening on `folder`/redis.sock, or if `addresses` is not NULL, with a random
 * password, on a free port of 127.0.0.1 and these numeric addresses (separated by blanks; those that this
 * host lacks are skipped). Returns at once. SL_ENONE if it is not installed, SL_ESYS, SL_EINVAL if the path
 * or the addresses are too long. Call it from a thread that lives as long as the server. */
sl_status sl_redis_start(const char *folder, const char *addresses, sl_redis *redis);

/** Restarts one that has ended, at the same address and with the same password; its data are lost. */
sl_status sl_redis_restart(sl_redis *redis);

/** Waits until it answers, at most `limit`: SL_ESYS with the last line of its log if it has ended or does not
 * answer. May be called from a thread other than the one that started it. */
sl_status sl_redis_wait(const sl_redis *redis, sl_time limit);

/** Its URL for clients on `host` ("127.0.0.1", or this host's name), in text[size]. */
void sl_redis_url(const sl_redis *redis, const char *host, char *text, size_t size);

/** Ends and reaps it; the files in its folder are the caller's. Never fails; pid 0 is fine. Standard error
 * has a line about one that SIGKILL does not end. */
void sl_redis_stop(sl_redis *redis);
