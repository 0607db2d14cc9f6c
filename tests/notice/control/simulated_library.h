/* The communication library of a simulated job: matches sends and receives, and delivers. */
#pragma once

#include "simulated_model.h"

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
