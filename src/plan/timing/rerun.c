#include "plan/timing/rerun.h"
#include "base/memory.h"
#include "plan/timing/replay_inside.h"

#include <string.h>

/* What a step leaves to the next one of its rank: the times at which the rank and its two wires are free
 * again. As a tail, what it leaves to the step before: the least times from there to the end of everything.
 */
typedef struct rerun_state {
    sl_time free, wire[2];
} rerun_state;

typedef struct rerun_message {
    sl_time transfer, latency;
    int32_t wire; /* of its sender's two */
} rerun_message;

typedef struct rerun_change {
    int32_t rank, first, last;
} rerun_change;

/* What was before a step or message was timed again; `slot` is the index of a step over all ranks. */
typedef struct old_step {
    int32_t slot;
    sl_span span;
    rerun_state left;
} old_step;

typedef struct old_message {
    int32_t message;
    sl_time start;
} old_message;

typedef struct old_tail {
    int32_t slot;
    rerun_state tail;
} old_tail;

/* A rank with steps to time again. */
typedef struct front_entry {
    sl_time key; /* of its first one */
    int32_t rank, next;
} front_entry;

/* Steps to time again, the earliest first (backward: the latest, and positions count from the rank's end). */
typedef struct rerun_front {
    uint64_t *bits; /* a bit per step, each rank in words of its own */
    int32_t *word;  /* [ranks + 1] the rank's first */
    int32_t *at;    /* [ranks] its entry; -1: none */
    front_entry *entry;
    int count;
} rerun_front;

struct sl_rerun {
    sl_replayer *replayer;
    rerun_message *message;
    rerun_state *left, *tail; /* by slot */
    rerun_front front;
    rerun_change *change;
    int changes;
    old_step *step;
    old_message *moved;
    old_tail *tails;
    int steps, moves, tail_count; /* entries of these */
    int most;                     /* steps timed in one run; then it is replayed in full */
    int whole;                    /* that has happened: the base is in the copies */
    sl_span *base_span;
    sl_transfer *base_transfer;
    rerun_state *base_left;
    int64_t cost;
};

static int slots(const sl_rerun *u) {
    return u->replayer->first_span[u->replayer->program->ranks];
}

/* ---- the front ---- */

static inline sl_time time_at(const sl_rerun *u, int rank, int position, int backward) {
    const sl_replayer *r = u->replayer;
    if (backward)
        return -r->timeline.span[r->first_span[rank + 1] - 1 - position].start;
    return r->timeline.span[r->first_span[rank] + position].start;
}

static void note(sl_rerun *u, int rank, int step, int backward) {
    rerun_front *f = &u->front;
    int steps = u->replayer->program->rank[rank].steps, position = backward ? steps - 1 - step : step;
    f->bits[f->word[rank] + position / 64] |= UINT64_C(1) << (position % 64);
    if (f->at[rank] < 0) {
        f->at[rank] = f->count++;
        f->entry[f->at[rank]] = (front_entry){.rank = rank, .next = INT32_MAX};
    }
    front_entry *entry = &f->entry[f->at[rank]];
    if (position < entry->next) {
        entry->next = position;
        entry->key = time_at(u, rank, position, backward);
    }
}

static int position_from(const rerun_front *f, int rank, int position) {
    int word = f->word[rank] + position / 64;
    uint64_t bits = word < f->word[rank + 1] ? f->bits[word] & (~UINT64_C(0) << (position % 64)) : 0;
    while (bits == 0 && ++word < f->word[rank + 1])
        bits = f->bits[word];
    return bits == 0 ? -1 : (word - f->word[rank]) * 64 + __builtin_ctzll(bits);
}

