/* What ranks exchange besides pipeline messages: orders and clocks. Collective calls. */
#pragma once

#include "plan/pipeline/order.h"
#include "run/arrange/trainer.h"

/** Broadcasts the leader's order for a problem of this shape; on the other ranks `order` is empty and
 * allocated here. Free with sl_order_free. */
sl_status sl_exchange_order(const sl_trainer *t, const sl_problem *shape, sl_order *order);

/** One round trip from the leader to each rank on another host, which refines the leader's t->clocks, unless
 * `suspect` is set (links are under suspicion). Does nothing on one host. */
sl_status sl_exchange_clocks(sl_trainer *t, int suspect);

/** Before the ranks change their positions: t->clocks follow the processes, of which the one at position w was
 * at was[w]. SL_ENOMEM, and nothing has changed. */
sl_status sl_exchange_clocks_follow(sl_trainer *t, const int *was);
