/* The decision to change the schedule (Adaptra, section 6, with the rule of design.md): at the end of every
 * iteration the running order is replayed on what was measured, and a new plan beside it; when the new one
 * gains more than a swap costs, for `hold` iterations on end, it is taken. On relief the first plan comes
 * back.
 *
 * Pure: measurements in, decision out; the trainer carries it out, and a simulation can call it as well.
 *
 * What is healthy is learnt from the first `hold` iterations; the decision itself needs no such level, only
 * the events do (onset, relief) and the return to the first plan.
 *
 * A gain must exceed what the running order itself varied by over those iterations, and a slow device must
 * show in the medians of the window; a link is believed at once, being a median over its messages.
 *
 * Delegates come before a new schedule: while a link's delay has exceeded the tolerance of the running
 * schedule (eq. 1) for `hold` iterations, they take the messages over, so that a send no longer holds its
 * rank, and schedules are judged as decoupled from then on. They go when the first schedule runs again and
 * nothing has been slow for `hold` iterations. When a link asks for more of them than there are, for `hold`
 * iterations, more are started.
 *
 * Against flapping: a change must last `hold` iterations, is judged by the medians of those iterations, and
 * two swaps are at least `dwell` iterations apart, whatever the link does. */
#ifndef SL_ADAPT_DECISION_H
#define SL_ADAPT_DECISION_H

#include "base/event.h"
#include "plan/search/plan.h"

typedef struct sl_adaptation sl_adaptation;

/* Who carries messages. Delegates are decoupled by nature, whatever the problem's regime. */
typedef enum sl_delegation {
    SL_DELEGATION_NEVER,
    SL_DELEGATION_ALWAYS, /* from the first to the last iteration */
    SL_DELEGATION_AUTO    /* while a link exceeds the tolerance of the running schedule */
} sl_delegation;

typedef struct sl_adaptation_config {
    const char *schedule; /* how a new plan is made: a family's name or "auto" */
    int hold, dwell;
    double gain;       /* least share of the running iteration's time that a swap must gain */
    sl_time swap_cost; /* of one swap, until one has been measured */
    sl_delegation delegation;
    int queues; /* delegates per link and direction; 0: as many as measurements ask for (queues.h) */
    int frozen; /* only watch: never swap, and say what a swap would have brought */
} sl_adaptation_config;

typedef enum sl_verdict { SL_VERDICT_KEEP, SL_VERDICT_SWAP, SL_VERDICT_RETURN } sl_verdict;

typedef struct sl_decision {
    sl_verdict verdict;
    const sl_plan
        *plan; /* SWAP, RETURN: what to run next; owned by the adaptation, valid until the next swap */
    sl_time running_predicted; /* makespan of the running order on this iteration's measurements */
    sl_time best_predicted;    /* of the best candidate */
    /* From the next iteration on so many delegates carry the messages of a link and direction; -1: none any
     * more; 0: no change. */
    int delegates;
    int troubled; /* this iteration was measured slow */
    int adapted;  /* this iteration ran another plan than the first */
    int events;   /* onset, relief, delegate, swap, keep, ...: what to write down */
    sl_event event[5];
} sl_decision;

/** `healthy`: the problem that `first` was planned for. Copies both. Close with sl_adaptation_close. */
sl_status sl_adaptation_open(const sl_adaptation_config *config, const sl_problem *healthy,
                             const sl_plan *first, sl_adaptation **adaptation);
void sl_adaptation_close(sl_adaptation *adaptation);

/** One iteration's measurements as a problem (plan/timing/profile.h). The caller must follow a SWAP or RETURN
 * before the next call. */
sl_status sl_adaptation_observe(sl_adaptation *adaptation, int iteration, const sl_problem *measured,
                                sl_decision *decision);

/** The path that is taken from the next iteration on, where others decide about it too: as if this adaptation
 * had decided so itself (delegates per link and direction; 0: the ranks carry the messages). Nothing changes
 * where it is the path that it counts on already. */
sl_status sl_adaptation_follow(sl_adaptation *adaptation, int delegates);

/** In how many iterations it swaps if measurements stay what they are; -1: it would not. */
int sl_adaptation_due(const sl_adaptation *adaptation);

/** What a swap took, all ranks included: replaces the estimate. */
void sl_adaptation_swap_took(sl_adaptation *adaptation, sl_time cost);

/** The makespan that the running order should take next, from the medians of what was last measured. */
sl_time sl_adaptation_forecast(const sl_adaptation *adaptation);

#endif
