#include "base/memory.h"
#include "plan/lower/deadlock.h"
#include "plan/timing/replay_inside.h"

#include <assert.h>
#include <string.h>

/* ---- one block ---- */

replay_lane *sl_replay_lane(const sl_replayer *r, const sl_message *message) {
    int ranks = r->program->ranks;
    int next = ranks == 2 ? message->to > message->from : message->to == (message->from + 1) % ranks;
    return &r->lane[2 * message->from + (next ? 0 : 1)];
}

void sl_replay_push(sl_replayer *r, int32_t rank) {
    if (!r->on_stack[rank]) {
        r->on_stack[rank] = 1;
        r->stack[r->depth++] = rank;
    }
}

/* ---- instants: ranks; wires, as lanes; reductions, by stage; copy engines, by rank; slots, by lane ---- */

static int first_slot(const sl_replayer *r, const replay_lane *lane) {
    return 4 * r->program->ranks + r->problem->stages + (int)(lane - r->lane) * r->queue;
}

static int copy_engine(const sl_replayer *r, int rank) {
    return 3 * r->program->ranks + r->problem->stages + rank;
}

static sl_time reduced(const sl_replayer *r, int stage) {
    return r->begin ? r->begin[3 * r->program->ranks + stage] : 0;
}

/* When the collectives of the iteration before have left the rank. */
static sl_time collectives_end(const sl_replayer *r, int rank) {
    sl_time end = reduced(r, 0);
    int any = 0;
    for (int stage = 0; stage < r->problem->stages; stage++)
        if (sl_problem_rank(r->problem, stage) == rank) {
            end = any ? sl_later(end, reduced(r, stage)) : reduced(r, stage);
            any = 1;
        }
    return end;
}

/* The time at which a message whose data exist at `end` gets a slot (inorder). */
static sl_time issue_time(const sl_replayer *r, int32_t index, sl_time end) {
    const replay_lane *l = sl_replay_lane(r, &r->program->message[index]);
    if (r->regime != SL_INORDER || (l->sent < r->queue && !r->begin))
        return end;
    sl_time freed =
        l->sent < r->queue ? r->begin[first_slot(r, l) + l->sent] : r->arrival[l->first + l->sent - r->queue];
    return freed > end ? freed : end;
}

void sl_replay_move(sl_replayer *r, int32_t index, sl_time time) {
    const sl_message *message = &r->program->message[index];
    static const sl_link free_of_cost;
    const sl_link *link =
        r->problem->link
            ? &r->problem->link[(size_t)message->from * (size_t)r->program->ranks + (size_t)message->to]
            : &free_of_cost;
    sl_time *wire = &r->wire_free[sl_replay_lane(r, message)->wire], start = *wire > time ? *wire : time;
    sl_transfer *t = &r->timeline.transfer[index];
    *t = (sl_transfer){.from = message->from,
                       .to = message->to,
                       .op = message->op,
                       .start = start,
                       .end = start + link->transfer,
                       .arrive = start + link->transfer + (r->latency ? r->latency[index] : link->latency)};
    *wire = t->end;
}

/* Sends a message that is issued at `issue`; returns when the rank's next op may start. */
static sl_time send(sl_replayer *r, int32_t index, sl_time issue) {
    const sl_message *message = &r->program->message[index];
    replay_lane *l = sl_replay_lane(r, message);
    sl_replay_move(r, index, issue);
    sl_time arrive = r->timeline.transfer[index].arrive;
    r->arrival[l->first + l->sent++] = arrive;
    r->arrived[index] = 1;
    int32_t next = r->next[message->to];
    if (message->consumer == next || message->consumer == next + 1)
        sl_replay_push(r, message->to);
    return r->regime == SL_BATCHED ? arrive : issue;
}

/* Whether the step's input has been sent; *start becomes its arrival if that is later. */
static int take_input(const sl_replayer *r, const sl_step *step, sl_time *start) {
    if (step->receive >= 0) {
        if (!r->arrived[step->receive])
            return 0;
        sl_time arrive = r->timeline.transfer[step->receive].arrive;
        *start = arrive > *start ? arrive : *start;
    }
    if (r->collective && step->op.kind == SL_F && r->gathered[step->op.stage] > *start)
        *start = r->gathered[step->op.stage];
    return 1;
}

static void record(sl_replayer *r, int rank, int32_t i, sl_time start, sl_time end) {
    r->timeline.span[r->first_span[rank] + i] =
        (sl_span){.rank = rank, .op = r->program->rank[rank].step[i].op, .start = start, .end = end};
}

