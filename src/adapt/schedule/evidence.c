#include "adapt/schedule/decision_inside.h"
#include "base/median.h"
#include "base/memory.h"
#include "base/text.h"

#include <stdio.h>

/* The regime of the path that is in use; that of the problem is the direct path's. */
sl_regime sl_decision_regime(const sl_adaptation *a) {
    return a->delegates ? SL_DECOUPLED : a->healthy.communication;
}

/* ---- medians over the window ---- */

sl_status sl_decision_remember(sl_adaptation *a, const sl_problem *measured) {
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
sl_status sl_decision_typical(const sl_adaptation *a, int count, sl_problem *problem) {
    sl_time *values;
    SL_TRY(sl_problem_copy(&a->healthy, problem));
    problem->communication = sl_decision_regime(a);
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
    for (int stage = 0; stage < problem->stages; stage++) {
        MEDIAN_OF(saved[stage]);
        MEDIAN_OF(reduce[stage]);
        MEDIAN_OF(gather[stage]);
    }
    for (int link = 0; link < problem->ranks * problem->ranks; link++) {
        MEDIAN_OF(link[link].latency);
        MEDIAN_OF(link[link].transfer);
        problem->link[link].lanes = a->window[(a->next - 1 + hold) % hold].link[link].lanes;
    }
#undef MEDIAN_OF
    sl_free(values);
    return SL_OK;
}

static sl_time newer(sl_time usual, sl_time lately) {
    sl_time least = usual < lately ? usual : lately, most = usual < lately ? lately : usual;
    return most - least > SL_DECISION_NOISE && most - least > least / 2 ? lately : usual;
}

sl_status sl_decision_lately(const sl_adaptation *a, sl_problem *problem) {
    sl_problem recent;
    SL_TRY(sl_decision_typical(a, a->filled, problem));
    if (a->filled <= 3)
        return SL_OK;
    sl_status status = sl_decision_typical(a, 3, &recent);
    if (status != SL_OK) {
        sl_problem_free(problem);
        return status;
    }
    for (int stage = 0; stage < problem->stages; stage++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            problem->time[kind][stage] = newer(problem->time[kind][stage], recent.time[kind][stage]);
        problem->reduce[stage] = newer(problem->reduce[stage], recent.reduce[stage]);
    }
    for (int link = 0; link < problem->ranks * problem->ranks; link++) {
        sl_link *usual = &problem->link[link], *now = &recent.link[link];
        usual->latency = newer(usual->latency, now->latency);
        usual->transfer = newer(usual->transfer, now->transfer);
    }
    sl_problem_free(&recent);
    return SL_OK;
}

sl_status sl_decision_cautious(const sl_adaptation *a, const sl_problem *typical, sl_problem *problem) {
    sl_time *latency;
    int count = a->filled;
    SL_TRY(sl_problem_copy(typical, problem));
    sl_status status = sl_alloc(&latency, 2 * (size_t)count, sizeof *latency);
    if (status != SL_OK) {
        sl_problem_free(problem);
        return status;
    }
    sl_time *transfer = latency + count;
    for (int link = 0; link < problem->ranks * problem->ranks; link++) {
        sl_link *l = &problem->link[link];
        for (int i = 0; i < count; i++) {
            latency[i] = a->window[i].link[link].latency;
            transfer[i] = a->window[i].link[link].transfer;
        }
        sl_time late = sl_percentile(latency, count, a->healthy.percentile);
        sl_time busy = sl_percentile(transfer, count, a->healthy.percentile);
        l->latency = late > l->latency ? late : l->latency;
        l->transfer = busy > l->transfer ? busy : l->transfer;
    }
    sl_free(latency);
    return SL_OK;
}

/* ---- what changed ---- */

sl_time sl_decision_link_delay(const sl_problem *p, int from, int to) {
    const sl_link *link = &p->link[from * p->ranks + to];
    return link->latency + link->transfer;
}

/* What counts as growth of a delay: beyond noise, beyond half of what the link takes anyway, and enough to
 * matter. */
sl_time sl_decision_threshold(const sl_adaptation *a, int from, int to) {
    sl_time least = SL_DECISION_NOISE, half = sl_decision_link_delay(&a->healthy, from, to) / 2,
            part = a->first.makespan / 200;
    least = half > least ? half : least;
    return part > least ? part : least;
}

/* The link whose delay grew most over its healthy one; -1 when none grew enough. */
static sl_time worst_growth(const sl_adaptation *a, const sl_problem *measured, int *from, int *to) {
    sl_time worst = 0;
    *from = *to = -1;
    for (int r = 0; r < measured->ranks; r++)
        for (int s = 0; s < measured->ranks; s++) {
            sl_time growth =
                sl_decision_link_delay(measured, r, s) - sl_decision_link_delay(&a->healthy, r, s);
            if (growth > worst && growth > sl_decision_threshold(a, r, s)) {
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
        if (before > 0 && now - before > SL_DECISION_NOISE && (double)now / (double)before > *factor) {
            *factor = (double)now / (double)before;
            slowest = stage;
        }
    }
    return slowest;
}

sl_event *sl_decision_add_event(sl_decision *d, sl_event_kind kind, int iteration) {
    sl_event *event = &d->event[d->events++];
    *event = (sl_event){.kind = kind, .iteration = iteration, .from = -1, .to = -1, .rank = -1};
    return event;
}

void sl_decision_describe(const sl_adaptation *a, const sl_problem *measured, sl_event *event) {
    double factor;
    int stage = slow_stage(a, measured, &factor);
    sl_time growth = worst_growth(a, measured, &event->from, &event->to);
    if (growth > 0) {
        sl_time back = sl_decision_link_delay(measured, event->to, event->from) -
                       sl_decision_link_delay(&a->healthy, event->to, event->from);
        int both = 2 * back > growth;
        if (both && event->from > event->to) {
            int swap = event->from;
            event->from = event->to;
            event->to = swap;
        }
        sl_text_format(event->seen, sizeof event->seen, "link %d-%d, %s: %.2f ms one way, healthy %.2f ms",
                       event->from, event->to, both ? "both directions" : "this direction only",
                       sl_to_ms(sl_decision_link_delay(measured, event->from, event->to)),
                       sl_to_ms(sl_decision_link_delay(&a->healthy, event->from, event->to)));
    } else if (stage >= 0) {
        event->rank = sl_problem_rank(measured, stage);
        sl_text_format(event->seen, sizeof event->seen, "rank %d: ops take %.2f times their healthy time",
                       event->rank, factor);
    }
}

/* A link tells at once, by the median over its messages; ops of a shared machine vary from one iteration to
 * the next, so a slow device must show in the medians of the window. */
sl_status sl_decision_is_troubled(const sl_adaptation *a, const sl_problem *measured, sl_trouble *trouble) {
    int from, to;
    double factor;
    sl_problem usual;
    *trouble = worst_growth(a, measured, &from, &to) > 0 ? SL_TROUBLE_LINK : SL_TROUBLE_NONE;
    if (*trouble || a->filled < a->config.hold)
        return SL_OK;
    SL_TRY(sl_decision_typical(a, a->config.hold, &usual));
    if (slow_stage(a, &usual, &factor) >= 0)
        *trouble = SL_TROUBLE_DEVICE;
    sl_problem_free(&usual);
    return SL_OK;
}
