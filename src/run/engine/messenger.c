#include "base/memory.h"
#include "run/engine/engine_inside.h"
#include "run/transport/scheduling.h"

#include <stdio.h>
#include <string.h>

/* ---- the program's issues ---- */

static sl_status make_room(sl_engine *e, int ends) {
    sl_messenger *m = &e->messenger;
    size_t all = (size_t)ends, messages = (size_t)e->program->messages;
    SL_TRY(sl_grow(&m->end, &m->end_capacity, all, sizeof *m->end));
    SL_TRY(sl_grow(&m->ordered, &m->ordered_capacity, all, sizeof *m->ordered));
    SL_TRY(sl_grow(&m->log, &m->log_capacity, all, sizeof *m->log));
    SL_TRY(sl_grow(&m->of, &m->of_capacity, messages, sizeof *m->of));
    SL_TRY(sl_grow(&m->arrived, &m->arrived_capacity, messages, sizeof *m->arrived));
    return sl_grow(&m->ended, &m->ended_capacity, (size_t)e->mine->steps, sizeof *m->ended);
}

/* A receive is posted where it is issued, so it has its buffer from there on. */
static sl_status make_flow(sl_engine *e, const sl_message_issue *issue, int count) {
    sl_messenger *m = &e->messenger;
    int32_t *post;
    SL_TRY(sl_alloc(&post, (size_t)e->program->messages, sizeof *post));
    for (int i = 0; i < count; i++)
        if (issue[i].receive)
            post[issue[i].message] = issue[i].step;
    sl_flow_free(&m->flow);
    sl_status status = sl_flow_make(e->program, e->config.rank, post, &m->flow);
    sl_free(post);
    return status;
}

static int communicator_of(const sl_problem *problem, const sl_program *program,
                           const sl_message_issue *issue) {
    return sl_communicator(problem, program, &program->message[issue->message], issue->receive);
}

static void sort_ends(sl_messenger *m, const sl_problem *problem, const sl_program *program,
                      const sl_message_issue *issue) {
    int32_t *room = m->ordered;
    for (int c = 0; c < SL_COMMUNICATORS_MAX; c++) {
        m->communicator[c] = (sl_messenger_communicator){.end = room};
        for (int i = 0; i < m->ends; i++)
            if (communicator_of(problem, program, &issue[i]) == c)
                m->communicator[c].end[m->communicator[c].count++] = i;
        room += m->communicator[c].count;
    }
}

sl_status sl_messenger_plan(sl_engine *e, const sl_problem *problem, const sl_issuer *issuer) {
    sl_messenger *m = &e->messenger;
    const sl_message_issue *issue = sl_issues_of(issuer, e->config.rank, &m->ends);
    m->engine = e;
    SL_TRY(make_room(e, m->ends));
    SL_TRY(make_flow(e, issue, m->ends));
    for (int i = 0; i < e->program->messages; i++)
        m->of[i] = -1;
    for (int i = 0; i < m->ends; i++) {
        const sl_message *message = &e->program->message[issue[i].message];
        m->of[issue[i].message] = i;
        m->end[i] = (sl_messenger_end){.message = issue[i].message,
                                       .step = issue[i].step,
                                       .receive = issue[i].receive,
                                       .eager = sl_message_is_eager(problem, message)};
    }
    for (int i = 0; i < m->flow.posts; i++)
        m->end[m->of[m->flow.post[i].message]].buffer = m->flow.post[i].buffer;
    sort_ends(m, problem, e->program, issue);
    return SL_OK;
}

void sl_messenger_free(sl_messenger *m) {
    sl_flow_free(&m->flow);
    SL_FREE(m->end, m->ordered, m->log, m->of, m->arrived, m->ended);
    *m = (sl_messenger){0};
}

/* ---- the messenger's thread ---- */

static const sl_message *message_of(const sl_messenger *m, const sl_messenger_end *end) {
    return &m->engine->program->message[end->message];
}

static void publish(sl_messenger *m, uint32_t finished) {
    atomic_store_explicit(&m->finished, finished, memory_order_release);
    sl_clock_wake(m->engine->config.clock, &m->finished);
}

static void log_finished(sl_messenger *m, const sl_messenger_end *end, const sl_sent *sent) {
    uint32_t finished = atomic_load_explicit(&m->finished, memory_order_relaxed); /* own count */
    m->log[finished] =
        (sl_messenger_finished){.message = end->message, .receive = end->receive, .sent = *sent};
    publish(m, finished + 1);
}

