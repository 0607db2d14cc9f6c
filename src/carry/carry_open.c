/* The functions of include/slackline/transport.h. */
#include "base/clock.h"
#include "base/memory.h"
#include "carry/carry.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SL_PUBLIC __attribute__((visibility("default")))
#define RANKS_MAX 4096
#define PIECE_MIN ((size_t)4096)
#define PIECE_MAX ((size_t)1 << 30)
#define SLOTS_MAX 65536

static slackline_transport_status public_status(sl_status status) {
    switch (status) {
    case SL_OK:
        return SLACKLINE_TRANSPORT_OK;
    case SL_EINVAL:
        return SLACKLINE_TRANSPORT_INVALID;
    case SL_ENOMEM:
        return SLACKLINE_TRANSPORT_NO_MEMORY;
    case SL_EPEER:
        return SLACKLINE_TRANSPORT_LOST;
    default:
        return SLACKLINE_TRANSPORT_SYSTEM;
    }
}

SL_PUBLIC const char *slackline_transport_version(void) {
    return SL_VERSION;
}

SL_PUBLIC const char *slackline_transport_error(void) {
    return sl_error_text();
}

/* ---- hosts ---- */

/* Processes reach each other by abstract sockets if they have the same kernel and network namespace. */
static sl_status describe_host(char *text, size_t size) {
    char boot[40] = "";
    struct stat about;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    int read = file && fgets(boot, sizeof boot, file) != NULL;
    if (file)
        fclose(file);
    if (!read || stat("/proc/self/ns/net", &about) != 0)
        return sl_error(
            SL_ESYS,
            "this host cannot be distinguished from others: no boot id or network namespace in /proc");
    boot[strcspn(boot, "\n")] = 0;
    int length = snprintf(text, size, "%s:%llx", boot, (unsigned long long)about.st_ino);
    return length > 0 && (size_t)length < size
               ? SL_OK
               : sl_error(SL_EINVAL, "a host's text does not fit %zu bytes", size);
}

SL_PUBLIC slackline_transport_status slackline_transport_host(char *text, size_t size) {
    return public_status(text ? describe_host(text, size) : sl_error(SL_EINVAL, "text is NULL"));
}

/* ---- options ---- */

SL_PUBLIC void slackline_transport_defaults(slackline_transport_options *options) {
    *options = (slackline_transport_options){.channels = 1,
                                             .delegates = 1,
                                             .piece_bytes = (size_t)1 << 20,
                                             .slots = 8,
                                             .silence_ns = 200 * SL_MS,
                                             .refusal_ns = SL_SECOND,
                                             .outage_ns = 30 * SL_SECOND};
}

static sl_status check_sizes(const slackline_transport_options *o) {
    if (o->channels < 1 || o->delegates < 1 || o->channels > SLACKLINE_TRANSPORT_QUEUES ||
        o->delegates > SLACKLINE_TRANSPORT_QUEUES || o->channels * o->delegates > SLACKLINE_TRANSPORT_QUEUES)
        return sl_error(SL_EINVAL, "%d channels with %d delegates each; 1 to %d in all are possible",
                        o->channels, o->delegates, SLACKLINE_TRANSPORT_QUEUES);
    if (o->piece_bytes < PIECE_MIN || o->piece_bytes > PIECE_MAX || o->slots < 2 || o->slots > SLOTS_MAX)
        return sl_error(SL_EINVAL,
                        "%d slots for pieces of %zu bytes: 2 to %d of %zu to %zu bytes are possible",
                        o->slots, o->piece_bytes, SLOTS_MAX, PIECE_MIN, PIECE_MAX);
    if (o->silence_ns < 10 * SL_MS || o->refusal_ns < 0 || o->outage_ns < o->silence_ns)
        return sl_error(SL_EINVAL,
                        "a silence of at least 10 ms, no longer than the outage, and a refusal of at "
                        "least 0 are possible");
    return SL_OK;
}

static sl_status check_options(const slackline_transport_options *o) {
    if (!o->key)
        return sl_error(SL_EINVAL, "key is NULL");
    if (o->ranks < 2 || o->ranks > RANKS_MAX || o->rank < 0 || o->rank >= o->ranks)
        return sl_error(SL_EINVAL, "rank %d of %d; 2 to %d ranks are possible", o->rank, o->ranks, RANKS_MAX);
    SL_TRY(check_sizes(o));
    if (o->rail_count < 0 || o->rail_count > SLACKLINE_TRANSPORT_RAILS || (o->rail_count > 0 && !o->rails))
        return sl_error(SL_EINVAL, "%d rails; at most %d are possible", o->rail_count,
                        SLACKLINE_TRANSPORT_RAILS);
    for (int r = 0; o->hosts && r < o->ranks; r++)
        if (!o->hosts[r])
            return sl_error(SL_EINVAL, "hosts[%d] is NULL", r);
    return SL_OK;
}

