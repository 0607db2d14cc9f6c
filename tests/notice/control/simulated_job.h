/* A simulated job under the gate: virtual time, one seed. The gate's and the cut's own code run; the
 * communication library and the program are small models written here. The program is a projection of one
 * global sequence of events, so it cannot deadlock by itself, and mixes collectives on overlapping
 * communicators, messages with any tags (sends that wait for their receiver and sends that do not),
 * nonblocking calls with Wait and Test loops, wildcard receives, threads, forbidden regions and collectives
 * that only a device waits in. What each thread received is hashed; a held run must give the hash of the free
 * run. */
#ifndef SL_TESTS_SIMULATED_JOB_H
#define SL_TESTS_SIMULATED_JOB_H

#include "base/random.h"
#include "notice/control/hold_cut.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 5
#define PROCS (2 * RANKS) /* threads of all ranks */
#define COMMS 6
#define OPS 900 /* of one thread */
#define EVENTS 400
#define REQUESTS 4000

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define S INT64_C(1000000000)

typedef enum {
    COMPUTE,
    COLLECTIVE,
    ICOLLECTIVE,
    SEND,
    ISEND,
    RECV,
    IRECV,
    SENDRECV,
    WAIT,
    TEST,
    FORBID,
    ALLOW,
    ENQUEUE,
    SYNC
} op_kind;

typedef struct {
    op_kind kind;
    int position, sub;
    int communicator, rooted, root; /* collectives */
    int source, destination, tag;   /* ranks; of the receive: -1 any */
    int sync;                       /* the send waits for its receiver */
    int payload;
    int request, request2; /* request2: the send of SENDRECV */
    int wild_group;        /* payloads of a group may come in any order */
    int source2, destination2, tag2;
} op;

typedef enum { RUN, PARKED, BLOCKED, DONE } proc_state;

typedef struct {
    int rank, ops, at, announced;
    op list[OPS];
    proc_state state;
    int64_t next;
    sl_gate_caller caller;
    uint64_t hash, wild_sum;
    uint64_t made;
    int computing; /* was in its own code when the cut closed */
} proc;

typedef struct {
    int used, complete, receive, wild, collective, instance, counted, payload, source, communicator, tag;
    int match_source, match_tag, destination, sync;
    int64_t at; /* when complete */
    sl_gate_channel *channel;
    uint64_t number;
} request;

typedef struct {
    int members, device;
    int member[PROCS]; /* procs */
    int calls[PROCS];
    int arrived[EVENTS];
    int root_here[EVENTS];
} communicator;

typedef struct {
    int naive;         /* maximum of the counters alone: the first targets never rise */
    int kill;          /* the controller dies in the middle of the hold */
    int64_t hold_from; /* first hold, 0: none */
    int holds;
    int64_t limit;
} plan;

typedef struct {
    int holds, closed, released, killed, ended; /* ended: the program was over before */
    int64_t longest;                            /* to closure */
    int failed;
    char why[200];
    uint64_t hash;
    int64_t time;
} outcome;

typedef struct {
    uint64_t random;
    int64_t now;
    int ranks, procs, comms;
    proc proc[PROCS];
    communicator comm[COMMS];
    request request[REQUESTS];
    int requests;
    int send_queue[REQUESTS], sends, recv_queue[REQUESTS], recvs;
    sl_gate gate[RANKS];
    sl_gate_view view[RANKS];
    outcome out;
    uint64_t last_number[RANKS][SL_GATE_CHANNELS];
    int frozen; /* closed: no call may be made */
} job;

static inline uint64_t draw(job *j) {
    j->random += SL_RANDOM_STEP;
    return sl_random_mix(j->random);
}

static inline int below(job *j, int n) {
    return (int)(draw(j) % (uint64_t)n);
}

static inline void fail_job(job *j, const char *why) {
    if (!j->out.failed)
        snprintf(j->out.why, sizeof j->out.why, "%s", why);
    j->out.failed = 1;
}

/* ---- the program ---- */

