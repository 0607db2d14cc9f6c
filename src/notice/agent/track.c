#include "notice/agent/track.h"

#include "base/memory.h"
#include "notice/detect/period.h"

#define WINDOW 512 /* calls after which the followed tracker may change */
#define ENOUGH 0.7 /* share of calls explained as they are: no need to look without bytes */

typedef struct follower {
    sl_period *period;  /* NULL: rests */
    int thread, bytes;  /* bytes: calls as they are */
    uint64_t explained; /* calls inside of iterations, in this window */
    int calls;          /* of the last iteration */
    uint64_t next;      /* sequence number of the thread's next record (kept by the one with bytes) */
    uint64_t bytes_seen, bytes_then; /* of its calls in all, and when the last iteration ended */
} follower;

struct sl_track {
    follower *follower;
    size_t followers, capacity;
    int chosen;     /* -1: none */
    uint64_t calls; /* of this window */
    int period;
    int64_t number;
    sl_track_block open; /* being joined; count 0: none */
    sl_track_block *queue;
    size_t queued, taken, room;
};

sl_status sl_track_open(sl_track **track) {
    SL_TRY(sl_alloc(track, 1, sizeof **track));
    (*track)->chosen = -1;
    return SL_OK;
}

void sl_track_close(sl_track *track) {
    if (!track)
        return;
    for (size_t i = 0; i < track->followers; i++)
        sl_period_close(track->follower[i].period);
    SL_FREE(track->follower, track->queue, track);
}

static int by_chance(int call) {
    switch (call) {
    case SL_CALL_MPI_Test:
    case SL_CALL_MPI_Testall:
    case SL_CALL_MPI_Testany:
    case SL_CALL_MPI_Testsome:
    case SL_CALL_MPI_Waitsome:
    case SL_CALL_MPI_Iprobe:
    case SL_CALL_MPI_Improbe:
        return 1;
    default:
        return 0;
    }
}

static sl_status follower_of(sl_track *t, int thread, size_t *index) {
    for (*index = 0; *index < t->followers; *index += 2)
        if (t->follower[*index].thread == thread)
            return SL_OK;
    SL_TRY(sl_grow(&t->follower, &t->capacity, t->followers + 2, sizeof *t->follower));
    for (int bytes = 1; bytes >= 0; bytes--) {
        follower *f = &t->follower[t->followers + (bytes ? 0 : 1)];
        *f = (follower){.thread = thread, .bytes = bytes};
        SL_TRY(sl_period_open(0, &f->period));
    }
    t->followers += 2;
    return SL_OK;
}

static sl_status flush(sl_track *t) {
    if (t->open.count == 0)
        return SL_OK;
    if (t->taken == t->queued)
        t->taken = t->queued = 0;
    SL_TRY(sl_grow(&t->queue, &t->room, t->queued + 1, sizeof *t->queue));
    t->queue[t->queued++] = t->open;
    t->open = (sl_track_block){0};
    return SL_OK;
}

static sl_status join(sl_track *t, const sl_period_iteration *iteration, uint64_t bytes) {
    if (iteration->period != t->period) { /* the iterations so far were not iterations */
        t->open = (sl_track_block){0};
        t->period = iteration->period;
        t->number = 0;
    }
    if (t->open.count == 0)
        t->open =
            (sl_track_block){.start = iteration->start, .number = t->number, .period = iteration->period};
    int64_t time = iteration->time > 0 ? iteration->time : 0;
    t->open.time += time;
    t->open.end = iteration->start + time;
    t->open.bytes += (int64_t)bytes;
    t->open.count++;
    t->number++;
    return t->open.time >= SL_TRACK_BLOCK || t->open.count >= 1 << 20 ? flush(t) : SL_OK;
}

static double score(const sl_track *t, size_t i) {
    const follower *f = &t->follower[i];
    return (double)f->explained * (f->bytes ? 1.2 : 1) * ((int)i == t->chosen ? 1.1 : 1);
}

/* Ends a window: the tracker that explained most is followed from now on. */
static sl_status choose(sl_track *t) {
    int best = t->chosen;
    for (size_t i = 0; i < t->followers; i++)
        if (t->follower[i].explained > 0 && (best < 0 || score(t, i) > score(t, (size_t)best)))
            best = (int)i;
    t->chosen = best;
    for (size_t i = 0; i < t->followers; i += 2) {
        follower *with = &t->follower[i], *without = &t->follower[i + 1];
        int enough = (double)with->explained >= ENOUGH * (double)t->calls;
        if (enough && without->period && t->chosen != (int)i + 1) {
            sl_period_close(without->period);
            without->period = NULL;
        } else if (!enough && !without->period) {
            SL_TRY(sl_period_open(0, &without->period));
        }
    }
    for (size_t i = 0; i < t->followers; i++)
        t->follower[i].explained = 0;
    t->calls = 0;
    return SL_OK;
}

static sl_status take(sl_track *t, size_t i) {
    follower *f = &t->follower[i];
    sl_period_iteration iteration;
    while (sl_period_take(f->period, &iteration)) {
        f->explained += (uint64_t)iteration.period;
        f->calls = iteration.period;
        if (t->chosen < 0 && f->bytes)
            t->chosen = (int)i;
        if (t->chosen == (int)i)
            SL_TRY(join(t, &iteration, f->bytes_seen - f->bytes_then));
        f->bytes_then = f->bytes_seen;
    }
    return SL_OK;
}

static sl_status add(sl_track *t, size_t index, sl_symbol symbol, int64_t start) {
    uint64_t bytes = symbol.call == SL_CALL_NOTHING ? 0 : symbol.bytes;
    t->follower[index].bytes_seen += bytes;
    t->follower[index + 1].bytes_seen += bytes;
    SL_TRY(sl_period_add(t->follower[index].period, &symbol, start));
    SL_TRY(take(t, index));
    if (t->follower[index + 1].period) {
        symbol.bytes = symbol.call == SL_CALL_NOTHING ? symbol.bytes : 0;
        SL_TRY(sl_period_add(t->follower[index + 1].period, &symbol, start));
        SL_TRY(take(t, index + 1));
    }
    return SL_OK;
}

sl_status sl_track_add(sl_track *t, const sl_call *call) {
    size_t index;
    SL_TRY(follower_of(t, call->thread, &index));
    follower *f = &t->follower[index];
    /* Lost records are marked by a symbol that never comes again: whole iterations may be missing, and the
     * calls before and after would look like one long iteration. */
    if (f->next && call->sequence != f->next)
        SL_TRY(add(t, index, (sl_symbol){.call = SL_CALL_NOTHING, .bytes = call->sequence}, call->start));
    t->follower[index].next = call->sequence + 1;
    if (call->kind != SL_RECORD_CALL || by_chance(call->call))
        return SL_OK;
    SL_TRY(add(
        t, index,
        (sl_symbol){
            .communicator = call->communicator, .bytes = call->bytes, .peer = call->peer, .call = call->call},
        call->start));
    int longest = 0;
    if (++t->calls < WINDOW)
        return SL_OK;
    for (size_t i = 0; i < t->followers; i++) /* a window holds a few of the longest iterations */
        longest = t->follower[i].calls > longest ? t->follower[i].calls : longest;
    return t->calls >= 4 * (uint64_t)longest ? choose(t) : SL_OK;
}

int sl_track_take(sl_track *t, sl_track_block *block) {
    if (t->taken == t->queued)
        return 0;
    *block = t->queue[t->taken++];
    return 1;
}

int sl_track_period(const sl_track *t) {
    return t->period;
}
