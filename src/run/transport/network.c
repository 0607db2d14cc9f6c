#include "run/transport/network.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/signals.h"
#include "run/rail/endpoint.h"
#include "run/transport/listen.h"
#include "run/transport/scheduling.h"
#include "run/transport/transport_events.h"

#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LEAVING SL_SECOND /* for the second goodbye, and for our own */
#define LOOK_AGAIN (10 * SL_MS)
#define REFUSAL SL_SECOND /* no listener for this time: the peer's process has exited */

enum { OUT, IN };

enum { MESSAGES, CLEARANCES }; /* numbers of conduits */

/* The messages of one remote peer, or its clearances, which must not wait for messages that are due later.
 * Owned by the network thread, except `taker` (compute side), the atomics, and of clearances the producer's
 * side of OUT (compute side). */
struct sl_crossing {
    sl_network *network;
    sl_peer *peer;
    int number;
    sl_queue *memory[2];
    sl_queue_view view[2]; /* the endpoints'; the producer's of OUT as well, on the same thread */
    sl_queue_view taker;   /* compute side: the consumer of IN */
    int32_t *record;       /* [slots]: of the message in each slot of OUT */
    uint64_t harvested;    /* messages of OUT whose record is done */
    sl_endpoint *endpoint[2];
    int said_goodbye[2];
    sl_loop_timer leaving; /* 0: none */
    /* Network thread: a rail has been up; set before `changed` is rung. It may be down again by now: that is
     * no reason to wait, it will be up again. */
    _Atomic int was_up[2];
};

/* What an endpoint's callbacks are about. */
typedef struct end {
    sl_crossing *crossing;
    int direction;
} end;

struct sl_network {
    sl_transport *t;
    sl_loop *loop;
    sl_listener *listener;
    int event;                         /* -1: not open */
    int listening[SL_TRANSPORT_RAILS]; /* -1: none */
    sl_crossing *crossing;             /* [count] */
    end *end;                          /* [2 * count] */
    int count;
    _Atomic uint32_t changed; /* futex word of the waiter in open; changed after a rail came up */
    _Atomic int opened;       /* all peers were connected: later events are reported */
    sl_transport_events events;
    sl_transport_class scheduling;
    sl_time leave_until; /* 0: not closing */
    pthread_t thread;
    int running;
    sem_t started;
    const char *obtained; /* written by the thread before `started` */
};

void sl_network_ring(sl_network *n) {
    uint64_t one = 1;
    /* fails only if the counter is full, and then the thread is being woken anyway */
    if (write(n->event, &one, sizeof one) < 0)
        return;
}

const char *sl_network_scheduling(const sl_network *n) {
    return n->obtained;
}

int sl_network_strangers(const sl_network *n) {
    return n->listener ? (int)sl_listener_strangers(n->listener) : 0;
}

/* ---- network thread */

static sl_status leave(sl_network *n);

static void lose(sl_crossing *x, const char *reason) {
    if (atomic_load(&x->peer->lost))
        return;
    snprintf(x->peer->reason, sizeof x->peer->reason, "%s", reason);
    atomic_store(&x->peer->lost, 1);
    sl_transport_poke(x->network->t);
    sl_network_ring(x->network); /* not here: an endpoint may be calling */
}

static sl_status see_off(void *context) {
    sl_crossing *x = context;
    char reason[64];
    x->leaving = 0;
    snprintf(reason, sizeof reason, "rank %d has closed its transport", x->peer->rank);
    lose(x, reason);
    return SL_OK;
}

/* After both goodbyes, everything that the peer had acknowledged has arrived. The second may never come if
 * that conduit was given up. */
static void take_leave(sl_crossing *x, int direction) {
    sl_loop *loop = x->network->loop;
    x->said_goodbye[direction] = 1;
    if (!x->said_goodbye[!direction] && x->leaving == 0 &&
        sl_loop_at(loop, sl_now() + LEAVING, see_off, x, &x->leaving) == SL_OK)
        return;
    sl_loop_forget(loop, x->leaving);
    see_off(x);
}

