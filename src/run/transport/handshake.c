#include "run/transport/handshake.h"
#include "base/memory.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define HELLO 48
#define PROOF 32
#define WHOLE (HELLO + PROOF)
#define CANDIDATES 64            /* accepted and not yet proven */
#define PATIENCE (5 * SL_SECOND) /* for one handshake */
#define PAUSE (20 * SL_MS)       /* before the next attempt to connect */
static const uint8_t magic[8] = {'S', 'L', 'R', 'A', 'I', 'L', '0', '1'};

/* One connection in its handshake. */
typedef struct candidate {
    int socket; /* -1: this place is empty */
    int initiator;
    int rank; /* of the peer; -1: accepted, its hello is not here yet */
    int connecting;
    sl_time until;      /* given up then */
    sl_time not_before; /* initiator without a socket: next attempt */
    uint8_t in[WHOLE], out[WHOLE];
    size_t got, put, ready; /* read; written; made so far */
    char reason[96];        /* initiator: why the last attempt failed */
} candidate;

typedef struct meeting {
    const sl_transport_config *config;
    const char *remote;
    int listening;
    candidate accepted[CANDIDATES];
    candidate *initiated;  /* [ranks]; those below config->rank are used */
    struct pollfd *polled; /* [1 + CANDIDATES + ranks] */
    int *connections;
    int *strangers;
} meeting;

static void close_candidate(candidate *c) {
    if (c->socket >= 0)
        close(c->socket);
    c->socket = -1;
}

static sl_status write_hello(meeting *m, candidate *c) {
    uint32_t from = htole32((uint32_t)m->config->rank), to = htole32((uint32_t)c->rank);
    memcpy(c->out, magic, sizeof magic);
    memcpy(c->out + 8, &from, 4);
    memcpy(c->out + 12, &to, 4);
    if (getrandom(c->out + 16, 32, 0) != 32)
        return sl_error_errno(SL_ESYS, "no random numbers for the handshake with rank %d", c->rank);
    c->ready = HELLO;
    return SL_OK;
}

/* The proof of one side, over both hellos, the initiator's first. */
static int prove(const meeting *m, const candidate *c, int initiator, uint8_t proof[PROOF]) {
    uint8_t text[16 + 2 * HELLO] = {0};
    unsigned length = PROOF;
    memcpy(text, initiator ? "initiator" : "acceptor", initiator ? 9 : 8);
    memcpy(text + 16, c->initiator ? c->out : c->in, HELLO);
    memcpy(text + 16 + HELLO, c->initiator ? c->in : c->out, HELLO);
    return HMAC(EVP_sha256(), m->config->key, sizeof m->config->key, text, sizeof text, proof, &length) !=
               NULL &&
           length == PROOF;
}

/* The peer's hello is complete: is it one of ours, and for us? */
static const char *read_hello(meeting *m, candidate *c) {
    uint32_t from, to;
    memcpy(&from, c->in + 8, 4);
    memcpy(&to, c->in + 12, 4);
    from = le32toh(from);
    if (memcmp(c->in, magic, sizeof magic) != 0 || le32toh(to) != (uint32_t)m->config->rank)
        return "it speaks another protocol";
    if (c->initiator)
        return from == (uint32_t)c->rank ? NULL : "another rank answered";
    if (from <= (uint32_t)m->config->rank || from >= (uint32_t)m->config->ranks || !m->remote[from])
        return "it is no peer";
    c->rank = (int)from;
    return write_hello(m, c) == SL_OK ? NULL : "no random numbers";
}

/* Moves on after reading; NULL, or why the connection is to be dropped. */
static const char *advance(meeting *m, candidate *c) {
    uint8_t expected[PROOF];
    if (c->got == HELLO) {
        const char *wrong = read_hello(m, c);
        if (wrong || !c->initiator)
            return wrong;
    } else {
        if (!prove(m, c, !c->initiator, expected) || CRYPTO_memcmp(expected, c->in + HELLO, PROOF) != 0)
            return "it does not know the run's key";
        if (c->initiator)
            return NULL;
    }
    if (!prove(m, c, c->initiator, c->out + HELLO))
        return "the proof cannot be computed";
    c->ready = WHOLE;
    return NULL;
}

