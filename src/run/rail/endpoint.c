#include "run/rail/endpoint.h"
#include "base/clock.h"
#include "base/memory.h"
#include "run/rail/endpoint_inside.h"

#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>

#define CHUNK_BYTES (256u * 1024u)
#define BEAT (50 * SL_MS)
#define SILENCE (200 * SL_MS)
#define OUTAGE (30 * SL_SECOND)
#define LOOK (500 * SL_MS)     /* at the latest, while no rail is up */
#define BREACHES 10            /* without any valid chunk in between: it will not recover */
#define COMING (2 * SL_SECOND) /* for what follows the handshake (UCX) */
#define AGAIN (100 * SL_MS)    /* a connection that lasted less is not retried immediately */

sl_time sl_endpoint_now(void) {
    return sl_now();
}

static void report(sl_endpoint *c, sl_endpoint_event happened, int rail, const char *text) {
    if (c->config.report)
        c->config.report(c->config.object, happened, rail, text);
}

/* ---- rails that come and go ---- */

static void hang_up(sl_endpoint_stream *s) {
    sl_line_close(s->line);
    sl_frame_proofs_close(s->proofs);
    s->line = NULL;
    s->proofs = NULL;
    s->socket = -1;
}

void sl_endpoint_rail_down(sl_endpoint *c, int rail, const char *format, ...) {
    sl_endpoint_rail *r = &c->rail[rail];
    char text[SL_RAIL_TEXT + sizeof r->reason];
    va_list arguments;
    if (r->stream.socket < 0)
        return;
    hang_up(&r->stream);
    va_start(arguments, format);
    vsnprintf(r->reason, sizeof r->reason, format, arguments);
    va_end(arguments);
    if (c->sender)
        sl_sender_rail_down(c->sender, rail);
    else
        sl_receiver_rail_down(c->receiver, rail);
    sl_time now = sl_endpoint_now();
    r->next_attempt = now - r->stream.up_since < AGAIN ? now + AGAIN : now;
    c->last_down = rail;
    if (--c->up == 0)
        c->down_since = now;
    snprintf(text, sizeof text, "%s: %s", sl_rail_name(&r->address), r->reason);
    if (r->stream.announced)
        report(c, SL_HAPPENED_RAIL_DOWN, rail, text);
}

static void give_up(sl_endpoint *c, const char *why);

void sl_endpoint_breach(sl_endpoint *c, int rail, const char *what) {
    char why[64];
    sl_endpoint_rail_down(c, rail, "%s", what);
    if (++c->breaches < BREACHES)
        return;
    snprintf(why, sizeof why, "rank %d broke the protocol %d times in a row",
             c->config.sends ? c->config.to : c->config.from, BREACHES);
    give_up(c, why);
}

/* Takes what the sender needs from the receiver's hello. NULL, or the error. */
static const char *learn(sl_endpoint *c, int rail, const sl_handshake *handshake) {
    uint32_t slots = handshake->other.slots;
    if (slots == 0)
        return "the other end has no slots";
    c->shares_clock = sl_handshake_shares_clock(handshake);
    c->window = slots < c->queue->slots ? slots : c->queue->slots;
    sl_endpoint_offer(c);
    if (sl_sender_rail_up(c->sender, rail, &handshake->other.state, sl_endpoint_now()) != SL_OK)
        return sl_error_text();
    return NULL;
}

static void say_beat(sl_endpoint *c, int rail) {
    sl_wire beat = {.kind = SL_WIRE_BEAT};
    if (c->sender)
        sl_endpoint_say(&c->rail[rail].stream, &beat);
    else
        sl_endpoint_say_state(c, rail);
}

/* Times of messages before the first that can be under way were sent elsewhere, and their slots have been
 * reused. */
static uint64_t first_unreported(const sl_endpoint *c, uint64_t known) {
    uint64_t put = atomic_load_explicit(&c->queue->queue->put, memory_order_relaxed);
    uint64_t first = put > c->queue->slots ? put - c->queue->slots : 0;
    return first > known ? first : known;
}