static inline op *add_op(job *j, int p, op_kind kind, int position, int sub) {
    proc *own = &j->proc[p];
    if (own->ops == OPS)
        abort();
    op *o = &own->list[own->ops++];
    *o = (op){.kind = kind, .position = position, .sub = sub, .request = -1, .request2 = -1};
    return o;
}

static inline int new_request(job *j) {
    if (j->requests == REQUESTS)
        abort();
    return j->requests++;
}

static inline int thread_tag(const job *j, int class, int from, int to) {
    (void)j;
    return class + 16 * (from & 1) + 32 * (to & 1);
}

static inline void add_wait(job *j, int p, int r, int position, int sub) {
    add_op(j, p, below(j, 3) == 0 ? TEST : WAIT, position, sub)->request = r;
}

typedef struct {
    int prepost, eager, wait;
} offsets;

static inline op message(int comm, int source, int destination, int tag, int payload) {
    return (op){
        .communicator = comm, .source = source, .destination = destination, .tag = tag, .payload = payload};
}

static inline op *add_message(job *j, int p, op_kind kind, int position, int sub, op m) {
    op *o = add_op(j, p, kind, position, sub);
    *o = m;
    o->kind = kind;
    o->position = position;
    o->sub = sub;
    o->request = new_request(j);
    o->request2 = -1;
    return o;
}

static inline void point_event(job *j, int e, offsets by) {
    int a = below(j, j->procs), b;
    do
        b = below(j, j->procs);
    while (j->proc[b].rank == j->proc[a].rank);
    int class = below(j, 5), tag = thread_tag(j, class, a, b);
    op m = message(100, j->proc[a].rank, j->proc[b].rank, tag, e + 1);
    op *o;
    switch (class) {
    case 0: /* both at the event; the sender may wait */
        add_message(j, a, SEND, e, 0, m)->sync = below(j, 2);
        add_message(j, b, RECV, e, 0, m);
        break;
    case 1: /* received much later: one message is always under way */
        add_message(j, a, SEND, e, 0, m);
        add_message(j, b, RECV, e + by.eager, 1, m);
        break;
    case 2: /* posted long before */
        o = add_message(j, b, IRECV, e, 0, m);
        add_wait(j, b, o->request, e + 2 * by.prepost, 2);
        add_message(j, a, SEND, e + by.prepost, 3, m)->sync = below(j, 2);
        break;
    case 3: /* both nonblocking */
        o = add_message(j, a, ISEND, e, 0, m);
        o->sync = below(j, 2);
        add_wait(j, a, o->request, e + by.wait, 4);
        o = add_message(j, b, IRECV, e, 0, m);
        add_wait(j, b, o->request, e + by.wait, 5);
        break;
    default: { /* an exchange: Sendrecv on both sides */
        int back = thread_tag(j, class, b, a);
        o = add_message(j, a, SENDRECV, e, 0, message(100, m.destination, m.source, back, 2 * e + 1));
        o->request2 = new_request(j);
        o->source2 = m.source, o->destination2 = m.destination, o->tag2 = tag;
        o = add_message(j, b, SENDRECV, e, 0, m);
        o->request2 = new_request(j);
        o->source2 = m.destination, o->destination2 = m.source, o->tag2 = back;
    }
    }
}

static inline void wild_event(job *j, int e, offsets by) {
    int r = below(j, j->procs), to = j->proc[r].rank, later = below(j, 2), senders = 0;
    for (int p = 0; p < j->procs; p++)
        if (j->proc[p].rank != to && below(j, 2)) {
            add_message(j, p, SEND, e, 0, message(100, j->proc[p].rank, to, 1000 + e, 10 * e + p))->sync =
                below(j, 2);
            senders++;
        }
    for (int i = 0; i < senders; i++) {
        op *o = add_message(j, r, later ? IRECV : RECV, e, i, message(100, -1, to, 1000 + e, 0));
        o->wild_group = 1;
        if (later)
            add_wait(j, r, o->request, e + by.wait, 20 + i);
    }
    if (below(j, 4) == 0) { /* a known sender, any tag, on a communicator of its own */
        int s;
        do
            s = below(j, j->procs);
        while (j->proc[s].rank == to);
        int own = 2000 + e;
        add_message(j, s, SEND, e, 30, message(own, j->proc[s].rank, to, below(j, 100), 7 * e))->sync =
            below(j, 2);
        add_message(j, r, RECV, e, 30, message(own, j->proc[s].rank, to, -1, 0));
    }
}

