/* The fifo regime: the sends and receives of a rank run in the order of issue within each communicator, next
 * to the rank's ops.
 *
 * An end of a message is issued when the op before it has ended (plan/lower/issue.h), and reached when the
 * end before it in its communicator is done. A message may move when both ends are reached, an eager one when
 * its send is. It waits for its wire, first come, first served. Both ends are done when it has arrived; of an
 * eager one, the send when it has left its wire, and the receive not before it is reached. */
#include "base/memory.h"
#include "plan/lower/issue.h"
#include "plan/timing/critical.h"
#include "plan/timing/replay_inside.h"

#include <string.h>

/* Ends are numbered 2 * message for the send, 2 * message + 1 for the receive. */
typedef struct message_end {
    sl_time issued;
    sl_time reached; /* SL_TIME_NEVER: not yet */
    int32_t after;   /* the next end in its communicator; -1: none yet */
    int32_t cause;   /* of the time at which it is reached: an entry of timeline.h */
} message_end;

typedef struct communicator {
    int32_t first, last; /* ends that are issued and not done; -1: none */
    sl_time done;        /* the last one that was */
    int32_t before;      /* that one's message */
} communicator;

struct sl_fifo {
    sl_issuer *own;          /* NULL: one was given */
    const sl_issuer *issuer; /* of all ranks' issues */
    int32_t *next;           /* [ranks] */
    message_end *end;
    communicator *communicator; /* [ranks * SL_COMMUNICATORS_MAX] */
    int32_t *left;              /* [wires] the message that left a wire last */
};

sl_status sl_fifo_open(sl_replayer *r) {
    size_t ranks = (size_t)r->program->ranks;
    SL_TRY(sl_alloc(&r->fifo, 1, sizeof *r->fifo));
    SL_TRY(sl_alloc(&r->fifo->next, ranks, sizeof *r->fifo->next));
    SL_TRY(sl_alloc(&r->fifo->end, 2 * (size_t)r->program->messages, sizeof *r->fifo->end));
    SL_TRY(sl_alloc(&r->fifo->communicator, SL_COMMUNICATORS_MAX * ranks, sizeof *r->fifo->communicator));
    SL_TRY(sl_alloc(&r->fifo->left, 2 * ranks, sizeof *r->fifo->left));
    SL_TRY(sl_alloc(&r->timeline.cause, 2 * (size_t)r->program->messages, sizeof *r->timeline.cause));
    if (!r->issuer)
        SL_TRY(sl_issuer_open(r->program, &r->fifo->own));
    r->fifo->issuer = r->issuer ? r->issuer : r->fifo->own;
    return SL_OK;
}

void sl_fifo_close(struct sl_fifo *fifo) {
    if (!fifo)
        return;
    sl_issuer_close(fifo->own);
    SL_FREE(fifo->next, fifo->end, fifo->communicator, fifo->left);
    sl_free(fifo);
}

const sl_issuer *sl_fifo_issuer(const sl_replayer *r) {
    return r->fifo->issuer;
}

static int rank_of(const sl_replayer *r, int32_t end) {
    const sl_message *m = &r->program->message[end / 2];
    return end % 2 ? m->to : m->from;
}

static communicator *communicator_of(const sl_replayer *r, int32_t end) {
    int at = sl_communicator(r->problem, r->program, &r->program->message[end / 2], end % 2);
    return &r->fifo->communicator[SL_COMMUNICATORS_MAX * rank_of(r, end) + at];
}

static int is_eager(const sl_replayer *r, const sl_message *m) {
    return sl_message_is_eager(r->problem, m);
}

/* The end, the first of its communicator, is done at `time`. */
static void finish(sl_replayer *r, communicator *c, int32_t end, sl_time time) {
    c->done = time;
    c->before = end / 2;
    c->first = r->fifo->end[end].after;
    if (end % 2 == 0)
        return;
    const sl_message *m = &r->program->message[end / 2];
    int32_t next = r->next[m->to];
    r->timeline.transfer[end / 2].arrive = time;
    r->arrived[end / 2] = 1;
    if (m->consumer == next || m->consumer == next + 1)
        sl_replay_push(r, m->to);
}

/* The message asks for its wire as soon as the ends that it needs are reached. */
static void ask(sl_replayer *r, int32_t index) {
    const sl_message *m = &r->program->message[index];
    sl_time send = r->fifo->end[2 * index].reached, receive = r->fifo->end[2 * index + 1].reached;
    if (!is_eager(r, m) && (send == SL_TIME_NEVER || receive == SL_TIME_NEVER))
        return;
    sl_time time = is_eager(r, m) ? send : sl_later(send, receive);
    sl_replay_add(
        r, (replay_moment){.time = time, .microbatch = m->op.microbatch, .rank = r->program->ranks + index});
}

