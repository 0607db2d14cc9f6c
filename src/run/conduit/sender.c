/* The sending half of a conduit. Every chunk of a message in the window is in one of four states: fresh (its
 * index is not below the message's `next`), under way (in the list of the rail that it was last sent on, in
 * the order of sending), to be resent (a bit in the message's `again`), or acknowledged. A bitmap over the
 * window marks the messages that have something to send, so that the oldest is found without a search.
 *
 * A rail delivers and acknowledges in the order of sending. So chunks that wait for earlier ones to be
 * acknowledged are only slow, and are not resent; `resend_after` counts from the last acknowledgement on the
 * rail. If a chunk that was sent later has already been acknowledged, the earlier one is lost. */
#include "base/memory.h"
#include "run/conduit/conduit.h"

#include <assert.h>
#include <string.h>

#define WINDOW_MAX (UINT32_C(1) << 24)

typedef struct flight { /* a chunk */
    struct flight *before, *after;
    sl_time sent;
    uint64_t order; /* of sending on its rail */
    uint64_t message;
    uint32_t index;
    int8_t rail; /* that it is under way on; -1: none */
    uint8_t acknowledged;
    uint8_t repeated; /* sent more than once: an acknowledgement does not show which sending arrived */
} flight;

typedef struct outgoing { /* a message */
    uint64_t bytes;
    uint32_t chunks;
    uint32_t next;     /* chunks below it have been sent since the last change of epoch */
    uint32_t sent_max; /* chunks below it have been sent ever */
    uint32_t waiting;  /* bits set in `again` */
    uint32_t lowest;   /* no bit is set in a word of `again` below it */
    int held;
    flight *flight;
    uint64_t *again;
    size_t flights, words; /* capacities; kept for the next message of this entry */
} outgoing;

typedef struct rail {
    int up;
    uint64_t epoch, limit; /* of the receiver at its other end */
    uint64_t came;         /* the how-manieth to come up */
    uint64_t bytes;        /* under way */
    flight *head, *tail;   /* under way, oldest first */
    uint64_t order;        /* chunks sent */
    uint64_t reached;      /* chunks below this order are acknowledged or overtaken by one that is */
    sl_time heard;         /* last acknowledgement */
} rail;

struct sl_sender {
    sl_sender_config config;
    uint64_t published, offered;
    uint64_t epoch, limit; /* the receiver that we send to */
    int known;             /* there has been one */
    uint64_t ups, resent;
    sl_time now;
    uint64_t mask;     /* entries - 1; message n uses entry n & mask */
    outgoing *message; /* a power of two of at least 64 entries */
    uint64_t *ready;   /* a bit an entry: has something to send */
    rail rail[SL_RAILS_MAX];
};

sl_status sl_sender_open(const sl_sender_config *config, sl_sender **sender) {
    *sender = NULL;
    if (!config->window || config->window > WINDOW_MAX || !config->chunk_bytes || config->resend_after <= 0)
        return sl_error(SL_EINVAL, "a conduit needs a window (at most %u), a chunk size and a time to resend",
                        WINDOW_MAX);
    size_t entries = 64;
    while (entries < config->window)
        entries *= 2;
    sl_sender *s;
    sl_status status;
    SL_TRY(sl_alloc(&s, 1, sizeof *s));
    s->config = *config;
    s->published = s->offered = config->first;
    s->now = INT64_MIN;
    s->mask = entries - 1;
    SL_TRY_GOTO(err_close, status, sl_alloc(&s->message, entries, sizeof *s->message));
    SL_TRY_GOTO(err_close, status, sl_alloc(&s->ready, entries / 64, sizeof *s->ready));
    *sender = s;
    return SL_OK;
err_close:
    sl_sender_close(s);
    return status;
}

void sl_sender_close(sl_sender *sender) {
    if (!sender)
        return;
    for (size_t i = 0; sender->message && i <= sender->mask; i++) {
        SL_FREE(sender->message[i].flight, sender->message[i].again);
    }
    SL_FREE(sender->message, sender->ready, sender);
}

/* ---- messages ---- */

