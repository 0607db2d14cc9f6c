#include "run/transport/rail.h"
#include "base/memory.h"
#include "run/transport/frame.h"
#include "run/transport/scheduling.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#define BEAT SL_SECOND                /* something is said at least so often */
#define SILENCE (10 * SL_SECOND)      /* after which a peer counts as lost */
#define GOODBYE SL_SECOND             /* for acknowledgements and BYE when closing */
#define ROUND_BYTES ((size_t)1 << 20) /* read from one connection before the others get their turn */

/* A message that is here but not published: `slots` others wait to be taken. */
typedef struct held {
    int32_t slot;
    sl_frame frame;
} held;

typedef struct connection {
    sl_peer *peer;
    int socket;        /* -1: closed */
    int armed;         /* epoll watches for writability too */
    sl_lane_view lane; /* the sender's end of the private lane */
    sl_time heard;     /* 0: nothing yet; the peer may still be waiting for others, so silence does not count
                          before */
    sl_time spoke;
    /* reading */
    uint8_t head_in[SL_FRAME_BYTES];
    size_t head_got, payload_got;
    sl_frame in;
    int32_t slot_in;   /* that the payload goes to; -1: the header is not complete */
    uint64_t expected; /* number of the next DATA */
    held *held;        /* ring of `slots` */
    int held_first, held_count;
    /* writing: one frame at a time */
    uint8_t head_out[SL_FRAME_BYTES];
    const char *payload_out;
    size_t out_bytes, out_done; /* header and payload; out_bytes 0: nothing under way */
    uint64_t next;              /* number of the next DATA */
    sl_frame *ack;              /* ring of `slots`: acknowledgements to be sent */
    int ack_first, ack_count;
    int said_bye, shut;
} connection;

struct sl_rail {
    sl_transport *t;
    connection *connection; /* [count] */
    int count;
    int epoll, event, timer; /* -1: not open */
    pthread_t thread;
    int running;
    sem_t started;
    const char *obtained; /* written by the thread before `started` */
};

void sl_rail_ring(sl_rail *rail) {
    uint64_t one = 1;
    /* fails only when the counter is full, and then the thread is being woken anyway */
    if (write(rail->event, &one, sizeof one) < 0)
        return;
}

const char *sl_rail_scheduling(const sl_rail *rail) {
    return rail->obtained;
}

/* Explicitly out of epoll and shut down: a forked process may hold a copy of the socket, and then close does
 * neither. */
static void hang_up(sl_rail *rail, connection *c) {
    epoll_ctl(rail->epoll, EPOLL_CTL_DEL, c->socket, NULL);
    shutdown(c->socket, SHUT_RDWR);
    close(c->socket);
    c->socket = -1;
}

__attribute__((format(printf, 3, 4))) static void lose(sl_rail *rail, connection *c, const char *format,
                                                       ...) {
    if (c->socket < 0)
        return;
    hang_up(rail, c);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->peer->reason, sizeof c->peer->reason, format, arguments);
    va_end(arguments);
    atomic_store(&c->peer->lost, 1);
    sl_transport_poke(rail->t);
}

/* ---- reading ---- */

static void acknowledge(connection *c, const sl_frame *data, sl_time published, int slots) {
    sl_frame *ack = &c->ack[(c->ack_first + c->ack_count++) % slots];
    *ack = *data;
    ack->kind = SL_FRAME_ACK;
    ack->bytes = 0;
    ack->time = published;
}

static int may_publish(const connection *c, int slots) {
    return c->lane.published - atomic_load(&c->lane.lane->freed) < (uint32_t)slots;
}

/* Publishes held messages, oldest first, while fewer than `slots` wait to be taken. */
static void publish_held(sl_rail *rail, connection *c) {
    int slots = rail->t->slots;
    while (c->held_count > 0) {
        if (!may_publish(c, slots)) {
            atomic_store(&c->lane.lane->wanted,
                         1); /* then look again: the receiver frees first and looks at it next */
            if (!may_publish(c, slots))
                return;
        }
        held *h = &c->held[c->held_first];
        sl_time now = sl_clock_now(rail->t->clock);
        sl_lane_publish(&c->lane, h->slot, now);
        sl_clock_wake(rail->t->clock, &c->lane.lane->bell);
        acknowledge(c, &h->frame, now, slots);
        c->held_first = (c->held_first + 1) % slots;
        c->held_count--;
    }
}