static void rail_up(sl_endpoint *c, int rail, sl_line *line, const sl_handshake *handshake, sl_time took) {
    sl_endpoint_rail *r = &c->rail[rail];
    int socket = line->socket;
    sl_endpoint_stream *s = &r->stream;
    char who[SL_RAIL_TEXT], text[2 * SL_RAIL_TEXT + 32];
    sl_rail_tune(socket, c->config.silence + took);
    sl_rail_describe(socket, who);
    s->socket = socket;
    s->line = line;
    s->interface = sl_rail_interface(socket);
    s->up_since = s->heard = sl_endpoint_now();
    s->spoke = 0;
    s->grace = took;
    s->blocked = s->in_payload = s->announced = 0;
    s->in_begin = s->in_end = s->control_begin = s->control_end = 0;
    s->chunk_bytes = s->chunk_done = 0;
    s->destination = NULL;
    s->head_bytes = SL_WIRE_BYTES + (c->config.proves ? SL_PROOF_BYTES : 0);
    s->reported = first_unreported(c, handshake->other.state.published);
    c->up++;
    c->refused_since = 0;
    const char *wrong = NULL;
    if (c->config.proves && sl_frame_proofs_open(handshake, &s->proofs) != SL_OK)
        wrong = sl_error_text();
    if (!wrong && c->sender)
        wrong = learn(c, rail, handshake);
    if (wrong) {
        sl_endpoint_rail_down(c, rail, "%s", wrong);
        return;
    }
    r->reason[0] = 0;
    snprintf(text, sizeof text, "%.64s: connected with %s", sl_rail_name(&r->address), who);
    s->announced = 1;
    report(c, SL_HAPPENED_RAIL_UP, rail, text);
    say_beat(c, rail);
}

static void send_away(sl_endpoint_rail *r, const char *why) {
    snprintf(r->reason, sizeof r->reason, "%s", why);
    sl_line_close(r->coming.line);
    r->coming.line = NULL;
    r->endpoint->last_down = r->number;
    r->next_attempt = sl_endpoint_now() + AGAIN;
}

static void introduce(sl_endpoint *c, int rail) {
    sl_endpoint_rail *r = &c->rail[rail];
    sl_line *line = r->coming.line;
    int ready = sl_line_ready(line);
    if (ready < 0)
        send_away(r, sl_line_why(line));
    if (ready <= 0)
        return;
    r->coming.line = NULL;
    rail_up(c, rail, line, &r->coming.handshake, r->coming.took + sl_endpoint_now() - r->coming.since);
}

static void on_line(void *object, sl_line *line) {
    sl_endpoint_rail *r = object;
    sl_endpoint *c = r->endpoint;
    if (line == r->coming.line)
        introduce(c, r->number);
    else if (line == r->stream.line) {
        sl_endpoint_read(c, r->number);
        if (r->stream.socket >= 0)
            sl_endpoint_write(c, r->number);
    }
    sl_endpoint_turn(c);
}

void sl_endpoint_welcome(sl_endpoint *c, int rail, int socket, const sl_handshake *handshake, sl_time took) {
    sl_endpoint_rail *r = &c->rail[rail];
    sl_endpoint_rail_down(c, rail, "the other end has replaced it");
    sl_line_close(r->coming.line);
    r->coming = (sl_coming){.handshake = *handshake, .took = took, .since = sl_endpoint_now()};
    if (sl_line_open(r->address.kind, c->loop, socket, on_line, r, &r->coming.line) == SL_OK)
        introduce(c, rail);
    else
        send_away(r, sl_error_text());
}

static void take_proven(void *object, int socket, const sl_handshake *handshake, sl_time took) {
    sl_endpoint *c = object;
    sl_endpoint_welcome(c, handshake->other.rail, socket, handshake, took);
    sl_endpoint_turn(c);
}