static void note(const end *e, sl_endpoint_event what, int rail, const char *text) {
    static const sl_transport_event_kind kinds[] = {
        [SL_HAPPENED_RAIL_UP] = SL_TRANSPORT_RAIL_UP,   [SL_HAPPENED_RAIL_DOWN] = SL_TRANSPORT_RAIL_DOWN,
        [SL_HAPPENED_STRANGER] = SL_TRANSPORT_STRANGER, [SL_HAPPENED_GOODBYE] = SL_TRANSPORT_GOODBYE,
        [SL_HAPPENED_LOST] = SL_TRANSPORT_LOST,
    };
    int own = e->crossing->network->t->rank, peer = e->crossing->peer->rank;
    if (what == SL_HAPPENED_RAIL_UP && !atomic_load(&e->crossing->network->opened))
        return;
    if (e->crossing->number == CLEARANCES && what != SL_HAPPENED_LOST)
        return; /* as the messages' rails report */
    sl_transport_events_put(&e->crossing->network->events, kinds[what], e->direction == OUT ? own : peer,
                            e->direction == OUT ? peer : own, rail, text);
}

static void on_stranger(void *object, const char *text) {
    sl_network *n = object;
    sl_transport_events_put(&n->events, SL_TRANSPORT_STRANGER, -1, n->t->rank, -1, text);
}

int sl_network_next_event(sl_network *n, sl_transport_event *one) {
    return sl_transport_events_take(&n->events, one);
}

static void on_news(void *object, sl_endpoint_event what, int rail, const char *text) {
    const end *e = object;
    sl_crossing *x = e->crossing;
    note(e, what, rail, text);
    if (what == SL_HAPPENED_LOST)
        lose(x, text);
    if (what == SL_HAPPENED_RAIL_UP) {
        atomic_store(&x->was_up[e->direction], 1);
        atomic_fetch_add(&x->network->changed, 1);
        sl_clock_wake(sl_clock_real(), &x->network->changed);
    }
    if (what == SL_HAPPENED_GOODBYE && x->number == MESSAGES)
        take_leave(x, e->direction);
}

static void move_out(sl_crossing *x) {
    sl_queue_view *view = &x->view[OUT];
    int slots = x->network->t->slots;
    sl_outgoing *record;
    while (sl_queue_has_room(view) && (record = sl_peer_head(x->peer, slots)) != NULL) {
        uint64_t put = atomic_load_explicit(&view->queue->put, memory_order_relaxed); /* own */
        *sl_queue_slot(view, put) = (sl_slot_header){.iteration = record->iteration,
                                                     .index = record->index,
                                                     .bytes = record->bytes,
                                                     .start = record->sent.start,
                                                     .end = record->sent.end,
                                                     .due = record->sent.due};
        memcpy(sl_queue_payload(view, put), record->data, record->bytes);
        x->record[put % view->slots] = (int32_t)(record - x->peer->outgoing);
        sl_queue_put(view);
        x->peer->published++;
    }
}

static void harvest(sl_crossing *x) {
    sl_queue_view *view = &x->view[OUT];
    uint64_t done = atomic_load_explicit(&view->queue->done, memory_order_relaxed); /* this thread's */
    for (; x->harvested < done; x->harvested++) {
        sl_outgoing *record = &x->peer->outgoing[x->record[x->harvested % view->slots]];
        record->sent.arrive = sl_queue_slot(view, x->harvested)->arrived;
        sl_peer_done(x->network->t, record);
    }
}

static void on_moved(void *object) {
    const end *e = object;
    sl_crossing *x = e->crossing;
    if (e->direction == IN)
        sl_transport_change(x->network->t);
    if (x->number == CLEARANCES)
        return;
    harvest(x);
    move_out(x);
}

/* Also notifies a lost peer, so that its waits need not last until an outage. */
static void serve(sl_crossing *x) {
    int lost = atomic_load(&x->peer->lost);
    if (!lost && x->number == MESSAGES)
        move_out(x);
    for (int direction = 0; direction < 2; direction++)
        if (lost) {
            sl_endpoint_close(x->endpoint[direction]);
            x->endpoint[direction] = NULL;
        } else {
            sl_endpoint_look(x->endpoint[direction]);
        }
}

/* A peer that is currently cut off does not know yet which of its messages have arrived: it gets a moment to
 * reconnect, or it would assume them lost. */
static int is_cut_off(const sl_network *n) {
    for (int i = 0; i < n->count; i++)
        if (!atomic_load(&n->crossing[i].peer->lost) &&
            sl_endpoint_rails_up(n->crossing[i].endpoint[IN]) == 0)
            return 1;
    return 0;
}

static sl_status leave_later(void *context) {
    return leave(context);
}

static sl_status leave(sl_network *n) {
    sl_time now = sl_now();
    if (n->leave_until == 0)
        n->leave_until = now + LEAVING;
    if (is_cut_off(n) && now < n->leave_until)
        return sl_loop_at(n->loop, now + LOOK_AGAIN, leave_later, n, NULL);
    sl_loop_stop(n->loop);
    return SL_OK;
}

