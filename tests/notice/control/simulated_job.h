/* A simulated job under the gate: virtual time, one seed. The gate's and the cut's own code run; the
 * communication library and the program are small models written here. The program is a projection of one
 * global sequence of events, so it cannot deadlock by itself, and mixes collectives on overlapping
 * communicators, messages with any tags (sends that wait for their receiver and sends that do not),
 * nonblocking calls with Wait and Test loops, wildcard receives, threads, forbidden regions and collectives
 * that only a device waits in. What each thread received is hashed; a held run must give the hash of the free
 * run. */
#pragma once

#include "simulated_holds.h"
#include "simulated_program.h"
#include "simulated_threads.h"

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
        own->unstopped = 0;
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
            begin_hold(j, &c, &how);
            left--;
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
