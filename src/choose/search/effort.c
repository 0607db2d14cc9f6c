#include "choose/search/effort.h"
#include "base/memory.h"
#include "choose/search/profile_layers.h"
#include "plan/pipeline/layers.h"
#include "plan/pipeline/other_placement.h"

#include <stdio.h>
#include <string.h>

const char *const sl_effort_names[] = {"schedule", "microbatch", "cut", "sizes"};
const char *const sl_effort_means[] = {"a swap while the job runs", "another batch in the data loader",
                                       "a restart with the same sizes", "a restart with resharded weights"};

typedef struct other_search {
    const sl_problem *profile;
    const sl_other_options *options;
    sl_others *found;
    sl_time begin;
} other_search;

static void free_other(sl_other *o) {
    sl_plan_free(&o->plan);
    sl_problem_free(&o->problem);
}

/* An eighth of the time for a plan, or of what is left: a schedule, three microbatches, three cuts, some
 * sizes. */
static double share(const other_search *s) {
    double all = s->options->time_limit, left = all - sl_to_ms(sl_now() - s->begin) / 1e3;
    return left <= 0 ? 0 : left < all / 8 ? left / 2 : all / 8;
}

/* Takes `made`, whose problem is set, if its plan is the best of its effort. */
static sl_status offer(other_search *s, sl_other *made) {
    const sl_plan_options options = {.schedule = "auto",
                                     .time_limit = share(s),
                                     .seed = s->options->seed,
                                     .threads = s->options->threads,
                                     .stop = s->options->stop};
    sl_others *f = s->found;
    sl_status status = sl_plan_problem(&made->problem, &options, &made->plan);
    if (status == SL_ENONE && !(f->count && f->other[f->count - 1].effort == made->effort))
        snprintf(f->why[made->effort], sizeof f->why[0], "%s", sl_error_text());
    if (status != SL_OK) {
        free_other(made);
        return status == SL_ENONE ? SL_OK : status;
    }
    made->time = made->plan.value;
    sl_other *last = f->count ? &f->other[f->count - 1] : NULL;
    if (last && last->effort == made->effort && last->time <= made->time) {
        free_other(made);
        return SL_OK;
    }
    if (last && last->effort == made->effort)
        free_other(last);
    else
        last = &f->other[f->count++];
    *last = *made;
    f->why[made->effort][0] = 0;
    return SL_OK;
}

static sl_status no(other_search *s, sl_effort effort, const char *why) {
    snprintf(s->found->why[effort], sizeof s->found->why[0], "%s", why);
    return SL_OK;
}

/* ---- the same shape ---- */

/* A copy whose cut stays: its layers, if it has some, are only its stages. */
static sl_status copy_stages(const sl_problem *p, sl_problem *copy) {
    SL_TRY(sl_problem_copy(p, copy));
    sl_layers_free(copy->layers);
    copy->layers = NULL;
    return SL_OK;
}

static sl_status other_schedule(other_search *s) {
    sl_other made = {.effort = SL_EFFORT_SCHEDULE, .replicas = s->options->replicas, .size = 1};
    SL_TRY(copy_stages(s->profile, &made.problem));
    SL_TRY(offer(s, &made));
    if (s->found->count)
        snprintf(s->found->other[0].what, sizeof made.what, "order %s", s->found->other[0].plan.schedule);
    return SL_OK;
}

/* Microbatches of `size` times the sequences: ops and messages in proportion, overheads and latencies as they
 * are. */
static sl_status resize(const sl_problem *p, int microbatches, double size, sl_problem *other) {
    SL_TRY(copy_stages(p, other));
    other->microbatches = microbatches;
    for (int rank = 0; rank < p->ranks && p->host_limit; rank++)
        other->host_limit[rank] =
            (int32_t)(p->host_limit[rank] / size < SL_MAX_HOST ? p->host_limit[rank] / size : SL_MAX_HOST);
    for (int stage = 0; stage < p->stages; stage++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++) {
            sl_time overhead = sl_problem_overhead(p, kind, stage);
            other->time[kind][stage] = (sl_time)((double)(p->time[kind][stage] - overhead) * size) + overhead;
            other->delta[kind][stage] = p->delta[kind][stage] * size;
        }
        other->saved[stage] = (sl_time)((double)p->saved[stage] * size);
        other->start[stage] = p->start[stage] * size;
        other->early[stage] = p->early[stage] * size;
        other->offload[stage] = (sl_time)((double)p->offload[stage] * size);
    }
    for (int i = 0; i < p->ranks * p->ranks; i++) {
        other->link[i].transfer = (sl_time)((double)p->link[i].transfer * size);
        other->link[i].bytes = p->link[i].bytes * size;
    }
    return SL_OK;
}

static sl_status other_microbatch(other_search *s) {
    const sl_problem *p = s->profile;
    static const struct { int times, by; } sizes[] = {{1, 2}, {2, 1}, {4, 1}};
    no(s, SL_EFFORT_MICROBATCH, "its microbatches cannot be halved or doubled");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t microbatches = (int64_t)p->microbatches * sizes[i].by;
        if (microbatches % sizes[i].times || microbatches * p->stages * 3 * p->parts > SL_MAX_OPS ||
            microbatches > SL_MAX_MICROBATCHES)
            continue;
        sl_other made = {.effort = SL_EFFORT_MICROBATCH,
                         .replicas = s->options->replicas,
                         .size = (double)sizes[i].times / sizes[i].by};
        microbatches /= sizes[i].times;
        snprintf(made.what, sizeof made.what, "%lld microbatches, each %g times as large",
                 (long long)microbatches, made.size);
        SL_TRY(resize(p, (int)microbatches, made.size, &made.problem));
        SL_TRY(offer(s, &made));
    }
    return SL_OK;
}

