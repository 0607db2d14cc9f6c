/* Adaptra's schedule (its section 4): warm-up from slack, then a list schedule with I before F before W. */
#pragma once

#include "plan/pipeline/order.h"

/** Linear placement. If all links are free, the warm-up is algorithm 1's, from the memory limit; without a
 * limit or with delays it is algorithm 2's, kept within the memory. Then algorithms 3 and 4
 * (plan/family/list.h). If memory is limited and the problem small enough, also with F before I, and with
 * ranks that wait briefly for an F or I under way instead of starting a W: the shortest of these. SL_ENONE:
 * no schedule fits into the memory limit. */
sl_status sl_family_adaptra(const sl_problem *problem, sl_order *order);
