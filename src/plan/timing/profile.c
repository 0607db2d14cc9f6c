#include "plan/timing/profile.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "plan/timing/wire_fit.h"

#include <math.h>

/* Values are collected by key (counting sort), then each key's median is taken. */
typedef struct timed_samples {
    int *start; /* [keys + 1] */
    sl_time *value;
} timed_samples;

static void samples_free(timed_samples *s) {
    SL_FREE(s->start, s->value);
}

static int median_of(timed_samples *s, int key, sl_time *median) {
    int count = s->start[key + 1] - s->start[key];
    if (count == 0)
        return 0;
    *median = sl_median(s->value + s->start[key], count);
    return 1;
}

static sl_status samples_make(int keys, int values, timed_samples *s) {
    *s = (timed_samples){0};
    SL_TRY(sl_alloc(&s->start, (size_t)keys + 2, sizeof *s->start));
    sl_status status = sl_alloc(&s->value, (size_t)values, sizeof *s->value);
    if (status != SL_OK)
        samples_free(s);
    return status;
}

/* start[key + 2] holds the count of key, then becomes the position of the next value of key + 1. */
static void samples_begin(timed_samples *s, int keys) {
    for (int key = 0; key < keys; key++)
        s->start[key + 2] += s->start[key + 1];
}

/* whole[i]: the op's time in all its parts, at the span of the last one; -1: at the others, and in pairs.
 * Spans of whole ops can also come from outside (src/library), from several iterations and of any
 * microbatch. */
static sl_status whole_times(const sl_timeline *measured, const sl_problem *problem, sl_time *whole) {
    sl_time *sum; /* [kind][stage][microbatch] so far */
    size_t microbatches = (size_t)problem->microbatches, stages = (size_t)problem->stages;
    SL_TRY(sl_alloc(&sum, problem->parts > 1 ? SL_OP_KINDS * stages * microbatches : 0, sizeof *sum));
    for (int i = 0; i < measured->spans; i++) {
        const sl_span *span = &measured->span[i];
        const sl_op *op = &span->op;
        whole[i] = sl_timeline_is_paired(measured, i) ? -1 : span->end - span->start;
        if (problem->parts == 1)
            continue;
        size_t cell = ((size_t)op->kind * stages + (size_t)op->stage) * microbatches + (size_t)op->microbatch;
        sum[cell] = (op->part > 0 ? sum[cell] : 0) + span->end - span->start;
        whole[i] = op->part == problem->parts - 1 ? sum[cell] : -1;
    }
    sl_free(sum);
    return SL_OK;
}

static sl_status median_ops(const sl_timeline *measured, const sl_time *whole, sl_problem *problem) {
    timed_samples s;
    int stages = problem->stages, keys = SL_OP_KINDS * stages;
    SL_TRY(samples_make(keys, measured->spans, &s));
    for (int i = 0; i < measured->spans; i++)
        if (whole[i] >= 0)
            s.start[measured->span[i].op.kind * stages + measured->span[i].op.stage + 2]++;
    samples_begin(&s, keys);
    for (int i = 0; i < measured->spans; i++) {
        const sl_span *span = &measured->span[i];
        if (whole[i] >= 0)
            s.value[s.start[span->op.kind * stages + span->op.stage + 1]++] = whole[i];
    }
    for (int stage = 0; stage < stages; stage++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            median_of(&s, kind * stages + stage, &problem->time[kind][stage]);
        sl_time ran, *i = &problem->time[SL_I][stage], *w = &problem->time[SL_W][stage];
        int halves = median_of(&s, SL_I * stages + stage, &ran),
            whole_ones = median_of(&s, SL_B * stages + stage, &ran);
        if (halves && !whole_ones) {
            problem->time[SL_B][stage] = *i + *w;
        } else if (whole_ones && !halves && *i + *w > 0) {
            double share = (double)*i / ((double)*i + (double)*w);
            *i = (sl_time)llround(share * (double)ran);
            *w = ran - *i;
        }
    }
    samples_free(&s);
    return SL_OK;
}

/* The time that a pair saves over its two ops, which is `saved` of both stages. */
static sl_status median_saved(const sl_timeline *measured, sl_problem *problem) {
    timed_samples s;
    SL_TRY(samples_make(problem->stages, measured->spans, &s));
    for (int i = 0; i < measured->spans; i++)
        if (sl_timeline_is_paired(measured, i))
            s.start[measured->span[i].op.stage + 2]++;
    samples_begin(&s, problem->stages);
    for (int i = 0; i + 1 < measured->spans; i++) {
        const sl_span *first = &measured->span[i], *second = &measured->span[i + 1];
        if (!first->op.paired)
            continue;
        sl_time saved = problem->time[SL_F][first->op.stage] + problem->time[SL_B][second->op.stage] -
                        (first->end - first->start);
        s.value[s.start[first->op.stage + 1]++] = s.value[s.start[second->op.stage + 1]++] = saved;
    }
    for (int stage = 0; stage < problem->stages; stage++)
        median_of(&s, stage, &problem->saved[stage]);
    samples_free(&s);
    return SL_OK;
}