/* A name for the sockets that all ranks derive from the key, and that does not give it away. */
static sl_status name_sockets(const unsigned char *key, char *name, size_t size) {
    static const char purpose[] = "slackline sockets";
    unsigned char digest[EVP_MAX_MD_SIZE], text[sizeof purpose + 32];
    memcpy(text, purpose, sizeof purpose);
    memcpy(text + sizeof purpose, key, 32);
    if (EVP_Digest(text, sizeof text, digest, NULL, EVP_sha256(), NULL) != 1)
        return sl_error(SL_ESYS, "no SHA-256");
    int length = snprintf(name, size, "@slackline-");
    for (int i = 0; i < 12; i++)
        length += snprintf(name + length, size - (size_t)length, "%02x", digest[i]);
    return SL_OK;
}

static sl_status copy_rails(const slackline_transport_options *o, sl_delegates_config *c) {
    for (int i = 0; i < o->rail_count; i++)
        if (!o->rails[i] || !o->rails[i][0] ||
            snprintf(c->rail[i], sizeof c->rail[i], "%s", o->rails[i]) >= (int)sizeof c->rail[i])
            return sl_error(SL_EINVAL, "'%s' is neither an interface nor an address",
                            o->rails[i] ? o->rails[i] : "");
    c->rails = o->rail_count;
    return SL_OK;
}

static sl_status configure(slackline_transport *t, const slackline_transport_options *o) {
    sl_delegates_config *c = &t->config;
    SL_TRY(sl_carry_program(o->program, t->program));
    SL_TRY(name_sockets(o->key, t->directory, sizeof t->directory));
    SL_TRY(sl_alloc(&t->host_of, (size_t)o->ranks, 1));
    for (int r = 0; r < o->ranks; r++) {
        int here = !o->hosts || strcmp(o->hosts[r], o->hosts[o->rank]) == 0;
        t->host_of[r] = (char)(r == o->rank || (o->peers && !o->peers[r]) ? 0 : here ? 1 : 2);
    }
    t->launch = (sl_launch_delegates){.program = t->program, .silent = 1};
    *c = (sl_delegates_config){.rank = o->rank,
                               .ranks = o->ranks,
                               .slots = o->slots,
                               .message_bytes = o->piece_bytes,
                               .directory = t->directory,
                               .talks = t->host_of,
                               .has_starter = 1,
                               .starter = sl_launch_delegate_starter(&t->launch),
                               .beat = o->silence_ns / 4,
                               .silence = o->silence_ns,
                               .outage = o->outage_ns,
                               .refusal = o->refusal_ns,
                               .proves = o->prove_frames != 0,
                               .scheduling = SL_CLASS_BEST};
    memcpy(c->key, o->key, sizeof c->key);
    return copy_rails(o, c);
}

/* Streams of a peer: for each channel the incoming one, then the outgoing one. */
static sl_status make_streams(slackline_transport *t) {
    int peers = 0;
    SL_TRY(sl_alloc(&t->peer, (size_t)t->ranks, sizeof *t->peer));
    SL_TRY(sl_alloc(&t->first_stream, (size_t)t->ranks, sizeof *t->first_stream));
    for (int r = 0; r < t->ranks; r++)
        t->first_stream[r] = t->host_of[r] ? peers++ * 2 * t->channels : -1;
    int streams = peers * 2 * t->channels;
    SL_TRY(sl_alloc(&t->stream, (size_t)streams, sizeof *t->stream));
    for (int r = 0; r < t->ranks; r++)
        for (int i = 0; t->first_stream[r] >= 0 && i < 2 * t->channels; i++) {
            sl_carry_stream *s = &t->stream[t->first_stream[r] + i];
            *s = (sl_carry_stream){.all = t, .peer = r, .sends = i % 2, .channel = i / 2};
            pthread_mutex_init(&s->lock, NULL);
        }
    t->streams = streams;
    return SL_OK;
}

/* ---- opening ---- */