/* Removes a step, if it is there. */
static inline void drop(sl_rerun *u, int rank, int position, int backward) {
    rerun_front *f = &u->front;
    if (f->at[rank] < 0)
        return;
    front_entry *entry = &f->entry[f->at[rank]];
    f->bits[f->word[rank] + position / 64] &= ~(UINT64_C(1) << (position % 64));
    if (position != entry->next)
        return;
    entry->next = position_from(f, rank, position);
    if (entry->next >= 0) {
        entry->key = time_at(u, rank, entry->next, backward);
        return;
    }
    *entry = f->entry[--f->count];
    f->at[entry->rank] = (int32_t)(entry - f->entry);
    f->at[rank] = -1;
}

/* Removes the first step; returns 0 if there is none. */
static inline int take(sl_rerun *u, int *rank, int *step, int backward) {
    const rerun_front *f = &u->front;
    if (f->count == 0)
        return 0;
    sl_time least = f->entry[0].key;
    int best = 0;
    for (int i = 1; i < f->count; i++) {
        sl_time key = f->entry[i].key;
        best = key < least ? i : best;
        least = key < least ? key : least;
    }
    int position = f->entry[best].next;
    *rank = f->entry[best].rank;
    *step = backward ? u->replayer->program->rank[*rank].steps - 1 - position : position;
    drop(u, *rank, position, backward);
    return 1;
}

static void empty(rerun_front *f) {
    for (int i = 0; i < f->count; i++) {
        int rank = f->entry[i].rank;
        memset(&f->bits[f->word[rank]], 0, (size_t)(f->word[rank + 1] - f->word[rank]) * sizeof *f->bits);
        f->at[rank] = -1;
    }
    f->count = 0;
}

/* ---- forward ---- */

static int differ(const rerun_state *a, const rerun_state *b) {
    return a->free != b->free || a->wire[0] != b->wire[0] || a->wire[1] != b->wire[1];
}

static void set_transfer(sl_rerun *u, int32_t index, sl_time start) {
    const rerun_message *m = &u->message[index];
    sl_transfer *t = &u->replayer->timeline.transfer[index];
    t->start = start;
    t->end = start + m->transfer;
    t->arrive = t->end + m->latency;
}

/* Sends the message of a step that ends at `end`; returns when the rank is free. */
static sl_time send(sl_rerun *u, int32_t index, sl_time end, sl_time *wire) {
    sl_replayer *r = u->replayer;
    const rerun_message *m = &u->message[index];
    const sl_transfer *t = &r->timeline.transfer[index];
    sl_time start = sl_later(wire[m->wire], end);
    wire[m->wire] = start + m->transfer;
    if (start != t->start) {
        const sl_message *message = &r->program->message[index];
        u->moved[u->moves++] = (old_message){index, t->start};
        set_transfer(u, index, start);
        note(u, message->to, message->consumer, 0);
    }
    return r->regime == SL_BATCHED ? start + m->transfer + m->latency : end;
}

/* Times a step again, and notes whom its message reaches at another time. Returns whether the next step is
 * affected, too. */
static int time_step(sl_rerun *u, int rank, int i, sl_time *began) {
    sl_replayer *r = u->replayer;
    int slot = r->first_span[rank] + i;
    const sl_step *step = &r->program->rank[rank].step[i];
    sl_span *span = &r->timeline.span[slot];
    rerun_state left = i > 0 ? u->left[slot - 1] : (rerun_state){0};
    sl_time start = left.free;
    if (step->receive >= 0)
        start = sl_later(start, r->timeline.transfer[step->receive].arrive);
    sl_time end = start + sl_problem_op_time(r->problem, &step->op);
    left.free = step->send >= 0 ? send(u, step->send, end, left.wire) : end;
    u->step[u->steps++] = (old_step){slot, *span, u->left[slot]};
    *span = (sl_span){.rank = rank, .op = step->op, .start = start, .end = end};
    *began = start;
    if (!differ(&left, &u->left[slot]))
        return 0;
    u->left[slot] = left;
    return i + 1 < r->program->rank[rank].steps;
}

