/* Starting orders for ranks with several stages and a memory limit: list schedules with a cap on the
 * microbatches in flight for the first stages of all ranks, the second ones, and so on. Without caps, first
 * stages fill the memory that later ones need. The best caps are equal rounds of the microbatches, or share
 * the memory out. */
#pragma once

#include "plan/search/starts.h"

/** Adds orders with ever better caps to the starts until the limit is reached or *work, counted down in
 * replayed ops, is used up; none if there are no such ranks. After sl_starts_relax. SL_ENOMEM. */
sl_status sl_caps_search(sl_starts *starts, const sl_limit *until, int64_t *work);
