/* What a watch reads on its node: the files that probes leave in its folder, what it is asked to start, and
 * what services of the job answer. */
#include "fuzz.h"

#include "base/clock.h"
#include "base/memory.h"
#include "notice/agent/rings.h"
#include "notice/agent/track.h"
#include "notice/hang/torch_server.h"
#include "notice/record/call.h"
#include "notice/validate/wire.h"
#include "notice/watch/unseen.h"
#include "notice/watch/watched_program.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static const char *place(void) {
    static char folder[64];
    return fuzz_place(folder);
}

static const sl_process_id process = {.id = 77, .pid = 5};

static void put_file(const char *name, const uint8_t *data, size_t size) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", place(), name);
    FILE *file = fopen(path, "we");
    fuzz_must(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
}

static void remove_file(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", place(), name);
    unlink(path);
}

/* ---- rings of calls: their iterations are found, as by an agent */

static int read_rings(const uint8_t *data, size_t size) {
    char name[SL_FILE_NAME];
    sl_rings *rings;
    sl_ring_source source;
    sl_track *track;
    sl_track_block block;
    const sl_call *calls;
    uint64_t ended, counted, lost;
    int taken = 0;
    sl_ring_name(&process, 0, name);
    put_file(name, data, size);
    fuzz_must(sl_rings_open(place(), &rings) == SL_OK && sl_track_open(&track) == SL_OK);
    fuzz_must(sl_rings_look(rings) == SL_OK);
    for (size_t count; (count = sl_rings_read(rings, 100, &source, &calls)) > 0 && taken < 1000;)
        for (size_t i = 0; i < count; i++, taken++)
            fuzz_must(sl_track_add(track, &calls[i]) == SL_OK);
    while (sl_track_take(track, &block))
        fuzz_must(block.count > 0);
    sl_rings_counts(rings, &counted, &lost);
    fuzz_must(sl_rings_look(rings) == SL_OK);
    while (sl_rings_ended(rings, &ended))
        ;
    sl_track_close(track);
    sl_rings_close(rings);
    remove_file(name);
    return taken;
}

static int write_rings(int number, FILE *out) {
    enum { RECORDS = 32 };
    const size_t bytes = sizeof(sl_ring_file) + sl_record_ring_bytes(RECORDS);
    if (number > 0)
        return 0;
    sl_ring_file *file = calloc(1, bytes);
    sl_record_ring *ring = (sl_record_ring *)(file + 1);
    sl_file_head_write(&file->head, SL_RING_FILE_MAGIC, SL_PROBE_LAYOUT, &process);
    file->size = 2;
    fuzz_must(sl_record_ring_init(ring, RECORDS) == 0);
    for (int i = 0; i < RECORDS; i++) {
        sl_record record = {.kind = SL_RECORD_OP,
                            .iteration = 1,
                            .stage = i % 2,
                            .peer = 1,
                            .start = 100 * i,
                            .end = 100 * i + 50};
        sl_record_write(ring, RECORDS, &record);
    }
    fwrite(file, 1, bytes, out);
    free(file);
    return 1;
}

/* ---- calls that cannot be seen, in the program's own words */

static int read_unseen(const uint8_t *data, size_t size) {
    sl_unseen unseen;
    put_file("5-000000000000004d.unseen", data, size);
    sl_unseen_read(place(), &unseen);
    for (int i = 0; i < unseen.count; i++)
        fuzz_must(memchr(unseen.text[i], 0, sizeof unseen.text[i]) && unseen.processes[i] > 0);
    remove_file("5-000000000000004d.unseen");
    return unseen.count;
}

static int write_unseen(int number, FILE *out) {
    return number == 0 && fuzz_say(out, "calls of a library that is not preloaded\nothers\n");
}

/* ---- the program to be watched: ELF, or a script and its interpreter */

static int read_program(const uint8_t *data, size_t size) {
    char path[256], text[256], *command[] = {path, NULL};
    put_file("program", data, size);
    snprintf(path, sizeof path, "%s/program", place());
    fuzz_must(chmod(path, 0755) == 0);
    fuzz_must(sl_program_word(command) == 0);
    sl_program_examine(command, text, sizeof text);
    fuzz_must(memchr(text, 0, sizeof text));
    return text[0] == 0;
}

/* The heads of this program, which is linked dynamically; and a script. */
static int write_program(int number, FILE *out) {
    char bytes[1024];
    if (number == 1)
        return fuzz_say(out, "#! /bin/sh -e\nexit 0\n");
    FILE *own = number == 0 ? fopen("/proc/self/exe", "re") : NULL;
    if (!own)
        return 0;
    size_t size = fread(bytes, 1, sizeof bytes, own);
    fclose(own);
    return fwrite(bytes, 1, size, out) == size;
}

/* ---- a link's first message, from anybody who connects */

#define TOKEN UINT64_C(0x1122334455667788)