/* What each step has left, from a timeline. */
static void find_left(sl_rerun *u) {
    const sl_replayer *r = u->replayer;
    for (int rank = 0; rank < r->program->ranks; rank++) {
        rerun_state left = {0};
        for (int i = 0; i < r->program->rank[rank].steps; i++) {
            int slot = r->first_span[rank] + i, index = r->program->rank[rank].step[i].send;
            left.free = r->timeline.span[slot].end;
            if (index >= 0) {
                const sl_transfer *t = &r->timeline.transfer[index];
                left.wire[u->message[index].wire] = t->end;
                left.free = r->regime == SL_BATCHED ? t->arrive : left.free;
            }
            u->left[slot] = left;
        }
    }
}

static sl_time end_of(const sl_rerun *u) {
    const sl_replayer *r = u->replayer;
    sl_time end = 0;
    for (int rank = 0; rank < r->program->ranks; rank++)
        if (r->first_span[rank + 1] > r->first_span[rank])
            end = sl_later(end, r->timeline.span[r->first_span[rank + 1] - 1].end);
    return end;
}

/* ---- backward ---- */

/* Tails before a step, from those after it. */
static rerun_state tail_of(const sl_rerun *u, int rank, int i) {
    const sl_replayer *r = u->replayer;
    int slot = r->first_span[rank] + i;
    const sl_step *step = &r->program->rank[rank].step[i];
    rerun_state tail = i + 1 < r->program->rank[rank].steps ? u->tail[slot + 1] : (rerun_state){0};
    if (step->send >= 0) {
        const rerun_message *m = &u->message[step->send];
        const sl_message *message = &r->program->message[step->send];
        sl_time arrived = u->tail[r->first_span[message->to] + message->consumer].free;
        if (r->regime == SL_BATCHED)
            arrived = sl_later(arrived, tail.free);
        sl_time sent = m->transfer + sl_later(m->latency + arrived, tail.wire[m->wire]);
        tail.wire[m->wire] = sent;
        tail.free = r->regime == SL_BATCHED ? sent : sl_later(tail.free, sent);
    }
    tail.free += sl_problem_op_time(r->problem, &step->op);
    return tail;
}

/* Notes the sender of the step's message, whose tail follows from the step's. */
static void note_sender(sl_rerun *u, const sl_step *step) {
    if (step->receive < 0)
        return;
    const sl_message *message = &u->replayer->program->message[step->receive];
    note(u, message->from, message->producer, 1);
}

static void follow_back(sl_rerun *u) {
    int rank, i;
    while (take(u, &rank, &i, 1))
        for (const sl_step *step = &u->replayer->program->rank[rank].step[i];; step--, i--) {
            int slot = u->replayer->first_span[rank] + i;
            rerun_state tail = tail_of(u, rank, i);
            u->cost++;
            if (!differ(&tail, &u->tail[slot]))
                break;
            u->tail[slot] = tail;
            note_sender(u, step);
            if (i == 0)
                break;
            if (step[-1].send >= 0) {
                note(u, rank, i - 1, 1); /* after the receiver of its message */
                break;
            }
            drop(u, rank, u->replayer->program->rank[rank].steps - i, 1);
        }
}

static void find_tails(sl_rerun *u) {
    const sl_program *program = u->replayer->program;
    memset(u->tail, 0, (size_t)slots(u) * sizeof *u->tail);
    for (int rank = 0; rank < program->ranks; rank++)
        for (int i = 0; i < program->rank[rank].steps; i++)
            note(u, rank, i, 1);
    follow_back(u);
}

/* The tails of the changed steps, whose old ones are those of others. */
static void find_changed_tails(sl_rerun *u) {
    for (int c = 0; c < u->changes; c++)
        for (int i = u->change[c].last; i >= u->change[c].first; i--) {
            int slot = u->replayer->first_span[u->change[c].rank] + i;
            u->tails[u->tail_count++] = (old_tail){slot, u->tail[slot]};
            u->tail[slot] = tail_of(u, u->change[c].rank, i);
        }
}

/* ---- runs ---- */

