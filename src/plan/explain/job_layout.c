#include "plan/explain/job_layout.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "base/text.h"
#include "plan/explain/job_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIVE                                                                                                 \
    "; give it, for example --layout tensor=1,data=2,pipeline=4 (workers in the usual order of "             \
    "Megatron: tensor ranks first, then replicas, then pipeline ranks)"

/* ---- given ---- */

sl_status sl_hybrid_layout_read(const char *text, sl_hybrid_layout *layout) {
    static const char *const names[] = {"tensor", "data", "pipeline", "chunks"};
    int *const values[] = {&layout->tensor, &layout->data, &layout->pipeline, &layout->chunks};
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, "="), which = 0;
        char *end = NULL;
        while (which < 4 && (strlen(names[which]) != length || strncmp(at, names[which], length) != 0))
            which++;
        long number = which < 4 && at[length] ? strtol(at + length + 1, &end, 10) : 0;
        if (which == 4 || !end || end == at + length + 1 || (*end && *end != ',') || number < 1 ||
            number > 100000)
            return sl_error(
                SL_EINVAL,
                "--layout must be like tensor=2,data=4,pipeline=8,chunks=2 (each from 1), got '%s'", text);
        *values[which] = (int)number;
        at = *end ? end + 1 : end;
    }
    if (!layout->pipeline)
        return sl_error(SL_EINVAL, "--layout needs at least pipeline=, got '%s'", text);
    return SL_OK;
}

void sl_hybrid_layout_free(sl_hybrid_layout *layout) {
    SL_FREE(layout->worker, layout->replica);
    *layout = (sl_hybrid_layout){0};
}

void sl_hybrid_step(const sl_hybrid_trace *t, int worker, int64_t step, size_t *first, size_t *end) {
    size_t low = t->worker[worker].first, high = t->worker[worker].end, last = high;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (t->event[middle].step < step)
            low = middle + 1;
        else
            high = middle;
    }
    *first = *end = low;
    while (*end < last && t->event[*end].step == step)
        ++*end;
}

/* ---- positions of workers ---- */

/* Of each position, pipeline rank * data + replica, the worker; -1: missing. */
typedef struct layout_grid {
    int pipeline, data;
    int32_t *worker;
} layout_grid;

static void add_missing(sl_hybrid_layout *l, int rank, int replica) {
    char text[64];
    snprintf(text, sizeof text, "pipeline rank %d of replica %d", rank, replica);
    sl_text_add(l->missing, sizeof l->missing, ", ", text);
}

/* Replicas that lack a worker are left out: their pipeline cannot be replayed. */
static sl_status settle(sl_hybrid_layout *l, const layout_grid *g) {
    int whole = 0;
    SL_TRY(sl_alloc(&l->worker, (size_t)g->pipeline * (size_t)g->data, sizeof *l->worker));
    SL_TRY(sl_alloc(&l->replica, (size_t)g->data, sizeof *l->replica));
    for (int d = 0; d < g->data; d++) {
        int lacks = 0;
        for (int p = 0; p < g->pipeline; p++)
            if (g->worker[p * g->data + d] < 0) {
                add_missing(l, p, d);
                lacks = 1;
            }
        if (!lacks)
            l->replica[whole++] = d;
    }
    for (int p = 0; p < g->pipeline; p++)
        for (int i = 0; i < whole; i++)
            l->worker[p * whole + i] = g->worker[p * g->data + l->replica[i]];
    l->pipeline = g->pipeline;
    l->left_out = g->data - whole;
    l->data = whole;
    return whole > 0 ? SL_OK
                     : sl_error(SL_EINVAL,
                                "no replica has all of its %d pipeline ranks in the trace: %s are missing",
                                g->pipeline, l->missing);
}

/* A layout that contradicts the messages is a mistake: only the first pipeline rank receives no activations.
 */
static sl_status check_messages(const sl_hybrid_trace *t, const sl_hybrid_layout *l) {
    int messages = 0, wrong = -1;
    for (int q = 0; q < l->pipeline * l->data; q++) {
        sl_hybrid_link link = {0};
        sl_status status = sl_hybrid_link_read(t, l->worker[q], 1, &link);
        messages += link.receives > 0;
        if (l->chunks == 1 && wrong < 0 && (link.receives == 0) != (q < l->data))
            wrong = q;
        sl_hybrid_link_free(&link);
        SL_TRY(status);
    }
    if (!messages || wrong < 0)
        return SL_OK;
    return sl_error(
        SL_EINVAL, "the layout does not fit the trace: %s would be pipeline rank %d, but %s activations",
        t->worker[l->worker[wrong]].name, wrong / l->data, wrong < l->data ? "receives" : "receives no");
}

