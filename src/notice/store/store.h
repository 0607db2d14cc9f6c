/* The store: the messages between agents, the controller and validating processes, through Redis.
 *
 * It holds values under keys, and logs (Redis streams) that are appended to and read from a position on.
 * Every name is kept under slackline:JOB:, so jobs can share a server. Each call is one request and waits at
 * most the patience of the store. If the server is lost, calls fail with SL_EPEER until it is back; each call
 * tries again (at most once per second), without reopening. Readers also survive the loss of the stored data:
 * positions in logs are times, so they stay valid. One store belongs to one thread.
 *
 * A server may be shared with strangers. A store with the job's key (sl_store_seal) seals all that it writes
 * and returns only what was written with the key, once, with this version (seal.h); everything else is
 * counted and otherwise ignored. A store without the key reads everything: for viewers. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <stddef.h>

typedef struct sl_store sl_store;

#define SL_STORE_URL 512    /* of a URL, with the terminating zero */
#define SL_STORE_KEY 257    /* of a key, with the terminating zero */
#define SL_STORE_KEY_MIN 16 /* characters of a key */

/** `url`: unix:PATH, redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE], or rediss:// if the client library has
 * TLS (otherwise SL_EINVAL with that reason). Does not connect yet. `patience`: longest wait for an answer,
 * 0: 1 s. SL_EINVAL, SL_ENOMEM. */
sl_status sl_store_open(const char *url, const char *job, sl_time patience, sl_store **store);
void sl_store_close(sl_store *store);

/** Whether `key` is a valid key: SL_STORE_KEY_MIN characters or more, without blanks. SL_EINVAL. */
sl_status sl_store_key_check(const char *key);

/** Sets the job's key; before any read or write. SL_EINVAL. */
sl_status sl_store_seal(sl_store *store, const char *key);

/* Entries and values not returned to the caller. */
typedef struct sl_store_refused {
    int64_t foreign;            /* without a seal of this job's key: written or changed by a stranger */
    int64_t repeated;           /* copies of what was already read */
    int64_t odd;                /* beyond the limits of their kind: sl_store_refuse */
    int64_t others;             /* of another version, */
    char version[32], host[64]; /* the last one's version and host */
} sl_store_refused;

const sl_store_refused *sl_store_refused_by(const sl_store *store);

/** Counts an entry that its reader found invalid. */
void sl_store_refuse(sl_store *store);

/** If data of another version was refused, a sentence that names both versions and hosts, in text[size]; else
 * "". */
void sl_store_version_text(const sl_store *store, char *text, size_t size);

/** The jobs with a key that begins with `sign` ("node:": jobs with living agents), by name, each once. Owned
 * by the caller: free each name and the list with sl_free. SL_EINVAL (URL), SL_EPEER, SL_ENOMEM. */
sl_status sl_store_jobs(const char *url, const char *sign, sl_time patience, char ***job, size_t *count);

/** Whether the last call got its answer. */
int sl_store_connected(const sl_store *store);

/** Sets a key; `lasts` > 0: it expires after that time. SL_EPEER. */
sl_status sl_store_set(sl_store *store, const char *key, const void *bytes, size_t size, sl_time lasts);

/** Sets a key if it is unset; *won is 0 if it was set already (an election). A stranger's value does not
 * count. SL_EPEER. */
sl_status sl_store_claim(sl_store *store, const char *key, const void *bytes, size_t size, sl_time lasts,
                         int *won);

/** The value of a key, with an additional zero, free with sl_free; *bytes is NULL if there is none. SL_EPEER.
 */
sl_status sl_store_get(sl_store *store, const char *key, void **bytes, size_t *size);
sl_status sl_store_remove(sl_store *store, const char *key);

/** Removes every key and log of the job, but not the key `kept` (NULL: none). SL_EPEER. */
sl_status sl_store_forget(sl_store *store, const char *kept);

/** Appends to a log, which keeps about the newest `keep` entries. SL_EPEER. */
sl_status sl_store_append(sl_store *store, const char *log, const void *bytes, size_t size, size_t keep);

typedef struct sl_store_position {
    char id[48]; /* "": the oldest entry kept */
} sl_store_position;

typedef struct sl_store_entry {
    const void *bytes; /* followed by an additional zero */
    size_t size;
} sl_store_entry;

/** Reads up to `most` entries after `position`, and advances it; waits for the first one up to `wait` (0: not
 * at all). *entries is owned by the store, valid until the next call. SL_EPEER. */
sl_status sl_store_read(sl_store *store, const char *log, sl_store_position *position, size_t most,
                        sl_time wait, const sl_store_entry **entries, size_t *count);