static void on_interface(void *object, unsigned index, int up) {
    sl_endpoint *c = object;
    for (int r = 0; r < c->config.rails; r++) {
        sl_endpoint_rail *rail = &c->rail[r];
        if (up && rail->stream.socket < 0 && rail->address.kind != SL_RAIL_UNIX)
            rail->next_attempt = 0; /* at once */
        else if (!up && rail->stream.socket >= 0 && rail->stream.interface == index)
            sl_endpoint_rail_down(c, r, "its interface went down or lost an address");
    }
    sl_endpoint_turn(c);
}

static void on_stranger(void *object, const char *text) {
    report(object, SL_HAPPENED_STRANGER, -1, text);
}

static void drop_coming(sl_endpoint *c, int rail) {
    sl_line_close(c->rail[rail].coming.line);
    c->rail[rail].coming.line = NULL;
}

/* ---- time ---- */

static void give_up(sl_endpoint *c, const char *why) {
    char text[256];
    const sl_endpoint_rail *last = c->last_down >= 0 ? &c->rail[c->last_down] : NULL;
    if (last && last->reason[0])
        snprintf(text, sizeof text, "%.96s (last: %.40s: %.100s)", why, sl_rail_name(&last->address),
                 last->reason);
    else
        snprintf(text, sizeof text, "%.96s", why);
    c->lost = 1;
    for (int r = 0; r < c->config.rails; r++) {
        sl_endpoint_disconnect(c, r);
        drop_coming(c, r);
        sl_endpoint_rail_down(c, r, "the conduit is given up");
    }
    sl_queue_lose(c->queue, text);
    report(c, SL_HAPPENED_LOST, -1, text);
}

/* Time in which this process did not run (a busy machine) counts neither as silence of the other end nor as
 * an outage, because nothing was received or tried. The delay of the late timer gives its length. While no
 * rail is up, the timer is set to LOOK at most. */
static void forgive_absence(sl_endpoint *c, sl_time now) {
    sl_time late = now - c->timer_at;
    if (late <= c->config.beat)
        return;
    for (int r = 0; r < c->config.rails; r++)
        c->rail[r].stream.heard = sl_sooner(now, c->rail[r].stream.heard + late);
    if (c->up == 0)
        c->down_since = sl_sooner(now, c->down_since + late);
    if (c->refused_since)
        c->refused_since = sl_sooner(now, c->refused_since + late);
}

static void check_outage(sl_endpoint *c, sl_time now) {
    char why[96];
    int rails = c->config.rails;
    if (c->up == 0 && now >= c->down_since + c->config.outage) {
        double seconds = (double)c->config.outage / 1e9;
        if (rails == 1)
            snprintf(why, sizeof why, "its only rail down for %.3g s", seconds);
        else
            snprintf(why, sizeof why, "all %d rails down for %.3g s", rails, seconds);
        give_up(c, why);
    } else if (c->config.refusal && c->refused_since && c->up == 0 &&
               now >= c->refused_since + c->config.refusal) {
        snprintf(why, sizeof why, "the other end does not listen, rank %d may have died", c->config.to);
        give_up(c, why);
    }
}

static sl_time silent_at(const sl_endpoint *c, const sl_endpoint_stream *s) {
    return s->heard + c->config.silence + s->grace;
}

/* Beats and silence of one connection. */
static void keep_alive(sl_endpoint *c, int rail, sl_time now) {
    sl_endpoint_stream *s = &c->rail[rail].stream;
    if (now >= silent_at(c, s)) {
        sl_endpoint_read(c, rail); /* possibly our own loop was not reading */
        if (s->socket >= 0 && sl_endpoint_now() >= silent_at(c, s))
            sl_endpoint_rail_down(c, rail, "silent for %.0f ms", sl_to_ms(sl_endpoint_now() - s->heard));
    }
    if (s->socket >= 0 && !s->blocked && now >= s->spoke + c->config.beat)
        say_beat(c, rail);
}

