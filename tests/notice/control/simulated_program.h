/* The program of a simulated job: a projection of one global sequence of events onto its threads. */
#pragma once

#include "simulated_model.h"

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