static sl_status prepare(slackline_transport *t, const slackline_transport_options *o) {
    t->pid = getpid();
    t->rank = o->rank;
    t->ranks = o->ranks;
    t->channels = o->channels;
    t->delegates = o->delegates;
    t->piece_bytes = o->piece_bytes;
    SL_TRY(configure(t, o));
    SL_TRY(make_streams(t));
    SL_TRY(sl_alloc(&t->block, 1, sl_delegates_block_bytes(t->ranks)));
    return sl_delegates_prepare(&t->config, t->channels * t->delegates, t->block, &t->started);
}

SL_PUBLIC slackline_transport_status slackline_transport_prepare(const slackline_transport_options *options,
                                                                 slackline_transport **transport) {
    slackline_transport *t = NULL;
    if (!options || !transport)
        return public_status(sl_error(SL_EINVAL, "%s is NULL", options ? "transport" : "options"));
    *transport = NULL;
    sl_status status = check_options(options);
    SL_THEN(status, sl_alloc(&t, 1, sizeof *t));
    if (status != SL_OK)
        return public_status(status);
    pthread_mutex_init(&t->lock, NULL);
    status = prepare(t, options);
    if (status == SL_OK)
        *transport = t;
    else
        slackline_transport_close(t, 0);
    return public_status(status);
}

SL_PUBLIC const void *slackline_transport_block(const slackline_transport *t, size_t *bytes) {
    if (bytes)
        *bytes = sl_delegates_block_bytes(t->ranks);
    return t->block;
}

static sl_status check_process(pid_t pid) {
    return pid == getpid()
               ? SL_OK
               : sl_error(SL_EINVAL, "the transport belongs to process %d, and this one was forked from it",
                          (int)pid);
}

static sl_status start(slackline_transport *t, const void *blocks, int64_t timeout) {
    SL_TRY(check_process(t->pid));
    if (!blocks || timeout < 0)
        return sl_error(SL_EINVAL, blocks ? "a negative timeout" : "blocks is NULL");
    if (t->phase != 0)
        return sl_error(SL_EINVAL, "the transport was started before");
    t->phase = 2;
    SL_TRY(sl_delegates_start(t->started, blocks, timeout));
    SL_TRY(sl_carry_begin(t));
    t->phase = 1;
    return SL_OK;
}

SL_PUBLIC slackline_transport_status slackline_transport_start(slackline_transport *t, const void *blocks,
                                                               int64_t timeout_ns) {
    return public_status(t ? start(t, blocks, timeout_ns) : sl_error(SL_EINVAL, "transport is NULL"));
}

/* ---- messages ---- */

static sl_status post(slackline_transport *t, int peer, int channel, int sends, void *data, size_t bytes,
                      slackline_message **message) {
    if (message)
        *message = NULL;
    if (!t || (!data && bytes > 0))
        return sl_error(SL_EINVAL, "%s is NULL", t ? "the message's memory" : "transport");
    SL_TRY(check_process(t->pid));
    if (t->phase != 1)
        return sl_error(SL_EINVAL, "the transport is not started");
    if (peer < 0 || peer >= t->ranks || t->first_stream[peer] < 0)
        return sl_error(SL_EINVAL, "rank %d has no link with rank %d", t->rank, peer);
    if (channel < 0 || channel >= t->channels)
        return sl_error(SL_EINVAL, "channel %d of %d", channel, t->channels);
    if (sends && atomic_load(&t->peer[peer].lost))
        return sl_error(SL_EPEER, "%s", t->peer[peer].reason);
    return sl_carry_post(&t->stream[t->first_stream[peer] + 2 * channel + sends], data, bytes, message);
}

SL_PUBLIC slackline_transport_status slackline_transport_send(slackline_transport *t, int peer, int channel,
                                                              const void *data, size_t bytes,
                                                              slackline_message **message) {
    return public_status(post(t, peer, channel, 1, (void *)(uintptr_t)data, bytes, message));
}

SL_PUBLIC slackline_transport_status slackline_transport_receive(slackline_transport *t, int peer,
                                                                 int channel, void *buffer, size_t bytes,
                                                                 slackline_message **message) {
    return public_status(post(t, peer, channel, 0, buffer, bytes, message));
}

