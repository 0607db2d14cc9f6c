#include "run/journal/run_profile.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "plan/family/family.h"
#include "plan/search/plan.h"
#include "plan/timing/replay.h"

#include <string.h>

typedef struct profile_entry {
    sl_problem problem;
    sl_time makespan, span, update;
} profile_entry;

struct sl_profiler {
    sl_ping_link *ping; /* [ranks * ranks]; NULL: none */
    int ranks, paced;
    double message_bytes;
    profile_entry window[SL_PROFILE_WINDOW]; /* a ring: window[next] is the oldest once it is full */
    int count, next;
    int warm, cold; /* an iteration was added; its only entry is the first of all */
    uint64_t conditions;
};

sl_status sl_profiler_open(const sl_ping_link *ping, int ranks, double message_bytes, int paced,
                           sl_profiler **profiler) {
    sl_profiler *p;
    size_t links = (size_t)ranks * (size_t)ranks;
    SL_TRY(sl_alloc(&p, 1, sizeof *p));
    *profiler = p;
    p->ranks = ranks;
    p->message_bytes = message_bytes;
    p->paced = paced;
    if (!ping)
        return SL_OK;
    SL_TRY(sl_alloc(&p->ping, links, sizeof *ping));
    memcpy(p->ping, ping, links * sizeof *ping);
    return SL_OK;
}

static void forget(sl_profiler *p) {
    for (int i = 0; i < SL_PROFILE_WINDOW; i++)
        sl_problem_free(&p->window[i].problem);
    p->count = p->next = p->cold = 0;
}

void sl_profiler_close(sl_profiler *p) {
    if (!p)
        return;
    forget(p);
    SL_FREE(p->ping, p);
}

static int same_shape(const sl_problem *a, const sl_problem *b) {
    return a->ranks == b->ranks && a->stages == b->stages && a->microbatches == b->microbatches;
}

static int differs(sl_time now, sl_time before, double share, sl_time least) {
    sl_time change = now > before ? now - before : before - now;
    return change > least && (double)change > share * (double)before;
}

static sl_time rank_time(const sl_problem *p, int rank) {
    sl_time sum = 0;
    for (int stage = 0; stage < p->stages; stage++)
        if (sl_problem_rank(p, stage) == rank)
            sum += p->time[SL_F][stage] + p->time[SL_B][stage];
    return sum;
}

/* Onset and relief: an iteration that its predecessors do not predict. */
static int has_changed(const sl_profiler *p, const sl_problem *measured) {
    sl_time delay[SL_PROFILE_WINDOW], work[SL_PROFILE_WINDOW];
    for (int at = 0; at < measured->ranks * measured->ranks; at++) {
        const sl_link *now = &measured->link[at];
        for (int i = 0; i < p->count; i++)
            delay[i] = p->window[i].problem.link[at].latency + p->window[i].problem.link[at].transfer;
        if (differs(now->latency + now->transfer, sl_median(delay, p->count), 0.25, 2 * SL_MS))
            return 1;
    }
    for (int rank = 0; rank < measured->ranks && p->paced; rank++) {
        for (int i = 0; i < p->count; i++)
            work[i] = rank_time(&p->window[i].problem, rank);
        if (differs(rank_time(measured, rank), sl_median(work, p->count), 0.4, 0))
            return 1;
    }
    return 0;
}

sl_status sl_profiler_add(sl_profiler *p, uint64_t conditions, const sl_problem *measured, sl_time makespan,
                          sl_time span, sl_time update) {
    if (p->count > 0 && (p->cold || conditions != p->conditions ||
                         !same_shape(&p->window[0].problem, measured) || has_changed(p, measured)))
        forget(p);
    p->conditions = conditions;
    profile_entry *e = &p->window[p->next];
    sl_problem copy;
    SL_TRY(sl_problem_copy(measured, &copy));
    sl_problem_free(&e->problem);
    *e = (profile_entry){.problem = copy, .makespan = makespan, .span = span, .update = update};
    p->next = (p->next + 1) % SL_PROFILE_WINDOW;
    p->count = p->count < SL_PROFILE_WINDOW ? p->count + 1 : p->count;
    p->cold = !p->warm;
    p->warm = 1;
    return SL_OK;
}

