/* The starting points of a search: orders of families, of the portfolio and given ones, the best first, and
 * the proven bound of the problem. */
#pragma once

#include "base/clock.h"
#include "plan/bound/relaxation.h"
#include "plan/family/family.h"

#define SL_STARTS 24

typedef struct sl_start {
    sl_order order;
    sl_time value;    /* of the objective */
    double memory;    /* of the rank that needs most */
    const char *name; /* of the family, or as given; NULL: found by a search */
} sl_start;

typedef struct sl_starts {
    const sl_problem *problem;
    const char *preferred; /* the name preferred among equal values; NULL: none */
    const sl_order *ends;  /* backwards of a rank's stages must end in its order; NULL: in any */
    sl_time bound;         /* no schedule has a smaller value */
    int count;
    sl_start start[SL_STARTS]; /* by value, then name, then memory, then order of addition */
    char tried[180];           /* names and values */
    sl_problem wide;           /* the problem with device plus host memory as its limit */
    sl_relaxation relaxation;  /* of `wide` */
} sl_starts;

/** No orders yet; a shallow bound. `problem` must outlive it. SL_ENOMEM. Free with sl_starts_free, also on
 * error. */
sl_status sl_starts_open(const sl_problem *problem, sl_starts *starts);

/** Whether the first is proven optimal. Never fails. */
int sl_starts_proven(const sl_starts *starts);

/** Takes ownership of `order`: inserts it, or drops it if it is not a schedule of the problem, exceeds the
 * memory limit, does not add weight gradients in the order of microbatches, does not end its backwards as
 * `ends`, or ranks after the last slot.
 * `name` must outlive the starts; NULL: found by a search. SL_ENOMEM. */
sl_status sl_starts_add(sl_starts *starts, sl_order *order, const char *name);

/** The order of a family, if it has one within the memory limit. SL_ENOMEM. */
sl_status sl_starts_add_family(sl_starts *starts, const sl_family *family);

/** Makes the relaxation, and raises the bound by it; `deep` as in sl_relaxation_make. SL_ENOMEM. */
sl_status sl_starts_relax(sl_starts *starts, int deep);

/** The portfolio's orders (plan/search/portfolio.h), until one is proven optimal, the limit is reached or
 * *work, counted down in replayed ops, is used up; but at least until one order fits, if necessary one
 * microbatch after the other. After sl_starts_relax. SL_ENOMEM; SL_ENONE: no order fits. */
sl_status sl_starts_add_portfolio(sl_starts *starts, const sl_limit *until, int64_t *work);

void sl_starts_free(sl_starts *starts);
