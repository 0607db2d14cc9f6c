/* The holds of a simulated job, and what a closed cut promises. */
#pragma once

#include "notice/control/hold_cut.h"
#include "simulated_shim.h"

/* The controller: every action is an event of its own, so ranks are held, seen and raised at different times.
 */
typedef enum { HOLD, LOOK, STEP, RAISE, CLOSED } hold_phase;

typedef struct {
    hold_phase phase;
    int active, rank, steps, dead;
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

/* Whether the looks that closed the cut saw this thread of several outside its calls, or blocked in a
 * wildcard. Such a thread may make calls within the cut, whatever it does by the time of the verdict. Of a
 * rank with one thread, that thread has stopped. */
static inline int may_still_call(const job *j, const proc *own) {
    if (j->procs == j->ranks || own->state == DONE)
        return 0;
    ptrdiff_t slot = own->caller.thread - j->gate[own->rank].thread;
    return j->view[own->rank].thread[slot].state != SL_GATE_PARKED;
}

/* What a closed cut promises, looked up in the model rather than in the views. */
static inline void check_closed(job *j) {
    for (int p = 0; p < j->procs; p++) {
        proc *own = &j->proc[p];
        if (!j->frozen)
            own->unstopped = may_still_call(j, own);
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

/* The next rank; after the last one, `then` begins. */
static inline void next_rank(const job *j, controller *c, hold_phase then) {
    if (++c->rank < j->ranks)
        return;
    c->phase = then;
    c->rank = 0;
}

static inline void step_cut(job *j, controller *c, const plan *how) {
    const sl_gate_view *views[RANKS];
    sl_cut_verdict verdict;
    int ended = 1;
    for (int r = 0; r < j->ranks; r++) {
        views[r] = &j->view[r];
        ended &= views[r]->finished;
    }
    if (sl_cut_step(c->cut, views, j->now, &verdict, &c->list, &c->raises) != SL_OK) {
        fail_job(j, sl_error_text());
        return;
    }
    c->steps++;
    c->raise = 0;
    c->phase = RAISE;
    if (how->naive && c->steps > 1)
        c->raises = 0;
    if (verdict == SL_CUT_CLOSED) {
        j->out.closed++;
        j->out.ended += ended;
        if (j->now - c->began > j->out.longest)
            j->out.longest = j->now - c->began;
        check_closed(j);
        j->frozen = 1; /* until the release, when it is looked at again */
        c->phase = CLOSED;
        c->next = j->now + below(j, (int)MS);
    } else if (verdict == SL_CUT_RELEASE) {
        j->out.released++;
        snprintf(j->out.why, sizeof j->out.why, "%s", sl_cut_reason(c->cut));
        end_hold(j, c);
    }
}

static inline void raise_next(job *j, controller *c) {
    const sl_cut_raise *raise = &c->list[c->raise++];
    sl_gate_raise(&j->gate[raise->rank], &raise->key, raise->target);
    sl_gate_wake(&j->gate[raise->rank]);
    c->next = j->now + 1 + below(j, 500);
    for (int p = 0; p < j->procs; p++)
        if (j->proc[p].state == PARKED && j->proc[p].rank == raise->rank)
            j->proc[p].next = j->now + below(j, (int)((below(j, 10) ? 5 : 500) * US));
}

static inline void begin_hold(job *j, controller *c, const plan *how) {
    if (sl_cut_create(&c->cut, j->ranks, (sl_cut_limits){.time = how->limit}) != SL_OK)
        abort();
    c->active = 1;
    c->phase = HOLD;
    c->rank = c->steps = 0;
    c->number++;
    c->began = j->now;
    j->out.holds++;
}

static inline void step_controller(job *j, controller *c, const plan *how) {
    c->next = j->now + 1 + below(j, (int)(20 * US));
    switch (c->phase) {
    case HOLD:
        sl_gate_hold(&j->gate[c->rank], c->number, j->now + SL_GATE_DEADLINE);
        next_rank(j, c, LOOK);
        break;
    case LOOK:
        sl_gate_look(&j->gate[c->rank], &j->view[c->rank]);
        next_rank(j, c, STEP);
        break;
    case STEP:
        step_cut(j, c, how);
        if (j->out.failed)
            return;
        break;
    case RAISE:
        if (c->raise == c->raises) {
            c->phase = LOOK;
            return;
        }
        raise_next(j, c);
        break;
    case CLOSED:
        check_closed(j);
        end_hold(j, c);
    }
    if (how->kill && c->active && below(j, 60) == 0) {
        c->dead = 1;
        j->out.killed++;
        end_hold(j, c);
    }
}