SL_PUBLIC slackline_transport_status slackline_transport_wait(slackline_message *m, int64_t timeout_ns) {
    if (!m)
        return public_status(sl_error(SL_EINVAL, "message is NULL"));
    if (m->pid != getpid())
        return public_status(check_process(m->pid));
    sl_time now = timeout_ns > 0 ? sl_now() : 0;
    sl_time deadline = timeout_ns < 0 || now > SL_TIME_NEVER - timeout_ns ? SL_TIME_NEVER : now + timeout_ns;
    for (;;) {
        uint32_t state = atomic_load(&m->state);
        if (state == SL_CARRY_DONE)
            return SLACKLINE_TRANSPORT_OK;
        if (state == SL_CARRY_LOST)
            return public_status(sl_error(SL_EPEER, "%s", m->reason));
        if (timeout_ns == 0 || (timeout_ns > 0 && sl_now() >= deadline)) {
            sl_error(SL_EPEER, "the message is still under way");
            return SLACKLINE_TRANSPORT_PENDING;
        }
        sl_clock_wait(sl_clock_real(), &m->state, state, deadline);
    }
}

SL_PUBLIC int64_t slackline_transport_completed(slackline_message *m) {
    return m && atomic_load(&m->state) != SL_CARRY_PENDING ? m->at : 0;
}

SL_PUBLIC void slackline_transport_release(slackline_message *m) {
    if (m)
        sl_carry_drop(m);
}

/* ---- events, processes ---- */

SL_PUBLIC int slackline_transport_next_event(slackline_transport *t, slackline_transport_event *event) {
    static const slackline_transport_happening happenings[] = {
        [SL_TRANSPORT_RAIL_UP] = SLACKLINE_TRANSPORT_RAIL_UP,
        [SL_TRANSPORT_RAIL_DOWN] = SLACKLINE_TRANSPORT_RAIL_DOWN,
        [SL_TRANSPORT_STRANGER] = SLACKLINE_TRANSPORT_STRANGER,
        [SL_TRANSPORT_GOODBYE] = SLACKLINE_TRANSPORT_CLOSED,
        [SL_TRANSPORT_LOST] = SLACKLINE_TRANSPORT_GIVEN_UP,
        [SL_TRANSPORT_REPLACED] = SLACKLINE_TRANSPORT_REPLACED};
    sl_transport_event one;
    if (!t || !event || t->pid != getpid() || t->phase != 1)
        return 0;
    pthread_mutex_lock(&t->lock);
    int some = sl_delegates_next_event(t->started, &one);
    pthread_mutex_unlock(&t->lock);
    if (!some)
        return 0;
    *event = (slackline_transport_event){.happening = happenings[one.kind],
                                         .from = one.from,
                                         .to = one.to,
                                         .queue = one.number,
                                         .rail = one.rail,
                                         .time_ns = one.time};
    snprintf(event->text, sizeof event->text, "%s", one.text);
    return 1;
}

SL_PUBLIC int slackline_transport_delegates(slackline_transport *t, int *pids, int count) {
    if (!t || t->pid != getpid() || !t->started)
        return 0;
    return sl_delegates_living(t->started, pids, pids ? count : 0);
}

/* ---- the end ---- */

/* The peer's delegates end normally only when the peer closes: then no acknowledgement comes any more. */
static void note_closed(slackline_transport *t) {
    slackline_transport_event event;
    while (slackline_transport_next_event(t, &event))
        if (event.happening == SLACKLINE_TRANSPORT_CLOSED && event.from == t->rank)
            sl_carry_lose(t, event.to, "the peer has closed its transport");
}

static void linger(slackline_transport *t, int64_t linger_ns) {
    sl_time deadline = sl_now() + linger_ns;
    for (;;) {
        int busy = 0;
        note_closed(t);
        for (int i = 0; i < t->streams; i++)
            busy |= t->stream[i].sends && !atomic_load(&t->peer[t->stream[i].peer].lost) &&
                    !sl_carry_is_idle(&t->stream[i]);
        sl_time now = sl_now();
        if (!busy || now >= deadline)
            return;
        sl_clock_sleep_until(sl_clock_real(), now + SL_MS);
    }
}

SL_PUBLIC void slackline_transport_close(slackline_transport *t, int64_t linger_ns) {
    if (!t || t->pid != getpid())
        return;
    if (t->phase == 1 && linger_ns > 0)
        linger(t, linger_ns);
    sl_carry_end(t);
    sl_delegates_close(t->started);
    for (int i = 0; i < t->streams; i++)
        pthread_mutex_destroy(&t->stream[i].lock);
    pthread_mutex_destroy(&t->lock);
    memset(t->config.key, 0, sizeof t->config.key);
    SL_FREE(t->stream, t->first_stream, t->peer, t->block, t->host_of, t);
}
