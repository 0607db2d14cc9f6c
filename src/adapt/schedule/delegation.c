#include "adapt/schedule/decision_inside.h"
#include "adapt/orchestrator/queues.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* A link that has grown and is beyond what the running schedule absorbs. Equation 1 speaks of one stage a
 * rank; elsewhere every link that has grown counts. */
static int exceeds_tolerance(const sl_adaptation *a, const sl_problem *measured) {
    for (int from = 0; from < measured->ranks; from++)
        for (int to = 0; to < measured->ranks; to++) {
            sl_time delay = sl_decision_link_delay(measured, from, to),
                    grown = delay - sl_decision_link_delay(&a->healthy, from, to);
            if (grown <= sl_decision_threshold(a, from, to))
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
        a->window[i].communication = sl_decision_regime(a);
        SL_TRY(sl_decision_makespan_on(&a->window[i], a->running, &a->took[i]));
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
    SL_TRY(sl_decision_typical(a, a->config.hold, &usual));
    *count = sl_queues_needed(&usual, &from, &to);
    if (event && *count > 1)
        sl_text_format(event->seen, sizeof event->seen, "link %d-%d: a message occupies it for %.2f ms", from,
                       to, sl_to_ms(usual.link[from * usual.ranks + to].transfer));
    sl_problem_free(&usual);
    return SL_OK;
}

static void say_delegates(sl_event *event, int count) {
    if (count == 1)
        sl_text_format(event->decided, sizeof event->decided,
                       "a delegate carries the messages of each link and direction");
    else
        sl_text_format(event->decided, sizeof event->decided,
                       "%d delegates carry the messages of each link and direction", count);
}

static sl_status start_delegates(sl_adaptation *a, int iteration, const sl_problem *measured,
                                 sl_decision *d) {
    sl_event *event = sl_decision_add_event(d, SL_EVENT_DELEGATE, iteration);
    SL_TRY(count_delegates(a, NULL, &d->delegates));
    sl_decision_describe(a, measured, event);
    say_delegates(event, d->delegates);
    sl_text_format(event->why, sizeof event->why,
                   "the link has been beyond the tolerance of the running schedule for %d iterations",
                   a->config.hold);
    return change_path(a, d->delegates);
}

static sl_status stop_delegates(sl_adaptation *a, int iteration, sl_decision *d) {
    sl_event *event = sl_decision_add_event(d, SL_EVENT_DIRECT, iteration);
    sl_text_format(event->decided, sizeof event->decided, "the ranks carry their messages themselves");
    sl_text_format(event->why, sizeof event->why, "links and ops have been healthy for %d iterations",
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
    sl_event *event = sl_decision_add_event(d, SL_EVENT_DELEGATE, iteration);
    memcpy(event->seen, seen.seen, sizeof event->seen);
    say_delegates(event, wanted);
    sl_text_format(event->why, sizeof event->why,
                   "%d could not carry them as fast as they are made for %d iterations", a->delegates,
                   a->config.hold);
    d->delegates = wanted;
    return change_path(a, wanted);
}

sl_status sl_decision_choose_path(sl_adaptation *a, int iteration, const sl_problem *measured,
                                  sl_decision *d) {
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

sl_status sl_adaptation_follow(sl_adaptation *a, int delegates) {
    return a->delegates == delegates ? SL_OK : change_path(a, delegates);
}
