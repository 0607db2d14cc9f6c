#include "run/rail/listener.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "run/rail/rail_socket.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNPROVEN 64              /* slots at the listener */
#define PATIENCE (2 * SL_SECOND) /* for one handshake */
#define QUIET SL_SECOND          /* between two lines about strangers */

typedef struct unproven {
    int socket; /* -1: this slot is empty */
    sl_time since;
    sl_handshake handshake;
} unproven;

struct sl_listener {
    sl_loop *loop;
    uint8_t key[32];
    sl_listener_report report;
    void *object;
    const sl_listener_guest **guest;
    size_t guests, guest_room;
    int *listening;
    size_t listens, listen_room;
    unproven waiting[UNPROVEN];
    sl_loop_timer timer;        /* 0: none */
    _Atomic uint64_t strangers; /* relaxed: any thread may ask how many */
    uint64_t unreported;
    sl_time reported;
    char last[SL_RAIL_TEXT + 128];
};

static void report_strangers(sl_listener *d) {
    char text[sizeof d->last + 64];
    if (d->unreported == 0)
        return;
    if (d->unreported == 1)
        snprintf(text, sizeof text, "%s", d->last);
    else
        snprintf(text, sizeof text, "%s (and %llu others)", d->last, (unsigned long long)d->unreported - 1);
    d->unreported = 0;
    d->reported = sl_now();
    if (d->report)
        d->report(d->object, text);
}

static void forget(sl_listener *d, unproven *u) {
    sl_loop_unwatch(d->loop, u->socket);
    close(u->socket);
    u->socket = -1;
}

static void drop(sl_listener *d, unproven *u, const char *why) {
    char who[SL_RAIL_TEXT];
    sl_rail_describe(u->socket, who);
    forget(d, u);
    atomic_fetch_add_explicit(&d->strangers, 1, memory_order_relaxed);
    d->unreported++;
    snprintf(d->last, sizeof d->last, "%s was dropped: %s", who, why);
    if (d->reported == 0 || sl_now() >= d->reported + QUIET)
        report_strangers(d);
}

static const sl_listener_guest *find_guest(const sl_listener *d, const sl_hello *said) {
    for (size_t i = 0; i < d->guests; i++)
        if (d->guest[i]->from == said->from && d->guest[i]->to == said->to &&
            d->guest[i]->number == said->number)
            return d->guest[i];
    return NULL;
}

static const char *answer(void *object, const sl_hello *said, sl_hello *own) {
    const sl_listener_guest *guest = find_guest(object, said);
    return guest ? guest->answer(guest->object, said, own) : "no endpoint here expects the conduit it names";
}

static sl_status keep_time(sl_listener *d);

static sl_status wake(void *context) {
    sl_listener *d = context;
    sl_time t = sl_now();
    d->timer = 0;
    for (int i = 0; i < UNPROVEN; i++)
        if (d->waiting[i].socket >= 0 && t >= d->waiting[i].since + PATIENCE)
            drop(d, &d->waiting[i], "it was silent");
    if (t >= d->reported + QUIET)
        report_strangers(d);
    return keep_time(d);
}

/* One timer, for the oldest unauthenticated connection and for pending reports. */
static sl_status keep_time(sl_listener *d) {
    sl_time first = d->unreported ? d->reported + QUIET : SL_TIME_NEVER;
    if (d->timer)
        return SL_OK; /* early enough: a connection never times out before an older one */
    for (int i = 0; i < UNPROVEN; i++)
        if (d->waiting[i].socket >= 0 && d->waiting[i].since + PATIENCE < first)
            first = d->waiting[i].since + PATIENCE;
    return first == SL_TIME_NEVER ? SL_OK : sl_loop_at(d->loop, first, wake, d, &d->timer);
}

static void hand_over(sl_listener *d, unproven *u) {
    const sl_listener_guest *guest = find_guest(d, &u->handshake.other);
    int socket = u->socket;
    if (!guest) { /* it has closed meanwhile */
        forget(d, u);
        return;
    }
    sl_loop_unwatch(d->loop, socket);
    u->socket = -1;
    guest->take(guest->object, socket, &u->handshake, sl_now() - u->since);
}

