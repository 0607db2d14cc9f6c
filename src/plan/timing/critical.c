#include "plan/timing/critical.h"

/* The walk goes backwards: from the entry that ends last to the cause of its start, and so on to the first
 * forward. Every step asks which of the replay's rules (replay.c) gave the present start. */
typedef struct walk {
    const sl_problem *problem;
    const sl_program *program;
    const sl_timeline *t;
} walk;

enum { NONE = SL_NO_CAUSE };

/* ---- positions: spans are by rank, then in the program's order ---- */

/* First span of a rank (or of the ranks after it). */
static int32_t first_span(const walk *w, int rank) {
    int32_t low = 0, high = w->t->spans;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (w->t->span[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const sl_step *step_of(const walk *w, int32_t span) {
    int rank = w->t->span[span].rank;
    return &w->program->rank[rank].step[span - first_span(w, rank)];
}

/* The span of `rank` that ends at `end`: ends do not descend along a rank. The last of several; NONE. */
static int32_t span_ending(const walk *w, int rank, sl_time end) {
    int32_t low = first_span(w, rank), high = first_span(w, rank + 1), first = low;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (w->t->span[middle].end <= end)
            low = middle + 1;
        else
            high = middle;
    }
    return low > first && w->t->span[low - 1].end == end ? low - 1 : NONE;
}

/* The entry of a move of a rank: its moves are contiguous after the collectives. */
static int32_t move_entry(const walk *w, int rank, int32_t move) {
    int c = 0;
    while (c < w->t->collectives &&
           (w->t->collective[c].op.kind < SL_OFFLOAD || w->t->collective[c].rank < rank))
        c++;
    return w->t->spans + c + move;
}

static int32_t producer_of(const walk *w, int32_t message) {
    const sl_message *m = &w->program->message[message];
    return first_span(w, m->from) + m->producer;
}

static sl_queue_kind queue_of(const walk *w, int from, int to) {
    int ranks = w->program->ranks;
    int next = ranks == 2 ? to > from : to == (from + 1) % ranks;
    return next ? SL_SEND_NEXT : SL_SEND_PREVIOUS;
}

/* The message that its rank sent to the same peer `back` messages before this one; NONE. */
static int32_t sent_before(const walk *w, int32_t message, int back) {
    const sl_message *m = &w->program->message[message];
    const sl_rank_program *sender = &w->program->rank[m->from];
    sl_queue_kind queue = queue_of(w, m->from, m->to);
    const int32_t *sent = sender->queue[queue]; /* ascending */
    int low = 0, high = sender->queued[queue] - 1;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (sent[middle] < message)
            low = middle + 1;
        else
            high = middle;
    }
    return low >= back ? sent[low - back] : NONE;
}

/* ---- candidates: each returns an entry of the path or NONE ---- */

static int32_t transfer_entry(int32_t message) {
    return message == NONE ? NONE : -1 - message;
}

/* The message whose arrival freed the slot that `message` takes at `time` (inorder). */
static int32_t slot_freed(const walk *w, int32_t message, sl_time time) {
    if (w->problem->communication != SL_INORDER)
        return NONE;
    int32_t earlier = sent_before(w, message, w->problem->queue);
    return earlier != NONE && w->t->transfer[earlier].arrive == time ? transfer_entry(earlier) : NONE;
}

/* The last message of a queue that left its wire at `time`, if it spent time on the wire or, with `instant`,
 * if it was produced at exactly that time. */
static int32_t left_wire(const walk *w, int rank, int queue, sl_time time, int instant) {
    const int32_t *sent = w->program->rank[rank].queue[queue];
    int low = 0, high = w->program->rank[rank].queued[queue], most = high;
    while (low < high) { /* the first that leaves at `time` or later */
        int middle = low + (high - low) / 2;
        if (w->t->transfer[sent[middle]].end < time)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < most && w->t->transfer[sent[low]].end == time; low++) {
        const sl_transfer *transfer = &w->t->transfer[sent[low]];
        if (instant
                ? w->t->span[producer_of(w, sent[low])].end == time || slot_freed(w, sent[low], time) != NONE
                : transfer->start < time)
            return transfer_entry(sent[low]);
    }
    return NONE;
}

/* The message before on the same wire. Its own link first, then all that share the wire, by rank. */
static int32_t wire_before(const walk *w, int32_t message, sl_time time) {
    const sl_message *m = &w->program->message[message];
    int32_t earlier = sent_before(w, message, 1), ranks = w->program->ranks;
    if (earlier != NONE && w->t->transfer[earlier].end == time)
        return transfer_entry(earlier);
    const int *wire = w->problem->wire;
    for (int instant = 0; wire && instant < 2; instant++)
        for (int rank = 0; rank < ranks; rank++)
            for (int queue = SL_SEND_NEXT; queue <= SL_SEND_PREVIOUS; queue++) {
                if (w->program->rank[rank].queued[queue] == 0)
                    continue;
                int to = w->program->message[w->program->rank[rank].queue[queue][0]].to;
                if (wire[rank * ranks + to] != wire[m->from * ranks + m->to])
                    continue;
                int32_t found = left_wire(w, rank, queue, time, instant);
                if (found != NONE && found != transfer_entry(message))
                    return found;
            }
    return NONE;
}

static int32_t before_transfer(const walk *w, int32_t message) {
    if (w->t->cause)
        return w->t->cause[2 * message];
    sl_time start = w->t->transfer[message].start;
    int32_t producer = producer_of(w, message), found;
    if (w->t->span[producer].end == start)
        return producer;
    if ((found = slot_freed(w, message, start)) != NONE)
        return found;
    return wire_before(w, message, start);
}

/* The message that a step waited for, or what its receive waited for; or the gather of its stage. */
static int32_t input_of(const walk *w, const sl_step *step, sl_time start) {
    if (step->receive >= 0 && w->t->transfer[step->receive].arrive == start) {
        int32_t late = w->t->cause ? w->t->cause[2 * step->receive + 1] : NONE;
        return late != NONE ? late : transfer_entry(step->receive);
    }
    for (int c = 0; c < w->t->collectives && step->op.kind == SL_F; c++) {
        const sl_span *gather = &w->t->collective[c];
        if (gather->op.kind == SL_GATHER && gather->op.stage == step->op.stage && gather->end == start)
            return w->t->spans + c;
    }
    return NONE;
}

/* The send of the block before that held the rank: for lack of a slot (inorder), until its arrival
 * (batched). */
static int32_t held_by(const walk *w, const sl_step *step, sl_time start) {
    if (step->send < 0)
        return NONE;
    if (w->problem->communication == SL_BATCHED)
        return w->t->transfer[step->send].arrive == start ? transfer_entry(step->send) : NONE;
    return slot_freed(w, step->send, start);
}

/* Of two transfers, that of the lower rank; any transfer before a collective. */
static int32_t preferred(const walk *w, int32_t a, int32_t b) {
    if (a == NONE || b == NONE)
        return a == NONE ? b : a;
    if (a >= 0 || b >= 0)
        return a >= 0 ? b : a;
    return w->t->transfer[-1 - b].from < w->t->transfer[-1 - a].from ? b : a;
}

static int32_t before_op(const walk *w, int32_t span) {
    const sl_step *step = step_of(w, span);
    int32_t step_index = span - first_span(w, w->t->span[span].rank), found = NONE;
    sl_time start = w->t->span[span].start;
    if (step_index > 0 && step[-1].op.paired) {
        step--;
        step_index--;
        span--;
    }
    if (step_index > 0 && w->t->span[span - 1].end == start)
        return span - 1;
    for (int i = 0; i < 1 + (step->op.paired != 0); i++)
        found = preferred(w, found, input_of(w, &step[i], start));
    for (int i = 1; i <= step_index && i <= 2 && (i == 1 || step[-2].op.paired); i++)
        found = preferred(w, found, held_by(w, &step[-i], start));
    const int32_t *awaited = w->program->rank[w->t->span[span].rank].awaited;
    if (found == NONE && awaited && awaited[step_index] >= 0) {
        int32_t entry = move_entry(w, w->t->span[span].rank, awaited[step_index]);
        if (w->t->collective[entry - w->t->spans].end == start)
            return entry;
    }
    return found;
}

/* A move follows the step that it waits for, or the move before. */
static int32_t before_move(const walk *w, int32_t index) {
    const sl_span *mine = &w->t->collective[index];
    int32_t move = w->t->spans + index - move_entry(w, mine->rank, 0),
            after = w->program->rank[mine->rank].move[move].after, span = first_span(w, mine->rank) + after;
    if (after >= 0 && w->t->span[span].end == mine->start)
        return span;
    return move > 0 && mine[-1].end == mine->start ? w->t->spans + index - 1 : NONE;
}

/* A collective follows another of its rank, a reduction also the last W or B of its stage. */
static int32_t before_collective(const walk *w, int32_t index) {
    const sl_span *mine = &w->t->collective[index];
    if (mine->op.kind >= SL_OFFLOAD)
        return before_move(w, index);
    int32_t op = mine->op.kind == SL_REDUCE ? span_ending(w, mine->rank, mine->start) : NONE;
    if (op != NONE && op > 0 && w->t->span[op].op.stage != mine->op.stage && w->t->span[op - 1].op.paired)
        op--;
    if (op != NONE)
        return op;
    for (int c = 0; c < w->t->collectives; c++) {
        const sl_span *other = &w->t->collective[c];
        if (c != index && other->op.kind < SL_OFFLOAD && other->rank == mine->rank &&
            other->end == mine->start)
            return w->t->spans + c;
    }
    return NONE;
}

/* ---- the path ---- */

static sl_time begin_of(const sl_timeline *t) {
    sl_time begin = SL_TIME_NEVER;
    for (int i = 0; i < t->spans; i++)
        if (t->span[i].op.kind == SL_F && t->span[i].start < begin)
            begin = t->span[i].start;
    return begin;
}

static int32_t last_of(const sl_timeline *t) {
    int32_t last = NONE;
    sl_time end = -1;
    for (int32_t i = 0; i < t->spans; i++)
        if (t->span[i].end > end) {
            end = t->span[i].end;
            last = i;
        }
    for (int32_t c = 0; c < t->collectives; c++)
        if (t->collective[c].end > end) {
            end = t->collective[c].end;
            last = t->spans + c;
        }
    return last;
}

static sl_time start_of(const sl_timeline *t, int32_t entry) {
    if (entry < 0)
        return t->transfer[-1 - entry].start;
    return entry < t->spans ? t->span[entry].start : t->collective[entry - t->spans].start;
}

static int32_t before(const walk *w, int32_t entry) {
    if (entry < 0)
        return before_transfer(w, -1 - entry);
    return entry < w->t->spans ? before_op(w, entry) : before_collective(w, entry - w->t->spans);
}

int32_t sl_critical_cause(const sl_problem *problem, const sl_program *program, const sl_timeline *timeline,
                          int32_t entry) {
    return before(&(walk){problem, program, timeline}, entry);
}

int sl_critical_path(const sl_problem *problem, const sl_program *program, const sl_timeline *timeline,
                     int32_t *path) {
    walk w = {problem, program, timeline};
    sl_time begin = begin_of(timeline);
    int length = 0, room = timeline->spans + timeline->transfers + timeline->collectives;
    for (int32_t now = last_of(timeline); now != NONE && length < room;) {
        path[length++] = now;
        if (start_of(timeline, now) <= begin)
            break;
        now = before(&w, now);
    }
    for (int i = 0; i < length / 2; i++) {
        int32_t kept = path[i];
        path[i] = path[length - 1 - i];
        path[length - 1 - i] = kept;
    }
    return length;
}
