/* The threads that move pieces between messages and queues. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/signals.h"
#include "carry/carry.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LAST (1u << 31) /* in the name of a message's last piece */

static sl_delegate_stream *queue_of(sl_carry_stream *s, uint64_t piece) {
    int delegate = (int)(piece % (uint64_t)s->all->delegates);
    return sl_delegates_stream(s->all->started, s->peer, s->sends,
                               (uint64_t)(s->channel * s->all->delegates + delegate));
}

static void ring(_Atomic uint32_t *word) {
    atomic_fetch_add(word, 1);
    sl_clock_wake(sl_clock_real(), word);
}

/* Makes the thread of a stream look again. */
static void poke(sl_carry_stream *s) {
    if (s->sends)
        ring(sl_delegates_settled(s->all->started));
    for (int i = 0; !s->sends && i < s->all->delegates; i++)
        ring(&queue_of(s, (uint64_t)i)->queue.queue->put_bell);
}

/* ---- messages ---- */

void sl_carry_drop(slackline_message *m) {
    if (atomic_fetch_sub(&m->holders, 1) == 1)
        sl_free(m);
}

static void end_message(slackline_message *m, uint32_t state, const char *reason) {
    snprintf(m->reason, sizeof m->reason, "%s", reason);
    m->at = sl_now();
    atomic_store(&m->state, state);
    sl_clock_wake(sl_clock_real(), &m->state);
    sl_carry_drop(m);
}

/* With the lock. */
static slackline_message *pop(sl_carry_stream *s) {
    slackline_message *m = s->first;
    if (m) {
        s->first = m->next;
        s->last = s->first ? s->last : NULL;
    }
    return m;
}

static void fail_all(sl_carry_stream *s, const char *reason) {
    for (slackline_message *m; (m = pop(s)) != NULL;)
        end_message(m, SL_CARRY_LOST, reason);
}

/* ---- pieces ---- */

static size_t piece_size(const sl_carry_stream *s, const slackline_message *m) {
    size_t rest = m->bytes - (size_t)m->moved * s->all->piece_bytes;
    return rest < s->all->piece_bytes ? rest : s->all->piece_bytes;
}

static char *piece_data(const sl_carry_stream *s, const slackline_message *m) {
    return m->data + (size_t)m->moved * s->all->piece_bytes;
}

static uint32_t piece_name(const slackline_message *m) {
    return m->moved | (m->moved + 1 == m->pieces ? LAST : 0);
}

/* 1: moved; 0: there is no room. */
static int put_piece(sl_carry_stream *s, slackline_message *m, sl_delegate_stream *to) {
    sl_queue_view *view = &to->queue;
    if (!sl_queue_has_room(view))
        return 0;
    uint64_t position = atomic_load_explicit(&view->queue->put, memory_order_relaxed); /* own count */
    size_t bytes = piece_size(s, m);
    /* due at 0: published as soon as it is there */
    *sl_queue_slot(view, position) = (sl_slot_header){
        .iteration = (uint32_t)s->messages, .index = piece_name(m), .bytes = bytes, .ready = sl_now()};
    if (bytes > 0)
        memcpy(sl_queue_payload(view, position), piece_data(s, m), bytes);
    sl_queue_put(view);
    sl_delegates_ring(s->all->started, to);
    return 1;
}

/* 1: moved; 0: it is not there yet; -1: it is not what was posted (error text). */
static int take_piece(sl_carry_stream *s, slackline_message *m, sl_delegate_stream *from) {
    sl_queue_view *view = &from->queue;
    uint64_t position = atomic_load_explicit(&view->queue->done, memory_order_relaxed); /* own count */
    if (atomic_load_explicit(&view->queue->put, memory_order_acquire) == position)
        return 0;
    sl_slot_header header = *sl_queue_slot(view, position); /* read once, then checked */
    size_t bytes = piece_size(s, m);
    if (header.iteration != (uint32_t)s->messages || header.index != piece_name(m) || header.bytes != bytes) {
        sl_error(SL_EPEER, "link %d -> %d: message %llu of channel %d does not have the %zu bytes expected",
                 s->peer, s->all->rank, (unsigned long long)s->messages, s->channel, m->bytes);
        return -1;
    }
    if (bytes > 0)
        memcpy(piece_data(s, m), sl_queue_payload(view, position), bytes);
    sl_queue_done(view);
    sl_delegates_ring(s->all->started, from);
    return 1;
}

/* Moves the pieces of the first message that can be moved. 1: it is complete. */
static int move_message(sl_carry_stream *s, slackline_message *m, int *any) {
    while (m->moved < m->pieces) {
        sl_delegate_stream *queue = queue_of(s, s->pieces);
        int moved = s->sends ? put_piece(s, m, queue) : take_piece(s, m, queue);
        if (moved < 0)
            sl_carry_lose(s->all, s->peer, sl_error_text());
        if (moved <= 0)
            return 0;
        m->moved++;
        s->pieces++;
        *any = 1;
    }
    s->messages++;
    return 1;
}

/* Moves what can be moved, in order; 1: something was. Any thread: while one moves, others leave it to it. */
static int move_stream(sl_carry_stream *s) {
    sl_carry_peer *peer = &s->all->peer[s->peer];
    int any = 0;
    pthread_mutex_lock(&s->lock);
    while (s->first && !s->busy) {
        int lost = atomic_load(&peer->lost); /* before the queue: what came just before counts */
        slackline_message *m = s->first;
        s->busy = 1;
        pthread_mutex_unlock(&s->lock);
        int complete = move_message(s, m, &any);
        pthread_mutex_lock(&s->lock);
        s->busy = 0;
        if (complete)
            end_message(pop(s), SL_CARRY_DONE, "");
        else if (lost)
            fail_all(s, peer->reason);
        else if (!atomic_load(&peer->lost)) /* else once more, for what came before the loss */
            break;
    }
    pthread_mutex_unlock(&s->lock);
    return any;
}

