/* What ranks exchange besides pipeline messages: orders and clocks. Collective calls. */
#pragma once

#include "base/clock.h"
#include "notice/record/offset.h"
#include "plan/pipeline/order.h"
#include "run/collective/group.h"

/** Broadcasts the order of rank `from` for a problem of this shape; on the other ranks `order` is empty and
 * allocated here. Free with sl_order_free. */
sl_status sl_exchange_order(sl_group *group, int from, const sl_problem *shape, sl_order *order);

/** One round trip from rank `from` to each rank that is `remote` (on another host; known on all ranks):
 * clock[rank] is refined on that rank, unless `suspect` is set (links are under suspicion). Does nothing on
 * one host. */
sl_status sl_exchange_clocks(sl_group *group, int from, sl_clock *clock, const int *remote, int suspect,
                             sl_offset *clocks);
