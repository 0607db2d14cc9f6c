/* The store: what agents, the controller and validating processes tell each other, through Redis.
 *
 * Values under keys, and logs (Redis streams) that are appended to and read from a position on. Every name is
 * kept under slackline:JOB:, so that jobs share a server. Each call is one request and waits at most the
 * patience of the store; a server that is lost makes calls fail with SL_EPEER until it is back, each
 * call tries anew (at most once in a second), and nobody needs to reopen. Losing what was stored is survived
 * too: positions in logs are times, so readers go on. One store belongs to one thread.
 *
 * A server may be shared with strangers. A store that has the job's key (sl_store_seal) seals all that it
 * writes and gives its caller only what somebody with the key wrote, once, with this version (seal.h);
 * everything else is counted and looks as if it were not there. A store without the key reads everything: for
 * those who only look on. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <stddef.h>

typedef struct sl_store sl_store;

#define SL_STORE_URL 512      /* of a URL, with its end */
#define SL_STORE_KEY 257      /* of a key, with its end */
#define SL_STORE_KEY_MIN 16   /* characters of a key */

/** `url`: unix:PATH, redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE], or rediss:// where the client library
 * has TLS (otherwise SL_EINVAL, which says so). Does not connect yet. `patience`: longest wait for an answer,
 * 0: 1 s. SL_EINVAL, SL_ENOMEM. */
sl_status sl_store_open(const char *url, const char *job, sl_time patience, sl_store **store);
void sl_store_close(sl_store *store);

/** Whether `key` can be a job's: SL_STORE_KEY_MIN characters or more, none of them a blank. SL_EINVAL. */
sl_status sl_store_key_check(const char *key);

/** The job's key; before anything is read or written. SL_EINVAL. */
sl_status sl_store_seal(sl_store *store, const char *key);

/* Entries and values that were not given to the caller. */
typedef struct sl_store_refused {
    int64_t foreign;            /* without a seal of this job's key: somebody else wrote or changed them */
    int64_t repeated;           /* copies of what was read before */
    int64_t odd;                /* beyond the limits of their kind: sl_store_refuse */
    int64_t others;             /* of another version, */
    char version[32], host[64]; /* the last of which was this one */
} sl_store_refused;

const sl_store_refused *sl_store_refused_by(const sl_store *store);

/** Counts an entry that its reader found to be no message. */
void sl_store_refuse(sl_store *store);

/** Where something of another version was refused, the sentence that names both versions and hosts, in
 * text[size]; else "". */
void sl_store_version_text(const sl_store *store, char *text, size_t size);

/** The jobs that have a key which begins with `sign` ("node:": whose agents live), by name, each once; the
 * caller's: each name and the list are freed with sl_free. SL_EINVAL (URL), SL_EPEER, SL_ENOMEM. */
sl_status sl_store_jobs(const char *url, const char *sign, sl_time patience, char ***job, size_t *count);

/** Whether the last call got its answer. */
int sl_store_connected(const sl_store *store);

/** Sets a key; `lasts` > 0: it goes after that time. SL_EPEER. */
sl_status sl_store_set(sl_store *store, const char *key, const void *bytes, size_t size, sl_time lasts);

/** Sets a key that nobody has set; *won is 0 when somebody has (an election). What a stranger has set is
 * nothing. SL_EPEER. */
sl_status sl_store_claim(sl_store *store, const char *key, const void *bytes, size_t size, sl_time lasts,
                         int *won);

/** The value of a key, ended by an additional zero, free with sl_free; *bytes NULL when there is none.
 * SL_EPEER. */
sl_status sl_store_get(sl_store *store, const char *key, void **bytes, size_t *size);
sl_status sl_store_remove(sl_store *store, const char *key);

/** Removes every key and log of the job, but not the key `kept` (NULL: none). SL_EPEER. */
sl_status sl_store_forget(sl_store *store, const char *kept);

/** Appends to a log, which keeps about the newest `keep` entries. SL_EPEER. */
sl_status sl_store_append(sl_store *store, const char *log, const void *bytes, size_t size, size_t keep);

typedef struct sl_store_position {
    char id[48]; /* "": from the beginning of what is kept */
} sl_store_position;

typedef struct sl_store_entry {
    const void *bytes; /* ended by an additional zero */
    size_t size;
} sl_store_entry;

/** Up to `most` entries behind `position`, which moves past them; waits for the first one up to `wait` (0:
 * not at all). *entries is the store's, until the next call. SL_EPEER. */
sl_status sl_store_read(sl_store *store, const char *log, sl_store_position *position, size_t most,
                        sl_time wait, const sl_store_entry **entries, size_t *count);