/* The end of a move of a rank, computed with all moves before it: a copy engine makes one at a time. The
 * steps that they follow have ended, because no step waits for a move that follows a later step. */
static sl_time move_until(sl_replayer *r, int rank, int32_t last) {
    const sl_rank_program *mine = &r->program->rank[rank];
    sl_time *end = &r->move_end[r->first_move[rank]];
    for (int32_t m = r->moved[rank]; m <= last; m++) {
        sl_time start = m > 0 ? end[m - 1] : r->begin ? r->begin[copy_engine(r, rank)] : 0;
        if (mine->move[m].after >= 0) {
            sl_time ended = r->timeline.span[r->first_span[rank] + mine->move[m].after].end;
            start = ended > start ? ended : start;
        }
        end[m] = start + r->problem->offload[mine->move[m].stage];
        r->moved[rank] = m + 1;
    }
    return last >= 0 ? end[last] : INT64_MIN;
}

/* Starts the rank's next step, with the one paired with it. Returns the number of steps, 0 if it waits for a
 * message that has not been sent. `moving` is a constant, so that replays without moves pay nothing. */
static inline int start_block(sl_replayer *r, int rank, int moving, sl_time *end) {
    int32_t i = r->next[rank];
    const sl_step *step = &r->program->rank[rank].step[i];
    sl_time start = r->free[rank];
    if (!take_input(r, step, &start))
        return 0;
    if (moving) { /* a pair's moves are at its first step */
        sl_time moved = move_until(r, rank, r->program->rank[rank].awaited[i]);
        start = moved > start ? moved : start;
    }
    if (!step->op.paired) {
        *end =
            start + (r->time ? r->time[r->first_span[rank] + i] : sl_problem_op_time(r->problem, &step->op));
        record(r, rank, i, start, *end);
        return 1;
    }
    if (!take_input(r, &step[1], &start))
        return 0;
    *end = start + sl_problem_pair_time(r->problem, step->op.stage, step[1].op.stage);
    record(r, rank, i, start, *end);
    record(r, rank, i + 1, start, *end);
    return 2;
}

static void end_block(sl_replayer *r, int rank, int steps, sl_time end) {
    const sl_step *step = &r->program->rank[rank].step[r->next[rank]];
    sl_time now = end;
    r->next[rank] += steps;
    for (int i = 0; i < steps; i++)
        if (step[i].send >= 0) {
            sl_time may_go_on = send(r, step[i].send, issue_time(r, step[i].send, end));
            now = may_go_on > now ? may_go_on : now;
        }
    r->free[rank] = now;
}

/* ---- every link its own wire: a rank's ops end in sequence, so its messages reach a wire first come, first
 * served, and ranks may run far ahead of each other ---- */

static inline void run_rank(sl_replayer *r, int rank, int moving) {
    sl_time end;
    int steps;
    while (r->next[rank] < r->program->rank[rank].steps && (steps = start_block(r, rank, moving, &end)) > 0)
        end_block(r, rank, steps, end);
}

static void run_apart(sl_replayer *r) {
    for (int rank = r->program->ranks - 1; rank >= 0; rank--)
        sl_replay_push(r, rank);
    while (r->depth > 0) {
        int32_t rank = r->stack[--r->depth];
        r->on_stack[rank] = 0;
        if (r->moving)
            run_rank(r, rank, 1);
        else
            run_rank(r, rank, 0);
    }
}

/* ---- shared wires: messages of several ranks meet, so blocks end in order of time, then microbatch ---- */

/* Of a block in regime fifo, where messages are moments of their own: all that come to a wire at an instant
 * do so before it takes one. */
#define BEFORE_MESSAGES (-1)

static int earlier(const replay_moment *a, const replay_moment *b) {
    if (a->time != b->time)
        return a->time < b->time;
    return a->microbatch != b->microbatch ? a->microbatch < b->microbatch : a->rank < b->rank;
}

void sl_replay_add(sl_replayer *r, replay_moment added) {
    int i = r->moments++;
    for (; i > 0 && earlier(&added, &r->heap[(i - 1) / 2]); i = (i - 1) / 2)
        r->heap[i] = r->heap[(i - 1) / 2];
    r->heap[i] = added;
}

