/* Faults of one run: those of the log, and drawn ones. A host fails after an exponential time, whether it is
 * a spare or not. Its repair waits for a crew, in order of failure, and takes an exponential time; then the
 * host is as new. With any number of crews this is the machine-repair model of queueing theory (M/M/n).
 * Slow faults are drawn in the same way without crews. Every number is a pure function of the seed, the run,
 * the host and how many came before. */
#include "adapt/campaign/fleet.h"
#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>

#define HOUR (3600 * SL_SECOND)

enum { FAIL, REPAIR, SLOW, RECOVER }; /* purposes of numbers */

typedef struct fault_draw {
    const sl_fleet *fleet;
    uint64_t seed;
    sl_time end; /* faults from here on do not matter */
    sl_fleet_fault *fault;
    size_t faults, room;
    sl_time *crew; /* [crews] heap: when each is free; the earliest is first */
} fault_draw;

/* Exponential with this mean in ns, at least 1. */
static sl_time draw_time(const fault_draw *d, int purpose, int host, int64_t number, double mean) {
    uint64_t bits = sl_random_mix(d->seed + (uint64_t)purpose * SL_RANDOM_STEP);
    bits = sl_random_mix(bits + (uint64_t)(host + 1) * SL_RANDOM_STEP);
    bits = sl_random_mix(bits + (uint64_t)(number + 1) * SL_RANDOM_STEP);
    double time = fmax(1, -mean * log(sl_random_unit(bits)));
    return time < 4e18 ? (sl_time)time : (sl_time)4e18;
}

static sl_time after(sl_time from, sl_time time) {
    return from > SL_TIME_NEVER - 1 - time ? SL_TIME_NEVER - 1 : from + time;
}

static sl_status add_fault(fault_draw *d, int host, sl_fleet_kind kind, sl_time first, sl_time until) {
    if (d->faults == SL_FLEET_FAULTS)
        return sl_error(SL_EINVAL,
                        "fleet: draws more than %d faults; 'failure_days' or 'slow_days' is too short",
                        SL_FLEET_FAULTS);
    SL_TRY(sl_grow(&d->fault, &d->room, d->faults + 1, sizeof *d->fault));
    d->fault[d->faults++] = (sl_fleet_fault){host, kind, first, until};
    return SL_OK;
}

/* The first crew that is free takes a repair that ends at `until`. */
static void take_crew(sl_time *crew, int crews, sl_time until) {
    int at = 0;
    for (int child; (child = 2 * at + 1) < crews; at = child) {
        if (child + 1 < crews && crew[child + 1] < crew[child])
            child++;
        if (crew[child] >= until)
            break;
        crew[at] = crew[child];
    }
    crew[at] = until;
}

/* The end of a repair of a host that fails at `first`; call in order of failure. */
static sl_time repair(fault_draw *d, int host, int64_t number, sl_time first) {
    const sl_fleet *f = d->fleet;
    const sl_time takes = draw_time(d, REPAIR, host, number, f->repair_hours * (double)HOUR);
    if (!f->crews)
        return after(first, takes);
    const sl_time until = after(sl_later(first, d->crew[0]), takes);
    take_crew(d->crew, f->crews, until);
    return until;
}

/* ---- hosts by their next failure ---- */

typedef struct next_failure {
    sl_time at;
    int64_t number; /* of this host's failures */
    int host;
} next_failure;

static int is_sooner(const next_failure *a, const next_failure *b) {
    return a->at < b->at || (a->at == b->at && a->host < b->host);
}

/* Moves the first one of the heap down to where it belongs. */
static void sink(next_failure *heap, int count, int at) {
    const next_failure moving = heap[at];
    for (int child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && is_sooner(&heap[child + 1], &heap[child]))
            child++;
        if (!is_sooner(&heap[child], &moving))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

static sl_status draw_failures(fault_draw *d, next_failure *heap) {
    const sl_fleet *f = d->fleet;
    const double mean = f->failure_days * 24 * (double)HOUR;
    for (int h = 0; h < f->hosts; h++)
        heap[h] = (next_failure){draw_time(d, FAIL, h, 0, mean), 0, h};
    for (int h = f->hosts / 2 - 1; h >= 0; h--)
        sink(heap, f->hosts, h);
    for (next_failure *first = heap; first->at < d->end; sink(heap, f->hosts, 0)) {
        const sl_time until = repair(d, first->host, first->number++, first->at);
        SL_TRY(add_fault(d, first->host, SL_FLEET_STOP, first->at, until));
        first->at = after(until, draw_time(d, FAIL, first->host, first->number, mean));
    }
    return SL_OK;
}

static sl_status draw_slow(fault_draw *d) {
    const sl_fleet *f = d->fleet;
    for (int h = 0; h < f->hosts; h++) {
        sl_time now = 0;
        for (int64_t i = 0;; i++) {
            now = after(now, draw_time(d, SLOW, h, i, f->slow_days * 24 * (double)HOUR));
            if (now >= d->end)
                break;
            const sl_time until = after(now, draw_time(d, RECOVER, h, i, f->slow_hours * (double)HOUR));
            SL_TRY(add_fault(d, h, SL_FLEET_DRAWN, now, until));
            now = until;
        }
    }
    return SL_OK;
}

static sl_status draw_all(fault_draw *d, next_failure *heap) {
    const sl_fleet *f = d->fleet;
    for (size_t i = 0; i < f->faults; i++) {
        sl_fleet_fault fault = f->fault[i];
        if (f->repair_hours > 0) /* negative numbers: apart from those of drawn failures */
            fault.until = repair(d, fault.host, -2 - (int64_t)i, fault.first);
        SL_TRY(add_fault(d, fault.host, fault.kind, fault.first, fault.until));
    }
    if (f->failure_days > 0)
        SL_TRY(draw_failures(d, heap));
    return f->slow_days > 0 ? draw_slow(d) : SL_OK;
}

static int by_start(const void *one, const void *other) {
    const sl_fleet_fault *a = one, *b = other;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    if (a->host != b->host)
        return a->host < b->host ? -1 : 1;
    return a->kind != b->kind ? (a->kind < b->kind ? -1 : 1) : (a->until > b->until) - (a->until < b->until);
}

sl_status sl_fleet_draw(const sl_fleet *f, int run, sl_fleet_fault **fault, size_t *faults) {
    next_failure *heap = NULL;
    fault_draw d = {.fleet = f, .end = f->duration};
    d.seed = sl_random_mix(f->seed * SL_RANDOM_STEP + (uint64_t)run + 1);
    *fault = NULL;
    *faults = 0;
    sl_status status = sl_alloc(&heap, (size_t)f->hosts, sizeof *heap);
    SL_THEN(status, sl_alloc(&d.crew, (size_t)f->crews, sizeof *d.crew));
    SL_THEN(status, draw_all(&d, heap));
    SL_FREE(heap, d.crew);
    if (status != SL_OK) {
        sl_free(d.fault);
        return status;
    }
    if (d.faults)
        qsort(d.fault, d.faults, sizeof *d.fault, by_start);
    *fault = d.fault;
    *faults = d.faults;
    return SL_OK;
}