static void restore(sl_rerun *u) {
    sl_replayer *r = u->replayer;
    while (u->steps > 0) {
        const old_step *old = &u->step[--u->steps];
        r->timeline.span[old->slot] = old->span;
        u->left[old->slot] = old->left;
    }
    while (u->moves > 0) {
        const old_message *old = &u->moved[--u->moves];
        set_transfer(u, old->message, old->start);
    }
    while (u->tail_count > 0) {
        const old_tail *old = &u->tails[--u->tail_count];
        u->tail[old->slot] = old->tail;
    }
}

static void copy(sl_rerun *u, int back) {
    sl_timeline *t = &u->replayer->timeline;
    size_t steps = (size_t)slots(u), messages = (size_t)u->replayer->program->messages;
    memcpy(back ? t->span : u->base_span, back ? u->base_span : t->span, steps * sizeof *t->span);
    memcpy(back ? t->transfer : u->base_transfer, back ? u->base_transfer : t->transfer,
           messages * sizeof *t->transfer);
    memcpy(back ? u->left : u->base_left, back ? u->base_left : u->left, steps * sizeof *u->left);
}

/* After too many steps: the program may never end, or change nearly everywhere. */
static sl_time run_whole(sl_rerun *u) {
    empty(&u->front);
    restore(u);
    copy(u, 0);
    u->whole = 1;
    u->cost += slots(u);
    sl_time end = sl_replayer_run(u->replayer, NULL);
    if (end != SL_TIME_NEVER)
        find_left(u);
    return end;
}

sl_time sl_rerun_begin(sl_rerun *u) {
    sl_time end = sl_replayer_run(u->replayer, NULL);
    u->steps = u->moves = u->tail_count = u->changes = u->whole = 0;
    if (end == SL_TIME_NEVER)
        return end;
    find_left(u);
    find_tails(u);
    return end_of(u);
}

void sl_rerun_change(sl_rerun *u, int rank, int first, int last) {
    u->change[u->changes++] = (rerun_change){rank, first, last};
}

sl_time sl_rerun_run(sl_rerun *u, sl_time limit) {
    int rank, i, done = 0;
    find_changed_tails(u);
    for (int c = 0; c < u->changes; c++)
        for (int k = u->change[c].first; k <= u->change[c].last; k++)
            note(u, u->change[c].rank, k, 0);
    while (take(u, &rank, &i, 0))
        for (int more = 1; more; i++) {
            sl_time start;
            if (++done > u->most)
                return run_whole(u);
            u->cost++;
            more = time_step(u, rank, i, &start);
            if (start + u->tail[u->replayer->first_span[rank] + i].free > limit) {
                empty(&u->front);
                return SL_TIME_NEVER;
            }
            if (more && u->replayer->program->rank[rank].step[i + 1].receive >= 0) {
                note(u, rank, i + 1, 0); /* after its message, which may change, too */
                more = 0;
            } else if (more) {
                drop(u, rank, i + 1, 0);
            }
        }
    return end_of(u);
}

const sl_timeline *sl_rerun_timeline(const sl_rerun *u) {
    return &u->replayer->timeline;
}

int64_t sl_rerun_cost(sl_rerun *u) {
    int64_t cost = u->cost;
    u->cost = 0;
    return cost;
}

void sl_rerun_keep(sl_rerun *u) {
    if (u->whole)
        find_tails(u);
    for (int c = 0; c < u->changes && !u->whole; c++)
        for (int i = u->change[c].first; i <= u->change[c].last; i++) {
            note(u, u->change[c].rank, i, 1);
            note_sender(u, &u->replayer->program->rank[u->change[c].rank].step[i]);
            if (i > 0)
                note(u, u->change[c].rank, i - 1, 1);
        }
    follow_back(u);
    u->steps = u->moves = u->tail_count = u->changes = u->whole = 0;
}

void sl_rerun_undo(sl_rerun *u) {
    if (u->whole)
        copy(u, 1);
    restore(u);
    u->changes = u->whole = 0;
}