replay_moment sl_replay_take(sl_replayer *r) {
    replay_moment top = r->heap[0], last = r->heap[--r->moments];
    int i = 0;
    for (int child; (child = 2 * i + 1) < r->moments; i = child) {
        if (child + 1 < r->moments && earlier(&r->heap[child + 1], &r->heap[child]))
            child++;
        if (!earlier(&r->heap[child], &last))
            break;
        r->heap[i] = r->heap[child];
    }
    r->heap[i] = last;
    return top;
}

void sl_replay_start_ranks(sl_replayer *r) {
    while (r->depth > 0) {
        int32_t rank = r->stack[--r->depth];
        sl_time end;
        int steps;
        r->on_stack[rank] = 0;
        if (r->running[rank] || r->next[rank] >= r->program->rank[rank].steps)
            continue;
        if ((steps = start_block(r, rank, r->moving, &end)) == 0)
            continue;
        const sl_op *op = &r->program->rank[rank].step[r->next[rank]].op;
        r->running[rank] = (unsigned char)steps;
        r->issued[rank] = 0;
        sl_replay_add(r, (replay_moment){.time = end,
                                         .microbatch = r->fifo ? BEFORE_MESSAGES : op->microbatch,
                                         .rank = rank});
    }
}

/* Issues the sends of a block that have a slot by now. Each of the others reaches the wire when it has one,
 * and the rank goes on after the last. */
static void issue_sends(sl_replayer *r, const replay_moment *now) {
    int rank = now->rank;
    const sl_step *step = &r->program->rank[rank].step[r->next[rank]];
    sl_time end = r->timeline.span[r->first_span[rank] + r->next[rank]].end;
    replay_moment next = {.time = SL_TIME_NEVER, .rank = rank};
    for (int i = 0; i < r->running[rank]; i++) {
        if (step[i].send < 0 || r->issued[rank] & 1 << i)
            continue;
        sl_time issue = issue_time(r, step[i].send, end);
        if (issue <= now->time) {
            r->issued[rank] = (unsigned char)(r->issued[rank] | 1 << i);
            r->free[rank] = sl_later(r->free[rank], send(r, step[i].send, issue));
        } else if (issue < next.time) {
            next.time = issue;
            next.microbatch = step[i].op.microbatch;
        }
    }
    if (next.time < SL_TIME_NEVER) {
        sl_replay_add(r, next);
        return;
    }
    r->free[rank] = sl_later(r->free[rank], end);
    r->next[rank] += r->running[rank];
    r->running[rank] = 0;
    sl_replay_push(r, rank);
}

static void run_together(sl_replayer *r) {
    for (int rank = r->program->ranks - 1; rank >= 0; rank--)
        sl_replay_push(r, rank);
    sl_replay_start_ranks(r);
    while (r->moments > 0) {
        replay_moment now = sl_replay_take(r);
        issue_sends(r, &now);
        sl_replay_start_ranks(r);
    }
}

/* ---- collectives of a rank follow each other ---- */

static void add_collective(sl_replayer *r, int rank, int stage, int kind, sl_time start, sl_time end) {
    assert(r->timeline.collectives < 2 * r->problem->stages); /* a gather and a reduction each, then moves */
    r->timeline.collective[r->timeline.collectives++] = (sl_span){
        .rank = rank, .op = {.stage = stage, .microbatch = -1, .kind = kind}, .start = start, .end = end};
}

/* Gathers in the order in which the rank first needs their stages. In repeated iterations they follow the
 * rank's last op and reduction, since they gather what the update has changed. */
static void run_gathers(sl_replayer *r) {
    for (int rank = 0; rank < r->program->ranks; rank++) {
        const sl_rank_program *mine = &r->program->rank[rank];
        sl_time now = r->free[rank];
        for (int i = 0; i < mine->steps; i++) {
            int stage = mine->step[i].op.stage;
            sl_time time = r->problem->gather[stage];
            if (mine->step[i].op.kind != SL_F || r->gathered[stage] != NOT_GATHERED)
                continue;
            if (time > 0 && r->begin)
                now = sl_later(now, collectives_end(r, rank));
            if (time > 0)
                add_collective(r, rank, stage, SL_GATHER, now, now + time);
            now += time;
            r->gathered[stage] =
                r->problem->synchronization == SL_SYNC_UPDATE ? sl_later(now, reduced(r, stage)) : now;
        }
    }
}

