#include "adapt/decision.h"
#include "adapt/queues.h"
#include "base/median.h"
#include "base/memory.h"
#include "plan/timing/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Growth of a delay below this is what the scheduling of a communication thread may add. */
#define NOISE (300 * (SL_MS / 1000))

struct sl_adaptation {
    sl_adaptation_config config;
    char schedule[32];
    sl_problem healthy; /* as planned for, then the medians of the first `hold` iterations */
    int learnt;         /* healthy has been measured */
    sl_plan first;
    sl_plan other; /* the adapted plan that runs or ran last; empty before the first swap */
    const sl_plan *running;
    sl_problem *window; /* measurements of the last `hold` iterations, a ring */
    sl_time *took;      /* of the same iterations: what the running order was predicted to take on each */
    int filled, next;
    int better_since;   /* iterations on end in which a swap would have paid */
    int relieved_since; /* iterations on end in which the links were healthy while adapted */
    int last_swap;      /* iteration; far in the past before the first */
    int troubled;       /* an onset was reported and no relief yet */
    int delegates;      /* that carry the messages of a link and direction; 0: the ranks do */
    int exceeded_since; /* iterations on end in which a link exceeded its tolerance */
    int short_since;    /* iterations on end in which more delegates were needed */
    int quiet_since;    /* iterations on end without trouble on the first schedule */
    int kept;           /* the reason for keeping was reported for this event */
    sl_time forecast;
};

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

sl_time sl_adaptation_forecast(const sl_adaptation *a) {
    return a->forecast;
}

/* The regime of the path that is in use; that of the problem is the direct path's. */
static sl_regime regime(const sl_adaptation *a) {
    return a->delegates ? SL_DECOUPLED : a->healthy.communication;
}

/* ---- medians over the window ---- */

static sl_status remember(sl_adaptation *a, const sl_problem *measured) {
    sl_problem copy;
    SL_TRY(sl_problem_copy(measured, &copy));
    sl_problem_free(&a->window[a->next]);
    a->window[a->next] = copy;
    a->next = (a->next + 1) % a->config.hold;
    if (a->filled < a->config.hold)
        a->filled++;
    return SL_OK;
}

/* The problem whose every time is the median of the last `count` measurements. */
static sl_status typical(const sl_adaptation *a, int count, sl_problem *problem) {
    sl_time *values;
    SL_TRY(sl_problem_copy(&a->healthy, problem));
    problem->communication = regime(a);
    sl_status status = sl_alloc(&values, (size_t)count, sizeof *values);
    if (status != SL_OK) {
        sl_problem_free(problem);
        return status;
    }
    int hold = a->config.hold;
#define MEDIAN_OF(field)                                                                                     \
    do {                                                                                                     \
        for (int i = 0; i < count; i++)                                                                      \
            values[i] = a->window[(a->next - 1 - i + 2 * hold) % hold].field;                                \
        problem->field = sl_median(values, count);                                                           \
    } while (0)
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        for (int stage = 0; stage < problem->stages; stage++)
            MEDIAN_OF(time[kind][stage]);
    for (int stage = 0; stage < problem->stages; stage++)
        MEDIAN_OF(saved[stage]);
    for (int link = 0; link < problem->ranks * problem->ranks; link++) {
        MEDIAN_OF(link[link].latency);
        MEDIAN_OF(link[link].transfer);
        problem->link[link].lanes = a->window[(a->next - 1 + hold) % hold].link[link].lanes;
    }
#undef MEDIAN_OF
    sl_free(values);
    return SL_OK;
}

/* ---- what changed ---- */

static sl_time link_delay(const sl_problem *p, int from, int to) {
    const sl_link *link = &p->link[from * p->ranks + to];
    return link->latency + link->transfer;
}

/* What counts as growth of a delay: beyond noise, beyond half of what the link takes anyway, and enough to
 * matter. */
static sl_time threshold(const sl_adaptation *a, int from, int to) {
    sl_time least = NOISE, half = link_delay(&a->healthy, from, to) / 2, part = a->first.makespan / 200;
    least = half > least ? half : least;
    return part > least ? part : least;
}

/* The link whose delay grew most over its healthy one; -1 when none grew enough. */
static sl_time worst_growth(const sl_adaptation *a, const sl_problem *measured, int *from, int *to) {
    sl_time worst = 0;
    *from = *to = -1;
    for (int r = 0; r < measured->ranks; r++)
        for (int s = 0; s < measured->ranks; s++) {
            sl_time growth = link_delay(measured, r, s) - link_delay(&a->healthy, r, s);
            if (growth > worst && growth > threshold(a, r, s)) {
                worst = growth;
                *from = r;
                *to = s;
            }
        }
    return *from >= 0 ? worst : 0;
}