static outgoing *entry(const sl_sender *s, uint64_t number) {
    return &s->message[number & s->mask];
}

static int in_window(const sl_sender *s, uint64_t number) {
    return number >= s->published && number < s->offered;
}

/* Sets the message's bit in `ready` to what is true now. */
static void note_ready(sl_sender *s, uint64_t number) {
    const outgoing *m = entry(s, number);
    int fresh = m->next < m->chunks && !(m->held && m->next == m->chunks - 1);
    uint64_t slot = number & s->mask, bit = UINT64_C(1) << (slot % 64);
    if (m->waiting || fresh)
        s->ready[slot / 64] |= bit;
    else
        s->ready[slot / 64] &= ~bit;
}

static int oldest_ready(const sl_sender *s, uint64_t *number) {
    uint64_t words = (s->mask + 1) / 64, start = s->published & s->mask, from = ~UINT64_C(0) << (start % 64);
    for (uint64_t i = 0; i <= words; i++) { /* the first word twice: its upper part, then its lower one */
        uint64_t word = (start / 64 + i) % words, bits = s->ready[word];
        bits &= i == 0 ? from : i == words ? ~from : ~UINT64_C(0);
        if (bits) {
            uint64_t slot = word * 64 + (uint64_t)__builtin_ctzll(bits);
            *number = s->published + ((slot - start) & s->mask);
            return 1;
        }
    }
    return 0;
}

static void set_again(outgoing *m, uint32_t index) {
    m->again[index / 64] |= UINT64_C(1) << (index % 64);
    m->waiting++;
    if (index / 64 < m->lowest)
        m->lowest = index / 64;
}

static int is_again(const outgoing *m, uint32_t index) {
    return m->again[index / 64] >> (index % 64) & 1;
}

static void clear_again(outgoing *m, uint32_t index) {
    m->again[index / 64] &= ~(UINT64_C(1) << (index % 64));
    m->waiting--;
}

static uint32_t lowest_again(outgoing *m) {
    while (!m->again[m->lowest]) {
        m->lowest++;
        assert(m->lowest <= m->chunks / 64);
    }
    return m->lowest * 64 + (uint32_t)__builtin_ctzll(m->again[m->lowest]);
}

sl_status sl_sender_offer(sl_sender *sender, uint64_t bytes, int held, uint64_t *number) {
    uint64_t chunks = bytes ? (bytes - 1) / sender->config.chunk_bytes + 1 : 1;
    if (sender->offered - sender->published >= sender->config.window)
        return sl_error(SL_EINVAL, "more than the %u messages of the conduit's window",
                        sender->config.window);
    if (chunks >= UINT32_MAX)
        return sl_error(SL_EINVAL, "a message of %llu bytes has too many chunks of %u",
                        (unsigned long long)bytes, sender->config.chunk_bytes);
    outgoing *m = entry(sender, sender->offered);
    SL_TRY(sl_grow(&m->flight, &m->flights, (size_t)chunks, sizeof *m->flight));
    SL_TRY(sl_grow(&m->again, &m->words, (size_t)(chunks / 64 + 1), sizeof *m->again));
    for (uint32_t i = 0; i < chunks; i++)
        m->flight[i] = (flight){.message = sender->offered, .index = i, .rail = -1};
    m->bytes = bytes;
    m->chunks = (uint32_t)chunks;
    m->next = m->sent_max = m->waiting = m->lowest = 0; /* `again` is empty: forget left it so */
    m->held = held;
    *number = sender->offered++;
    note_ready(sender, *number);
    return SL_OK;
}

void sl_sender_release(sl_sender *sender, uint64_t number) {
    if (!in_window(sender, number))
        return;
    entry(sender, number)->held = 0;
    note_ready(sender, number);
}

/* ---- chunks under way ---- */

static void unlink_flight(sl_sender *s, flight *f, uint32_t bytes) {
    rail *r = &s->rail[f->rail];
    *(f->before ? &f->before->after : &r->head) = f->after;
    *(f->after ? &f->after->before : &r->tail) = f->before;
    f->before = f->after = NULL;
    f->rail = -1;
    r->bytes -= bytes;
}