/* ---- losing a peer ---- */

void sl_carry_lose(slackline_transport *t, int peer, const char *reason) {
    sl_carry_peer *p = &t->peer[peer];
    pthread_mutex_lock(&t->lock);
    if (!atomic_load(&p->lost)) {
        snprintf(p->reason, sizeof p->reason, "%s", reason);
        atomic_store(&p->lost, 1);
    }
    pthread_mutex_unlock(&t->lock);
    for (int i = 0; i < t->streams; i++)
        if (t->stream[i].peer == peer)
            poke(&t->stream[i]);
}

/* A lost queue in either direction loses the peer. */
static void look_for_loss(sl_carry_stream *s) {
    char reason[192];
    if (atomic_load(&s->all->peer[s->peer].lost))
        return;
    for (int i = 0; i < s->all->delegates; i++) {
        const sl_queue *queue = queue_of(s, (uint64_t)i)->queue.queue;
        if (!atomic_load(&queue->lost))
            continue;
        int from = s->sends ? s->all->rank : s->peer, to = s->sends ? s->peer : s->all->rank;
        /* the text of another process, read with a bound */
        snprintf(reason, sizeof reason, "link %d -> %d: %.150s", from, to, queue->reason);
        sl_carry_lose(s->all, s->peer, reason);
    }
}

/* ---- threads ---- */

static void *send_all(void *object) {
    slackline_transport *t = object;
    _Atomic uint32_t *settled = sl_delegates_settled(t->started);
    while (!atomic_load(&t->closing)) {
        uint32_t seen = atomic_load(settled);
        int any = 0;
        for (int i = 0; i < t->streams; i++)
            if (t->stream[i].sends) {
                look_for_loss(&t->stream[i]);
                any |= move_stream(&t->stream[i]);
            }
        if (!any && !atomic_load(&t->closing))
            sl_clock_wait(sl_clock_real(), settled, seen, SL_TIME_NEVER);
    }
    return NULL;
}

static void *receive_all(void *object) {
    sl_carry_stream *s = object;
    slackline_transport *t = s->all;
    while (!atomic_load(&t->closing)) {
        _Atomic uint32_t *bell = &queue_of(s, s->pieces)->queue.queue->put_bell;
        uint32_t seen = atomic_load(bell);
        look_for_loss(s);
        if (!move_stream(s) && !atomic_load(&t->closing))
            sl_clock_wait(sl_clock_real(), bell, seen, SL_TIME_NEVER);
    }
    return NULL;
}

static sl_status start_thread(pthread_t *thread, int *running, void *(*work)(void *), void *object) {
    int error = sl_thread_start(thread, work, object);
    *running = error == 0;
    return error ? sl_error(SL_ESYS, "no thread for messages: %s", strerror(error)) : SL_OK;
}

sl_status sl_carry_begin(slackline_transport *t) {
    SL_TRY(start_thread(&t->sending, &t->running, send_all, t));
    for (int i = 0; i < t->streams; i++)
        if (!t->stream[i].sends)
            SL_TRY(start_thread(&t->stream[i].thread, &t->stream[i].running, receive_all, &t->stream[i]));
    return SL_OK;
}

void sl_carry_end(slackline_transport *t) {
    atomic_store(&t->closing, 1);
    for (int i = 0; t->started && i < t->streams; i++)
        poke(&t->stream[i]);
    if (t->running)
        pthread_join(t->sending, NULL);
    t->running = 0;
    for (int i = 0; i < t->streams; i++) {
        if (t->stream[i].running)
            pthread_join(t->stream[i].thread, NULL);
        t->stream[i].running = 0;
        fail_all(&t->stream[i], "the transport was closed");
    }
}

/* ---- posting ---- */

sl_status sl_carry_post(sl_carry_stream *s, void *data, size_t bytes, slackline_message **message) {
    slackline_message *m;
    size_t pieces = bytes ? (bytes - 1) / s->all->piece_bytes + 1 : 1;
    if (pieces >= LAST)
        return sl_error(SL_EINVAL, "a message of %zu bytes", bytes);
    SL_TRY(sl_alloc(&m, 1, sizeof *m));
    m->pid = s->all->pid;
    m->data = data;
    m->bytes = bytes;
    m->pieces = (uint32_t)pieces;
    atomic_store(&m->holders, message ? 2 : 1);
    if (message)
        *message = m;
    pthread_mutex_lock(&s->lock);
    if (s->last)
        s->last->next = m;
    else
        s->first = m;
    s->last = m;
    pthread_mutex_unlock(&s->lock);
    /* a small message leaves with this thread if it can, since waking another one takes longer */
    if (s->sends && pieces == 1)
        move_stream(s);
    pthread_mutex_lock(&s->lock);
    int more = s->first != NULL;
    pthread_mutex_unlock(&s->lock);
    if (more)
        poke(s);
    return SL_OK;
}

int sl_carry_is_idle(sl_carry_stream *s) {
    pthread_mutex_lock(&s->lock);
    int idle = s->first == NULL;
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < s->all->delegates && idle; i++) {
        const sl_queue *queue = queue_of(s, (uint64_t)i)->queue.queue;
        idle = atomic_load(&queue->done) == atomic_load(&queue->put);
    }
    return idle;
}