/* Reductions in the order in which the rank ends the last W or B of their stages: `left` counts down. */
static void run_reductions(sl_replayer *r) {
    sl_time *left = r->gathered; /* no longer needed */
    for (int stage = 0; stage < r->problem->stages; stage++)
        left[stage] = (sl_time)sl_problem_microbatches(r->problem, stage) * r->problem->parts;
    int gather = 0, gathers = r->timeline.collectives; /* by rank: a rank's reductions wait for its gathers */
    for (int rank = 0; rank < r->program->ranks; rank++) {
        sl_time now = collectives_end(r, rank);
        for (; gather < gathers && r->timeline.collective[gather].rank == rank; gather++)
            now = r->timeline.collective[gather].end;
        for (int i = r->first_span[rank]; i < r->first_span[rank + 1]; i++) {
            const sl_span *span = &r->timeline.span[i];
            if ((span->op.kind != SL_W && span->op.kind != SL_B) || --left[span->op.stage] > 0)
                continue;
            sl_time start = span->end > now ? span->end : now, time = r->problem->reduce[span->op.stage];
            if (time > 0)
                add_collective(r, rank, span->op.stage, SL_REDUCE, start, start + time);
            now = time > 0 ? start + time : now;
        }
    }
}

/* By rank, in the order of its copy engine, after the collectives. */
static void add_moves(sl_replayer *r) {
    for (int rank = 0; rank < r->program->ranks; rank++) {
        const sl_rank_program *mine = &r->program->rank[rank];
        move_until(r, rank, mine->moves - 1);
        for (int m = 0; m < mine->moves; m++) {
            const sl_move *move = &mine->move[m];
            sl_time end = r->move_end[r->first_move[rank] + m];
            r->timeline.collective[r->timeline.collectives++] =
                (sl_span){.rank = rank,
                          .op = {.stage = move->stage,
                                 .microbatch = move->microbatch,
                                 .kind = move->kind,
                                 .part = (int16_t)move->half},
                          .start = end - r->problem->offload[move->stage],
                          .end = end};
        }
    }
}

/* ---- a replay ---- */

static void reset(sl_replayer *r) {
    size_t ranks = (size_t)r->program->ranks;
    memset(r->next, 0, ranks * sizeof *r->next);
    memset(r->free, 0, ranks * sizeof *r->free);
    memset(r->wire_free, 0, 2 * ranks * sizeof *r->wire_free);
    memset(r->arrived, 0, (size_t)r->program->messages);
    memset(r->running, 0, ranks);
    for (size_t i = 0; i < 2 * ranks; i++)
        r->lane[i].sent = 0;
    for (int stage = 0; stage < r->problem->stages; stage++)
        r->gathered[stage] = NOT_GATHERED;
    r->timeline.collectives = 0;
    if (r->begin) {
        memcpy(r->free, r->begin, ranks * sizeof *r->free);
        memcpy(r->wire_free, r->begin + ranks, 2 * ranks * sizeof *r->wire_free);
    }
    if (r->moving)
        memset(r->moved, 0, ranks * sizeof *r->moved);
}

/* Returns 0 if a rank waits forever. */
static int run(sl_replayer *r) {
    reset(r);
    if (r->collective)
        run_gathers(r);
    if (r->greedy)
        sl_greedy_run(r);
    else if (r->fifo)
        r->status = sl_fifo_run(r);
    else if (r->shared)
        run_together(r);
    else
        run_apart(r);
    for (int rank = 0; rank < r->program->ranks; rank++)
        if (r->next[rank] < r->program->rank[rank].steps)
            return 0;
    if (r->collective)
        run_reductions(r);
    if (r->moving)
        add_moves(r);
    return 1;
}

/* Gives lanes their range of arrivals, and their wires, renumbered from 0. */
static void make_lanes(sl_replayer *r) {
    const sl_problem *p = r->problem;
    int lanes = 2 * p->ranks;
    int32_t first = 0;
    for (int m = 0; m < r->program->messages; m++)
        sl_replay_lane(r, &r->program->message[m])->most++;
    for (int i = 0; i < lanes; i++) {
        r->lane[i].first = first;
        first += r->lane[i].most;
        r->lane[i].wire = i;
    }
    for (int i = 0; i < lanes && p->wire; i++) {
        int rank = i / 2, peer = (i % 2 ? rank + p->ranks - 1 : rank + 1) % p->ranks;
        for (int k = 0; k < i; k++) {
            int other = k / 2, its = (k % 2 ? other + p->ranks - 1 : other + 1) % p->ranks;
            if (r->lane[i].most && r->lane[k].most &&
                p->wire[rank * p->ranks + peer] == p->wire[other * p->ranks + its]) {
                r->lane[i].wire = r->lane[k].wire;
                r->shared = 1;
            }
        }
    }
}

