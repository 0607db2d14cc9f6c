#include "adapt/schedule/decision_inside.h"
#include "base/memory.h"
#include "base/text.h"
#include "plan/timing/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sl_status sl_adaptation_open(const sl_adaptation_config *config, const sl_problem *healthy,
                             const sl_plan *first, sl_adaptation **adaptation) {
    sl_adaptation *a;
    SL_TRY(sl_alloc(&a, 1, sizeof *a));
    *adaptation = a;
    a->config = *config;
    snprintf(a->schedule, sizeof a->schedule, "%s", config->schedule);
    a->config.schedule = a->schedule;
    a->last_swap = -config->dwell;
    a->forecast = first->makespan;
    if (config->delegation == SL_DELEGATION_ALWAYS)
        a->delegates = config->queues > 0 ? config->queues : 1;
    SL_TRY(sl_alloc(&a->window, (size_t)config->hold, sizeof *a->window));
    SL_TRY(sl_alloc(&a->took, (size_t)config->hold, sizeof *a->took));
    SL_TRY(sl_problem_copy(healthy, &a->healthy));
    SL_TRY(sl_plan_of_order(healthy, &first->order, first->schedule, &a->first));
    a->running = &a->first;
    return SL_OK;
}

void sl_adaptation_close(sl_adaptation *a) {
    if (!a)
        return;
    for (int i = 0; a->window && i < a->config.hold; i++)
        sl_problem_free(&a->window[i]);
    sl_free(a->window);
    sl_free(a->took);
    sl_problem_free(&a->healthy);
    sl_plan_free(&a->first);
    sl_plan_free(&a->other);
    sl_free(a);
}

void sl_adaptation_swap_took(sl_adaptation *a, sl_time cost) {
    a->config.swap_cost = cost;
}

int sl_adaptation_due(const sl_adaptation *a) {
    int holds = a->config.hold - a->better_since, dwells = a->last_swap + a->config.dwell - a->observed;
    if (a->config.frozen || a->better_since < 2)
        return -1;
    return holds > dwells ? (holds > 0 ? holds : 0) : dwells > 0 ? dwells : 0;
}

sl_time sl_adaptation_forecast(const sl_adaptation *a) {
    return a->forecast;
}

/* ---- candidates ---- */

sl_status sl_decision_makespan_on(const sl_problem *problem, const sl_plan *plan, sl_time *makespan) {
    sl_timeline timeline;
    SL_TRY(sl_replay(problem, &plan->program, problem->communication, problem->queue, &timeline));
    *makespan = sl_timeline_makespan(&timeline);
    sl_timeline_free(&timeline);
    return SL_OK;
}

/* How much the running order's time varied over the window: a gain below that may be noise. */
static sl_time spread(const sl_adaptation *a) {
    sl_time least = SL_TIME_NEVER, most = 0;
    for (int i = 0; i < a->filled; i++) {
        least = a->took[i] < least ? a->took[i] : least;
        most = a->took[i] > most ? a->took[i] : most;
    }
    return most > least ? most - least : 0;
}

/* What a swap gains must pay its cost back within the iterations that it lasts at least, and be worth it. */
static int pays(const sl_adaptation *a, sl_time running, sl_time candidate) {
    sl_time gain = running - candidate;
    return (double)gain > a->config.gain * (double)running && gain * a->config.dwell > a->config.swap_cost;
}

static sl_status take(sl_adaptation *a, int iteration, sl_plan *plan, sl_decision *d) {
    if (plan) {
        sl_plan_free(&a->other);
        a->other = *plan;
        *plan = (sl_plan){0};
        a->running = &a->other;
        d->verdict = SL_VERDICT_SWAP;
    } else {
        a->running = &a->first;
        d->verdict = SL_VERDICT_RETURN;
    }
    d->plan = a->running;
    a->last_swap = iteration;
    a->kept = 1; /* the swap is the answer to this event; no reason for inaction is owed */
    a->better_since = a->relieved_since = 0;
    return SL_OK;
}

static void explain(const sl_adaptation *a, sl_event *event, const char *decided, sl_time running,
                    sl_time candidate) {
    sl_text_format(event->decided, sizeof event->decided, "%s", decided);
    sl_text_format(
        event->why, sizeof event->why,
        "predicted %.2f ms an iteration with the running schedule and %.2f ms with the new one; a swap costs "
        "%.2f ms once",
        sl_to_ms(running), sl_to_ms(candidate), sl_to_ms(a->config.swap_cost));
}