static sl_status settle_and_free(const sl_hybrid_trace *t, sl_hybrid_layout *l, layout_grid *g) {
    sl_status status = settle(l, g);
    sl_free(g->worker);
    SL_THEN(status, check_messages(t, l));
    return status;
}

static sl_status make_grid(int pipeline, int data, layout_grid *g) {
    *g = (layout_grid){pipeline, data, NULL};
    if ((double)pipeline * data > 1e7)
        return sl_error(SL_EINVAL, "a layout of %d pipeline ranks and %d replicas is too large", pipeline,
                        data);
    SL_TRY(sl_alloc(&g->worker, (size_t)pipeline * (size_t)data, sizeof *g->worker));
    for (int i = 0; i < pipeline * data; i++)
        g->worker[i] = -1;
    return SL_OK;
}

static sl_status use_given(const sl_hybrid_trace *t, sl_hybrid_layout *l) {
    int tensor = l->tensor ? l->tensor : 1;
    int data = l->data ? l->data : t->workers / (tensor * l->pipeline);
    long positions = (long)tensor * data * l->pipeline;
    int64_t least = INT64_MAX, most = INT64_MIN;
    int distinct = t->files == 1 || positions > t->workers;
    for (int i = 0; i < t->workers; i++) {
        least = t->worker[i].pid < least ? t->worker[i].pid : least;
        most = t->worker[i].pid > most ? t->worker[i].pid : most;
        distinct &= !t->worker[i].pid_is_text && t->worker[i].first_tid < 0;
        for (int k = 0; k < i && distinct && t->workers < 2000; k++)
            distinct &= t->worker[k].pid != t->worker[i].pid;
    }
    /* Fewer workers than positions: pids that are ranks say which are missing. */
    int by_pid = positions > t->workers && distinct && least >= 0 && most < positions;
    if (data < 1 || (positions != t->workers && !by_pid))
        return sl_error(SL_EINVAL,
                        "a layout of tensor=%d, data=%d, pipeline=%d has %ld workers, the trace %d%s", tensor,
                        data, l->pipeline, positions, t->workers,
                        positions > t->workers ? ", whose pids are not their ranks" : "");
    layout_grid g;
    SL_TRY(make_grid(l->pipeline, data, &g));
    for (int i = 0; i < t->workers; i++) {
        long rank = by_pid ? (long)t->worker[i].pid : i;
        if (rank % tensor == 0)
            g.worker[rank / tensor] = i; /* rank = tensor + T * (replica + D * pipeline rank) */
    }
    l->tensor = tensor;
    l->source = "given";
    return settle_and_free(t, l, &g);
}

static sl_status use_names(const sl_hybrid_trace *t, sl_hybrid_layout *l) {
    int pipeline = 0, data = 0, tensor = 0;
    for (int i = 0; i < t->workers; i++) {
        const sl_hybrid_coordinates *c = &t->worker[i].named;
        pipeline = sl_larger(pipeline, c->pipeline + 1);
        data = sl_larger(data, c->data + 1);
        tensor = sl_larger(tensor, c->tensor + 1);
    }
    layout_grid g;
    SL_TRY(make_grid(pipeline, data, &g));
    for (int i = t->workers - 1; i >= 0; i--) { /* the lowest tensor rank remains */
        const sl_hybrid_coordinates *c = &t->worker[i].named;
        g.worker[c->pipeline * data + c->data] = i;
    }
    l->tensor = sl_larger(tensor, 1);
    l->source = "named in the trace";
    return settle_and_free(t, l, &g);
}

static int all_named(const sl_hybrid_trace *t) {
    for (int i = 0; i < t->workers; i++)
        if (t->worker[i].named.pipeline < 0 || t->worker[i].named.data < 0)
            return 0;
    return 1;
}

/* ---- found ---- */

/* A step that most workers have in full; the layout is found in it and some after it. */
typedef struct layout_search {
    const sl_hybrid_trace *t;
    sl_hybrid_layout *l;
    sl_hybrid_link *link;  /* [workers] */
    int32_t *first, *last; /* workers at the ends of pipelines */
    int firsts, lasts;
} layout_search;