static uint32_t bytes_of(const sl_sender *s, const outgoing *m, uint32_t index) {
    uint64_t left = m->bytes - (uint64_t)index * s->config.chunk_bytes;
    return left < s->config.chunk_bytes ? (uint32_t)left : s->config.chunk_bytes;
}

static void settle(sl_sender *s, outgoing *m, flight *f) {
    if (f->rail >= 0)
        unlink_flight(s, f, bytes_of(s, m, f->index));
    else if (is_again(m, f->index))
        clear_again(m, f->index);
}

static void send_again(sl_sender *s, flight *f) {
    outgoing *m = entry(s, f->message);
    unlink_flight(s, f, bytes_of(s, m, f->index));
    set_again(m, f->index);
    note_ready(s, f->message);
}

static sl_time deadline_of(const sl_sender *s, const rail *r) {
    const flight *f = r->head;
    if (!f)
        return SL_TIME_NEVER;
    sl_time from = f->order >= r->reached && r->heard > f->sent ? r->heard : f->sent;
    return from > SL_TIME_NEVER - s->config.resend_after ? SL_TIME_NEVER : from + s->config.resend_after;
}

static void pass_time(sl_sender *s, sl_time now) {
    if (now > s->now)
        s->now = now;
    for (int i = 0; i < SL_RAILS_MAX; i++)
        while (deadline_of(s, &s->rail[i]) <= s->now)
            send_again(s, s->rail[i].head);
}

int sl_sender_next(sl_sender *sender, int number, sl_time now, sl_chunk *chunk) {
    assert(number >= 0 && number < SL_RAILS_MAX);
    rail *r = &sender->rail[number];
    uint64_t message;
    pass_time(sender, now);
    if (!r->up || r->epoch != sender->epoch || !oldest_ready(sender, &message) || message >= sender->limit)
        return 0;
    outgoing *m = entry(sender, message);
    uint32_t index = m->waiting ? lowest_again(m) : m->next, bytes = bytes_of(sender, m, index);
    if (r->bytes && bytes > 0 &&
        (r->bytes >= sender->config.rail_bytes || bytes > sender->config.rail_bytes - r->bytes))
        return 0;
    if (m->waiting)
        clear_again(m, index);
    else
        m->next++;
    note_ready(sender, message);
    flight *f = &m->flight[index];
    f->repeated = index < m->sent_max;
    sender->resent += f->repeated;
    if (!f->repeated)
        m->sent_max = index + 1;
    f->sent = sender->now;
    f->order = r->order++;
    f->rail = (int8_t)number;
    f->before = r->tail;
    *(r->tail ? &r->tail->after : &r->head) = f;
    r->tail = f;
    r->bytes += bytes;
    *chunk = (sl_chunk){message, index, bytes, (uint64_t)index * sender->config.chunk_bytes, m->bytes};
    return 1;
}

/* ---- reports from the receiver ---- */

void sl_sender_acknowledge(sl_sender *sender, uint64_t epoch, uint64_t message, uint32_t index) {
    if (!sender->known || epoch != sender->epoch || !in_window(sender, message))
        return;
    outgoing *m = entry(sender, message);
    if (index >= m->next) /* not sent to this receiver by us: will be sent and acknowledged in its turn */
        return;
    flight *f = &m->flight[index];
    if (f->acknowledged)
        return;
    if (f->rail >= 0) {
        rail *r = &sender->rail[f->rail];
        r->heard = sender->now;
        if (!f->repeated && f->order >= r->reached)
            r->reached = f->order + 1;
    }
    settle(sender, m, f);
    f->acknowledged = 1;
    note_ready(sender, message);
}

/* Leaves the window: none of it is under way or waiting. */
static void forget(sl_sender *s, uint64_t number) {
    outgoing *m = entry(s, number);
    for (uint32_t i = 0; i < m->next; i++)
        settle(s, m, &m->flight[i]);
    m->next = m->chunks;
    note_ready(s, number);
}