/* A new plan for delays that vary, and what it takes on the typical ones. Where being careful costs the gain,
 * the plan for the typical ones. */
static sl_status make_candidate(const sl_adaptation *a, const sl_problem *typical, sl_time running,
                                sl_plan *plan, sl_time *makespan) {
    sl_problem problem;
    SL_TRY(sl_decision_cautious(a, typical, &problem));
    sl_status status = sl_plan_make(&problem, a->config.schedule, plan);
    sl_problem_free(&problem);
    if (status == SL_OK)
        status = sl_decision_makespan_on(typical, plan, makespan);
    if (status != SL_OK || pays(a, running, *makespan))
        return status;
    sl_plan_free(plan);
    SL_TRY(sl_plan_make(typical, a->config.schedule, plan));
    *makespan = plan->makespan;
    return SL_OK;
}

/* The new plan, unless the first plan is as good for the typical measurements. */
static sl_status consider_swap(sl_adaptation *a, int iteration, sl_decision *d) {
    sl_problem problem;
    sl_plan plan = {0};
    sl_time running = 0, first = 0, candidate = 0;
    sl_status status = sl_decision_typical(a, a->config.hold, &problem);
    if (status == SL_OK)
        status = sl_decision_makespan_on(&problem, a->running, &running);
    if (status == SL_OK)
        status = sl_decision_makespan_on(&problem, &a->first, &first);
    if (status == SL_OK)
        status = make_candidate(a, &problem, running, &plan, &candidate);
    if (status == SL_OK && a->running != &a->first && first <= candidate) {
        if (pays(a, running, first)) {
            sl_event *event = sl_decision_add_event(d, SL_EVENT_RETURN, iteration);
            sl_decision_describe(a, &problem, event);
            explain(a, event, "return to the first schedule", running, first);
            status = take(a, iteration, NULL, d);
        }
    } else if (status == SL_OK && pays(a, running, candidate)) {
        sl_event *event = sl_decision_add_event(d, SL_EVENT_SWAP, iteration);
        sl_decision_describe(a, &problem, event);
        char decided[96];
        snprintf(decided, sizeof decided, "swap to %s", plan.schedule);
        explain(a, event, decided, running, candidate);
        status = take(a, iteration, &plan, d);
    }
    sl_plan_free(&plan);
    sl_problem_free(&problem);
    return status;
}

/* Relief: the links have been healthy for `hold` iterations and the first plan is no worse there. */
static sl_status consider_return(sl_adaptation *a, int iteration, sl_decision *d) {
    sl_problem problem;
    sl_time running = 0, first = 0;
    sl_status status = sl_decision_typical(a, a->config.hold, &problem);
    if (status == SL_OK)
        status = sl_decision_makespan_on(&problem, a->running, &running);
    if (status == SL_OK)
        status = sl_decision_makespan_on(&problem, &a->first, &first);
    if (status == SL_OK && (double)first <= (double)running * 1.005) {
        sl_event *event = sl_decision_add_event(d, SL_EVENT_RETURN, iteration);
        explain(a, event, "return to the first schedule", running, first);
        status = take(a, iteration, NULL, d);
    }
    sl_problem_free(&problem);
    return status;
}

/* A link that becomes slow while a device is slow is news of its own. */
static sl_status note_change(sl_adaptation *a, int iteration, const sl_problem *measured, sl_decision *d) {
    sl_trouble trouble = SL_TROUBLE_NONE, before = a->troubled;
    if (a->learnt)
        SL_TRY(sl_decision_is_troubled(a, measured, &trouble));
    a->troubled = trouble;
    if (trouble == before || (trouble == SL_TROUBLE_DEVICE && before == SL_TROUBLE_LINK))
        return SL_OK;
    a->kept = 0;
    sl_event *event = sl_decision_add_event(d, trouble ? SL_EVENT_ONSET : SL_EVENT_RELIEF, iteration);
    sl_decision_describe(a, measured, event);
    if (!trouble)
        sl_text_format(event->seen, sizeof event->seen, "links and ops are back at their healthy level");
    return SL_OK;
}