static sl_status on_ring(void *context, int file) {
    sl_network *n = context;
    uint64_t rings;
    ssize_t ignored = read(file, &rings, sizeof rings);
    (void)ignored;
    if (atomic_load(&n->t->closing))
        return leave(n);
    for (int i = 0; i < n->count; i++)
        serve(&n->crossing[i]);
    return SL_OK;
}

static void *carry(void *object) {
    sl_network *n = object;
    n->obtained = sl_scheduling_obtain(n->scheduling);
    sem_post(&n->started);
    if (sl_loop_run(n->loop) != SL_OK)
        for (int i = 0; i < n->count; i++)
            lose(&n->crossing[i], sl_error_text());
    return NULL;
}

/* ---- compute side */

_Atomic uint32_t *sl_network_bell(sl_peer *peer) {
    return &peer->crossing->memory[IN]->put_bell;
}

/* Gives back the slots up to the first that is still in use. */
static void give_back(sl_crossing *x) {
    sl_queue_view *view = &x->taker;
    uint64_t done = atomic_load_explicit(&view->queue->done, memory_order_relaxed); /* own */
    uint64_t put = atomic_load_explicit(&view->queue->put, memory_order_acquire), first = done;
    for (; done != put && sl_queue_slot(view, done)->taken; done++)
        sl_queue_done(view);
    if (done != first)
        sl_network_ring(x->network);
}

static sl_slot_header *find(const sl_queue_view *view, const sl_posted *posted, uint64_t *number) {
    uint64_t put = atomic_load_explicit(&view->queue->put, memory_order_acquire);
    *number = atomic_load_explicit(&view->queue->done, memory_order_relaxed);
    for (; *number != put; ++*number) {
        sl_slot_header *slot = sl_queue_slot(view, *number);
        if (!slot->taken && slot->iteration == posted->iteration && slot->index == posted->index)
            return slot;
    }
    return NULL;
}

sl_status sl_network_take(sl_transport *t, sl_peer *peer, const sl_posted *posted, sl_time *arrived) {
    sl_crossing *x = peer->crossing;
    uint64_t number;
    sl_slot_header *slot = find(&x->taker, posted, &number);
    if (!slot)
        return SL_ENONE;
    if (slot->bytes != posted->bytes)
        return sl_error(
            SL_EPEER, "link %d -> %d: message (iteration %u, index %u) has %llu bytes, the posted buffer %zu",
            peer->rank, t->rank, posted->iteration, posted->index, (unsigned long long)slot->bytes,
            posted->bytes);
    memcpy(posted->buffer, sl_queue_payload(&x->taker, number), posted->bytes);
    if (arrived)
        *arrived = slot->arrived;
    slot->taken = 1;
    give_back(x);
    return SL_OK;
}

static sl_crossing *clearing_of(const sl_transport *t, const sl_peer *peer) {
    if (!peer->clearing)
        sl_error(SL_EPEER, "link %d -> %d: it was opened without clearances", t->rank, peer->rank);
    return peer->clearing;
}

sl_status sl_network_clear(sl_transport *t, sl_peer *peer, const sl_clearance *clearance) {
    sl_crossing *x = clearing_of(t, peer);
    if (!x)
        return SL_EPEER;
    sl_queue_view *view = &x->view[OUT];
    if (atomic_load(&peer->lost))
        return sl_error(SL_EPEER, "link %d -> %d: %s", t->rank, peer->rank, peer->reason);
    if (!sl_queue_has_room(view))
        return sl_error(SL_EPEER, "link %d -> %d: %u clearances are under way", t->rank, peer->rank,
                        view->slots);
    uint64_t put = atomic_load_explicit(&view->queue->put, memory_order_relaxed); /* own */
    *sl_queue_slot(view, put) = (sl_slot_header){
        .iteration = clearance->iteration, .index = clearance->index, .bytes = sizeof clearance->reached};
    memcpy(sl_queue_payload(view, put), &clearance->reached, sizeof clearance->reached);
    sl_queue_put(view);
    sl_network_ring(x->network);
    return SL_OK;
}

sl_status sl_network_next_cleared(sl_transport *t, sl_peer *peer, uint32_t iteration,
                                  sl_clearance *clearance) {
    sl_crossing *x = peer->clearing;
    sl_status status = SL_ENONE;
    uint64_t done, first;
    if (!x)
        return SL_ENONE;
    sl_queue *queue = x->taker.queue;
    first = done = atomic_load_explicit(&queue->done, memory_order_relaxed); /* own */
    for (; status == SL_ENONE && done != atomic_load_explicit(&queue->put, memory_order_acquire); done++) {
        const sl_slot_header *slot = sl_queue_slot(&x->taker, done);
        if (slot->iteration > iteration)
            break;
        if (slot->iteration == iteration) /* the peer's clock is another one */
            status = SL_OK;
        *clearance = (sl_clearance){slot->iteration, slot->index, sl_clock_now(t->clock)};
        sl_queue_done(&x->taker);
    }
    if (done != first)
        sl_network_ring(x->network);
    return status;
}