/* Returns in *most the maximum number of moves of a timeline. */
static sl_status make_moves(sl_replayer *r, size_t *most) {
    size_t ranks = (size_t)r->program->ranks;
    *most = 0;
    for (size_t rank = 0; rank < ranks; rank++)
        r->moving |= r->program->rank[rank].move != NULL;
    if (!r->moving)
        return SL_OK;
    SL_TRY(sl_alloc(&r->first_move, ranks, sizeof *r->first_move));
    SL_TRY(sl_alloc(&r->moved, ranks, sizeof *r->moved));
    for (size_t rank = 0; rank < ranks; rank++) {
        r->first_move[rank] = (int32_t)*most;
        *most += 4 * (size_t)r->program->rank[rank].lifetimes;
    }
    return sl_alloc(&r->move_end, *most, sizeof *r->move_end);
}

static sl_status make_state(sl_replayer *r) {
    size_t ranks = (size_t)r->program->ranks, messages = (size_t)r->program->messages;
    SL_TRY(sl_alloc(&r->next, ranks, sizeof *r->next));
    SL_TRY(sl_alloc(&r->free, ranks, sizeof *r->free));
    SL_TRY(sl_alloc(&r->first_span, ranks + 1, sizeof *r->first_span));
    SL_TRY(sl_alloc(&r->lane, 2 * ranks, sizeof *r->lane));
    SL_TRY(sl_alloc(&r->wire_free, 2 * ranks, sizeof *r->wire_free));
    SL_TRY(sl_alloc(&r->arrival, messages, sizeof *r->arrival));
    SL_TRY(sl_alloc(&r->arrived, messages, 1));
    SL_TRY(sl_alloc(&r->gathered, (size_t)r->problem->stages, sizeof *r->gathered));
    SL_TRY(sl_alloc(&r->stack, ranks, sizeof *r->stack));
    SL_TRY(sl_alloc(&r->on_stack, ranks, 1));
    SL_TRY(sl_alloc(&r->heap, ranks + (r->regime == SL_FIFO ? messages : 0), sizeof *r->heap));
    SL_TRY(sl_alloc(&r->running, ranks, 1));
    SL_TRY(sl_alloc(&r->issued, ranks, 1));
    for (size_t rank = 0; rank < ranks; rank++)
        r->first_span[rank + 1] = r->first_span[rank] + r->program->rank[rank].steps;
    make_lanes(r);
    for (int stage = 0; stage < r->problem->stages; stage++)
        r->collective |= r->problem->gather[stage] > 0 || r->problem->reduce[stage] > 0;
    SL_TRY(sl_timeline_make(r->program->ranks, r->first_span[ranks], r->program->messages, &r->timeline));
    if (r->regime == SL_FIFO)
        SL_TRY(sl_fifo_open(r));
    size_t moves;
    SL_TRY(make_moves(r, &moves));
    return r->collective || r->moving
               ? sl_alloc(&r->timeline.collective, 2 * (size_t)r->problem->stages + moves, sizeof(sl_span))
               : SL_OK;
}

static void free_state(sl_replayer *r) {
    SL_FREE(r->next, r->free, r->first_span, r->lane, r->wire_free, r->arrival, r->arrived, r->gathered,
            r->stack, r->on_stack, r->heap, r->running, r->issued, r->move_end, r->first_move, r->moved);
    sl_fifo_close(r->fifo);
    sl_greedy_close(r->greedy);
    sl_timeline_free(&r->timeline);
}

/* A batched order may stop although the messages alone do not: its sends also hold the ranks. */
static sl_status refuse(const sl_replayer *r) {
    const sl_issuer *issuer = r->fifo ? sl_fifo_issuer(r) : NULL;
    sl_problem problem = *r->problem;
    problem.communication = r->regime;
    SL_TRY(sl_deadlock_check(&(sl_cells){.problem = &problem, .program = r->program, .issuer = issuer}));
    return sl_error(SL_EINVAL, "deadlock: the ranks wait for each other's messages");
}

static sl_status replay(sl_replayer *r, sl_timeline *timeline) {
    *timeline = (sl_timeline){0};
    sl_status status = make_state(r);
    if (status == SL_OK && !run(r))
        status = r->status != SL_OK ? r->status : refuse(r);
    if (status == SL_OK) {
        *timeline = r->timeline;
        r->timeline = (sl_timeline){0};
    }
    free_state(r);
    return status;
}

