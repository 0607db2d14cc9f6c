/* The end of reading: streams become workers, events without an end get one, and all are sorted. */
#include "base/memory.h"
#include "base/numbers.h"
#include "plan/explain/job_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- streams to workers ---- */

/* A stream by the worker that it belongs to, in the order of workers. */
typedef struct worker_key {
    int32_t pipeline, data, tensor; /* -1: not named */
    int file;
    int64_t pid, first_tid; /* -1: the pid is one worker */
    size_t stream;
} worker_key;

static int compare(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

static int by_key(const void *one, const void *other) {
    const worker_key *a = one, *b = other;
    int order = compare(a->file, b->file);
    order = order ? order : compare(a->pid, b->pid);
    order = order ? order : compare(a->pipeline, b->pipeline);
    order = order ? order : compare(a->data, b->data);
    order = order ? order : compare(a->tensor, b->tensor);
    return order ? order : compare(a->first_tid, b->first_tid);
}

/* Streams of a pid that computes in several of them without saying whose they are: a stream belongs to the
 * last one with computation at or before it. */
static void split_pid(const sl_hybrid_trace *t, worker_key *key, size_t count) {
    int computing = 0;
    for (size_t i = 0; i < count; i++)
        computing += t->stream[key[i].stream].computes > 0;
    if (computing < 2)
        return;
    for (size_t i = 0; i < count; i++) {
        int64_t tid = t->stream[key[i].stream].tid, before = INT64_MIN, after = INT64_MAX;
        for (size_t k = 0; k < count; k++) {
            const sl_hybrid_stream *other = &t->stream[key[k].stream];
            if (!other->computes)
                continue;
            before = other->tid <= tid && other->tid > before ? other->tid : before;
            after = other->tid > tid && other->tid < after ? other->tid : after;
        }
        key[i].first_tid = before != INT64_MIN ? before : after;
    }
}

static void name_worker(const sl_hybrid_trace *t, sl_hybrid_worker *w, int alone_in_pid) {
    char pid[40];
    snprintf(pid, sizeof pid, w->pid_is_text ? "pid %llx" : "pid %lld", (long long)w->pid);
    if (w->named.pipeline >= 0 && w->named.data >= 0)
        snprintf(w->name, sizeof w->name, "%s", pid);
    else if (alone_in_pid)
        snprintf(w->name, sizeof w->name, "%s", pid);
    else
        snprintf(w->name, sizeof w->name, "%s, tid %lld", pid, (long long)w->first_tid);
    if (t->files > 1 && strlen(w->name) + 12 < sizeof w->name)
        snprintf(w->name + strlen(w->name), sizeof w->name - strlen(w->name), ", file %d", w->file);
}

static int same_worker(const worker_key *a, const worker_key *b) {
    return by_key(a, b) == 0;
}

/* Keys of all streams. */
static void fill_keys(const sl_hybrid_trace *t, worker_key *key) {
    for (size_t i = 0; i < t->streams; i++) {
        const sl_hybrid_stream *s = &t->stream[i];
        key[i] = (worker_key){s->named.pipeline, s->named.data, s->named.tensor, s->file, s->pid, -1, i};
    }
    qsort(key, t->streams, sizeof *key, by_key);
    for (size_t i = 0, next; i < t->streams; i = next) {
        for (next = i; next < t->streams && key[next].file == key[i].file && key[next].pid == key[i].pid;
             next++)
            continue;
        int unnamed = 0;
        for (size_t k = i; k < next; k++)
            unnamed += key[k].pipeline < 0 && key[k].tensor < 0;
        if (unnamed == (int)(next - i))
            split_pid(t, key + i, next - i);
    }
    qsort(key, t->streams, sizeof *key, by_key);
}

static sl_status make_workers(sl_hybrid_trace *t) {
    worker_key *key;
    SL_TRY(sl_alloc(&key, t->streams, sizeof *key));
    fill_keys(t, key);
    sl_status status = sl_alloc(&t->worker, t->streams, sizeof *t->worker);
    for (size_t i = 0, next; status == SL_OK && i < t->streams; i = next) {
        int computes = 0;
        for (next = i; next < t->streams && same_worker(&key[i], &key[next]); next++)
            computes += t->stream[key[next].stream].computes;
        if (!computes)
            continue;
        const sl_hybrid_stream *first = &t->stream[key[i].stream];
        t->worker[t->workers] = (sl_hybrid_worker){.file = key[i].file,
                                                   .pid = key[i].pid,
                                                   .first_tid = key[i].first_tid,
                                                   .pid_is_text = first->pid_is_text,
                                                   .named = first->named};
        name_worker(t, &t->worker[t->workers], key[i].first_tid < 0);
        for (size_t k = i; k < next; k++)
            t->stream[key[k].stream].worker = t->workers;
        t->workers++;
    }
    sl_free(key);
    return status;
}

/* ---- events without an end ---- */

static int by_stream(const void *one, const void *other) {
    const sl_hybrid_event *a = one, *b = other;
    int order = compare(a->stream, b->stream);
    order = order ? order : compare(a->step, b->step); /* steps may all begin at 0 */
    order = order ? order : compare(a->start, b->start);
    return order ? order : compare(a->sequence, b->sequence);
}

/* The median duration of a stream's events of a kind; -1: none is known. */
static sl_status median_of(const sl_hybrid_trace *t, size_t first, size_t end, int kind, sl_time *median) {
    sl_time *time;
    int count = 0;
    SL_TRY(sl_alloc(&time, end - first, sizeof *time));
    for (size_t i = first; i < end; i++)
        if (t->event[i].kind == kind && !t->event[i].open)
            time[count++] = t->event[i].end - t->event[i].start;
    *median = count ? sl_median(time, count) : -1;
    sl_free(time);
    return SL_OK;
}

/* Events of one stream, by start. What has no end keeps `open`, and gets a guess: it lasts until the next
 * event, at most as long as usual. */
static sl_status repair_stream(sl_hybrid_trace *t, size_t first, size_t end) {
    sl_time median[64];
    for (int i = 0; i < 64; i++)
        median[i] = -2; /* not yet computed */
    for (size_t i = first; i < end; i++) {
        sl_hybrid_event *e = &t->event[i];
        if (!e->open)
            continue;
        size_t next = i + 1;
        while (next < end && t->event[next].start <= e->start)
            next++;
        if (next < end && t->event[next].step == e->step)
            e->end = t->event[next].start;
        if (median[e->kind] == -2)
            SL_TRY(median_of(t, first, end, e->kind, &median[e->kind]));
        if (median[e->kind] >= 0 && (e->end == e->start || e->end - e->start > median[e->kind]))
            e->end = e->start + median[e->kind];
        t->repaired += e->end > e->start;
        t->dropped += e->end == e->start;
    }
    return SL_OK;
}

static sl_status repair(sl_hybrid_trace *t) {
    qsort(t->event, t->events, sizeof *t->event, by_stream);
    for (size_t i = 0, next; i < t->events; i = next) {
        for (next = i; next < t->events && t->event[next].stream == t->event[i].stream; next++)
            continue;
        SL_TRY(repair_stream(t, i, next));
    }
    return SL_OK;
}

/* ---- iterations that are not numbered ---- */

/* The events of a worker whose arguments have no step: an iteration ends with its optimizer (without one,
 * with its last backward before a forward, if all forwards come first). */
static void number_steps(sl_hybrid_trace *t, size_t first, size_t end) {
    int64_t step = 0;
    int over = 0;
    for (size_t i = first; i < end; i++) {
        const sl_traced_kind *kind = &sl_traced_kinds[t->event[i].kind];
        int is_optimizer = strcmp(kind->name, "optimizer") == 0;
        if (over && !is_optimizer) {
            step++;
            over = 0;
        }
        over = over || is_optimizer;
        if (t->event[i].step < 0)
            t->event[i].step = step;
    }
}

/* For qsort, which knows no context: the worker is in `stream` meanwhile. */
static int by_worker(const void *one, const void *other) {
    const sl_hybrid_event *a = one, *b = other;
    int order = compare(a->stream, b->stream);
    order = order ? order : compare(a->step, b->step);
    order = order ? order : compare(a->start, b->start);
    return order ? order : compare(a->sequence, b->sequence);
}

static void divide(sl_hybrid_trace *t) {
    size_t kept = 0;
    for (size_t i = 0; i < t->events; i++) {
        t->event[kept] = t->event[i];
        t->event[kept].stream = t->stream[t->event[i].stream].worker;
        kept += t->event[kept].stream >= 0;
    }
    t->dropped += t->events - kept;
    t->events = kept;
    qsort(t->event, t->events, sizeof *t->event, by_worker);
    for (size_t i = 0, next; i < t->events; i = next) {
        int worker = t->event[i].stream, numbered = 1;
        for (next = i; next < t->events && t->event[next].stream == worker; next++)
            numbered &= t->event[next].step >= 0;
        t->worker[worker].first = i;
        t->worker[worker].end = next;
        if (!numbered)
            number_steps(t, i, next);
    }
    qsort(t->event, t->events, sizeof *t->event, by_worker);
}

sl_status sl_hybrid_trace_finish(sl_hybrid_trace *t) {
    SL_TRY(make_workers(t));
    SL_TRY(repair(t));
    divide(t);
    return SL_OK;
}
