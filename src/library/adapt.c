#include "adapt/schedule/decision.h"
#include "base/memory.h"
#include "library/handles.h"
#include "plan/family/family.h"

#include <stdio.h>
#include <string.h>

#define FIRST_SWAP (5 * SL_MS)

struct slackline_adaptation {
    sl_adaptation *adaptation;
    sl_problem last;    /* observed, or that of the first plan */
    sl_plan first;      /* its order and name are what RETURN goes back to */
    const sl_plan *run; /* what is to run: ours, or the adaptation's own until the next swap */
};

SL_PUBLIC void slackline_adaptation_defaults(slackline_adaptation_options *options) {
    *options = (slackline_adaptation_options){
        .schedule = "adaptra", .hold = 5, .dwell = 20, .gain = 0.02, .swap_cost_ns = FIRST_SWAP};
}

static sl_status check(const slackline_adaptation_options *o) {
    if (!sl_family_find(o->schedule) && strcmp(o->schedule, "auto") != 0)
        return sl_error(SL_EINVAL, "'%s' is no family of schedules and not auto", o->schedule);
    if (o->hold < 1 || o->hold > 1000)
        return sl_error(SL_EINVAL, "hold must be from 1 to 1000, got %d", o->hold);
    if (o->dwell < 1 || o->dwell > 100000)
        return sl_error(SL_EINVAL, "dwell must be from 1 to 100000, got %d", o->dwell);
    if (!(o->gain >= 0 && o->gain <= 1))
        return sl_error(SL_EINVAL, "gain must be from 0 to 1, got %g", o->gain);
    if (o->swap_cost_ns < 0)
        return sl_error(SL_EINVAL, "a swap cannot cost %lld ns", (long long)o->swap_cost_ns);
    return SL_OK;
}

static sl_status open(const slackline_plan *first, const slackline_adaptation_options *o,
                      slackline_adaptation *a) {
    sl_adaptation_config config = {.schedule = o->schedule,
                                   .hold = o->hold,
                                   .dwell = o->dwell,
                                   .gain = o->gain,
                                   .swap_cost = o->swap_cost_ns,
                                   .frozen = o->frozen};
    SL_TRY(sl_problem_copy(&first->problem, &a->last));
    SL_TRY(sl_plan_of_order(&a->last, &first->plan.order, first->plan.schedule, &a->first));
    a->run = &a->first;
    return sl_adaptation_open(&config, &a->last, &a->first, &a->adaptation);
}

SL_PUBLIC slackline_status slackline_adaptation_make(const slackline_plan *first,
                                                     const slackline_adaptation_options *options,
                                                     slackline_adaptation **adaptation) {
    SL_PLAIN_NUMBERS;
    slackline_adaptation_options standard;
    slackline_adaptation *made = NULL;
    *adaptation = NULL;
    slackline_adaptation_defaults(&standard);
    sl_status status = check(options ? options : &standard);
    if (status == SL_OK)
        status = sl_alloc(&made, 1, sizeof *made);
    if (status == SL_OK)
        status = open(first, options ? options : &standard, made);
    if (status == SL_OK)
        *adaptation = made;
    else
        slackline_adaptation_free(made);
    return sl_library_status(status);
}

SL_PUBLIC void slackline_adaptation_free(slackline_adaptation *adaptation) {
    if (!adaptation)
        return;
    sl_adaptation_close(adaptation->adaptation);
    sl_plan_free(&adaptation->first);
    sl_problem_free(&adaptation->last);
    sl_free(adaptation);
}

/* ---- observing ---- */

static sl_status check_shape(const sl_problem *expected, const sl_problem *got) {
    if (got->ranks != expected->ranks || got->stages != expected->stages ||
        got->microbatches != expected->microbatches || got->placement != expected->placement ||
        got->parts != expected->parts)
        return sl_error(
            SL_EINVAL,
            "measured are %d ranks, %d stages, %d microbatches, %s, but the job has %d, %d, %d, %s "
            "(or other parts)",
            got->ranks, got->stages, got->microbatches, sl_placement_name(got->placement), expected->ranks,
            expected->stages, expected->microbatches, sl_placement_name(expected->placement));
    double total = sl_problem_total_ms(got);
    if (total > SL_MAX_TOTAL_MS)
        return sl_error(SL_EINVAL, "all ops and messages in a row take %g ms; at most %g", total,
                        (double)SL_MAX_TOTAL_MS);
    return SL_OK;
}

static slackline_event public_event(const sl_event *event) {
    slackline_event e = {
        .kind = sl_event_names[event->kind].name, .from = event->from, .to = event->to, .rank = event->rank};
    _Static_assert(sizeof e.seen == sizeof event->seen && sizeof e.decided == sizeof event->decided &&
                       sizeof e.why == sizeof event->why,
                   "texts of an event");
    memcpy(e.seen, event->seen, sizeof e.seen);
    memcpy(e.decided, event->decided, sizeof e.decided);
    memcpy(e.why, event->why, sizeof e.why);
    return e;
}

static sl_status observe(slackline_adaptation *a, int iteration, const sl_problem *measured,
                         sl_decision *decided) {
    sl_problem copy;
    SL_TRY(check_shape(&a->last, measured));
    SL_TRY(sl_problem_copy(measured, &copy));
    sl_problem_free(&a->last);
    a->last = copy;
    return sl_adaptation_observe(a->adaptation, iteration, measured, decided);
}

SL_PUBLIC slackline_status slackline_adaptation_observe(slackline_adaptation *adaptation, int iteration,
                                                        const slackline_problem *measured,
                                                        slackline_decision *decision) {
    SL_PLAIN_NUMBERS;
    sl_decision decided = {0};
    sl_status status = observe(adaptation, iteration, &measured->problem, &decided);
    if (decided.verdict != SL_VERDICT_KEEP)
        adaptation->run = decided.plan;
    *decision = (slackline_decision){.verdict = (slackline_verdict)decided.verdict,
                                     .running_ns = decided.running_predicted,
                                     .best_ns = decided.best_predicted,
                                     .troubled = decided.troubled,
                                     .adapted = decided.adapted,
                                     .events = decided.events};
    for (int i = 0; i < decided.events; i++)
        decision->event[i] = public_event(&decided.event[i]);
    return sl_library_status(status);
}

SL_PUBLIC void slackline_adaptation_swap_took(slackline_adaptation *adaptation, int64_t cost_ns) {
    sl_adaptation_swap_took(adaptation->adaptation, cost_ns > 0 ? cost_ns : 0);
}

SL_PUBLIC slackline_status slackline_adaptation_plan(const slackline_adaptation *adaptation,
                                                     slackline_plan **plan) {
    return sl_library_plan_of(&adaptation->last, &adaptation->run->order, adaptation->run->schedule, plan);
}