/* Reads and writes what is possible. NULL, or why the connection is to be dropped. */
static const char *exchange(meeting *m, candidate *c) {
    while (c->got < WHOLE) {
        size_t step = c->got < HELLO ? HELLO : WHOLE;
        if (step == WHOLE && c->rank < 0)
            return "it is no peer";
        ssize_t n = recv(c->socket, c->in + c->got, step - c->got, 0);
        if (n == 0)
            return "it closed the connection in the handshake (another key?)";
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
            return "the connection broke in the handshake";
        if (n < 0)
            break;
        c->got += (size_t)n;
        if (c->got == step) {
            const char *wrong = advance(m, c);
            if (wrong)
                return wrong;
        }
    }
    while (c->put < c->ready) {
        ssize_t n = send(c->socket, c->out + c->put, c->ready - c->put, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
            return "the connection broke in the handshake";
        if (n < 0)
            break;
        c->put += (size_t)n;
    }
    return NULL;
}

static void set_options(int socket) {
    int yes = 1;
    unsigned timeout_ms = 10000;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
}

/* A candidate that has proven itself becomes the connection; a later one of the same rank replaces it,
 * because the peer makes another only when it has given up the first. */
static void settle(meeting *m, candidate *c) {
    if (c->got < WHOLE || c->put < WHOLE)
        return;
    if (m->connections[c->rank] >= 0)
        close(m->connections[c->rank]);
    m->connections[c->rank] = c->socket;
    c->socket = -1;
}

static void failed(meeting *m, candidate *c, const char *why) {
    close_candidate(c);
    if (!c->initiator) {
        ++*m->strangers;
        return;
    }
    snprintf(c->reason, sizeof c->reason, "%s", why);
    c->not_before = sl_clock_now(sl_clock_real()) + PAUSE;
}

static socklen_t parse_address(const sl_transport_address *a, struct sockaddr_storage *out) {
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, a->address, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(a->port);
        return sizeof *v4;
    }
    if (inet_pton(AF_INET6, a->address, &v6->sin6_addr) != 1)
        return 0;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(a->port);
    return sizeof *v6;
}

static void start_connecting(meeting *m, candidate *c, sl_time now) {
    struct sockaddr_storage to;
    socklen_t size = parse_address(&m->config->addresses[c->rank], &to);
    c->got = c->put = c->ready = 0;
    c->until = now + PATIENCE;
    c->socket = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->socket < 0 || write_hello(m, c) != SL_OK) {
        failed(m, c, c->socket < 0 ? strerror(errno) : "no random numbers");
        return;
    }
    set_options(c->socket);
    c->connecting = 1;
    if (connect(c->socket, (struct sockaddr *)&to, size) != 0 && errno != EINPROGRESS)
        failed(m, c, strerror(errno));
}

static void serve(meeting *m, candidate *c, short events, sl_time now) {
    if (c->socket < 0)
        return;
    const char *wrong = NULL;
    if (events) {
        if (c->connecting) {
            int error = 0;
            socklen_t size = sizeof error;
            getsockopt(c->socket, SOL_SOCKET, SO_ERROR, &error, &size);
            wrong = error ? strerror(error) : NULL;
            c->connecting = 0;
        }
        if (!wrong)
            wrong = exchange(m, c);
    }
    if (wrong)
        failed(m, c, wrong);
    else if (now >= c->until)
        failed(m, c, "the handshake took too long");
    else
        settle(m, c);
}

