/* The sender's attempts to connect a rail that is down. A fresh attempt starts while older ones still wait
 * for an answer: a packet that a dead path has swallowed is resent only after a second, and the path may
 * recover sooner. After one attempt is connected, the others are abandoned. */
#include "run/rail/endpoint_inside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FRESH (300 * SL_MS)     /* another attempt, while the older ones wait */
#define AGAIN (100 * SL_MS)     /* another attempt after one has failed */
#define PATIENCE SL_SECOND      /* to be connected */
#define HANDSHAKE (500 * SL_MS) /* for the handshake, or four times what connecting took, */
#define LONGEST (2 * SL_SECOND) /* but not more */

static void give_up(sl_endpoint *c, sl_dial *a) {
    if (a->socket < 0)
        return;
    sl_loop_unwatch(c->loop, a->socket);
    close(a->socket);
    a->socket = -1;
}

void sl_endpoint_disconnect(sl_endpoint *c, int rail) {
    for (int i = 0; i < SL_ATTEMPTS; i++)
        give_up(c, &c->rail[rail].attempt[i]);
}

static int is_refusal(int error) {
    return error == ECONNREFUSED || error == ENOENT;
}

/* `error`: errno of a failed connect, or 0 if it failed later. */
static void failed(sl_endpoint *c, sl_endpoint_rail *r, sl_dial *a, int error, const char *why) {
    sl_time now = sl_endpoint_now();
    give_up(c, a);
    snprintf(r->reason, sizeof r->reason, "%s", why);
    c->last_down = r->number;
    if (!is_refusal(error))
        c->refused_since = 0;
    else if (c->refused_since == 0)
        c->refused_since = now;
    r->next_attempt = now + AGAIN;
}

static void fill_hello(const sl_endpoint *c, int rail, sl_hello *hello) {
    *hello = (sl_hello){.from = c->config.from,
                        .to = c->config.to,
                        .number = c->config.number,
                        .rail = rail,
                        .chunk_bytes = c->config.chunk_bytes,
                        .proves = c->config.proves,
                        .slots = c->queue->slots,
                        .state = {.published = atomic_load(&c->queue->queue->done)}};
    memcpy(hello->boot, c->boot, sizeof hello->boot);
}

/* Connected: starts the handshake and drops the other attempts. NULL, or why it failed. */
static const char *connected(sl_endpoint *c, sl_endpoint_rail *r, sl_dial *a, int *error) {
    socklen_t size = sizeof *error;
    if (getsockopt(a->socket, SOL_SOCKET, SO_ERROR, error, &size) != 0)
        *error = errno;
    if (*error)
        return strerror(*error);
    sl_time now = sl_endpoint_now(), patience = 4 * (now - a->since);
    patience = patience < HANDSHAKE ? HANDSHAKE : patience > LONGEST ? LONGEST : patience;
    a->connected = 1;
    a->until = now + patience;
    for (int i = 0; i < SL_ATTEMPTS; i++)
        if (&r->attempt[i] != a)
            give_up(c, &r->attempt[i]);
    return NULL;
}

static sl_status move(void *context, int file) {
    sl_endpoint_rail *r = context;
    sl_endpoint *c = r->endpoint;
    sl_dial *a = NULL;
    const char *why = NULL;
    int error = 0;
    for (int i = 0; i < SL_ATTEMPTS; i++)
        if (r->attempt[i].socket == file)
            a = &r->attempt[i];
    if (!a)
        return SL_OK;
    if (!a->connected)
        why = connected(c, r, a, &error);
    sl_handshake_result result = why ? SL_HANDSHAKE_WRONG : sl_handshake_move(&a->handshake, a->socket, &why);
    if (result == SL_HANDSHAKE_WRONG)
        failed(c, r, a, error, why);
    else if (result == SL_HANDSHAKE_ON)
        SL_TRY(sl_loop_watch_writable(c->loop, a->socket, sl_handshake_writes(&a->handshake)));
    else {
        int made = a->socket;
        sl_handshake handshake = a->handshake;
        sl_loop_unwatch(c->loop, made);
        a->socket = -1;
        sl_endpoint_disconnect(c, r->number);
        sl_endpoint_welcome(c, r->number, made, &handshake, sl_endpoint_now() - a->since);
    }
    sl_endpoint_turn(c);
    return SL_OK;
}

static sl_dial *slot_for_attempt(sl_endpoint *c, sl_endpoint_rail *r) {
    sl_dial *oldest = &r->attempt[0];
    for (int i = 0; i < SL_ATTEMPTS; i++) {
        if (r->attempt[i].socket < 0)
            return &r->attempt[i];
        if (r->attempt[i].since < oldest->since)
            oldest = &r->attempt[i];
    }
    give_up(c, oldest);
    return oldest;
}

static void start(sl_endpoint *c, sl_endpoint_rail *r, sl_time now) {
    sl_dial *a = slot_for_attempt(c, r);
    sl_hello hello;
    fill_hello(c, r->number, &hello);
    r->next_attempt = now + FRESH;
    *a = (sl_dial){.socket = -1, .since = now, .until = now + PATIENCE};
    if (sl_handshake_initiate(&a->handshake, c->config.key, &hello) != SL_OK) {
        failed(c, r, a, 0, "no random numbers");
        return;
    }
    a->socket = sl_rail_connect(&r->address);
    if (a->socket < 0) {
        failed(c, r, a, errno, strerror(errno));
        return;
    }
    if (sl_loop_watch(c->loop, a->socket, move, r) != SL_OK ||
        sl_loop_watch_writable(c->loop, a->socket, 1) != SL_OK)
        failed(c, r, a, 0, "it cannot be waited for");
}

/* A handshake or line setup is in progress: no other attempt is needed. */
static int is_handshake(const sl_endpoint_rail *r) {
    if (r->coming.line)
        return 1;
    for (int i = 0; i < SL_ATTEMPTS; i++)
        if (r->attempt[i].socket >= 0 && r->attempt[i].connected)
            return 1;
    return 0;
}

void sl_endpoint_connect(sl_endpoint *c, int rail, sl_time now) {
    sl_endpoint_rail *r = &c->rail[rail];
    for (int i = 0; i < SL_ATTEMPTS; i++) {
        sl_dial *a = &r->attempt[i];
        if (a->socket >= 0 && now >= a->until)
            failed(c, r, a, 0, a->connected ? "no answer to the handshake" : "no answer");
    }
    if (!is_handshake(r) && now >= r->next_attempt)
        start(c, r, now);
}

sl_time sl_endpoint_connect_at(const sl_endpoint *c, int rail) {
    const sl_endpoint_rail *r = &c->rail[rail];
    sl_time first = is_handshake(r) ? SL_TIME_NEVER : r->next_attempt;
    for (int i = 0; i < SL_ATTEMPTS; i++)
        if (r->attempt[i].socket >= 0 && r->attempt[i].until < first)
            first = r->attempt[i].until;
    return first;
}
