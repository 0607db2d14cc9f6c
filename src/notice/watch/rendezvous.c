#include "notice/watch/rendezvous.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "notice/store/store.h"
#include "notice/watch/addresses.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_MS = 50, TEXT = 4096 };

/* Lines of URLs; the ones that only this host knows come last. */
static void put_urls(const sl_redis *redis, const sl_addresses *addresses, char *text, size_t size) {
    char name[128] = "";
    gethostname(name, sizeof name - 1);
    for (int i = 0; i < addresses->count + 2; i++) {
        const char *host = i < addresses->count ? addresses->text[i] : i == addresses->count ? name : "127.0.0.1";
        size_t used = strlen(text);
        if (!host[0] || used + 256 >= size)
            continue;
        sl_redis_url(redis, host, text + used, size - used);
        used += strlen(text + used);
        snprintf(text + used, size - used, "\n");
    }
}

/* Nobody else may read the password, not for a moment. */
static sl_status leave_urls(sl_rendezvous *r, const sl_addresses *addresses) {
    char text[TEXT];
    snprintf(text, sizeof text, "%s\n", r->place->job);
    if (r->redis.path[0])
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s\n", r->url);
    else
        put_urls(&r->redis, addresses, text, sizeof text);
    mode_t before = umask(077);
    sl_status status = sl_file_write(r->left, text, strlen(text));
    umask(before);
    if (status == SL_OK && chmod(r->left, 0600) != 0)
        status = sl_error_errno(SL_ESYS, "%s: cannot be made private", r->left);
    return status;
}

sl_status sl_rendezvous_open(sl_rendezvous *r, const sl_place *place, const char *directory,
                             const char *folder, const char *given) {
    sl_addresses addresses = {.count = 0};
    char listen[sizeof r->redis.addresses] = "";
    *r = (sl_rendezvous){.place = place, .directory = directory};
    if (given) {
        snprintf(r->url, sizeof r->url, "%s", given);
        return SL_OK;
    }
    if (place->rank != 0)
        return SL_OK;
    if (place->several)
        sl_addresses_find(&addresses);
    for (int i = 0; i < addresses.count; i++)
        snprintf(listen + strlen(listen), sizeof listen - strlen(listen), "%s ", addresses.text[i]);
    SL_TRY(sl_redis_start(folder, place->several ? listen : NULL, &r->redis));
    sl_redis_url(&r->redis, "127.0.0.1", r->url, sizeof r->url);
    if (place->size == 1)
        return SL_OK;
    snprintf(r->left, sizeof r->left, "%s/redis.url", directory);
    sl_status status = leave_urls(r, &addresses);
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

/* Tries what redis.url says, if it is this job's. */
static int look(sl_rendezvous *r) {
    char path[TEXT + 16], *text = NULL, *save = NULL;
    size_t size;
    snprintf(path, sizeof path, "%s/redis.url", r->directory);
    if (sl_file_read_most(path, 1 << 16, &text, &size) != SL_OK)
        return 0;
    char *line = strtok_r(text, "\n", &save);
    int mine = line && strcmp(line, r->place->job) == 0;
    while (mine && !r->url[0] && (line = strtok_r(NULL, "\n", &save)))
        if (strlen(line) < sizeof r->url && answers(line, r->place->job))
            snprintf(r->url, sizeof r->url, "%s", line);
    sl_free(text);
    return r->url[0] != 0;
}

sl_status sl_rendezvous_wait(sl_rendezvous *r, sl_time limit, _Atomic uint32_t *stop) {
    sl_clock *clock = sl_clock_real();
    sl_time deadline = sl_clock_now(clock) + limit;
    if (r->redis.pid > 0)
        return sl_redis_wait(&r->redis, limit);
    while (!r->url[0] && !look(r)) {
        sl_time now = sl_clock_now(clock);
        if (now >= deadline || atomic_load(stop))
            return sl_error(
                SL_EPEER,
                "%s/redis.url does not lead to the job's redis server: the folder must be one that "
                "all nodes share; or give --redis URL",
                r->directory);
        sl_clock_wait(clock, stop, 0, now + LOOK_MS * SL_MS);
    }
    return SL_OK;
}