static sl_status greet(sl_listener *d, unproven *u) {
    const char *why;
    sl_handshake_result result = sl_handshake_move(&u->handshake, u->socket, &why);
    if (result == SL_HANDSHAKE_DONE)
        hand_over(d, u);
    else if (result == SL_HANDSHAKE_WRONG && u->handshake.left)
        forget(d, u); /* the peer abandoned this attempt, or has another key and reports it itself */
    else if (result == SL_HANDSHAKE_WRONG)
        drop(d, u, why);
    else
        return sl_loop_watch_writable(d->loop, u->socket, sl_handshake_writes(&u->handshake));
    return SL_OK;
}

static sl_status hear(void *context, int file) {
    sl_listener *d = context;
    for (int i = 0; i < UNPROVEN; i++)
        if (d->waiting[i].socket == file) {
            SL_TRY(greet(d, &d->waiting[i]));
            break;
        }
    return keep_time(d);
}

static unproven *make_room(sl_listener *d) {
    unproven *oldest = &d->waiting[0];
    for (int i = 0; i < UNPROVEN; i++) {
        if (d->waiting[i].socket < 0)
            return &d->waiting[i];
        if (d->waiting[i].since < oldest->since)
            oldest = &d->waiting[i];
    }
    drop(d, oldest, "it had not proven itself when others came");
    return oldest;
}

static sl_status let_in(void *context, int listening) {
    sl_listener *d = context;
    for (int i = 0; i < UNPROVEN; i++) { /* then the others on the loop get their turn */
        int made = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (made < 0)
            break;
        unproven *u = make_room(d);
        u->socket = made;
        u->since = sl_now();
        u->handshake = (sl_handshake){.answer = answer, .object = d};
        memcpy(u->handshake.key, d->key, sizeof d->key);
        if (sl_loop_watch(d->loop, made, hear, d) != SL_OK) {
            close(made);
            u->socket = -1;
            continue;
        }
        SL_TRY(greet(d, u)); /* its hello is often here already */
    }
    return keep_time(d);
}

sl_status sl_listener_open(sl_loop *loop, const uint8_t key[32], sl_listener_report report, void *object,
                           sl_listener **listener) {
    SL_TRY(sl_alloc(listener, 1, sizeof **listener));
    sl_listener *d = *listener;
    d->loop = loop;
    d->report = report;
    d->object = object;
    memcpy(d->key, key, sizeof d->key);
    for (int i = 0; i < UNPROVEN; i++)
        d->waiting[i].socket = -1;
    return SL_OK;
}

void sl_listener_close(sl_listener *d) {
    if (!d)
        return;
    sl_loop_forget(d->loop, d->timer);
    for (int i = 0; i < UNPROVEN; i++)
        if (d->waiting[i].socket >= 0)
            forget(d, &d->waiting[i]);
    for (size_t i = 0; i < d->listens; i++)
        sl_loop_unwatch(d->loop, d->listening[i]);
    SL_FREE(d->listening, d->guest, d);
}

sl_status sl_listener_listen(sl_listener *d, int listening) {
    if (d->listens == d->listen_room)
        SL_TRY(sl_grow(&d->listening, &d->listen_room, d->listens + 1, sizeof *d->listening));
    SL_TRY(sl_loop_watch(d->loop, listening, let_in, d));
    d->listening[d->listens++] = listening;
    return SL_OK;
}

sl_status sl_listener_admit(sl_listener *d, const sl_listener_guest *guest) {
    if (d->guests == d->guest_room)
        SL_TRY(sl_grow(&d->guest, &d->guest_room, d->guests + 1, sizeof *d->guest));
    d->guest[d->guests++] = guest;
    return SL_OK;
}

void sl_listener_dismiss(sl_listener *d, const sl_listener_guest *guest) {
    for (size_t i = 0; i < d->guests; i++)
        if (d->guest[i] == guest) {
            d->guest[i] = d->guest[--d->guests];
            return;
        }
}

uint64_t sl_listener_strangers(const sl_listener *d) {
    return atomic_load_explicit(&d->strangers, memory_order_relaxed);
}

static const uint8_t magic[8] = {'S', 'L', 'R', 'A', 'I', 'L', '0', '2'};

