/* How the processes of a job meet: the URL of their Redis server, and the key with which they seal what they
 * write there (notice/store/seal.h).
 *
 * The server is the given one, or one that the first process starts: on a unix socket in its node's folder,
 * or on TCP if the job has other hosts, at the addresses by which they reach this one (addresses.h). The key
 * is the given one, or one that the first process makes. What is not given is left in DIRECTORY/redis.url
 * (mode 600): the job's name in the first line, version and host of the writer, the key, and URLs (TCP: one
 * per address), which the agents of other nodes try in turn. The key never goes through the server. A node
 * may be a network namespace of the same host: it reaches the socket by its path. */
#pragma once

#include "base/time.h"
#include "launch/redis.h"
#include "notice/store/store.h"
#include "notice/watch/launch_position.h"

#include <stdatomic.h>

typedef struct sl_rendezvous {
    const sl_launch_position *position;
    const char *directory;  /* for results; also where several nodes find redis.url */
    sl_redis redis;         /* this process's own; pid 0: none */
    char url[SL_STORE_URL]; /* once known; else "" */
    char key[SL_STORE_KEY]; /* once known; else "" */
    int key_given;
    char left[4200]; /* path of redis.url if written; "" */
} sl_rendezvous;

/** Starts what this process, the agent of its node, has to start, in `folder`; `given` and `key` come from
 * the user, NULL: none. Does not wait. SL_ENONE without redis-server, SL_ESYS. */
sl_status sl_rendezvous_open(sl_rendezvous *r, const sl_launch_position *position, const char *directory,
                             const char *folder, const char *given, const char *key);

/** Ends the server and removes its files. */
void sl_rendezvous_close(sl_rendezvous *r);

/** Waits until the server answers and URL and key are known, at most `limit`, or until *stop is set. SL_ESYS,
 * SL_EPEER, also if the first process is another version. From any one thread. */
sl_status sl_rendezvous_wait(sl_rendezvous *r, sl_time limit, _Atomic uint32_t *stop);