int sl_profiler_count(const sl_profiler *p) {
    return p->count;
}

sl_time sl_profiler_makespan(const sl_profiler *p) {
    sl_time values[SL_PROFILE_WINDOW];
    for (int i = 0; i < p->count; i++)
        values[i] = p->window[i].makespan;
    return sl_median(values, p->count);
}

sl_time sl_profiler_span(const sl_profiler *p) {
    sl_time values[SL_PROFILE_WINDOW];
    for (int i = 0; i < p->count; i++)
        values[i] = p->window[i].span;
    return sl_median(values, p->count);
}

sl_time sl_profiler_update(const sl_profiler *p) {
    sl_time values[SL_PROFILE_WINDOW];
    for (int i = 0; i < p->count; i++)
        values[i] = p->window[i].update;
    return sl_median(values, p->count);
}

/* ---- the profile ---- */

enum { STAGE_ARRAYS = SL_OP_KINDS + 4 };

static sl_time *stage_array(const sl_problem *p, int which) {
    sl_time *const rest[] = {p->saved, p->gather, p->reduce, p->offload};
    return which < SL_OP_KINDS ? p->time[which] : rest[which - SL_OP_KINDS];
}

static void median_stages(const sl_profiler *p, sl_problem *out) {
    sl_time values[SL_PROFILE_WINDOW];
    for (int which = 0; which < STAGE_ARRAYS; which++)
        for (int stage = 0; stage < out->stages; stage++) {
            for (int i = 0; i < p->count; i++)
                values[i] = stage_array(&p->window[i].problem, which)[stage];
            stage_array(out, which)[stage] = sl_median(values, p->count);
        }
}

/* Occupancy is that shown by the iterations; otherwise the ping test's for the size, but at most the time of
 * a message. */
static void split_link(const sl_profiler *p, int at, sl_link *link) {
    sl_time all = link->latency + link->transfer;
    link->bytes = p->message_bytes;
    if (link->transfer > 0 || !p->ping || p->ping[at].rounds == 0)
        return;
    sl_time transfer = (sl_time)(p->ping[at].per_byte * p->message_bytes);
    link->transfer = transfer < all ? transfer : all;
    link->latency = all - link->transfer;
}

static void median_links(const sl_profiler *p, sl_problem *out) {
    sl_time latency[SL_PROFILE_WINDOW], transfer[SL_PROFILE_WINDOW];
    for (int at = 0; at < out->ranks * out->ranks; at++) {
        sl_link *link = &out->link[at];
        for (int i = 0; i < p->count; i++) {
            latency[i] = p->window[i].problem.link[at].latency;
            transfer[i] = p->window[i].problem.link[at].transfer;
        }
        link->latency = sl_median(latency, p->count);
        link->transfer = sl_median(transfer, p->count);
        if (link->latency + link->transfer > 0)
            split_link(p, at, link);
    }
}

sl_status sl_profiler_problem(const sl_profiler *p, sl_problem *problem) {
    *problem = (sl_problem){0};
    if (p->count == 0)
        return sl_error(SL_EINVAL, "no iteration has been measured");
    SL_TRY(
        sl_problem_copy(&p->window[(p->next + SL_PROFILE_WINDOW - 1) % SL_PROFILE_WINDOW].problem, problem));
    median_stages(p, problem);
    median_links(p, problem);
    return SL_OK;
}

sl_status sl_profile_predict(const sl_problem *problem, const sl_program *program, sl_time *makespan,
                             double *peak) {
    sl_timeline timeline;
    SL_TRY(sl_replay(problem, program, problem->communication, problem->queue, &timeline));
    *makespan = sl_timeline_makespan(&timeline);
    sl_status status = peak ? sl_peak_memory(problem, &timeline, peak) : SL_OK;
    for (int rank = 0; peak && rank < problem->ranks; rank++)
        peak[rank] += sl_problem_fixed(problem, rank);
    sl_timeline_free(&timeline);
    return status;
}

