#include "plan/timing/replay.h"
#include "base/memory.h"

#include <stdlib.h>

/* State of a directed link. A rank's ops end in sequence, so its messages reach a link in the order first
 * come, first served, and one pass in program order is exact. Placements connect a rank only to its two
 * neighbours on the ring, so two links a rank suffice. */
typedef struct wire {
    sl_time free;  /* the last message has left it */
    int32_t first; /* its messages' arrivals: arrival[first .. first+sent) */
    int32_t sent;
} wire;

typedef struct replay {
    const sl_problem *problem;
    const sl_program *program;
    sl_regime regime;
    int queue;
    int32_t *next;                     /* [ranks] step to run */
    sl_time *free;                     /* [ranks] when the rank is idle again */
    int32_t *first_span;               /* [ranks] */
    wire *wire;                        /* [2 * ranks] */
    sl_time *arrival;                  /* [messages], by wire, in sending order */
    int32_t *stack;                    /* ranks that can go on */
    unsigned char *on_stack, *arrived; /* [ranks], [messages] */
    int depth;
    sl_timeline *timeline;
} replay;

static wire *wire_of(const replay *r, const sl_message *message) {
    return &r->wire[2 * message->from + (message->to == (message->from + 1) % r->program->ranks ? 0 : 1)];
}

static void push(replay *r, int32_t rank) {
    if (!r->on_stack[rank]) {
        r->on_stack[rank] = 1;
        r->stack[r->depth++] = rank;
    }
}

/* Sends a message whose data exist at `end`; returns when the rank's next op may start. */
static sl_time send(replay *r, int32_t index, sl_time end) {
    const sl_message *message = &r->program->message[index];
    const sl_link *link =
        &r->problem->link[(size_t)message->from * (size_t)r->program->ranks + (size_t)message->to];
    wire *w = wire_of(r, message);
    sl_time issue = end;
    if (r->regime == SL_INORDER && w->sent >= r->queue) {
        sl_time place = r->arrival[w->first + w->sent - r->queue];
        issue = place > end ? place : end;
    }
    sl_time start = w->free > issue ? w->free : issue;
    sl_transfer *t = &r->timeline->transfer[index];
    *t = (sl_transfer){.from = message->from,
                       .to = message->to,
                       .op = message->op,
                       .start = start,
                       .end = start + link->transfer,
                       .arrive = start + link->transfer + link->latency};
    w->free = t->end;
    r->arrival[w->first + w->sent++] = t->arrive;
    r->arrived[index] = 1;
    if (r->next[message->to] == message->consumer)
        push(r, message->to);
    return issue;
}

/* Runs a rank until it waits for a message that has not been sent yet. */
static void run_rank(replay *r, int rank) {
    const sl_rank_program *mine = &r->program->rank[rank];
    sl_time now = r->free[rank];
    int32_t i = r->next[rank];
    for (; i < mine->steps; i++) {
        const sl_step *step = &mine->step[i];
        sl_time start = now;
        if (step->receive >= 0) {
            if (!r->arrived[step->receive])
                break;
            sl_time arrive = r->timeline->transfer[step->receive].arrive;
            start = arrive > now ? arrive : now;
        }
        now = start + r->problem->time[step->op.kind][step->op.stage];
        r->timeline->span[r->first_span[rank] + i] =
            (sl_span){.rank = rank, .op = step->op, .start = start, .end = now};
        if (step->send >= 0)
            now = send(r, step->send, now);
    }
    r->next[rank] = i;
    r->free[rank] = now;
}

static sl_status make_state(replay *r) {
    size_t ranks = (size_t)r->program->ranks, messages = (size_t)r->program->messages;
    SL_TRY(sl_alloc(&r->next, ranks, sizeof *r->next));
    SL_TRY(sl_alloc(&r->free, ranks, sizeof *r->free));
    SL_TRY(sl_alloc(&r->first_span, ranks + 1, sizeof *r->first_span));
    SL_TRY(sl_alloc(&r->wire, 2 * ranks, sizeof *r->wire));
    SL_TRY(sl_alloc(&r->arrival, messages, sizeof *r->arrival));
    SL_TRY(sl_alloc(&r->stack, ranks, sizeof *r->stack));
    SL_TRY(sl_alloc(&r->on_stack, ranks, 1));
    SL_TRY(sl_alloc(&r->arrived, messages, 1));
    for (size_t rank = 0; rank < ranks; rank++)
        r->first_span[rank + 1] = r->first_span[rank] + r->program->rank[rank].steps;
    for (size_t m = 0; m < messages; m++)
        wire_of(r, &r->program->message[m])->sent++;
    int32_t first = 0;
    for (size_t w = 0; w < 2 * ranks; w++) {
        r->wire[w].first = first;
        first += r->wire[w].sent;
        r->wire[w].sent = 0;
    }
    return sl_timeline_make(r->program->ranks, r->first_span[ranks], r->program->messages, r->timeline);
}

static void free_state(replay *r) {
    sl_free(r->next);
    sl_free(r->free);
    sl_free(r->first_span);
    sl_free(r->wire);
    sl_free(r->arrival);
    sl_free(r->stack);
    sl_free(r->on_stack);
    sl_free(r->arrived);
}

sl_status sl_replay(const sl_problem *problem, const sl_program *program, sl_regime regime, int queue,
                    sl_timeline *timeline) {
    replay r = {
        .problem = problem, .program = program, .regime = regime, .queue = queue, .timeline = timeline};
    *timeline = (sl_timeline){0};
    sl_status status = make_state(&r);
    for (int rank = program->ranks - 1; rank >= 0 && status == SL_OK; rank--)
        push(&r, rank);
    while (r.depth > 0) {
        int32_t rank = r.stack[--r.depth];
        r.on_stack[rank] = 0;
        run_rank(&r, rank);
    }
    for (int rank = 0; rank < program->ranks && status == SL_OK; rank++)
        if (r.next[rank] < program->rank[rank].steps)
            status = sl_error(SL_EINVAL, "deadlock: rank %d never reaches its step %d", rank, r.next[rank]);
    free_state(&r);
    if (status != SL_OK)
        sl_timeline_free(timeline);
    return status;
}

/* ---- memory ---- */

typedef struct change {
    sl_time time;
    double bytes;
} change;

/* In time; at the same instant what releases comes first. */
static int compare_changes(const void *a, const void *b) {
    const change *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

sl_status sl_peak_memory(const sl_problem *problem, const sl_timeline *timeline, double *peak) {
    change *changes;
    SL_TRY(sl_alloc(&changes, (size_t)timeline->spans, sizeof *changes));
    for (int rank = 0; rank < timeline->ranks; rank++)
        peak[rank] = 0;
    for (int i = 0; i < timeline->spans;) {
        int rank = timeline->span[i].rank;
        size_t count = 0;
        for (; i < timeline->spans && timeline->span[i].rank == rank; i++) {
            const sl_span *span = &timeline->span[i];
            changes[count++] = (change){.time = span->op.kind == SL_F ? span->start : span->end,
                                        .bytes = problem->delta[span->op.kind][span->op.stage]};
        }
        qsort(changes, count, sizeof *changes, compare_changes);
        double used = 0;
        for (size_t k = 0; k < count; k++) {
            used += changes[k].bytes;
            peak[rank] = used > peak[rank] ? used : peak[rank];
        }
    }
    sl_free(changes);
    return SL_OK;
}