static sl_outgoing *find_in_flight(sl_rail *rail, connection *c, const sl_frame *ack) {
    for (int i = 0; i < rail->t->slots; i++) {
        sl_outgoing *record = &c->peer->outgoing[i];
        if (atomic_load_explicit(&record->state, memory_order_acquire) == SL_OUTGOING_HANDED &&
            record->in_flight && record->sequence == ack->sequence)
            return record->iteration == ack->iteration && record->index == ack->index ? record : NULL;
    }
    return NULL;
}

static void take_ack(sl_rail *rail, connection *c) {
    sl_outgoing *record = find_in_flight(rail, c, &c->in);
    if (!record) {
        lose(rail, c, "rank %d acknowledged a message that was not sent", c->peer->rank);
        return;
    }
    record->sent.arrive = c->in.time;
    sl_peer_done(rail->t, record);
}

static void start_data(sl_rail *rail, connection *c) {
    if (c->in.bytes > rail->t->message_bytes || c->in.sequence != c->expected ||
        c->held_count + c->ack_count >= rail->t->slots || /* more than `slots` unacknowledged */
        (c->slot_in = sl_lane_claim(&c->lane)) < 0) {
        lose(rail, c, "rank %d broke the protocol with message %llu of %llu bytes", c->peer->rank,
             (unsigned long long)c->in.sequence, (unsigned long long)c->in.bytes);
        return;
    }
    sl_slot *slot = sl_lane_slot(&c->lane, (uint32_t)c->slot_in);
    slot->iteration = c->in.iteration;
    slot->index = c->in.index;
    slot->bytes = c->in.bytes;
    c->payload_got = 0;
    c->expected++;
}

static void end_data(sl_rail *rail, connection *c) {
    int slots = rail->t->slots;
    c->held[(c->held_first + c->held_count++) % slots] = (held){.slot = c->slot_in, .frame = c->in};
    c->slot_in = -1;
    c->head_got = 0;
    publish_held(rail, c);
}

static void take_header(sl_rail *rail, connection *c) {
    c->slot_in = -1;
    if (sl_frame_decode(c->head_in, &c->in) != 0) {
        lose(rail, c, "rank %d sent something that is no frame", c->peer->rank);
        return;
    }
    if (c->in.kind == SL_FRAME_DATA) {
        start_data(rail, c);
        return;
    }
    c->head_got = 0;
    if (c->in.kind == SL_FRAME_ACK)
        take_ack(rail, c);
    else if (c->in.kind == SL_FRAME_BYE)
        lose(rail, c, "rank %d has closed its transport", c->peer->rank);
}

/* One recv; the bytes that it got, 0 when there is nothing now or the connection is lost. */
static size_t read_some(sl_rail *rail, connection *c, void *to, size_t bytes) {
    ssize_t n;
    do
        n = recv(c->socket, to, bytes, 0);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        return (size_t)n;
    if (n == 0)
        lose(rail, c, "the connection was closed by rank %d, which may have died", c->peer->rank);
    else if (errno != EAGAIN && errno != EWOULDBLOCK)
        lose(rail, c, "the connection with rank %d is lost: %s", c->peer->rank, strerror(errno));
    return 0;
}

static void read_frames(sl_rail *rail, connection *c) {
    for (size_t total = 0; c->socket >= 0 && total < ROUND_BYTES;) {
        size_t n;
        if (c->head_got < SL_FRAME_BYTES) {
            n = read_some(rail, c, c->head_in + c->head_got, SL_FRAME_BYTES - c->head_got);
            c->head_got += n;
            if (c->head_got == SL_FRAME_BYTES)
                take_header(rail, c);
        } else {
            char *payload = sl_slot_payload(sl_lane_slot(&c->lane, (uint32_t)c->slot_in));
            n = read_some(rail, c, payload + c->payload_got, c->in.bytes - c->payload_got);
            c->payload_got += n;
        }
        if (c->socket >= 0 && c->slot_in >= 0 && c->payload_got == c->in.bytes)
            end_data(rail, c);
        if (n == 0)
            return;
        total += n;
        c->heard = sl_clock_now(rail->t->clock);
    }
}