static inline void collective_event(job *j, int e, offsets by) {
    int c = below(j, j->comms), rooted = below(j, 3) == 0, later = below(j, 4) == 0;
    communicator *comm = &j->comm[c];
    int root = comm->member[below(j, comm->members)];
    for (int i = 0; i < comm->members; i++) {
        int p = comm->member[i];
        op_kind kind = comm->device ? ENQUEUE : later ? ICOLLECTIVE : COLLECTIVE;
        op *o = add_op(j, p, kind, e, 0);
        o->communicator = c;
        o->rooted = rooted && kind == COLLECTIVE;
        o->root = root;
        o->request = new_request(j);
        if (kind == ICOLLECTIVE)
            add_wait(j, p, o->request, e + by.wait, 6);
        if (kind == ENQUEUE && below(j, 3) == 0)
            add_op(j, p, SYNC, e + 1, 7);
    }
}

static inline int op_order(const void *a, const void *b) {
    const op *x = a, *y = b;
    return x->position != y->position ? x->position - y->position : x->sub - y->sub;
}

static inline void make_program(job *j) {
    j->ranks = 2 + below(j, RANKS - 1);
    int threads = 1 + (below(j, 3) == 0);
    j->procs = j->ranks * threads;
    for (int p = 0; p < j->procs; p++) {
        j->proc[p].rank = p / threads;
        j->proc[p].ops = 0;
    }
    j->comms = 2 + below(j, COMMS - 1);
    for (int c = 0; c < j->comms; c++) {
        communicator *comm = &j->comm[c];
        memset(comm, 0, sizeof *comm);
        comm->device = below(j, 4) == 0;
        for (int r = 0; r < j->ranks; r++)
            if (below(j, 3) || r - comm->members >= j->ranks - 2) /* at least two; spanning all is rare */
                comm->member[comm->members++] = r * threads + below(j, threads);
    }
    offsets by = {1 + below(j, 12), 1 + below(j, 12), 1 + below(j, 8)};
    int events = 40 + below(j, 120);
    for (int e = 0; e < events; e++) {
        int p = below(j, j->procs);
        if (below(j, 12) == 0) {
            add_op(j, p, FORBID, e, -2);
            add_op(j, p, ALLOW, e + 1 + below(j, 2), -3);
        }
        int what = below(j, 10);
        if (what < 4)
            collective_event(j, e, by);
        else if (what < 9)
            point_event(j, e, by);
        else
            wild_event(j, e, by);
    }
    for (int p = 0; p < j->procs; p++)
        qsort(j->proc[p].list, (size_t)j->proc[p].ops, sizeof(op), op_order);
}

/* ---- the communication library ---- */

static inline int fits(const request *send, const request *recv) {
    return send->communicator == recv->communicator && send->destination == recv->destination &&
           (recv->match_source < 0 || recv->match_source == send->source) &&
           (recv->match_tag < 0 || recv->match_tag == send->tag);
}

static inline void deliver(job *j, request *send, request *recv) {
    recv->payload = send->payload;
    recv->source = send->source;
    recv->tag = send->tag;
    recv->at = j->now + 1 + below(j, below(j, 20) ? 10000 : 2 * (int)MS); /* now and then a slow one */
    recv->complete = 1;
    if (!send->complete) {
        send->complete = 1;
        send->at = recv->at;
    }
}

