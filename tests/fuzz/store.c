/* What comes from a Redis server: its URL (by the user), its answers, and seals. */
#include "fuzz.h"

#include "base/memory.h"
#include "notice/store/address.h"
#include "notice/store/seal.h"
#include "notice/store/store.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define KEY "0123456789abcdef"

/* ---- its URL */

static int read_url(const uint8_t *data, size_t size) {
    sl_store_address address;
    char *text = fuzz_text(data, size), shown[400];
    sl_status status = sl_store_address_read(text, &address);
    if (status == SL_OK) {
        sl_store_address_show(&address, shown, sizeof shown);
        fuzz_must(address.path[0] || (address.host[0] && address.port > 0));
        if (strlen(address.password) > 8 && !strstr(address.host, address.password))
            fuzz_must(!strstr(shown, address.password));
    }
    free(text);
    return status == SL_OK;
}

static int write_url(int number, FILE *out) {
    const char *const urls[] = {"unix:/tmp/redis.sock", "redis://user:p%61ss@host:6379/3",
                                "redis://:secret@[::1]:1", "redis://127.0.0.1"};
    return number < 4 && fuzz_say(out, urls[number]);
}

/* ---- its answers: a server that says the same to everyone, a few times */

enum { ANSWERS = 4 };

static struct server {
    int listening;
    char url[128];
    pthread_mutex_t lock;
    const uint8_t *bytes;
    size_t size;
    int answers;
} server = {.listening = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

static void *serve(void *object) {
    char request[4096];
    (void)object;
    for (;;) {
        int client = accept(server.listening, NULL, NULL);
        if (client < 0)
            continue;
        struct pollfd file = {.fd = client, .events = POLLIN};
        poll(&file, 1, 1000);
        (void)!recv(client, request, sizeof request, MSG_DONTWAIT);
        pthread_mutex_lock(&server.lock);
        if (server.answers-- > 0)
            (void)!send(client, server.bytes, server.size, MSG_NOSIGNAL | MSG_DONTWAIT);
        pthread_mutex_unlock(&server.lock);
        shutdown(client, SHUT_WR);
        close(client);
    }
    return NULL;
}

static void start_server(void) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    pthread_t thread;
    char folder[] = "/tmp/slackline-fuzz-XXXXXX";
    fuzz_must(mkdtemp(folder));
    snprintf(at.sun_path, sizeof at.sun_path, "%s/redis", folder);
    snprintf(server.url, sizeof server.url, "unix:%s", at.sun_path);
    server.listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fuzz_must(bind(server.listening, (struct sockaddr *)&at, sizeof at) == 0 &&
              listen(server.listening, 8) == 0);
    fuzz_must(pthread_create(&thread, NULL, serve, NULL) == 0);
}

static void answer_with(const uint8_t *bytes, size_t size) {
    if (server.listening < 0)
        start_server();
    pthread_mutex_lock(&server.lock);
    server.bytes = bytes;
    server.size = size;
    server.answers = bytes ? ANSWERS : 0;
    pthread_mutex_unlock(&server.lock);
}

static int read_log(sl_store *store) {
    sl_store_position position = {""};
    const sl_store_entry *entry;
    size_t count;
    if (sl_store_read(store, "log", &position, 16, 0, &entry, &count) != SL_OK)
        return 0;
    for (size_t i = 0; i < count; i++)
        fuzz_must(((const char *)entry[i].bytes)[entry[i].size] == 0);
    return count > 0;
}

static int list_jobs(void) {
    char **job;
    size_t count;
    if (sl_store_jobs(server.url, "node:", 5 * SL_SECOND, &job, &count) != SL_OK)
        return 0;
    for (size_t i = 0; i < count; i++)
        sl_free(job[i]);
    sl_free(job);
    return count > 0;
}

