/* Reads a plan's JSON (format slackline-plan-1): as a timeline, to draw plans without their problem, or as an
 * order, to run it. */
#pragma once

#include "plan/pipeline/order.h"
#include "plan/search/plan_memory.h"
#include <stddef.h>

#define SL_PLAN_NAME 64

/** Reads ops, collectives and messages into `timeline`, memory use into `memory` (all NULL if missing:
 * earlier versions wrote none), and the schedule's name. `file` is for errors. SL_EINVAL names the error and
 * the entry; everything is checked that a timeline needs. Free with sl_timeline_free and sl_plan_memory_free,
 * also on error. */
sl_status sl_plan_read_json(const char *file, const char *text, size_t size, sl_timeline *timeline,
                            sl_plan_memory *memory, char schedule[SL_PLAN_NAME]);

/** The ops of a file with a plan's JSON as an order of `problem`, also in parts, which a CSV cannot express.
 * SL_EINVAL names the file; regime fifo is refused, since its order of messages is in CSV only. Free with
 * sl_order_free. */
sl_status sl_plan_read_order(const char *file, const sl_problem *problem, sl_order *order);
/** The same from `size` bytes; `name` replaces the file in errors. */
sl_status sl_plan_parse_order(const char *name, const char *text, size_t size, const sl_problem *problem,
                              sl_order *order);