static inline void post(job *j, int id) {
    request *own = &j->request[id];
    int *others = own->receive ? j->send_queue : j->recv_queue, *count = own->receive ? &j->sends : &j->recvs;
    if (!own->receive && !own->sync) {
        own->complete = 1;
        own->at = j->now;
    }
    for (int i = 0; i < *count; i++) {
        request *other = &j->request[others[i]];
        if (!(own->receive ? fits(other, own) : fits(own, other)))
            continue;
        deliver(j, own->receive ? other : own, own->receive ? own : other);
        memmove(others + i, others + i + 1, (size_t)(--*count - i) * sizeof *others);
        return;
    }
    if (own->receive)
        j->recv_queue[j->recvs++] = id;
    else
        j->send_queue[j->sends++] = id;
}

static inline int finished_request(job *j, int id) {
    request *own = &j->request[id];
    if (own->collective) {
        communicator *comm = &j->comm[own->communicator];
        own->complete = comm->arrived[own->instance] == comm->members ||
                        (own->match_tag && comm->root_here[own->instance]);
        return own->complete;
    }
    return own->complete && own->at <= j->now;
}

/* ---- what the shim does: names, numbers, the gate ---- */

static inline sl_gate_channel *channel_of(job *j, int rank, uint32_t kind, int comm, int source,
                                          int destination, int tag) {
    sl_channel_key key = {.communicator = (uint64_t)comm + 1,
                          .source = source,
                          .destination = destination,
                          .tag = tag,
                          .kind = kind};
    sl_gate_channel *c = sl_gate_channel_of(&j->gate[rank], &key);
    if (!c)
        fail_job(j, "a channel table is full");
    return c;
}

static inline sl_gate_channel *local_of(job *j, int p) {
    int rank = j->proc[p].rank;
    return channel_of(j, rank, SL_CHANNEL_LOCAL, 0, -1, rank, p);
}

static inline sl_gate_channel *message_channel(job *j, int rank, int comm, int source, int destination,
                                               int tag) {
    int wild = source < 0 || tag < 0;
    return channel_of(j, rank, wild ? SL_CHANNEL_WILD : SL_CHANNEL_POINT, comm, source, destination, tag);
}

static inline uint64_t announce(job *j, int p, sl_gate_channel *channel) {
    proc *own = &j->proc[p];
    uint64_t number = sl_gate_announce(&own->caller, channel);
    uint64_t *last = &j->last_number[own->rank][channel - j->gate[own->rank].channel];
    if (number != *last + 1)
        fail_job(j, "the order of a channel has changed");
    *last = number;
    return number;
}

static inline void set_message(job *j, int id, int receive, const op *o, sl_gate_channel *channel,
                               uint64_t number) {
    request *own = &j->request[id];
    *own = (request){.used = 1,
                     .receive = receive,
                     .communicator = o->communicator,
                     .destination = o->destination,
                     .source = o->source,
                     .tag = o->tag,
                     .match_source = o->source,
                     .match_tag = o->tag,
                     .payload = o->payload,
                     .sync = o->sync,
                     .channel = channel,
                     .number = number,
                     .wild = receive && (o->source < 0 || o->tag < 0)};
}

/* Announces what the op will do; the mode in which it then passes. */
static inline sl_gate_mode announce_op(job *j, int p, const op *o) {
    proc *own = &j->proc[p];
    sl_gate_channel *c;
    switch (o->kind) {
    case COLLECTIVE:
    case ICOLLECTIVE:
    case ENQUEUE:
        c = channel_of(j, own->rank, SL_CHANNEL_COLLECTIVE, o->communicator, -1, -1, -1);
        j->request[o->request] = (request){.used = 1,
                                           .collective = 1,
                                           .communicator = o->communicator,
                                           .channel = c,
                                           .number = announce(j, p, c),
                                           .match_tag = o->rooted};
        return o->kind == COLLECTIVE    ? SL_GATE_BLOCK
               : o->kind == ICOLLECTIVE ? SL_GATE_POST
                                        : SL_GATE_ENQUEUE;
    case SEND:
    case ISEND:
    case RECV:
    case IRECV: {
        int receive = o->kind == RECV || o->kind == IRECV;
        c = message_channel(j, own->rank, o->communicator, o->source, o->destination, o->tag);
        set_message(j, o->request, receive, o, c, announce(j, p, c));
        return o->kind == SEND || o->kind == RECV ? SL_GATE_BLOCK : SL_GATE_POST;
    }
    case SENDRECV: {
        op send = message(o->communicator, o->source2, o->destination2, o->tag2, o->payload * 3);
        send.sync = 1;
        c = message_channel(j, own->rank, 100, send.source, send.destination, send.tag);
        set_message(j, o->request2, 0, &send, c, announce(j, p, c));
        c = message_channel(j, own->rank, 100, o->source, o->destination, o->tag);
        set_message(j, o->request, 1, o, c, announce(j, p, c));
        return SL_GATE_BLOCK;
    }
    case WAIT:
    case TEST:
        announce(j, p, local_of(j, p));
        if (!finished_request(j, o->request))
            sl_gate_need(&own->caller, j->request[o->request].channel, j->request[o->request].number);
        return o->kind == WAIT ? SL_GATE_BLOCK : SL_GATE_POST;
    case FORBID:
        announce(j, p, local_of(j, p));
        return SL_GATE_POST;
    default:
        return SL_GATE_POST;
    }
}