/* The stage whose ops slowed down most, by more than a tenth and beyond noise; -1: none. */
static int slow_stage(const sl_adaptation *a, const sl_problem *measured, double *factor) {
    int slowest = -1;
    *factor = 1.1;
    for (int stage = 0; stage < measured->stages; stage++) {
        sl_time before = 0, now = 0;
        for (int kind = SL_F; kind <= SL_W; kind++) {
            before += a->healthy.time[kind][stage];
            now += measured->time[kind][stage];
        }
        if (before > 0 && now - before > NOISE && (double)now / (double)before > *factor) {
            *factor = (double)now / (double)before;
            slowest = stage;
        }
    }
    return slowest;
}

static sl_event *add_event(sl_decision *d, sl_event_kind kind, int iteration) {
    sl_event *event = &d->event[d->events++];
    *event = (sl_event){.kind = kind, .iteration = iteration, .from = -1, .to = -1, .rank = -1};
    return event;
}

static void describe(const sl_adaptation *a, const sl_problem *measured, sl_event *event) {
    double factor;
    int stage = slow_stage(a, measured, &factor);
    sl_time growth = worst_growth(a, measured, &event->from, &event->to);
    if (growth > 0) {
        sl_time back =
            link_delay(measured, event->to, event->from) - link_delay(&a->healthy, event->to, event->from);
        int both = 2 * back > growth;
        if (both && event->from > event->to) {
            int swap = event->from;
            event->from = event->to;
            event->to = swap;
        }
        snprintf(event->seen, sizeof event->seen, "link %d-%d, %s: %.2f ms one way, healthy %.2f ms",
                 event->from, event->to, both ? "both directions" : "this direction only",
                 sl_to_ms(link_delay(measured, event->from, event->to)),
                 sl_to_ms(link_delay(&a->healthy, event->from, event->to)));
    } else if (stage >= 0) {
        event->rank = sl_problem_rank(measured, stage);
        snprintf(event->seen, sizeof event->seen, "rank %d: ops take %.2f times their healthy time",
                 event->rank, factor);
    }
}

/* A link tells at once, by the median over its messages; ops of a shared machine vary from one iteration to
 * the next, so a slow device must show in the medians of the window. */
static sl_status is_troubled(const sl_adaptation *a, const sl_problem *measured, int *trouble) {
    int from, to;
    double factor;
    sl_problem usual;
    *trouble = worst_growth(a, measured, &from, &to) > 0;
    if (*trouble || a->filled < a->config.hold)
        return SL_OK;
    SL_TRY(typical(a, a->config.hold, &usual));
    *trouble = slow_stage(a, &usual, &factor) >= 0;
    sl_problem_free(&usual);
    return SL_OK;
}

/* ---- candidates ---- */

static sl_status makespan_on(const sl_problem *problem, const sl_plan *plan, sl_time *makespan) {
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
    snprintf(event->decided, sizeof event->decided, "%s", decided);
    snprintf(
        event->why, sizeof event->why,
        "predicted %.2f ms an iteration with the running schedule and %.2f ms with the new one; a swap costs "
        "%.2f ms once",
        sl_to_ms(running), sl_to_ms(candidate), sl_to_ms(a->config.swap_cost));
}