/* The reason for doing nothing, once an event and not before the change has lasted `hold` iterations. */
static void note_keep(sl_adaptation *a, int iteration, const sl_problem *measured, sl_decision *d) {
    int waited = a->config.frozen || iteration - a->last_swap >= a->config.dwell;
    if (!a->troubled || a->kept || d->verdict != SL_VERDICT_KEEP || a->filled < a->config.hold ||
        (a->better_since > 0 && waited && a->better_since < a->config.hold))
        return;
    a->kept = 1;
    sl_event *event = sl_decision_add_event(d, SL_EVENT_KEEP, iteration);
    sl_decision_describe(a, measured, event);
    explain(a, event, a->config.frozen ? "keep the schedule: adapt is off" : "keep the schedule",
            d->running_predicted, d->best_predicted);
    sl_time gain = d->running_predicted - d->best_predicted;
    if (waited && !a->config.frozen && gain > 0 && gain <= spread(a))
        sl_text_format(
            event->why, sizeof event->why,
            "a new one would gain %.2f ms, less than the %.2f ms by which the running one varied lately",
            sl_to_ms(gain), sl_to_ms(spread(a)));
    if (!waited)
        sl_text_format(event->why, sizeof event->why,
                       "the last swap is %d iterations ago; at least %d must lie between two",
                       iteration - a->last_swap, a->config.dwell);
}

/* The healthy level is what the first iterations show, not what was planned for: a real network has latency
 * of its own, and without a pace the times of ops are not known before. */
static sl_status learn(sl_adaptation *a) {
    sl_problem measured;
    if (a->learnt || a->filled < a->config.hold)
        return SL_OK;
    SL_TRY(sl_decision_typical(a, a->config.hold, &measured));
    measured.communication = a->healthy.communication;
    sl_problem_free(&a->healthy);
    a->healthy = measured;
    a->learnt = 1;
    return SL_OK;
}

static sl_status observe(sl_adaptation *a, int iteration, const sl_problem *measured, sl_decision *d) {
    SL_TRY(sl_decision_makespan_on(measured, a->running, &d->running_predicted));
    a->took[(a->next - 1 + a->config.hold) % a->config.hold] = d->running_predicted;
    sl_plan candidate = {0};
    sl_time first = 0;
    sl_status status = sl_plan_make(measured, a->config.schedule, &candidate);
    if (status == SL_OK)
        status = sl_decision_makespan_on(measured, &a->first, &first);
    d->best_predicted = candidate.makespan < first ? candidate.makespan : first;
    sl_plan_free(&candidate);
    SL_TRY(status);
    a->better_since = pays(a, d->running_predicted, d->best_predicted) ? a->better_since + 1 : 0;
    a->relieved_since = a->running != &a->first && !a->troubled ? a->relieved_since + 1 : 0;
    int free_to_swap = !a->config.frozen && iteration - a->last_swap >= a->config.dwell;
    if (free_to_swap && a->filled >= a->config.hold) {
        if (a->relieved_since >= a->config.hold)
            SL_TRY(consider_return(a, iteration, d));
        else if (a->better_since >= a->config.hold && d->running_predicted - d->best_predicted > spread(a))
            SL_TRY(consider_swap(a, iteration, d));
    }
    note_keep(a, iteration, measured, d);
    sl_problem recent;
    int count = a->filled < 3 ? a->filled : 3;
    if (count > a->config.hold)
        count = a->config.hold;
    SL_TRY(sl_decision_typical(a, count, &recent));
    status = sl_decision_makespan_on(&recent, a->running, &a->forecast);
    sl_problem_free(&recent);
    return status;
}

sl_status sl_adaptation_observe(sl_adaptation *a, int iteration, const sl_problem *measured, sl_decision *d) {
    sl_problem now;
    a->observed = iteration;
    *d = (sl_decision){.verdict = SL_VERDICT_KEEP, .adapted = a->running != &a->first};
    SL_TRY(sl_problem_copy(measured, &now));
    now.communication = sl_decision_regime(a);
    sl_status status = sl_decision_remember(a, &now);
    if (status == SL_OK)
        status = learn(a);
    if (status == SL_OK)
        status = note_change(a, iteration, &now, d);
    d->troubled = a->troubled != SL_TROUBLE_NONE;
    if (status == SL_OK)
        status = sl_decision_choose_path(a, iteration, &now, d);
    now.communication = sl_decision_regime(a);
    if (status == SL_OK)
        status = observe(a, iteration, &now, d);
    sl_problem_free(&now);
    return status;
}