/* The library call itself, once it has passed. */
static inline void make_call(job *j, int p, const op *o) {
    proc *own = &j->proc[p];
    own->made++;
    /* A second thread that was computing may make a call within the cut, which its partners have made
     * already. */
    if (j->frozen && !own->computing)
        fail_job(j, "a call was made after the cut had closed");
    if (o->kind == COLLECTIVE || o->kind == ICOLLECTIVE || o->kind == ENQUEUE) {
        communicator *comm = &j->comm[o->communicator];
        int k = j->request[o->request].instance = comm->calls[p]++;
        comm->arrived[k]++;
        comm->root_here[k] |= o->root == p;
    }
    if (o->kind == SENDRECV)
        post(j, o->request2);
    if (o->kind == SEND || o->kind == ISEND || o->kind == RECV || o->kind == IRECV || o->kind == SENDRECV) {
        if (j->request[o->request].wild)
            sl_gate_wild_posted(&j->gate[own->rank]);
        post(j, o->request);
    }
}

static inline int call_returned(job *j, const op *o) {
    switch (o->kind) {
    case COLLECTIVE:
    case SEND:
    case RECV:
    case WAIT:
        return finished_request(j, o->request);
    case SENDRECV:
        return finished_request(j, o->request) && finished_request(j, o->request2);
    default:
        return 1;
    }
}

static inline void take(job *j, int p, const op *o) {
    proc *own = &j->proc[p];
    request *r = &j->request[o->request];
    if (!r->receive || r->counted)
        return;
    r->counted = 1;
    if (r->wild)
        sl_gate_wild_matched(
            &j->gate[own->rank], r->channel,
            message_channel(j, own->rank, r->communicator, r->source, r->destination, r->tag));
    if (r->wild) { /* the wildcard's message counts on its channel; keep the check of the order in step */
        sl_gate_channel *c =
            message_channel(j, own->rank, r->communicator, r->source, r->destination, r->tag);
        j->last_number[own->rank][c - j->gate[own->rank].channel]++;
    }
    if (r->wild && r->match_source < 0)
        own->wild_sum += sl_random_mix((uint64_t)r->payload);
    else
        own->hash = sl_random_mix(own->hash ^ (uint64_t)r->payload);
}

/* Whether a device is done with all that this thread has enqueued. */
static inline int stream_done(const job *j, int p) {
    for (int c = 0; c < j->comms; c++)
        for (int k = 0; j->comm[c].device && k < j->comm[c].calls[p]; k++)
            if (j->comm[c].arrived[k] < j->comm[c].members)
                return 0;
    return 1;
}

static inline int device_done(const job *j, int rank) {
    for (int p = 0; p < j->procs; p++)
        if (j->proc[p].rank == rank && !stream_done(j, p))
            return 0;
    return 1;
}

/* ---- time ---- */