/* ---- opening and closing */

static sl_status open_queue(sl_crossing *x, int direction) {
    const sl_transport *t = x->network->t;
    uint32_t slots = (uint32_t)t->slots << (x->number == CLEARANCES); /* of two iterations */
    size_t bytes, payload = x->number == CLEARANCES ? sizeof(int64_t) : t->message_bytes;
    SL_TRY(sl_queue_size(slots, payload, &bytes));
    SL_TRY(sl_alloc(&x->memory[direction], 1, bytes));
    sl_queue_format(x->memory[direction], slots, payload);
    SL_TRY(sl_queue_open(x->memory[direction], bytes, &x->view[direction]));
    x->taker = x->view[IN];
    return SL_OK;
}

/* Rail r of a peer's address, seen from our rail r. */
static sl_status describe_rail(const sl_transport_config *c, int peer, int r, sl_rail_address *rail) {
    const sl_transport_address *a = &c->addresses[peer];
    *rail = (sl_rail_address){.kind = SL_RAIL_TCP, .port = a->rails ? a->rail[r].port : a->port};
    snprintf(rail->address, sizeof rail->address, "%s", a->rails ? a->rail[r].address : a->address);
    if (c->rail_count == 0)
        return SL_OK;
    const char *name = sl_rail_parse(c->rails[r], &rail->kind);
    int is_interface = if_nametoindex(name) != 0;
    char *slot = is_interface ? rail->interface : rail->source;
    size_t room = is_interface ? sizeof rail->interface : sizeof rail->source;
    if (snprintf(slot, room, "%s", name) >= (int)room)
        return sl_error(SL_EINVAL, "rank %d: '%s' is neither an interface nor an address", c->rank, name);
    return SL_OK;
}

static int rails_of(const sl_transport_address *a) {
    return a->rails ? a->rails : 1;
}

static sl_status open_endpoint(sl_crossing *x, int direction, const sl_transport_config *c, end *e) {
    int peer = x->peer->rank, own = c->rail_count ? c->rail_count : 1;
    *e = (end){x, direction};
    sl_endpoint_config config = {.sends = direction == OUT,
                                 .from = direction == OUT ? c->rank : peer,
                                 .to = direction == OUT ? peer : c->rank,
                                 .number = x->number,
                                 .queue = &x->view[direction],
                                 .listener = x->network->listener,
                                 .chunk_bytes = c->chunk_bytes,
                                 .beat = c->rail_beat,
                                 .silence = c->rail_silence,
                                 .outage = c->outage,
                                 .refusal = REFUSAL,
                                 .proves = c->proves,
                                 .report = on_news,
                                 .moved = on_moved,
                                 .object = e};
    memcpy(config.key, c->key, sizeof config.key);
    config.rails = rails_of(&c->addresses[peer]) < own ? rails_of(&c->addresses[peer]) : own;
    for (int r = 0; r < config.rails; r++)
        SL_TRY(describe_rail(c, peer, r, &config.rail[r]));
    sl_network *n = x->network;
    n->scheduling = sl_scheduling_for(n->scheduling, config.rail, config.rails);
    return sl_endpoint_open(x->network->loop, &config, &x->endpoint[direction]);
}

static sl_status open_crossing(sl_network *n, sl_peer *peer, int number, const sl_transport_config *c) {
    sl_crossing *x = &n->crossing[n->count];
    end *ends = &n->end[2 * n->count];
    n->count++;
    x->network = n;
    x->peer = peer;
    x->number = number;
    *(number == MESSAGES ? &peer->crossing : &peer->clearing) = x;
    SL_TRY(sl_alloc(&x->record, (size_t)n->t->slots, sizeof *x->record));
    for (int direction = 0; direction < 2; direction++) {
        SL_TRY(open_queue(x, direction));
        SL_TRY(open_endpoint(x, direction, c, &ends[direction]));
    }
    return SL_OK;
}

static sl_status open_listener(sl_network *n, const sl_transport_config *c) {
    SL_TRY(sl_listener_open(n->loop, c->key, on_stranger, n, &n->listener));
    for (int i = 0; i < SL_TRANSPORT_RAILS; i++)
        if (n->listening[i] >= 0)
            SL_TRY(sl_listener_listen(n->listener, n->listening[i]));
    return SL_OK;
}