static void learn_published(sl_sender *s, uint64_t published) {
    for (; s->published < published; s->published++)
        forget(s, s->published);
}

/* Switches to this receiver, of which only the published count is known. */
static void turn_to(sl_sender *s, uint64_t epoch) {
    if (s->known && s->epoch == epoch)
        return;
    s->known = 1;
    s->epoch = epoch;
    s->limit = 0;
    for (int i = 0; i < SL_RAILS_MAX; i++)
        if (s->rail[i].up && s->rail[i].epoch == epoch && s->rail[i].limit > s->limit)
            s->limit = s->rail[i].limit;
    for (uint64_t n = s->published; n < s->offered; n++) {
        outgoing *m = entry(s, n);
        for (uint32_t i = 0; i < m->next; i++) {
            settle(s, m, &m->flight[i]);
            m->flight[i].acknowledged = 0;
        }
        m->next = m->lowest = 0;
        note_ready(s, n);
    }
}

static sl_status check_state(const sl_sender *s, const sl_conduit_state *state) {
    if (state->published > s->offered || state->limit < state->published)
        return sl_error(SL_EPEER, "the receiver claims %llu messages published, %llu allowed; %llu were sent",
                        (unsigned long long)state->published, (unsigned long long)state->limit,
                        (unsigned long long)s->offered);
    return SL_OK;
}

static void strand(sl_sender *s, rail *r) {
    while (r->head)
        send_again(s, r->head);
    r->up = 0;
}

sl_status sl_sender_rail_up(sl_sender *sender, int number, const sl_conduit_state *state, sl_time now) {
    assert(number >= 0 && number < SL_RAILS_MAX);
    rail *r = &sender->rail[number];
    sl_status status = check_state(sender, state);
    if (status == SL_OK && sender->known && state->epoch != sender->epoch &&
        state->published < sender->published)
        status = sl_error(SL_EPEER, "an earlier life of the receiver: it has published %llu messages of %llu",
                          (unsigned long long)state->published, (unsigned long long)sender->published);
    if (status != SL_OK) {
        sl_sender_rail_down(sender, number);
        return status;
    }
    pass_time(sender, now);
    strand(sender, r);
    *r = (rail){
        .up = 1, .epoch = state->epoch, .limit = state->limit, .came = ++sender->ups, .heard = INT64_MIN};
    turn_to(sender, state->epoch);
    return sl_sender_state(sender, state);
}

void sl_sender_rail_down(sl_sender *sender, int number) {
    assert(number >= 0 && number < SL_RAILS_MAX);
    strand(sender, &sender->rail[number]);
    const rail *latest = NULL;
    for (int i = 0; i < SL_RAILS_MAX; i++) {
        const rail *r = &sender->rail[i];
        if (r->up && r->epoch == sender->epoch)
            return;
        if (r->up && (!latest || r->came > latest->came))
            latest = r;
    }
    if (latest) /* the latest was a dead receiver's handshake; this one lives */
        turn_to(sender, latest->epoch);
}

sl_status sl_sender_state(sl_sender *sender, const sl_conduit_state *state) {
    SL_TRY(check_state(sender, state));
    learn_published(sender, state->published); /* survives epochs */
    for (int i = 0; i < SL_RAILS_MAX; i++) {
        rail *r = &sender->rail[i];
        if (r->up && r->epoch == state->epoch && state->limit > r->limit)
            r->limit = state->limit;
    }
    if (sender->known && state->epoch == sender->epoch && state->limit > sender->limit)
        sender->limit = state->limit;
    return SL_OK;
}

uint64_t sl_sender_published(const sl_sender *sender) {
    return sender->published;
}

sl_time sl_sender_deadline(const sl_sender *sender) {
    sl_time soonest = SL_TIME_NEVER;
    for (int i = 0; i < SL_RAILS_MAX; i++) {
        sl_time deadline = deadline_of(sender, &sender->rail[i]);
        soonest = deadline < soonest ? deadline : soonest;
    }
    return soonest;
}

uint64_t sl_sender_resent(const sl_sender *sender) {
    return sender->resent;
}
