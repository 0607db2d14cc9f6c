/* What the files of the decision share.
 *
 *   decision   opening, the schedules that might replace the running one, what an iteration leads to
 *   evidence   the measurements: medians over a window, what has changed, in words
 *   delegation who carries the messages */
#ifndef SL_ADAPT_DECISION_INSIDE_H
#define SL_ADAPT_DECISION_INSIDE_H

#include "adapt/schedule/decision.h"

/* Growth of a time below this is what the scheduling of a communication thread may add. */
#define SL_DECISION_NOISE (300 * (SL_MS / 1000))

/* What is slow; where both are, the link, which is told first. */
typedef enum sl_trouble { SL_TROUBLE_NONE, SL_TROUBLE_DEVICE, SL_TROUBLE_LINK } sl_trouble;

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
    int better_since;    /* iterations on end in which a swap would have paid */
    int relieved_since;  /* iterations on end in which the links were healthy while adapted */
    int observed;        /* iteration that was observed last */
    int last_swap;       /* iteration; far in the past before the first */
    sl_trouble troubled; /* an onset was reported and no relief yet */
    int delegates;       /* that carry the messages of a link and direction; 0: the ranks do */
    int exceeded_since;  /* iterations on end in which a link exceeded its tolerance */
    int short_since;     /* iterations on end in which more delegates were needed */
    int quiet_since;     /* iterations on end without trouble on the first schedule */
    int kept;            /* the reason for keeping was reported for this event */
    sl_time forecast;
};

/* ---- evidence.c */
/** The regime of the path that is in use; that of the problem is the direct path's. */
sl_regime sl_decision_regime(const sl_adaptation *a);
/** Keeps a copy of an iteration's measurements in the window. */
sl_status sl_decision_remember(sl_adaptation *a, const sl_problem *measured);
/** The problem whose every time is the median of the last `count` measurements. Free with sl_problem_free. */
sl_status sl_decision_typical(const sl_adaptation *a, int count, sl_problem *problem);
/** The same over the window; but what has become half as long again or more, or that much shorter, in two of
 * the last three measurements is as there: what is that slow costs much in every iteration that passes. */
sl_status sl_decision_lately(const sl_adaptation *a, sl_problem *problem);
/** The same problem for making plans: each link's latency and transfer are `links.percentile` of the last
 * `hold` measurements, at least those in `typical`, so that a small spike finds slack. Free with
 * sl_problem_free. */
sl_status sl_decision_cautious(const sl_adaptation *a, const sl_problem *typical, sl_problem *problem);
/** Latency and transfer of a link together. */
sl_time sl_decision_link_delay(const sl_problem *p, int from, int to);
/** What counts as growth of a link's delay. */
sl_time sl_decision_threshold(const sl_adaptation *a, int from, int to);
/** Something slow is to be seen in this iteration (a link) or the window (a device). */
sl_status sl_decision_is_troubled(const sl_adaptation *a, const sl_problem *measured, sl_trouble *trouble);
/** One more event of this decision; the caller fills in the words. */
sl_event *sl_decision_add_event(sl_decision *d, sl_event_kind kind, int iteration);
/** Which link or rank is slow, and how slow, into the event. */
void sl_decision_describe(const sl_adaptation *a, const sl_problem *measured, sl_event *event);

/* ---- decision.c */
/** What a plan's order takes on a problem. */
sl_status sl_decision_makespan_on(const sl_problem *problem, const sl_plan *plan, sl_time *makespan);

/* ---- delegation.c */
/** Starts, stops or adds delegates when it is time. */
sl_status sl_decision_choose_path(sl_adaptation *a, int iteration, const sl_problem *measured,
                                  sl_decision *d);

#endif