/* Closing: whatever still comes is read and thrown away, so that the kernel does not reset the connection and
 * with it the acknowledgements that the peer has not read yet. */
static void read_to_the_end(sl_rail *rail, connection *c) {
    char waste[4096];
    ssize_t n;
    while ((n = recv(c->socket, waste, sizeof waste, 0)) > 0) {
    }
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    hang_up(rail, c);
}

/* ---- writing ---- */

static void start_frame(connection *c, const sl_frame *frame, const void *payload) {
    sl_frame_encode(frame, c->head_out);
    c->payload_out = payload;
    c->out_bytes = SL_FRAME_BYTES + frame->bytes;
    c->out_done = 0;
}

/* Writes on. 1: the frame is out; 0: the socket is full, or lost. */
static int write_on(sl_rail *rail, connection *c) {
    while (c->out_done < c->out_bytes) {
        size_t head = c->out_done < SL_FRAME_BYTES ? SL_FRAME_BYTES - c->out_done : 0;
        size_t payload_done = c->out_done > SL_FRAME_BYTES ? c->out_done - SL_FRAME_BYTES : 0;
        struct iovec parts[2];
        size_t count = 0;
        if (head > 0)
            parts[count++] = (struct iovec){.iov_base = c->head_out + c->out_done, .iov_len = head};
        if (payload_done < c->out_bytes - SL_FRAME_BYTES)
            parts[count++] = (struct iovec){.iov_base = (char *)(uintptr_t)c->payload_out + payload_done,
                                            .iov_len = c->out_bytes - SL_FRAME_BYTES - payload_done};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
        ssize_t n = sendmsg(c->socket, &message, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
            lose(rail, c, "the connection with rank %d is lost: %s", c->peer->rank, strerror(errno));
        if (n < 0)
            return 0;
        c->out_done += (size_t)n;
        c->spoke = sl_clock_now(rail->t->clock);
    }
    c->out_bytes = 0;
    return 1;
}

/* The next message whose time has come becomes the frame under way. 0: none. */
static int start_due(sl_rail *rail, connection *c, sl_time *next) {
    sl_outgoing *record = sl_peer_head(c->peer, rail->t->slots);
    if (!record)
        return 0;
    if (record->sent.due > sl_clock_now(rail->t->clock)) {
        *next = record->sent.due;
        return 0;
    }
    record->sequence = c->next++;
    record->in_flight = 1;
    sl_frame frame = {.kind = SL_FRAME_DATA,
                      .iteration = record->iteration,
                      .index = record->index,
                      .bytes = record->bytes,
                      .sequence = record->sequence};
    start_frame(c, &frame, record->data);
    c->peer->published++;
    return 1;
}

static int start_ack(sl_rail *rail, connection *c) {
    if (c->ack_count == 0)
        return 0;
    start_frame(c, &c->ack[c->ack_first], NULL);
    c->ack_first = (c->ack_first + 1) % rail->t->slots;
    c->ack_count--;
    return 1;
}

static int start_beat(sl_rail *rail, connection *c, sl_time *next) {
    sl_time due = c->spoke + BEAT;
    if (due > sl_clock_now(rail->t->clock)) {
        *next = due < *next ? due : *next;
        return 0;
    }
    sl_frame frame = {.kind = SL_FRAME_BEAT};
    start_frame(c, &frame, NULL);
    return 1;
}

static int start_bye(connection *c) {
    sl_frame frame = {.kind = SL_FRAME_BYE};
    if (c->said_bye)
        return 0;
    c->said_bye = 1;
    start_frame(c, &frame, NULL);
    return 1;
}

/* Writes all that can be written; when the next message or beat is due. */
static sl_time write_frames(sl_rail *rail, connection *c, int closing) {
    sl_time next = SL_TIME_NEVER;
    while (c->socket >= 0 && (c->out_bytes == 0 || write_on(rail, c))) {
        next = SL_TIME_NEVER;
        if (start_ack(rail, c))
            continue;
        if (closing ? start_bye(c) : start_due(rail, c, &next) || start_beat(rail, c, &next))
            continue;
        break;
    }
    return next;
}

/* ---- the thread ---- */

static void arm(sl_rail *rail, connection *c) {
    int wanted = c->out_bytes > 0;
    if (c->socket < 0 || wanted == c->armed)
        return;
    struct epoll_event event = {.events = EPOLLIN | (wanted ? (uint32_t)EPOLLOUT : 0u)};
    if (epoll_ctl(rail->epoll, EPOLL_CTL_MOD, c->socket, &event) == 0)
        c->armed = wanted;
    else
        lose(rail, c, "the connection with rank %d cannot be watched: %s", c->peer->rank, strerror(errno));
}

static sl_time serve(sl_rail *rail, connection *c) {
    if (c->socket < 0)
        return SL_TIME_NEVER;
    sl_time next = write_frames(rail, c, 0); /* first what is due, */
    read_frames(rail, c);
    publish_held(rail, c);
    if (c->ack_count > 0)
        next = write_frames(rail, c, 0); /* then what reading has brought */
    sl_time silent = c->heard ? c->heard + SILENCE : SL_TIME_NEVER, now = sl_clock_now(rail->t->clock);
    if (c->socket >= 0 && now >= silent)
        lose(rail, c, "rank %d has been silent for 10 s", c->peer->rank);
    arm(rail, c);
    return c->socket < 0 ? SL_TIME_NEVER : next < silent ? next : silent;
}

/* 1: this connection is closed. */
static int say_goodbye(sl_rail *rail, connection *c) {
    if (c->socket < 0)
        return 1;
    write_frames(rail, c, 1);
    if (c->socket >= 0 && c->said_bye && c->out_bytes == 0 && !c->shut) {
        c->shut = 1;
        shutdown(c->socket, SHUT_WR);
    }
    if (c->socket >= 0)
        read_to_the_end(rail, c);
    arm(rail, c);
    return c->socket < 0;
}

/* Sleeps until there is news of any kind or `until` has come. */
static void sleep_until(sl_rail *rail, sl_time until) {
    struct itimerspec when = {0};
    struct epoll_event event;
    uint64_t ignored;
    if (until != SL_TIME_NEVER) {
        when.it_value.tv_sec = until / SL_SECOND;
        when.it_value.tv_nsec = until % SL_SECOND;
        if (until <= 0)
            when.it_value.tv_nsec = 1; /* 0 would disarm */
    }
    timerfd_settime(rail->timer, TFD_TIMER_ABSTIME, &when, NULL);
    epoll_wait(rail->epoll, &event, 1, -1);                  /* which one does not matter: all are served */
    ssize_t n = read(rail->event, &ignored, sizeof ignored); /* both only to make them quiet again */
    n = read(rail->timer, &ignored, sizeof ignored);
    (void)n;
}

static void *carry(void *object) {
    sl_rail *rail = object;
    rail->obtained = sl_scheduling_obtain(rail->t->scheduling);
    sem_post(&rail->started);
    while (!atomic_load(&rail->t->closing)) {
        sl_time next = SL_TIME_NEVER;
        for (int i = 0; i < rail->count; i++) {
            sl_time due = serve(rail, &rail->connection[i]);
            next = due < next ? due : next;
        }
        sleep_until(rail, next);
    }
    sl_time deadline = sl_clock_now(rail->t->clock) + GOODBYE;
    for (;;) {
        int closed = 0;
        for (int i = 0; i < rail->count; i++)
            closed += say_goodbye(rail, &rail->connection[i]);
        if (closed == rail->count || sl_clock_now(rail->t->clock) >= deadline)
            return NULL;
        sleep_until(rail, deadline);
    }
}

/* ---- opening and closing ---- */

static sl_status open_connection(sl_rail *rail, sl_peer *peer, int *socket) {
    sl_transport *t = rail->t;
    connection *c = &rail->connection[rail->count++];
    c->peer = peer;
    c->socket = *socket;
    *socket = -1;
    c->slot_in = -1;
    c->spoke = sl_clock_now(t->clock) - BEAT; /* says "alive" at once */
    char *towards;
    SL_TRY(sl_alloc(&c->held, (size_t)t->slots, sizeof *c->held));
    SL_TRY(sl_alloc(&c->ack, (size_t)t->slots, sizeof *c->ack));
    SL_TRY(sl_alloc(&towards, (size_t)t->ranks, 1));
    towards[t->rank] = 1;
    sl_status status =
        sl_region_alloc(peer->rank, t->ranks, 2 * t->slots, t->message_bytes, towards, &peer->region);
    sl_free(towards);
    SL_TRY(status);
    SL_TRY(sl_lane_open(peer->region, t->rank, &peer->in));
    SL_TRY(sl_lane_open(peer->region, t->rank, &c->lane));
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_ctl(rail->epoll, EPOLL_CTL_ADD, c->socket, &event) != 0)
        return sl_error_errno(SL_ESYS, "link %d -> %d: the connection cannot be watched", t->rank,
                              peer->rank);
    return SL_OK;
}