/* ---- making one ---- */

static int suits(const sl_replayer *r) {
    if ((r->regime != SL_DECOUPLED && r->regime != SL_BATCHED) || r->shared || r->collective || r->moving ||
        r->latency || r->time || !r->problem->link)
        return 0;
    for (int rank = 0; rank < r->program->ranks; rank++)
        for (int i = 0; i < r->program->rank[rank].steps; i++) {
            const sl_op *op = &r->program->rank[rank].step[i].op;
            if (op->paired || sl_problem_op_time(r->problem, op) <= 0)
                return 0;
        }
    return 1;
}

static void find_messages(sl_rerun *u) {
    sl_replayer *r = u->replayer;
    for (int m = 0; m < r->program->messages; m++) {
        const sl_message *message = &r->program->message[m];
        const sl_link *link =
            &r->problem->link[(size_t)message->from * (size_t)r->program->ranks + (size_t)message->to];
        u->message[m] = (rerun_message){.transfer = link->transfer,
                                        .latency = link->latency,
                                        .wire = (int32_t)(sl_replay_lane(r, message) - r->lane) % 2};
    }
}

static sl_status make_front(const sl_replayer *r, rerun_front *f) {
    size_t ranks = (size_t)r->program->ranks;
    SL_TRY(sl_alloc(&f->word, ranks + 1, sizeof *f->word));
    SL_TRY(sl_alloc(&f->at, ranks, sizeof *f->at));
    SL_TRY(sl_alloc(&f->entry, ranks, sizeof *f->entry));
    for (size_t rank = 0; rank < ranks; rank++) {
        f->at[rank] = -1;
        f->word[rank + 1] = f->word[rank] + (r->program->rank[rank].steps + 63) / 64;
    }
    return sl_alloc(&f->bits, (size_t)f->word[ranks], sizeof *f->bits);
}

static sl_status make(sl_rerun *u) {
    const sl_replayer *r = u->replayer;
    size_t steps = (size_t)slots(u), messages = (size_t)r->program->messages, most = 3 * steps + 64;
    u->most = (int)most;
    SL_TRY(sl_alloc(&u->message, messages, sizeof *u->message));
    SL_TRY(sl_alloc(&u->left, steps, sizeof *u->left));
    SL_TRY(sl_alloc(&u->tail, steps, sizeof *u->tail));
    SL_TRY(sl_alloc(&u->change, 2 * (size_t)r->program->ranks, sizeof *u->change));
    SL_TRY(sl_alloc(&u->step, most, sizeof *u->step));
    SL_TRY(sl_alloc(&u->moved, most, sizeof *u->moved));
    SL_TRY(sl_alloc(&u->tails, 2 * steps, sizeof *u->tails));
    SL_TRY(sl_alloc(&u->base_span, steps, sizeof *u->base_span));
    SL_TRY(sl_alloc(&u->base_transfer, messages, sizeof *u->base_transfer));
    SL_TRY(sl_alloc(&u->base_left, steps, sizeof *u->base_left));
    SL_TRY(make_front(r, &u->front));
    find_messages(u);
    return SL_OK;
}

sl_status sl_rerun_open(sl_replayer *replayer, sl_rerun **rerun) {
    *rerun = NULL;
    if (!suits(replayer))
        return SL_OK;
    SL_TRY(sl_alloc(rerun, 1, sizeof **rerun));
    (*rerun)->replayer = replayer;
    sl_status status = make(*rerun);
    if (status != SL_OK) {
        sl_rerun_close(*rerun);
        *rerun = NULL;
    }
    return status;
}

void sl_rerun_close(sl_rerun *u) {
    if (!u)
        return;
    SL_FREE(u->message, u->left, u->tail, u->change, u->step, u->moved, u->tails, u->base_span,
            u->base_transfer, u->base_left);
    SL_FREE(u->front.bits, u->front.word, u->front.at, u->front.entry);
    sl_free(u);
}