static inline void end_op(job *j, int p, const op *o) {
    proc *own = &j->proc[p];
    if (o->kind == COLLECTIVE || o->kind == RECV || o->kind == SENDRECV || o->kind == WAIT)
        take(j, p, o);
    if (o->kind != SYNC && o->kind != ALLOW)
        sl_gate_leave(&own->caller);
    if (o->kind == FORBID)
        sl_gate_forbid(&own->caller, NULL);
    if (o->kind == ALLOW)
        sl_gate_allow(&own->caller);
    own->state = RUN;
    own->announced = 0;
    own->next = j->now + 100 + below(j, 20 * (int)US);
    if (below(j, 20) == 0)
        own->next += below(j, 500 * (int)US);
    if (o->kind == TEST) {
        if (!finished_request(j, o->request))
            return; /* and again */
        take(j, p, o);
    }
    if (++own->at < own->ops)
        return;
    while (own->caller.forbidden)
        sl_gate_allow(&own->caller);
    own->state = DONE;
    sl_gate_part(&own->caller);
    for (int q = 0; q < j->procs; q++)
        if (j->proc[q].rank == own->rank && j->proc[q].state != DONE)
            return;
    sl_gate_finish(&j->gate[own->rank]);
}

static inline void poll_drained(job *j, int rank) { /* as a parked thread does */
    sl_gate *gate = &j->gate[rank];
    if (device_done(j, rank))
        atomic_store(&gate->drained, atomic_load(&gate->enqueued));
}

static inline void act(job *j, int p) {
    proc *own = &j->proc[p];
    const op *o = &own->list[own->at];
    if (o->kind == SYNC) {
        if (stream_done(j, p))
            end_op(j, p, o);
        else
            own->state = BLOCKED;
        return;
    }
    if (o->kind == ALLOW) {
        end_op(j, p, o);
        return;
    }
    if (!own->announced) {
        own->announced = 1 + (int)announce_op(j, p, o);
        if (own->state == RUN && below(j, 2)) { /* others may act between the announcement and the look */
            own->next = j->now + below(j, 3000);
            return;
        }
    }
    if (!sl_gate_try(&own->caller, (sl_gate_mode)(own->announced - 1), j->now)) {
        own->state = PARKED;
        own->next = atomic_load(&j->gate[own->rank].deadline);
        poll_drained(j, own->rank);
        return;
    }
    make_call(j, p, o);
    if (call_returned(j, o))
        end_op(j, p, o);
    else
        own->state = BLOCKED;
}

/* Blocked threads return when they can; a matched message takes its time. */
static inline void unblock(job *j) {
    for (int p = 0; p < j->procs; p++) {
        proc *own = &j->proc[p];
        if (own->state == PARKED)
            poll_drained(j, own->rank);
        if (own->state != BLOCKED)
            continue;
        const op *o = &own->list[own->at];
        if (o->kind == SYNC ? stream_done(j, p) : call_returned(j, o))
            end_op(j, p, o);
    }
}

static inline int64_t next_arrival(const job *j) {
    int64_t next = INT64_MAX;
    for (int p = 0; p < j->procs; p++) {
        if (j->proc[p].state != BLOCKED)
            continue;
        const op *o = &j->proc[p].list[j->proc[p].at];
        for (int i = 0; i < 2; i++) {
            int id = i ? o->request2 : o->request;
            if (id >= 0 && j->request[id].complete && j->request[id].at > j->now && j->request[id].at < next)
                next = j->request[id].at;
        }
    }
    return next;
}

/* The controller: every action is an event of its own, so ranks are held, seen and raised at different times.
 */
typedef struct {
    int active, phase, rank, closed, steps, dead;
    size_t raise, raises;
    const sl_cut_raise *list;
    int64_t next, began;
    sl_cut *cut;
    uint32_t number;
} controller;

static inline void end_hold(job *j, controller *c) {
    j->frozen = 0;
    for (int r = 0; r < j->ranks && !c->dead; r++)
        sl_gate_release(&j->gate[r]);
    sl_cut_destroy(c->cut);
    c->cut = NULL;
    c->active = 0;
    for (int p = 0; p < j->procs; p++)
        if (j->proc[p].state == PARKED && !c->dead)
            j->proc[p].next = j->now + below(j, (int)(20 * US));
}