static sl_status open_descriptors(sl_rail *rail) {
    struct epoll_event event = {.events = EPOLLIN};
    rail->epoll = epoll_create1(EPOLL_CLOEXEC);
    rail->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    rail->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (rail->epoll < 0 || rail->event < 0 || rail->timer < 0 ||
        epoll_ctl(rail->epoll, EPOLL_CTL_ADD, rail->event, &event) != 0 ||
        epoll_ctl(rail->epoll, EPOLL_CTL_ADD, rail->timer, &event) != 0)
        return sl_error_errno(SL_ESYS, "rank %d: the network thread gets no descriptors", rail->t->rank);
    return SL_OK;
}

static sl_status start_thread(sl_rail *rail) {
    sigset_t all, before;
    sigfillset(&all); /* signals of the run are its main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&rail->thread, NULL, carry, rail);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return sl_error(SL_ESYS, "rank %d: no network thread: %s", rail->t->rank, strerror(error));
    rail->running = 1;
    while (sem_wait(&rail->started) != 0) {
    }
    return SL_OK;
}

static sl_status open_rail(sl_rail *rail, int *connections) {
    sl_transport *t = rail->t;
    SL_TRY(sl_alloc(&rail->connection, (size_t)t->ranks, sizeof *rail->connection));
    SL_TRY(open_descriptors(rail));
    for (int r = 0; r < t->ranks; r++)
        if (connections[r] >= 0)
            SL_TRY(open_connection(rail, &t->peer[r], &connections[r]));
    return start_thread(rail);
}

sl_status sl_rail_open(sl_transport *t, int *connections) {
    sl_status status = sl_alloc(&t->rail, 1, sizeof *t->rail);
    if (status == SL_OK) {
        t->rail->t = t;
        t->rail->epoll = t->rail->event = t->rail->timer = -1;
        sem_init(&t->rail->started, 0, 0);
        status = open_rail(t->rail, connections);
    }
    for (int r = 0; r < t->ranks; r++)
        if (connections[r] >= 0) { /* not taken over because something failed before */
            close(connections[r]);
            connections[r] = -1;
        }
    return status;
}

static void close_descriptor(int descriptor) {
    if (descriptor >= 0)
        close(descriptor);
}

void sl_rail_close(sl_rail *rail) {
    if (!rail)
        return;
    if (rail->running) {
        sl_rail_ring(rail);
        pthread_join(rail->thread, NULL);
    }
    for (int i = 0; i < rail->count; i++) {
        connection *c = &rail->connection[i];
        close_descriptor(c->socket);
        sl_lane_close(&c->lane);
        sl_free(c->held);
        sl_free(c->ack);
    }
    close_descriptor(rail->epoll);
    close_descriptor(rail->event);
    close_descriptor(rail->timer);
    sem_destroy(&rail->started);
    sl_free(rail->connection);
    sl_free(rail);
}