static sl_status start_thread(sl_network *n) {
    int error = sl_thread_start(&n->thread, carry, n);
    if (error)
        return sl_error(SL_ESYS, "rank %d: no network thread: %s", n->t->rank, strerror(error));
    n->running = 1;
    while (sem_wait(&n->started) != 0) {
    }
    return SL_OK;
}

static void end_thread(sl_network *n) {
    if (!n->running)
        return;
    atomic_store(&n->t->closing, 1);
    sl_network_ring(n);
    pthread_join(n->thread, NULL);
    n->running = 0;
}

static const sl_crossing *missing(const sl_network *n) {
    for (int i = 0; i < n->count; i++)
        if (!atomic_load(&n->crossing[i].was_up[OUT]) || !atomic_load(&n->crossing[i].was_up[IN]))
            return &n->crossing[i];
    return NULL;
}

static sl_status await_peers(sl_network *n, sl_time deadline) {
    const sl_crossing *x;
    for (;;) {
        uint32_t seen = atomic_load(&n->changed);
        x = missing(n);
        if (!x) {
            atomic_store(&n->opened, 1);
            return SL_OK;
        }
        if (atomic_load(&x->peer->lost) || sl_now() >= deadline)
            break;
        sl_clock_wait(sl_clock_real(), &n->changed, seen, deadline);
    }
    if (atomic_load(&x->peer->lost))
        return sl_error(SL_EPEER, "link %d -> %d: %s", n->t->rank, x->peer->rank, x->peer->reason);
    end_thread(n); /* then the endpoints can be asked why */
    return sl_error(SL_EPEER, "link %d -> %d: rank %d did not connect in time: %s%s", n->t->rank,
                    x->peer->rank, x->peer->rank,
                    atomic_load(&x->was_up[OUT]) ? "it does not reach us"
                                                 : sl_endpoint_reason(x->endpoint[OUT]),
                    sl_network_strangers(n) ? " (connections of strangers were dropped)" : "");
}

static sl_status open_network(sl_network *n, const sl_transport_config *c) {
    sl_transport *t = n->t;
    SL_TRY(sl_alloc(&n->crossing, 2 * (size_t)t->ranks, sizeof *n->crossing));
    SL_TRY(sl_alloc(&n->end, 4 * (size_t)t->ranks, sizeof *n->end));
    SL_TRY(sl_loop_open(&n->loop));
    n->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (n->event < 0)
        return sl_error_errno(SL_ESYS, "rank %d: the network thread gets no descriptors", t->rank);
    SL_TRY(sl_loop_watch(n->loop, n->event, on_ring, n));
    SL_TRY(open_listener(n, c));
    for (int number = MESSAGES; number <= (c->clears ? CLEARANCES : MESSAGES); number++)
        for (int r = 0; r < t->ranks; r++)
            if (t->peer[r].remote)
                SL_TRY(open_crossing(n, &t->peer[r], number, c));
    return start_thread(n);
}

sl_status sl_network_open(sl_transport *t, const sl_transport_config *c, int *listening, sl_time deadline) {
    SL_TRY(sl_alloc(&t->network, 1, sizeof *t->network));
    sl_network *n = t->network;
    n->t = t;
    n->scheduling = t->scheduling;
    n->event = -1;
    sem_init(&n->started, 0, 0);
    for (int i = 0; i < SL_TRANSPORT_RAILS; i++) {
        n->listening[i] = listening[i];
        listening[i] = -1;
    }
    SL_TRY(open_network(n, c));
    return await_peers(n, deadline);
}

static void close_crossing(sl_crossing *x) {
    for (int direction = 0; direction < 2; direction++) {
        sl_endpoint_close(x->endpoint[direction]);
        sl_free(x->memory[direction]);
    }
    sl_free(x->record);
    x->peer->crossing = x->peer->clearing = NULL;
}

void sl_network_close(sl_network *n) {
    if (!n)
        return;
    end_thread(n);
    for (int i = 0; i < n->count; i++)
        close_crossing(&n->crossing[i]);
    sl_listener_close(n->listener);
    for (int i = 0; i < SL_TRANSPORT_RAILS; i++)
        if (n->listening[i] >= 0)
            close(n->listening[i]);
    sl_loop_close(n->loop);
    if (n->event >= 0)
        close(n->event);
    sem_destroy(&n->started);
    SL_FREE(n->crossing, n->end, n);
}
