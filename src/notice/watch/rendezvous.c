#include "notice/watch/rendezvous.h"
#include "base/build_id.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/random.h"
#include "notice/store/seal.h"
#include "notice/store/store.h"
#include "notice/watch/addresses.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_MS = 50, TEXT = 4096 };

/* Lines of URLs; the ones that only this host knows come last. */
static void put_urls(const sl_redis *redis, const sl_addresses *addresses, char *text, size_t size) {
    char name[128] = "";
    gethostname(name, sizeof name - 1);
    for (int i = 0; i < addresses->count + 2; i++) {
        const char *host = i < addresses->count    ? addresses->text[i]
                           : i == addresses->count ? name
                                                   : "127.0.0.1";
        size_t used = strlen(text);
        if (!host[0] || used + 256 >= size)
            continue;
        sl_redis_url(redis, host, text + used, size - used);
        used += strlen(text + used);
        snprintf(text + used, size - used, "\n");
    }
}

static sl_status leave(sl_rendezvous *r, const sl_addresses *addresses) {
    char text[TEXT], host[64] = "";
    gethostname(host, sizeof host - 1);
    int used = snprintf(text, sizeof text, "%s\nslackline %s %s\n", r->position->job, sl_build_id(), host);
    if (!r->key_given)
        snprintf(text + used, sizeof text - (size_t)used, "key %s\n", r->key);
    if (r->redis.path[0])
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s\n", r->url);
    else if (r->redis.pid > 0)
        put_urls(&r->redis, addresses, text, sizeof text);
    snprintf(r->left, sizeof r->left, "%s/redis.url", r->directory);
    return sl_file_write_private(r->left, text, strlen(text));
}

static sl_status start_server(sl_rendezvous *r, const char *folder, sl_addresses *addresses) {
    char listen[sizeof r->redis.addresses] = "";
    if (r->position->several)
        sl_addresses_find(addresses);
    for (int i = 0; i < addresses->count; i++)
        snprintf(listen + strlen(listen), sizeof listen - strlen(listen), "%s ", addresses->text[i]);
    SL_TRY(sl_redis_start(folder, r->position->several ? listen : NULL, &r->redis));
    sl_redis_url(&r->redis, "127.0.0.1", r->url, sizeof r->url);
    return SL_OK;
}

sl_status sl_rendezvous_open(sl_rendezvous *r, const sl_launch_position *position, const char *directory,
                             const char *folder, const char *given, const char *key) {
    sl_addresses addresses = {.count = 0};
    *r = (sl_rendezvous){.position = position, .directory = directory, .key_given = key != NULL};
    snprintf(r->url, sizeof r->url, "%s", given ? given : "");
    snprintf(r->key, sizeof r->key, "%s", key ? key : "");
    if (position->rank != 0)
        return SL_OK;
    if (!key)
        SL_TRY(sl_random_text(r->key, 64, "random key"));
    if (!given)
        SL_TRY(start_server(r, folder, &addresses));
    if (position->size == 1 || (given && key))
        return SL_OK;
    sl_status status = leave(r, &addresses);
    if (status != SL_OK)
        sl_rendezvous_close(r);
    return status;
}

void sl_rendezvous_close(sl_rendezvous *r) {
    sl_redis_stop(&r->redis);
    if (r->left[0])
        unlink(r->left);
    r->left[0] = 0;
}

static int answers(const char *url, const char *job) {
    sl_store *store;
    void *bytes = NULL;
    size_t size;
    if (sl_store_open(url, job, SL_SECOND, &store) != SL_OK)
        return 0;
    int well = sl_store_get(store, "rendezvous", &bytes, &size) == SL_OK;
    sl_free(bytes);
    sl_store_close(store);
    return well;
}

/* One line of redis.url after the first. */
static sl_status take_line(sl_rendezvous *r, const char *line) {
    char version[32], host[64], text[320];
    if (sscanf(line, "slackline %31s %63s", version, host) == 2) {
        if (strcmp(version, sl_build_id()) == 0)
            return SL_OK;
        sl_seal_version_text(version, host, text, sizeof text);
        return sl_error(SL_EPEER, "%s", text);
    }
    if (strncmp(line, "key ", 4) == 0) {
        if (!r->key_given && strlen(line + 4) < sizeof r->key)
            snprintf(r->key, sizeof r->key, "%s", line + 4);
    } else if (!r->url[0] && strlen(line) < sizeof r->url && answers(line, r->position->job)) {
        snprintf(r->url, sizeof r->url, "%s", line);
    }
    return SL_OK;
}

/* Reads redis.url, if it is this job's. SL_EPEER: the first process is another version. */
static sl_status look(sl_rendezvous *r) {
    char path[TEXT + 16], *text = NULL, *save = NULL;
    size_t size;
    snprintf(path, sizeof path, "%s/redis.url", r->directory);
    if (sl_file_read_max(path, 1 << 16, &text, &size) != SL_OK)
        return SL_OK;
    char *line = strtok_r(text, "\n", &save);
    int mine = line && strcmp(line, r->position->job) == 0;
    sl_status status = SL_OK;
    while (mine && status == SL_OK && (line = strtok_r(NULL, "\n", &save)))
        status = take_line(r, line);
    sl_free(text);
    return status;
}

sl_status sl_rendezvous_wait(sl_rendezvous *r, sl_time limit, _Atomic uint32_t *stop) {
    sl_clock *clock = sl_clock_real();
    sl_time deadline = sl_clock_now(clock) + limit;
    if (r->redis.pid > 0)
        return sl_redis_wait(&r->redis, limit);
    for (;;) {
        if (!r->url[0] || !r->key[0])
            SL_TRY(look(r));
        if (r->url[0] && r->key[0])
            return SL_OK;
        sl_time now = sl_clock_now(clock);
        if (now >= deadline || atomic_load(stop))
            return sl_error(
                SL_EPEER, "%s/redis.url does not %s: the folder must be one that all nodes share; or give %s",
                r->directory, r->url[0] ? "have the job's key" : "lead to the job's redis server",
                r->url[0]      ? "all of them the same --key @FILE or SLACKLINE_KEY"
                : r->key_given ? "--redis @FILE"
                               : "--redis @FILE and --key @FILE");
        sl_clock_wait(clock, stop, 0, now + LOOK_MS * SL_MS);
    }
}