static sl_status profile_ops(const sl_timeline *measured, sl_problem *problem) {
    sl_time *whole;
    SL_TRY(sl_alloc(&whole, (size_t)measured->spans, sizeof *whole));
    sl_status status = whole_times(measured, problem, whole);
    SL_THEN(status, median_ops(measured, whole, problem));
    SL_THEN(status, median_saved(measured, problem));
    sl_free(whole);
    return status;
}

/* Of the kinds from `first` to `last`: gathers, or moves to host memory and back; stages without any keep
 * their time. */
static sl_status median_collectives(const sl_timeline *measured, int first, int last, int stages,
                                    sl_time *time) {
    timed_samples s;
    SL_TRY(samples_make(stages, measured->collectives, &s));
    for (int i = 0; i < measured->collectives; i++) {
        const sl_op *op = &measured->collective[i].op;
        if (op->kind >= first && op->kind <= last)
            s.start[op->stage + 2]++;
    }
    samples_begin(&s, stages);
    for (int i = 0; i < measured->collectives; i++) {
        const sl_span *span = &measured->collective[i];
        if (span->op.kind >= first && span->op.kind <= last)
            s.value[s.start[span->op.stage + 1]++] = span->end - span->start;
    }
    for (int stage = 0; stage < stages; stage++)
        median_of(&s, stage, &time[stage]);
    samples_free(&s);
    return SL_OK;
}

enum { LANES_MAX = 16 };

typedef struct lanes {
    sl_time from[LANES_MAX], until[LANES_MAX]; /* of the most recent messages of a link */
} lanes;

/* Maximum number of messages that occupied each link at the same time. */
static sl_status count_lanes(const sl_timeline *measured, sl_problem *problem) {
    lanes *links;
    int ranks = problem->ranks;
    SL_TRY(sl_alloc(&links, (size_t)ranks * (size_t)ranks, sizeof *links));
    for (int key = 0; key < ranks * ranks; key++)
        problem->link[key].lanes = 0;
    for (int i = 0; i < measured->transfers; i++) {
        const sl_transfer *t = &measured->transfer[i];
        sl_link *link = &problem->link[t->from * ranks + t->to];
        lanes *l = &links[t->from * ranks + t->to];
        int busy = 1, first = 0;
        for (int lane = 0; lane < LANES_MAX; lane++) {
            busy += l->until[lane] > t->start && l->from[lane] < t->end;
            first = l->until[lane] < l->until[first] ? lane : first;
        }
        l->from[first] = t->start;
        l->until[first] = t->end;
        busy = busy < LANES_MAX ? busy : LANES_MAX;
        if (busy > 1 && busy > link->lanes)
            link->lanes = busy;
    }
    sl_free(links);
    return SL_OK;
}

/* A link that carries n messages in parallel, each for a time T, is described as one that carries them one
 * after the other, each for T / n, with the difference added to its latency: it has the same throughput, and
 * a single message arrives at the same time. */
static void fold_lanes(sl_link *link) {
    if (link->lanes < 2)
        return;
    sl_time share = link->transfer / link->lanes;
    link->latency += link->transfer - share;
    link->transfer = share;
}

static sl_status profile_links(const sl_timeline *measured, sl_problem *problem) {
    timed_samples latency, transfer;
    SL_TRY(count_lanes(measured, problem));
    int ranks = problem->ranks, keys = ranks * ranks;
    SL_TRY(samples_make(keys, measured->transfers, &latency));
    sl_status status = samples_make(keys, measured->transfers, &transfer);
    if (status != SL_OK) {
        samples_free(&latency);
        return status;
    }
    for (int i = 0; i < measured->transfers; i++) {
        int key = measured->transfer[i].from * ranks + measured->transfer[i].to;
        latency.start[key + 2]++;
        transfer.start[key + 2]++;
    }
    samples_begin(&latency, keys);
    samples_begin(&transfer, keys);
    for (int i = 0; i < measured->transfers; i++) {
        const sl_transfer *t = &measured->transfer[i];
        int key = t->from * ranks + t->to;
        latency.value[latency.start[key + 1]++] = t->arrive > t->end ? t->arrive - t->end : 0;
        transfer.value[transfer.start[key + 1]++] = t->end - t->start;
    }
    for (int key = 0; key < keys; key++) {
        median_of(&latency, key, &problem->link[key].latency);
        if (median_of(&transfer, key, &problem->link[key].transfer)) /* else the link keeps its time */
            fold_lanes(&problem->link[key]);
    }
    samples_free(&latency);
    samples_free(&transfer);
    return sl_wire_fit_links(measured, problem->link, NULL);
}

sl_status sl_profile(const sl_timeline *measured, sl_problem *problem) {
    SL_TRY(profile_ops(measured, problem));
    SL_TRY(median_collectives(measured, SL_GATHER, SL_GATHER, problem->stages, problem->gather));
    SL_TRY(median_collectives(measured, SL_OFFLOAD, SL_FETCH, problem->stages, problem->offload));
    return profile_links(measured, problem);
}