static sl_status read_ends(layout_search *s) {
    const sl_hybrid_trace *t = s->t;
    for (int i = 0; i < t->workers; i++) {
        const sl_hybrid_link *k = &s->link[i];
        if (k->ops == 0)
            continue;
        if (k->receives < k->ops)
            s->first[s->firsts++] = i;
        if (k->sends < k->ops)
            s->last[s->lasts++] = i;
    }
    if (s->firsts == 0 || s->firsts != s->lasts || t->workers % s->firsts != 0)
        return sl_error(
            SL_EINVAL,
            "the layout cannot be found: of %d workers %d receive no activations and %d send none" GIVE,
            t->workers, s->firsts, s->lasts);
    return SL_OK;
}

static int is_among(const int32_t *list, int count, int worker) {
    for (int i = 0; i < count; i++)
        if (list[i] == worker)
            return 1;
    return 0;
}

typedef struct layout_pair {
    int32_t from, to;
    sl_time spread;
    int distance; /* of the workers' numbers, from what their order suggests */
} layout_pair;

static int by_spread(const void *one, const void *other) {
    const layout_pair *a = one, *b = other;
    /* what differs by less than a microsecond does not count: then the order does */
    sl_time x = a->spread / 1000, y = b->spread / 1000;
    return x != y ? (x > y) - (x < y) : a->distance - b->distance;
}

/* The successors of the workers `from`, each another one of `free`, into to[]: the pair with the least spread
 * first. */
static sl_status follow(layout_search *s, const int32_t *from, int count, const int32_t *candidate,
                        int candidates, int stride, int32_t *to) {
    layout_pair *pair;
    size_t pairs = 0;
    SL_TRY(sl_alloc(&pair, (size_t)count * (size_t)candidates, sizeof *pair));
    for (int i = 0; i < count; i++)
        for (int k = 0; k < candidates; k++) {
            sl_time median, spread;
            if (sl_hybrid_link_awaited(&s->link[from[i]], &s->link[candidate[k]], &median, &spread) > 0)
                pair[pairs++] =
                    (layout_pair){from[i], candidate[k], spread, abs(candidate[k] - from[i] - stride)};
        }
    qsort(pair, pairs, sizeof *pair, by_spread);
    int done = 0;
    for (int i = 0; i < count; i++)
        to[i] = -1;
    for (size_t i = 0; i < pairs; i++) {
        int at = 0;
        while (from[at] != pair[i].from)
            at++;
        if (to[at] < 0 && !is_among(to, count, pair[i].to)) {
            to[at] = pair[i].to;
            done++;
        }
    }
    sl_free(pair);
    return done == count
               ? SL_OK
               : sl_error(SL_EINVAL, "the layout cannot be found: no worker receives what %s sends" GIVE,
                          s->t->worker[from[0]].name);
}

/* Workers in the grid, rank after rank. */
static sl_status chain(layout_search *s, layout_grid *g) {
    int workers = s->t->workers, count = g->data;
    /* First ranks next to each other: Megatron's order, one pipeline rank after the other. Else replicas. */
    int stride = g->data > 1 && s->first[1] - s->first[0] != 1 ? 1 : g->data;
    int32_t *left, *to;
    SL_TRY(sl_alloc(&left, 2 * (size_t)workers, sizeof *left));
    to = left + workers;
    sl_status status = SL_OK;
    memcpy(g->worker, s->first, (size_t)count * sizeof *s->first);
    for (int p = 1; status == SL_OK && p < g->pipeline; p++) {
        int lefts = 0;
        for (int i = 0; i < workers; i++)
            if (!is_among(g->worker, p * count, i) &&
                (p == g->pipeline - 1) == is_among(s->last, s->lasts, i))
                left[lefts++] = i;
        status = follow(s, g->worker + (p - 1) * count, count, left, lefts, stride, to);
        memcpy(g->worker + p * count, to, (size_t)count * sizeof *to);
    }
    sl_free(left);
    return status;
}

/* ---- tensor ranks ---- */

/* The durations and ends of a worker's ops, of which at most so many are compared. */
enum { OPS_COMPARED = 128 };
#define MORE_PRECISE 4 /* ends of replicas vary more than the times of their ops */

/* Forwards of the first one's chunk: those of other chunks may take longer. */
static int sample_ops(const sl_hybrid_trace *t, int worker, sl_time *end, sl_time *time) {
    int count = 0, chunk = 0;
    for (size_t i = t->worker[worker].first; i < t->worker[worker].end && count < OPS_COMPARED; i++) {
        const sl_hybrid_event *e = &t->event[i];
        chunk = count == 0 ? e->chunk : chunk;
        if (e->kind == SL_KIND_FORWARD && e->chunk == chunk) {
            end[count] = e->end;
            time[count++] = e->end - e->start;
        }
    }
    return count;
}

