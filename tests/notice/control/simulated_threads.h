/* The threads of a simulated job in virtual time: they run, park, block and return. */
#pragma once

#include "simulated_shim.h"

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