/* Reaches the first end of a communicator. The receive of an eager message that has left is done then, and
 * the end after it is reached. */
static void advance(sl_replayer *r, communicator *c) {
    while (c->first >= 0) {
        int32_t end = c->first, index = end / 2;
        message_end *e = &r->fifo->end[end];
        e->reached = sl_later(c->done, e->issued);
        if (c->done > e->issued)
            e->cause = -1 - c->before;
        if (end % 2 == 0 || !is_eager(r, &r->program->message[index])) {
            ask(r, index);
            return;
        }
        if (r->timeline.transfer[index].end < 0)
            return;
        sl_time came = r->timeline.transfer[index].arrive;
        r->timeline.cause[end] = e->reached > came ? e->cause : SL_NO_CAUSE;
        finish(r, c, end, sl_later(came, e->reached));
    }
    c->last = -1;
}

static void issue(sl_replayer *r, int32_t end, sl_time time) {
    communicator *c = communicator_of(r, end);
    int rank = rank_of(r, end);
    r->fifo->end[end] =
        (message_end){.issued = time,
                      .reached = SL_TIME_NEVER,
                      .after = -1,
                      .cause = r->next[rank] > 0 ? r->first_span[rank] + r->next[rank] - 1 : SL_NO_CAUSE};
    if (c->last >= 0)
        r->fifo->end[c->last].after = end;
    else
        c->first = end;
    c->last = end;
    if (c->first == end)
        advance(r, c);
}

/* What the rank issues between the steps that have ended and the next one. */
static void issue_all(sl_replayer *r, int rank, sl_time time) {
    int count;
    const sl_message_issue *issues = sl_issues_of(r->fifo->issuer, rank, &count);
    for (int32_t *i = &r->fifo->next[rank]; *i < count && issues[*i].step <= r->next[rank]; (*i)++)
        issue(r, 2 * issues[*i].message + issues[*i].receive, time);
}

/* Of the time at which a message asks for its wire. */
static int32_t cause_of(const sl_replayer *r, int32_t index) {
    const message_end *send = &r->fifo->end[2 * index], *receive = &send[1];
    int waited = !is_eager(r, &r->program->message[index]) && receive->reached > send->reached;
    return waited ? receive->cause : send->cause;
}

static void move(sl_replayer *r, int32_t index, sl_time time) {
    const sl_message *m = &r->program->message[index];
    int32_t wire = sl_replay_lane(r, m)->wire;
    const sl_transfer *t = &r->timeline.transfer[index];
    sl_replay_move(r, index, time);
    r->timeline.cause[2 * index] = t->start > time ? -1 - r->fifo->left[wire] : cause_of(r, index);
    r->timeline.cause[2 * index + 1] = SL_NO_CAUSE;
    r->fifo->left[wire] = index;
    sl_time arrive = t->arrive;
    communicator *sends = communicator_of(r, 2 * index), *receives = communicator_of(r, 2 * index + 1);
    finish(r, sends, 2 * index, is_eager(r, m) ? t->end : arrive);
    const message_end *receive = &r->fifo->end[2 * index + 1];
    if (receive->reached != SL_TIME_NEVER) {
        if (receive->reached > arrive)
            r->timeline.cause[2 * index + 1] = receive->cause;
        finish(r, receives, 2 * index + 1, sl_later(arrive, receive->reached));
        advance(r, receives);
    }
    advance(r, sends);
}

static void reset(sl_replayer *r) {
    memset(r->fifo->next, 0, (size_t)r->program->ranks * sizeof *r->fifo->next);
    for (int i = 0; i < 2 * r->program->messages; i++)
        r->fifo->end[i] = (message_end){.reached = SL_TIME_NEVER, .after = -1};
    for (int i = 0; i < r->program->messages; i++)
        r->timeline.transfer[i].end = -1;
    for (int i = 0; i < SL_COMMUNICATORS_MAX * r->program->ranks; i++)
        r->fifo->communicator[i] = (communicator){.first = -1, .last = -1};
}

sl_status sl_fifo_run(sl_replayer *r) {
    reset(r);
    if (r->fifo->own)
        SL_TRY(sl_issuer_run(r->fifo->own));
    for (int rank = r->program->ranks - 1; rank >= 0; rank--) {
        issue_all(r, rank, 0);
        sl_replay_push(r, rank);
    }
    sl_replay_start_ranks(r);
    while (r->moments > 0) {
        replay_moment now = sl_replay_take(r);
        if (now.rank >= r->program->ranks) {
            move(r, now.rank - r->program->ranks, now.time);
        } else {
            r->next[now.rank] += r->running[now.rank];
            r->running[now.rank] = 0;
            r->free[now.rank] = now.time;
            issue_all(r, now.rank, now.time);
            sl_replay_push(r, now.rank);
        }
        sl_replay_start_ranks(r);
    }
    return SL_OK;
}
