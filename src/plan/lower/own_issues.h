/* The order of issue that an order brings along, in a program. */
#pragma once

#include "plan/lower/program.h"

/** Copies the issues of `order` into `program`, whose steps and messages are complete. SL_EINVAL: an end of a
 * message is missing or there twice, a send precedes the op that makes it, or a receive follows the op that
 * needs it; SL_ENOMEM. */
sl_status sl_program_own_issues(const sl_problem *problem, const sl_order *order, sl_program *program);

/** The other way round: gives `order`, which was lowered to `program`, these issues of each rank. SL_ENOMEM.
 */
sl_status sl_order_take_issues(const sl_program *program, const sl_message_issue *const *issue,
                               const int *count, sl_order *order);