/* Issues what follows the steps that have ended by now; *next: when more have, as far as that is known. */
static void issue(sl_messenger *m, sl_time now, sl_time *next) {
    int32_t steps = (int32_t)atomic_load_explicit(&m->steps, memory_order_acquire);
    for (; m->issued < m->ends && m->end[m->issued].step <= steps; m->issued++) {
        sl_messenger_end *end = &m->end[m->issued];
        end->issued = end->step > 0 ? m->ended[end->step - 1] : m->begin;
        if (end->issued > now) {
            *next = end->issued < *next ? end->issued : *next;
            return;
        }
    }
}

static sl_status hear_clearances(sl_messenger *m) {
    sl_engine *e = m->engine;
    sl_message_name name;
    sl_time reached;
    sl_status status;
    while ((status = sl_transport_next_cleared(e->config.transport, e->iteration, &name, &reached)) ==
           SL_OK) {
        int32_t own = name.index < (uint32_t)e->program->messages ? m->of[name.index] : -1;
        if (own < 0 || m->end[own].receive || message_of(m, &m->end[own])->to != name.peer)
            return sl_error(SL_EPEER, "link %d -> %d: rank %d cleared message (iteration %u, index %u)",
                            e->config.rank, name.peer, name.peer, name.iteration, name.index);
        m->end[own].cleared = reached;
    }
    return status == SL_ENONE ? SL_OK : status;
}

static sl_status reach(sl_messenger *m, const sl_messenger_communicator *c, sl_messenger_end *end) {
    sl_engine *e = m->engine;
    const sl_message *message = message_of(m, end);
    end->reached_before = 1;
    end->reached = c->done > end->issued ? c->done : end->issued;
    if (!end->receive)
        return SL_OK;
    SL_TRY(sl_transport_receive(e->config.transport, message->from, e->iteration, (uint32_t)end->message,
                                e->received.buffer[end->buffer], sl_message_bytes(e, message)));
    return end->eager ? SL_OK
                      : sl_transport_clear(e->config.transport, message->from, e->iteration,
                                           (uint32_t)end->message, end->reached);
}

/* Of a send that is reached: when its message may leave. */
static sl_time may_leave(const sl_messenger_end *end) {
    return end->eager || end->cleared < end->reached ? end->reached : end->cleared;
}

/* Sets *done if the first end of a communicator is done. */
static sl_status look(sl_messenger *m, sl_messenger_end *end, sl_time now, sl_time *next, sl_time *done) {
    sl_engine *e = m->engine;
    *done = SL_TIME_NEVER;
    if (!end->receive) {
        if (end->handed && end->done <= now)
            *done = end->done;
        else if (end->handed)
            *next = end->done < *next ? end->done : *next;
        return SL_OK;
    }
    sl_time arrived;
    sl_status status = sl_transport_take(e->config.transport, message_of(m, end)->from, e->iteration,
                                         (uint32_t)end->message, &arrived);
    if (status != SL_OK)
        return status == SL_ENONE ? SL_OK : status;
    *done = arrived > end->reached ? arrived : end->reached;
    log_finished(m, end, &(sl_sent){.arrive = *done});
    return SL_OK;
}

/* Runs a communicator as far as it gets. *send: the first of its ends if its message may leave. */
static sl_status advance(sl_messenger *m, sl_messenger_communicator *c, sl_time now, sl_time *next,
                         sl_messenger_end **send) {
    for (*send = NULL; c->next < c->count && c->end[c->next] < m->issued; c->next++) {
        sl_messenger_end *end = &m->end[c->end[c->next]];
        sl_time done;
        if (!end->reached_before)
            SL_TRY(reach(m, c, end));
        SL_TRY(look(m, end, now, next, &done));
        if (done == SL_TIME_NEVER) {
            if (!end->receive && !end->handed && may_leave(end) != SL_TIME_NEVER)
                *send = end;
            return SL_OK;
        }
        c->done = done;
    }
    return SL_OK;
}

/* As the timing model lets messages go that are ready together. */
static int goes_before(const sl_messenger *m, const sl_messenger_end *a, const sl_messenger_end *b) {
    int one = message_of(m, a)->op.microbatch, other = message_of(m, b)->op.microbatch;
    if (may_leave(a) != may_leave(b))
        return may_leave(a) < may_leave(b);
    return one != other ? one < other : a->message < b->message;
}

