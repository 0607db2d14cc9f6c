/* A Redis server of the test's own, for readers that read from a store; as anybody who may write to a shared
 * server, the fuzzer writes there without the job's key, and the readers have none either. */
#ifndef SL_TESTS_FUZZ_REAL_REDIS_H
#define SL_TESTS_FUZZ_REAL_REDIS_H

#include "fuzz.h"

#include "launch/redis.h"
#include "notice/store/store.h"

#include <stdlib.h>

#define FUZZ_JOB "fuzzed"

/** The URL of the server, which is started first; it ends with the process. */
static inline const char *fuzz_redis(void) {
    static char url[512], folder[] = "/tmp/slackline-fuzz-XXXXXX";
    static sl_redis redis;
    if (!url[0]) {
        fuzz_must(mkdtemp(folder));
        fuzz_must(sl_redis_start(folder, NULL, &redis) == SL_OK);
        fuzz_must(sl_redis_wait(&redis, 20 * SL_SECOND) == SL_OK);
        sl_redis_url(&redis, "127.0.0.1", url, sizeof url);
    }
    return url;
}

/** A store of the job without a key, whose earlier content is gone. */
static inline sl_store *fuzz_store_open(int empty) {
    sl_store *store;
    fuzz_must(sl_store_open(fuzz_redis(), FUZZ_JOB, 20 * SL_SECOND, &store) == SL_OK);
    if (empty)
        fuzz_must(sl_store_forget(store, NULL) == SL_OK);
    return store;
}

#endif
