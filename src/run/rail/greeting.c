#include "run/rail/greeting.h"
#include "base/random.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint8_t magic[8] = {'S', 'L', 'R', 'A', 'I', 'L', '0', '2'};

/* As on the wire, little-endian. */
typedef struct wire_hello {
    uint8_t magic[8];
    uint32_t from, to, number, rail, chunk_bytes, slots;
    uint8_t boot[SL_BOOT_BYTES];
    uint64_t epoch, published, limit;
    uint8_t nonce[32];
    uint64_t zero;
} wire_hello;
_Static_assert(sizeof(wire_hello) == SL_GREETING_HELLO, "a hello on the wire");

static sl_status write_hello(sl_greeting *g) {
    const sl_hello *h = &g->own;
    wire_hello w = {.from = htole32((uint32_t)h->from),
                    .to = htole32((uint32_t)h->to),
                    .number = htole32((uint32_t)h->number),
                    .rail = htole32((uint32_t)h->rail),
                    .chunk_bytes = htole32(h->chunk_bytes),
                    .slots = htole32(h->slots),
                    .epoch = htole64(h->state.epoch),
                    .published = htole64(h->state.published),
                    .limit = htole64(h->state.limit)};
    memcpy(w.magic, magic, sizeof magic);
    memcpy(w.boot, h->boot, sizeof w.boot);
    if (getrandom(w.nonce, sizeof w.nonce, 0) != sizeof w.nonce)
        return sl_error_errno(SL_ESYS, "no random numbers for a rail's greeting");
    memcpy(g->out, &w, sizeof w);
    g->ready = SL_GREETING_HELLO;
    return SL_OK;
}

/* 0, or -1: another protocol. */
static int read_hello(sl_greeting *g) {
    wire_hello w;
    memcpy(&w, g->in, sizeof w);
    if (memcmp(w.magic, magic, sizeof magic) != 0 || w.zero != 0)
        return -1;
    g->other = (sl_hello){
        .from = (int)le32toh(w.from),
        .to = (int)le32toh(w.to),
        .number = (int)le32toh(w.number),
        .rail = (int)le32toh(w.rail),
        .chunk_bytes = le32toh(w.chunk_bytes),
        .slots = le32toh(w.slots),
        .state = {le64toh(w.epoch), le64toh(w.published), le64toh(w.limit)},
    };
    memcpy(g->other.boot, w.boot, sizeof w.boot);
    return 0;
}

/* The proof of one side, over both hellos, the initiator's first. */
static int prove(const sl_greeting *g, int initiator, uint8_t proof[SL_GREETING_PROOF]) {
    uint8_t text[16 + 2 * SL_GREETING_HELLO] = {0};
    unsigned length = SL_GREETING_PROOF;
    memcpy(text, initiator ? "initiator" : "acceptor", initiator ? 9 : 8);
    memcpy(text + 16, g->initiator ? g->out : g->in, SL_GREETING_HELLO);
    memcpy(text + 16 + SL_GREETING_HELLO, g->initiator ? g->in : g->out, SL_GREETING_HELLO);
    return HMAC(EVP_sha256(), g->key, sizeof g->key, text, sizeof text, proof, &length) != NULL &&
           length == SL_GREETING_PROOF;
}

static int names_the_same(const sl_hello *a, const sl_hello *b) {
    return a->from == b->from && a->to == b->to && a->number == b->number && a->rail == b->rail;
}

/* The other's hello is here: NULL, or why it is refused. */
static const char *meet(sl_greeting *g) {
    if (read_hello(g) != 0)
        return "it speaks another protocol";
    if (g->initiator) {
        if (!names_the_same(&g->own, &g->other) || g->own.chunk_bytes != g->other.chunk_bytes)
            return "another conduit answered";
        if (!prove(g, 1, g->out + SL_GREETING_HELLO))
            return "the proof cannot be computed";
        g->ready = SL_GREETING_WHOLE;
        return NULL;
    }
    const char *refused = g->answer(g->object, &g->other, &g->own);
    if (refused)
        return refused;
    return write_hello(g) == SL_OK ? NULL : "there are no random numbers";
}

/* The other's proof is here. */
static const char *believe(sl_greeting *g) {
    uint8_t expected[SL_GREETING_PROOF];
    if (!prove(g, !g->initiator, expected) ||
        CRYPTO_memcmp(expected, g->in + SL_GREETING_HELLO, SL_GREETING_PROOF) != 0)
        return "it does not know the run's key";
    if (g->initiator)
        return NULL;
    if (!prove(g, 0, g->out + SL_GREETING_HELLO))
        return "the proof cannot be computed";
    g->ready = SL_GREETING_WHOLE;
    return NULL;
}

static const char *read_on(sl_greeting *g, int socket) {
    while (g->got < SL_GREETING_WHOLE) {
        size_t step = g->got < SL_GREETING_HELLO ? SL_GREETING_HELLO : SL_GREETING_WHOLE;
        ssize_t n = recv(socket, g->in + g->got, step - g->got, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return NULL;
        if (n <= 0) {
            g->left = g->got >= SL_GREETING_HELLO;
            return g->left || g->initiator ? "it closed the connection in the handshake (another key?)"
                                           : "it left without a word of this protocol";
        }
        g->got += (size_t)n;
        if (g->got >= sizeof magic && memcmp(g->in, magic, sizeof magic) != 0)
            return "it speaks another protocol"; /* however long it would go on */
        const char *wrong = g->got < step ? NULL : step == SL_GREETING_HELLO ? meet(g) : believe(g);
        if (wrong)
            return wrong;
    }
    return NULL;
}

static const char *write_on(sl_greeting *g, int socket) {
    while (g->put < g->ready) {
        ssize_t n = send(socket, g->out + g->put, g->ready - g->put, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return NULL;
        if (n < 0) {
            g->left = g->got >= SL_GREETING_HELLO;
            return "the connection broke in the handshake";
        }
        g->put += (size_t)n;
    }
    return NULL;
}

sl_status sl_greeting_initiate(sl_greeting *g, const uint8_t key[32], const sl_hello *own) {
    *g = (sl_greeting){.initiator = 1, .own = *own};
    memcpy(g->key, key, sizeof g->key);
    return write_hello(g);
}

void sl_greeting_accept(sl_greeting *g, const uint8_t key[32], sl_greeting_answer answer, void *object) {
    *g = (sl_greeting){.answer = answer, .object = object};
    memcpy(g->key, key, sizeof g->key);
}

sl_greeting_result sl_greeting_move(sl_greeting *g, int socket, const char **why) {
    *why = read_on(g, socket);
    if (!*why)
        *why = write_on(g, socket);
    if (*why)
        return SL_GREETING_WRONG;
    return g->got == SL_GREETING_WHOLE && g->put == SL_GREETING_WHOLE ? SL_GREETING_DONE : SL_GREETING_ON;
}

int sl_greeting_writes(const sl_greeting *g) {
    return g->put < g->ready;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void sl_greeting_boot(uint8_t boot[SL_BOOT_BYTES]) {
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

int sl_greeting_shares_clock(const sl_greeting *g) {
    static const uint8_t unknown[SL_BOOT_BYTES];
    return memcmp(g->own.boot, unknown, SL_BOOT_BYTES) != 0 &&
           memcmp(g->own.boot, g->other.boot, SL_BOOT_BYTES) == 0;
}