/* ---- another cut ---- */

static void describe_cut(const sl_problem *p, char *text, size_t size) {
    size_t length = (size_t)snprintf(text, size, "%s, layers", sl_placement_name(p->placement));
    for (int stage = 0; stage < p->stages && length < size; stage++)
        length += (size_t)snprintf(text + length, size - length, "%s %d", stage ? "," : "",
                                   p->layers->first[stage + 1] - p->layers->first[stage]);
}

static sl_status offer_placement(other_search *s, const sl_problem *layered, sl_placement placement,
                                 sl_effort effort, int replicas) {
    sl_other made = {.effort = effort, .replicas = replicas, .size = 1};
    sl_status status = sl_problem_with_placement(layered, placement, &made.problem);
    if (status == SL_EINVAL) {
        free_other(&made);
        return SL_OK; /* too few layers, or too many ops */
    }
    if (status != SL_OK)
        free_other(&made);
    SL_TRY(status);
    int before = s->found->count;
    sl_time value = before ? s->found->other[before - 1].time : 0;
    SL_TRY(offer(s, &made));
    if (s->found->count > before || (before && s->found->other[before - 1].time != value)) {
        sl_other *o = &s->found->other[s->found->count - 1];
        int length =
            effort == SL_EFFORT_SIZES
                ? snprintf(o->what, sizeof o->what, "%d replicas of %d ranks, ", replicas, o->problem.ranks)
                : 0;
        describe_cut(&o->problem, o->what + length, sizeof o->what - (size_t)length);
    }
    return SL_OK;
}

static sl_status other_cut(other_search *s, const sl_problem *layered) {
    static const sl_placement placements[] = {SL_LINEAR, SL_LOOP, SL_WAVE};
    for (size_t i = 0; i < sizeof placements / sizeof *placements; i++)
        SL_TRY(offer_placement(s, layered, placements[i], SL_EFFORT_CUT, s->options->replicas));
    return SL_OK;
}

/* ---- other sizes ---- */

static sl_status other_sizes(other_search *s, const sl_problem *layered) {
    int devices = layered->ranks * s->options->replicas;
    int64_t microbatches = (int64_t)layered->microbatches * s->options->replicas;
    no(s, SL_EFFORT_SIZES, "no other number of replicas divides its ranks and microbatches");
    for (int replicas = 1; replicas <= devices; replicas++) {
        sl_problem sized;
        if (devices % replicas || replicas == s->options->replicas || microbatches % replicas ||
            devices / replicas > layered->layers->count)
            continue;
        sl_status status =
            sl_layers_over_ranks(layered, s->options->replicas, devices / replicas, replicas, &sized);
        if (status == SL_ENONE)
            no(s, SL_EFFORT_SIZES, sl_error_text());
        else if (status == SL_OK) {
            static const sl_placement placements[] = {SL_LINEAR, SL_WAVE};
            for (size_t i = 0; i < (sized.ranks > 1 ? 2 : 1) && status == SL_OK; i++)
                status = offer_placement(s, &sized, placements[i], SL_EFFORT_SIZES, replicas);
        }
        sl_problem_free(&sized);
        if (status != SL_OK && status != SL_ENONE)
            return status;
    }
    return SL_OK;
}

static sl_status measure_now(other_search *s, const sl_order *running) {
    sl_plan plan;
    sl_status status = running ? sl_plan_of_order(s->profile, running, "running", &plan)
                               : sl_plan_make(s->profile, "auto", &plan);
    s->found->now = status == SL_OK ? plan.value : 0;
    sl_plan_free(&plan);
    return status;
}

static sl_status find(other_search *s, const sl_order *running) {
    sl_problem layered = {0};
    SL_TRY(sl_alloc(&s->found->other, SL_EFFORTS, sizeof *s->found->other));
    SL_TRY(measure_now(s, running));
    SL_TRY(other_schedule(s));
    SL_TRY(other_microbatch(s));
    sl_status status = s->profile->layers   ? sl_problem_copy(s->profile, &layered)
                       : s->options->layers ? sl_problem_of_layers(s->profile, s->options->layers, &layered)
                                            : sl_error(SL_EINVAL, "the number of layers is not given");
    if (status == SL_EINVAL) {
        no(s, SL_EFFORT_CUT, sl_error_text());
        no(s, SL_EFFORT_SIZES, sl_error_text());
        status = SL_OK;
    } else {
        SL_THEN(status, other_cut(s, &layered));
        SL_THEN(status, other_sizes(s, &layered));
    }
    sl_problem_free(&layered);
    return status;
}

sl_status sl_others_find(const sl_problem *profile, const sl_order *running, const sl_other_options *options,
                         sl_others *others) {
    other_search s = {.profile = profile, .options = options, .found = others, .begin = sl_now()};
    *others = (sl_others){0};
    return find(&s, running);
}

void sl_others_free(sl_others *others) {
    for (int i = 0; i < others->count; i++)
        free_other(&others->other[i]);
    sl_free(others->other);
    *others = (sl_others){0};
}