static sl_status hand_over(sl_messenger *m, sl_messenger_end *end) {
    sl_engine *e = m->engine;
    sl_sent sent;
    end->handed = 1;
    SL_TRY(sl_sends_hand_over(e, end->message, may_leave(end)));
    SL_TRY(sl_transport_times(e->config.transport, message_of(m, end)->to, e->iteration,
                              (uint32_t)end->message, &sent));
    end->done = end->eager ? sent.end : SL_TIME_NEVER;
    return SL_OK;
}

/* The arrival of a message, which has a time of the receiver's clock: on this one it is not before it was
 * due, and not later than now. */
static sl_time done_at(const sl_messenger *m, const sl_sent *sent) {
    sl_time now = sl_clock_now(m->engine->config.clock);
    return sl_later(sent->due, sent->arrive < now ? sent->arrive : now);
}

/* Notes what is published; a message that is not eager is done then. */
static sl_status look_at_sends(sl_messenger *m) {
    sl_engine *e = m->engine;
    for (int w = 0; w < 2; w++)
        for (;;) {
            sl_sent sent;
            int32_t index;
            SL_TRY(sl_sends_next_published(e, w, &index, &sent));
            if (index < 0)
                break;
            sl_messenger_end *end = &m->end[m->of[index]];
            if (!end->eager)
                end->done = done_at(m, &sent);
            log_finished(m, end, &sent);
        }
    return SL_OK;
}

/* Everything that can happen by now; *next: when more can, whatever comes. */
static sl_status progress(sl_messenger *m, sl_time *next) {
    for (;;) {
        sl_messenger_end *first = NULL, *send;
        sl_time now = sl_clock_now(m->engine->config.clock);
        *next = SL_TIME_NEVER;
        issue(m, now, next);
        SL_TRY(hear_clearances(m));
        SL_TRY(look_at_sends(m));
        for (int c = 0; c < SL_COMMUNICATORS_MAX; c++) {
            SL_TRY(advance(m, &m->communicator[c], now, next, &send));
            if (send && (!first || goes_before(m, send, first)))
                first = send;
        }
        if (!first)
            return SL_OK;
        SL_TRY(hand_over(m, first));
    }
}

/* Whether a message that is waited for can still come. */
static sl_status check_waits(const sl_messenger *m) {
    const sl_engine *e = m->engine;
    for (int i = 0; i < SL_COMMUNICATORS_MAX; i++) {
        const sl_messenger_communicator *c = &m->communicator[i];
        if (c->next == c->count || c->end[c->next] >= m->issued)
            continue;
        const sl_messenger_end *end = &m->end[c->end[c->next]];
        const sl_message *message = message_of(m, end);
        SL_TRY(sl_transport_check(e->config.transport, message->from, message->to, e->iteration,
                                  (uint32_t)end->message, SL_TIME_NEVER));
    }
    return SL_OK;
}

static int is_finished(const sl_messenger *m) {
    for (int c = 0; c < SL_COMMUNICATORS_MAX; c++)
        if (m->communicator[c].next < m->communicator[c].count)
            return 0;
    return atomic_load_explicit(&m->finished, memory_order_relaxed) == (uint32_t)m->ends; /* own count */
}

static sl_status carry(sl_messenger *m) {
    sl_transport *transport = m->engine->config.transport;
    while (!atomic_load(&m->quit)) {
        uint32_t seen = sl_transport_changes(transport);
        sl_time next;
        SL_TRY(progress(m, &next));
        if (is_finished(m))
            break;
        SL_TRY(check_waits(m));
        if (!atomic_load(&m->quit))
            sl_transport_await_change(transport, seen, next);
    }
    return SL_OK;
}

static void *run(void *object) {
    sl_messenger *m = object;
    sl_clock *clock = m->engine->config.clock;
    sl_scheduling_obtain(sl_clock_is_virtual(clock) ? SL_CLASS_NORMAL : SL_CLASS_BEST);
    m->status = carry(m);
    if (m->status != SL_OK) {
        snprintf(m->error, sizeof m->error, "%s", sl_error_text());
        publish(m, SL_MESSENGER_FAILED);
    }
    sl_clock_leave(clock);
    return NULL;
}

/* ---- the rank ---- */

