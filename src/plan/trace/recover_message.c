/* Messages of the chosen iteration: the times at which each could leave and had arrived. */
#include "base/memory.h"
#include "base/numbers.h"
#include "plan/trace/recover_inside.h"

#include <string.h>

typedef struct messages {
    const sl_recovery *r;
    sl_carried *carried;
    size_t count;
    int32_t *slot;           /* [2][stages][microbatches] of the sending stage into carried; -1: none */
    sl_time *busy;           /* [chosens] end of the rank's other work before the op */
    sl_time *sent;           /* [count] begin of the matched send; SL_TIME_NEVER: none yet */
    sl_time *issued;         /* [count] begin of the matched receive; INT64_MIN: none yet */
    sl_time slack[2];        /* a gap before F, before a backward, beyond which a rank waits for something */
    sl_time *begin, *end;    /* [ranks] limits of the iteration */
    unsigned char *reported; /* [count] a receive has given its arrival */
} messages;

static sl_time begin_of(const sl_traced_op *op) {
    return op->work >= 0 ? op->work : op->start;
}

static int32_t *slot_of(const messages *m, int backward, int stage, int microbatch) {
    const sl_recovery *r = m->r;
    return &m->slot[((size_t)backward * (size_t)r->stages + (size_t)stage) * (size_t)r->microbatches +
                    (size_t)microbatch];
}

/* The op that makes the gradient: I if the backward is split, else B. */
static int32_t backward_of(const sl_recovery *r, int stage, int microbatch) {
    int32_t input = *sl_recovery_at(r, SL_I, stage, microbatch);
    return input >= 0 ? input : *sl_recovery_at(r, SL_B, stage, microbatch);
}

static void add_message(messages *m, int backward, int stage, int peer, int microbatch) {
    const sl_recovery *r = m->r;
    int32_t producer =
        backward ? backward_of(r, stage, microbatch) : *sl_recovery_at(r, SL_F, stage, microbatch);
    int32_t consumer =
        backward ? backward_of(r, peer, microbatch) : *sl_recovery_at(r, SL_F, peer, microbatch);
    const sl_traced_op *makes = &r->chosen[producer].of;
    *slot_of(m, backward, stage, microbatch) = (int32_t)m->count;
    m->carried[m->count++] = (sl_carried){.from = r->rank_of_stage[stage],
                                          .to = r->rank_of_stage[peer],
                                          .producer = producer,
                                          .consumer = consumer,
                                          .ready = makes->sent >= 0 ? makes->sent : makes->end,
                                          .arrive = begin_of(&r->chosen[consumer].of),
                                          .whole = -1,
                                          .on_link = -1,
                                          .bytes = makes->bytes};
}

static void list_messages(messages *m) {
    const sl_recovery *r = m->r;
    const sl_problem *p = &r->result->problem;
    for (int stage = 0; stage < r->stages; stage++) {
        int peers[2] = {sl_problem_next(p, stage), sl_problem_previous(p, stage)};
        for (int backward = 0; backward < 2; backward++)
            for (int i = 0; i < r->microbatches && peers[backward] >= 0; i++)
                if (sl_problem_runs(p, stage, i) &&
                    r->rank_of_stage[stage] != r->rank_of_stage[peers[backward]])
                    add_message(m, backward, stage, peers[backward], i);
    }
}

/* The first op of the rank that begins at or after `time`, into `chosen`; -1: none. */
static int32_t op_after(const sl_recovery *r, int rank, sl_time time) {
    size_t low = 0, high = r->chosens;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const sl_rank_op *op = &r->chosen[middle];
        if (op->rank < rank || (op->rank == rank && begin_of(&op->of) < time))
            low = middle + 1;
        else
            high = middle;
    }
    return low < r->chosens && r->chosen[low].rank == rank ? (int32_t)low : -1;
}

/* A send belongs to the op that it follows, of the same iteration or another. */
static void match_send(messages *m, const sl_traced_message *t, sl_carried *c, size_t at) {
    const sl_traced_op *makes = &m->r->chosen[c->producer].of;
    if (t->start < makes->label_start || t->start >= m->sent[at])
        return;
    m->sent[at] = t->start;
    c->bytes = t->bytes > 0 ? t->bytes : c->bytes;
    if (t->whole) {
        c->whole = t->end - t->start;
        c->on_link = t->on_link;
        c->arrive = t->end;
        c->awaited = 1;
    } else if (t->start > makes->end) {
        c->ready = t->start;
    }
}