static sl_time next_time(sl_endpoint *c, sl_time now) {
    sl_time first = c->sender ? sl_endpoint_send_at(c, now) : c->publish_at;
    if (c->up == 0)
        first = sl_sooner(sl_sooner(first, c->down_since + c->config.outage), now + LOOK);
    if (c->up == 0 && c->refused_since && c->config.refusal)
        first = sl_sooner(first, c->refused_since + c->config.refusal);
    for (int r = 0; r < c->config.rails; r++) {
        const sl_endpoint_stream *s = &c->rail[r].stream;
        if (c->rail[r].coming.line)
            first = sl_sooner(first, c->rail[r].coming.since + COMING);
        if (s->socket < 0 && c->sender)
            first = sl_sooner(first, sl_endpoint_connect_at(c, r));
        if (s->socket < 0)
            continue;
        first = sl_sooner(first, silent_at(c, s));
        if (!s->blocked)
            first = sl_sooner(first, s->spoke + c->config.beat);
    }
    return first;
}

static sl_status wake(void *context) {
    sl_endpoint *c = context;
    sl_time now = sl_endpoint_now();
    c->timer = 0;
    forgive_absence(c, now);
    for (int r = 0; r < c->config.rails; r++) {
        if (c->rail[r].stream.socket >= 0)
            keep_alive(c, r, now);
        if (c->rail[r].coming.line && now >= c->rail[r].coming.since + COMING)
            send_away(&c->rail[r], "UCX did not get through");
        if (c->rail[r].stream.socket < 0 && c->sender)
            sl_endpoint_connect(c, r, now);
    }
    if (c->receiver) {
        sl_endpoint_allow(c);
        sl_endpoint_publish(c, now);
    }
    check_outage(c, now);
    sl_endpoint_turn(c);
    return SL_OK;
}

static void settle(sl_endpoint *c) {
    for (int r = 0; r < c->config.rails; r++) {
        if (c->rail[r].stream.line)
            sl_line_settle(c->rail[r].stream.line);
        if (c->rail[r].coming.line)
            sl_line_settle(c->rail[r].coming.line);
    }
}

void sl_endpoint_turn(sl_endpoint *c) {
    if (c->moved && c->config.moved) {
        c->moved = 0;
        c->config.moved(c->config.object);
    }
    if (c->lost)
        return;
    if (c->sender) {
        sl_endpoint_offer(c);
        sl_endpoint_release(c, sl_endpoint_now());
    }
    for (int r = 0; r < c->config.rails; r++)
        if (c->rail[r].stream.socket >= 0 && !c->rail[r].stream.blocked)
            sl_endpoint_write(c, r);
    settle(c);
    sl_time first = next_time(c, sl_endpoint_now());
    if (c->timer && c->timer_at <= first)
        return; /* a wake-up too early does no harm */
    sl_loop_forget(c->loop, c->timer);
    c->timer = 0;
    c->timer_at = first;
    if (first != SL_TIME_NEVER && sl_loop_at(c->loop, first, wake, c, &c->timer) != SL_OK)
        c->timer = 0;
}

/* ---- opening and closing ---- */

static sl_status check(const sl_endpoint_config *config) {
    if (config->rails < 1 || config->rails > SL_RAILS_MAX)
        return sl_error(SL_EINVAL, "conduit %d of %d -> %d has %d rails; 1 to %d are possible",
                        config->number, config->from, config->to, config->rails, SL_RAILS_MAX);
    for (int i = 0; i < config->rails; i++)
        SL_TRY(sl_line_check(config->rail[i].kind));
    return SL_OK;
}

static void set_defaults(sl_endpoint *c, const sl_endpoint_config *config) {
    sl_endpoint_config *own = &c->config;
    *own = *config;
    own->chunk_bytes = own->chunk_bytes ? own->chunk_bytes : CHUNK_BYTES;
    own->beat = own->beat ? own->beat : BEAT;
    own->silence = own->silence ? own->silence : SILENCE;
    own->outage = own->outage ? own->outage : OUTAGE;
    c->queue = config->queue;
    c->last_down = -1;
    c->down_since = sl_endpoint_now();
    c->publish_at = SL_TIME_NEVER;
    if (!own->own_clock)
        sl_handshake_boot(c->boot);
}