static void reset(sl_messenger *m, sl_time begin) {
    for (int i = 0; i < m->ends; i++) {
        sl_messenger_end *end = &m->end[i];
        end->reached_before = end->handed = 0;
        end->cleared = end->done = SL_TIME_NEVER;
    }
    for (int c = 0; c < SL_COMMUNICATORS_MAX; c++) {
        m->communicator[c].next = 0;
        m->communicator[c].done = begin;
    }
    for (int i = 0; i < m->engine->program->messages; i++)
        m->arrived[i] = SL_TIME_NEVER;
    m->begin = begin;
    m->issued = 0;
    m->heard = 0;
    m->status = SL_OK;
    atomic_store(&m->steps, 0);
    atomic_store(&m->finished, 0);
    atomic_store(&m->quit, 0);
}

sl_status sl_messenger_begin(sl_engine *e, sl_time begin) {
    sl_messenger *m = &e->messenger;
    reset(m, begin);
    if (m->ends == 0)
        return SL_OK;
    sl_clock_join(e->config.clock);
    int failed = pthread_create(&m->thread, NULL, run, m);
    if (failed) {
        sl_clock_leave(e->config.clock);
        return sl_error(SL_ESYS, "no thread for the messages of rank %d: %s", e->config.rank,
                        strerror(failed));
    }
    m->running = 1;
    return SL_OK;
}

void sl_messenger_step(sl_engine *e, int32_t steps, sl_time end) {
    sl_messenger *m = &e->messenger;
    if (!m->running)
        return;
    for (int32_t i = (int32_t)atomic_load_explicit(&m->steps, memory_order_relaxed); i < steps; i++)
        m->ended[i] = end;
    atomic_store_explicit(&m->steps, (uint32_t)steps, memory_order_release);
    sl_transport_change(e->config.transport);
}

static sl_status hear(sl_engine *e, uint32_t finished) {
    sl_messenger *m = &e->messenger;
    if (finished == SL_MESSENGER_FAILED)
        return sl_error(m->status, "%s", m->error);
    for (; m->heard < finished; m->heard++) {
        const sl_messenger_finished *one = &m->log[m->heard];
        if (one->receive)
            m->arrived[one->message] = one->sent.arrive;
        else
            sl_sends_note(e, one->message, &one->sent);
    }
    return SL_OK;
}

sl_status sl_messenger_reap(sl_engine *e) {
    return hear(e, atomic_load_explicit(&e->messenger.finished, memory_order_acquire));
}

sl_status sl_messenger_wait(sl_engine *e, int32_t index, sl_time deadline, sl_time *arrived) {
    sl_messenger *m = &e->messenger;
    const sl_message *message = &e->program->message[index];
    for (;;) {
        uint32_t finished = atomic_load_explicit(&m->finished, memory_order_acquire);
        SL_TRY(hear(e, finished));
        *arrived = m->arrived[index];
        if (*arrived != SL_TIME_NEVER)
            return SL_OK;
        SL_TRY(sl_transport_check(e->config.transport, message->from, message->to, e->iteration,
                                  (uint32_t)index, deadline));
        sl_clock_wait(e->config.clock, &m->finished, finished, deadline);
    }
}

/* The first of this rank's messages that is not finished; -1: all are. */
static int32_t first_open(const sl_messenger *m) {
    for (int i = 0; i < m->ends; i++) {
        int found = 0;
        for (uint32_t k = 0; k < m->heard && !found; k++)
            found = m->log[k].message == m->end[i].message;
        if (!found)
            return m->end[i].message;
    }
    return -1;
}

sl_status sl_messenger_finish(sl_engine *e, sl_time deadline) {
    sl_messenger *m = &e->messenger;
    while (m->running) {
        uint32_t finished = atomic_load_explicit(&m->finished, memory_order_acquire);
        SL_TRY(hear(e, finished));
        int32_t open = first_open(m);
        if (open < 0)
            break;
        const sl_message *message = &e->program->message[open];
        SL_TRY(sl_transport_check(e->config.transport, message->from, message->to, e->iteration,
                                  (uint32_t)open, deadline));
        sl_clock_wait(e->config.clock, &m->finished, finished, deadline);
    }
    return SL_OK;
}

void sl_messenger_end_iteration(sl_engine *e) {
    sl_messenger *m = &e->messenger;
    if (!m->running)
        return;
    atomic_store(&m->quit, 1);
    sl_transport_change(e->config.transport);
    pthread_join(m->thread, NULL);
    m->running = 0;
}