/* The new plan for the typical measurements, unless the first plan is as good there. */
static sl_status consider_swap(sl_adaptation *a, int iteration, sl_decision *d) {
    sl_problem problem;
    sl_plan plan = {0};
    sl_time running = 0, first = 0;
    sl_status status = typical(a, a->config.hold, &problem);
    if (status == SL_OK)
        status = makespan_on(&problem, a->running, &running);
    if (status == SL_OK)
        status = makespan_on(&problem, &a->first, &first);
    if (status == SL_OK)
        status = sl_plan_make(&problem, a->config.schedule, &plan);
    if (status == SL_OK && a->running != &a->first && first <= plan.makespan) {
        if (pays(a, running, first)) {
            sl_event *event = add_event(d, SL_EVENT_RETURN, iteration);
            describe(a, &problem, event);
            explain(a, event, "return to the first schedule", running, first);
            status = take(a, iteration, NULL, d);
        }
    } else if (status == SL_OK && pays(a, running, plan.makespan)) {
        sl_event *event = add_event(d, SL_EVENT_SWAP, iteration);
        describe(a, &problem, event);
        char decided[96];
        snprintf(decided, sizeof decided, "swap to %s", plan.schedule);
        explain(a, event, decided, running, plan.makespan);
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
    sl_status status = typical(a, a->config.hold, &problem);
    if (status == SL_OK)
        status = makespan_on(&problem, a->running, &running);
    if (status == SL_OK)
        status = makespan_on(&problem, &a->first, &first);
    if (status == SL_OK && (double)first <= (double)running * 1.005) {
        sl_event *event = add_event(d, SL_EVENT_RETURN, iteration);
        explain(a, event, "return to the first schedule", running, first);
        status = take(a, iteration, NULL, d);
    }
    sl_problem_free(&problem);
    return status;
}

static sl_status note_change(sl_adaptation *a, int iteration, const sl_problem *measured, sl_decision *d) {
    int trouble = 0;
    if (a->learnt)
        SL_TRY(is_troubled(a, measured, &trouble));
    if (trouble == a->troubled)
        return SL_OK;
    a->troubled = trouble;
    a->kept = 0;
    sl_event *event = add_event(d, trouble ? SL_EVENT_ONSET : SL_EVENT_RELIEF, iteration);
    describe(a, measured, event);
    if (!trouble)
        snprintf(event->seen, sizeof event->seen, "links and ops are back at their healthy level");
    return SL_OK;
}

/* The reason for doing nothing, once an event and not before the change has lasted `hold` iterations. */
static void note_keep(sl_adaptation *a, int iteration, const sl_problem *measured, sl_decision *d) {
    int waited = a->config.frozen || iteration - a->last_swap >= a->config.dwell;
    if (!a->troubled || a->kept || d->verdict != SL_VERDICT_KEEP || a->filled < a->config.hold ||
        (a->better_since > 0 && waited && a->better_since < a->config.hold))
        return;
    a->kept = 1;
    sl_event *event = add_event(d, SL_EVENT_KEEP, iteration);
    describe(a, measured, event);
    explain(a, event, a->config.frozen ? "keep the schedule: adapt is off" : "keep the schedule",
            d->running_predicted, d->best_predicted);
    sl_time gain = d->running_predicted - d->best_predicted;
    if (waited && !a->config.frozen && gain > 0 && gain <= spread(a))
        snprintf(event->why, sizeof event->why,
                 "a new one would gain %.2f ms, less than the %.2f ms by which the running one varied lately",
                 sl_to_ms(gain), sl_to_ms(spread(a)));
    if (!waited)
        snprintf(event->why, sizeof event->why,
                 "the last swap is %d iterations ago; at least %d must lie between two",
                 iteration - a->last_swap, a->config.dwell);
}

/* The healthy level is what the first iterations show, not what was planned for: a real network has latency
 * of its own, and without a pace the times of ops are not known before. */
static sl_status learn(sl_adaptation *a) {
    sl_problem measured;
    if (a->learnt || a->filled < a->config.hold)
        return SL_OK;
    SL_TRY(typical(a, a->config.hold, &measured));
    measured.communication = a->healthy.communication;
    sl_problem_free(&a->healthy);
    a->healthy = measured;
    a->learnt = 1;
    return SL_OK;
}

/* ---- who carries the messages ---- */

/* A link that has grown and is beyond what the running schedule absorbs. Equation 1 speaks of one stage a
 * rank; elsewhere every link that has grown counts. */
static int exceeds_tolerance(const sl_adaptation *a, const sl_problem *measured) {
    for (int from = 0; from < measured->ranks; from++)
        for (int to = 0; to < measured->ranks; to++) {
            sl_time delay = link_delay(measured, from, to), grown = delay - link_delay(&a->healthy, from, to);
            if (grown <= threshold(a, from, to))
                continue;
            int adjacent = from - to == 1 || to - from == 1, first = from < to ? from : to;
            if (measured->placement != SL_LINEAR || !adjacent ||
                delay > sl_plan_tolerance(measured, a->running, first))
                return 1;
        }
    return 0;
}

/* The path has changed: what the running order was predicted to take must not look like a variation. */
static sl_status change_path(sl_adaptation *a, int delegates) {
    a->delegates = delegates;
    a->exceeded_since = a->short_since = a->quiet_since = a->better_since = 0; /* measure it first */
    for (int i = 0; i < a->filled; i++) {
        a->window[i].communication = regime(a);
        SL_TRY(makespan_on(&a->window[i], a->running, &a->took[i]));
    }
    return SL_OK;
}

/* Delegates that the medians of the window ask for. */
static sl_status count_delegates(const sl_adaptation *a, sl_event *event, int *count) {
    sl_problem usual;
    int from, to;
    *count = a->config.queues;
    if (*count > 0)
        return SL_OK;
    SL_TRY(typical(a, a->config.hold, &usual));
    *count = sl_queues_needed(&usual, &from, &to);
    if (event && *count > 1)
        snprintf(event->seen, sizeof event->seen, "link %d-%d: a message occupies it for %.2f ms", from, to,
                 sl_to_ms(usual.link[from * usual.ranks + to].transfer));
    sl_problem_free(&usual);
    return SL_OK;
}

static void say_delegates(sl_event *event, int count) {
    if (count == 1)
        snprintf(event->decided, sizeof event->decided,
                 "a delegate carries the messages of each link and direction");
    else
        snprintf(event->decided, sizeof event->decided,
                 "%d delegates carry the messages of each link and direction", count);
}

static sl_status start_delegates(sl_adaptation *a, int iteration, const sl_problem *measured,
                                 sl_decision *d) {
    sl_event *event = add_event(d, SL_EVENT_DELEGATE, iteration);
    SL_TRY(count_delegates(a, NULL, &d->delegates));
    describe(a, measured, event);
    say_delegates(event, d->delegates);
    snprintf(event->why, sizeof event->why,
             "the link has been beyond the tolerance of the running schedule for %d iterations",
             a->config.hold);
    return change_path(a, d->delegates);
}

static sl_status stop_delegates(sl_adaptation *a, int iteration, sl_decision *d) {
    sl_event *event = add_event(d, SL_EVENT_DIRECT, iteration);
    snprintf(event->decided, sizeof event->decided, "the ranks carry their messages themselves");
    snprintf(event->why, sizeof event->why, "links and ops have been healthy for %d iterations",
             a->config.hold);
    d->delegates = -1;
    return change_path(a, 0);
}

/* More delegates when the link has slowed down further, never fewer: those that are not needed sleep. */
static sl_status add_delegates(sl_adaptation *a, int iteration, sl_decision *d) {
    int wanted, from, to;
    if (a->config.queues > 0)
        return SL_OK;
    const sl_problem *latest = &a->window[(a->next - 1 + a->config.hold) % a->config.hold];
    a->short_since = sl_queues_needed(latest, &from, &to) > a->delegates ? a->short_since + 1 : 0;
    if (a->short_since < a->config.hold)
        return SL_OK;
    sl_event seen = {0};
    SL_TRY(count_delegates(a, &seen, &wanted));
    if (wanted <= a->delegates)
        return SL_OK;
    sl_event *event = add_event(d, SL_EVENT_DELEGATE, iteration);
    memcpy(event->seen, seen.seen, sizeof event->seen);
    say_delegates(event, wanted);
    snprintf(event->why, sizeof event->why,
             "%d could not carry them as fast as they are made for %d iterations", a->delegates,
             a->config.hold);
    d->delegates = wanted;
    return change_path(a, wanted);
}

static sl_status choose_path(sl_adaptation *a, int iteration, const sl_problem *measured, sl_decision *d) {
    if (a->config.delegation == SL_DELEGATION_NEVER || !a->learnt)
        return SL_OK;
    int may_change = a->config.delegation == SL_DELEGATION_AUTO;
    a->exceeded_since = exceeds_tolerance(a, measured) ? a->exceeded_since + 1 : 0;
    a->quiet_since = !a->troubled && a->running == &a->first ? a->quiet_since + 1 : 0;
    if (may_change && !a->delegates && a->exceeded_since >= a->config.hold)
        return start_delegates(a, iteration, measured, d);
    if (may_change && a->delegates && a->quiet_since >= a->config.hold)
        return stop_delegates(a, iteration, d);
    return a->delegates ? add_delegates(a, iteration, d) : SL_OK;
}

static sl_status observe(sl_adaptation *a, int iteration, const sl_problem *measured, sl_decision *d) {
    SL_TRY(makespan_on(measured, a->running, &d->running_predicted));
    a->took[(a->next - 1 + a->config.hold) % a->config.hold] = d->running_predicted;
    sl_plan candidate = {0};
    sl_time first = 0;
    sl_status status = sl_plan_make(measured, a->config.schedule, &candidate);
    if (status == SL_OK)
        status = makespan_on(measured, &a->first, &first);
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
    SL_TRY(typical(a, count, &recent));
    status = makespan_on(&recent, a->running, &a->forecast);
    sl_problem_free(&recent);
    return status;
}

sl_status sl_adaptation_observe(sl_adaptation *a, int iteration, const sl_problem *measured, sl_decision *d) {
    sl_problem now;
    *d = (sl_decision){.verdict = SL_VERDICT_KEEP, .adapted = a->running != &a->first};
    SL_TRY(sl_problem_copy(measured, &now));
    now.communication = regime(a);
    sl_status status = remember(a, &now);
    if (status == SL_OK)
        status = learn(a);
    if (status == SL_OK)
        status = note_change(a, iteration, &now, d);
    d->troubled = a->troubled;
    if (status == SL_OK)
        status = choose_path(a, iteration, &now, d);
    now.communication = regime(a);
    if (status == SL_OK)
        status = observe(a, iteration, &now, d);
    sl_problem_free(&now);
    return status;
}