static sl_time deviation(sl_time *value, int count) {
    sl_time sorted[OPS_COMPARED];
    memcpy(sorted, value, (size_t)count * sizeof *value);
    sl_time median = sl_median(sorted, count);
    for (int i = 0; i < count; i++)
        value[i] = llabs(value[i] - median);
    return sl_median(value, count);
}

/* Whether the ops of two workers end together far more precisely than their times vary: tensor ranks do. */
static int in_step(const sl_hybrid_trace *t, int one, int other) {
    sl_time end[OPS_COMPARED], time[OPS_COMPARED], its_end[OPS_COMPARED], its_time[OPS_COMPARED];
    int count = sample_ops(t, one, end, time);
    if (count < 8 || count != sample_ops(t, other, its_end, its_time))
        return 0;
    for (int i = 0; i < count; i++)
        end[i] -= its_end[i];
    return deviation(end, count) * MORE_PRECISE < deviation(time, count);
}

/* Columns of the grid that are tensor ranks of one replica become one: all groups must be equally large. */
static void join_tensor_ranks(layout_search *s, layout_grid *g) {
    int tensor = 1, data = g->data;
    while (tensor < data && in_step(s->t, g->worker[0], g->worker[tensor]))
        tensor++;
    if (tensor == 1 || data % tensor != 0)
        return;
    for (int d = 0; d < data; d++)
        if (d % tensor != 0 && !in_step(s->t, g->worker[d / tensor * tensor], g->worker[d]))
            return;
    for (int p = 0; p < g->pipeline; p++)
        for (int d = 0; d < data / tensor; d++) {
            const int32_t *of = &g->worker[p * data + d * tensor];
            int32_t first = of[0];
            for (int i = 1; i < tensor; i++)
                first = sl_smaller(first, of[i]);
            g->worker[p * (data / tensor) + d] = first;
        }
    g->data = data / tensor;
    s->l->tensor = tensor;
}

static sl_status search(layout_search *s) {
    layout_grid g;
    SL_TRY(read_ends(s));
    SL_TRY(make_grid(s->t->workers / s->firsts, s->firsts, &g));
    sl_status status = chain(s, &g);
    if (status != SL_OK) {
        sl_free(g.worker);
        return status;
    }
    s->l->tensor = 1;
    join_tensor_ranks(s, &g);
    s->l->source = "found from its messages";
    return settle_and_free(s->t, s->l, &g);
}

static sl_status find(const sl_hybrid_trace *t, sl_hybrid_layout *l) {
    layout_search s = {.t = t, .l = l};
    size_t workers = (size_t)t->workers;
    sl_status status;
    SL_TRY_GOTO(done, status, sl_alloc(&s.link, workers, sizeof *s.link));
    SL_TRY_GOTO(done, status, sl_alloc(&s.first, workers, sizeof *s.first));
    SL_TRY_GOTO(done, status, sl_alloc(&s.last, workers, sizeof *s.last));
    for (int i = 0; i < t->workers; i++)
        SL_TRY_GOTO(done, status, sl_hybrid_link_read(t, i, 1, &s.link[i]));
    status = search(&s);
done:
    for (int i = 0; s.link && i < t->workers; i++)
        sl_hybrid_link_free(&s.link[i]);
    SL_FREE(s.link, s.first, s.last);
    return status;
}

static int chunks_of(const sl_hybrid_trace *t) {
    unsigned char seen[SL_HYBRID_MAX_CHUNKS] = {0};
    int count = 0, worker = 0;
    for (size_t i = t->worker[worker].first; i < t->worker[worker].end; i++) {
        const sl_hybrid_event *e = &t->event[i];
        if (e->kind != SL_KIND_FORWARD || e->chunk < 0 || e->chunk >= SL_HYBRID_MAX_CHUNKS || seen[e->chunk])
            continue;
        seen[e->chunk] = 1;
        count++;
    }
    return sl_larger(count, 1);
}

sl_status sl_hybrid_layout_find(const sl_hybrid_trace *t, sl_hybrid_layout *l) {
    int chunks = chunks_of(t);
    if (l->chunks > 1 && chunks > 1 && l->chunks != chunks)
        return sl_error(SL_EINVAL, "--layout has %d chunks, the trace %d", l->chunks, chunks);
    l->chunks = l->chunks > 1 ? l->chunks : chunks;
    if (l->pipeline)
        return use_given(t, l);
    return all_named(t) ? use_names(t, l) : find(t, l);
}
