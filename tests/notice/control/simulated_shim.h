/* What the probe does in a simulated job: names of channels, numbers of calls, the gate. */
#pragma once

#include "simulated_library.h"

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
    /* A thread that had not stopped may make a call within the cut, which its partners have made already. */
    if (j->frozen && !own->unstopped)
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