/* What a closed cut promises, looked up in the model rather than in the views. */
static inline void check_closed(job *j) {
    for (int p = 0; p < j->procs; p++) {
        proc *own = &j->proc[p];
        if (!j->frozen)
            own->computing = own->state == RUN && j->procs > j->ranks;
        const op *o = &own->list[own->at];
        /* Such a call may have been made since the last look, and has only to return. */
        if (own->state != BLOCKED ||
            (j->procs > j->ranks && o->request >= 0 && j->request[o->request].complete))
            continue;
        if (o->kind == RECV && j->request[o->request].wild && j->request[o->request].complete)
            fail_job(j, "closed, and a message for a wildcard is under way");
        if (o->kind == COLLECTIVE || o->kind == SENDRECV || o->kind == SYNC || o->kind == SEND)
            fail_job(j, "closed, and a thread is in a call that others owe");
        if ((o->kind == RECV || o->kind == WAIT) && !j->request[o->request].wild &&
            !atomic_load(&j->gate[own->rank].wild))
            fail_job(j, "closed, and a thread waits for a known sender");
    }
    for (int c = 0; c < j->comms; c++)
        for (int i = 0; i < j->comm[c].members; i++) {
            int calls = j->comm[c].calls[j->comm[c].member[i]];
            if (j->comm[c].device && calls != j->comm[c].calls[j->comm[c].member[0]])
                fail_job(j, "closed, and a device waits for another");
        }
}

static inline void step_controller(job *j, controller *c, const plan *how) {
    c->next = j->now + 1 + below(j, (int)(20 * US));
    if (c->phase == 0) { /* hold */
        if (c->rank == 0)
            c->number++;
        sl_gate_hold(&j->gate[c->rank], c->number, j->now + SL_GATE_DEADLINE);
        if (++c->rank == j->ranks) {
            c->phase = 1;
            c->rank = 0;
        }
    } else if (c->phase == 1) { /* look */
        sl_gate_look(&j->gate[c->rank], &j->view[c->rank]);
        if (++c->rank == j->ranks) {
            c->phase = 2;
            c->rank = 0;
        }
    } else if (c->phase == 2) {
        const sl_gate_view *views[RANKS];
        int ended = 1;
        for (int r = 0; r < j->ranks; r++) {
            views[r] = &j->view[r];
            ended &= views[r]->finished;
        }
        sl_cut_verdict verdict;
        if (sl_cut_step(c->cut, views, j->now, &verdict, &c->list, &c->raises) != SL_OK) {
            fail_job(j, sl_error_text());
            return;
        }
        c->steps++;
        c->raise = 0;
        c->phase = 3;
        if (how->naive && c->steps > 1)
            c->raises = 0;
        if (verdict == SL_CUT_CLOSED) {
            j->out.closed++;
            j->out.ended += ended;
            if (j->now - c->began > j->out.longest)
                j->out.longest = j->now - c->began;
            check_closed(j);
            j->frozen = 1; /* until the release, when it is looked at again */
            c->phase = 4;
            c->next = j->now + below(j, (int)MS);
        } else if (verdict == SL_CUT_RELEASE) {
            j->out.released++;
            snprintf(j->out.why, sizeof j->out.why, "%s", sl_cut_reason(c->cut));
            end_hold(j, c);
        }
    } else if (c->phase == 3) { /* raise */
        if (c->raise == c->raises) {
            c->phase = 1;
            return;
        }
        const sl_cut_raise *raise = &c->list[c->raise++];
        sl_gate_raise(&j->gate[raise->rank], &raise->key, raise->target);
        sl_gate_wake(&j->gate[raise->rank]);
        c->next = j->now + 1 + below(j, 500);
        for (int p = 0; p < j->procs; p++)
            if (j->proc[p].state == PARKED && j->proc[p].rank == raise->rank)
                j->proc[p].next = j->now + below(j, (int)((below(j, 10) ? 5 : 500) * US));
    } else {
        check_closed(j);
        end_hold(j, c);
    }
    if (how->kill && c->active && below(j, 60) == 0) {
        c->dead = 1;
        j->out.killed++;
        end_hold(j, c);
    }
}