/* B of a pair waits for its gradient after the work of F, inside the label of both. */
static int is_second(const sl_recovery *r, int32_t op) {
    return op > 0 && r->chosen[op - 1].rank == r->chosen[op].rank && r->chosen[op - 1].of.op.paired;
}

/* A receive with a duration waited for the message; one that is only issued gives nothing. Gloo's end when
 * the program has waited for them, so whether the message came at that time depends on the rank's work
 * before: find_awaited. */
static void match_receive(messages *m, const sl_traced_message *t, sl_carried *c, size_t at, int backward) {
    sl_time begins = begin_of(&m->r->chosen[c->consumer].of);
    if (t->start > begins || t->start <= m->issued[at])
        return;
    m->issued[at] = t->start;
    int waited = t->end - t->start > m->slack[backward] && t->end <= begins;
    if (!waited && !t->done)
        return;
    c->arrive = t->end < begins || (t->done && is_second(m->r, c->consumer)) ? t->end : begins;
    c->awaited = waited && !t->done;
    m->reported[at] = (unsigned char)t->done;
}

/* The same for a receive inside the op's label. */
static void match_inner(messages *m) {
    for (size_t i = 0; i < m->count; i++) {
        sl_carried *c = &m->carried[i];
        const sl_traced_op *needs = &m->r->chosen[c->consumer].of;
        if (needs->received < 0 || m->reported[i])
            continue;
        c->arrive = needs->received < c->arrive || is_second(m->r, c->consumer) ? needs->received : c->arrive;
        m->issued[i] = needs->label_start;
        m->reported[i] = 1;
    }
}

/* From the last op of the previous iteration to the first of the next, for each rank. */
static void find_window(messages *m) {
    const sl_recovery *r = m->r;
    for (int rank = 0; rank < r->ranks; rank++) {
        m->begin[rank] = INT64_MIN;
        m->end[rank] = SL_TIME_NEVER;
    }
    for (size_t i = 0, first = 0; i < r->ops; i++) {
        const sl_rank_op *op = &r->op[i];
        while (first < r->chosens && r->chosen[first].rank < op->rank)
            first++;
        if (op->iteration == r->result->chosen || first == r->chosens)
            continue;
        if (op->of.start < r->chosen[first].of.start)
            m->begin[op->rank] =
                op->of.label_end > m->begin[op->rank] ? op->of.label_end : m->begin[op->rank];
        else
            m->end[op->rank] = op->of.label_start < m->end[op->rank] ? op->of.label_start : m->end[op->rank];
    }
}

static void match_events(messages *m) {
    const sl_recovery *r = m->r;
    const sl_problem *p = &r->result->problem;
    for (size_t i = 0; i < r->traced->messages; i++) {
        const sl_traced_message *t = &r->traced->message[i];
        int rank = r->rank_of_process[t->process], backward = t->op.kind != SL_F, stage = t->op.stage;
        if (rank < 0 || t->start < m->begin[rank] || t->start > m->end[rank])
            continue;
        stage = stage < 0 ? rank : stage;
        if (!t->receive && !t->whole) {
            int32_t next = op_after(r, rank, t->start);
            if (next >= 0 && t->end > m->busy[next] && t->end <= begin_of(&r->chosen[next].of))
                m->busy[next] = t->end;
        }
        if (stage >= r->stages || t->op.microbatch < 0 || t->op.microbatch >= r->microbatches)
            continue;
        if (t->receive)
            stage = backward ? sl_problem_next(p, stage) : sl_problem_previous(p, stage);
        int32_t index = stage < 0 ? -1 : *slot_of(m, backward, stage, t->op.microbatch);
        if (index >= 0 && t->receive)
            match_receive(m, t, &m->carried[index], (size_t)index, backward);
        else if (index >= 0)
            match_send(m, t, &m->carried[index], (size_t)index);
    }
}

/* The gap between two ops of a rank without waiting, from ops that need no message: forwards for forwards,
 * backwards for backwards. */
