/* A conduit in a simulated network, wholly determined by a seed: one to four rails that lose, delay, double,
 * reorder and garble chunks, acknowledgements and states, that fail in one direction or both and come back;
 * a receiving process that dies and restarts with what it had published, and a sending one with what it knew
 * as done; a consumer that is slow. Late packets of dead processes and closed connections are delivered too.
 *
 * A payload byte is its identity: a number made of (message, offset), written into the place that the
 * receiver would read it into. What must hold is checked after each event (check_event, publish, send_chunk).
 * After `trouble` steps every rail and process is well again, and all must be delivered within a bound. */
#ifndef SL_TESTS_SIMULATE_CONDUIT_H
#define SL_TESTS_SIMULATE_CONDUIT_H

#include "base/random.h"
#include "run/conduit/conduit.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGES = 160, RAILS = 4, PLACES = 8, PLACE_BYTES = 96, WHEEL = 128, PACKETS = 4096, INBOX = 64 };

typedef enum packet_kind { CHUNK, ACK, STATE, HELLO } packet_kind;

typedef struct packet {
    packet_kind kind;
    int rail, garbled, next; /* next: index of the next one in the same list; -1: last */
    sl_chunk chunk;          /* ACK: message and index */
    sl_conduit_state state;  /* STATE, HELLO; ACK: its epoch */
    uint64_t attempt;        /* HELLO: which connection */
} packet;

typedef struct world {
    uint64_t random;
    char *reason;
    size_t room;
    int failed;
    sl_time now, trouble;
    /* what this seed is like */
    int rails, messages, slots_out, slots_in, chunk_most, delay, writes;
    int loss, doubles, garbles, flaps, deaths, births, refused, puts, consumes, publishes, lazy_done, thrifty;
    sl_time resend_after;
    uint32_t chunk_bytes;
    size_t rail_bytes;
    uint64_t total[MESSAGES];
    int held[MESSAGES];
    sl_time release_at[MESSAGES];
    /* network */
    int forward[RAILS], back[RAILS];
    int wheel[WHEEL], unused;
    packet packet[PACKETS];
    /* sending process; put, done and released outlive it */
    sl_sender *sender;
    uint64_t put, done, told; /* told: largest limit that has reached this life */
    sl_conduit_state heard;   /* the last one */
    int released[MESSAGES];
    int up[RAILS], connecting[RAILS], touched;
    uint64_t attempt[RAILS], epoch_there[RAILS];
    /* receiving process; the places, published and consumed outlive it */
    sl_receiver *receiver;
    uint64_t epoch, published, consumed;
    uint64_t place[PLACES][PLACE_BYTES];
    packet inbox[RAILS][INBOX], reading[RAILS];
    int waiting[RAILS], busy[RAILS];
    /* counts, to show that a run meant something */
    uint64_t sent, resent, lives;
} world;

