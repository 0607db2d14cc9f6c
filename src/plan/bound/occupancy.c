#include "plan/bound/occupancy.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

/* What a microbatch keeps on one stage until I or until W. */
typedef struct occupant {
    double amount;
    sl_time head, time, tail; /* of F's start; at least; after its release */
} occupant;

typedef struct occupancy {
    const sl_relaxation *r;
    double room;
    occupant *item;        /* by head */
    const occupant **late; /* the same by tail */
    int count;
} occupancy;

/* From the start of F to the end of I of the same microbatch. */
static sl_time round_trip(const sl_relaxation *r, int stage) {
    sl_time sum = r->time[SL_F][stage] + r->time[SL_I][stage];
    for (int from = stage, to; (to = sl_problem_next(r->problem, from)) >= 0; from = to) {
        sl_link there = sl_relaxation_link(r, from, to, SL_F), back = sl_relaxation_link(r, to, from, SL_I);
        sum += there.latency + there.transfer + back.latency + back.transfer + r->time[SL_F][to] +
               r->time[SL_I][to];
    }
    return sum;
}

/* Amounts kept until I ends and until W ends; 0 if a microbatch may leave more room than it found. */
static int find_amounts(const sl_relaxation *r, int stage, double amount[2]) {
    sl_stage_memory memory = sl_relaxation_memory(r->problem, stage);
    amount[0] = -memory.input;
    amount[1] = memory.input - memory.backward;
    return memory.forward + memory.backward >= -1e-12 * memory.forward;
}

static void add_stage(occupancy *o, int stage, const double amount[2]) {
    const sl_relaxation *r = o->r;
    sl_time trip = round_trip(r, stage);
    for (int kind = SL_I; kind <= SL_W; kind++)
        for (int k = 0; k < r->count[stage]; k++) {
            occupant item = {.amount = amount[kind - SL_I],
                             .head = r->head[sl_relaxation_node(r, stage, SL_F, k)],
                             .time = trip + (kind == SL_W ? r->time[SL_W][stage] : 0),
                             .tail = r->tail[sl_relaxation_node(r, stage, kind, k)]};
            if (item.amount > 0 && item.head >= 0 && item.tail >= 0)
                o->item[o->count++] = item;
        }
}

static int by_head(const void *a, const void *b) {
    sl_time x = ((const occupant *)a)->head, y = ((const occupant *)b)->head;
    return x < y ? -1 : x > y;
}

static int by_tail(const void *a, const void *b) {
    sl_time x = (*(const occupant *const *)a)->tail, y = (*(const occupant *const *)b)->tail;
    return x < y ? -1 : x > y;
}

/* Occupants that come at `head` or later and leave `tail` before the end or earlier. */
static int counts(const occupant *item, sl_time head, sl_time tail) {
    return item->head >= head && item->tail >= tail;
}

/* A ramp: memory times time that stays unused until the occupants fill the room, and that time; infinite if
 * they never do. */
typedef struct ramp {
    double unused, filled, used;
} ramp;

static void climb(ramp *to, double room, double amount, sl_time time) {
    double more = fmin(amount, room - to->used);
    to->unused += more * (double)time;
    to->used += more;
    to->filled = to->used >= room * (1 - 1e-12) ? (double)time : INFINITY;
}

/* If the ramps do not overlap, the time is exactly as long as all need. */
static double time_of(const occupancy *o, sl_time head, sl_time tail) {
    ramp start = {.filled = INFINITY}, end = {.filled = INFINITY};
    double needed = 0;
    for (int i = 0; i < o->count; i++) {
        const occupant *late = o->late[i];
        if (counts(&o->item[i], head, tail)) {
            needed += o->item[i].amount * (double)o->item[i].time;
            if (start.used < o->room)
                climb(&start, o->room, o->item[i].amount, o->item[i].head);
        }
        if (end.used < o->room && counts(late, head, tail))
            climb(&end, o->room, late->amount, late->tail);
    }
    double time = (start.unused + needed + end.unused) / o->room;
    return time >= start.filled + end.filled ? time : 0;
}

enum { THRESHOLDS = 24 };

/* The rank's longest time over sets of occupants: all, or without the first or last ones. */
static double longest(const occupancy *o) {
    double most = 0;
    int step = o->count / THRESHOLDS + 1;
    for (int i = 0; i < o->count; i += step)
        for (int k = 0; k < o->count; k += step)
            most = fmax(most, time_of(o, o->item[i].head, o->late[k]->tail));
    return most;
}

static void collect(occupancy *o, int rank) {
    const sl_problem *p = o->r->problem;
    o->room = sl_problem_room(p, rank) * (1 + 1e-9) + 1e-12;
    o->count = 0;
    for (int s = 0; s < p->stages; s++) {
        double amount[2];
        if (sl_problem_rank(p, s) != rank)
            continue;
        if (!find_amounts(o->r, s, amount)) {
            o->count = 0;
            return;
        }
        add_stage(o, s, amount);
    }
    qsort(o->item, (size_t)o->count, sizeof *o->item, by_head);
    for (int i = 0; i < o->count; i++)
        o->late[i] = &o->item[i];
    qsort(o->late, (size_t)o->count, sizeof *o->late, by_tail);
}

sl_status sl_occupancy_bound(const sl_relaxation *r, sl_time *bound) {
    occupancy o = {.r = r};
    if (!r->problem->limit || !r->deep || r->problem->communication == SL_BATCHED)
        return SL_OK;
    sl_status status = sl_alloc(&o.item, (size_t)r->nodes, sizeof *o.item);
    SL_THEN(status, sl_alloc(&o.late, (size_t)r->nodes, sizeof *o.late));
    for (int rank = 0; rank < r->problem->ranks && status == SL_OK; rank++) {
        if (r->window >= 0 && r->window != rank)
            continue;
        collect(&o, rank);
        *bound = sl_later(*bound, (sl_time)(longest(&o) * (1 - 1e-9)));
    }
    SL_FREE(o.item, o.late);
    return status;
}
