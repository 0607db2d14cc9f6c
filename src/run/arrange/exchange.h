/* What ranks tell each other besides messages of the pipeline: orders and clocks. Collective calls. */
#pragma once

#include "base/clock.h"
#include "notice/record/offset.h"
#include "plan/pipeline/order.h"
#include "run/collective/group.h"

/** The order of rank `from` for a problem of this shape to all ranks; on the others `order` is empty and made
 * here. Free with sl_order_free. */
sl_status sl_exchange_order(sl_group *group, int from, const sl_problem *shape, sl_order *order);

/** One round trip from rank `from` to each rank that is `remote` (on another host; known on all ranks):
 * clock[rank] is refined on that rank, unless `suspect` says that links are under suspicion. Nothing happens
 * on one host. */
sl_status sl_exchange_clocks(sl_group *group, int from, sl_clock *clock, const int *remote, int suspect,
                             sl_offset *clocks);