sl_status sl_replay(const sl_problem *problem, const sl_program *program, sl_regime regime, int queue,
                    sl_timeline *timeline) {
    return replay(&(sl_replayer){.problem = problem, .program = program, .regime = regime, .queue = queue},
                  timeline);
}

sl_status sl_replay_issued(const sl_problem *problem, const sl_program *program, const sl_issuer *issuer,
                           sl_timeline *timeline) {
    return replay(&(sl_replayer){.problem = problem, .program = program, .regime = SL_FIFO, .issuer = issuer},
                  timeline);
}

sl_status sl_replayer_open(const sl_problem *problem, const sl_program *program, sl_replayer **replayer) {
    SL_TRY(sl_alloc(replayer, 1, sizeof **replayer));
    **replayer = (sl_replayer){
        .problem = problem, .program = program, .regime = problem->communication, .queue = problem->queue};
    sl_status status = make_state(*replayer);
    if (status != SL_OK) {
        sl_replayer_close(*replayer);
        *replayer = NULL;
    }
    return status;
}

sl_time sl_replayer_run(sl_replayer *r, const sl_timeline **timeline) {
    int done = run(r);
    if (timeline)
        *timeline = done ? &r->timeline : NULL;
    return done ? sl_timeline_makespan(&r->timeline) : SL_TIME_NEVER;
}

int sl_replayer_steps(const sl_replayer *r) {
    return r->first_span[r->program->ranks];
}

int sl_replayer_instants(const sl_replayer *r) {
    int ranks = r->program->ranks, slots = r->regime == SL_INORDER ? r->queue : 0;
    return 4 * ranks + r->problem->stages + 2 * ranks * slots;
}

int sl_replayer_waits_for(const sl_replayer *r, int instant) {
    int ranks = r->program->ranks, lane = instant - ranks, stage = instant - 3 * ranks;
    if (instant < ranks)
        return 1;
    if (instant >= 3 * ranks && stage < r->problem->stages)
        return r->problem->reduce[stage] > 0;
    if (instant >= 3 * ranks)
        return stage >= r->problem->stages + ranks || r->moving;
    int from = lane / 2, to = (from + (lane % 2 ? ranks - 1 : 1)) % ranks;
    return r->lane[lane].most > 0 && r->problem->link[from * ranks + to].transfer > 0;
}

static void end_collectives(const sl_replayer *r, sl_time *end) {
    for (int c = 0; c < r->timeline.collectives; c++) {
        const sl_span *span = &r->timeline.collective[c];
        if (span->op.kind == SL_REDUCE)
            end[3 * r->program->ranks + span->op.stage] = span->end;
    }
}

/* The slots taken last, those of the iteration before included. */
static void end_slots(const sl_replayer *r, sl_time *end) {
    for (int i = 0; i < 2 * r->program->ranks && r->regime == SL_INORDER; i++) {
        const replay_lane *l = &r->lane[i];
        sl_time *slot = &end[first_slot(r, l)];
        for (int k = 0; k < r->queue; k++) {
            int taken = k + l->sent - r->queue;
            slot[k] = taken >= 0 ? r->arrival[l->first + taken] : slot[k + l->sent];
        }
    }
}

int sl_replayer_repeat(sl_replayer *r, const sl_time *begin, sl_time *end, const sl_timeline **timeline) {
    size_t ranks = (size_t)r->program->ranks;
    r->begin = begin;
    int done = run(r);
    r->begin = NULL;
    if (timeline)
        *timeline = done ? &r->timeline : NULL;
    if (!done)
        return 0;
    memmove(end, begin, (size_t)sl_replayer_instants(r) * sizeof *end);
    memcpy(end, r->free, ranks * sizeof *end);
    memcpy(end + ranks, r->wire_free, 2 * ranks * sizeof *end);
    end_collectives(r, end);
    for (int rank = 0; rank < r->program->ranks && r->moving; rank++)
        if (r->moved[rank] > 0)
            end[copy_engine(r, rank)] = r->move_end[r->first_move[rank] + r->moved[rank] - 1];
    end_slots(r, end);
    return 1;
}

void sl_replayer_delay(sl_replayer *r, const sl_time *latency) {
    r->latency = latency;
}

void sl_replayer_time(sl_replayer *r, const sl_time *time) {
    r->time = time;
}

void sl_replayer_close(sl_replayer *r) {
    if (!r)
        return;
    free_state(r);
    sl_free(r);
}