/* The first byte chooses the request, and whether the store has a key. */
static int read_answer(const uint8_t *data, size_t size) {
    sl_store *store;
    uint64_t request = fuzz_take(&data, &size, 1);
    void *bytes = NULL;
    size_t length;
    int done = 0;
    answer_with(data, size);
    fuzz_must(sl_store_open(server.url, "job", 5 * SL_SECOND, &store) == SL_OK);
    if (request & 128)
        fuzz_must(sl_store_seal(store, KEY) == SL_OK);
    switch (request % 128 % 7) {
    case 0:
        done = read_log(store);
        break;
    case 1:
        done = sl_store_get(store, "key", &bytes, &length) == SL_OK && bytes;
        fuzz_must(!done || ((const char *)bytes)[length] == 0);
        sl_free(bytes);
        break;
    case 2:
        done = list_jobs();
        break;
    case 3:
        done = sl_store_forget(store, "kept") == SL_OK;
        break;
    case 4:
        done = sl_store_claim(store, "key", "x", 1, SL_SECOND, &(int){0}) == SL_OK;
        break;
    case 5:
        done = sl_store_append(store, "log", "x", 1, 9) == SL_OK;
        break;
    default:
        done = sl_store_set(store, "key", "x", 1, 0) == SL_OK;
    }
    sl_store_close(store);
    answer_with(NULL, 0);
    return done;
}

static int say_seal(FILE *out, const char *name, const char *bytes) {
    sl_seal seal;
    fuzz_must(sl_seal_begin(&seal) == SL_OK);
    seal.counter = 1;
    fuzz_must(sl_seal_close(&seal, KEY, name, bytes, strlen(bytes)) == SL_OK);
    return fwrite(&seal, 1, sizeof seal, out) == sizeof seal;
}

static int write_answer(int number, FILE *out) {
    static const char log[] =
        "*1\r\n*2\r\n$17\r\nslackline:job:log\r\n*1\r\n*2\r\n$3\r\n1-0\r\n*4\r\n$1\r\nb\r\n$5\r\nhello\r\n"
        "$1\r\ns\r\n$152\r\n";
    static const struct {
        uint8_t request;
        const char *text, *sealed; /* sealed: the name under which "hello" is, at the end */
    } all[] = {{0, log, "slackline:job:log"},
               {128, log, "slackline:job:log"},
               {1, "$5\r\nhello\r\n", NULL},
               {129, "$157\r\nhello", "slackline:job:key"},
               {2, "*2\r\n$1\r\n0\r\n*1\r\n$20\r\nslackline:job:node:a\r\n", NULL},
               {3, "*2\r\n$1\r\n0\r\n*1\r\n$18\r\nslackline:job:kept\r\n", NULL},
               {4, "+OK\r\n", NULL},
               {133, "$3\r\n1-1\r\n", NULL},
               {6, "+OK\r\n", NULL},
               {1, "-ERR no\r\n", NULL}};
    if (number >= (int)(sizeof all / sizeof *all))
        return 0;
    fputc(all[number].request, out);
    fputs(all[number].text, out);
    return !all[number].sealed || (say_seal(out, all[number].sealed, "hello") && fuzz_say(out, "\r\n"));
}

/* ---- seals */

static int read_seal(const uint8_t *data, size_t size) {
    sl_seal seal;
    char text[256];
    int right = 1;
    if (!sl_seal_is(data, size))
        return 0;
    fuzz_must(size == sizeof seal);
    memcpy(&seal, data, sizeof seal);
    sl_seal_version_text(seal.version, seal.host, text, sizeof text);
    fuzz_must(sl_seal_check(&seal, "another key than its", "name", "bytes", 5, &right) == SL_OK && !right);
    return 1;
}

static int write_seal(int number, FILE *out) {
    return number == 0 && say_seal(out, "name", "bytes");
}

const fuzz_reader fuzz_store[] = {
    {"redis_url", "sl_store_address_read", NULL, write_url, "unix: redis:// rediss:// %61 [::1] @", read_url},
    {"redis_answer",
     "sl_store_read sl_store_get sl_store_jobs sl_store_forget sl_store_claim sl_store_link_ask", NULL,
     write_answer, "slackline:job: node:", read_answer},
    {"seal", "sl_seal_is sl_seal_check sl_seal_version_text", NULL, write_seal, NULL, read_seal},
    {0}};