static void accept_one(meeting *m, sl_time now) {
    int made = accept4(m->listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (made < 0)
        return;
    candidate *place = &m->accepted[0];
    for (int i = 0; i < CANDIDATES && place->socket >= 0; i++)
        if (m->accepted[i].socket < 0 || m->accepted[i].until < place->until)
            place = &m->accepted[i];
    if (place->socket >= 0)
        failed(m, place, "");
    *place = (candidate){.socket = made, .rank = -1, .until = now + PATIENCE};
    set_options(made);
}

static int find_missing(const meeting *m) {
    for (int r = 0; r < m->config->ranks; r++)
        if (m->remote[r] && m->connections[r] < 0)
            return r;
    return -1;
}

static void poll_candidate(struct pollfd *polled, const candidate *c) {
    int writing = c->connecting || c->put < c->ready;
    *polled = (struct pollfd){.fd = c->socket, .events = (short)(POLLIN | (writing ? POLLOUT : 0))};
}

/* One round: sleeps until a socket has news (100 ms at most, for the deadlines), then serves all. */
static void meet_once(meeting *m, sl_time deadline) {
    sl_time now = sl_clock_now(sl_clock_real());
    int ranks = m->config->rank; /* those that we connect to are below ours */
    sl_time wait = deadline - now < 100 * SL_MS ? deadline - now : 100 * SL_MS;
    for (int r = 0; r < ranks; r++)
        if (m->remote[r] && m->connections[r] < 0 && m->initiated[r].socket < 0) {
            if (m->initiated[r].not_before <= now)
                start_connecting(m, &m->initiated[r], now);
            if (m->initiated[r].socket < 0 && wait > PAUSE)
                wait = PAUSE;
        }
    m->polled[0] = (struct pollfd){.fd = m->listening, .events = POLLIN};
    for (int i = 0; i < CANDIDATES; i++)
        poll_candidate(&m->polled[1 + i], &m->accepted[i]);
    for (int r = 0; r < ranks; r++)
        poll_candidate(&m->polled[1 + CANDIDATES + r], &m->initiated[r]);
    if (poll(m->polled, (nfds_t)(1 + CANDIDATES + ranks), (int)(wait / SL_MS) + 1) < 0)
        return; /* interrupted; the caller looks at the deadline */
    now = sl_clock_now(sl_clock_real());
    for (int i = 0; i < CANDIDATES; i++)
        serve(m, &m->accepted[i], m->polled[1 + i].revents, now);
    for (int r = 0; r < ranks; r++)
        serve(m, &m->initiated[r], m->polled[1 + CANDIDATES + r].revents, now);
    if (m->polled[0].revents)
        accept_one(m, now);
}

static sl_status say_missing(const meeting *m, int rank) {
    const sl_transport_config *config = m->config;
    const sl_transport_address *a = &config->addresses[rank];
    const char *why = rank < config->rank ? m->initiated[rank].reason : "it did not connect";
    return sl_error(SL_EPEER,
                    "link %d -> %d: no connection with rank %d on host %s (%s port %u) in time: %s%s",
                    config->rank, rank, rank, a->host, a->address, a->port, why[0] ? why : "no answer",
                    *m->strangers ? " (connections of strangers were dropped)" : "");
}

static sl_status meet(meeting *m, sl_time deadline) {
    for (int r = 0; r < m->config->ranks; r++) {
        struct sockaddr_storage ignored;
        if (m->remote[r] && r < m->config->rank && parse_address(&m->config->addresses[r], &ignored) == 0)
            return sl_error(SL_EINVAL, "link %d -> %d: '%s' is no numeric address", m->config->rank, r,
                            m->config->addresses[r].address);
        if (m->remote[r] && r > m->config->rank && m->listening < 0)
            return sl_error(SL_EINVAL, "rank %d must accept rank %d of another host but does not listen",
                            m->config->rank, r);
    }
    for (int missing; (missing = find_missing(m)) >= 0;) {
        if (sl_clock_now(sl_clock_real()) >= deadline)
            return say_missing(m, missing);
        meet_once(m, deadline);
    }
    return SL_OK;
}

sl_status sl_handshake(const sl_transport_config *config, const char *remote, int listening, sl_time deadline,
                       int *connections, int *strangers) {
    meeting *m;
    size_t ranks = (size_t)config->ranks;
    SL_TRY(sl_alloc(&m, 1, sizeof *m));
    m->config = config;
    m->remote = remote;
    m->listening = listening;
    m->connections = connections;
    m->strangers = strangers;
    for (size_t i = 0; i < CANDIDATES; i++)
        m->accepted[i].socket = -1;
    for (int r = 0; r < config->ranks; r++)
        connections[r] = -1;
    sl_status status = sl_alloc(&m->initiated, ranks, sizeof *m->initiated);
    if (status == SL_OK)
        status = sl_alloc(&m->polled, 1 + CANDIDATES + ranks, sizeof *m->polled);
    for (int r = 0; status == SL_OK && r < config->ranks; r++)
        m->initiated[r] = (candidate){.socket = -1, .initiator = 1, .rank = r};
    if (status == SL_OK)
        status = meet(m, deadline);
    for (size_t i = 0; i < CANDIDATES; i++)
        close_candidate(&m->accepted[i]);
    for (int r = 0; m->polled && r < config->ranks; r++)
        close_candidate(&m->initiated[r]);
    for (int r = 0; status != SL_OK && r < config->ranks; r++)
        if (connections[r] >= 0) {
            close(connections[r]);
            connections[r] = -1;
        }
    sl_free(m->initiated);
    sl_free(m->polled);
    sl_free(m);
    return status;
}
