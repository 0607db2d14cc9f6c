/* What a search starts from: orders of families, of the portfolio and given ones, the best first, and what is
 * proven of the problem. */
#pragma once

#include "base/clock.h"
#include "plan/bound/relaxation.h"
#include "plan/family/family.h"

#define SL_STARTS 24

typedef struct sl_start {
    sl_order order;
    sl_time makespan;
    double memory;    /* of the rank that needs most */
    const char *name; /* of the family, or as given; NULL: a search found it */
} sl_start;

typedef struct sl_starts {
    const sl_problem *problem;
    const char *preferred; /* the name that goes first among equal makespans; NULL: none */
    sl_time bound;         /* no schedule is shorter */
    int count;
    sl_start start[SL_STARTS]; /* by makespan, then name, then memory, then as they came */
    char tried[180];           /* names and makespans */
    sl_problem wide;           /* the problem with what device and host hold together as its limit */
    sl_relaxation relaxation;  /* of `wide` */
} sl_starts;

/** No orders yet; a shallow bound. `problem` must outlive it. SL_ENOMEM. Free with sl_starts_free, also on
 * error. */
sl_status sl_starts_open(const sl_problem *problem, sl_starts *starts);

/** Whether nothing is shorter than the first. Never fails. */
int sl_starts_proven(const sl_starts *starts);

/** Takes over `order`: into its place, or away if it is no schedule of the problem, exceeds the memory limit,
 * adds weight gradients in another order than that of the microbatches, or comes after the last place. `name`
 * must outlive the starts; NULL: a search found it. SL_ENOMEM. */
sl_status sl_starts_add(sl_starts *starts, sl_order *order, const char *name);

/** The order of a family, if it has one within the memory limit. SL_ENOMEM. */
sl_status sl_starts_add_family(sl_starts *starts, const sl_family *family);

/** Makes the relaxation, and raises the bound by it; `deep` as in sl_relaxation_make. SL_ENOMEM. */
sl_status sl_starts_relax(sl_starts *starts, int deep);

/** The portfolio's orders (plan/search/portfolio.h), until one is proven, the limit is over or *work, counted
 * down in ops replayed, is done; but at least until one order fits, one microbatch after the other if need
 * be. After sl_starts_relax. SL_ENOMEM; SL_ENONE: no order fits. */
sl_status sl_starts_add_portfolio(sl_starts *starts, const sl_limit *until, int64_t *work);

void sl_starts_free(sl_starts *starts);