/* As on the wire, little-endian. */
typedef struct wire_hello {
    uint8_t magic[8];
    uint32_t from, to, number, rail, chunk_bytes, slots;
    uint8_t boot[SL_BOOT_BYTES];
    uint64_t epoch, published, limit;
    uint8_t nonce[32];
    uint64_t proves;
} wire_hello;
_Static_assert(sizeof(wire_hello) == SL_HANDSHAKE_HELLO, "a hello on the wire");

static sl_status write_hello(sl_handshake *g) {
    const sl_hello *h = &g->own;
    wire_hello w = {.from = htole32((uint32_t)h->from),
                    .to = htole32((uint32_t)h->to),
                    .number = htole32((uint32_t)h->number),
                    .rail = htole32((uint32_t)h->rail),
                    .chunk_bytes = htole32(h->chunk_bytes),
                    .slots = htole32(h->slots),
                    .epoch = htole64(h->state.epoch),
                    .published = htole64(h->state.published),
                    .limit = htole64(h->state.limit),
                    .proves = htole64((uint64_t)h->proves)};
    memcpy(w.magic, magic, sizeof magic);
    memcpy(w.boot, h->boot, sizeof w.boot);
    if (getrandom(w.nonce, sizeof w.nonce, 0) != sizeof w.nonce)
        return sl_error_errno(SL_ESYS, "no random numbers for a rail's handshake");
    memcpy(g->out, &w, sizeof w);
    g->ready = SL_HANDSHAKE_HELLO;
    return SL_OK;
}

/* 0, or -1: another protocol. */
static int read_hello(sl_handshake *g) {
    wire_hello w;
    memcpy(&w, g->in, sizeof w);
    if (memcmp(w.magic, magic, sizeof magic) != 0 || le64toh(w.proves) > 1)
        return -1;
    g->other = (sl_hello){
        .from = (int)le32toh(w.from),
        .to = (int)le32toh(w.to),
        .number = (int)le32toh(w.number),
        .rail = (int)le32toh(w.rail),
        .chunk_bytes = le32toh(w.chunk_bytes),
        .slots = le32toh(w.slots),
        .proves = (int)le64toh(w.proves),
        .state = {le64toh(w.epoch), le64toh(w.published), le64toh(w.limit)},
    };
    memcpy(g->other.boot, w.boot, sizeof w.boot);
    return 0;
}

/* HMAC-SHA256 of a label and both hellos, the initiator's first. */
static int derive(const sl_handshake *g, const char *label, uint8_t made[32]) {
    uint8_t text[16 + 2 * SL_HANDSHAKE_HELLO] = {0};
    unsigned length = 32;
    memcpy(text, label, strlen(label));
    memcpy(text + 16, g->initiator ? g->out : g->in, SL_HANDSHAKE_HELLO);
    memcpy(text + 16 + SL_HANDSHAKE_HELLO, g->initiator ? g->in : g->out, SL_HANDSHAKE_HELLO);
    return HMAC(EVP_sha256(), g->key, sizeof g->key, text, sizeof text, made, &length) != NULL &&
           length == 32;
}

static int prove(const sl_handshake *g, int initiator, uint8_t proof[SL_HANDSHAKE_PROOF]) {
    return derive(g, initiator ? "initiator" : "acceptor", proof);
}

int sl_handshake_frame_key(const sl_handshake *g, int initiator, uint8_t key[32]) {
    return derive(g, initiator ? "initiator says" : "acceptor says", key);
}

static int names_the_same(const sl_hello *a, const sl_hello *b) {
    return a->from == b->from && a->to == b->to && a->number == b->number && a->rail == b->rail;
}

/* The other's hello is here: NULL, or why it is refused. */
static const char *meet(sl_handshake *g) {
    if (read_hello(g) != 0)
        return "it speaks another protocol";
    if (g->initiator) {
        if (!names_the_same(&g->own, &g->other) || g->own.chunk_bytes != g->other.chunk_bytes)
            return "another conduit answered";
        if (g->own.proves != g->other.proves)
            return SL_HANDSHAKE_AUTH_DIFFERS;
        if (!prove(g, 1, g->out + SL_HANDSHAKE_HELLO))
            return "the proof cannot be computed";
        g->ready = SL_HANDSHAKE_WHOLE;
        return NULL;
    }
    const char *refused = g->answer(g->object, &g->other, &g->own);
    if (refused)
        return refused;
    return write_hello(g) == SL_OK ? NULL : "random numbers are not available";
}