void sl_profile_divide(const sl_timeline *measured, const sl_problem *before, int paced,
                       sl_problem *problem) {
    for (int stage = 0; stage < problem->stages; stage++) {
        int full = 0, cut = 0;
        for (int i = 0; i < measured->spans; i++) {
            const sl_op *op = &measured->span[i].op;
            full |= op->stage == stage && op->kind == SL_B;
            cut |= op->stage == stage && (op->kind == SL_I || op->kind == SL_W);
        }
        sl_time input = before->time[SL_I][stage], weights = before->time[SL_W][stage],
                both = paced ? before->time[SL_B][stage] : input + weights,
                whole = problem->time[SL_B][stage];
        if (!full || cut || both <= 0)
            continue;
        double longer = (double)whole / (double)both;
        problem->time[SL_I][stage] = (sl_time)((double)input * longer);
        problem->time[SL_W][stage] =
            paced ? (sl_time)((double)weights * longer) : whole - problem->time[SL_I][stage];
    }
}

/* In all its parts; -1: it did not run by itself. */
static sl_time mean_of(const sl_timeline *measured, int kind, int stage) {
    sl_time sum = 0;
    int count = 0;
    for (int i = 0; i < measured->spans; i++) {
        const sl_span *span = &measured->span[i];
        if (span->op.kind != kind || span->op.stage != stage || sl_timeline_is_paired(measured, i))
            continue;
        sum += span->end - span->start;
        count += span->op.part == 0;
    }
    return count ? sum / count : -1;
}

void sl_profile_average(const sl_timeline *measured, sl_problem *p) {
    for (int stage = 0; stage < p->stages; stage++) {
        sl_time f = mean_of(measured, SL_F, stage), i = mean_of(measured, SL_I, stage),
                w = mean_of(measured, SL_W, stage), b = mean_of(measured, SL_B, stage),
                before = p->time[SL_B][stage];
        p->time[SL_F][stage] = f >= 0 ? f : p->time[SL_F][stage];
        if (i >= 0 && w >= 0) {
            p->time[SL_I][stage] = i;
            p->time[SL_W][stage] = w;
            p->time[SL_B][stage] = b >= 0 ? b : i + w;
        } else if (b >= 0) {
            p->time[SL_B][stage] = b;
            p->time[SL_I][stage] =
                before > 0 ? (sl_time)((double)p->time[SL_I][stage] * (double)b / (double)before) : b / 2;
            p->time[SL_W][stage] = b - p->time[SL_I][stage];
        }
    }
}

static sl_status predict(const sl_problem *profile, const sl_program *program, sl_forecast *f) {
    sl_plan plan = {0};
    if (program)
        SL_TRY(sl_profile_predict(profile, program, &f->predicted, NULL));
    if (!sl_family_find(f->schedule))
        return SL_OK;
    sl_status status = sl_plan_make(profile, f->schedule, &plan);
    if (status == SL_OK)
        f->planned = plan.makespan;
    sl_plan_free(&plan);
    return status == SL_ENONE || status == SL_EINVAL ? SL_OK : status;
}

sl_status sl_forecast_make(const sl_profiler *profiler, const sl_program *program, const char *schedule,
                           sl_forecast *f) {
    sl_problem profile;
    SL_TRY(sl_profiler_problem(profiler, &profile));
    *f = (sl_forecast){.predicted = -1,
                       .planned = -1,
                       .iterations = sl_profiler_count(profiler),
                       .measured = sl_profiler_makespan(profiler),
                       .update = sl_profiler_update(profiler)};
    snprintf(f->schedule, sizeof f->schedule, "%.*s", (int)strcspn(schedule, " "), schedule);
    sl_status status = predict(&profile, program, f);
    sl_problem_free(&profile);
    return status;
}