static void failed(world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void failed(world *w, const char *format, ...) {
    if (w->failed)
        return;
    w->failed = 1;
    int used = snprintf(w->reason, w->room, "step %lld: ", (long long)w->now);
    va_list list;
    va_start(list, format);
    vsnprintf(w->reason + used, w->room - (size_t)used, format, list);
    va_end(list);
}

static uint64_t bits(world *w) {
    return sl_random_mix(w->random += SL_RANDOM_STEP);
}

static int below(world *w, int n) {
    return (int)(bits(w) % (uint64_t)n);
}

static int chance(world *w, int percent) {
    return below(w, 100) < percent;
}

static int any(world *w, int rails) {
    return below(w, rails);
}

static uint64_t identity(uint64_t message, uint64_t offset) {
    return (message + 1) << 32 | (offset + 1);
}

static uint64_t true_limit(const world *w) {
    return w->consumed + (uint64_t)w->slots_in;
}

/* ---- the network ---- */

static void post(world *w, const packet *p, int delay) {
    if (w->unused < 0) {
        failed(w, "the simulation's own packets are used up");
        return;
    }
    int i = w->unused, *list = &w->wheel[(w->now + delay) % WHEEL];
    w->unused = w->packet[i].next;
    w->packet[i] = *p;
    w->packet[i].next = *list;
    *list = i;
}

/* Any order: each packet draws its own delay. */
static void carry(world *w, const packet *p, int alive) {
    int trouble = w->now < w->trouble;
    if (!alive || (trouble && chance(w, w->loss)))
        return;
    int delay = 1 + below(w, w->delay);
    packet copy = *p;
    copy.garbled = trouble && p->kind == CHUNK && chance(w, w->garbles);
    post(w, &copy, delay);
    if (trouble && chance(w, w->doubles)) {
        copy.garbled = 0;
        post(w, &copy, delay + below(w, WHEEL - 1 - w->delay)); /* very late */
    }
}

static void answer(world *w, const packet *p) {
    carry(w, p, w->back[p->rail]);
}

/* ---- sending process ---- */

static void open_sender(world *w) {
    sl_sender_config config = {.window = (uint32_t)w->slots_out,
                               .chunk_bytes = w->chunk_bytes,
                               .rail_bytes = w->rail_bytes,
                               .resend_after = w->resend_after,
                               .first = w->done};
    if (sl_sender_open(&config, &w->sender) != SL_OK)
        failed(w, "open: %s", sl_error_text());
    for (uint64_t n = w->done, number; !w->failed && n < w->put; n++)
        if (sl_sender_offer(w->sender, w->total[n], w->held[n] && !w->released[n], &number) != SL_OK ||
            number != n)
            failed(w, "offer of %llu after a restart: %s", (unsigned long long)n, sl_error_text());
    w->told = 0;
    w->touched = 1;
    w->lives++;
}

static void close_sender(world *w) {
    w->resent += sl_sender_resent(w->sender);
    sl_sender_close(w->sender);
    w->sender = NULL;
    memset(w->up, 0, sizeof w->up);
    memset(w->connecting, 0, sizeof w->connecting);
}

static void produce(world *w) {
    uint64_t number;
    if (w->put < (uint64_t)w->messages && w->put - w->done < (uint64_t)w->slots_out && chance(w, w->puts)) {
        w->release_at[w->put] = w->now + below(w, 60);
        if (w->sender && (sl_sender_offer(w->sender, w->total[w->put], w->held[w->put], &number) != SL_OK ||
                          number != w->put))
            failed(w, "offer: %s", sl_error_text());
        w->put++;
        w->touched = 1;
    }
    for (uint64_t n = w->done; n < w->put; n++)
        if (w->held[n] && !w->released[n] && w->now >= w->release_at[n]) {
            w->released[n] = 1;
            if (w->sender)
                sl_sender_release(w->sender, n);
            w->touched = 1;
        }
}

static void send_chunk(world *w, int rail, const sl_chunk *c) {
    uint64_t total = w->total[c->message < MESSAGES ? c->message : 0], size = w->chunk_bytes;
    if (c->message < sl_sender_published(w->sender) || c->message >= w->put)
        failed(w, "message %llu is sent and not in the window", (unsigned long long)c->message);
    else if (c->message >= w->told || c->message >= true_limit(w))
        failed(w, "message %llu is sent beyond the limit %llu", (unsigned long long)c->message,
               (unsigned long long)w->told);
    else if (c->total != total || c->offset != c->index * size || c->offset > total ||
             c->bytes != (total - c->offset < size ? total - c->offset : size) || (total && !c->bytes))
        failed(w, "chunk %u of message %llu is cut wrongly", c->index, (unsigned long long)c->message);
    else if (w->held[c->message] && !w->released[c->message] && c->offset + c->bytes == total)
        failed(w, "the last chunk of message %llu was held", (unsigned long long)c->message);
    packet p = {.kind = CHUNK, .rail = rail, .chunk = *c};
    carry(w, &p, w->forward[rail]);
    w->sent++;
}

/* A thrifty sender asks only after an event or when the deadline is reached: so deadlines are tried. */
static void transmit(world *w) {
    if (!w->sender || (w->thrifty && !w->touched && w->now < sl_sender_deadline(w->sender)))
        return;
    int more = 0;
    sl_chunk chunk;
    for (int rail = 0; rail < w->rails; rail++)
        for (int i = 0; i <= w->writes && !w->failed; i++) {
            if (i == w->writes) {
                more = 1;
                break;
            }
            int given = sl_sender_next(w->sender, rail, w->now, &chunk);
            if (!given)
                break;
            if (!w->up[rail])
                failed(w, "a chunk for rail %d, which is down", rail);
            else
                send_chunk(w, rail, &chunk);
        }
    w->touched = more;
}

static void connect_rails(world *w) {
    for (int r = 0; w->sender && r < w->rails; r++) {
        int broken = !w->forward[r] || !w->back[r] || !w->receiver || w->epoch_there[r] != w->epoch;
        int spurious = w->now < w->trouble && w->flaps && below(w, 400) < w->flaps;
        if (w->up[r] && ((broken && chance(w, 10)) || spurious)) {
            sl_sender_rail_down(w->sender, r);
            w->up[r] = 0;
            w->touched = 1;
        } else if (!w->up[r] && !w->connecting[r] && w->receiver && w->forward[r] && w->back[r] &&
                   chance(w, 20)) {
            packet p = {.kind = HELLO,
                        .rail = r,
                        .state = sl_receiver_state(w->receiver, w->epoch),
                        .attempt = ++w->attempt[r]};
            w->connecting[r] = 1;
            post(w, &p, 1 + below(w, chance(w, 10) ? WHEEL - 1 : w->delay));
        }
    }
}

static void on_hello(world *w, const packet *p) {
    if (!w->sender || !w->connecting[p->rail] || p->attempt != w->attempt[p->rail])
        return;
    w->connecting[p->rail] = 0;
    if (sl_sender_rail_up(w->sender, p->rail, &p->state, w->now) != SL_OK) {
        if (p->state.published >= sl_sender_published(w->sender)) /* else it is old, and tried again */
            failed(w, "a receiver with fresh news is refused: %s", sl_error_text());
        w->refused++;
        return;
    }
    w->heard = p->state;
    w->up[p->rail] = 1;
    w->epoch_there[p->rail] = p->state.epoch;
    w->touched = 1;
    if (p->state.limit > w->told)
        w->told = p->state.limit;
}

static void on_state(world *w, const packet *p) {
    if (!w->sender)
        return;
    uint64_t before = sl_sender_published(w->sender);
    if (sl_sender_state(w->sender, &p->state) != SL_OK)
        failed(w, "a true state is refused: %s", sl_error_text());
    w->touched |= memcmp(&p->state, &w->heard, sizeof w->heard) || sl_sender_published(w->sender) > before;
    w->heard = p->state; /* the same again is no news */
    if (p->state.limit > w->told)
        w->told = p->state.limit;
}

/* ---- receiving process ---- */

static void open_receiver(world *w) {
    sl_receiver_config config = {.window = (uint32_t)w->slots_in,
                                 .chunk_bytes = w->chunk_bytes,
                                 .total_max = PLACE_BYTES,
                                 .first = w->published};
    if (sl_receiver_open(&config, &w->receiver) != SL_OK) {
        failed(w, "open: %s", sl_error_text());
        return;
    }
    w->epoch = bits(w);
    sl_receiver_allow(w->receiver, true_limit(w));
    w->lives++;
}

static void close_receiver(world *w) {
    sl_receiver_close(w->receiver);
    w->receiver = NULL;
    memset(w->waiting, 0, sizeof w->waiting);
    memset(w->busy, 0, sizeof w->busy);
}

/* Part of a chunk comes in: the place must belong to its message. */
static void write_place(world *w, const packet *p, uint64_t from, uint64_t to) {
    const sl_chunk *c = &p->chunk;
    if (c->message < w->published || c->message >= true_limit(w)) {
        failed(w, "message %llu is written to a place that is not its own", (unsigned long long)c->message);
        return;
    }
    for (uint64_t i = from; i < to; i++)
        w->place[c->message % (uint64_t)w->slots_in][c->offset + i] =
            p->garbled ? 0 : identity(c->message, c->offset + i);
}

static void acknowledge(world *w, const packet *p) {
    packet ack = {.kind = ACK, .rail = p->rail, .chunk = p->chunk, .state = {.epoch = w->epoch}};
    if (chance(w, 10))
        ack.rail = any(w, w->rails);
    answer(w, &ack);
}

static void finish_reading(world *w, int rail) {
    const packet *p = &w->reading[rail];
    write_place(w, p, p->chunk.bytes / 2, p->chunk.bytes);
    w->busy[rail] = 0;
    if (p->garbled) {
        sl_receiver_rail_down(w->receiver, rail);
    } else {
        sl_receiver_finish(w->receiver, rail);
        acknowledge(w, p);
    }
}

static void start_reading(world *w, int rail) {
    sl_chunk_verdict verdict;
    packet p = w->inbox[rail][0];
    memmove(w->inbox[rail], w->inbox[rail] + 1, (size_t)--w->waiting[rail] * sizeof p);
    if (sl_receiver_begin(w->receiver, rail, &p.chunk, &verdict) != SL_OK) {
        failed(w, "a true chunk is refused: %s", sl_error_text());
    } else if (verdict == SL_CHUNK_TAKE) {
        w->reading[rail] = p;
        w->busy[rail] = 1;
        write_place(w, &p, 0, p.chunk.bytes / 2);
    } else if (verdict == SL_CHUNK_ACKNOWLEDGE) {
        acknowledge(w, &p);
    }
}

static void receive(world *w) {
    for (int r = 0; w->receiver && r < w->rails && !w->failed; r++) {
        if (w->now < w->trouble && w->flaps && below(w, 400) < w->flaps) { /* breaks in mid-chunk */
            sl_receiver_rail_down(w->receiver, r);
            w->busy[r] = 0;
            if (chance(w, 50))
                w->waiting[r] = 0;
        }
        for (int i = 0; i < 4; i++) {
            if (w->busy[r] && chance(w, 70))
                finish_reading(w, r);
            else if (!w->busy[r] && w->waiting[r])
                start_reading(w, r);
        }
    }
}

static void tell_state(world *w, int rail) {
    packet p = {.kind = STATE, .rail = rail, .state = sl_receiver_state(w->receiver, w->epoch)};
    answer(w, &p);
}

static void publish(world *w) {
    uint64_t total;
    while (w->receiver && !w->failed && chance(w, w->publishes) &&
           sl_receiver_complete(w->receiver, &total)) {
        uint64_t n = w->published;
        if (n >= w->put || total != w->total[n]) {
            failed(w, "message %llu is published with %llu bytes", (unsigned long long)n,
                   (unsigned long long)total);
            return;
        }
        for (uint64_t i = 0; i < total; i++)
            if (w->place[n % (uint64_t)w->slots_in][i] != identity(n, i))
                failed(w, "byte %llu of message %llu is not its own", (unsigned long long)i,
                       (unsigned long long)n);
        sl_receiver_published(w->receiver);
        w->published++;
        tell_state(w, any(w, w->rails));
    }
    if (w->consumed < w->published && chance(w, w->consumes)) {
        memset(w->place[w->consumed % (uint64_t)w->slots_in], 0xff, sizeof w->place[0]); /* it is used */
        w->consumed++;
        if (w->receiver) {
            sl_receiver_allow(w->receiver, true_limit(w));
            tell_state(w, any(w, w->rails));
        }
    }
}

/* ---- what may happen ---- */

static void deliver(world *w) {
    int list = w->wheel[w->now % WHEEL];
    w->wheel[w->now % WHEEL] = -1;
    while (list >= 0) {
        int next = w->packet[list].next;
        const packet *p = &w->packet[list];
        if (p->kind == HELLO)
            on_hello(w, p);
        else if (p->kind == STATE)
            on_state(w, p);
        else if (p->kind == ACK && w->sender)
            sl_sender_acknowledge(w->sender, p->state.epoch, p->chunk.message, p->chunk.index);
        else if (p->kind == CHUNK && w->receiver && w->waiting[p->rail] < INBOX)
            w->inbox[p->rail][w->waiting[p->rail]++] = *p;
        w->touched |= p->kind == ACK;
        w->packet[list].next = w->unused;
        w->unused = list;
        list = next;
    }
}

static void make_trouble(world *w) {
    if (w->now == w->trouble)
        for (int r = 0; r < w->rails; r++)
            w->forward[r] = w->back[r] = 1;
    int calm = w->now >= w->trouble;
    for (int r = 0; !calm && r < w->rails; r++) {
        int odds = below(w, 1000);
        if (odds < w->flaps)
            w->forward[r] = !w->forward[r];
        else if (odds < 2 * w->flaps)
            w->back[r] = !w->back[r];
    }
    if (w->sender && !calm && below(w, 1000) < w->deaths)
        close_sender(w);
    else if (!w->sender && (calm || chance(w, w->births)))
        open_sender(w);
    if (w->receiver && !calm && below(w, 1000) < w->deaths)
        close_receiver(w);
    else if (!w->receiver && (calm || chance(w, w->births)))
        open_receiver(w);
}

static void check_event(world *w) {
    if (w->published > w->put || (w->receiver && sl_receiver_state(w->receiver, 0).published != w->published))
        failed(w, "%llu messages are published", (unsigned long long)w->published);
    if (w->receiver && sl_receiver_state(w->receiver, 0).limit > true_limit(w))
        failed(w, "the receiver allows more than there are places");
    if (!w->sender)
        return;
    uint64_t known = sl_sender_published(w->sender);
    if (known < w->done || known > w->published)
        failed(w, "the sender thinks %llu messages published, it is %llu", (unsigned long long)known,
               (unsigned long long)w->published);
    if (w->put - known > (uint64_t)w->slots_out)
        failed(w, "the sender holds %llu messages", (unsigned long long)(w->put - known));
    if (!w->lazy_done || chance(w, 10))
        w->done = known;
}

static void step(world *w) {
    void (*const part[])(world *) = {make_trouble, produce, connect_rails, deliver,
                                     receive,      publish, transmit};
    for (size_t i = 0; i < sizeof part / sizeof *part && !w->failed; i++) {
        part[i](w);
        check_event(w);
    }
    if (w->receiver && w->now % 16 == 0) /* the heartbeat carries the state */
        for (int r = 0; r < w->rails; r++)
            tell_state(w, r);
    w->now++;
}

/* Half of the kinds of trouble are absent in a given seed, so that the others are seen alone too. */
static int maybe(world *w, int most) {
    return chance(w, 50) ? 0 : 1 + below(w, most);
}

static void draw_messages(world *w) {
    w->messages = 1 + below(w, chance(w, 5) ? MESSAGES : 30); /* at times beyond the sender's ring */
    w->chunk_bytes = 1 + (uint32_t)below(w, chance(w, 20) ? 2 * PLACE_BYTES : 24);
    uint64_t most = w->chunk_bytes * (uint64_t)(1 + below(w, 10));
    if (most > PLACE_BYTES)
        most = PLACE_BYTES;
    for (int i = 0; i < w->messages; i++) {
        w->total[i] = chance(w, 10) ? 0 : chance(w, 20) ? most : bits(w) % (most + 1);
        w->held[i] = chance(w, 30);
    }
}

static void draw_world(world *w, uint64_t seed) {
    w->random = sl_random_mix(seed);
    draw_messages(w);
    w->rails = 1 + below(w, RAILS);
    w->slots_out = 1 + below(w, PLACES);
    w->slots_in = 1 + below(w, PLACES);
    w->delay = 1 + below(w, chance(w, 30) ? 60 : 8);
    w->writes = 1 + below(w, 4);
    w->loss = maybe(w, 40);
    w->doubles = maybe(w, 30);
    w->garbles = maybe(w, 20);
    w->flaps = maybe(w, 20);
    w->deaths = maybe(w, chance(w, 30) ? 40 : 12);
    w->births = 3 + below(w, 60);
    w->puts = 10 + below(w, 91);
    w->consumes = 5 + below(w, 96);
    w->publishes = 20 + below(w, 81);
    w->lazy_done = chance(w, 30);
    w->thrifty = chance(w, 50);
    w->resend_after = 2 + below(w, 100);
    w->rail_bytes = w->chunk_bytes * (size_t)(1 + below(w, 12));
    w->trouble = below(w, 600);
    for (int i = 0; i < WHEEL; i++)
        w->wheel[i] = -1;
    for (int i = 0; i < PACKETS; i++)
        w->packet[i].next = i + 1 < PACKETS ? i + 1 : -1;
    for (int r = 0; r < RAILS; r++)
        w->forward[r] = w->back[r] = 1;
}

/* From the end of trouble: each message waits at most for a window of everything, at these odds and delays.
 * Generous on purpose: what it must tell apart is slow and never. */
static sl_time bound_of(const world *w) {
    return w->trouble + 2000 + w->messages * (400 + 4 * (sl_time)(w->resend_after + w->delay));
}

static int over(const world *w) {
    return w->consumed == (uint64_t)w->messages && w->done == (uint64_t)w->messages &&
           w->now > w->trouble + 1;
}

/* Everything is delivered: nothing is left to send, and no timer runs. */
static void check_end(world *w) {
    sl_chunk chunk;
    if (sl_sender_deadline(w->sender) != SL_TIME_NEVER)
        failed(w, "a timer runs after all is done");
    for (int r = 0; r < w->rails && !w->failed; r++)
        if (sl_sender_next(w->sender, r, SL_TIME_NEVER - 1, &chunk))
            failed(w, "message %llu is sent after all is done", (unsigned long long)chunk.message);
    if (w->consumed != w->published)
        failed(w, "more was published than sent");
}

/* 0: all went well; -1: `reason` says at which step what did not. */
static int simulate_conduit(world *w, uint64_t seed, char *reason, size_t room) {
    memset(w, 0, offsetof(world, packet));
    memset((char *)w + offsetof(world, sender), 0, sizeof *w - offsetof(world, sender));
    w->reason = reason;
    w->room = room;
    draw_world(w, seed);
    open_sender(w);
    open_receiver(w);
    while (!w->failed && !over(w)) {
        step(w);
        if (w->now > bound_of(w))
            failed(w, "not done in time: put %llu, published %llu, consumed %llu, done %llu of %d",
                   (unsigned long long)w->put, (unsigned long long)w->published,
                   (unsigned long long)w->consumed, (unsigned long long)w->done, w->messages);
    }
    if (!w->failed)
        check_end(w);
    if (w->sender)
        close_sender(w);
    if (w->receiver)
        close_receiver(w);
    return w->failed ? -1 : 0;
}

/* An assertion of the protocol itself ends the program: it too says which seed. */
static volatile sig_atomic_t seed_upper, seed_lower;

static void name_seed(int signal_number) {
    char text[64];
    uint64_t seed = (uint64_t)(uint32_t)seed_upper << 32 | (uint32_t)seed_lower;
    int n = snprintf(text, sizeof text, "SL_SEED=%llu: aborted\n", (unsigned long long)seed);
    if (write(STDERR_FILENO, text, (size_t)n) < 0 || signal(signal_number, SIG_DFL) == SIG_ERR)
        _exit(1);
    raise(signal_number);
}

/* `count` seeds from `first`, or the one in SL_SEED. Returns the failures, each printed with its seed. */
static int simulate_seeds(uint64_t first, uint64_t count) {
    static world w;
    char reason[256];
    const char *given = getenv("SL_SEED");
    uint64_t sent = 0, resent = 0, lives = 0;
    int failures = 0;
    if (given) {
        first = strtoull(given, NULL, 10);
        count = 1;
    }
    void (*before)(int) = signal(SIGABRT, name_seed);
    printf("seeds %llu to %llu (SL_SEED=n tries one)\n", (unsigned long long)first,
           (unsigned long long)(first + count - 1));
    for (uint64_t seed = first; seed < first + count && failures < 10; seed++) {
        seed_upper = (sig_atomic_t)(seed >> 32);
        seed_lower = (sig_atomic_t)(uint32_t)seed;
        if (simulate_conduit(&w, seed, reason, sizeof reason) != 0) {
            failures++;
            printf("SL_SEED=%llu: %s\n", (unsigned long long)seed, reason);
        }
        sent += w.sent;
        resent += w.resent;
        lives += w.lives;
    }
    signal(SIGABRT, before);
    printf("%llu chunks sent, %llu of them again in one life of the sender; %llu lives of processes\n",
           (unsigned long long)sent, (unsigned long long)resent, (unsigned long long)lives);
    return failures;
}

#endif
