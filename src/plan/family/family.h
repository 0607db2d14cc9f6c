/* Schedule families: a family is a name and a rule that gives an order for a problem. */
#pragma once

#include "plan/pipeline/order.h"

#define SL_TWO_STAGES (1u << 16) /* only for two stages per rank */
/* It tries many schedules: a search over all families tries it last, and only if nothing before it fits or is
 * proven optimal. */
#define SL_LABORIOUS (1u << 17)

typedef struct sl_family {
    const char *name;
    int parts;           /* it cuts ops into the problem's parts itself */
    int tries;           /* laborious: schedules that it makes; else 0 */
    unsigned placements; /* bits 1 << sl_placement of its placements, and the bits above */
    sl_status (*build)(const sl_problem *problem,
                       sl_order *order); /* SL_ENONE: not within the memory limit */
    const char *help;
} sl_family;

/** The table of families, ended by a NULL name. */
extern const sl_family sl_families[];

/** Whether the family is defined for the problem's placement and stages. Never fails. */
int sl_family_fits(const sl_family *family, const sl_problem *problem);

/** SL_OK if so, else SL_EINVAL with the required placement or stages. */
sl_status sl_family_check(const sl_family *family, const sl_problem *problem);

/** Builds and cuts the order into the problem's parts. SL_EINVAL: the family does not fit, with the required
 * placement or stages; SL_ENONE: not within the memory limit. */
sl_status sl_family_build(const sl_family *family, const sl_problem *problem, sl_order *order);

/** The same for a problem with host memory (hosted.c). If no order is within the limit, it gives the family's
 * first order, which the plan's memory check rejects. */
sl_status sl_family_hosted(const sl_family *family, const sl_problem *problem, sl_order *order);

/** NULL: unknown. */
const sl_family *sl_family_find(const char *name);