/* What a member sends first: it is taken from a connection. */
static size_t first_message(uint8_t bytes[64]) {
    sl_wire_address here;
    int listener, file;
    char why[128];
    fuzz_must(sl_wire_listen("127.0.0.1", &here, &listener) == SL_OK);
    sl_wire_connect(&here, &here, 1, TOKEN, 5, sl_now() + 10 * SL_SECOND, &file, why, sizeof why);
    fuzz_must(file >= 0);
    int made = accept(listener, NULL, NULL);
    close(file);
    ssize_t got, all = 0;
    while ((got = recv(made, bytes + all, 64 - (size_t)all, 0)) > 0)
        all += got;
    close(made);
    close(listener);
    return (size_t)all;
}

static int connect_to(const struct sockaddr_un *at, int named, const uint8_t *data, size_t size) {
    const struct sockaddr_un any = {.sun_family = AF_UNIX};
    int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fuzz_must(!named || bind(file, (const struct sockaddr *)&any, sizeof any.sun_family) == 0);
    fuzz_must(connect(file, (const struct sockaddr *)at, sizeof *at) == 0);
    (void)!send(file, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(file, SHUT_WR);
    return file;
}

/* A stranger, and then a member, so that nobody is waited for: only the member's socket has a name. */
static int read_wire(const uint8_t *data, size_t size) {
    static int listener = -1;
    static struct sockaddr_un at = {.sun_family = AF_UNIX};
    static uint8_t message[64];
    static size_t length;
    int link = -1;
    char more[16];
    if (listener < 0) {
        snprintf(at.sun_path, sizeof at.sun_path, "%s/wire", place());
        listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        fuzz_must(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 8) == 0);
        length = first_message(message);
    }
    int stranger = connect_to(&at, 0, data, size), member = connect_to(&at, 1, message, length);
    int file = sl_wire_accept(listener, TOKEN, sl_now() + 20 * SL_SECOND, &link);
    struct sockaddr_un who;
    socklen_t named = sizeof who;
    fuzz_must(file >= 0 && getpeername(file, (struct sockaddr *)&who, &named) == 0);
    int accepted = named <= sizeof who.sun_family;
    if (accepted) {
        fuzz_must(memmem(data, size, &(uint64_t){TOKEN}, sizeof(uint64_t)));
        fuzz_must(sl_wire_receive(file, more, sizeof more, sl_now() + SL_SECOND) != 0 || size >= sizeof more);
        close(file);
        file = sl_wire_accept(listener, TOKEN, sl_now() + 20 * SL_SECOND, &link);
        fuzz_must(file >= 0 && link == 5);
    }
    close(file);
    close(stranger);
    close(member);
    return accepted;
}

static int write_wire(int number, FILE *out) {
    uint8_t bytes[64];
    return number == 0 && fwrite(bytes, 1, first_message(bytes), out) > 0;
}

/* ---- services of the job */

static struct service {
    int listening;
    struct sockaddr_un at;
    pthread_mutex_t lock;
    const uint8_t *bytes;
    size_t size;
} service = {.listening = -1, .at = {.sun_family = AF_UNIX}, .lock = PTHREAD_MUTEX_INITIALIZER};

static void *answer(void *object) {
    char request[1024];
    (void)object;
    for (;;) {
        int client = accept(service.listening, NULL, NULL);
        if (client < 0)
            continue;
        (void)!recv(client, request, sizeof request, 0);
        pthread_mutex_lock(&service.lock);
        (void)!send(client, service.bytes, service.size, MSG_NOSIGNAL | MSG_DONTWAIT);
        pthread_mutex_unlock(&service.lock);
        close(client);
    }
    return NULL;
}

static void serve(const uint8_t *bytes, size_t size) {
    if (service.listening < 0) {
        pthread_t thread;
        snprintf(service.at.sun_path, sizeof service.at.sun_path, "%s/service", place());
        service.listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        fuzz_must(bind(service.listening, (struct sockaddr *)&service.at, sizeof service.at) == 0 &&
                  listen(service.listening, 8) == 0);
        fuzz_must(pthread_create(&thread, NULL, answer, NULL) == 0);
    }
    pthread_mutex_lock(&service.lock);
    service.bytes = bytes;
    service.size = size;
    pthread_mutex_unlock(&service.lock);
}

static int read_torch_server(const uint8_t *data, size_t size) {
    char *dump;
    size_t length;
    serve(data, size);
    fuzz_must(sl_torch_server_ask(-1, "", service.at.sun_path, &dump, &length) == SL_OK);
    fuzz_must(!dump || (length <= size && dump[length] == 0));
    int got = dump != NULL;
    sl_free(dump);
    return got;
}

static int write_torch_server(int number, FILE *out) {
    return number == 0 &&
           fuzz_say(out, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"entries\": []}");
}

const fuzz_reader fuzz_node[] = {
    {"rings", "sl_rings_look sl_rings_read sl_track_add sl_file_head_read", NULL, write_rings, NULL,
     read_rings},
    {"unseen", "sl_unseen_read", NULL, write_unseen, NULL, read_unseen},
    {"program", "sl_program_examine", NULL, write_program, "#! /bin/sh /usr/bin/env", read_program},
    {"wire", "sl_wire_accept sl_wire_receive", NULL, write_wire, NULL, read_wire},
    {"torch_server", "sl_torch_server_ask", NULL, write_torch_server, "HTTP/1.1 200 OK", read_torch_server},
    {0}};
