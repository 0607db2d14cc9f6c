#include "base/memory.h"
#include "run/collective/group_inside.h"

#include <limits.h>

sl_status sl_group_flight_open(sl_group *group, sl_group_flight **flight) {
    sl_group_flight *made;
    SL_TRY(sl_alloc(&made, 1, sizeof *made));
    made->group = group;
    sl_status status = sl_alloc(&made->request, 2 * (size_t)group->size, sizeof(MPI_Request));
    if (status == SL_OK)
        *flight = made;
    else
        sl_group_flight_close(made);
    return status;
}

void sl_group_flight_close(sl_group_flight *flight) {
    if (!flight)
        return;
    SL_FREE(flight->request, flight);
}

/* ---- emulated links ---- */

static int is_emulated(const sl_group_link *link) {
    return link->emulation.latency > 0 || link->emulation.bytes_per_second > 0 || link->emulation.wires > 0;
}

void sl_group_emulate(sl_group *group, int peer, sl_link_emulation emulation) {
    sl_group_link *link = &group->link[peer];
    link->emulation = emulation;
    if (!is_emulated(link))
        link->emulator = (sl_link_emulator){0};
}

sl_time sl_group_due(sl_group *group, int peer, sl_time ready, size_t bytes) {
    sl_group_link *link = &group->link[peer];
    sl_sent times;
    if (!is_emulated(link))
        return ready;
    sl_link_emulator_enter(&link->emulator, ready, bytes, link->emulation, &times);
    return times.due;
}

/* ---- messages ---- */

static sl_status refuse(int code) {
    return code == MPI_SUCCESS ? SL_OK : sl_error(SL_EPEER, "a sum between the ranks failed");
}

static sl_status too_long(size_t count) {
    return count <= INT_MAX ? SL_OK : sl_error(SL_ENOMEM, "a message of %zu values at once", count);
}

sl_status sl_flight_receive(sl_group_flight *f, float *into, size_t count, int peer, int tag) {
    SL_TRY(too_long(count));
    return refuse(MPI_Irecv(into, (int)count, MPI_FLOAT, peer, tag, f->group->communicator,
                            &f->request[f->requests++]));
}

static sl_status post(sl_group_flight *f, const float *data, size_t count, int peer, int tag) {
    return refuse(MPI_Isend(data, (int)count, MPI_FLOAT, peer, tag, f->group->communicator,
                            &f->request[f->requests++]));
}

/* Sends the due messages of all flights; *next: due time of the next one. */
static sl_status let_through(sl_group *group, sl_time *next) {
    int kept = 0;
    sl_time now = group->holds ? sl_now() : 0;
    *next = SL_TIME_NEVER;
    for (int i = 0; i < group->holds; i++) {
        sl_group_held *held = &group->held[i];
        if (held->due > now) {
            *next = held->due < *next ? held->due : *next;
            group->held[kept++] = *held;
            continue;
        }
        held->flight->holds--;
        SL_TRY(post(held->flight, held->data, held->count, held->peer, held->tag));
    }
    group->holds = kept;
    return SL_OK;
}

sl_status sl_flight_send(sl_group_flight *f, const float *data, size_t count, int peer, int tag) {
    sl_group *group = f->group;
    SL_TRY(too_long(count));
    if (!is_emulated(&group->link[peer]))
        return post(f, data, count, peer, tag);
    size_t capacity = group->held_capacity;
    if ((size_t)group->holds == capacity)
        SL_TRY(sl_grow(&group->held, &group->held_capacity, capacity + 1, sizeof *group->held));
    sl_time due = sl_group_due(group, peer, sl_now(), count * sizeof *data);
    group->held[group->holds++] =
        (sl_group_held){.flight = f, .data = data, .count = count, .peer = peer, .tag = tag, .due = due};
    f->holds++;
    return SL_OK;
}

sl_status sl_group_first(sl_group_flight *const *flights, int count, sl_time until, int *which) {
    sl_group *group = flights[0]->group;
    sl_time next;
    for (int rounds = 0;; sl_group_nap(group->wait, &rounds, next < until ? next : until)) {
        SL_TRY(let_through(group, &next));
        for (int i = 0, done; i < count; i++) {
            sl_group_flight *f = flights[i];
            SL_TRY(refuse(MPI_Testall(f->requests, f->request, &done, MPI_STATUSES_IGNORE)));
            *which = i;
            if (done && f->holds == 0)
                return SL_OK;
        }
        *which = -1;
        if (until < SL_TIME_NEVER && sl_now() >= until)
            return SL_OK;
    }
}

sl_status sl_flight_finish(sl_group_flight *f) {
    int which;
    SL_TRY(sl_group_first(&f, 1, SL_TIME_NEVER, &which));
    f->requests = 0;
    return SL_OK;
}
