#include "run/rail/door.h"
#include "base/clock.h"
#include "base/memory.h"
#include "run/rail/rail_socket.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define UNPROVEN 64              /* places at the door */
#define PATIENCE (2 * SL_SECOND) /* for one greeting */
#define QUIET SL_SECOND          /* between two lines about strangers */

typedef struct unproven {
    int socket; /* -1: this place is empty */
    sl_time since;
    sl_greeting greeting;
} unproven;

struct sl_door {
    sl_loop *loop;
    uint8_t key[32];
    sl_door_tell tell;
    void *object;
    const sl_door_guest **guest;
    size_t guests, guest_room;
    int *listening;
    size_t listens, listen_room;
    unproven waiting[UNPROVEN];
    sl_loop_timer timer;        /* 0: none */
    _Atomic uint64_t strangers; /* relaxed: any thread may ask how many */
    uint64_t untold;
    sl_time told;
    char last[SL_RAIL_TEXT + 128];
};

static void tell_strangers(sl_door *d) {
    char text[sizeof d->last + 64];
    if (d->untold == 0)
        return;
    if (d->untold == 1)
        snprintf(text, sizeof text, "%s", d->last);
    else
        snprintf(text, sizeof text, "%s (and %llu others)", d->last, (unsigned long long)d->untold - 1);
    d->untold = 0;
    d->told = sl_now();
    if (d->tell)
        d->tell(d->object, text);
}

static void forget(sl_door *d, unproven *u) {
    sl_loop_unwatch(d->loop, u->socket);
    close(u->socket);
    u->socket = -1;
}

static void drop(sl_door *d, unproven *u, const char *why) {
    char who[SL_RAIL_TEXT];
    sl_rail_describe(u->socket, who);
    forget(d, u);
    atomic_fetch_add_explicit(&d->strangers, 1, memory_order_relaxed);
    d->untold++;
    snprintf(d->last, sizeof d->last, "%s was dropped: %s", who, why);
    if (d->told == 0 || sl_now() >= d->told + QUIET)
        tell_strangers(d);
}

static const sl_door_guest *find_guest(const sl_door *d, const sl_hello *said) {
    for (size_t i = 0; i < d->guests; i++)
        if (d->guest[i]->from == said->from && d->guest[i]->to == said->to &&
            d->guest[i]->number == said->number)
            return d->guest[i];
    return NULL;
}

static const char *answer(void *object, const sl_hello *said, sl_hello *own) {
    const sl_door_guest *guest = find_guest(object, said);
    return guest ? guest->answer(guest->object, said, own) : "nobody here awaits the conduit that it names";
}

static sl_status keep_time(sl_door *d);

static sl_status wake(void *context) {
    sl_door *d = context;
    sl_time t = sl_now();
    d->timer = 0;
    for (int i = 0; i < UNPROVEN; i++)
        if (d->waiting[i].socket >= 0 && t >= d->waiting[i].since + PATIENCE)
            drop(d, &d->waiting[i], "it was silent");
    if (t >= d->told + QUIET)
        tell_strangers(d);
    return keep_time(d);
}

/* One timer, for the oldest of the unproven and for lines that wait. */
static sl_status keep_time(sl_door *d) {
    sl_time first = d->untold ? d->told + QUIET : SL_TIME_NEVER;
    if (d->timer)
        return SL_OK; /* it is early enough: nobody's patience ends before that of who came before */
    for (int i = 0; i < UNPROVEN; i++)
        if (d->waiting[i].socket >= 0 && d->waiting[i].since + PATIENCE < first)
            first = d->waiting[i].since + PATIENCE;
    return first == SL_TIME_NEVER ? SL_OK : sl_loop_at(d->loop, first, wake, d, &d->timer);
}

static void hand_over(sl_door *d, unproven *u) {
    const sl_door_guest *guest = find_guest(d, &u->greeting.other);
    int socket = u->socket;
    if (!guest) { /* it has gone in the meantime */
        forget(d, u);
        return;
    }
    sl_loop_unwatch(d->loop, socket);
    u->socket = -1;
    guest->take(guest->object, socket, &u->greeting, sl_now() - u->since);
}

static sl_status greet(sl_door *d, unproven *u) {
    const char *why;
    sl_greeting_result result = sl_greeting_move(&u->greeting, u->socket, &why);
    if (result == SL_GREETING_DONE)
        hand_over(d, u);
    else if (result == SL_GREETING_WRONG && u->greeting.left)
        forget(d, u); /* a peer that gave this attempt up; or one with another key, and that tells us there */
    else if (result == SL_GREETING_WRONG)
        drop(d, u, why);
    else
        return sl_loop_watch_writable(d->loop, u->socket, sl_greeting_writes(&u->greeting));
    return SL_OK;
}

static sl_status hear(void *context, int file) {
    sl_door *d = context;
    for (int i = 0; i < UNPROVEN; i++)
        if (d->waiting[i].socket == file) {
            SL_TRY(greet(d, &d->waiting[i]));
            break;
        }
    return keep_time(d);
}

static unproven *make_room(sl_door *d) {
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
    sl_door *d = context;
    for (int i = 0; i < UNPROVEN; i++) { /* then the others on the loop get their turn */
        int made = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (made < 0)
            break;
        unproven *u = make_room(d);
        u->socket = made;
        u->since = sl_now();
        sl_greeting_accept(&u->greeting, d->key, answer, d);
        if (sl_loop_watch(d->loop, made, hear, d) != SL_OK) {
            close(made);
            u->socket = -1;
            continue;
        }
        SL_TRY(greet(d, u)); /* its hello is often here already */
    }
    return keep_time(d);
}

sl_status sl_door_open(sl_loop *loop, const uint8_t key[32], sl_door_tell tell, void *object,
                       sl_door **door) {
    SL_TRY(sl_alloc(door, 1, sizeof **door));
    sl_door *d = *door;
    d->loop = loop;
    d->tell = tell;
    d->object = object;
    memcpy(d->key, key, sizeof d->key);
    for (int i = 0; i < UNPROVEN; i++)
        d->waiting[i].socket = -1;
    return SL_OK;
}

void sl_door_close(sl_door *d) {
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

sl_status sl_door_listen(sl_door *d, int listening) {
    if (d->listens == d->listen_room)
        SL_TRY(sl_grow(&d->listening, &d->listen_room, d->listens + 1, sizeof *d->listening));
    SL_TRY(sl_loop_watch(d->loop, listening, let_in, d));
    d->listening[d->listens++] = listening;
    return SL_OK;
}

sl_status sl_door_admit(sl_door *d, const sl_door_guest *guest) {
    if (d->guests == d->guest_room)
        SL_TRY(sl_grow(&d->guest, &d->guest_room, d->guests + 1, sizeof *d->guest));
    d->guest[d->guests++] = guest;
    return SL_OK;
}

void sl_door_dismiss(sl_door *d, const sl_door_guest *guest) {
    for (size_t i = 0; i < d->guests; i++)
        if (d->guest[i] == guest) {
            d->guest[i] = d->guest[--d->guests];
            return;
        }
}

uint64_t sl_door_strangers(const sl_door *d) {
    return atomic_load_explicit(&d->strangers, memory_order_relaxed);
}