/* The other's proof is here. */
static const char *believe(sl_handshake *g) {
    uint8_t expected[SL_HANDSHAKE_PROOF];
    if (!prove(g, !g->initiator, expected) ||
        CRYPTO_memcmp(expected, g->in + SL_HANDSHAKE_HELLO, SL_HANDSHAKE_PROOF) != 0)
        return "it does not know the run's key";
    if (g->initiator)
        return NULL;
    if (!prove(g, 0, g->out + SL_HANDSHAKE_HELLO))
        return "the proof cannot be computed";
    g->ready = SL_HANDSHAKE_WHOLE;
    return NULL;
}

static const char *read_on(sl_handshake *g, int socket) {
    while (g->got < SL_HANDSHAKE_WHOLE) {
        size_t step = g->got < SL_HANDSHAKE_HELLO ? SL_HANDSHAKE_HELLO : SL_HANDSHAKE_WHOLE;
        ssize_t n = recv(socket, g->in + g->got, step - g->got, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return NULL;
        if (n <= 0) {
            g->left = g->got >= SL_HANDSHAKE_HELLO;
            return g->left || g->initiator ? "it closed the connection in the handshake (another key?)"
                                           : "it left without a word of this protocol";
        }
        g->got += (size_t)n;
        if (g->got >= sizeof magic && memcmp(g->in, magic, sizeof magic) != 0)
            return "it speaks another protocol"; /* even if more data follow */
        const char *wrong = g->got < step ? NULL : step == SL_HANDSHAKE_HELLO ? meet(g) : believe(g);
        if (wrong)
            return wrong;
    }
    return NULL;
}

static const char *write_on(sl_handshake *g, int socket) {
    while (g->put < g->ready) {
        ssize_t n = send(socket, g->out + g->put, g->ready - g->put, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return NULL;
        if (n < 0) {
            g->left = g->got >= SL_HANDSHAKE_HELLO;
            return "the connection broke in the handshake";
        }
        g->put += (size_t)n;
    }
    return NULL;
}

sl_status sl_handshake_initiate(sl_handshake *g, const uint8_t key[32], const sl_hello *own) {
    *g = (sl_handshake){.initiator = 1, .own = *own};
    memcpy(g->key, key, sizeof g->key);
    return write_hello(g);
}

sl_handshake_result sl_handshake_move(sl_handshake *g, int socket, const char **why) {
    *why = read_on(g, socket);
    if (!*why)
        *why = write_on(g, socket);
    if (*why)
        return SL_HANDSHAKE_WRONG;
    return g->got == SL_HANDSHAKE_WHOLE && g->put == SL_HANDSHAKE_WHOLE ? SL_HANDSHAKE_DONE : SL_HANDSHAKE_ON;
}

int sl_handshake_writes(const sl_handshake *g) {
    return g->put < g->ready;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void sl_handshake_boot(uint8_t boot[SL_BOOT_BYTES]) {
    char text[64];
    size_t digits = 0;
    memset(boot, 0, SL_BOOT_BYTES);
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = file >= 0 ? read(file, text, sizeof text) : 0;
    if (file >= 0)
        close(file);
    for (ssize_t i = 0; i < n && digits < 2 * SL_BOOT_BYTES; i++)
        if (hex_digit(text[i]) >= 0) {
            boot[digits / 2] = (uint8_t)(boot[digits / 2] * 16 + hex_digit(text[i]));
            digits++;
        }
    struct stat space;
    if (digits < 2 * SL_BOOT_BYTES) {
        memset(boot, 0, SL_BOOT_BYTES);
    } else if (stat("/proc/self/ns/time", &space) == 0) { /* older kernels have none */
        uint64_t mixed = sl_random_mix((uint64_t)space.st_ino), own;
        memcpy(&own, boot, sizeof own);
        own ^= mixed;
        memcpy(boot, &own, sizeof own);
    }
}

int sl_handshake_shares_clock(const sl_handshake *g) {
    static const uint8_t unknown[SL_BOOT_BYTES];
    return memcmp(g->own.boot, unknown, SL_BOOT_BYTES) != 0 &&
           memcmp(g->own.boot, g->other.boot, SL_BOOT_BYTES) == 0;
}