static sl_status open_rails(sl_endpoint *c) {
    SL_TRY(sl_alloc(&c->rail, (size_t)c->config.rails, sizeof *c->rail));
    for (int i = 0; i < c->config.rails; i++) {
        sl_endpoint_rail *r = &c->rail[i];
        r->endpoint = c;
        r->number = i;
        r->address = c->config.rail[i];
        r->stream.socket = -1;
        for (int k = 0; k < SL_ATTEMPTS; k++)
            r->attempt[k].socket = -1;
    }
    return sl_interfaces_open(c->loop, on_interface, c, &c->interfaces);
}

static sl_status open_listener(sl_endpoint *c) {
    c->guest = (sl_listener_guest){.from = c->config.from,
                                   .to = c->config.to,
                                   .number = c->config.number,
                                   .answer = sl_endpoint_answer,
                                   .take = take_proven,
                                   .object = c};
    c->listener = c->config.listener;
    if (!c->listener) {
        SL_TRY(sl_listener_open(c->loop, c->config.key, on_stranger, c, &c->listener));
        for (int i = 0; i < c->config.rails; i++)
            SL_TRY(sl_listener_listen(c->listener, c->config.listening[i]));
    }
    SL_TRY(sl_listener_admit(c->listener, &c->guest));
    c->admitted = 1;
    return SL_OK;
}

static sl_status open_all(sl_endpoint *c) {
    SL_TRY(open_rails(c));
    if (c->config.sends)
        return sl_endpoint_send_open(c);
    SL_TRY(sl_endpoint_receive_open(c));
    return open_listener(c);
}

sl_status sl_endpoint_open(sl_loop *loop, const sl_endpoint_config *config, sl_endpoint **endpoint) {
    *endpoint = NULL;
    SL_TRY(check(config));
    SL_TRY(sl_alloc(endpoint, 1, sizeof **endpoint));
    sl_endpoint *c = *endpoint;
    c->loop = loop;
    set_defaults(c, config);
    sl_status status = open_all(c);
    if (status != SL_OK) {
        sl_endpoint_close(c);
        *endpoint = NULL;
        return status;
    }
    sl_endpoint_turn(c);
    return SL_OK;
}

/* Last words where the line takes them. */
static void say_goodbye(sl_endpoint *c, int rail) {
    sl_endpoint_stream *s = &c->rail[rail].stream;
    sl_wire bye = {.kind = SL_WIRE_BYE};
    if (!s->blocked && s->chunk_bytes == 0 && sl_endpoint_say(s, &bye)) {
        c->config.sends = 0; /* no new chunk */
        sl_endpoint_write(c, rail);
    }
    if (s->socket >= 0)
        sl_line_part(s->line);
}

void sl_endpoint_close(sl_endpoint *c) {
    if (!c)
        return;
    c->config.report = NULL;
    c->config.moved = NULL;
    sl_loop_forget(c->loop, c->timer);
    sl_interfaces_close(c->interfaces);
    for (int r = 0; c->rail && r < c->config.rails; r++) {
        sl_endpoint_disconnect(c, r);
        drop_coming(c, r);
        if (c->rail[r].stream.socket >= 0)
            say_goodbye(c, r);
        if (c->rail[r].stream.socket >= 0)
            hang_up(&c->rail[r].stream);
    }
    if (c->admitted)
        sl_listener_dismiss(c->listener, &c->guest);
    if (!c->config.listener)
        sl_listener_close(c->listener);
    sl_sender_close(c->sender);
    sl_receiver_close(c->receiver);
    SL_FREE(c->held, c->rail, c);
}

sl_status sl_endpoint_look(sl_endpoint *c) {
    if (c->receiver)
        sl_endpoint_allow(c);
    sl_endpoint_turn(c);
    return SL_OK;
}

const char *sl_endpoint_reason(const sl_endpoint *c) {
    return c->last_down >= 0 ? c->rail[c->last_down].reason : "";
}

int sl_endpoint_rails_up(const sl_endpoint *c) {
    return c->up;
}