static sl_time slack_of(const messages *m, const unsigned char *needs, int backward, sl_time *value) {
    const sl_recovery *r = m->r;
    int gaps = 0;
    sl_time work = 0;
    for (size_t i = 0; i < r->chosens; i++)
        value[i] = r->chosen[i].of.end - begin_of(&r->chosen[i].of);
    work = sl_median(value, (int)r->chosens);
    for (size_t i = 0; i < r->chosens; i++) {
        const sl_traced_op *op = &r->chosen[i].of;
        if (!needs[i] && m->busy[i] != INT64_MIN && op->op.kind != SL_W && (op->op.kind != SL_F) == backward)
            value[gaps++] = begin_of(op) - m->busy[i];
    }
    sl_time usual = sl_median(value, gaps);
    return 2 * (usual > 0 ? usual : 0) + work / 50 + 1000;
}

static sl_status find_slack(messages *m) {
    const sl_recovery *r = m->r;
    sl_time *value;
    unsigned char *needs;
    SL_TRY(sl_alloc(&value, r->chosens, sizeof *value));
    sl_status status = sl_alloc(&needs, r->chosens, 1);
    for (size_t i = 0; i < m->count && status == SL_OK; i++)
        needs[m->carried[i].consumer] = 1;
    for (int backward = 0; backward < 2 && status == SL_OK; backward++)
        m->slack[backward] = slack_of(m, needs, backward, value);
    SL_FREE(value, needs);
    return status;
}

static void find_busy(messages *m) {
    const sl_recovery *r = m->r;
    for (size_t i = 0; i < r->chosens; i++)
        m->busy[i] =
            i > 0 && r->chosen[i - 1].rank == r->chosen[i].rank ? r->chosen[i - 1].of.end : INT64_MIN;
}

static void find_awaited(messages *m) {
    for (size_t i = 0; i < m->count; i++) {
        sl_carried *c = &m->carried[i];
        const sl_traced_op *needs = &m->r->chosen[c->consumer].of;
        const sl_time busy = m->busy[c->consumer], slack = m->slack[needs->op.kind != SL_F];
        if (m->reported[i])
            c->awaited = !is_second(m->r, c->consumer) &&
                         c->arrive - (busy > m->issued[i] ? busy : m->issued[i]) > slack;
        else
            c->awaited |= busy == INT64_MIN || begin_of(needs) - busy > slack;
    }
}

static sl_status make_room(messages *m) {
    const sl_recovery *r = m->r;
    size_t cells = 2 * (size_t)r->stages * (size_t)r->microbatches;
    SL_TRY(sl_alloc(&m->carried, cells, sizeof *m->carried));
    SL_TRY(sl_alloc(&m->slot, cells, sizeof *m->slot));
    SL_TRY(sl_alloc(&m->sent, cells, sizeof *m->sent));
    SL_TRY(sl_alloc(&m->issued, cells, sizeof *m->issued));
    SL_TRY(sl_alloc(&m->reported, cells, 1));
    SL_TRY(sl_alloc(&m->busy, r->chosens, sizeof *m->busy));
    SL_TRY(sl_alloc(&m->begin, (size_t)r->ranks, sizeof *m->begin));
    SL_TRY(sl_alloc(&m->end, (size_t)r->ranks, sizeof *m->end));
    memset(m->slot, 255, cells * sizeof *m->slot);
    for (size_t i = 0; i < cells; i++) {
        m->sent[i] = SL_TIME_NEVER;
        m->issued[i] = INT64_MIN;
    }
    return SL_OK;
}

sl_status sl_recover_messages(const sl_recovery *r, sl_carried **carried, size_t *count) {
    messages m = {.r = r};
    sl_status status;
    SL_TRY_GOTO(done, status, make_room(&m));
    list_messages(&m);
    find_busy(&m);
    find_window(&m);
    SL_TRY_GOTO(done, status, find_slack(&m));
    match_events(&m);
    match_inner(&m);
    find_awaited(&m);
done:
    SL_FREE(m.slot, m.sent, m.issued, m.busy, m.reported, m.begin, m.end);
    *carried = m.carried;
    *count = m.count;
    return status;
}