static inline void reset_job(job *j, uint64_t seed) {
    memset(&j->out, 0, sizeof j->out);
    j->random = seed * UINT64_C(0xd1342543de82ef95) + 1;
    j->now = 0;
    j->requests = j->sends = j->recvs = j->frozen = 0;
    make_program(j);
    for (int r = 0; r < j->ranks; r++) {
        sl_gate *gate = &j->gate[r];
        uint32_t used = atomic_load(&gate->channels);
        memset(gate->channel, 0, used * sizeof gate->channel[0]);
        memset(j->last_number[r], 0, used * sizeof j->last_number[r][0]);
        memset(gate->thread, 0, 2 * sizeof gate->thread[0]);
        memset(gate, 0, offsetof(sl_gate, channel));
        sl_gate_init(gate, r, NULL);
    }
    memset(j->request, 0, (size_t)j->requests * sizeof j->request[0]);
    for (int p = 0; p < j->procs; p++) {
        proc *own = &j->proc[p];
        own->at = own->announced = 0;
        own->hash = own->wild_sum = own->made = 0;
        own->computing = 0;
        own->next = below(j, 1000);
        own->state = RUN;
        sl_gate_join(&own->caller, &j->gate[own->rank], NULL);
        if (own->ops == 0)
            add_op(j, p, ALLOW, 0, 0);
        for (int i = 0; i < own->ops; i++) /* communicators with any tag are made at the start */
            if (own->list[i].communicator >= 2000)
                channel_of(j, own->rank, SL_CHANNEL_COLLECTIVE, own->list[i].communicator, -1, -1, -1);
        channel_of(j, own->rank, SL_CHANNEL_COLLECTIVE, 100, -1, -1, -1);
    }
    for (int c = 0; c < j->comms; c++)
        for (int i = 0; i < j->comm[c].members; i++)
            channel_of(j, j->proc[j->comm[c].member[i]].rank, SL_CHANNEL_COLLECTIVE, c, -1, -1, -1);
}

/* Runs the program of `seed` under `how`. */
static inline outcome run_job(job *j, uint64_t seed, plan how) {
    reset_job(j, seed);
    controller c = {.next = how.holds ? how.hold_from : INT64_MAX};
    int left = how.holds;
    for (;;) {
        int who = -2, done = 1;
        int64_t next = INT64_MAX;
        for (int p = 0; p < j->procs; p++) {
            done &= j->proc[p].state == DONE;
            if ((j->proc[p].state == RUN || j->proc[p].state == PARKED) && j->proc[p].next < next) {
                next = j->proc[p].next;
                who = p;
            }
        }
        if (done || j->out.failed)
            break;
        int64_t arrival = next_arrival(j);
        if (arrival < next) {
            next = arrival;
            who = -1;
        }
        if ((c.active || left) && !c.dead && c.next < next) {
            next = c.next;
            who = PROCS;
        }
        if (who == -2) {
            fail_job(j, "deadlock");
            break;
        }
        if (next > j->now)
            j->now = next;
        if (who == PROCS && !c.active) {
            if (sl_cut_create(&c.cut, j->ranks, (sl_cut_limits){.time = how.limit}) != SL_OK)
                abort();
            c.active = 1;
            c.phase = c.rank = c.steps = 0;
            c.began = j->now;
            left--;
            j->out.holds++;
        }
        if (who == PROCS) {
            step_controller(j, &c, &how);
            if (!c.active)
                c.next = j->now + below(j, (int)(3 * MS));
        } else if (who >= 0)
            act(j, who);
        unblock(j);
    }
    if (c.active) {
        j->out.ended++;
        end_hold(j, &c);
    }
    for (int p = 0; p < j->procs; p++)
        j->out.hash = sl_random_mix(j->out.hash ^ j->proc[p].hash ^ sl_random_mix(j->proc[p].wild_sum));
    j->out.time = j->now;
    return j->out;
}

#endif
