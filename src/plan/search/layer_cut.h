/* The cut assigns layers to stages; it is chosen together with the schedule and, if a problem leaves it open,
 * with the stages that recompute. The search starts from the given and the most balanced cut, moves
 * boundaries one by one and turns recomputation of stages on and off while the shortest quick schedule
 * (families and portfolio) gets shorter. Each cut is assessed by its schedule, not only by its balance, so
 * links, memory and the ends of the pipeline count. Few cuts are all tried. */
#pragma once

#include "base/clock.h"
#include "plan/pipeline/order.h"
#include "plan/pipeline/problem.h"

#define SL_CUTS 4

typedef struct sl_layer_cut {
    int *first;           /* [stages + 1] as in layers */
    unsigned char *again; /* [stages] it recomputes */
    sl_time value;        /* of the shortest quick schedule */
} sl_layer_cut;

typedef struct sl_layer_cuts {
    sl_layer_cut cut[SL_CUTS]; /* the best found, the shortest first */
    int count;
} sl_layer_cuts;

/** The best cuts of a problem with layers, found at most until `until`; sets the first. SL_ENONE: no cut has
 * a schedule that fits into memory. Free with sl_cuts_free, also on error. */
sl_status sl_cuts_find(sl_problem *problem, sl_limit until, sl_layer_cuts *cuts);
void sl_cuts_free(sl_layer_cuts *cuts);
/** Sets a cut. */
void sl_cut_take(sl_problem *problem, const sl_layer_cut *cut);

/** Sets the most balanced cut, and lets the fewest first ranks recompute that must, if the problem leaves it
 * open. SL_ENONE as sl_cuts_find. */
sl_status sl_cut_balance(sl_problem *problem);

/** Chooses and sets the cut of a problem with layers, as sl_cuts_find. Does nothing without layers, or if
 * a layout gives the cut. */
sl_status sl_cut_choose(sl_problem *problem, sl_limit until);

/** Changes the cut, and what recomputes, while `order`, a schedule of the problem, gets shorter by it; *value
 * is what it takes then. */
sl_status sl_cut_refine(sl_problem *problem, const sl_order *order, sl_limit until, sl_time *value);

/** A lower bound over all cuts, ns: the minimum of their bounds if there are few, else the work of the
 * slowest rank of the most balanced cut. SL_ENOMEM. */
sl_status sl_cut_bound(const sl_problem *problem, sl_time *bound);
